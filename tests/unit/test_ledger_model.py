"""Random courses of the ledger beside a plain model of it; and what a long past costs."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import Budget, Ledger, PaymentStage, ReasonCode
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.engine import Transaction
from tradesdk.payments.ledger.schema import to_row
from tradesdk.payments.ledger.sqlite import SqliteTransaction

from .._rows import each_of
from .._seeds import drawn
from ._ledger import NOW, draft, reserve, submit, told
from ._ledger_model import Course, play_course

T = TypeVar("T")
SENT = PaymentStage.SENT


def test_a_course() -> None:
    play_course(Ledger.memory, 3)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_courses(data: st.DataObject) -> None:
    """Drawn by hypothesis, so that a course that fails is made shorter."""

    def pick(options: Sequence[T], /) -> T:
        return data.draw(st.sampled_from(options))

    Course(Ledger.memory(), pick).play(40)


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_LEDGER_COURSES", 150, together=150))
def test_many_courses(seeds: range) -> None:
    for seed in seeds:
        print(f"course {seed}")
        play_course(Ledger.memory, seed)


def test_a_long_past_makes_nothing_slower() -> None:
    """Counted in steps of SQLite's machine, which are the same on every computer."""
    ledger = Ledger.memory()

    def steps() -> int:
        passed = 0

        def tick() -> int:
            nonlocal passed
            passed += 1
            return 0

        ledger._engine.run(partial(report, tick, 10))
        payment = reserve(ledger, draft("new"), Budget(per_hour="9999", per_day="9999", total="9999"))
        ledger.spending(Budget(total="1"), now=NOW)
        ledger.history(stages=[SENT], limit=10)
        told(ledger, submit(ledger, payment), ReasonCode.DELIVERED)
        ledger._engine.run(partial(report, None, 0))
        return passed

    def report(handler: Callable[[], int] | None, every: int, db: Transaction) -> None:
        assert isinstance(db, SqliteTransaction)
        db.connection.set_progress_handler(handler, every)

    def fill(payments: int) -> None:
        def add(db: Transaction) -> None:
            for number in range(payments):
                created = NOW - 90_000 - number  # neither of the last hour nor of today
                old: dict[str, Any] = {"counted": 30_000, "created": created, "valid_before": int(created)}
                for done in (draft(stage=PaymentStage.ANSWERED, **old), draft(stage=SENT, refused=True, **old)):
                    db.write(schema.ADD, [*to_row(done), None, 0.0])

        ledger._engine.run(add, write=True)

    fill(50)
    few = steps()
    fill(1_000)
    assert few > 10
    assert steps() < 4 * few
    assert ledger.spending(Budget(), now=NOW).today == 60_000


@each_of(
    ("statement", "values", "index"),
    [
        (schema.FIND, ("a", 0, 0, 0, 0, 0, 0, 0), "standing"),
        (schema.SUMS, (0, 0, 0), "COVERING INDEX counted"),
        (schema.SUMS, (0, 0, 0), "INDEX kept"),
        (schema.BY_RUN, ("r", ""), "runs"),
        (schema.RESERVED, (), "SCAN payments USING INDEX reserved"),
        (schema.COUNTED, (0,), "counted"),
        (schema.FORGET, (0,), "kept"),
        (schema.VOID, (0, 0), "SCAN payments USING INDEX reserved"),  # which has only what is reserved
        (schema.newest_of(2)[0], ("answered", 9, 9) * 3 + ("sent", 9, 9) * 3 + (9,), "by_stage"),
        (schema.newest_of(1, unproven=True)[0], ("answered", 9, 9, 9), "by_stage"),
        (schema.BY_ID, ("a",), "autoindex"),
    ],
)
def test_no_question_reads_the_whole_ledger(statement: str, values: tuple[object, ...], index: str) -> None:
    db = sqlite3.connect(":memory:")
    for line in schema.TABLES:
        db.execute(line)
    plan = " / ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    db.close()
    assert index in plan
    assert "SCAN payments" not in plan.replace(index, "")
