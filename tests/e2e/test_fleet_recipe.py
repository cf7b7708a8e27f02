"""The recipe of docs/fleet.md, typed into three shells; and examples/fleet_bot.py as a member."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from eth_account import Account

from tradesdk_mock import MockServer

from .._pages import ROOT, blocks
from .._postgres import Postgres, new_schema
from ._streamhouse import Publisher

pytestmark = pytest.mark.long


@contextmanager
def shell(folder: Path, name: str, *lines: str, **env: str) -> Iterator[Callable[[], str]]:
    """A terminal in which these lines are typed: what is on its screen. It is killed at the end."""
    screen = folder / name
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "TRADE_HOME": str(folder / f"home-{name}"), **env}
    with screen.open("wb") as out:
        process = subprocess.Popen(
            ["/bin/bash"], stdin=subprocess.PIPE, stdout=out, stderr=out, env=environ, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        process.stdin.flush()
        try:
            yield screen.read_text
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.stdin.close()
            process.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    name = new_schema()
    postgres.do(f"CREATE DATABASE {name}")
    yield postgres.url().replace("/postgres?", f"/{name}")
    postgres.do(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_recipe(database: str, tmp_path: Path) -> None:
    found = [block for block in blocks(ROOT / "docs" / "fleet.md") if block.language == "bash"]
    named, relay, slow, others, money = [block.lines for block in found][-5:]
    with MockServer(seed=7, signals="scripted") as service:
        here = "postgresql://postgres:change-me@localhost:5432/postgres"
        typed = [line.replace("http://127.0.0.1:8787", service.url).replace(here, "$DB") for line in named]
        assert "".join(typed).count("$DB") == "".join(typed).count(service.url) == 1
        options = {"DB": database}
        with shell(tmp_path, "one", *typed, *relay, **options) as first:
            wait_for(lambda: "has the lease" in first())
            with shell(tmp_path, "two", *typed, *slow, **options) as second:
                wait_for(lambda: members(database) == 1)
                publisher = Publisher(service, every=0.2)
                publisher.start()
                wait_for(lambda: '"id"' in second())
                lost = json.loads(next(line for line in second().splitlines() if '"id"' in line))["id"]
            # killed with -9, in the middle of `sleep 5`
            with shell(tmp_path, "three", *typed, *others, **options) as third:
                wait_for(lambda: third().count('"id"') > 5)
                publisher.stop()
                with psycopg.connect(database) as db:  # two minutes later
                    db.execute("UPDATE tradesdk.pending SET until = clock_timestamp() WHERE owner <> ''")
                wait_for(lambda: set(publisher.ids) <= {lost, *(one["id"] for one in signals(third()))})
                wait_for(lambda: any(one["redelivered"] for one in signals(third())))
                assert [one["id"] for one in signals(third()) if one["redelivered"]] == [lost]
                key = "0x" + "01" * 32
                service.payments.set_balance(Account.from_key(key).address, 5_000_000)
                with shell(tmp_path, "four", *typed, *money, TRADE_WALLET_KEY=key, **options) as fourth:
                    wait_for(lambda: '"unread"' in fourth())
                    shown = fourth()
    assert '"total_usd": "0.05"' in shown
    assert '"spent_total_usd": "0.03"' in shown
    assert '"code":"over_budget"' in shown
    assert '"name": "bots"' in shown


def signals(screen: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in screen.splitlines() if line.startswith('{"type":"signal"') and line[-1] == "}"]


def members(database: str) -> int:
    with psycopg.connect(database) as db:
        row = db.execute("SELECT count(*) FROM tradesdk.members WHERE key = 'signals/8453/bots'").fetchone()
    return 0 if row is None else int(row[0])


def test_the_example(database: str, tmp_path: Path) -> None:
    with MockServer(seed=7, signals="scripted") as service:
        lines = (
            f"export TRADE_FLEET={database} TRADE_BASE_URL={service.url} TRADE_API_KEY=mock_full_me PYTHONUNBUFFERED=1",
            "trade fleet init",
        )
        bot = f"python {ROOT / 'examples' / 'fleet_bot.py'} 3"
        with shell(tmp_path, "relay", *lines, "trade fleet relay --chain base") as relay:
            wait_for(lambda: "has the lease" in relay())
            with shell(tmp_path, "bot", lines[0], bot, "echo ended $?") as screen:
                wait_for(lambda: members(database) == 1)
                for _ in range(4):
                    service.emit_signal(chain_id=8453, token="BRETT", direction="BUY", confidence=0.5)
                wait_for(lambda: "ended" in screen())
                *signals, ended = screen().splitlines()
                # The first may be one of the world's past that the relay had just read.
                assert (len(signals), signals[1:], ended) == (3, ["BUY  BRETT   50%"] * 2, "ended 0")
