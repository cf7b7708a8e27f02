"""Every course of small cases: no purchase is paid for twice, no budget overrun, no answer lost without a word.

Calls are killed or canceled at each effect, and begun again, alone and beside others: a kill before an effect is one
that does it no more, a kill before the next one is one that has done it. All courses of what the service says, and of
when it takes the money.
"""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tradesdk import Budget, PaymentStage
from tradesdk.payments.ledger import rules

from .._courses import CHEAP, ENDED, PRICE, Book, Case, Cheque, Search, World, returned
from .._seeds import one_of

PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "payment-stages.svg"
SVG = "{http://www.w3.org/2000/svg}"
HOUR = 3600


def check(search: Search, world: World) -> str | None:
    """What is wrong with a state."""
    case = search.case
    possible = world.chain + world.cheques
    problem = _one_nonce(world.cheques, world.chain, () if world.lost and not case.named else world.nonces)
    if problem is None and not world.misled:
        ledgers = 1 + world.lost + (case.copied and world.books[1] is not None)
        problem = _money(case, world.chain, world.cheques, ledgers)
    if problem is None and not (world.misled or world.lost):
        problem = _records(world.books, possible)
    problem = problem or _counts(case, world.books) or _answers(case, world) or _claims(search, world)
    if problem is None:
        used = frozenset(one.nonce for one in world.chain)
        for which, book in enumerate(world.books):
            for letter in dict.fromkeys(case.calls):
                problem = problem or (None if book is None else _way_out(search, letter, which, book, used, world.now))
    return problem


@functools.cache
def _one_nonce(
    cheques: tuple[Cheque, ...], chain: tuple[Cheque, ...], nonces: tuple[tuple[str, str], ...]
) -> str | None:
    """Only one nonce is handed over for a purchase, and the chain takes each nonce once."""
    purchase, handed_over = dict(nonces), defaultdict(set)
    for one in (*cheques, *chain):
        handed_over[purchase.get(one.nonce, one.nonce)].add(one.nonce)
    twice = {name: sorted(several) for name, several in handed_over.items() if len(several) > 1}
    return f"two nonces were handed over for one purchase: {twice}" if twice else None


@functools.cache
def _money(case: Case, chain: tuple[Cheque, ...], cheques: tuple[Cheque, ...], ledgers: int) -> str | None:
    """What was taken, and what may be: the largest amount of each nonce. Each ledger has a budget of its own."""
    most = {one.nonce: one for one in (*sorted(cheques, key=lambda one: one.amount), *chain)}
    total, hour = case.budget.total, case.budget.per_hour
    taken = sum(one.amount for one in most.values())
    if total is not None and taken > total * ledgers:
        return f"{taken} can be taken of a budget of {total} for each of {ledgers} ledgers"
    for last in most.values() if hour is not None else ():
        taken = sum(one.amount for one in most.values() if one.until > last.since - HOUR and one.since <= last.since)
        if hour is not None and taken > hour * ledgers:
            return f"{taken} can be taken within an hour, of a budget of {hour} for each of {ledgers} ledgers"
    return None


@functools.cache
def _records(books: tuple[Book | None, ...], possible: tuple[Cheque, ...]) -> str | None:
    """What was taken, or may be, is in a ledger, counts there, and is not said to be free."""
    for cheque in possible:
        known = [one for book in books if book and (one := book.with_nonce(cheque.nonce)) is not None]
        if not any(one.counted >= cheque.amount and one.paid is not False for one in known):
            return f"{cheque.nonce} was handed over, and does not count with {cheque.amount}"
        if all(one.charged is False for one in known):
            return f"{cheque.nonce} was handed over, and charged is False"
    return None


@functools.cache
def _counts(case: Case, books: tuple[Book | None, ...]) -> str | None:
    """What was not handed over counts nothing, and the rest no more than the budget."""
    for book in books:
        for one in () if book is None else [row.payment for row in book.rows]:
            if one.is_unsent and (one.counted or one.header is not None):
                return f"{one.nonce} was not handed over, and counts {one.counted}"
        # What was proven unpaid is free, and counts again if the service says later that it was paid.
        rows = () if case.marks or case.witness or book is None else book.rows
        counts = sum(rules.signed(row.payment)[0] for row in rows)
        if case.budget.total is not None and counts > case.budget.total:
            return f"{counts} counts, of a budget of {case.budget.total}"
    return None


def _answers(case: Case, world: World) -> str | None:
    """An answer is in a ledger, or its caller has it, or will next, or was killed right before that."""
    had = {*world.got, *world.gone, *map(returned, world.calls)}
    for book in world.books:
        for one in () if book is None else [row.payment for row in book.rows]:
            if one.stage is PaymentStage.ANSWERED and one.reply is None and one.nonce not in had:
                return f"the answer of {one.nonce} is in no ledger, and no caller has it"
    return None


def _claims(search: Search, world: World) -> str | None:
    ended = {f"call {slot}" for slot, call in enumerate(world.calls) if call == ENDED}
    for book in world.books:
        for row in () if book is None else book.rows:
            if row.owner in ended:
                return f"{row.owner} has ended, and claims {row.payment.nonce}"
    return None


def _way_out(search: Search, letter: str, which: int, book: Book, used: frozenset[str], now: int) -> str | None:
    key = letter, book, used
    if key not in search.ways:
        search.ways[key] = search.way_out(letter, which, book, used, now)
    end = search.ways[key]
    return None if end is None else f"there is no way out for purchase {letter}: {end}"


ALL = (
    "delivered",
    "lost",
    "unsettled",
    "not received",
    "bare",
    "rejected",
    "used",
    "refused",
    "down",
    "garbage",
    "empty",
)
RECEIPTS = ("delivered with a receipt", "lost", "unsettled", "garbage with a receipt", "refused with a receipt")
SOME = ("delivered", "lost", "unsettled", "not received")
LATE = (0, 56, 100)
"""In a validity, in its last seconds, in which nothing is sent any more, and after it."""
TWICE, FOUR = Budget(total="0.12"), Budget(total="0.24")
HOURLY = Budget(per_hour="0.06")

QUICK = {
    "killed, and called again": Case("aa", answers=("delivered", "lost"), retries=0, every=True),
    "two calls, one is killed": Case("aa", 2, ("delivered", "lost"), retries=0),
    "canceled, and called again": Case("aa", answers=("delivered", "lost"), retries=0, kills=0, cancels=1),
    "an answer that waits, and two calls": Case("aaa", 2, ("delivered",), kills=0, cancels=1, retries=0),
    "late": Case("a", answers=("delivered", "lost"), clock=(0, 100), kills=0),
    "never received": Case("aa", answers=("not received", "delivered"), kills=0),
    "a name": Case("aa", answers=("delivered", "used", "lost"), retries=0, named=True),
    "a contract wallet": Case("aa", answers=("delivered", "lost"), retries=0, cancels=1, contract=True),
}
LONG = {
    "every answer, every effect": Case("aa", answers=ALL, budget=TWICE, retries=0, every=True),
    "two calls and a third": Case("aaa", 2, SOME, retries=0),
    "two calls, canceled and killed": Case("aa", 2, SOME, cancels=1),
    "two purchases": Case("ab", 2, SOME, budget=TWICE),
    "two purchases, room for one": Case("aba", 2, SOME[:2], retries=0),
    "late": Case("aa", answers=SOME[:3], budget=TWICE, clock=LATE, cancels=1, retries=0),
    "two calls, late": Case("aa", 2, SOME[:2], budget=TWICE, clock=(0, 100), retries=0),
    "ten minutes": Case("aaa", answers=SOME[:2], budget=FOUR, clock=(0, 100, 700), retries=0, kills=0),
    "another machine is killed": Case("aa", 2, SOME[:2], clock=(0, 400), retries=0, remote=True),
    "an hour": Case("aaa", answers=SOME[:2], budget=HOURLY, clock=(0, 3600, 3800), retries=0, kills=0),
    "a person": Case("aa", answers=SOME, clock=(0, 100), retries=0, marks=True),
    "a person who is wrong": Case("aa", answers=SOME, budget=TWICE, clock=(0, 100), retries=0, wrong=True),
    "a witness": Case("aa", 2, RECEIPTS[:2], clock=(0, 100), retries=0, kills=0, witness=True),
    "receipts": Case("aa", 2, RECEIPTS, retries=0),
    "a contract wallet, late": Case("aa", 2, SOME[:2], clock=(0, 100), retries=0, contract=True),
    "two prices": Case("aaa", answers=SOME[:2], budget=TWICE, prices=(PRICE, CHEAP), clock=(0, 100), retries=0),
    "answers by identifier": Case("aa", answers=(*SOME, "rejected"), clock=LATE, identified=True, retries=0),
    "a name, and the ledger is lost": Case(
        "aa", answers=(*SOME, "used"), clock=(0, 100), retries=0, named=True, lost=True
    ),
    "an empty wallet": Case("aba", answers=("delivered", "lost", "empty"), budget=TWICE, clock=(0, 100), retries=0),
    "a name, and two copies": Case("aa", 2, (*SOME, "used"), clock=(0, 100), retries=0, named=True, copied=True),
}
LARGE = {
    "every answer, late": Case("aa", answers=ALL, budget=TWICE, clock=(0, 100), cancels=1, every=True),
    "every answer, beside another call": Case("aa", 2, ALL, budget=TWICE, cancels=1),
    "three calls, two killed": Case("aaa", 3, SOME[:2], retries=0, kills=2),
    "two purchases, late": Case("abab", 2, SOME[:3], budget=TWICE, clock=LATE, retries=0),
    "a witness, two prices": Case(
        "aaa", 2, RECEIPTS[:3], budget=TWICE, prices=(PRICE, CHEAP), clock=(0, 100), retries=0, witness=True
    ),
    "three names, the ledger is lost": Case("aba", 2, (*SOME, "used"), TWICE, clock=(0, 100), named=True, lost=True),
}
"""For scripts/soak."""
DRAWN = {name: LONG[name] for part in one_of([list(LONG)[at::3] for at in range(3)]) for name in part}
if "TRADE_LARGE_WORLDS" in os.environ:
    DRAWN |= LARGE


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in QUICK.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.long) for name, case in DRAWN.items()),
    ],
)
def test_every_course(case: Case) -> None:
    search = Search(case)
    found = search.walk(check)
    print(found)
    assert found.states > 20
    for cached in (_one_nonce, _money, _records, _counts):
        cached.cache_clear()


@pytest.mark.long
def test_the_picture_of_the_stages() -> None:
    """Whatever a step does to the stage of a payment is an arrow of the picture, and each arrow is seen."""
    seen: set[tuple[str, str]] = set()
    for case in (LONG["receipts"], replace(LONG["a person"], answers=("delivered", "lost", "used", "garbage"))):
        search = Search(case)
        search.walk(lambda search, world: None)
        seen |= search.arrows
    picture = ElementTree.parse(PICTURE).getroot()  # noqa: S314 - the file is this repository's own
    stages = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "stage"]
    assert sorted(map(str, stages)) == sorted(stage.value for stage in PaymentStage)
    arrows = [path.attrib for path in picture.iter(f"{SVG}path") if "data-from" in path.attrib]
    drawn = {(arrow["data-from"], arrow["data-to"]) for arrow in arrows}
    drawn |= {(arrow["data-to"], arrow["data-from"]) for arrow in arrows if "data-both" in arrow}
    assert {(before, now) for before, now in seen if before != now} == drawn
