"""Dollars as people write them, and micro-dollars as they are counted."""

import re
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import InvalidArgumentError
from tradesdk._values.money import MICRO, shown_usd, usd
from tradesdk.payments.money import micro_usd


@pytest.mark.parametrize(
    ("value", "micro"),
    [
        ("0", 0),
        ("0.10", 100_000),
        ("5", 5_000_000),
        ("5.00", 5_000_000),
        ("0.000001", 1),
        ("0.03", 30_000),
        ("007", 7_000_000),
        ("999999999999.999999", 999_999_999_999_999_999),
        (Decimal(5), 5_000_000),
        (Decimal(10**12 - 1), (10**12 - 1) * MICRO),
        (Decimal("0.03"), 30_000),
        (Decimal("1E+3"), 1_000_000_000),
        (Decimal("1E-6"), 1),
        (Decimal("0"), 0),
        (Decimal("0.100000"), 100_000),
    ],
)
def test_dollars_are_read_exactly(value: Any, micro: int) -> None:
    assert micro_usd("price", value) == micro


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "1e3",
            "1E3",
            "-1",
            "+1",
            "-0",
            "NaN",
            "nan",
            "Infinity",
            "-Infinity",
            "0.0000001",
            "1.",
            ".5",
            "1,50",
        ),
        *("1_000", "$1", "1 ", " 1", "1\n", "0x10", "1.2.3", "one", "9" * 13, "9" * 5000, "0." + "0" * 5000),
        *("\u0663", "\u00b9"),  # digits, says Unicode
        *map(Decimal, ("NaN", "sNaN", "Infinity", "-1", "-0.01", "1E-7", "1E+12", "1E+999999", "1E-999999")),
        *map(Decimal, (-1, 10**12, 10**4000, -(10**4000))),
    ],
)
def test_what_is_no_amount(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^price must be dollars like \"0\.10\"") as caught:
        micro_usd("price", value)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("value", "shown"), [("", "''"), (" ", "' '"), ("\t\n", r"'\t\n'"), ("\u2003" * 90, "'.+'")])
def test_what_is_empty_can_be_seen(value: str, shown: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        micro_usd("price", value)
    assert re.search(rf", not {shown if '.' in shown else re.escape(shown)}$", caught.value.message)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("value", [0, 5, 30_000, -1, pytest.param(10**5000, id="long")])
def test_an_int_is_refused_as_it_may_be_millionths(value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^price must not be an int: .*Decimal\(\"5\"\).*\.price") as caught:
        micro_usd("price", value)  # type: ignore[arg-type]  # that it is refused is the point
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("value", [0.1, 1.0, float("nan"), float("inf")])
def test_a_float_is_refused_with_the_fix(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"price must not be a float.* in quotes"):
        micro_usd("price", value)  # type: ignore[arg-type]  # that it is refused is the point


@pytest.mark.parametrize("value", [True, False, None, b"1", ["1"], {"usd": 1}, 1j])
def test_what_has_another_type(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"price must be dollars .*, not {type(value).__name__}"):
        micro_usd("price", value)


@pytest.mark.parametrize(
    ("micro", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (30_000, "$0.03"),
        (100_000, "$0.10"),
        (120_500, "$0.1205"),
        (1_000_000, "$1.00"),
        (10**18 - 1, "$999999999999.999999"),
    ],
)
def test_dollars_as_they_are_shown(micro: int, shown: str) -> None:
    assert shown_usd(micro) == shown


@given(micro=st.integers(0, 10**18 - 1))
def test_what_is_shown_can_be_read(micro: int) -> None:
    assert micro_usd("price", shown_usd(micro)[1:]) == micro
    assert micro_usd("price", usd(micro)) == micro
    assert usd(micro) * MICRO == micro


def test_the_context_of_decimals_does_not_matter() -> None:
    with localcontext(prec=2, rounding=ROUND_DOWN):
        assert micro_usd("price", Decimal("123.456789")) == 123_456_789
