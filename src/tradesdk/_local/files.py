"""Files of one person: settings in TOML, keys."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._system.interrupts import failures
from .._values.hints import of_file
from .._values.text import printable
from ..errors import ConfigError

_LARGEST = 256 * 1024
"""The most bytes of a file."""
_FORM = 'correct that line: a setting is NAME = VALUE with text in "", a profile begins with [profiles.NAME]'


def invalid_profile(message: str, hint: str) -> ConfigError:
    return ConfigError(message, code="invalid_profile", hint=hint)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of settings, in TOML.

    Attributes:
        path: its path, even if it is missing.
        text: its content; empty if it is missing.
    """

    path: Path
    text: str = field(default="", repr=False)

    @staticmethod
    def is_foreign(found: os.stat_result) -> bool:
        """Whether a file belongs to another user, other than root: then it is not read."""
        return os.name != "nt" and found.st_uid not in (0, os.geteuid())

    @classmethod
    def read(cls, path: Path, *, forbidden: int = 0) -> SettingsFile:
        """Read it. `forbidden`: mode bits with which others could change important settings.

        Raises:
            ConfigError: it cannot be read, or others could have written it.
        """
        return cls(path, own_text(path, forbidden=forbidden) or "")

    @property
    def table(self) -> dict[str, Any]:
        """Its content, parsed at each call.

        Raises:
            ConfigError: it is not TOML; the error names the line and the column.
        """
        if not self.text:
            return {}
        import tomllib

        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            # Do not show the line: it may be a key that was put there by mistake.
            problem = f"{str(error)[:1].lower()}{str(error)[1:]}"
        except (RecursionError, ValueError):  # Python's own error, for a number with thousands of digits
            raise invalid_profile(f"{_shown(self.path)} has a value that cannot be read", _FORM) from None
        raise invalid_profile(f"{_shown(self.path)}: {problem}", _FORM)  # that error contains the text


def own_text(path: Path, *, forbidden: int = 0) -> str | None:
    """The text of a file of this user; None when it is missing. `forbidden`: mode bits that it must not have."""
    shown = _shown(path)
    try:
        # Opening a pipe must not block. The open file is checked, so what is checked is what is read.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except failures(OSError) as error:
        hint = of_file(error, f"ls -ld {shlex.quote(shown)}")
        raise invalid_profile(f"cannot read {shown}: {error.strerror}", hint) from None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise invalid_profile(f"{shown} is not a file", "move it away")
        if SettingsFile.is_foreign(found):
            raise invalid_profile(f"{shown} belongs to somebody else", "move it away")
        if os.name != "nt" and found.st_mode & forbidden:
            done, then = "written", ": look at its addresses, they could have your key sent elsewhere"
            if forbidden & 0o044:
                done, then = "read", "; they may have read it: then make a new key and log in again"
            problem = f"{shown} can be {done} by others (mode {stat.S_IMODE(found.st_mode):04o})"
            raise invalid_profile(problem, f"chmod 600 {shlex.quote(shown)}{then}")
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise invalid_profile(f"{shown} is too large ({found.st_size} bytes)", "move it away")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
    raise invalid_profile(f"{shown} is not text in UTF-8 (line {line})", "save it as UTF-8")


def _shown(path: Path) -> str:
    return printable(str(path), 400)
