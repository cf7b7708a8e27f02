"""The official clients of the Model Context Protocol use `trade mcp`: every tool, every kind of error, a service that
hangs, and a client that quits.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Ledger, LocalSigner
from tradesdk_cli.mcp.catalog import Scope, tools
from tradesdk_mock import MockServer

from ..cli._mcp import Person, wallet_of
from ..cli._mcp import environment as settings
from ._programs import Program
from .environments import python_in

pytestmark = pytest.mark.peers
NODE = pytest.mark.skipif(not os.environ.get("PEERS_NODE"), reason="run by scripts/peers --node")
CLIENTS = [
    "python 1",
    "python 2",
    pytest.param("node v1", marks=NODE),
    pytest.param("node v2", marks=NODE),
]
HANGS = 2.5
Environment = Callable[[str], Path]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(seed=5, signals="scripted") as running:
        running.populate("peer")
        yield running


@contextmanager
def connected(
    client: str, environment: Environment, server: MockServer, home: Path, *options: str
) -> Iterator[Program]:
    """A client that has started `trade mcp`, and listed its tools."""
    name, version = client.split()
    if name == "node":
        program = Program("node", "client_mcp.mjs", version, folder=environment("node"))
    else:
        python = python_in(environment("mcp1")) if version == "1" else sys.executable
        program = Program(python, "programs/client_mcp.py")
    inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
    env = inherited | settings(home, server, "peer") | {"TRADE_MAX_RETRIES": "0"}
    with program as running:
        args = ["-m", "tradesdk_cli", "mcp", *options]
        listed = running.ask({"command": sys.executable, "args": args, "env": env})
        scope = Scope(write="--write" in options, spend=1)
        assert [tool["name"] for tool in listed] == [tool.name for tool in tools(scope)]
        yield running


def asking(program: Program) -> tuple[Ask, Ask]:
    """Calls that must work, and such that must fail: the client takes the answer either way."""

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = program.ask({"tool": tool, "arguments": arguments})
        assert answer.get("error") is False, (tool, answer)
        assert json.loads(answer["text"]) == answer["structured"]
        return dict(answer["structured"])

    def fault(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = program.ask({"tool": tool, "arguments": arguments})
        assert answer.get("error") is True, (tool, answer)
        error = json.loads(answer["text"])["error"]
        assert error["next_step"]
        return dict(error)

    return call, fault


@pytest.mark.parametrize("client", CLIENTS)
def test_every_tool_and_every_kind_of_error(
    client: str, environment: Environment, server: MockServer, tmp_path: Path
) -> None:
    person, payer = Person(tmp_path, time.time), LocalSigner.from_key(wallet_of(tmp_path)).address
    with connected(client, environment, server, tmp_path, "--write", "--spend", "0.50") as program:
        call, fault = asking(program)
        wallet = next(one for one in call("account", balances=True)["wallets"] if one["chain_id"] == 8453)
        agent = call("agents", limit="1")["items"][0]["id"]
        call("agents", id=agent, fields=["id", "risk"])
        for tool in ("results", "trades", "positions", "payments"):
            call(tool, limit=1)
        for chain in ("base", 8453, "56"):
            call("signals", chain=chain, limit=1)
        call("signals", chain="base", since="2026-01-01T00:00:00Z", limit=1)
        call("market_tokens", search="brett")
        call("docs", topic="over_budget")
        assert call("market_quote", data="prices", tokens=["BRETT"])["price_usd"] == "0.03"

        buy = {"data": "prices", "tokens": ["BRETT"], "purchase": "brett"}
        person.approve(call("market_buy", **buy)["code"])
        bought = call("market_buy", **buy)
        assert (bought["status"], bought["paid_now_usd"]) == ("done", "0.03")
        assert call("payments", action="resume", id=bought["payment"])["again"]
        create = {"operation": "create", "name": "peer", "wallet_id": wallet["id"], "chain": "base"}
        person.approve(call("agent_change", **create)["code"])
        made = call("agent_change", **create)["id"]
        update = {"operation": "update", "id": made, "max_positions": 3}
        person.refuse(call("agent_change", **update)["code"])

        for tool, arguments, code in (
            ("agents", {"limit": "many"}, "invalid_arguments"),
            ("agents", {"acknowledged": True}, "invalid_arguments"),
            ("positions", {"limit": 9999}, "invalid_arguments"),
            ("signals", {"chain": "base", "since": "x"}, "invalid_arguments"),
            ("agents", {"id": "agt_nobody"}, "not_found"),
            ("agent_change", update, "approval_refused"),
            ("agent_change", create, "approval_used"),
            ("agent_change", {"operation": "update", "id": made, "name": "peer"}, "nothing_to_change"),
            ("market_buy", {"data": "prices", "tokens": ["NOSUCH"], "purchase": "x"}, "unknown_token"),
            ("market_buy", {"data": "top", "sort_by": "ROI", "purchase": "brett"}, "purchase_changed"),
            ("payments", {"action": "get", "id": "pay_nothing"}, "no_such_payment"),
        ):
            assert fault(tool, **arguments)["code"] == code, (tool, arguments)
        for status, code in ((401, "unauthorized"), (403, "forbidden"), (500, "internal_error"), (429, "rate_limited")):
            server.add_fault("status", route="/v1/positions", status=status)
            assert fault("positions")["code"] == code
            server.clear_faults()

        lost = {"data": "metrics", "purchase": "lost"}
        person.approve(call("market_buy", **lost)["code"])
        server.add_fault("status", route="/v1/aggregate-metrics", paid="only", status=418)
        error = fault("market_buy", **lost)
        assert (error["charged"], error["payment"]["stage"]) == ("unknown", "sent")
        server.clear_faults()
        assert call("payments", action="resume", id=error["payment"]["id"])["status"] == "done"
    assert len(server.payments.settlements(payer)) == 2


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_gives_up_and_one_that_quits(
    client: str, environment: Environment, server: MockServer, tmp_path: Path
) -> None:
    """The purchase that was sent ends by itself, the tools go on meanwhile, and it is paid once."""
    payer = LocalSigner.from_key(wallet_of(tmp_path)).address
    buy = {"data": "metrics", "purchase": "slow"}
    options = ("--spend", "0.50", "--auto-spend", "0.10")
    with connected(client, environment, server, tmp_path, *options) as program:
        call, _ = asking(program)
        call("market_buy", data="prices", tokens=["ETH"], purchase="warm")  # what is imported for it is there
        server.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=HANGS)
        assert program.ask({"tool": "market_buy", "arguments": buy, "within": 1.5}) == {"gave_up": True}
        assert call("payments")["items"][0]["stage"] == "sent"
        assert call("market_buy", **buy)["again"], "it waited for the one that was sent"
        program.tell({"tool": "market_buy", "arguments": {**buy, "purchase": "killed"}})
        until(lambda: server.payments.signatures(payer) == 3)
        program.kill()
    with Ledger(tmp_path / "ledger.sqlite3") as ledger:
        until(lambda: [one.stage.value for one in ledger.history()] == ["answered"] * 3)
    assert len(server.payments.settlements(payer)) == 3


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)
