"""Terminals side by side, each a shell: what is typed into them, and what is seen."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_READY = "\x1eready\x1e"
_JOB = re.compile(r"\[\d+\][+-]? .*")
_OVERWRITTEN = re.compile(r"[^\n]*\r\x1b\[K")


class Shell:
    """A bash in a terminal of 100 columns. Programs that it started end with it."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self._reader, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (40, 100))
        mode = termios.tcgetattr(terminal)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        try:
            self._process = subprocess.Popen(
                ["/bin/bash", "--norc", "--noprofile", "--noediting", "-i"],
                cwd=folder,
                env={**env, "PS1": _READY, "PS2": ""},
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        finally:
            os.close(terminal)
        self._raw = ""
        self._from = 0
        self.wait_ready(60)

    def type(self, line: str) -> None:
        self._read()
        self._from = len(self._raw)
        os.write(self._reader, line.encode() + b"\n")

    def press_ctrl_c(self) -> None:
        os.write(self._reader, b"\x03")

    def seen(self) -> list[str]:
        """The lines that came since a line was typed, without prompts and notes about jobs."""
        self._read()
        text = _OVERWRITTEN.sub("", self._raw[self._from :].replace("\r\n", "\n")).replace(_READY, "")
        return [line for line in text.splitlines() if line and not _JOB.fullmatch(line)]

    def is_ready(self) -> bool:
        """Whether it waits for a command, and what was typed last has ended."""
        self._read()
        return self._raw[self._from :].endswith(_READY)

    def wait_ready(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.is_ready():
            assert time.monotonic() < end, self._raw[-3000:]
            time.sleep(0.02)

    def close(self) -> None:
        for pid in reversed(_descendants(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._reader)

    def _read(self) -> None:
        while select.select([self._reader], [], [], 0)[0]:
            try:
                self._raw += os.read(self._reader, 65536).decode("utf-8", "replace")
            except OSError:  # how a terminal says on Linux that nobody writes to it any more
                return


def _take_terminal() -> None:
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(each) for each in file.read_text().split()]
    return found
