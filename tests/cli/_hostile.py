"""A service whose every text is a stranger's attempt at the terminal, the spreadsheet or the program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from .._hostile import Visit, answer, hostile
from .._texts import HOSTILE
from ._terminal import Run

_TYPED = ("createdAt", "next_cursor")
"""Text that the SDK reads as something else, or hands back to the service, which would refuse it."""
_ID = 60
_OF_THE_CONNECTION = ("content-length", "transfer-encoding", "connection")


def deep(weapon: str, depth: int = 60) -> Any:
    """What nobody expects in a field that nobody knows."""
    value: Any = [weapon, 1e308, -0.0, 10**15, True, None, {}]
    for _ in range(depth):
        value = [value]
    return {weapon: value, "": weapon, "used": 1e308, "limit": 5e-324}


def spoil(value: Any, weapon: str) -> Any:
    """`value` with `weapon` at the end of every text in it, and a field more in every object."""
    if isinstance(value, str):
        return value + weapon
    if isinstance(value, list):
        return [spoil(item, weapon) for item in value]
    if isinstance(value, dict):
        spoiled = {
            key: spoil(item, _in_an_id(weapon) if key == "id" or key.endswith("_id") else weapon)
            for key, item in value.items()
        }
        kept = {key: value[key] for key in _TYPED if key in value}
        return (
            spoiled
            | kept
            | {
                "odd": deep(weapon),
                weapon: weapon,
            }
        )
    return value


def _in_an_id(weapon: str) -> str:
    """As much of it as an id may have: nobody can ask for a longer one, or one with a slash."""
    return weapon[:_ID].replace("/", "").replace("\\", "")


class Mirror:
    """Stands before the service at `behind` and spoils what it says, but for errors."""

    def __init__(self) -> None:
        self.behind = ""
        self.weapon = HOSTILE
        self.url = ""

    def spoiled(self, content: bytes) -> bytes:
        """A JSON text, spoiled."""
        return json.dumps(spoil(json.loads(content), self.weapon)).encode()


@contextmanager
def mirror() -> Iterator[Mirror]:
    """A `Mirror`. The service behind it is to end first, and with it the streams that are copied."""
    state = Mirror()

    def answering(visit: Visit) -> None:
        method, path, asked = visit.request
        headers = {name: value for name, value in asked.items() if name not in ("host", "connection")}
        headers["accept-encoding"] = "identity"
        send = client.stream(method, state.behind + path, content=visit.body, headers=headers)
        with suppress(httpx.TransportError), send as reply:  # the service behind it ends, and with it a stream
            if reply.headers.get("content-type", "").startswith("text/event-stream"):
                visit.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                for line in reply.iter_lines():
                    if line.startswith("data:"):
                        line = "data: " + state.spoiled(line.removeprefix("data:").encode()).decode()
                    if not visit.send(line.encode() + b"\n"):
                        return
                visit.close()
                return
            content = reply.read()
            if reply.status_code in (200, 201) and content.startswith((b"{", b"[")):
                content = state.spoiled(content)
            kept: dict[str, Any] = {
                name: value for name, value in reply.headers.items() if name not in _OF_THE_CONNECTION
            }
            visit.send(answer(content, status=reply.status_code, kind=None, **kept))

    with httpx.Client(trust_env=False, timeout=30) as client, hostile(answering) as server:
        state.url = server.url
        yield state


def harmless(run: Run, form: str) -> None:
    """Nothing that acts on a terminal, and no bug."""
    for text in (run.out, run.err):
        ours = text.replace("\r\x1b[K", "\n")  # the line of progress, overwritten
        for line in ours.replace("\r\n", "\n").split("\n"):
            assert (line.replace("\t", " ") if form == "tsv" else line).isprintable(), line[:300]
    assert "bug in trade" not in run.err, run.err
