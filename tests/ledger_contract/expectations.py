"""How checks are written down: each a function of an empty store, with tables of further arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from tradesdk import Ledger

E = TypeVar("E", bound=BaseException)
Check = Callable[[Ledger], None]
CHECKS: dict[str, Check] = {}
"""Every check by its name."""


def over(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One check for each row: the values of arguments, whose names are separated by commas."""
    columns = [name.strip() for name in names.split(",")]
    table = [dict(zip(columns, row if len(columns) > 1 else [row], strict=True)) for row in rows]

    def add(check: Callable[..., None]) -> Callable[..., None]:
        vars(check).setdefault("tables", []).append(table)
        return check

    return add


def case(check: Callable[..., None]) -> Callable[..., None]:
    """Add a check, or one for each combination of its tables' rows."""
    for number, rows in enumerate(itertools.product(*vars(check).get("tables", []))):
        arguments = {name: value for row in rows for name, value in row.items()}
        shown = "-".join(str(value)[:30] for value in arguments.values() if isinstance(value, str | int | float))
        name = f"{check.__name__}[{number}-{shown}]" if arguments else check.__name__
        CHECKS[name] = partial(check, **arguments)
    return check


class Caught(Generic[E]):
    """The exception that `raises` expected."""

    value: E


@contextmanager
def raises(kind: type[E], text: str = "") -> Iterator[Caught[E]]:
    """Expect an exception of a kind, with `text` in its own."""
    caught: Caught[E] = Caught()
    try:
        yield caught
    except kind as error:
        caught.value = error
    else:
        raise AssertionError(f"no {kind.__name__} was raised")
    told = str(caught.value)
    assert text in told, f"{text!r} is not in {told!r}"
