"""A service of signals that does exactly what a test wrote down, in virtual time. One object serves both flavours.

Each connection is a response, an exception, or a list of what happens on the stream: bytes arrive, a number of seconds
passes, a function is called, an exception breaks it off; at the end of the list it is closed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any

import httpx
from anyio.lowlevel import checkpoint

from ._answers import signal
from ._clock import START, VirtualClock, http_date

CHAIN = 8453
SILENCE = inf  # as a step: nothing more comes, and the connection stays open

Step = bytes | float | Exception | Callable[[], object]
Life = httpx.Response | Exception | Iterable[Step]
History = Callable[["StreamScript", dict[str, str]], httpx.Response]


def fields(signal_id: str, at: float, **changes: Any) -> dict[str, Any]:
    """A signal of the service, `at` seconds after the beginning."""
    made: dict[str, Any] = signal(signal_id, **({"timestamp": int(START + at)} | changes))
    return made


def event(data: dict[str, Any] | bytes) -> bytes:
    content = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
    return b"data: " + content + b"\n\n"


def live(signal_id: str, at: float, **changes: Any) -> bytes:
    return event({"type": "signal"} | fields(signal_id, at, **changes))


def beat(at: float) -> bytes:
    return event({"type": "heartbeat", "timestamp": int(START + at)})


class StreamScript(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The transport of an HTTP client, blocking or not.

    Args:
        lives: what the first, second, … request for the stream meets. One beyond them fails the test.
        listed: what the history has, in the service's order.
        history: answers instead of the honest one.
        dated: whether answers have a `Date`.
        headers: of the stream, besides the type.

    Attributes:
        connects: when each request for the stream came, in seconds after the beginning.
        asked: the query of each request to the history.
        open: streams that are open.
    """

    def __init__(
        self,
        *lives: Life,
        listed: Sequence[dict[str, Any]] = (),
        history: History | None = None,
        clock: VirtualClock | None = None,
        dated: bool = True,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.lives = list(lives)
        self.listed = list(listed)
        self._history = history
        self._dated = dated
        self._headers = headers or {}
        self._begin = self.clock.monotonic()
        self.connects: list[float] = []
        self.asked: list[dict[str, str]] = []
        self.requests: list[httpx.Request] = []
        self.open = 0

    @property
    def now(self) -> float:
        return self.clock.monotonic() - self._begin

    def date(self) -> dict[str, str]:
        return {"Date": http_date(int(START + self.now))} if self._dated else {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path.endswith("/v1/signals/stream"):
            self.connects.append(self.now)
            assert self.lives, f"nobody expected connection number {len(self.connects)}"
            life = self.lives.pop(0)
            if isinstance(life, Exception):
                raise life
            if isinstance(life, httpx.Response):
                return life
            headers = {"Content-Type": "text/event-stream"} | self.date() | self._headers
            return httpx.Response(200, headers=headers, stream=Pieces(self, life, request))
        assert request.url.path.endswith("/v1/signals/history")
        query = dict(request.url.params)
        self.asked.append(query)
        return self.honest(query) if self._history is None else self._history(self, query)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await checkpoint()
        return self.handle_request(request)

    def honest(self, query: dict[str, str]) -> httpx.Response:
        """Newest first, and only what has happened by now, whatever date it bears if that is absurd."""
        first, last = int(query.get("from", "0")), int(query.get("to", "999999999999"))
        at, size = int(query.get("cursor", "0")), int(query["limit"])
        found = [one for one in reversed(self.listed) if first <= one["timestamp"] <= last and self.happened(one)]
        return self.page(found[at : at + size], str(at + size) if len(found) > at + size else None)

    def happened(self, one: dict[str, Any]) -> bool:
        return not START + self.now < one["timestamp"] < START + 1_000_000

    def page(self, items: Sequence[Any], cursor: str | None = None) -> httpx.Response:
        body = {"data": items} if cursor is None else {"data": items, "next_cursor": cursor}
        headers = self.date() | {"Content-Type": "application/json"}
        return httpx.Response(200, content=json.dumps(body).encode(), headers=headers)


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of one stream."""

    def __init__(self, script: StreamScript, life: Iterable[Step], request: httpx.Request) -> None:
        self._script = script
        self._life = life
        self._timeouts: dict[str, float] = request.extensions["timeout"]
        self._closed = False
        script.open += 1

    def __iter__(self) -> Iterator[bytes]:
        clock = self._script.clock
        for step in self._life:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            elif callable(step):
                step()
            elif step > self._timeouts["read"]:
                clock.advance(self._timeouts["read"])
                raise httpx.ReadTimeout("nothing came in time")
            else:
                clock.advance(step)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            await checkpoint()  # a piece is gone when its reader is cancelled here
            yield piece

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._script.open -= 1

    async def aclose(self) -> None:
        self.close()
