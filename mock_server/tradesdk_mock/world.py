"""One simulated service: its state, clock, settings and memory of what was asked."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .clock import MockClock
from .errors import ApiError, MockServerError
from .faults import Faults
from .gaps import GapOptions
from .hub import Hub
from .journal import Journal
from .ratelimit import RateLimiter
from .store import Store

if TYPE_CHECKING:
    from .paywall import Verifier

DEFAULT_SEED = 7
MARKETS = ("live", "scripted")


class World:
    """Everything that routes and control work on. What must outlast the process is in `store`.

    Attributes:
        market: `live`, or `scripted`: no signals but emitted ones. Kept in the state file.
        first_within: seconds within which whoever opens a stream gets a signal; None promises nothing.
        catch_up_limit: seconds of signals that a jump of the clock is made up for.
        verifier: judges payments for market data; None until the first request that has to pay.
        due: when the next signal is published (infinity: never), None when that has to be looked up.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | None = None,
        clock: MockClock | None = None,
        market: str | None = None,
        first_within: float | None = None,
        catch_up_limit: float = 31 * 86_400,
    ) -> None:
        if market not in (None, *MARKETS):
            raise MockServerError(f"{market!r} is not a market: {', '.join(MARKETS)}")
        if clock is not None and not isinstance(clock, MockClock):
            raise MockServerError(f"clock: must be a MockClock such as MockClock(1_800_000_000), not {clock!r}")
        self.store = Store(db)
        self.clock = clock or MockClock()
        self.limiter = RateLimiter()
        self.journal = Journal()
        self.hub = Hub()
        self.faults = Faults(self)
        self._news = False
        # How often the world was reset.
        self._age = 0
        self.market = MARKETS[0]
        self.first_within = first_within
        self.catch_up_limit = catch_up_limit
        self.due: float | None = None
        self.verifier: Verifier | None = None
        # Whoever serves this world, when the gap options have changed.
        self.on_gaps: Callable[[], object] = lambda: None
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
                self._begin(market)
                self._age = int(self.store.get_meta("age") or 0)
                self.store.changed_elsewhere()
        except ApiError as error:
            self.store.close()
            raise MockServerError(f"the state file {self.store.path} is in use: {error.message}") from error
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
        self.on_gaps()
        self.hub.ring()
        return self.gaps

    def reset(self, seed: int | None = None) -> None:
        """Forget everything but the clock and the gap options; with `seed`, start another world."""
        with self.transaction():
            market, age = self.market, self._age + 1
            self.store.clear()
            self.seed = self.seed if seed is None else seed
            self.store.set_meta("seed", str(self.seed))
            self.store.set_meta("age", str(age))
            self._age = age
            self._save_gaps()
            self._save_clock()
            self._begin(market)
            self.limiter.clear()
            self.journal.clear()
            self.faults.clear()
            self.hub.end_all()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction that begins with what another process has changed in the file."""
        try:
            with self.store:
                self.sync()
                yield
        except BaseException:
            # What it changed is undone, and so is what of that was noted here.
            with suppress(sqlite3.Error, ApiError):
                self._recall()
            raise
        if self._news:
            self._news = False
            self.hub.ring()

    def announce(self) -> None:
        """There is something that open streams have to look at. They are told after the transaction."""
        self._news = True

    def sync(self) -> None:
        """Take over what another process has changed in the file. Called within a transaction."""
        if self.store.changed_elsewhere():
            before = self.gaps
            self._recall()
            self._load_clock()
            if self.gaps != before:
                self.on_gaps()

    def _recall(self) -> None:
        self.due = None
        self.seed = int(self.store.get_meta("seed") or self.seed)
        self.market = self.store.get_meta("market") or self.market
        self._load_gaps()
        age = int(self.store.get_meta("age") or 0)
        if age != self._age:
            # Another process has reset the world: its signals are numbered anew.
            self._age = age
            self.hub.end_all()

    @property
    def closed(self) -> bool:
        """Whether nothing is served any more."""
        return self._closed

    def close(self) -> None:
        """Let go of the clock and the file. Doing it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self.hub.end_all()
        self._unsubscribe()
        self.store.close()

    @contextmanager
    def _clock_change(self) -> Iterator[None]:
        """What a change of the clock is made in: from the time in the file, and kept there. In memory, nothing."""
        if self.store.path is None:
            yield
        else:
            try:
                with self.transaction():
                    yield
                    self._save_clock()
            except ApiError as error:
                raise MockServerError(f"the state file {self.store.path} is in use: {error.message}") from error
        self.hub.ring()

    def _begin(self, market: str | None) -> None:
        """Note when the world was made, and whether its market makes signals by itself; what is given wins."""
        now = self.now()
        if self.store.get_meta("born") is None:
            self.store.set_meta("born", repr(now))
        kept, upto = self.store.get_meta("market"), self.store.get_meta("signals_upto")
        self.market = market or kept or MARKETS[0]
        self.store.set_meta("market", self.market)
        if kept == "scripted" and self.market == "live" and upto is not None:
            # For the time that it was off, it makes none.
            self.store.set_meta("signals_upto", repr(max(now, float(upto))))
        self.due = None

    def _save_clock(self) -> None:
        if self.store.path is not None:
            with self.store:
                self.store.set_meta("clock", json.dumps(self.clock.state()))

    def _load_clock(self) -> None:
        kept = self.store.get_meta("clock")
        if kept is not None:
            self.clock.restore(*json.loads(kept))

    def _save_gaps(self) -> None:
        self.store.set_meta("gaps", json.dumps(self.gaps.as_dict()))

    def _load_gaps(self) -> None:
        kept = self.store.get_meta("gaps")
        if kept is not None:
            # Options that another version had and this one doesn't are left out.
            known = GapOptions().as_dict()
            self.gaps = GapOptions().changed(**{k: v for k, v in json.loads(kept).items() if k in known})
