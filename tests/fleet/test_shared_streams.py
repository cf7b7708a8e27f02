"""Shared streams: each signal to one member, once, or again and marked; on Redis 6.2 and on Valkey."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from tradesdk import (
    AsyncTradeClient,
    ConfigError,
    Connected,
    FleetError,
    Gap,
    InvalidArgumentError,
    InvalidEvent,
    TradeClient,
)

from .._redis_server import RedisServer
from ._hand import BASE, KEYS, NOW, Hand, client, ids, made, soon, taken

LEASE = 0.3
"""Seconds after which such a member takes what another one does not renew; others wait longer than a test lasts."""


@pytest.fixture(scope="module", params=[pytest.param("redis", marks=pytest.mark.long), "valkey"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def server(engine: RedisServer) -> RedisServer:
    engine.command("FLUSHALL")
    return engine


@pytest.fixture
def hand(server: RedisServer) -> Iterator[Hand]:
    hand = Hand(server)
    hand.take()
    yield hand
    hand.close()


@pytest.fixture
def trade() -> Iterator[TradeClient]:
    with client() as opened:
        yield opened


def shared(trade: TradeClient, server: RedisServer, **options: Any) -> Any:
    settings: dict[str, Any] = {"chain": 8453, "group": "bots", "redis": server.url, "lease": 300}
    return trade.signals.shared(**settings | options)


def pending(server: RedisServer, group: str = "bots") -> int:
    return int(server.command("XPENDING", KEYS.stream, group)["pending"])


def test_members_of_a_group_share_the_signals(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with shared(trade, server) as one, shared(trade, server) as two, shared(trade, server, group="others") as third:
        hand.publish(["a", "b", "c", "d", "e"])
        first, second = taken(one, 2), taken(two, 2)
        assert ids(first + second) == ["a", "b", "c", "d"]
        assert pending(server) == 2  # what each has in hand; what it had before is acknowledged
        assert ids(taken(one, 1)) == ["e"]
        assert ids(taken(third, 5)) == ["a", "b", "c", "d", "e"]
        assert not any(each.redelivered for each in first + second)
        assert (one.stats.signals, two.stats.signals, third.stats.signals) == (3, 2, 5)
    assert pending(server) == 0


def test_without_a_group_every_member_gets_all_and_a_name_continues(
    server: RedisServer, hand: Hand, trade: TradeClient
) -> None:
    with shared(trade, server, group=None, member="one") as one, shared(trade, server, group=None) as two:
        hand.publish(["a", "b", "c"])
        assert ids(taken(one, 2)) == ids(taken(two, 2)) == ["a", "b"]
    hand.publish(["d"])
    with shared(trade, server, group=None, member="one") as one, shared(trade, server, group=None) as two:
        assert ids(taken(one, 2)) == ["c", "d"]
        hand.publish(["e"])
        assert ids(taken(two, 1)) == ["e"]
    groups = [each["name"] for each in server.client().xinfo_groups(KEYS.stream)]
    assert groups == ["member/one"]  # a member without a name leaves nothing behind


def test_what_a_dead_member_had_comes_again_and_is_marked(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with ExitStack() as stack:
        dead = shared(trade, server, member="dead")
        dead.__enter__()
        hand.publish(["a", "b", "c"])
        assert ids(taken(dead, 1)) == ["a"]
        dead._renewing.stop()  # as if it was killed
        alive = stack.enter_context(shared(trade, server, lease=LEASE))
        got = {each.id: each.model_dump()["redelivered"] for each in taken(alive, 3)}
        assert got == {"a": True, "b": False, "c": False}
        assert alive.stats.redelivered == 1
        dead.close()


def test_an_owner_keeps_what_it_works_on_for_long(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    unrenewed = [0]

    def renewed() -> bool:
        [one] = server.client().xpending_range(KEYS.stream, "bots", "-", "+", 10)
        unrenewed.append(one["time_since_delivered"])
        return unrenewed[-1] < unrenewed[-2]

    with shared(trade, server, lease=LEASE) as slow, shared(trade, server, lease=20) as other:
        hand.publish(["a"])
        assert ids(taken(slow, 1)) == ["a"]
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.extend(other))
        waiting.start()
        for _ in range(10):
            assert soon(renewed)
        assert found == []
        other.close()
        waiting.join(60)
        assert not waiting.is_alive()


def test_only_the_owner_acknowledges(
    server: RedisServer, hand: Hand, trade: TradeClient, caplog: pytest.LogCaptureFixture
) -> None:
    with shared(trade, server) as paused, shared(trade, server, lease=LEASE) as other:
        hand.publish(["a", "b"])
        assert ids(taken(paused, 1)) == ["a"]
        paused._renewing.stop()  # as if it was stopped for longer than its lease
        assert sorted(ids(taken(other, 2))) == ["a", "b"]
        hand.publish(["c"])
        assert ids(taken(paused, 1)) == ["c"]
        events = [getattr(record, "event", "") for record in caplog.records]
        assert events.count("lease_overrun") == 1
        assert pending(server) == 2  # the last one of the other, and c


def test_leaving_with_an_error_hands_over_at_once(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with shared(trade, server, lease=60) as other:

        def fail() -> None:
            with shared(trade, server, lease=60) as failing:
                hand.publish(["a"])
                taken(failing, 1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        got = taken(other, 1)
    assert (ids(got), got[0].redelivered) == (["a"], True)


def test_manual_acknowledgment(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with shared(trade, server, manual_ack=True, member="one") as stream:
        hand.publish(["a", "b", "c"])
        a, _, c = taken(stream, 3)
        stream.ack(c)
        assert pending(server) == 2
        stream.ack(a)
        stream.ack(a)
        assert pending(server) == 1
    with shared(trade, server, member="one") as stream:
        got = taken(stream, 1)
        assert (ids(got), got[0].redelivered) == (["b"], True)
        with pytest.raises(InvalidArgumentError, match="manual_ack=True"):
            stream.ack(got[0])


def test_filters_and_reports(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with shared(trade, server, direction="BUY", reports=True) as stream:
        hand.publish([made("a", direction="SELL"), made("b", direction="BUY", extra="kept"), made("c")])
        server.command("XADD", KEYS.stream, f"{NOW * 10000}-4", "type", "signal", "time", "1", "payload", "{}")
        server.command("XADD", KEYS.stream, f"{NOW * 10000}-5", "type", "gap", "time", "1", "payload", '{"start":1}')
        connected, b, bad, gap = taken(stream, 4)
        assert connected == Connected(1)
        assert (b.id, b.extra) == ("b", "kept")
        assert isinstance(bad, InvalidEvent)
        assert isinstance(gap, InvalidEvent)
        assert (stream.stats.filtered, stream.stats.signals, stream.stats.invalid) == (2, 1, 2)


def test_a_lost_reply_loses_nothing(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    """What the script delivered without the member's knowledge is read again first, in its order, and not marked."""
    with shared(trade, server) as stream:
        hand.publish(["a", "b", "c", "d"])
        got = taken(stream, 1)
        run = stream._connection.run
        lost = 0

        def losing(name: str, *arguments: Any) -> Any:
            nonlocal lost
            reply = run(name, *arguments)
            if name == "stream_next":
                lost += 1
                if lost % 2:
                    raise FleetError("the reply was lost", code="server_unreachable", may_have_run=True)
            return reply

        stream._connection.run = losing
        got += taken(stream, 3)
        assert ids(got) == ["a", "b", "c", "d"]
        assert not any(each.redelivered for each in got)
        assert lost > 3


def test_another_process_with_the_same_name_replaces_it(server: RedisServer, hand: Hand, trade: TradeClient) -> None:
    with shared(trade, server, member="one") as old:
        hand.publish(["a", "b"])
        assert ids(taken(old, 1)) == ["a"]
        with shared(trade, server, member="one") as new:
            got = taken(new, 1)
            assert (ids(got), got[0].redelivered) == (["a"], True)
            with pytest.raises(FleetError) as caught:
                next(old)
            assert caught.value.code == "member_replaced"
            assert ids(taken(new, 1)) == ["b"]


def test_a_group_behind_the_trimming_gets_a_gap_and_the_rest_from_the_history(server: RedisServer) -> None:
    """Also when the member that reads the history dies in the middle of it."""
    hand = Hand(server, keep=5)
    everything = [made(f"s{number}", number) for number in range(40)]
    with client(everything) as trade:
        with shared(trade, server) as stream:
            hand.publish(everything[:3])
            assert ids(taken(stream, 3)) == ["s0", "s1", "s2"]
        for at in range(3, 40):
            hand.publish(everything[at : at + 1])
        dead = shared(trade, server, reports=True)
        dead.__enter__()
        connected, gap, *first = taken(dead, 6)
        assert isinstance(connected, Connected)
        assert isinstance(gap, Gap)
        assert ids(first) == ["s3", "s4", "s5", "s6"]
        assert all(each.replayed for each in first)
        dead._renewing.stop()
        with shared(trade, server, lease=LEASE) as stream:
            got = taken(stream, 37)
            again = [each for each in got if each.redelivered]
            assert sorted(ids(got)) == sorted(ids(everything[3:]))
            assert set(ids(first)) <= set(ids(again))
            assert ids(each for each in got if each.replayed) == ids(everything[3:35])
        dead.close()
    hand.close()


def test_entries_that_are_trimmed_while_they_are_pending(server: RedisServer) -> None:
    hand = Hand(server, keep=3)
    everything = [made(f"s{number}") for number in range(8)]
    with client(everything) as trade:
        dead = shared(trade, server, manual_ack=True)
        dead.__enter__()
        hand.publish(everything[:2])
        assert ids(taken(dead, 2)) == ["s0", "s1"]
        dead._renewing.stop()
        hand.publish(everything[2:5])
        with shared(trade, server, lease=LEASE, reports=True) as stream:
            got = taken(stream, 8)
            assert sum(isinstance(each, Gap) for each in got) == 2
            signals = [each for each in got if not isinstance(each, Gap | Connected)]
            assert sorted(ids(signals)) == ["s0", "s1", "s2", "s3", "s4"]
            assert {each.id: each.redelivered for each in signals if each.id < "s2"} == {"s0": True, "s1": True}
            hand.publish(everything[5:6])
            assert ids(taken(stream, 1)) == ["s5"]
        assert soon(lambda: pending(server) == 0)
        dead.close()
    hand.close()


@pytest.mark.parametrize("key", [KEYS.meta, KEYS.stream, KEYS.missing, KEYS.groups, KEYS.members])
def test_keys_of_another_type(server: RedisServer, trade: TradeClient, key: str) -> None:
    server.command("SET", key, "of somebody else")
    with pytest.raises(FleetError) as caught, shared(trade, server) as stream:
        next(stream)
    assert caught.value.code == "server_failed"
    assert server.command("GET", key) == "of somebody else"


def test_once(server: RedisServer, trade: TradeClient) -> None:
    with shared(trade, server) as one, shared(trade, server) as two:
        answers: list[bool] = []
        callers = [
            threading.Thread(target=lambda stream=stream: answers.append(stream.once("buy s1")))
            for stream in (one, two) * 4
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert sorted(answers) == [False] * 7 + [True]
        assert one.once("buy s2")
        run = one._once._opened.run
        lost: list[Any] = []

        def losing(*arguments: Any) -> Any:
            reply = run(*arguments)
            if not lost:
                lost.append(reply)
                raise FleetError("the reply was lost", code="server_unreachable", may_have_run=True)
            return reply

        one._once._opened.run = losing
        assert one.once("buy s3")  # its first step was carried out
        assert not two.once("buy s3")
        for wrong in ("", None, "x" * 2000):
            with pytest.raises(InvalidArgumentError):
                one.once(wrong)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"group": "a b"}, "group must be"),
        ({"group": ""}, "group must be"),
        ({"member": "x/y"}, "member must be"),
        ({"prefix": "{a}"}, "prefix must be"),
        ({"lease": 0}, "lease must be"),
        ({"chain": 1}, "chain"),
    ],
)
def test_arguments_that_are_refused(
    server: RedisServer, trade: TradeClient, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        shared(trade, server, **options)


def test_trio_is_refused(server: RedisServer) -> None:
    """redis-py runs on asyncio only."""

    async def enter(name: str) -> None:
        async with AsyncTradeClient(api_key="mock_full_x", base_url=BASE) as trade:
            if name == "relay":
                async with trade.signals.relay(chain=8453, redis=server.url):
                    pass
            else:
                async with trade.signals.shared(chain=8453, group="bots", redis=server.url):
                    pass

    for name in ("relay", "shared"):
        with pytest.raises(ConfigError, match="asyncio"):
            anyio.run(enter, name, backend="trio")


def test_without_redis_py(monkeypatch: pytest.MonkeyPatch, trade: TradeClient) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError) as caught:
        trade.signals.shared(chain=8453, group="bots", redis="redis://127.0.0.1")
    assert caught.value.code == "missing_package"
    monkeypatch.delenv("TRADE_FLEET", raising=False)
    with pytest.raises(ConfigError, match="TRADE_FLEET is missing"):
        trade.signals.relay(chain=8453)
