"""A run of batches as a plan: how the tokens are parted, and what the next batch may cost."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import (
    APIConnectionError,
    BudgetDetails,
    Payment,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentState,
    TokenPrice,
    TokenQuery,
)
from tradesdk._market import MarketRequest, token_prices
from tradesdk._values.money import usd
from tradesdk.models.market import TokenResults
from tradesdk.payments.batches import BatchOptions, BatchPlan

from .._payments import payment, result
from .._rows import each_of

EMPTY = TokenResults[TokenPrice](results=[])


def ask(tokens: Sequence[TokenQuery]) -> MarketRequest[TokenResults[TokenPrice]]:
    return token_prices([one.identifier for one in tokens])


def plan(
    count: int, size: int = 5, max_price: Any = None, max_total: Any = None
) -> BatchPlan[TokenResults[TokenPrice]]:
    tokens = [TokenQuery(f"T{number}") for number in range(count)]
    return BatchPlan(tokens, ask, BatchOptions.of(size, None, max_price, max_total))


@each_of(
    ("max_price", "max_total", "most"),
    [
        (None, None, None),
        ("0.50", None, "0.50"),
        ("0", None, "0"),
        (None, "1", "0.15"),
        (None, "0.15", "0.15"),
        ("0.50", "1", "0.50"),
        ("0.50", "0.20", "0.20"),
        ("0.10", "1", "0.10"),
    ],
)
def test_what_the_first_batch_may_cost(max_price: Any, max_total: Any, most: str | None) -> None:
    made = plan(10, 5, max_price, max_total)
    assert made.most(made.parts[0]) == (None if most is None else Decimal(most) * 1_000_000)


def test_a_batch_that_would_pass_the_total_is_refused() -> None:
    made = plan(15, 5, max_total="0.40")
    for number in (1, 2):
        assert made.most(made.parts[number - 1]) is not None
        made.delivered(number, result(EMPTY, payment(number, 150_000)))
    with pytest.raises(PaymentRefusedError) as caught:
        made.most(made.parts[2])
    error = caught.value
    assert (error.code, error.payment, error.charged) == ("over_total", None, False)
    assert "costs $0.15" in error.message
    assert "max_total=$0.40 leaves $0.10" in error.message
    assert isinstance(error.details, BudgetDetails)
    assert (error.details.limit, error.details.cost, error.details.left) == ("max_total", usd(150_000), usd(100_000))
    assert made.spent == 300_000


@pytest.mark.parametrize("resends", [True, False])
def test_what_may_have_been_taken_counts_once(resends: bool) -> None:
    made = plan(5)
    doubtful = payment(1, 150_000, state=PaymentState.UNKNOWN)
    for _ in range(3):
        made.failed(PaymentOutcomeUnknownError("lost", code="outcome_unknown", payment=doubtful), resends=resends)
        assert made.spent == 150_000
    made.failed(APIConnectionError("lost", method="POST", url="u", sent=False), resends=resends)
    made.failed(PaymentRefusedError("no", code="over_budget"), resends=resends)
    made.failed(
        PaymentRefusedError("no", code="not_live", payment=payment(2, 70_000, state=PaymentState.CANCELLED)),
        resends=resends,
    )
    others = payment(4, 80_000, state=PaymentState.SUBMITTED)
    made.failed(PaymentRefusedError("another process is at it", code="in_progress", payment=others), resends=resends)
    lost = APIConnectionError("lost", method="POST", url="u", sent=True)
    lost.payment = payment(3, 10_000, state=PaymentState.UNKNOWN)
    made.failed(lost, resends=resends)
    assert made.spent == 160_000
    made.delivered(1, result(EMPTY, payment(1, 150_000)))
    assert made.spent == 160_000
    made.delivered(1, result(EMPTY, None))
    assert made.spent == 160_000


steps = st.lists(st.tuples(st.sampled_from(["paid", "again", "doubtful", "free"]), st.integers(0, 100)), max_size=30)


@given(
    st.integers(1, 30),
    st.integers(1, 5),
    st.integers(0, 1_000_000),
    st.none() | st.integers(0, 300_000),
    steps,
    st.booleans(),
)
def test_no_run_spends_more_than_its_total(
    count: int, size: int, total: int, price: int | None, steps: list[tuple[str, int]], resends: bool
) -> None:
    """Whatever is charged up to what was allowed, however batches end, and with payments that are resent."""
    made = plan(count, size, None if price is None else Decimal(price).scaleb(-6), Decimal(total).scaleb(-6))
    taken = 0
    doubtful: Payment | None = None
    for number, (how, share) in enumerate(steps, 1):
        if made.done == len(made.parts):
            break
        place = made.done + 1
        resent, doubtful = doubtful, None
        if how == "again":
            made.delivered(place, replace(result(EMPTY, payment(number, 10**9)), again=True))
            continue
        try:
            most = made.most(made.parts[place - 1])
        except PaymentRefusedError:
            assert made.parts[place - 1].amount > total - taken + (0 if resent is None else resent.amount)
            break
        assert most is not None
        sent = resent or payment(number, most * share // 100, state=PaymentState.UNKNOWN)
        assert sent.amount <= most
        if how != "free" and sent is not resent:
            taken += sent.amount
        if how == "paid":
            made.delivered(place, result(EMPTY, sent))
        elif how == "doubtful":
            doubtful = sent if resends else None
            made.failed(PaymentOutcomeUnknownError("lost", code="outcome_unknown", payment=sent), resends=resends)
        else:
            made.delivered(place, result(EMPTY, None))
        assert made.spent == taken <= total
