"""What this machine wrote to a shared ledger, and the settings under which it signed, in a local file: so that it is
noticed when the server lost them, and they can be put back. Signed headers in it are encrypted, as on the server.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from .._fleet import ledger_settings
from .._system import private_files

_LARGEST = 8 << 20
_MOST = 4 * _LARGEST


class Position(NamedTuple):
    """A place in the chain of all writes: a number, and the hash of everything up to there."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as this machine wrote it, in a step."""

    step: str
    text: str


@dataclass(slots=True)
class Content:
    """What a journal has.

    Attributes:
        entries: the newest entry of each payment.
        settings: the newest text of each setting, by name.
        position: the highest position since the store was last accepted.
        accepted: what tells that acceptance from others; None: there was none.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    position: Position | None = None
    accepted: str | None = None


class Journal:
    """A file of lines, one for each write; only its owner may read it. Processes may share it.

    A file that has become large is renamed and one more is kept, so the oldest entries are lost some day. Settings are
    written into each new file.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def add(self, payment_id: str, entry: Entry, position: Position | None, *, sync: bool) -> None:
        """Write down a record that the server has. Synced before a payment is handed over.

        Raises:
            OSError: it could not be written.
        """
        self._append({"id": payment_id, "step": entry.step, "text": entry.text, "at": position}, sync=sync)

    def keep(self, name: str, text: str, position: Position | None) -> None:
        """Write down a setting that the server has, synced.

        Raises:
            OSError: it could not be written.
        """
        self._append({"setting": name, "text": text, "at": position}, sync=True)

    def accept(self, position: Position | None, settings: dict[str, str]) -> str:
        """From here on, the store is in order, with these settings, whatever was noticed before.

        Returns `Content.accepted`.

        Raises:
            OSError: it could not be written.
        """
        name = secrets.token_hex(6)
        self._append({"accepted": name, "at": position, "settings": settings}, sync=True)
        return name

    def content(self) -> Content:
        """What was written. Lines that a power cut tore are left out.

        Raises:
            OSError: it cannot be read.
        """
        found = Content()
        for path in (f"{self.path}.1", self.path):
            for line in (_content(path) or b"").split(b"\n"):
                with suppress(ValueError, KeyError, TypeError):
                    self._read(json.loads(line), found)
        return found

    def _read(self, line: dict[str, object], found: Content) -> None:
        at = line["at"]
        position = None if at is None else Position(int(at[0]), str(at[1]))  # type: ignore[index] # checked by the caller
        if "accepted" in line:
            if "settings" in line:  # journals of earlier releases have none
                settings: dict[str, str] = dict(line["settings"])  # type: ignore[call-overload] # checked by the caller
                found.settings = {name: ledger_settings.joined(name, text, None) for name, text in settings.items()}
            found.accepted = str(line["accepted"])
            found.position = position
            return
        if "setting" in line:
            # Another process may have seen a newer one, and written it down earlier.
            name = str(line["setting"])
            found.settings[name] = ledger_settings.joined(name, str(line["text"]), found.settings.get(name))
        else:
            found.entries[str(line["id"])] = Entry(str(line["step"]), str(line["text"]))
        if position is not None and (found.position is None or position.number > found.position.number):
            found.position = position

    def _append(self, line: dict[str, object], *, sync: bool) -> None:
        # A line feed before it as well: what a power cut left without its end must not spoil this line.
        data = b"\n" + json.dumps(line, separators=(",", ":")).encode() + b"\n"
        file = self._open()
        try:
            size = os.fstat(file).st_size
            if sync:
                private_files.write(file, data)
            else:
                os.write(file, data)
        finally:
            os.close(file)
        if size > _LARGEST:
            with suppress(OSError):
                settings = self.content().settings
                if os.stat(self.path).st_size > _LARGEST:  # else another process was faster
                    os.replace(self.path, f"{self.path}.1")
                    for name, text in settings.items():
                        self.keep(name, text, None)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        while True:
            with suppress(FileNotFoundError):
                return os.open(self.path, flags)
            folder = os.path.dirname(self.path)
            private_files.make_folder(folder)
            with suppress(FileExistsError):
                os.close(private_files.create(self.path))
                private_files.sync_folder(folder)


def _content(path: str) -> bytes | None:
    try:
        return private_files.content(path, _MOST)
    except ValueError as error:
        raise OSError(str(error)) from None
