"""The tables, every statement that reads or changes them, and payments as rows. The same for all engines.

Parameters are `?`, booleans are 0 and 1. The column types are SQLite's; `postgres` replaces four words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar

from ..._values.payment import (
    Payment,
    PaymentProof,
    PaymentStage,
    ReasonCode,
    Receipt,
    SignedHeader,
    origin_of,
)
from ..._values.row import Row
from .errors import DamagedRowError
from .rules import END, UNITS, Sum, Sums, by_name, moved

T = TypeVar("T")
Statement = tuple[str, Sequence[object]]

_COUNTS = "counted > 0 AND (paid IS NULL OR paid = 1)"
# Not `stage = …`: that would use an index on stages instead of the one made for this query.
_COLLECTED = "reply IS NOT NULL AND stage NOT IN ('sent', 'taken') AND (waits = 0 OR purchase IS NOT NULL)"
_OPEN = "stage <> 'answered'"
_PARTLY_HELD = "proof = 'receipt' AND amount < counted"
_STANDING = f"(purchase IS NOT NULL OR waits = 1 OR {_OPEN})"
# Whether it asks if a wallet was funded: `rules.EmptyWallet`.
_ASKS = "stage = 'sent' AND EXISTS (SELECT 1 FROM settings WHERE value LIKE id || ' %')"

VERSION = 6
"""Each change of the tables has the next number, and it never goes back: a smaller number is an older ledger."""
TABLES = (
    # Rows are never deleted, so `seq` only grows.
    """
    CREATE TABLE payments (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        fingerprint TEXT NOT NULL,
        url TEXT NOT NULL,
        body BLOB NOT NULL,
        payer TEXT NOT NULL,
        pay_to TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (amount >= 0),
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
        counted INTEGER NOT NULL CHECK (counted >= 0),
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
        until REAL NOT NULL,
        revision INTEGER NOT NULL
    )
    """,
    f"CREATE INDEX standing ON payments (fingerprint) WHERE {_STANDING}",
    "CREATE INDEX by_stage ON payments (stage, paid, seq)",
    f"CREATE INDEX partly ON payments (stage, seq) WHERE {_PARTLY_HELD}",
    "CREATE INDEX by_name ON payments (purchase) WHERE purchase IS NOT NULL",
    f"CREATE INDEX kept ON payments (updated) WHERE {_COLLECTED}",
    # What all signatures count, and the part without proof, by `rules.unit_numbers`: no sum has to read payments.
    # Past 2**63, SQLite would continue with floats.
    "CREATE TABLE sums (unit TEXT NOT NULL, at INTEGER NOT NULL, "
    "counted INTEGER NOT NULL CHECK (typeof(counted) = 'integer'), held INTEGER NOT NULL, PRIMARY KEY (unit, at))",
    # Every batch run that a payment ever belonged to; its `run` is the last one.
    "CREATE TABLE runs (run TEXT NOT NULL, payment TEXT NOT NULL, PRIMARY KEY (run, payment))",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)

COLUMNS = tuple(field.name for field in fields(Payment))
_NAMES = (*COLUMNS, "owner", "until", "revision")
_ROW = ", ".join(_NAMES)
_values = attrgetter(*COLUMNS)
_KINDS: dict[str, type[Any]] = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}
_CELLS = {
    name: (_KINDS[kind], not needed)
    for name, kind, needed in re.findall(r"^ {8}(\w+) ([A-Z]+)( NOT NULL)?", TABLES[0], re.MULTILINE)
}
_MOMENTS = ("valid_before", "counts_until", "created", "updated", "until")

# S608: here and below only constants are inserted
ADD = f"INSERT INTO payments ({_ROW}) VALUES ({', '.join('?' * (len(COLUMNS) + 2))}, 0)"  # noqa: S608
ADD_RUN = "INSERT INTO runs VALUES (?, ?) ON CONFLICT DO NOTHING"
BY_ID = f"SELECT {_ROW} FROM payments WHERE id = ?"  # noqa: S608
SAME_ROW = "SELECT 1 FROM payments WHERE id = ? AND revision = ?"
# Parameters: the fingerprint, and `rules.times`. What ends later than possible was signed by a clock that was ahead.
FIND = (
    f"SELECT {_ROW} FROM payments WHERE fingerprint = ? AND {_STANDING} AND ("  # noqa: S608
    "purchase IS NOT NULL "
    f"OR ({_OPEN} AND NOT (proof = 'person' AND paid = 1) AND (created >= ? OR "
    "(stage = 'sent' AND submissions > 0 AND paid IS NULL AND valid_before > ? AND counts_until <= ?))) "
    f"OR ({_ASKS}) "
    "OR (waits = 1 AND reply IS NOT NULL AND updated > ? AND updated <= ?)) "
    "ORDER BY seq DESC LIMIT 1"
)
# Some at a time: others wait for the lock meanwhile, and after a month without a call there may be very many.
FORGET = (
    "UPDATE payments SET reply = NULL, revision = revision + 1 "  # noqa: S608
    f"WHERE seq IN (SELECT seq FROM payments WHERE {_COLLECTED} AND updated < ? ORDER BY updated LIMIT 20)"
)
SEQ = "SELECT seq FROM payments WHERE id = ?"
NEWEST = f"SELECT {_ROW} FROM payments WHERE seq < ? ORDER BY seq DESC LIMIT ?"  # noqa: S608

# Parameters: the moments after which and by which they end, and a limit.
HELD = (
    f"SELECT {_ROW} FROM payments WHERE stage IN {tuple(map(str, PaymentStage))} "  # noqa: S608
    "AND paid IS NULL AND counted > 0 AND counts_until > ? AND counts_until <= ? ORDER BY seq LIMIT ?"
)


@cache
def count(units: int) -> str:
    """Add to the sums of `units` units. Parameters, for each: unit, number, and what is added."""
    return (
        f"INSERT INTO sums VALUES {', '.join(['(?, ?, ?, ?)'] * units)} ON CONFLICT (unit, at) DO UPDATE SET "  # noqa: S608
        "counted = sums.counted + excluded.counted, held = sums.held + excluded.held"
    )


@cache
def save(names: tuple[str, ...]) -> str:
    """Set columns of a payment; indexes of other columns are not written.

    Parameters: their values, the revision, the id.
    """
    return f"UPDATE payments SET {', '.join(f'{name} = ?' for name in (*names, 'revision'))} WHERE id = ?"  # noqa: S608


def newest_of(stages: int, *, unproven: bool = False) -> tuple[str, int]:
    """The newest payments at any of `stages` stages, and the number of parts for each stage.

    Parameters: stage, seq and limit for each part, then the limit.
    """
    proofs = ["paid IS NULL", _PARTLY_HELD] if unproven else ["paid IS NULL", "paid = 0", "paid = 1"]
    each = "SELECT * FROM (SELECT seq FROM payments WHERE stage = ? AND {} AND seq < ? ORDER BY seq DESC LIMIT ?) AS s"
    parts = [each.format(proof) for proof in proofs]
    return (
        f"SELECT {_ROW} FROM payments WHERE seq IN ({' UNION ALL '.join(parts * stages)}) "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    ), len(parts)


# Sums of what counts, each with the part without proof: see `rules.signed`.
_SUMS = (
    "SELECT coalesce(sum(counted), 0), coalesce(sum(CASE WHEN paid IS NULL THEN counted "  # noqa: S608
    f"WHEN {_PARTLY_HELD} THEN counted - amount END), 0) FROM payments"
)
# A payment of another wallet, by the same name, that may have been taken. Parameters: name, payer.
OTHER_PAYER = (
    f"SELECT {_ROW} FROM payments WHERE purchase = ? AND payer <> ? AND ({_COUNTS}) "  # noqa: S608
    "ORDER BY seq DESC LIMIT 1"
)
# All payments of a run but one. Parameters: run, id.
BY_RUN = f"{_SUMS} WHERE id IN (SELECT payment FROM runs WHERE run = ? AND payment <> ?) AND {_COUNTS}"  # noqa: S608
ALL_SUMS = "SELECT unit, at, counted, held FROM sums"
# All of the last unit: they are the total. Parameters: `rules.begin`.
SUMS = " UNION ALL ".join(
    [
        *(f"{ALL_SUMS} WHERE unit = '{unit}' AND at >= ?" for unit in UNITS[:-1]),
        f"{ALL_SUMS} WHERE unit = '{UNITS[-1]}'",
    ]
)

SETTINGS = "SELECT name, value FROM settings"

SET_SETTING = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
# A wallet is no longer empty. Parameters: its name, and the id of the payment that asked, then a space and %.
NOT_EMPTY = "DELETE FROM settings WHERE name = ? AND value LIKE ?"


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`."""
    return list(map(_stored, COLUMNS, _values(payment)))


def changed(before: Payment, after: Payment) -> dict[str, object]:
    """The columns in which two states of a payment differ, and their new values."""
    pairs = zip(COLUMNS, _values(before), _values(after), strict=True)
    return {name: _stored(name, new) for name, old, new in pairs if old is not new and old != new}


def saved(before: Payment | None, after: Payment, claim: Mapping[str, object], revision: int) -> list[Statement]:
    """The statements that write a new payment, or the changes of one, and add to the sums. `claim`: its columns,
    if they change.
    """
    if before is None:
        statements: list[Statement] = [(ADD, [*to_row(after), *claim.values()])]
    else:
        values = {**changed(before, after), **claim}
        statements = [(save(tuple(values)), [*values.values(), revision, after.id])] if values else []
    if after.run is not None and (before is None or after.run != before.run):
        statements.append((ADD_RUN, (after.run, after.id)))
    if added := moved(before, after):
        statements.append((count(len(added)), [value for at, delta in added.items() for value in (*at, *delta)]))
    return statements


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row with its claim. Raises `ValueError` for a row that no release writes."""
    values = dict(zip(_NAMES, map(checked, _NAMES, row), strict=True))
    for name in _NAMES[len(COLUMNS) :]:
        del values[name]
    origin_of(values["url"])
    for name, (_, load) in _CONVERTED.items():
        if values[name] is not None:
            values[name] = load(values[name])
    return Payment(**values)


# What was read, as values; `DamagedRowError` for values that no release writes.


def payment_of(row: Row) -> Payment:
    return read(to_payment, row)


def by_unit(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, int], Sum]]:
    """Sums by unit and number."""
    for unit, *numbers in rows:
        if unit not in UNITS or not all(type(one) is int for one in numbers):
            raise DamagedRowError("a sum is not a whole number of a minute, a day or a month")
        at, spent, held = numbers
        yield (unit, at), (spent, held)


def wrong_sums(payments: Iterable[Payment], sums: Sequence[Row]) -> int:
    """How many sums differ from those of all payments. The rows are those of `ALL_SUMS`."""
    left = dict(by_unit(sums))
    for payment in payments:
        for at, (counted, held) in moved(None, payment).items():
            had, had_held = left.get(at, (0, 0))
            left[at] = had - counted, had_held - held
    return sum(rest != (0, 0) for rest in left.values())


def run_sum(rows: Sequence[Row]) -> Sum:
    (sums,) = rows
    if any(isinstance(one, float) for one in sums):  # SQLite adds up any type of value
        raise DamagedRowError("a sum is not a whole number")
    spent, held = map(int, sums)
    return spent, held


def accounts_of(now: float, sums: Sequence[Row], settings: Sequence[Row]) -> tuple[Sums, dict[str, str]]:
    found: dict[str, dict[int, Sum]] = {unit: {} for unit in UNITS}
    for (unit, at), one in by_unit(sums):
        found[unit][at] = one
    return Sums(now, tuple(found.values())), read(by_name, settings)


def read(load: Callable[[Any], T], stored: Any) -> T:
    """Parse rows of the database; values that no release writes are damage."""
    try:
        return load(stored)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise DamagedRowError(problem)  # outside of the handler: its frames contain stored values


def checked(name: str, value: Any) -> Any:
    """A value of a column. Raises `ValueError` for one that no release writes: SQLite stores any type in any column."""
    kind, is_optional = _CELLS[name]
    fits = type(value) is kind and (name not in _MOMENTS or abs(value) < END)
    if not (fits or (value is None and is_optional)):
        raise ValueError(f"a wrong value in {name}")
    return value


def _flag(value: int) -> bool:
    if value not in (0, 1):
        raise ValueError("neither yes nor no")
    return bool(value)


def _header(text: str) -> SignedHeader:
    if not text.isascii():
        raise ValueError("not a header")
    return SignedHeader(text)


def _stored(name: str, value: Any) -> object:
    return _CONVERTED[name][0](value) if name in _CONVERTED and value is not None else value


def receipt_text(receipt: Receipt) -> str:
    """A receipt as JSON, without `raw` if that cannot be written."""
    values: dict[str, object] = {name: getattr(receipt, name) for name in Receipt.__dataclass_fields__}
    try:
        return json.dumps(values)
    except (ValueError, TypeError, RecursionError):
        return json.dumps({**values, "raw": {}})


def receipt_of(text: str) -> Receipt:
    """The receipt that `receipt_text` wrote. Raises `ValueError` for any other text."""
    values = json.loads(text)
    is_receipt = isinstance(values, dict) and values.keys() == _RECEIPT.keys()
    if not (is_receipt and all(type(values[name]) in kinds for name, kinds in _RECEIPT.items())):
        raise ValueError("not a receipt")
    return Receipt(**values)


_RECEIPT = {
    "success": (bool,),
    "transaction": (str,),
    "network": (str,),
    "payer": (str, NoneType),
    "error_reason": (str, NoneType),
    "amount": (int, NoneType),
    "raw": (dict,),
}


_CONVERTED: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "stage": (str, PaymentStage),
    "proof": (str, PaymentProof),
    "code": (str, ReasonCode),
    "paid": (int, _flag),
    "identified": (int, _flag),
    "waits": (int, _flag),
    "header": (SignedHeader, _header),  # hides it in tracebacks too
    "receipt": (receipt_text, receipt_of),
}
"""Columns that are stored in another form: how they are written, and how they are read."""
