"""Which fields of a list a table shows, in which order. Optional columns go first when a terminal is narrow."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["id", "text", "state", "number", "usd", "price", "pnl", "percent", "time", "chain"]


@dataclass(frozen=True)
class Column:
    """One column: the field of the item it shows, and how."""

    key: str
    kind: Kind = "text"
    optional: bool = False
    title: str | None = None

    @property
    def heading(self) -> str:
        """What stands above the column."""
        return self.title or self.key

    @property
    def right(self) -> bool:
        """True when the column is aligned to the right."""
        return self.kind in ("number", "usd", "price", "pnl", "percent")


AGENTS = (
    Column("id", "id"),
    Column("name"),
    Column("status", "state"),
    Column("chain_id", "chain", title="chain"),
    Column("wallet_id", "id", optional=True),
    Column("created_at", "time", optional=True),
)

WALLETS = (
    Column("id", "id"),
    Column("label"),
    Column("chain_id", "chain", title="chain"),
    Column("address", "id"),
    Column("created_at", "time", optional=True),
)

TRADES = (
    Column("id", "id"),
    Column("token_symbol", title="token"),
    Column("pnl_usd", "pnl"),
    Column("status", "state", optional=True),
    Column("direction", "state", optional=True, title="side"),
    Column("roi_pct", "percent", optional=True),
    Column("entry_price_usd", "price", optional=True, title="entry_usd"),
    Column("exit_price_usd", "price", optional=True, title="exit_usd"),
    Column("opened_at", "time", optional=True),
    Column("closed_at", "time", optional=True),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("agent_id", "id", optional=True),
    Column("token_address", "id", optional=True),
)

POSITIONS = (
    Column("id", "id"),
    Column("token_symbol", title="token"),
    Column("unrealized_pnl_usd", "pnl", title="pnl_usd"),
    Column("entry_price_usd", "price", optional=True, title="entry_usd"),
    Column("current_price_usd", "price", optional=True, title="now_usd"),
    Column("stop_loss_price", "price", optional=True, title="stop_loss"),
    Column("take_profit_price", "price", optional=True, title="take_profit"),
    Column("trailing_stop_price", "price", optional=True, title="trailing_stop"),
    Column("opened_at", "time", optional=True),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("agent_id", "id", optional=True),
    Column("token_address", "id", optional=True),
)

SIGNALS = (
    Column("id", "id"),
    Column("token_symbol", title="token"),
    Column("direction", "state", title="side"),
    Column("confidence", "number"),
    Column("price_usd", "price", optional=True),
    Column("timestamp", "time", optional=True, title="time"),
    Column("chain_id", "chain", optional=True, title="chain"),
    Column("token_address", "id", optional=True),
)

STREAM = (
    Column("id", "id"),
    Column("token_symbol", title="token"),
    Column("direction", "state", title="side"),
    Column("confidence", "number"),
    Column("price_usd", "price", optional=True),
    Column("came", "state", optional=True),
    Column("timestamp", "time", optional=True, title="time"),
    Column("token_address", "id", optional=True),
)
"""`came` is ours: live, replayed or late."""

_TOKEN = Column("tokenSymbol", title="token")
_ADDRESS = Column("tokenAddress", "id", optional=True, title="token_address")
_SIGNALS_OF_TOKENS = (
    _TOKEN,
    Column("signal", "state"),
    Column("signalPriceUsd", "price", title="price_usd"),
    Column("createdAt", "time", title="time"),
    Column("reason", optional=True),
    Column("signalPriceEth", "price", optional=True, title="price_eth"),
    _ADDRESS,
)

MARKET = {
    "signals": _SIGNALS_OF_TOKENS,
    "history": _SIGNALS_OF_TOKENS,
    "prices": (
        Column("symbol", title="token"),
        Column("currentPriceUsd", "price", title="price_usd"),
        Column("currentPriceEth", "price", title="price_eth"),
        _ADDRESS,
    ),
    "win-rate": (_TOKEN, Column("winRate", "percent", title="win_rate"), _ADDRESS),
    "avg-prices": (
        _TOKEN,
        Column("averageBuyPriceUSD", "price", title="buy_usd"),
        Column("averageSellPriceUSD", "price", title="sell_usd"),
        Column("averageBuyPriceETH", "price", optional=True, title="buy_eth"),
        Column("averageSellPriceETH", "price", optional=True, title="sell_eth"),
        _ADDRESS,
    ),
    "top": (
        Column("symbol", title="token"),
        Column("winRate", "percent", title="win_rate"),
        Column("ROI", "percent", title="roi"),
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
    Column("id", "id"),
    Column("state", "state"),
    Column("amount_usd", "usd", title="usd"),
    Column("created_at", "time", optional=True, title="time"),
    Column("charged", "state", optional=True),
    Column("endpoint", "id", optional=True),
    Column("reason", optional=True),
    Column("transaction", "id", optional=True),
    Column("payer", "id", optional=True),
)

RECONCILED = (
    Column("id", "id"),
    Column("outcome", "state"),
    Column("amount_usd", "usd", title="usd"),
    Column("endpoint", "id", optional=True),
    Column("message", optional=True),
)

GAPS = (
    Column("name", "id"),
    Column("default", "id"),
    Column("others", "id", optional=True),
    Column("text"),
)

GAPS_NOW = (
    Column("name", "id"),
    Column("value", "id"),
    Column("default", "id", optional=True),
    Column("others", "id", optional=True),
    Column("text"),
)

EMITTED = (*SIGNALS, Column("published_at", "time", optional=True, title="published"))

JOURNAL = (
    Column("n", "number", optional=True),
    Column("at", "time", optional=True, title="time"),
    Column("method", "id"),
    Column("path", "id"),
    Column("status", "number"),
    Column("faults", "id", optional=True),
    Column("tenant", "id", optional=True),
)

KEYS = (
    Column("id", "id"),
    Column("name"),
    Column("scope", "state"),
    Column("state", "state"),
    Column("tenant"),
    Column("last4", "id"),
    Column("created_at", "time", optional=True),
)
