"""The script of the shared rate window: against a model of the same rules, and against a service that counts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk._sync.fleet.connection import FleetConnection

from .._redis_server import RedisServer
from ._rate_model import Model

START = 1_760_000_000_000
numbers = count()


@pytest.fixture(scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.long)])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetConnection]:
    folder = tmp_path_factory.mktemp("rate")
    with RedisServer(request.param, folder, durable=False) as server, FleetConnection(server.url) as connection:
        yield connection


class Script:
    """One window on a server."""

    def __init__(self, connection: FleetConnection) -> None:
        self._connection = connection
        name = f"{{{next(numbers)}}}"
        self._keys = [name, f"{name}:claims", f"{name}:members"]

    def _run(self, action: str, claim: str, member: str, now: int, *more: object) -> list[int]:
        arguments: list[Any] = [action, claim, member, now, *more]
        reply: list[int] = self._connection.run("rate", self._keys, arguments)
        return reply

    def claim(self, claim: str, member: str, now: int) -> tuple[bool, int, int]:
        may, wait, members = self._run("claim", claim, member, now)
        return may == 1, wait, members

    def lost(self, claim: str, now: int) -> None:
        self._run("lost", claim, "", now)

    def give_back(self, claim: str, now: int) -> None:
        self._run("return", claim, "", now)

    def answer(
        self, claim: str, status: int, limit: int, told: tuple[int, int] | None, away: int | None, wait: int, now: int
    ) -> None:
        left, reset = ("", "") if told is None else told
        self._run("answer", claim, "", now, status, limit, left, reset, "" if away is None else away, wait)

    def look(self, now: int) -> tuple[int, ...]:
        return tuple(self._run("look", "", "", now)[2:])


# Random walks: any order of any steps, with answers that no service would give

away = st.none() | st.integers(-3, 70).map(lambda seconds: seconds * 1000) | st.integers(-(10**9), 10**9)
told = st.none() | st.tuples(st.integers(0, 5), st.integers(START // 1000, START // 1000 + 4))
steps = st.one_of(
    st.tuples(st.just("claim"), st.sampled_from("abc")),
    st.tuples(st.just("claim"), st.sampled_from("abc")),
    st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from([200, 200, 404, 429, 502]), told, away),
    st.tuples(st.just("answer"), st.integers(0, 2), st.just(200), told, st.just(20_000)),
    st.tuples(st.sampled_from(["lost", "give_back"]), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.integers(0, 3000)),
    st.tuples(st.just("pass"), st.sampled_from([5000, 21_000, 60_000, 61_000, 120_000, 10**8, -1, -5000, -(10**8)])),
)


@given(st.lists(steps, max_size=30))
def test_the_script_does_what_the_model_does(connection: FleetConnection, walk: list[tuple[Any, ...]]) -> None:
    script, model, now = Script(connection), Model(), START
    claims = [""]
    for number, (kind, *details) in enumerate(walk):
        if kind == "pass":
            now += details[0]
        elif kind == "claim":
            claims.insert(0, str(number))
            assert script.claim(claims[0], details[0], now) == model.claim(claims[0], details[0], now)
        else:
            claim = claims[min(details[0], len(claims) - 1)]
            if kind == "answer":
                _, status, numbers, distance = details
                for each in (script, model):
                    each.answer(claim, status, 5, numbers, distance, 30_000, now)
            else:
                for each in (script, model):
                    getattr(each, kind)(claim, now)
        assert script.look(now) == model.look(now)


# Against a service: requests travel, answers come late or never, members die


class Fixed:
    """A window of a minute begins with its first request; the service's clock is `off`."""

    def __init__(self, limit: int, off: int) -> None:
        self.limit, self._off, self._start, self._used = limit, off, -1, 0
        self.refused = 0

    def receive(self, now: int) -> tuple[int, tuple[int, int], int]:
        """Status, what is told, and the time from the date to the reset."""
        second = (now + self._off) // 1000
        if not self._start <= second < self._start + 60:
            self._start, self._used = second, 0
        refused = self._used >= self.limit
        self._used += not refused
        self.refused += refused
        reset = self._start + 60
        return 429 if refused else 200, (self.limit - self._used, reset), (reset - second) * 1000


class Sliding:
    """At most `limit` in any minute; the reset moves on with every answer."""

    def __init__(self, limit: int, off: int) -> None:
        self.limit, self._off, self._times = limit, off, list[int]()
        self.refused = 0

    def receive(self, now: int) -> tuple[int, tuple[int, int], int]:
        self._times = [time for time in self._times if time > now - 60_000]
        refused = len(self._times) >= self.limit
        self.refused += refused
        if not refused:
            self._times.append(now)
        second = (now + self._off) // 1000
        return 429 if refused else 200, (self.limit - len(self._times), second + 60), 60_000


travel = st.integers(0, 300) | st.sampled_from([0, 2000, 30_000])
fates = st.sampled_from(["answered"] * 8 + ["without numbers", "lost", "not sent", "killed", "killed unsent"])
pauses = st.sampled_from([0, 0, 0, 1, 400, 7000])
requests = st.lists(st.tuples(pauses, travel, travel, fates), min_size=30, max_size=120)
requests |= st.lists(st.tuples(pauses, st.just(0), st.integers(0, 99), st.just("answered")), min_size=30, max_size=120)


def play(window: Script | Model, service: Fixed | Sliding, planned: list[tuple[int, int, int, str]]) -> int:
    """Each request: a pause before it, the times that it and its answer travel, and its fate. How many were sent.

    At most two answers in a row tell no numbers; after three, the service is taken for one without a limit.
    """
    now, sent, untold = START, 0, 0
    events: list[tuple[int, int, Any]] = []
    order = count()

    def happen(until: int) -> None:
        while events and events[0][0] <= until:
            time, _, event = heapq.heappop(events)
            event(time)

    def arrive(claim: str, back: int, fate: str, now: int) -> None:
        status, told, distance = service.receive(now)
        if fate == "answered" or (fate == "without numbers" and status == 200):

            def answer(time: int) -> None:
                nonlocal untold
                untold = untold + 1 if fate == "without numbers" and untold < 2 else 0
                numbers = None if untold else told
                window.answer(claim, status, service.limit, numbers, distance, 0, time)

            heapq.heappush(events, (now + back, next(order), answer))
        elif fate == "lost":
            heapq.heappush(events, (now + back, next(order), partial(window.lost, claim)))

    for number, (pause, there, back, fate) in enumerate(planned):
        now += pause
        happen(now)
        claim, tries = str(number), 0
        while True:
            may, wait, _ = window.claim(claim, str(number % 3), now)
            if may:
                break
            assert 0 < wait <= 66_000
            tries += 1
            assert tries < 100, "it never comes to its turn"
            now += wait
            happen(now)
        if fate == "not sent":
            heapq.heappush(events, (now + there, next(order), partial(window.give_back, claim)))
        elif fate != "killed unsent":
            sent += 1
            heapq.heappush(events, (now + there, next(order), partial(arrive, claim, back, fate)))
    happen(now + 10**9)
    return sent


# Limits above what probes alone can use: while nothing is known, another one is sent every five seconds.
offs = st.sampled_from([0, 600_000, -600_000, 86_400_000])
kinds = st.sampled_from([Fixed, Sliding])


@settings(max_examples=10)
@given(kinds, st.integers(15, 40), requests, offs)
def test_nothing_is_refused(
    connection: FleetConnection,
    kind: type[Fixed | Sliding],
    limit: int,
    planned: list[tuple[int, int, int, str]],
    off: int,
) -> None:
    service = kind(limit, off)
    play(Script(connection), service, planned)
    assert service.refused == 0


# The fifteenth is answered without numbers, before the fourteenth brings one that does not count it.
overtaken = [
    *[(0, 0, 0, "answered")] * 13,
    (0, 38, 30_000, "answered"),
    (0, 53, 49, "without numbers"),
    *[(7000, 0, 0, "answered")] * 15,
]


@example(Fixed, 15, overtaken, 0)
@given(kinds, st.integers(15, 40), requests, offs)
def test_nothing_is_refused_by_the_model(
    kind: type[Fixed | Sliding], limit: int, planned: list[tuple[int, int, int, str]], off: int
) -> None:
    service = kind(limit, off)
    play(Model(), service, planned)
    assert service.refused == 0
