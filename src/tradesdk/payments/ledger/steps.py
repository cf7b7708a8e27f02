"""The steps that the ledger's methods are made of, each within somebody's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..._values.payment import GRACE, LIVE, Payment, PaymentState
from ..budget import Budget, Spending
from . import rules as rules
from . import schema as sql
from .rows import receipt_text, to_budget, to_payment


class DamagedRowError(Exception):
    """A row that none of our releases has written."""


def one(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> Payment | None:
    """The first payment that a statement finds."""
    return next(map(_payment, db.execute(statement, values)), None)  # rows hold signed payments: no name for one


def standing(db: sqlite3.Connection, fingerprint: str, now: float) -> Payment | None:
    """What another payment for a call has to wait for, or need not be made for."""
    after, until = rules.young(now)
    found = db.execute(sql.STANDING, {"fingerprint": fingerprint, "after": after, "until": until})
    return next(map(_payment, found), None)


def every(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[Payment]:
    """The payments that a statement finds."""
    return list(map(_payment, db.execute(statement, values)))


def change(db: sqlite3.Connection, payment: Payment, *, now: float, **changes: Any) -> Payment:
    """Write `changes` of a payment down. The signed payment is forgotten at its end."""
    state = changes.get("state", payment.state)
    if state is not payment.state:
        changes["updated"] = now
    if state not in LIVE:
        changes["header"] = None
    changed = replace(payment, **changes)
    db.execute(
        sql.CHANGE,
        (
            sql.stored_state(changed.state),
            changed.reason,
            receipt_text(changed.receipt),
            changed.reply,
            changed.submissions,
            changed.header,
            changed.job,
            changed.updated,
            changed.id,
        ),
    )
    return changed


def close_expired(db: sqlite3.Connection, at: float, now: float, origin: str | None) -> list[Payment]:
    """Close what has expired at `at`, of one origin or of all."""
    dead = at - GRACE
    expired = every(db, sql.EXPIRING, (dead,)) if origin is None else every(db, sql.EXPIRING_OF, (origin, origin, dead))
    return [
        change(db, payment, state=rules.state_when_expired(payment.state), reason=_why(payment), now=now)
        for payment in expired
    ]


def spending(db: sqlite3.Connection, budget: Budget, now: float) -> Spending:
    """What is spent at `now`, and what `budget` and the one that is stored leave."""
    since = now - rules.HOUR
    second = int(since // 1)
    last_hour, today, total, reserved = db.execute(
        sql.SPENT,
        {
            "since": since,
            "second": second,
            "minute": second // 60,
            "day": second // rules.DAY,
            "today": int(now // rules.DAY),
        },
    ).fetchone()
    own = to_budget(db.execute(sql.BUDGET).fetchone())
    return Spending(last_hour=last_hour, today=today, total=total, reserved=reserved, budget=budget.strictest(own))


def counted(db: sqlite3.Connection, since: float) -> Iterable[tuple[float, int]]:
    """Moments and amounts of what counts and is newer than `since`, oldest first."""
    return db.execute(sql.COUNTED, (since,))


def trusted(db: sqlite3.Connection, origin: str) -> list[str]:
    """The recipients of an origin, oldest first."""
    return [row[0] for row in db.execute(sql.TRUSTED, (origin,))]


def _payment(row: Sequence[Any]) -> Payment:
    try:
        return to_payment(row)
    except (ValueError, TypeError) as error:
        problem = str(error)
    del row  # here and in the frames of that error, a traceback would show the signed payment
    raise DamagedRowError(problem)


def _why(payment: Payment) -> str:
    # RESERVED has no reason of its own; the others keep the word of the service.
    return payment.reason or ("expired before it was signed" if payment.state is PaymentState.RESERVED else "")


def check(db: sqlite3.Connection) -> None:
    """Nothing, when the engine finds nothing wrong with the file, and every row of it can be read."""
    said = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
    if said != ["ok"]:
        raise DamagedRowError("; ".join(said))
    every(db, sql.NEWEST, (2**63 - 1, 2**63 - 1))
