"""A table of cases in one test."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest


def each_of(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `pytest.mark.parametrize`, but one test: for most rows pytest's own work takes longer than the row.

    Every row is played, and what fails says in which one. Fixtures are made once, for all rows; only `caplog` is
    cleared before each.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table: list[tuple[str, tuple[Any, ...]]] = []
    given = None if ids is None or callable(ids) else list(ids)
    for number, row in enumerate(rows):
        name: object = number if given is None else given[number]
        values: tuple[Any, ...]
        if isinstance(row, type(pytest.param())):
            assert not row.marks, "a row has no marks of its own"
            values, name = tuple(row.values), row.id or name
        else:
            values = (row,) if len(arguments) == 1 else tuple(row)
        table.append(("-".join(str(ids(value)) for value in values) if callable(ids) else str(name), values))
    assert table

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def a_row(
            name: str, values: tuple[Any, ...], fixtures: dict[str, Any], failed: list[BaseException]
        ) -> Iterator[dict[str, Any]]:
            if "caplog" in fixtures:
                fixtures["caplog"].clear()
            try:
                yield fixtures | dict(zip(arguments, values, strict=True))
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # a skip would hide the others
                with contextlib.suppress(ValueError):  # a number of thousands of digits is not written
                    name += f": {values!r:.200}"
                error.add_note(f"in the row {name}")
                failed.append(error)

        def judge(failed: list[BaseException]) -> None:
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(table)} rows", failed)

        def play(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for name, values in table:
                with a_row(name, values, fixtures, failed) as given:
                    test(**given)
            judge(failed)

        async def play_async(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for name, values in table:
                with a_row(name, values, fixtures, failed) as given:
                    await test(**given)
            judge(failed)

        played = functools.wraps(test)(play_async if inspect.iscoroutinefunction(test) else play)
        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name not in arguments]
        played.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return played

    return decorate
