"""Checks of a state file before anything is written to it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from ..core.errors import StateFileError
from ..core.gap_options import GapOptions
from . import schema

# Reading a whole file takes 2 ms for each MiB. Larger ones are checked in use, where damage is an error response: a
# server should not need seconds before it listens.
READ_WHOLE = 16 * 1024 * 1024
_MARKETS = ("live", "scripted")


class Unusable(Exception):
    """A file that can't be used. The message is the end of a sentence that begins with its name."""


def check(path: str) -> None:
    """Accept a state file of this version, or a path where one can be created. Nothing is written.

    Raises:
        StateFileError: it is something else, or damaged.
    """
    try:
        if _is_there(path):
            with database_errors(), closing(_opened(path)) as db:
                check_state(db)
    except Unusable as error:
        raise StateFileError(path, str(error)) from error.__cause__


def _is_there(path: str) -> bool:
    """Whether there is a file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Unusable(f"can't be opened: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        raise Unusable("is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable("is no ordinary file")
    if found.st_size == 0 and _size(path + "-wal"):
        # SQLite would discard the log.
        raise Unusable(f"is damaged: it is empty, while {path}-wal is not")
    return True


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _opened(path: str) -> sqlite3.Connection:
    """A connection that changes nothing. Without its log, the file is not in use: then none is made beside it."""
    options = "mode=ro&immutable=1" if _size(path + "-wal") is None else "mode=ro"
    location = quote(os.fsencode(os.path.abspath(path).replace(os.sep, "/")))
    uri = f"file://{'' if location.startswith('/') else '/'}{location}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn errors of SQLite into `Unusable`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise Unusable("is not a state file, or damaged: it is no database") from error
        if "locked" in str(error):
            raise Unusable("is in use") from error
        if (reason := cause(error)) is not error:
            raise Unusable(f"can't be opened: {reason}") from reason
        # SQLite quotes text that it can't decode in full.
        raise Unusable(f"is damaged: {str(error).partition(' with text ')[0]}") from error
    except UnicodeDecodeError as error:
        raise Unusable("is damaged: a name in it is no text") from error


def cause(error: sqlite3.Error) -> Exception:
    """Why SQLite can't open a file: it doesn't tell if too many are open; else `error`."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN:
        try:
            with open(os.devnull), open(os.devnull), open(os.devnull), open(os.devnull):  # as many as SQLite opens
                pass
        except OSError as reason:
            return OSError(*reason.args)
    return error


def check_state(db: sqlite3.Connection) -> None:
    """Accept a state of this version, or an empty database; otherwise `Unusable`."""
    is_own = not db.in_transaction
    if is_own:  # both at one moment: another process may be creating it
        db.execute("BEGIN")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        found = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    finally:
        if is_own:
            db.execute("ROLLBACK")
    if not version and not found:
        return
    if "meta" not in found:
        raise Unusable("is not a state file: it is a database of something else")
    if version != schema.VERSION:
        raise Unusable(
            f"is of version {version}, and this mock reads version {schema.VERSION}: "
            "take another file, or the release that made this one"
        )
    for statement in filter(None, map(str.strip, schema.TABLES.split(";"))):
        kind, name = statement.split(None, 3)[1:3]
        if found.get(name) != statement:
            raise Unusable(f"is damaged: the {kind.lower()} {name} is {'another' if name in found else 'missing'}")
    settings(db)
    pages, size = (db.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "page_size"))
    if pages * size <= READ_WHOLE:
        check_integrity(db, "quick_check")


def check_integrity(db: sqlite3.Connection, pragma: str) -> None:
    (result,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
    if result != "ok":
        raise Unusable(f"is damaged: {' '.join(result.split())}")


def settings(db: sqlite3.Connection) -> dict[str, str]:
    """Seed, clock and the other settings of a world; empty when the process that created it ended too early."""
    kept = dict(db.execute("SELECT name, value FROM meta"))
    try:
        if kept:
            int(kept["seed"])
            float(kept["born"])
            location, real, speed, _ = json.loads(kept["clock"])
            if not 0 <= location < 1e12 or not 0 <= real < 1e12 or not 0 < speed < 1e6:
                raise ValueError(kept["clock"])
            known = GapOptions().as_dict()
            GapOptions().changed(**{name: value for name, value in json.loads(kept["gaps"]).items() if name in known})
            if kept["market"] not in _MARKETS:
                raise ValueError(kept["market"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Unusable("is damaged: its settings can't be read") from error
    return kept
