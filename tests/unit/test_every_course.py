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

from tradesdk import (
    Budget,
    Ledger,
    Payment,
    PaymentError,
    PaymentRefusedError,
    PaymentStage,
)
from tradesdk.payments.ledger import rules, schema
from tradesdk.payments.ledger.changes import Collect, LedgerRow, Mark, ReleaseClaim, Resubmit
from tradesdk.payments.ledger.engine import Transaction
from tradesdk.payments.state_machine import MARGIN

from .. import _courses as courses
from .._courses import ANSWERED, START, TAKEN, Book, Case, Cheque, World, entry, search
from .._seeds import one_of

PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "payment-stages.svg"
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
        problem = _counts(case, world.books) or _claims_and_answers(case, world)
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
        if not any(one.counted >= cheque.amount and one.paid is not False for one in known):
            return f"{cheque.nonce} was handed over, and does not count with {cheque.amount}"
        if all(one.charged is False for one in known):
            return f"{cheque.nonce} was handed over, and charged is False"
    return None


@functools.cache
def _counts(case: Case, books: tuple[Book | None, ...]) -> str | None:
    """What was not handed over counts nothing, and the rest no more than the budget."""
    for book in books:
        for row in book or ():
            one = row.payment
            if one.is_unsent and (one.counted or one.header is not None):
                return f"{one.id} was not handed over, and counts {one.counted}"
        # What was proven unpaid is free, and counts again if the service says later that it was paid.
        counts = 0 if case.marks or case.witness else sum(rules.signed(row.payment)[0] for row in book or ())
        if case.budget.total is not None and counts > case.budget.total:
            return f"{counts} counts, of a budget of {case.budget.total}"
    return None


def _claims_and_answers(case: Case, world: World) -> str | None:
    had = {*world.got, *(caller.payment for caller in world.callers if caller.step == "returns")}
    had |= {row.payment.id for book in world.books for row in book or () if row.payment.reply is not None}
    for which, book in enumerate(world.books):
        for row in book or ():
            one = row.payment
            if one.stage is ANSWERED and one.id not in had:
                return f"the answer of {one.id} is in no ledger, and no caller has it"
            is_own = row.owner in ("0", "1") and which == (int(row.owner) if case.copied else 0)
            if is_own and world.callers[int(row.owner or 0)].payment != one.id:
                return f"a call that has ended has claimed {one.id}"
    return None


def _killed(book: Book) -> Book:
    return tuple(courses.row_with(row.payment) for row in book)


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
        _, found = courses.find(book, call, now)
        if found is None or rules.is_signable(found, now + MARGIN):
            wanted = courses.wanted_of(case, call, nonce, 9 + number, 1, now)
            book, made = courses.submit(book, wanted, found, PLENTY, "2")
            if made is None:
                return "it cannot be signed"
            before = courses.before_signing(wanted, found)
            machine = courses.machine_of(made, before)
            honest = "already used" if made.nonce in used else "delivered"
            _, _, report, _ = courses.outcomes(machine, now, (honest,), False)[0]
            book, made = courses.record(book, made.id, report, made.signatures, before, "2", now)
            book, _ = courses.update(book, made.id, ReleaseClaim(owner="2"))
            if made.stage is ANSWERED:
                return None
            continue
        if courses.is_closed(found):
            return None
        if found.stage is not TAKEN:
            return f"{found.stage} is not signed again"
        book, marked = courses.update(book, found.id, Mark(paid=found.nonce in used, now=now))
        if marked is None:
            return f"{found.stage} cannot be marked"
    return f"no answer after {_PATIENCE} calls"


def budget(total: int) -> Budget:
    return Budget.from_micro({"total": total})


HOUR = Budget.from_micro({"per_hour": 1})
SHORT, MARGINAL = (0, 500), (0, 56, 500)
"""Within a validity and after it; `MARGINAL` also in its last seconds, in which it is not sent any more."""
QUICK = {
    "two calls": (Case(2, "a", budget(1), SHORT), 4_931),
    "a name, and the ledger is lost": (Case(1, "a", budget(1), SHORT, named=True, lost=True), 803),
}
LONG = {
    "two calls, and the last seconds": (Case(2, "a", budget(1), MARGINAL, again=1), 41_732),
    "two purchases": (Case(1, "ab", budget(1), SHORT), 9_970),
    "one call": (Case(1, "a", budget(2), MARGINAL, (1, 2), once=True, again=1), 4_384),
    "an hour": (Case(1, "a", HOUR, (0, 56, 3650, 3700)), 10_846),
    "a witness": (Case(2, "a", budget(1), MARGINAL, witness=True, receipts=True), 73_941),
    "a person who is wrong": (Case(1, "a", budget(2), SHORT, wrong=True), 22_424),
    "a name, and the ledger is lost": (Case(2, "a", budget(1), MARGINAL, named=True, lost=True), 19_627),
    "a name, and two copies": (Case(2, "a", budget(1), (0,), named=True, copied=True), 3_319),
    "two prices": (Case(1, "a", budget(2), SHORT, (1, 2)), 9_323),
    "answers by identifier": (Case(1, "a", budget(1), MARGINAL, identified=True, stalls=True), 2_514),
    "claims that do not count": (Case(2, "a", budget(1), (0,), once=True, marks=False, void=True), 1_529),
}
DRAWN = {
    "two prices, and the last seconds": (Case(1, "a", budget(2), MARGINAL, (1, 2)), 49_079),
    "two names, and the ledger is lost": (Case(2, "ab", budget(1), SHORT, named=True, lost=True), 221_070),
    "claims that do not count, and payments expire": (
        Case(2, "a", budget(1), SHORT, once=True, marks=False, void=True),
        9_188,
    ),
}
"""As large as three of those together: a run draws one of these."""
LARGE = {
    "answers by identifier, for two": (
        Case(2, "a", budget(1), MARGINAL, identified=True, stalls=True),
        135_047,
    ),
    "two calls, two purchases, programs that stand still": (
        Case(2, "ab", budget(1), SHORT, stalls=True),
        512_197,
    ),
    "two purchases and room for both": (
        Case(1, "ab", budget(2), SHORT, once=True, marks=False),
        26_092,
    ),
    "a person who is wrong, and the last seconds": (Case(1, "a", budget(2), MARGINAL, wrong=True), 123_306),
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


@pytest.mark.long
def test_the_picture_of_the_stages() -> None:
    """Whatever a step does to the stage of a payment is an arrow of the picture, and each arrow is seen."""
    chain, void = Case(1, "a", budget(1), MARGINAL, witness=True), Case(2, "a", budget(1), (0,), once=True, void=True)
    steps = steps_of(chain, void)
    picture = ElementTree.parse(PICTURE).getroot()  # noqa: S314 - the file is this repository's own
    stages = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "stage"]
    assert sorted(map(str, stages)) == sorted(stage.value for stage in PaymentStage)
    arrows = [path.attrib for path in picture.iter(f"{SVG}path") if "data-from" in path.attrib]
    drawn = {(arrow["data-from"], arrow["data-to"]) for arrow in arrows}
    drawn |= {(arrow["data-to"], arrow["data-from"]) for arrow in arrows if "data-both" in arrow}
    seen = {
        change
        for taken in steps.values()
        for (book, *_), (after, _) in taken.items()
        for change in changes(book, after)
    }
    assert {(before, now) for before, now in seen if before != now} == drawn


def changes(book: Book, after: Book) -> Iterator[tuple[str, str]]:
    """The stages of payments before and after a step."""
    had = {row.payment.id: row.payment.stage.value for row in book}
    for row in after:
        yield had.get(row.payment.id, ""), row.payment.stage.value


class Real:
    """The steps of the model, taken by a `Ledger`."""

    def __init__(self) -> None:
        self.ledger = Ledger.memory()

    def load(self, book: Book) -> None:

        def exchange(db: Transaction) -> None:
            db.write("DELETE FROM payments", ())
            db.write("DELETE FROM sums", ())
            for row in book:
                one = row.payment
                db.write(schema.ADD, [*schema.to_row(one), row.owner, row.until])
                for place in zip(rules.UNITS, rules.place(one.counts_until), strict=True):
                    db.write(schema.COUNT, (*place, *rules.signed(one)))

        self.ledger._engine.run(exchange, write=True)

    def book(self) -> Book:
        statement = "SELECT id, owner, until FROM payments ORDER BY seq"
        (told,) = self.ledger._engine.run(lambda db: db.read((statement, ())))
        rows = []
        for payment_id, owner, until in told:
            payment = self.ledger.get(payment_id)
            assert payment is not None
            rows.append(courses.row_with(entry(payment), owner, until))
        return tuple(rows)

    def take(self, name: str, given: tuple[Any, ...], row: LedgerRow | None) -> Any:
        """`row`: as a call has it that makes a change."""
        ledger = self.ledger
        match name:
            case "find":
                call, now = given
                return ledger.find(call, now=now)
            case "submit":
                try:
                    written = ledger.submit(courses.submission(*given))
                except PaymentRefusedError:
                    return None
                return None if written is None else written.payment
            case "update":
                payment_id, change = given
                try:
                    after = ledger.update(payment_id, change, row)
                    if isinstance(change, Resubmit | Collect) and not after.mine:
                        return None
                    return courses.row_with(entry(after.payment), after.owner).payment
                except PaymentError:
                    return None
        raise AssertionError(name)


def compare(most: int, *cases: Case) -> int:
    """Take steps of the model with a real ledger, at most so many of each, drawn by the seed. Returns how many."""
    real, count = Real(), 0
    for name, taken in steps_of(*cases).items():
        stride = 1 + len(taken) // most
        for (book, *given), (after, answer) in list(taken.items())[TURN % stride :: stride]:
            real.load(book)
            row = courses.row_of(book, given[0]).whole if name == "update" and count % 2 else None
            found = real.take(name, tuple(given), row)
            real.ledger.check()
            found = entry(found) if isinstance(found, Payment) else found
            assert (real.book(), found) == (after, answer), (name, book, given)
            count += 1
    return count


@pytest.mark.long
def test_the_model_takes_the_steps_of_a_ledger() -> None:
    assert compare(90, *(replace(case, clock=(0, 56)) for case, _ in (*QUICK.values(), LONG["two purchases"]))) > 200


@pytest.mark.long
def test_the_model_takes_most_steps_of_a_ledger() -> None:
    names = ("two prices", "answers by identifier", "a witness", "a name, and the ledger is lost")
    assert compare(1800, *(replace(LONG[name][0], clock=SHORT, stalls=False) for name in names)) > 2000
