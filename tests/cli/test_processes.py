"""What only a process of its own can show: pipes that close, Ctrl-C, signals, a real terminal."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ._services import Scripted, agent
from ._terminal import TRADE, Terminal

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="signals and pseudo-terminals as POSIX has them"),
]


@contextlib.contextmanager
def started(trade: Terminal, *argv: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(  # the program under test
        [*TRADE, *argv], env=trade.environment(), text=True, **(pipes | options)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


@pytest.mark.parametrize(
    "form", ["ndjson", *(pytest.param(form, marks=pytest.mark.long) for form in ("json", "table"))]
)
def test_a_pipe_that_closes_is_no_error(trade: Terminal, service: Scripted, form: str) -> None:
    # A page is larger than a pipe's buffer, so the writer must notice.
    names = [agent("n" * 4000, id=f"agt_{number}") for number in range(50)]
    service.says(200, {"data": names, "next_cursor": "1"})
    service.then(200, {"data": names, "next_cursor": "2"})
    service.then(200, {"data": names})
    with started(trade, "agents", "list", "--limit", "100", "-o", form) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "line",
    [
        "agents list",
        "--help",
        *(
            pytest.param(line, marks=pytest.mark.long)
            for line in ("agents list -o table", "agents get agt_1", "--mock mock gaps")
        ),
    ],
)
def test_a_pipe_that_nobody_reads_is_no_error(trade: Terminal, service: Scripted, line: str) -> None:
    service.says(200, agent() | {"risk": {}, "min_confidence": 0.5, "max_positions": 1, "data": [agent()]})
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(  # the program under test
        [*TRADE, *line.split()], env=trade.environment(), stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")


@pytest.mark.usefixtures("patient")
def test_ctrl_c_while_it_waits(trade: Terminal, service: Scripted) -> None:
    service.fails(429, "rate_limited", "slow down", Retry_After="60")
    with started(trade, "account", "show") as process:
        assert process.stderr is not None
        assert "waiting 6" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (130, "", "interrupted\n")


def on_a_terminal(trade: Terminal, *argv: str, columns: int = 100) -> tuple[int, str]:
    """Runs `trade` on a pseudo-terminal; exit code, and all that the screen got."""
    import pty

    main, side = pty.openpty()
    env = trade.environment() | {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(  # the program under test
        [sys.executable, "-m", "tradesdk_cli", *argv], env=env, stdin=side, stdout=side, stderr=side
    )
    os.close(side)
    screen = b""
    try:
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # EIO is how Linux says that nobody is there any more
                break
            if not piece:
                break
            screen += piece
        return process.wait(30), screen.decode().replace("\r\n", "\n")
    finally:
        os.close(main)
        process.kill()
        process.wait(30)
