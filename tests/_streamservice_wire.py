"""One open stream of the scripted service: bytes in virtual time, cut and held back as the plan wants it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncIterator, Iterator
from math import inf
from typing import TYPE_CHECKING

import httpx
from anyio.lowlevel import checkpoint

from ._clock import START
from ._streamservice_plan import Entry, Fate

if TYPE_CHECKING:
    from ._streamservice import StreamService

BEAT = 15.0  # seconds from one heartbeat to the next
MOST = 65_536  # bytes of one read


class Connection(httpx.SyncByteStream, httpx.AsyncByteStream):
    """One open stream: the body of its response.

    `timeouts` are those of the request, in seconds; `read` is looked up for every read.
    """

    def __init__(self, service: StreamService, fate: Fate, timeouts: dict[str, float | None]) -> None:
        self._service = service
        self._fate = fate
        self._timeouts = timeouts
        self._timeline = service.plan.timeline
        self._next = bisect_right(service.moments, service.now)
        self._beat = service.now + BEAT
        self._ends = service.now + fate.life
        self._cut = len(self._timeline)
        if fate.kind.startswith(("inside", "silent inside")) and fate.life < inf:
            self._cut = self._victim(bisect_left(service.moments, self._ends))
            if self._cut < len(self._timeline):
                self._ends = self._timeline[self._cut][0]
        self._kept = bytearray(b"\xef\xbb\xbf" if service.draw.random() < 0.1 else b"")
        self._sent = len(self._kept)
        self._read = 0
        self._wholes: deque[tuple[int, Entry]] = deque()
        self._ready = 0.0
        self._ended = False
        self._closed = False
        service.open += 1
        service.most_open = max(service.most_open, service.open)

    def _victim(self, place: int) -> int:
        """The first event from there on inside which this one is cut."""
        inside_character = self._fate.kind == "inside a character"
        while place < len(self._timeline):
            _, event, sort, _ = self._timeline[place]
            if sort == "signal" and (not inside_character or _goes_on(event)):
                break
            place += 1
        return place

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await checkpoint()
        while piece := self.read():
            yield piece
            await checkpoint()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._service.open -= 1
            self._service.note(f"stream closed by the client, {len(self._kept)} bytes unread")
            self._collect(self._service.now)
            self._service.escaped += not self._ended and self._fate.life < inf
            self._finish()

    async def aclose(self) -> None:
        self.close()

    def read(self) -> bytes:
        """What comes next; nothing at the end.

        Raises:
            httpx.ReadTimeout: nothing came within the read timeout.
            httpx.ReadError: the connection was reset.
            httpx.RemoteProtocolError: it ended inside the body.
        """
        assert not self._closed, "read after it was closed"
        service = self._service
        timeout = self._timeouts["read"]
        give_up = inf if timeout is None else service.now + timeout
        while True:
            now = service.now
            self._collect(now)
            ended = now >= self._ends and not self._fate.stalls
            if ended and self._fate.loses and self._kept:
                service.note(f"reset: {len(self._kept)} bytes are gone")
                self._kept.clear()
            if self._kept and self._ready <= now:
                return self._piece(now)
            if ended and not self._kept:
                self._finish()
                return self._end()
            upcoming = self._ready if self._kept else self._upcoming()
            if upcoming > give_up:
                assert give_up < inf, "a read that would never end"
                service.move(max(0.0, give_up - now))
                service.note("a read timed out")
                raise httpx.ReadTimeout("nothing came in time")
            service.move(max(0.0, upcoming - now) + 1e-9)

    def _upcoming(self) -> float:
        """When something happens next."""
        if self._ended:
            return self._beat
        following = self._service.moments[self._next] if self._next < len(self._timeline) else inf
        return min(following, self._beat, self._ends)

    def _collect(self, now: float) -> None:
        """Put what has been sent by now into what is kept."""
        while not self._ended:
            moment = self._timeline[self._next][0] if self._next < len(self._timeline) else inf
            if min(moment, self._beat, self._ends) > now:
                return
            if self._ends <= min(moment, self._beat):
                self._break_off()
            elif moment <= self._beat:
                self._put(self._timeline[self._next])
                self._next += 1
            else:
                self._put((self._beat, self._heartbeat(), "noise", 0))
                self._beat += BEAT
        while self._fate.kind == "dripping comments" and self._beat <= now:
            self._put((self._beat, b": still here\n", "noise", 0))
            self._beat += self._fate.drip

    def _put(self, entry: Entry) -> None:
        event = entry[1]
        self._kept += event
        self._sent += len(event)
        # With a line's CR it is complete: the LF after it is only skipped.
        self._wholes.append((self._sent - event.endswith(b"\r\n"), entry))

    def _heartbeat(self) -> bytes:
        return b'data: {"type": "heartbeat", "timestamp": %d}\n\n' % int(START + self._service.plan.skew + self._beat)

    def _break_off(self) -> None:
        """From now on nothing more is sent, but for the first part of an event where the plan wants that."""
        self._ended = True
        kind = self._fate.kind
        if "inside" in kind:
            victim = self._timeline[self._cut][1] if self._cut < len(self._timeline) else self._heartbeat()
            inside = _goes_on(victim) if kind == "inside a character" else []
            place = self._service.draw.choice(inside or range(1, len(victim) - 4))
            self._kept += victim[:place]
            self._sent += place
        self._beat = self._ends + self._fate.drip if kind == "dripping comments" else inf
        if self._fate.stalls:
            self._finish()

    def _finish(self) -> None:
        """Its fate has been met, for the service's books."""
        if self._fate.life < inf:
            self._service.note(f"its fate: {self._fate.kind}, loses {self._fate.loses}")
            self._service.unfinished -= 1
            self._service.last_fate = self._service.now
            self._fate = Fate(self._fate.kind, inf, self._fate.loses, self._fate.abrupt, self._fate.drip)

    def _piece(self, now: float) -> bytes:
        """All that is kept, or a part that ends anywhere; then the rest may take its time."""
        draw = self._service.draw
        chance = draw.random()
        size = len(self._kept) if chance < 0.7 else draw.randrange(1, len(self._kept) + 1)
        piece = bytes(self._kept[: min(size, MOST)])
        del self._kept[: len(piece)]
        if chance > 0.95:
            self._ready = now + draw.uniform(0, 0.3)
        self._read += len(piece)
        while self._wholes and self._wholes[0][0] <= self._read:
            _, (_, _, sort, number) = self._wholes.popleft()
            if sort == "signal" or sort == "again":
                self._service.live[number] = 1
            elif sort == "invalid":
                self._service.invalid.append(number)
            elif sort == "unknown":
                self._service.unknown.append(number)
        return piece

    def _end(self) -> bytes:
        if self._fate.kind == "reset":
            raise httpx.ReadError("connection reset by peer")
        if self._fate.abrupt:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        return b""


def _goes_on(event: bytes) -> list[int]:
    """The places inside its characters of several bytes."""
    return [] if event.isascii() else [place for place, byte in enumerate(event) if byte & 0xC0 == 0x80]
