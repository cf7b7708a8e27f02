"""A ledger that another process has locked: a call waits for it once, however many steps are still to be taken."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tradesdk import Ledger, LedgerError, PaymentError

from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import TWO, Seller, asks_2
from ..unit._offers import prices
from ._market import market_of

TIMEOUT = 0.1


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


class LockingSigner(CountingSigner):
    def __init__(self, lock: Callable[[], object]) -> None:
        super().__init__()
        self.lock = lock

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.lock()
        return super().sign_digest(digest)


@each_of("step", ["reserve", "submit", "lost", "deliver"])
async def test_a_locked_ledger_costs_one_timeout(tmp_path: Path, step: str) -> None:
    took = []
    for number in range(6):  # the machine may be busy for a while
        path = tmp_path / f"{step}{number}.sqlite3"
        with Ledger(path, sync=False, timeout=TIMEOUT) as ledger, closing(_connected(path)) as other:
            since = [0.0]
            ledger.get("pay_none")  # creates the file

            def lock(at: str, other: sqlite3.Connection = other, since: list[float] = since) -> None:
                if at == step:
                    other.execute("BEGIN IMMEDIATE")
                    since[:] = [time.monotonic()]

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
            took.append(time.monotonic() - since[0])
            other.rollback()
            assert (await market_of(Seller(), ledger=ledger).token_prices(["AERO", "B3"])).charged == "unknown"
        if took[-1] < 2 * TIMEOUT:
            break
    assert TIMEOUT <= min(took) < 2 * TIMEOUT, took
