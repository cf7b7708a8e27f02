"""Types of fields. Enumerations are open: values added by the service are kept as strings."""

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
    # The first choice nearly always fits; a Python validator for every integer would be slow.
    return core_schema.union_schema(
        [core_schema.int_schema(strict=True), core_schema.no_info_plain_validator_function(_whole)],
        mode="left_to_right",
        custom_error_type="int_type",
    )


Integer: TypeAlias = Annotated[int, GetPydanticSchema(_integer)]
"""A JSON number without a fraction, such as `5` or `5.0`; not `true` or a string."""

Number: TypeAlias = Annotated[float, Strict()]
"""A JSON number; not `true` or a string."""

Confidence: TypeAlias = Annotated[float, Strict(), Field(ge=0, le=1)]
"""A JSON number from 0 to 1."""

if TYPE_CHECKING:
    AgentStatus: TypeAlias = Literal["active", "idle", "paused", "error"] | str
    TradeStatus: TypeAlias = Literal["open", "closed"] | str
    Direction: TypeAlias = Literal["BUY", "SELL"] | str
    Plan: TypeAlias = Literal["free", "pro", "enterprise"] | str
else:  # a union would cost pydantic time, and every string is allowed anyway
    AgentStatus = TradeStatus = Direction = Plan = str
