"""Values that no release writes, in any column or setting: told as damage by whoever reads them, and by `check`."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tradesdk import Budget, Ledger, LedgerError, MarketClient, Payment, PaymentRefusedError, PaymentStage, Receipt
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.changes import Lookup
from tradesdk_cli.pay.rows import whole

from .._clock import VirtualClock
from .._rows import each_of
from .._texts import texts
from ._ledger import ADDRESS, NOW, ORIGIN, draft, submit, submitted, told, trust

RECIPIENTS = f"recipients of {ORIGIN}"
EMPTY = f"empty wallet {ADDRESS.lower()} at {ORIGIN}"
COLUMNS = (*(field.name for field in fields(Payment)), "owner", "until", "revision")
CELLS = [("payments", column) for column in COLUMNS]
CELLS += [("settings", "name"), ("settings", "value"), ("runs", "run"), ("runs", "payment")]
CELLS += [("sums", column) for column in ("unit", "at", "counted", "held")]
SET = Budget(per_day="5").to_json()
FULL = Budget(per_hour="0.01", per_day="0.01")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with payments at all stages, settings, and a run."""
    path = tmp_path_factory.mktemp("ledger") / "template.sqlite3"
    receipt = Receipt(success=True, transaction="0x1", network="eip155:8453", amount=30_000, raw={})
    with Ledger(path, sync=False) as ledger:
        trust(ledger, ORIGIN, ADDRESS)
        ledger.set_setting("budget", lambda before: Budget(per_day="9").to_json())
        told(ledger, submitted(ledger, draft("unsent", run="run"), owner="somebody"), ReasonCode.NOT_RECEIVED)
        submitted(ledger, draft("sent", run="run", purchase="today"))
        told(ledger, submitted(ledger, draft("answered")), ReasonCode.DELIVERED, reply=b"prices", receipt=receipt)
        told(ledger, submitted(ledger, draft("taken")), ReasonCode.UNDELIVERED)
        rejected = submitted(ledger, draft("rejected", valid_before=int(NOW) - 100), now=NOW - 200)
        told(ledger, rejected, ReasonCode.REJECTED, unfunded=True)
        ledger.check()
    return path


def reads(ledger: Ledger) -> Iterator[Callable[[], Any]]:
    """All that is read through public doors."""
    client = MarketClient(base_url=ORIGIN, ledger=ledger, clock=VirtualClock())
    for purchase in ("unsent", "sent", "rejected", "answered", "taken"):
        yield partial(ledger.overview, Lookup(now=NOW, budget=FULL, fingerprint=purchase, run="run"))
    yield ledger.history
    yield lambda: ledger.history(stages=list(PaymentStage), unproven=True)
    yield lambda: ledger.spending(Budget.unlimited(), now=NOW)
    yield lambda: ledger.spending(FULL, now=NOW)
    yield lambda: Budget.from_json(ledger.setting("budget"))
    yield client.payments.list
    yield client.payments.spending
    yield client.payments.trusted
    yield lambda: submit(ledger, draft("more"), FULL)
    yield lambda: list(map(shown, ledger.history()))
    yield lambda: [ledger.get(one.id) for one in ledger.history()]


def shown(payment: Payment) -> None:
    """All that a payment says of itself."""
    whole(payment, NOW)
    assert pickle.loads(pickle.dumps(payment)).id == payment.id  # noqa: S301 - of our own
    payment.sent()
    for text in (payment.summary(), repr(payment), payment.status(NOW), payment.origin, payment.hidden_in("text")):
        assert isinstance(text, str)
    assert payment.expires_at <= max(payment.expires_at, payment.created_at, payment.updated_at)
    assert (payment.charged, payment.amount_usd, payment.most) is not None
    if payment.receipt is not None:
        assert payment.receipt.amount_usd is not None or payment.receipt.amount is None


def is_damaged(read: Callable[[], Any]) -> bool:
    """Whether it calls the ledger damaged. It raises nothing else."""
    try:
        read()
    except LedgerError as error:
        if error.code != "ledger_damaged":
            raise
        return True
    except PaymentRefusedError as error:
        if error.code not in ("over_budget", "recipient_changed", "insufficient_funds"):
            raise
    return False


def put(path: Path, table: str, column: str, value: object, *, all_rows: bool = True) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        rows = "" if all_rows else f"WHERE rowid = (SELECT min(rowid) FROM {table})"  # noqa: S608
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? {rows}", (value,))  # noqa: S608
        db.commit()


@each_of(
    ("column", "value"),
    [
        *((name, "text") for name in ("amount", "counted", "valid_before", "counts_until", "signatures")),
        *((name, "text") for name in ("created", "updated", "until", "stage", "paid", "revision")),
        *((name, 2**63 - 1) for name in ("created", "updated", "until", "valid_before", "counts_until")),
        *((name, b"bytes") for name in ("id", "url", "reason", "purchase", "owner", "header", "receipt")),
        *(("body", "text"), ("reply", "text"), ("url", "http://["), ("paid", 7), ("waits", -1), ("header", "\u00e9")),
        *(("receipt", "["), ("receipt", "[" * 100_000), ("updated", float("inf"))),
        ("receipt", '{"success":1,"transaction":2,"network":3,"payer":4,"error_reason":5,"amount":"6","raw":7}'),
    ],
)
def test_a_value_of_a_payment_that_cannot_be_read(column: str, value: object, template: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(template, tmp_path / "ledger.sqlite3"))
    put(path, "payments", column, value, all_rows=column != "id")
    with Ledger(path, sync=False) as ledger:
        assert is_damaged(ledger.history)
        assert is_damaged(ledger.check)


@each_of(
    ("name", "value"),
    [
        *(("budget", text) for text in ("", "text", "null", "[]", "{}", "5", "[" * 100_000, b"bytes")),
        *(("budget", SET.replace("5000000", bad)) for bad in ('"5"', "-1", "0.5", "true", "NaN", "1e400", "9" * 5000)),
        *(("budget", SET.replace("false", bad)) for bad in ("null", '"no"', "0", "[]")),
        *((RECIPIENTS, text) for text in ("", "text", "null", "5", '"0x"', "[5]", "[null]", "{}", "[" * 100_000)),
        (RECIPIENTS, b"[]"),
        *((EMPTY, text) for text in ("", "pay_1", "pay_1 5", "pay_1 5 5 5", "pay_1 5 x", "pay_1 nan 5", "pay_1 5 inf")),
        (EMPTY, "pay_1 5 999999999999999"),
        *(("other", b"bytes"), (None, "text"), (b"budget", "text")),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_read(name: object, value: object, template: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(template, tmp_path / "ledger.sqlite3"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
        db.commit()
    with Ledger(path, sync=False) as ledger:
        assert is_damaged(partial(ledger.spending, FULL, now=NOW))
        assert is_damaged(ledger.check)


_ANY = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-1, 0, 1, 2, 2**62, 253_402_300_799, 253_402_300_800, int(NOW), int(NOW) + 60, "sent", "taken"]),
    st.floats(allow_nan=False),
    texts(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode()),
    st.sampled_from(["[]", "{}", "null", "[" * 5000, "http://[", "https://a", "recipients of x", "budget"]),
    st.binary(max_size=20),
)


@pytest.mark.long
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(CELLS), _ANY, st.booleans())
@example(("sums", "held"), "text", True)
@example(("sums", "held"), b"bytes", False)
@example(("runs", "payment"), 5, True)
@example(("settings", "name"), "", False)
def test_any_value_is_read_or_told(template: Path, cell: tuple[str, str], value: object, all_rows: bool) -> None:
    path = Path(shutil.copy(template, template.with_name("played.sqlite3")))
    with suppress(sqlite3.IntegrityError, OverflowError):  # SQLite refuses it
        put(path, *cell, value, all_rows=all_rows)
    with Ledger(path, sync=False) as ledger:
        refused = [read for read in reads(ledger) if is_damaged(read)]
        assert is_damaged(ledger.check) or not refused, "check says that it is whole"
