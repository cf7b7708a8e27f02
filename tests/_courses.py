"""All courses of a small world: calls that buy, their ledgers, a hostile service, the chain, a person and a clock.

Calls are `payments.purchase.purchase` itself, and ledgers are `Ledger.memory()`: a state has what each ledger contains
and what each call was told so far, so that it can be gone on from again and again. What is written here carries out
effects, and says who may do what when. Times are Unix seconds, amounts are micro-dollars.
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tradesdk import (
    APIConnectionError,
    APIError,
    Budget,
    Ledger,
    LocalSigner,
    MarketResult,
    Payment,
    PaymentError,
    PaymentStage,
    RawResponse,
    RetryPolicy,
    SystemClock,
    TradeError,
)
from tradesdk import _market as market
from tradesdk._http.response import status_error
from tradesdk._http.service_time import ServiceClock
from tradesdk._sync.signing import ask_signer
from tradesdk._values.http import Headers
from tradesdk._values.payment import origin_of
from tradesdk._values.row import Row
from tradesdk.payments import buyer as buying
from tradesdk.payments import purchase as purchases
from tradesdk.payments.buyer import Buyer, PurchaseIntent, look, sign
from tradesdk.payments.effects import (
    Answer,
    Ask,
    Effect,
    Ended,
    HandOver,
    Look,
    Send,
    Sign,
    Sleep,
    Steps,
    Sync,
    Verified,
    Verify,
    Write,
)
from tradesdk.payments.ledger import claims, schema
from tradesdk.payments.ledger.changes import LedgerRow, Mark, Overview, Record, Submit
from tradesdk.payments.signing.signer import Asked
from tradesdk.payments.state_machine import MARGIN

from ._clock import START, http_date
from .unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

PRICE, CHEAP = 60_000, 30_000
"""As published for the two tokens of a call, and less."""
VALID = 60
"""Seconds for which a signature is valid."""
CONTINUED = 600
"""Seconds in which an unnamed call continues a payment."""
URL = "https://market.example/v1/token-prices"
DEAD, GONE = "dead", "gone"
"""The owner of a claim whose process was killed: on this machine, where that is seen, or on another one."""
SHARED = Look, Write, Verify, Send, HandOver
"""Effects before which a call stops: others may make a difference there. It goes on at once through all others."""


@dataclass(frozen=True)
class Case:
    """A small world.

    Attributes:
        calls: what is bought, a letter for each call, in this order.
        together: how many calls are under way at the same time.
        answers: what the service may say to a payment; it may take the money, whatever it says.
        budget: of each ledger.
        kills: how many calls may be killed, at any effect.
        cancels: how many may be canceled, at any effect.
        clock: seconds after the start at which something may happen.
        prices: what the service may ask.
        retries: how often a call resends.
        named: each letter is the name of its purchase.
        identified: the service may keep answers by identifier, so an expired payment is sent once more.
        marks: a person marks payments, and is right unless `wrong`.
        witness: the chain is asked, and its verdict may be used late.
        remote: what is killed was on another machine: its claims last until they end.
        lost: the ledger may be emptied once.
        copied: the second half of the calls uses a copy of the ledger, made at any time.
        every: a call stops before each effect, not only before those that are shared.
        contract: the wallet is a contract. A node is asked whether it accepts a signature, and may hand it on.
    """

    calls: str
    together: int = 1
    answers: tuple[str, ...] = ("delivered", "lost", "unsettled")
    budget: Budget = Budget(total="0.06")  # noqa: RUF009 - it is frozen
    kills: int = 1
    cancels: int = 0
    clock: tuple[int, ...] = (0,)
    prices: tuple[int, ...] = (PRICE,)
    retries: int = 1
    named: bool = False
    identified: bool = False
    marks: bool = False
    wrong: bool = False
    witness: bool = False
    remote: bool = False
    lost: bool = False
    copied: bool = False
    every: bool = False
    contract: bool = False


TABLES = ("payments", "sums", "runs", "settings")


class Book:
    """A ledger: what its tables contain, and its payments. Equal books of a search are one object."""

    def __init__(self, tables: list[list[Row]], rows: tuple[LedgerRow, ...]) -> None:
        self.tables, self.rows = tables, rows

    def with_nonce(self, nonce: str) -> Payment | None:
        return next((row.payment for row in self.rows if row.payment.nonce == nonce), None)


class Cheque(NamedTuple):
    """A signed payment that the service got, or what the chain took of one; and from when to when it may be taken."""

    nonce: str
    amount: int
    since: int
    until: int


class Call(NamedTuple):
    """A call under way: what it was told, at which times, and the effect that is next.

    `key`: the number of all that. `sent`: it has handed something over.
    """

    told: Told
    effect: Effect
    key: int
    sent: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key

    def __hash__(self) -> int:
        return self.key


class World(NamedTuple):
    """One state. `books[1]` is None until the ledger is copied; a call is None before it begins, and its end after."""

    now: int
    books: tuple[Book | None, ...]
    calls: tuple[Call | str | None, ...]
    cheques: tuple[Cheque, ...] = ()
    """Those that were handed over and may still be taken; without a chain of its own, that were ever."""
    chain: tuple[Cheque, ...] = ()
    nonces: tuple[tuple[str, str], ...] = ()
    """Which purchase a nonce was first signed for: its letter, and how many of that were closed."""
    got: tuple[str, ...] = ()
    """Nonces whose answers callers have."""
    gone: tuple[str, ...] = ()
    """Nonces of calls that were killed right before they had the answer: without a name, its copy is lost."""
    kills: int = 0
    cancels: int = 0
    verdict: tuple[str, bool, int] | None = None
    """What the witness said about a payment and how many signatures it had."""
    misled: bool = False
    """The person said that a payment was not taken which was."""
    lost: bool = False


ENDED = "ended"
Told = tuple[tuple[int, Any], ...]
Moves = Iterator[tuple[str, World]]


def is_closed(payment: Payment, now: float) -> bool:
    """Whether the same call without a name is another purchase."""
    is_over = payment.stage is PaymentStage.ANSWERED or (payment.proof == "person" and payment.paid is True)
    return is_over or payment.created < now - CONTINUED


# The service


def _headers(now: float, **more: Any) -> Headers:
    told = [(name.replace("_", "-"), encoded(value)) for name, value in more.items()]
    return Headers([("date", http_date(now)), *told])


@functools.cache
def _offer(now: int, amount: int, identified: bool, error: str = "payment required") -> RawResponse:
    wanted = {"payment-identifier": {"info": {"required": False}, "schema": {}}}
    asked = requirement_2(amount=str(amount), maxTimeoutSeconds=VALID)
    offer = offer_2(asked, error=error, **({"extensions": wanted} if identified else {}))
    return RawResponse(402, _headers(now, payment_required=offer), b"{}")


REPLY = json.dumps(prices("ETH", "BRETT")).encode()
STATUSES = {"delivered": (200, REPLY), "garbage": (200, b"<html>"), "refused": (404, b"{}"), "down": (503, b"")}
REASONS = {
    "bare": "payment required",
    "rejected": "invalid_exact_evm_payload_signature",
    "empty": "insufficient_funds",
    "used": "invalid_exact_evm_nonce_already_used",
}


@functools.cache
def _said(told: str, now: int, case: Case) -> RawResponse:
    """An answer to a payment, by its name."""
    name, _, more = told.partition(" with ")
    if name in REASONS:
        return _offer(now, case.prices[0], case.identified, REASONS[name])
    if name == "unsettled":
        failed = receipt(success=False, errorReason="transaction_failed", transaction="")
        return RawResponse(402, _headers(now, payment_response=failed), b"{}")
    status, body = STATUSES[name]
    return RawResponse(status, _headers(now, **({"payment_response": receipt()} if more else {})), body)


# Calls


@functools.cache
def _call(letter: str) -> market.MarketRequest[Any]:
    return market.token_prices([letter * 3, letter * 4])


class _Clock(SystemClock):
    at = START

    def now(self) -> float:
        return float(self.at)

    def monotonic(self) -> float:
        return float(self.at - START)


class _Wallet(LocalSigner):
    def purchase_secret(self) -> bytes:
        return bytes(32)


NODE = {
    "accepts it": Verified(is_asked=True),
    "refuses it": Verified(True, "the contract does not accept it"),
    "is not reached": Verified(is_asked=False),
    "knows no contract": Verified(False, "there is no contract"),
}
"""What a node may say about a signature."""


class _Buyer(Buyer):
    def signature(self, payment: Payment) -> Asked[bytes]:  # nobody looks at it here
        return bytes(65)
        yield


class _Contract(_Wallet):
    is_contract = True


WALLET, CONTRACT = _Wallet(b"\x01" * 32), _Contract(b"\x01" * 32)
_NAMES = tuple({field.name: 0 for field in fields(Payment)}.keys() - {"code", "reason", "receipt", "updated"})


def _said_by(row: LedgerRow | None) -> object:
    """What a row says, without what decides nothing."""
    if row is None:
        return None
    one = row.payment
    answered = one.updated if one.stage is PaymentStage.ANSWERED else 0.0
    proven = one.receipt is not None and one.receipt.success
    return (
        [getattr(one, name) for name in _NAMES],
        one.code == "taken_elsewhere",
        answered,
        proven,
        row.owner,
        row.until,
    )


def _key(value: Any) -> str:
    """What a call was told, to compare."""
    match value:
        case LedgerRow():
            return f"{_said_by(value)} {value.mine}"
        case Submit():
            return f"signed {value.payment.amount} {value.payment.nonce}"
        case Answer():
            return f"{value.response.status} {value.response.content!r} {value.response.headers}"
        case BaseException():
            return f"{value!r} {getattr(value, 'is_sent', '')}"
        case Overview():
            return f"{_said_by(value.row)}"
    return f"{value}"


@dataclass
class Run:
    """A call, brought to where it was: it goes on once."""

    steps: Steps[MarketResult[Any]]
    buyer: Buyer
    intent: PurchaseIntent
    effect: Effect

    def go_on(self, value: Any) -> None:
        """Its next effect, once it was told the result of the last one."""
        if isinstance(value, BaseException):  # one that was thrown before has a traceback
            self.effect = self.steps.throw(value.with_traceback(None))
        else:
            self.effect = self.steps.send(value)


class Search:
    """Walks all courses of a world, on real ledgers."""

    def __init__(self, case: Case) -> None:
        self.case, self.clock, self.policy = case, _Clock(), RetryPolicy(max_retries=case.retries)
        self.ledgers = [Ledger.memory() for _ in range(1 + case.copied)]
        for ledger in self.ledgers:
            ledger.setting("")  # opens it
        self.slot = 0
        """The call that goes on."""
        self.seen: set[str] = set()
        """Nonces that a ledger or the service has."""
        self.books: dict[str, Book] = {}
        self.numbers: dict[object, int] = {}
        self.ways: dict[tuple[str, Book, frozenset[str]], str | None] = {}
        """What `way_out` found."""
        self.empty = self.book(0)
        self.arrows: set[tuple[str, str]] = set()
        """From which stage to which a payment went."""
        self.problem: str | None = None
        self.proves = case.marks or case.wrong or case.witness

    @contextmanager
    def names(self) -> Iterator[None]:
        """Names and nonces follow from the call, so that equal courses have equal states."""

        def fresh() -> str:
            names = (f"0x{self.slot:062x}{number:02x}" for number in itertools.count())
            return next(name for name in names if name not in self.seen)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(buying, "new_nonce", fresh)
            patch.setattr(buying, "uuid4", lambda: SimpleNamespace(hex=fresh()[-24:]))
            patch.setattr(purchases, "owner_name", lambda: f"call {self.slot}")
            patch.setattr(claims, "is_dead", DEAD.__eq__)
            patch.setattr(logging.getLogger("tradesdk"), "disabled", True)  # each call says what it resends
            yield

    def number(self, part: object) -> int:
        """Equal parts have the same number."""
        return self.numbers.setdefault(part, len(self.numbers))

    # Ledgers and calls

    def which(self, slot: int) -> int:
        return int(self.case.copied and slot >= len(self.case.calls) / 2)

    def connection(self, which: int) -> sqlite3.Connection:
        db: sqlite3.Connection = self.ledgers[which]._engine._db  # type: ignore[attr-defined]
        return db

    def load(self, which: int, book: Book) -> Ledger:
        """A ledger with that content."""
        db = self.connection(which)
        for table, rows in zip(TABLES, book.tables, strict=True):
            db.execute(f"DELETE FROM {table}")  # noqa: S608
            if rows:
                db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608
        self.seen |= {row.payment.nonce for row in book.rows}
        return self.ledgers[which]

    def book(self, which: int) -> Book:
        ledger = self.ledgers[which]
        read = (schema.NEWEST, (2**62, 100)), (schema.SETTINGS, ())
        stored, settings = ledger._engine.run(lambda db: db.read(*read))
        rows = tuple(ledger._row(row) for row in reversed(stored))
        key = f"{[_said_by(row) for row in rows]} {settings}"
        if key not in self.books:
            db = self.connection(which)
            tables = [db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]  # noqa: S608
            self.books[key] = Book(tables, rows)
        return self.books[key]

    def gone(self, which: int, book: Book, owner: str, became: str) -> Book:
        """The ledger when the process of a claim's owner is not there any more; of all, for the owner %."""
        self.load(which, book)
        self.connection(which).execute("UPDATE payments SET owner = ? WHERE owner LIKE ?", (became, owner))
        return self.book(which)

    def begun(self, slot: int, letter: str, budget: Budget | None = None) -> Run:
        """A call at its first effect."""
        call = _call(letter)
        name = letter if self.case.named else None
        intent = PurchaseIntent(base_url=origin_of(URL), call=call, name=name)
        buyer = _Buyer(
            ledger=self.ledgers[self.which(slot)],
            origin=origin_of(URL),
            wallet=CONTRACT if self.case.contract else WALLET,
            has_node=self.case.contract,
            budget=budget or self.case.budget,
            max_validity=120,
            pay_to=(),
            continue_for=CONTINUED,
            collect=True,
            clock=self.clock,
            time=ServiceClock(),
        )
        self.slot = slot
        steps = purchases.purchase(buyer, intent, self.policy, 1e9)
        return Run(steps, buyer, intent, next(steps))

    def replayed(self, slot: int, told: Told) -> Run:
        """A call that was told all that."""
        self.clock.at = told[0][0]
        run = self.begun(slot, self.case.calls[slot])
        for now, value in told[1:]:
            self.clock.at = now
            if isinstance(run.effect, Sync):
                run.buyer.time.moment(self.clock, _headers(now))
            run.go_on(value)
        return run

    def carry_out(self, run: Run, told: str) -> Any:
        """The result of its effect, or what ends it; what the service says to it is `told`."""
        buyer, intent, now = run.buyer, run.intent, self.clock.at
        try:
            match run.effect:
                case Look(at, since):
                    return look(buyer, intent, at, since)
                case Sync():
                    buyer.time.moment(buyer.clock, _headers(now))
                case Ask():
                    return Answer(_offer(now, int(told or self.case.prices[0]), self.case.identified))
                case Sign(terms, owner):
                    return ask_signer(sign(buyer, intent, terms, owner))
                case Write(row, change):
                    if isinstance(change, Submit):
                        return buyer.ledger.submit(change)
                    return None if row is None else buyer.ledger.update(row.payment.id, change, row)
                case Verify():
                    return NODE[told or "accepts it"]
                case Send():
                    if told in ("lost", "not received"):
                        raise APIConnectionError(told, method="POST", url=URL, sent=told == "lost")
                    said = _said(told, now, self.case)
                    return Answer(said, None if said.status == 200 else status_error("POST", URL, said, now=now))
        except TradeError as error:
            return error
        return None

    # What can happen

    def moves(self, world: World) -> Moves:
        """All that can happen next."""
        case = self.case
        yield from self._clock_and_chain(world)
        for which, book in enumerate(world.books):
            if book is not None and self.proves:
                yield from self._person(world, which, book)
        if case.copied and world.books[1] is None:
            book = world.books[0]
            assert book is not None
            copy = self.gone(0, book, "%", GONE)  # there, nobody knows whether those calls run
            yield "the ledger is copied to a second machine", world._replace(books=(book, copy))
        if case.lost and not world.lost and world.books != (self.empty,):
            calls = tuple(ENDED if isinstance(one, Call) else one for one in world.calls)
            lost = world._replace(books=(self.empty,), calls=calls, lost=True, verdict=None)
            yield "the ledger is lost, and its programs end", lost
        working = sum(isinstance(one, Call) for one in world.calls)
        for slot, call in enumerate(world.calls):
            if isinstance(call, Call):
                yield from self._goes_on(world, slot, call)
                if world.kills < case.kills:
                    yield f"call {slot} is killed", self._killed(world, slot, call)
            elif call is None:
                if working < case.together and world.books[self.which(slot)] is not None:
                    self.clock.at = world.now
                    effect = self.begun(slot, case.calls[slot]).effect
                    first = Call(((world.now, None),), effect, self.number((slot, world.now)))
                    yield f"call {slot} begins", world._replace(calls=_with(world.calls, slot, first))
                break  # the next one begins after it

    def _clock_and_chain(self, world: World) -> Moves:
        later = next((START + at for at in self.case.clock if START + at > world.now), None)
        if later is not None:
            cheques = tuple(one for one in world.cheques if one.until > later or not self.proves)
            yield f"the clock goes on to {later - START} s", world._replace(now=later, cheques=cheques)
        for cheque in world.cheques if self.proves else ():
            rest = tuple(one for one in world.cheques if one.nonce != cheque.nonce)
            chain = tuple(sorted((*world.chain, cheque._replace(since=world.now, until=world.now + 1))))
            yield f"the service cashes {cheque.nonce[-6:]}", world._replace(cheques=rest, chain=chain)

    def _person(self, world: World, which: int, book: Book) -> Moves:
        """A person marks what is open; the chain is asked, and what it said is used later."""
        case = self.case
        for one in [row.payment for row in book.rows]:
            taken = any(cheque.nonce == one.nonce for cheque in world.chain)
            for paid in (True, False) if case.wrong else (taken,) * case.marks:
                after = self._marked(which, book, one.id, Mark(paid=paid, now=world.now))
                if after != book:
                    told = f"a person marks {one.nonce[-6:]} as {'paid' if paid else 'unpaid'}"
                    yield told, _with_book(world, which, after)._replace(misled=world.misled or (taken and not paid))
            known = taken or world.now >= max(one.valid_before, one.counts_until)
            if case.witness and world.verdict is None and one.is_unresolved(world.now) and one.paid is None and known:
                yield f"the witness says: taken: {taken}", world._replace(verdict=(one.id, taken, one.signatures))
        if world.verdict is not None and which == 0:
            payment_id, taken, signatures = world.verdict
            mark = Mark(paid=taken, evidence="chain: so it is", signatures=signatures, now=world.now)
            after = self._marked(which, book, payment_id, mark)
            yield "what the witness said is used", _with_book(world, which, after)._replace(verdict=None)

    def _marked(self, which: int, book: Book, payment_id: str, mark: Mark) -> Book:
        try:
            self.load(which, book).update(payment_id, mark)
        except PaymentError:
            return book
        return self._after(which, book)

    def _after(self, which: int, before: Book) -> Book:
        after = self.book(which)
        stages = {row.payment.nonce: row.payment.stage.value for row in before.rows}
        self.arrows |= {(stages.get(row.payment.nonce, ""), row.payment.stage.value) for row in after.rows}
        return after

    def _killed(self, world: World, slot: int, call: Call) -> World:
        """What it was about to do is not done; its claim is that of a process that is not there any more."""
        which = self.which(slot)
        book = world.books[which]
        assert book is not None
        lost = tuple(sorted({*world.gone, *filter(None, [returned(call)])}))
        after = self.gone(which, book, f"call {slot}", GONE if self.case.remote else DEAD)
        calls = _with(world.calls, slot, ENDED)
        return _with_book(world, which, after)._replace(calls=calls, gone=lost, kills=world.kills + 1)

    def _goes_on(self, world: World, slot: int, call: Call) -> Moves:
        case, effect = self.case, call.effect
        choices: tuple[str, ...] = ("",)
        if isinstance(effect, Ask | Send):
            choices = case.answers if isinstance(effect, Send) else tuple(map(str, case.prices))
        if isinstance(effect, Verify):
            choices = tuple(NODE)
        for told in choices:
            yield f"call {slot}: {type(effect).__name__} {told}", self._step(world, slot, call, told)
        if world.cancels < case.cancels and not isinstance(effect, Write):
            for is_sent in (False, True) if isinstance(effect, Send | Verify) else (False,):
                is_given = is_sent and isinstance(effect, Send)  # nobody knows what a node does with it
                ended = Ended(is_sent=is_given)
                canceled = world._replace(cancels=world.cancels + 1)
                told = f"call {slot} is canceled at {type(effect).__name__}, sent: {is_sent}"
                yield told, self._step(canceled, slot, call, "accepts it" if is_sent else "is not reached", ended)

    def _step(self, world: World, slot: int, call: Call, told: str, ended: Ended | None = None) -> World:
        """Carry out one effect, or end the call there, and all that only this call notices after it."""
        which, sent, key, history = self.which(slot), call.sent, call.key, list(call.told)
        book, cheques, nonces, got = world.books[which], world.cheques, world.nonces, world.got
        assert book is not None
        run, self.clock.at = self.replayed(slot, call.told), world.now
        self.seen = {one.nonce for one in (*cheques, *world.chain)}
        self.load(which, book)
        goes_on: Call | str = ENDED
        try:
            while True:
                effect = run.effect
                is_given = isinstance(effect, Verify) and NODE[told].is_asked
                if isinstance(effect, Send) and (ended is None or ended.is_sent):
                    is_given = told != "not received"
                if isinstance(effect, Verify | Send) and is_given:
                    cheque = _cheque(effect.payment, world.now)
                    sent |= isinstance(effect, Send)
                    is_valid = cheque.until > world.now or not self.proves
                    if is_valid and all(one.nonce != cheque.nonce for one in world.chain):
                        cheques = tuple(sorted({*cheques, cheque}))
                if isinstance(effect, Write) and isinstance(effect.change, Submit) and effect.change.earlier is None:
                    same = [row.payment for row in book.rows if row.payment.body == run.intent.body]
                    closed = 0 if self.case.named else sum(is_closed(one, world.now) for one in same)
                    label = f"{self.case.calls[slot]}{closed}"
                    nonces = tuple(sorted({*nonces, (effect.change.payment.nonce, label)}))
                value = self.carry_out(run, told) if ended is None else ended
                if isinstance(effect, Sleep) and isinstance(history[-1][1], Overview):
                    # It waits for another call, and looks again: as if it had not looked.
                    history.pop()
                    run, key = self.replayed(slot, tuple(history)), self.number((slot, history[0][0]))
                    for now, value in history[1:]:
                        key = self.number((key, now, _key(value)))
                else:
                    history.append((world.now, value))
                    key = self.number((key, world.now, _key(value)))
                    run.go_on(value)
                told, ended = "", None
                if isinstance(run.effect, Send) and not self.case.identified:
                    is_late = run.effect.payment.valid_before <= world.now + MARGIN
                    self.problem = f"call {slot} sends what has expired" if is_late else self.problem
                is_choice = isinstance(run.effect, Ask) and len(self.case.prices) > 1
                if isinstance(run.effect, SHARED) or is_choice or self.case.every:
                    goes_on = Call(tuple(history), run.effect, key, sent)
                    break
        except StopIteration as done:
            nonce = done.value.payment.nonce
            if not self.case.named and nonce in got and done.value.again:
                self.problem = f"the answer of {nonce} was given twice"
            got = tuple(sorted({*got, nonce}))
        except (PaymentError, APIError) as error:
            payment, possible = error.payment, {one.nonce for one in (*cheques, *world.chain)}
            is_free = error.charged is False and not world.misled
            if sent and (payment is None or (is_free and payment.nonce in possible)):
                self.problem = f"call {slot} handed a payment over and ended with {error!r}, charged {error.charged}"
            is_unsent = not (self.proves or world.kills or payment is None or payment.nonce in possible)
            if is_unsent and error.charged is not False:
                self.problem = f"nothing was handed over, and call {slot} ended with {error!r}, charged {error.charged}"
        except Ended:
            pass
        calls = _with(world.calls, slot, goes_on)
        after = _with_book(world, which, self._after(which, book))
        return after._replace(calls=calls, cheques=cheques, nonces=nonces, got=got)

    # All of it

    def walk(self, check: Callable[[Search, World], str | None]) -> Found:
        """Walk all courses, breadth first, and check every state.

        Raises:
            AssertionError: `check` found something wrong. The message is the shortest course to it.
        """
        case = self.case
        books = (self.empty, None) if case.copied else (self.empty,)
        first, began, count = World(START + case.clock[0], books, (None,) * len(case.calls)), time.process_time(), 0
        seen: dict[World, tuple[World, str] | None] = {first: None}
        todo = deque([first])
        gc.disable()  # many small tuples, and no circles
        try:
            with self.names():
                while todo:
                    world = todo.popleft()
                    for told, after in self.moves(world):
                        count += 1
                        problem, self.problem = self.problem, None
                        if after in seen and problem is None:
                            continue
                        seen.setdefault(after, (world, told))
                        problem = problem or check(self, after)
                        assert problem is None, f"{problem}\n{self.course(seen, world, told, after)}"
                        todo.append(after)
        finally:
            gc.enable()
        return Found(len(seen), count, time.process_time() - began)

    def course(self, seen: dict[World, tuple[World, str] | None], world: World, told: str, last: World) -> str:
        """The steps to a state, and what it is."""
        steps: list[str] = []
        at: tuple[World, str] | None = (world, told)
        while at is not None:
            world, told = at
            steps.append(f"{world.now - START:5} s  {told}")
            at = seen[world]
        return "\n".join([f"{self.case}", *reversed(steps), *told_of(last)])

    def way_out(self, letter: str, which: int, book: Book, used: frozenset[str], now: int) -> str | None:
        """What is without a way out: all programs end, time passes, the service is honest, a person marks what is open.

        Then a call gets an answer. A name that was paid for without one is for a person.
        """
        self.gone(which, book, "%", DEAD)
        ledger = self.ledgers[which]
        for turn in range(6):
            now += 10_000
            self.clock.at = now
            run = self.begun(len(self.case.calls) + turn, letter, Budget.unlimited())
            run.buyer.ledger = ledger
            try:
                while True:
                    is_used = isinstance(run.effect, Send) and run.effect.payment.nonce in used
                    told = ("used" if is_used else "delivered") if isinstance(run.effect, Send) else ""
                    run.go_on(self.carry_out(run, told))
            except StopIteration:
                return None
            except (PaymentError, APIError) as error:
                if error.code == "already_delivered":
                    return None
                payment = error.payment
                if payment is None:
                    return f"{error!r}"
                try:
                    ledger.update(payment.id, Mark(paid=payment.nonce in used, now=now + 5_000))
                except PaymentError as problem:
                    return f"{error!r}, and then {problem!r}"
        return "it goes on and on"


def returned(call: Call | str | None) -> str | None:
    """The nonce of the answer that only a call has: it returns it next, or was canceled and puts it back."""
    if not isinstance(call, Call):
        return None
    change = call.effect.change if isinstance(call.effect, Write) else None
    puts_back = isinstance(change, Record) and change.collected is False
    if not (puts_back or isinstance(call.effect, HandOver)):
        return None
    rows = [value if isinstance(value, LedgerRow) else getattr(value, "row", None) for _, value in call.told]
    return next(str(row.payment.nonce) for row in reversed(rows) if row is not None)


def _cheque(payment: Payment, now: int) -> Cheque:
    signed = decoded(str(payment.header))["payload"]["authorization"]
    return Cheque(signed["nonce"], int(signed["value"]), now, int(signed["validBefore"]))


def _with(parts: tuple[Any, ...], at: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:at], part, *parts[at + 1 :])


def _with_book(world: World, which: int, book: Book) -> World:
    return world._replace(books=_with(world.books, which, book))


@dataclass(frozen=True)
class Found:
    """How much a search has seen."""

    states: int
    moves: int
    seconds: float
    """Of the processor."""

    def __str__(self) -> str:
        return f"{self.states:,} states, {self.moves:,} moves, {self.seconds:.1f} s"


def told_of(world: World) -> Iterator[str]:
    """A state in words."""
    yield f"chain: {[f'{one.nonce[-6:]} of {one.amount}' for one in world.chain]}"
    yield f"cheques: {[f'{one.nonce[-6:]} of {one.amount} until {one.until - START} s' for one in world.cheques]}"
    yield f"calls: {[type(one.effect).__name__ if isinstance(one, Call) else one for one in world.calls]}"
    for row in itertools.chain.from_iterable(book.rows for book in world.books if book is not None):
        one = row.payment
        yield (
            f"ledger: {one.nonce[-6:]} {one.stage}, {one.code}, paid {one.paid} ({one.proof}), counts {one.counted}, "
            f"valid until {one.valid_before - START} s, {one.submissions} submissions, {one.signatures} signatures, "
            f"waits {one.waits}, charged {one.charged}, claimed by {row.owner}"
        )
