"""`trade login` in a real terminal: what is typed as a key is not to be seen."""

import contextlib
import os
import pty
import subprocess

import pytest

from ._services import Scripted
from ._terminal import TRADE, Terminal, press_ctrl_c

pytestmark = pytest.mark.long
ACCOUNT = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": "1234"}


def read_until(terminal: int, what: bytes, seen: bytes = b"") -> bytes:
    while what not in seen:
        seen += os.read(terminal, 65536)
    return seen


def test_the_key_is_not_shown_while_it_is_typed(trade: Terminal, service: Scripted) -> None:
    service.says(200, ACCOUNT)
    del trade.env["TRADE_BASE_URL"], trade.env["TRADE_API_KEY"]
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [*TRADE, "login"],
        env=trade.environment() | {"TERM": "dumb"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,  # so that there is no other terminal that could be asked
    )
    os.close(terminal)
    with process, open(reader, "rb", buffering=0):
        seen = read_until(reader, b"https://api.example.com: ")
        os.write(reader, f"{service.url}\n".encode())
        seen = read_until(reader, b"API key for 127.0.0.1", seen)
        seen = read_until(reader, f"{service.url.removeprefix('http://')}: ".encode(), seen)
        os.write(reader, b"TYPED-KEY-0123\n")
        with contextlib.suppress(OSError):  # how a terminal says on Linux that nobody writes to it any more
            while chunk := os.read(reader, 65536):
                seen += chunk
        assert process.wait(timeout=300) == 0
    assert b"me@example.test" in seen
    assert b"TYPED" not in seen
    assert service.keys == ["Bearer TYPED-KEY-0123"]
    assert (trade.home / "keys" / "default").read_text() == "TYPED-KEY-0123\n"


def test_ctrl_c_at_the_prompt_keeps_nothing(trade: Terminal, service: Scripted) -> None:
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [*TRADE, "login", "--profile", "work"],
        env=trade.environment() | {"TERM": "dumb"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    with process, open(reader, "rb", buffering=0):
        read_until(reader, b"API key for ")
        press_ctrl_c(process)
        assert process.wait(timeout=300) == 130
    assert service.seen == []
    assert list(trade.home.iterdir()) == []
