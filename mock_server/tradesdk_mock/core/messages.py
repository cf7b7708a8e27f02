"""Requests and responses, for any transport: a socket or the in-process transport."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .errors import ApiError, Header
from .gap_options import GapOptions
from .subscribers import Notifier


@dataclass(slots=True)
class Request:
    """One request, read to its end.

    Attributes:
        path: percent-decoded, without the query.
        query: as it was sent.
        headers: names in lower case.
        content: None when the body was longer than may be read.
        client: the sender's host, None when unknown.
        market: it came to the port that serves nothing but market data.
    """

    method: str
    path: str
    query: bytes = b""
    headers: list[Header] = field(default_factory=list)
    content: bytes | None = b""
    client: str | None = None
    market: bool = False

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return next((value for given, value in self.headers if given == name), None)


@dataclass(frozen=True, slots=True)
class Delay:
    """A pause in seconds: real ones, or the mock's clock's if that is frozen and the client is in process."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitForEvent:
    """Nothing to send until the mock's clock shows `until` (None: no such time) or `notifier` is notified.

    `poll`: real seconds after which to check again anyway, for changes by another process.
    """

    until: float | None
    notifier: Notifier
    poll: float | None = None


class Disconnect(Enum):
    """How a connection ends before its response is complete."""

    RESET = "reset"
    """The peer sees a reset."""
    CLOSE = "close"
    """A regular close, but too early."""
    CHUNK = "bad chunk"
    """An invalid chunk length, then closed."""


BodyStep = bytes | Delay | WaitForEvent | Disconnect
Body = bytes | Iterator[BodyStep]


@dataclass(slots=True)
class Reply:
    """One response, ready to be sent.

    Attributes:
        headers: complete except for those that the transport adds (`transfer-encoding`, without a `content-length`).
        body: all of it, or steps that the reader takes one by one; it closes a generator that it does not finish.
        before: what happens before the status line. After a `Disconnect` in it there is no response.
    """

    status: int
    headers: list[Header]
    body: Body
    before: list[Delay | Disconnect] = field(default_factory=list)

    def length(self) -> int | None:
        """The length of the body in the headers; None if the body is chunked."""
        return next((int(value) for name, value in self.headers if name.lower() == b"content-length"), None)


NEW_FIELD = {"introduced_later": {"since": "next"}}
"""What the gap option `unknown_values` adds to every object."""


@dataclass(slots=True)
class Answer:
    """The response of an endpoint: `data` becomes JSON, unless there is a `body`, which is sent unchanged."""

    status: int
    data: Any = None
    headers: list[Header] = field(default_factory=list)
    body: Body | None = None


def error_answer(error: ApiError, gaps: GapOptions) -> Answer:
    extra = NEW_FIELD if gaps.unknown_values == "on" else {}
    body = {"error": {"code": error.code, "message": error.message, **extra}}
    return Answer(error.status, body, list(error.headers))
