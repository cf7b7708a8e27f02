"""The demo: the same every time, checked by itself, and honest when something is wrong."""

import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tradesdk_cli.demo.common as common
import tradesdk_cli.demo.live as live
import tradesdk_cli.demo.story as story
from tradesdk import (
    Budget,
    Ledger,
    LocalSigner,
    MarketClient,
    Risk,
    SignalStream,
    StreamItem,
    StreamSignal,
    SystemClock,
    TradeClient,
    TradeError,
)
from tradesdk_mock import MockClock, MockServer, MockService

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
    assert trade("demo", "--seed", "11").out != first.out


def test_a_text_in_a_pipe_has_notes_that_are_text(trade: Terminal) -> None:
    assert re.fullmatch(r"took \d+\.\d s\n", trade("demo").err)
    assert list(json.loads(trade("demo", "-o", "json").err)) == ["note"]


def test_verbose(trade: Terminal) -> None:
    lines = trade("demo", "-v").err.splitlines()
    assert sum("/v1/account: 200 in " in line for line in lines) == 62
    assert sum("/v1/account: 429 in " in line for line in lines) == 1


def test_the_calls_it_shows_are_the_ones_it_makes(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call that is shown, carried out as it stands, leads to the very requests of the demo."""
    made: list[tuple[str, str, dict[str, str], object]] = []

    def requests(server: MockServer) -> list[tuple[str, str, dict[str, str], object]]:
        return [(entry.method, entry.path, dict(entry.query), entry.body) for entry in server.journal()]

    class Watched(MockServer):
        def stop(self) -> None:
            made.extend(requests(self))
            super().stop()

    monkeypatch.setattr(story, "mock_server_class", lambda: Watched)
    steps = trade("demo", "-o", "json").json["steps"]
    shown = [call for step in steps for call in step["calls"]]

    clock = MockClock(common.START)
    with MockServer(seed=7, clock=clock) as server:
        server.populate(story.TENANT, trades=story.TRADES)
        server.set_gaps(payment_identifier="optional")
        reachable = functools.partial(TradeClient, base_url=server.url, clock=clock)
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(reachable(api_key=f"mock_full_{story.TENANT}"))
            names: dict[str, Any] = {"client": client, "TradeClient": reachable}
            names |= {"LocalSigner": LocalSigner, "Risk": Risk, "forged": "0x" + "11" * 64 + "1b"}
            names["private_key"] = hashlib.sha256(b"trade demo 7").hexdigest()
            names |= {"Budget": Budget, "Ledger": Ledger}

            def five_signals(stream: SignalStream[StreamItem]) -> Iterator[StreamItem]:
                live.publish(server)  # now that it is open
                return live.five_signals(stream)

            names["five_signals"] = five_signals
            names["MarketClient"] = functools.partial(MarketClient, base_url=server.url, clock=clock)
            for code in shown:
                if "while it is running" in code:
                    server.start_agent(names["agent"].id)
                elif "after it was stopped" in code:
                    server.stop_agent(names["agent"].id)
                elif "signals.stream" in code:
                    live.plan_the_cut(server)
                elif "lost after settling" in code:
                    server.add_fault("reset", paid="only", executed=True, nth=1)
                with contextlib.suppress(TradeError):  # some are made to be refused
                    exec(code, names)  # noqa: S102 - the demo's own lines
            stack.callback(names["hasty"].close)
            stack.callback(names["market"].close)
            assert requests(server) == made


@pytest.mark.parametrize("columns", [60, *(pytest.param(wider, marks=pytest.mark.long) for wider in (80, 120))])
def test_it_fits_a_terminal(trade: Terminal, columns: int) -> None:
    run = trade("demo", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= columns
    assert "\x1b" not in run.out
    lines = [line.strip() for line in run.out.splitlines()]
    comment = 'top = market.top_performers("ROI", limit=3)  # the answer gets lost after settling'
    assert comment in lines if columns >= 100 else lines[lines.index(comment[:43]) + 1] == comment[45:]


def test_for_programs(trade: Terminal) -> None:
    told = trade("demo", "-o", "json").json
    assert told["ok"] is True
    assert len(told["steps"]) == 9
    assert told["steps"][2]["rows"][0]["name"] == "momentum"
    ledger = told["steps"][8]["rows"]
    assert [(row["endpoint"], row["amount_usd"], row["submissions"], row["charged"]) for row in ledger] == [
        ("token-prices", "0.06", 1, True),
        ("token-signals", "0.05", 1, True),
        ("top-performers", "0.06", 2, True),
    ]
    assert told["requests"] > 80


def test_it_neither_reads_nor_writes_what_is_mine(trade: Terminal, tmp_path: Path) -> None:
    """No real key signs there, no budget of mine is asked, and no ledger is left behind."""
    env = {"TRADE_WALLET_KEY": "not a key", "TRADE_BUDGET_PER_CALL": "nonsense", "TRADE_HOME": str(tmp_path)}
    assert trade("demo", env=env).code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_unicode(trade: Terminal) -> None:
    run = trade("demo", encoding="ascii")
    assert run.code == 0
    assert "+ demo@" in run.out
    assert "\\u" not in run.out


def test_the_commands_it_names_work(trade: Terminal) -> None:
    for line in trade("demo", "-o", "json").json["next"]:
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


def one_is_lost(server: MockServer, publish: Callable[[MockServer], list[str]] = live.publish) -> list[str]:
    return [*publish(server), "sig_that_never_comes"]


def everything_twice(
    stream: SignalStream[StreamItem], items: Callable[..., Iterator[StreamItem]] = live.five_signals
) -> Iterator[StreamItem]:
    for item in items(stream):
        yield from [item, item] if isinstance(item, StreamSignal) else [item]


def no_limits(*_: Any) -> Budget:
    return Budget.unlimited()


@pytest.mark.parametrize(
    ("target", "replacement", "named"),
    [
        ("tradesdk_mock.MockServer.start_agent", nothing, "an active agent could be deleted"),
        (
            "tradesdk_mock.core.rate_limit._PER_MINUTE",
            {"free": 30, "pro": 300},
            "61 requests were answered with 30x 200, 429",
        ),
        ("tradesdk_mock.MockServer.add_fault", nothing, "the stream was cut 0 times, not once"),
        ("tradesdk_cli.demo.live.publish", one_is_lost, "signals are missing: 1"),
        ("tradesdk.payments.authorizer.PaymentAuthorizer.limits", no_limits, "a call beyond the limit was paid"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                ("tradesdk_mock.MockServer.populate", faulty_populate, "249 trades, not 250"),
                ("tradesdk_mock.MockServer.stop_agent", nothing, "409 conflict"),
                ("tradesdk_mock.core.rate_limit._PER_MINUTE", {"free": 60, "pro": 3000}, "not 300 a minute"),
                ("tradesdk_mock.MockServer.set_gaps", nothing, "paid_undelivered"),
                ("tradesdk_mock.MockServer.add_fault", only_faults_of_the_stream, "not sent twice"),
                ("tradesdk_cli.demo.live.five_signals", everything_twice, "a signal came twice"),
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


def test_runs() -> None:
    assert story._runs([200, 200, 429, 200]) == "2x 200, 429, 200"


@pytest.mark.parametrize("on_path", [False, pytest.param(True, marks=pytest.mark.long)])
def test_called_by_its_path_it_says_how_to_get_it_on_the_path(tmp_path: Path, on_path: bool) -> None:
    """The first command of a newcomer is .venv/bin/trade demo, and a bare trade is not found afterwards."""
    program = tmp_path / "trade"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom tradesdk_cli.__main__ import main\nsys.exit(main())\n")
    program.chmod(0o755)
    environment = {"PATH": str(tmp_path) if on_path else os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run([program, "demo"], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (f"here trade is {program}" in done.stdout) is not on_path
