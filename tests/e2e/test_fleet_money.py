"""Machines with one wallet and one budget in PostgreSQL, killed, stopped and cut: nothing is paid twice or too much."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tradesdk import Budget, ChainWitness, Ledger, LocalSigner, MarketClient, PaymentError, PaymentUndeliveredError
from tradesdk.fleet import create_tables
from tradesdk_mock import MockServer, MockService

from .._postgres import Postgres, Proxy, new_schema
from .._seeds import drawn

ROOT = Path(__file__).parents[2]
KEY = "0x" + "4e" * 32
PRICE = 30_000


@pytest.fixture
def schema(postgres: Postgres) -> str:
    name = new_schema()
    create_tables(postgres.url(), schema=name)
    return name


def through(proxy: Proxy, postgres: Postgres) -> str:
    return postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/")


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
def test_a_way_that_is_cut_at_any_reply(postgres: Postgres, schema: str, after: bool, stride: int) -> None:
    """The call fails or not; the next equal one ends the purchase, with one signature."""
    outcomes = set()
    with MockService(seed=5) as mock, httpx.Client(transport=mock.transport()) as http:
        for at in range(2, 100, stride):
            proxy = Proxy(postgres.port, at, after=after)
            name, signer = f"purchase {at}", LocalSigner.from_key(f"0x{at:064x}")
            options = {"base_url": mock.market_url, "http_client": http, "clock": mock.clock, "signer": signer}
            with Ledger.postgres(through(proxy, postgres), schema=schema) as ledger:
                client = MarketClient(**options, ledger=ledger, budget=Budget(total="100"), check_tokens=False)  # type: ignore[arg-type]
                delivered = False
                try:
                    client.token_prices(["ETH"], purchase=name)
                    delivered = True
                except PaymentError as error:
                    outcomes.add(error.code)
                try:
                    client.token_prices(["ETH"], purchase=name)
                except PaymentUndeliveredError:  # the outcome could not be written down
                    assert delivered, at
            cut = proxy.replies >= at
            proxy.cut()
            assert len(mock.payments.settlements(signer.address)) == 1, at
            assert mock.payments.signatures(signer.address) == 1, at
            if not cut:
                break
    assert 5 < at < 99
    assert "ledger_unreachable" in outcomes


MEMBER = """
import sys, time
from collections import Counter
from tradesdk import Budget, Ledger, LocalSigner, MarketClient, PaymentError, PaymentUndeliveredError, RetryPolicy

url, fleet, schema, key, most, me, wanted = sys.argv[1:]
client = MarketClient(
    base_url=url, signer=LocalSigner.from_key(key), ledger=Ledger.postgres(fleet, schema=schema, timeout=60),
    budget=Budget.from_micro({"total": int(most)}), retry=RetryPolicy(base=0.01), check_tokens=False,
)
for number in range(int(wanted)):
    codes, give_up = Counter(), time.monotonic() + 600  # a killed member's claim stays for 5 minutes
    while time.monotonic() < give_up:
        try:
            client.token_prices(["ETH"], purchase=f"{me}/{number}")
        except PaymentUndeliveredError:  # delivered before, when the server was away
            break
        except PaymentError as error:
            # No room; or delivered to a member that was killed before it could write that down, and not kept.
            if error.code in ("over_budget", "unresolved_payment"):
                break
            codes[error.code] += 1
            time.sleep(0.1)  # the server is away, or the outcome is unknown: the same call continues
        else:
            break
    else:
        sys.exit(f"purchase {number} never ended: {codes}")
"""


class Fleet:
    """Members in processes of their own, each with a way to the server that can be cut."""

    def __init__(self, market: str, postgres: Postgres, schema: str, members: int, wanted: int, most: int) -> None:
        self._proxies = [Proxy(postgres.port) for _ in range(members)]
        self._commands = [
            [
                sys.executable,
                "-c",
                MEMBER,
                market,
                through(proxy, postgres),
                schema,
                KEY,
                str(most),
                str(me),
                str(wanted),
            ]
            for me, proxy in enumerate(self._proxies)
        ]
        self.running = [self._started(me) for me in range(members)]
        self.postgres = postgres

    def _started(self, me: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._commands[me], cwd=ROOT)

    def disturb(self, chance: random.Random) -> str:
        me = chance.randrange(len(self.running))
        what = chance.choice(["kill", "kill", "cut", "cut", "stop", "server"])
        if what == "server":
            self.postgres.kill()
            time.sleep(0.3)
            self.postgres.start()
        elif what == "cut":
            self._proxies[me].cut()
            time.sleep(0.2)
            self._proxies[me].join()
        elif self.running[me].poll() is None:
            if what == "kill":
                self.running[me].kill()
                self.running[me].wait()
                self.running[me] = self._started(me)
            else:
                os.kill(self.running[me].pid, signal.SIGSTOP)
                time.sleep(6)  # past the 5 seconds that a transaction may be left open
                os.kill(self.running[me].pid, signal.SIGCONT)
        return what

    def end(self) -> list[int]:
        codes = [process.wait(timeout=1500) for process in self.running]
        for proxy in self._proxies:
            proxy.cut()
        return codes


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """One that may be killed."""
    server = Postgres()
    yield server
    server.stop()


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_FLEET_RUNS", 1, together=1))
def test_members_that_are_killed_stopped_and_cut_pass_no_budget(own_server: Postgres, seeds: range) -> None:
    for seed in seeds:
        began = time.monotonic()
        chance, schema, most = random.Random(seed), new_schema(), 200
        create_tables(own_server.url(), schema=schema)
        with MockServer(seed=5) as market:
            fleet = Fleet(market.market_url, own_server, schema, 6, 50, PRICE * (most + 1) - 10_000)
            happened: list[str] = []
            while any(process.poll() is None for process in fleet.running) and len(happened) < 20:
                time.sleep(chance.uniform(0.2, 1))
                happened.append(fleet.disturb(chance))
            ended, settled, signed = fleet.end(), len(market.payments.settlements()), market.payments.signatures()
            seconds = time.monotonic() - began
            print(f"run {seed}: {settled} of {most} settled, {signed} signed, {seconds:.0f} s, {Counter(happened)}")
            assert (ended, settled, signed) == ([0] * 6, most, most)
            with (
                Ledger.postgres(own_server.url(), schema=schema) as ledger,
                ChainWitness(market.rpc_url) as witness,
            ):
                client = MarketClient(
                    base_url=market.market_url,
                    ledger=ledger,
                    budget=Budget(total="100"),
                    clock=market.clock,
                    witness=witness,
                )
                market.clock.advance(3600)  # all have expired, and the chain has decided
                client.payments.reconcile()
                spending = client.payments.spending()
                assert (spending.total.counted, spending.held) == (market.payments.spent(), 0)
                client.close()
