"""A table of cases in one test."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_of(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Callable[[Any], Any] | Iterable[str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test: for most rows pytest's own work takes longer than the row.

    Every row is played, and what fails says in which one. Fixtures are made once, for all rows.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table: list[tuple[str, tuple[Any, ...]]] = []
    given = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        param = row if isinstance(row, type(pytest.param())) else None
        assert param is None or not param.marks, "a row has no marks of its own"
        values = param.values if param is not None else (row,) if len(arguments) == 1 else tuple(row)
        name = (param.id if param is not None else None) or (given[number] if given else None)
        table.append((str(name or number), values))
    assert table

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def play(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for name, values in table:
                try:
                    test(**fixtures, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    with contextlib.suppress(ValueError):  # a number of thousands of digits is not written
                        name += f": {values!r:.200}"
                    error.add_note(f"in the row {name}")
                    failed.append(error)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(table)} rows", failed)

        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name not in arguments]
        play.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return play

    return decorate
