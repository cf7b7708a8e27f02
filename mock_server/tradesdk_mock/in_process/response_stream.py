"""A response as the body of an httpx response: its pieces, the waits between them, and how it fails.

Rules and error texts are those of a real HTTP/1.1 connection.

`_read` turns the steps of a `Response` into pieces and `Wait`s; it never waits. The reader waits: `__next__` blocks its
thread, `__anext__` lets other tasks run. One reader takes the pieces; `close` may be called from any thread, and ends
a wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from http import HTTPStatus

import httpx

from ..core.clock import MockClock, Timeout
from ..core.errors import crashed
from ..core.messages import BodyStep, Delay, Disconnect, Response, WaitForEvent, close_body
from .waiting import Wait

_AT_ONCE = 64 * 1024  # the most bytes of one read of a socket
_BAD_CHUNK = b"not a length\r\n"


class ResponseStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of one response, for both kinds of clients. Another thread may close it.

    If something happens before the status line, the first piece is empty: the headers have come.
    """

    def __init__(self, response: Response, request: httpx.Request, clock: MockClock) -> None:
        self._response = response
        self._request = request
        self._clock = clock
        self._wait: Wait | None = None
        self._closed = False
        self._bodiless = response.status in (204, 304)
        self._length = None if self._bodiless else response.length()
        self._received = 0
        self.begins_late = bool(response.before)
        """Whether something happens before the status line."""
        # A complete body is never waited for.
        self._waits = self.begins_late or not isinstance(response.body, bytes)
        self._read_timeout: Timeout | None = None
        self._pieces = self._read()

    def response(self) -> httpx.Response:
        status, headers = self._response.status, self._response.headers
        if self._length is None and not self._bodiless:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        try:
            phrase = HTTPStatus(status).phrase.encode("ascii")
        except ValueError:
            phrase = b""
        extensions = {"http_version": b"HTTP/1.1", "reason_phrase": phrase}
        return httpx.Response(status, headers=headers, stream=self, extensions=extensions)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            while (found := self._next()) is not None:
                if isinstance(found, bytes):
                    return found
                found.wait()
        except BaseException:  # nothing can be read after a failure
            self.close()
            raise
        raise StopIteration

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            while (found := self._next()) is not None:
                if isinstance(found, bytes):
                    return found
                await found.wait_async()
        except BaseException:
            self.close()
            raise
        raise StopAsyncIteration

    def close(self) -> None:
        """Close it, from any thread: a waiting read ends at once. A second call does nothing."""
        self._closed = True
        with contextlib.suppress(ValueError):  # the thread that is reading sees that it is closed, and does the rest
            self._pieces.close()
            close_body(self._response.body)
        if self._wait is not None:
            self._wait.end()

    async def aclose(self) -> None:
        self.close()

    def _next(self) -> bytes | Wait | None:
        """The next piece, or a wait before the next call; None at the end."""
        found: bytes | Wait | None = None
        try:
            if not self._closed:
                found = next(self._pieces, None)
        except ValueError:
            if not self._closed:  # another thread is closing the generator
                raise
        # Before the next line: a `close` from now on ends this wait.
        self._wait = found if isinstance(found, Wait) else None
        if found is None or self._closed:
            self.close()
            return None
        return found

    def _read(self) -> Generator[bytes | Wait, None, None]:
        if self.begins_late:
            self._restart_timeout()
            for before in self._response.before:
                if isinstance(before, Disconnect):
                    if before is Disconnect.RESET:
                        raise self._reset()
                    raise self._protocol_error("Server disconnected without sending a response.")
                yield from self._pause(before)
            yield b""
        if self._bodiless or self._request.method == "HEAD" or self._length == 0:
            return
        self._restart_timeout()
        body = self._response.body
        steps: Iterator[BodyStep] = iter([body]) if isinstance(body, bytes) else body
        while True:
            try:
                step = next(steps, None)
            except Exception:
                crashed("a response")
                step = Disconnect.CLOSE
            if step is None:
                break
            if isinstance(step, bytes):
                for piece in self._cut(step):
                    yield piece
                    self._restart_timeout()
                if self._received == self._length:
                    return
            elif isinstance(step, Delay):
                yield from self._pause(step)
            elif isinstance(step, WaitForEvent):
                timeout = self._running_timeout(" (a stream needs a read timeout above its heartbeats)")
                yield Wait(self._clock, (timeout,), step.until, step.notifier, step.poll)
            else:
                yield from self._break(step)
                return
        if self._length is not None:
            raise self._too_short()

    def _cut(self, content: bytes) -> Iterator[bytes]:
        """The pieces that a socket would give, up to the announced length."""
        if self._length is not None:
            content = content[: self._length - self._received]
        for start in range(0, len(content), _AT_ONCE):
            piece = content[start : start + _AT_ONCE]
            self._received += len(piece)
            yield piece

    # Timeouts. The read timeout is looked up for each read, as on a socket.

    def _pause(self, step: Delay) -> Iterator[Wait]:
        pause = Timeout(self._clock, step.seconds)
        while pause.left():
            yield Wait(self._clock, (pause, self._running_timeout()))

    def _restart_timeout(self) -> None:
        if self._waits:
            self._read_timeout = Timeout(self._clock, self._seconds)

    def _running_timeout(self, advice: str = "") -> Timeout:
        """The timeout of this read; an error when it is over."""
        assert self._read_timeout is not None  # noqa: S101 - made for every body that is waited for
        if not self._read_timeout.left():
            whose = " of the mock's clock" if self._clock.frozen else ""
            message = f"timed out: nothing came for {self._seconds:g} s{whose}{advice}"
            raise httpx.ReadTimeout(message, request=self._request)
        return self._read_timeout

    @property
    def _seconds(self) -> float | None:
        timeouts: dict[str, float | None] = self._request.extensions.get("timeout", {})
        return timeouts.get("read")

    # Failures.

    def _break(self, how: Disconnect) -> Iterator[bytes]:
        if how is Disconnect.RESET:
            raise self._reset()
        if how is Disconnect.CHUNK and self._length is None:
            raise self._protocol_error(f"illegal chunk header: {bytearray(_BAD_CHUNK)!r}")
        if how is Disconnect.CHUNK:
            # Without chunked encoding it is ordinary content.
            yield from self._cut(_BAD_CHUNK)
        if self._received != self._length:
            raise self._too_short()

    def _too_short(self) -> httpx.TransportError:
        how = "incomplete chunked read"
        if self._length is not None:
            how = f"received {self._received} bytes, expected {self._length}"
        return self._protocol_error(f"peer closed connection without sending complete message body ({how})")

    def _reset(self) -> httpx.TransportError:
        return httpx.ReadError("[Errno 104] Connection reset by peer", request=self._request)

    def _protocol_error(self, message: str) -> httpx.TransportError:
        return httpx.RemoteProtocolError(message, request=self._request)
