"""A signal's handler that raises where a blocking call waits: the next call is answered, nothing is created twice."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from tradesdk import Budget, Ledger, PaymentOutcomeUnknownError, SystemClock, Timeout, TradeClient, create_keystore
from tradesdk._http.log_events import event
from tradesdk._http.settings import Origin
from tradesdk._sync.connection_pool import ConnectionPool
from tradesdk._sync.session import LocalRateLimiter
from tradesdk._system.interrupts import suppress
from tradesdk.types import RateClaim

from .._answers import ACCOUNT, BASE, KEY, ok, page, summary
from .._answers import agent as whole
from .._clock import START, VirtualClock
from .._hostile import Visit, answer, hostile
from .._paidservice import CountingSigner, JumpingClock
from .._rows import each_of
from .._seller import TWO, Seller
from .._sync._market import market_of
from .._sync._network import networked
from ..unit._offers import encoded, offer_2
from ._interrupting import Interrupting

GOOD = answer(json.dumps(ACCOUNT).encode())


def single(base_url: str, *, kept: float = 5.0, **options: Any) -> TradeClient:
    """A client with one connection: a slot that is lost is an error half a second later."""
    client = TradeClient(api_key=KEY, base_url=base_url, timeout=Timeout(pool=0.5), **options)
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


@each_of(("lost", "waits"), [(False, 2), (True, 7)])
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


class Alarm(TimeoutError):
    """What a handler of somebody else raises. A connection that takes too long raises a `TimeoutError` as well."""


def handler(*_: object) -> None:
    raise Alarm


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """Sends a signal to this process, whose handler raises in the main thread."""
    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("there are no such signals on this system")
    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@each_of("given", [False, True], ids=["", "given"])
@each_of(
    "sent",
    [b"", GOOD[:20], GOOD[:-5], answer(b"{}", status=404)[:-1]],
    ids=["waiting for the answer", "in its headers", "in its body", "in the body of an error"],
)
def test_a_real_signal(alarm: Callable[[], None], sent: bytes, given: bool) -> None:
    def answering(visit: Visit) -> None:
        if visit.number % 2 == 0:
            visit.send(sent)
            alarm()
            visit.hold()
        else:
            visit.send(GOOD)

    with hostile(answering) as server, httpx.Client() as http:
        make = partial(TradeClient, api_key=KEY, http_client=http) if given else single
        with make(base_url=server.url) as client:
            for _ in range(2):
                with pytest.raises(Alarm):
                    client.account.get()
                assert client.account.get().id == "acc_1"
            assert server.settled(open_connections=1)


@each_of("given", [False, True], ids=["", "given"])
def test_a_real_signal_while_it_connects(
    alarm: Callable[[], None], monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: alarm())
    with httpx.Client() as http, pytest.raises(Alarm):
        TradeClient(api_key=KEY, base_url="http://127.0.0.1:9", http_client=http if given else None).account.get()


@each_of(
    ("name", "call"),
    [
        ("ssl.create_default_context", lambda path: TradeClient(api_key=KEY, base_url="https://service.example")),
        ("tradesdk._sync.retry_loop.RetryLoop.should_retry", lambda path: refused().account.get()),
        ("os.link", lambda path: create_keystore(path / "keystore", "password", "0x" + "2e" * 32, work=2)),
    ],
)
def test_a_real_signal_where_the_system_may_fail(
    alarm: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, call: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificates.pem"))
    monkeypatch.setattr(name, lambda *_, **__: alarm())
    with pytest.raises(Alarm):
        call(tmp_path)


def refused() -> TradeClient:
    return TradeClient(api_key=KEY, base_url="http://127.0.0.1:9")


@each_of("given", [False, True], ids=["", "given"])
def test_a_real_signal_while_a_stream_waits(alarm: Callable[[], None], given: bool) -> None:
    def answering(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        alarm()
        visit.hold()

    with hostile(answering) as server, httpx.Client() as http:
        client = TradeClient(api_key=KEY, base_url=server.url, http_client=http if given else None)
        with pytest.raises(Alarm), client.signals.stream(chain=8453) as stream:
            next(stream)


def test_a_real_signal_while_a_log_is_written(alarm: Callable[[], None]) -> None:
    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            alarm()

    handler, logger = Slow(), logging.getLogger("tradesdk")
    logger.addHandler(handler)
    try:
        with pytest.raises(Alarm):
            event("retry", "nothing")
    finally:
        logger.removeHandler(handler)


def test_a_real_signal_where_what_fails_may_be_ignored(alarm: Callable[[], None]) -> None:
    """A time limit of the caller is an OSError, too."""
    with pytest.raises(Alarm), suppress(OSError):
        alarm()
    with suppress(OSError):
        raise Alarm


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


class Limiter:
    """Does `act` where it is told to."""

    rate_limit = None

    def __init__(self, act: Callable[[], None], at: str) -> None:
        self.act, self.at = act, at

    def _do(self, name: str) -> None:
        if name == self.at:
            self.act()

    def claim(self, name: str, /) -> RateClaim:
        self._do("claim")
        return RateClaim(id="one")

    def answered(self, *_: object) -> None:
        self._do("answered")

    def failed(self, *_: object, sent: bool) -> None:
        self._do("failed")


class ActingSigner(CountingSigner):
    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self.act = act

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.act()
        return super().sign_digest(digest)


@each_of("where", ["signer", "api_key", "claim", "answered", "failed", "connection", "answer"])
def test_what_a_handler_raises_comes_out_as_itself(alarm: Callable[[], None], where: str) -> None:
    """It is never taken for a failure of what it interrupted, and the request is not sent again."""
    seen: list[str] = []

    def act(here: str) -> None:
        seen.append(here)
        if here == where:
            alarm()

    def key() -> str:
        act("api_key")
        return KEY

    def asking(request: httpx.Request) -> httpx.Response:
        act("connection")
        if where == "failed":
            raise httpx.ConnectError("refused")
        return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": encoded(offer_2())}, stream=Body(act))

    client = market_of(
        Seller(asking=asking),
        signer=ActingSigner(partial(act, "signer")),
        rate_limiter=Limiter(partial(act, where), where),
        send_api_key=True,
        api_key=key,
    )
    with pytest.raises(Alarm):
        client.token_prices(TWO)
    assert seen.count(where) == 1


class Body(httpx.SyncByteStream):
    def __init__(self, act: Callable[[str], None]) -> None:
        self.act = act

    def __iter__(self) -> Iterator[bytes]:
        self.act("answer")
        yield b"{}"


def interrupted(call: Callable[[], object], times: int, check: Callable[[], object] = bool) -> None:
    """Interrupts a call so many times, each time at any moment of it. While that is handled, the same call works."""
    left, armed, usual, chance = times, False, 1e-4, random.Random(times)

    def raising(*_: object) -> None:
        nonlocal left, armed
        if armed:
            left, armed = left - 1, False
            raise Alarm

    before = signal.signal(signal.SIGALRM, raising)
    try:
        while left:
            began = time.perf_counter()
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 1.1 * usual))
                call()
                armed = False
            except Alarm:
                check()
                call()
            else:
                usual += (time.perf_counter() - began - usual) / 8
            check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limited(requests: int) -> dict[str, str]:
    """Headers: so many requests of as many are left for a minute."""
    names = {"limit": requests, "remaining": requests, "reset": int(START) + 60}
    return {f"x-ratelimit-{name}": str(value) for name, value in names.items()}


def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def exit_code_of_a_child(play: Callable[[], object]) -> int:
    """Of a process of its own: locks of the standard library, such as those of `logging`, may stay held."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            play()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


class Used:
    """What is used and interrupted: all of it would fail within seconds if something was still held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = Ledger(path, sync=False, timeout=2)
        self.numbers = count()
        self.client = single(BASE, clock=JumpingClock())
        self.buyer = market_of(Seller(), ledger=self.ledger, budget=Budget(total="1000"), deadline=2)
        self.clock = VirtualClock()
        self.limiter = LocalRateLimiter(self.clock)
        self.limiter.answered(RateClaim(), 200, limited(60))

    def ledger_write(self) -> None:
        self.ledger.set_setting("one", lambda _: str(next(self.numbers)))

    def ledger_read(self) -> None:
        self.ledger.get("pay_none")

    def ledger_close(self) -> None:
        self.ledger.close()
        self.ledger.get("pay_none")

    def get(self) -> None:
        assert self.client.account.get().id == "acc_1"

    def limit(self) -> None:
        self.limiter.failed(self.limiter.claim(""), sent=False)

    def purchase(self) -> None:
        with contextlib.suppress(PaymentOutcomeUnknownError):  # one that was interrupted may be in doubt
            self.buyer.token_prices(TWO, purchase=f"number {next(self.numbers) // 4}")

    def fork(self) -> None:
        fork()
        self.ledger.get("pay_none")

    def works(self) -> None:
        """Also in other processes, and from another connection. An open claim is forgotten at the limit's reset."""
        self.clock.advance(60)
        assert [not self.limiter.claim("").wait for _ in range(61)] == [True] * 60 + [False]
        other = sqlite3.connect(self.path, timeout=2, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.close()
        for call in (self.ledger_write, self.get, self.limit, self.purchase, self.fork):
            call()


KINDS = {
    "ledger_write": 5000,
    "ledger_read": 3000,
    "ledger_close": 1500,
    "get": 6000,
    "limit": 3000,
    "purchase": 1000,
    "fork": 80,
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals on this system")
@pytest.mark.filterwarnings("ignore")  # connections that nobody closed, alarms in callbacks of weak references
@pytest.mark.parametrize(
    ("kind", "times"),
    [pytest.param(kind, 4 if kind == "fork" else 20, id=kind) for kind in KINDS]
    + [pytest.param(kind, many, id=f"{kind} {many}", marks=pytest.mark.long) for kind, many in KINDS.items()],
)
def test_nothing_stays_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, times: int) -> None:
    """A handler raises wherever Python calls it. No lock, no slot and no hook of a fork stays blocked."""
    networked(monkeypatch, httpx.MockTransport(lambda _: ok(ACCOUNT)))

    def play() -> None:
        used = Used(tmp_path / "ledger.sqlite3")
        used.works()
        interrupted(getattr(used, kind), times)
        used.works()

    assert exit_code_of_a_child(play) == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals on this system")
@pytest.mark.filterwarnings("ignore")  # connections that nobody closed
@pytest.mark.parametrize("times", [20, pytest.param(8_000, marks=pytest.mark.long)])
def test_an_interrupted_call_leaves_no_claim_open(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A request that was not sent uses up nothing of the rate limit."""
    sent: list[bool] = []
    failed, limiter = LocalRateLimiter.failed, LocalRateLimiter(VirtualClock())

    def answering(_: httpx.Request) -> httpx.Response:
        sent.append(True)
        return ok(ACCOUNT)

    def noted(self: LocalRateLimiter, claim: RateClaim, /, **how: bool) -> None:
        failed(self, claim, **how)
        sent.append(how["sent"])

    def left() -> int:
        return limiter._window.state()[3] or 0

    def check() -> None:
        assert before[0] - left() <= any(sent)
        sent.clear()
        before[0] = left()

    networked(monkeypatch, httpx.MockTransport(answering))
    monkeypatch.setattr(LocalRateLimiter, "failed", noted)
    limiter.answered(RateClaim(), 200, limited(10**9))
    before = [left()]
    with single(BASE, clock=JumpingClock(), rate_limiter=limiter) as client:
        interrupted(client.account.get, times, check)
    assert before[0] > 10**9 - 10 * times
