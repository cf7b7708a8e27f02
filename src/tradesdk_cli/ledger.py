"""The ledger of the terminal client."""

from __future__ import annotations

from tradesdk import Ledger


class KeepingLedger(Ledger):
    """Keeps each answer, not only until the SDK has handed it over."""

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        super().collect(payment_id, owner=owner, keep=True)
