"""The ledger of the terminal: it keeps every answer that was bought, should printing it fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

from tradesdk import Ledger, Payment
from tradesdk_cli.errors import CliError


class Unprinted(CliError):
    """What was paid for is here, and cannot be printed as it was asked for: `--query` does not fit it."""

    code = "not_printed"


class KeepingLedger(Ledger):
    """Gives each payment a job where the caller names none: the ledger keeps the answers of jobs.

    It is another job each time, so that the same command later buys anew.
    """

    def reserve(self, payment: Payment, *args: Any, **options: Any) -> Payment:
        if payment.job is None:
            payment = replace(payment, job=f"trade {uuid4()}")
        return super().reserve(payment, *args, **options)
