"""A ledger that another process has locked: a call waits for it once, however many steps are still to be taken."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from tradesdk import Ledger, LedgerError, PaymentError

from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import TWO, Seller, asks_2
from ..unit._offers import prices
from ._market import market_of

TIMEOUT = 30
CONNECT = sqlite3.connect


class Watched(sqlite3.Connection):
    """Does not wait for locks, but writes down for how long it would have."""

    waited: ClassVar[list[int]] = []
    """Milliseconds, for each lock that another one had."""
    _busy = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA busy_timeout ="):
            self._busy, sql = int(sql.rpartition("=")[2]), "PRAGMA busy_timeout = 0"
        try:
            return super().execute(sql, *values)
        except sqlite3.OperationalError:
            self.waited.append(self._busy)
            raise


class LockingSigner(CountingSigner):
    def __init__(self, lock: Callable[[], object]) -> None:
        super().__init__()
        self.lock = lock

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.lock()
        return super().sign_digest(digest)


@each_of("step", ["reserve", "submit", "lost", "deliver"])
async def test_a_locked_ledger_costs_one_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / f"{step}.sqlite3"
    waited: list[int] = []
    monkeypatch.setattr(Watched, "waited", waited)
    monkeypatch.setattr(sqlite3, "connect", partial(CONNECT, factory=Watched))
    with (
        Ledger(path, sync=False, timeout=TIMEOUT) as ledger,
        closing(CONNECT(path, timeout=0, isolation_level=None, check_same_thread=False)) as other,
    ):
        ledger.get("pay_none")  # creates the file

        def lock(at: str) -> None:
            if at == step:
                other.execute("BEGIN IMMEDIATE")

        def asking(request: httpx.Request) -> httpx.Response:
            lock("reserve")
            return asks_2()

        def sold(request: httpx.Request) -> httpx.Response:
            lock("deliver")
            lock("lost")
            return httpx.Response(500) if step == "lost" else httpx.Response(200, json=prices(*TWO))

        client = market_of(
            Seller(asking=asking, sold=sold), ledger=ledger, signer=LockingSigner(lambda: lock("submit"))
        )
        if step == "deliver":
            assert (await client.token_prices(TWO)).warnings
        else:
            with pytest.raises((LedgerError, PaymentError)) as caught:
                await client.token_prices(TWO)
            assert caught.value.code == ("outcome_unknown" if step == "lost" else "ledger_locked")
        first, *later = waited
        assert 0 < first <= 1000 * TIMEOUT
        assert set(later) <= {0}
        other.rollback()
        assert (await market_of(Seller(), ledger=ledger).token_prices(["AERO", "B3"])).charged == "unknown"
