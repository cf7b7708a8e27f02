"""Approvals on the Redis or Valkey server of a fleet: an agent on one machine, and a person on another."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, get_args

from tradesdk import FleetError
from tradesdk.fleet import FleetConnection, inspect_server
from tradesdk_cli.errors import CONFIG
from tradesdk_cli.mcp.approvals import KEPT, VALID, Action, ApprovalError, By, Kind, State, digest_of

T = TypeVar("T")
_CLOCKS_AGREE = 5  # seconds
_TRIES, _PAUSE = 2, 0.2


class SharedApprovals:
    """An `ApprovalStore` for all machines with the same server. Times are those of the server: clocks may differ.

    Whoever can write the keys of the server could approve. It must keep what it has answered, or an action that was
    begun could be begun again.

    Args:
        url: the server's.
        managed: its settings are not checked: its operator answers for it.
        prefix: what the keys begin with.
    """

    def __init__(self, url: str, *, managed: bool = False, prefix: str = "tradesdk") -> None:
        self._managed = managed
        self._url = url
        self._connection = FleetConnection(url)
        base = f"{prefix}:{{approvals}}"  # a hash tag: a cluster keeps them on one node
        self._keys = [f"{base}:{name}" for name in ("actions", "changed", "codes", "waiting")]

    def add(self, action: Action, *, most_pending: int | None) -> Action | None:
        ahead = self._ahead(writes=True)
        most = "" if most_pending is None else most_pending
        text = _text(action, ahead)
        found = self._run("add", action.created + ahead, text, action.code, action.digest, most)
        return self._action(found, ahead)

    def get(self, code: str) -> Action | None:
        ahead = self._ahead()
        return self._action(self._try(lambda: self._connection.command("HGET", self._keys[0], code)), ahead)

    def find(self, digest: str, now: float) -> Action | None:
        ahead = self._ahead()
        return self._action(self._run("find", now + ahead, digest), ahead)

    def all(self, now: float) -> list[Action]:
        ahead = self._ahead()
        found = [
            self._action(each, ahead) for each in self._try(lambda: self._connection.command("HVALS", self._keys[0]))
        ]
        kept = [action for action in found if action is not None and action.updated > now - KEPT]
        return sorted(kept, key=lambda action: action.created, reverse=True)

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
        ahead = self._ahead(writes=True)
        told = "" if outcome is None else json.dumps(outcome)
        step = secrets.token_hex(8)  # the same in each try
        return bool(self._run("change", now + ahead, step, code, state, by or "", told, *expected))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _run(self, name: str, now: float, *more: str | int) -> Any:
        arguments: list[str | bytes | int | float] = [name, _milliseconds(now), KEPT * 1000, VALID * 1000, *more]
        return self._try(lambda: self._connection.eval(_script(), self._keys, arguments))

    def _ahead(self, *, writes: bool = False) -> int:
        """Seconds by which the server's clock is ahead of this machine's; 0 when they agree.

        Raises:
            ApprovalError: it could lose what it `writes`.
        """
        server = self._try(lambda: inspect_server(self._url))
        if writes and not self._managed:
            if server.settings is None:
                hint = "TRADE_FLEET_DURABILITY=managed, if its operator answers for it"
                raise _unusable("the fleet's server does not tell its settings", hint)
            if server.not_durable:
                raise _unusable(
                    f"the fleet's server could lose an approval: {server.not_durable}", "change these settings"
                )
        return 0 if abs(server.clock_ahead) <= _CLOCKS_AGREE else round(server.clock_ahead)

    def _try(self, step: Callable[[], T]) -> T:
        """What a step returns. A lost connection is opened again once; the step may then run twice.

        Raises:
            ApprovalError: the server cannot be used.
        """
        for left in reversed(range(_TRIES)):
            try:
                return step()
            except FleetError as error:
                if error.code != "server_unreachable" or not left:
                    raise _unusable(f"the approvals cannot be read or written: {error.message}", error.hint) from None
            time.sleep(_PAUSE)
        raise AssertionError

    def _action(self, text: bytes | None, ahead: int) -> Action | None:
        if text is None:
            return None
        try:
            kept = json.loads(text)
            body = json.loads(kept["body"])
            action = Action(
                code=kept["code"],
                kind=kept["kind"],
                digest=kept["digest"],
                content=body["content"],
                summary=body["summary"],
                price=body["price"],
                created=kept["created"] / 1000 - ahead,
                updated=kept["updated"] / 1000 - ahead,
                state=kept["state"],
                by=kept.get("by"),
                outcome=json.loads(kept["outcome"]) if "outcome" in kept else None,
            )
            known = action.kind in get_args(Kind) and action.state in get_args(State)
            if known and action.digest == digest_of(action.content):
                return action
        except (ValueError, KeyError, TypeError):
            pass
        raise _unusable("what the fleet's server has is not what was written", f"delete its keys {self._keys[0]} …")


@cache
def _script() -> str:
    return files("tradesdk_cli.mcp").joinpath("approvals.lua").read_text("utf-8")


def _text(action: Action, ahead: int) -> str:
    # What scripts do not read is in one string: they would not write every JSON as it was.
    body = json.dumps({"content": action.content, "summary": action.summary, "price": action.price})
    kept: dict[str, str | int] = {
        "code": action.code,
        "kind": action.kind,
        "digest": action.digest,
        "body": body,
        "created": _milliseconds(action.created + ahead),
        "updated": _milliseconds(action.updated + ahead),
        "state": action.state,
    }
    if action.by is not None:
        kept["by"] = action.by
    return json.dumps(kept)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _unusable(message: str, hint: str) -> ApprovalError:
    return ApprovalError("approvals_unusable", message, hint, exit_code=CONFIG)
