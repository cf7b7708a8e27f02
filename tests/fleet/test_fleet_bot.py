"""The example bot on several machines, really killed: money, signals and actions add up."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tradesdk import LocalSigner, MarketClient, PaymentState
from tradesdk.fleet import RedisLedger
from tradesdk_mock import MockServer

from .._pages import ROOT
from .._redis_server import RedisServer, drawn_engines

BOT = ROOT / "examples" / "fleet_bot.py"
KEY = "0x" + "5e" * 32
TOKENS = ("BRETT", "AERO", "DEGEN", "LINK", "PRIME", "TOSHI")
ACTED = ("bought", "sold")
LINE = re.compile(r"^\S+ +(.+) \((sig_\w+)\)$", re.MULTILINE)


class Fleet:
    """Machines that run the bot, each with a home folder of its own, and the service that they use."""

    def __init__(self, folder: Path, engine: str, stack: ExitStack) -> None:
        self.folder = folder
        self.server = stack.enter_context(RedisServer(engine, folder / "server"))
        self.service = stack.enter_context(MockServer(seed=7, signals="scripted"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ids: list[str] = []
        self._lives = 0
        stack.callback(self.end)

    def start(self, machine: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "PYTEST_"))}
        env = {
            **clean,
            "PYTHONUNBUFFERED": "1",
            "TRADE_HOME": str(self.folder / machine),
            "TRADE_FLEET": self.server.url,
            "TRADE_API_KEY": "mock_full_me",
            "TRADE_WALLET_KEY": KEY,
            "TRADE_BASE_URL": self.service.url,
        }
        self._lives += 1
        with (
            (self.folder / f"{self._lives}-{machine}.out").open("wb") as out,
            (self.folder / f"{self._lives}-{machine}.err").open("wb") as err,
        ):
            command = [sys.executable, "-W", "error", str(BOT)]
            self.running[machine] = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    def kill(self, machine: str) -> None:
        self.running[machine].kill()
        self.running.pop(machine).wait()

    def wait_following(self) -> None:
        """Until all follow, and one relays: what is published from then on has to come."""
        self.wait(lambda: sum("following" in text for text in self.outputs()) >= len(self.running))
        self.wait(lambda: bool(self.service.requests("GET", "/v1/signals/stream")))

    def publish(self, token: str, side: str) -> None:
        signal = self.service.emit_signal(token=token, direction=side, confidence=0.9)
        self.ids.append(signal.id)

    def outputs(self) -> list[str]:
        return [file.read_text() for file in sorted(self.folder.glob("*.out"))]

    def outcomes(self) -> dict[str, list[str]]:
        """What members did on each signal."""
        found: dict[str, list[str]] = {}
        for what, signal_id in LINE.findall("\n".join(self.outputs())):
            found.setdefault(signal_id, []).append(what)
        return found

    def wait(self, condition: object, seconds: float = 300.0) -> None:
        assert callable(condition)
        end = time.monotonic() + seconds
        while not condition():
            for machine, process in self.running.items():
                errors = "\n".join(file.read_text()[-3000:] for file in self.folder.glob(f"*-{machine}.err"))
                assert process.poll() is None, errors
            assert time.monotonic() < end, self.outputs()
            time.sleep(0.05)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, getattr(request, "param", "valkey"), stack)


def check_money(fleet: Fleet) -> int:
    """How many payments there were: none twice, within the budget, and the ledger has what the service took."""
    settled = fleet.service.payments.settlements()
    assert len({one.nonce for one in settled}) == len(settled)
    signer = LocalSigner.from_key(KEY)
    with (
        RedisLedger(fleet.server.url, signer=signer, journal=fleet.folder / "mine.journal") as ledger,
        MarketClient(base_url=fleet.service.market_url, signer=signer, ledger=ledger) as market,
    ):
        left = market.payments.reconcile().unresolved
        assert {each.state for each in left} <= {PaymentState.PAID_UNDELIVERED}, "paid, and its member died"
        ledger.check()
        assert market.payments.spending().total == fleet.service.payments.spent() <= 1_000_000
    return len(settled)


@pytest.mark.long
def test_a_member_until_it_is_asked_to_end(fleet: Fleet) -> None:
    fleet.start("one")
    fleet.wait_following()
    fleet.publish("BRETT", "BUY")
    fleet.publish("AERO", "SELL")
    fleet.service.emit_signal(token="DEGEN", confidence=0.69)  # not sure enough
    fleet.wait(lambda: len(fleet.outcomes()) == 2)
    process = fleet.running.pop("one")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert [fleet.outcomes()[each] for each in fleet.ids] == [["bought"], ["sold"]]
    assert check_money(fleet) == 2
    assert (fleet.folder / "1-one.err").read_text() == ""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing can be killed like this here")
@pytest.mark.parametrize("fleet", drawn_engines(), indirect=True)
def test_four_machines_that_are_killed(fleet: Fleet) -> None:
    """60 signals, and a budget for 33 prices."""
    seed = int(os.environ.get("TRADE_SEED") or 11)
    chance = random.Random(seed)
    machines = ("one", "two", "three", "four")
    for machine in machines:
        fleet.start(machine)
    fleet.wait_following()
    kills = 0
    for _ in range(15):
        for _ in range(4):
            fleet.publish(chance.choice(TOKENS), chance.choice(("BUY", "SELL")))
        time.sleep(chance.uniform(0, 0.15))  # while they work on these
        victim = chance.choice(machines)
        fleet.kill(victim)
        kills += 1
        fleet.start(victim)
        time.sleep(chance.uniform(0.5, 1.5))
    fleet.wait(lambda: set(fleet.ids) == set(fleet.outcomes()))  # a dead member's signals come again after its lease
    outcomes = fleet.outcomes()
    acted = {each: sum(one in ACTED for one in found) for each, found in outcomes.items()}
    marks = len(fleet.server.command("KEYS", "*:once:*"))
    lost = marks - sum(acted.values())
    paid = check_money(fleet)
    counts = Counter(one for found in outcomes.values() for one in found)
    print(f"seed {seed}: {kills} kills, {dict(counts)}, {paid} paid, {lost} members died between `once` and the action")
    assert max(acted.values()) == 1
    assert sum("another member has acted" in found and not acted[each] for each, found in outcomes.items()) <= lost
    assert 0 <= lost <= kills
    assert paid == 33
