"""An async payment is cancelled wherever it waits: what left is in the ledger, what did not is free, no claim stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import pytest
import sniffio

from .._async._paidshop import OTHERS, SOME, Calls, Shop, a_call, goes_on, outcome
from .._payments import how
from .._rows import each_of
from ._cancelling import MODES, Cancelling


@pytest.mark.long
@each_of("kinds", SOME)
@each_of("after", [None, False, True])
async def test_wherever_it_waits(kinds: list[str], after: bool | None) -> None:
    """At any wait; or before or `after` any step of the ledger, whose threads the cancellation meets."""
    at = 0
    for at in range(1, 1000):
        shop = Shop(kinds)
        with anyio.CancelScope() as scope:
            if after is None:
                await Cancelling(outcome(shop), at, cancel=scope.cancel)
            else:
                shop.ledger.at, shop.ledger.after = at, after
                shop.ledger.event = partial(anyio.from_thread.run_sync, scope.cancel)
                await outcome(shop)
        if not scope.cancel_called:
            break
        assert len(shop.service.authorizations) <= 1
        await shop.end()
    assert at >= 4  # it waits for the ledger three times


async def test_before_anything_is_signed() -> None:
    shop = Shop([])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await shop.buy()
    assert shop.ledger.history() == []
    assert shop.service.requests == len(shop.signer.digests) == 0
    assert sniffio.current_async_library() in ("asyncio", "trio")


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
    assert await sweep(a_call, "early", monkeypatch) > injected + 1


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@each_of(("of", "mode"), [*((a_call, mode) for mode in MODES[1:]), *((of, "early") for of in OTHERS)])
async def test_the_next_call_gets_the_answer_of_whatever_was_cancelled(of: Any, mode: str, anyio_backend: str) -> None:
    await sweep(of, mode)


@pytest.mark.long
@each_of("of", [a_call, *OTHERS])
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
