"""Opening the ledger's file: private, durable, ours, and of a version that we know."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

from ..._http.settings import data_folder
from ..._system import private_files
from . import errors
from . import schema as sql

_CREATING = threading.Lock()
"""One at a time: closing any descriptor of a file drops the locks that this process has on it."""
_PAUSE = 0.005
_SIGNED = "-signed"
"""Ends the name of the mark beside a ledger that has signed payments: an empty file that outlives the ledger."""


def default_path() -> Path:
    """`ledger.sqlite3` in `TRADE_HOME`, or else in the platform's folder for data of `trade`.

    Raises:
        ConfigError: there is no home folder.
    """
    return data_folder("the ledger") / "ledger.sqlite3"


def open_file(path: str, *, sync: bool, timeout: float, told: str) -> sqlite3.Connection:
    """A connection to the ledger at `path`, which is made when it is not there.

    Raises:
        LedgerError: it cannot be used; `told` is said of the call that needed it.
    """
    deadline = time.monotonic() + timeout
    try:
        # The mark first: it is made when the file has been filled, so that one that is just being made is not missed.
        signed = os.path.exists(path + _SIGNED)
        if signed and not _size(path):  # without SQLite, which would throw away the log of an empty file
            raise errors.lost(path, path + _SIGNED, told)
        with _CREATING:
            made = _create(path)
        if not made:
            _keep_private(path, told)
    except OSError as error:
        raise errors.from_os(error, path, told) from error
    while True:
        try:
            timeout = max(0.0, deadline - time.monotonic())
            return _connect(path, sync=sync, timeout=timeout, told=told, signed=signed)
        except sqlite3.Error as error:
            # While another process makes the file, SQLite says "locked" at once instead of waiting.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise errors.from_sqlite(error, path, told) from error
        time.sleep(_PAUSE)


def mark_signed(path: str, *, sync: bool) -> None:
    """Leave a mark beside the ledger at `path` that payments were signed. Should the ledger vanish, it is missed.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.close(private_files.create(path + _SIGNED))
    except FileExistsError:
        return
    if sync:
        private_files.sync_folder(os.path.dirname(path))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def open_memory() -> sqlite3.Connection:
    """A connection to a ledger of its own in memory."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _migrate(db, "in memory", errors.NOTHING_SENT)
    return db


def _create(path: str) -> bool:
    """Make folder and file when they are not there. SQLite gives its side files the mode of the file."""
    if os.path.lexists(path):
        return False
    folder = os.path.dirname(path)
    private_files.make_folder(folder)
    try:
        os.close(private_files.create(path))
    except FileExistsError:
        return False
    private_files.sync_folder(folder)
    return True


def _keep_private(path: str, told: str) -> None:
    """Take away from others what they may do with a file of ours; refuse one that is theirs."""
    if os.name == "nt":
        return
    own = 0
    for name in (path, f"{path}-wal", f"{path}-shm"):
        try:
            found = os.stat(name)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise errors.damaged(path, "it is not a file", told)
        if found.st_mode & 0o077:
            if found.st_uid != os.geteuid():
                raise errors.exposed(path, told)
            os.chmod(name, found.st_mode & 0o700)
        # SQLite gave its side files the mode that the file had then, and it may have been read-only.
        if name == path:
            own = found.st_mode & 0o600
        elif own & ~found.st_mode and found.st_uid == os.geteuid():
            os.chmod(name, (found.st_mode | own) & 0o700)


def _connect(path: str, *, sync: bool, timeout: float, told: str, signed: bool) -> sqlite3.Connection:
    # mode=rw: it is there, and SQLite itself would make it readable for others.
    db = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        version = _known(db, path, told)  # before anything is written: what is not ours is left as it is
        if signed and not version:  # its log was removed before it had been taken over
            raise errors.lost(path, path + _SIGNED, told)
        for pragma in (
            # As good as FULL with a write-ahead log, and where there can be none, a commit is as durable as with one.
            f"synchronous = {'EXTRA' if sync else 'OFF'}",
            "fullfsync = ON",  # on macOS, a plain sync leaves the bytes in the disk's cache
            "checkpoint_fullfsync = ON",
            "secure_delete = ON",
            "temp_store = MEMORY",
            "cell_size_check = ON",
            "trusted_schema = OFF",
        ):
            db.execute(f"PRAGMA {pragma}")
        if db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            db.execute("PRAGMA journal_mode = WAL")
        _migrate(db, path, told)
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: str, told: str) -> int:
    """The version of a ledger of ours, 0 for an empty file."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application != sql.APPLICATION and (
        application or version or db.execute("SELECT 1 FROM sqlite_master").fetchone()
    ):
        raise errors.damaged(path, "it is a database of another program", told)
    if version > len(sql.MIGRATIONS):
        raise errors.newer(path, version, len(sql.MIGRATIONS), told)
    if version < 0 or (application and not version):
        raise errors.damaged(path, f"it says version {version}", told)
    return version


def _known(db: sqlite3.Connection, path: str, told: str) -> int:
    """The same, of one moment: another process may be making the file."""
    db.execute("BEGIN")
    try:
        return _check(db, path, told)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _migrate(db: sqlite3.Connection, path: str, told: str) -> None:
    """Bring it to the newest version, in one transaction."""
    if _known(db, path, told) == len(sql.MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in sql.MIGRATIONS[_check(db, path, told) :]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {sql.APPLICATION}")
        db.execute(f"PRAGMA user_version = {len(sql.MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
