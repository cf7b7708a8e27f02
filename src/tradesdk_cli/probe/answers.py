"""The answers of a service, by the name of the question."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit


class Unseen(Exception):
    """The answers do not show something; the message has the reason."""


@dataclass(frozen=True)
class Answer:
    """One request and its answer; secrets are replaced by `****`.

    Attributes:
        status: 0 without an answer; then `problem` has the reason.
        headers: names in lower case.
        text: the body.
    """

    method: str = ""
    url: str = ""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    problem: str = ""

    @property
    def request(self) -> str:
        return f"{self.method} {urlsplit(self.url).path}"

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @cached_property
    def body(self) -> Any:
        """The JSON of the body; None when it is not JSON."""
        return parsed(self.text)

    def at(self, *path: str) -> Any:
        """The value at this path of the body; None without one."""
        return inside(self.body, *path)

    def items(self, *path: str) -> list[dict[str, Any]]:
        """The objects of the list at this path, by default `data`; empty when it is not a list."""
        return objects(self.at(*(path or ("data",))) if self.ok else None)


def parsed(text: str | bytes) -> Any:
    """The value of JSON text; None when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def inside(value: Any, *path: str) -> Any:
    """The value at this path of a value; None without one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; empty when it is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


NONE = Answer()


class Answers(dict[str, Answer]):
    """All answers.

    Attributes:
        reasons: why a question has no answer.
        ahead: seconds that the service's clock is ahead of ours; None: unknown.
        window: the requested period of signals.
        events: what the stream yielded, in order.
        event_id: the id of the stream's last event; empty without one.
        intervals: seconds between two heartbeats that were both read as they came.
        listened: seconds for which the stream was open.
        endless: whether the answer to `stream_filter` did not end.
        lag: seconds after the arrival of a new signal at which it was not yet in the history, and at which it was;
            None: not seen.
    """

    ahead: float | None = None
    window: tuple[int, int] = (0, 0)
    event_id = ""
    listened = 0.0
    endless = False
    lag: tuple[float, float] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}
        self.events: list[Any] = []
        self.intervals: list[float] = []

    def __missing__(self, name: str) -> Answer:
        raise Unseen(self.reasons.get(name, "the time was up before this request"))

    def status(self, name: str, *expected: int) -> int:
        """The status of an answer; raises `Unseen` if it is none of the expected ones."""
        answer = self[name]
        if answer.status not in expected:
            raise Unseen(f"{answer.request}: {answer.problem or answer.status}")
        return answer.status

    def offer(self) -> dict[str, Any]:
        """The offer of a 402; raises `Unseen` without a valid one."""
        found = next(filter(None, self.offers()), None)
        if found is None:
            raise Unseen("the 402 has no offer that can be read, in PAYMENT-REQUIRED or in its body")
        return found

    def offers(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The offer in the header of a 402, and that in its body."""
        self.status("offer", 402)
        body = self["offer"].body
        try:
            header = parsed(base64.b64decode(self["offer"].headers["payment-required"], validate=True))
        except (KeyError, ValueError):
            header = None
        in_body = body if isinstance(body, dict) and "accepts" in body else None
        return header if isinstance(header, dict) else None, in_body

    def ways(self) -> list[dict[str, Any]]:
        """The ways to pay of the specification, scheme exact on Base, cheapest first; raises `Unseen` without any."""

        def cost(way: dict[str, Any]) -> tuple[bool, int, str]:
            amount = str(way.get("amount"))  # of any length
            return not amount.isdecimal(), len(amount), amount

        ways = objects(self.offer().get("accepts"))
        found = [way for way in ways if (way.get("scheme"), way.get("network")) == ("exact", "eip155:8453")]
        if not found:
            raise Unseen("no way to pay is scheme exact on eip155:8453")
        return sorted(found, key=cost)
