"""US dollars as text or Decimal, converted to whole micro-dollars (USDC's atomic units)."""

from __future__ import annotations

import re
from decimal import Decimal

from .._values.money import MICRO
from .._values.text import printable, without_keys
from ..errors import InvalidArgumentError

Usd = str | Decimal
"""US dollars: `"0.10"`, `"5"`, `Decimal("0.03")`.

Not a float, which cannot represent 0.1 exactly, and not an int, as those are micro-dollars elsewhere.
"""

_AMOUNT = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")


def micro_usd(name: str, value: Usd) -> int:
    if isinstance(value, float):
        raise InvalidArgumentError(f'{name} must not be a float, which is not exact: write "{value}" in quotes')
    if isinstance(value, int) and not isinstance(value, bool):
        raise InvalidArgumentError(
            f'{name} must not be an int: write dollars as text or Decimal ("5", Decimal("5")); '
            "amounts in micro-dollars have properties in dollars beside them, such as .price and .amount_usd"
        )
    if not isinstance(value, str | Decimal):
        raise InvalidArgumentError(f"{name} must be dollars as a string or a Decimal, not {type(value).__name__}")
    text = format(value, "f") if isinstance(value, Decimal) and abs(value.adjusted()) < 20 else str(value)
    match = _AMOUNT.fullmatch(text)
    if match is None:
        text = without_keys(text)
        raise InvalidArgumentError(
            f'{name} must be dollars like "0.10", with at most six decimals, no sign and no exponent, '
            f"not {printable(text, 40) if text.strip() else repr(text[:40])}"
        )
    return int(match[1]) * MICRO + int((match[2] or "").ljust(6, "0"))
