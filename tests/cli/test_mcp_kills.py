"""A server is killed in the middle of a purchase; the next one continues the same name, and it is paid once.

TRADE_MCP_KILLS=200 pytest -m long -k mcp_kills plays more (scripts/soak agents).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Ledger, LocalSigner
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.catalog import Scope
from tradesdk_mock import MockServer

from ._mcp import Box, Person, environment, toolbox, wallet_of
from ._terminal import TRADE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system"),
]
KILLS = int(os.environ.get("TRADE_MCP_KILLS", "16"))
SEED = int(os.environ.get("TRADE_SEED") or 5)
ROOT = Path(__file__).parents[2]

STEPS = ("begin", "pay", "paid", "end")
"""Before the purchase is written down as begun; before and after it is paid; after it is written down as done."""

# A fork of a process that has imported everything buys. It kills itself at a step, or is killed after a part of the
# time that buying usually takes.
DRIVER = """
import os, signal, sys, time
from pathlib import Path
from tests.cli._mcp import toolbox
from tradesdk_cli.mcp.approvals import Approvals
from tradesdk_cli.mcp.catalog import Scope

begin, end = Approvals.begin, Approvals.end

def die(*given):
    os.kill(os.getpid(), signal.SIGKILL)

def then_die(call):
    return lambda *given: die(call(*given))

def kill_at(step):
    if step in ("begin", "pay"):
        Approvals.begin = die if step == "begin" else then_die(begin)
    elif step in ("paid", "end"):
        Approvals.end = die if step == "paid" else then_die(end)

class Server:
    url = market_url = sys.argv[1]

def buy(home, auto):
    with toolbox(Path(home), Server(), Scope(spend=500_000, auto=auto), tenant="kills") as box:
        box.call("market_buy", {"data": "metrics", "purchase": "totals"})

def child(home, auto=0, step="", seconds=None):
    began = time.perf_counter()
    pid = os.fork()
    if not pid:
        try:
            kill_at(step)
            buy(home, auto)
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return time.perf_counter() - began

Path(sys.argv[2], "warm").mkdir()
buy(f"{sys.argv[2]}/warm", 500_000)
usual = 0
for number in range(3):
    Path(sys.argv[2], f"usual{number}").mkdir()
    usual = max(usual, child(f"{sys.argv[2]}/usual{number}", 500_000))
print("ready", flush=True)
for line in sys.stdin:
    home, moment = line.split()
    if moment[0].isdigit():
        child(home, seconds=usual * float(moment))
    else:
        child(home, step=moment)
    print("killed", flush=True)
"""


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(seed=5, signals="scripted") as running:
        running.populate("kills")
        yield running


@pytest.mark.parametrize("quits", ["EOF, then SIGTERM", "SIGINT", "SIGTERM"])
def test_a_client_that_quits_lets_the_purchase_end(tmp_path: Path, server: MockServer, quits: str) -> None:
    server.add_fault("latency", route="/v1/aggregate-metrics", paid="only", seconds=1.0)
    wanted = {"data": "metrics", "purchase": "totals"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "market_buy", "arguments": wanted}},
    ]
    payer = LocalSigner.from_key(wallet_of(tmp_path)).address
    argv = [*TRADE, "mcp", "--spend", "0.50", "--auto-spend", "0.50"]
    env = dict(os.environ) | environment(tmp_path, server, "kills")
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
        while not server.payments.signatures(payer):
            assert process.poll() is None
            time.sleep(0.01)
        if quits.startswith("EOF"):
            process.stdin.close()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT if quits == "SIGINT" else signal.SIGTERM)
        process.wait(60)
    with Ledger(tmp_path / "ledger.sqlite3") as ledger:
        assert [one.stage.value for one in ledger.history()] == ["answered"]
    server.clear_faults()
    with toolbox(tmp_path, server, Scope(spend=500_000), tenant="kills") as box:
        assert box.call("market_buy", wanted)["again"]
    assert len(server.payments.settlements(payer)) == 1


def finished(box: Box) -> str:
    """How the same purchase ends: delivered; or paid, when its answer was lost with the process that was killed."""
    try:
        return str(box.call("market_buy", {"data": "metrics", "purchase": "totals"})["status"])
    except Fault as fault:
        if fault.code not in ("paid_undelivered", "unresolved_payment"):
            raise
        return fault.code


def test_killed_in_the_middle_of_purchases(tmp_path: Path, server: MockServer) -> None:
    dice = random.Random(SEED)
    # Some at each step, as it depends on the machine what part of the time that is; the others at any moment.
    moments = [[step] * 2 for step in STEPS * max(1, KILLS // 12)]
    moments += [[f"{dice.random():.4f}" for _ in range(2)] for _ in range(KILLS - len(moments))]
    dice.shuffle(moments)
    argv = [sys.executable, "-W", "error", "-c", DRIVER, server.url, str(tmp_path)]
    scope = Scope(spend=500_000)
    states: list[str] = []
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        for number, twice in enumerate(moments):
            home = tmp_path / str(number)
            home.mkdir()
            person = Person(home, time.time)
            with toolbox(home, server, scope, tenant="kills") as box:
                asked = box.call("market_buy", {"data": "metrics", "purchase": "totals"})
            person.approve(asked["code"])
            for moment in twice:
                driver.stdin.write(f"{home} {moment}\n")
                driver.stdin.flush()
                driver.stdout.readline()
            states.append(person.all()[0].state)
            with toolbox(home, server, scope, tenant="kills") as box:
                ends = [finished(box), finished(box)]
            payer = LocalSigner.from_key(wallet_of(home)).address
            assert len(server.payments.settlements(payer)) == 1, (number, states[-1])
            assert server.payments.signatures(payer) == 1
            if twice[0] in STEPS:  # none of them is between sending the payment and keeping its answer
                assert ends == ["done", "done"], (number, twice)
        driver.stdin.close()
    assert {"approved", "started", "done"} <= set(states), "they were killed before, in and after the purchase"
