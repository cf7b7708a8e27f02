"""Tasks of several processes buy at once: exactly what the budget of their one ledger allows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tradesdk import Budget, Ledger, MarketClient
from tradesdk_mock import MockServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PRICE = 30_000
KEY = "0x" + "4d" * 32
TASKS, PROCESSES, PURCHASES = 16, 4, 30
BUDGET = Budget.from_micro({"total": PRICE * (PURCHASES + 1) - 10_000})
"""A cent short of one more."""

BUYER = """
import json, sys
import anyio
from tradesdk import AsyncMarketClient, Budget, Ledger, LocalSigner, PaymentRefusedError

url, path, key, most, tokens = sys.argv[1:]

async def main():
    sold = []

    async def buy(token):
        try:
            await client.token_prices([token])
        except PaymentRefusedError as error:
            sold.append(error.code)
        else:
            sold.append("delivered")

    client = AsyncMarketClient(
        base_url=url, signer=LocalSigner.from_key(key), ledger=Ledger(path, timeout=60),
        budget=Budget.from_micro({"total": int(most)}),
    )
    async with client, anyio.create_task_group() as group:
        for token in json.loads(tokens):
            group.start_soon(buy, token)
    print(json.dumps(sold))

anyio.run(main)
"""


def test_processes(tmp_path: Path) -> None:
    """16 tasks in each; half of the calls are those of the others, and wait for their turn: each is paid for."""
    path, half = tmp_path / "ledger", TASKS // 2
    with MockServer(seed=5) as server:
        with MarketClient(base_url=server.market_url, ledger=Ledger.memory()) as client:
            listed = client.supported_tokens(limit=half * (PROCESSES + 1)).data.tokens
        tokens = [token.token_address for token in listed]
        running = []
        for begin in range(half, len(tokens), half):
            own = json.dumps([*tokens[:half], *tokens[begin : begin + half]])
            command = [sys.executable, "-W", "error", "-c", BUYER, server.market_url, str(path), KEY]
            running.append(
                subprocess.Popen(
                    [*command, str(BUDGET.total), own],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        assert len(running) == PROCESSES
        sold: list[str] = []
        for process in running:
            out, errors = process.communicate(timeout=540)
            assert (process.returncode, errors) == (0, "")
            sold += json.loads(out)
        assert (sold.count("delivered"), sold.count("over_budget")) == (PURCHASES, TASKS * PROCESSES - PURCHASES)
        settlements = server.payments.settlements()
        assert len(settlements) == server.payments.signatures() == PURCHASES
        assert {settlement.amount for settlement in settlements} == {PRICE}
        with Ledger(path) as ledger:
            spending = ledger.spending(BUDGET, now=server.clock.now())
            assert (spending.total.counted, spending.held) == (server.payments.spent(), 0)
            assert len(ledger.history(limit=1000)) == PURCHASES, "the refused ones left no trace"
