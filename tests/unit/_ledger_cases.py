"""What every `Ledger` does: cases of payments and budgets, each on an empty store, whichever engine keeps it."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tradesdk import (
    Budget,
    InvalidArgumentError,
    Ledger,
    LedgerError,
    Payment,
    PaymentRefusedError,
    PaymentStage,
    Receipt,
    Spending,
    WindowSpending,
)
from tradesdk._values.payment import GRACE
from tradesdk.payments import BudgetDetails, PaymentProof, ReasonCode, WalletDetails
from tradesdk.payments.ledger.changes import Lookup, Resubmit
from tradesdk.payments.ledger.rules import EmptyWallet, empty_of

from .._seeds import one_of
from ._ledger import (
    ADDRESS,
    COUNTS_NOTHING,
    HEADER,
    IN_DOUBT,
    MIDNIGHT,
    NOT_TAKEN,
    NOW,
    ORIGIN,
    OTHER,
    PLACES,
    PLENTY,
    TAKEN,
    UNSENT,
    at,
    budget_of,
    claim,
    collect,
    draft,
    mark,
    put_right,
    release,
    reopen,
    resubmit,
    set_budget,
    spent_by,
    standing,
    submit,
    submitted,
    told,
    trust,
    trusted,
    wanted,
)

CENT = 10_000
PAID = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
REPLY = b'{"data": 1}'
CASES: dict[str, Callable[[Ledger], None]] = {}
"""Every case by its name."""


def over(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One case for each row: the values of arguments, whose names are separated by commas."""
    columns = [name.strip() for name in names.split(",")]
    table = [dict(zip(columns, row if len(columns) > 1 else [row], strict=True)) for row in rows]

    def add(check: Callable[..., None]) -> Callable[..., None]:
        vars(check).setdefault("tables", []).append(table)
        return check

    return add


def case(check: Callable[..., None]) -> Callable[..., None]:
    """Add a case, or one for each combination of its tables' rows."""
    for number, rows in enumerate(itertools.product(*vars(check).get("tables", []))):
        arguments = {name: value for row in rows for name, value in row.items()}
        shown = "-".join(str(value)[:30] for value in arguments.values() if isinstance(value, str | int | float))
        name = f"{check.__name__}[{number}-{shown}]" if arguments else check.__name__
        CASES[name] = partial(check, **arguments)
    return check


def refused(
    store: Ledger, code: str, payment: Payment | None = None, budget: Budget = PLENTY, **changes: Any
) -> PaymentRefusedError:
    """A signature may not be written down: nothing is written, no claim and no recipient either."""
    before = store.history(), trusted(store, ORIGIN)
    with pytest.raises(PaymentRefusedError, match=code) as caught:
        submit(store, payment, budget, **changes)
    assert (caught.value.code, caught.value.charged) == (code, False)
    assert (store.history(), trusted(store, ORIGIN)) == before
    return caught.value


def answered(store: Ledger, **changes: Any) -> Payment:
    """A payment for "call" whose answer nobody has collected, claimed by "me"."""
    payment = submitted(store, draft("call", **changes), owner="me", until=NOW + 200)
    return told(store, payment, ReasonCode.DELIVERED, reply=b"prices")


def deep(levels: int) -> Any:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def refusal(store: Ledger, amount: int, budget: Budget, now: float = NOW) -> PaymentRefusedError:
    return refused(store, "over_budget", draft(amount=amount), budget, now=now)


def spend(store: Ledger, amount: int, when: float, until: int | None = None) -> None:
    """A payment that may be taken from then until then."""
    payment = draft(amount=amount, valid_before=int(when) if until is None else until)
    submitted(store, payment, budget=Budget.unlimited(), now=when)


MONTH = 1_761_955_200
"""November of 2025 begins."""


def windows(spending: Spending) -> list[WindowSpending]:
    return [spending.last_hour, spending.today, spending.this_month, spending.total]


@case
def a_signature_is_kept_as_it_was_given(store: Ledger) -> None:
    asked = draft(body=b"\x00\xff", purchase="tuesday", identified=True, amount=10**18)
    row = store.submit(wanted(asked, Budget.unlimited(), owner="me", until=NOW + 300))
    payment = replace(asked, header=HEADER, counted=10**18, submissions=1, signatures=1)
    assert row is not None
    assert (row.payment, row.owner, row.until) == (payment, "me", NOW + 300)
    assert store.get(asked.id) == payment
    assert standing(store, asked.fingerprint, now=NOW) == payment


@case
def another_recipient_is_refused_until_it_is_trusted(store: Ledger) -> None:
    submitted(store, draft(pay_to=ADDRESS))
    error = refused(store, "recipient_changed", draft(pay_to=OTHER))
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert f"client.payments.trust('{OTHER}')" in error.hint
    assert "pay_to=" in error.hint
    trust(store, ORIGIN, OTHER.lower())
    trust(store, ORIGIN, OTHER)  # known already
    submitted(store, draft(pay_to=OTHER))
    submitted(store, draft(pay_to=ADDRESS))
    assert trusted(store, ORIGIN) == [ADDRESS, OTHER.lower()]


@case
def configured_recipients_are_the_only_ones(store: Ledger) -> None:
    submitted(store, draft(pay_to=ADDRESS))
    submitted(store, draft(pay_to=OTHER), pay_to=[OTHER.lower()])
    error = refused(store, "recipient_changed", draft(pay_to=ADDRESS), pay_to=[OTHER])
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert "add it to pay_to=" in error.hint  # to trust it would not help
    assert trusted(store, ORIGIN) == [ADDRESS]  # what is configured is not remembered


@case
def a_hostile_recipient_cannot_write_to_the_terminal(store: Ledger) -> None:
    submitted(store)
    error = refused(store, "recipient_changed", draft(pay_to="0x\x1b[2J\n" + "A" * 500))
    assert (error.message + error.hint).isprintable()
    assert len(str(error)) < 1000


@case
def the_same_id_cannot_be_written_twice(store: Ledger) -> None:
    first = submitted(store)
    with pytest.raises(LedgerError) as caught:
        submit(store, draft(id=first.id), owner="another")
    assert caught.value.code == "ledger_failed"
    assert store.history() == [first]
    store.check()


@case
@over("raw", [{"deep": deep(900)}, {"set": {1}}, {"number": 10**5000}])
def an_odd_receipt_does_not_keep_the_rest_from_being_written(store: Ledger, raw: dict[str, Any]) -> None:
    odd = Receipt(success=True, transaction="0x\ud800", network="eip155:8453", raw=raw)
    payment = submitted(store)
    told(store, payment, ReasonCode.DELIVERED, "odd \ud800\x00", receipt=odd)
    kept = store.get(payment.id)
    assert kept is not None
    assert kept.receipt is not None
    assert (kept.stage, kept.receipt.success, kept.receipt.transaction) == (PaymentStage.ANSWERED, True, "0x\ud800")
    assert kept.reason == "odd \\ud800\\x00"
    assert kept.receipt.raw in (raw, {})


@case
def an_unknown_id(store: Ledger) -> None:
    assert store.get("pay_nobody") is None
    with pytest.raises(InvalidArgumentError, match="limit must be 1 or more"):
        store.history(limit=-1)
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        store.history(before="pay_nobody")
    nobody = draft(id="pay_nobody")
    moves: list[Callable[[], object]] = [
        lambda: resubmit(store, nobody),
        lambda: told(store, nobody, ReasonCode.DELIVERED),
        lambda: mark(store, nobody, paid=True),
        lambda: claim(store, nobody, "me"),
        lambda: release(store, nobody, "me"),
    ]
    for move in moves:
        with pytest.raises(LedgerError, match="pay_nobody is no longer in the ledger") as caught:
            move()
        assert caught.value.code == "ledger_failed"
    assert submit(store, nobody, earlier=nobody) is None
    assert store.history() == []


@case
def history_without_proof(store: Ledger) -> None:
    made = [submitted(store, draft(f"call {number}", id=f"pay_{number}")) for number in range(5)]
    for one in made:
        told(store, one, ReasonCode.DELIVERED)
    receipt = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
    told(store, made[0], ReasonCode.DELIVERED, receipt=receipt)
    told(store, made[2], ReasonCode.DELIVERED, receipt=replace(receipt, success=False))
    mark(store, made[3], paid=True)
    at(store, UNSENT, fingerprint="call 5", id="pay_5")
    for stages, expected in (((), ["5", "4", "2", "1"]), ((PaymentStage.ANSWERED,), ["4", "2", "1"])):
        found: list[Payment] = []
        while page := store.history(stages=stages, unproven=True, limit=2, before=found[-1].id if found else None):
            found += page
        assert [one.id for one in found] == [f"pay_{number}" for number in expected]


@case
@over(
    "seconds, given",
    [(0, True), (59.999, True), (60, False), (1e6, False), (-5, True), (-5.001, False), (-1e6, False)],
)
def an_answer_waits_for_a_minute(store: Ledger, seconds: float, given: bool) -> None:
    """By a clock that was put back by more than five seconds, nobody knows how old it is."""
    payment = answered(store)
    now = NOW + seconds
    assert standing(store, "call", now=now) == (payment if given else None)
    asked = draft("call", pay_to=OTHER)
    # Neither the recipient nor the budget is looked at: nothing new is bought.
    if given:
        assert submit(store, asked, Budget(), now=now) is None
    else:
        assert submitted(store, asked, pay_to=[OTHER], now=now).id == asked.id
    assert store.get(payment.id) == payment  # its reply stays


@case
@over("name, keep, kept", [(None, False, False), (None, True, True), ("monday", False, True)])
def an_unnamed_answer_is_collected_once(store: Ledger, name: str | None, keep: bool, kept: bool) -> None:
    payment = answered(store, purchase=name)
    after = replace(payment, waits=False, reply=b"prices" if kept else None)
    for kept_again in (keep, False):
        collect(store, payment, "me", keep=kept_again)
        assert store.get(payment.id) == after
        assert standing(store, "call", now=NOW) == (None if name is None else after)
        assert claim(store, payment, "other")  # its claim was given back
    reopen(store, payment, "other", b"prices")
    opened = replace(after, waits=True, reply=b"prices")
    assert store.get(payment.id) == opened
    assert standing(store, "call", now=NOW) == opened
    assert claim(store, payment, "another")


@case
def the_same_outcome_once_more_opens_nothing(store: Ledger) -> None:
    payment = answered(store)
    collect(store, payment, "me")
    told(store, payment, ReasonCode.DELIVERED, reply=b"prices")
    assert standing(store, "call", now=NOW) is None


@case
def a_claim_of_somebody_else_stays(store: Ledger) -> None:
    payment = answered(store)
    reopen(store, payment, "other", b"")
    assert not claim(store, payment, "other")
    collect(store, payment, "other")
    assert not claim(store, payment, "other")
    release(store, payment, "other")
    assert not claim(store, payment, "other")


@case
@over("place", [UNSENT, *IN_DOUBT, *NOT_TAKEN, *TAKEN, "marked unpaid"])
def without_a_name_an_old_payment_is_continued_only_while_its_bytes_are_valid(store: Ledger, place: str) -> None:
    """Then nothing is signed for it again: the call wants the data of now."""
    first = at(store, place, fingerprint="call")
    assert standing(store, "call", now=NOW, since=NOW) == standing(store, "call", now=NOW) == store.get(first.id)
    is_live = place in (*IN_DOUBT, *NOT_TAKEN)
    assert standing(store, "call", now=NOW, since=NOW + 1) == (store.get(first.id) if is_live else None)
    end = first.valid_before
    assert (standing(store, "call", now=NOW, since=NOW + 1, over=end - 1) is not None) == is_live
    assert standing(store, "call", now=NOW, since=NOW + 1, over=end) is None
    second = submitted(store, draft("call", valid_before=end + 60), now=NOW + 100, over=end, since=NOW + 1)
    assert second.id != first.id
    assert store.spending(PLENTY, now=end).total.counted == 3 * CENT + (0 if first.paid is False else first.counted)


@case
@over("place", ["delivered", "marked paid"])
def without_a_name_what_is_settled_is_another_purchase(store: Ledger, place: str) -> None:
    at(store, place, fingerprint="call")
    assert standing(store, "call", now=NOW) is None


@case
@over("place", PLACES)
def a_name_is_found_for_ever(store: Ledger, place: str) -> None:
    first = at(store, place, fingerprint="call", purchase="tuesday")
    assert standing(store, "call", now=NOW + 9e8, since=NOW + 9e8) == store.get(first.id)


LATER: dict[str, Any] = {"now": NOW + 200, "over": NOW + 200}
"""When what was signed at NOW has expired."""


def signed_again(store: Ledger, earlier: Payment, budget: Budget = PLENTY, **changes: Any) -> Payment:
    """Its nonce, signed again at `LATER` for 200 seconds."""
    values: dict[str, Any] = {"amount": earlier.amount, "valid_before": int(NOW) + 400, "purchase": earlier.purchase}
    for name in {"amount", "valid_before", "run"} & changes.keys():
        values[name] = changes.pop(name)
    return submitted(store, draft(earlier.fingerprint, **values), budget, earlier=earlier, **{**LATER, **changes})


@case
@over("place", PLACES)
@over("name", [None, "tuesday"])
def what_is_signed_again_and_what_is_not(store: Ledger, place: str, name: str | None) -> None:
    """What was not handed over at once; what has expired or is proven unpaid then. Always the same nonce."""
    first = at(store, place, fingerprint="call", purchase=name)
    unpaid = place in ("marked unpaid", "unpaid by the chain")
    at_once = unpaid or place == UNSENT
    asked = draft("call", purchase=name, valid_before=int(NOW) + 400)
    signed = submit(store, asked, earlier=first)
    if not at_once:
        assert (signed, store.get(first.id)) == (None, first)
        signed = submit(store, asked, earlier=first, **LATER)
    assert (signed is not None) == (at_once or place in (*IN_DOUBT, *NOT_TAKEN))
    if signed is None:
        assert store.get(first.id) == first
    else:
        assert (signed.id, signed.nonce, signed.signatures) == (first.id, first.nonce, first.signatures + 1)
        assert (signed.paid, signed.proof, signed.counted) == (None, PaymentProof.NONE, 3 * CENT)
        assert [one.id for one in store.history()] == [first.id]
    store.check()


def claimed(store: Ledger, payment: Payment) -> None:
    assert claim(store, payment, "you", until=NOW + 260, now=NOW + 200)


FASTER: dict[str, Callable[[Ledger, Payment], object]] = {
    "has claimed it": claimed,
    "has signed it": lambda store, payment: signed_again(store, payment, now=NOW + 150, over=NOW + 150),
    "has signed it, and it was not handed over": lambda store, payment: told(
        store, signed_again(store, payment), ReasonCode.UNKNOWN, sent=False, before=payment
    ),
    "was told that it is used": lambda store, payment: told(store, payment, ReasonCode.UNDELIVERED),
    "got the answer": lambda store, payment: told(store, payment, ReasonCode.DELIVERED, reply=REPLY, now=NOW + 200),
}
"""What another call did while this one signed."""


@case
@over("name", [None, "tuesday"])
@over("way", FASTER)
@over("budget", [Budget(), PLENTY])
def a_signature_that_comes_too_late_is_dropped(store: Ledger, way: str, name: str | None, budget: Budget) -> None:
    """It was made in memory, so it binds nobody. Whether the budget has room does not matter: nothing is bought."""
    first = submitted(store, draft("call", purchase=name), owner="me", until=NOW + 10)
    FASTER[way](store, first)
    before = store.get(first.id), store.spending(PLENTY, now=NOW)
    asked = draft("call", purchase=name, valid_before=int(NOW) + 400, amount=9 * CENT)
    late: dict[str, Any] = {"owner": "me", "until": NOW + 600, **LATER}
    assert submit(store, asked, budget, earlier=first, **late) is None
    assert (store.get(first.id), store.spending(PLENTY, now=NOW)) == before
    if way == "has claimed it":
        submitted(store, asked, earlier=first, **{**late, "now": NOW + 261})  # the claim has ended


@case
@over("name", [None, "tuesday"])
def of_two_first_signatures_one_is_written(store: Ledger, name: str | None) -> None:
    """Both calls looked, and saw nothing. The second one may even want something else under the same name."""
    first = submitted(store, draft("call", purchase=name))
    other = draft("call", purchase=name, body=b"another", url=f"{ORIGIN}/v1/other", pay_to=OTHER)
    assert submit(store, other, Budget()) is None
    assert store.history() == [first]
    assert trusted(store, ORIGIN) == [ADDRESS]


@case
def a_signature_is_not_written_for_what_is_not_there(store: Ledger) -> None:
    """The call saw another payment than the ledger finds: an unnamed one, whose time is over."""
    first = submitted(store, draft("call"))
    assert submit(store, draft("call"), earlier=first, since=NOW + 201, **LATER) is None
    second = submitted(store, draft("call", valid_before=int(NOW) + 230), since=NOW + 201, **LATER)
    assert submit(store, draft("call"), earlier=first, now=NOW + 300, over=NOW + 300) is None
    assert store.history() == [second, first]


BEFORE = ("new", UNSENT, *IN_DOUBT, *NOT_TAKEN, "marked unpaid", "unpaid by the chain")
"""Where a payment may be before it is signed (again)."""


@case
@over("place", BEFORE)
@over("amount", [CENT, 5 * CENT])
def a_signature_that_was_not_handed_over_counts_nothing(store: Ledger, place: str, amount: int) -> None:
    """All that counts is as before it: amount, end and proof. Only its number stays."""
    first = draft("call") if place == "new" else at(store, place, fingerprint="call")
    moments = [NOW, NOW + 200, NOW + 3720, NOW + 3780, NOW + 4000, NOW + 86_400, NOW + 9e8]
    counted = [store.spending(PLENTY, now=moment) for moment in moments]
    asked = draft("call", amount=amount, valid_before=int(NOW) + 400)
    mine: dict[str, Any] = {"owner": "me", "until": NOW + 300, **LATER}
    signed = submitted(store, asked, earlier=None if place == "new" else first, **mine)
    was_counted = place in (*IN_DOUBT, *NOT_TAKEN, "marked unpaid")
    assert (signed.counted, signed.paid) == (max(amount, 3 * CENT) if was_counted else amount, None)
    if place == "new":
        first = replace(asked, created=NOW + 200)
    code = ReasonCode.UNKNOWN if first.in_doubt else ReasonCode.NOT_RECEIVED
    unsent: dict[str, Any] = {"sent": False, "before": asked if place == "new" else first, "now": NOW + 201}
    for owner, number in (("you", signed.signatures), ("me", signed.signatures - 1)):
        assert told(store, replace(signed, signatures=number), code, owner=owner, **unsent) == signed
    after = told(store, signed, code, "why", owner="me", **unsent)
    assert after == replace(first, signatures=signed.signatures, code=code, reason="why")
    assert (after.is_unsent, after.charged) == (place in ("new", UNSENT), first.charged)
    assert [store.spending(PLENTY, now=moment) for moment in moments] == counted
    store.check()
    again = submitted(store, replace(asked, amount=CENT), earlier=after, **{**mine, "now": NOW + 202})
    assert again.nonce == signed.nonce
    assert (again.signatures, again.submissions) == (signed.signatures + 1, signed.submissions)
    assert again.counted == (3 * CENT if was_counted else CENT)


@case
@over("name", [None, "tuesday"])
@over("way", ["was first", *FASTER])
def a_signature_that_was_not_written_leaves_what_another_call_wrote(store: Ledger, way: str, name: str | None) -> None:
    """It must neither take its place, nor undo it: the next call would pay a second time."""
    first = None if way == "was first" else submitted(store, draft("call", purchase=name))
    asked = draft("call", purchase=name, valid_before=int(NOW) + 400)
    change = wanted(asked, earlier=first, owner="me", until=NOW + 300, **LATER)
    if first is None:
        first = submitted(store, draft("call", purchase=name))
    else:
        FASTER[way](store, first)
    kept = store.overview(Lookup(now=NOW, budget=PLENTY, fingerprint="call")).row
    put_right(store, change)
    assert [one.id for one in store.history()] == [first.id]
    found = store.overview(Lookup(now=NOW, budget=PLENTY, fingerprint="call")).row
    assert found == kept
    store.check()


@case
@over("place", ["new", "unknown", "marked unpaid"])
def what_was_resent_is_not_unsent(store: Ledger, place: str) -> None:
    """The first submission of a signature may have arrived, though the second one was not handed over."""
    first = draft("call", valid_before=int(NOW) + 400) if place == "new" else at(store, place, fingerprint="call")
    mine: dict[str, Any] = {"owner": "me", "until": NOW + 300}
    if place == "new":
        signed = submitted(store, first, **LATER, **mine)
    else:
        signed = signed_again(store, first, amount=5 * CENT, **mine)
    again = resubmit(store, signed, owner="me", now=NOW + 201)
    after = told(store, again, ReasonCode.UNKNOWN, sent=False, before=first, owner="me", now=NOW + 202)
    assert after == replace(signed, code=ReasonCode.UNKNOWN)
    assert store.spending(PLENTY, now=NOW + 202).held == signed.counted


@case
@over("window", ["per_hour", "per_day", "per_month", "total"])
@over("proven", [False, True])
def a_refusal_to_sign_again_says_what_is_spent_and_held_besides(store: Ledger, window: str, proven: bool) -> None:
    """The largest amount that was signed stays counted: what it adds to the new one is held with the rest."""
    first = submitted(store, draft("call"))
    other = submitted(store, draft("other", valid_before=int(NOW) + 400))
    if proven:
        told(store, other, ReasonCode.DELIVERED, receipt=PAID, now=NOW + 200)
    asked = draft("call", amount=20_000, valid_before=int(NOW) + 300)
    error = refused(store, "over_budget", asked, Budget.from_micro({window: 59_999}), earlier=first, **LATER)
    details = error.details
    assert isinstance(details, BudgetDetails)
    held = Decimal("0.01") + (0 if proven else Decimal("0.03"))
    assert (details.spent, details.held) == (Decimal("0.03") if proven else 0, held)
    assert details.left == Decimal("0.019999")
    submitted(store, asked, Budget.from_micro({window: 60_000}), earlier=first, **LATER)


@case
@over("hours", [0.5, 2, 30, 800])
def a_nonce_that_is_signed_again_counts_in_the_windows_of_now(store: Ledger, hours: float) -> None:
    """Once, and all of it is held, whenever it was signed before."""
    first = submitted(store, draft("call"))
    now = NOW + hours * 3600
    submitted(store, draft("call", valid_before=int(now) + 60), earlier=first, now=now, over=now)
    spending = store.spending(PLENTY, now=now)
    assert {(one.counted, one.held) for one in windows(spending)} == {(30_000, 30_000)}


@case
@over("until", [-60, 0, 1])
def a_signature_that_ends_earlier_counts_as_long_as_the_one_before(store: Ledger, until: int) -> None:
    """A service's date may have said so: the first one may still be taken."""
    first = submitted(store, draft("call"))
    end = first.counts_until + until
    signed = signed_again(store, first, valid_before=end, now=NOW + 90)
    assert (signed.valid_before, signed.counts_until) == (end, max(end, first.counts_until))
    store.check()


@case
@over("seconds", [200, -4000])
def what_another_call_wrote_while_this_one_signed_counts(store: Ledger, seconds: int) -> None:
    """Also if the clock was put forward or back meanwhile: two calls never have the same room."""
    budget, now = Budget(total="0.03"), NOW + seconds
    slow = draft()
    submitted(store, draft(valid_before=int(now) + 60), budget, now=now)
    refused(store, "over_budget", slow, budget, owner="slow", until=NOW + 300)
    assert store.spending(budget, now=NOW).total.counted == 30_000


@case
@over("place, counts", [("marked unpaid", 5 * CENT), ("unpaid by the chain", 2 * CENT)])
def only_the_chain_forgets_what_was_signed_before(store: Ledger, place: str, counts: int) -> None:
    """A person may be wrong: with the next signature the largest amount comes back whole."""
    first = at(store, place, fingerprint="call", amount=5 * CENT)
    assert store.spending(PLENTY, now=NOW).total.counted == 0
    asked = draft("call", amount=2 * CENT, valid_before=int(NOW) + 400)
    enough = Budget.from_micro({"total": counts})
    refused(store, "over_budget", asked, Budget.from_micro({"total": counts - 1}), earlier=first, **LATER)
    refused(store, "over_total", replace(asked, run="r"), earlier=first, max_total=counts - 1, **LATER)
    signed = submitted(store, asked, enough, earlier=first, max_total=counts, **LATER)
    assert (signed.counted, signed.amount_usd) == (counts, Decimal(counts) / 1_000_000)
    assert store.spending(PLENTY, now=NOW + 200).held == counts


def of_run(run: str | None = "r", **changes: Any) -> Payment:
    return draft(run=run, **changes)


@case
def a_run_hands_over_its_total_at_most(store: Ledger) -> None:
    for _ in range(2):
        submitted(store, of_run(), max_total=60_000)
    submitted(store, of_run("another"), max_total=60_000)
    submitted(store, draft())
    assert refused(store, "over_total", of_run(), max_total=60_000).details == BudgetDetails(
        cost=Decimal("0.03"),
        limit="max_total",
        limit_amount=Decimal("0.06"),
        spent=Decimal(0),
        held=Decimal("0.06"),
        left=Decimal(0),
    )
    assert spent_by(store, "r") == (60_000, 60_000)
    submitted(store, of_run(), max_total=90_000)


@case
def a_total_is_a_budget_when_there_is_no_other(store: Ledger) -> None:
    submitted(store, of_run(), Budget(), max_total=30_000)
    refused(store, "over_total", of_run(), Budget(), max_total=30_000)
    refused(store, "no_budget", of_run(), Budget())


@case
def what_was_never_sent_leaves_room_in_a_run(store: Ledger) -> None:
    for _ in range(3):
        told(store, submitted(store, of_run(), max_total=30_000), ReasonCode.NOT_RECEIVED)
    assert spent_by(store, "r") == (0, 0)


@case
def a_nonce_counts_once_in_a_run_with_the_largest_amount(store: Ledger) -> None:
    first = submitted(store, of_run(fingerprint="call"), max_total=60_000)
    signed = signed_again(store, first, amount=1, run="r", max_total=30_000)
    assert (signed.amount, signed.counted, signed.amount_usd) == (1, 30_000, Decimal("0.03"))
    assert spent_by(store, "r", now=NOW + 200) == (30_000, 30_000)
    refused(store, "over_total", of_run(amount=30_001), max_total=60_000, **LATER)


@case
@over("window", ["per_hour", "per_day", "per_month"])
@over("proven", [True, False])
@over("ends", [MONTH - 1, MONTH, MONTH + 1])
def a_payment_counts_until_its_last_second(store: Ledger, window: str, proven: bool, ends: int) -> None:
    """What expires at midnight counts on the day before only. A receipt is the service's word: it moves nothing."""
    taken = ends - 1.0
    first = submitted(store, draft(valid_before=ends), now=taken - 30)
    if proven:
        told(store, first, ReasonCode.DELIVERED, receipt=PAID, now=taken - 20)
    leaves = ((ends - 1) // 60 + 1) * 60 + 3600 if window == "per_hour" else (taken // 86_400 + 1) * 86_400
    if window == "per_month":
        leaves = MONTH if taken < MONTH else MONTH + 30 * 86_400
    for moment, counts in ((taken, 30_000), (leaves - 0.001, 30_000), (leaves, 0)):
        spending = store.spending(PLENTY, now=moment)
        assert spending.by_limit()[window].counted == counts
    assert room_at(store, draft(), Budget.from_micro({window: 30_000}), taken) == leaves


@case
@over("told_amount", [None, 0, 10_000, 30_000, 10**30])
@over("before", [0, 50_000])
def a_receipt_proves_its_amount_and_holds_the_rest(store: Ledger, told_amount: int | None, before: int) -> None:
    """Whatever it says, the largest amount that was signed counts, until a person says that the receipt is right."""
    payment = submitted(store, draft(amount=before or 30_000))
    if before:
        payment = told(store, payment, ReasonCode.UNKNOWN)
        payment = signed_again(store, payment, amount=30_000)
    most = payment.counted
    told(store, payment, ReasonCode.DELIVERED, receipt=replace(PAID, amount=told_amount))
    proven = min(most, 30_000 if told_amount is None else told_amount)
    spending = store.spending(PLENTY, now=NOW)
    assert (spending.total.counted, spending.today.counted) == (most, most)
    assert (spending.total.held, spending.today.held) == (most - proven, most - proven)
    store.check()
    for paid in (False, True) if proven == most else (False,):
        with pytest.raises(PaymentRefusedError, match="not_unresolved"):
            mark(store, payment, paid=paid, now=NOW + 10_000)
    if proven == most:
        return
    marked = mark(store, payment, paid=True)
    spending = store.spending(PLENTY, now=NOW)
    assert (marked.charged, spending.total.counted, spending.held) == (True, proven, 0)
    store.check()


@case
def what_the_chain_said_before_another_signature_is_not_written(store: Ledger) -> None:
    """It was asked about the first one."""
    first = submitted(store, draft("call"))
    again = signed_again(store, first)
    with pytest.raises(PaymentRefusedError, match="not_unresolved"):
        mark(store, again, paid=False, evidence="chain: unused", signatures=first.signatures, now=NOW + 10_000)
    assert store.get(first.id) == again
    marked = mark(store, again, paid=False, evidence="chain: unused", signatures=again.signatures, now=NOW + 10_000)
    assert marked.charged is False


@case
def what_the_chain_says_beside_a_smaller_receipt_is_not_the_amount(store: Ledger) -> None:
    payment = submitted(store, draft())
    told(store, payment, ReasonCode.DELIVERED, receipt=replace(PAID, amount=10_000))
    mark(store, payment, paid=True, evidence="chain: paid")
    spending = store.spending(PLENTY, now=NOW)
    assert (spending.total.counted, spending.held) == (30_000, 0)


@case
def a_later_receipt_may_prove_more_and_not_less(store: Ledger) -> None:
    payment = submitted(store, draft())
    for amount, held in ((10_000, 20_000), (5_000, 20_000), (20_000, 10_000)):
        told(store, payment, ReasonCode.DELIVERED, receipt=replace(PAID, amount=amount))
        assert store.spending(PLENTY, now=NOW).held == held
        store.check()


@case
@over("left", ["open", "answered", "taken", "unsent", "unpaid by chain", "unpaid by person"])
def a_name_belongs_to_the_wallet_that_may_have_paid_for_it(store: Ledger, left: str) -> None:
    """After a change of keys, each name would be bought once more."""
    first = submitted(store, draft("theirs", purchase="prices"))
    match left:
        case "answered":
            told(store, first, ReasonCode.DELIVERED, reply=b"{}")
        case "taken":
            told(store, first, ReasonCode.UNDELIVERED)
        case "unsent":
            told(store, first, ReasonCode.NOT_RECEIVED)
        case "unpaid by chain" | "unpaid by person":
            mark(store, first, paid=False, evidence="chain: unused" * ("chain" in left), now=first.counts_until + GRACE)
    ours = draft("ours", purchase="prices", payer="0x" + "ab" * 20)
    if left.startswith("un"):
        submitted(store, ours, now=NOW + 300)
    else:
        with pytest.raises(PaymentRefusedError, match="purchase_changed") as caught:
            submitted(store, ours, now=NOW + 300)
        assert first.payer in caught.value.message
        assert ours.payer in caught.value.message
        assert len(store.history()) == 1
    submitted(store, draft(purchase="other", payer=ours.payer), now=NOW + 300)


@case
def a_payment_stays_in_its_run_until_another_one_has_signed_it(store: Ledger) -> None:
    first = submitted(store, of_run(fingerprint="call"), max_total=30_000)
    signed = signed_again(store, first, run="another", max_total=30_000)
    assert (signed.id, signed.run) == (first.id, "another")
    after = told(store, signed, ReasonCode.UNKNOWN, sent=False, before=first)
    assert after.run == "r"
    assert signed_again(store, after, now=NOW + 201).run == "r"  # a single call
    refused(store, "over_total", of_run(), max_total=30_000, **LATER)


@case
@over("signs", [True, False])
def a_run_counts_every_nonce_that_it_ever_handed_over(store: Ledger, signs: bool) -> None:
    """Also those that another run has signed or resent since: either submission may be taken. Each counts once."""
    payment = submitted(store, of_run(fingerprint="call"), max_total=30_000)
    for later, run in ((200, "another"), (400, "r")):
        now = NOW + later if signs else NOW
        if signs:
            end: dict[str, Any] = {"valid_before": int(now) + 60, "now": now, "over": now}
            payment = signed_again(store, payment, run=run, max_total=30_000, **end)
        else:
            payment = resubmit(store, payment, run=run, max_total=30_000)
        assert payment.run == run
        for each in ("r", "another"):
            assert spent_by(store, each, now=now) == (30_000, 30_000)
            refused(store, "over_total", of_run(each), max_total=59_999, now=now, over=now)
    with pytest.raises(PaymentRefusedError, match="over_total"):
        resubmit(store, payment, run="third", max_total=29_999, now=NOW + 400)


def room_at(store: Ledger, payment: Payment, budget: Budget, now: float, **changes: Any) -> float | None:
    """When the refusal says that there is room; it is true, and a second before there is none."""
    details = refused(store, "over_budget", payment, budget, now=now, over=now, **changes).details
    assert isinstance(details, BudgetDetails)
    if details.room_at is None:
        return None
    room = details.room_at.timestamp()
    assert room % 60 == 0
    refused(store, "over_budget", payment, budget, now=room - 1, over=now, **changes)
    later = replace(payment, valid_before=int(room) + 60, counts_until=int(room) + 60)
    submitted(store, later, budget, now=room, over=now, **changes)
    return room


@case
def there_is_room_from_the_moment_that_a_refusal_tells(store: Ledger) -> None:
    """Whatever was paid before, whichever limits are set, and whatever was signed for the nonce before."""
    chance, now = random.Random(1), NOW
    found: set[float | None] = set()
    while len(found) < 10:
        for _ in range(chance.randrange(6)):
            now += chance.choice([0.25, 7, 61, 600])
            spend(store, chance.randrange(1, 4) * CENT, now, until=int(now) + chance.randrange(120))
        first = submitted(store, draft(amount=chance.randrange(1, 5) * CENT, valid_before=int(now)), now=now)
        limits = {name: chance.choice([None, 4, 6, 9]) for name in ("per_hour", "per_day")}
        budget = Budget.from_micro({name: limit and limit * CENT for name, limit in limits.items()})
        earlier = chance.choice([None, first])
        asked = draft(
            first.fingerprint if earlier else None, amount=chance.randrange(1, 5) * CENT, valid_before=int(now) + 60
        )
        try:
            submitted(store, asked, budget.strictest(PLENTY), now=now, over=now, earlier=earlier)
        except PaymentRefusedError:
            room = room_at(store, asked, budget, now, earlier=earlier)
            now = max(now, room or 0)
            found.add(room)
    assert len(found - {None}) > 6
    store.check()


@case
@over("signed, room", [(6 * CENT, 7300), (CENT, 7240), (9 * CENT, None)])
def there_is_room_for_all_that_a_nonce_counts(store: Ledger, signed: int, room: int | None) -> None:
    """Also for what was signed for it before, if that is more than it costs now."""
    first = submitted(store, draft("call", amount=signed))
    now = NOW + 3700
    for second in (3600, 3660):
        spend(store, 3 * CENT, NOW + second)
    asked = draft("call", amount=4 * CENT)
    assert room_at(store, asked, Budget(per_hour="0.08"), now, earlier=first) == (room and NOW + room)


@case
def a_limit_below_the_price_leaves_room_never(store: Ledger) -> None:
    """Whatever the other limits do: it is the one to raise."""
    spend(store, CENT, NOW)
    error = refusal(store, 3 * CENT, Budget(per_hour="0.02", per_day="0.03", total="0.03"))
    details = error.details
    assert isinstance(details, BudgetDetails)
    assert (details.limit, details.room_at, error.hint[:17]) == ("per_hour", None, "raise that budget")


@case
def another_purchase_secret_is_refused_where_it_is_written(store: Ledger) -> None:
    """Two programs may look at the same moment; the transaction that writes it has the last word."""
    submitted(store, draft("a", purchase="a"), secret_id="one")
    second = draft("b", purchase="b")
    refused(store, "purchase_secret_changed", second, secret_id="two")
    assert submitted(store, second, secret_id="one").id == second.id


@case
def a_recipient_is_remembered_with_the_first_signature(store: Ledger) -> None:
    """Two calls may have looked while none was known. One that is refused remembers none."""
    refused(store, "over_budget", draft(pay_to=OTHER), Budget(per_call="0.02"))
    submitted(store, draft(pay_to=OTHER), pay_to=[OTHER])  # nor one that is configured
    assert trusted(store, ORIGIN) == []
    submitted(store, draft())
    refused(store, "recipient_changed", draft(pay_to=OTHER))
    assert trusted(store, ORIGIN) == [ADDRESS]


@case
@over("place", [*IN_DOUBT, *NOT_TAKEN])
def what_is_resubmitted_may_be_taken(store: Ledger, place: str) -> None:
    payment = at(store, place)
    again = resubmit(store, payment, now=NOW + 1)
    assert again.in_doubt
    assert (again.code, again.reason) == (ReasonCode.NONE, "")
    assert (again.submissions, again.header) == (payment.submissions + 1, HEADER)
    assert store.get(payment.id) == again


@case
@over("collected", [False, True])
def an_answer_that_nobody_has_is_kept_until_somebody_has_it(store: Ledger, collected: bool) -> None:
    """It can be had by its payment's id, however old it is. What was collected and kept ends after 30 days."""
    payment = answered(store)
    if collected:
        collect(store, payment, "me", keep=True)
    submitted(store, draft(valid_before=int(NOW) + 31 * 86_400), now=NOW + 31 * 86_400 - 60)
    found = store.get(payment.id)
    assert found is not None
    assert (found.reply is None) is collected


@case
@over("until, free", [(NOW + 300, False), (NOW + 330, False), (NOW + 331, True), (NOW, True)])
def a_claim_that_ends_later_than_any_may_is_void(store: Ledger, until: float, free: bool) -> None:
    """It was made before the clock was set back: it could last for days."""
    payment = submitted(store, draft(), owner="me", until=until)
    again = store.update(payment.id, Resubmit(signatures=1, owner="you", until=NOW + 300, now=NOW))
    assert again.mine is free


@case
def only_the_call_that_has_claimed_it_resubmits_it(store: Ledger) -> None:
    payment = submitted(store, draft(), owner="me", until=NOW + 300)
    for change in ({"owner": "you"}, {"owner": "me", "signatures": 2}):
        assert resubmit(store, payment, **change) == payment
    unsent = at(store, UNSENT)
    assert resubmit(store, unsent) == unsent
    assert (store.get(payment.id), store.get(unsent.id)) == (payment, unsent)


@case
def that_it_was_not_taken_says_only_its_call(store: Ledger) -> None:
    """Another one may have sent it since, or signed it again."""
    payment = submitted(store, draft(), owner="me", until=NOW + 300)
    for code in (ReasonCode.REJECTED, ReasonCode.REFUSED, ReasonCode.NOT_RECEIVED):
        assert told(store, payment, code, owner="you") == payment
    assert told(store, payment, ReasonCode.UNKNOWN, "pending", owner="you").reason == "pending"
    older = replace(payment, signatures=0)
    assert told(store, older, ReasonCode.UNKNOWN, "lost", owner="me").reason == "pending"
    assert told(store, older, ReasonCode.UNDELIVERED, owner="you").stage is PaymentStage.TAKEN
    assert told(store, older, ReasonCode.DELIVERED, owner="you").stage is PaymentStage.ANSWERED
    assert told(store, payment, ReasonCode.UNDELIVERED, owner="me").stage is PaymentStage.ANSWERED


@case
@over("place", ["marked unpaid", "unpaid by the chain"])
@over("code", [ReasonCode.DELIVERED, ReasonCode.UNDELIVERED])
def an_answer_overrules_whoever_said_that_it_was_not_taken(store: Ledger, place: str, code: ReasonCode) -> None:
    payment = at(store, place)
    after = told(store, payment, code)
    assert (after.paid, after.proof, after.charged) == (None, PaymentProof.NONE, "unknown")
    assert store.spending(PLENTY, now=NOW).held == 30_000
    proven = told(store, payment, code, receipt=PAID)
    assert (proven.paid, proven.proof) == (True, PaymentProof.RECEIPT)
    assert told(store, payment, code, receipt=replace(PAID, success=False)).receipt == PAID  # it is never undone


@case
@over("place", [UNSENT, *IN_DOUBT, *NOT_TAKEN, "delivered", *TAKEN])
@over("paid", [True, False])
@over("evidence", ["", "chain: at block 1"])
def what_may_be_marked(store: Ledger, place: str, paid: bool, evidence: str) -> None:
    """As unpaid only once nothing can be taken any more; the chain knows before a person does."""
    payment = at(store, place)
    over = payment.counts_until + GRACE
    early = (place in ("delivered", *TAKEN) and paid) or (place != UNSENT and bool(evidence))
    for now, allowed in ((over - 1, early), (over, place != UNSENT)):
        if not allowed:
            with pytest.raises(PaymentRefusedError, match="not_unresolved") as refused:
                mark(store, payment, paid=paid, evidence=evidence, now=now)
            assert refused.value.payment == payment
            continue
        after = mark(store, payment, paid=paid, evidence=evidence, now=now)
        stage = PaymentStage.TAKEN if paid else PaymentStage.SENT
        assert after.stage is (payment.stage if place == "delivered" else stage)
        assert (after.paid, after.charged, after.header) == (paid, paid, None)
        assert after.proof is (PaymentProof.CHAIN if evidence else PaymentProof.PERSON)
        assert store.spending(PLENTY, now=NOW).total.counted == (30_000 if paid else 0)
        break


@case
@over("place", ["marked unpaid", "unpaid by the chain"])
@over("code, free", [(ReasonCode.NOT_RECEIVED, True), (ReasonCode.REJECTED, False), (ReasonCode.UNKNOWN, False)])
def what_is_proven_unpaid_stays_so_until_another_signature_leaves(
    store: Ledger, place: str, code: ReasonCode, free: bool
) -> None:
    first = at(store, place, fingerprint="call")
    signed = signed_again(store, first)
    assert (signed.charged, store.spending(PLENTY, now=NOW + 200).held) == ("unknown", 30_000)
    after = told(store, signed, code, now=NOW + 200, before=first)
    assert (after.charged, after.proof) == ((False, first.proof) if free else ("unknown", PaymentProof.NONE))
    assert store.spending(PLENTY, now=NOW + 200).total.counted == (0 if free else 30_000)


@case
def what_the_chain_says_paid_a_person_closes(store: Ledger) -> None:
    payment = at(store, "paid by the chain", fingerprint="call")
    assert standing(store, "call", now=NOW) == payment
    closed = mark(store, payment, paid=True, now=NOW + 200)
    assert (closed.proof, closed.reason) == (PaymentProof.PERSON, payment.reason)
    assert standing(store, "call", now=NOW) is None
    with pytest.raises(PaymentRefusedError, match="not_unresolved"):
        mark(store, payment, paid=False, now=NOW + 200)


@case
def the_newest_reply_of_a_named_purchase_counts(store: Ledger) -> None:
    first = answered(store, purchase="tuesday")
    newest = told(store, first, ReasonCode.DELIVERED, reply=b"newer")
    newest = collect(store, newest, "me").payment
    for seconds, kept in ((0, newest), (1, replace(newest, reply=None))):  # after 30 days; it still stands
        now = NOW + 30 * 86400 + seconds
        assert store.overview(Lookup(now=now, budget=PLENTY, fingerprint="call")).payment == kept
        assert submit(store, draft("call", purchase="tuesday"), now=now) is None
        assert submit(store, draft(), now=now) is not None
        assert store.get(first.id) == kept  # it is deleted


@case
def threads_that_buy_one_name_pay_once(store: Ledger) -> None:
    """Each looks, sees nothing, and is late by any amount: the writing itself has to notice."""
    start, done, got = threading.Barrier(8), threading.Event(), []

    def run() -> None:
        start.wait()
        if (payment := submit(store, draft("call", purchase="tuesday"))) is not None:
            told(store, payment, ReasonCode.DELIVERED, reply=REPLY)
            done.set()
        elif done.wait(60):
            payment = standing(store, "call", now=NOW)
        assert payment is not None
        got.append(payment.id)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (payment,) = store.history()
    assert (payment.stage, payment.signatures) == (PaymentStage.ANSWERED, 1)
    assert got == [payment.id] * 8


# Budgets


@case
def without_any_budget_nothing_is_paid(store: Ledger) -> None:
    error = refused(store, "no_budget", budget=Budget())
    assert "$0.03" in error.message
    assert error.details == BudgetDetails(cost=Decimal("0.03"))
    for way in ("Budget(", "TRADE_BUDGET_PER_DAY", "max_price="):
        assert way in error.hint


@case
@over("name", ["per_call", "per_hour", "per_day", "total"])
def each_limit_alone_is_a_budget(store: Ledger, name: str) -> None:
    budget = Budget.from_micro({name: 3 * CENT})
    error = refusal(store, 3 * CENT + 1, budget)
    assert "$0.030001" in error.message
    assert isinstance(error.details, BudgetDetails)
    assert (error.details.limit, error.details.limit_amount, error.details.room_at) == (name, Decimal("0.03"), None)
    assert "$0.03 " in error.message
    assert submitted(store, draft(amount=3 * CENT), budget).counted == 3 * CENT


@case
def unlimited_is_unlimited(store: Ledger) -> None:
    submitted(store, draft(amount=10**15), Budget.unlimited())
    assert store.spending(Budget.unlimited(), now=NOW).left is None


@case
def the_stores_own_budget_counts_as_well(store: Ledger) -> None:
    assert budget_of(store) == Budget()
    set_budget(store, Budget(per_call="0.02", total="0.05"))
    assert budget_of(store) == Budget(per_call="0.02", total="0.05")
    submitted(store, draft(amount=2 * CENT), Budget())
    refusal(store, 3 * CENT, Budget.unlimited())
    refusal(store, 2 * CENT, Budget(total="0.03"))
    submitted(store, draft(amount=2 * CENT), Budget(total="10"))
    refusal(store, 2 * CENT, Budget(total="10"))
    set_budget(store, Budget())
    assert budget_of(store) == Budget()
    refused(store, "no_budget", budget=Budget())


@case
def the_stores_own_budget_may_be_unlimited(store: Ledger) -> None:
    set_budget(store, Budget.unlimited())
    assert budget_of(store).is_unlimited
    submitted(store, draft(), Budget())
    mixed = Budget(per_day="1").strictest(Budget.unlimited())
    set_budget(store, mixed)
    assert budget_of(store) == mixed


@case
@over("place", PLACES)
def what_counts(store: Ledger, place: str) -> None:
    """What was sent counts until it is proven unpaid, whatever the service says of it and when it has expired, too."""
    payment = at(store, place)
    over = payment.counts_until + GRACE
    counts = 0 if place in COUNTS_NOTHING else 3 * CENT
    held = 0 if payment.paid else counts
    spending = store.spending(Budget(total="1"), now=NOW)
    assert {(one.counted, one.held) for one in windows(spending)} == {(counts, held)}
    assert spending.spent == counts - held
    assert spending.left == 1_000_000 - counts
    assert spending.budget.dollars()["total"] == Decimal(1)
    budget = Budget.from_micro({"per_hour": counts + CENT})
    refusal(store, CENT + 1, budget)
    later = store.spending(Budget(total="1"), now=over)
    assert later.total.counted == later.last_hour.counted == counts
    submitted(store, draft(amount=CENT), budget)


@case
def what_holds_money_is_found_by_the_end_of_its_validity(store: Ledger) -> None:
    """Oldest first, whatever its stage; not what was never sent, nor what is proven."""
    made = [at(store, place) for place in PLACES]
    holding = [one for one in made if one.paid is None and one.counted]
    assert {one.stage for one in holding} == set(PaymentStage)
    late = submitted(store, draft(valid_before=int(NOW) + 5_000), now=NOW)
    ends = max(one.counts_until for one in holding)
    first = min(one.counts_until for one in holding)
    everything: dict[str, Any] = {"since": 0, "until": NOW + 10_000, "limit": 100}
    assert store.held(**everything) == [*holding, late]
    assert store.held(**everything | {"limit": 2}) == holding[:2]
    assert store.held(**everything | {"until": ends}) == holding
    assert store.held(**everything | {"since": ends}) == [late]
    assert store.held(**everything | {"until": first - 1}) == []


@case
def the_next_signature_of_a_nonce_counts_what_is_more(store: Ledger) -> None:
    """Its amount counts once, with the largest that was signed; its windows reach to the end of the newest validity."""
    first = at(store, "unknown", fingerprint="call", amount=3 * CENT)
    budget = Budget(total="0.05", per_hour="0.05", per_call="0.05")
    asked = draft("call", amount=5 * CENT, valid_before=int(NOW) + 400)
    refused(store, "over_budget", replace(asked, amount=6 * CENT), budget, earlier=first, **LATER)
    second = submitted(store, asked, budget, earlier=first, **LATER)
    assert (second.id, second.nonce, second.amount, second.counted) == (first.id, first.nonce, 5 * CENT, 5 * CENT)
    assert store.spending(budget, now=NOW + 300).total.counted == 5 * CENT
    assert store.spending(budget, now=NOW + 300).last_hour.counted == 5 * CENT
    second = told(store, second, ReasonCode.REJECTED, now=NOW + 300)
    asked = draft("call", amount=CENT, valid_before=int(NOW) + 500)
    third = submitted(store, asked, budget, earlier=second, now=NOW + 450, over=NOW + 450)
    assert (third.amount, third.counted, third.signatures) == (CENT, 5 * CENT, 3)
    assert store.spending(budget, now=NOW + 520 + 3599).last_hour.counted == 5 * CENT
    assert store.spending(budget, now=NOW + 520 + 3600).last_hour.counted == 0


@case
def an_hour_is_60_whole_minutes_and_the_one_that_has_begun(store: Ledger) -> None:
    spend(store, CENT, NOW)
    budget = Budget(per_hour="0.01")
    error = refusal(store, CENT, budget, now=NOW + 3639.999)
    assert "per hour" in error.message
    assert error.hint.startswith("wait until 2025-10-09 09:54:00 UTC, ")
    submitted(store, draft(amount=CENT), budget, now=NOW + 3640)


def empty(store: Ledger, **changes: Any) -> Payment:
    """The payment that heard that the wallet is empty: of "call", expired since."""
    asks = submitted(store, draft("call", valid_before=int(NOW) - 10, **changes), now=NOW - 70)
    return told(store, asks, ReasonCode.REJECTED, "insufficient_funds", unfunded=True)


ASKED_FOR = 3600


@case
@over("name", [None, "tuesday"])
@over("later", [0, 601, ASKED_FOR - 1, 10 * ASKED_FOR])
def only_one_purchase_is_signed_for_an_empty_wallet(store: Ledger, name: str | None, later: int) -> None:
    asks, then = empty(store, purchase=name), NOW + later
    assert standing(store, "call", now=then, since=then - 600) == asks
    if later < ASKED_FOR:
        error = refused(store, "insufficient_funds", draft("other"), now=then)
        assert isinstance(error.details, WalletDetails)
        assert (error.details.tried_by, error.details.since) == (asks.id, datetime.fromtimestamp(NOW, UTC))
    again = submitted(
        store, draft("call", valid_before=int(then) + 60), earlier=asks, since=then - 600, now=then, over=then
    )
    assert (again.id, again.nonce, again.signatures) == (asks.id, asks.nonce, 2)
    refused(store, "insufficient_funds", draft("other"), now=then + ASKED_FOR - 1)
    submitted(store, draft("another wallet", payer=ADDRESS), now=then)
    submitted(store, draft("another service", url=f"{ORIGIN}:8443/v1/token-prices"), now=then)
    store.check()


def asking(store: Ledger, payment: Payment, now: float) -> EmptyWallet | None:
    """Which purchase asks for the wallet of a payment."""
    settings = store.overview(Lookup(now=now, budget=PLENTY)).settings
    text = settings.get(empty_of(payment.payer, payment.origin))
    return None if text is None else EmptyWallet.read(text)


@case
@over("code", [ReasonCode.REJECTED, ReasonCode.UNKNOWN, ReasonCode.DELIVERED, ReasonCode.UNDELIVERED])
def another_outcome_of_it_ends_that(store: Ledger, code: ReasonCode) -> None:
    asks = empty(store)
    known = asking(store, asks, NOW)
    assert known == EmptyWallet(asks.id, NOW, NOW)
    after = told(store, asks, code, empty=known, now=NOW + 5000)
    assert after.created == NOW + 5000, "its 10 minutes begin then"
    submitted(store, draft("other"), now=NOW + 5000)


@case
def a_resend_that_was_not_handed_over_ends_nothing(store: Ledger) -> None:
    asks = empty(store)
    known = asking(store, asks, NOW)
    again = resubmit(store, asks, owner="me")
    told(store, again, ReasonCode.NOT_RECEIVED, owner="me", empty=known, sent=False)
    assert asking(store, asks, NOW) == known is not None


@case
def a_call_that_has_claimed_it_claims_it_for_longer(store: Ledger) -> None:
    payment = submitted(store, draft("call"), owner="me", until=NOW + 60)
    resubmit(store, payment, owner="me", until=NOW + 300)
    assert not claim(store, payment, "you", until=NOW + 400, now=NOW + 200)


@case
def what_was_not_handed_over_ends_nothing(store: Ledger) -> None:
    asks = empty(store)
    known = EmptyWallet(asks.id, NOW, NOW)
    then = NOW + 3 * ASKED_FOR
    again = submitted(store, draft("call", valid_before=int(then) + 60), earlier=asks, owner="me", now=then, over=then)
    unsent = told(store, again, ReasonCode.NOT_RECEIVED, owner="me", before=asks, empty=known, now=then)
    assert (unsent.counted, unsent.submissions) == (asks.counted, 1)
    refused(store, "insufficient_funds", draft("other"), now=then)
    assert standing(store, "call", now=then + 700, since=then + 100) == unsent


@case
def an_hour_after_the_last_try_the_fastest_one_asks(store: Ledger) -> None:
    """The one that asked before is another one then. What is handed over later does not end what a faster one asks."""
    asks, then = empty(store), NOW + ASKED_FOR
    known = EmptyWallet(asks.id, NOW, NOW)
    fastest = submitted(store, draft("fastest", valid_before=int(then) + 60), now=then)
    assert asking(store, asks, then) == EmptyWallet(fastest.id, NOW, then)
    refused(store, "insufficient_funds", draft("slower"), now=then)
    refused(store, "insufficient_funds", draft("call", valid_before=int(then) + 60), earlier=asks, now=then, over=then)
    told(store, asks, ReasonCode.UNKNOWN, "status 503", empty=known, now=then)
    refused(store, "insufficient_funds", draft("slower"), now=then)
    told(store, fastest, ReasonCode.DELIVERED, empty=known, now=then)
    submitted(store, draft("slower"), now=then)


@case
def whoever_has_money_by_a_node_asks_at_once(store: Ledger) -> None:
    asks = empty(store)
    other = submitted(store, draft("other"), funded=True)
    refused(store, "insufficient_funds", draft("call", valid_before=int(NOW) + 60), earlier=asks, over=NOW)
    told(store, other, ReasonCode.DELIVERED, empty=EmptyWallet(asks.id, NOW, NOW))
    submitted(store, draft("call", valid_before=int(NOW) + 60), earlier=asks, over=NOW)


@case
def a_receipt_says_more_than_want_of_money(store: Ledger) -> None:
    payment = submitted(store, draft("call"))
    told(store, payment, ReasonCode.REJECTED, "insufficient_funds", unfunded=True, receipt=PAID)
    submitted(store, draft("other"))


@case
def a_day_is_a_day_of_utc(store: Ledger) -> None:
    spend(store, CENT, MIDNIGHT - 1)
    spend(store, 2 * CENT, MIDNIGHT + 1.0)
    spend(store, 4 * CENT, MIDNIGHT + 86399.75)
    assert store.spending(Budget(), now=MIDNIGHT + 86399.9).today.counted == 6 * CENT
    assert store.spending(Budget(), now=MIDNIGHT + 86400.0).today.counted == 0
    error = refusal(store, CENT, Budget(per_day="0.06"), now=MIDNIGHT + 86399.9)
    assert "per day" in error.message
    assert error.hint.startswith("wait until 2025-10-10 00:00:00 UTC, ")
    submitted(store, draft(amount=CENT), Budget(per_day="0.06"), now=MIDNIGHT + 86400.0)


@case
def total_never_frees(store: Ledger) -> None:
    spend(store, CENT, NOW - 10_000_000)
    error = refusal(store, CENT, Budget(total="0.015"))
    assert "in total" in error.message
    assert "does not reset" in error.hint


@case
def a_clock_that_is_put_back_frees_nothing(store: Ledger) -> None:
    spend(store, CENT, NOW)
    for back in (1.0, 3600.0, 7200.0, 86400.0, 40 * 86400.0):
        assert {one.counted for one in windows(store.spending(Budget(), now=NOW - back))} == {CENT}
        refusal(store, CENT, Budget(per_hour="0.01"), now=NOW - back)
        refusal(store, CENT, Budget(per_day="0.01"), now=NOW - back)
        refusal(store, CENT, Budget(per_month="0.01"), now=NOW - back)


@case
def a_refusal_tells_all_in_dollars(store: Ledger) -> None:
    at(store, "marked paid", amount=50 * CENT)
    at(store, "unknown", amount=20 * CENT)
    error = refusal(store, 31 * CENT, Budget(per_day="1", per_hour="5", total="5"))
    assert error.message == (
        "this call costs $0.31, and the budget of $1.00 per day leaves $0.30: $0.50 is spent and $0.20 is held"
    )
    assert "; held money may have been taken: see client.payments.reconcile(), " in error.hint
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


@case
def a_budget_below_what_is_spent_leaves_nothing(store: Ledger) -> None:
    spend(store, 50 * CENT, NOW)
    error = refusal(store, CENT, Budget(total="0.20"))
    assert "leaves $0.00" in error.message
    assert store.spending(Budget(total="0.20"), now=NOW).left == 0


@case
def the_limit_that_stays_is_told_first(store: Ledger) -> None:
    spend(store, 50 * CENT, NOW)
    every = {
        "per_call": 50 * CENT,
        "total": 50 * CENT,
        "per_month": 50 * CENT,
        "per_day": 50 * CENT,
        "per_hour": 50 * CENT,
    }
    assert "per call" in refusal(store, 51 * CENT, Budget.from_micro(every)).message
    del every["per_call"]
    while every:
        details = refusal(store, CENT, Budget.from_micro(every)).details
        assert isinstance(details, BudgetDetails)
        name = next(iter(every))
        assert (details.limit, details.room_at is None) == (name, name == "total")
        del every[name]


@case
def sums_that_are_too_large_are_an_error_of_the_ledger(store: Ledger) -> None:
    for _ in range(9):
        submitted(store, draft(amount=10**18), budget=Budget.unlimited())
    with pytest.raises(LedgerError):
        submit(store, draft(amount=10**18), Budget.unlimited())
    assert store.spending(Budget(), now=NOW).total.counted == 9 * 10**18
    assert len(store.history()) == 9


SOME = random.Random(7).sample(sorted(CASES), 12)
"""Cases for the quick tests of what is slow."""
DRAWN = [name for part in one_of([list(CASES)[at::3] for at in range(3)]) for name in part]
"""For the long ones: a third with each seed, all in scripts/soak."""
