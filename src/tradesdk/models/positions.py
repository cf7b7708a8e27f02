"""Open positions."""

from ._base import Model
from ._types import Integer, Number, Timestamp


class Position(Model):
    """An open position (`GET /v1/positions`). All prices in USD."""

    id: str
    """The position's id."""

    agent_id: str
    """The agent that holds it."""

    token_address: str
    """The token's contract."""

    token_symbol: str
    """Its symbol, chosen by the token's creators."""

    chain_id: Integer
    """8453 (Base) or 56 (BNB Chain)."""

    entry_price_usd: Number
    """Average price at entry, in USD."""

    current_price_usd: Number
    """Latest market price, in USD."""

    unrealized_pnl_usd: Number
    """Profit or loss if it were closed now, in USD."""

    stop_loss_price: Number
    """Price that triggers the stop loss, in USD."""

    take_profit_price: Number
    """Price that triggers the take profit, in USD."""

    trailing_stop_price: Number
    """Price that triggers the trailing stop now, in USD; it follows the market in the position's favor."""

    opened_at: Timestamp
    """When it was opened (aware, UTC)."""
