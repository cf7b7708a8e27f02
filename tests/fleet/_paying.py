"""Eight processes that buy under one budget, while members, server and connections are killed, paused and cut."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tradesdk import Budget, LocalSigner, MarketClient, PaymentRefusedError
from tradesdk.fleet import RedisLedger
from tradesdk_mock import MockServer

from .._redis_server import RedisServer
from ._cutting import CuttingProxy

ROOT = Path(__file__).parents[2]
PRICE = 30_000
KEY = "0x" + "4d" * 32
LEASE = 1
"""Seconds; 300 in a program of a user."""

# Its claims last a second, so that a pause is longer. How far it has come is in a file, for when it is killed.
MEMBER = """
import json, os, sys, time
from tradesdk import Budget, LocalSigner, MarketClient, PaymentError, PaymentRefusedError, RetryPolicy, TradeError
from tradesdk.fleet import RedisLedger
from tradesdk.payments import authorizer

url, redis, journal, progress, token, micro, calls, lease = sys.argv[1:]
authorizer.LONGEST_CLAIM = float(lease)
budget = Budget.from_micro({"total": int(micro)})
ledger = RedisLedger(redis, signer=(signer := LocalSigner.from_key(os.environ["KEY"])), journal=journal, timeout=8)
quickly = RetryPolicy(base=0.02, jitter=0)
with ledger, MarketClient(base_url=url, signer=signer, budget=budget, ledger=ledger, check_tokens=False,
                          retry=quickly) as client, open(progress, "ab", 0) as done:
    while done.tell() < int(calls):
        try:
            client.token_prices([token])
            word = b"d"
        except PaymentRefusedError as error:
            word = b"o" if error.code == "over_budget" else b"r"
        except TradeError as error:
            word = b"e"
        done.write(word)
"""


@dataclass
class Outcome:
    """What happened to the members and the server, and what they did."""

    seed: int
    happened: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    settled_before: int = 0
    settled: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        happened = ", ".join(f"{count} {what}" for what, count in sorted(self.happened.items()))
        calls = ", ".join(f"{count} {what}" for what, count in sorted(self.calls.items()))
        return (
            f"seed {self.seed}: {happened}; calls: {calls}; settled {self.settled_before}, "
            f"after reconcile {self.settled}; {self.seconds:.0f} s"
        )


def play(
    folder: Path, seed: int, *, purchases: int, members: int = 8, calls: int = 100, engine: str = "valkey"
) -> Outcome:
    """One run. It fails if the budget is passed, a nonce is settled twice, or the records differ from the books."""
    chance, outcome, began = random.Random(seed), Outcome(seed), time.monotonic()
    micro = PRICE * (purchases + 1) - 10_000
    with (
        MockServer(seed=5) as mock,
        RedisServer(engine, folder / "server") as server,
        CuttingProxy(server.port) as proxy,
    ):
        tokens = [token.token_address for token in _free(mock, members)]

        def start(number: int) -> subprocess.Popen[bytes]:
            files = [str(folder / f"{number}.{what}") for what in ("journal", "done")]
            arguments = [mock.market_url, proxy.url, *files, tokens[number], str(micro), str(calls), str(LEASE)]
            with (folder / f"{number}.errors").open("ab") as errors:
                return subprocess.Popen(
                    [sys.executable, "-c", MEMBER, *arguments],
                    cwd=ROOT,
                    env={**os.environ, "KEY": KEY},
                    stderr=errors,
                )

        running = {number: start(number) for number in range(members)}
        paused: dict[int, float] = {}
        server_back = 0.0
        try:
            while running:
                time.sleep(chance.uniform(0.1, 0.9))
                now = time.monotonic()
                assert now - began < 500, outcome
                for number, until in list(paused.items()):
                    if now >= until:
                        _signal(running.get(number), signal.SIGCONT)
                        del paused[number]
                if server_back and now >= server_back:
                    server.go_on()
                    server_back = 0.0
                for number, process in list(running.items()):
                    if process.poll() is not None:
                        errors = (folder / f"{number}.errors").read_text()
                        assert process.returncode == 0, errors[-3000:]
                        del running[number]
                if not running:
                    break
                number = chance.choice(list(running))
                match chance.choices(
                    ["kill", "pause", "server", "server paused", "cut", "lost reply", "lost request"],
                    [4, 3, 1, 1, 3, 6, 6],
                )[0]:
                    case "kill":
                        _signal(running[number], signal.SIGKILL)
                        running[number].wait()
                        paused.pop(number, None)
                        running[number] = start(number)
                        outcome.happened["members killed"] += 1
                    case "pause" if number not in paused:
                        _signal(running[number], signal.SIGSTOP)
                        paused[number] = now + LEASE * chance.uniform(0.2, 2.0)
                        outcome.happened["members paused"] += 1
                    case "server" if not server_back:
                        server.kill()
                        server.start()
                        outcome.happened["servers killed"] += 1
                    case "server paused" if not server_back:
                        server.pause()
                        server_back = now + 0.4
                        outcome.happened["servers paused"] += 1
                    case "cut":
                        proxy.cut()
                        outcome.happened["times all connections cut"] += 1
                    case "lost reply":
                        proxy.arm(chance.randint(1, 6), "after")
                        outcome.happened["replies lost"] += 1
                    case "lost request":
                        proxy.arm(chance.randint(1, 6), "before")
                        outcome.happened["requests lost"] += 1
        finally:
            server.go_on()
            for process in running.values():
                _signal(process, signal.SIGCONT)
                process.kill()
                process.wait()
        proxy.arm(0, "before")
        for number in range(members):
            outcome.calls += Counter(_WORDS[chr(one)] for one in (folder / f"{number}.done").read_bytes())
        _settle(mock, server, folder, micro, tokens, outcome)
    outcome.seconds = time.monotonic() - began
    return outcome


_WORDS = {"d": "delivered", "o": "over budget", "r": "refused", "e": "failed"}


def _settle(
    mock: MockServer, server: RedisServer, folder: Path, micro: int, tokens: list[str], outcome: Outcome
) -> None:
    """Long after: reconcile, look at the wallet, and buy until the budget is used up."""
    budget, floor = Budget.from_micro({"total": micro}), micro // PRICE
    outcome.settled_before = _once(mock)
    assert outcome.settled_before <= floor
    mock.clock.advance(3000)
    signer = LocalSigner.from_key(KEY)
    with (
        RedisLedger(server.url, signer=signer, journal=folder / "last.journal") as ledger,
        MarketClient(
            base_url=mock.market_url, signer=signer, budget=budget, ledger=ledger, clock=mock.clock, check_tokens=False
        ) as client,
    ):
        ledger.check()
        assert client.payments.spending().total >= mock.payments.spent(), "it knows of less than was taken"
        found = client.payments.reconcile()
        assert found.live == ()
        nonces = {settlement.nonce for settlement in mock.payments.settlements()}
        for payment in found.unresolved:
            client.payments.mark(payment.id, paid=payment.nonce in nonces)
        assert client.payments.spending().total == mock.payments.spent() <= micro
        for number in range(10 * floor):
            try:
                client.token_prices([tokens[number % len(tokens)]])
            except PaymentRefusedError as error:
                if error.code == "over_budget":
                    break
                raise
        else:
            raise AssertionError("the budget never ended")
        outcome.settled = _once(mock)
        assert outcome.settled == floor
        assert client.payments.spending().total == mock.payments.spent() == floor * PRICE
        ledger.check()


def _once(mock: MockServer) -> int:
    """How many payments were settled: none twice, and each of the price."""
    settlements = mock.payments.settlements()
    assert len({settlement.nonce for settlement in settlements}) == len(settlements)
    assert {settlement.amount for settlement in settlements} <= {PRICE}
    return len(settlements)


def _free(mock: MockServer, count: int) -> Any:
    with MarketClient(base_url=mock.market_url) as client:
        return client.supported_tokens(limit=count).data.tokens


def _signal(process: subprocess.Popen[bytes] | None, number: int) -> None:
    if process is not None and process.poll() is None:
        os.kill(process.pid, number)
