"""Converts micro-dollars, the atomic units of USDC, to dollars."""

from __future__ import annotations

from decimal import Decimal

MICRO = 1_000_000


def usd(micro: int) -> Decimal:
    """Dollars, exactly."""
    return Decimal(f"{micro}E-6")  # not scaleb, which rounds by the caller's context


def shown_usd(micro: int) -> str:
    """`$0.03`, `$0.000001`: at least two decimals, no trailing zeros after them."""
    whole, part = divmod(micro, MICRO)
    return f"${whole}.{f'{part:06}'.rstrip('0').ljust(2, '0')}"
