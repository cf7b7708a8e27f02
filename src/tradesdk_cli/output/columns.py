"""The columns of tables, in order. A narrow terminal leaves out optional columns first."""

from __future__ import annotations

from dataclasses import dataclass

from tradesdk_cli.text import maybe_dollars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    Kind = Literal[
        "id",
        "text",
        "state",
        "number",
        "share",
        "usd",
        "price",
        "trigger",
        "rate",
        "pnl",
        "change",
        "to_stop",
        "to_profit",
        "percent",
        "time",
        "moment",
        "chain",
    ]
    """`time` may be relative, `moment` never; `to_stop` and `to_profit` are distances in percent; a `trigger` is a
    price that sells a position, 0: none.
    """

_FAR = 1e9
RIGHT = ("number", "share", "usd", "price", "trigger", "rate", "pnl", "change", "to_stop", "to_profit", "percent")
"""Right-aligned kinds."""


@dataclass(frozen=True)
class Column:
    """One column: a field of the item, or with `of` a value computed from the item, and its kind.

    `short`: an id that commands accept shortened, so a narrow terminal may cut it. `whole`: a text that is never cut.
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
        """The heading."""
        return self.title or self.key

    @property
    def right(self) -> bool:
        """True when the column is aligned to the right."""
        return self.kind in RIGHT


def to_stop(position: Mapping[str, Any]) -> float | None:
    """Distance of the price from the nearer stop, in percent."""
    stops = (_away(position, name) for name in ("stop_loss_price", "trailing_stop_price"))
    return max((away for away in stops if away is not None), default=None)


def to_profit(position: Mapping[str, Any]) -> float | None:
    """Distance of the price from the take profit, in percent."""
    return _away(position, "take_profit_price")


def _away(position: Mapping[str, Any], name: str) -> float | None:
    now, there = position.get("current_price_usd"), position.get(name)
    if not isinstance(now, (int, float)) or not isinstance(there, (int, float)) or now <= 0 or there <= 0:
        return None  # 0: the agent has no such rule
    away = (there / now - 1) * 100
    return away if abs(away) < _FAR else None


AGENTS = (
    Column("id", "id", short=True),
    Column("name"),
    Column("status", "state"),
    Column("chain_id", "chain", title="chain"),
    Column("wallet_id", "id", optional=True, short=True),
    Column("created_at", "time", optional=True, title="created"),
)


def _stat(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda agent: (agent.get("stats") or {}).get(name)


AGENT_RESULTS = (
    Column("id", "id", short=True),
    Column("name"),
    Column("status", "state"),
    Column("total_pnl_usd", "pnl", title="total_pnl", of=_stat("total_pnl_usd")),
    Column("win_rate_pct", "percent", optional=True, title="win_rate", of=_stat("win_rate_pct")),
    Column("total_trades", "number", optional=True, title="trades", of=_stat("total_trades")),
)

WALLETS = (
    Column("id", "id", short=True),
    Column("label"),
    Column("chain_id", "chain", title="chain"),
    Column("address", "id"),
    Column("created_at", "time", optional=True, title="created"),
)

TRADES = (
    Column("id", "id", short=True),
    Column("token_symbol", title="token"),
    Column("direction", "state", title="side"),
    Column("pnl_usd", "pnl", optional=True, title="pnl"),
    Column("roi_pct", "change", optional=True, title="roi"),
    Column("status", "state", optional=True),
    Column("agent_id", "id", optional=True, short=True),
    Column("opened_at", "time", optional=True, title="opened"),
    Column("closed_at", "time", optional=True, title="closed"),
    Column("entry_price_usd", "price", optional=True, title="entry"),
    Column("exit_price_usd", "price", optional=True, title="exit"),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("token_address", "id", optional=True),
)

POSITIONS = (
    Column("id", "id", short=True),
    Column("token_symbol", title="token"),
    Column("unrealized_pnl_usd", "pnl", title="unrealized"),
    Column("current_price_usd", "price", optional=True, title="price"),
    Column("to_stop", "to_stop", optional=True, of=to_stop),
    Column("to_profit", "to_profit", optional=True, of=to_profit),
    Column("agent_id", "id", optional=True, short=True),
    Column("opened_at", "time", optional=True, title="opened"),
    Column("entry_price_usd", "price", optional=True, title="entry"),
    Column("stop_loss_price", "trigger", optional=True, title="stop_loss"),
    Column("trailing_stop_price", "trigger", optional=True, title="trailing_stop"),
    Column("take_profit_price", "trigger", optional=True, title="take_profit"),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("token_address", "id", optional=True),
)
"""`to_stop` and `to_profit` are computed here: distance of the price in percent."""

SIGNALS = (
    Column("id", "id", short=True),
    Column("token_symbol", title="token"),
    Column("direction", "state", title="side"),
    Column("confidence", "share"),
    Column("price_usd", "price", optional=True, title="price"),
    Column("timestamp", "time", optional=True, title="time"),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("token_address", "id", optional=True),
)

STREAM = (
    Column("timestamp", "time", title="time"),
    Column("direction", "state", title="side"),
    Column("token_symbol", title="token"),
    Column("confidence", "share"),
    Column("price_usd", "price", optional=True, title="price"),
    Column("source", "state", optional=True),
    Column("id", "id", optional=True, short=True),
    Column("token_address", "id", optional=True),
)
"""`source` is computed here: live, replayed or late."""

_TOKEN = Column("tokenSymbol", title="token")
_ADDRESS = Column("tokenAddress", "id", optional=True, title="token_address")
_SIGNALS_OF_TOKENS = (
    _TOKEN,
    Column("signal", "state"),
    Column("signalPriceUsd", "price", title="price"),
    Column("createdAt", "time", title="time"),
    Column("reason", optional=True),
    Column("signalPriceEth", "rate", optional=True, title="price_eth"),
    _ADDRESS,
)

MARKET = {
    "signals": _SIGNALS_OF_TOKENS,
    "history": _SIGNALS_OF_TOKENS,
    "prices": (
        Column("symbol", title="token"),
        Column("currentPriceUsd", "price", title="price"),
        Column("currentPriceEth", "rate", title="price_eth"),
        _ADDRESS,
    ),
    "win-rate": (_TOKEN, Column("winRate", "percent", title="win_rate"), _ADDRESS),
    "avg-prices": (
        _TOKEN,
        Column("averageBuyPriceUSD", "price", title="buy"),
        Column("averageSellPriceUSD", "price", title="sell"),
        Column("averageBuyPriceETH", "rate", optional=True, title="buy_eth"),
        Column("averageSellPriceETH", "rate", optional=True, title="sell_eth"),
        _ADDRESS,
    ),
    "top": (
        Column("symbol", title="token"),
        Column("winRate", "percent", title="win_rate"),
        Column("ROI", "change", title="roi"),
        Column("agentCount", "number", optional=True, title="agents"),
        Column("name", optional=True),
        Column("network", optional=True),
        _ADDRESS,
    ),
    "tokens": (
        Column("symbol", title="token"),
        Column("name"),
        Column("marketCapRank", "number", optional=True, title="rank"),
        Column("marketCap", "usd", optional=True, title="market_cap"),
        Column("agentCount", "number", optional=True, title="agents"),
        Column("network", optional=True),
        _ADDRESS,
    ),
}
"""By verb of `trade market`."""

PAYMENTS = (
    Column("id", "id", short=True),
    Column("status", "state"),
    Column("amount_usd", "usd", title="amount"),
    Column("endpoint", "id", optional=True),
    Column("created_at", "time", optional=True, title="created"),
    Column("charged", "state", optional=True),
    Column("transaction", "id", optional=True),
    Column("reason", optional=True),
    Column("purchase", optional=True),
    Column("payer", "id", optional=True),
)

ACTIONS = (
    Column("code", "id"),
    Column("state", "state"),
    Column("what", whole=True),
    Column("price_usd", "usd", title="price"),
    Column("expires_at", "time", title="expires"),
    Column("where", optional=True),
)

TOOLS = (
    Column("name", "id"),
    Column("description"),
)

RELAYS = (
    Column("chain", "chain"),
    Column("state", "state"),
    Column("holder", "id"),
    Column("signals", "number", optional=True),
    Column("newest", "time"),
    Column("service", "id", optional=True),
)

GROUPS = (
    Column("chain", "chain"),
    Column("name", "id"),
    Column("waiting", "number"),
    Column("in_hand", "number", title="in hand"),
    Column("late", "number"),
    Column("oldest", "time"),
    Column("position", "time", title="read up to", optional=True),
    Column("service", "id", optional=True),
)

MEMBERS = (
    Column("name", "id"),
    Column("uses", "id"),
    Column("seen_at", "time", title="seen"),
)

WINDOWS = (
    Column("key", "id"),
    Column("limit", "number"),
    Column("remaining", "number"),
    Column("resets", "time"),
)

BUDGETS = (
    Column("budget", "id"),
    Column("limit", "usd"),
    Column("spent", "usd"),
    Column("held", "usd"),
    Column("left", "usd"),
)

SPENT = (
    Column("spent_usd", "usd", title="spent"),
    Column("held_usd", "usd", title="held"),
    Column("count", "number"),
)
"""The columns after the group of payments."""

RECONCILED = (
    Column("id", "id", short=True),
    Column("outcome", "state"),
    Column("amount_usd", "usd", title="amount"),
    Column("endpoint", "id", optional=True),
    Column("message", optional=True),
)

EMITTED = (*SIGNALS, Column("published_at", "moment", optional=True, title="published"))
"""Absolute times: a mock has its own clock, so relative times would be wrong."""


def _dollars(name: str) -> Callable[[Mapping[str, Any]], str | None]:
    """A field of micro-dollars, in dollars."""
    return lambda item: maybe_dollars(item[name]) if isinstance(item.get(name), int) else None


SETTLEMENTS = (
    Column("n", "number", optional=True),
    Column("at", "moment", optional=True, title="time"),
    Column("path", "id"),
    Column("amount", "usd", of=_dollars("amount")),
    Column("payer", "id"),
    Column("delivered", "number", optional=True),
    Column("submitted", "number", optional=True),
)

SUBMISSIONS = (
    Column("n", "number", optional=True),
    Column("at", "moment", optional=True, title="time"),
    Column("path", "id"),
    Column("verdict"),
    Column("status", "number"),
    Column("payer", "id", optional=True),
)

BALANCES = (Column("payer", "id"), Column("balance", "usd", of=_dollars("balance")))

KEYS = (
    Column("id", "id"),
    Column("name"),
    Column("scope", "state"),
    Column("state", "state"),
    Column("tenant"),
    Column("last4", "id"),
    Column("created_at", "time", optional=True, title="created"),
)

NESTED = {
    "token_balances": (
        Column("token_symbol"),
        Column("balance", "number"),
        Column("balance_usd", "usd"),
        Column("token_address", "id"),
    ),
}
"""Columns of nested lists, by their field's name; other fields follow."""

PROBE = (
    Column("finding", "state"),
    Column("point", "id"),
    Column("seen", "id"),
    Column("file", "id", optional=True),
    Column("specification", optional=True),
    Column("client_relies", optional=True),
)
DOCTOR = (Column("status", "state"), Column("check"), Column("said"), Column("next"))


def _path(entry: Mapping[str, Any]) -> str:
    """The path with its query, without keys."""
    from urllib.parse import quote, urlencode

    from tradesdk_cli.redact import is_secret_field

    query = {name: "****" if is_secret_field(name) else value for name, value in entry["query"].items()}
    path = quote(entry["path"], safe="/:@!$&'()*+,;=~", errors="replace")
    return path + (f"?{urlencode(query, safe='*')}" if query else "")


LOG = (
    Column("at", "moment", title="time"),
    Column("tenant", "id"),
    Column("method", "id"),
    Column("status", "number"),
    Column("path", "id", of=_path),
    Column("error", "id", optional=True),
    Column("faults", "id", optional=True, of=lambda entry: ",".join(map(str, entry["faults"])) or None),
)


def keys_under(heading: str) -> set[str]:
    """The fields that tables show under this heading; empty when no table has it."""
    tables = [table for table in (*globals().values(), *MARKET.values()) if isinstance(table, tuple)]
    columns = [column for table in tables for column in table if isinstance(column, Column)]
    return {column.key for column in columns if column.heading == heading != column.key}
