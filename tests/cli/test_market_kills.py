"""A buyer ends between the service's answer and the end of the command: the same command prints it and pays nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tradesdk_mock import MockServer

from ._terminal import TRADE, Terminal

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals as POSIX has them"),
]
ROOT = Path(__file__).parents[2]
PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.06")
CODES = {"KILL": -9, "INT": 130, "TERM": 143, "HUP": 129}

# `trade`, to which a signal comes at a step of the way from the ledger to the reader.
DRIVER = """
import os, signal, sys
from tradesdk import Ledger
from tradesdk.payments.ledger.changes import Record
from tradesdk_cli.__main__ import main
from tradesdk_cli.files import PartialFile
from tradesdk_cli.output.printer import Output

step, name = sys.argv[1:3]
number = getattr(signal, "SIG" + name)

def comes(now):
    global step
    if step == now:
        step = None  # once: the second signal would end the process at once
        os.kill(os.getpid(), number)

def steps(owner, method, before, after, counts=lambda *given: True):
    call = getattr(owner, method)
    def stepped(self, *given, **more):
        if counts(*given):
            comes(before)
        result = call(self, *given, **more)
        if counts(*given):
            comes(after)
        return result
    setattr(owner, method, stepped)

steps(Ledger, "update", "answered", "written down", lambda _, change, *row: isinstance(change, Record))
steps(Output, "write", "being printed", "printed")
steps(PartialFile, "commit", "in a file beside", "in the file")
sys.argv[1:] = sys.argv[3:]
sys.exit(main())
"""


STEPS = [
    ("written down", ()),
    ("being printed", ()),
    ("being printed", ("-o", "json")),
    ("printed", ()),
    ("in a file beside", ("--out", "prices.json")),
]


@pytest.mark.parametrize(
    ("step", "more", "name"),
    [
        *((step, more, name) for step, more in STEPS for name in ("KILL", "HUP")),
        ("being printed", (), "INT"),
        ("being printed", (), "TERM"),
    ],
)
def test_what_was_paid_is_printed(
    buyer: Terminal, shop: MockServer, tmp_path: Path, step: str, more: tuple[str, ...], name: str
) -> None:
    line, environment = (*PRICES, *more), buyer.environment() | {"PYTHONPATH": str(ROOT)}

    def printed(*command: str) -> tuple[int, str, str]:
        done = subprocess.run(  # the program under test
            [*command, *line], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        out = tmp_path / "prices.json"
        return done.returncode, out.read_text() if out.exists() else done.stdout, done.stderr

    code, text, err = printed(sys.executable, "-c", DRIVER, step, name)
    assert code == CODES[name]
    [payment] = buyer("pay", "history").lines
    assert (payment["id"] in err) is (name != "KILL")
    if "BRETT" not in text:
        code, text, err = printed(*TRADE)
        assert (code, "BRETT" in text, "nothing was paid" in err) == (0, True, True)
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_reader_that_does_not_read(buyer: Terminal, shop: MockServer, name: str) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    line = [*TRADE, *PRICES]
    with subprocess.Popen(line, env=buyer.environment(), stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        while not (paid := buyer("pay", "history", "--stage", "answered").lines):
            assert process.poll() is None
        while process.poll() is None:  # one that comes before the answer is handed over waits for it
            process.send_signal(getattr(signal, f"SIG{name}"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
        _, err = process.communicate(timeout=300)
    os.close(reading)
    assert process.returncode == CODES[name]
    assert f"trade pay resume {paid[0]['id']}" in err
    assert buyer(*PRICES).code == 0
    shop.payments.assert_charged(times=1)


def test_a_reader_that_is_gone(buyer: Terminal, shop: MockServer) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(  # the program under test
        [*TRADE, *PRICES], env=buyer.environment(), stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert buyer(*PRICES).code == 0
    shop.payments.assert_charged(times=1)
