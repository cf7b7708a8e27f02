"""What can be wrong with the ledger's file, in our words: what happened, that nothing was sent, and what to do."""

from __future__ import annotations

import errno
import os
import sqlite3

from ..._values.text import printable
from ...errors import ErrorCode, LedgerError

NOTHING_SENT = "nothing was sent"
NOTHING_CHANGED = "nothing has changed in it"

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# SQLITE_ERROR: our statements are right, so what they name is missing from the file.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
_READ_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_PAGE = 4096
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


def from_sqlite(error: sqlite3.Error, path: str, told: str) -> LedgerError:
    """The error of a ledger at `path`; `told` is what is true of the call that met it."""
    code = getattr(error, "sqlite_errorcode", None)  # none: Python could not make sense of what it read
    kind = sqlite3.SQLITE_CORRUPT if code is None else code & 0xFF
    if kind in _LOCKED:
        return locked(path, told)
    if kind in _DAMAGED:
        return damaged(path, str(error), told)
    if kind in _READ_ONLY or (kind == sqlite3.SQLITE_CANTOPEN and not _writable(path)):
        return read_only(path, told)
    if kind == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return full(path, told)
    name = getattr(error, "sqlite_errorname", None)
    what = f"{error} ({name})" if name else str(error)
    if kind == sqlite3.SQLITE_IOERR:  # not the hint to go elsewhere: what it knows of budgets and payments is here
        return (
            full(path, told) if _is_full(path) else failed(path, what, told, "look at that disk, and make room on it")
        )
    return failed(path, what, told)


def from_os(error: OSError, path: str, told: str) -> LedgerError:
    """The same for what the system says when folder or file are made."""
    if error.errno in _REFUSED:
        return read_only(path, told)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(path, told)
    return failed(path, error.strerror or str(error), told)


def locked(path: str, told: str) -> LedgerError:
    return _error("ledger_locked", f"the ledger {_shown(path)} is in use elsewhere", told, "try again in a moment")


def read_only(path: str, told: str) -> LedgerError:
    return _error(
        "ledger_read_only",
        f"the ledger {_shown(path)} cannot be written",
        told,
        "make it and its folder writable, or choose another folder with TRADE_HOME",
    )


def damaged(path: str, what: str, told: str) -> LedgerError:
    return _error(
        "ledger_damaged",
        f"{_shown(path)} is damaged, or no ledger ({printable(what, 200)})",
        told,
        f"put a copy back; or, to start over, move it away, with {_shown(path)}-signed if that is there: what it knew "
        "of payments and budgets is then forgotten",
    )


def lost(path: str, mark: str, told: str) -> LedgerError:
    return _error(
        "ledger_lost",
        f"the ledger {_shown(path)} is gone or empty, and payments were signed with it",
        told,
        f"put it back, with {_shown(path)}-wal if you have that; or, to start over, remove {_shown(mark)}: what it "
        "knew of payments and budgets is then forgotten, and a call whose payment was in doubt is paid for again",
    )


def newer(path: str, version: int, ours: int, told: str) -> LedgerError:
    return _error(
        "ledger_version",
        f"the ledger {_shown(path)} has version {version}, and this release knows versions up to {ours}",
        told,
        "use a newer release of tradesdk, or choose another folder with TRADE_HOME",
    )


def exposed(path: str, told: str) -> LedgerError:
    return _error(
        "ledger_exposed",
        f"the ledger {_shown(path)} can be read by other users, and belongs to one of them",
        told,
        "it holds signed payments: its owner has to run chmod 600 on it",
    )


def full(path: str, told: str) -> LedgerError:
    return failed(path, "there is no space left for it", told, "make room on that disk")


def failed(path: str, what: str, told: str, hint: str = "") -> LedgerError:
    return _error(
        "ledger_failed",
        f"the ledger {_shown(path)} failed: {printable(what, 300)}",
        told,
        hint or "look at that disk, or choose another folder with TRADE_HOME",
    )


def _error(code: ErrorCode, what: str, told: str, hint: str) -> LedgerError:
    return LedgerError(f"{what}; {told}", code=code, hint=hint)


def _shown(path: str) -> str:
    return printable(path, 300)


def _writable(path: str) -> bool:
    return os.access(os.path.dirname(path) or ".", os.W_OK) and (not os.path.exists(path) or os.access(path, os.W_OK))


def _is_full(path: str) -> bool:
    """Whether the disk has no room for another page."""
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except (AttributeError, OSError):  # Windows has no such call
        return False
    return disk.f_bavail * disk.f_frsize < _PAGE
