"""A run of batches as a plan: what it shows as spent, and which batches it passes over."""

from dataclasses import replace
from typing import Any

from tradesdk import (
    APIConnectionError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
    TokenPrice,
    TokenQuery,
    TokenResults,
)
from tradesdk._market import token_prices
from tradesdk.payments.batches import BatchPlan

from .._payments import SENT, UNKNOWN, payment, result
from .._rows import each_of

EMPTY = TokenResults[TokenPrice](results=[])


def plan(count: int, *, size: Any = 5, job: str | None = None) -> BatchPlan[TokenResults[TokenPrice]]:
    tokens = [TokenQuery(f"T{number}") for number in range(count)]
    return BatchPlan(tokens, token_prices, size=size, job=job, max_price=None, max_total=None)


def failure(number: int, amount: int, run: str | None, **changes: Any) -> PaymentOutcomeUnknownError:
    doubtful = replace(payment(number, amount, **UNKNOWN), run=run, **changes)
    return PaymentOutcomeUnknownError("lost", code="outcome_unknown", payment=doubtful)


def test_what_may_have_been_taken_counts_once_with_the_largest_amount() -> None:
    made = plan(5)
    for _ in range(3):
        assert not made._failed(1, failure(1, 150_000, made._id))
        assert made.spent == 150_000
    made._failed(1, failure(1, 1, made._id, counted=150_000))
    assert made.spent == 150_000
    made._failed(1, failure(2, 70_000, "another run"))
    made._failed(1, PaymentRefusedError("no", code="over_budget"))
    others = replace(payment(4, 80_000, **SENT), run=made._id)
    made._failed(1, PaymentRefusedError("another process is at it", code="in_progress", payment=others))
    lost = APIConnectionError("lost", method="POST", url="u", sent=True)
    lost.payment = replace(payment(3, 10_000, **UNKNOWN), run=made._id)
    made._failed(1, lost)
    assert (made.spent, made._done) == (160_000, 0)
    made._delivered(1, result(EMPTY, replace(payment(1, 150_000), run=made._id)))
    made._delivered(1, result(EMPTY, None))
    assert (made.spent, made._done) == (160_000, 1)


@each_of(
    ("job", "code", "goes_on"),
    [
        ("nightly", "taken_elsewhere", True),
        ("nightly", "unresolved_payment", True),
        ("nightly", "paid_undelivered", False),
        (None, "unresolved_payment", False),
    ],
)
def test_only_a_job_passes_over_what_its_name_has_paid_for(job: str | None, code: Any, goes_on: bool) -> None:
    made = plan(2, size=1, job=job)
    assert made._failed(1, PaymentUndeliveredError("no answer", code=code)) is goes_on
    assert (made._done, made.passed_over) == ((1, (("T0",),)) if goes_on else (0, ()))
