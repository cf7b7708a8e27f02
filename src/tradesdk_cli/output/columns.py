"""The kinds and headings of fields by their names, and the columns of tables, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tradesdk_cli.output.formats import is_time
from tradesdk_cli.text import maybe_dollars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Money = Literal["usd", "price", "trigger", "rate", "pnl"]
    Percent = Literal["percent", "change", "to_stop", "to_profit"]
    Kind = Literal["id", "text", "state", "chain", "time", "moment", "number", "share"] | Money | Percent
    """`time` may be relative, `moment` never; `to_stop` and `to_profit` are distances in percent; a `trigger` is a
    price that sells a position, 0: none.
    """

_FAR = 1e9
RIGHT = ("number", "share", "usd", "price", "trigger", "rate", "pnl", "change", "to_stop", "to_profit", "percent")
"""Right-aligned kinds."""

_NAMES: Mapping[Kind, str] = {
    "text": "name label symbol token_symbol tokenSymbol network purchase reason message description verdict what where "
    "specification client_relies check next",
    "state": "status state direction signal source charged outcome scope finding",
    "chain": "chain_id chain",
    "number": "total_trades agentCount marketCapRank balance used limit remaining n delivered submitted count",
    "share": "confidence",
    "percent": "winRate",
    "change": "roi_pct ROI",
    "pnl": "pnl_usd unrealized_pnl_usd total_pnl_usd realizedProfitUSD unrealizedProfitUSD",
    "usd": "totalBuyUSD totalSellUSD marketCap",
    "price": "price_usd signalPriceUsd currentPriceUsd averageBuyPriceUSD averageSellPriceUSD",
    "rate": "signalPriceEth currentPriceEth averageBuyPriceETH averageSellPriceETH",
    "trigger": "stop_loss_price trailing_stop_price take_profit_price",
    "time": "newest oldest resets",
    "moment": "now service_now signals_upto published_at",
}
_KINDS: Mapping[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_HEADED = {
    "time": "at timestamp createdAt",
    "chain": "chain_id",
    "token": "symbol token_symbol tokenSymbol",
    "token_address": "tokenAddress",
    "side": "direction",
    "trades": "total_trades",
    "unrealized": "unrealized_pnl_usd",
    "price": "current_price_usd signalPriceUsd currentPriceUsd",
    "entry": "entry_price_usd",
    "exit": "exit_price_usd",
    "stop_loss": "stop_loss_price",
    "trailing_stop": "trailing_stop_price",
    "take_profit": "take_profit_price",
    "price_eth": "signalPriceEth currentPriceEth",
    "buy": "averageBuyPriceUSD",
    "sell": "averageSellPriceUSD",
    "buy_eth": "averageBuyPriceETH",
    "sell_eth": "averageSellPriceETH",
    "win_rate": "winRate",
    "roi": "ROI",
    "agents": "agentCount",
    "market_cap": "marketCap",
    "rank": "marketCapRank",
}
_HEADINGS = {name: heading for heading, names in _HEADED.items() for name in names.split()}
"""The headings of fields; of others, the name without its unit."""


def kind_of(name: str) -> Kind:
    """The kind of a field of this name."""
    if name in _KINDS:
        return _KINDS[name]
    if is_time(name):
        return "time"
    if name.endswith("_pct"):
        return "percent"
    if name.endswith(("_price_usd", "_price")):
        return "price"
    return "usd" if name.endswith("_usd") else "id"


@dataclass(frozen=True)
class Column:
    """One column: a field of the item, or with `of` a value computed from the item, and its kind.

    `optional`: a narrow terminal leaves it out first. `short`: an id that commands accept shortened, so a narrow
    terminal may cut it. `whole`: a text that is never cut.
    """

    key: str
    kind: Kind = "text"
    optional: bool = False
    title: str | None = None
    of: Callable[[Mapping[str, Any]], Any] | None = None
    short: bool = False
    whole: bool = False

    def value(self, item: Mapping[str, Any]) -> Any:
        """The raw value of the column; None: empty."""
        return item.get(self.key) if self.of is None else self.of(item)

    @property
    def heading(self) -> str:
        return self.title or self.key


def columns(*fields: str | Column) -> tuple[Column, ...]:
    """Columns for fields, named in words: `name?` is optional, `name…` is an id that commands accept shortened."""
    found: list[Column] = []
    for each in fields:
        found += [each] if isinstance(each, Column) else map(_column, each.split())
    return tuple(found)


def _column(field: str) -> Column:
    name = field.rstrip("?…")
    heading = _HEADINGS.get(name) or name.removesuffix("_usd").removesuffix("_pct").removesuffix("_at")
    return Column(name, kind_of(name), "?" in field, heading, short="…" in field)


def to_stop(position: Mapping[str, Any]) -> float | None:
    """Distance of the price from the nearer stop, in percent."""
    stops = (_away(position, name) for name in ("stop_loss_price", "trailing_stop_price"))
    return max((away for away in stops if away is not None), default=None)


def _away(position: Mapping[str, Any], name: str) -> float | None:
    now, there = position.get("current_price_usd"), position.get(name)
    if not isinstance(now, (int, float)) or not isinstance(there, (int, float)) or now <= 0 or there <= 0:
        return None  # 0: the agent has no such rule
    away = (there / now - 1) * 100
    return away if abs(away) < _FAR else None


def _stat(field: str) -> Column:
    """A field of an agent's statistics."""
    column = _column(field)
    return replace(column, of=lambda agent: (agent.get("stats") or {}).get(column.key))


def _dollars(name: str) -> Column:
    """A field of micro-dollars, in dollars."""
    return Column(name, "usd", of=lambda item: maybe_dollars(item[name]) if isinstance(item.get(name), int) else None)


AGENTS = columns("id… name status chain_id wallet_id…? created_at?")
AGENT_RESULTS = columns("id… name status", *map(_stat, ("total_pnl_usd", "win_rate_pct?", "total_trades?")))
WALLETS = columns("id… label chain_id address created_at?")
TRADES = columns(
    "id… token_symbol direction pnl_usd? roi_pct? status? agent_id…? opened_at? closed_at? entry_price_usd? "
    "exit_price_usd? chain_id? token_address?"
)
TO_STOP = Column("to_stop", "to_stop", optional=True, of=to_stop)
TO_PROFIT = Column("to_profit", "to_profit", optional=True, of=lambda position: _away(position, "take_profit_price"))
"""Computed here: distances of the price from the nearer stop and from the take profit, in percent."""
POSITIONS = columns(
    "id… token_symbol unrealized_pnl_usd current_price_usd?",
    TO_STOP,
    TO_PROFIT,
    "agent_id…? opened_at? entry_price_usd? stop_loss_price? trailing_stop_price? take_profit_price? chain_id? "
    "token_address?",
)
SIGNALS = columns("id… token_symbol direction confidence timestamp? price_usd? chain_id? token_address?")
STREAM = columns("timestamp direction token_symbol confidence price_usd? source? id…? token_address?")
"""`source` is computed here: live, replayed or late."""

_SIGNALS_OF_TOKENS = columns("tokenSymbol signal signalPriceUsd createdAt reason? signalPriceEth? tokenAddress?")
MARKET = {
    "signals": _SIGNALS_OF_TOKENS,
    "history": _SIGNALS_OF_TOKENS,
    "prices": columns("symbol currentPriceUsd currentPriceEth tokenAddress?"),
    "win-rate": columns("tokenSymbol winRate tokenAddress?"),
    "avg-prices": columns(
        "tokenSymbol averageBuyPriceUSD averageSellPriceUSD averageBuyPriceETH? averageSellPriceETH? tokenAddress?"
    ),
    "top": columns("symbol winRate ROI agentCount? name? network? tokenAddress?"),
    "tokens": columns("symbol name marketCapRank? marketCap? agentCount? network? tokenAddress?"),
}
"""By verb of `trade market`."""

PAYMENTS = columns("id… status amount_usd endpoint? created_at? charged? transaction? reason? purchase? payer?")
RECONCILED = columns("id… outcome amount_usd endpoint? message?")
SPENT = columns("spent_usd held_usd count")
"""The columns after the group of payments."""
BUDGETS = columns("budget", *(Column(name, "usd") for name in ("limit", "spent", "held", "left")))
ACTIONS = columns("code state", Column("what", whole=True), "price_usd expires_at where?")
TOOLS = columns("name", Column("description", whole=True))

_NAME = Column("name", "id")
RELAYS = columns("chain state holder", Column("signals", "number", optional=True), "newest service?")
GROUPS = columns(
    "chain",
    _NAME,
    Column("waiting", "number"),
    Column("in_hand", "number", title="in hand"),
    Column("late", "number"),
    "oldest",
    Column("position", "time", optional=True, title="read up to"),
    "service?",
)
MEMBERS = columns(_NAME, "uses seen_at")
WINDOWS = columns("key limit remaining resets")

# Absolute times: a mock has its own clock, so relative times would be wrong.
EMITTED = (*SIGNALS, *columns("published_at?"))
_AT, _STATUS = Column("at", "moment", title="time"), Column("status", "number")
SETTLEMENTS = columns("n?", replace(_AT, optional=True), "path", _dollars("amount"), "payer delivered? submitted?")
SUBMISSIONS = columns("n?", replace(_AT, optional=True), "path verdict", _STATUS, "payer?")
BALANCES = columns("payer", _dollars("balance"))
KEYS = columns("id name scope state tenant last4 created_at?")

PROBE = columns("finding point seen file? specification? client_relies?")
DOCTOR = columns("status check message next")

NESTED = {"token_balances": ("token_symbol", "balance", "balance_usd", "token_address")}
"""The first fields of nested lists, by their field's name; the others follow."""


def _path(entry: Mapping[str, Any]) -> str:
    """The path with its query, without keys."""
    from urllib.parse import quote, urlencode

    from tradesdk_cli.redact import is_secret_field

    query = {name: "****" if is_secret_field(name) else value for name, value in entry["query"].items()}
    path = quote(entry["path"], safe="/:@!$&'()*+,;=~", errors="replace")
    return path + (f"?{urlencode(query, safe='*')}" if query else "")


LOG = columns(
    _AT,
    "tenant method",
    _STATUS,
    Column("path", "id", of=_path),
    "error?",
    Column("faults", "id", optional=True, of=lambda entry: ",".join(map(str, entry["faults"])) or None),
)


def keys_under(heading: str) -> set[str]:
    """The fields that tables show under this heading; empty when no table has it."""
    tables = [table for table in (*globals().values(), *MARKET.values()) if isinstance(table, tuple)]
    shown = [column for table in tables for column in table if isinstance(column, Column)]
    return {column.key for column in shown if column.heading == heading != column.key}
