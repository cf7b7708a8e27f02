"""`--exec`: a command for every signal, without a shell.

The command line is split into words before placeholders are replaced, so an untrusted value stays within one word.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from string import Formatter
from typing import Any

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import is_not_text, one_line, to_json

PLACEHOLDERS = ("id", "token_address", "token_symbol", "chain_id", "direction", "confidence", "price_usd", "timestamp")
_GRACE = 2.0
_STDERR = 2
_POPEN: Any = partial(
    subprocess.Popen, **({"creationflags": 0x200} if sys.platform == "win32" else {"process_group": 0})
)
"""Its own process group: its children end with it, and Ctrl-C reaches only us."""


class NotRunnable(Exception):
    """A value of this event cannot be passed to a program."""


@dataclass(frozen=True)
class Command:
    """A command whose words may have placeholders.

    Attributes:
        template: each word in pieces: text, and the placeholder after it or None.
        timeout: in seconds.
    """

    template: tuple[tuple[tuple[str, str | None], ...], ...]
    timeout: float

    @property
    def program(self) -> str:
        """The program. The other words may have secrets."""
        return self.template[0][0][0]

    def words(self, event: Mapping[str, Any]) -> list[str]:
        """The words for one event. Raises NotRunnable for a value that would be taken as an option, for example."""
        words: list[str] = []
        for template in self.template:
            word = "".join(text + (_text(event.get(name)) if name else "") for text, name in template)
            shown = " and ".join(f"{{{name}}}" for _, name in template if name) or "a word"
            if "\0" in word or is_not_text(word):
                raise NotRunnable(f"{shown} is text that cannot be passed to a program")
            if word.startswith("-") and not template[0][0] and "--" not in words:
                # Names of tokens are untrusted: one may be --output=FILE.
                raise NotRunnable(f"{shown} begins with '-' and would be taken for an option: put -- first")
            words.append(word)
        return words

    def run(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Runs it and waits for its end. The event is its stdin, as JSON; its output goes to stderr.

        Returns None on success, else `error`, and `exit_code` or `signal` if there is one.
        """
        try:
            child = _POPEN(self.words(event), stdin=subprocess.PIPE, stdout=_STDERR)
        except NotRunnable as error:
            return {"error": one_line(str(error))}
        except OSError as error:
            return {"error": one_line(f"it cannot be run: {error.strerror or error}")}
        try:
            child.communicate(to_json(event).encode() + b"\n", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            _end(child)
            return {"error": f"it was ended after {self.timeout:g} s"}
        except BaseException:
            _end(child)
            raise
        if child.returncode == 0:
            return None
        if child.returncode < 0:
            known = {number.value: number.name for number in signal.Signals}
            name = known.get(-child.returncode, f"signal {-child.returncode}")
            return {"error": f"it was killed by {name}", "signal": name}
        return {"error": f"it ended with {child.returncode}", "exit_code": child.returncode}


def parse_command(line: str, timeout: float) -> Command:
    """The command that `line` means."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageProblem(f"--exec cannot be split into words: {error}", "quote it as for a shell") from None
    if not words or not words[0]:
        raise UsageProblem("--exec is empty", "for example: --exec 'echo {direction} {token_symbol}'")
    template = tuple(map(_parse, words))
    (program, placeholder), *more = template[0]
    if placeholder or more:
        raise UsageProblem("--exec: the program cannot be a placeholder", "the service would choose the program")
    if shutil.which(program) is None:
        raise UsageProblem(
            f"--exec: there is no program {one_line(program, 120)}", "there is no shell: name a program, or its path"
        )
    return Command(template, timeout)


def _parse(word: str) -> tuple[tuple[str, str | None], ...]:
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    hint = f"there are {known}; a brace is written {{{{ or }}}}"
    try:
        pieces = list(Formatter().parse(word)) or [("", None, None, None)]
    except ValueError:
        raise UsageProblem(f"--exec: {one_line(word, 60)} has a brace without its other one", hint) from None
    for _, name, form, conversion in pieces:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            raise UsageProblem(f"--exec: {{{one_line(name, 60)}}} is not a placeholder", hint)
    return tuple((text, name) for text, name, _, _ in pieces)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else to_json(value)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends it and its children: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):  # all have ended
            if sys.platform == "win32":
                child.kill()
            else:
                os.killpg(child.pid, number)
            child.wait(_GRACE)
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()
    child.wait()
