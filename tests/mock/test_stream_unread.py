"""A stream that nobody reads for a while, as during a look into the history: nothing is lost, and nothing piles up."""

from __future__ import annotations

import socket
import time
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer, MockService
from tradesdk_mock.api import stream as module
from tradesdk_mock.serving import uvicorn_server

from ._listening import CARRIERS, carried, connect, listening
from ._support import START, walk

MANY = 10_000
ROOM = 16 * 1024


@pytest.fixture
def feeds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The streams that are opened, in their order; on sockets with little room in the system's own buffers."""
    found: list[Any] = []

    class Watched(module.Feed):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(self)

    def listen(host: str, port: int) -> socket.socket:
        listener = original(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        return listener

    original = uvicorn_server._listen
    monkeypatch.setattr(uvicorn_server, "_listen", listen)
    monkeypatch.setattr(module, "Feed", Watched)
    return found


def narrow(mock: MockService) -> httpx.Client:
    """A client for whom the system keeps little."""
    plain = connect(mock)
    if not isinstance(mock, MockServer):
        return plain
    with plain:
        transport = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)], trust_env=False)
        return httpx.Client(transport=transport, base_url=plain.base_url, headers=plain.headers, timeout=16)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.long
def test_ten_thousand_signals_wait_where_they_are(carrier: str, feeds: list[Any]) -> None:
    with carried(carrier, signals="live") as mock, narrow(mock) as http, connect(mock) as other:
        mock.set_gaps(heartbeat=0)
        with listening(http) as unread:
            begun = feeds[0]._after
            mock.clock.advance(6 * MANY)
            # Whoever asks meanwhile is answered.
            query: dict[str, Any] = {"chain": 8453, "from": START, "limit": 100}
            published = [signal["id"] for signal in walk(other, "/v1/signals/history", **query)][::-1]
            assert len(published) == pytest.approx(MANY, rel=0.1)
            # Signals of both chains, and those that fit into the buffers of a connection.
            assert feeds[0]._after - begun < 2_000
            assert [event["id"] for event in unread.take(len(published))] == published
            mock.emit_signal(token="BRETT")
            assert unread.next()["token_symbol"] == "BRETT"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_time_is_too_long(carrier: str, feeds: list[Any]) -> None:
    """Hours of the mock's clock: what came meanwhile is there, and then the stream goes on."""
    with carried(carrier) as mock, narrow(mock) as http, connect(mock) as other:
        mock.set_gaps(heartbeat=600)
        with listening(http) as unread:
            emitted = [mock.emit_signal(at=START + 60 * n).id for n in range(1, 100)]
            mock.clock.move(freeze=False, speed=10_000)
            while mock.clock.now() < START + 6_000:
                assert other.get("/v1/account").status_code == 200
                time.sleep(0.02)
            mock.clock.freeze()
            emitted.append(mock.emit_signal().id)
            found = list[str]()
            while len(found) < len(emitted):
                event = unread.next()
                found += [event["id"]] if event["type"] == "signal" else []
            assert found == emitted
