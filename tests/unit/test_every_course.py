"""Every course of small cases: no purchase is paid for twice, no budget overrun, nothing paid for is forgotten."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tradesdk import Budget, Ledger, Payment, PaymentRefusedError, PaymentState, SignedHeader
from tradesdk._values.payment import FREE, LIVE, RENEWABLE, UNRESOLVED
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.leases import LONGEST_CLAIM
from tradesdk.payments.ledger.rules import counts
from tradesdk.payments.state_machine import MARGIN

from .. import _courses as courses
from .._courses import REPLY, START, Book, Case, Cheque, Report, Row, World, entry, search
from .._seeds import one_of
from ._ledger import ADDRESS

PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "payment-states.svg"
SVG = "{http://www.w3.org/2000/svg}"
PLENTY = Budget.unlimited()
TURN = int(os.environ.get("TRADE_SEED") or 0)
_LATER = 10_000
_PATIENCE = 6


def check(case: Case, world: World) -> str | None:
    """What is wrong with a state."""
    problem = _handed_over(world.cheques, world.chain)
    if problem is None and not world.misled:
        problem = _money(case, world.chain, 1 + world.lost + (case.copied and world.books[1] is not None))
        if problem is None and not world.lost:
            problem = _records(world.books, world.cheques, world.chain)
    if problem is None:
        problem = _claims_and_answers(case, world)
    if problem is None:
        used = frozenset(one.nonce for one in world.chain)
        for book in world.books:
            problem = problem or (None if book is None else _stuck(case, _killed(book), used))
    return problem


@functools.cache
def _handed_over(cheques: tuple[Cheque, ...], chain: tuple[Cheque, ...]) -> str | None:
    """One purchase, one nonce. The number of a purchase is the part of its nonce before the point."""
    nonces = defaultdict(set)
    for one in (*cheques, *chain):
        nonces[one.nonce.partition(".")[0]].add(one.nonce)
    twice = [sorted(several) for several in nonces.values() if len(several) > 1]
    if len({one.nonce.partition(".")[0] for one in chain}) < len(chain):
        return f"one purchase was paid for twice: {twice}"
    return f"two nonces were handed over for one purchase: {twice}" if twice else None


@functools.cache
def _money(case: Case, chain: tuple[Cheque, ...], ledgers: int) -> str | None:
    """Each ledger has a budget of its own."""
    total, hour = case.budget.total, case.budget.per_hour
    taken = sum(one.amount for one in chain)
    if total is not None and taken > total * ledgers:
        return f"{taken} taken of a budget of {total} for each of {ledgers} ledgers"
    for last in chain if hour is not None else ():
        taken = sum(one.amount for one in chain if last.time - 3600 < one.time <= last.time)
        if hour is not None and taken > hour * ledgers:
            return f"{taken} taken within an hour, of a budget of {hour} for each of {ledgers} ledgers"
    return None


@functools.cache
def _records(books: tuple[Book | None, ...], cheques: tuple[Cheque, ...], chain: tuple[Cheque, ...]) -> str | None:
    """What was taken, or may be, is in a ledger, counts there, and is not said to be free."""
    payments = [row.payment for book in books for row in book or ()]
    for cheque in (*cheques, *chain):
        known = [one for one in payments if one.nonce == cheque.nonce]
        if not any(one.counted >= cheque.amount and one.state not in FREE for one in known):
            return f"{cheque.nonce} was handed over, and does not count with {cheque.amount}"
        if all(one.charged is False for one in known):
            return f"{cheque.nonce} was handed over, and charged is False"
    return None


def _claims_and_answers(case: Case, world: World) -> str | None:
    had = {*world.got, *(caller.payment for caller in world.callers if caller.step == "returns")}
    had |= {row.payment.id for book in world.books for row in book or () if row.payment.reply is not None}
    for which, book in enumerate(world.books):
        for row in book or ():
            one = row.payment
            if one.state is PaymentState.DELIVERED and one.id not in had:
                return f"the answer of {one.id} is in no ledger, and no caller has it"
            is_own = row.owner in ("0", "1") and which == (int(row.owner) if case.copied else 0)
            if is_own and world.callers[int(row.owner or 0)].payment != one.id:
                return f"a call that has ended has claimed {one.id}"
    return None


def _killed(book: Book) -> Book:
    return tuple(row._replace(owner=None, until=0.0) for row in book)


@functools.cache
def _stuck(case: Case, book: Book, used: frozenset[str]) -> str | None:
    """What is without a way out: all programs end, time passes, the service is honest, a person marks what is open.

    Then each call gets an answer. A name that was paid for without one is for a person.
    """
    for call in case.calls:
        end = _way_out(case, call, book, used)
        if end is not None:
            return f"there is no way out for call {call}: {end}"
    return None


def _way_out(case: Case, call: str, book: Book, used: frozenset[str]) -> str | None:
    now = START + case.clock[-1]
    for number in range(_PATIENCE):
        now += _LATER
        nonce = f"{call}0.0" if case.named else f"{call}9.{number}"
        wanted = courses.wanted_of(case, call, nonce, 9 + number, 1, now)
        book, made = courses.reserve(book, wanted, PLENTY, "2", now)
        if made is not None:
            header = SignedHeader(f"1 {made.valid_before}")
            book, made = courses.submit(book, made.id, 1, header, "2", now)
            if made is None:
                return "it cannot be signed"
            machine = courses.machine_of(made, True)
            honest = "already_used" if made.nonce in used else "delivered"
            _, _, report = courses.outcomes(machine, now, (honest,), False)[0]
            book, made = courses.settle(book, made.id, report, now)
            book, _ = courses.give_back(book, made.id, "2")
            if made.state is PaymentState.DELIVERED:
                return None
            continue
        _, found = courses.find(book, call, now)
        if found.state in (PaymentState.DELIVERED, PaymentState.MARKED_PAID):
            return None
        if found.state is PaymentState.RESERVED:
            book, _ = courses.settle(book, found.id, Report(PaymentState.CANCELLED, owner="2"), now)
        elif found.state in UNRESOLVED:
            book, marked = courses.mark(book, found.id, found.nonce in used, False, None, now)
            if marked is None:
                return f"{found.state} cannot be marked"
        else:
            return f"{found.state} is not signed again"
    return f"no answer after {_PATIENCE} calls"


def budget(total: int) -> Budget:
    return Budget.from_micro({"total": total})


HOUR = Budget.from_micro({"per_hour": 1})
SHORT, MARGINAL = (0, 500), (0, 56, 500)
"""Within a validity and after it; `MARGINAL` also in its last seconds, in which it is not sent any more."""
QUICK = {
    "two calls": (Case(2, "a", budget(1), MARGINAL), 3_291),
    "two purchases": (Case(1, "ab", budget(1), SHORT), 3_686),
    "a name, and the ledger is lost": (Case(1, "a", budget(1), SHORT, named=True, lost=True), 2_383),
}
LONG = {
    "one call": (Case(1, "a", budget(2), MARGINAL, (1, 2), once=True), 5_565),
    "an hour": (Case(1, "a", HOUR, (0, 56, 3650, 3700)), 13_066),
    "a witness": (Case(2, "a", budget(1), MARGINAL, witness=True, receipts=True), 10_528),
    "a person who is wrong": (Case(1, "a", budget(2), SHORT, wrong=True), 28_934),
    "a name, and the ledger is lost": (Case(2, "a", budget(1), MARGINAL, named=True, lost=True), 6_929),
    "two names, and the ledger is lost": (Case(2, "ab", budget(1), SHORT, named=True, lost=True), 23_444),
    "a name, and two copies": (Case(2, "a", budget(1), (0,), named=True, copied=True), 35_390),
    "two prices": (Case(1, "a", budget(2), SHORT, (1, 2)), 14_142),
    "answers by identifier": (Case(1, "a", budget(1), MARGINAL, identified=True, stalls=True), 3_855),
    "claims that do not count": (Case(2, "a", budget(1), (0,), once=True, marks=False, void=True), 9_241),
}
DRAWN = {
    "two prices, and the last seconds": (Case(1, "a", budget(2), MARGINAL, (1, 2)), 51_218),
    "answers by identifier, for two": (
        Case(2, "a", budget(1), MARGINAL, identified=True, stalls=True),
        47_692,
    ),
    "claims that do not count, and payments expire": (
        Case(2, "a", budget(1), SHORT, once=True, marks=False, void=True),
        56_906,
    ),
}
"""As large as three of those together: a run draws one of these."""
LARGE = {
    "two calls, two purchases, programs that stand still": (
        Case(2, "ab", budget(1), MARGINAL, stalls=True),
        145_811,
    ),
    "two purchases and room for both": (
        Case(1, "ab", budget(2), SHORT, once=True, marks=False),
        123_592,
    ),
    "a person who is wrong, and the last seconds": (Case(1, "a", budget(2), MARGINAL, wrong=True), 116_014),
}
"""Worlds, and how many states each has: a change of these numbers is a change of what can happen."""
LONG |= {name: DRAWN[name] for name in one_of(list(DRAWN))}
if "TRADE_LARGE_WORLDS" in os.environ:  # scripts/soak
    LONG |= LARGE


@pytest.mark.parametrize(
    ("case", "states"),
    [
        *(pytest.param(*world, id=name) for name, world in QUICK.items()),
        *(pytest.param(*world, id=name, marks=pytest.mark.long) for name, world in LONG.items()),
    ],
)
def test_every_course(case: Case, states: int) -> None:
    found = search(case, check)
    print(found)
    assert found.states == states


def steps_of(*cases: Case) -> dict[str, dict[tuple[Any, ...], courses.Result]]:
    """Each step of a ledger that is taken in these worlds, and in no others that this process has walked."""
    for taken in courses.STEPS.values():
        taken.clear()
    for case in cases:
        search(case, lambda case, world: None)
    return courses.STEPS


def test_the_picture_of_the_states() -> None:
    """Whatever a step does to a payment is an arrow of the picture, and each arrow is seen."""
    steps = steps_of(Case(1, "a", budget(1), MARGINAL, witness=True), QUICK["a name, and the ledger is lost"][0])
    picture = ElementTree.parse(PICTURE).getroot()  # noqa: S314 - the file is this repository's own
    states = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "state"]
    assert sorted(map(str, states)) == sorted(state.name for state in PaymentState)
    arrows = [path.attrib for path in picture.iter(f"{SVG}path") if "data-from" in path.attrib]
    drawn = {(arrow["data-from"], arrow["data-to"]) for arrow in arrows}
    drawn |= {(arrow["data-to"], arrow["data-from"]) for arrow in arrows if "data-both" in arrow}
    box_of = {state: box for both in drawn for box in both for state in box.split()}
    seen = {
        tuple("" if state is None else box_of[state.name] for state in change)
        for name, taken in steps.items()
        for (book, *_), (after, _) in taken.items()
        for change in changes(name, book, after)
    }
    assert {(before, now) for before, now in seen if before != now} == drawn


def changes(step: str, book: Book, after: Book) -> Iterator[tuple[PaymentState | None, PaymentState]]:
    """The states of payments before and after a step, without those that the text below the picture is about."""
    had = {row.payment.id: row.payment.state for row in book}
    for row in after:
        before, now = had.get(row.payment.id), row.payment.state
        late = step == "settle" and before in RENEWABLE | UNRESOLVED
        # A client closes what has expired before a person marks it, and before it is reserved again.
        closed = before in LIVE and (step == "mark" or now is PaymentState.RESERVED)
        if not late and not closed:
            yield before, now


class Real:
    """The steps of the model, taken by a `Ledger`."""

    def __init__(self) -> None:
        self.ledger = Ledger.memory()

    def load(self, book: Book) -> None:
        with self.ledger._file.writing("") as db:
            db.execute("DELETE FROM payments")
            for row in book:
                db.execute(schema.ADD, [*schema.to_row(row.payment), row.owner, row.until])
                db.execute("UPDATE payments SET collected = ? WHERE id = ?", (not row.waits, row.payment.id))
            counted, held = (sum(each) for each in zip((0, 0), *(counts(row.payment) for row in book), strict=True))
            db.execute("UPDATE totals SET counted = ?, held = ?", (counted, held))

    def book(self) -> Book:
        with self.ledger._file.reading() as db:
            told = db.execute("SELECT id, owner, until, collected FROM payments ORDER BY seq").fetchall()
        rows = []
        for payment_id, owner, until, collected in told:
            payment = self.ledger.get(payment_id)
            assert payment is not None
            rows.append(Row(entry(payment), owner, until, not collected))
        return tuple(rows)

    def take(self, name: str, given: tuple[Any, ...]) -> Any:
        ledger = self.ledger
        match name:
            case "find":
                call, now = given
                return ledger.find(call, now=now)
            case "reserve":
                wanted, limits, owner, now = given
                try:
                    found, is_reserved = ledger.reserve(
                        wanted,
                        limits,
                        origin=wanted.origin,
                        pay_to=(wanted.pay_to,),
                        owner=owner,
                        until=now + LONGEST_CLAIM,
                        expired=now,
                        over=now + MARGIN,
                        now=now,
                    )
                except PaymentRefusedError:
                    return None
                return found if is_reserved else None
            case "submit":
                payment_id, amount, header, owner, now = given
                stored = ledger.get(payment_id)
                assert stored is not None
                to_sign = replace(stored, amount=amount)
                try:
                    return ledger.submit(to_sign, header, pay_to=(ADDRESS,), owner=owner, now=now)
                except PaymentRefusedError:
                    return None
            case "resubmit":
                payment_id, signatures, owner, now = given
                try:
                    found, may_be_sent = ledger.resubmit(payment_id, signatures=signatures, owner=owner, now=now)
                except PaymentRefusedError:
                    return None
                return found if may_be_sent else None
            case "settle":
                payment_id, report, now = given
                return ledger.settle(payment_id, now=now, **report._asdict())
            case "mark":
                payment_id, paid, proven, signatures, now = given
                evidence = "chain" * proven
                try:
                    return ledger.mark(payment_id, paid=paid, evidence=evidence, signatures=signatures, now=now)
                except PaymentRefusedError:
                    return None
            case "claim":
                payment_id, owner, now = given
                return ledger.claim(payment_id, owner=owner, until=now + LONGEST_CLAIM, now=now)
            case "give_back":
                return ledger.give_back(given[0], owner=given[1])
            case "collect":
                return ledger.collect(given[0], owner=given[1])
            case "reopen":
                return ledger.reopen(given[0], owner=given[1], reply=REPLY)
            case "expire":
                ledger.expire(given[0], now=given[0])
                return None
        raise AssertionError(name)


def compare(most: int, *cases: Case) -> int:
    """Take steps of the model with a real ledger, at most so many of each, drawn by the seed. Returns how many."""
    real, count = Real(), 0
    for name, taken in steps_of(*cases).items():
        stride = 1 + len(taken) // most
        for (book, *given), (after, answer) in list(taken.items())[TURN % stride :: stride]:
            real.load(book)
            found = real.take(name, tuple(given))
            found = entry(found) if isinstance(found, Payment) else found
            assert (real.book(), found) == (after, answer), (name, book, given)
            count += 1
    return count


def test_the_model_takes_the_steps_of_a_ledger() -> None:
    assert compare(30, *(replace(case, clock=(0, 56)) for case, _ in QUICK.values())) > 250


@pytest.mark.long
def test_the_model_takes_most_steps_of_a_ledger() -> None:
    names = ("two prices", "answers by identifier", "a witness", "a name, and the ledger is lost")
    assert compare(900, *(replace(LONG[name][0], clock=SHORT, stalls=False) for name in names)) > 5000
