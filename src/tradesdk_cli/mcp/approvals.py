"""What an AI agent wants done, a person's yes or no to it, and the record that it is done once.

Tools prepare actions here and carry out approved ones. Only `Decisions` says yes or no, and only `trade approve` makes
one: no tool can.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from tradesdk_cli.errors import CONFIG, CONFLICT, NOT_FOUND, CliError

Kind = Literal["purchase", "change"]
State = Literal["pending", "approved", "refused", "started", "done", "unknown"]
By = Literal["person", "auto"]

VALID = 600
"""Seconds from the preparation of an action until it must be approved and begun."""
KEPT = 31 * 24 * 3600
"""Seconds after which an action is forgotten: a little longer than the ledger keeps the answer of a named purchase."""
MOST_PENDING = 20
"""Actions that may wait for a person at a time, so that a flood of them hides none."""

_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # nothing that is read as something else
_CODE_LENGTH = 8
_SCHEMA = """
CREATE TABLE IF NOT EXISTS action (
  code TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, summary TEXT NOT NULL,
  price INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, state TEXT NOT NULL, by TEXT, outcome TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS action_digest ON action (digest);
"""
_FIELDS = "code, kind, digest, content, summary, price, created, updated, state, by, outcome"


class ApprovalError(CliError):
    """An action cannot be approved, refused or carried out. `code` says why."""

    exit_code = CONFLICT

    def __init__(self, code: str, message: str, hint: str | None = None, *, exit_code: int = CONFLICT) -> None:
        super().__init__(message, hint)
        self.code = code
        self.exit_code = exit_code


@dataclass(frozen=True)
class Action:
    """A change or purchase that was prepared.

    Attributes:
        code: what a person types to approve it.
        kind: whether it buys or changes something.
        digest: the hash of its content.
        content: exactly what will be done.
        summary: the same in one line, without control characters.
        price: what it costs at most, in micro-dollars.
        created: when it was prepared, in Unix seconds.
        updated: when its state last changed, in Unix seconds.
        state: `approved` still has to be carried out; `unknown` was begun, and nobody knows how it ended.
        by: who approved it: a person, or `--auto-spend`.
        outcome: what came of it.
    """

    code: str
    kind: Kind
    digest: str
    content: dict[str, Any]
    summary: str
    price: int
    created: float
    updated: float
    state: State
    by: By | None = None
    outcome: dict[str, Any] | None = None

    @property
    def expires(self) -> float:
        """When it is too late to approve or begin it."""
        return self.created + VALID

    def expired(self, now: float) -> bool:
        """Whether it was not begun in time."""
        return self.state in ("pending", "approved") and now >= self.expires


def digest_of(content: Mapping[str, Any]) -> str:
    """The hash of exactly this content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ApprovalStore(Protocol):
    """Where actions are kept. Each method is one atomic step, over threads and processes.

    `change` returns whether the action was in one of the states `expected`; otherwise nothing is changed.
    """

    def add(self, action: Action, *, most_pending: int | None) -> Action | None:
        """Keep a new action, unless one with the same digest is still in force: that one is returned then.

        None: `most_pending` others wait already.
        """
        ...

    def get(self, code: str) -> Action | None:
        """The action with this code."""
        ...

    def find(self, digest: str, now: float) -> Action | None:
        """The newest action with this digest that is in force: not expired, and no older than it is kept."""
        ...

    def all(self, now: float) -> list[Action]:
        """All actions that are kept, newest first."""
        ...

    def change(
        self,
        code: str,
        state: State,
        expected: tuple[State, ...],
        now: float,
        *,
        by: By | None = None,
        outcome: Mapping[str, Any] | None = None,
    ) -> bool:
        """Move an action to another state."""
        ...


class SqliteApprovals:
    """An `ApprovalStore` in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, action: Action, *, most_pending: int | None) -> Action | None:
        with self._transaction() as db:
            db.execute("DELETE FROM action WHERE updated < ?", (action.created - KEPT,))
            found = _in_force(db, action.digest, action.created)
            if found is not None:
                return found
            if most_pending is not None:
                since = action.created - VALID
                waiting = "SELECT count(*) FROM action WHERE state = 'pending' AND created > ?"
                if db.execute(waiting, (since,)).fetchone()[0] >= most_pending:
                    return None
            row = (
                *(action.code, action.kind, action.digest, json.dumps(action.content), action.summary, action.price),
                *(action.created, action.updated, action.state, action.by, None),
            )
            db.execute(f"INSERT INTO action ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            return action

    def get(self, code: str) -> Action | None:
        with self._transaction() as db:
            row = db.execute(f"SELECT {_FIELDS} FROM action WHERE code = ?", (code,)).fetchone()  # noqa: S608
            return None if row is None else _action(row)

    def find(self, digest: str, now: float) -> Action | None:
        with self._transaction() as db:
            return _in_force(db, digest, now)

    def all(self, now: float) -> list[Action]:
        with self._transaction() as db:
            rows = db.execute(
                f"SELECT {_FIELDS} FROM action WHERE updated > ? ORDER BY created DESC, rowid DESC",  # noqa: S608
                (now - KEPT,),
            )
            return [_action(row) for row in rows]

    def change(
        self,
        code: str,
        state: State,
        expected: tuple[State, ...],
        now: float,
        *,
        by: By | None = None,
        outcome: Mapping[str, Any] | None = None,
    ) -> bool:
        marks = ", ".join("?" * len(expected))
        values = (state, now, by, None if outcome is None else json.dumps(outcome), code, *expected)
        with self._transaction() as db:
            done = db.execute(
                "UPDATE action SET state = ?, updated = ?, by = coalesce(?, by), outcome = coalesce(?, outcome) "  # noqa: S608
                f"WHERE code = ? AND state IN ({marks})",
                values,
            )
            return done.rowcount == 1

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._prepare()
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = FULL")
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'action_digest'").fetchone():
                    db.executescript(_SCHEMA)
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
            finally:
                db.close()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise ApprovalError(
                "approvals_unusable",
                f"the approvals in {self.path} cannot be read or written: {error}",
                "check the disk and the file's permissions; moving the file away forgets all approvals",
                exit_code=CONFIG,
            ) from None

    def _prepare(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)
        if os.name != "nt" and mode & 0o077:
            raise ApprovalError(
                "approvals_exposed",
                f"other users can read or change {self.path} (mode {mode:04o}), so nothing in it is believed",
                f"check what is in it, then: chmod 600 {self.path}",
                exit_code=CONFIG,
            )


def _in_force(db: sqlite3.Connection, digest: str, now: float) -> Action | None:
    rows = db.execute(f"SELECT {_FIELDS} FROM action WHERE digest = ? ORDER BY created DESC", (digest,))  # noqa: S608
    for row in rows:
        action = _action(row)
        if _is_in_force(action, now):
            return action
    return None


def _is_in_force(action: Action, now: float) -> bool:
    """A begun purchase stays: the same name goes on with it. A begun change stays for as long as a retry takes."""
    begun = action.state in ("started", "done", "unknown")
    if begun and action.kind == "purchase":
        return now < action.updated + KEPT
    return now < (action.updated if begun else action.created) + VALID


def _action(row: tuple[Any, ...]) -> Action:
    code, kind, digest, content, summary, price, created, updated, state, by, outcome = row
    return Action(
        code=code,
        kind=kind,
        digest=digest,
        content=json.loads(content),
        summary=summary,
        price=price,
        created=created,
        updated=updated,
        state=state,
        by=by,
        outcome=None if outcome is None else json.loads(outcome),
    )


class Approvals:
    """What tools can do: prepare an action, ask about it, begin it once, and write down how it ended."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    def prepare(self, kind: Kind, content: Mapping[str, Any], summary: str, price: int, now: float) -> Action:
        """An action that waits for a person; the one with the same content, when there is one in force.

        Raises:
            ApprovalError: `too_many_pending`.
        """
        return self._add(kind, content, summary, price, now, "pending", None)

    def allow(self, content: Mapping[str, Any], summary: str, price: int, now: float) -> Action:
        """A purchase that is small enough to need no person (`--auto-spend`)."""
        action = self._add("purchase", content, summary, price, now, "approved", "auto")
        if action.state == "pending":  # prepared by a server with a lower limit
            self._store.change(action.code, "approved", ("pending",), now, by="auto")
        return self._store.get(action.code) or action

    def _add(
        self,
        kind: Kind,
        content: Mapping[str, Any],
        summary: str,
        price: int,
        now: float,
        state: State,
        by: By | None,
    ) -> Action:
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        kept = json.loads(json.dumps(content))
        action = Action(code, kind, digest_of(kept), kept, summary, price, now, now, state, by)
        found = self._store.add(action, most_pending=MOST_PENDING if by is None else None)
        if found is None:
            raise ApprovalError("too_many_pending", f"{MOST_PENDING} actions wait for a person already")
        return found

    def find(self, content: Mapping[str, Any], now: float) -> Action | None:
        """The action in force with exactly this content."""
        return self._store.find(digest_of(content), now)

    def get(self, code: str) -> Action | None:
        """The action with this code."""
        return self._store.get(code.strip().upper())

    def all(self, now: float) -> list[Action]:
        """All actions that are kept, newest first."""
        return self._store.all(now)

    def begin(self, action: Action, now: float) -> bool:
        """Begin an approved action. True for one caller only; a purchase may also be gone on with, by its name."""
        again: tuple[State, ...] = ("started", "done", "unknown") if action.kind == "purchase" else ()
        if action.state in again:
            return True
        if action.expired(now):
            return False
        return self._store.change(action.code, "started", ("approved",), now)

    def end(self, action: Action, state: Literal["done", "unknown"], outcome: Mapping[str, Any], now: float) -> None:
        """Write down how it ended."""
        self._store.change(action.code, state, ("started", "done", "unknown"), now, outcome=outcome)

    def give_back(self, action: Action, now: float) -> None:
        """Nothing was sent: it may still be begun, in its time."""
        self._store.change(action.code, "approved", ("started",), now)


class Decisions(Approvals):
    """What a person can do: say yes or no."""

    def waiting(self, code: str, now: float) -> Action:
        """The action that waits under this code.

        Raises:
            ApprovalError: there is none, it has expired, or it was decided before.
        """
        action = self.get(code)
        if action is None:
            shown = code if code.isalnum() and len(code) <= _CODE_LENGTH * 2 else "with that code"
            message = f"there is no action {shown}"
            raise ApprovalError("approval_unknown", message, "list them: trade approve", exit_code=NOT_FOUND)
        if action.expired(now):
            hint = "the agent can prepare it again"
            raise ApprovalError("approval_expired", f"{action.code} has expired: nothing was done", hint)
        if action.state != "pending":
            words = {"started": "has begun", "unknown": "was begun, and how it ended is unknown"}
            state = words.get(action.state, f"is {action.state}")
            raise ApprovalError("approval_decided", f"{action.code} {state} already", "list them: trade approve")
        return action

    def decide(self, action: Action, *, yes: bool, now: float) -> Action:
        """Approve or refuse an action that waits.

        Raises:
            ApprovalError: it has expired, or was decided meanwhile.
        """
        self.waiting(action.code, now)
        if not self._store.change(action.code, "approved" if yes else "refused", ("pending",), now, by="person"):
            self.waiting(action.code, now)
        found = self.get(action.code)
        if found is None or found.digest != action.digest:
            raise ApprovalError("approval_unknown", f"there is no action {action.code} any more")
        return found


def approvals_file(ledger: Path | None) -> Path:
    """The approvals of a ledger lie beside it.

    Raises:
        ApprovalError: the ledger has no file.
    """
    if ledger is None:
        raise ApprovalError("approvals_unusable", "a ledger in memory has no approvals", exit_code=CONFIG)
    return ledger.with_name(ledger.name.removesuffix(".sqlite3").removesuffix(".ledger") + ".approvals.sqlite3")
