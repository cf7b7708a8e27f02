"""A signal's handler that raises where a blocking call waits: the next call is answered, nothing is created twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from tradesdk import SystemClock, Timeout, TradeClient
from tradesdk._http.settings import Origin
from tradesdk._sync.connection_pool import ConnectionPool

from .._answers import ACCOUNT, BASE, KEY, ok, page, summary
from .._answers import agent as whole
from .._clock import START
from .._hostile import Visit, answer, hostile
from .._paidservice import JumpingClock
from .._rows import each_of
from .._sync._network import networked
from ._interrupting import Interrupting

GOOD = answer(json.dumps(ACCOUNT).encode())


def single(url: str, *, kept: float = 5.0, **options: Any) -> TradeClient:
    """A client with one connection: a slot that is lost is an error half a second later."""
    client = TradeClient(api_key=KEY, base_url=url, timeout=Timeout(pool=0.5), **options)
    client._session.sender = ConnectionPool(Origin.of(client.base_url), max_connections=1, keepalive_expiry=kept)
    return client


def swept(
    monkeypatch: pytest.MonkeyPatch,
    handle: Callable[[httpx.Request], httpx.Response],
    call: Callable[[TradeClient], object],
    kept: float = 5.0,
) -> int:
    """Interrupts a call at each of its waits, with another call after each. How many there are."""
    networked(monkeypatch, httpx.MockTransport(handle))
    interrupting, most = Interrupting(monkeypatch), 0
    with single(BASE, kept=kept, clock=JumpingClock()) as client:
        for after in (False, True):
            for at in count(1):
                if not interrupting.at(at, partial(call, client), after=after):
                    break
                assert client._session.creating == []
                assert client.account.get().id == "acc_1", at
                most = max(most, at)
    return most


@each_of(("kept", "waits"), [(60.0, 2), (0.0, 3)], ids=["a connection that is kept", "a new connection"])
def test_wherever_it_waits(monkeypatch: pytest.MonkeyPatch, kept: float, waits: int) -> None:
    assert swept(monkeypatch, lambda _: ok(ACCOUNT), lambda client: client.account.get(), kept) >= waits


@each_of(("lost", "waits"), [(False, 3), (True, 8)])
def test_a_create_is_not_done_twice(monkeypatch: pytest.MonkeyPatch, lost: bool, waits: int) -> None:
    """Also where it is looked for after its answer was lost, and in the wait before that."""
    posted: list[str] = []
    names = map("agent {}".format, count())

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            posted.append(json.loads(request.content)["name"])
            if lost:
                raise httpx.ReadError("lost", request=request)
            return ok(whole("a1", name=posted[-1]), 201)
        if request.url.path == "/v1/account":
            return ok(ACCOUNT)
        if request.url.path == "/v1/agents":
            return ok(page([summary(name, name=name, created_at=START + 10**6) for name in posted[-20:]]))
        name = unquote(request.url.path).rpartition("/")[2]
        return ok(whole(name, name=name))

    def create(client: TradeClient) -> object:
        return client.agents.create(name=next(names), wallet_id="w1", chain_id=8453)

    assert swept(monkeypatch, handle, create) >= waits
    assert len(posted) == len(set(posted)) > 2


class Alarm(Exception):
    """What a handler of somebody else raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """Sends a signal to this process, whose handler raises in the main thread."""

    def handler(*_: object) -> None:
        raise Alarm

    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("there are no such signals on this system")
    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@each_of("sent", [b"", GOOD[:20]], ids=["waiting for the answer", "in its headers"])
def test_a_real_signal(alarm: Callable[[], None], sent: bytes) -> None:
    def answering(visit: Visit) -> None:
        if visit.number % 2 == 0:
            visit.send(sent)
            alarm()
            visit.hold()
        else:
            visit.send(GOOD)

    with hostile(answering) as server, single(server.url) as client:
        for _ in range(20):
            with pytest.raises(Alarm):
                client.account.get()
            assert client.account.get().id == "acc_1"
        assert server.settled(open_connections=1)


def test_a_real_signal_while_it_waits_for_a_connection(alarm: Callable[[], None]) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def answering(visit: Visit) -> None:
        arrived.set()
        go_on.wait(60)
        visit.send(GOOD)

    with hostile(answering) as server, single(server.url) as client:
        slow = client.with_options(timeout=60)
        other = threading.Thread(target=slow.account.get)
        other.start()
        assert arrived.wait(60)
        timer = threading.Timer(0.1, alarm)
        timer.start()
        with pytest.raises(Alarm):
            slow.account.get()
        timer.join()
        go_on.set()
        other.join(60)
        assert client.account.get().id == "acc_1"
        assert len(server.visits) == 2


def test_a_real_signal_while_it_waits_to_retry(alarm: Callable[[], None]) -> None:
    class Telling(SystemClock):
        def sleep(self, seconds: float) -> None:
            timer.start()
            super().sleep(seconds)

    def answering(visit: Visit) -> None:
        visit.send(GOOD if visit.number else answer(status=503, retry_after="60"))

    timer, began = threading.Timer(0.1, alarm), time.monotonic()
    with hostile(answering) as server, single(server.url, clock=Telling()) as client:
        with pytest.raises(Alarm):
            client.account.get()
        timer.join()
        assert client.account.get().id == "acc_1"
    assert time.monotonic() - began < 50
