"""What a ledger needs of a database: transactions, one at a time. `sqlite` and `postgres` have one each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ..._fleet.server import Row
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

    def write(self, statement: str, values: Sequence[object]) -> None:
        """Make a change, at the end of the transaction at the latest."""
        ...


class Engine(ABC):
    """The connection of a process to a database, opened at first use; one thread uses it at a time.

    Args:
        shown: the name of the database in errors.
        timeout: seconds that a call waits for another thread or process.

    Attributes:
        checks: statements that return what is wrong with the whole database, or `ok`.
        ahead: whole seconds by which the database's clock, by which claims end, is ahead of this machine's.
    """

    checks: tuple[tuple[str, Sequence[object]], ...] = ()
    ahead = 0

    def __init__(self, shown: str, timeout: float) -> None:
        self.shown = shown
        self._timeout = timeout
        self._lock = Semaphore(1)
        self._waited: set[str] = set()
        """Owners that have waited a whole timeout for a lock: they don't wait again while it is held."""

    def run(
        self,
        step: Callable[[Transaction], T],
        consequence: str = errors.NOTHING_SENT,
        *,
        write: bool = False,
        owner: str | None = None,
    ) -> T:
        """Do `step` in a transaction of the call `owner`; one that writes excludes all others that do, and is durable
        at its end.

        If the step raises, nothing has changed.

        Raises:
            LedgerError: it failed; `consequence` says what that means for the call.
        """
        deadline = SystemClock.monotonic() + (0 if owner in self._waited else self._timeout)
        try:
            if not self._lock.acquire(timeout=left(deadline)):
                raise errors.locked(self.shown)
            try:
                result = self._run(step, deadline, write=write)
            finally:
                self._lock.release()
        except (errors.UnusableLedgerError, DamagedRowError, OverflowError, UnicodeError) as error:
            problem = self._problem(error)
            if owner is not None and problem.code == "ledger_locked":
                self._waited.add(owner)
            message = f"{problem.what}; {consequence}"
            raise LedgerError(message, code=problem.code, hint=problem.hint) from problem.__cause__
        if owner is not None:
            self._waited.clear()
        return result

    def _problem(self, error: Exception) -> errors.UnusableLedgerError:
        if isinstance(error, errors.UnusableLedgerError):
            return error
        how = errors.damaged if isinstance(error, DamagedRowError) else errors.failed
        return how(self.shown, str(error))

    @abstractmethod
    def _run(self, step: Callable[[Transaction], T], deadline: float, *, write: bool) -> T:
        """Do `step` in a transaction, committed if that does not raise; `UnusableLedgerError` if it fails."""

    @abstractmethod
    def sign(self) -> None:
        """Prepare for the first signed payment, in the transaction that writes it."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. The next use opens it again."""


def left(deadline: float) -> float:
    """Seconds until a monotonic time, not below 0."""
    return max(0.0, deadline - SystemClock.monotonic())
