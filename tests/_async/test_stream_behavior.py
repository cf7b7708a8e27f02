"""Beginning, ending and sharing a stream."""

from __future__ import annotations

import httpx
import pytest

from tradesdk import AsyncTradeClient, Connected, Disconnected, StreamError, StreamSignal, TradeError

from .._answers import KEY
from .._clock import START
from .._rows import each_of
from .._streamscript import SILENCE, StreamScript, beat, fields, live
from .._streamservice_plan import BACKEND
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


@each_of("dated", [True, False], ids=["with Date", "without"])
@each_of("tries", [1, 3])
async def test_a_first_connection_that_needs_retries_begins_when_it_was_asked_for(tries: int, dated: bool) -> None:
    listed = [fields("older", -500), fields("old", -3), *(fields(f"m{at}", at) for at in (1, 2))]
    lives = [httpx.ConnectError("refused")] * tries
    script = StreamScript(*lives, [9.0, live("a", 40), live("end", 40)], listed=listed, dated=dated)
    found = await followed(script)
    assert found.ids == ["m1", "m2", "a"]
    assert [signal.replayed for signal in found.signals] == [True, True, False]
    assert (found.stats.connects, found.stats.gaps, found.stats.late) == (1, 0, 0)


async def test_a_first_connection_that_comes_at_once_reads_no_history_but_the_list_before() -> None:
    script = StreamScript([5.0, live("a", 5), live("end", 6)], listed=[fields("old", -3)])
    assert (await followed(script)).ids == ["a"]
    assert script.asked == [{"chain": "8453", "limit": "100"}]


@each_of(
    ("interval", "comments", "injected"),
    [
        (1, (), True),
        (5, (0.6,), True),
        (15, (0.5, 0.4, 0.05), True),
        (60, (), True),
        (15, (0.6,), False),
        (60, (), False),
    ],
)
async def test_a_learned_interval_counts_on_the_connection_on_which_it_was_learned(
    interval: int, comments: tuple[float, ...], injected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is noticed after three times the interval, whatever came meanwhile that is no event."""
    limit = max(10, 3 * interval)
    calm = [step for at in range(interval, 5 * interval, interval) for step in (float(interval), beat(at))]
    waits = [step for part in comments for step in (part * limit, b": still here\n")]
    script = StreamScript([*calm, *waits, SILENCE], [live("end", 900)])
    found = await followed(script, patch=None if injected else monkeypatch)
    assert 2 <= script.connects[1] - (4 * interval + limit) <= 2.6  # with the wait before it
    assert [gone.reason for gone in found.of(Disconnected)] == [f"nothing came for {limit} s"]


@each_of(("lag", "connects"), [(0, 1), (30, 1), (60, 2), (3_600, 2)])
async def test_heartbeats_of_long_ago_are_no_sign_of_life(lag: int, connects: int) -> None:
    """A proxy that plays back what it has stored; the interval is known to be 15 seconds."""
    calm = [step for at in range(15, 61, 15) for step in (15.0, beat(at))]
    behind = [step for at in range(75, 241, 15) for step in (15.0, beat(at - lag))]
    script = StreamScript([*calm, *behind, live("end", 240)], [live("end", 240)])
    found = await followed(script, heartbeats=True)
    assert (found.error, found.stats.connects) == (None, connects)
    assert found.stats.heartbeat_lag == lag
    reasons = [gone.reason for gone in found.of(Disconnected)]
    assert reasons == [f"the heartbeats are {lag} s old, which is more than 45 s"] * (connects - 1)


async def test_a_consumer_that_was_away_is_no_stale_stream() -> None:
    """What lay in its buffers is old; the connection is alive."""
    script = StreamScript([*(beat(at) for at in range(0, 600, 15)), 15.0, beat(615), live("end", 616)])
    script.clock.advance(600)
    found = await followed(script)
    assert (found.error, found.stats.connects, found.stats.heartbeats) == (None, 1, 41)


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


async def test_given_up_after_a_stream_that_ends_again_and_again() -> None:
    found = await followed(StreamScript([1.0], [1.0], [1.0]), max_reconnects=2)
    assert type(found.error) is StreamError
    assert "gave up reconnecting: the service closed it" in str(found.error)
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
