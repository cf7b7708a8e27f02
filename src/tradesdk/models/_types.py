"""Types that fields share. Enumerations are open: a value that the service adds later is kept as a string."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AwareDatetime, PlainSerializer


def _unix_seconds(moment: datetime) -> int:
    return int(moment.timestamp())


Timestamp: TypeAlias = Annotated[AwareDatetime, PlainSerializer(_unix_seconds, return_type=int, when_used="json")]
"""Unix seconds on the wire, an aware datetime in UTC here."""

if TYPE_CHECKING:
    AgentStatus: TypeAlias = Literal["active", "idle", "paused", "error"] | str
    TradeStatus: TypeAlias = Literal["open", "closed"] | str
    Direction: TypeAlias = Literal["BUY", "SELL"] | str
    Plan: TypeAlias = Literal["free", "pro", "enterprise"] | str
else:  # checking a union costs pydantic time, and every string is allowed anyway
    AgentStatus = TradeStatus = Direction = Plan = str
