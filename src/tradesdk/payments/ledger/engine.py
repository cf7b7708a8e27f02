"""What a ledger needs of a database: transactions, one at a time. `sqlite` and `postgres` have one each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..._fleet.server import Row
from ..._http.log_events import ledger_failed
from ..._system import forks
from ..._system.clock import SystemClock
from ..._system.semaphore import Semaphore
from ...errors import LedgerError
from . import errors

T = TypeVar("T")


class DamagedRowError(Exception):
    """A row that no release writes."""


class StaleRowError(Exception):
    """A row is no longer what the transaction expects."""


class Transaction(Protocol):
    """A transaction. A statement comes with its parameters."""

    def read(self, *statements: tuple[str, Sequence[object]]) -> list[list[Row]]:
        """Run statements and return their rows: one round trip for all of them."""
        ...

    def expect(self, statement: str, values: Sequence[object]) -> None:
        """Check that a statement finds one row, before any change is made. Else the transaction ends with
        `StaleRowError`, at its end at the latest."""

    def write(self, *statements: tuple[str, Sequence[object]]) -> None:
        """Make changes, at the end of the transaction at the latest."""
        ...


class Late(NamedTuple):
    """The end of a call that could not be written. It may be, nevertheless, so it can be done twice."""

    payment_id: str
    signatures: int
    change: Callable[[Any], Any]
    step: Callable[[Transaction], object]


class Engine(ABC):
    """The connection of a process to a database, opened at first use; one thread uses it at a time.

    Args:
        shown: the name of the database in errors.
        timeout: seconds that a call waits for another thread or process.

    Attributes:
        checks: statements that return what is wrong with the whole database, or `ok`.
        ahead: whole seconds by which the database's clock, by which claims end, is ahead of this machine's.
        late: what is written before the next step. Without it, nothing else is.
        is_marked: whether the first signed payment was prepared for.
        ending: whether the last transaction was told to end: if that failed, it may be done.
    """

    checks: tuple[tuple[str, Sequence[object]], ...] = ()
    ahead = 0
    is_marked = True

    def __init__(self, shown: str, timeout: float) -> None:
        self.shown = shown
        self.late: list[Late] = []
        self.ending = False
        self._timeout = timeout
        self._lock = Semaphore(1)
        self._waited: set[str] = set()
        """Owners that have waited a whole timeout for a lock: they don't wait again while it is held."""
        forks.bind(self)

    def forked(self) -> None:
        """In the child of a fork: the parent writes what is late."""
        self.late = []

    def run(
        self,
        step: Callable[[Transaction], T],
        consequence: str = errors.NOTHING_SENT,
        *,
        write: bool = False,
        owner: str | None = None,
        late: Callable[[], Late | None] = lambda: None,
    ) -> T:
        """Do `step` in a transaction of the call `owner`; one that writes excludes all others that do, and is durable
        at its end.

        If the step raises, nothing has changed. `late`: what is written later if nobody knows whether it is done: the
        answer to its end was lost, or it was interrupted there.

        Raises:
            LedgerError: it failed; `consequence` says what that means for the call.
        """
        deadline = SystemClock.monotonic() + (0 if owner in self._waited else self._timeout)
        try:
            if not self._lock.acquire(timeout=left(deadline)):
                raise errors.locked(self.shown)
            try:
                self._catch_up(deadline, write=write)
                self.ending = False
                result = self._run(step, deadline, write=write)
            except BaseException:
                if self.ending and (one := late()) is not None:
                    self.late.append(one)
                raise
            finally:
                self._lock.release()
        except (errors.UnusableLedgerError, *_OF_ROWS) as error:
            problem = self._problem(error, consequence)
            if owner is not None and problem.code == "ledger_locked":
                self._waited.add(owner)
            raise problem from problem.__cause__
        if owner is not None:
            self._waited.clear()
        return result

    def _catch_up(self, deadline: float, *, write: bool) -> None:
        """Write what is late; what the database takes never is dropped. Before a read, at once or not at all."""
        while self.late:
            one = self.late[0]
            try:
                self._run(one.step, deadline if write else 0.0, write=True)
            except _OF_ROWS as error:
                ledger_failed(self._problem(error, errors.DROPPED), one.payment_id)
            except errors.UnusableLedgerError:
                if write:
                    raise
                return
            del self.late[0]

    def _problem(self, error: Exception, consequence: str) -> LedgerError:
        if not isinstance(error, errors.UnusableLedgerError):
            how = errors.damaged if isinstance(error, DamagedRowError) else errors.failed
            error = how(self.shown, str(error))
        found = LedgerError(f"{error.what}; {consequence}", code=error.code, hint=error.hint)
        found.__cause__ = error.__cause__
        return found

    @abstractmethod
    def _run(self, step: Callable[[Transaction], T], deadline: float, *, write: bool) -> T:
        """Do `step` in a transaction, committed if that does not raise; `UnusableLedgerError` if it fails."""

    @abstractmethod
    def mark(self) -> None:
        """Prepare for the first signed payment, in the transaction that writes it."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. The next use opens it again."""


_OF_ROWS = DamagedRowError, errors.RefusedRowError, OverflowError, UnicodeError
"""What is wrong with what a step reads or writes, not with the database."""


def left(deadline: float) -> float:
    """Seconds until a monotonic time, not below 0."""
    return max(0.0, deadline - SystemClock.monotonic())
