"""Runs `trade` in this process, on streams that can pretend to be a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.__main__ import main

TRADE = [sys.executable, "-m", "tradesdk_cli"]


class Stream(io.TextIOWrapper):
    """A stream in memory, a terminal or not."""

    def __init__(self, *, tty: bool, text: str = "", encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(text.encode()), encoding=encoding, newline="", write_through=True)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    def written(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


@dataclass(frozen=True)
class Run:
    """How one command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """NDJSON, read."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> dict[str, Any]:
        """The error as a program reads it: the last line of stderr."""
        assert self.out == ""
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        fields = ["code", "status", "message", "hint", "retryable"]
        assert list(found) in (fields, [*fields, "charged", "payment"])
        return found

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What was said on stderr, as a program reads it."""
        return [json.loads(line) for line in self.err.splitlines()]


class Terminal:
    """A shell with an environment of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._monkeypatch = monkeypatch
        self.home = home
        self.env: dict[str, str] = {"TRADE_HOME": str(home)}

    def __call__(
        self,
        *argv: str,
        tty: bool = False,
        columns: int = 80,
        stdin: str = "",
        answers: str | None = None,
        encoding: str = "utf-8",
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Runs `trade` with `argv`. `tty`: stdout and stderr are terminals; `answers`: somebody types this."""
        environment = {"COLUMNS": str(columns), "TERM": "xterm-256color"} | self.env | dict(env or {})
        stdout, stderr = (Stream(tty=at, encoding=encoding) for at in (tty, tty or answers is not None))
        with self._monkeypatch.context() as patch:
            for name in [name for name in os.environ if _ours(name)]:
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", Stream(tty=answers is not None, text=answers or stdin))
            patch.setattr(sys, "stdout", stdout)
            patch.setattr(sys, "stderr", stderr)
            code = main(list(argv))
        return Run(code, stdout.written(), stderr.written())

    def process(self, *argv: str, stdin: str | None = None) -> Run:
        """Runs `trade` in a process of its own, with pipes at all ends."""
        done = subprocess.run(  # the program under test
            [*TRADE, *argv], env=self.environment(), input=stdin or "", capture_output=True, text=True, timeout=300
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def environment(self) -> dict[str, str]:
        """For processes of their own."""
        inherited = {name: value for name, value in os.environ.items() if not _ours(name)}
        inherited.pop("PYTHONUNBUFFERED", None)  # buffers are what breaks when a pipe closes
        return inherited | self.env


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    """Until the process ends: one that comes just before a read begins, Python notices only with the next."""

    def press() -> None:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)

    threading.Thread(target=press, daemon=True).start()


def _ours(name: str) -> bool:
    return name.startswith("TRADE_") or name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
