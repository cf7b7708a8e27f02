"""The clock that can be moved."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError, MockService

from .._rows import each_of
from ._http import START

# The first time that the clock can't show, in the year 5138, and its highest speed.
END, MAX_SPEED = 1e11, 10_000


class RealTime:
    """What the clock takes for real time."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return START + self.passed

    def monotonic(self) -> float:
        return 500.0 + self.passed


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> RealTime:
    found = RealTime()
    monkeypatch.setattr("tradesdk_mock.core.clock.RealTime", found)
    return found


def test_it_follows_real_time() -> None:
    clock, before = MockClock(), time.time()
    assert before - 1 < clock.now() < time.time() + 1
    assert (clock.frozen, clock.speed) == (False, 1.0)


# A change of the clock, real seconds after it; what it shows then, from START on, and how far monotonic went.
Step = tuple[dict[str, Any], float, float, float]
COURSES: dict[str, tuple[bool, list[Step]]] = {
    "frozen": (
        True,
        [
            ({}, 50, 0, 0),
            ({"advance": 2.5}, 50, 2.5, 2.5),
            ({"set": START + 100}, 1, 100, 100),
            ({"set": START - 10, "allow_backwards": True}, 1, -10, 100),
            ({"freeze": True}, 1, -10, 100),
        ],
    ),
    "at its speed": (
        False,
        [
            ({}, 10, 10, 10),
            ({"speed": 60}, 2, 130, 130),
            ({"advance": 70}, 0, 200, 200),
            ({"speed": 0.5}, 8, 204, 204),
            ({"set": START, "allow_backwards": True}, 2, 1, 205),
        ],
    ),
    "a speed for later": (
        True,
        [
            ({"speed": 100}, 5, 0, 0),
            ({"freeze": False}, 1, 100, 100),
            ({"freeze": False}, 1, 200, 200),
            ({"freeze": True, "advance": 1}, 54, 201, 201),
            ({"freeze": True, "set": START + 500, "advance": 1.5}, 9, 501.5, 501.5),
            ({"freeze": False, "set": START, "allow_backwards": True}, 1, 100, 601.5),
        ],
    ),
}


@pytest.mark.parametrize("name", COURSES)
def test_what_it_shows(real: RealTime, name: str) -> None:
    frozen, steps = COURSES[name]
    clock = MockClock(START) if frozen else MockClock()
    before = clock.monotonic()
    for change, seconds, shown, went in steps:
        clock.move(**change)
        real.passed += seconds
        assert (clock.now() - START, clock.monotonic() - before) == pytest.approx((shown, went))
        assert clock.speed == change.get("speed", clock.speed)
        assert clock.frozen == change.get("freeze", clock.frozen)


@each_of(
    ("change", "message"),
    [
        *(
            ({"set": wrong, "allow_backwards": True}, "Unix seconds")
            for wrong in (-1, -0.001, math.nan, math.inf, 1e12)
        ),
        *(({"advance": wrong}, "can't advance") for wrong in (-1, -0.001, math.nan, math.inf, 1e12, 10**30)),
        *(
            ({"advance": 5, "speed": wrong}, "not a speed")
            for wrong in (0, -1, math.nan, math.inf, 1_000_000.5, -(10**30))
        ),
        *(({"set": wrong}, "Unix seconds") for wrong in ("2040-01-01", datetime(2040, 1, 1, tzinfo=UTC))),
        *(({name: "5"}, "is not a number") for name in ("advance", "speed")),
        ({"set": START - 10_000}, "allow_backwards"),
        ({"set": START + 500, "advance": -1}, "can't advance"),
        ({"set": 99_999_999_999, "advance": 1}, "can't advance"),
    ],
)
def test_several_changes_are_made_together_or_not_at_all(change: dict[str, Any], message: str) -> None:
    clock = MockClock(START)
    clock.move(freeze=False, speed=3)
    before = clock.state()
    with pytest.raises(ValueError, match=message):
        clock.move(freeze=True, **change)
    assert clock.state() == before


def test_sleeping_takes_no_time() -> None:
    clock = MockClock(START)
    for seconds in (3_600, 0, -5):
        clock.sleep(seconds)
    assert clock.now() == START + 3_600


@each_of("backend", ["asyncio", "trio"])
def test_tasks_that_sleep_at_the_same_time_do_not_add_up(backend: str) -> None:
    clock = MockClock(START)
    seen: list[float] = []

    async def sleeper(seconds: float) -> None:
        for _ in range(3):
            seen.append(clock.now())
            await clock.sleep_async(seconds)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(sleeper, 1)
            group.start_soon(sleeper, 10)

    anyio.run(main, backend=backend)
    assert clock.now() == START + 30  # as it would be in real time
    assert seen == sorted(seen)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_shortest_sleep_moves_it_too(backend: str) -> None:
    clock = MockClock(START)
    anyio.run(clock.sleep_async, 1e-8, backend=backend)
    assert (clock.now() > START, clock.monotonic() > 0) == (True, True)
    anyio.run(clock.sleep_async, 0.0, backend=backend)


def test_threads_share_it() -> None:
    clock = MockClock(START)

    def push() -> None:
        for _ in range(500):
            clock.advance(1)

    threads = [threading.Thread(target=push) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() == START + 4_000


@pytest.mark.parametrize("speed", [5e-324, 1e-3, 1, MAX_SPEED])
def test_real_seconds_until_a_time(real: RealTime, speed: float) -> None:
    clock = MockClock()
    clock.move(speed=speed)
    assert clock.real_seconds_until(START) == clock.real_seconds_until(START - 5) == 0.0
    wait = clock.real_seconds_until(START + 500)
    if wait is None:
        assert speed == 5e-324  # longer than a number can say
    else:
        assert wait == 500 / speed
        real.passed = wait
        assert clock.now() == pytest.approx(START + 500)
    for never in (END - 0.5, END, math.inf):
        assert clock.real_seconds_until(never) is None
    clock.freeze()
    assert clock.real_seconds_until(START + 501) is None
    assert clock.real_seconds_until(clock.now()) == 0.0


def test_a_fast_clock_stops_before_the_times_that_no_date_can_show(real: RealTime) -> None:
    clock = MockClock()
    clock.move(speed=MAX_SPEED)
    for passed in (1, 2):
        real.passed = passed * END / MAX_SPEED
        assert clock.now() == END - 1
    clock.set(START, allow_backwards=True)
    assert clock.now() == START


def test_speed_outlives_the_process_and_reaches_others(real: RealTime, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with MockService(db=path) as first, MockService(db=path) as second:
        first.clock.move(advance=100, speed=10)
        real.passed = 1
        assert (second.status()["speed"], second.status()["now"], first.clock.now()) == (10.0, START + 110, START + 110)
    real.passed = 3
    with MockService(db=path) as third:
        assert (third.clock.speed, third.clock.now()) == (10.0, START + 130)


CHANGES = st.one_of(
    st.tuples(st.just("pass"), st.floats(0, 1e5)),
    st.tuples(st.just("speed"), st.floats(0, MAX_SPEED, exclude_min=True)),
    st.tuples(st.just("freeze"), st.booleans()),
    st.tuples(st.just("by"), st.floats(0, 1e6)),
    st.tuples(st.just("to"), st.floats(0, END, exclude_max=True)),
    st.tuples(st.just("carry"), st.none()),
)


@example([("freeze", True), ("to", END - 0.5), ("freeze", False), ("pass", 1.0)])
@example([("freeze", True), ("to", 0.1), ("by", math.nextafter(END - 0.1, 0))])
@given(st.lists(CHANGES, max_size=25))
def test_whatever_is_done_monotonic_never_goes_back_and_no_change_of_pace_jumps(changes: list[tuple[str, Any]]) -> None:
    real = RealTime()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tradesdk_mock.core.clock.RealTime", real)
        clock = MockClock()
        for name, value in changes:
            now, mono = clock.now(), clock.monotonic()
            if name == "pass":
                real.passed += value
                assert clock.now() >= now
                assert not clock.frozen or clock.now() == now
            elif name == "carry":
                # What a state file keeps of it; another clock shows the same from then on.
                other = MockClock(0)
                other.restore(*clock.state())
                clock.restore(*clock.state())
                assert (clock.now(), clock.monotonic(), other.now(), other.frozen) == (now, mono, now, clock.frozen)
            elif name in ("speed", "freeze"):
                clock.move(**{name: value})
                assert (clock.now(), clock.monotonic()) == (now, mono)
            elif name == "advance":
                if value < END - now:
                    clock.move(advance=value)
                    assert clock.now() == now + value
            else:
                clock.move(set=value, allow_backwards=True)
                assert clock.now() == value
            assert clock.monotonic() >= mono
            assert 0 <= clock.now() < END


def test_keepers_are_there_before_and_after_every_change_until_they_leave() -> None:
    clock = MockClock(START)
    seen: list[tuple[str, float]] = []

    @contextmanager
    def first() -> Iterator[None]:
        seen.append(("before", clock.now()))
        yield
        seen.append(("after", clock.now()))

    @contextmanager
    def second() -> Iterator[None]:
        yield
        seen.append(("told", clock.now()))

    leave, leave_second = clock.on_change(first), clock.on_change(second)
    clock.advance(1)
    assert seen == [("before", START), ("after", START + 1), ("told", START + 1)]
    leave_second()
    clock.set(START + 5)
    clock.resume()
    clock.freeze()
    assert [what for what, _ in seen[3:]] == ["before", "after"] * 3
    leave()
    clock.advance(1)
    assert len(seen) == 9


@each_of("wrong", [START, 0, "now"])
def test_what_is_no_clock(wrong: Any) -> None:
    with pytest.raises(MockServerError, match="clock: must be a MockClock"):
        MockService(clock=wrong)
