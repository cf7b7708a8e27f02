"""Micro-dollars, which are USDC's atomic units, as dollars."""

from __future__ import annotations

from decimal import Decimal

MICRO = 1_000_000


def usd(micro: int) -> Decimal:
    """Dollars of micro-dollars, exact."""
    return Decimal(f"{micro}E-6")  # not scaleb, which rounds as the caller's context says


def shown_usd(micro: int) -> str:
    """`$0.03`, `$0.000001`: at least two decimals, no zeros after them."""
    whole, part = divmod(micro, MICRO)
    return f"${whole}.{f'{part:06}'.rstrip('0').ljust(2, '0')}"
