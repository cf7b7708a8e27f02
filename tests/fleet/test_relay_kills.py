"""Relays and members that are killed, paused and started again: nothing lost, doubles are marked."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockServer

from .._redis_server import RedisServer, drawn_engines
from ..e2e._streamhouse import Publisher, key_of, server_of, soon
from ._member import Place, Processes, judged, taken

LEASE = 1.0
SIGNALS = int(os.environ.get("TRADE_FLEET_SIGNALS", "2000"))
KILLS = int(os.environ.get("TRADE_FLEET_KILLS", "12"))


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    with server_of(8, heartbeat=1) as running:
        yield running


@pytest.fixture
def processes(service: MockServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Processes]:
    with RedisServer(getattr(request, "param", "valkey"), tmp_path / "server") as server:
        processes = Processes(Place(server.url, service.url, key_of(service), tmp_path, LEASE))
        try:
            yield processes
        finally:
            processes.end()


def noted(processes: Processes, field: str) -> str:
    """What the relay's hash on the server has."""
    import redis

    with redis.Redis.from_url(processes.place.server, decode_responses=True) as client:
        for key in client.scan_iter("tradesdk:*:relay"):
            return str(client.hget(key, field) or "")
    return ""


def owner(processes: Processes) -> str:
    return noted(processes, "owner").partition(" ")[0]


def begun(processes: Processes) -> bool:
    """Whether the stream of the service is open: only what is published from then on has to come."""
    return noted(processes, "position") != ""


def settled(processes: Processes, publisher: Publisher, seconds: float = 120.0) -> bool:
    """Whether all that was published has come."""
    wanted = set(publisher.ids)
    return soon(lambda: wanted <= {each.id for each in taken(processes.place.folder)}, seconds)


def seconds_until(true: Callable[[], bool]) -> float:
    """Counted in looks at it: when all of the machine stands still, nobody can look, nor take over."""
    for looks in range(6_000):
        if true():
            return looks / 100
        time.sleep(0.01)
    raise AssertionError("never")


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_another_relay_takes_over_within_twice_the_lease(service: MockServer, processes: Processes, how: str) -> None:
    processes.relay("one")
    processes.member("bot")
    assert soon(lambda: owner(processes) == "one")
    processes.relay("two")
    processes.wait_started("two", "bot")
    assert soon(lambda: begun(processes))
    publisher = Publisher(service, every=0.02)
    publisher.start()
    try:
        assert soon(lambda: len(taken(processes.place.folder)) > 20)
        processes.send("one", signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        took = seconds_until(lambda: owner(processes) == "two")
        before = len(publisher.ids)
        if how == "paused":
            processes.send("one", signal.SIGCONT)  # it thinks that it has the lease, and may not write
        assert soon(lambda: len(publisher.ids) > before + 50)
    finally:
        publisher.stop()
    assert settled(processes, publisher)
    verdict = judged(publisher.ids, taken(processes.place.folder))
    assert took < 2 * LEASE
    assert owner(processes) == "two"
    assert (verdict.lost, verdict.doubles, verdict.disorder, verdict.strange) == (0, 0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("processes", drawn_engines(), indirect=True)
def test_kills(service: MockServer, processes: Processes, record_property: Any) -> None:
    """2,000 signals, 8 members, 3 relays, 12 kills; TRADE_FLEET_SIGNALS and TRADE_FLEET_KILLS for more."""
    seed = int(os.environ.get("TRADE_SEED") or time.time_ns() % 1_000_000)
    print("seed", seed)
    draw = random.Random(seed)
    members = [f"bot{number}" for number in range(8)]
    relays = [f"relay{number}" for number in range(3)]
    for name in relays:
        processes.relay(name)
    for name in members:
        processes.member(name)
    processes.wait_started(*members, *relays)
    assert soon(lambda: begun(processes))
    publisher = Publisher(service, every=0.005)
    publisher.start()
    kills = {"member": 0, "relay": 0, "stop": 0}
    takeovers = []
    try:
        for number in range(KILLS):
            target = SIGNALS * (number + 1) // (KILLS + 1)
            assert soon(lambda target=target: len(publisher.ids) >= target, 300)  # type: ignore[misc]
            kind = ("member", "relay", "stop")[number % 3] if number < 3 else draw.choice(("member", "relay", "stop"))
            kills[kind] += 1
            if kind == "member":
                name = draw.choice(members)
                processes.kill(name)
                processes.member(name)
                continue
            relay = owner(processes)
            if kind == "stop":
                victim = draw.choice([*members, relay])
                processes.send(victim, signal.SIGSTOP)
                time.sleep(1.5 * LEASE)
                processes.send(victim, signal.SIGCONT)
                continue
            processes.kill(relay)
            takeovers.append(seconds_until(lambda gone=relay: owner(processes) != gone))  # type: ignore[misc]
            processes.relay(relay)
        assert soon(lambda: len(publisher.ids) >= SIGNALS, 300)
    finally:
        publisher.stop()
    complete = settled(processes, publisher)
    found = taken(processes.place.folder)
    verdict = judged(publisher.ids, found)
    print(len(publisher.ids), "signals;", kills, verdict, "slowest takeover", max(takeovers, default=0))
    assert complete, verdict
    assert (verdict.lost, verdict.unmarked, verdict.disorder, verdict.strange) == (0, 0, 0, 0)
    assert max(takeovers) < 2 * LEASE
