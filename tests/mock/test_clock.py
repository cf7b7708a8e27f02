"""The clock that can be moved."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from tradesdk_mock import MockClock

from ._support import START


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
