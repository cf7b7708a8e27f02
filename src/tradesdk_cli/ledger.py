"""The ledger of the terminal client."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tradesdk import Ledger, LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class KeepingLedger(Ledger):
    """Keeps each answer, not only until the SDK has handed it over."""

    unprinted: dict[str, str] | None = None
    """Payments whose answers are not printed yet, with the owners of their claims; None: they count at once."""

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        if self.unprinted is None:
            super().collect(payment_id, owner=owner, keep=True)
        else:
            self.unprinted[payment_id] = owner

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        (self.unprinted or {}).pop(payment_id, None)
        super().reopen(payment_id, owner=owner, reply=reply)


@contextmanager
def until_printed(ledger: KeepingLedger) -> Iterator[Callable[[], None]]:
    """Inside, an answer is collected when what is yielded is called: once it is written and flushed.

    Until then, whatever ends this process, the same command prints the answer and pays nothing.
    """

    def printed() -> None:
        held, ledger.unprinted = ledger.unprinted or {}, None
        for payment_id, owner in held.items():
            with suppress(LedgerError):  # then the same command prints it once more, and pays nothing
                ledger.collect(payment_id, owner=owner)

    ledger.unprinted = {}
    try:
        yield printed
    finally:
        held, ledger.unprinted = ledger.unprinted or {}, None
        for payment_id, owner in held.items():
            with suppress(LedgerError):  # the claim of a process that has ended is void
                ledger.give_back(payment_id, owner=owner)
