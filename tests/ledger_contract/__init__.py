"""What every ledger must do: the same cases and random courses for each engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tradesdk import Ledger

from . import ledger_cases as _cases  # its checks are in CHECKS then
from .expectations import CHECKS
from .ledger_model import Course
from .ledger_payments import OTHER

__all__ = ["LEDGER_CHECKS", "LEDGER_WALLET", "check_ledger_course", "check_ledger_store"]

LEDGER_WALLET = OTHER
"""The payer of all payments in these checks: the address of the private key 0x0101…01."""
LEDGER_CHECKS: Mapping[str, Callable[[Ledger], None]] = MappingProxyType(CHECKS)
"""Every single check by its name, for `pytest.mark.parametrize`. Each takes an empty store."""


def check_ledger_store(make_store: Callable[[], Ledger], *, courses: int = 20, steps: int = 50) -> None:
    """Check that a ledger does what `Ledger` promises: all of `LEDGER_CHECKS`, and random courses.

    That it is durable, that it is safe over processes and machines, and what it does when its engine fails, no such
    check can show.

    Args:
        make_store: returns a store without payments. It is called for each check; the stores are closed.
        courses: how many random courses of calls are compared with a plain model.
        steps: calls in each course.

    Raises:
        AssertionError: it does something else.
    """
    for check in LEDGER_CHECKS.values():
        store = make_store()
        try:
            check(store)
        finally:
            store.close()
    for seed in range(courses):
        check_ledger_course(make_store, seed, steps=steps)


def check_ledger_course(make_store: Callable[[], Ledger], seed: int, *, steps: int = 50) -> None:
    """One random course of `check_ledger_store`: the same seed makes the same course."""
    store = make_store()
    try:
        Course(store, random.Random(seed).choice).play(steps)
    finally:
        store.close()


del _cases
