"""Ctrl-C at any line of the SDK in a paid call: the ledger knows what was handed over, and nothing is paid twice.

Between two lines a claim may stay held for its lease; where calls wait and between ledger steps it does not.
"""

from __future__ import annotations

import ast
import functools
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import tradesdk
from tradesdk import NotFoundError, PaymentError
from tradesdk._sync.concurrency import Semaphore
from tradesdk._values.payment import GRACE
from tradesdk.payments.ledger.leases import LONGEST_CLAIM

from .._eventful import Stop, agree, paid_once
from .._interrupts import apart
from .._rows import each_of
from .._sync._paidshop import Shop, lost

HOME = str(Path(tradesdk.__file__).parent)


@functools.cache
def withs(path: str) -> dict[int, int]:
    """First and last lines of the `with` statements in a file."""
    tree = ast.parse(Path(path).read_text("utf-8"))
    return {node.lineno: node.end_lineno or 0 for node in ast.walk(tree) if isinstance(node, ast.With)}


@functools.cache
def begins_of_handlers(path: str) -> frozenset[int]:
    """The lines of `except` in a file, and the first ones of their bodies."""
    handlers = [
        node for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))) if isinstance(node, ast.ExceptHandler)
    ]
    return frozenset(line for handler in handlers for line in (handler.lineno, handler.body[0].lineno))


class Interrupted:
    """Runs a call that is interrupted before the line number `at`, counted from 1, of all that the SDK runs."""

    def __init__(self, call: Callable[[], Any], at: int) -> None:
        self._at = at
        self._lines: dict[FrameType, int] = {}
        self.count = 0
        self.result: Any = None
        apart(lambda: self._run(call))

    def _run(self, call: Callable[[], Any]) -> None:
        sys.settrace(self._calls)
        try:
            self.result = call()
        except (Stop, PaymentError):
            pass
        finally:
            sys.settrace(None)
            self._lines.clear()

    def _calls(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(HOME) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            line, earlier = frame.f_lineno, self._lines.get(frame, 0)
            self._lines[frame] = line
            # Python runs no signal's handler between the body of a `with` and its exit, so that it cannot be skipped,
            # nor from an exception to the first line of its `except`: it would stay in the frame.
            file = frame.f_code.co_filename
            if not line < earlier <= withs(file).get(line, 0) and line not in begins_of_handlers(file):
                self.count += 1
                if self.count == self._at:
                    sys.settrace(None)
                    raise Stop
        return self._line


Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""The call that is interrupted, and the one that comes next."""


def a_call(shop: Shop) -> Calls:
    return shop.buy, shop.buy


def a_batch(shop: Shop) -> Calls:
    run = shop.client.batches.token_prices(["ETH"], max_total="0.03")

    def act() -> Any:
        return next(run).result

    return act, act


def a_batch_of_a_job(shop: Shop) -> Calls:
    def act() -> Any:
        run = shop.client.batches.token_prices(["ETH"], job="tuesday")
        bought = next(run, None)
        assert bought is not None or run.passed_over == (("ETH",),)
        return bought and bought.result

    return act, act


def in_doubt(shop: Shop) -> str:
    shop.service.kinds = ["lost before"]
    with pytest.raises(PaymentError) as caught:
        shop.client.with_options(max_retries=0).token_prices(["ETH"])
    assert caught.value.payment is not None
    return caught.value.payment.id


def a_kept_answer(shop: Shop) -> Calls:
    lost(shop)
    return shop.buy, shop.buy


def resume(shop: Shop) -> Calls:
    name = in_doubt(shop)
    return lambda: shop.client.payments.resume(name), shop.buy


def reconcile(shop: Shop) -> Calls:
    in_doubt(shop)
    return lambda: shop.client.payments.reconcile().delivered[0], shop.buy


def reaches_its_end(of: Callable[[Shop], Calls], at: int, kinds: Sequence[str] = ()) -> bool:
    """Whether there are fewer lines than `at`. Else the call is interrupted there, and the next one goes on."""
    shop = Shop(list(kinds))
    act, then = of(shop)
    first = Interrupted(act, at)
    if first.count < at:
        assert first.result is not None or kinds
        return True
    assert first.result is None
    agree(shop.service, shop.ledger)
    shop.clock.advance(LONGEST_CLAIM + GRACE)
    shop.service.kinds.clear()
    waited = len(shop.clock.waits)
    with suppress(PaymentError):
        then()
    assert sum(shop.clock.waits[waited:]) < 4, "it waited for somebody who is gone"
    agree(shop.service, shop.ledger)
    paid_once(shop.service, shop.ledger)
    return False


@pytest.mark.long
@each_of("of", [a_call, a_batch, a_batch_of_a_job, resume, reconcile, a_kept_answer])
def test_some_lines(of: Callable[[Shop], Calls]) -> None:
    at, step = 1, 251 if of is a_call else 601
    while not reaches_its_end(of, at):
        at += step
    assert at > 400


def test_while_a_failed_call_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next equal call doesn't wait for one that is gone, though somebody keeps what was raised."""

    def interrupted(*_: object) -> None:
        raise Stop

    shop = Shop([])
    shop.service.handle = lambda request: httpx.Response(404)  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        patch.setattr(Semaphore, "give_back", interrupted)
        with pytest.raises(Stop) as kept:
            shop.buy()
    assert isinstance(kept.value.__context__, NotFoundError)
    del shop.service.handle
    started = time.monotonic()
    assert shop.buy() is not None
    assert time.monotonic() - started < 25
