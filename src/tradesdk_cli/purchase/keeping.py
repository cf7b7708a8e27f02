"""The ledger of the terminal: it keeps every answer that was bought, should printing it fail."""

from __future__ import annotations

from tradesdk import Ledger
from tradesdk_cli.errors import CliError


class Unprinted(CliError):
    """What was paid for is here, and cannot be printed as it was asked for: `--query` does not fit it."""

    code = "not_printed"


class KeepingLedger(Ledger):
    """Keeps each answer, not only until the SDK has handed it over."""

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        super().collect(payment_id, owner=owner, keep=True)
