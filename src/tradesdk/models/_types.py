"""Types that fields share. Enumerations are open: a value that the service adds later is kept as a string."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, Field, GetPydanticSchema, PlainSerializer, Strict
from pydantic_core import core_schema


def _unix_seconds(moment: datetime) -> int:
    return int(moment.timestamp())


Timestamp: TypeAlias = Annotated[AwareDatetime, PlainSerializer(_unix_seconds, return_type=int, when_used="json")]
"""Unix seconds on the wire, an aware datetime in UTC here."""


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValueError


def _integer(source: Any, handler: Any) -> core_schema.CoreSchema:
    # The first choice nearly always fits, and costs nothing; a validator in Python for every integer would.
    choices = [core_schema.int_schema(strict=True), core_schema.no_info_plain_validator_function(_whole)]
    return core_schema.union_schema(choices, mode="left_to_right", custom_error_type="int_type")


Integer: TypeAlias = Annotated[int, GetPydanticSchema(_integer)]
"""A JSON number without a fraction; `5.0` is one. Neither `true` nor a string."""

Number: TypeAlias = Annotated[float, Strict()]
"""A JSON number. Neither `true` nor a string."""

Confidence: TypeAlias = Annotated[float, Strict(), Field(ge=0, le=1)]
"""A JSON number from 0 to 1."""

if TYPE_CHECKING:
    AgentStatus: TypeAlias = Literal["active", "idle", "paused", "error"] | str
    TradeStatus: TypeAlias = Literal["open", "closed"] | str
    Direction: TypeAlias = Literal["BUY", "SELL"] | str
    Plan: TypeAlias = Literal["free", "pro", "enterprise"] | str
else:  # checking a union costs pydantic time, and every string is allowed anyway
    AgentStatus = TradeStatus = Direction = Plan = str
