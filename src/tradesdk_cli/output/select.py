"""`--query` and `--fields`: the printed part of a result.

The query is applied first: a JMESPath expression over the whole result, or over each item of a stream. The fields are
those of the selected objects, in the given order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import chain
from typing import Any

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.text import one_line, to_json, visible

_EXAMPLE = "for example: --query \"[?status=='active'].id\", or --query 'length(@)'"
_SHOWN = 60
_NAMED = 12


class Selection:
    """The selection of `--query` and `--fields`. The query is parsed at once, so that a wrong one is refused early."""

    def __init__(self, query: str | None, fields: Sequence[str]) -> None:
        """`query` is JMESPath; `fields` are names, dotted where nested; empty: all."""
        self.fields = tuple(fields)
        self.asks = query is not None
        """True when there is a query."""
        self._search: Callable[[Any], Any] | None = None
        self._asked = set[str]()
        """The fields that the query names."""
        if query is not None:
            self._search, self._asked = _compiled(query)
        self._known: dict[str, None] | None = None
        self._paths = {name: name for name in self.fields}
        """The paths of each field; a heading of a table, such as `total_pnl`, is accepted, too."""

    def search(self, value: Any) -> Any:
        """The part of `value` that the query selects; without a query, `value`."""
        return value if self._search is None else self._search(value)

    def unknown(self, items: Any) -> str:
        """The fields of the query that are nowhere in these items, for people; empty if there are none."""
        there = list(dict.fromkeys(_names("", items)))
        unknown = sorted(self._asked - {path.rpartition(".")[2] for path in there}) if there else []
        if not unknown:
            return ""
        near = [found for name in unknown for found in _near(name, there)[:1]]
        others, missing = (
            ", ".join(visible(name, _SHOWN) for name in names) for names in (near or there[:_NAMED], unknown)
        )
        hint = f"did you mean {others}?" if near else f"there are {others} (a text needs quotes: 'text')"
        return f"there is no field {missing}; {hint}"

    @property
    def is_all(self) -> bool:
        """True without `--query` and `--fields`."""
        return not (self.asks or self.fields)

    def expect(self, *known: Any) -> None:
        """Declares the fields of the result before a command pays or changes something, by name or as models."""
        if self.fields and not self.asks:
            names = ([each] if isinstance(each, str) else names_of_model(each) for each in known)
            self._known = dict.fromkeys(chain.from_iterable(names))
            self._check(self._known)

    def look_at(self, items: Sequence[Any], more: Iterable[str] = ()) -> None:
        """Checks the fields against the first items and `more`. Later calls do nothing."""
        if not self.fields or self._known is not None or not items:
            return
        if not all(isinstance(item, dict) for item in items):
            raise UsageProblem("--fields wants objects, and the query selects none", "leave --fields out")
        paths = (path for item in items for path in _names("", item, in_lists=False))
        self._known = dict.fromkeys(chain(paths, more))
        self._check(self._known, items)

    def _check(self, known: Iterable[str], items: Sequence[Mapping[str, Any]] = ()) -> None:
        there = list(known)
        for name in self.fields:
            if name in there or any(_below_null(item, name) for item in items):
                continue
            near = _headed(name, there)
            if len(near) == 1:
                self._paths[name] = near[0]
                continue
            near = _near(name, there)
            shown = ", ".join(visible(path, _SHOWN) for path in (near[:3] or there[:_NAMED]))
            more = ", …" if not near and len(there) > _NAMED else ""
            hint = f"did you mean {shown}?" if near else f"there are: {shown}{more}"
            raise UsageProblem(f"--fields: there is no field {visible(name, _SHOWN)}", hint)

    def flat(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of `item` by dotted names, in the given order; null for a missing one."""
        if not self.fields:
            return flatten(item)
        return flatten({name: _at(item, self._paths[name]) for name in self.fields})

    def pick(self, item: Any) -> Any:
        """The same fields, nested as in `item`; anything but an object is unchanged."""
        if not self.fields or not isinstance(item, dict):
            return item
        picked: dict[str, Any] = {}
        for name in self.fields:
            value = _at(item, self._paths[name])
            if name in item or "." not in name:
                picked[name] = value
            else:
                _put(picked, name.split("."), value)
        return picked


def _headed(heading: str, there: Sequence[str]) -> list[str]:
    """The fields under this heading in any table."""
    from tradesdk_cli.output.columns import keys_under  # only for an unknown field

    keys = keys_under(heading.lower())
    return [path for path in there if path in keys or path.rpartition(".")[2] in keys]


def _near(name: str, there: Sequence[str]) -> list[str]:
    last = name.rpartition(".")[2]
    return _headed(name, there) or get_close_matches(name, there) or [path for path in there if last in path]


def _put(picked: dict[str, Any], path: list[str], value: Any) -> None:
    *way, last = path
    target = picked
    for name in way:
        inner = target.get(name)
        # A copy: an object that was picked whole belongs to the result.
        target[name] = target = dict(inner) if isinstance(inner, dict) else {}
    target[last] = value


def _at(item: Any, name: str) -> Any:
    if not isinstance(item, dict):
        return None
    if name in item:
        return item[name]
    first, dot, rest = name.partition(".")
    return _at(item.get(first), rest) if dot else None


def _below_null(item: Any, name: str) -> bool:
    """Whether `name` may be below a field that is null or empty here."""
    first, _, rest = name.partition(".")
    if not isinstance(item, dict) or first not in item:
        return False
    return item[first] is None or item[first] == {} or _below_null(item[first], rest)


def is_nothing(value: Any) -> bool:
    """Whether it is null, or has only nulls at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return all(each is None if each is value else is_nothing(each) for each in inner)


def _names(prefix: str, value: Any, *, in_lists: bool = True) -> Iterable[str]:
    """The names of fields at any depth, below lists without their positions."""
    if isinstance(value, list) and in_lists:
        for inner in value:
            yield from _names(prefix, inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"{prefix}{key}"
            yield from _names(f"{prefix}{key}.", inner, in_lists=in_lists)


def names_of_model(model: Any, prefix: str = "") -> Iterable[str]:
    """The documented wire names of a model's fields, nested ones dotted."""
    for name, field in model.model_fields.items():
        wire = f"{prefix}{field.serialization_alias or field.alias or name}"
        yield wire
        for inner in _models_in(field.annotation):
            yield from names_of_model(inner, f"{wire}.")


def _models_in(annotation: Any) -> Iterable[Any]:
    from typing import get_args, get_origin

    if hasattr(annotation, "model_fields"):
        yield annotation
    elif get_origin(annotation) not in (list, tuple, dict):
        for part in get_args(annotation):
            yield from _models_in(part)


# JMESPath


def _compiled(query: str) -> tuple[Callable[[Any], Any], set[str]]:
    """The search, and the fields that it names."""
    import warnings

    import jmespath  # most commands never need it
    from jmespath.exceptions import JMESPathError, JMESPathTypeError
    from jmespath.functions import Functions

    @contextmanager
    def query_errors() -> Iterator[None]:
        try:
            yield
        except RecursionError:
            raise UsageProblem("--query: the expression is nested too deeply", _EXAMPLE) from None
        except (JMESPathError, ArithmeticError, TypeError, ValueError) as error:
            raise UsageProblem(f"--query: {one_line(str(error), 300)}", _EXAMPLE) from None

    with query_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `active` without inner quotes is deprecated, but accepted
        expression: Any = jmespath.compile(query)
        nodes = list(_nodes(expression.parsed))
        for node in nodes:  # JMESPath looks functions up at the call, perhaps after a payment
            if node["type"] == "function_expression":
                with suppress(JMESPathTypeError):
                    Functions().call_function(node["value"], [None] * len(node["children"]))

    def search(value: Any) -> Any:
        with query_errors():
            found = expression.search(value)
            to_json(found)  # refuses expressions, and numbers that are not finite
        return found

    made = {node["value"] for node in nodes if node["type"] == "key_val_pair"}
    return search, {node["value"] for node in nodes if node["type"] == "field"} - made


def _nodes(node: Any) -> Iterable[Any]:
    yield node
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _nodes(child)
