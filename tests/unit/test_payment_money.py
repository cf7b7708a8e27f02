"""Dollars as people write them, and micro-dollars as they are counted."""

import re
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Budget, InvalidArgumentError
from tradesdk._values.money import shown_usd

from .._rows import each_of


def micro(value: Any) -> int | None:
    return Budget(total=value).total


def refused(value: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^total {match}") as caught:
        micro(value)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_dollars_are_read_exactly_and_shown() -> None:
    for value, found in (
        *(("0", 0), ("0.10", 100_000), ("5", 5_000_000), ("5.00", 5_000_000), ("0.000001", 1), ("0.03", 30_000)),
        *(("007", 7_000_000), ("999999999999.999999", 999_999_999_999_999_999), (Decimal(5), 5_000_000)),
        *((Decimal(10**12 - 1), (10**12 - 1) * 10**6), (Decimal("0.03"), 30_000), (Decimal("1E+3"), 10**9)),
        *((Decimal("1E-6"), 1), (Decimal("0"), 0), (Decimal("0.100000"), 100_000)),
    ):
        assert micro(value) == found
    for amount, shown in (
        *((0, "$0.00"), (1, "$0.000001"), (30_000, "$0.03"), (100_000, "$0.10"), (120_500, "$0.1205")),
        *((1_000_000, "$1.00"), (10**18 - 1, "$999999999999.999999")),
    ):
        assert shown_usd(amount) == shown


NO_AMOUNTS = [
    *("1e3", "1E3", "-1", "+1", "-0", "NaN", "nan", "Infinity", "-Infinity", "0.0000001", "1.", ".5", "1,50"),
    *("1_000", "$1", "1 ", " 1", "1\n", "0x10", "1.2.3", "one", "9" * 13, "9" * 5000, "0." + "0" * 5000),
    *("\u0663", "\u00b9"),  # digits, says Unicode
    *map(Decimal, ("NaN", "sNaN", "Infinity", "-1", "-0.01", "1E-7", "1E+12", "1E+999999", "1E-999999")),
    *map(Decimal, (-1, 10**12, 10**4000, -(10**4000))),
]


@each_of(
    ("values", "match"),
    [
        (NO_AMOUNTS, r"must be dollars like \"0\.10\""),
        ([0, 5, 30_000, -1, 10**5000], r"must not be an int: .*Decimal\(\"5\"\).*\.price"),  # may be millionths
        ([0.1, 1.0, float("nan"), float("inf")], "must not be a float.* in quotes"),
        *(
            ([value], rf"must be dollars .*, not {type(value).__name__}")
            for value in (True, False, b"1", ["1"], {"usd": 1}, 1j)
        ),
        # what is empty can be seen
        *(([value], f"must .*, not {re.escape(repr(value))}\nhint: ") for value in ("", " ", "\t\n")),
        (["\u2003" * 90], "must .*, not '.+'\nhint: "),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_what_is_no_amount(values: list[Any], match: str) -> None:
    for value in values:
        refused(value, match)


@given(amount=st.integers(0, 10**18 - 1))
def test_what_is_shown_can_be_read(amount: int) -> None:
    assert micro(shown_usd(amount)[1:]) == amount
    dollars = Budget(total=shown_usd(amount)[1:]).dollars()["total"]
    assert dollars is not None
    assert micro(dollars) == dollars * 10**6 == amount


def test_the_context_of_decimals_does_not_matter() -> None:
    with localcontext(prec=2, rounding=ROUND_DOWN):
        assert micro(Decimal("123.456789")) == 123_456_789
