"""What a payment costs in the ledger: two synced writes; and whether that grows.

The peer is sqlite3 itself, with one insert and one update of a row of the same size, each committed in the same mode.
"""

import sqlite3
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from _measure import Bar, Figures, finish, in_process, measure, report
from _payments import BUDGET, HEADER, NOW, numbers, past, payment, written

from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.schema import to_row
from tradesdk.payments.ledger.store import Ledger

ROUNDS = 60
TIMES = 5
SIZES = (1_000, 10_000, 100_000)
APART = 20
"""Seconds between the existing payments: 180 in the last hour, 100,000 in 23 days."""


def bare(path: Path, synchronous: str) -> Callable[[], None]:
    """The same two commits without anything around them."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, state TEXT, row TEXT, header TEXT)")
    assert database.execute("PRAGMA synchronous").fetchone()[0] == (2 if synchronous == "FULL" else 0)
    row = "r" * len(repr(to_row(payment())))

    def write() -> None:
        name = f"pay_{next(numbers):024x}"
        database.execute("INSERT INTO payments VALUES (?, 'sent', ?, ?)", (name, row, HEADER))
        database.execute("UPDATE payments SET state = 'answered', header = NULL WHERE id = ?", (name,))

    return write


def grown(path: Path, size: int) -> Ledger:
    """A ledger with so many payments, the newest a moment ago."""
    ledger = Ledger(path, sync=False)
    written(ledger)
    ledger.close()
    rows, sums = past(size, APART)
    with sqlite3.connect(path) as database:
        database.executemany(schema.ADD, rows)
        database.executemany(schema.count(1), sums)
    database.close()
    assert ledger.spending(BUDGET, now=NOW).total.counted == 60_000 * (size + 1)
    return ledger


def print_wall_time(figures: dict[str, Figures], ours: str, peer: str) -> None:
    """Without a bar: most of it is the disk's, and the faster that is, the more of it is ours."""
    ratio = median(a / b for a, b in zip(figures[ours].wall, figures[peer].wall, strict=True))
    print(f"      wall time, {ours} = {ratio:.2f} x {peer}\n")


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
    print(f"SQLite {sqlite3.sqlite_version}; {TIMES} payments a round")
    bars = [Bar(LOOSE, BARE_LOOSE, 12)]
    held = report("A payment in the ledger: two steps", figures, bars, unit="µs", peers=[])
    print_wall_time(figures, SYNCED, BARE_SYNCED)

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
