"""What a state file holds, for lists of worlds: read from the file alone, which stays as it is."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote

from ..core.clock import MockClock
from ..core.errors import MockServerError
from .snapshots import Unusable, check, look

_COUNTS = ("agents", "trades", "signals", "tenants")


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Seed, scenario, market, clock and counts of a state file that may be in use.

    `now` is what its clock would show now, `frozen` and `speed` how it runs, `streams` is not told by a file.

    Raises:
        MockServerError: it is not there, no state file, of another version, or damaged.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise MockServerError(f"the state file {name} is not there")
    check(name)
    found: dict[str, Any] = {}

    def read(db: sqlite3.Connection) -> None:
        meta = dict(db.execute("SELECT name, value FROM meta"))
        clock = MockClock()
        if "clock" in meta:
            clock.restore(*json.loads(meta["clock"]))
        found.update(
            seed=int(meta["seed"]),
            scenario=meta.get("scenario"),
            market=meta.get("market"),
            now=clock.now(),
            frozen=clock.frozen,
            speed=clock.speed,
            **{each: db.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in _COUNTS},  # noqa: S608 - ours
        )

    try:
        look(name, read)
    except Unusable as error:
        raise MockServerError(f"the state file {name} {error}") from error
    except (KeyError, ValueError, TypeError) as error:
        raise MockServerError(f"the state file {name} is damaged: {error}") from error
    return found


def in_use(path: str | os.PathLike[str]) -> bool:
    """Whether another service, of this process or another, works on the state file; of what is none, nobody does."""
    uri = f"file:{quote(os.path.abspath(os.fspath(path)))}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0.2, isolation_level=None)) as db:
            # Only whoever is alone with it gets this lock.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            db.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    except sqlite3.DatabaseError:
        return False
    return False
