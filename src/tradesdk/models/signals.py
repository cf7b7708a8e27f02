"""Signals."""

from typing import Annotated

from pydantic import FailFast, Field

from ._base import Model
from ._types import Confidence, Direction, Integer, Number, Timestamp


class Signal(Model):
    """A BUY or SELL signal (`GET /v1/signals`, `GET /v1/signals/history`).

    Attributes:
        id: the signal's id.
        token_address: the token's contract.
        token_symbol: its symbol, chosen by the token's creators.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        direction: `BUY` or `SELL`.
        confidence: 0.0 to 1.0.
        price_usd: estimated price at the time of the signal, in USD.
        timestamp: when it was generated.
    """

    id: str
    token_address: str
    token_symbol: str
    chain_id: Integer
    direction: Direction
    confidence: Confidence
    price_usd: Number
    timestamp: Timestamp


class SignalList(Model):
    """The newest signals of a chain (`GET /v1/signals`).

    Attributes:
        data: the signals, at most 100.
    """

    data: Annotated[list[Signal], FailFast(), Field(max_length=100)]
