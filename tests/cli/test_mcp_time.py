"""Every tool of `trade mcp` answers in time, and what was sent ends by itself, at a service that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk import LocalSigner, TradeClient
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.catalog import Scope
from tradesdk_cli.mcp.tools import AT_ONCE, WITHIN
from tradesdk_mock import MockServer

from ._mcp import Box, Person, toolbox, wallet_of

pytestmark = pytest.mark.long
SOON, HANGS = 0.4, 1.6
"""Seconds within which tools answer here, and for which the service hangs."""
BUY = {"data": "metrics", "purchase": "totals"}
OTHER = {"data": "prices", "tokens": ["ETH"], "purchase": "other"}
AUTO = Scope(write=True, spend=5_000_000, auto=100_000)


@pytest.fixture
def slow() -> Iterator[MockServer]:
    with MockServer(seed=5, signals="scripted") as server:
        server.populate("house")
        yield server


@pytest.fixture
def box(tmp_path: Path, slow: MockServer) -> Iterator[Box]:
    with toolbox(tmp_path, slow, AUTO) as made:
        made.call("market_quote", {"data": "metrics"})  # what is imported at the first call is there
        made.call("agents", {})
        made.mcp.within = SOON
        yield made


def in_time(box: Box, tool: str, arguments: Any) -> Any:
    """The answer or the fault, which must be there in time."""
    began = time.monotonic()
    try:
        return box.call(tool, arguments)
    except Fault as fault:
        return fault
    finally:
        assert time.monotonic() - began < HANGS, f"{tool} took {time.monotonic() - began:.1f} s"


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def settled(server: MockServer, home: Path) -> int:
    return len(server.payments.settlements(LocalSigner.from_key(wallet_of(home)).address))


def test_clients_wait_for_longer_than_a_tool_takes() -> None:
    assert WITHIN <= 50 < 60


def test_a_purchase_at_a_service_that_hangs(box: Box, slow: MockServer, tmp_path: Path) -> None:
    slow.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=HANGS)
    fault = in_time(box, "market_buy", BUY)
    assert (fault.code, fault.about, fault.retryable) == ("still_under_way", {"charged": "unknown"}, True)
    assert in_time(box, "market_buy", OTHER)["status"] == "done", "the next one does not wait for it"
    until(lambda: settled(slow, tmp_path) == 2)
    slow.clear_faults()
    until(lambda: isinstance(in_time(box, "market_buy", BUY), dict))
    answer = box.call("market_buy", BUY)
    assert (answer["again"], answer["paid_now_usd"]) == (True, "0.00")
    assert settled(slow, tmp_path) == slow.payments.signatures(LocalSigner.from_key(wallet_of(tmp_path)).address) == 2


def test_nothing_is_sent_again_for_a_client_that_no_longer_waits(box: Box, slow: MockServer, tmp_path: Path) -> None:
    """One exchange goes on by itself: there is no retry after it."""
    slow.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=HANGS / 2)
    slow.add_fault("status", route="/v1/aggregate-metrics", paid="only", status=503)
    assert in_time(box, "market_buy", BUY).code == "still_under_way"
    box.run(box.mcp.finish)
    assert len([one for one in slow.journal() if one.payment is not None]) == 1


def test_a_canceled_purchase_gives_its_place_back(box: Box, slow: MockServer, tmp_path: Path) -> None:
    slow.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=HANGS)
    payer = LocalSigner.from_key(wallet_of(tmp_path)).address
    box.mcp.within = 60  # however busy the machine is, all are sent before they are canceled
    calls = [box.start(box.mcp.call, "market_buy", {**BUY, "purchase": f"p{n}"}) for n in range(AT_ONCE)]
    until(lambda: slow.payments.signatures(payer) == AT_ONCE)
    for call in calls:
        call.cancel()
    box.mcp.within = SOON
    assert in_time(box, "market_buy", OTHER)["status"] == "done"
    until(lambda: settled(slow, tmp_path) == AT_ONCE + 1)
    assert box.limit.spent == AT_ONCE * 60_000 + 30_000, "what was sent stays counted"
    until(lambda: isinstance(in_time(box, "market_buy", {**BUY, "purchase": "p0"}), dict))
    assert settled(slow, tmp_path) == AT_ONCE + 1


def test_reads_wait_for_no_write(box: Box, slow: MockServer) -> None:
    slow.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=HANGS)
    calls = [box.start(box.mcp.call, "market_buy", {**BUY, "purchase": f"p{n}"}) for n in range(AT_ONCE + 2)]
    for tool, given in (("payments", {}), ("docs", {}), ("agents", {}), ("payments", {"action": "budget"})):
        assert isinstance(in_time(box, tool, given), dict), tool
    faults = [call.exception() for call in calls]
    assert {fault.code for fault in faults if isinstance(fault, Fault)} == {"still_under_way"}


def test_reads_that_are_canceled_or_hang(box: Box, slow: MockServer) -> None:
    slow.add_fault("latency", route="/v1/positions", seconds=60)
    calls = [box.start(box.mcp.call, "positions", {}) for _ in range(AT_ONCE)]
    until(lambda: len([one for one in slow.journal() if one.path == "/v1/positions"]) >= 1)
    for call in calls:
        call.cancel()
    assert isinstance(in_time(box, "agents", {}), dict)
    assert in_time(box, "positions", {}).code == "timeout"


def test_a_change_at_a_service_that_hangs(box: Box, slow: MockServer, tmp_path: Path) -> None:
    with TradeClient(base_url=slow.url, api_key="mock_full_house") as trade:
        wallet = next(one for one in trade.wallets.list() if one.chain_id == 8453)
        agent = trade.agents.create(name="mine", wallet_id=wallet.id, chain_id=8453, max_positions=2).id
        update = {"operation": "update", "id": agent, "max_positions": 7}
        person = Person(tmp_path, time.time)
        person.approve(box.call("agent_change", update)["code"])
        slow.add_fault("latency", route="/v1/agents/{agent_id}", method="PATCH", seconds=HANGS)
        fault = in_time(box, "agent_change", update)
        assert (fault.code, fault.about) == ("still_under_way", {})
        until(lambda: [one.state for one in person.all()] == ["done"])
        assert trade.agents.get(agent).max_positions == 7
    assert len([one for one in slow.journal() if one.method == "PATCH"]) == 1
