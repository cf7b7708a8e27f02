"""The tables, every statement that reads or changes them, and payments as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..._values.payment import FREE, LIVE, UNRESOLVED, Payment, PaymentState, Receipt, SignedHeader
from ..budget import LIMITS, Budget

APPLICATION = 0x7452_4C67
"""The `application_id` of a ledger."""

# Files of earlier releases use these names, in indexes and triggers too.
_STORED_STATES = {PaymentState.SUBMITTED: "presented"}
_STORED_NAMES = {"submissions": "presentations"}


def stored_state(state: PaymentState) -> str:
    """A state as it is stored."""
    return _STORED_STATES.get(state, state.value)


def state_of(stored: str) -> PaymentState:
    """The state that is stored as `stored`.

    Raises:
        ValueError: there is no such state.
    """
    for state in PaymentState:
        if stored_state(state) == stored:
            return state
    raise ValueError(f"{stored!r} is not a state")


def _words(states: frozenset[PaymentState]) -> str:
    return ", ".join(sorted(f"'{stored_state(state)}'" for state in states))


_LIVE = f"({_words(LIVE)})"
_BLOCKING = f"({_words(LIVE | UNRESOLVED)})"
_FREE = f"({_words(FREE)})"

# Sums by second, minute and day, so that no window needs more than a few hundred rows. Triggers keep them up to date
# in the transaction that changes a state. Span 0 is the sum of all payments, -1 that of the live ones.
_SPANS = (
    "INSERT INTO sums VALUES (1, NEW.second, {sign}NEW.amount), (60, NEW.second / 60, {sign}NEW.amount), "
    "(86400, NEW.second / 86400, {sign}NEW.amount), (0, 0, {sign}NEW.amount) "
    "ON CONFLICT (span, slot) DO UPDATE SET micro = micro + excluded.micro;"
)
_LIVE_SUM = (
    "INSERT INTO sums VALUES (-1, 0, {sign}NEW.amount) ON CONFLICT (span, slot) DO UPDATE SET micro = micro + "
    "excluded.micro;"
)


def _trigger(name: str, event: str, condition: str, action: str) -> str:
    return f"CREATE TRIGGER {name} AFTER {event} ON payments WHEN {condition} BEGIN {action} END"


_VERSION_1 = (
    # `second` is `created` rounded down. Rows are never deleted, so `seq` only grows.
    """
    CREATE TABLE payments (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        method TEXT NOT NULL,
        url TEXT NOT NULL,
        body BLOB NOT NULL,
        version INTEGER NOT NULL,
        network TEXT NOT NULL,
        asset TEXT NOT NULL,
        payer TEXT NOT NULL,
        pay_to TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (typeof(amount) = 'integer' AND amount >= 0),
        nonce TEXT NOT NULL,
        valid_after INTEGER NOT NULL,
        valid_before INTEGER NOT NULL,
        created REAL NOT NULL,
        second INTEGER NOT NULL,
        updated REAL NOT NULL,
        header TEXT,
        presentations INTEGER NOT NULL,
        reason TEXT NOT NULL,
        receipt TEXT,
        identified INTEGER NOT NULL,
        job TEXT,
        reply BLOB,
        superseded INTEGER NOT NULL,
        owner TEXT,
        until REAL NOT NULL DEFAULT 0
    )
    """,
    f"CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND state IN {_BLOCKING}",
    f"CREATE INDEX counted ON payments (created) WHERE state NOT IN {_FREE}",
    "CREATE INDEX by_state ON payments (state)",
    f"CREATE INDEX live ON payments (url, valid_before) WHERE state IN {_LIVE}",
    "CREATE INDEX by_job ON payments (job, fingerprint) WHERE job IS NOT NULL",
    # Past 2**63, SQLite would go on with a float.
    "CREATE TABLE sums (span INTEGER, slot INTEGER, micro INTEGER NOT NULL CHECK (typeof(micro) = 'integer'), "
    "PRIMARY KEY (span, slot)) WITHOUT ROWID",
    _trigger("count_new", "INSERT", f"NEW.state NOT IN {_FREE}", _SPANS.format(sign="")),
    _trigger("live_new", "INSERT", f"NEW.state IN {_LIVE}", _LIVE_SUM.format(sign="")),
    *(
        _trigger(
            name,
            "UPDATE OF state",
            f"OLD.state {before} {states} AND NEW.state {after} {states}",
            action.format(sign=sign),
        )
        for name, states, before, after, action, sign in (
            ("count_no_more", _FREE, "NOT IN", "IN", _SPANS, "-"),
            ("count_again", _FREE, "IN", "NOT IN", _SPANS, ""),
            ("live_no_more", _LIVE, "IN", "NOT IN", _LIVE_SUM, "-"),
            ("live_again", _LIVE, "NOT IN", "IN", _LIVE_SUM, ""),
        )
    ),
    "CREATE TABLE recipients (origin TEXT, address TEXT COLLATE NOCASE, since REAL NOT NULL, "
    "PRIMARY KEY (origin, address))",
    "CREATE TABLE budget (one INTEGER PRIMARY KEY CHECK (one = 1), per_call INTEGER, per_hour INTEGER, "
    "per_day INTEGER, total INTEGER, unlimited INTEGER NOT NULL)",
)

# An answer waits until its caller has it. Answers from version 1 count as collected.
_UNCOLLECTED = f"(collected = 0 OR state IN {_BLOCKING})"
_VERSION_2 = (
    "ALTER TABLE payments ADD COLUMN collected INTEGER NOT NULL DEFAULT 1",
    "DROP INDEX standing",
    f"CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND {_UNCOLLECTED}",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2)
"""The statements that lead from each version to the next. A released step never changes."""

COLUMNS = tuple(field.name for field in fields(Payment))
_ROW = ", ".join(_STORED_NAMES.get(name, name) for name in COLUMNS)

ADD = (
    f"INSERT INTO payments ({_ROW}, second, owner, until) "  # noqa: S608 - here and below only constants are put in
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 3))})"
)
BY_ID = f"SELECT {_ROW} FROM payments WHERE id = ?"  # noqa: S608
# A payment that blocks another one, or a recent answer that was not collected. Jobs find their answers by name.
BLOCKING = (
    f"SELECT {_ROW} FROM payments WHERE fingerprint = :fingerprint AND superseded = 0 AND {_UNCOLLECTED} AND "  # noqa: S608
    f"(state IN {_BLOCKING} OR (job IS NULL AND reply IS NOT NULL AND updated > :after AND updated <= :until)) "
    "ORDER BY seq DESC LIMIT 1"
)
# A reservation is not superseded: it may still be signed, and its outcome be unknown then.
SUPERSEDE = (
    f"UPDATE payments SET superseded = 1 WHERE fingerprint = ? AND superseded = 0 AND {_UNCOLLECTED} "  # noqa: S608
    f"AND (state IN {_BLOCKING} OR job IS NULL) AND state <> 'reserved' "
    "AND seq < (SELECT seq FROM payments WHERE id = ?)"
)
EXPIRING = f"SELECT {_ROW} FROM payments WHERE state IN {_LIVE} AND valid_before <= ? ORDER BY seq"  # noqa: S608
# The URLs of an origin lie between "origin/" and "origin0", as 0 follows the slash. The index leaves out the payments
# for other services: those may stay live forever.
EXPIRING_OF = (
    f"SELECT {_ROW} FROM payments INDEXED BY live WHERE state IN {_LIVE} "  # noqa: S608
    "AND url >= ? || '/' AND url < ? || '0' AND valid_before <= ? ORDER BY seq"
)
CHANGE = (
    "UPDATE payments SET state = ?, reason = ?, receipt = ?, reply = ?, presentations = ?, header = ?, job = ?, "
    "updated = ? WHERE id = ?"
)
KEEP = "UPDATE payments SET collected = 0 WHERE id = ?"
COLLECT = """
    UPDATE payments SET collected = 1, job = coalesce(job, :job),
        reply = CASE WHEN :keep OR coalesce(job, :job) IS NOT NULL THEN reply END
    WHERE id = :id AND state = 'delivered' AND collected = 0
"""
REOPEN = "UPDATE payments SET collected = 0, reply = coalesce(reply, ?) WHERE id = ? AND state = 'delivered'"
CLAIMED = "SELECT owner, until FROM payments WHERE id = ?"
CLAIM = "UPDATE payments SET owner = ?, until = ? WHERE id = ?"
GIVE_BACK = "UPDATE payments SET owner = NULL, until = 0 WHERE id = ? AND owner = ?"
DELIVERED = (
    f"SELECT {_ROW} FROM payments WHERE job = ? AND fingerprint = ? AND state = 'delivered' "  # noqa: S608
    "AND reply IS NOT NULL ORDER BY seq DESC LIMIT 1"
)
SEQ = "SELECT seq FROM payments WHERE id = ?"
NEWEST = f"SELECT {_ROW} FROM payments WHERE seq < ? ORDER BY seq DESC LIMIT ?"  # noqa: S608


def newest_of(states: int) -> str:
    """The newest payments in any of `states` states. Parameters: state, seq and limit for each, then the limit."""
    each = "SELECT * FROM (SELECT seq FROM payments WHERE state = ? AND seq < ? ORDER BY seq DESC LIMIT ?)"
    return (
        f"SELECT {_ROW} FROM payments WHERE seq IN ({' UNION ALL '.join([each] * states)}) "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    )


# The sum since a moment: the rest of its second by rows, of its minute by seconds, of its day by minutes, then days.
SPENT = f"""
    SELECT
        (SELECT coalesce(sum(amount), 0) FROM payments
            WHERE created > :since AND created < :second + 1 AND state NOT IN {_FREE})
        + (SELECT coalesce(sum(micro), 0) FROM sums WHERE
            span = 1 AND slot > :second AND slot < (:minute + 1) * 60)
        + (SELECT coalesce(sum(micro), 0) FROM sums WHERE
            span = 60 AND slot > :minute AND slot < (:day + 1) * 1440)
        + (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = 86400 AND slot > :day),
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = 86400 AND slot >= :today),
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = 0),
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = -1)
"""  # noqa: S608
COUNTED = f"SELECT created, amount FROM payments WHERE created > ? AND state NOT IN {_FREE} ORDER BY created"  # noqa: S608

BUDGET = "SELECT per_call, per_hour, per_day, total, unlimited FROM budget"
SET_BUDGET = "INSERT OR REPLACE INTO budget VALUES (1, ?, ?, ?, ?, ?)"
TRUSTED = "SELECT address FROM recipients WHERE origin = ? ORDER BY since, rowid"
TRUST = "INSERT OR IGNORE INTO recipients VALUES (?, ?, ?)"


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`."""
    values = {name: getattr(payment, name) for name in COLUMNS}
    values["state"] = stored_state(payment.state)
    values["receipt"] = receipt_text(payment.receipt)
    values["reason"] = plain(payment.reason)
    return list(values.values())


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row.

    Raises:
        ValueError: no release writes such a row.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    if values["header"] is not None:
        values["header"] = SignedHeader(values["header"])
    values["state"] = state_of(values["state"])
    values["identified"] = bool(values["identified"])
    values["superseded"] = bool(values["superseded"])
    if values["receipt"] is not None:
        values["receipt"] = _receipt(values["receipt"])
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


def plain(text: str) -> str:
    """`text` as SQLite can store it: lone surrogates, which a service may send, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_budget(row: Sequence[Any] | None) -> Budget:
    """The budget of a row; without a row, one without limits."""
    if row is None:
        return Budget()
    budget = Budget.from_micro(dict(zip(LIMITS, row, strict=False)))
    return budget.strictest(Budget.unlimited()) if row[len(LIMITS)] else budget


def budget_row(budget: Budget) -> list[object]:
    """The values of a budget."""
    return [*(getattr(budget, name) for name in LIMITS), int(budget.is_unlimited)]


def _receipt(text: str) -> Receipt:
    values = json.loads(text)
    if not isinstance(values, dict) or values.keys() != Receipt.__dataclass_fields__.keys():
        raise ValueError("not a receipt")
    return Receipt(**values)
