"""What a paid call costs besides the network: transactions that are synced, and changes of thread."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tradesdk import Ledger
from tradesdk_mock import MockService

from .._async._market import buyer_of


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Transactions that begin, and functions that are run in another thread, from here on."""
    counts: Counter[str] = Counter()

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = real_connect(*args, **options)
        if "ledger" in str(args[0]):  # the mock has a database of its own
            db.set_trace_callback(lambda statement: counts.update([statement]))
        return db

    async def run_sync(function: Any, *args: Any, **options: Any) -> Any:
        counts["hop"] += 1
        return await real_run_sync(function, *args, **options)

    real_connect, real_run_sync = sqlite3.connect, anyio.to_thread.run_sync
    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    return counts


async def test_a_paid_call(tmp_path: Path, spent: Counter[str]) -> None:
    with MockService(seed=5) as mock, Ledger(tmp_path / "ledger.sqlite3") as ledger:
        client = buyer_of(mock, ledger=ledger)
        await client.token_prices(["ETH"])
        spent.clear()
        assert (await client.token_prices(["ETH"])).charged is True
    assert spent["BEGIN IMMEDIATE"] <= 2
    assert spent["hop"] <= 4
