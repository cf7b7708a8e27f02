"""Where a stream can be waiting when somebody closes it, each brought about on a real socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tradesdk import RetryPolicy

from .._hostile import Visit, answer
from .._streamscript import live

OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EMPTY = answer(json.dumps({"data": []}).encode())
MINUTES = RetryPolicy(base=30)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def signal_event(number: int, timestamp: int) -> bytes:
    """One signal as the stream sends it."""
    return chunk(live(f"sig_{number}", 0, timestamp=timestamp))


@dataclass
class Place:
    """A service that lets a stream wait somewhere. `there` is set when it is about to.

    Attributes:
        act: what it does with the n-th request for the stream (0, 1, …), or for the history.
        options: of `signals.stream`.
        client: of the client.
        entering: it waits before the block of `with` begins.
    """

    act: Callable[[Place, Visit, str, int], None]
    options: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    entering: bool = False
    there: threading.Event = field(default_factory=threading.Event)
    asked: dict[str, int] = field(default_factory=lambda: {"stream": 0, "history": 0, "account": 0})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, visit: Visit) -> None:
        what = visit.head.split()[1].partition(b"?")[0].rpartition(b"/")[2].decode()
        with self.lock:
            number = self.asked[what]
            self.asked[what] += 1
        self.act(self, visit, what, number)

    def wait_here(self, visit: Visit) -> None:
        """Say nothing more on this connection, until the client leaves."""
        self.there.set()
        visit.hold()


def _quiet(place: Place, visit: Visit, what: str, number: int) -> None:
    if what == "stream":
        visit.send(OPEN, chunk(b": hello\n\n"))
        place.wait_here(visit)
    visit.send(EMPTY)


def _reconnecting(place: Place, visit: Visit, what: str, number: int) -> None:
    if what == "stream":
        visit.send(OPEN, b"0\r\n\r\n")
        place.there.set()
    else:
        visit.send(EMPTY)


def _quiet_again(place: Place, visit: Visit, what: str, number: int) -> None:
    if what == "history":
        visit.send(EMPTY)
    elif number == 0:
        visit.send(OPEN, b"0\r\n\r\n")
    else:
        visit.send(OPEN)
        time.sleep(0.1)  # until both looks back are over
        visit.send(chunk(b": hello\n\n"))
        place.wait_here(visit)


def _without_headers(since: int) -> Callable[[Place, Visit, str, int], None]:
    def act(place: Place, visit: Visit, what: str, number: int) -> None:
        if what == "stream" and number >= since:
            place.wait_here(visit)
        elif what == "stream":
            visit.send(OPEN, b"0\r\n\r\n")
        else:
            visit.send(EMPTY)

    return act


def _half_an_error(place: Place, visit: Visit, what: str, number: int) -> None:
    if what == "stream":
        visit.send(answer(b"{", status="503 Service Unavailable", length=100))
        place.wait_here(visit)
    visit.send(EMPTY)


def _history(how: Callable[[Place, Visit], None]) -> Callable[[Place, Visit, str, int], None]:
    """The look after a reconnect."""

    def act(place: Place, visit: Visit, what: str, number: int) -> None:
        if what == "history":
            how(place, visit)
        elif number == 0:
            visit.send(OPEN, b"0\r\n\r\n")
        else:
            visit.send(OPEN)
            visit.hold()

    return act


def _silent(place: Place, visit: Visit) -> None:
    place.wait_here(visit)


def _half(place: Place, visit: Visit) -> None:
    visit.send(EMPTY[:-3])
    place.wait_here(visit)


def _refused(place: Place, visit: Visit) -> None:
    visit.send(answer(b"{}", status="503 Service Unavailable", retry_after="60"))
    place.there.set()


def _settling(place: Place, visit: Visit, what: str, number: int) -> None:
    if what == "history":
        visit.send(EMPTY)
        place.there.set()
    else:
        visit.send(OPEN)
        if number == 0:
            visit.send(b"0\r\n\r\n")
        else:
            visit.hold()


QUICKLY = RetryPolicy(base=0, jitter=0, cap=0.01)

PLACES: dict[str, Callable[[], Place]] = {
    "the read of a quiet stream": lambda: Place(_quiet),
    "the read after a reconnect": lambda: Place(_quiet_again, {"settle": 0.01}, {"retry": QUICKLY}),
    "the wait before a reconnect": lambda: Place(_reconnecting, client={"retry": MINUTES}),
    "the headers of a reconnect": lambda: Place(_without_headers(1), client={"retry": QUICKLY}),
    "a history that says nothing": lambda: Place(_history(_silent), client={"retry": QUICKLY}),
    "half a page of history": lambda: Place(_history(_half), client={"retry": QUICKLY}),
    "the wait before history is asked again": lambda: Place(_history(_refused), client={"retry": QUICKLY}),
    "the time that history has to settle": lambda: Place(_settling, {"settle": 60.0}, {"retry": QUICKLY}),
    "the first headers": lambda: Place(_without_headers(0), entering=True),
    "the body of an error": lambda: Place(_half_an_error, entering=True),
}
