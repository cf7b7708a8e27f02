"""All courses of a small world: calls that buy, their ledgers, a hostile service, the chain, a person and a clock.

Every decision is a function of the SDK: `judge`, `ledger.changes`, `ledger.rules`. What is written here
is the order of the steps, and who may take one when. Times are Unix seconds, amounts are micro-dollars.
"""

from __future__ import annotations

import functools
import gc
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from tradesdk import (
    Budget,
    Failure,
    FailureCause,
    Payment,
    PaymentError,
    PaymentProof,
    PaymentStage,
    ReasonCode,
    Receipt,
    RetryPolicy,
    SignedHeader,
)
from tradesdk.payments.ledger import rules
from tradesdk.payments.ledger.changes import (
    Collect,
    LedgerChange,
    LedgerRow,
    Mark,
    Record,
    ReleaseClaim,
    Reopen,
    Resubmit,
    Submit,
    with_terms,
)
from tradesdk.payments.ledger.claims import LONGEST_CLAIM
from tradesdk.payments.ledger.rules import NextStep, Sum, Sums
from tradesdk.payments.state_machine import (
    BARE,
    DELIVERED,
    MARGIN,
    NOT_RECEIVED,
    OPEN,
    REFUSED,
    REJECTED,
    UNDELIVERED,
    UNSETTLED,
    Meaning,
    Report,
    Tries,
    judge,
)

from .unit._ledger import ADDRESS, NOW, draft

SENT, ANSWERED, TAKEN = PaymentStage
START = int(NOW)
VALID = 60
"""Seconds for which a signature is valid."""
POLICY = RetryPolicy(max_retries=1)
REPLY = b"prices"
CHAIN = "chain"


class _NoFields(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 0


PAID = Receipt(success=True, transaction="0x1", network="base", raw=_NoFields())


class Entry(Payment):
    """A payment; equal ones are one object, so that states compare fast."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_NAMES = tuple(field.name for field in fields(Payment))
_ENTRIES: dict[tuple[object, ...], Entry] = {}


def entry(payment: Payment) -> Entry:
    """The payment without what no rule reads at its stage, so that states which differ only in that are one."""
    stage, closed = payment.stage, is_closed(payment)
    values = {name: getattr(payment, name) for name in _NAMES}
    values |= {
        "created": 0.0,
        "updated": payment.updated if stage is ANSWERED else 0.0,
        "reply": payment.reply if stage is ANSWERED else None,
        "code": ReasonCode.REJECTED if payment.is_refused and stage is SENT else ReasonCode.NONE,
        "reason": "",
        "proof": PaymentProof.PERSON if payment.paid is False or closed else PaymentProof.NONE,
        "receipt": PAID if payment.receipt is not None and payment.receipt.success else None,
        "submissions": min(payment.submissions, 1 if stage is ANSWERED else 6),
        "signatures": 0 if closed else payment.signatures,
        "settle_failed": 0 if closed else _failed(payment),
        "valid_before": payment.counts_until if closed else payment.valid_before,
    }
    if payment.is_unsent and payment.signatures:
        values |= {"amount": 0, "valid_before": 0, "counts_until": 0}
    return _ENTRIES.setdefault(tuple(values.values()), Entry(**values))


@functools.cache
def plain(entry: Entry) -> Payment:
    """The same for the SDK, which compares what payments say."""
    return Payment(**{name: getattr(entry, name) for name in _NAMES})


def is_closed(payment: Payment) -> bool:
    """Whether the same call without a name is another purchase."""
    return payment.stage is ANSWERED or (payment.proof is PaymentProof.PERSON and payment.paid is True)


def _failed(payment: Payment) -> int:
    """The newest signature that was not settled; the first one for any older than the newest."""
    return payment.settle_failed if payment.settle_failed in (0, payment.signatures) else 1


class Row(NamedTuple):
    """A payment in a ledger, and its claim."""

    payment: Entry
    owner: str | None = None
    until: float = 0.0

    @property
    def whole(self) -> LedgerRow:
        return LedgerRow(plain(self.payment), self.owner, self.until)


@functools.cache
def row_with(payment: Entry, owner: str | None = None, until: float = 0.0) -> Row:
    """How often it was resent matters only to the call that has claimed it."""
    one = payment if owner or payment.submissions < 2 else entry(replace(payment, submissions=1))
    return Row(one, owner, until)


Book = tuple[Row, ...]
"""A ledger."""
Result = tuple[Book, Any]
"""A ledger after a step, and the answer."""
STEPS: dict[str, dict[tuple[Any, ...], Result]] = {}
"""Each step of a ledger that was ever taken, by name and arguments, with its result."""


def _step(function: Callable[..., Result]) -> Callable[..., Result]:
    taken = STEPS.setdefault(function.__name__, {})

    @functools.wraps(function)
    def step(*given: Any) -> Result:
        found = taken.get(given)
        if found is None:
            found = taken[given] = function(*given)
        return found

    return step


def row_of(book: Book, payment_id: str) -> Row:
    return next(row for row in book if row.payment.id == payment_id)


def _put(book: Book, row: Row, **changes: Any) -> Book:
    return tuple(row._replace(**changes) if one is row else one for one in book)


def sums_of(book: Book, now: float) -> Sums:
    """What counts, as the ledger keeps it."""
    sums: tuple[dict[int, Sum], ...] = ({}, {}, {})
    first = (*rules.begin(now)[:-1], 0)
    for row in book:
        if row.payment.counted:
            counts, held = rules.signed(row.payment)
            for found, at, least in zip(sums, rules.place(row.payment.counts_until), first, strict=True):
                if at >= least:
                    had, had_held = found.get(at, (0, 0))
                    found[at] = had + counts, had_held + held
    return Sums(now, sums)


@_step
def find(book: Book, call: str, now: float) -> Result:
    after, until = rules.reply_times(now)
    for row in reversed(book):
        one = row.payment
        waits = one.waits and one.reply is not None and after < one.updated <= until
        if one.fingerprint == call and (one.purchase is not None or not is_closed(one) or waits):
            return book, one
    return book, None


def is_plainly_refused(book: Book, amount: int, earlier: Entry | None, budget: Budget, now: float) -> bool:
    """Whether the budget refuses it before it is signed."""
    counts, sums = rules.to_count(earlier, amount), sums_of(book, now).without(earlier)
    return rules.budget_refusal(amount, counts, sums, budget) is not None


def submission(draft: Entry, earlier: Entry | None, budget: Budget, owner: str) -> Submit:
    """A signature that was made when its validity began."""
    now, payment = draft.valid_before - VALID, plain(draft)
    terms = payment if earlier is None else with_terms(plain(earlier), payment)
    return Submit(
        payment=replace(terms, header=SignedHeader(f"{draft.amount} {draft.valid_before}")),
        earlier=None if earlier is None else plain(earlier),
        budget=budget,
        pay_to=(ADDRESS,),
        owner=owner,
        until=now + LONGEST_CLAIM,
        over=now + MARGIN,
        now=now,
    )


@_step
def submit(book: Book, draft: Entry, earlier: Entry | None, budget: Budget, owner: str) -> Result:
    change = submission(draft, earlier, budget, owner)
    _, found = find(book, draft.fingerprint, change.now)
    row = None if found is None else row_of(book, found.id)
    before = None if row is None else row.whole
    if not change.is_next(before) or change.refusal(before, sums_of(book, change.now), None, {}) is not None:
        return book, None
    after = change.written(before)
    made = entry(after.payment)
    if row is None:
        return (*book, Row(made, after.owner, after.until)), made
    return _put(book, row, payment=made, owner=after.owner, until=after.until), made


def before_signing(draft: Entry, earlier: Entry | None) -> Entry:
    """What is put back if the signature is not handed over."""
    return earlier or entry(replace(draft, header=None))


@_step
def update(book: Book, payment_id: str, change: LedgerChange) -> Result:
    row = row_of(book, payment_id)
    try:
        after = change(row.whole)
    except PaymentError:
        return book, None
    changed = row_with(entry(after.payment), after.owner, after.until)
    was_faster = isinstance(change, Resubmit | Collect) and not after.mine
    return tuple(changed if one is row else one for one in book), None if was_faster else changed.payment


def record(
    book: Book, payment_id: str, report: Report, signatures: int, before: Entry | None, owner: str, now: int
) -> Result:
    was = None if before is None else plain(before)
    return update(book, payment_id, Record(report=report, signatures=signatures, before=was, owner=owner, now=now))


@dataclass(frozen=True)
class Case:
    """A small world.

    Attributes:
        callers: how many calls are made at the same time; with `copied`, each has a ledger of its own.
        calls: what may be bought, one letter each.
        budget: of each ledger.
        clock: seconds after the start at which something may happen.
        prices: what the service may ask.
        once: a purchase that is closed is not made again.
        marks: a person marks payments, and is right unless `wrong`.
        named: the nonce is a function of the purchase's name.
        identified: the service may keep answers by identifier, so an expired payment is sent once more.
        witness: the chain is asked, and its verdict may be used late.
        receipts: the ledger keeps what the service says in receipts; else they only decide about the call.
        stalls: a process may stand still for longer than its claim lasts, and then go on.
        void: the clock may be set back so far that no claim counts any more, while its call goes on.
        wrong: the person who marks payments may be wrong.
        lost: the ledger may be emptied once.
        copied: a second machine may continue a copy of the ledger.
        again: how often a signature that never left is made once more within its validity.
    """

    callers: int
    calls: str
    budget: Budget
    clock: tuple[int, ...]
    prices: tuple[int, ...] = (1,)
    once: bool = False
    marks: bool = True
    named: bool = False
    identified: bool = False
    witness: bool = False
    receipts: bool = False
    stalls: bool = False
    void: bool = False
    wrong: bool = False
    lost: bool = False
    copied: bool = False
    again: int = 0


class Caller(NamedTuple):
    """Where a call is. `machine`, `header` and `signatures` are of its payment as it was claimed or signed.

    `payment` is what it buys, as long as it has signed a new one and not written that down. `before` is the payment
    before it signed. `last` is what it was told before it waits, if that is not written down.
    """

    step: str = "idle"
    payment: str = ""
    header: str = ""
    machine: Machine | None = None
    signatures: int = 0
    before: Entry | None = None
    last: Report | None = None

    @property
    def signed(self) -> int:
        """When its signature was made."""
        return int(self.header.split()[1]) - VALID


IDLE = Caller()


class Cheque(NamedTuple):
    """A signed payment that the service has, or what the chain took of one, and when."""

    nonce: str
    amount: int
    time: int


class World(NamedTuple):
    """One state. `books[1]` is None until the ledger is copied."""

    now: int
    books: tuple[Book | None, ...]
    callers: tuple[Caller, ...]
    cheques: tuple[Cheque, ...] = ()
    """Those that may still be cashed."""
    chain: tuple[Cheque, ...] = ()
    got: tuple[str, ...] = ()
    """The payments whose answers callers have."""
    verdict: tuple[str, bool, int] | None = None
    """What the witness said about a payment and how many signatures it had."""
    misled: bool = False
    """The person said that a payment was not taken which was."""
    lost: bool = False


Moves = Iterator[tuple[str, World]]


def begin(case: Case) -> World:
    return World(
        START + case.clock[0],
        ((), None) if case.copied else ((),),
        (IDLE,) * case.callers,
    )


# What a call knows of the signature that it hands over.


class Machine(NamedTuple):
    """`payment`: of the signature, with what `judge` reads only, so that equal ones are one."""

    payment: Entry
    tries: Tries

    def can_submit(self, now: int) -> bool:
        return now + MARGIN < self.payment.valid_before


def _no_jitter() -> float:
    return 0.0


@functools.cache
def machine_of(payment: Entry, before: Entry, expired: bool = False) -> Machine:
    read = ("valid_before", "signatures", "settle_failed", "purchase")
    return Machine(_judged(*(getattr(payment, name) for name in read)), Tries.after(before, expired=expired))


@functools.cache
def _judged(valid_before: int, signatures: int, settle_failed: int, purchase: str | None) -> Entry:
    terms = {"valid_before": valid_before, "counts_until": valid_before, "signatures": signatures}
    return entry(draft("judged", id="judged", nonce="", settle_failed=settle_failed, purchase=purchase, **terms))


def _report(meaning: Meaning, receipt: Receipt | None) -> Report:
    lost = meaning is OPEN
    failure = Failure(FailureCause.LOST) if lost else Failure(FailureCause.STATUS, 402, {})
    return Report(meaning, "", failure, receipt, sent=meaning is not NOT_RECEIVED)


MEANINGS = {
    "delivered": DELIVERED,
    "no answer": OPEN,
    "402 without a reason": BARE,
    "settlement failed": UNSETTLED,
    "not received": NOT_RECEIVED,
    "rejected": REJECTED,
    "refused": REFUSED,
    "already used": UNDELIVERED,
}
ANSWERS = {
    f"{name}{' with a receipt' if receipt else ''}": _report(meaning, receipt)
    for name, meaning in MEANINGS.items()
    for receipt in (None, PAID)
}
NOT_SENT = ("not received",)
SENT_ONES = tuple(name for name, answer in ANSWERS.items() if answer.sent)


@functools.cache
def outcomes(
    machine: Machine, now: int, answers: tuple[str, ...], receipts: bool
) -> list[tuple[str, Machine | None, Report, bool]]:
    """What follows each answer: the machine if the same bytes are resent, what is written down, and whether it signs.

    Answers that lead to the same are one.
    """
    found: dict[tuple[Machine | None, Report, bool], str] = {}
    for name, time_left in itertools.product(answers, (1000.0, 0.0)):
        report, tries, wait, signs = judge(
            ANSWERS[name],
            machine.payment,
            machine.tries,
            POLICY,
            at=now,
            now=now,
            time_left=time_left,
            random=_no_jitter,
        )
        report, tries = replace(report, failure=Failure(FailureCause.LOST)), tries._replace(bare=0)
        if not receipts:
            report, tries = replace(report, receipt=None), tries._replace(receipt=None)
        again = None if wait is None else Machine(machine.payment, tries)
        if report.meaning is DELIVERED:
            found.setdefault((None, replace(report, reply=REPLY), False), name)
            report, name = replace(report, meaning=UNDELIVERED), f"{name}, not usable"
        found.setdefault((again, report, signs), name)
    return [(name, *after) for after, name in found.items()]


@functools.cache
def periods(clock: tuple[int, ...], now: int) -> int:
    """How often it may have expired until now, if it was signed again each time."""
    count, until = 0, clock[0] + VALID
    for at in clock:
        if START + at <= now and at + MARGIN >= until:
            count, until = count + 1, at + VALID
    return count


@functools.cache
def wanted_of(case: Case, call: str, nonce: str, number: int, amount: int, now: int) -> Entry:
    return entry(
        draft(
            call,
            id=f"{nonce}#{number}",
            nonce=nonce,
            amount=amount,
            valid_before=now + VALID,
            counts_until=now + VALID,
            identified=case.identified,
            purchase=call if case.named else None,
        )
    )


def _nonce(case: Case, world: World, book: Book, call: str) -> tuple[str, int]:
    """The nonce of a new purchase, and the number of payments with it. Unnamed: one that nobody ever had."""
    if case.named:
        known = {row.payment.id for row in book} | {one.payment for one in world.callers}
        return f"{call}0.0", next(number for number in itertools.count() if f"{call}0.0#{number}" not in known)
    purchase = sum(row.payment.fingerprint == call and is_closed(row.payment) for row in book)
    had = {one.nonce for one in (*world.cheques, *world.chain)}
    had |= {row.payment.nonce for row in book} | {one.payment.partition("#")[0] for one in world.callers}
    return next(nonce for number in itertools.count() if (nonce := f"{call}{purchase}.{number}") not in had), 0


# Moves


def moves(case: Case, world: World) -> Moves:
    """All that can happen next."""
    yield from _clock_and_chain(case, world)
    for which, book in enumerate(world.books):
        if book is not None:
            yield from _person(case, world, which, book)
    if case.copied and world.books[1] is None:
        yield "the ledger is copied to a second machine", world._replace(books=world.books[:1] * 2)
    if case.lost and not world.lost:
        yield (
            "the ledger is lost, and its programs end",
            world._replace(books=((),), callers=(IDLE,) * case.callers, lost=True, verdict=None),
        )
    for number, caller in enumerate(world.callers):
        which = number if case.copied else 0
        book = world.books[which]
        if book is not None:
            yield from _of_call(case, world, number, caller, which, book)


def _of_call(case: Case, world: World, number: int, caller: Caller, which: int, book: Book) -> Moves:
    before, after = world.callers[:number], world.callers[number + 1 :]
    others, rest = world.books[:which], world.books[which + 1 :]
    now, _, _, cheques, chain, got, verdict, misled, lost = world
    is_new = caller.step == "submits" and caller.before is None
    fresh = _nonce(case, world, book, caller.payment) if is_new else None
    for told, goes_on, changed, cheque, has_answer in _moves_of_call(case, book, number, caller, now, fresh):
        had = got
        if has_answer and caller.payment not in got:
            had = tuple(sorted((*got, caller.payment)))
        has = cheques
        if cheque is not None and cheque not in cheques and all(one.nonce != cheque.nonce for one in chain):
            has = tuple(sorted((*cheques, cheque)))
        yield (
            told,
            World(now, (*others, changed, *rest), (*before, goes_on, *after), has, chain, had, verdict, misled, lost),
        )


def _clock_and_chain(case: Case, world: World) -> Moves:
    later = next((START + at for at in case.clock if START + at > world.now), None)
    at_work = {caller.payment for caller in world.callers}
    claims = [row.until for book in world.books for row in book or () if row.owner and row.payment.id in at_work]
    claims += [one.signed + LONGEST_CLAIM for one in world.callers if one.step == "submits"]
    if later is not None and (case.stalls or all(until > later for until in claims)):
        cheques = tuple(one for one in world.cheques if one.time > later)
        yield f"the clock goes on to {later - START} s", world._replace(now=later, cheques=cheques)
    if case.void and claims:
        books = tuple(book and tuple(row._replace(until=0.0) for row in book) for book in world.books)
        yield "the clock is set back, and no claim counts any more", world._replace(books=books)
    for cheque in world.cheques:
        taken = cheque._replace(time=world.now if case.budget.per_hour else 0)
        rest = tuple(one for one in world.cheques if one.nonce != cheque.nonce)
        chain = tuple(sorted((*world.chain, taken)))
        yield f"the service cashes {cheque.nonce} of {cheque.amount}", world._replace(cheques=rest, chain=chain)


def _is_taken(world: World, payment: Payment) -> bool:
    return any(one.nonce == payment.nonce for one in world.chain)


def _with_book(world: World, which: int, book: Book, **changes: Any) -> World:
    books = tuple(book if number == which else one for number, one in enumerate(world.books))
    return world._replace(books=books, **changes)


def _person(case: Case, world: World, which: int, book: Book) -> Moves:
    """What a person does: mark what is open, ask the chain."""
    for row in book:
        one = row.payment
        taken = _is_taken(world, one)
        for paid in (True, False) if case.wrong else (taken,) * case.marks:
            after, marked = update(book, one.id, Mark(paid=paid, now=world.now))
            if marked is not None:
                misled = world.misled or (taken and not paid)
                told = f"a person marks {one.id} as {'paid' if paid else 'unpaid'}"
                yield told, _with_book(world, which, after, misled=misled)
        known = taken or world.now >= max(one.valid_before, one.counts_until)
        asked = case.witness and world.verdict is None and one.is_unresolved(world.now) and one.paid is None
        if asked and known:
            verdict = one.id, taken, one.signatures
            yield f"the witness says about {one.id}: taken: {taken}", world._replace(verdict=verdict)
    if world.verdict is not None and which == 0:
        payment_id, taken, signatures = world.verdict
        if any(row.payment.id == payment_id for row in book):
            mark = Mark(paid=taken, evidence=CHAIN, signatures=signatures, now=world.now)
            book, _ = update(book, payment_id, mark)
        yield "the witness's verdict is used", _with_book(world, which, book, verdict=None)


class Move(NamedTuple):
    """A step of a call: where it is then, its ledger, what it handed over, and whether its caller has the answer."""

    told: str
    caller: Caller
    book: Book
    cheque: Cheque | None = None
    has_answer: bool = False


@functools.cache
def _moves_of_call(
    case: Case, book: Book, number: int, caller: Caller, now: int, fresh: tuple[str, int] | None
) -> list[Move]:
    return list(_Call(case, book, number, caller, now, fresh).moves())


class _Call:
    """The moves of one call. `fresh` is the nonce of a new purchase, which nobody sees before it is written down."""

    def __init__(
        self, case: Case, book: Book, number: int, caller: Caller, now: int, fresh: tuple[str, int] | None
    ) -> None:
        self.case, self.book, self.caller, self.now, self.fresh = case, book, caller, now, fresh
        self.owner, self.name = str(number), f"call {'ABC'[number]}"

    def to(
        self,
        told: str,
        caller: Caller,
        book: Book | None = None,
        cheque: Cheque | None = None,
        has_answer: bool = False,
    ) -> Move:
        return Move(f"{self.name}: {told}", caller, self.book if book is None else book, cheque, has_answer)

    def moves(self) -> Iterator[Move]:
        if self.caller.step == "idle":
            for call in self.case.calls:
                yield from self.looks(call)
            return
        yield from getattr(self, self.caller.step)()
        yield self.killed()

    def killed(self) -> Move:
        gone = tuple(row_with(row.payment) if row.owner == self.owner else row for row in self.book)
        return self.to("its process is killed", IDLE, gone, has_answer=self.caller.step == "returns")

    def looks(self, call: str) -> Iterator[Move]:
        """What it does about the earlier payment."""
        closed = any(row.payment.fingerprint == call and is_closed(row.payment) for row in self.book)
        _, found = find(self.book, call, self.now)
        step = rules.next_step(found, self.now + MARGIN)
        if step is NextStep.SIGN:
            is_free = found is None or row_of(self.book, found.id).whole.is_free_for(self.owner, self.now)
            if is_free and not (self.case.once and closed):
                yield from self.signs(call, found)
            return
        if step is NextStep.REFUSE:
            return
        if step is NextStep.COLLECT and found.purchase is not None:
            yield self.to("returns the kept answer", IDLE)
            return
        if not row_of(self.book, found.id).whole.is_free_for(self.owner, self.now):
            return
        if step is NextStep.COLLECT:
            yield self.to(f"finds the answer of {found.id}", Caller("collects", found.id))
            return
        machine = machine_of(found, found, step is NextStep.ASK)
        at_hand = Caller("resends", found.id, str(found.header), machine, found.signatures)
        yield self.to(f"finds {found.id}, to {step} it", at_hand)

    def signs(self, call: str, earlier: Entry | None) -> Iterator[Move]:
        """It signs in memory: the budget does not refuse that plainly."""
        if earlier is not None and earlier.signatures > self.case.again + periods(self.case.clock, self.now):
            return  # signatures that never left could be made forever
        for amount in self.case.prices:
            if not is_plainly_refused(self.book, amount, earlier, self.case.budget, self.now):
                header = f"{amount} {self.now + VALID}"
                bought = call if earlier is None else earlier.id
                yield self.to(f"signs {amount} for {bought}", Caller("submits", bought, header, before=earlier))

    def releases(self, told: str, book: Book | None = None) -> Move:
        """The end of a call that gets no answer."""
        book = self.book if book is None else book
        if self.caller.payment not in self.case.calls:
            book, _ = update(book, self.caller.payment, ReleaseClaim(owner=self.owner))
        return self.to(told, IDLE, book)

    def recorded(self, report: Report) -> Book:
        at = self.caller
        return record(self.book, at.payment, report, at.signatures, at.before, self.owner, self.now)[0]

    def reports(self, told: str, report: Report) -> Move:
        """It writes down a report, and ends."""
        return self.releases(f"{told}: writes down {report.meaning.code}", self.recorded(report))

    def submits(self) -> Iterator[Move]:
        """It writes down its signature, or drops it: the budget refuses it, or another call was faster."""
        yield self.releases("drops its signature")
        earlier, amount, until = self.caller.before, *map(int, self.caller.header.split())
        call, nonce, number = self.caller.payment, "", 0
        if earlier is not None:
            call = earlier.fingerprint
        elif self.fresh is not None:
            nonce, number = self.fresh
        wanted = wanted_of(self.case, call, nonce, number, amount, until - VALID)
        book, made = submit(self.book, wanted, earlier, self.case.budget, self.owner)
        if made is not None:
            before = before_signing(wanted, earlier)
            machine = machine_of(made, before)
            signed = Caller("sends", made.id, self.caller.header, machine, made.signatures, before)
            yield self.to(f"writes down its signature for {made.id}", signed, book)

    def asks(self) -> Iterator[Move]:
        """It has asked for the answer of an expired payment, and there is none."""
        yield self.releases("gets no offer")
        payment = row_of(self.book, self.caller.payment).payment
        yield from self.signs(payment.fingerprint, self.caller.before)

    def resends(self) -> Iterator[Move]:
        """It has found a payment, and writes down one more submission."""
        yield self.releases("is canceled")
        yield self.one_more()

    def one_more(self) -> Move:
        until = self.now + LONGEST_CLAIM
        change = Resubmit(signatures=self.caller.signatures, owner=self.owner, until=until, now=self.now)
        book, current = update(self.book, self.caller.payment, change)
        if current is None:
            return self.releases("finds that it was closed, or that another call works on it")
        return self.to("writes down one more submission", self.caller._replace(step="sends", last=None), book)

    def pauses(self) -> Iterator[Move]:
        """It waits before it resends. One that did not arrive is still counted as sent: it is not counted again."""
        last, may_resend = self.caller.last, self.machine.can_submit(self.now)
        ends = self.releases if last is None else functools.partial(self.reports, report=last)
        yield ends("is canceled while it waits")
        if not may_resend:
            yield ends("has waited too long")
        elif last is None or last.sent:
            yield self.one_more()
        else:
            yield self.to("tries again", self.caller._replace(step="sends", last=None))

    @property
    def machine(self) -> Machine:
        assert self.caller.machine is not None
        return self.caller.machine

    @property
    def not_sent(self) -> Report:
        return self.machine.tries.unsent("")

    @property
    def in_doubt(self) -> Report:
        return replace(self.not_sent, meaning=OPEN, sent=True)

    def sends(self) -> Iterator[Move]:
        yield self.reports("is canceled before it sends", self.not_sent)
        yield self.reports("is canceled while it connects", self.in_doubt)
        yield self.to("hands over the payment", self.caller._replace(step="is_asked"), cheque=self.handed_over())
        yield from self.told(NOT_SENT)

    def handed_over(self) -> Cheque | None:
        """The payment, as it was signed when it was claimed; None if it has expired."""
        amount, until = map(int, self.caller.header.split())
        return Cheque(self.caller.payment.partition("#")[0], amount, until) if until > self.now else None

    def is_asked(self) -> Iterator[Move]:
        yield self.reports("is canceled while it waits for the answer", self.in_doubt)
        yield from self.told(SENT_ONES)

    def told(self, answers: tuple[str, ...]) -> Iterator[Move]:
        """It is told something, and writes that down."""
        for told, machine, report, signs in outcomes(self.machine, self.now, answers, self.case.receipts):
            if report.meaning is DELIVERED:
                yield self.delivered(told, report)
            elif signs:
                book = self.recorded(report)
                payment = row_of(book, self.caller.payment).payment
                wants = Caller("asks", payment.id, before=payment)
                yield self.to(f"is told: {told}: writes down {report.meaning.code}, and wants an offer", wants, book)
            elif machine is None:
                yield self.reports(f"is told: {told}", report)
            elif report.sent:
                waits = self.caller._replace(step="pauses", machine=machine, last=report if report.is_settled else None)
                book = self.recorded(report.before_resending())
                yield self.to(f"is told: {told}: writes down {report.meaning.code}, and waits", waits, book)
            else:
                waits = self.caller._replace(step="pauses", machine=machine, last=report)
                yield self.to(f"is told: {told}, and waits", waits)

    def delivered(self, told: str, report: Report) -> Move:
        """It writes the answer down, and that its caller has it."""
        at = self.caller
        change = Record(
            report=report,
            signatures=at.signatures,
            before=None if at.before is None else plain(at.before),
            ends=Collect(owner=self.owner),
            owner=self.owner,
            now=self.now,
        )
        book, _ = update(self.book, at.payment, change)
        return self.to(f"is told: {told}: writes it down, and collects it", Caller("returns", at.payment), book)

    def collects(self) -> Iterator[Move]:
        """It has found an answer that waits. Another call may have collected it since."""
        yield self.releases("is canceled")
        book, collected = update(self.book, self.caller.payment, Collect(owner=self.owner))
        if collected is None:
            yield self.to("finds that another call has the answer", IDLE)
        else:
            yield self.to("collects the answer", self.caller._replace(step="returns"), book)

    def returns(self) -> Iterator[Move]:
        book, _ = update(self.book, self.caller.payment, Reopen(owner=self.owner, reply=REPLY))
        yield self.to("is canceled before it returns: puts the answer back", IDLE, book)
        yield self.to("returns the answer", IDLE, has_answer=True)


# States

_ORDER: dict[object, int] = {}


def dropped(case: Case, world: World) -> World:
    """The state without signatures in memory that can only be dropped: another call was faster."""
    for number, caller in enumerate(world.callers):
        book = world.books[number if case.copied else 0]
        if caller.step == "submits" and book is not None and _is_late(case, book, caller, str(number), world.now):
            callers = tuple(IDLE if one is caller else one for one in world.callers)
            return dropped(case, world._replace(callers=callers))
    return world


@functools.cache
def _is_late(case: Case, book: Book, caller: Caller, owner: str, now: int) -> bool:
    """A new one is looked for again: once the faster one is closed, this would be as if it were signed then."""
    earlier, amount, until = caller.before, *map(int, caller.header.split())
    if earlier is None:
        call, is_late = caller.payment, find(book, caller.payment, now)[1] is not None
    else:
        call, one = earlier.fingerprint, row_of(book, earlier.id)
        is_same = (one.payment.stage, one.payment.signatures) == (earlier.stage, earlier.signatures)
        is_late = one.owner != owner and not is_same
    if not is_late:
        return False
    wanted = wanted_of(case, call, "", 0, amount, until - VALID)
    return submit(book, wanted, earlier, case.budget, owner)[1] is None


def same(case: Case, world: World) -> World:
    """The one of the states that differ in the names of the callers only."""
    if case.copied or len(world.callers) < 2:
        return world
    first, second = world.callers
    order = _number(first) - _number(second)
    swapped = tuple(map(_swapped, world.books)) if order >= 0 else world.books
    if order < 0 or (order == 0 and _number(world.books) <= _number(swapped)):
        return world
    return world._replace(callers=(second, first), books=swapped)


def _number(part: object) -> int:
    return _ORDER.setdefault(part, len(_ORDER))


@functools.cache
def _swapped(book: Book | None) -> Book | None:
    names = {"0": "1", "1": "0"}
    return book and tuple(row._replace(owner=names.get(row.owner or "", row.owner)) for row in book)


@dataclass(frozen=True)
class Found:
    """How much a search has seen."""

    states: int
    moves: int
    seconds: float
    """Of the processor."""

    def __str__(self) -> str:
        return f"{self.states:,} states, {self.moves:,} moves, {self.seconds:.1f} s"


def search(case: Case, check: Callable[[Case, World], str | None], most: int = 10_000_000) -> Found:
    """Walk all courses, breadth first, and check every state.

    Raises:
        AssertionError: `check` found something wrong. The message is the shortest course to it.
    """
    first, began, count = begin(case), time.process_time(), 0
    seen: dict[World, World | None] = {first: None}
    todo = deque([first])
    gc.disable()  # many small tuples, and no circles
    try:
        while todo:
            world = todo.popleft()
            for _, after in moves(case, world):
                count += 1
                after = same(case, dropped(case, after))
                if after in seen:
                    continue
                seen[after] = world
                problem = check(case, after)
                if problem is not None:
                    raise AssertionError(f"{problem}\n{course(case, seen, after)}")
                assert len(seen) < most, f"more than {most:,} states"
                todo.append(after)
    finally:
        gc.enable()
    return Found(len(seen), count, time.process_time() - began)


def course(case: Case, seen: dict[World, World | None], last: World) -> str:
    """The steps to a state."""
    path: list[World] = []
    at: World | None = last
    while at is not None:
        path.append(at)
        at = seen[at]
    world, lines = begin(case), [f"{case}"]
    for wanted in path[-2::-1]:
        told, world = next(
            (told, after) for told, found in moves(case, world) if same(case, after := dropped(case, found)) == wanted
        )
        lines.append(f"{world.now - START:5} s  {told}")
    return "\n".join([*lines, "", *told_of(world)])


def told_of(world: World) -> Iterator[str]:
    """A state in words."""
    yield f"chain: {[f'{one.nonce} of {one.amount}' for one in world.chain]}"
    yield f"the service has: {[f'{one.nonce} of {one.amount} until {one.time - START} s' for one in world.cheques]}"
    for book in world.books:
        for row in book or ():
            one = row.payment
            yield (
                f"ledger: {one.id} {one.stage}, {one.code}, paid {one.paid} ({one.proof}), counts {one.counted}, "
                f"valid until {one.valid_before - START} s, "
                f"{one.submissions} submissions, {one.signatures} signatures, charged {one.charged}, "
                f"claimed by {row.owner}"
            )
