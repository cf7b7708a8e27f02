"""One simulated service: its state, clock, settings and memory of what was asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .clock import MockClock
from .errors import MockServerError
from .gaps import GapOptions
from .journal import Journal
from .ratelimit import RateLimiter
from .store import Store

DEFAULT_SEED = 7


class World:
    """Everything that routes and control work on. What must outlast the process is in `store`."""

    def __init__(
        self,
        *,
        seed: int | None = None,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | None = None,
        clock: MockClock | None = None,
    ) -> None:
        self.store = Store(db)
        self.clock = clock or MockClock()
        self.limiter = RateLimiter()
        self.journal = Journal()
        self.gaps = gaps or GapOptions()
        try:
            with self.store:
                kept = self.store.get_meta("seed")
                if kept is not None and seed is not None and int(kept) != seed:
                    raise MockServerError(f"{self.store.path} was made with seed {kept}, not {seed}: reset it first")
                self.seed = int(kept) if kept is not None else DEFAULT_SEED if seed is None else seed
                self.store.set_meta("seed", str(self.seed))
                if gaps is None:
                    self._load_gaps()
                if clock is None:
                    self._load_clock()
                self._save_gaps()
                self._save_clock()
                self.store.changed_elsewhere()
        except BaseException:
            self.store.close()
            raise
        self._closed = False
        self._unsubscribe = self.clock.on_change(self._clock_change)

    def now(self) -> float:
        """The service's time in Unix seconds."""
        return self.clock.now() + self.gaps.clock_skew

    def second(self) -> int:
        return int(self.now())

    def set_gaps(self, options: Mapping[str, object]) -> GapOptions:
        """Change some gap options; ValueError names what is wrong, and then nothing changes."""
        with self.transaction():
            self.gaps = self.gaps.changed(**options)
            self._save_gaps()
            return self.gaps

    def reset(self, seed: int | None = None) -> None:
        """Forget everything but the clock and the gap options; with `seed`, start another world."""
        with self.transaction():
            self.store.clear()
            self.seed = self.seed if seed is None else seed
            self.store.set_meta("seed", str(self.seed))
            self._save_gaps()
            self._save_clock()
            self.limiter.clear()
            self.journal.clear()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction that begins with what another process has changed in the file."""
        with self.store:
            self.sync()
            yield

    def sync(self) -> None:
        """Take over what another process has changed in the file. Called within a transaction."""
        if self.store.changed_elsewhere():
            self.seed = int(self.store.get_meta("seed") or self.seed)
            self._load_gaps()
            self._load_clock()

    def close(self) -> None:
        """Let go of the clock and the file. Doing it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._unsubscribe()
        self.store.close()

    @contextmanager
    def _clock_change(self) -> Iterator[None]:
        """What a change of the clock is made in: from the time in the file, and kept there. In memory, nothing."""
        if self.store.path is None:
            yield
            return
        with self.transaction():
            yield
            self._save_clock()

    def _save_clock(self) -> None:
        if self.store.path is not None:
            with self.store:
                self.store.set_meta("clock", json.dumps(self.clock.state()))

    def _load_clock(self) -> None:
        kept = self.store.get_meta("clock")
        if kept is not None:
            offset, frozen_at = json.loads(kept)
            self.clock.restore(offset, frozen_at)

    def _save_gaps(self) -> None:
        self.store.set_meta("gaps", json.dumps(self.gaps.as_dict()))

    def _load_gaps(self) -> None:
        kept = self.store.get_meta("gaps")
        if kept is not None:
            # Options that another version had and this one doesn't are left out.
            known = GapOptions().as_dict()
            self.gaps = GapOptions().changed(**{k: v for k, v in json.loads(kept).items() if k in known})
