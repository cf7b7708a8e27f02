"""Waiting in process: a clock that stands still is moved on to what comes next; with a running one, waits are real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.core.clock import END
from tradesdk_mock.core.messages import BodyStep, Delay, Disconnect, Request, Response, WaitForEvent
from tradesdk_mock.core.subscribers import Notifier

from ._http import START
from ._scripted import FLAVOURS, FOR_EVER, Bell, fetch, in_process, once, plain

pytestmark = pytest.mark.long


def at(clock: MockClock, due: float, bell: Notifier) -> Iterator[BodyStep]:
    """Says when it is due, and after that the time."""
    while clock.now() < due:
        yield WaitForEvent(due, bell)
    yield b"%.3f" % (clock.now() - START)


def timed(
    flavour: str, response: Callable[[MockClock], Response], read: float | None, start: float = START
) -> tuple[bytes, Any, float]:
    """The body, the error, and how far the clock was moved."""
    clock = MockClock(start)
    with in_process(lambda request: response(clock), clock) as service:
        found = fetch(flavour, service, read=read)
    return found.body, found.error, clock.now() - start


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("steps", "read", "body", "error", "moved"),
    [
        ([Delay(120), b"a"], None, b"a", None, 120),
        ([Delay(120), b"a"], 30, b"", httpx.ReadTimeout, 30),
        ([Delay(30), b"a"], 30, b"a", None, 30),
        ([b"a", Delay(20), b"b", Delay(20), b"c"], 30, b"abc", None, 40),
        ([b"a", Delay(20), Delay(20), b"c"], 30, b"a", httpx.ReadTimeout, 30),
        ([b"a", Delay(20), b"", Delay(20), b"c"], 30, b"a", httpx.ReadTimeout, 30),
        ([b"a", Delay(0), Delay(0.1), Delay(0.2), b"b"], 30, b"ab", None, 0.3),
        ([b"a", Delay(10), Disconnect.RESET], 30, b"a", httpx.ReadError, 10),
        ([WaitForEvent(START + 100, Notifier()), b"a"], None, b"a", None, 100),
        ([WaitForEvent(START + 100, Notifier(), 0.01), b"a"], None, b"a", None, 100),
        ([WaitForEvent(START + 100, Notifier()), b"a"], 30, b"", httpx.ReadTimeout, 30),
        ([WaitForEvent(START - 100, Notifier()), b"a"], 30, b"a", None, 0),
        ([WaitForEvent(None, Notifier()), b"a"], 30, b"", httpx.ReadTimeout, 30),
        ([WaitForEvent(END, Notifier()), b"a"], 30, b"", httpx.ReadTimeout, 30),
        ([Delay(20), WaitForEvent(START + 50, Notifier())], 30, b"", httpx.ReadTimeout, 30),
    ],
)
def test_a_clock_that_stands_still_is_moved_on(
    steps: list[BodyStep], read: float | None, body: bytes, error: Any, moved: float, flavour: str
) -> None:
    # After a pause that is broken off by the timeout the rest isn't asked for: whoever asks again is asked for it.
    def asked_again() -> Iterator[BodyStep]:
        for step in steps:
            yield step
            if isinstance(step, WaitForEvent) and error is httpx.ReadTimeout:
                yield step

    found = timed(flavour, lambda clock: plain(asked_again()), read)
    assert found[:2] == (body, error)
    assert found[2] == pytest.approx(moved, abs=1e-5)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_pauses_before_the_head_and_exact_times(flavour: str) -> None:
    for read, error, moved in ((None, None, 45), (60, None, 45), (10, httpx.ReadTimeout, 10)):
        found = timed(flavour, lambda clock: plain(b"", length=0, before=[Delay(40), Delay(5)]), read)
        assert found == (b"", error, moved)
    # The body has a patience of its own.
    assert timed(flavour, lambda clock: plain(iter([Delay(20), b"a"]), before=[Delay(20)]), 30) == (b"a", None, 40)
    # Not a little less than was waited for: the generator would wait again for nothing.
    due = START + 0.1 + 0.2
    assert timed(flavour, lambda clock: plain(at(clock, due, Notifier())), 30) == (b"0.300", None, due - START)


@pytest.mark.parametrize(
    ("steps", "frozen", "said"),
    [
        ([Delay(9)], True, "timed out: nothing came for 5 s of the mock's clock"),
        (
            [WaitForEvent(None, Notifier())] * 2,
            True,
            "timed out: nothing came for 5 s of the mock's clock (a stream needs a read timeout above its heartbeats)",
        ),
        ([Delay(9)], False, "timed out: nothing came for 0.01 s"),
    ],
)
def test_a_timeout_says_what_was_waited_for(steps: list[BodyStep], frozen: bool, said: str) -> None:
    clock = MockClock(START)
    if not frozen:
        clock.resume()
    with (
        in_process(lambda request: plain(iter(steps)), clock) as service,
        httpx.Client(transport=service.transport(), timeout=5 if frozen else 0.01) as http,
        pytest.raises(httpx.ReadTimeout) as caught,
    ):
        http.get("http://x/")
    assert str(caught.value) == said


def test_a_read_timeout_counts_from_each_read_and_may_change() -> None:
    """A live stream learns how long silence may last; a socket is asked anew for each read as well."""
    clock = MockClock(START)
    with (
        in_process(lambda request: plain(iter([b"a", Delay(50), b"b", Delay(50), b"c"])), clock) as service,
        httpx.Client(transport=service.transport(), timeout=30) as http,
        http.stream("GET", "http://x/") as response,
    ):
        timeouts = response.request.extensions["timeout"]
        pieces = response.iter_raw()
        assert next(pieces) == b"a"
        # The time between two reads is nobody's patience.
        clock.advance(100)
        timeouts["read"] = 60
        assert next(pieces) == b"b"
        clock.advance(100)
        timeouts["read"] = 10
        with pytest.raises(httpx.ReadTimeout):
            next(pieces)
    assert clock.now() - START == 260


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("steps", "body", "error"),
    [
        ([Delay(60), b"a"], b"a", None),
        ([WaitForEvent(None, Notifier()), b"a"], b"", httpx.ReadTimeout),
    ],
    ids=["pause", "nothing due"],
)
def test_where_the_clock_ends_nothing_is_waited_for(
    steps: list[BodyStep], body: bytes, error: Any, flavour: str
) -> None:
    assert timed(flavour, lambda clock: plain(iter(steps)), 30, END - 1) == (body, error, 0)


def says(response: Response, request: Request) -> Response:
    return response


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "running"])
def test_what_wakes_a_wait(frozen: bool, flavour: str) -> None:
    """A bell, one that rang before, and a look at what another process does; a clock that stands still isn't moved."""
    clock = MockClock(START) if frozen else MockClock()
    began = clock.now()
    for due, early in ((None, False), (END, False), (began + 3600, True)):
        bell = Bell()

        def ring(bell: Bell = bell) -> None:
            assert bell.awaited.wait(10)
            bell.notify()

        helper = threading.Thread(target=ring)
        if early:
            bell.notify()
        else:
            helper.start()
        response = plain(once(bell, WaitForEvent(due, bell)))
        with in_process(partial(says, response), clock) as service:
            assert fetch(flavour, service, read=None if frozen and not early else 30).body == b"woken"
        if not early:
            helper.join()
        assert not bell.take()
    looks = iter([*[WaitForEvent(None, Notifier(), 0.001)] * 3, b"found"])
    with in_process(lambda request: plain(looks), clock) as service:
        assert fetch(flavour, service, read=None).body == b"found"
    assert clock.now() - began < (1e-6 if frozen else 20)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_fast_clock_shortens_waits(flavour: str) -> None:
    clock = MockClock()
    clock.move(speed=10_000)
    due = clock.now() + 4_000
    with in_process(lambda request: plain(at(clock, due, Notifier())), clock) as service:
        assert float(fetch(flavour, service, read=5).body) >= due - START


async def test_waits_of_tasks_do_not_add_up() -> None:
    """Each ends when its own time has come, and the clock is where the last one ended."""
    clock = MockClock(START)
    ended: dict[str, float] = {}
    with in_process(lambda request: plain(iter([b"a", Delay(float(request.path[1:])), b"b"])), clock) as service:
        async with httpx.AsyncClient(transport=service.transport(), timeout=FOR_EVER) as http:

            async def get(path: str) -> None:
                assert (await http.get(f"http://x{path}")).content == b"ab"
                ended[path] = clock.now() - START

            async with anyio.create_task_group() as group:
                for path in ("/30", "/5", "/7", "/30"):
                    group.start_soon(get, path)
    assert ended == {"/5": 5, "/7": 7, "/30": 30}


async def test_the_clock_is_not_moved_when_something_comes_meanwhile() -> None:
    clock, bell = MockClock(START), Bell()
    with in_process(lambda request: plain(once(bell, WaitForEvent(START + 3600, bell))), clock) as service:
        async with httpx.AsyncClient(transport=service.transport()) as http, anyio.create_task_group() as group:

            async def get() -> None:
                assert (await http.get("http://x/")).content == b"woken"

            async def ring() -> None:
                bell.notify()

            group.start_soon(get)
            group.start_soon(ring)
    assert clock.now() == START


def test_threads_share_a_transport() -> None:
    clock = MockClock(START)
    found: dict[str, bytes] = {}
    with (
        in_process(lambda request: plain(iter([b"a", Delay(10), request.path.encode()])), clock) as service,
        httpx.Client(transport=service.transport(), timeout=FOR_EVER) as http,
    ):

        def work(number: int) -> None:
            for turn in range(20):
                path = f"/{number}/{turn}"
                found[path] = http.get(f"http://x{path}").content

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 160
    assert all(content == b"a" + path.encode() for path, content in found.items())
    assert 200 <= clock.now() - START <= 1600
