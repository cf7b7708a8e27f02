"""The parts of a client, such as `client.agents`."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class _NoClient:
    """Stands for a client where there is only its class."""

    def __getattr__(self, name: str) -> _NoClient:
        return self

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this is the class: make a client first, such as TradeClient()")


class part(cached_property[T]):
    """A `cached_property` that shows its methods on the class, too: `create_autospec(TradeClient)` looks there."""

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        return self.func(_NoClient()) if client is None else super().__get__(client, owner)
