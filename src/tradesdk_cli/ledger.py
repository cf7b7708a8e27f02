"""The ledger of the terminal client."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tradesdk import Collect, Ledger, LedgerError, LedgerRow, ReleaseClaim, Reopen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tradesdk import LedgerChange


class KeepingLedger(Ledger):
    """Keeps each answer, not only until the SDK has handed it over."""

    unprinted: dict[str, str | None] | None = None
    """Payments whose answers are not printed yet, with the owners of their claims; None: they count at once."""

    def update(self, payment_id: str, change: LedgerChange) -> LedgerRow:
        if isinstance(change, Collect):
            payment = self.get(payment_id)
            if self.unprinted is not None and payment is not None:
                self.unprinted[payment_id] = change.owner
                return LedgerRow(payment, change.owner)
            change = replace(change, keep=True)
        elif isinstance(change, Reopen):
            (self.unprinted or {}).pop(payment_id, None)
        return super().update(payment_id, change)


@contextmanager
def until_printed(ledger: KeepingLedger) -> Iterator[Callable[[], None]]:
    """Inside, an answer is collected when what is yielded is called: once it is written and flushed.

    Until then, whatever ends this process, the same command prints the answer and pays nothing.
    """

    def printed() -> None:
        held, ledger.unprinted = ledger.unprinted or {}, None
        for payment_id, owner in held.items():
            with suppress(LedgerError):  # then the same command prints it once more, and pays nothing
                ledger.update(payment_id, Collect(owner=owner))

    ledger.unprinted = {}
    try:
        yield printed
    finally:
        held, ledger.unprinted = ledger.unprinted or {}, None
        for payment_id, owner in held.items():
            with suppress(LedgerError):  # the claim of a process that has ended is void
                ledger.update(payment_id, ReleaseClaim(owner=owner))
