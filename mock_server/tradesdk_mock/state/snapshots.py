"""A world's state as a file: snapshots, and what a state file holds."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from ..core.clock import MockClock
from ..core.errors import MockServerError, StateFileError, mock_errors
from .file_check import (
    LOGS,
    READ_WHOLE,
    Unusable,
    check,
    check_integrity,
    check_state,
    database_errors,
    inspect,
    is_there,
    settings,
)

if TYPE_CHECKING:
    from .world import World

_COUNTS = ("agents", "trades", "signals", "tenants")


class Snapshots:
    """Snapshot and restore of the whole state. Part of `MockService`."""

    world: World

    @overload
    def snapshot(self) -> bytes: ...

    @overload
    def snapshot(self, path: str | os.PathLike[str]) -> None: ...

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """The state as it is now, as bytes or written to a file. The file can be used as `db`, too.

        An existing file is replaced once all of the new one is on the disk.

        Raises:
            MockServerError: the file can't be written, or is a state file in use.
        """
        with mock_errors():
            if path is None:
                return snapshot(self.world)
            save(self.world, path)
        return None

    def restore(self, source: bytes | str | os.PathLike[str]) -> None:
        """Go back to a snapshot, or continue from a state file. The file itself isn't changed.

        Restored are state, seed, scenario, market, clock, gap options, faults and keys. The journal is empty, rate
        windows start over, and open streams end. A clock that was running has gone on since the snapshot.

        Raises:
            MockServerError: `source` is no state, is of another version, or is damaged. Then nothing is changed.
        """
        with mock_errors():
            restore(self.world, source)


def snapshot(world: World) -> bytes:
    """The state as the bytes of a state file."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tradesdk-mock-") as folder:
        file = os.path.join(folder, "state")
        _copy(world, file)
        with open(file, "rb") as copy:
            return copy.read()


def save(world: World, path: str | os.PathLike[str]) -> None:
    """Write the state to a file, completely or not at all. An existing file is replaced.

    Raises:
        MockServerError: it can't be written, or it is a state file in use.
    """
    import tempfile

    target = os.path.abspath(os.fspath(path))
    if any(os.path.exists(target + end) for end in LOGS):
        raise MockServerError(f"{path} is a state file in use, or one that wasn't closed: take another file")
    part: str | None = None
    try:
        if os.path.isdir(target):
            raise MockServerError(f"{path} is a folder, not a file")
        if world.store.path is not None and os.path.exists(target) and os.path.samefile(target, world.store.path):
            raise MockServerError(f"{path} is the state file itself: take another file")
        handle, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".snapshot-")
        os.close(handle)
        _copy(world, part)
        with open(part, "rb+") as copy:
            os.fsync(copy.fileno())
        os.replace(part, target)
        part = None
    except (OSError, sqlite3.Error) as error:
        raise MockServerError(f"can't write {path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        if part is not None:
            with suppress(OSError):
                os.unlink(part)


def restore(world: World, source: bytes | str | os.PathLike[str]) -> None:
    """Replace the world's state with that of a snapshot or a state file.

    Raises:
        MockServerError: it is no state, is of another version, or is damaged. Then nothing is changed.
    """
    import tempfile

    name = "the snapshot" if isinstance(source, bytes) else os.fspath(source)
    with tempfile.TemporaryDirectory(prefix="tradesdk-mock-") as folder:
        # Our own copy: nobody changes it between check and use.
        file = os.path.join(folder, "state")
        try:
            if isinstance(source, bytes):
                with open(file, "wb") as copy:
                    copy.write(source)
            elif is_there(name):
                inspect(name, lambda db: _duplicate(db, file))
            else:
                raise Unusable("is not there")
            _prepare(file)
        except Unusable as error:
            raise MockServerError(f"{name} can't be restored: it {error}") from error.__cause__
        except (OSError, sqlite3.Error) as error:
            raise MockServerError(f"{name} can't be restored: {error}") from error
        with world.store.attached(file):
            world.replace(world.store.replace_from_attached)


def _copy(world: World, file: str) -> None:
    with world.transaction():
        # In memory a world doesn't save its clock. A frozen clock is independent of real time.
        shown, real, speed, frozen = world.clock.state()
        world.store.set_meta("clock", json.dumps((shown, shown if frozen else real, speed, frozen)))
    target = sqlite3.connect(file, isolation_level=None)
    try:
        world.store.copy_to(target)
        # One file, without a separate log.
        target.execute("PRAGMA journal_mode=DELETE")
    finally:
        target.close()


def _duplicate(db: sqlite3.Connection, file: str) -> None:
    target = sqlite3.connect(file, isolation_level=None)
    try:
        db.backup(target)
    finally:
        target.close()


def _prepare(file: str) -> None:
    """Check all pages of a copy, and make it one file without a log."""
    if os.path.getsize(file) == 0:
        raise Unusable("is empty")
    db = sqlite3.connect(file, isolation_level=None)
    try:
        with database_errors():
            check_state(db)
            # Comparing every index with its table takes ten times as long as reading all pages, so small files only.
            check_integrity(db, "integrity_check" if os.path.getsize(file) <= READ_WHOLE else "quick_check")
            if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None or not settings(db):
                raise Unusable("has no world in it")
            db.execute("PRAGMA journal_mode=DELETE")
    finally:
        db.close()


def describe_state_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Seed, scenario, market, clock and counts of a state file, which may be in use.

    `now` is the time on its clock, `frozen` and `speed` say how that runs. A file doesn't tell the open streams.

    Raises:
        StateFileError: it doesn't exist, is no state file, is of another version, or is damaged.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise StateFileError(name, "is not there")
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
        inspect(name, read)
    except Unusable as error:
        raise StateFileError(name, str(error)) from error
    except (KeyError, ValueError, TypeError) as error:
        raise StateFileError(name, f"is damaged: {error}") from error
    return found


def is_state_file_in_use(path: str | os.PathLike[str]) -> bool:
    """Whether a service, in this process or another, uses the state file. False for other files."""
    uri = f"file:{quote(os.path.abspath(os.fspath(path)))}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0.2, isolation_level=None)) as db:
            # Granted only when no other connection is open.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            db.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    except sqlite3.DatabaseError:
        return False
    return False
