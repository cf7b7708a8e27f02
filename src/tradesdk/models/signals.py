"""Signals."""

from typing import Annotated

from pydantic import FailFast, Field

from ._base import Model
from ._types import Confidence, Direction, Integer, Number, Timestamp


class Signal(Model):
    """A BUY or SELL signal (`GET /v1/signals`, `GET /v1/signals/history`)."""

    id: str
    """The signal's id."""

    token_address: str
    """The token's contract."""

    token_symbol: str
    """Its symbol, chosen by the token's creators."""

    chain_id: Integer
    """8453 (Base) or 56 (BNB Chain)."""

    direction: Direction
    """`BUY` or `SELL`."""

    confidence: Confidence
    """How sure the service is, 0.0 to 1.0."""

    price_usd: Number
    """Estimated price at the time of the signal, in USD."""

    timestamp: Timestamp
    """When it was generated (aware, UTC)."""


class SignalList(Model):
    """The newest signals of a chain (`GET /v1/signals`)."""

    data: Annotated[list[Signal], FailFast(), Field(max_length=100)]
    """The signals, at most 100."""
