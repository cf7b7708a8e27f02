"""A test that freezes time with freezegun, and the mock in process: nothing times out, and nothing waits forever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from freezegun import freeze_time

from tradesdk import (
    AsyncMarketClient,
    AsyncTradeClient,
    Budget,
    Ledger,
    MarketClient,
    SystemClock,
    TradeClient,
)
from tradesdk_mock import MockServer, MockService

from .._paidservice import CountingSigner
from .._rows import each_of

pytestmark = pytest.mark.long

DAY = "2030-03-01 12:00:00"
NOON = datetime(2030, 3, 1, 12, tzinfo=UTC).timestamp()
HOW: dict[str, dict[str, Any]] = {"still": {}, "ticking": {"tick": True}, "a step a call": {"auto_tick_seconds": 0.01}}
TOKENS = ["ETH", "BRETT"]


def in_thread(task: Callable[[], object]) -> None:
    """Run `task` as a thread's own function, with no call in between: there, freezegun shows real time.

    A task that waits forever fails.
    """
    problems: list[BaseException] = []

    class Worker(threading.Thread):
        def run(self) -> None:
            try:
                task()
            except BaseException as error:
                problems.append(error)

    worker = Worker(daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), "it waits forever"
    if problems:
        raise problems[0]


def paying(path: Path) -> dict[str, Any]:
    """With a signer of another's making and a ledger in a file: the async client uses both in threads."""
    return {"signer": CountingSigner(), "budget": Budget(per_day="5"), "ledger": Ledger(path, sync=False)}


@each_of("how", list(HOW))
@each_of("when", ["before", "after"])
def test_payments_and_calls(how: str, when: str, tmp_path: Path) -> None:
    """Frozen before everything is made, or when it is there: a jump of time."""
    with ExitStack() as stack:
        freeze = freeze_time(DAY, **HOW[how])
        if when == "before":
            stack.enter_context(freeze)
        mock = stack.enter_context(MockService(seed=7, signals="scripted"))
        http = stack.enter_context(httpx.Client(transport=mock.transport(), base_url=mock.url))
        market = stack.enter_context(MarketClient(http_client=http, **paying(tmp_path / f"{how} {when}.sqlite3")))
        trade = stack.enter_context(TradeClient(api_key="mock_full_me", http_client=http))
        if when == "after":
            stack.enter_context(freeze)
        for _ in range(2):
            assert market.token_prices(TOKENS).charged is True
        in_thread(lambda: market.token_prices(TOKENS))
        in_thread(trade.account.get)
        (*_, first) = market.payments.list()
        assert 0 <= first.created - NOON < 60, "the day of the test"
        mock.assert_requested("GET", "/v1/account", times=1)


@each_of("backend", ["asyncio", "trio"])
@each_of("how", list(HOW))
def test_payments_in_async_code(backend: str, how: str, tmp_path: Path) -> None:
    async def pay() -> None:
        with MockService(seed=7, signals="scripted") as mock:
            async with httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http:
                store = paying(tmp_path / f"{how} {backend}.sqlite3")
                async with AsyncMarketClient(http_client=http, **store) as market:
                    for _ in range(2):
                        assert (await market.token_prices(TOKENS)).charged is True

    with freeze_time(DAY, **HOW[how]):
        anyio.run(pay, backend=backend)


@each_of("how", list(HOW))
@each_of("flavor", ["blocking", "asyncio", "trio"])
def test_a_stream_of_a_market_that_runs(how: str, flavor: str) -> None:
    """Where time stands still, waits move the mock's clock: else no signal would ever be due."""
    seen: list[str] = []

    def follow() -> None:
        with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
            client = TradeClient(api_key="mock_full_me", http_client=http, clock=mock.clock)
            with client.signals.stream(chain=8453) as stream:
                for signal in stream:
                    seen.append(signal.id)
                    if len(seen) == 3:
                        return

    async def follow_async() -> None:
        async with httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http:
            client = AsyncTradeClient(api_key="mock_full_me", http_client=http, clock=mock.clock)
            async with client.signals.stream(chain=8453) as stream:
                async for signal in stream:
                    seen.append(signal.id)
                    if len(seen) == 3:
                        return

    with freeze_time(DAY, **HOW[how]), MockService(seed=7) as mock:
        mock.clock.move(speed=1_000)
        in_thread(follow if flavor == "blocking" else lambda: anyio.run(follow_async, backend=flavor))
    assert len(set(seen)) == 3


@each_of("how", list(HOW))
@each_of("when", ["before", "after"])
def test_a_server_in_this_process(how: str, when: str) -> None:
    """On a port, so through connections with deadlines, from this thread and from others."""
    with ExitStack() as stack:
        freeze = freeze_time(DAY, **HOW[how])
        if when == "before":
            stack.enter_context(freeze)
        # A market that is moved by years would first publish their signals.
        server = stack.enter_context(MockServer(seed=7, signals="live" if when == "before" else "scripted"))
        server.clock.move(speed=1_000)
        trade = stack.enter_context(TradeClient(api_key="mock_full_me", base_url=server.url))
        trade.account.get()
        if when == "after":
            stack.enter_context(freeze)
        trade.account.get()
        in_thread(trade.account.get)
        if when == "before":
            with trade.signals.stream(chain=8453) as stream:
                in_thread(lambda: next(stream))


def test_time_is_the_same_in_every_thread_and_at_every_depth() -> None:
    clock, found = SystemClock(), []

    def deeper(calls: int) -> float:
        return deeper(calls - 1) if calls else clock.now()

    with freeze_time(DAY):
        for calls in range(8):
            in_thread(partial(lambda calls: found.append(deeper(calls)), calls))
        assert set(found) == {clock.now()}
        before = clock.monotonic()
        in_thread(lambda: found.append(clock.monotonic()))
    assert before <= found[-1] <= clock.monotonic()
