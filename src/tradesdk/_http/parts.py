"""Imports at first use, such as the parts of a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from .._values.hints import too_many_files
from ..errors import TradeError

T = TypeVar("T")


@contextmanager
def loading() -> Iterator[None]:
    """Decorates a function that imports, which opens files."""
    try:
        yield
    except (ImportError, OSError) as error:
        if too_many_files(error):
            raise TradeError(f"a library cannot be loaded: {error}", code="too_many_files") from error
        raise


class _NoClient:
    """In place of a client where only its class is needed."""

    def __getattr__(self, name: str) -> _NoClient:
        return self

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this is the class: make a client first, such as TradeClient()")


class part(cached_property[T]):
    """A `cached_property` whose methods are on the class too: `create_autospec(TradeClient)` looks there."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(loading()(func))

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        return self.func(_NoClient()) if client is None else super().__get__(client, owner)
