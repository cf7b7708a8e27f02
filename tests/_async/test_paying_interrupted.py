"""The ledger fails, or somebody presses Ctrl-C, at every step of a payment: nothing is paid twice, nothing is lost."""

from __future__ import annotations

import pytest

from tradesdk import LedgerError, PaymentOutcomeUnknownError, PaymentState, PaymentUndeliveredError

from .._eventful import Stop, broken_disk, stop
from ._paidshop import ANSWERS, EVERY_ANSWER, SILENT, WHEN, Shop, outcome, steps_of


@EVERY_ANSWER
@WHEN
async def test_the_ledger_fails_at_any_step(kinds: list[str], after: bool) -> None:
    """Whether what it was told is written down or not."""
    steps = await steps_of(kinds)
    assert steps >= 8
    for at in range(1, steps + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, broken_disk
        result, error = await outcome(shop)
        if error is None:
            assert result.data.results[0].symbol == "ETH"
            told = [text for text in result.warnings if "the ledger does not know" in text]
            assert bool(told) == (shop.ledger.calls[at - 1] == "settle")
        elif isinstance(error, LedgerError):
            if error.payment is None:
                assert shop.service.authorizations == {}, "something was sent, and the error names no payment"
        elif isinstance(error, PaymentUndeliveredError):
            assert shop.service.total > 0
        elif isinstance(error, PaymentOutcomeUnknownError):
            assert error.payment is not None
            assert error.charged == "unknown"
        else:
            assert kinds in (["404"], ["insufficient_funds"]), f"{error!r} at step {at}"
        await shop.end()


@EVERY_ANSWER
async def test_the_disk_is_full_from_any_step_on(kinds: list[str]) -> None:
    """Until there is room again: then the same call does not wait for one that has ended."""
    for at in range(1, await steps_of(kinds) + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.lasting, shop.ledger.event = at, True, broken_disk
        await outcome(shop)
        await shop.end()


@EVERY_ANSWER
@WHEN
async def test_it_is_interrupted_at_any_step(kinds: list[str], after: bool) -> None:
    """As by Ctrl-C: what can be said is written down, and the claim is given back."""
    for at in range(1, await steps_of(kinds) + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, stop
        with pytest.raises(Stop):
            await shop.buy()
        await shop.end()


@pytest.mark.parametrize("kinds", [kinds for kinds in ANSWERS.values() if not set(kinds) & SILENT])
async def test_it_is_interrupted_when_the_answer_is_there(kinds: list[str]) -> None:
    shop = Shop(kinds)
    shop.interrupt = stop
    with pytest.raises(Stop):
        await shop.buy()
    (payment,) = shop.ledger.history()
    assert (payment.state, payment.charged) == (PaymentState.UNKNOWN, "unknown")
    await shop.end()


async def test_nothing_is_sent_before_it_is_written_down() -> None:
    """Whatever fails before the first presentation is durable, no payment has left."""
    shop = Shop([])
    await shop.buy()
    before = shop.ledger.calls.index("present") + 1
    for at in range(1, before + 1):
        for after in (False, True):
            shop = Shop([])
            shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, broken_disk
            with pytest.raises(LedgerError) as caught:
                await shop.buy()
            assert caught.value.charged is False
            assert shop.service.authorizations == {}
            assert (await shop.client.payments.spending()).total == 0 or shop.ledger.history()[0].header is None
            await shop.end()


async def test_closed_by_somebody_else_it_is_not_sent_again() -> None:
    """A process whose clock is wrong, or a person, ends a payment while this call waits to hand it over again."""
    shop = Shop(["bare"])
    await outcome(shop)
    at = shop.ledger.calls.index("present_again") + 1
    shop = Shop(["bare"])
    shop.ledger.at, shop.ledger.event = at, lambda: shop.ledger.expire(2e9, now=shop.clock.now())
    _, error = await outcome(shop)
    assert isinstance(error, PaymentOutcomeUnknownError)
    assert error.payment is not None
    assert error.payment.state is PaymentState.EXPIRED_UNKNOWN
    assert shop.service.requests == 2  # the offer, and the payment once
    await shop.end()
