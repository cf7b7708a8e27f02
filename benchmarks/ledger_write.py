"""What a payment costs in the ledger: reserved, submitted, settled, each step synced; and whether that grows.

The peer is sqlite3 itself, with one insert and two updates of a row of the same size, each committed in the same mode.
"""

import itertools
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from _measure import Bar, Figures, finish, in_process, measure, report

from tradesdk._values.payment import Payment, PaymentStage, Receipt, SignedHeader
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.changes import Record, Submit
from tradesdk.payments.ledger.rules import DAY, Reservation
from tradesdk.payments.ledger.schema import to_row
from tradesdk.payments.ledger.store import Ledger
from tradesdk.payments.state_machine import DELIVERED, Report

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

numbers = itertools.count()


def payment(created: float = NOW) -> Payment:
    number = next(numbers)
    return Payment(
        id=f"pay_{number:024x}",
        fingerprint=f"{number:064x}",
        method="POST",
        url=f"{ORIGIN}/v1/token-prices",
        body=b'{"tokens":[{"identifier":"ETH"},{"identifier":"BRETT"}]}',
        network="eip155:8453",
        asset="0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        payer="0x" + "1a" * 20,
        pay_to="0x" + "2b" * 20,
        amount=60_000,
        nonce=f"0x{number:064x}",
        valid_before=int(created) + 60,
        counts_until=int(created) + 60,
        created=created,
        updated=created,
    )


def written(ledger: Ledger) -> None:
    """One payment, from its reservation to its end."""
    wanted = Reservation(payment=payment(), budget=BUDGET, owner="me", until=NOW + 60, over=NOW, now=NOW)
    one, _ = ledger.reserve(wanted)
    ledger.update(one.id, Submit(terms=one, header=HEADER, owner="me", now=NOW))
    report = Report(DELIVERED, "delivered", receipt=RECEIPT)
    done = ledger.update(one.id, Record(report=report, signatures=1, owner="me", now=NOW)).payment
    assert done.stage is PaymentStage.ANSWERED


def bare(path: Path, synchronous: str) -> Callable[[], None]:
    """The same three commits without anything around them."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, state TEXT, row TEXT, header TEXT)")
    assert database.execute("PRAGMA synchronous").fetchone()[0] == (2 if synchronous == "FULL" else 0)
    row = "r" * len(repr(to_row(payment())))

    def write() -> None:
        name = f"pay_{next(numbers):024x}"
        database.execute("INSERT INTO payments VALUES (?, 'reserved', ?, NULL)", (name, row))
        database.execute("UPDATE payments SET state = 'presented', header = ? WHERE id = ?", (HEADER, name))
        database.execute("UPDATE payments SET state = 'delivered', header = NULL WHERE id = ?", (name,))

    return write


def delivered(created: float) -> Payment:
    return replace(payment(created), stage=PaymentStage.ANSWERED, paid=True, counted=60_000)


def grown(path: Path, size: int) -> Ledger:
    """A ledger with so many payments, the newest a moment ago."""
    ledger = Ledger(path, sync=False)
    written(ledger)
    ledger.close()
    created = [NOW - APART * (size - number) for number in range(size)]
    with sqlite3.connect(path) as database:
        rows = [[*to_row(delivered(at)), None, 0.0] for at in created]
        database.executemany(schema.ADD, rows)
        days = Counter(int(at + 60) // DAY for at in created)
        database.executemany(schema.COUNT, [(day, 60_000 * payments, 0) for day, payments in days.items()])
    database.close()
    assert ledger.spending(BUDGET, now=NOW).total == 60_000 * (size + 1)
    return ledger


def told_by_the_wall(figures: dict[str, Figures], ours: str, peer: str) -> None:
    """Without a bar: most of it is the disk's, and the faster that is, the more of it is ours."""
    ratio = median(a / b for a, b in zip(figures[ours].wall, figures[peer].wall, strict=True))
    print(f"      by the wall, {ours} = {ratio:.2f} x {peer}\n")


SYNCED, LOOSE = "ledger, synced", "ledger, not synced"
BARE_SYNCED, BARE_LOOSE = "sqlite3, synced", "sqlite3, not synced"

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    synced, loose = Ledger(place / "synced.sqlite3"), Ledger(place / "loose.sqlite3", sync=False)
    calls = {
        SYNCED: lambda: written(synced),
        LOOSE: lambda: written(loose),
        BARE_SYNCED: bare(place / "bare.sqlite3", "FULL"),
        BARE_LOOSE: bare(place / "bare-loose.sqlite3", "OFF"),
    }
    figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
    print(f"In {os.path.realpath(folder)}; SQLite {sqlite3.sqlite_version}; {TIMES} payments a round")
    bars = [Bar(LOOSE, BARE_LOOSE, 12)]
    held = report("A payment in the ledger: three steps", figures, bars, unit="µs", peers=[])
    told_by_the_wall(figures, SYNCED, BARE_SYNCED)

    ledgers = {f"{size:,} payments": grown(place / f"{size}.sqlite3", size) for size in SIZES}
    grown_calls = {name: in_process(partial(written, one), times=TIMES) for name, one in ledgers.items()}
    few, many = f"{SIZES[0]:,} payments", f"{SIZES[-1]:,} payments"
    held &= report(
        "The same, not synced, in a ledger that holds already",
        measure(grown_calls, rounds=ROUNDS),
        [Bar(many, few, 1.25)],  # by the logarithm it would be 1.67
        unit="µs",
        peers=[],
    )
    for ledger in (synced, loose, *ledgers.values()):
        ledger.close()
finish(held)
