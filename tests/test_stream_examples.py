"""The examples that follow the stream, as a newcomer runs them, and against a service that is set."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tradesdk_mock import MockServer

from .test_examples import EXAMPLES, run

pytestmark = pytest.mark.long

FOLLOWED = """\
connected
SELL BLUE    98%
not connected: the service closed it
not connected: 502 bad_gateway: restarting
not connected: 502 bad_gateway: restarting
connected again
SELL BENJI   79% (from the history)
BUY  WELL    82% (from the history)
BUY  DRV     80%
SELL COOKIE  77%
SELL BASED   73%
6 signals, connected 2x, 0 gaps
a minute later
connected
"""


def test_follow_signals(tmp_path: Path) -> None:
    told = run("follow_signals.py", tmp_path)
    assert told.startswith(FOLLOWED)
    later, end = told.removeprefix(FOLLOWED).splitlines()[:-1], told.splitlines()[-1]
    assert end == "8 signals, connected 1x, 0 gaps"
    came = [line.endswith(" (from the history)") for line in later]
    assert came == sorted(came, reverse=True)
    assert len(came) == 8
    assert 1 <= sum(came) <= 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_follow_signals_of_the_service_that_is_set(tmp_path: Path) -> None:
    """Ctrl-C, and the next run continues there: with what came while nobody was there."""
    with MockServer(seed=7, signals="scripted") as server:
        env = {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url, "TRADE_HOME": str(tmp_path)}
        with running("follow_signals.py", tmp_path, env) as child:
            assert line_of(child) == "connected"
            server.emit_signal(token="BRETT", direction="BUY", confidence=0.9)
            server.emit_signal(token="AERO", direction="BUY", confidence=0.69)  # not wanted
            server.emit_signal(token="AERO", direction="SELL", confidence=0.7)
            assert [line_of(child), line_of(child)] == ["BUY  BRETT   90%", "SELL AERO    70%"]
            child.send_signal(signal.SIGINT)
            assert line_of(child) == "ended; the next run continues from here"
            assert child.wait() == 0
        server.emit_signal(token="PRIME", direction="BUY", confidence=0.8)
        with running("follow_signals.py", tmp_path, env) as child:
            assert line_of(child) == "connected"
            found = line_of(child)
            if "AERO" in found:  # Ctrl-C came before it had asked for the next one
                found = line_of(child)
            assert found == "BUY  PRIME   80% (from the history)"
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0


def test_follow_signals_async(tmp_path: Path) -> None:
    *signals, base, bnb = run("follow_signals_async.py", tmp_path).splitlines()
    assert (base, bnb) == ("Base: connected 2x, 0 gaps", "BNB Chain: connected 1x, 0 gaps")
    assert len(signals) == 10
    taken = [re.fullmatch(r"(Base     |BNB Chain) (BUY |SELL) [A-Z0-9]+ +\d+%", line) for line in signals]
    assert {found and found[1].strip() for found in taken} == {"Base", "BNB Chain"}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_follow_signals_async_ends_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    with MockServer(seed=7, signals="scripted") as server:
        env = {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url}
        with running("follow_signals_async.py", tmp_path, env) as child:
            while len(server.requests("GET", "/v1/signals/stream")) < 2:
                time.sleep(0.01)
            for chain, token in ((8453, "BRETT"), (56, "CAKE")):
                server.emit_signal(token=token, chain_id=chain, direction="BUY", confidence=0.9)
                assert line_of(child).split()[-3:] == ["BUY", token, "90%"]
            child.send_signal(number)
            assert [line_of(child), line_of(child)] == [
                "Base: connected 1x, 0 gaps",
                "BNB Chain: connected 1x, 0 gaps",
            ]
            assert child.wait() == 0


def test_signal_bot(tmp_path: Path) -> None:
    """tests/e2e/test_signal_bot.py kills it in earnest."""
    before, after, end = run("signal_bot.py", tmp_path).split("-- crash --\n")
    assert before.startswith("following; 0 signals are in the book\n")
    known, *new = after.splitlines()[1:]
    assert known.split()[:2] == before.splitlines()[-1].split()[:2]
    assert known.endswith("was in the book already")
    assert not any("already" in line for line in new)
    count = len(before.splitlines()) - 1 + len(new)
    assert end.startswith(f"{count} signals in the book, positions: ")
    assert len(end.split(", ")) == 1 + sum(line.endswith(" bought") for line in (before + after).splitlines())


@contextmanager
def running(name: str, folder: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """An example that does not end by itself."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("TRADE_", "PYTEST_"))}
    env = {**clean, "PYTHONUNBUFFERED": "1", **env}
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as child:
        too_long = threading.Timer(300, child.kill)
        too_long.start()
        try:
            yield child
        finally:
            too_long.cancel()
            child.kill()


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")
