"""The tables, every statement that reads or changes them, and payments as rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from ..purchases import named_fingerprint, stored_item_name

APPLICATION = 0x7452_4C67
"""The `application_id` of a ledger."""

# Files of earlier releases use these names, in indexes and triggers too.
_STORED_STATES = {PaymentState.SUBMITTED: "presented"}
_STORED_NAMES = {"submissions": "presentations", "counts_until": "second", "purchase": "job"}


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
    return f"({', '.join(sorted(repr(stored_state(state)) for state in states))})"


_LIVE = _words(LIVE)
_OPEN = _words(LIVE | UNRESOLVED | RENEWABLE)
_OPEN_3 = _words((LIVE | UNRESOLVED | RENEWABLE) - {PaymentState.TAKEN_ELSEWHERE})
_FREE = _words(FREE)

# What the triggers and indexes of versions 1 and 2 named; version 3 replaces them.
_LIVE_1 = "('pending', 'presented', 'rejected_live', 'reserved', 'unknown')"
_BLOCKING_1 = "('expired_unknown', 'paid_undelivered', 'pending', 'presented', 'rejected_live', 'reserved', 'unknown')"
_FREE_1 = "('cancelled', 'expired_unpaid', 'marked_unpaid')"
_SPANS_1 = (
    "INSERT INTO sums VALUES (1, NEW.second, {sign}NEW.amount), (60, NEW.second / 60, {sign}NEW.amount), "
    "(86400, NEW.second / 86400, {sign}NEW.amount), (0, 0, {sign}NEW.amount) "
    "ON CONFLICT (span, slot) DO UPDATE SET micro = micro + excluded.micro;"
)
_LIVE_SUM_1 = (
    "INSERT INTO sums VALUES (-1, 0, {sign}NEW.amount) ON CONFLICT (span, slot) DO UPDATE SET micro = micro + "
    "excluded.micro;"
)
_TRIGGERS_1 = {
    "count_new": ("INSERT", f"NEW.state NOT IN {_FREE_1}", _SPANS_1.format(sign="")),
    "live_new": ("INSERT", f"NEW.state IN {_LIVE_1}", _LIVE_SUM_1.format(sign="")),
    **{
        name: (
            "UPDATE OF state",
            f"OLD.state {before} {states} AND NEW.state {after} {states}",
            action.format(sign=sign),
        )
        for name, states, before, after, action, sign in (
            ("count_no_more", _FREE_1, "NOT IN", "IN", _SPANS_1, "-"),
            ("count_again", _FREE_1, "IN", "NOT IN", _SPANS_1, ""),
            ("live_no_more", _LIVE_1, "IN", "NOT IN", _LIVE_SUM_1, "-"),
            ("live_again", _LIVE_1, "NOT IN", "IN", _LIVE_SUM_1, ""),
        )
    },
}


def _trigger(name: str, event: str, condition: str, action: str) -> str:
    return f"CREATE TRIGGER {name} AFTER {event} ON payments WHEN {condition} BEGIN {action} END"


_VERSION_1 = (
    # Rows are never deleted, so `seq` only grows. Up to version 2, `second` was `created` rounded down.
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
        nonce TEXT NOT NULL,
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
    f"CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND state IN {_BLOCKING_1}",
    f"CREATE INDEX counted ON payments (created) WHERE state NOT IN {_FREE_1}",
    "CREATE INDEX by_state ON payments (state)",
    f"CREATE INDEX live ON payments (url, valid_before) WHERE state IN {_LIVE_1}",
    "CREATE INDEX by_job ON payments (job, fingerprint) WHERE job IS NOT NULL",
    # Past 2**63, SQLite would continue with a float.
    "CREATE TABLE sums (span INTEGER, slot INTEGER, micro INTEGER NOT NULL CHECK (typeof(micro) = 'integer'), "
    "PRIMARY KEY (span, slot)) WITHOUT ROWID",
    *(_trigger(name, *parts) for name, parts in _TRIGGERS_1.items()),
    "CREATE TABLE recipients (origin TEXT, address TEXT COLLATE NOCASE, since REAL NOT NULL, "
    "PRIMARY KEY (origin, address))",
    "CREATE TABLE budget (one INTEGER PRIMARY KEY CHECK (one = 1), per_call INTEGER, per_hour INTEGER, "
    "per_day INTEGER, total INTEGER, unlimited INTEGER NOT NULL)",
)

# An answer waits until its caller has it. Answers from version 1 count as collected.
_VERSION_2 = (
    "ALTER TABLE payments ADD COLUMN collected INTEGER NOT NULL DEFAULT 1",
    "DROP INDEX standing",
    "CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND "
    f"(collected = 0 OR state IN {_BLOCKING_1})",
)

# One purchase, one nonce; what was sent counts until it is proven unpaid. `second` is `counts_until`. Sums by second,
# minute and day, so that no window needs more than a few hundred rows. Triggers keep them up to date in the transaction
# that changes a payment. Span 0 is the sum of all payments. The same with a minus, and -2 for all, are the sums of what
# is held: without proof.
_UNCOLLECTED_3 = f"(collected = 0 OR state IN {_OPEN_3})"
_SUMS = (
    ("1", "{row}.second"),
    ("60", "{row}.second / 60"),
    ("86400", "{row}.second / 86400"),
    ("0", "0"),
)


def _add(row: str, sign: str, spans: Sequence[tuple[str, str]] = _SUMS) -> str:
    values = ", ".join(f"({span}, {slot.format(row=row)}, {sign}{row}.counted)" for span, slot in spans)
    add = f"INSERT INTO sums VALUES {values} "  # noqa: S608
    return add + "ON CONFLICT (span, slot) DO UPDATE SET micro = micro + excluded.micro;"


_HELD = tuple((f"-{span}" if span != "0" else "-2", slot) for span, slot in _SUMS)
_CHANGES = "UPDATE OF state, counted, second, proven"
_RESUMMED = "(OLD.counted, OLD.second) <> (NEW.counted, NEW.second)"


def _is_held(row: str) -> str:
    return f"({row}.state NOT IN {_FREE} AND {row}.proven = 0)"


_VERSION_3 = (
    "ALTER TABLE payments ADD COLUMN counted INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE payments ADD COLUMN signatures INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE payments ADD COLUMN settle_failed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE payments ADD COLUMN earlier TEXT",
    "ALTER TABLE payments ADD COLUMN witnessed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE payments ADD COLUMN proven INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE budget ADD COLUMN release TEXT NOT NULL DEFAULT 'proof'",
    "DROP INDEX standing",
    "DROP INDEX counted",
    *(f"DROP TRIGGER {name}" for name in _TRIGGERS_1),
    # Never sent: nobody can have taken it. And where the same call was paid for since, its purchase is closed.
    "UPDATE payments SET state = 'cancelled' WHERE state = 'expired_unpaid' AND presentations = 0",
    "UPDATE payments SET superseded = 1 WHERE state IN ('expired_unpaid', 'marked_unpaid') "
    "AND seq NOT IN (SELECT max(seq) FROM payments GROUP BY fingerprint)",
    """
    UPDATE payments SET counted = amount, second = max(second, valid_before),
        signatures = state NOT IN ('reserved', 'cancelled'),
        proven = state = 'marked_paid' OR coalesce(receipt LIKE '{"success": true,%', 0)
    """,
    f"CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND {_UNCOLLECTED_3}",
    f"CREATE INDEX counted ON payments (second) WHERE state NOT IN {_FREE}",
    "DELETE FROM sums",
    *(
        f"INSERT INTO sums SELECT {span}, {slot.format(row='payments')}, sum(counted) FROM payments "  # noqa: S608
        f"WHERE state NOT IN {_FREE} GROUP BY 2"
        for span, slot in _SUMS
    ),
    *(
        f"INSERT INTO sums SELECT {span}, {slot.format(row='payments')}, sum(counted) FROM payments "  # noqa: S608
        f"WHERE {_is_held('payments')} GROUP BY 2"
        for span, slot in _HELD
    ),
    _trigger("sum_new", "INSERT", f"NEW.state NOT IN {_FREE}", _add("NEW", "")),
    _trigger("hold_new", "INSERT", _is_held("NEW"), _add("NEW", "", _HELD)),
    _trigger(
        "sum_less", _CHANGES, f"OLD.state NOT IN {_FREE} AND (NEW.state IN {_FREE} OR {_RESUMMED})", _add("OLD", "-")
    ),
    _trigger(
        "sum_more", _CHANGES, f"NEW.state NOT IN {_FREE} AND (OLD.state IN {_FREE} OR {_RESUMMED})", _add("NEW", "")
    ),
    _trigger(
        "hold_less", _CHANGES, f"{_is_held('OLD')} AND (NOT {_is_held('NEW')} OR {_RESUMMED})", _add("OLD", "-", _HELD)
    ),
    _trigger(
        "hold_more", _CHANGES, f"{_is_held('NEW')} AND (NOT {_is_held('OLD')} OR {_RESUMMED})", _add("NEW", "", _HELD)
    ),
)

# Purchases have names. Until now `job` was the name of a batch job; it becomes that of the purchase.
_COLLECTED = "reply IS NOT NULL AND state = 'delivered' AND (collected = 1 OR job IS NOT NULL)"
_STANDING = f"(collected = 0 OR job IS NOT NULL OR state IN {_OPEN})"
_VERSION_4 = (
    "DROP INDEX standing",
    "DROP INDEX by_job",
    "ALTER TABLE payments ADD COLUMN replaces TEXT",
    "UPDATE payments SET job = stored_item_name(job, url, body) WHERE job IS NOT NULL",
    "UPDATE payments SET fingerprint = named_fingerprint(job, payer) WHERE job IS NOT NULL",
    # Until now a job found its answers even if an unnamed call had replaced them.
    "UPDATE payments SET superseded = 0 WHERE seq IN "
    "(SELECT max(seq) FROM payments WHERE job IS NOT NULL AND state <> 'cancelled' GROUP BY fingerprint)",
    f"CREATE INDEX standing ON payments (fingerprint) WHERE superseded = 0 AND {_STANDING}",
    f"CREATE INDEX kept ON payments (updated) WHERE {_COLLECTED}",
    "CREATE TABLE secrets (payer TEXT PRIMARY KEY COLLATE NOCASE, id TEXT NOT NULL)",
)

# A payment that is not signed again after all counts what it counted before: `earlier` was its state only.
_VERSION_5 = (
    """
    UPDATE payments
    SET earlier = '["' || earlier || '", ' || counted || ', ' || valid_before || ', ' || second || ']'
    WHERE earlier IS NOT NULL
    """,
)

FUNCTIONS: tuple[Callable[..., str], ...] = (stored_item_name, named_fingerprint)
"""The functions that migrations call, by their names."""
MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5)
"""The statements that lead from each version to the next. A released step never changes."""

COLUMNS = tuple(field.name for field in fields(Payment))
_ROW = ", ".join(_STORED_NAMES.get(name, name) for name in COLUMNS)

ADD = (
    f"INSERT INTO payments ({_ROW}, owner, until) "  # noqa: S608 - here and below only constants are put in
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
)
# Reserve a payment again, to be signed again.
_RESERVED = ("state", "counted", "valid_before", "counts_until", "updated", "earlier")
RENEW = (
    f"UPDATE payments SET {', '.join(f'{_STORED_NAMES.get(name, name)} = ?' for name in _RESERVED)}, "  # noqa: S608
    "owner = ?, until = ? WHERE id = ?"
)
_TERMS = ("network", "asset", "pay_to", "amount", "identified")
SET_TERMS = f"UPDATE payments SET {', '.join(f'{name} = ?' for name in _TERMS)} WHERE id = ?"  # noqa: S608
BY_ID = f"SELECT {_ROW} FROM payments WHERE id = ?"  # noqa: S608
# A payment that blocks another one, or has its answer. Without a name, only a recent one that was not collected.
BLOCKING = (
    f"SELECT {_ROW} FROM payments WHERE fingerprint = :fingerprint AND superseded = 0 AND {_STANDING} AND "  # noqa: S608
    f"(state IN {_OPEN} OR (job IS NOT NULL AND state <> 'cancelled') "
    "OR (collected = 0 AND reply IS NOT NULL AND updated > :after AND updated <= :until)) "
    "ORDER BY seq DESC LIMIT 1"
)
# A reservation is not superseded: it may still be signed, and its outcome be unknown then.
SUPERSEDE = (
    f"UPDATE payments SET superseded = 1 WHERE fingerprint = ? AND superseded = 0 AND {_STANDING} "  # noqa: S608
    "AND state NOT IN ('reserved', 'cancelled') "
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
    "UPDATE payments SET state = ?, reason = ?, receipt = ?, reply = ?, presentations = ?, header = ?, counted = ?, "
    "signatures = ?, settle_failed = ?, witnessed = ?, valid_before = ?, second = ?, proven = ?, updated = ? "
    "WHERE id = ?"
)
KEEP = "UPDATE payments SET collected = 0 WHERE id = ?"
COLLECT = """
    UPDATE payments SET collected = 1, reply = CASE WHEN :keep OR job IS NOT NULL THEN reply END
    WHERE id = :id AND state = 'delivered' AND collected = 0
"""
REOPEN = "UPDATE payments SET collected = 0, reply = coalesce(reply, ?) WHERE id = ? AND state = 'delivered'"
CLAIMED = "SELECT owner, until FROM payments WHERE id = ?"
CLAIM = "UPDATE payments SET owner = ?, until = ? WHERE id = ?"
GIVE_BACK = "UPDATE payments SET owner = NULL, until = 0 WHERE id = ? AND owner = ?"
FORGET = f"UPDATE payments INDEXED BY kept SET reply = NULL WHERE {_COLLECTED} AND updated < ?"  # noqa: S608
RESTORE = "UPDATE payments SET superseded = 0 WHERE id = ?"
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


def _sums(sign: str, every: str) -> str:
    # Since a second: the rest of its minute by seconds, of its day by minutes, then days.
    return f"""
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE
            span = {sign}1 AND slot > :second AND slot < (:minute + 1) * 60)
        + (SELECT coalesce(sum(micro), 0) FROM sums WHERE
            span = {sign}60 AND slot > :minute AND slot < (:day + 1) * 1440)
        + (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = {sign}86400 AND slot > :day),
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = {sign}86400 AND slot >= :today),
        (SELECT coalesce(sum(micro), 0) FROM sums WHERE span = {every})"""  # noqa: S608


SPENT = f"SELECT {_sums('', '0')}, {_sums('-', '-2')}"
# The part of each of these sums that release="service" leaves out.
SPENT_RELEASED = f"""
    SELECT
        coalesce(sum(CASE WHEN second > :second THEN counted END), 0),
        coalesce(sum(CASE WHEN second >= :today * 86400 THEN counted END), 0),
        coalesce(sum(counted), 0),
        coalesce(sum(CASE WHEN proven = 0 AND second > :second THEN counted END), 0),
        coalesce(sum(CASE WHEN proven = 0 AND second >= :today * 86400 THEN counted END), 0),
        coalesce(sum(CASE WHEN proven = 0 THEN counted END), 0)
    FROM payments WHERE state IN {_words(RELEASED)}
"""  # noqa: S608
COUNTED = f"SELECT id, second, counted FROM payments WHERE second > ? AND state NOT IN {_FREE} ORDER BY second"  # noqa: S608
COUNTED_SERVICE = COUNTED.replace(" ORDER BY", f" AND state NOT IN {_words(RELEASED)} ORDER BY")

BUDGET = "SELECT per_call, per_hour, per_day, total, unlimited, release FROM budget"
SET_BUDGET = "INSERT OR REPLACE INTO budget VALUES (1, ?, ?, ?, ?, ?, ?)"
TRUSTED = "SELECT address FROM recipients WHERE origin = ? ORDER BY since, rowid"
TRUST = "INSERT OR IGNORE INTO recipients VALUES (?, ?, ?)"
SECRET_ID = "SELECT id FROM secrets WHERE payer = ?"  # noqa: S105 - a statement
ADD_SECRET_ID = "INSERT OR IGNORE INTO secrets VALUES (?, ?)"  # noqa: S105 - a statement
SET_SECRET_ID = "INSERT OR REPLACE INTO secrets VALUES (?, ?)"  # noqa: S105 - a statement


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`."""
    values = {name: getattr(payment, name) for name in COLUMNS}
    values["state"] = stored_state(payment.state)
    values["earlier"] = payment.earlier and _earlier_text(payment.earlier)
    values["receipt"] = receipt_text(payment.receipt)
    return list(values.values())


def to_reserved(payment: Payment) -> list[object]:
    """The values of a payment that is reserved again, in the order of `RENEW`."""
    values = dict(zip(COLUMNS, to_row(payment), strict=True))
    return [values[name] for name in _RESERVED]


def to_terms(payment: Payment) -> list[object]:
    """The terms of a payment, in the order of `SET_TERMS`."""
    return [getattr(payment, name) for name in _TERMS]


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row.

    Raises:
        ValueError: no release writes such a row.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    if values["header"] is not None:
        values["header"] = SignedHeader(values["header"])
    values["state"] = state_of(values["state"])
    if values["earlier"] is not None:
        values["earlier"] = _earlier(values["earlier"])
    values["identified"] = bool(values["identified"])
    values["superseded"] = bool(values["superseded"])
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
    return json.dumps([stored_state(earlier.state), *earlier[1:]])


def _earlier(text: str) -> Earlier:
    state, *numbers = json.loads(text)
    return Earlier(state_of(state), *numbers)


def receipt_of(text: str) -> Receipt:
    """The receipt that `receipt_text` wrote.

    Raises:
        ValueError: no release writes such a text.
    """
    values = json.loads(text)
    if not isinstance(values, dict) or values.keys() != Receipt.__dataclass_fields__.keys():
        raise ValueError("not a receipt")
    return Receipt(**values)
