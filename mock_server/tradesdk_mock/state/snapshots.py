"""A world's whole state as the bytes of a state file: snapshot and restore."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.errors import MockServerError, mock_errors
from .file_check import READ_WHOLE, Unusable, check_integrity, check_state, database_errors, settings

if TYPE_CHECKING:
    from .world import World


class Snapshots:
    """Snapshot and restore of the whole state. Part of `MockService`."""

    world: World

    def snapshot(self) -> bytes:
        """The state as it is now: the bytes of a file that can be used as `db`, too."""
        with mock_errors(), _empty_file() as file:
            _copy(self.world, file)
            with open(file, "rb") as copy:
                return copy.read()

    def restore(self, state: bytes) -> None:
        """Go back to a snapshot, or continue from the bytes of a state file.

        Restored are state, seed, market, clock, gap options, faults and keys. The journal is empty, rate
        windows start over, and open streams end. A clock that was running has gone on since the snapshot.

        Raises:
            MockServerError: it is no state, is of another version, or is damaged. Then nothing is changed.
        """
        with mock_errors(), _empty_file() as file:
            try:
                with open(file, "wb") as copy:
                    copy.write(state)
                _prepare(file)
            except Unusable as error:
                raise MockServerError(f"the snapshot can't be restored: it {error}") from error.__cause__
            except (OSError, sqlite3.Error) as error:
                raise MockServerError(f"the snapshot can't be restored: {error}") from error
            with self.world.store.attached(file):
                self.world.replace(self.world.store.replace_from_attached)


@contextmanager
def _empty_file() -> Iterator[str]:
    """The name of a file that is removed afterwards."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tradesdk-mock-") as folder:
        yield os.path.join(folder, "state")


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
