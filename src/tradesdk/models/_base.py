"""The base class of models, and pages of lists."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Generic, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, GetJsonSchemaHandler, field_validator

from .._values.hints import no_attribute


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number must be finite")
    elif isinstance(value, dict):
        for inner in value.values():
            _finite(inner)
    elif isinstance(value, list):
        for inner in value:
            _finite(inner)
    return value


@cache
def _docs(model: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of a model and its bases. It reads their source, so only schemas use it."""
    import ast
    import inspect

    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if not issubclass(one, Model) or "[" in one.__name__:
            continue
        (body,) = (node.body for node in ast.parse(inspect.getsource(one)).body if isinstance(node, ast.ClassDef))
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(ast.Constant(str(doc))):
                        found[field.target.id] = " ".join(doc.split())
    return found


class Model(BaseModel):
    """A frozen value from the service. Unknown fields are kept in `model_extra`.

    `model_dump(mode="json")` gives the names and values on the wire; with `exclude_unset=True`, only fields that came.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        allow_inf_nan=False,
        val_temporal_unit="seconds",
        defer_build=True,
        protected_namespaces=(),
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema, with each field's docstring as its description."""
        found = handler.resolve_ref_schema(handler(schema))
        for name, field in cls.model_fields.items():
            shown = found.get("properties", {}).get(field.alias or name)
            if shown is not None and (text := _docs(cls).get(name)):
                shown["description"] = text
        return found

    def __repr_args__(self) -> Any:
        """Times in `datetime.UTC`, not in pydantic's own zone."""
        for name, value in super().__repr_args__():
            yield name, value.replace(tzinfo=UTC) if isinstance(value, datetime) else value

    if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("_"):
                    raise
            raise no_attribute(self, name)

    if not TYPE_CHECKING:  # hidden from type checkers, which would take it for an argument
        # `allow_inf_nan` does not apply to unknown fields.
        __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_finite)]]


ItemT = TypeVar("ItemT", bound=Model)


class Page(Model, Generic[ItemT]):
    """One page of a list."""

    data: Annotated[list[ItemT], FailFast(), Field(max_length=100)]
    """The items, at most 100."""

    next_cursor: str | None = None
    """Where the next page starts; None on the last one. Opaque: pass it on unchanged."""

    def __iter__(self) -> NoReturn:
        raise TypeError("a Page is not iterable: its items are in .data; to get the items of all pages, use a pager")

    __aiter__ = __iter__

    @field_validator("next_cursor")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None
