"""Dollars as text."""

from __future__ import annotations

from decimal import Decimal


def dollars(amount: Decimal) -> str:
    """`$0.06`, `$0.000001`: at least two decimals, and as many as there are."""
    return f"${plain_dollars(amount)}"


def plain_dollars(amount: Decimal) -> str:
    """The same as a number in text, which is exact: `0.06`."""
    whole, _, part = f"{amount:f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(2, '0')}"


def usd(micro: int) -> Decimal:
    """Dollars of micro-dollars."""
    return Decimal(micro).scaleb(-6)


def maybe_dollars(micro: int | None) -> str | None:
    """Dollars for programs; None stays None."""
    return None if micro is None else plain_dollars(usd(micro))
