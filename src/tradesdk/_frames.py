"""Tables of models. Columns and types come only from the model, so an empty table has them too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AwareDatetime, TypeAdapter

from ._http.parts import loading
from .errors import ConfigError, InvalidArgumentError
from .models._base import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas
    import polars
    import pyarrow

_TYPES = {str: "string", int: "int64", float: "float64", bool: "bool", datetime: "time", AwareDatetime: "time"}
_INSTALL = {
    "pyarrow": 'pip install "pyarrow>=18.0"',
    "pandas": 'pip install "pandas>=2.2.3" "pyarrow>=18.0"',  # a frame is made of an Arrow table
    "polars": 'pip install "polars>=1.9" "pyarrow>=18.0"',
}
_ANY = TypeAdapter[Any](Any)


class _Column(NamedTuple):
    name: str
    path: tuple[str, ...]
    kind: str
    nullable: bool


@loading()
def load(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise
        message = f"{package} is not installed: {_INSTALL[package]}"
        raise ConfigError(message, code="missing_package") from None


def arrow_table(model: type[Model], items: Iterable[Model]) -> pyarrow.Table:
    """An Arrow table of `items`, with a column for each field of `model`. Needs the extra `frames`.

    Timestamps are in UTC with microseconds, numbers are float64, integers int64, enumerations strings. A nested object
    becomes columns such as `risk_stop_loss_pct`, a list becomes JSON text. Unknown fields are left out.

    Example:
        ```python
        table = arrow_table(Signal, client.signals.latest(chain=8453))
        ```

    Raises:
        ConfigError: pyarrow is not installed (`missing_package`).
        InvalidArgumentError: an item is of another model, or a value does not fit its column.
    """
    if not hasattr(model, "model_fields"):
        raise InvalidArgumentError("model must be the class of the items", hint="write model=Trade, for trades")
    if not isinstance(items, Iterable):
        message = f"items must be a list or another iterable, not {type(items).__name__}"
        raise InvalidArgumentError(message, hint="pass a list of models, such as client.trades.list()")
    pa = load("pyarrow")
    columns = list(_columns(model))
    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "json": pa.string(),
    }
    rows = list(items)
    for item in rows:
        if not isinstance(item, model):
            message = f"a table of {model.__name__} cannot contain a {type(item).__name__}"
            raise InvalidArgumentError(message, hint=f"pass items of {model.__name__} only, or another model=")
    arrays = []
    for column in columns:
        try:
            arrays.append(pa.array(_values(rows, column), types[column.kind]))
        except (ValueError, TypeError, OverflowError) as error:
            message = f"{column.name} has a value that is not {column.kind}: {error}"
            raise InvalidArgumentError(message, hint="pass the items as the client returned them") from None
    fields = [pa.field(column.name, types[column.kind], column.nullable) for column in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def pandas_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """A pandas frame of an Arrow table, with pandas' nullable types `string`, `Int64` and `boolean`, else NumPy's."""
    pa, pd = load("pyarrow"), load("pandas")
    types = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return table.to_pandas(types_mapper=types.get)


def polars_frame(table: pyarrow.Table) -> polars.DataFrame:
    frame: polars.DataFrame = load("polars").from_arrow(table)
    return frame


def _columns(model: type[Model], path: tuple[str, ...] = (), *, nullable: bool = False) -> Iterator[_Column]:
    fields = {name: field.annotation for name, field in model.model_fields.items()}
    computed = {name: field.return_type for name, field in model.model_computed_fields.items()}
    for name, annotation in (fields | computed).items():
        kind, empty = _kind(annotation)
        here = (*path, name)
        if isinstance(kind, str):
            yield _Column("_".join(here), here, kind, nullable or empty)
        else:
            yield from _columns(kind, here, nullable=nullable or empty)


def _kind(annotation: Any) -> tuple[str | type[Model], bool]:
    """The kind of column for a type, or the nested model; and whether it may be None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kind(get_args(annotation)[0])
    if origin is Literal:
        return "string", False
    if origin in (Union, UnionType):
        inner = [one for one in get_args(annotation) if one is not type(None)]
        if len(inner) == 1:
            return _kind(inner[0])[0], True
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation, False
    return _TYPES.get(annotation, "json"), origin in (Union, UnionType)


def _values(rows: Sequence[Model], column: _Column) -> list[Any]:
    values = [reduce(_inner, column.path, item) for item in rows]
    if column.kind == "json":
        return [None if value is None else json.dumps(_ANY.dump_python(value, mode="json")) for value in values]
    return values


def _inner(value: Any, name: str) -> Any:
    return None if value is None else getattr(value, name)
