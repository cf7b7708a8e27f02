"""Open the ledger's file: private, durable, a ledger, and of a known version."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

from ..._local.folders import data_folder
from ..._system import private_files
from ..._system.clock import SystemClock
from ..._values.text import printable
from ...errors import LedgerError
from . import errors
from . import schema as sql

_APPLICATION = 0x7452_4C67
"""The `application_id` of a ledger."""
_CREATING = threading.Lock()
"""Held while a file is created: closing any descriptor of a file drops this process's locks on it."""
_PAUSE = 0.005
_SIGNED = "-signed"
"""Suffix of an empty file beside a ledger that has signed payments. It reveals that the ledger is missing."""


def default_path() -> Path:
    """`ledger.sqlite3` in `TRADE_HOME`, or else in the platform's data folder of `trade`."""
    return data_folder(os.environ.get("TRADE_HOME"), "the ledger") / "ledger.sqlite3"


def open_file(path: str, *, sync: bool, timeout: float) -> sqlite3.Connection:
    """Connect to the ledger at `path`; create it if it is missing."""
    deadline = SystemClock.monotonic() + timeout
    # Read the mark first: it is made after the ledger, so a ledger that is being created is not reported as lost.
    signed = os.path.exists(path + _SIGNED)
    if signed and not _size(path):  # before SQLite opens it, which would delete the log of an empty file
        raise errors.lost(path, path + _SIGNED)
    with _CREATING:
        made = _create(path)
    if not made:
        _keep_private(path)
    while True:
        try:
            return _connect(path, sync=sync, timeout=max(0.0, deadline - SystemClock.monotonic()), signed=signed)
        except sqlite3.Error as error:
            # While another process creates the file, SQLite reports "locked" at once instead of waiting.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code != sqlite3.SQLITE_BUSY or SystemClock.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)


def mark_signed(path: str, *, sync: bool) -> None:
    """Create the mark beside the ledger at `path`, so that a missing ledger is noticed from now on."""
    try:
        os.close(private_files.create(path + _SIGNED))
    except FileExistsError:
        return
    if sync:
        private_files.sync_folder(os.path.dirname(path))


def _size(path: str) -> int:
    try:  # not `os.path.exists`, which takes an error of a signal handler for an answer
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def open_memory() -> sqlite3.Connection:
    """Connect to a new ledger in memory."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create_tables(db, "in memory")
    return db


def _create(path: str) -> bool:
    """Create folder and file if they are missing. SQLite gives its side files the mode of the file."""
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


def _keep_private(path: str) -> None:
    """Remove other users' access to the file; refuse the file of another user."""
    if os.name == "nt":
        return
    own = 0
    for name in (path, f"{path}-wal", f"{path}-shm"):
        try:
            found = os.stat(name)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise errors.damaged(path, "not a regular file")
        if found.st_mode & 0o077:
            if found.st_uid != os.geteuid():
                what = f"the ledger {printable(path, 300)} is readable by other users, and belongs to another user"
                hint = "it holds signed payments: its owner must run chmod 600 on it"
                raise LedgerError(what, code="ledger_exposed", hint=hint)
            os.chmod(name, found.st_mode & 0o700)
        # The side files have the mode that the file had when they were created, perhaps read-only.
        if name == path:
            own = found.st_mode & 0o600
        elif own & ~found.st_mode and found.st_uid == os.geteuid():
            os.chmod(name, (found.st_mode | own) & 0o700)


def _connect(path: str, *, sync: bool, timeout: float, signed: bool) -> sqlite3.Connection:
    # mode=rw: SQLite must not create it, as others could read it then.
    db = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        with db:  # check before the first write: a file of another program is not changed
            db.execute("BEGIN")
            version = _version(db, path)
        if signed and not version:  # its log was deleted before the first checkpoint
            raise errors.lost(path, path + _SIGNED)
        for pragma in (
            # The same as FULL with a write-ahead log, and as durable on file systems that cannot have such a log.
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
        if not version:
            _create_tables(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: str) -> int:
    """The version of the ledger, 0 for an empty file. In a transaction: another process may be creating the file."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application != _APPLICATION and (application or version or db.execute("SELECT 1 FROM sqlite_master").fetchone()):
        raise errors.damaged(path, "a database of another program")
    if version < 0 or (application and not version):
        raise errors.damaged(path, f"its version is {version}")
    if version not in (0, sql.VERSION):
        raise errors.other_version(path, version, sql.VERSION)
    return version


def _create_tables(db: sqlite3.Connection, path: str) -> None:
    """Make the tables of a new file, in one transaction."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        if not _version(db, path):  # another process may have created them
            for statement in sql.TABLES:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {sql.VERSION}")
