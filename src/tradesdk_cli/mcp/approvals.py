"""What an AI client wants to do, a person's yes or no to it, and the record that it is done once.

Tools prepare actions here and carry out approved ones. Only `Decisions` says yes or no, and only `trade approve` makes
one: no tool can. They are kept in a SQLite file beside the ledger, which only its owner may read.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tradesdk_cli.errors import CONFIG, CONFLICT, NOT_FOUND, CliError

Kind = Literal["purchase", "change"]
State = Literal["pending", "approved", "refused", "started", "done", "unknown"]
By = Literal["person", "auto"]

VALID = 600
"""Seconds from the preparation of an action until it must be approved and begun; so long a refusal holds, too."""
KEPT = 31 * 24 * 3600
"""Seconds after which an action is forgotten: a little longer than the ledger keeps the answer of a named purchase."""
MOST_PENDING = 20
"""Actions that may wait for a person at a time, so that a flood of them hides none."""

_BEGUN: tuple[State, ...] = ("started", "done", "unknown")
_NOT_THE_REQUEST = ("purchase", "price_usd", "before")
"""Of the content: what may differ in another request for the same."""
_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # nothing that is read as something else
_CODE_LENGTH = 8
_SCHEMA = """
CREATE TABLE IF NOT EXISTS action (
  code TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL, request TEXT NOT NULL, content TEXT NOT NULL,
  summary TEXT NOT NULL, price INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, state TEXT NOT NULL,
  by TEXT, outcome TEXT
);
CREATE INDEX IF NOT EXISTS action_request ON action (request);
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

    def in_force(self, now: float) -> bool:
        """Whether the same request gets this one.

        A begun purchase stays: the same name continues it. A begun change and a refusal hold for a while.
        """
        if self.state in ("pending", "approved"):
            return now < self.expires
        return now < self.updated + (KEPT if self.state in _BEGUN and self.kind == "purchase" else VALID)


def digest_of(content: Mapping[str, Any]) -> str:
    """The hash of exactly this content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def request_of(content: Mapping[str, Any]) -> str:
    """The hash of what is wanted, whatever the purchase is called."""
    return digest_of({name: value for name, value in content.items() if name not in _NOT_THE_REQUEST})


class Approvals:
    """What tools can do: prepare an action, ask about it, begin it once, and write down how it ended.

    Each method is one atomic step, over threads and processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, kind: Kind, content: Mapping[str, Any], summary: str, price: int, now: float) -> Action:
        """An action that waits for a person; the one for the same request, when there is one in force.

        Raises:
            ApprovalError: `too_many_pending`.
        """
        return self._add(kind, content, summary, price, now, None)

    def allow(self, content: Mapping[str, Any], summary: str, price: int, now: float) -> Action:
        """A purchase that is small enough to need no person (`--auto-spend`)."""
        action = self._add("purchase", content, summary, price, now, "auto")
        if action.state == "pending":  # prepared by a server with a lower limit
            self._change(action.code, "approved", ("pending",), now, by="auto")
        return self.get(action.code) or action

    def _add(
        self, kind: Kind, content: Mapping[str, Any], summary: str, price: int, now: float, by: By | None
    ) -> Action:
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        kept = json.loads(json.dumps(content))
        state: State = "pending" if by is None else "approved"
        action = Action(code, kind, digest_of(kept), kept, summary, price, now, now, state, by)
        with self._transaction() as db:
            db.execute("DELETE FROM action WHERE updated < ?", (now - KEPT,))
            found = _in_force(db, kept, now)
            if found is not None:
                return found
            waiting = "SELECT count(*) FROM action WHERE state = 'pending' AND created > ?"
            if by is None and db.execute(waiting, (now - VALID,)).fetchone()[0] >= MOST_PENDING:
                raise ApprovalError("too_many_pending", f"{MOST_PENDING} actions wait for a person already")
            row = (code, kind, action.digest, json.dumps(kept), summary, price, now, now, state, by, None)
            marks = ", ".join("?" * (len(row) + 1))
            db.execute(f"INSERT INTO action ({_FIELDS}, request) VALUES ({marks})", (*row, request_of(kept)))  # noqa: S608
        return action

    def find(self, content: Mapping[str, Any], now: float) -> Action | None:
        """The action in force with exactly this content; a refusal of the same request, under any name."""
        with self._transaction() as db:
            return _in_force(db, content, now)

    def get(self, code: str) -> Action | None:
        """The action with this code."""
        with self._transaction() as db:
            row = db.execute(f"SELECT {_FIELDS} FROM action WHERE code = ?", (code.strip().upper(),)).fetchone()  # noqa: S608
            return None if row is None else _action(row)

    def all(self, now: float) -> list[Action]:
        """All actions that are kept, newest first."""
        query = f"SELECT {_FIELDS} FROM action WHERE updated > ? ORDER BY created DESC, rowid DESC"  # noqa: S608
        with self._transaction() as db:
            return [_action(row) for row in db.execute(query, (now - KEPT,))]

    def begin(self, action: Action, now: float) -> bool:
        """Begin an approved action. True for one caller only; a purchase may also be continued, by its name."""
        if action.kind == "purchase" and action.state in _BEGUN:
            return True
        return not action.expired(now) and self._change(action.code, "started", ("approved",), now)

    def end(self, action: Action, state: Literal["done", "unknown"], outcome: Mapping[str, Any], now: float) -> None:
        """Write down how it ended. If that cannot be written, it stays begun, and is not begun again."""
        with suppress(ApprovalError):  # what has happened is the answer
            self._change(action.code, state, _BEGUN, now, outcome=outcome)

    def reopen(self, action: Action, now: float) -> None:
        """Nothing was sent: it may still be begun, in its time; not if that cannot be written."""
        with suppress(ApprovalError):  # why nothing was sent is the answer
            self._change(action.code, "approved", ("started",), now)

    def _change(
        self,
        code: str,
        state: State,
        expected: tuple[State, ...],
        now: float,
        *,
        by: By | None = None,
        outcome: Mapping[str, Any] | None = None,
    ) -> bool:
        """Move an action to another state; False, and nothing is changed, when it is in none of those `expected`."""
        values = (state, now, by, None if outcome is None else json.dumps(outcome), code, *expected)
        with self._transaction() as db:
            done = db.execute(
                "UPDATE action SET state = ?, updated = ?, by = coalesce(?, by), outcome = coalesce(?, outcome) "  # noqa: S608
                f"WHERE code = ? AND state IN ({', '.join('?' * len(expected))})",
                values,
            )
            return done.rowcount == 1

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._refuse_exposed()
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = FULL")
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'action_request'").fetchone():
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

    def _refuse_exposed(self) -> None:
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


def _in_force(db: sqlite3.Connection, content: Mapping[str, Any], now: float) -> Action | None:
    digest = digest_of(content)
    query = f"SELECT {_FIELDS} FROM action WHERE request = ? ORDER BY created DESC, rowid DESC"  # noqa: S608
    found = [one for one in map(_action, db.execute(query, (request_of(content),))) if one.in_force(now)]
    own = [one for one in found if one.digest == digest]
    # What was approved or begun under this name goes before a refusal under another, and that before what waits.
    decided = [one for one in own if one.state not in ("pending", "refused")]
    return next(iter([*decided, *(one for one in found if one.state == "refused"), *own]), None)


def _action(row: tuple[Any, ...]) -> Action:
    code, kind, digest, content, summary, price, created, updated, state, by, outcome = row
    done = None if outcome is None else json.loads(outcome)
    return Action(code, kind, digest, json.loads(content), summary, price, created, updated, state, by, done)


def approvals_file(ledger: Path) -> Path:
    """The approvals of a ledger lie beside it."""
    return ledger.with_name(ledger.name + "-approvals")


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
            hint = "the client can prepare it again"
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
        if not self._change(action.code, "approved" if yes else "refused", ("pending",), now, by="person"):
            self.waiting(action.code, now)
        found = self.get(action.code)
        if found is None or found.digest != action.digest:
            raise ApprovalError("approval_unknown", f"there is no action {action.code} any more")
        return found
