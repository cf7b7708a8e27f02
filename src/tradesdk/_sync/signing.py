# Generated from src/tradesdk/_async/signing.py by scripts/unasync.py: change that file instead.
"""Asks signers, whose methods block or are awaited."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from .._system.interrupts import failures
from ..payments.signing.signer import Asked, Done, advance

T = TypeVar("T")


def ask_signer(steps: Asked[T]) -> T:
    """Carry out what asks a signer: what blocks in a thread, and what a signer wants awaited here."""
    found = advance(steps, partial(next, steps))
    while not isinstance(found, Done):
        given, failed = None, None
        try:
            given = found.value
        except failures(Exception) as error:
            failed = error
        step = partial(steps.send, given) if failed is None else partial(steps.throw, failed)
        found = advance(steps, step)
    result: T = found.value
    return result
