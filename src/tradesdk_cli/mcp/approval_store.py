"""Approvals in a SQLite file beside the ledger."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import CONFIG
from tradesdk_cli.mcp.approvals import KEPT, VALID, Action, ApprovalError, By, State, is_in_force

if TYPE_CHECKING:
    from tradesdk_cli.mcp.approvals import ApprovalStore
    from tradesdk_cli.session import Session

_SCHEMA = """
CREATE TABLE IF NOT EXISTS action (
  code TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, summary TEXT NOT NULL,
  price INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, state TEXT NOT NULL, by TEXT, outcome TEXT
);
CREATE INDEX IF NOT EXISTS action_digest ON action (digest);
"""
_FIELDS = "code, kind, digest, content, summary, price, created, updated, state, by, outcome"


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
        if is_in_force(action, now):
            return action
    return None


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


def approvals_file(ledger: Path | None) -> Path:
    """The approvals of a ledger lie beside it.

    Raises:
        ApprovalError: the ledger has no file.
    """
    if ledger is None:
        raise ApprovalError("approvals_unusable", "a ledger in memory has no approvals", exit_code=CONFIG)
    return ledger.with_name(ledger.name + "-approvals")


def store_of(run: Session) -> ApprovalStore:
    """The approvals of a command's run."""
    return SqliteApprovals(approvals_file(run.ledger_file))
