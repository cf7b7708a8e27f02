"""What a fleet costs in PostgreSQL: a payment's two steps, a claim of the rate limit, growth, refusals, signals.

The peers are SQLite's ledger, synced, and psycopg alone with the same commits, on the same disk. Wall time, because a
server does most of the work. The server is TRADE_FLEET, or else the one that the tests start.
"""

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGKILL
from time import perf_counter
from typing import Any
from unittest.mock import patch

import psycopg
from _measure import Bar, Figures, finish, in_process, measure, report, verdict
from _payments import BUDGET, HEADER, NOW, numbers, past, payment, signed, written
from psycopg.sql import SQL, Identifier

from tradesdk import Budget, Ledger, PaymentRefusedError, SystemClock
from tradesdk._fleet.bodies import Stored
from tradesdk._fleet.rate import CLAIM, SharedWindow
from tradesdk._fleet.signals import Relay
from tradesdk._postgres.connection import Connection, numbered
from tradesdk._postgres.server import server
from tradesdk.fleet import FleetSignals, create_tables
from tradesdk.payments.ledger import schema

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests._postgres import Postgres, new_schema

ROUNDS, TIMES = 60, 3
SIZES = (1_000, 100_000)
FULL = (100, 100_000)
LITTLE = Budget(per_hour="1")
SIGNALS = 1_000


def bare(url: str) -> Callable[[], None]:
    """The same two commits without anything around them."""
    db = psycopg.connect(url, autocommit=True, prepare_threshold=2)
    db.execute("CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, state TEXT, row TEXT, header TEXT)")
    row = "r" * len(repr(schema.to_row(payment())))

    def write() -> None:
        name = f"pay_{next(numbers):024x}_{os.getpid()}"
        db.execute("INSERT INTO bare VALUES (%s, 'sent', %s, %s)", (name, row, str(HEADER)))
        db.execute("UPDATE bare SET state = 'answered', header = NULL WHERE id = %s", (name,))

    return write


def bare_claim(url: str, name: str) -> Callable[[], object]:
    """The statement of a claim by psycopg alone."""
    db = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor, prepare_threshold=2)
    db.execute(b"SET search_path TO " + name.encode())
    db.execute("SET synchronous_commit = off")
    return lambda: db.execute(CLAIM, ("bare", NOW)).fetchall()


def grown(url: str, size: int, apart: float = 20) -> Ledger:
    """A ledger with so many payments, and so many seconds between them."""
    name = new_schema()
    create_tables(url, schema=name)
    rows, sums = past(size, apart)
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as db:
        db.execute(b"SET search_path TO " + name.encode())
        cursor = db.cursor()
        cursor.executemany(numbered(schema.ADD), rows)
        cursor.executemany(numbered(schema.count(1)), sums)
        db.commit()
        db.autocommit = True
        db.execute("ANALYZE")
    ledger = Ledger.postgres(url, schema=name)
    assert ledger.spending(BUDGET, now=NOW).total.counted == 60_000 * size
    return ledger


def round_trips(ledger: Ledger) -> int:
    """Of the two steps."""
    with patch.object(Connection, "run", autospec=True, side_effect=Connection.run) as run:
        written(ledger)
    return run.call_count


def refuse(ledger: Ledger) -> None:
    """A payment for which the budget of the hour leaves no room: it is never written."""
    one = replace(payment(), id="pay_refused", fingerprint="refused")
    with suppress(PaymentRefusedError):
        ledger.submit(signed(one, LITTLE))
        raise AssertionError("it was not refused")


@contextmanager
def refusals(ledger: Ledger) -> Iterator[None]:
    """Another process asks for what is refused, all the time."""
    child = os.fork()
    if not child:
        try:
            while True:
                refuse(ledger)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(1)
    try:
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it has ended"
    finally:
        os.kill(child, SIGKILL)
        os.waitpid(child, 0)


def show_refusals(url: str) -> bool:
    """A refusal costs the same in a full hour, and stops nobody."""
    few, many = (f"{size:,} in the hour" for size in FULL)
    ledgers = {name: grown(url, size, 3600 / size) for name, size in zip((few, many), FULL, strict=True)}
    probes = {name: in_process(partial(refuse, each), times=TIMES) for name, each in ledgers.items()}
    figures = measure(probes, rounds=ROUNDS)
    held = report("A refusal, with so many payments", figures, [Bar(many, few, 2, True)], unit="µs", peers=[])
    call, times = (
        in_process(partial(written, ledgers[many]), times=TIMES),
        {"alone": Figures(), "beside refusals": Figures()},
    )
    for _ in range(ROUNDS // 4):
        for name, beside in (("alone", nullcontext), ("beside refusals", partial(refusals, ledgers[many]))):
            with beside():
                for _ in range(4):
                    cpu, wall = call()
                    times[name].cpu.append(cpu)
                    times[name].wall.append(wall)
    # The lock is taken in turn: each of its two steps waits for a refusal at most, and both cores are busy.
    held &= report(
        "A payment beside refusals", times, [Bar("beside refusals", "alone", 2.5, True)], unit="µs", peers=[]
    )
    for each in ledgers.values():
        each.close()
    return held


def show_signals(url: str) -> None:
    """Signals a second that a relay stores, and that one member of a group takes: each is a synced commit."""
    name = new_schema()
    create_tables(url, schema=name)
    service = "https://api.example.com"
    relay = Relay(server(url, name), 8453, service, lease=600, keep=3600)
    relay.take(0.0)
    with FleetSignals(chain=8453, group="bots", base_url=service, url=url, schema=name) as member:
        member._member.look()  # so that the group begins here
        began = perf_counter()
        for number in range(SIGNALS):
            body: dict[str, Any] = {
                "type": "signal",
                "id": f"sig_{number}",
                "token_address": "0x" + "22" * 20,
                "token_symbol": "BRETT",
                "chain_id": 8453,
                "direction": "BUY",
                "confidence": 0.5,
                "price_usd": 0.1,
                "timestamp": number + 1,
            }
            relay.add(Stored(body["id"], number + 1.0, json.dumps(body)))
        stored = perf_counter()
        for _ in range(SIGNALS):
            next(member)
        taken = perf_counter()
    relay.link.close()
    print(f"signals a second: {SIGNALS / (stored - began):,.0f} stored, {SIGNALS / (taken - stored):,.0f} taken\n")


def main(url: str, place: Path) -> bool:
    name = new_schema()
    create_tables(url, schema=name)
    ledger, sqlite = Ledger.postgres(url, schema=name), Ledger(place / "ledger.sqlite3")
    calls: dict[str, Callable[[], object]] = {
        "PostgreSQL": partial(written, ledger),
        "SQLite, synced": partial(written, sqlite),
        "psycopg, two commits": bare(url),
    }
    figures = measure({one: in_process(call, times=TIMES) for one, call in calls.items()}, rounds=ROUNDS)
    bars = [Bar("PostgreSQL", "SQLite, synced", 2, by_wall=True), Bar("PostgreSQL", "psycopg, two commits", 3, True)]
    held = report("A payment in the ledger: two steps", figures, bars, unit="µs", peers=["psycopg"])
    written(ledger)
    trips = round_trips(ledger)
    held &= verdict(trips <= 3, f"{trips} round trips for the two steps  (bar 3)")

    window = SharedWindow(server(url, name), SystemClock())
    claims: dict[str, Callable[[], object]] = {
        "a claim": lambda: window.claim("ours"),
        "psycopg's UPDATE": bare_claim(url, name),
    }
    with psycopg.connect(url) as db:
        for key in ("ours", "bare"):
            statement = SQL("INSERT INTO {}.windows VALUES (%s, '1000000000', 'x', FALSE, 1000000000, 1e12)")
            db.execute(statement.format(Identifier(name)), (key,))
    figures = measure({one: in_process(call, times=20) for one, call in claims.items()}, rounds=ROUNDS)
    bars = [Bar("a claim", "psycopg's UPDATE", 1.5, by_wall=True)]
    held &= report("A request of the rate limit", figures, bars, unit="µs", peers=["psycopg"])

    show_signals(url)
    few, many = (f"{size:,} payments" for size in SIZES)
    ledgers = {few: grown(url, SIZES[0]), many: grown(url, SIZES[1])}
    probes = {one: in_process(partial(written, each), times=TIMES) for one, each in ledgers.items()}
    figures = measure(probes, rounds=ROUNDS)
    held &= report("In a ledger that holds already", figures, [Bar(many, few, 1.25, True)], unit="µs", peers=[])
    held &= show_refusals(url)
    for each in (ledger, sqlite, *ledgers.values()):
        each.close()
    window.close()
    return held


with tempfile.TemporaryDirectory() as folder:
    if given := os.environ.get("TRADE_FLEET"):
        held = main(given, Path(folder))
    else:
        own = Postgres()
        try:
            held = main(own.url(), Path(folder))
        finally:
            own.stop()
finish(held)
