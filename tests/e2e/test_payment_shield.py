"""A payment that has gone to the transport is not abandoned when its call is cancelled: within a bound, and once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from anyio.lowlevel import checkpoint

from tradesdk import AsyncMarketClient, Ledger, PaymentStage, Timeout
from tradesdk._async.connection_pool import AsyncConnectionPool

from .._async._market import market_of
from .._async._network import networked
from .._paidservice import JumpingClock, PaidService
from .._payments import how
from .._rows import each_of

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Held:
    """A paid service that keeps no answers, and holds them back until `free`; `came` is set by a payment."""

    def __init__(self, *kinds: str, body: Callable[[bytes], Any] | None = None, **options: Any) -> None:
        self.clock = JumpingClock()
        self.service = PaidService(self.clock, kinds=list(kinds))
        self.ledger = options.pop("ledger", None) or Ledger.memory()
        self.body, self.options = body, options
        self.came, self.free = anyio.Event(), anyio.Event()
        self.own_network = False

    async def handle(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = self.service.handle(request)
        finally:
            if "payment-signature" in request.headers:
                self.came.set()
                await self.free.wait()
        if self.body is not None and self.came.is_set():
            return httpx.Response(200, content=self.body(answer.content))
        return answer

    def client(self, **options: Any) -> AsyncMarketClient:
        settings: dict[str, Any] = {"ledger": self.ledger, "clock": self.clock, "budget": None}
        if self.own_network:
            settings["http_client"] = None
        return market_of(self.handle, **{**settings, **self.options, **options})

    async def buy(self, client: AsyncMarketClient | None = None) -> Any:
        return await (client or self.client()).token_prices(["ETH"], max_price="0.03")

    async def gets_it(self) -> None:
        """The same call gets the answer that was paid for, unpaid, once."""
        (payment,) = self.ledger.history()
        assert (how(payment), payment.waits) == ("answered", True)
        found = await self.buy()
        assert (found.again, found.answered_at) == (True, payment.updated_at)
        assert (self.service.requests, len(self.service.taken)) == (2, 1)
        assert not self.ledger.history()[0].waits


async def canceled_by_a_scope(call: Callable[[], Awaitable[Any]], held: Held) -> bool:
    """Whether it ended by the cancellation. It comes when the payment has, and the answer after it."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(meanwhile, held, scope.cancel)
            await call()
            group.cancel_scope.cancel()
    return scope.cancelled_caught


async def meanwhile(held: Held, cancel: Callable[[], object]) -> None:
    with anyio.CancelScope(shield=True):
        await held.came.wait()
        cancel()
        for _ in range(5):
            await checkpoint()
        held.free.set()


@pytest.mark.parametrize("own_network", [False, True])
async def test_the_answer_arrives_and_the_same_call_gets_it(monkeypatch: pytest.MonkeyPatch, own_network: bool) -> None:
    held = Held()
    if own_network:
        networked(monkeypatch, httpx.MockTransport(held.handle))
        held.own_network = True
    assert await canceled_by_a_scope(held.buy, held)
    await held.gets_it()


async def by_a_timeout(held: Held) -> None:
    async def call() -> None:
        async with asyncio.timeout(60) as limit:
            group.create_task(meanwhile(held, partial(limit.reschedule, 0)))
            await held.buy()

    async with asyncio.TaskGroup() as group:
        with pytest.raises(TimeoutError):
            await call()


async def by_its_task(held: Held, times: int = 1) -> None:
    task = asyncio.ensure_future(held.buy())
    await meanwhile(held, lambda: [task.cancel() for _ in range(times)])
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_a_sibling(held: Held) -> None:
    async def fails() -> None:
        await held.came.wait()
        asyncio.get_running_loop().call_later(0.01, held.free.set)
        raise LookupError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(held.buy())
            group.create_task(fails())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(one) for one in caught.value.exceptions] == [LookupError]


@asyncio_only
@each_of("how", [by_a_timeout, by_its_task, partial(by_its_task, times=3), by_a_sibling])
async def test_it_is_raised_again_however_it_comes(anyio_backend: str, how: Callable[[Held], Awaitable[None]]) -> None:
    held = Held()
    await how(held)
    await held.gets_it()


async def silent(_: bytes) -> AsyncIterator[bytes]:
    yield b" "
    await anyio.sleep_forever()


async def dripping(_: bytes) -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await anyio.sleep(0.001)


@each_of("body", [None, silent, dripping])
async def test_it_has_a_bound_in_total(body: Any) -> None:
    """However the answer comes, or does not. The payment is open then, and the same call goes on with it."""
    held = Held(body=body, timeout=Timeout(connect=0.01, read=0.02))
    if body is not None:
        held.free.set()
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await held.came.wait()
                scope.cancel()

            group.start_soon(cancel)
            await held.buy()
    assert scope.cancelled_caught
    (payment,) = held.ledger.history()
    assert (how(payment), payment.submissions) == ("sent, unknown", 1)
    assert held.clock.waits == [], "a wait has begun after the cancellation"
    held.body = None
    held.free.set()
    nonces = set(held.service.authorizations)
    with pytest.raises(Exception, match="paid_undelivered"):  # this service keeps no answers
        await held.buy()
    assert set(held.service.authorizations) == nonces


@each_of("kind", ["503 before", "settlement failed", "429 before", "refused", "lost before"])
async def test_nothing_begins_after_it(kind: str) -> None:
    """No wait, no place in the rate limit, no second submission, no offer."""
    held = Held(kind)
    assert await canceled_by_a_scope(held.buy, held)
    (payment,) = held.ledger.history()
    assert (payment.stage, payment.submissions) == (PaymentStage.SENT, 1)
    assert (held.service.requests, held.clock.waits) == (2, [])
    assert (await held.buy()).charged
    assert len(held.service.authorizations) == 1


@asyncio_only
async def test_what_is_known_not_to_be_sent_is_not_held(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held("refused")
    networked(monkeypatch, httpx.MockTransport(held.handle))
    held.own_network = True
    await by_its_task(held)
    (payment,) = held.ledger.history()
    assert (payment.is_unsent, payment.charged) == (True, False)


async def test_a_payment_that_waits_for_a_connection_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    held.free.set()
    held.own_network = True
    networked(monkeypatch, httpx.MockTransport(held.handle))
    enter, entered = AsyncConnectionPool.enter, 0
    with anyio.CancelScope() as scope:

        async def waiting(pool: AsyncConnectionPool, timeout: float | None) -> Callable[[], None]:
            nonlocal entered
            entered += 1
            if entered == 2:
                scope.cancel()
                await anyio.sleep_forever()
            return await enter(pool, timeout)

        monkeypatch.setattr(AsyncConnectionPool, "enter", waiting)
        await held.buy()
    (payment,) = held.ledger.history()
    assert (payment.is_unsent, payment.charged, held.service.requests) == (True, False, 1)


async def test_closing_the_client_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_HOME", str(tmp_path))
    held, order = Held(ledger=Ledger(tmp_path / "ledger.sqlite3")), list[str]()
    client = held.client(ledger=None)

    async def buy() -> None:
        assert (await held.buy(client)).charged
        order.append("bought")

    async def close() -> None:
        await client.aclose()
        order.append("closed")

    async with anyio.create_task_group() as group:
        group.start_soon(buy)
        await held.came.wait()
        group.start_soon(close)
        for _ in range(5):
            await checkpoint()
        assert order == []
        assert how(held.ledger.history()[0]) == "sent"
        held.free.set()
    assert sorted(order) == ["bought", "closed"]
    assert how(held.ledger.history()[0]) == "answered"
    held.ledger.close()
    await client.aclose()  # again: nothing is under way


async def test_closing_the_client_does_not_wait_for_the_rest_of_a_call() -> None:
    held, waits = Held("503 before"), anyio.Event()
    held.free.set()

    async def sleep(seconds: float) -> None:
        waits.set()
        await anyio.sleep_forever()

    held.clock.sleep_async = sleep  # type: ignore[method-assign]
    client = held.client()
    async with anyio.create_task_group() as group:
        group.start_soon(held.buy, client)
        await waits.wait()
        with anyio.fail_after(20):
            await client.aclose()
        group.cancel_scope.cancel()


async def test_a_canceled_one_is_closed_after_it_is_written_down() -> None:
    held = Held()
    client = held.client()

    async def close() -> None:
        await held.came.wait()
        await client.aclose()
        assert how(held.ledger.history()[0]) == "answered"

    async with anyio.create_task_group() as group:
        group.start_soon(close)
        assert await canceled_by_a_scope(partial(held.buy, client), held)
    await held.gets_it()


def end_of_the_loop(held: Held) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(held.buy())
        await held.came.wait()
        del task

    asyncio.run(main())


def second_ctrl_c(held: Held) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(press)
        await held.buy()

    def press() -> None:
        if not held.came.is_set():
            asyncio.get_running_loop().call_soon(press)
            return
        signal.raise_signal(signal.SIGINT)  # it cancels the main task, which goes on
        asyncio.get_running_loop().call_later(0.01, signal.raise_signal, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def system_exit(held: Held) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(held.buy())
        await held.came.wait()
        raise SystemExit(task.done())

    with pytest.raises(SystemExit):
        asyncio.run(main())


@each_of("ends", [end_of_the_loop, second_ctrl_c, system_exit])
def test_the_end_of_the_event_loop_does_not_wait_for_it(ends: Callable[[Held], None]) -> None:
    """The answer would come in 95 seconds at the latest. The payment is open, and the same call goes on with it."""
    held = Held("503 before")
    ends(held)
    (payment,) = held.ledger.history()
    assert (how(payment), payment.submissions) == ("sent, unknown", 1)

    async def again() -> Any:
        held.came, held.free = anyio.Event(), anyio.Event()
        held.free.set()
        return await held.buy()

    assert asyncio.run(again()).payment.id == payment.id
    assert len(held.service.authorizations) == 1


async def test_it_is_written_down_though_all_threads_are_busy(tmp_path: Path) -> None:
    """Signers that block, for example."""
    ledger = Ledger(tmp_path / "ledger.sqlite3", sync=False)
    held, wake, left = Held(ledger=ledger), threading.Event(), list[bool]()

    def block() -> None:
        left.append(not wake.wait(30))

    async def free() -> None:
        await held.came.wait()
        limiter = anyio.to_thread.current_default_thread_limiter()
        for _ in range(int(limiter.total_tokens)):
            group.start_soon(anyio.to_thread.run_sync, block)
        while limiter.available_tokens:
            await checkpoint()
        held.free.set()

    async with anyio.create_task_group() as group:
        group.start_soon(free)
        try:
            assert (await held.buy()).charged
            assert how(held.ledger.history()[0]) == "answered"
            assert left == [], "it waited for a thread"
        finally:
            wake.set()
    ledger.close()
