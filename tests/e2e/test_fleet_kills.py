"""Members and relays of a fleet that are killed again and again: no signal is lost, and doubles are marked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from tradesdk.fleet import FleetSignals, create_tables

from .._postgres import Postgres, new_schema
from ._streamhouse import key_of, server_of

ROOT = Path(__file__).parents[2]
LEASE = 3.0
SIGNALS = int(os.environ.get("TRADE_FLEET_SIGNALS") or 400)
KILLS = int(os.environ.get("TRADE_FLEET_KILLS") or 12)
MEMBERS = 8

MEMBER = """
import json, sys, time
from tradesdk import FleetError
from tradesdk.fleet import FleetSignals

url, schema, base, out = sys.argv[1:]
with open(out, "a", buffering=1) as file, FleetSignals(
    chain=8453, group="bots", base_url=base, url=url, schema=schema, lease=1.0
) as signals:
    for signal in signals:
        file.write(json.dumps([signal.id, signal.redelivered]) + "\\n")
"""
RELAY = """
import sys
from tradesdk import TradeClient
from tradesdk.fleet import FleetRelay

url, schema, base, key = sys.argv[1:]
with TradeClient(api_key=key, base_url=base) as trade, FleetRelay(
    trade, chain=8453, url=url, schema=schema, lease=3.0
) as relay:
    relay.run()
"""


@pytest.mark.long
def test_members_and_relays_that_are_killed_lose_nothing(postgres: Postgres, tmp_path: Path) -> None:
    schema, chance = new_schema(), random.Random(int(os.environ.get("TRADE_SEED") or 5))
    create_tables(postgres.url(), schema=schema)
    with server_of(7) as service:
        key = key_of(service)
        there = [postgres.url(), schema, service.url]
        commands = [[sys.executable, "-c", MEMBER, *there, str(tmp_path / f"{me}")] for me in range(MEMBERS)]
        commands += [[sys.executable, "-c", RELAY, *there, key]] * 2
        running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
        try:
            wait_for(lambda: relay_of(postgres, schema) is not None)
            options = {"base_url": service.url, "url": postgres.url(), "schema": schema}
            with FleetSignals(chain=8453, group="bots", **options) as first:  # type: ignore[arg-type]
                first._member.look()
            published: list[str] = []

            def publish() -> None:
                while len(published) < SIGNALS:
                    published.append(service.emit_signal(chain_id=8453).id)
                    time.sleep(0.002 if SIGNALS > 1000 else 0.02)

            thread = threading.Thread(target=publish)
            thread.start()
            takeovers = []
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.1, 0.5))
                me = chance.choice([*range(MEMBERS), MEMBERS, MEMBERS + 1])
                holder = relay_of(postgres, schema)
                if me >= MEMBERS:
                    wait_for(lambda: {running[-1].pid, running[-2].pid} <= relays(postgres, schema))
                    holder = relay_of(postgres, schema)
                running[me].kill()
                running[me].wait()
                died = time.monotonic()
                if holder is not None and f"/{running[me].pid}/" in holder:
                    wait_for(lambda held=holder: relay_of(postgres, schema) not in (None, held))
                    takeovers.append(time.monotonic() - died)
                running[me] = subprocess.Popen(commands[me], cwd=ROOT)
            thread.join()
            wait_for(lambda: set(published) <= {one for one, _ in taken(tmp_path)}, seconds=240)
        finally:
            for process in running:
                process.kill()
                process.wait()
    got = taken(tmp_path)
    marked = [one for one, redelivered in got if redelivered]
    unmarked = [one for one, redelivered in got if not redelivered]
    print(f"{len(published)} signals, {KILLS} kills, {len(marked)} marked, takeovers {takeovers}")
    assert len(unmarked) == len(set(unmarked))
    assert {*unmarked, *marked} == set(published)
    assert all(seconds < 2 * LEASE for seconds in takeovers)


def taken(folder: Path) -> list[tuple[str, bool]]:
    """What members have written down; the last line of one that was killed may be cut."""
    found = []
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            if line.endswith("]"):
                one, redelivered = json.loads(line)
                found.append((one, redelivered))
    return found


def relay_of(postgres: Postgres, schema: str) -> str | None:
    """Who has the lease."""
    with psycopg.connect(postgres.url()) as db:
        db.execute(b"SET search_path TO " + schema.encode())
        row = db.execute("SELECT holder FROM relays WHERE until > clock_timestamp()").fetchone()
    return None if row is None else str(row[0])


def relays(postgres: Postgres, schema: str) -> set[int]:
    """The processes that relay or are ready to."""
    with psycopg.connect(postgres.url()) as db:
        db.execute(b"SET search_path TO " + schema.encode())
        rows = db.execute("SELECT split_part(member, '/', 2)::int FROM members WHERE key = 'relay/8453'").fetchall()
    return {pid for (pid,) in rows}


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)
