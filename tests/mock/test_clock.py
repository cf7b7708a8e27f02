"""The clock that can be moved."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.core.clock import END, MAX_SPEED
from tradesdk_mock.state.world import World

from ._support import START


class RealTime:
    """What the clock takes for real time."""

    def __init__(self) -> None:
        self.passed = 0.0

    def time(self) -> float:
        return START + self.passed

    def monotonic(self) -> float:
        return 500.0 + self.passed


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> RealTime:
    found = RealTime()
    monkeypatch.setattr("tradesdk_mock.core.clock.time", found)
    return found


def test_it_follows_real_time() -> None:
    clock = MockClock()
    assert abs(clock.now() - time.time()) < 1
    assert not clock.frozen
    clock.advance(1_000)
    assert abs(clock.now() - time.time() - 1_000) < 1


def test_frozen_it_moves_only_when_told() -> None:
    clock = MockClock(START)
    assert clock.frozen
    assert [clock.now(), clock.now()] == [START, START]
    before = clock.monotonic()
    clock.advance(2.5)
    assert clock.now() == START + 2.5
    assert clock.monotonic() == pytest.approx(before + 2.5)
    clock.set(START + 100)
    assert clock.now() == START + 100
    assert clock.monotonic() == pytest.approx(before + 100)


def test_freeze_and_resume_keep_the_time() -> None:
    clock = MockClock(START)
    clock.resume()
    assert not clock.frozen
    now, mono = clock.now(), clock.monotonic()
    assert START <= now < START + 5
    assert clock.now() >= now
    assert clock.monotonic() >= mono
    clock.freeze()
    clock.freeze()
    held = clock.now()
    assert now <= held < START + 5
    assert clock.now() == held
    assert clock.monotonic() == clock.monotonic() >= mono
    clock.resume()
    clock.resume()
    assert clock.now() >= held


@pytest.mark.parametrize("frozen", [True, False])
def test_back_only_when_allowed_and_never_for_monotonic(frozen: bool) -> None:
    clock = MockClock(START)
    if not frozen:
        clock.resume()
    before = clock.monotonic()
    with pytest.raises(ValueError, match="allow_backwards"):
        clock.set(START - 10)
    clock.set(START - 10, allow_backwards=True)
    assert START - 10 <= clock.now() < START
    assert clock.monotonic() >= before


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), -0.001, 1e12])
def test_steps_that_are_none(seconds: float) -> None:
    clock = MockClock(START)
    with pytest.raises(ValueError, match="can't advance"):
        clock.advance(seconds)
    with pytest.raises(ValueError, match="Unix seconds"):
        clock.set(seconds, allow_backwards=True)
    assert clock.now() == START


def test_sleeping_takes_no_time() -> None:
    clock = MockClock(START)
    clock.sleep(3_600)
    clock.sleep(0)
    clock.sleep(-5)
    assert clock.now() == START + 3_600


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
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


def test_state_can_be_carried_over() -> None:
    first = MockClock(START)
    first.advance(7)
    second = MockClock()
    second.restore(*first.state())
    assert second.frozen
    assert second.now() == START + 7
    first.resume()
    second.restore(*first.state())
    assert not second.frozen
    assert abs(second.now() - first.now()) < 1


def test_it_runs_at_its_speed(real: RealTime) -> None:
    clock = MockClock()
    before = clock.monotonic()
    assert clock.speed == 1.0
    real.passed = 10
    assert clock.now() == START + 10
    clock.move(speed=60)
    assert (clock.now(), clock.monotonic(), clock.speed) == (START + 10, before + 10, 60.0)
    real.passed = 12
    assert (clock.now(), clock.monotonic()) == (START + 130, before + 130)
    clock.advance(70)
    assert (clock.now(), clock.monotonic()) == (START + 200, before + 200)
    clock.move(speed=0.5)
    real.passed = 20
    assert (clock.now(), clock.monotonic()) == (START + 204, before + 204)


def test_a_frozen_clock_keeps_its_speed_for_later(real: RealTime) -> None:
    clock = MockClock(START)
    clock.move(speed=100)
    real.passed = 5
    assert (clock.now(), clock.speed, clock.frozen) == (START, 100.0, True)
    clock.resume()
    real.passed = 6
    assert clock.now() == START + 100
    clock.move(freeze=True, by=1)
    real.passed = 60
    assert (clock.now(), clock.speed) == (START + 101, 100.0)


@pytest.mark.parametrize("speed", [0, -1, 0.0, float("nan"), float("inf"), 1_000_000.5, 10**30, -(10**30)])
def test_speeds_that_are_none(real: RealTime, speed: float) -> None:
    clock = MockClock()
    clock.move(speed=3)
    before = clock.state()
    with pytest.raises(ValueError, match="is not a speed"):
        clock.move(freeze=True, by=5, speed=speed)
    assert clock.state() == before


@pytest.mark.parametrize("speed", [5e-324, 1e-3, 1, MAX_SPEED])
def test_real_seconds_until_a_time(real: RealTime, speed: float) -> None:
    clock = MockClock()
    clock.move(speed=speed)
    assert clock.real_seconds_until(START) == 0.0
    assert clock.real_seconds_until(START - 5) == 0.0
    wait = clock.real_seconds_until(START + 500)
    if wait is None:
        assert speed == 5e-324  # longer than a number can say
    else:
        assert wait == 500 / speed
        real.passed = wait
        assert clock.now() == pytest.approx(START + 500)
    for never in (END - 0.5, END, float("inf")):
        assert clock.real_seconds_until(never) is None
    clock.freeze()
    assert clock.real_seconds_until(START + 501) is None
    assert clock.real_seconds_until(clock.now()) == 0.0


def test_a_fast_clock_stops_before_the_times_that_no_date_can_show(real: RealTime) -> None:
    clock = MockClock()
    clock.move(speed=MAX_SPEED)
    real.passed = END / MAX_SPEED
    assert clock.now() == END - 1
    real.passed = 2 * END / MAX_SPEED
    assert clock.now() == END - 1
    clock.set(START, allow_backwards=True)
    assert clock.now() == START


def test_speed_outlives_the_process_and_reaches_others(real: RealTime, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first, second = World(db=path), World(db=path)
    first.clock.move(by=100, speed=10)
    real.passed = 1
    with second.transaction():
        assert second.clock.speed == 10.0
        assert second.now() == first.now() == START + 110
    first.close()
    second.close()
    real.passed = 3
    third = World(db=path)
    assert (third.clock.speed, third.now()) == (10.0, START + 130)
    third.close()


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
        patched.setattr("tradesdk_mock.core.clock.time", real)
        clock = MockClock()
        for name, value in changes:
            now, mono = clock.now(), clock.monotonic()
            if name == "pass":
                real.passed += value
                assert clock.now() >= now
                assert not clock.frozen or clock.now() == now
            elif name == "carry":
                clock.restore(*clock.state())
                assert (clock.now(), clock.monotonic()) == (now, mono)
            elif name in ("speed", "freeze"):
                clock.move(**{name: value})
                assert (clock.now(), clock.monotonic()) == (now, mono)
            elif name == "by":
                if value < END - now:
                    clock.move(by=value)
                    assert clock.now() == now + value
            else:
                clock.move(to=value, allow_backwards=True)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"freeze": True, "to": -5}, "Unix seconds"),
        ({"freeze": True, "to": START - 10_000}, "allow_backwards"),
        ({"freeze": True, "to": START + 500, "by": -1}, "can't advance"),
        ({"freeze": True, "to": 99_999_999_999, "by": 1}, "can't advance"),
        ({"freeze": True, "by": 10**30}, "can't advance"),
        ({"freeze": True, "to": START + 500, "by": 1, "speed": 0}, "not a speed"),
    ],
)
def test_several_changes_are_made_together_or_not_at_all(change: dict[str, Any], message: str) -> None:
    clock = MockClock(START)
    clock.resume()
    before = clock.state()
    with pytest.raises(ValueError, match=message):
        clock.move(**change)
    assert clock.state() == before
    clock.move(freeze=True, to=START + 500, by=1.5)
    assert (clock.now(), clock.frozen) == (START + 501.5, True)
    clock.move(freeze=False, to=START, allow_backwards=True)
    assert START <= clock.now() < START + 5
    assert not clock.frozen


@pytest.mark.parametrize("wrong", [START, 0, "now"])
def test_what_is_no_clock(wrong: Any) -> None:
    with pytest.raises(MockServerError, match="clock: must be a MockClock"):
        MockService(clock=wrong)
