"""Plays whole sessions of `trade` that are kept as text files; CONTRIBUTING.md says how they are written."""

from __future__ import annotations

import os
import random
import re
import secrets
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tradesdk import SystemClock
from tradesdk._sync.concurrency import Interruptible
from tradesdk_mock import MockClock, MockServer, MockService

from .._stock import stocked
from ._terminal import Run, Terminal
from .test_help import keystores_cost_nothing

SESSIONS = Path(__file__).parent / "sessions"
NOW = 1_795_262_400  # noon, 2026-11-21 UTC
WALLET_KEY = "0x" + "5a" * 32
HEADER = re.compile(r"# (?:pipe|terminal (?P<columns>\d+))(?P<served>, served mock)?")
MARKS = ("$ ", "# ", "! ", "< ", "[exit ", "\\")  # an output line that begins like one of these gets a backslash
RANDOM = (
    r"(?P<payment>\bpay_[0-9a-f]{24}\b)"
    r"|(?P<shortened>\bpay_[0-9a-f]{8,23}…)"
    r"|(?P<hash>\b0x[0-9a-f]{64}\b)"
    r"|(?P<wallet>(?<=address  )0x[0-9a-fA-F]{40}(?=\nkept_in))"
)
"""What differs from run to run: the first of a kind is `{payment}`, the second `{payment_2}`, and so on."""
OVERWRITTEN = re.compile(r"[^\n]*\r\x1b\[K")  # a progress line that is gone at the end


class SessionError(Exception):
    """A session that can't be played."""


@dataclass
class Step:
    """One command, with what stands above it and what is typed into it."""

    comments: list[str]
    command: str
    typed: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[re.Match[str], list[Step]]:
    """The header, and the steps without their output."""
    first, *lines = text.splitlines()
    header = HEADER.fullmatch(first)
    if header is None:
        raise SessionError(f"the first line is not '# pipe' or '# terminal 80': {first!r}")
    steps: list[Step] = []
    comments: list[str] = []
    for line in lines:
        if line.startswith("# "):
            comments.append(line)
        elif line.startswith("$ "):
            steps.append(Step(comments, line.removeprefix("$ ")))
            comments = []
        elif line.startswith("< ") and steps:
            steps[-1].typed.append(line.removeprefix("< "))
    if not steps:
        raise SessionError("there is no command: a line that begins with '$ '")
    return header, steps


class Names:
    """The names of random values, in the order in which they appear."""

    def __init__(self, **known: str) -> None:
        self._values = known

    def hide(self, text: str) -> str:
        """`text` with names in place of values."""
        known = "|".join(
            rf"(?<=:){value}\b" if name == "port" else re.escape(value)  # its digits may stand in an amount, too
            for name, value in self._values.items()
        )
        return re.sub(f"{known}|{RANDOM}", self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        for name, value in self._values.items():
            if value == match[0]:
                return f"{{{name}}}"
        kind, number = str(match.lastgroup), 1
        if kind == "shortened":
            whole = [name for name, value in self._values.items() if value.startswith(match[0][:-1])]
            if whole:
                return f"{{{whole[0]}}}…"
        while (name := kind if number == 1 else f"{kind}_{number}") in self._values:
            number += 1
        self._values[name] = match[0]
        return f"{{{name}}}"

    def fill(self, text: str) -> str:
        """`text` with values in place of names."""
        return re.sub(r"\{([a-z]+(?:_\d+)?)\}", self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        if match[1] not in self._values:
            raise SessionError(f"{match[0]} is not bound: no output before shows one; known: {sorted(self._values)}")
        return self._values[match[1]]


def play(text: str, trade: Terminal, patch: pytest.MonkeyPatch) -> str:
    """The session as it should stand in its file."""
    header, steps = parse(text)
    columns = int(header["columns"] or 80)
    with home_of(trade, patch) as home, served(trade, header["served"]) as url, frozen(patch):
        names = Names(home=str(home), **({"url": url, "port": url.rpartition(":")[2]} if url else {}))
        written = [header[0]]
        for step in steps:
            words = shlex.split(names.fill(step.command))
            typed = "".join(f"{line}\n" for line in step.typed)
            run = run_line(trade, words, typed, None if header["columns"] is None else columns)
            written += ["", *step.comments, f"$ {step.command}", *(f"< {line}" for line in step.typed)]
            written += [f"\\{line}" if line.startswith(MARKS) else line for line in lines_of(names.hide(run.out))]
            written += ["\\ no newline"] if run.out and not run.out.endswith("\n") else []
            written += [f"! {line}".rstrip() for line in lines_of(names.hide(run.err))]
            written += [f"[exit {run.code}]"] if run.code else []
    return "\n".join(written) + "\n"


def lines_of(text: str) -> list[str]:
    """What a person sees in the end; control characters as text, and no blank lines at the end."""
    seen = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", lambda match: repr(match[0])[1:-1], OVERWRITTEN.sub("", text))
    return seen.rstrip("\n").split("\n") if text else []


def run_line(trade: Terminal, words: list[str], typed: str, columns: int | None) -> Run:
    """Runs one line: `[NAME=value …] trade …`, `export NAME=value …`, `cat FILE` or `cat > FILE`."""
    place = next((place for place, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), len(words))
    env, words = dict(word.split("=", 1) for word in words[:place]), words[place:]
    match words:
        case ["trade", *argv] if columns is not None:
            return trade(*argv, tty=True, columns=columns, answers=typed, env=env)
        case ["trade", *argv]:
            return trade(*argv, stdin=typed, env=env)
        case ["export", *settings]:
            trade.env |= dict(word.split("=", 1) for word in settings)
            return Run(0, "", "")
        case ["cat", ">", file]:
            Path(file).write_text(typed, encoding="utf-8")
            return Run(0, "", "")
        case ["cat", file]:
            return Run(0, Path(file).read_text(encoding="utf-8"), "")
    raise SessionError(f"no such command in a session: {shlex.join(words)}")


@contextmanager
def home_of(trade: Terminal, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home folder with the mock world in it, and an environment that knows nothing of who runs the tests."""
    short = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) < 10 else "/tmp")  # noqa: S108 - lines break there
    while True:
        home = short / secrets.token_hex(2)
        with suppress(FileExistsError):  # of another process of these tests
            home.mkdir(mode=0o700)
            break
    (home / "trade" / "mock").mkdir(mode=0o700, parents=True)
    (home / "trade" / "mock" / "default.sqlite3").write_bytes(stopped_world())
    try:
        with patch.context() as patched:
            for name in [name for name in os.environ if name not in ("PATH", "PYTEST_CURRENT_TEST")]:
                patched.delenv(name)
            for name, value in {"HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC", "SHELL": "/bin/bash"}.items():
                patched.setenv(name, value)
            time.tzset()
            trade.home = home
            trade.env = {"TRADE_HOME": str(home / "trade"), "TRADE_MOCK": "1", "NO_COLOR": "1"}
            keystores_cost_nothing(trade, patched)
            yield home
    finally:
        time.tzset()
        shutil.rmtree(home)


@contextmanager
def served(trade: Terminal, wanted: str | None) -> Iterator[str]:
    """The address of a mock server, where the header asks for one; `trade` is set to it."""
    with MockServer(seed=7, clock=MockClock(NOW)) if wanted else nullcontext() as server:
        if server is not None:
            stocked(server, NOW, "me")
            trade.env |= {"TRADE_MOCK": "0", "TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_me"}
            trade.env |= {"TRADE_MARKET_BASE_URL": server.url, "TRADE_WALLET_KEY": WALLET_KEY}
        yield server.url if server else ""


@contextmanager
def frozen(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Time stands still but for sleeps, which take none; threads that were there before keep the real one."""
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    real_sleep, passed = time.sleep, 0.0

    def sleep(seconds: float) -> None:
        nonlocal passed
        if threading.get_ident() in others:
            real_sleep(seconds)
        passed += 0.0 if threading.get_ident() in others else seconds

    with patch.context() as patched:
        for name, start in (("time", NOW), ("monotonic", 1000.0), ("perf_counter", 1000.0)):
            real = getattr(time, name)
            patched.setattr(
                time,
                name,
                lambda real=real, start=start: real() if threading.get_ident() in others else start + passed,
            )
        patched.setattr(SystemClock, "now", lambda _: time.time())
        patched.setattr(SystemClock, "monotonic", staticmethod(lambda: time.monotonic()))
        patched.setattr(time, "sleep", sleep)
        patched.setattr(Interruptible, "sleep", lambda self, clock, seconds: clock.sleep(seconds))  # waits for real
        random.seed(0)
        yield


@cache
def stopped_world() -> bytes:
    """The world of the sessions, its clock stopped."""
    with MockService(seed=7, clock=MockClock(NOW)) as mock:
        stocked(mock, NOW, "me")
        return mock.snapshot()
