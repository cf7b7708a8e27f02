"""A signal's handler that raises in the middle of a blocking call, at any line of ours and of the libraries below.

The next call is answered, no connection's place is lost, and nothing is created twice.
"""

from __future__ import annotations

import gc
import itertools
import json
import linecache
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count as numbers
from types import FrameType
from typing import Any
from weakref import ref

import pytest

from tradesdk import Account, Timeout, TradeClient
from tradesdk._sync import concurrency
from tradesdk._sync.concurrency import Place, Semaphore

from .._answers import ACCOUNT, KEY
from .._answers import agent as whole
from .._clock import VirtualClock
from .._hostile import HostileServer, Visit, answer, hostile
from .._interrupts import apart
from .._seeds import one_of_each

# A socket that was just made when the interrupt came is closed by the collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

FILES = tuple(os.sep + part for part in ("tradesdk/", "httpx/", "httpcore/", "h11/", "threading.py", "cookiejar.py"))
GOOD = answer(json.dumps(ACCOUNT).encode())
ANSWER = Account.model_validate(ACCOUNT)
EVENTS = ("call", "line", "return")


class Alarm(Exception):
    """What a handler of somebody else raises."""


def interrupted(call: Callable[[], object], at: int, kind: type[BaseException] = KeyboardInterrupt) -> int:
    """Raise `kind` at so many steps into `call`; 0, or how many steps were left when the call was over."""
    left = at

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event in EVENTS and not _leaves_a_lock(frame, event):
            left -= 1
            if left == 0:
                raise kind
        return step

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return step(frame, event, arg) if any(part in name for part in FILES) and name != __file__ else None

    def run() -> None:
        sys.settrace(entered)
        try:
            call()
        except kind:
            assert left == 0
        finally:
            sys.settrace(None)
            _inside.clear()

    apart(run)
    return left


_inside: dict[int, tuple[FrameType, set[int]]] = {}


def _leaves_a_lock(frame: FrameType, event: str) -> bool:
    """The end of a `with` block, of which a trace is told: Python runs no handler between it and the lock's release."""
    if event == "call":
        _inside[id(frame)] = (frame, set())
        return False
    if not linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with "):
        return False
    known = _inside.setdefault(id(frame), (frame, set()))[1]
    leaving = event == "line" and frame.f_lineno in known
    known.add(frame.f_lineno)
    return leaving


@pytest.fixture(scope="module", autouse=True)
def _sockets_may_be_closed_late() -> Iterator[None]:
    yield
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


def client_of(server: HostileServer, connections: int = 1) -> TradeClient:
    """Nothing is retried, so that a place that is lost is an error half a second later."""
    client = TradeClient(
        api_key=KEY, base_url=server.url, clock=VirtualClock(), timeout=Timeout(pool=0.5), max_retries=0
    )
    client._session.sender._slots = Semaphore(connections)  # type: ignore[attr-defined] # of our own transport
    return client


def in_time(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What they give, each in a thread of its own; nothing for one that hangs."""
    results: list[Any] = []
    threads = [threading.Thread(target=lambda call=call: results.append(call()), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def chosen(call: Callable[[], object], count: int | None) -> list[int]:
    """Steps of `call` at which to interrupt it: that many, or one of six in a row; all of them in scripts/soak."""
    steps = 10**9 - interrupted(call, 10**9)
    assert steps > 1000
    if count is None:
        return list(itertools.takewhile(lambda at: at <= steps, one_of_each(6)))
    return sorted(random.Random(14).sample(range(1, steps + 1), count))


ALL = pytest.param(None, marks=pytest.mark.long, id="all")
SAMPLE = pytest.param(20, id="some")


@pytest.mark.parametrize("kept", [True, False], ids=["a connection that is kept", "a new connection"])
@pytest.mark.parametrize("count", [SAMPLE, ALL])
def test_the_next_call_is_answered(kept: bool, count: int | None) -> None:
    """Even while somebody keeps the exception, and with it everything that its traceback shows."""
    sent = answer(json.dumps(ACCOUNT).encode(), connection="keep-alive" if kept else "close")

    def answering(visit: Visit) -> None:
        visit.send(sent)
        if not kept:
            visit.close()

    with hostile(answering) as server, client_of(server) as client:
        client.account.get()
        for at in chosen(client.account.get, count):
            try:
                interrupted(client.account.get, at, kind=Alarm if at % 2 else KeyboardInterrupt)
            finally:
                assert in_time([client.account.get]) == [ANSWER], at


@pytest.mark.parametrize("count", [SAMPLE, ALL])
def test_as_many_at_once_as_before(count: int | None) -> None:
    """After many interrupts, with nothing in between that could mend it."""
    together = threading.Barrier(3)

    def answering(visit: Visit) -> None:
        if b"together" in visit.head:
            together.wait(60)
        visit.send(GOOD)

    with hostile(answering) as server, client_of(server, connections=3) as client:
        client.account.get()
        for at in chosen(client.account.get, count):
            interrupted(client.account.get, at)
        ask = partial(client.request, "GET", "/v1/account", query={"together": 1})
        assert [answered.status for answered in in_time([ask] * 3)] == [200] * 3


def test_while_waiting_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left behind by somebody who waited is seen by those who wait after."""
    monkeypatch.setattr(concurrency, "_LOOK_AGAIN", 0.002)
    slots, at, left = Semaphore(1), 0, 0
    while not left:
        at += 1
        first, second, third = Place(), Place(), Place()
        assert slots.take(0, ref(first))
        left = interrupted(partial(slots.take, 0.001, ref(second)), at)
        slots.give_back(ref(first))
        left = min(left, interrupted(partial(slots.take, 0.001, ref(second)), at))
        del second
        assert slots.take(60, ref(third)), at
        slots.give_back(ref(third))
    assert at > 15


@pytest.mark.parametrize("count", [SAMPLE, ALL])
def test_a_create_is_not_done_twice(count: int | None) -> None:
    posted: list[str] = []
    names = map("agent {}".format, numbers())

    def answering(visit: Visit) -> None:
        if visit.head.startswith(b"POST"):
            posted.append(json.loads(visit.body)["name"])
            visit.send(answer(json.dumps(whole("a1", name=posted[-1])).encode(), status="201 Created"))
        else:
            visit.send(GOOD)

    with hostile(answering) as server, client_of(server) as client:

        def create() -> object:
            return client.agents.create(name=next(names), wallet_id="w1", chain_id=8453)

        create()
        for at in chosen(create, count):
            interrupted(create, at)
            assert in_time([client.account.get]) == [ANSWER], at
        assert len(posted) == len(set(posted)) > 8


@pytest.mark.long
# The handler may raise in what a library does when garbage is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer on this system")
def test_a_storm_of_real_signals() -> None:
    """Where Python itself runs handlers, which no trace knows exactly."""

    def handler(*_: object) -> None:
        raise Alarm

    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server, client_of(server) as client:
        client.account.get()
        before = signal.signal(signal.SIGALRM, handler)
        hits, chance = 0, random.Random(14)
        try:
            while hits < 1500:
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.002))
                    client.account.get()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Alarm:
                    hits += 1
                    assert in_time([client.account.get]) == [ANSWER], hits
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
