"""Answers that always go on a little, so that no timeout for one piece is ever reached: the deadline ends them."""

from __future__ import annotations

import json

import pytest

from tradesdk import APITimeoutError, SystemClock

from .._answers import ACCOUNT
from .._hostile import Visit
from .._rows import each_of
from ._client import facing

BODY = json.dumps(ACCOUNT).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x" % len(BODY)

# What comes first, and what then comes again and again.
ENDLESS = {
    "a header": (b"HTTP/1.1 200 OK\r\nx-slow: ", b"a"),
    "answers on the way to the answer": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "a chunk's extension": (CHUNKED + b";", b"a"),
    "a trailer": (CHUNKED + b"\r\n" + BODY + b"\r\n0\r\nx-slow: ", b"a"),
}


@pytest.mark.long
@each_of("what", ENDLESS)
async def test_what_never_ends_ends_at_the_deadline(what: str) -> None:
    first, again = ENDLESS[what]

    def answering(visit: Visit) -> None:
        visit.send(first)
        for _ in range(500):  # ten seconds, then it breaks off
            if not visit.send(again):
                return
            visit.hold(0.02)
        visit.close()

    async with facing(answering, clock=SystemClock(), deadline=0.5, timeout=30) as (server, client):
        with pytest.raises(APITimeoutError) as caught:
            await client.agents.update("a1", name="n")
        assert (caught.value.sent, caught.value.outcome, caught.value.retries) == (True, "unknown", 0)
        assert server.settled(open_connections=0)
        assert len(server.visits) == 1
