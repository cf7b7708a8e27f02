"""How long a stream lives, whose time it follows, and what it costs. The same over sockets and in process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer, MockService
from tradesdk_mock.api import stream as module
from tradesdk_mock.serving import uvicorn_server

from ._http import CARRIERS, START, carried, client, error, ok, walk
from ._streams import STREAM, listening

pytestmark = pytest.mark.long


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def api(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock, timeout=60) as http:
        yield http


# The end


def revoke(mock: MockService, key_id: str) -> None:
    mock.revoke_key(key_id)


def rotate(mock: MockService, key_id: str) -> None:
    mock.rotate_key(key_id)


def expire(mock: MockService, key_id: str) -> None:
    mock.expire_key(key_id, START + 10)
    mock.clock.advance(10)


def reset(mock: MockService, key_id: str) -> None:
    mock.reset()


@pytest.mark.parametrize("end", [revoke, rotate, expire, reset])
def test_it_ends_with_its_key_and_with_the_world(
    mock: MockService, api: httpx.Client, end: Callable[[MockService, str], None]
) -> None:
    """In good order: what was sent is whole, and the connection serves the next request."""
    key = mock.create_key(tenant="main")
    with client(mock, key.value, timeout=60) as http:
        with listening(http) as stream, listening(api) as other:
            emitted = mock.emit_signal()
            assert stream.next()["id"] == other.next()["id"] == emitted.id
            end(mock, key.id)
            assert stream.rest() == []
            if end is reset:
                assert other.rest() == []
            else:
                assert mock.emit_signal().id == other.next()["id"]
        error(http.get(f"{STREAM}?chain=8453"), 401, "unauthorized")
    with listening(api) as stream:
        assert mock.emit_signal().id == stream.next()["id"]


def test_a_change_of_its_key_that_leaves_it_good_does_not_end_it(mock: MockService) -> None:
    key = mock.create_key()
    with client(mock, key.value, timeout=60) as http, listening(http) as stream:
        mock.expire_key(key.id, START + 10_000)
        mock.set_gaps(order="oldest")
        assert mock.emit_signal().id == stream.next()["id"]


def test_the_end_of_the_mock_ends_it(mock: MockService, api: httpx.Client) -> None:
    """Also while somebody waits in another thread."""
    mock.set_gaps(heartbeat=0)
    got: list[str] = []
    with api.stream("GET", STREAM, params={"chain": 8453}, timeout=httpx.Timeout(None)) as answer:
        emitted = mock.emit_signal()
        first = threading.Event()

        def read_all() -> None:
            for line in answer.iter_lines():
                if line:
                    got.append(json.loads(line[6:])["id"])
                    first.set()

        def read() -> None:
            # Who goes away breaks connections off; that isn't the end that an answer has.
            with pytest.raises(httpx.RemoteProtocolError):
                read_all()

        reader = threading.Thread(target=read)
        reader.start()
        assert first.wait(10)
        mock.stop() if isinstance(mock, MockServer) else mock.close()
        reader.join(10)
        assert not reader.is_alive()
    assert got == [emitted.id]


def test_whoever_leaves_is_forgotten(mock: MockService, api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    left = threading.Semaphore(0)
    leave = mock.world.subscribers.leave

    def watched(notifier: Any) -> None:
        leave(notifier)
        left.release()

    monkeypatch.setattr(mock.world.subscribers, "leave", watched)
    with listening(api), listening(api, 56):
        assert mock.status()["streams"] == 2
    for _ in range(2):
        assert left.acquire(timeout=10)
    assert mock.status()["streams"] == 0


# Time


def test_a_clock_that_stands_still_is_moved_by_whoever_reads_in_process() -> None:
    with carried("in process") as mock, client(mock, timeout=60) as api:
        mock.emit_signal(at=START + 44.5)
        mock.emit_signal(at=START + 20)
        mock.emit_signal(at=START + 20, chain_id=56)
        with listening(api) as stream:
            seen = []
            for _ in range(5):
                event = stream.next()
                seen.append((event["type"], event["timestamp"] - START, mock.clock.now() - START))
    assert seen == [
        ("heartbeat", 15, 15),
        ("signal", 20, 20),
        ("heartbeat", 30, 30),
        ("signal", 44, 44.5),
        ("heartbeat", 45, 45),
    ]


def test_over_sockets_it_waits_until_somebody_moves_it() -> None:
    """What would have come earlier would be in front."""
    with carried("sockets") as mock, client(mock, timeout=60) as api, listening(api) as stream:
        scheduled = mock.emit_signal(at=START + 20)
        mock.clock.advance(14)
        mock.clock.advance(5)
        assert stream.next() == {"type": "heartbeat", "timestamp": START + 19}
        mock.clock.advance(3)
        assert stream.next()["id"] == scheduled.id
        assert mock.clock.now() == START + 22


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_running_clock_is_followed_at_its_speed(carrier: str) -> None:
    with carried(carrier, clock=MockClock()) as mock, client(mock, timeout=60) as api:
        mock.clock.freeze()
        began = mock.clock.now()
        mock.emit_signal(at=began + 40)
        with listening(api) as stream:
            mock.clock.move(freeze=False, speed=1_000)
            events = stream.take(6)
        times = [event["timestamp"] for event in events if event["type"] == "heartbeat"]
        assert len(times) == 5
        assert all(later - earlier >= 14 for earlier, later in pairwise(times))
        (signal,) = [event for event in events if event["type"] == "signal"]
        assert began + 39 <= signal["timestamp"] <= mock.clock.now()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_jump_of_a_running_clock_is_noticed_at_once(carrier: str) -> None:
    with carried(carrier, clock=MockClock()) as mock, client(mock, timeout=60) as api, listening(api) as stream:
        mock.clock.advance(3_600)
        event = stream.next()
        assert (event["type"], event["timestamp"] <= mock.clock.now()) == ("heartbeat", True)
        mock.clock.freeze()
        mock.clock.advance(15)
        assert stream.next()["timestamp"] == int(mock.clock.now())


def test_back_in_time_it_goes_on(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        first = mock.emit_signal()
        assert stream.next()["id"] == first.id
        mock.clock.set(START - 10_000, allow_backwards=True)
        second = mock.emit_signal()
        assert stream.next() == {**stream_event(second), "timestamp": START - 10_000}
        # The fifteen seconds begin when the change is noticed: by a server before it looks at the next request.
        ok(api.get("/v1/account"))
        mock.clock.advance(15)
        mock.clock.advance(15)
        beat = stream.next()
        assert beat["type"] == "heartbeat"
        assert START - 10_000 < beat["timestamp"] <= START - 9_955
        mock.clock.set(START + 5)
        third = mock.emit_signal()
        while (event := stream.next())["type"] == "heartbeat":
            assert beat["timestamp"] < event["timestamp"] <= START + 5
        assert event["id"] == third.id


def stream_event(signal: Any) -> dict[str, Any]:
    fields = {name: getattr(signal, name) for name in signal.__dataclass_fields__ if name != "published_at"}
    return {"type": "signal", **fields}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_back_in_time_the_market_does_not_repeat_itself(carrier: str) -> None:
    with carried(carrier, signals="live") as mock, client(mock, timeout=60) as api:
        mock.set_gaps(heartbeat=0)
        with listening(api) as stream:
            mock.clock.advance(120)
            before = stream.take(len(published_since(api, START)))
            mock.clock.set(START, allow_backwards=True)
            mock.clock.advance(240)
            count = len(published_since(api, START))
            after = stream.take(count - len(before))
    ids = [event["id"] for event in (*before, *after)]
    assert len(set(ids)) == len(ids) == count


def published_since(http: httpx.Client, start: float) -> list[str]:
    """The ids on Base, oldest first."""
    query: dict[str, Any] = {"chain": 8453, "from": int(start), "limit": 100}
    return [signal["id"] for signal in walk(http, "/v1/signals/history", **query)][::-1]


# Several processes, and slow readers


def elsewhere(act: str, *arguments: object) -> str:
    """What another process with the same state file prints."""
    script = f"import sys\nfrom tradesdk_mock import MockService\nwith MockService(db=sys.argv[1]) as mock:\n    {act}"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_it_hears_of_what_another_process_does(carrier: str, tmp_path: Path) -> None:
    """A signal that it publishes, and the end of the key."""
    db = tmp_path / "world.sqlite3"
    with carried(carrier, db=db, clock=None) as mock:
        mock.set_gaps(heartbeat=0)
        key = mock.create_key()
        with client(mock, key.value, timeout=60) as http, listening(http) as stream:
            emitted = elsewhere("print(mock.emit_signal().id)", db)
            assert stream.next()["id"] == emitted
            elsewhere("mock.revoke_key(sys.argv[2])", db, key.id)
            assert stream.rest() == []


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
    plain = client(mock, timeout=60)
    if not isinstance(mock, MockServer):
        return plain
    with plain:
        transport = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)], trust_env=False)
        return httpx.Client(transport=transport, base_url=plain.base_url, headers=plain.headers, timeout=60)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("many", [3_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_slow_reader_costs_no_memory_and_loses_nothing(carrier: str, many: int, feeds: list[Any]) -> None:
    """Its events stay where they are, in the table of signals, until there is room on its connection."""
    with carried(carrier, signals="live") as mock, narrow(mock) as http, client(mock, timeout=60) as other:
        mock.set_gaps(heartbeat=0)
        with listening(http) as unread:
            begun = feeds[0]._after
            mock.clock.advance(6 * many)
            # Whoever asks meanwhile is answered.
            published = published_since(other, START)
            assert len(published) == pytest.approx(many, rel=0.1)
            # Signals of both chains, and those that fit into the buffers of a connection.
            assert feeds[0]._after - begun < 2_000
            with listening(other) as fast:
                emitted = mock.emit_signal(token="BRETT").id
                assert fast.next()["id"] == emitted
            assert [event["id"] for event in unread.take(len(published) + 1)] == [*published, emitted]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_time_is_too_long(carrier: str, feeds: list[Any]) -> None:
    """Hours of the mock's clock: what came meanwhile is there, and then the stream goes on."""
    with carried(carrier) as mock, narrow(mock) as http, client(mock, timeout=60) as other:
        mock.set_gaps(heartbeat=600)
        with listening(http) as unread:
            emitted = [mock.emit_signal(at=START + 60 * n).id for n in range(1, 100)]
            for hour in range(1, 3):
                mock.clock.set(START + 3_600 * hour)
                assert other.get("/v1/account").status_code == 200
            emitted.append(mock.emit_signal().id)
            found = list[str]()
            while len(found) < len(emitted):
                event = unread.next()
                found += [event["id"]] if event["type"] == "signal" else []
            assert found == emitted
