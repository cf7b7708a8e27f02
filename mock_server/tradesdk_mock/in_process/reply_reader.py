"""A reply read without a socket: its pieces, the waits between them, and how it fails.

Rules and error texts are those of a real HTTP/1.1 connection.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator, Mapping
from enum import Enum

from ..core.clock import MockClock
from ..core.messages import BodyStep, Delay, Disconnect, Reply, WaitForEvent
from .waiting import Timeout, WaitFor

log = logging.getLogger("tradesdk_mock")

_AT_ONCE = 64 * 1024  # at most this much comes from a socket in one read
_BAD_CHUNK = b"not a length\r\n"


class Failure(Enum):
    """The kinds of failures that a client distinguishes."""

    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"


class ReadFailed(Exception):
    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class ReplyReader:
    """Reads one reply. `timeouts`: of the request; `read` is looked up for each read, as on a socket.

    Another thread may close it.
    """

    def __init__(self, reply: Reply, method: str, clock: MockClock, timeouts: Mapping[str, float | None]) -> None:
        self._reply = reply
        self._clock = clock
        self._timeouts = timeouts
        self._lock = threading.Lock()
        self._closed = False
        self._length = None if reply.status in (204, 304) else _length_of(reply)
        self._empty = method == "HEAD" or reply.status in (204, 304)
        self._received = 0
        # A body that is there at once is never waited for.
        self._waits = bool(reply.before) or not isinstance(reply.body, bytes)
        self._read_timeout = Timeout(clock, self._timeout) if self._waits else None
        self._pieces = self._read()

    @property
    def _timeout(self) -> float | None:
        return self._timeouts.get("read")

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks, because its length isn't known before."""
        return self._length is None and self._reply.status not in (204, 304)

    def opening(self) -> Iterator[WaitFor]:
        """The waits until the head of the reply is there."""
        for step in self._reply.before:
            if isinstance(step, Disconnect):
                raise _broken_before(step)
            yield from self._pause(step)

    def next(self) -> bytes | WaitFor | None:
        """The next piece, or a wait before the next call; None at the end.

        Raises:
            ReadFailed: it breaks off.
        """
        found: bytes | WaitFor | None = None
        with self._lock:
            if not self._closed:
                found = next(self._pieces, None)
        if found is None or self._closed:
            self.close()
            return None
        return found

    def close(self) -> None:
        """Release the body. A second call does nothing."""
        self._closed = True
        # A thread that is reading sees that it is closed, and does the rest.
        if self._lock.acquire(blocking=False):
            try:
                self._pieces.close()
                close = getattr(self._reply.body, "close", None)
                if close is not None:
                    close()
            finally:
                self._lock.release()

    def _restart_timeout(self) -> None:
        if self._waits:
            self._read_timeout = Timeout(self._clock, self._timeout)

    def _read(self) -> Generator[bytes | WaitFor, None, None]:
        if self._empty or self._length == 0:
            return
        self._restart_timeout()
        for step in self._steps():
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
                yield WaitFor(self._clock, (timeout,), step.until, step.notifier, step.poll)
            else:
                yield from self._break(step)
                return
        if self._length is not None:
            raise self._too_short()

    def _steps(self) -> Iterator[BodyStep]:
        body = self._reply.body
        if isinstance(body, bytes):
            yield body
            return
        while True:
            try:
                step = next(body, None)
            except Exception:
                log.exception("an answer crashed in the middle")
                step = Disconnect.CLOSE
            if step is None:
                return
            yield step

    def _cut(self, content: bytes) -> Iterator[bytes]:
        """The pieces that a socket would give, up to the announced length."""
        if self._length is not None:
            content = content[: self._length - self._received]
        for start in range(0, len(content), _AT_ONCE):
            piece = content[start : start + _AT_ONCE]
            self._received += len(piece)
            yield piece

    def _pause(self, step: Delay) -> Iterator[WaitFor]:
        pause = Timeout(self._clock, step.seconds)
        while pause.left():
            yield WaitFor(self._clock, (pause, self._running_timeout()))

    def _running_timeout(self, advice: str = "") -> Timeout:
        """The read timeout; ReadFailed when it is over."""
        assert self._read_timeout is not None  # noqa: S101 - made for every body that is waited for
        if not self._read_timeout.left():
            whose = " of the mock's clock" if self._clock.frozen else ""
            raise ReadFailed(Failure.TIMEOUT, f"timed out: nothing came for {self._timeout:g} s{whose}{advice}")
        return self._read_timeout

    def _break(self, how: Disconnect) -> Iterator[bytes]:
        if how is Disconnect.RESET:
            raise _reset()
        if how is Disconnect.CHUNK and self._length is None:
            raise ReadFailed(Failure.PROTOCOL, f"illegal chunk header: {bytearray(_BAD_CHUNK)!r}")
        if how is Disconnect.CHUNK:
            # Without chunked encoding it is ordinary content.
            yield from self._cut(_BAD_CHUNK)
        if self._received != self._length:
            raise self._too_short()

    def _too_short(self) -> ReadFailed:
        how = "incomplete chunked read"
        if self._length is not None:
            how = f"received {self._received} bytes, expected {self._length}"
        return ReadFailed(Failure.PROTOCOL, f"peer closed connection without sending complete message body ({how})")


def _length_of(reply: Reply) -> int | None:
    return next((int(value) for name, value in reply.headers if name.lower() == b"content-length"), None)


def _reset() -> ReadFailed:
    return ReadFailed(Failure.RESET, "[Errno 104] Connection reset by peer")


def _broken_before(how: Disconnect) -> ReadFailed:
    if how is Disconnect.RESET:
        return _reset()
    return ReadFailed(Failure.PROTOCOL, "Server disconnected without sending a response.")
