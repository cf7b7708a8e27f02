"""Beginning, ending and sharing a stream."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, StreamError, TradeError
from tradesdk.models.stream import Connected, Disconnected, StreamSignal

from .._answers import KEY, failed
from .._clock import START
from .._streamscript import SILENCE, StreamScript, beat, fields, live
from .._streamservice_seeds import BACKEND
from ._client import collected
from ._following import followed, opened


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


async def test_what_it_begins_with() -> None:
    """With what comes from now on; or, if asked, with what was there since then."""
    listed = [fields("older", -500), fields("old", -100)]
    found = await followed(StreamScript([5.0, live("a", 5), live("end", 6)], listed=listed))
    assert found.ids == ["a"]
    found = await followed(StreamScript([5.0, live("a", 5), live("end", 6)], listed=listed), since=START - 200)
    assert found.ids == ["old", "a"]
    assert [signal.replayed for signal in found.signals] == [True, False]


async def test_what_is_published_while_it_connects_is_not_missed() -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        answer = script.honest(query)
        script.listed.append(fields("between", script.now))
        return answer

    script = StreamScript([3.0, beat(5), 400.0, beat(402)], [3.0, live("end", 410)], history=history)
    found = await followed(script)
    assert "between" in found.ids


async def test_filters() -> None:
    lives = [
        live("a", 1),
        live("b", 2, confidence=0.1),
        live("c", 3, direction="BUY"),
        live("d", 4, token_symbol="ETH"),
    ]
    for options, ids in (
        ({"min_confidence": 0.9}, ["a", "c", "d"]),
        ({"direction": "BUY"}, ["c"]),
        ({"token": "eth"}, ["d"]),
        ({"token": "0X" + "CD" * 20, "direction": "SELL"}, ["a", "b", "d"]),
    ):
        everything: dict[str, Any] = options
        script = StreamScript([*lives, 5.0], failed(401))
        found = await followed(script, **everything)
        assert found.ids == ids
        assert found.stats.filtered == 4 - len(ids)


async def test_it_may_be_iterated_without_a_block() -> None:
    script = StreamScript([live("a", 1), live("b", 2), SILENCE])
    async with opened(script) as stream:
        assert script.requests == []
        assert isinstance(await anext(stream), Connected)
        assert [getattr(await anext(stream), "id", "") for _ in range(2)] == ["a", "b"]
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_after_the_block_it_is_over() -> None:
    script = StreamScript([live("a", 1), live("b", 2), SILENCE])
    async with opened(script, reports=False) as stream:
        async with stream:
            assert isinstance(await anext(stream), StreamSignal)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        assert await collected(stream) == []
        await stream.aclose()
    assert (len(script.connects), stream.stats.signals >= 1) == (1, True)


async def test_closing_inside_the_loop_ends_it() -> None:
    seen = []
    async with opened(StreamScript([live("a", 1), 1.0, live("b", 2)]), reports=False) as stream, stream:
        async for item in stream:
            seen.append(item)
            await stream.aclose()
    assert len(seen) == 1


async def test_closing_before_it_was_opened_opens_nothing() -> None:
    script = StreamScript()
    async with opened(script) as stream:
        await stream.aclose()
        assert await collected(stream) == []
    assert script.connects == []


async def test_a_client_that_is_closed() -> None:
    script = StreamScript()
    http = httpx.AsyncClient(transport=script)
    client = AsyncTradeClient(api_key=KEY, base_url="https://service.example", clock=script.clock, http_client=http)
    stream = client.signals.stream(chain=8453)
    await http.aclose()
    with pytest.raises(TradeError, match="this client is closed"):
        await anext(stream)
    await client.aclose()


async def test_as_many_reconnects_as_allowed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tradesdk")
    script = StreamScript([live("a", 1), 1.0], httpx.ConnectError("refused"), httpx.ReadError("reset"), [1.0])
    found = await followed(script, max_reconnects=2)
    assert found.error is not None
    assert found.ids == ["a"]
    assert len(found.of(Disconnected)) == 2
    assert len(script.connects) == 3
    assert KEY not in caplog.text


async def test_given_up_after_a_stream_that_ends_again_and_again() -> None:
    found = await followed(StreamScript([1.0], [1.0], [1.0]), max_reconnects=2)
    assert type(found.error) is StreamError
    assert "given up: the service closed it" in str(found.error)
    assert found.error.retries == 2


async def test_only_the_stream_itself_was_asked_for_a_stream() -> None:
    script = StreamScript([b"id: 5\n\n", live("a", 1)], [live("end", 9)])
    found = await followed(script)
    assert found.error is None
    streams = [one for one in script.requests if one.url.path.endswith("/stream")]
    assert [one.headers["accept"] for one in streams] == ["text/event-stream"] * 2
    assert [one.headers.get("last-event-id") for one in streams] == [None, "5"]
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in script.requests)
    assert all("cookie" not in one.headers for one in script.requests)


async def test_a_stream_that_sends_nothing_is_left_after_the_idle_time() -> None:
    script = StreamScript([live("a", 1), SILENCE], [1.0, live("end", 9)])
    found = await followed(script, idle_timeout=20.0)
    (gone,) = found.of(Disconnected)
    assert gone.reason == "nothing came for 20 s"
    assert 22 <= script.connects[1] <= 23
