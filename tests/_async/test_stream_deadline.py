"""Services that always send a little: the deadline ends the opening of a stream, the idle limit what comes later."""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
from typing import Any

import httpx
import httpx2
import pytest

from tradesdk import (
    APITimeoutError,
    Disconnected,
    RetryPolicy,
    ServiceUnavailableError,
    StreamEndedError,
    StreamSignal,
    SystemClock,
    TradeError,
)

from .._answers import page
from .._hostile import Visit, answer
from .._rows import each_of
from .._streamscript import CHAIN, live
from ._client import facing

pytestmark = pytest.mark.long

SENDERS: dict[str, Any] = {
    "own connections": lambda **_: None,
    "httpx": httpx.AsyncClient,
    "httpx2": httpx2.AsyncClient,
}
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used, and sooner made than the default
NOTHING = answer(json.dumps(page([])).encode())
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n5;"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HEAD, INTERIM, SIGNAL = b"HTTP/1.1 200 OK\r\nx-slow: ", b"HTTP/1.1 102 Processing\r\n\r\n", live("a", 1)

# What comes first, what then comes again and again, and the error.
ENDLESS: dict[str, tuple[bytes, bytes, type[TradeError]]] = {
    "a head": (HEAD, b"a", APITimeoutError),
    "answers on the way to the answer": (b"", INTERIM, APITimeoutError),
    "the body of a refusal": (REFUSED, b"a", ServiceUnavailableError),
}


@each_of("sender", SENDERS)
@each_of("what", ENDLESS)
@each_of("history", ["well", "endless"])
async def test_a_stream_is_open_by_the_deadline_or_not_at_all(what: str, sender: str, history: str) -> None:
    """Also on a connection that the history has used before."""
    first, again, kind = ENDLESS[what]

    def answering(visit: Visit) -> None:
        if "/history" in visit.request[1] and history == "well":
            visit.send(NOTHING)
        else:
            visit.send(first)
            visit.drip(again, 0.01)

    # A refusal's head must have come by then, also where ten tests share a processor.
    deadline = 0.8 if kind is ServiceUnavailableError else 0.2
    given = SENDERS[sender](verify=TLS)
    async with facing(answering, clock=SystemClock(), deadline=deadline, http_client=given) as (server, client):
        began = SystemClock.monotonic()
        with pytest.raises(kind):
            async with client.signals.stream(chain=CHAIN):
                pass
        assert SystemClock.monotonic() - began < 30
        if given is not None:
            await given.aclose()
        assert server.settled(open_connections=0)


@each_of("sender", SENDERS)
async def test_after_it_was_open_nothing_takes_longer_than_the_idle_limit(sender: str) -> None:
    lives = itertools.count()

    def answering(visit: Visit) -> None:
        if "/history" in visit.request[1]:
            visit.send(NOTHING)
            return
        match next(lives):
            case 0:
                visit.send(EVENTS, b"%x\r\n%s\r\n5;" % (len(SIGNAL), SIGNAL))
                visit.drip(b"a", 0.01)
            case 1:
                visit.send(HEAD)
                visit.drip(b"a", 0.01)
            case 2:
                visit.drip(INTERIM, 0.01)
            case _:
                visit.send(answer(status="204 No Content"))

    given, items = SENDERS[sender](verify=TLS), []
    options: dict[str, Any] = {"clock": SystemClock(), "retry": RetryPolicy(cap=0.001), "http_client": given}
    async with facing(answering, **options) as (_, client):
        with contextlib.suppress(StreamEndedError):
            async with client.signals.stream(chain=CHAIN, idle_timeout=0.3, reports=True) as stream:
                async for item in stream:
                    items.append(item)
        if given is not None:
            await given.aclose()
    assert [item.id for item in items if isinstance(item, StreamSignal)] == ["a"]
    # A busy machine may lose more connections than the three that never end.
    assert len([item for item in items if isinstance(item, Disconnected)]) >= 3
    assert next(lives) == 4
