"""What a stream does in a process of its own: pipes, readers that go, Ctrl-C, SIGTERM, a real terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockServer

from ._streams import publishing
from ._terminal import Terminal
from .test_processes import on_a_terminal, started

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="signals and pseudo-terminals as POSIX has them"),
]

STREAM = ("signals", "stream", "--chain", "base")


@pytest.fixture
def market(trade: Terminal) -> Iterator[MockServer]:
    """A market without signals of its own; `trade` is set to it."""
    with MockServer(signals="scripted") as running:
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def next_line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what was said on stderr."""
    assert process.stderr is not None
    code = process.wait(60)
    return code, [json.loads(line) for line in process.stderr.read().splitlines()]


def test_every_signal_is_there_at_once_and_a_reader_that_has_enough_is_no_error(
    trade: Terminal, market: MockServer
) -> None:
    with publishing(market, {}, {}, {}) as published, started(trade, *STREAM) as process:
        seen = [next_line(process)["id"] for _ in range(3)]
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        code, notes = ended(process)  # although nothing more comes
        assert (code, [note["type"] for note in notes]) == (0, ["connected"])
    assert seen == published


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_it_ends_when_it_is_told_to(trade: Terminal, market: MockServer, number: signal.Signals, code: int) -> None:
    with publishing(market, {}), started(trade, *STREAM) as process:
        next_line(process)
        process.send_signal(number)
        ended_with, notes = ended(process)
    assert (ended_with, [note["type"] for note in notes]) == (code, ["connected", "summary"])
    assert (notes[-1]["signals"], notes[-1]["connects"]) == (1, 1)
    assert (notes[-1]["catching_up"], "missed" in notes[-1]["note"]) == (False, False), "nothing of the past was wanted"


def stubborn(tmp_path: Path) -> tuple[str, Path]:
    """A command that does not listen to SIGTERM, and where it writes its number."""
    written = tmp_path / "pid"
    code = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "new = sys.argv[1] + '~'; open(new, 'w').write(str(os.getpid())); os.rename(new, sys.argv[1]); time.sleep(60)"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {shlex.quote(str(written))}", written


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_ctrl_c_ends_the_command_that_runs_as_well(trade: Terminal, market: MockServer, tmp_path: Path) -> None:
    command, written = stubborn(tmp_path)
    with publishing(market, {}), started(trade, *STREAM, "--exec", command) as process:
        next_line(process)
        while not written.exists():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        code, notes = ended(process)
    assert (code, notes[-1]["type"]) == (130, "summary")
    assert not alive(int(written.read_text()))


@pytest.mark.long
def test_a_second_ctrl_c_ends_it_at_once(trade: Terminal, market: MockServer, tmp_path: Path) -> None:
    command, written = stubborn(tmp_path)
    with publishing(market, {}), started(trade, *STREAM, "--exec", command) as process:
        next_line(process)
        while not written.exists():
            assert process.poll() is None
            time.sleep(0.005)
        try:
            process.send_signal(signal.SIGINT)
            while process.poll() is None:  # from some moment on, and well before the command would be killed
                process.send_signal(signal.SIGINT)
            assert process.returncode == -signal.SIGINT
        finally:
            os.kill(int(written.read_text()), signal.SIGKILL)


def test_a_growing_table_on_a_real_terminal(trade: Terminal, market: MockServer) -> None:
    with publishing(
        market, {"token": "BRETT", "direction": "BUY"}, {"token": "TOSHI", "direction": "SELL"}
    ) as published:
        code, screen = on_a_terminal(trade, *STREAM, "--count", "2")
    assert code == 0
    lines = screen.splitlines()
    assert "the stream of chain 8453 is open" in lines[0]
    begins = [identifier[: len("sig_") + 12] for identifier in published]  # shortened: the terminal is narrow
    assert [begin in line for begin, line in zip(begins, lines[-3:-1], strict=True)] == [True, True]
    assert "\x1b[32mBUY" in screen
    assert "\x1b[31mSELL" in screen
    assert screen.count("\x1b[1mid") == 1
    assert "2 signals in " in lines[-1]
    assert "\x1b[?" not in screen, "no other screen, no hidden cursor"
