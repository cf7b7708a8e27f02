"""Random courses of the ledger beside a plain model of it; and what a long past costs."""

import sqlite3
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import Budget, Ledger, PaymentState
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.schema import to_row

from .._rows import each_of
from .._seeds import drawn
from ..ledger_contract import check_ledger_course
from ..ledger_contract.ledger_model import Course
from ._ledger import NOW, ORIGIN, draft, reserve

T = TypeVar("T")


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_courses(data: st.DataObject) -> None:
    """Drawn by hypothesis, so that a course that fails is made shorter."""

    def pick(options: Sequence[T], /) -> T:
        return data.draw(st.sampled_from(options))

    Course(Ledger.memory(), pick).play(40)


@each_of("seed", range(10))
def test_a_course_that_ledgers_of_others_pass_too(seed: int) -> None:
    check_ledger_course(Ledger.memory, seed)


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_LEDGER_COURSES", 150, together=150))
def test_many_courses(seeds: range) -> None:
    for seed in seeds:
        print(f"course {seed}")
        check_ledger_course(Ledger.memory, seed, steps=60)


def test_a_long_past_makes_nothing_slower() -> None:
    """Counted in steps of SQLite's machine, which are the same on every computer."""
    ledger = Ledger.memory()

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
                created = NOW - 90_000 - number  # neither of the last hour nor of today
                done = draft(state=PaymentState.DELIVERED, created=created, valid_before=int(created))
                db.execute(schema.ADD, [*to_row(done), None, 0.0])

    fill(50)
    few = steps()
    fill(5_000)
    assert few > 10
    assert steps() < 4 * few
    assert ledger.spending(Budget(), now=NOW).today == 60_000


@each_of(
    ("statement", "values", "index"),
    [
        (schema.BLOCKING, dict.fromkeys(("fingerprint", "since", "over", "after", "until"), 0), "standing"),
        (schema.EXPIRING, (0,), "by_state"),
        (schema.EXPIRING_OF, (ORIGIN, ORIGIN, 0), "INDEX live (url>? AND url<?"),
        (schema.SPENT, dict.fromkeys(("hour", "today", "since"), 0), "COVERING INDEX counted"),
        (schema.SPENT_RELEASED, dict.fromkeys(("hour", "today", "since"), 0), "by_state"),
        (schema.TOTALS_RELEASED, (), "by_state"),
        (schema.SPENT_BY_RUN, ("r",), "by_run"),
        (schema.COUNTED, (0,), "counted"),
        (schema.COUNTED_SERVICE, (0,), "counted"),
        (schema.FORGET, (0,), "kept"),
        (schema.newest_of(2), ("delivered", 9, 9, "unknown", 9, 9, 9), "by_state"),
        (schema.newest_of(1, unproven=True), ("delivered", 9, 9, 9), "by_state"),
        (schema.BY_ID, ("a",), "autoindex"),
    ],
)
def test_no_question_reads_the_whole_ledger(
    statement: str, values: tuple[object, ...] | dict[str, object], index: str
) -> None:
    db = sqlite3.connect(":memory:")
    for line in schema.TABLES:
        db.execute(line)
    plan = " / ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    db.close()
    assert index in plan
    assert "SCAN payments" not in plan
