"""An async payment is cancelled wherever it waits: what left is in the ledger, what did not is free, no claim stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import pytest
import sniffio
from anyio.lowlevel import checkpoint

from .._async._paidshop import EVERY_ANSWER, EVERY_STEP, OTHERS, Calls, Shop, a_call, goes_on, outcome, steps_of
from .._payments import how
from ._cancelling import MODES, Cancelling


async def cancelled_at(shop: Shop, at: int) -> bool:
    """Whether the cancellation came in time; by a scope, as anyio and trio do it."""
    with anyio.CancelScope() as scope:
        await Cancelling(outcome(shop), at, cancel=scope.cancel)
    return scope.cancel_called


async def settled(shop: Shop) -> None:
    """Threads that a cancelled task has left behind come to their end."""
    while (limiter := anyio.to_thread.current_default_thread_limiter()).borrowed_tokens:
        await checkpoint()
        assert limiter.borrowed_tokens <= 5


@pytest.mark.long
@EVERY_ANSWER
async def test_wherever_it_waits(kinds: list[str]) -> None:
    at = 0
    for at in range(1, 1000):
        shop = Shop(kinds)
        if not await cancelled_at(shop, at):
            break
        assert len(shop.service.authorizations) <= 1
        await shop.end()
    assert at >= 4  # it waits for the ledger three times


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@EVERY_ANSWER
async def test_wherever_it_waits_as_asyncio_does_it(kinds: list[str], anyio_backend: str) -> None:

    def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    at = 0
    for at in range(1, 1000):
        shop = Shop(kinds)
        cancelling = Cancelling(outcome(shop), at, cancel=cancel)
        await cancelling.in_a_task()
        await settled(shop)
        if not cancelling.reached:
            break
        assert len(shop.service.authorizations) <= 1
        await shop.end()
    assert at >= 4  # it waits for the ledger three times


@pytest.mark.long
@EVERY_STEP
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


async def test_a_timeout_that_strikes_when_the_answer_is_there() -> None:
    """The caller hears of it, and the same call gets the answer."""
    shop = Shop([])
    with anyio.CancelScope() as scope:
        shop.interrupt = scope.cancel
        await shop.buy()
    assert scope.cancelled_caught
    shop.interrupt = None
    assert await goes_on(shop, shop.buy) is not None


async def test_a_timeout_that_strikes_while_the_answer_is_written_down() -> None:
    whole, shop = Shop([]), Shop([])
    await whole.buy()
    with anyio.CancelScope() as scope:
        shop.ledger.at, shop.ledger.after = whole.ledger.calls.index("record") + 1, True
        shop.ledger.event = lambda: anyio.from_thread.run_sync(scope.cancel)
        await shop.buy()
    assert scope.cancelled_caught
    shop.ledger.calm()
    assert (await goes_on(shop, shop.buy)).again


async def test_before_anything_is_signed() -> None:
    shop = Shop([])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await shop.buy()
    assert shop.ledger.history() == []
    assert shop.service.requests == len(shop.signer.digests) == 0
    assert sniffio.current_async_library() in ("asyncio", "trio")


EVERY_CALL = pytest.mark.parametrize("of", [a_call, *OTHERS])


async def sweep(of: Callable[[Shop], Awaitable[Calls]], mode: str, patch: pytest.MonkeyPatch | None = None) -> int:
    """Whoever is cancelled hears of it; and the next equal call, made at once, goes on. Returns how often it waits."""
    at = 0
    for at in range(1, 1000):
        shop = Shop([], patch)
        act, then = await of(shop)
        cancelling = Cancelling(act(), at, mode)
        task = await cancelling.in_a_task()
        if not cancelling.reached:
            assert how(task.result().payment) == "answered"
            break
        assert task.cancelled()
        assert await goes_on(shop, then) is not None, "an answer was paid for and is lost"
    assert at >= 3
    return at


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_next_call_gets_the_answer(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by our own connections, which wait to connect, to write and to read as well."""
    injected = await sweep(a_call, "early")
    assert await sweep(a_call, "early", monkeypatch) > injected + 5


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("mode", MODES)
@EVERY_CALL
async def test_the_next_call_gets_the_answer_of_whatever_was_cancelled(of: Any, mode: str, anyio_backend: str) -> None:
    await sweep(of, mode)


@pytest.mark.long
@EVERY_CALL
async def test_the_next_call_gets_the_answer_after_a_scope_was_cancelled(of: Any) -> None:
    at = 0
    for at in range(1, 1000):
        shop = Shop([])
        act, then = await of(shop)
        got = None
        with anyio.CancelScope() as scope:
            got = await Cancelling(act(), at, cancel=scope.cancel)
        if got is None:
            assert await goes_on(shop, then) is not None, "an answer was paid for and is lost"
        elif not scope.cancel_called:
            break
    assert at >= 3
