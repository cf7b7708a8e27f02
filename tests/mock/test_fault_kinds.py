"""Every fault of an ordinary answer, over real sockets and in process, and what it looks like on the wire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.control.service import MockService
from tradesdk_mock.core.messages import Delay, Disconnect, Request

from ._faulty import CARRIERS, carried, connect, read_raw, read_until
from ._support import FULL, START, add_wallet, ok

PATH = "/v1/account"


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.fixture
def sockets() -> Iterator[MockServer]:
    with MockServer(clock=MockClock(START), signals="scripted") as made:
        yield made


def asked(mock: MockService, method: str = "GET", path: str = PATH, body: object = None) -> Request:
    headers = [(b"authorization", f"Bearer {FULL}".encode()), (b"content-type", b"application/json")]
    return Request(method, path, headers=headers, content=b"" if body is None else json.dumps(body).encode())


# latency


def test_latency(mock: MockService, http: httpx.Client) -> None:
    seconds = 0.06 if isinstance(mock, MockServer) else 6
    mock.add_fault("latency", seconds=seconds)
    real, shown = time.monotonic(), mock.clock.now()
    ok(http.get(PATH))
    if isinstance(mock, MockServer):
        assert time.monotonic() - real >= 0.06
        assert mock.clock.now() == shown
    else:
        assert mock.clock.now() == shown + 6
    assert mock.journal()[-1].faults == ("latency",)


def test_latency_beyond_the_timeout(mock: MockService) -> None:
    mock.add_fault("latency", seconds=30)
    with connect(mock, read_timeout=0.05) as http, pytest.raises(httpx.ReadTimeout):
        http.get(PATH)


def test_latencies_add_up_and_jitter_follows_from_the_seed() -> None:
    def delays(seed: int) -> list[float]:
        with MockService(seed=seed, clock=MockClock(START)) as mock:
            mock.add_fault("latency", seconds=2)
            mock.add_fault("latency", seconds=1, jitter=3)
            found = []
            for _ in range(5):
                before = mock.pipeline.answer(asked(mock)).before
                assert len(before) == 2
                found.append(sum(step.seconds for step in before if isinstance(step, Delay)))
            return found

    assert delays(7) == delays(7)
    assert delays(7) != delays(8)
    assert len(set(delays(7))) == 5
    assert all(3 <= seconds < 6 for seconds in delays(7))


# reset


def test_reset(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("reset", count=1)
    with pytest.raises(httpx.ReadError):
        http.get(PATH)
    assert mock.journal()[-1].status == 0
    assert mock.journal()[-1].faults == ("reset",)
    ok(http.get(PATH))


@pytest.mark.parametrize("executed", [False, True])
def test_reset_around_a_create(mock: MockService, http: httpx.Client, executed: bool) -> None:
    body = {"name": "one", "wallet_id": add_wallet(http), "chain_id": 8453}
    mock.add_fault("reset", route="/v1/agents", method="POST", executed=executed)
    with pytest.raises(httpx.ReadError):
        http.post("/v1/agents", json=body)
    assert len(ok(http.get("/v1/agents"))["data"]) == executed
    assert [entry.status for entry in mock.journal() if entry.path == "/v1/agents" and entry.method == "POST"] == [0]


def test_reset_in_the_middle(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("reset", after=5)
    with http.stream("GET", PATH) as answer:
        assert answer.status_code == 200
        assert read_until(answer, httpx.ReadError, "reset by peer") == b'{"id"'


def test_reset_late(mock: MockService) -> None:
    mock.add_fault("reset")
    mock.add_fault("latency", seconds=4)
    assert mock.pipeline.answer(asked(mock)).before == [Delay(4), Disconnect.RESET]


# bodies that end too early, or not at all


@pytest.mark.parametrize(("after", "expected"), [(0, 0), (7, 7), (None, 62), (124, 124), (9_999, 124)])
def test_truncate(mock: MockService, http: httpx.Client, after: int | None, expected: int) -> None:
    whole = http.get(PATH).content
    assert len(whole) == 125
    mock.add_fault("truncate", after=after)
    with http.stream("GET", PATH) as answer:
        assert answer.headers["content-length"] == "125"
        came = read_until(answer, httpx.RemoteProtocolError, f"received {expected} bytes, expected 125")
    assert came == whole[:expected]


@pytest.mark.parametrize("after", [0, 7, None, 125, 9_999])
def test_bad_chunk(mock: MockService, http: httpx.Client, after: int | None) -> None:
    whole = http.get(PATH).content
    mock.add_fault("bad_chunk", after=after)
    with http.stream("GET", PATH) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in answer.headers
        came = read_until(answer, httpx.RemoteProtocolError, "illegal chunk header")
    assert came == whole[: 62 if after is None else after]


# bodies that are something else


def test_malformed_json(mock: MockService, http: httpx.Client) -> None:
    whole = http.get(PATH)
    mock.add_fault("malformed_json")
    spoiled = http.get(PATH)
    assert spoiled.headers["content-length"] == whole.headers["content-length"]
    assert spoiled.headers["content-type"] == "application/json"
    assert spoiled.content[:-1] == whole.content[:-1]
    with pytest.raises(ValueError, match="Expecting"):
        spoiled.json()


def test_content_type(mock: MockService, http: httpx.Client) -> None:
    whole = http.get(PATH).content
    mock.add_fault("content_type", count=1)
    mock.add_fault("content_type", value="")
    for expected in ("text/html", ""):
        answer = http.get(PATH)
        assert answer.headers.get_list("content-type") == [expected]
        assert answer.content == whole


@pytest.mark.parametrize("mib", [0.001, 1, 2.5])
def test_huge_body(mock: MockService, http: httpx.Client, mib: float) -> None:
    whole = ok(http.get(PATH))
    mock.add_fault("huge_body", mib=mib)
    answer = http.get(PATH)
    assert len(answer.content) == int(answer.headers["content-length"]) == int(mib * 2**20)
    assert answer.json() == whole


def test_a_huge_body_is_five_mib_and_never_smaller_than_the_answer(mock: MockService, http: httpx.Client) -> None:
    mock.populate("main")
    whole = http.get("/v1/trades?limit=100")
    mock.add_fault("huge_body", mib=0.001, count=1)
    mock.add_fault("huge_body")
    assert http.get("/v1/trades?limit=100").content == whole.content
    assert len(http.get("/v1/trades?limit=100").content) == 5 * 2**20


def test_drip(mock: MockService, http: httpx.Client) -> None:
    whole = http.get(PATH).content
    pause = 0.001 if isinstance(mock, MockServer) else 2
    mock.add_fault("drip", piece=50, seconds=pause)
    shown = mock.clock.now()
    with http.stream("GET", PATH) as answer:
        pieces = list(answer.iter_raw())
    assert b"".join(pieces) == whole
    if not isinstance(mock, MockServer):
        assert [len(piece) for piece in pieces] == [50, 50, 25]
        assert mock.clock.now() == shown + 4


def test_drip_slower_than_the_timeout(mock: MockService) -> None:
    mock.add_fault("drip", piece=10, seconds=30)
    with connect(mock, read_timeout=0.05) as http, pytest.raises(httpx.ReadTimeout):
        http.get(PATH)


# several at once, and nothing to spoil


def test_faults_combine_in_an_order_of_their_own(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("truncate", after=2**20 - 3)
    mock.add_fault("huge_body", mib=1)
    mock.add_fault("content_type", value="text/plain")
    mock.add_fault("status", status=503, message="x")
    with http.stream("GET", PATH) as answer:
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["content-length"] == str(2**20)
        came = read_until(answer, httpx.RemoteProtocolError, "complete message body")
    assert came.strip() == b'{"error":{"code":"service_unavailable","message":"x'
    assert mock.journal()[-1].faults == ("status", "huge_body", "content_type", "truncate")


def test_of_several_answers_the_oldest_is_given_and_the_others_wait(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("status", status=500, count=2)
    mock.add_fault("status", status=503, count=1)
    mock.add_fault("reset", count=1)
    assert [http.get(PATH).status_code for _ in range(3)] == [500, 500, 503]
    with pytest.raises(httpx.ReadError):
        http.get(PATH)
    assert http.get(PATH).status_code == 200
    assert [(rule.seen, rule.fired) for rule in mock.faults()] == [(5, 2), (5, 1), (5, 1)]


def test_where_nothing_is_left_to_spoil_a_rule_waits(mock: MockService, http: httpx.Client) -> None:
    for kind in ("truncate", "bad_chunk", "malformed_json", "content_type", "huge_body", "drip"):
        mock.clear_faults()
        mock.add_fault("status", status=204, count=1)
        mock.add_fault("reset", count=1)
        mock.add_fault(kind, count=1)
        assert http.get(PATH).content == b""
        assert mock.journal()[-1].faults == ("status",)
        with pytest.raises(httpx.ReadError):
            http.get(PATH)
        assert [(rule.seen, rule.fired) for rule in mock.faults()] == [(2, 1), (2, 1), (2, 0)]


# what is on the wire


@pytest.mark.parametrize(
    ("kind", "parameters", "head", "body", "end"),
    [
        ("status", {"status": 503}, b"HTTP/1.1 503 Service Unavailable\r\n", None, "eof"),
        ("status", {"status": 599}, b"HTTP/1.1 599 \r\n", None, "eof"),
        ("reset", {}, b"", b"", "reset"),
        ("reset", {"after": 0}, b"HTTP/1.1 200 OK\r\n", b"", "reset"),
        ("reset", {"after": 5}, b"HTTP/1.1 200 OK\r\n", b'{"id"', "reset"),
        ("truncate", {"after": 5}, b"HTTP/1.1 200 OK\r\n", b'{"id"', "eof"),
        ("bad_chunk", {"after": 5}, b"HTTP/1.1 200 OK\r\n", b'5\r\n{"id"\r\nnot a length\r\n', "eof"),
        ("bad_chunk", {"after": 0}, b"HTTP/1.1 200 OK\r\n", b"not a length\r\n", "eof"),
    ],
)
def test_bytes_on_the_socket(
    sockets: MockServer, kind: str, parameters: dict[str, Any], head: bytes, body: bytes | None, end: str
) -> None:
    sockets.add_fault(kind, route=PATH, **parameters)
    raw = read_raw(sockets, PATH)
    assert raw.end == end
    assert raw.head.startswith(head)
    assert body is None or raw.body == body
    sockets.clear_faults()
    assert read_raw(sockets, PATH).head.startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_connection_is_kept_where_a_fault_does_not_end_it(sockets: MockServer) -> None:
    with connect(sockets) as http:
        peers = set()
        for kind in ("status", "malformed_json", "content_type", "huge_body", "drip"):
            parameters: dict[str, Any] = {"seconds": 0} if kind == "drip" else {}
            sockets.add_fault(kind, count=1, **parameters)
            answer = http.get(PATH)
            assert sockets.journal()[-1].faults == (kind,)
            peers.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(peers) == 1
