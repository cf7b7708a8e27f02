"""Trades."""

from ._base import Model
from ._types import Direction, Integer, Number, Timestamp, TradeStatus


class Trade(Model):
    """A trade in a list (`GET /v1/trades`)."""

    id: str
    """The trade's id."""

    agent_id: str
    """The agent that made it."""

    token_address: str
    """The token's contract."""

    token_symbol: str
    """Its symbol, chosen by the token's creators."""

    chain_id: Integer
    """8453 (Base) or 56 (BNB Chain)."""

    direction: Direction
    """`BUY` or `SELL`."""

    entry_price_usd: Number
    """Price at entry, in USD."""

    exit_price_usd: Number | None
    """Price at exit, in USD; None while open."""

    pnl_usd: Number | None
    """Realized profit or loss, in USD; None while open."""

    roi_pct: Number | None
    """Return in percent; None while open."""

    status: TradeStatus
    """`open` or `closed`."""

    opened_at: Timestamp
    """When it was opened (aware, UTC)."""

    closed_at: Timestamp | None
    """When it was closed (aware, UTC); None while open."""


class TradeDetail(Trade):
    """A trade with its transactions (`GET /v1/trades/{trade_id}`)."""

    entry_tx_hash: str
    """Hash of the entry's transaction."""

    exit_tx_hash: str | None
    """Hash of the exit's transaction; None while open."""
