"""State files: what one is before anything is written to it, and a world's state as such a file."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, overload
from urllib.parse import quote

from ..core.errors import ApiError, MockServerError
from ..core.gap_options import GapOptions
from ..market.scenarios import SCENARIOS
from . import schema

if TYPE_CHECKING:
    from .world import World

# Reading a whole file costs 2 ms for each MiB. Larger ones are looked at where they are used, and damage is answered
# there: nobody wants to wait for seconds until a server listens.
_READ_WHOLE = 16 * 1024 * 1024
# How often to look again at a file that others are changing.
_LOOKS = 10
_LOGS = ("-wal", "-shm", "-journal")
_MARKETS = ("live", "scripted")


class Snapshots:
    """What can be done to a service's state as a whole. Part of `MockService`."""

    world: World

    @overload
    def snapshot(self) -> bytes: ...

    @overload
    def snapshot(self, path: str | os.PathLike[str]) -> None: ...

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """The state as it is now: as bytes, or written into a file, which can be used as `db` too.

        A file that is there is replaced, when all of the new one is on the disk.

        Raises:
            MockServerError: the file can't be written, or is a state file in use.
        """
        try:
            if path is None:
                return snapshot(self.world)
            save(self.world, path)
            return None
        except ApiError as error:
            raise MockServerError(error.message) from None

    def restore(self, source: bytes | str | os.PathLike[str]) -> None:
        """Go back to a snapshot, or on from a state file, which stays as it is.

        All is as it was: state, seed, scenario, market, clock, gap options, faults and keys. The journal is empty,
        rate windows begin anew, and open streams end. A clock that was running shows the time that it would have now.

        Raises:
            MockServerError: `source` is no state, of another version, or damaged. Then nothing is changed.
        """
        try:
            restore(self.world, source)
        except ApiError as error:
            raise MockServerError(error.message) from None


class Unusable(Exception):
    """What is wrong with a file, as the end of a sentence about it."""


def check(path: str) -> None:
    """Nothing, for a state file of this version and for a place where one can be made. Changes and leaves nothing.

    Raises:
        MockServerError: it is something else, or damaged; the message has its name and the reason.
    """
    try:
        if _is_there(path):
            look(path, _checked)
    except Unusable as error:
        raise MockServerError(f"the state file {path} {error}") from error.__cause__


def snapshot(world: World) -> bytes:
    """The state as the bytes of a state file."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tradesdk-mock-") as folder:
        file = os.path.join(folder, "state")
        _copy(world, file)
        with open(file, "rb") as copy:
            return copy.read()


def save(world: World, path: str | os.PathLike[str]) -> None:
    """Write the state into a file of its own: all of it, or nothing. One that is there is replaced.

    Raises:
        MockServerError: it can't be written, or it is a state file in use.
    """
    import tempfile

    target = os.path.abspath(os.fspath(path))
    if any(os.path.exists(target + end) for end in _LOGS):
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
    """Put the state of a snapshot or a state file in the place of the world's.

    Raises:
        MockServerError: it is none, of another version, or damaged; the world is as it was.
    """
    import tempfile

    name = "the snapshot" if isinstance(source, bytes) else os.fspath(source)
    with tempfile.TemporaryDirectory(prefix="tradesdk-mock-") as folder:
        # A copy of our own: nobody changes it between the look and the use.
        file = os.path.join(folder, "state")
        try:
            if isinstance(source, bytes):
                with open(file, "wb") as copy:
                    copy.write(source)
            elif _is_there(name):
                look(name, lambda db: _duplicate(db, file))
            else:
                raise Unusable("is not there")
            _prepare(file)
        except Unusable as error:
            raise MockServerError(f"{name} can't be restored: it {error}") from error.__cause__
        except (OSError, sqlite3.Error) as error:
            raise MockServerError(f"{name} can't be restored: {error}") from error
        with world.store.beside(file):
            world.replace(world.store.take_over)


def _copy(world: World, file: str) -> None:
    with world.transaction():
        # In memory a world keeps no account of its clock. One that stands still has nothing to do with real time.
        shown, real, speed, frozen = world.clock.state()
        world.store.set_meta("clock", json.dumps((shown, shown if frozen else real, speed, frozen)))
    target = sqlite3.connect(file, isolation_level=None)
    try:
        world.store.copy_to(target)
        # One file, without a log beside it.
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
    """Check a copy from its first to its last page, and make it one file."""
    if os.path.getsize(file) == 0:
        raise Unusable("is empty")
    db = sqlite3.connect(file, isolation_level=None)
    try:
        with _named():
            _checked(db)
            # Comparing every index with its table takes ten times as long as reading all pages.
            _sound(db, "integrity_check" if os.path.getsize(file) <= _READ_WHOLE else "quick_check")
            if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None or not _settings(db):
                raise Unusable("has no world in it")
            db.execute("PRAGMA journal_mode=DELETE")
    finally:
        db.close()


def _is_there(path: str) -> bool:
    """Whether there is a file with something in it."""
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
    if not os.access(path, os.R_OK | os.W_OK):
        raise Unusable("can't be read and written: no permission")
    if found.st_size == 0 and _size(path + "-wal"):
        # SQLite would throw the log away.
        raise Unusable(f"is damaged: it is empty, while {path}-wal is not")
    return found.st_size > 0


def look(path: str, what: Callable[[sqlite3.Connection], None]) -> None:
    """Do something with a connection that only reads. Again, where another process changed the file meanwhile."""
    failure: Exception = Unusable("is in use")
    for _ in range(_LOOKS):
        before = _stamp(path)
        try:
            with _named(), _reading(path) as db:
                what(db)
            return
        except (Unusable, OSError) as error:
            failure = error
        if _stamp(path) == before:
            break
    if isinstance(failure, OSError):
        raise Unusable(f"can't be opened: {failure.strerror}") from failure
    raise failure


def _stamp(path: str) -> object:
    return [_size(path + end) for end in ("", *_LOGS)], os.stat(path).st_mtime_ns


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


@contextmanager
def _reading(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that leaves the file and its folder as they are.

    Never opened past SQLite where it may be in use: closing such a file would take away the locks that other
    connections of this process have on it.
    """
    with ExitStack() as stack:
        options = "mode=ro&immutable=1"
        if _size(path + "-wal"):
            options = "mode=ro"
            if not os.path.exists(path + "-shm"):
                # Nobody uses it, and reading it with its log would leave an index of that beside it.
                import shutil
                import tempfile

                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tradesdk-mock-"))
                for end in ("", "-wal"):
                    shutil.copyfile(path + end, os.path.join(folder, "state" + end))
                path = os.path.join(folder, "state")
        place = quote(os.path.abspath(path).replace(os.sep, "/"))
        uri = f"file://{'' if place.startswith('/') else '/'}{place}?{options}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None)
        stack.callback(db.close)
        yield db


@contextmanager
def _named() -> Iterator[None]:
    """What SQLite says about a file, in words."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise Unusable("is not a state file, or damaged: it is no database") from error
        if "locked" in str(error):
            raise Unusable("is in use") from error
        # Of text that can't be read, SQLite quotes all there is.
        raise Unusable(f"is damaged: {str(error).partition(' with text ')[0]}") from error
    except UnicodeDecodeError as error:
        raise Unusable("is damaged: a name in it is no text") from error


def _checked(db: sqlite3.Connection) -> None:
    """Nothing, for a state of this version, and for a database with nothing in it."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    found = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    if not version and not found:
        return
    ours = found.keys() & set(schema.NAMES)
    if len(ours) < len(schema.NAMES) // 2:
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
    _settings(db)
    pages, size = (db.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "page_size"))
    if pages * size <= _READ_WHOLE:
        _sound(db, "quick_check")


def _sound(db: sqlite3.Connection, pragma: str) -> None:
    (said,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
    if said != "ok":
        raise Unusable(f"is damaged: {' '.join(said.split())}")


def _settings(db: sqlite3.Connection) -> dict[str, str]:
    """Seed, clock and what else a world begins with; none where a process ended before it had noted them."""
    kept = dict(db.execute("SELECT name, value FROM meta"))
    try:
        if kept:
            int(kept["seed"])
            float(kept["born"])
            shown, real, speed, _ = json.loads(kept["clock"])
            if not 0 <= shown < 1e12 or not 0 <= real < 1e12 or not 0 < speed < 1e6:
                raise ValueError(kept["clock"])
            known = GapOptions().as_dict()
            GapOptions().changed(**{name: value for name, value in json.loads(kept["gaps"]).items() if name in known})
            if kept["scenario"] not in SCENARIOS or kept["market"] not in _MARKETS:
                raise ValueError(kept["scenario"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Unusable("is damaged: its settings can't be read") from error
    return kept
