"""Actions of AI clients, a person's decisions, and their state, so that each is carried out once.

Tools prepare actions here and carry out approved ones. Only `Decisions` approves or refuses, and only `trade approve`
makes one: no tool can. They are kept in a SQLite file beside the ledger, which only its owner may read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from tradesdk_cli.errors import CONFIG, CONFLICT, NOT_FOUND, CliError
from tradesdk_cli.text import plural, unmistakable

State = Literal["pending", "approved", "refused", "started", "done", "unknown"]

VALID = 600
"""Seconds within which a prepared action must be approved and begun; a refusal also holds that long."""
KEPT = 31 * 24 * 3600
"""Seconds after which an action is deleted: a little longer than the ledger keeps the answer of a named purchase."""
MOST_PENDING = 20
"""Maximum of pending actions, so that a flood hides none."""

_BEGUN: tuple[State, ...] = ("started", "done", "unknown")
_NEARLY = 0.01
"""A refusal also covers numbers that differ by at most this fraction."""
_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # no characters that look alike
_CODE_LENGTH = 8
_SCHEMA = """
CREATE TABLE action (
  code TEXT PRIMARY KEY, digest TEXT NOT NULL, content TEXT NOT NULL, effect TEXT NOT NULL, numbers TEXT NOT NULL,
  purchase TEXT, created REAL NOT NULL, updated REAL NOT NULL, state TEXT NOT NULL, outcome TEXT
);
CREATE INDEX action_digest ON action (digest);
CREATE INDEX action_effect ON action (effect);
CREATE INDEX action_purchase ON action (purchase);
CREATE INDEX action_state ON action (state, created);
CREATE INDEX action_updated ON action (updated);
"""
_FIELDS = "code, digest, content, created, updated, state, outcome"


class ApprovalError(CliError):
    """An action cannot be approved, refused or carried out. `code` says why."""

    exit_code = CONFLICT


@dataclass(frozen=True)
class Action:
    """A prepared change or purchase: its exact content, its state, and times in Unix seconds.

    `approved` is not yet carried out; `unknown` was begun, and its outcome is unknown.
    """

    code: str
    digest: str
    content: dict[str, Any]
    created: float
    updated: float
    state: State
    outcome: dict[str, Any] | None = None

    @property
    def is_purchase(self) -> bool:
        return self.content.get("do") == "buy"

    @property
    def price(self) -> Decimal | None:
        """Its price in dollars; None for a change."""
        return Decimal(self.content["price_usd"]) if self.is_purchase else None

    @property
    def heading(self) -> str:
        """What it does, without untrusted text."""
        if not self.is_purchase:
            return f"{self.content['do']} an agent"
        tokens = len(self.content["body"].get("tokens", ()))
        return f"buy {self.content['what']}" + (f" for {plural(tokens, 'tokens')}" if tokens else "")

    @property
    def summary(self) -> str:
        """What it does, with the tokens, or the agent's id and name."""
        if self.is_purchase:
            about = [token["identifier"] for token in self.content["body"].get("tokens", ())]
        else:
            name = (self.content["before"] or self.content["body"]).get("name")
            about = [text for text in (self.content["id"], name) if text is not None]
        return " ".join([self.heading, *map(unmistakable, about)])

    @property
    def expires(self) -> float:
        return self.created + VALID

    def expired(self, now: float) -> bool:
        """True when it was not begun in time."""
        return self.state in ("pending", "approved") and now >= self.expires

    def in_force(self, now: float) -> bool:
        """Whether the same request gets this action.

        A begun purchase stays: the same name continues it. A begun change and a refusal hold for a while.
        """
        if self.state in ("pending", "approved"):
            return now < self.expires
        return now < self.updated + (KEPT if self.state in _BEGUN and self.is_purchase else VALID)


def digest_of(content: Mapping[str, Any]) -> str:
    """The hash of exactly this content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class Approvals:
    """The part for tools: prepare an action, read its state, begin it once, and store its outcome.

    Each method is one atomic step across threads and processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, content: Mapping[str, Any], effect: Mapping[str, Any], now: float) -> Action:
        """A pending action: a new one, or the one in force, or a refusal of the same `effect`."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        text = json.dumps(content)
        action = Action(code, digest_of(content), json.loads(text), now, now, "pending")
        key, numbers = _parts(effect)
        with self._transaction() as db:
            db.execute("DELETE FROM action WHERE updated < ?", (now - KEPT,))
            found = _in_force(db, content, now) or _refusal(db, effect, now)
            if found is not None:
                return found
            waiting = "SELECT count(*) FROM action WHERE state = 'pending' AND created > ?"
            if db.execute(waiting, (now - VALID,)).fetchone()[0] >= MOST_PENDING:
                raise ApprovalError(f"{MOST_PENDING} actions wait for a person already", code="too_many_pending")
            row = (code, action.digest, text, key, json.dumps(numbers), content.get("purchase"), now, now, "pending")
            db.execute("INSERT INTO action VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
        return action

    def find(self, content: Mapping[str, Any], now: float) -> Action | None:
        """The action in force with exactly this content."""
        with self._transaction() as db:
            return _in_force(db, content, now)

    def refused(self, effect: Mapping[str, Any], now: float) -> bool:
        """Whether a person refused the same effect, however it is written."""
        with self._transaction() as db:
            return _refusal(db, effect, now) is not None

    def begun(self, purchase: str, now: float) -> Action | None:
        """The approved and begun purchase of this name."""
        with self._transaction() as db:
            found = _actions(db, "purchase = ? AND state IN ('started', 'done', 'unknown')", purchase)
            return next((one for one in found if one.in_force(now)), None)

    def get(self, code: str) -> Action | None:
        with self._transaction() as db:
            return next(_actions(db, "code = ?", code.strip().upper()), None)

    def all(self, now: float) -> list[Action]:
        """All stored actions, newest first."""
        with self._transaction() as db:
            return list(_actions(db, "updated > ?", now - KEPT))

    def begin(self, action: Action, now: float) -> bool:
        """Begin an approved action. True for one caller only; a purchase can also be continued by its name."""
        if action.is_purchase and action.state in _BEGUN:
            return True
        return not action.expired(now) and self._change(action.code, "started", ("approved",), now)

    def end(self, action: Action, state: Literal["done", "unknown"], outcome: Mapping[str, Any], now: float) -> None:
        """Store the outcome. If that fails, the action stays begun, and is not begun again."""
        with suppress(ApprovalError):  # the result matters more than this error
            self._change(action.code, state, _BEGUN, now, outcome)

    def reopen(self, action: Action, now: float) -> None:
        """Nothing was sent: the action can be begun again while it is valid, if this can be written."""
        with suppress(ApprovalError):  # the reason why nothing was sent matters more than this error
            self._change(action.code, "approved", ("started",), now)

    def _change(
        self,
        code: str,
        state: State,
        expected: tuple[State, ...],
        now: float,
        outcome: Mapping[str, Any] | None = None,
    ) -> bool:
        """Move an action to another state; False, without a change, unless its state is one of `expected`."""
        values = (state, now, None if outcome is None else json.dumps(outcome), code, *expected)
        with self._transaction() as db:
            done = db.execute(
                "UPDATE action SET state = ?, updated = ?, outcome = coalesce(?, outcome) "  # noqa: S608
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
                db.execute("BEGIN IMMEDIATE")
                try:
                    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'action_updated'").fetchone():
                        for statement in filter(str.strip, _SCHEMA.split(";")):
                            db.execute(statement)
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
            finally:
                db.close()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise ApprovalError(
                f"the approvals in {self.path} cannot be read or written: {error}",
                "check the disk and the file's permissions; moving the file away forgets all approvals",
                code="approvals_unusable",
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
                f"other users can read or change {self.path} (mode {mode:04o}), so it is not used",
                f"check what is in it, then: chmod 600 {self.path}",
                code="approvals_exposed",
                exit_code=CONFIG,
            )


def _actions(db: sqlite3.Connection, where: str, value: object) -> Iterator[Action]:
    """Rows, newest first. Raises if the content of one was changed in the file."""
    rows = db.execute(f"SELECT {_FIELDS} FROM action WHERE {where} ORDER BY created DESC, rowid DESC", (value,))  # noqa: S608
    for code, digest, content, created, updated, state, outcome in rows:
        read = json.loads(content)
        if digest_of(read) != digest:
            raise ValueError(f"the content of {code} was changed")
        yield Action(code, digest, read, created, updated, state, None if outcome is None else json.loads(outcome))


def _in_force(db: sqlite3.Connection, content: Mapping[str, Any], now: float) -> Action | None:
    return next((one for one in _actions(db, "digest = ?", digest_of(content)) if one.in_force(now)), None)


def _parts(effect: Mapping[str, Any]) -> tuple[str, list[float]]:
    """The hash of the content without numbers, and the numbers."""
    names = sorted(name for name, value in effect.items() if type(value) in (int, float))
    rest = {name: value for name, value in effect.items() if name not in names}
    return digest_of({"rest": rest, "numbers": names}), [effect[name] for name in names]


def _refusal(db: sqlite3.Connection, effect: Mapping[str, Any], now: float) -> Action | None:
    key, numbers = _parts(effect)
    query = "SELECT code, numbers FROM action WHERE effect = ? AND state = 'refused' AND updated > ?"
    for code, refused in db.execute(query, (key, now - VALID)).fetchall():
        if all(math.isclose(one, two, rel_tol=_NEARLY) for one, two in zip(numbers, json.loads(refused), strict=True)):
            return next(_actions(db, "code = ?", code))
    return None


def approvals_file(ledger: Path) -> Path:
    """The approvals file beside the ledger."""
    return ledger.with_name(ledger.name + "-approvals")


class Decisions(Approvals):
    """The part for a person: approve or refuse."""

    def waiting(self, code: str, now: float) -> Action:
        """The pending action with this code; an error if there is none, it has expired, or it was decided before."""
        action, listed = self.get(code), "list them: {trade} approve"
        if action is None:
            shown = code if code.isalnum() and len(code) <= _CODE_LENGTH * 2 else "with that code"
            raise ApprovalError(f"there is no action {shown}", listed, code="approval_unknown", exit_code=NOT_FOUND)
        if action.expired(now):
            message = f"{action.code} has expired: nothing was done"
            raise ApprovalError(message, "the client can prepare it again", code="approval_expired")
        if action.state != "pending":
            words = {"started": "has begun", "unknown": "was started, and its outcome is unknown"}
            state = words.get(action.state, f"is {action.state}")
            raise ApprovalError(f"{action.code} {state} already", listed, code="approval_decided")
        return action

    def decide(self, action: Action, *, yes: bool, now: float) -> Action:
        """Approve or refuse a pending action; an error if it has expired, or was decided meanwhile."""
        self.waiting(action.code, now)
        if not self._change(action.code, "approved" if yes else "refused", ("pending",), now):
            self.waiting(action.code, now)
        found = self.get(action.code)
        if found is None or found.digest != action.digest:
            raise ApprovalError(f"there is no action {action.code} any more", code="approval_unknown")
        return found
