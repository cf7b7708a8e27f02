"""An async payment is cancelled wherever it waits: what left is in the ledger, what did not is free, no claim stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import anyio
import anyio.from_thread
import pytest
import sniffio
from anyio.lowlevel import checkpoint

from tradesdk import PaymentState

from .._async._paidshop import EVERY_ANSWER, WHEN, Shop, outcome, steps_of


class Stepping(Awaitable[Any]):
    """Runs a call, and when it waits for the time number `at`, cancels it."""

    def __init__(self, call: Awaitable[Any], at: int, cancel: Callable[[], object]) -> None:
        self._call = call
        self._at = at
        self._cancel = cancel
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call.__await__()
        resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                wanted = resume()
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._at:
                self._cancel()
            try:
                got = yield wanted
            except BaseException as error:
                resume = _throwing(steps, error)
            else:
                resume = _sending(steps, got)


def _sending(steps: Any, value: Any) -> Callable[[], Any]:
    return (lambda: next(steps)) if value is None else (lambda: steps.send(value))


def _throwing(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


async def cancelled_at(shop: Shop, at: int) -> bool:
    """Whether the cancellation came in time; by a scope, as anyio and trio do it."""
    with anyio.CancelScope() as scope:
        await Stepping(outcome(shop), at, scope.cancel)
    return scope.cancel_called


async def killed_at(shop: Shop, at: int) -> bool:
    """The same as asyncio does it: `task.cancel()`, once, and nothing shields from it."""
    stepping = Stepping(outcome(shop), at, lambda: task.cancel())

    async def stepped() -> None:
        await stepping

    task = asyncio.ensure_future(stepped())
    await asyncio.wait([task])
    return stepping.waits >= at


async def settled(shop: Shop) -> None:
    """Threads that a cancelled task has left behind come to their end."""
    while (limiter := anyio.to_thread.current_default_thread_limiter()).borrowed_tokens:
        await checkpoint()
        assert limiter.borrowed_tokens <= 5


@EVERY_ANSWER
async def test_wherever_it_waits(kinds: list[str]) -> None:
    at = 0
    for at in range(1, 1000):
        shop = Shop(kinds)
        if not await cancelled_at(shop, at):
            break
        assert len(shop.service.authorizations) <= 1
        await shop.end()
    assert at > 10


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@EVERY_ANSWER
async def test_wherever_it_waits_as_asyncio_does_it(kinds: list[str], anyio_backend: str) -> None:
    at = 0
    for at in range(1, 1000):
        shop = Shop(kinds)
        reached = await killed_at(shop, at)
        await settled(shop)
        if not reached:
            break
        assert len(shop.service.authorizations) <= 1
        await shop.end()
    assert at > 10


@EVERY_ANSWER
@WHEN
async def test_while_the_ledger_is_asked(kinds: list[str], after: bool) -> None:
    for at in range(1, await steps_of(kinds) + 1):
        shop = Shop(kinds)
        with anyio.CancelScope() as scope:

            def cancel(scope: anyio.CancelScope = scope) -> None:
                anyio.from_thread.run_sync(scope.cancel)

            shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, cancel
            await outcome(shop)
        assert scope.cancel_called
        assert len(shop.service.authorizations) <= 1
        await shop.end()


@EVERY_ANSWER
async def test_when_the_answer_is_there(kinds: list[str]) -> None:
    """The cancellation is noticed at the next wait only, when the answer has been read but not written down."""
    shop = Shop(kinds)
    with anyio.CancelScope() as scope:
        shop.interrupt = scope.cancel
        await outcome(shop)
    await shop.end()


async def test_what_was_paid_for_still_arrives() -> None:
    """A timeout that strikes when the answer is there does not take it away."""
    shop = Shop([])
    got = None
    with anyio.CancelScope() as scope:
        shop.interrupt = scope.cancel
        got = await shop.buy()
    assert scope.cancel_called
    assert got is not None
    assert got.payment.state is PaymentState.DELIVERED
    assert shop.ledger.history()[0].state is PaymentState.DELIVERED


async def test_before_anything_is_signed() -> None:
    shop = Shop([])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await shop.buy()
    assert shop.ledger.history() == []
    assert shop.service.requests == len(shop.signer.digests) == 0
    assert sniffio.current_async_library() in ("asyncio", "trio")
