"""The tables, every statement that reads or changes them, and payments as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..._values.payment import NOT_TAKEN, Payment, PaymentProof, PaymentStage, ReasonCode, Receipt, SignedHeader

APPLICATION = 0x7452_4C67
"""The `application_id` of a ledger."""

_COUNTS = "counted > 0 AND (paid IS NULL OR paid = 1)"
# Not `stage = …`: an index on stages would be taken then, and not the one that is made for the question.
_COLLECTED = "reply IS NOT NULL AND stage NOT IN ('sent', 'taken') AND (waits = 0 OR purchase IS NOT NULL)"
_WAS_SIGNED = "(stage <> 'reserved' OR signatures > 0)"
_OPEN = f"(stage <> 'answered' AND {_WAS_SIGNED})"
_STANDING = f"(purchase IS NOT NULL OR waits = 1 OR reserved > 0 OR {_OPEN})"
_NOT_TAKEN = ", ".join(sorted(repr(code.value) for code in NOT_TAKEN))
_REFUSED = f"paid IS NULL AND code IN ({_NOT_TAKEN})"

VERSION = 1
TABLES = (
    # Rows are never deleted, so `seq` only grows.
    """
    CREATE TABLE payments (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        fingerprint TEXT NOT NULL,
        method TEXT NOT NULL,
        url TEXT NOT NULL,
        body BLOB NOT NULL,
        network TEXT NOT NULL,
        asset TEXT NOT NULL,
        payer TEXT NOT NULL,
        pay_to TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (typeof(amount) = 'integer' AND amount >= 0),
        nonce TEXT NOT NULL,
        valid_before INTEGER NOT NULL,
        counts_until INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        stage TEXT NOT NULL,
        proof TEXT NOT NULL,
        paid INTEGER,
        code TEXT NOT NULL,
        reason TEXT NOT NULL,
        counted INTEGER NOT NULL CHECK (typeof(counted) = 'integer' AND counted >= 0),
        reserved INTEGER NOT NULL CHECK (typeof(reserved) = 'integer' AND reserved >= 0),
        reserved_until INTEGER NOT NULL,
        header TEXT,
        submissions INTEGER NOT NULL,
        signatures INTEGER NOT NULL,
        settle_failed INTEGER NOT NULL,
        receipt TEXT,
        identified INTEGER NOT NULL,
        purchase TEXT,
        reply BLOB,
        waits INTEGER NOT NULL,
        run TEXT,
        owner TEXT,
        until REAL NOT NULL
    )
    """,
    f"CREATE INDEX standing ON payments (fingerprint) WHERE {_STANDING}",
    "CREATE INDEX by_stage ON payments (stage, seq)",
    "CREATE INDEX unproven ON payments (stage, seq) WHERE paid IS NULL",
    "CREATE INDEX reserved ON payments (reserved_until) WHERE reserved > 0",
    f"CREATE INDEX counted ON payments (counts_until, counted, paid) WHERE {_COUNTS}",
    f"CREATE INDEX not_taken ON payments (counts_until, counted) WHERE {_REFUSED}",
    f"CREATE INDEX by_run ON payments (run) WHERE run IS NOT NULL AND {_COUNTS}",
    f"CREATE INDEX kept ON payments (updated) WHERE {_COLLECTED}",
    # Of all signatures: what they count, and the part without proof. Past 2**63, SQLite would continue with a float.
    "CREATE TABLE totals (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "counted INTEGER NOT NULL CHECK (typeof(counted) = 'integer'), held INTEGER NOT NULL)",
    "INSERT INTO totals VALUES (1, 0, 0)",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)

COLUMNS = tuple(field.name for field in fields(Payment))
_ROW = ", ".join((*COLUMNS, "owner", "until"))

# S608: here and below only constants are put in
ADD = f"INSERT INTO payments ({_ROW}) VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"  # noqa: S608
SAVE = f"UPDATE payments SET {', '.join(f'{name} = ?' for name in COLUMNS)}, owner = ?, until = ? WHERE id = ?"  # noqa: S608
COUNT = "UPDATE totals SET counted = counted + ?, held = held + ?"
BY_ID = f"SELECT {_ROW} FROM payments WHERE id = ?"  # noqa: S608
# `over` is GRACE seconds ago: what expired before is over.
FIND = (
    f"SELECT {_ROW} FROM payments WHERE fingerprint = :fingerprint AND {_STANDING} AND ("  # noqa: S608
    "(reserved > 0 AND reserved_until > :over) "
    f"OR (purchase IS NOT NULL AND {_WAS_SIGNED}) "
    f"OR ({_OPEN} AND NOT (proof = 'person' AND paid = 1) "
    "AND (created >= :since OR (stage = 'sent' AND paid IS NULL AND counts_until > :over))) "
    "OR (waits = 1 AND reply IS NOT NULL AND updated > :after AND updated <= :until)) "
    "ORDER BY seq DESC LIMIT 1"
)
FORGET = f"UPDATE payments SET reply = NULL WHERE {_COLLECTED} AND updated < ?"  # noqa: S608
SEQ = "SELECT seq FROM payments WHERE id = ?"
NEWEST = f"SELECT {_ROW} FROM payments WHERE seq < ? ORDER BY seq DESC LIMIT ?"  # noqa: S608


def newest_of(stages: int, *, unproven: bool = False) -> str:
    """The newest payments at any of `stages` stages. Parameters: stage, seq and limit for each, then the limit."""
    only = " AND paid IS NULL" if unproven else ""
    each = f"SELECT * FROM (SELECT seq FROM payments WHERE stage = ? AND seq < ?{only} ORDER BY seq DESC LIMIT ?) AS s"  # noqa: S608
    return (
        f"SELECT {_ROW} FROM payments WHERE seq IN ({' UNION ALL '.join([each] * stages)}) "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    )


# What counts from `since` on, and the part without proof. Once for the hour, once for the day: both at once takes twice
# as long.
_SUMS = """
    SELECT coalesce(sum(counted), 0), coalesce(sum(CASE WHEN paid IS NULL THEN counted END), 0)
    FROM payments WHERE counts_until >= :since AND
"""
SPENT = f"{_SUMS} {_COUNTS}"
TOTALS = "SELECT counted, held FROM totals"
# What release="service" leaves out.
_RELEASED = f"{_REFUSED} AND counts_until <= :over"
SPENT_RELEASED = f"{_SUMS} {_RELEASED}"
TOTALS_RELEASED = f"SELECT coalesce(sum(counted), 0), coalesce(sum(counted), 0) FROM payments WHERE {_RELEASED}"  # noqa: S608
SPENT_BY_RUN = (
    "SELECT coalesce(sum(counted), 0), coalesce(sum(CASE WHEN paid IS NULL THEN counted END), 0) "  # noqa: S608
    f"FROM payments WHERE run = ? AND {_COUNTS}"
)
RESERVED = f"SELECT {_ROW} FROM payments WHERE reserved > 0 AND reserved_until > ?"  # noqa: S608
COUNTED = (
    f"SELECT id, counts_until, counted FROM payments WHERE counts_until >= :since AND {_COUNTS} "  # noqa: S608
    "ORDER BY counts_until"
)
COUNTED_SERVICE = COUNTED.replace(" ORDER BY", f" AND NOT ({_RELEASED}) ORDER BY")

SETTING = "SELECT value FROM settings WHERE name = ?"
SET_SETTING = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
REMOVE_SETTING = "DELETE FROM settings WHERE name = ?"


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`."""
    values = {name: getattr(payment, name) for name in COLUMNS}
    values["receipt"] = receipt_text(payment.receipt)
    return list(values.values())


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row.

    Raises:
        ValueError: no release writes such a row.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    if values["header"] is not None:
        values["header"] = SignedHeader(values["header"])
    values["stage"] = PaymentStage(values["stage"])
    values["proof"] = PaymentProof(values["proof"])
    values["code"] = ReasonCode(values["code"])
    if values["paid"] is not None:
        values["paid"] = bool(values["paid"])
    values["identified"] = bool(values["identified"])
    values["waits"] = bool(values["waits"])
    if values["receipt"] is not None:
        values["receipt"] = receipt_of(values["receipt"])
    return Payment(**values)


def receipt_text(receipt: Receipt | None) -> str | None:
    """A receipt as JSON, without `raw` if that cannot be written."""
    if receipt is None:
        return None
    values: dict[str, object] = {name: getattr(receipt, name) for name in Receipt.__dataclass_fields__}
    try:
        return json.dumps(values)
    except (ValueError, TypeError, RecursionError):
        return json.dumps({**values, "raw": {}})


def receipt_of(text: str) -> Receipt:
    """The receipt that `receipt_text` wrote.

    Raises:
        ValueError: no release writes such a text.
    """
    values = json.loads(text)
    if not isinstance(values, dict) or values.keys() != Receipt.__dataclass_fields__.keys():
        raise ValueError("not a receipt")
    return Receipt(**values)
