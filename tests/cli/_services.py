"""Small services on loopback that say whatever a test wants, for what a well-behaved mock never says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

from .. import _answers
from .._hostile import Visit, answer, hostile


class Scripted:
    """Answers every request with what is in `answers`: the first once, the last forever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.seen: list[tuple[str, str, bytes]] = []
        self.keys: list[str] = []
        self.url = ""

    def says(self, status: int, body: object, **headers: str) -> None:
        """From now on: this answer; header names have `_` for `-`."""
        self.answers = [_answer(status, body, headers)]

    def then(self, status: int, body: object, **headers: str) -> None:
        """After what it says already: this answer."""
        self.answers.append(_answer(status, body, headers))

    def fails(self, status: int, code: str, message: str, **headers: str) -> None:
        """From now on: an error in the service's own form."""
        self.says(status, {"error": {"code": code, "message": message}}, **headers)


def _answer(status: int, body: object, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, content


@contextmanager
def scripted() -> Iterator[Scripted]:
    service = Scripted()

    def answering(visit: Visit) -> None:
        method, path, headers = visit.request
        service.seen.append((method, path, visit.body))
        service.keys.append(headers.get("authorization", ""))
        status, more, content = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
        given: dict[str, Any] = {"Content-Type": "application/json", "Date": formatdate(usegmt=True)} | more
        visit.send(answer(content, status=status, kind=None, **given))

    with hostile(answering) as server:
        service.url = server.url
        yield service


def agent(text: str = "calm", **fields: Any) -> dict[str, Any]:
    return _answers.summary("agt_1", **{"name": text, "wallet_id": "wal_1", "created_at": 1767268800} | fields)
