"""Open positions."""

from ._base import Model
from ._types import Integer, Number, Timestamp


class Position(Model):
    """An open position (`GET /v1/positions`). All prices in USD.

    Attributes:
        id: the position's id.
        agent_id: the agent that holds it.
        token_address: the token's contract.
        token_symbol: its symbol, chosen by the token's creators.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        entry_price_usd: average price at entry.
        current_price_usd: latest market price.
        unrealized_pnl_usd: profit or loss if it were closed now.
        stop_loss_price: price that triggers the stop loss.
        take_profit_price: price that triggers the take profit.
        trailing_stop_price: price that triggers the trailing stop now; it follows the market in the position's favor.
        opened_at: when it was opened.
    """

    id: str
    agent_id: str
    token_address: str
    token_symbol: str
    chain_id: Integer
    entry_price_usd: Number
    current_price_usd: Number
    unrealized_pnl_usd: Number
    stop_loss_price: Number
    take_profit_price: Number
    trailing_stop_price: Number
    opened_at: Timestamp
