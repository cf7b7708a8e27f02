"""Budgets: the windows, what counts in them, and how a refusal is told."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

import pytest

from tradesdk import Budget, BudgetDetails, Ledger, PaymentRefusedError, PaymentState, Receipt
from tradesdk._values.payment import FREE, RELEASED
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.schema import to_row

from ._ledger import HEADER, MIDNIGHT, NOW, draft, in_state, reserve

CENT = 10_000


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


def refusal(ledger: Ledger, amount: int, budget: Budget, now: float = NOW) -> PaymentRefusedError:
    before = ledger.history()
    with pytest.raises(PaymentRefusedError) as caught:
        reserve(ledger, draft(amount=amount), budget, now=now)
    assert ledger.history() == before
    return caught.value


def spend(ledger: Ledger, amount: int, at: float, until: int | None = None) -> None:
    """A payment that may be taken from `at` until then."""
    payment = draft(amount=amount, valid_before=int(at) if until is None else until)
    reserve(ledger, payment, Budget.unlimited(), now=at)


def test_the_day_of_the_tests() -> None:
    assert MIDNIGHT % 86400 == 0
    assert 3600 < NOW - MIDNIGHT < 86400


def test_without_any_budget_nothing_is_paid(ledger: Ledger) -> None:
    error = refusal(ledger, 3 * CENT, Budget())
    assert error.code == "no_budget"
    assert "$0.03" in error.message
    assert error.details == BudgetDetails(cost=Decimal("0.03"))
    for way in ("Budget(", "TRADE_BUDGET_PER_DAY", "max_price=", "trade pay budget set"):
        assert way in error.hint


@pytest.mark.parametrize("name", ["per_call", "per_hour", "per_day", "total"])
def test_each_limit_alone_is_a_budget(ledger: Ledger, name: str) -> None:
    budget = Budget.from_micro({name: 3 * CENT})
    error = refusal(ledger, 3 * CENT + 1, budget)
    assert error.code == "over_budget"
    assert "$0.030001" in error.message
    assert isinstance(error.details, BudgetDetails)
    assert (error.details.limit, error.details.limit_amount, error.details.room_at) == (name, Decimal("0.03"), None)
    assert "$0.03 " in error.message
    spend_of = reserve(ledger, draft(amount=3 * CENT), budget)
    assert spend_of.amount == 3 * CENT


def test_unlimited_is_unlimited(ledger: Ledger) -> None:
    reserve(ledger, draft(amount=10**15), Budget.unlimited())
    assert ledger.spending(Budget.unlimited(), now=NOW).left is None


def test_the_stores_own_budget_counts_as_well(ledger: Ledger) -> None:
    assert ledger.budget() == Budget()
    ledger.set_budget(Budget(per_call="0.02", total="0.05"))
    assert ledger.budget() == Budget(per_call="0.02", total="0.05")
    reserve(ledger, draft(amount=2 * CENT), Budget())
    assert refusal(ledger, 3 * CENT, Budget.unlimited()).code == "over_budget"
    assert refusal(ledger, 2 * CENT, Budget(total="0.03")).code == "over_budget"
    reserve(ledger, draft(amount=2 * CENT), Budget(total="10"))
    assert refusal(ledger, 2 * CENT, Budget(total="10")).code == "over_budget"
    ledger.set_budget(Budget())
    assert ledger.budget() == Budget()
    assert refusal(ledger, 2 * CENT, Budget()).code == "no_budget"


def test_the_stores_own_budget_may_be_unlimited(ledger: Ledger) -> None:
    ledger.set_budget(Budget.unlimited())
    assert ledger.budget().is_unlimited
    reserve(ledger, draft(), Budget())
    mixed = Budget(per_day="1").strictest(Budget.unlimited())
    ledger.set_budget(mixed)
    assert ledger.budget() == mixed


@pytest.mark.parametrize("release", ["proof", "service"])
@pytest.mark.parametrize("state", sorted(PaymentState))
def test_what_counts(ledger: Ledger, state: PaymentState, release: Literal["proof", "service"]) -> None:
    """What was sent counts until it is proven unpaid; a service's word is enough only where the budget says so."""
    in_state(ledger, state)
    counts = 0 if state in FREE or (release == "service" and state in RELEASED) else 3 * CENT
    held = 0 if state is PaymentState.MARKED_PAID else counts
    spending = ledger.spending(Budget(total="1", release=release), now=NOW)
    assert (spending.last_hour, spending.today, spending.total) == (counts, counts, counts)
    assert (spending.held_last_hour, spending.held_today, spending.held) == (held, held, held)
    assert spending.spent == counts - held
    assert spending.left == 1_000_000 - counts
    assert spending.budget.dollars()["total"] == Decimal(1)
    budget = Budget.from_micro({"per_hour": counts + CENT}, release)
    assert refusal(ledger, CENT + 1, budget).code == "over_budget"
    reserve(ledger, draft(amount=CENT), budget)


@pytest.mark.parametrize("success", [True, False])
def test_a_receipt_proves_that_it_is_spent(ledger: Ledger, success: bool) -> None:
    receipt = Receipt(success=success, transaction="0x1", network="base", raw={})
    payment = in_state(ledger, PaymentState.UNKNOWN)
    ledger.settle(payment.id, PaymentState.DELIVERED, receipt=receipt, now=NOW)
    spending = ledger.spending(Budget(), now=NOW)
    assert (spending.spent, spending.held) == ((3 * CENT, 0) if success else (0, 3 * CENT))


@pytest.mark.parametrize(
    ("client", "store", "counts"),
    [
        (Budget(total="1", release="service"), Budget(), False),
        (Budget(), Budget(total="1", release="service"), False),
        (Budget(total="1", release="service"), Budget(total="2", release="service"), False),
        (Budget(total="1", release="service"), Budget(total="2"), True),
        (Budget(total="1"), Budget(total="2", release="service"), True),
        (Budget(total="1"), Budget(), True),
    ],
)
def test_proof_is_stricter_than_the_services_word(ledger: Ledger, client: Budget, store: Budget, counts: bool) -> None:
    in_state(ledger, PaymentState.EXPIRED_UNPAID)
    ledger.set_budget(store)
    assert ledger.budget() == store
    assert ledger.spending(client, now=NOW).total == (3 * CENT if counts else 0)


def test_it_counts_as_long_as_it_may_be_taken(ledger: Ledger) -> None:
    """In every hour and day that lie between its first signature and the last second of its validity."""
    spend(ledger, CENT, MIDNIGHT - 60.5, until=MIDNIGHT + 30)
    for at, hour, day in [
        (MIDNIGHT - 60.5, CENT, CENT),
        (MIDNIGHT + 3629.9, CENT, CENT),
        (MIDNIGHT + 3630.0, 0, CENT),
        (MIDNIGHT + 86_399.9, 0, CENT),
        (MIDNIGHT + 86_400.0, 0, 0),
    ]:
        spending = ledger.spending(Budget(), now=at)
        assert (spending.last_hour, spending.today, spending.total) == (hour, day, CENT)


def test_the_next_signature_of_a_nonce_counts_what_is_more(ledger: Ledger) -> None:
    """Its amount counts once, with the largest that was signed; its windows reach to the end of the newest validity."""
    first = in_state(ledger, PaymentState.EXPIRED_UNKNOWN, fingerprint="call", amount=3 * CENT)
    budget = Budget(total="0.05", per_hour="0.05", per_call="0.05")
    assert refusal_again(ledger, 6 * CENT, budget) == "over_budget"
    assert ledger.get(first.id) == first
    second = reserve(ledger, draft("call", amount=5 * CENT, valid_before=int(NOW) + 400), budget, now=NOW + 300)
    assert (second.id, second.nonce, second.counted) == (first.id, first.nonce, 5 * CENT)
    assert ledger.spending(budget, now=NOW + 300).total == 5 * CENT
    ledger.submit(replace(second, amount=5 * CENT), HEADER, now=NOW + 300)
    ledger.settle(second.id, PaymentState.EXPIRED_UNPAID, now=NOW + 300)
    third = reserve(ledger, draft("call", amount=CENT, valid_before=int(NOW) + 500), budget, now=NOW + 450)
    # Until it is signed, its terms are those of the newest signature.
    assert (third.amount, third.counted) == (5 * CENT, 5 * CENT)
    assert ledger.spending(budget, now=NOW + 500 + 3599).last_hour == 5 * CENT
    assert ledger.spending(budget, now=NOW + 500 + 3600).last_hour == 0
    canceled = ledger.settle(third.id, PaymentState.CANCELLED, now=NOW)
    assert canceled.state is PaymentState.EXPIRED_UNPAID
    assert ledger.spending(budget, now=NOW).total == 5 * CENT


def refusal_again(ledger: Ledger, amount: int, budget: Budget) -> str:
    with pytest.raises(PaymentRefusedError) as caught:
        reserve(ledger, draft("call", amount=amount), budget)
    return caught.value.code


def test_an_hour_is_3600_seconds_to_the_last_one(ledger: Ledger) -> None:
    spend(ledger, CENT, NOW)
    budget = Budget(per_hour="0.01")
    error = refusal(ledger, CENT, budget, now=NOW + 3599.999)
    assert "per hour" in error.message
    assert error.hint.startswith("wait until 2025-10-09 09:53:20 UTC, ")
    reserve(ledger, draft(amount=CENT), budget, now=NOW + 3600)


def test_the_hour_frees_when_enough_of_it_has_passed(ledger: Ledger) -> None:
    for second in range(5):
        spend(ledger, CENT, NOW + 10 * second)
    # 2 cents more fit when the first two, of 5, have left the window of 5.
    error = refusal(ledger, 2 * CENT, Budget(per_hour="0.05"), now=NOW + 60)
    assert "09:53:30 UTC" in error.hint  # an hour after the second one
    reserve(ledger, draft(amount=2 * CENT), Budget(per_hour="0.05"), now=NOW + 3610)


def test_a_day_is_a_day_of_utc(ledger: Ledger) -> None:
    spend(ledger, CENT, MIDNIGHT - 1)
    spend(ledger, 2 * CENT, MIDNIGHT + 0.0)
    spend(ledger, 4 * CENT, MIDNIGHT + 86399.75)
    assert ledger.spending(Budget(), now=MIDNIGHT + 86399.9).today == 6 * CENT
    assert ledger.spending(Budget(), now=MIDNIGHT + 86400.0).today == 0
    error = refusal(ledger, CENT, Budget(per_day="0.06"), now=MIDNIGHT + 86399.9)
    assert "per day" in error.message
    assert error.hint.startswith("wait until 2025-10-10 00:00:00 UTC, ")
    reserve(ledger, draft(amount=CENT), Budget(per_day="0.06"), now=MIDNIGHT + 86400.0)


def test_total_never_frees(ledger: Ledger) -> None:
    spend(ledger, CENT, NOW - 10_000_000)
    error = refusal(ledger, CENT, Budget(total="0.015"))
    assert "in total" in error.message
    assert "does not reset" in error.hint


def test_a_clock_that_is_put_back_frees_nothing(ledger: Ledger) -> None:
    spend(ledger, CENT, NOW)
    for back in (1.0, 3600.0, 7200.0, 86400.0, 40 * 86400.0):
        spending = ledger.spending(Budget(), now=NOW - back)
        assert (spending.last_hour, spending.today, spending.total) == (CENT, CENT, CENT)
        assert refusal(ledger, CENT, Budget(per_hour="0.01"), now=NOW - back).code == "over_budget"
        assert refusal(ledger, CENT, Budget(per_day="0.01"), now=NOW - back).code == "over_budget"


def test_a_refusal_tells_all_in_dollars(ledger: Ledger) -> None:
    in_state(ledger, PaymentState.MARKED_PAID, amount=50 * CENT)
    in_state(ledger, PaymentState.UNKNOWN, amount=20 * CENT)
    error = refusal(ledger, 31 * CENT, Budget(per_day="1", per_hour="5", total="5"))
    assert error.message == (
        "this call costs $0.31, and the budget of $1.00 per day leaves $0.30: $0.50 is spent and $0.20 is held"
    )
    assert "; held money may have been taken: see client.payments.reconcile() " in error.hint
    midnight = datetime.fromtimestamp(MIDNIGHT + 86400, UTC)
    assert error.details == BudgetDetails(
        cost=Decimal("0.31"),
        limit="per_day",
        limit_amount=Decimal(1),
        spent=Decimal("0.5"),
        held=Decimal("0.2"),
        left=Decimal("0.3"),
        room_at=midnight,
    )
    assert f"{midnight:%Y-%m-%d %H:%M:%S} UTC" in error.hint


def test_a_budget_below_what_is_spent_leaves_nothing(ledger: Ledger) -> None:
    spend(ledger, 50 * CENT, NOW)
    error = refusal(ledger, CENT, Budget(total="0.20"))
    assert "leaves $0.00" in error.message
    assert ledger.spending(Budget(total="0.20"), now=NOW).left == 0


def test_the_limit_that_stays_is_told_first(ledger: Ledger) -> None:
    spend(ledger, 50 * CENT, NOW)
    every = Budget(per_call="0.5", per_hour="0.5", per_day="0.5", total="0.5")
    assert "in total" in refusal(ledger, CENT, every).message
    assert "per call" in refusal(ledger, 51 * CENT, every).message
    assert "per day" in refusal(ledger, CENT, Budget(per_hour="0.5", per_day="0.5")).message


def test_more_than_the_whole_limit_never_fits(ledger: Ledger) -> None:
    error = refusal(ledger, 2 * CENT, Budget(per_hour="0.01"))
    assert "room from" not in error.hint


def test_sums_that_are_too_large_are_an_error_of_the_ledger(ledger: Ledger) -> None:
    from tradesdk import LedgerError

    for _ in range(9):
        reserve(ledger, draft(amount=10**18), Budget.unlimited())
    with pytest.raises(LedgerError):
        reserve(ledger, draft(amount=10**18), Budget.unlimited())
    assert ledger.spending(Budget(), now=NOW).total == 9 * 10**18


def test_a_long_past_makes_nothing_slower(ledger: Ledger) -> None:
    """Counted in steps of SQLite's machine, which are the same on every computer."""

    def steps() -> int:
        passed = 0

        def tick() -> int:
            nonlocal passed
            passed += 1
            return 0

        with ledger._file.reading() as db:
            db.set_progress_handler(tick, 10)
        payment = reserve(ledger, draft("new"), Budget(per_hour="9999", per_day="9999", total="9999"))
        ledger.spending(Budget(), now=NOW)
        ledger.history(states=[PaymentState.RESERVED], limit=10)
        ledger.settle(payment.id, PaymentState.DELIVERED, now=NOW)
        with ledger._file.reading() as db:
            db.set_progress_handler(None, 0)
        return passed

    def fill(payments: int) -> None:
        with ledger._file.writing("") as db:
            for number in range(payments):
                created = NOW - 7200 * number / payments  # half of them in the last hour
                done = draft(state=PaymentState.DELIVERED, created=created, valid_before=int(created))
                db.execute(schema.ADD, [*to_row(done), None, 0.0])

    fill(50)
    few = steps()
    fill(5_000)
    assert few > 10
    assert steps() < 4 * few
    assert ledger.spending(Budget(), now=NOW).total == 5_052 * 3 * CENT
