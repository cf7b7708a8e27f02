"""Threads, and tasks of several processes, buy at once: exactly what the budget of their one ledger allows."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tradesdk import Budget, Ledger, LocalSigner, MarketClient, PaymentRefusedError
from tradesdk_mock import MockServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PRICE = 30_000
KEY = "0x" + "4d" * 32
TASKS = 16


def budget(purchases: int) -> Budget:
    """For so many purchases, and a cent short of one more."""
    return Budget.from_micro({"total": PRICE * (purchases + 1) - 10_000})


def check(server: MockServer, path: Path, purchases: int) -> None:
    settlements = server.payments.settlements()
    assert len(settlements) == server.payments.signatures() == purchases
    assert {settlement.amount for settlement in settlements} == {PRICE}
    with Ledger(path) as ledger:
        spending = ledger.spending(budget(purchases), now=server.clock.now())
        assert (spending.total.counted, spending.held) == (server.payments.spent(), 0)
        assert len(ledger.history(limit=1000)) == purchases, "the refused ones left no trace"


def symbols(server: MockServer, count: int) -> list[str]:
    with MarketClient(base_url=server.market_url, ledger=Ledger.memory()) as client:
        return [token.token_address for token in client.supported_tokens(limit=count).data.tokens]


def test_threads(tmp_path: Path) -> None:
    """Half of them make the same call."""
    path = tmp_path / "ledger"
    with MockServer(seed=5) as server:
        tokens = symbols(server, TASKS)
        with MarketClient(
            base_url=server.market_url, signer=LocalSigner.from_key(KEY), budget=budget(5), ledger=Ledger(path)
        ) as client:

            def buy(token: str) -> str:
                try:
                    client.token_prices([token])
                except PaymentRefusedError as error:
                    return error.code
                return "delivered"

            with ThreadPoolExecutor(TASKS) as threads:
                sold = list(threads.map(buy, [*tokens[: TASKS // 2], *tokens[:1] * (TASKS // 2)]))
        assert (sold.count("delivered"), sold.count("over_budget")) == (5, TASKS - 5)
        check(server, path, 5)


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
    path, processes, purchases = tmp_path / "ledger", 4, 30
    most = budget(purchases).total
    with MockServer(seed=5) as server:
        tokens = symbols(server, TASKS // 2 * (processes + 1))
        running = []
        for number in range(processes):
            begin = TASKS // 2 * (number + 1)
            own = [*tokens[: TASKS // 2], *tokens[begin : begin + TASKS // 2]]
            command = [sys.executable, "-W", "error", "-c", BUYER, server.market_url, str(path), KEY, str(most)]
            running.append(
                subprocess.Popen(
                    [*command, json.dumps(own)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        sold: list[str] = []
        for process in running:
            out, errors = process.communicate(timeout=540)
            assert (process.returncode, errors) == (0, "")
            sold += json.loads(out)
        assert (sold.count("delivered"), sold.count("over_budget")) == (purchases, TASKS * processes - purchases)
        check(server, path, purchases)
