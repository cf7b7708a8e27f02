"""Errors of ledgers: what failed, and what to do. `Engine.run` adds the consequence for the call."""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3

from ..._values.hints import of_file
from ..._values.text import printable
from ...errors import LedgerError

NOTHING_SENT = "nothing was sent"
NOTHING_CHANGED = "nothing has changed"
NOT_RESENT = "the payment was not resent"
LATE = "the outcome of the payment is written later, with the next change"
DROPPED = "the outcome of the payment cannot be written"

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# SQLITE_ERROR: the statements are correct, so a table or column is missing in the file.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
_READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_PAGE = 4096
_CHECK_DISK = "check that disk, or set TRADE_HOME to another folder"
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


class DamagedRowError(Exception):
    """A row has values that no release writes."""


class RefusedRowError(LedgerError):
    """The database refuses this row; others can still be written."""


def from_sqlite(error: sqlite3.Error, path: str) -> LedgerError:
    """The problem of the ledger at `path`."""
    code = getattr(error, "sqlite_errorcode", None)  # None: Python could not decode what it read
    kind = sqlite3.SQLITE_CORRUPT if code is None else code & 0xFF
    if kind in _LOCKED:
        return locked(path)
    if kind in _DAMAGED:
        return damaged(path, str(error))
    if kind in _READ_ONLY or (kind == sqlite3.SQLITE_CANTOPEN and not _writable(path)):
        return _read_only(path)
    if kind == sqlite3.SQLITE_CANTOPEN:  # SQLite does not say why
        try:
            with open(os.devnull), open(os.devnull), open(os.devnull), open(os.devnull):  # as many as SQLite opens
                pass
        except OSError as reason:
            return from_os(reason, path)
    is_io = kind == sqlite3.SQLITE_IOERR
    if kind == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE or (is_io and _is_full(path)):
        return _full(path)
    name = getattr(error, "sqlite_errorname", None)
    what = f"{error} ({name})" if name else str(error)
    # No hint at TRADE_HOME: another file would know nothing of these budgets and payments.
    hint = "check that disk and its free space" if is_io else _CHECK_DISK
    is_of_row = isinstance(error, sqlite3.IntegrityError | sqlite3.DataError)
    return failed(path, what, hint, RefusedRowError if is_of_row else LedgerError)


def from_os(error: OSError, path: str) -> LedgerError:
    """The problem when the system cannot create the folder or a file."""
    if error.errno in _REFUSED:
        return _read_only(path)
    if error.errno in _FULL:
        return _full(path)
    return failed(path, error.strerror or str(error), of_file(error, _CHECK_DISK))


def locked(path: str) -> LedgerError:
    what = f"the ledger {_shown(path)} is locked by another process or thread"
    return LedgerError(what, code="ledger_locked", hint="try again in a moment")


def _read_only(path: str) -> LedgerError:
    return LedgerError(
        f"the ledger {_shown(path)} is read-only",
        code="ledger_read_only",
        hint="make the file and its folder writable, or set TRADE_HOME to another folder",
    )


def damaged(path: str, what: str) -> LedgerError:
    return LedgerError(
        f"{_shown(path)} is damaged or not a ledger ({printable(what, 200)})",
        code="ledger_damaged",
        hint="restore a backup; or, to start over without its payments and budgets, move it away, with "
        f"{_shown(path)}-signed if that file exists",
    )


def lost(path: str, mark: str) -> LedgerError:
    return LedgerError(
        f"the ledger {_shown(path)} is missing or empty, although payments were signed with it",
        code="ledger_lost",
        hint=f"restore it, with {_shown(path)}-wal if you have that; or, to start over, remove {_shown(mark)}: its "
        "payments and budgets are lost then, and a call whose payment had an unknown outcome is paid for again",
    )


def emptied(shown: str) -> LedgerError:
    """The problem with a database whose tables exist but are empty."""
    return LedgerError(f"the ledger {shown} has lost its content", code="ledger_lost", hint="restore a backup")


def other_version(path: str, version: int, ours: int, *, is_file: bool = True) -> LedgerError:
    """The problem with a ledger that another release wrote."""
    shown = _shown(path)
    if version > ours:
        hint = "use the newer release that wrote it, or set TRADE_HOME to another folder"
    else:
        hint = "settle its open payments with the older release that wrote it; then "
        old = shlex.quote(os.path.join(os.path.dirname(shown), "older-ledger"))
        if is_file:
            hint += f"move it away, and a new one begins: mkdir {old} && mv {shlex.quote(shown)}* {old}"
        else:
            hint += "use another database or schema, where a new one begins"
    return LedgerError(
        f"the ledger {shown} is {'newer' if version > ours else 'older'} than this release: it has version {version}, "
        f"and only version {ours} is read",
        code="ledger_version",
        hint=hint,
    )


def _full(path: str) -> LedgerError:
    return failed(path, "no space is left on the disk", "free space on that disk")


def failed(path: str, what: str, hint: str = _CHECK_DISK, kind: type[LedgerError] = LedgerError) -> LedgerError:
    return kind(f"the ledger {_shown(path)} failed: {printable(what, 300)}", code="ledger_failed", hint=hint)


def _shown(path: str) -> str:
    return printable(path, 300)


def _writable(path: str) -> bool:
    return os.access(os.path.dirname(path) or ".", os.W_OK) and (not os.path.exists(path) or os.access(path, os.W_OK))


def _is_full(path: str) -> bool:
    """Whether the disk has no space for another page."""
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except (AttributeError, OSError):  # Windows has no such call
        return False
    return disk.f_bavail * disk.f_frsize < _PAGE
