"""The tables, every statement that reads or changes them, and payments as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..._values.payment import (
    FREE,
    LIVE,
    RELEASED,
    RENEWABLE,
    UNRESOLVED,
    Earlier,
    Payment,
    PaymentState,
    Receipt,
    SignedHeader,
)
from ..budget import LIMITS, Budget, Release

APPLICATION = 0x7452_4C67
"""The `application_id` of a ledger."""


def _words(states: frozenset[PaymentState]) -> str:
    return f"({', '.join(sorted(repr(state.value) for state in states))})"


_LIVE = _words(LIVE)
_OPEN = _words(LIVE | UNRESOLVED | RENEWABLE)
_FREE = _words(FREE)
_COLLECTED = "reply IS NOT NULL AND state = 'delivered' AND (collected = 1 OR purchase IS NOT NULL)"
_STANDING = f"(collected = 0 OR purchase IS NOT NULL OR state IN {_OPEN})"

VERSION = 1
TABLES = (
    # Rows are never deleted, so `seq` only grows.
    """
    CREATE TABLE payments (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        method TEXT NOT NULL,
        url TEXT NOT NULL,
        body BLOB NOT NULL,
        network TEXT NOT NULL,
        asset TEXT NOT NULL,
        payer TEXT NOT NULL,
        pay_to TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (typeof(amount) = 'integer' AND amount >= 0),
        counted INTEGER NOT NULL CHECK (typeof(counted) = 'integer' AND counted >= 0),
        nonce TEXT NOT NULL,
        valid_before INTEGER NOT NULL,
        counts_until INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        header TEXT,
        submissions INTEGER NOT NULL,
        reason TEXT NOT NULL,
        receipt TEXT,
        identified INTEGER NOT NULL,
        purchase TEXT,
        reply BLOB,
        signatures INTEGER NOT NULL,
        settle_failed INTEGER NOT NULL,
        earlier TEXT,
        witnessed INTEGER NOT NULL,
        run TEXT,
        proven INTEGER NOT NULL,
        collected INTEGER NOT NULL DEFAULT 1,
        owner TEXT,
        until REAL NOT NULL DEFAULT 0
    )
    """,
    f"CREATE INDEX standing ON payments (fingerprint) WHERE {_STANDING}",
    "CREATE INDEX by_state ON payments (state)",
    f"CREATE INDEX live ON payments (url, valid_before) WHERE state IN {_LIVE}",
    f"CREATE INDEX counted ON payments (counts_until, counted, proven, state) WHERE state NOT IN {_FREE}",
    f"CREATE INDEX by_run ON payments (run) WHERE run IS NOT NULL AND state NOT IN {_FREE}",
    f"CREATE INDEX kept ON payments (updated) WHERE {_COLLECTED}",
    # Of all payments: what they count, and the part without proof. Past 2**63, SQLite would continue with a float.
    "CREATE TABLE totals (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "counted INTEGER NOT NULL CHECK (typeof(counted) = 'integer'), held INTEGER NOT NULL)",
    "INSERT INTO totals VALUES (1, 0, 0)",
    "CREATE TABLE recipients (origin TEXT, address TEXT COLLATE NOCASE, since REAL NOT NULL, "
    "PRIMARY KEY (origin, address))",
    "CREATE TABLE budget (one INTEGER PRIMARY KEY CHECK (one = 1), per_call INTEGER, per_hour INTEGER, "
    "per_day INTEGER, total INTEGER, unlimited INTEGER NOT NULL, release TEXT NOT NULL)",
    "CREATE TABLE secrets (payer TEXT PRIMARY KEY COLLATE NOCASE, id TEXT NOT NULL)",
)

COLUMNS = tuple(field.name for field in fields(Payment))
_ROW = ", ".join(COLUMNS)

ADD = (
    f"INSERT INTO payments ({_ROW}, proven, owner, until) "  # noqa: S608 - here and below only constants are put in
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 3))})"
)
SAVE = f"UPDATE payments SET {', '.join(f'{name} = ?' for name in COLUMNS)}, proven = ? WHERE id = ?"  # noqa: S608
COUNT = "UPDATE totals SET counted = counted + ?, held = held + ?"
BY_ID = f"SELECT {_ROW} FROM payments WHERE id = ?"  # noqa: S608
# A payment that blocks another one, or has its answer. Without a name, only a recent one, or one that may be taken.
BLOCKING = (
    f"SELECT {_ROW} FROM payments WHERE fingerprint = :fingerprint AND {_STANDING} AND "  # noqa: S608
    "((purchase IS NOT NULL AND state <> 'cancelled') "
    f"OR (state IN {_OPEN} AND (created >= :since OR (state IN {_LIVE} AND counts_until > :over))) "
    "OR (collected = 0 AND reply IS NOT NULL AND updated > :after AND updated <= :until)) "
    "ORDER BY seq DESC LIMIT 1"
)
EXPIRING = f"SELECT {_ROW} FROM payments WHERE state IN {_LIVE} AND valid_before <= ? ORDER BY seq"  # noqa: S608
# The URLs of an origin lie between "origin/" and "origin0", as 0 follows the slash. The index leaves out the payments
# for other services: those may stay live forever.
EXPIRING_OF = (
    f"SELECT {_ROW} FROM payments INDEXED BY live WHERE state IN {_LIVE} "  # noqa: S608
    "AND url >= ? || '/' AND url < ? || '0' AND valid_before <= ? ORDER BY seq"
)
KEEP = "UPDATE payments SET collected = 0 WHERE id = ?"
COLLECT = """
    UPDATE payments SET collected = 1, reply = CASE WHEN :keep OR purchase IS NOT NULL THEN reply END
    WHERE id = :id AND state = 'delivered' AND collected = 0
"""
REOPEN = "UPDATE payments SET collected = 0, reply = coalesce(reply, ?) WHERE id = ? AND state = 'delivered'"
CLAIMED = "SELECT owner, until FROM payments WHERE id = ?"
CLAIM = "UPDATE payments SET owner = ?, until = ? WHERE id = ?"
GIVE_BACK = "UPDATE payments SET owner = NULL, until = 0 WHERE id = ? AND owner = ?"
FORGET = f"UPDATE payments INDEXED BY kept SET reply = NULL WHERE {_COLLECTED} AND updated < ?"  # noqa: S608
SEQ = "SELECT seq FROM payments WHERE id = ?"
NEWEST = f"SELECT {_ROW} FROM payments WHERE seq < ? ORDER BY seq DESC LIMIT ?"  # noqa: S608


def newest_of(states: int, *, unproven: bool = False) -> str:
    """The newest payments in any of `states` states. Parameters: state, seq and limit for each, then the limit."""
    only = " AND proven = 0" if unproven else ""
    each = f"SELECT * FROM (SELECT seq FROM payments WHERE state = ? AND seq < ?{only} ORDER BY seq DESC LIMIT ?)"  # noqa: S608
    return (
        f"SELECT {_ROW} FROM payments WHERE seq IN ({' UNION ALL '.join([each] * states)}) "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    )


# `hour` is a moment that must be past, `today` one that must be reached; `since` is the earlier of both.
SPENT = f"""
    SELECT
        coalesce(sum(CASE WHEN counts_until > :hour THEN counted END), 0),
        coalesce(sum(CASE WHEN counts_until >= :today THEN counted END), 0),
        coalesce(sum(CASE WHEN counts_until > :hour AND proven = 0 THEN counted END), 0),
        coalesce(sum(CASE WHEN counts_until >= :today AND proven = 0 THEN counted END), 0)
    FROM payments WHERE counts_until >= :since AND state NOT IN {_FREE}
"""  # noqa: S608
TOTALS = "SELECT counted, held FROM totals"
# The part of each of these sums that release="service" leaves out.
SPENT_RELEASED = SPENT.replace(f"NOT IN {_FREE}", f"IN {_words(RELEASED)}")
TOTALS_RELEASED = (
    "SELECT coalesce(sum(counted), 0), coalesce(sum(CASE WHEN proven = 0 THEN counted END), 0) "  # noqa: S608
    f"FROM payments WHERE state IN {_words(RELEASED)}"
)
SPENT_BY_RUN = (
    "SELECT coalesce(sum(counted), 0), coalesce(sum(CASE WHEN proven = 0 THEN counted END), 0) "  # noqa: S608
    f"FROM payments WHERE run = ? AND state NOT IN {_FREE}"
)
COUNTED = (
    f"SELECT id, counts_until, counted FROM payments WHERE counts_until >= ? AND state NOT IN {_FREE} "  # noqa: S608
    "ORDER BY counts_until"
)
COUNTED_SERVICE = COUNTED.replace(" ORDER BY", f" AND state NOT IN {_words(RELEASED)} ORDER BY")

BUDGET = "SELECT per_call, per_hour, per_day, total, unlimited, release FROM budget"
SET_BUDGET = "INSERT OR REPLACE INTO budget VALUES (1, ?, ?, ?, ?, ?, ?)"
TRUSTED = "SELECT address FROM recipients WHERE origin = ? ORDER BY since, rowid"
TRUST = "INSERT OR IGNORE INTO recipients VALUES (?, ?, ?)"
SECRET_ID = "SELECT id FROM secrets WHERE payer = ?"  # noqa: S105 - a statement
SET_SECRET_ID = "INSERT OR REPLACE INTO secrets VALUES (?, ?)"  # noqa: S105 - a statement


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`, and whether it is proven."""
    values = {name: getattr(payment, name) for name in COLUMNS}
    values["state"] = payment.state.value
    values["earlier"] = payment.earlier and _earlier_text(payment.earlier)
    values["receipt"] = receipt_text(payment.receipt)
    return [*values.values(), payment.proven_paid]


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row.

    Raises:
        ValueError: no release writes such a row.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    if values["header"] is not None:
        values["header"] = SignedHeader(values["header"])
    values["state"] = PaymentState(values["state"])
    if values["earlier"] is not None:
        values["earlier"] = _earlier(values["earlier"])
    values["identified"] = bool(values["identified"])
    values["witnessed"] = bool(values["witnessed"])
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


def to_budget(row: Sequence[Any] | None) -> Budget:
    """The budget of a row; without a row, one without limits."""
    if row is None:
        return Budget()
    release: Release = "service" if row[len(LIMITS) + 1] == "service" else "proof"
    budget = Budget.from_micro(dict(zip(LIMITS, row, strict=False)), release)
    return budget.strictest(Budget.unlimited(release)) if row[len(LIMITS)] else budget


def budget_row(budget: Budget) -> list[object]:
    """The values of a budget."""
    return [*(getattr(budget, name) for name in LIMITS), int(budget.is_unlimited), budget.release]


def _earlier_text(earlier: Earlier) -> str:
    return json.dumps([earlier.state.value, *earlier[1:]])


def _earlier(text: str) -> Earlier:
    state, *numbers = json.loads(text)
    return Earlier(PaymentState(state), *numbers)


def receipt_of(text: str) -> Receipt:
    """The receipt that `receipt_text` wrote.

    Raises:
        ValueError: no release writes such a text.
    """
    values = json.loads(text)
    if not isinstance(values, dict) or values.keys() != Receipt.__dataclass_fields__.keys():
        raise ValueError("not a receipt")
    return Receipt(**values)
