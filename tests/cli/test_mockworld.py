"""The embedded mock is in the command's own process: no server, no thread, and the same answers as over a socket."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ._terminal import Terminal

pytestmark = pytest.mark.long

LOOK = """
import sys, threading
from tradesdk_cli.__main__ import main

assert main(sys.argv[1:]) == 0
loaded = {"uvicorn", "asyncio", "anyio", "eth_keys", "http.client"} & set(sys.modules)
print(threading.active_count(), *sorted(loaded), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "line",
    [
        "signals latest --chain 8453",
        *(pytest.param(line, marks=pytest.mark.long) for line in ("agents list", "mock status", "mock emit")),
    ],
)
def test_nothing_is_started_for_it(trade: Terminal, line: str) -> None:
    trade("--mock", "account", "show")  # makes the world
    done = subprocess.run(
        [sys.executable, "-c", LOOK, "--mock", *line.split()],
        env=trade.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.splitlines()[-1].split() in (["1"], ["1", "http.client"])


def test_verbose_says_what_it_is(trade: Terminal) -> None:
    run = trade("--mock", "-vv", "account", "show")
    file = trade.home / "mock" / "default.sqlite3"
    assert f"the service is a mock in this process ({file}), the key is from the mock" in run.err
    assert "127.0.0.1" not in run.err


def test_ids_and_queries_reach_it_as_they_are(trade: Terminal) -> None:
    problem = trade("--mock", "mock", "key", "revoke", "key_?c d%2F\u00e4").problem
    assert problem["status"] == 404
    assert "key_?c d%2F\u00e4" in problem["message"]
    assert trade("--mock", "mock", "payments", "list", "--path", "/a&b c").code == 0


def test_at_most_a_day_of_the_market_is_caught_up_with(trade: Terminal) -> None:
    """Ten days later there are signals of one of them, and those that came before the first command."""
    before = trade("--mock", "mock", "clock", "--freeze").json["now"]
    assert trade("--mock", "signals", "latest", "--chain", "8453", "--limit", "1").lines[0]["timestamp"] <= before
    now = trade("--mock", "mock", "clock", "--advance", str(10 * 86_400)).json["now"]
    history = trade("--mock", "signals", "history", "--chain", "56", "--all").lines
    times = [signal["timestamp"] for signal in history]
    assert times[0] > now - 600
    since = [time for time in times if time > before]
    # One in 18 seconds, as the market has it.
    assert len(since) == pytest.approx(86_400 / 18, rel=0.1)
    assert now - 86_400 - 1 <= min(since) < now - 86_400 + 600
