"""A relay of a fleet, on a real server and the mock over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tradesdk import AsyncTradeClient, AuthenticationError, FleetError, Gap, InvalidArgumentError, PositionReset
from tradesdk._fleet.streams import Keys
from tradesdk_mock import MockServer

from .._flavour_async import soon
from .._redis_server import RedisServer
from .._streamservice_plan import BACKEND
from ..e2e._streamhouse import QUICKLY, STREAM, key_of, server_of


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return BACKEND  # redis-py needs it


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    with server_of(8, heartbeat=0) as running:
        yield running


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer("valkey", tmp_path_factory.mktemp("valkey")) as running:
        yield running


@pytest.fixture
def redis(engine: RedisServer) -> RedisServer:
    engine.command("FLUSHALL")
    return engine


def trade(service: MockServer, key: str | None = None) -> AsyncTradeClient:
    return AsyncTradeClient(api_key=key or key_of(service), base_url=service.url, retry=QUICKLY)


def relay(client: AsyncTradeClient, redis: RedisServer, **options: Any) -> Any:
    settings: dict[str, Any] = {"chain": 8453, "redis": redis.url, "lease": 1, "settle": 0.1}
    return client.signals.relay(**settings | options)


def shared(client: AsyncTradeClient, redis: RedisServer, **options: Any) -> Any:
    settings: dict[str, Any] = {"chain": 8453, "group": "bots", "redis": redis.url, "lease": 1}
    return client.signals.shared(**settings | options)


def emit(service: MockServer, count: int) -> list[str]:
    return [service.emit_signal(chain_id=8453).id for _ in range(count)]


async def taken(stream: Any, count: int) -> list[Any]:
    return [await anext(stream) for _ in range(count)]


def ids(signals: list[Any]) -> list[str]:
    return [each.id for each in signals]


async def test_one_of_two_relays_and_the_other_goes_on_at_once(service: MockServer, redis: RedisServer) -> None:
    async with trade(service) as client, shared(client, redis) as stream, relay(client, redis, member="two") as two:
        assert await soon(lambda: two.stats.relaying)
        await two.aclose()
        async with relay(client, redis, member="one", lease=30) as one:
            assert await soon(lambda: one.stats.relaying)
            async with relay(client, redis, member="three", lease=30) as three:
                assert await soon(lambda: three.stats.relayed_by == "one")
                assert not three.stats.relaying
                published = emit(service, 5)
                got = await taken(stream, 5)
                await one.aclose()  # gives the lease back, so nobody waits for its end
                between = emit(service, 5)
                assert await soon(lambda: three.stats.relaying)
                published += between + emit(service, 5)
                got += await taken(stream, 10)
                assert ids(got) == published
                assert not any(each.redelivered for each in got)
                assert three.stats.published + one.stats.published == 15
                assert one.stats.terms == three.stats.terms == 1


async def test_the_status_of_a_relay_and_its_groups(service: MockServer, redis: RedisServer) -> None:
    async with trade(service) as client:
        nothing = await client.signals.relay_status(chain=8453, redis=redis.url)
        assert (nothing.relayed_by, nothing.lease_left, nothing.position, nothing.last) == (None, None, None, None)
        assert (nothing.published, nothing.kept, nothing.groups) == (0, 0, ())
        begun = datetime.now(UTC)
        async with (
            shared(client, redis, member="a") as first,
            shared(client, redis, member="b"),
            shared(client, redis, group=None, member="all") as every,
            relay(client, redis, member="r", lease=30) as running,
        ):
            assert await soon(lambda: running.stats.relaying)
            emit(service, 3)
            await taken(first, 1)
            await taken(every, 3)
            found = await client.signals.relay_status(chain=8453, redis=redis.url)
            assert (found.chain, found.relayed_by, found.published, found.kept) == (8453, "r", 3, 3)
            assert 0 < (found.lease_left or 0) <= 30
            assert found.last is not None
            assert abs((found.last - begun).total_seconds()) < 30
            bots, alone = found.groups
            assert (bots.group, bots.lag, bots.pending) == ("bots", 2, 1)
            assert [(one.member, one.pending) for one in bots.members] == [("a", 1), ("b", 0)]
            assert all(0 <= (one.seen or 0) < 10 for one in bots.members)
            assert (alone.group, alone.lag) == (None, 0)
            assert [one.member for one in alone.members] == ["all"]
        left = await client.signals.relay_status(chain=8453, redis=redis.url)
        assert left.relayed_by is None
        assert [(group.group, group.members) for group in left.groups] == [("bots", ()), (None, ())]
        other = await client.signals.relay_status(chain=56, redis=redis.url)
        assert (other.chain, other.published, other.groups) == (56, 0, ())
    async with trade(service) as client:
        with pytest.raises(FleetError):
            await client.signals.relay_status(chain=8453, redis="redis://127.0.0.1:1")
        with pytest.raises(InvalidArgumentError):
            await client.signals.relay_status(chain=1, redis=redis.url)


async def test_a_relay_that_never_saw_a_signal_hands_over_its_beginning(
    service: MockServer, redis: RedisServer
) -> None:
    async with trade(service) as client, shared(client, redis) as stream:
        async with relay(client, redis) as first:
            assert await soon(lambda: first.stats.relaying and first.stats.stream.connects == 1)
            assert await soon(lambda: redis.command("HLEN", keys(service).meta) > 8)
        published = emit(service, 3)  # while nobody relays
        async with relay(client, redis):
            got = await taken(stream, 3)
            assert ids(got) == published
            assert all(each.replayed for each in got)


def keys(service: MockServer) -> Keys:
    return Keys.of("tradesdk", service.url, 8453)


async def test_what_another_program_reads(service: MockServer, redis: RedisServer) -> None:
    """A LiveNode of nautilus_trader takes topic, payload, type and encoding; older ones by place."""
    async with trade(service) as client, relay(client, redis, nautilus=True) as offered:
        assert await soon(lambda: offered.stats.relaying)
        async with shared(client, redis) as stream:
            published = emit(service, 1)
            signal = await anext(stream)
    ((entry_id, fields),) = redis.command("XRANGE", keys(service).stream, "-", "+")
    assert list(fields)[:2] == ["topic", "payload"]
    assert fields["topic"] == "signals.8453"
    assert fields["encoding"] == "json"
    assert fields["payload"] == signal.model_dump_json()
    assert ids([signal]) == published
    assert int(entry_id.partition("-")[0]) > 1_700_000_000_000  # such a reader starts at its own time


async def test_ids_are_forgotten_with_the_checkpoint_only(service: MockServer, redis: RedisServer) -> None:
    async with trade(service) as client, relay(client, redis, keep=3) as offered:
        assert await soon(lambda: offered.stats.relaying)
        emit(service, 10)
        assert await soon(lambda: offered.stats.published == 10)
        assert redis.command("XLEN", keys(service).stream) == 3
        assert redis.command("HLEN", keys(service).seen) >= 10
        assert redis.command("ZCARD", keys(service).times) == redis.command("HLEN", keys(service).seen)


@pytest.mark.parametrize("change", ["emptied", "restarted", "scripts"])
async def test_a_server_that_changes(service: MockServer, tmp_path: Path, change: str) -> None:
    """Emptied, restarted, or without the scripts: nothing is lost, and what may have come before is marked."""
    with RedisServer("redis", tmp_path) as own:
        async with (
            trade(service) as client,
            relay(client, own) as offered,
            shared(client, own, reports=True) as stream,
            shared(client, own, group="others") as others,
        ):
            assert await soon(lambda: offered.stats.relaying)
            published = emit(service, 4)
            got = await taken(stream, 3)  # with the report of the connection
            if change == "emptied":
                own.command("FLUSHALL")
            elif change == "restarted":
                own.kill()
                own.start()
            else:
                own.command("SCRIPT", "FLUSH")
            assert await soon(lambda: offered.stats.relaying)
            published += emit(service, 4)
            found: list[Any] = []
            while len({each.id for each in [*got[1:], *found] if hasattr(each, "id")}) < 8:
                found.append(await anext(stream))
            rest = await taken(others, 8)
            assert sorted(ids(rest)) == sorted(published)
            signals = [each for each in [*got, *found] if hasattr(each, "id")]
            assert sorted(ids(signals)) == sorted(published)  # its own doubles are dropped
            reports = [type(each) for each in found if not hasattr(each, "id")]
            if change == "scripts":
                assert reports == []
                assert not any(each.redelivered for each in signals + rest)
            else:
                assert PositionReset in reports
                assert all(each.redelivered for each in rest if each.id in published[:2])


async def test_a_server_that_is_away_at_the_start(service: MockServer, tmp_path: Path) -> None:
    own = RedisServer("valkey", tmp_path)
    async with trade(service) as client, relay(client, own) as offered:
        own.start()
        try:
            async with shared(client, own) as stream:
                assert await soon(lambda: offered.stats.relaying)
                published = emit(service, 2)
                assert ids(await taken(stream, 2)) == published
        finally:
            own.stop()


async def test_a_relay_keeps_its_stream_while_the_server_is_away(service: MockServer, tmp_path: Path) -> None:
    with RedisServer("valkey", tmp_path) as own:
        async with trade(service) as client, relay(client, own, lease=30) as offered, shared(client, own) as stream:
            assert await soon(lambda: offered.stats.relaying)
            published = emit(service, 2)
            got = await taken(stream, 2)
            own.pause()
            published += emit(service, 3)
            assert await soon(lambda: offered.stats.stream.signals >= 3)
            own.go_on()
            got += await taken(stream, 3)
            assert ids(got) == published
            assert (offered.stats.terms, offered.stats.stream.connects) == (1, 1)


async def test_a_key_that_is_refused_ends_the_relay_and_frees_the_lease(
    service: MockServer, redis: RedisServer
) -> None:
    async with trade(service, "mock_full_nobody_x" * 2) as client:
        service.add_fault("status", route=STREAM, status=401)
        try:
            async with relay(client, redis) as offered:
                with pytest.raises(AuthenticationError):
                    await offered.wait()
        finally:
            service.clear_faults()
    assert not redis.command("HEXISTS", keys(service).meta, "owner")


async def test_keys_of_another_type(service: MockServer, redis: RedisServer) -> None:
    redis.command("SET", keys(service).seen, "of somebody else")
    async with trade(service) as client, relay(client, redis) as offered:
        with pytest.raises(FleetError) as caught:
            await offered.wait()
    assert caught.value.code == "server_failed"
    assert redis.command("GET", keys(service).seen) == "of somebody else"


@pytest.mark.parametrize("options", [{"keep": 0}, {"lease": "1"}, {"member": ""}, {"chain": 1}, {"prefix": ""}])
async def test_arguments_that_are_refused(service: MockServer, redis: RedisServer, options: dict[str, Any]) -> None:
    async with trade(service) as client:
        with pytest.raises(InvalidArgumentError):
            relay(client, redis, **options)


async def test_once(service: MockServer, redis: RedisServer) -> None:
    async with trade(service) as client, relay(client, redis) as one, relay(client, redis) as two:
        assert [await one.once("s1"), await two.once("s1"), await two.once("s2")] == [True, False, True]


async def test_a_gap_of_the_service_reaches_a_member(service: MockServer, redis: RedisServer) -> None:
    """The relay could not read the history after a disconnect: one member of each group is told."""
    service.add_fault("status", route="/v1/signals/history", status=500)
    service.add_fault("drop", route=STREAM, nth=1, how="close", after=1)
    try:
        async with (
            trade(service) as client,
            shared(client, redis, reports=True) as stream,
            relay(client, redis, recovery_timeout=0.2) as offered,
        ):
            assert await soon(lambda: offered.stats.relaying)
            emit(service, 1)
            assert await soon(lambda: offered.stats.stream is not None and offered.stats.stream.gaps > 0)
            service.clear_faults()
            emit(service, 1)
            found: list[Any] = []
            while not any(isinstance(each, Gap) for each in found):
                found.append(await anext(stream))
            assert "history cannot be read" in found[-1].reason
    finally:
        service.clear_faults()
