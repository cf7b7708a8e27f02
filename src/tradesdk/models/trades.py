"""Trades."""

from ._base import Model
from ._types import Direction, Integer, Number, Timestamp, TradeStatus


class Trade(Model):
    """A trade in a list (`GET /v1/trades`).

    Attributes:
        id: the trade's id.
        agent_id: the agent that made it.
        token_address: the token's contract.
        token_symbol: its symbol, chosen by the token's creators.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        direction: `BUY` or `SELL`.
        entry_price_usd: price at entry, in USD.
        exit_price_usd: price at exit, in USD; None while open.
        pnl_usd: realized profit or loss, in USD; None while open.
        roi_pct: return in percent; None while open.
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
        entry_tx_hash: hash of the entry's transaction.
        exit_tx_hash: hash of the exit's transaction; None while open.
    """

    entry_tx_hash: str
    exit_tx_hash: str | None
