"""Payments for the tests of the ledger."""

import random
from typing import Any

from tradesdk import Ledger

from ..ledger_contract import LEDGER_CHECKS
from ..ledger_contract.ledger_payments import (
    ADDRESS,
    HEADER,
    MIDNIGHT,
    NOW,
    ORIGIN,
    OTHER,
    PLENTY,
    at,
    claim,
    collect,
    draft,
    is_free,
    mark,
    release,
    reserve,
    resubmit,
    set_budget,
    submit,
    submitted,
    told,
    trusted,
    wanted,
)

SOME = random.Random(7).sample(sorted(LEDGER_CHECKS), 12)
"""Checks for the quick tests of what is slow."""


class Machines:
    """Ledgers over the same store, as of several machines: each call goes to any of them."""

    def __init__(self, *ledgers: Ledger) -> None:
        self._ledgers, self._pick = ledgers, random.Random(len(ledgers)).choice

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pick(self._ledgers), name)

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()


__all__ = [
    "Machines",
    "ADDRESS",
    "HEADER",
    "MIDNIGHT",
    "NOW",
    "ORIGIN",
    "OTHER",
    "PLENTY",
    "SOME",
    "at",
    "claim",
    "collect",
    "draft",
    "is_free",
    "mark",
    "release",
    "reserve",
    "resubmit",
    "set_budget",
    "submit",
    "submitted",
    "told",
    "trusted",
    "wanted",
]
