"""The live stream: what its events are. The same over sockets and in process.

Its rules: tests/contract/test_service_stream; what is a gap: test_gaps.
"""

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

from .._rows import each_of
from ._http import CARRIERS, START, carried, client, walk
from ._scripted import TLS
from ._streams import STREAM, listening


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def api(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock, timeout=60) as http:
        yield http


def data(signal: MockSignal) -> dict[str, Any]:
    """The event that a signal becomes."""
    fields = asdict(signal)
    del fields["published_at"]
    return {"type": "signal", **fields}


def test_a_signal_is_one_message_event(mock: MockService, api: httpx.Client) -> None:
    with api.stream("GET", f"{STREAM}?chain=8453") as answer:
        emitted = mock.emit_signal(token="BRETT", direction="SELL", confidence=0.5, price_usd=0.25)
        raw = next(answer.iter_raw()).decode()
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in answer.headers
    assert raw == (
        f'data: {{"type":"signal","id":"{emitted.id}","token_address":"{emitted.token_address}","token_symbol":"BRETT",'
        f'"chain_id":8453,"direction":"SELL","confidence":0.5,"price_usd":0.25,"timestamp":{START}}}\n\n'
    )


def test_a_heartbeat_every_fifteen_seconds_and_one_for_a_jump(mock: MockService, api: httpx.Client) -> None:
    with listening(api) as stream:
        for seconds in (15, 30, 3_630, 3_645):
            mock.clock.set(START + seconds)
            assert stream.next() == {"type": "heartbeat", "timestamp": START + seconds}


@pytest.mark.parametrize("mock", ["sockets", pytest.param("in process", marks=pytest.mark.long)], indirect=True)
def test_it_begins_where_it_is_opened_and_keeps_what_comes_before_the_first_read(
    mock: MockService, api: httpx.Client
) -> None:
    """More than are looked up at once."""
    mock.emit_signal()
    with listening(api) as stream:
        emitted = [data(mock.emit_signal()) for _ in range(510)]
        assert stream.take(510) == emitted


@each_of("carrier", CARRIERS)
@each_of("chain", [8453, 56])
def test_the_market_comes_as_time_goes_on(carrier: str, chain: int) -> None:
    with carried(carrier, signals="live") as mock, client(mock, timeout=60) as api:
        mock.set_gaps(heartbeat=0)
        with listening(api, chain) as stream:
            mock.clock.advance(1_200)
            published = walk(api, "/v1/signals/history", **{"chain": chain, "from": START, "limit": 100})[::-1]
            got = stream.take(len(published))
        assert got == [{"type": "signal", **record} for record in published]
        # One in 6 seconds, one in 18.
        assert len(published) == pytest.approx(200 if chain == 8453 else 67, rel=0.2)
        assert [record["timestamp"] for record in published] == sorted(record["timestamp"] for record in published)


@each_of("carrier", CARRIERS)
def test_the_first_signal_may_be_promised(carrier: str) -> None:
    with carried(carrier, signals="live", first_within=2.0) as mock, client(mock, timeout=60) as api:
        for chain in (8453, 56):
            with listening(api, chain) as stream:
                now = mock.clock.now()
                if isinstance(mock, MockServer):
                    mock.clock.advance(2)
                event = stream.next()
            assert (event["type"], event["chain_id"]) == ("signal", chain)
            assert now <= event["timestamp"] <= now + 2


@pytest.mark.parametrize("mock", ["sockets", pytest.param("in process", marks=pytest.mark.long)], indirect=True)
def test_many_streams_at_once(mock: MockService, api: httpx.Client) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(listening(api, chain)) for chain in (8453, 56) for _ in range(8)]
        assert mock.status()["streams"] == 16
        emitted = [data(mock.emit_signal(chain_id=chain)) for chain in (8453, 56, 56, 8453) * 5]
        for place, stream in enumerate(streams):
            chain = 8453 if place < 8 else 56
            assert stream.take(10) == [event for event in emitted if event["chain_id"] == chain]


@pytest.mark.parametrize("mock", ["sockets", pytest.param("in process", marks=pytest.mark.long)], indirect=True)
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
        async with http.stream("GET", f"{STREAM}?chain=8453") as answer:
            opened.release()
            async for line in answer.aiter_lines():
                if '"signal"' in line:
                    found.append(json.loads(line[6:])["id"])
                    if len(found) == 10:
                        full.release()
        got.append(found)

    async with http, anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(listen)
        for _ in range(8):
            await opened.acquire()
        emitted += [mock.emit_signal().id for _ in range(10)]
        for _ in range(8):
            await full.acquire()
        mock.revoke_key(key.id)
    assert got == [emitted] * 8


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
