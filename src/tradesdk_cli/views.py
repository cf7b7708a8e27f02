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
