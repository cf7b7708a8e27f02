"""Converts micro-dollars, the atomic units of USDC, to dollars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import Any, TypeVar

T = TypeVar("T", bound=type[Any])

MICRO = 1_000_000


def usd(micro: int) -> Decimal:
    return Decimal(f"{micro}E-6")  # not scaleb, which rounds by the caller's decimal context


def shown_usd(micro: int) -> str:
    """`$0.03`, `$0.000001`: at least two decimals, no trailing zeros after them."""
    whole, part = divmod(micro, MICRO)
    return f"${whole}.{f'{part:06}'.rstrip('0').ljust(2, '0')}"


def show_usd(**in_dollars: str) -> Callable[[T], T]:
    """Decorates a dataclass: its `repr` shows dollars, as in `spent_usd=$0.03`. Maps each field in micro-dollars to the
    attribute with the same amount in dollars.
    """

    def shown(value: object) -> str:
        return shown_usd(int(value * MICRO)) if isinstance(value, Decimal) else repr(value)

    def with_repr(cls: T) -> T:
        def __repr__(self: Any) -> str:
            given = [in_dollars.get(each.name, each.name) for each in fields(self) if each.repr]
            return f"{type(self).__qualname__}({', '.join(f'{name}={shown(getattr(self, name))}' for name in given)})"

        cls.__repr__ = __repr__  # type: ignore[assignment] # of this class
        return cls

    return with_repr
