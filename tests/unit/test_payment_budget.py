"""Budgets: how they are given, how they are put together, and what they leave."""

import itertools
import os
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Budget, ConfigError, InvalidArgumentError, Spending, WindowSpending

from .._rows import each_of
from ._pickled import pickled

LIMITS = ("per_call", "per_hour", "per_day", "per_month", "total")
BAD = ["1e3", "-1", "NaN", "Infinity", "0.0000001", "", " ", "five", "1,5", "$5", "1_0"]


def limits(budget: Budget) -> tuple[int | None, ...]:
    return tuple(getattr(budget, name) for name in LIMITS)


def test_limits_are_given_in_dollars() -> None:
    budget = Budget(per_call="0.25", per_hour=Decimal("1.5"), per_day=Decimal(5), per_month="60", total="100")
    assert limits(budget) == (250_000, 1_500_000, 5_000_000, 60_000_000, 100_000_000)
    assert budget.is_set
    assert not budget.is_unlimited
    assert budget.dollars() == {
        "per_call": Decimal("0.25"),
        "per_hour": Decimal("1.5"),
        "per_day": Decimal(5),
        "per_month": Decimal(60),
        "total": Decimal(100),
    }


def test_nothing_said_is_not_unlimited() -> None:
    assert limits(Budget()) == (None,) * len(LIMITS)
    assert not Budget().is_set
    assert Budget().dollars() == dict.fromkeys(LIMITS)
    assert limits(Budget.unlimited()) == (None,) * len(LIMITS)
    assert Budget.unlimited().is_set
    assert Budget.unlimited().is_unlimited
    assert Budget() != Budget.unlimited()


def test_nothing_to_spend_is_a_limit() -> None:
    assert Budget(per_day="0").per_day == 0
    assert Budget(per_day="0").is_set


@each_of("name", LIMITS)
@each_of("value", [*BAD, 0.5, 5, True, b"1", Decimal("NaN")])
def test_a_limit_that_cannot_be_read(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{name} must"):
        Budget(**{name: value})


def test_a_budget_is_a_value() -> None:
    budget = Budget(per_call="0.25", total="3")
    assert budget == Budget(per_call=Decimal("0.250"), total="3.00")
    assert hash(budget) == hash(pickled(budget))
    assert pickled(budget) == budget
    assert pickled(Budget.unlimited()) == Budget.unlimited()
    with pytest.raises(AttributeError):
        budget.total = 5  # type: ignore[misc]  # that it is refused is the point


@each_of(
    ("budget", "shown"),
    [
        (Budget(), "Budget()"),
        (Budget(per_call="0.1", per_day="5"), "Budget(per_call='0.10', per_day='5')"),
        (Budget(per_hour="0.000001", total="1200.5"), "Budget(per_hour='0.000001', total='1200.50')"),
        (Budget(per_month="50", total="0"), "Budget(per_month='50', total='0')"),
        (Budget.unlimited(), "Budget.unlimited()"),
        (
            Budget.unlimited().strictest(Budget(total="3")),
            "Budget.unlimited().strictest(Budget(total='3'))",
        ),
    ],
)
def test_it_shows_itself_as_it_is_written(budget: Budget, shown: str) -> None:
    assert repr(budget) == shown


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Budget.from_environment().is_set
    environ = {
        "TRADE_BUDGET_PER_CALL": "0.25",
        "TRADE_BUDGET_PER_HOUR": " 1.50 ",
        "TRADE_BUDGET_PER_DAY": "",
        "TRADE_BUDGET_PER_MONTH": "60",
        "TRADE_BUDGET_TOTAL": "100",
        "TRADE_BUDGET": "7",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert limits(Budget.from_environment()) == (250_000, 1_500_000, None, 60_000_000, 100_000_000)


@each_of("variable", [name.upper() for name in LIMITS])
@each_of("text", [text for text in BAD if text])
def test_a_variable_that_cannot_be_read_is_named(variable: str, text: str) -> None:
    name = f"TRADE_BUDGET_{variable}"
    with patch.dict(os.environ, {name: text}), pytest.raises(ConfigError, match=f"^{name} must"):
        Budget.from_environment()


def test_from_micro_dollars() -> None:
    assert Budget.from_micro({"per_call": 60_000}) == Budget(per_call="0.06")
    assert Budget.from_micro(dict.fromkeys(LIMITS)) == Budget()


def test_the_strictest_of_two() -> None:
    first, second = Budget(per_call="1", per_day="5"), Budget(per_call="2", per_day="3", total="9")
    assert first.strictest(second) == Budget(per_call="1", per_day="3", total="9")
    assert Budget(per_day="0").strictest(Budget(per_day="1")).per_day == 0


def test_unlimited_gives_way_to_any_limit_and_covers_where_there_is_none() -> None:
    with_limit = Budget.unlimited().strictest(Budget(per_day="1"))
    assert with_limit.per_day == 1_000_000
    without = Budget.unlimited().strictest(Budget())
    assert (limits(without), without.is_set, without.is_unlimited) == ((None,) * len(LIMITS), True, True)
    assert not Budget().strictest(Budget()).is_set


AMOUNTS = st.none() | st.integers(0, 10**12)
BUDGETS = st.builds(Budget.from_micro, st.fixed_dictionaries(dict.fromkeys(LIMITS, AMOUNTS))) | st.just(
    Budget.unlimited()
)


@given(budget=BUDGETS, other=BUDGETS)
def test_what_it_shows_makes_it_again(budget: Budget, other: Budget) -> None:
    for one in (budget, budget.strictest(other)):
        assert eval(repr(one), {"Budget": Budget}) == one  # noqa: S307  # our own text


@given(first=BUDGETS, second=BUDGETS, third=BUDGETS)
def test_order_does_not_matter(first: Budget, second: Budget, third: Budget) -> None:
    together = {
        one.strictest(two).strictest(three) for one, two, three in itertools.permutations((first, second, third))
    }
    together.add(first.strictest(second.strictest(third)))
    assert len(together) == 1
    assert first.strictest(first) == first
    (budget,) = together
    assert budget.is_set == any(one.is_set for one in (first, second, third))
    for name in LIMITS:
        given_limits = [limit for one in (first, second, third) if (limit := getattr(one, name)) is not None]
        assert getattr(budget, name) == min(given_limits, default=None)


def spending(budget: Budget, *counted: int, held: int = 0) -> Spending:
    """What counts in the last hour, today, this month and in total; of each so much is held."""
    hour, day, month, total = (
        WindowSpending(spent=spent - held, held=held, limit=getattr(budget, name))
        for name, spent in zip(LIMITS[1:], counted, strict=True)
    )
    return Spending(last_hour=hour, today=day, this_month=month, total=total, budget=budget)


@each_of(
    ("budget", "spent", "left"),
    [
        (Budget(), (0, 0, 0, 0), None),
        (Budget.unlimited(), (9, 9, 9, 9), None),
        (Budget(per_call="0.05"), (10**9, 10**9, 10**9, 10**9), 50_000),
        (Budget(per_hour="1"), (400_000, 0, 0, 0), 600_000),
        (Budget(per_day="1"), (0, 400_001, 500_000, 500_000), 599_999),
        (Budget(per_month="1"), (0, 0, 400_001, 500_000), 599_999),
        (Budget(total="1"), (0, 0, 0, 1_000_000), 0),
        (Budget(total="1"), (0, 0, 0, 2_000_000), 0),
        (Budget(per_call="5", per_hour="4", per_day="3", total="2"), (0, 0, 0, 0), 2_000_000),
        (Budget(per_call="5", per_hour="1", per_day="3", total="2"), (0, 0, 0, 0), 1_000_000),
        (Budget(per_call="5", per_hour="4", per_day="1", total="2"), (0, 0, 0, 0), 1_000_000),
        (Budget(per_hour="4", per_month="5", total="6"), (1_000_000, 3_000_000, 3_000_000, 5_000_000), 1_000_000),
    ],
)
def test_what_a_budget_leaves(budget: Budget, spent: tuple[int, ...], left: int | None) -> None:
    found = spending(budget, *spent)
    assert found.left == left
    assert found.left_usd == (None if left is None else Decimal(left) / 1_000_000)


def test_what_is_spent_is_told_in_dollars_as_well() -> None:
    found = spending(Budget(per_hour="1", total="2"), 30_000, 40_000, 50_000, 1_500_000, held=10_000)
    assert [window.spent_usd for window in found.by_limit().values()] == [
        Decimal(text) for text in ("0", "0.02", "0.03", "0.04", "1.49")
    ]
    assert (found.today.counted_usd, found.today.held_usd) == (Decimal("0.04"), Decimal("0.01"))
    assert (found.held_usd, found.spent_usd) == (Decimal("0.01"), Decimal("1.49"))
    assert [window.left_usd for window in found.by_limit().values()] == [
        None, Decimal("0.97"), None, None, Decimal("0.50")
    ]  # fmt: skip
    assert found.left_usd == Decimal("0.50")
    assert Budget(total=found.left_usd) == Budget(total="0.5")


@given(budget=BUDGETS, spent=st.tuples(*[st.integers(0, 10**12)] * 4))
def test_what_is_left_is_never_too_much(budget: Budget, spent: tuple[int, ...]) -> None:
    left = spending(budget, *spent).left
    if left is None:
        assert limits(budget) == (None,) * len(LIMITS)
        return
    assert left >= 0
    room = [(budget.per_call, 0), *zip(limits(budget)[1:], spent, strict=True)]
    assert all(limit is None or before + left <= limit or left == 0 for limit, before in room)
    assert any(limit is not None and before + left + 1 > limit for limit, before in room)
