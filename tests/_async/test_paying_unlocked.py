"""While a signer works or the service answers, every other process may write to the ledger at once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from tradesdk import AsyncMarketClient, Ledger

from .._paidservice import PRICE, CountingSigner, JumpingClock, PaidService
from .._rows import each_of
from ._market import in_doubt, market_of


class Neighbor(CountingSigner):
    """A signer and a service at which another connection to the ledger's file tries to write, without waiting."""

    def __init__(self, path: Path, kinds: list[str]) -> None:
        super().__init__()
        self.path = path
        self.clock = JumpingClock()
        self.service = PaidService(self.clock, kinds=[*kinds])
        self.wrote: Counter[str] = Counter()
        self.locked_out: list[str] = []

    def write(self, during: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                db.execute("ROLLBACK")
            except sqlite3.OperationalError:
                self.locked_out.append(during)
            else:
                self.wrote[during] += 1

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.write("signing")
        return super().sign_digest(digest)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.write("payment" if "payment-signature" in request.headers else "offer")
        return self.service.handle(request)

    def client(self, ledger: Ledger, **options: Any) -> AsyncMarketClient:
        return market_of(self.handle, clock=self.clock, signer=self, ledger=ledger, **options)


@each_of(
    ("kinds", "named", "payments", "calls"),
    [
        ([], {}, 1, 1),
        ([], {"purchase": "tuesday"}, 1, 1),
        (["lost before"], {}, 2, 1),
        (["pending", "429 before"], {}, 3, 1),
        (["lost before"], {}, 2, 2),
    ],
    ids=["a first call", "a named purchase", "a lost answer", "two answers that settle nothing", "a later call"],
)
async def test_others_write_to_the_ledger_meanwhile(
    tmp_path: Path, kinds: list[str], named: dict[str, str], payments: int, calls: int
) -> None:
    path = tmp_path / f"{'-'.join([*kinds, *named])}-{calls}.sqlite3"
    neighbor = Neighbor(path, kinds)
    with Ledger(path, sync=False) as ledger:
        async with neighbor.client(ledger) as client:
            for _ in range(calls - 1):
                await in_doubt(client, ["ETH"])
            assert (await client.token_prices(["ETH"], **named)).charged is True
    assert neighbor.service.total == PRICE
    assert neighbor.locked_out == []
    assert neighbor.wrote == {"offer": 1, "signing": 1, "payment": payments}


def test_a_held_lock_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    neighbor = Neighbor(path, [])
    with Ledger(path, sync=False) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert ledger.history() == []
        db.execute("BEGIN IMMEDIATE")
        neighbor.write("another's transaction")
    assert neighbor.locked_out == ["another's transaction"]
