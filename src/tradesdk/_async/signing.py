"""Runs the generators that ask signers, whose methods block or are awaited. The twin in `_sync` is also by hand."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from .._system.interrupts import failures
from ..payments.signing.signer import Asked, Done, advance
from .concurrency import in_thread

T = TypeVar("T")


async def ask_signer(steps: Asked[T], *, blocks: bool = True) -> T:
    """Run a generator that asks a signer: blocking methods in a thread; awaitables are awaited here.

    `blocks`: whether the signer's methods may block.
    """
    first = partial(next, steps)
    found = await in_thread(advance, steps, first) if blocks else advance(steps, first)
    while not isinstance(found, Done):
        given, failed = None, None
        try:
            given = await found.value
        except failures(Exception) as error:
            failed = error
        step = partial(steps.send, given) if failed is None else partial(steps.throw, failed)
        found = await in_thread(advance, steps, step)
    result: T = found.value
    return result
