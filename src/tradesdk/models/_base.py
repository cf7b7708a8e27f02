"""What all models share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, field_validator


class Model(BaseModel):
    """A frozen value from the service. Fields that this version does not know are kept in `model_extra`.

    `model_dump(mode="json")` gives back the names and values of the wire.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        allow_inf_nan=False,
        val_temporal_unit="seconds",
        defer_build=True,
        protected_namespaces=(),
    )


ItemT = TypeVar("ItemT", bound=Model)


class Page(Model, Generic[ItemT]):
    """One page of a list.

    Attributes:
        data: the items, at most 100.
        next_cursor: where the next page begins; None on the last one. Opaque: hand it back, never read it.
    """

    data: Annotated[list[ItemT], FailFast(), Field(max_length=100)]
    next_cursor: str | None = None

    @field_validator("next_cursor")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None
