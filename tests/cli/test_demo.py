"""The demo: the same every time, checked by itself, and honest when something is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tradesdk import (
    Budget,
    SystemClock,
)
from tradesdk_mock import MockServer, MockService

from ._terminal import Terminal

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def never_really_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(self: SystemClock, seconds: float) -> None:
        raise AssertionError("the demo waited in real time")

    monkeypatch.setattr(SystemClock, "sleep", sleep)


def test_it_is_the_same_every_time(trade: Terminal) -> None:
    first, second = trade("demo"), trade("demo")
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out


def test_verbose(trade: Terminal) -> None:
    lines = trade("demo", "-v").err.splitlines()
    assert sum("/v1/account: 200 in " in line for line in lines) == 62
    assert sum("/v1/account: 429 in " in line for line in lines) == 1


@pytest.mark.parametrize("columns", [60, *(pytest.param(wider, marks=pytest.mark.long) for wider in (80, 120))])
def test_it_fits_a_terminal(trade: Terminal, columns: int) -> None:
    run = trade("demo", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= columns
    assert "\x1b" not in run.out
    lines = [line.strip() for line in run.out.splitlines()]
    comment = 'top = market.top_performers("ROI", limit=3)  # the answer gets lost after settling'
    assert comment in lines if columns >= 100 else lines[lines.index(comment[:43]) + 1] == comment[45:]


def test_it_neither_reads_nor_writes_what_is_mine(trade: Terminal, tmp_path: Path) -> None:
    """No real key signs there, no budget of mine is asked, and no ledger is left behind."""
    env = {"TRADE_WALLET_KEY": "not a key", "TRADE_BUDGET_PER_CALL": "nonsense", "TRADE_HOME": str(tmp_path)}
    assert trade("demo", env=env).code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_commands_it_names_work(trade: Terminal) -> None:
    named = [line.split("  ")[2] for line in trade("demo").out.partition("Try next\n")[2].splitlines()]
    assert len(named) == 6
    for line in named:
        arguments = line.split()[1:]
        if "stream" in arguments:
            arguments += ["--since", "1h", "--count", "2"]
        if line != "trade mock serve":
            assert trade(*arguments).code == 0


def nothing(*_: Any, **__: Any) -> None:
    return None


def faulty_populate(server: MockServer, tenant: str, *, trades: int) -> Any:
    from tradesdk_mock.trading import population

    return population.populate(server.world, tenant, trades=trades - 1)


def only_faults_of_the_stream(server: MockServer, kind: str, **options: Any) -> Any:
    return MockService.add_fault(server, kind, **options) if kind == "drop" else None


def no_limits(*_: Any) -> Budget:
    return Budget.unlimited()


@pytest.mark.parametrize(
    ("target", "replacement", "named"),
    [
        ("tradesdk_mock.MockServer.start_agent", nothing, "an active agent could be deleted"),
        (
            "tradesdk_mock.core.rate_limit._PER_MINUTE",
            {"free": 30, "pro": 300},
            "not answered with 60x 200, 429, 200",
        ),
        ("tradesdk_mock.MockServer.add_fault", nothing, "the stream was not cut once"),
        ("tradesdk.Budget.strictest", no_limits, "a call beyond the limit was paid"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                ("tradesdk_mock.MockServer.populate", faulty_populate, "not of 100, 100 and 50 trades"),
                ("tradesdk_mock.MockServer.stop_agent", nothing, "409 conflict"),
                ("tradesdk_mock.core.rate_limit._PER_MINUTE", {"free": 60, "pro": 3000}, "not 300 a minute"),
                ("tradesdk_mock.MockServer.set_gaps", nothing, "paid_undelivered"),
                ("tradesdk_mock.MockServer.add_fault", only_faults_of_the_stream, "signed once, sent twice"),
                ("tradesdk_mock.payments.report.MockPayments.spent", nothing, "it is not $0.17 that was spent"),
            )
        ),
    ],
)
def test_it_says_what_is_wrong(
    trade: Terminal, monkeypatch: pytest.MonkeyPatch, target: str, replacement: Any, named: str
) -> None:
    monkeypatch.setattr(target, replacement)
    run = trade("demo")
    assert run.code == 1
    problem = json.loads(run.err.splitlines()[-1])
    assert problem["code"] == "demo_failed"
    assert named in problem["message"]
    assert "All checks passed" not in run.out


@pytest.mark.parametrize("on_path", [False, pytest.param(True, marks=pytest.mark.long)])
def test_called_by_its_path_it_says_how_to_get_it_on_the_path(tmp_path: Path, on_path: bool) -> None:
    """The first command of a newcomer is .venv/bin/trade demo, and a bare trade is not found afterwards."""
    program = tmp_path / "trade"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom tradesdk_cli.__main__ import main\nsys.exit(main())\n")
    program.chmod(0o755)
    environment = {"PATH": str(tmp_path) if on_path else os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run([program, "demo"], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())  # it breaks lines, and the path may be a long one
    assert (f"here trade is {program}" in said) is not on_path
