"""Requests and responses, for any transport: a socket or the in-process transport."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from pydantic_core import to_json

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
class Response:
    """One response.

    Attributes:
        data: becomes the body, as JSON, when the response is complete; None if the body is there already.
        headers: complete except for those that the transport adds (`transfer-encoding`, without a `content-length`).
        body: all of it, or steps that the reader takes one by one; it closes a generator that it does not finish.
        before: what happens before the status line. After a `Disconnect` in it there is no response.
    """

    status: int
    data: Any = None
    headers: list[Header] = field(default_factory=list)
    body: Body = b""
    before: list[Delay | Disconnect] = field(default_factory=list)

    def with_body(self, content: bytes, kind: bytes = b"application/json") -> Self:
        """Set the whole body, of this Content-Type."""
        self.headers += [(b"content-type", kind), (b"content-length", b"%d" % len(content))]
        self.data, self.body = None, content
        return self

    def encode(self) -> None:
        """Turn `data` into the body."""
        if self.data is not None:
            # A `1e999` in a request would not be valid JSON in the request log.
            self.with_body(to_json(self.data, inf_nan_mode="null"))

    def length(self) -> int | None:
        """The length of the body in the headers; None if the body is chunked."""
        return next((int(value) for name, value in self.headers if name.lower() == b"content-length"), None)


def close_body(body: object) -> None:
    """Close a body, or steps, if it is a generator."""
    close = getattr(body, "close", None)
    if close is not None:
        close()


NEW_FIELD = {"introduced_later": {"since": "next"}}
"""What the gap option `unknown_values` adds to every object."""


def market_response(status: int, *, data: object = None, error: str | None = None) -> Response:
    """A response in the wrapper of the market-data API."""
    return Response(status, {"success": error is None, "data": data, "error": error})


def error_response(error: ApiError, gaps: GapOptions) -> Response:
    extra = NEW_FIELD if gaps.unknown_values == "on" else {}
    body = {"error": {"code": error.code, "message": error.message, **extra}}
    return Response(error.status, body, list(error.headers))
