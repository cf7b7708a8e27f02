"""The signed header, which is worth money: where a payment shows it, and where it does not."""

import copy
import dataclasses
import pickle
import sqlite3
import traceback
from pathlib import Path

import pytest

from tradesdk import Ledger, LedgerError, Payment, PaymentStage, Receipt
from tradesdk.payments import SignedHeader

from .._rows import each_of
from ._ledger import HEADER, NOW, draft, mark, resubmit, submitted
from ._pickled import pickled

RECEIPT = Receipt(success=True, transaction="0xab", network="eip155:8453", raw={"extra": [1]})


def signed() -> Payment:
    return draft(header=HEADER, stage=PaymentStage.SENT, submissions=1, receipt=RECEIPT, reply=b"x", purchase="j")


def test_a_summary_says_whether_it_was_paid() -> None:
    with Ledger.memory() as ledger:
        payments = [submitted(ledger, draft(fingerprint=name)) for name in ("open", "paid", "unpaid")]
        said = [
            payments[0].summary(),
            *(mark(ledger, one, paid=one is payments[1], now=NOW + 200).summary() for one in payments[1:]),
        ]
    assert [text.partition("$0.03, ")[2] for text in said] == [
        f"sent, valid until {payments[0].expires_at:%H:%M:%S} UTC",
        "taken, paid (person)",
        "sent, not paid (person)",
    ]


def test_a_header_is_text_that_does_not_show_itself() -> None:
    assert HEADER == "c2lnbmVkIGNoZXF1ZQ=="
    assert f"{HEADER}" == str(HEADER) == "c2lnbmVkIGNoZXF1ZQ=="
    assert repr(HEADER) == "'****'"
    assert "c2lnbm" not in f"{HEADER!r} {[HEADER]} { ({'header': HEADER})!r}"
    assert not hasattr(HEADER, "__dict__")


def test_the_ledger_gives_it_back_as_one() -> None:
    with Ledger.memory() as ledger:
        payment = submitted(ledger)
        found = [
            payment,
            ledger.get(payment.id),
            *ledger.history(),
            resubmit(ledger, payment),
        ]
        for one in found:
            assert one is not None
            assert type(one.header) is SignedHeader
            assert one.header == HEADER
            assert one.sent() == (b"PAYMENT-SIGNATURE", b"c2lnbmVkIGNoZXF1ZQ==")


@each_of("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_has_all_but_the_header(protocol: int) -> None:
    payment = signed()
    content = pickle.dumps(payment, protocol)
    assert HEADER.encode() not in content
    there = pickle.loads(content)  # noqa: S301  # our own bytes
    assert there == dataclasses.replace(payment, header=None)
    assert (there.receipt, there.reply, there.purchase) == (RECEIPT, b"x", "j")


def test_the_pickle_of_an_error_has_no_header() -> None:
    payment = signed()
    error = LedgerError("no", code="ledger_failed", payment=payment)
    assert HEADER.encode() not in pickle.dumps(error)
    assert pickled(error).payment == dataclasses.replace(payment, header=None)


def test_copies_keep_it() -> None:
    payment = signed()
    for twin in (copy.copy(payment), copy.deepcopy(payment), dataclasses.replace(payment)):
        assert twin == payment
        assert twin.header == HEADER
    inner = copy.deepcopy(payment).receipt
    assert inner == RECEIPT
    assert inner is not None
    assert inner.raw is not RECEIPT.raw


def test_no_traceback_of_the_ledger_shows_it(tmp_path: Path) -> None:
    """Of those that print variables, as pytest, rich and services for errors do."""

    def shown(error: BaseException | None) -> str:
        lines = []
        while error is not None:
            walk = traceback.TracebackException.from_exception(error, capture_locals=True)
            lines += [
                repr(frame.locals) for frame in walk.stack if "tradesdk/payments/" in Path(frame.filename).as_posix()
            ]
            error = error.__cause__ or error.__context__
        assert lines
        return "\n".join(lines)

    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        kept = submitted(ledger)
        with sqlite3.connect(path) as db:
            for change in ("INSERT", "UPDATE"):
                db.execute(
                    f"CREATE TRIGGER no_{change} BEFORE {change} ON payments BEGIN SELECT RAISE(ABORT, 'no'); END"
                )
        with pytest.raises(LedgerError) as refused:
            submitted(ledger)
        with pytest.raises(LedgerError) as again:
            resubmit(ledger, kept)
        db.execute("DROP TRIGGER no_UPDATE")
        db.execute("UPDATE payments SET stage = 'odd'")
        db.commit()
        db.close()
        with pytest.raises(LedgerError) as odd:
            ledger.get(kept.id)
        with pytest.raises(LedgerError) as several:
            ledger.history()
    for caught in (refused, again, odd, several):
        assert str(HEADER) not in shown(caught.value)
