"""Open positions."""

from ._base import Model
from ._types import Timestamp


class Position(Model):
    """An open position (`GET /v1/positions`). All prices in USD.

    Attributes:
        id: the position's id.
        agent_id: the agent that holds it.
        token_address: the token's contract.
        token_symbol: its symbol, as its makers chose it.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        entry_price_usd: average price at entry.
        current_price_usd: latest market price.
        unrealized_pnl_usd: profit or loss if it were closed now.
        stop_loss_price: price that triggers the stop loss.
        take_profit_price: price that triggers the take profit.
        trailing_stop_price: price that triggers the trailing stop now; it follows the market in the position's favour.
        opened_at: when it was opened.
    """

    id: str
    agent_id: str
    token_address: str
    token_symbol: str
    chain_id: int
    entry_price_usd: float
    current_price_usd: float
    unrealized_pnl_usd: float
    stop_loss_price: float
    take_profit_price: float
    trailing_stop_price: float
    opened_at: Timestamp
