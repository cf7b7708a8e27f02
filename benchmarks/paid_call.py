"""A whole paid call, from the request to the answer, beside the official x402 client with requests and with httpx.

The mock is another process. The official clients keep no ledger. Ours is in memory, or in a file where each
of its two writes is synced; that row counts wall time. `ledger_write` and `fleet` measure the ledger alone.
"""

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from _measure import Bar, finish, in_process, installed, measure, report, verdict
from _mocks import served, subjects

from tradesdk import AsyncMarketClient, Budget, Ledger, LocalSigner, MarketClient

ROUNDS, TIMES = 40, 5
KEY = "0x" + "01" * 32
PATH, TOKENS = "/v1/token-prices", ["ETH", "BRETT"]
COMMITS = 2.3
"""How many synced commits of sqlite3 a call over a file may take longer than the official one: it makes two."""
MEMORY, FILE, ASYNC = "tradesdk, ledger in memory", "tradesdk, ledger in a file", "tradesdk, async, ledger in memory"
REQUESTS, HTTPX, COMMIT = "x402 with requests", "x402 with httpx", "sqlite3: one synced commit"


def committed(path: Path) -> Callable[[], object]:
    """One row in one transaction, on disk when it returns."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE payments (row TEXT)")
    return lambda: db.execute("INSERT INTO payments VALUES (?)", ("r" * 2_000,))


def options(url: str, ledger: Ledger) -> dict[str, Any]:
    """The guards are on; the list of tokens, which is kept for an hour, is read while nothing is measured."""
    budget = Budget(per_hour="100000", total="1000000")
    return {"base_url": url, "signer": LocalSigner.from_key(KEY), "budget": budget, "ledger": ledger}


def official(url: str, loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], object]]:
    """The official clients, each with connections that stay open."""
    from eth_account import Account
    from x402 import x402Client, x402ClientSync
    from x402.http.clients import wrapHttpxWithPayment, x402_requests
    from x402.mechanisms.evm.exact.register import register_exact_evm_client
    from x402.mechanisms.evm.signers import EthAccountSigner

    signer = EthAccountSigner(Account.from_key(KEY))
    body = {"tokens": [{"identifier": one} for one in TOKENS]}
    session = x402_requests(register_exact_evm_client(x402ClientSync(), signer))
    http = wrapHttpxWithPayment(register_exact_evm_client(x402Client(), signer), timeout=30)

    def by_requests() -> None:
        answer = session.post(url + PATH, json=body, timeout=30)
        assert answer.json()["success"]

    def by_httpx() -> None:
        answer = loop.run_until_complete(http.post(url + PATH, json=body))
        assert answer.json()["success"]

    return {REQUESTS: by_requests, HTTPX: by_httpx}


with tempfile.TemporaryDirectory() as folder, served(subjects(Path(folder))["the mock"]) as mock:
    url = f"http://127.0.0.1:{mock.port}"
    loop = asyncio.new_event_loop()
    memory = MarketClient(**options(url, Ledger.memory()))
    file = MarketClient(**options(url, Ledger(Path(folder) / "ledger.sqlite3")))
    asynchronous = AsyncMarketClient(**options(url, Ledger.memory()))

    def bought(client: MarketClient) -> None:
        assert client.token_prices(TOKENS).payment is not None

    calls: dict[str, Callable[[], object]] = {
        MEMORY: lambda: bought(memory),
        FILE: lambda: bought(file),
        ASYNC: lambda: loop.run_until_complete(asynchronous.token_prices(TOKENS)),
        COMMIT: committed(Path(folder) / "bare.sqlite3"),
    }
    bars = []
    peers = ["x402", "eth-account", "coincurve"] if installed("x402") and installed("coincurve") else []
    if peers:
        calls |= official(url, loop)
        bars = [Bar(MEMORY, REQUESTS, 0.8), Bar(ASYNC, HTTPX, 0.8)]
    figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
    held = report("A paid call", figures, bars, unit="ms", peers=peers)
    if peers:
        more = [
            (ours - theirs) / commit
            for ours, theirs, commit in zip(
                figures[FILE].wall, figures[REQUESTS].wall, figures[COMMIT].wall, strict=True
            )
        ]
        text = f"wall time, {FILE} = {REQUESTS} and {max(0.0, median(more)):.2f} synced commits  (bar {COMMITS:g})"
        held &= verdict(median(more) <= COMMITS, text)
    memory.close()
    file.close()
    loop.run_until_complete(asynchronous.aclose())
    loop.close()
finish(held)
