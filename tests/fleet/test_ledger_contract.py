"""The ledger on a server does what every ledger does, on both engines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk import LedgerStore
from tradesdk.fleet import RedisLedger
from tradesdk.payments.ledger.leases import owner_name
from tradesdk.testing import LEDGER_CHECKS, check_ledger_course, check_ledger_store

from .._redis_server import RedisServer, drawn_engines
from .._rows import each_of
from ..unit._ledger import NOW, reserve
from ._ledger import ledgers


@pytest.fixture
def ledger(server: RedisServer, tmp_path: Path) -> Iterator[RedisLedger]:
    with ledgers(server, tmp_path)() as made:
        yield made
        made.check()


@each_of("name", LEDGER_CHECKS)
def test_it_does_what_every_ledger_does(server: RedisServer, tmp_path: Path, name: str) -> None:
    with ledgers(server, tmp_path)() as ledger:
        assert isinstance(ledger, LedgerStore)
        LEDGER_CHECKS[name](ledger)
        ledger.check()


@pytest.mark.parametrize("seed", range(3))
def test_random_courses(server: RedisServer, tmp_path: Path, seed: int) -> None:
    ledger = ledgers(server, tmp_path)()
    check_ledger_course(lambda: ledger, seed, steps=40)
    ledger.check()


@pytest.mark.long
@pytest.mark.parametrize("engine", drawn_engines())
def test_all_of_it_on_each_engine(engine: str, tmp_path: Path) -> None:
    with RedisServer(engine, tmp_path / engine, durable=False) as server:
        check_ledger_store(
            lambda: ledgers(server, tmp_path, durability="managed")(),
            courses=int(os.environ.get("TRADE_LEDGER_COURSES", "10")),
        )


@pytest.mark.parametrize("until", [NOW + 60, NOW + 300])
def test_the_claim_of_a_dead_process_of_this_machine_does_not_count(ledger: RedisLedger, until: float) -> None:
    code = "from tradesdk.payments.ledger.leases import owner_name; print(owner_name())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    payment = reserve(ledger, owner=dead, until=until)
    assert ledger.claim(payment.id, owner=owner_name(), until=until, now=NOW)
    host, _, rest = dead.partition(":")
    payment = reserve(ledger, owner=f"{host}x:{rest}", until=until)  # of another machine: nobody knows
    assert not ledger.claim(payment.id, owner=owner_name(), until=until, now=NOW)
    assert os.getpid() != int(rest.partition(":")[0])
