"""What a long past of the ledger costs: nothing."""

import sqlite3
from collections import Counter
from collections.abc import Callable

import pytest

from tradesdk import Budget, Ledger, PaymentRefusedError, PaymentStage
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.changes import Lookup
from tradesdk.payments.ledger.engine import SqliteTransaction, Transaction
from tradesdk.payments.ledger.rules import UNITS, unit_numbers
from tradesdk.payments.ledger.schema import to_row

from .._rows import each_of
from ._ledger import NOW, PLENTY, draft, submit, submitted, told

SENT = PaymentStage.SENT


def steps(ledger: Ledger, use: Callable[[], object]) -> int:
    """Steps of SQLite's machine, in tens, which are the same on every computer."""
    passed = 0

    def tick() -> int:
        nonlocal passed
        passed += 1
        return 0

    def watch(ticking: Callable[[], int] | None) -> None:
        def report(db: Transaction) -> None:
            assert isinstance(db, SqliteTransaction)
            db.connection.set_progress_handler(ticking, 10)

        ledger._engine.run(report)

    watch(tick)
    use()
    watch(None)
    return passed


def fill(ledger: Ledger, payments: int, last: float, apart: float) -> None:
    """Payments that were answered, and as many that were refused, at times before the last one."""
    row, counted, rows = to_row(draft(counted=30_000)), Counter[tuple[str, int]](), []
    values = dict(zip(schema.COLUMNS, row, strict=True))
    for number in range(2 * payments):
        end, name = int(last - apart * (number // 2)), f"{values['id']}_{number}"
        answered = {"stage": "answered", "code": "delivered"} if number % 2 else {"stage": "sent", "code": "rejected"}
        changes = {"id": name, "fingerprint": name, "counts_until": end, **answered}
        rows.append([*(values | changes).values(), None, 0.0])
        counted.update(zip(UNITS, unit_numbers(end), strict=True))

    def add(db: Transaction) -> None:
        assert isinstance(db, SqliteTransaction)
        db.connection.executemany(schema.ADD, rows)
        for (unit, at), times in counted.items():
            db.write((schema.count(1), (unit, at, times * 30_000, times * 30_000)))

    ledger._engine.run(add, write=True)


def test_a_long_past_makes_nothing_slower() -> None:
    ledger = Ledger.memory()

    def use() -> None:
        budget = Budget(per_hour="9999", per_day="9999", total="9999")
        ledger.overview(Lookup(now=NOW, budget=budget, fingerprint="new"))
        ledger.spending(Budget(total="1"), now=NOW)
        ledger.history(stages=[SENT], limit=10)
        told(ledger, submitted(ledger, draft("new"), budget), ReasonCode.DELIVERED)

    old = NOW - 90_000  # neither of the last hour nor of today
    fill(ledger, 50, old, 1)
    few = steps(ledger, use)
    fill(ledger, 1_000, old, 1)
    assert few > 10
    assert steps(ledger, use) < 4 * few
    assert ledger.spending(Budget(), now=NOW).today.counted == 60_000


def test_a_full_hour_makes_a_refusal_no_slower() -> None:
    """It reads 61 minutes at most, whatever was paid in them."""
    ledger = Ledger.memory()

    def refused() -> None:
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            submit(ledger, draft(amount=10**9), Budget(per_hour="1000"))

    fill(ledger, 61, NOW, 60)
    few = steps(ledger, refused)
    fill(ledger, 2_470, NOW, 1.45)
    assert ledger.spending(PLENTY, now=NOW).last_hour.counted > 5_000 * 30_000
    assert steps(ledger, refused) < 1.2 * few


@each_of(
    ("statement", "values", "index"),
    [
        (schema.FIND, ("a", 0, 0, 0, 0, 0), "standing"),
        (schema.SUMS, (0, 0), "SEARCH sums"),
        (schema.BY_RUN, ("r", ""), "runs"),
        (schema.FORGET, (0,), "kept"),
        (schema.newest_of(2)[0], ("answered", 9, 9) * 3 + ("sent", 9, 9) * 3 + (9,), "by_stage"),
        (schema.newest_of(1, unproven=True)[0], ("answered", 9, 9) * 2 + (9,), "by_stage"),
        (schema.newest_of(1, unproven=True)[0], ("answered", 9, 9) * 2 + (9,), "partly"),
        (schema.OTHER_PAYER, ("a", "b"), "by_name"),
        (schema.HELD, (0, 9, 9), "by_stage"),
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
    assert "SCAN sums" not in plan
