"""One simulated service: its state, clock, settings and request log."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

from ..core.clock import MockClock
from ..core.errors import ApiError, MockServerError, StateFileError, unusable
from ..core.gap_options import GapOptions
from ..core.rate_limit import RateLimiter
from ..core.request_log import Journal
from ..core.subscribers import Subscribers
from ..market.price_model import Prices, prices
from .database import Database

DEFAULT_SEED = 7
MARKETS = ("live", "scripted")


class Trading(Protocol):
    """The trading engine as a world sees it. It holds agents and positions in memory.

    Attributes:
        changes: their count of changes in the database when they were last read or written.
        next_exit: when a position has to be closed or checked even without a signal; infinity for never.
        is_current: whether it agrees with the database.
    """

    changes: int
    next_exit: float

    @property
    def is_current(self) -> bool: ...


class World:
    """The state behind routes and control. What must survive a restart is in `store`.

    Attributes:
        market: `live`, or `scripted`: only emitted signals. Kept in the state file.
        first_within: seconds within which a new stream gets a signal; None for no limit.
        catch_up_limit: after a jump of the clock, signals of at most this many seconds are published.
        due: when the next signal is published (infinity: never); None when unknown.
        closed: nothing is served any more.
        generation: changes with each reset and each restored snapshot, in every process on the file.
        trading: the trading engine; None until it is needed, and after changes by other processes.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | Mapping[str, object] | None = None,
        clock: MockClock | None = None,
        market: str | None = None,
        first_within: float | None = None,
        catch_up_limit: float = 31 * 86_400,
    ) -> None:
        if market not in (None, *MARKETS):
            raise MockServerError(f"{market!r} is not a market: {', '.join(MARKETS)}")
        if clock is not None and not isinstance(clock, MockClock):
            raise MockServerError(f"clock: must be a MockClock such as MockClock(1_800_000_000), not {clock!r}")
        self.store = Database(db)
        self.clock = clock or MockClock()
        self.limiter = RateLimiter()
        self.journal = Journal()
        self.subscribers = Subscribers()
        self._streams_to_notify = False
        # Whether the clock was moved in the open transaction.
        self._moved = False
        # How often the world was reset or restored.
        self.generation = 0
        self.market = MARKETS[0]
        self.first_within = first_within
        self.catch_up_limit = catch_up_limit
        self.due: float | None = None
        self._prices: Prices | None = None
        self.trading: Trading | None = None
        # Called when the gap options have changed.
        self.on_gaps: Callable[[], object] = lambda: None
        self.gaps = gaps if isinstance(gaps, GapOptions) else GapOptions()
        try:
            with self.store.transaction():
                kept = self.store.get_meta("seed")
                if kept is not None and seed is not None and int(kept) != seed:
                    raise StateFileError(str(self.store.path), f"was made with seed {kept}, not {seed}: reset it first")
                self.seed = int(kept) if kept is not None else DEFAULT_SEED if seed is None else seed
                self.store.set_meta("seed", str(self.seed))
                if not isinstance(gaps, GapOptions):
                    self._load_gaps()
                    self.gaps = self.gaps.changed(**gaps or {})
                if clock is None:
                    self._load_clock()
                self._save_gaps()
                self._save_clock()
                self._begin(market)
                self.generation = int(self.store.get_meta("age") or 0)
                self.store.changed_elsewhere()
        except ApiError as error:
            self.store.close()
            raise unusable(self.store.path, error) from error
        except BaseException:
            self.store.close()
            raise
        self.closed = False
        self._unsubscribe = self.clock.on_change(self._clock_change)

    @property
    def prices(self) -> Prices:
        """The prices of the market."""
        if self._prices is None:
            self._prices = prices(self.seed)
        return self._prices

    def now(self) -> float:
        """The service's time in Unix seconds."""
        return self.clock.now() + self.gaps.clock_skew

    def second(self) -> int:
        return int(self.now())

    def set_gaps(self, options: Mapping[str, object]) -> GapOptions:
        """Change some gap options. ValueError for a bad one; then nothing changes."""
        with self.transaction():
            self.gaps = self.gaps.changed(**options)
            self._save_gaps()
        self.on_gaps()
        self.subscribers.notify()
        return self.gaps

    def reset(self, seed: int | None = None) -> None:
        """Delete everything except the clock and the gap options; `seed` changes the world."""
        with self.transaction():
            market, age = self.market, self.generation + 1
            self.store.clear()
            self.seed = self.seed if seed is None else seed
            self.store.set_meta("seed", str(self.seed))
            self.store.set_meta("age", str(age))
            self.generation = age
            self._save_gaps()
            self._save_clock()
            self._begin(market)
            self.limiter.clear()
            self.journal.clear()
            self.subscribers.end_all()

    def replace(self, fill: Callable[[], object]) -> None:
        """Replace the state: `fill` writes the new one, or raises, and then nothing changes."""
        clock, gaps = self.clock.state(), self.gaps
        try:
            with self.transaction():
                age = self.generation + 1
                fill()
                # A new generation in every process on the file: open streams end in all of them.
                self.store.set_meta("age", str(age))
                self._load_clock()
                self.reload_from_file()
        except BaseException:
            self.clock.restore(*clock)
            raise
        self.journal.clear()
        if self.gaps != gaps:
            self.on_gaps()

    @contextmanager
    def transaction(self) -> Iterator[float]:
        """A write transaction. It first reads what another process has changed in the file. Gives the time."""
        try:
            with self.store.transaction() as is_outermost:
                if is_outermost:
                    self._moved = False
                    if self.store.path is not None:
                        self.sync()
                yield self.clock.now() + self.gaps.clock_skew
        except BaseException:
            # The changes are rolled back, so what was derived from them is read again.
            with suppress(sqlite3.Error, ApiError):
                self.reload_from_file()
                if self._moved:
                    self._load_clock()
            raise
        if self._streams_to_notify:
            self._streams_to_notify = False
            self.subscribers.notify()

    @property
    def created_at(self) -> float:
        """When the world was made."""
        return float(self.store.get_meta("born") or self.now())

    def set_created_at(self, when: float) -> None:
        """Set the time of creation. The caller drops data that depends on earlier prices."""
        self.store.set_meta("born", repr(when))
        self._prices = None

    def notify_streams(self) -> None:
        """Wake open streams after the transaction."""
        self._streams_to_notify = True

    def sync(self) -> None:
        """Read the changes of other processes in the file. Called within a transaction."""
        if self.store.changed_elsewhere():
            before = self.gaps
            self.reload_from_file()
            self._load_clock()
            if self.gaps != before:
                self.on_gaps()

    def reload_from_file(self) -> None:
        self.due = None
        self.seed = int(self.store.get_meta("seed") or self.seed)
        self.market = self.store.get_meta("market") or self.market
        self._prices = None
        self._load_gaps()
        age = int(self.store.get_meta("age") or 0)
        if age != self.generation:
            # The world was reset or restored, here or in another process: its signals have other numbers.
            self.generation = age
            self.limiter.clear()
            self.subscribers.end_all()
        if self.trading is not None and not self.trading.is_current:
            # Reading the positions of thousands of agents takes a second, so only when they have changed.
            self.trading = None

    def close(self) -> None:
        """Release the clock and the file. Calling it again does nothing."""
        if self.closed:
            return
        self.closed = True
        self.subscribers.end_all()
        self._unsubscribe()
        self.store.close()

    @contextmanager
    def _clock_change(self) -> Iterator[None]:
        """Wraps a change of the clock: reads the time from the file before and saves it after. In memory: nothing."""
        if self.store.path is None:
            yield
        else:
            try:
                with self.transaction():
                    self._moved = True
                    yield
                    self._save_clock()
            except ApiError as error:
                raise unusable(self.store.path, error) from error
        self.subscribers.notify()

    def _begin(self, market: str | None) -> None:
        """Save when the world was made, and its market; the given market wins over the saved one."""
        now = self.now()
        if self.store.get_meta("born") is None:
            self.store.set_meta("born", repr(now))
        kept, upto = self.store.get_meta("market"), self.store.get_meta("signals_upto")
        self.market = market or kept or MARKETS[0]
        self.store.set_meta("market", self.market)
        self._prices = None
        if kept == "scripted" and self.market == "live" and upto is not None:
            # There are no signals for the time when it was off.
            self.store.set_meta("signals_upto", repr(max(now, float(upto))))
        self.due = None
        self.trading = None

    def _save_clock(self) -> None:
        if self.store.path is not None:
            with self.store.transaction():
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
            # Options of another version that are unknown here are ignored.
            known = GapOptions().as_dict()
            self.gaps = GapOptions().changed(**{k: v for k, v in json.loads(kept).items() if k in known})
