"""What a call learned and could not write down: every read sees it, and it is written before the next change."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Ledger, LedgerError, Payment, PaymentStage, Receipt
from tradesdk.fleet import create_tables
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.changes import (
    LedgerRow,
    Lookup,
    Record,
    Resubmit,
)
from tradesdk.payments.state_machine import DELIVERED, NOT_RECEIVED, OPEN, REJECTED, Report

from .._postgres import Postgres, new_schema
from .._rows import each_of
from ._ledger import NOW, PLENTY, REPLY, Told, claim, draft, standing, submitted, wanted


class Store:
    """Opens ledgers over one store, as several processes do."""

    def __init__(self, another: Callable[[], Ledger]) -> None:
        self.opened: list[Ledger] = []
        self._another = another
        self.other = self()

    def __call__(self) -> Ledger:
        self.opened.append(self._another())
        return self.opened[-1]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.long)])
def same(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "file":
        store = Store(lambda: Ledger(tmp_path / "ledger", sync=False))
    else:
        server, schema = request.getfixturevalue("postgres"), new_schema()
        assert isinstance(server, Postgres)
        create_tables(server.url(), schema=schema)
        store = Store(lambda: Ledger.postgres(server.url(), schema=schema))
    yield store
    for ledger in store.opened:
        ledger.close()


@contextmanager
def full(ledger: Ledger, *, landed: bool = False, times: float = math.inf) -> Iterator[None]:
    """No transaction that writes succeeds, so many times; with `landed` only its answer is lost."""
    run = ledger._engine._run

    def failing(step: Any, deadline: float, *, write: bool) -> Any:
        nonlocal times
        times -= write
        if not write or times < 0:
            return run(step, deadline, write=write)
        if landed:
            run(step, deadline, write=write)
        raise LedgerError("the disk is full", code="ledger_failed")

    ledger._engine._run = failing  # type: ignore[method-assign]
    try:
        yield
    finally:
        ledger._engine._run = run  # type: ignore[method-assign]


def sent(ledger: Ledger, **changes: Any) -> LedgerRow:
    """A payment that the call `me` has just handed over."""
    row = ledger.submit(wanted(draft(**changes), owner="me", until=NOW + 300))
    assert row is not None
    return row


def record(row: LedgerRow, report: Report, end: Record | None = None) -> Record:
    before = replace(row.payment, counted=0, submissions=0, signatures=0, header=None)
    number = row.payment.signatures
    end = Told(owner="me") if end is None else end
    return replace(end, report=report, signatures=number, before=before, now=NOW + 1)


def written_as(same: Store, row: LedgerRow) -> Payment | None:
    """What others see."""
    return same.other.get(row.payment.id)


RECEIPT = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
ANSWER = Report(DELIVERED, "delivered", receipt=RECEIPT, reply=REPLY)
COLLECT, RELEASE = Record(owner="me", collected=True, now=NOW + 1), Record(owner="me")
REOPEN = Record(owner="me", collected=False, reply=REPLY)
REPORTS: dict[str, tuple[Report, Any]] = {
    "answered": (ANSWER, COLLECT),
    "answered, not collected": (ANSWER, RELEASE),
    "lost": (Report(OPEN, "lost"), RELEASE),
    "rejected": (Report(REJECTED, "no"), RELEASE),
    "not handed over": (Report(NOT_RECEIVED, "interrupted", sent=False), RELEASE),
}


@each_of("purchase", [None, "named"])
@each_of(("report", "ends"), REPORTS.values(), ids=REPORTS)
@each_of("landed", [False, True])
def test_it_ends_as_if_nothing_had_failed(
    same: Store, purchase: str | None, report: Report, ends: Any, landed: bool
) -> None:
    """Whether the transaction was done or not; a read sees it at once, the next change writes it."""
    whole, ledger = Ledger.memory(), same()
    held = ledger.spending(PLENTY, now=NOW).held
    kept, row = sent(whole, purchase=purchase), sent(ledger, purchase=purchase)
    expected = whole.update(kept.payment.id, record(kept, report, ends), kept)
    with full(ledger, landed=landed):
        found = ledger.update(row.payment.id, record(row, report, ends), row)
        assert found.unwritten is not None
        assert "is written later" in found.unwritten.message
        payment = replace(
            expected.payment, **{name: getattr(row.payment, name) for name in ("id", "fingerprint", "nonce")}
        )
        assert (found.payment, found.owner) == (payment, None)
        assert ledger.get(payment.id) == ledger.history(limit=1)[0] == payment
        known = standing(whole, kept.payment.fingerprint, now=NOW + 2)
        seen = ledger.overview(Lookup(now=NOW + 2, budget=PLENTY, fingerprint=payment.fingerprint))
        assert (seen.payment, seen.row and seen.row.owner) == (known and payment, None)
        with pytest.raises(LedgerError, match="nothing was sent"):
            submitted(ledger)
    submitted(ledger)
    assert written_as(same, row) == payment
    assert same.other.spending(PLENTY, now=NOW).held == held + 30_000 + whole.spending(PLENTY, now=NOW).held
    ledger.check()


@each_of("change", [COLLECT, REOPEN, RELEASE])
def test_what_becomes_of_an_answer_is_written_later_too(same: Store, change: Record) -> None:
    ledger = same()
    row = sent(ledger)
    row = ledger.update(row.payment.id, record(row, ANSWER, COLLECT if change is REOPEN else None), row)
    with full(ledger):
        found = ledger.update(row.payment.id, change, row)
        waits = change is not COLLECT
        assert (found.payment.waits, found.payment.reply, found.owner) == (waits, REPLY if waits else None, None)
        assert ledger.get(row.payment.id) == found.payment
    ledger.close()
    assert written_as(same, row) == found.payment


def test_before_it_nothing_else_is_written(same: Store) -> None:
    """Budgets and purchases are decided by what is written."""
    ledger = same()
    row = sent(ledger)
    with full(ledger):
        ledger.update(row.payment.id, record(row, ANSWER, COLLECT), row)
    with full(ledger, times=1), pytest.raises(LedgerError, match="nothing was sent"):
        submitted(ledger)
    assert ledger.history(limit=2)[0].id == row.payment.id


def test_an_answer_that_another_call_has_collected_is_not_given_again(same: Store) -> None:
    ledger = same()
    row = sent(ledger)
    with full(ledger, landed=True):
        ledger.update(row.payment.id, record(row, ANSWER, RELEASE), row)
        assert same.other.update(row.payment.id, Record(owner="other", collected=True)).mine
    ledger.close()
    after = written_as(same, row)
    assert after is not None
    assert (after.waits, after.reply) == (False, None)


def another_call(ledger: Ledger, row: LedgerRow) -> None:
    """Goes on with it: the claim of the first has ended."""
    change = Resubmit(signatures=row.payment.signatures, owner="other", until=NOW + 700, now=NOW + 400)
    assert ledger.update(row.payment.id, change).mine


def signed_again(ledger: Ledger, row: LedgerRow) -> None:
    later: dict[str, Any] = {"owner": "other", "until": NOW + 700, "now": NOW + 400, "over": NOW + 400}
    assert submitted(ledger, earlier=row.payment, **later).signatures == 2


@each_of("name", REPORTS)
@each_of("moved", [another_call, signed_again])
def test_it_is_dropped_where_it_is_no_longer_true(same: Store, name: str, moved: Any) -> None:
    """Of another signature it says nothing. That nothing was taken only the call knows that has claimed it."""
    ledger = same()
    row = sent(ledger)
    report, ends = REPORTS[name]
    with full(ledger):
        ledger.update(row.payment.id, record(row, report, ends), row)
        moved(same.other, row)
        before = written_as(same, row)
        assert before is not None
        seen = ledger.get(row.payment.id)
    is_dropped = moved is signed_again or name in ("rejected", "not handed over")
    ledger.close()
    after = written_as(same, row)
    assert after is not None
    assert (after == before) is is_dropped
    assert seen == after
    assert after.counted == 30_000
    if not is_dropped:
        assert after.code is report.meaning.code
    ledger.check()


def test_a_claim_that_has_lapsed_is_still_the_calls(same: Store) -> None:
    ledger = same()
    row = sent(ledger)
    with full(ledger):
        ledger.update(row.payment.id, record(row, *REPORTS["rejected"]), row)
    assert claim(same.other, row.payment, "me", now=NOW + 900)
    ledger.close()
    after = written_as(same, row)
    assert after is not None
    assert after.code is ReasonCode.REJECTED


@each_of("landed", [False, True])
@each_of("again", [False, True])
def test_a_signature_whose_end_is_not_known_was_not_handed_over(same: Store, landed: bool, again: bool) -> None:
    ledger = same()
    held = ledger.spending(PLENTY, now=NOW).held
    first = sent(ledger) if again else None
    earlier = None if first is None else first.payment
    asked = draft(None if earlier is None else earlier.fingerprint)
    change = wanted(asked, earlier=earlier, owner="me", until=NOW, over=NOW + 400)
    with full(ledger, landed=landed), pytest.raises(LedgerError, match="nothing was sent"):
        ledger.submit(change)
    after = ledger.get(change.payment.id)
    if first is not None:
        assert after is not None
        assert (after.submissions, after.counted, after.in_doubt) == (1, 30_000, True)
    else:
        assert (after is not None) is landed
        assert after is None or (after.is_unsent and after.header is None)
    assert ledger.spending(PLENTY, now=NOW).held == held + 30_000 * again
    ledger.check()


@each_of("landed", [False, True])
@each_of("owner", ["me", "other"])
def test_a_resend_whose_end_is_not_known_is_one_submission_less(same: Store, landed: bool, owner: str) -> None:
    """Never none: it was sent before. By the call that has claimed it already, one too many does no harm."""
    ledger = same()
    row = sent(ledger)
    resend = Resubmit(signatures=1, owner=owner, until=NOW + 700, now=NOW + 400)
    with full(ledger, landed=landed), pytest.raises(LedgerError, match="was not resent"):
        ledger.update(row.payment.id, resend, row)
    after = ledger.get(row.payment.id)
    assert after is not None
    assert (after.submissions, after.is_open) == (1 + (landed and owner == "me"), True)
    if owner == "other":
        assert claim(ledger, after, "next", now=NOW + 400), "a claim is left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible(Record):
    """An end that no database takes."""

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return replace(row, payment=replace(row.payment, submissions=2**70))


def test_one_that_the_database_refuses_is_dropped_and_the_others_are_written(
    same: Store, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = same()
    rows = [sent(ledger) for _ in range(3)]
    with full(ledger):
        for row, change in zip(rows, [RELEASE, Impossible(owner="me"), RELEASE], strict=True):
            ledger.update(row.payment.id, record(row, ANSWER, change) if change is RELEASE else change, row)
    caplog.clear()
    new = submitted(ledger)
    assert [one.stage for one in same.other.history()] == ["sent", "answered", "sent", "answered"]
    assert [one.id for one in same.other.history()] == [new.id, *(row.payment.id for row in reversed(rows))]
    (told,) = caplog.records
    assert (told.levelno, vars(told)["payment_id"]) == (logging.ERROR, rows[1].payment.id)
    assert "cannot be written" in told.getMessage()


def test_close_tries_once_more_and_says_what_is_lost(same: Store, caplog: pytest.LogCaptureFixture) -> None:
    ledger = same()
    row = sent(ledger)
    with full(ledger):
        ledger.update(row.payment.id, record(row, ANSWER, COLLECT), row)
        caplog.clear()
        ledger.close()
        (told,) = caplog.records
        assert (vars(told)["event"], vars(told)["payment_id"]) == ("ledger_failed", row.payment.id)
    assert written_as(same, row) == row.payment
    ledger.close()
    after = written_as(same, row)
    assert after is not None
    assert after.stage is PaymentStage.ANSWERED
    assert after.code is ReasonCode.DELIVERED
    assert len(caplog.records) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_leaves_it_to_its_parent(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", sync=False)
    row = sent(ledger)
    with full(ledger):
        ledger.update(row.payment.id, record(row, ANSWER, COLLECT), row)
    child = os.fork()
    if not child:
        submitted(ledger)
        os._exit(0 if ledger.get(row.payment.id) == row.payment else 1)
    assert os.waitpid(child, 0)[1] == 0
    with ledger:
        found = ledger.get(row.payment.id)
    assert found is not None
    assert found.stage is PaymentStage.ANSWERED
