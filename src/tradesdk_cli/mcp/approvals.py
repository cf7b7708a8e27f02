"""What an AI client wants to do, a person's yes or no to it, and the record that it is done once.

Tools prepare actions here and carry out approved ones. Only `Decisions` says yes or no, and only `trade approve` makes
one: no tool can.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tradesdk_cli.errors import CONFLICT, NOT_FOUND, CliError

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


def is_in_force(action: Action, now: float) -> bool:
    """A begun purchase stays: the same name continues it. A begun change stays for as long as a retry takes."""
    begun = action.state in ("started", "done", "unknown")
    if begun and action.kind == "purchase":
        return now < action.updated + KEPT
    return now < (action.updated if begun else action.created) + VALID


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
        """Begin an approved action. True for one caller only; a purchase may also be continued, by its name."""
        again: tuple[State, ...] = ("started", "done", "unknown") if action.kind == "purchase" else ()
        if action.state in again:
            return True
        if action.expired(now):
            return False
        return self._store.change(action.code, "started", ("approved",), now)

    def end(self, action: Action, state: Literal["done", "unknown"], outcome: Mapping[str, Any], now: float) -> None:
        """Write down how it ended. If that cannot be written, it stays begun, and is not begun again."""
        with suppress(ApprovalError):  # what has happened is the answer
            self._store.change(action.code, state, ("started", "done", "unknown"), now, outcome=outcome)

    def give_back(self, action: Action, now: float) -> None:
        """Nothing was sent: it may still be begun, in its time; not if that cannot be written."""
        with suppress(ApprovalError):  # why nothing was sent is the answer
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
        if not self._store.change(action.code, "approved" if yes else "refused", ("pending",), now, by="person"):
            self.waiting(action.code, now)
        found = self.get(action.code)
        if found is None or found.digest != action.digest:
            raise ApprovalError("approval_unknown", f"there is no action {action.code} any more")
        return found
