"""The live stream: what its events are. The same over sockets and in process. What is a gap is in test_gaps_stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import anyio
import httpx
import pytest

from tradesdk_mock import MockServer, MockService, MockSignal

from ._listening import CARRIERS, PATH, carried, connect, listening
from ._scripted import TLS
from ._support import FULL, START, error, ok, walk


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def api(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as http:
        yield http


def data(signal: MockSignal) -> dict[str, Any]:
    """The event that a signal becomes."""
    fields = asdict(signal)
    del fields["published_at"]
    return {"type": "signal", **fields}


def test_a_signal_is_one_message_event(mock: MockService, api: httpx.Client) -> None:
    with api.stream("GET", f"{PATH}?chain=8453") as answer:
        emitted = mock.emit_signal(token="BRETT", direction="SELL", confidence=0.5, price_usd=0.25)
        raw = next(answer.iter_raw()).decode()
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in answer.headers
    assert raw == (
        f'data: {{"type":"signal","id":"{emitted.id}","token_address":"{emitted.token_address}","token_symbol":"BRETT",'
        f'"chain_id":8453,"direction":"SELL","confidence":0.5,"price_usd":0.25,"timestamp":{START}}}\n\n'
    )


def test_a_heartbeat_every_fifteen_seconds(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        for turn in range(1, 4):
            mock.clock.advance(15)
            assert stream.next() == {"type": "heartbeat", "timestamp": START + 15 * turn}


def test_a_jump_has_one_heartbeat(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        mock.clock.advance(3_600)
        assert stream.next() == {"type": "heartbeat", "timestamp": START + 3_600}
        mock.clock.advance(15)
        assert stream.next() == {"type": "heartbeat", "timestamp": START + 3_615}


def test_each_chain_has_its_own(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as base, listening(api, 56) as bnb:
        first = mock.emit_signal(chain_id=56)
        second = mock.emit_signal()
        third = mock.emit_signal(chain_id=56)
        assert base.next() == data(second)
        assert bnb.take(2) == [data(first), data(third)]


def test_it_begins_where_it_is_opened(mock: MockService, api: httpx.Client) -> None:
    mock.emit_signal()
    with listening(api) as stream:
        later = mock.emit_signal()
        assert stream.next() == data(later)


def test_what_comes_before_the_first_read_is_kept(mock: MockService, api: httpx.Client) -> None:
    """More than are looked up at once."""
    with listening(api) as stream:
        emitted = [data(mock.emit_signal()) for _ in range(1_100)]
        assert stream.take(1_100) == emitted


def test_the_latest_the_history_and_the_stream_agree(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        sent = [data(mock.emit_signal()) for _ in range(3)]
        assert stream.take(3) == sent
    for path in ("/v1/signals", "/v1/signals/history"):
        found = ok(api.get(path, params={"chain": 8453, "limit": 3}))["data"]
        assert [{"type": "signal", **record} for record in reversed(found)] == sent


def test_a_history_that_lags_behind_the_stream(mock: MockService, api: httpx.Client) -> None:
    mock.set_gaps(history_lag=2)

    def newest(path: str) -> Any:
        return ok(api.get(path, params={"chain": 8453, "limit": 1}))["data"][0]["id"]

    with listening(api) as stream:
        emitted = mock.emit_signal()
        assert stream.next()["id"] == emitted.id
        assert newest("/v1/signals") == emitted.id
        assert newest("/v1/signals/history") != emitted.id
        mock.clock.advance(2)
        assert newest("/v1/signals/history") == emitted.id


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("chain", [8453, 56])
def test_the_market_comes_as_time_goes_on(carrier: str, chain: int) -> None:
    with carried(carrier, signals="live") as mock, connect(mock) as api:
        mock.set_gaps(heartbeat=0)
        with listening(api, chain) as stream:
            mock.clock.advance(1_200)
            published = walk(api, "/v1/signals/history", **{"chain": chain, "from": START, "limit": 100})[::-1]
            got = stream.take(len(published))
        assert got == [{"type": "signal", **record} for record in published]
        # One in 6 seconds, one in 18.
        assert len(published) == pytest.approx(200 if chain == 8453 else 67, rel=0.2)
        assert [record["timestamp"] for record in published] == sorted(record["timestamp"] for record in published)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_first_signal_may_be_promised(carrier: str) -> None:
    with carried(carrier, signals="live", first_within=2.0) as mock, connect(mock) as api:
        for chain in (8453, 56):
            with listening(api, chain) as stream:
                now = mock.clock.now()
                if isinstance(mock, MockServer):
                    mock.clock.advance(2)
                event = stream.next()
            assert (event["type"], event["chain_id"]) == ("signal", chain)
            assert now <= event["timestamp"] <= now + 2


def test_many_streams_at_once(mock: MockService, api: httpx.Client) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(listening(api, chain)) for chain in (8453, 56) for _ in range(40)]
        assert mock.status()["streams"] == 80
        emitted = [data(mock.emit_signal(chain_id=chain)) for chain in (8453, 56, 56, 8453) * 10]
        for place, stream in enumerate(streams):
            chain = 8453 if place < 40 else 56
            assert stream.take(20) == [event for event in emitted if event["chain_id"] == chain]


async def test_many_tasks_listen(mock: MockService) -> None:
    key = mock.create_key()
    got: list[list[str]] = []
    emitted: list[str] = []
    opened, full = anyio.Semaphore(0), anyio.Semaphore(0)
    http = httpx.AsyncClient(
        transport=None if isinstance(mock, MockServer) else mock.transport(),
        base_url=mock.url,
        headers={"Authorization": f"Bearer {key.value}"},
        timeout=60,
        trust_env=False,
        verify=TLS,
    )

    async def listen() -> None:
        found: list[str] = []
        async with http.stream("GET", f"{PATH}?chain=8453") as answer:
            opened.release()
            async for line in answer.aiter_lines():
                if '"signal"' in line:
                    found.append(json.loads(line[6:])["id"])
                    if len(found) == 10:
                        full.release()
        got.append(found)

    async with http, anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(listen)
        for _ in range(30):
            await opened.acquire()
        emitted += [mock.emit_signal().id for _ in range(10)]
        for _ in range(30):
            await full.acquire()
        mock.revoke_key(key.id)
    assert got == [emitted] * 30


def test_the_control_api_emits_as_well(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        emitted = ok(api.post("/_mock/signals", json={"count": 3, "token": "BRETT"}))["data"]
        for signal in emitted:
            del signal["published_at"]
        assert stream.take(3) == [{"type": "signal", **signal} for signal in emitted]


def test_values_that_no_client_knows(mock: MockService, api: httpx.Client) -> None:
    mock.set_gaps(unknown_values="on")
    with listening(api) as stream:
        mock.emit_signal()
        notice, signal = stream.take(2)
    assert notice["type"] not in ("signal", "heartbeat")
    assert signal["introduced_later"] == {"since": "next"}


@pytest.mark.parametrize("skew", [600, -600])
def test_a_service_whose_clock_is_wrong(mock: MockService, api: httpx.Client, skew: int) -> None:
    mock.set_gaps(clock_skew=skew)
    with listening(api) as stream:
        mock.clock.advance(15)
        assert stream.next() == {"type": "heartbeat", "timestamp": START + 15 + skew}
        assert mock.emit_signal().timestamp == START + 15 + skew
        assert stream.next()["timestamp"] == START + 15 + skew


# Opening it


def test_it_is_outside_the_rate_limit_and_not_counted(mock: MockService) -> None:
    with connect(mock, "mock_full_free_few") as http:
        for _ in range(70):
            with listening(http) as stream:
                assert not [name for name in stream.answer.headers if "ratelimit" in name]
        usage = http.get("/v1/account/usage")
        assert ok(usage)["requests"]["used"] == 1
        assert usage.headers["x-ratelimit-remaining"] == "59"
        for _ in range(59):
            ok(http.get("/v1/account"))
        error(http.get("/v1/account"), 429, "rate_limited")
        with listening(http):
            pass


@pytest.mark.parametrize(
    "header", [None, "Bearer ", "Bearer nobody", f"Basic {FULL}", FULL, "Bearer mock_full_main2 x"], ids=str
)
def test_it_needs_a_key(mock: MockService, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.strip()}
    with connect(mock, None) as http:
        error(http.get(PATH, params={"chain": 8453, "api_key": FULL}, headers=headers), 401, "unauthorized")


def test_keys_that_are_no_longer_good(mock: MockService) -> None:
    revoked, expired = mock.create_key(), mock.create_key()
    mock.revoke_key(revoked.id)
    mock.expire_key(expired.id)
    for key in (revoked, expired):
        with connect(mock, key.value) as http:
            error(http.get(f"{PATH}?chain=8453"), 401, "unauthorized")


def test_a_read_only_key_will_do(mock: MockService) -> None:
    with connect(mock, "mock_read_main") as http, listening(http) as stream:
        mock.emit_signal()
        assert stream.next()["type"] == "signal"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_it_is_only_read(mock: MockService, api: httpx.Client, method: str) -> None:
    answer = api.request(method, f"{PATH}?chain=8453")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert "x-ratelimit-limit" in answer.headers


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "invalid_request"),
        ("chain=", 400, "invalid_request"),
        ("chain=base", 400, "invalid_request"),
        ("chain=8453&chain=56", 400, "invalid_request"),
        ("chain=1", 422, "validation_error"),
        ("chain=-8453", 422, "validation_error"),
        ("chain=8453.0", 400, "invalid_request"),
    ],
)
def test_the_chain_must_be_named(mock: MockService, api: httpx.Client, query: str, status: int, code: str) -> None:
    assert "chain" in error(api.get(f"{PATH}?{query}"), status, code)
    assert mock.status()["streams"] == 0
