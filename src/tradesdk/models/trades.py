"""Trades."""

from ._base import Model
from ._types import Direction, Integer, Number, Timestamp, TradeStatus


class Trade(Model):
    """A trade as lists show it (`GET /v1/trades`).

    Attributes:
        id: the trade's id.
        agent_id: the agent that made it.
        token_address: the token's contract.
        token_symbol: its symbol, as its makers chose it.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        direction: `BUY` or `SELL`.
        entry_price_usd: price at entry, USD.
        exit_price_usd: price at exit, USD; None while open.
        pnl_usd: realised profit or loss, USD; None while open.
        roi_pct: return in per cent; None while open.
        status: `open` or `closed`.
        opened_at: when it was opened.
        closed_at: when it was closed; None while open.
    """

    id: str
    agent_id: str
    token_address: str
    token_symbol: str
    chain_id: Integer
    direction: Direction
    entry_price_usd: Number
    exit_price_usd: Number | None
    pnl_usd: Number | None
    roi_pct: Number | None
    status: TradeStatus
    opened_at: Timestamp
    closed_at: Timestamp | None


class TradeDetail(Trade):
    """A trade with its transactions (`GET /v1/trades/{trade_id}`).

    Attributes:
        entry_tx_hash: the transaction of the entry.
        exit_tx_hash: the transaction of the exit; None while open.
    """

    entry_tx_hash: str
    exit_tx_hash: str | None
