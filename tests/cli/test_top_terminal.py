"""`trade top` on a real terminal: keys, sizes, signals, and a terminal that is as it was afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tradesdk_mock import MockServer

from ._terminal import TRADE, Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pseudo-terminals as POSIX has them")

TAKEN, GIVEN_BACK = "\x1b[?1049h", "\x1b[?1049l"
_PATIENCE = 120.0


class Board:
    """`trade top` on a pseudo-terminal."""

    def __init__(self, trade: Terminal, *argv: str, columns: int = 80, lines: int = 24) -> None:
        self._main, self._side = pty.openpty()
        self.resize(columns, lines)
        self.modes = termios.tcgetattr(self._side)
        environment = {k: v for k, v in trade.environment().items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*TRADE, *argv],
            env=environment | {"TERM": "xterm-256color", "NO_COLOR": "1"},
            stdin=self._side,
            stdout=self._side,
            stderr=self._side,
            process_group=0,  # what is nobody's child of this session cannot be stopped
        )
        self.seen = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def types(self, text: str) -> None:
        os.write(self._main, text.encode())

    def tell(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def until(self, text: str) -> str:
        """What came on the screen until `text` was there, since the last call."""
        end = time.monotonic() + _PATIENCE
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} never came; the screen got {self.seen[-2000:]!r}"
            if select.select([self._main], [], [], left)[0]:
                self.seen += os.read(self._main, 65536).decode("utf-8", "replace")
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def ended(self) -> tuple[int, str]:
        """The exit code, and what came since the last call."""
        code = self.process.wait(_PATIENCE)
        while select.select([self._main], [], [], 0)[0]:
            self.seen += os.read(self._main, 65536).decode("utf-8", "replace")
        return code, self.seen

    def modes_now(self) -> Any:
        return termios.tcgetattr(self._side)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(_PATIENCE)
        os.close(self._main)
        os.close(self._side)


@contextmanager
def board(trade: Terminal, *argv: str, columns: int = 80, lines: int = 24) -> Iterator[Board]:
    opened = Board(trade, "top", *argv, columns=columns, lines=lines)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.long
def test_it_takes_the_terminal_and_gives_it_back(own: Terminal) -> None:
    with board(own) as top:
        assert top.until(TAKEN).strip() == TAKEN, "nothing is said before"
        top.until("open positions")
        top.until("base: live")
        assert top.modes_now() != top.modes, "keys come without Enter"
        top.types("x\x1a\x1cq")
        code, rest = top.ended()
        assert code == 0
        assert GIVEN_BACK in rest[-40:]
        assert "\x1b[?25h" in rest[-40:], "the cursor is back"
        assert top.modes_now() == top.modes


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("\x03", 130),
        (signal.SIGTERM, 143),
        (signal.SIGINT, 130),
        (signal.SIGHUP, 129),
    ],
)
def test_however_it_ends_the_terminal_is_as_it_was(own: Terminal, how: str | int, code: int) -> None:
    with board(own) as top:
        top.until("open positions")
        if isinstance(how, str):
            top.tell(signal.SIGINT)  # Ctrl-C is a signal for whoever has the terminal
        else:
            top.tell(how)
        ended, rest = top.ended()
        assert ended == code
        assert GIVEN_BACK in rest
        assert "Traceback" not in rest
        assert top.modes_now() == top.modes


@pytest.mark.long
def test_another_size_draws_it_anew(own: Terminal) -> None:
    with board(own, columns=140, lines=40) as top:
        top.until("token_address")
        top.resize(60, 20)
        top.until("\x1b[H")
        drawn = top.until("q quits").rpartition("\x1b[H")[2]
        lines = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", drawn).split("\n")
        assert len(lines) <= 20
        assert all(len(line.rstrip()) <= 60 for line in lines)


@pytest.mark.long
def test_a_service_that_goes_away_is_said_and_tried_again(trade: Terminal) -> None:
    with MockServer(signals="scripted") as server:
        server.populate("me")
        trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_me"}
        with board(trade) as top:
            top.until("base: live")
            server.close()
            top.until("error, ")
            top.until("trying again in")
            assert top.process.poll() is None
            top.types("q")
            assert top.ended()[0] == 0


@pytest.mark.long
def test_signals_come_live_and_no_key_is_on_the_screen(trade: Terminal) -> None:
    with MockServer(signals="scripted") as server:
        trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_me"}
        with board(trade) as top:
            seen = top.until("base: live")
            server.emit_signal(token="BRETT", direction="SELL", confidence=0.875)
            seen += top.until("0.875")
            top.types("q")
            assert "mock_full_me" not in seen + top.ended()[1]
