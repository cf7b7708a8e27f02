"""One purchase, one nonce: whatever signs again for a call signs the same nonce, and the chain takes it only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIConnectionError,
    AsyncMarketClient,
    Budget,
    Ledger,
    MarketResult,
    Payment,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
)
from tradesdk._values.payment import GRACE
from tradesdk_mock import MockService

from .._clock import VirtualClock
from .._paidservice import CountingSigner
from .._payments import how
from .._rows import each_of
from .._seller import BASE, KEEPS, PRICE, TWO, Seller, asks_2, down
from ..unit._ledger import draft, submitted
from ..unit._offers import offer_2, requirement_2
from ._market import buyer_of, in_doubt, in_doubt_at, market_of
from ._network import networked

pytestmark = pytest.mark.twin

EXPIRED = 200
"""Seconds after which no signature of these tests is valid any more."""
ONE = 30_000


class BreakingSigner(CountingSigner):
    """Signs until it breaks."""

    broken = False

    def sign_digest(self, digest: bytes, /) -> bytes:
        if self.broken:
            raise OSError("unplugged")
        return super().sign_digest(digest)


async def lost(client: AsyncMarketClient, mock: MockService, kind: str = "reset", **fault: Any) -> Payment:
    """A payment that has expired without a word about its outcome."""
    payment = await in_doubt_at(mock, client, kind, **fault)
    mock.clock.advance(EXPIRED)
    return payment


def nonces(mock: MockService) -> list[str]:
    return [settlement.nonce for settlement in mock.payments.settlements()]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("taken", [False, True])
async def test_after_it_expired_the_same_call_goes_on_with_the_same_nonce(
    taken: bool, keeps: bool, resume: bool, mock: MockService
) -> None:
    """A service that keeps answers is asked by the old bytes first. Only a call signs again, and no other nonce."""
    mock.set_gaps(payment_identifier="optional" if keeps else "none")
    signer = CountingSigner()
    client = buyer_of(mock, signer=signer)
    first = await lost(client, mock, executed=taken)

    async def go_on() -> MarketResult[Any]:
        return await (client.payments.resume(first.id) if resume else client.token_prices(TWO))

    if taken and not keeps and not resume:
        with pytest.raises(PaymentUndeliveredError) as caught:
            await go_on()
        assert caught.value.payment is not None
        assert (caught.value.payment.id, caught.value.charged) == (first.id, "unknown")
        assert "the same call buys again 10 minutes after the first try" in caught.value.hint
        for _ in range(2):
            with pytest.raises(PaymentRefusedError, match="unresolved_payment") as refused:
                await go_on()
            assert f"mark('{first.id}'" in refused.value.hint
        await client.payments.mark(first.id, paid=True)
    elif resume and not (taken and keeps):
        with pytest.raises(PaymentOutcomeUnknownError, match="time_is_up") as expired:
            await go_on()
        assert "make the same call again" in expired.value.hint
    else:
        result = await go_on()
        assert result.payment is not None
        assert (result.payment.id, result.payment.nonce, result.again) == (first.id, first.nonce, False)
        signatures = 1 if taken else 2
        assert (result.payment.signatures, len(signer.digests)) == (signatures, signatures)
        assert (result.payment.valid_before > first.valid_before) is not taken
        assert (result.charged, (await client.payments.spending()).total.counted) == (True, PRICE)
        assert not (await client.token_prices(TWO)).again  # that purchase is closed
    assert nonces(mock)[:1] == [first.nonce] * (taken or not resume)


@each_of("resume", [False, True])
async def test_what_was_never_sent_is_not_sent_in_its_last_seconds(
    resume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is kept for it. It could still be taken, and the ledger would say that it was never submitted."""

    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    seller = Seller(offer=offer_2(**KEEPS), sold=unreachable)
    networked(monkeypatch, httpx.MockTransport(seller))
    client = market_of(seller, http_client=None).with_options(max_retries=0)
    with pytest.raises(APIConnectionError) as caught:
        await client.token_prices(TWO)
    first = caught.value.payment
    assert first is not None
    assert (how(first), first.submissions, first.identified) == ("unsent, not_received", 0, True)
    seller.sold = None
    seller.clock.advance(first.valid_before - 3 - seller.clock.now())
    seller.requests.clear()
    if resume:
        with pytest.raises(PaymentRefusedError, match="not_live"):
            await client.payments.resume(first.id)
        assert seller.paid == []
        return
    result = await client.token_prices(TWO)
    assert result.payment is not None
    assert (result.payment.nonce, result.payment.signatures, result.payment.submissions) == (first.nonce, 2, 1)
    assert len(seller.paid) == 1


async def test_what_may_still_be_taken_is_sent_within_the_limits_of_the_call() -> None:
    """Also when it is over by the service's date only. Once nothing can be taken, its answer is free."""

    offer = offer_2(**KEEPS)
    seller = Seller(offer=offer, sold=down, ahead=0)
    client = market_of(seller).with_options(max_retries=0)
    await in_doubt(client)
    seller.ahead = 200
    with pytest.raises(PaymentRefusedError, match="clock_difference"):  # it learns the time
        await client.token_prices(["AERO", "DEGEN"])
    seller.sold = None
    with pytest.raises(PaymentRefusedError, match="over_price") as refused:
        await client.token_prices(TWO, max_price="0.01")
    assert (refused.value.charged, len(seller.paid)) == ("unknown", 1)
    seller.ahead = 0
    assert refused.value.payment is not None
    seller.clock.advance(refused.value.payment.valid_before + GRACE - 1 - seller.clock.now())
    with pytest.raises(PaymentRefusedError, match="over_price"):  # clocks differ by some seconds
        await client.token_prices(TWO, max_price="0.01")
    seller.clock.advance(1)
    result = await client.token_prices(TWO, max_price="0.01")
    assert result.payment is not None
    assert (result.payment.signatures, len(seller.paid)) == (1, 2)
    assert seller.payments[0] == seller.payments[1]


async def test_without_a_name_an_outage_holds_one_more_price_each_ten_minutes_until_the_budget_is_used_up(
    mock: MockService,
) -> None:
    client = buyer_of(mock, budget=Budget(total="0.09")).with_options(max_retries=0)
    mock.add_fault("status", status=502, paid="only", executed=False)
    held = []
    for _ in range(9):
        with pytest.raises(PaymentError) as caught:
            await client.token_prices(["ETH"])
        held.append((await client.payments.spending()).held // ONE)
        mock.clock.advance(300)
    assert held == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    with pytest.raises(PaymentRefusedError, match="over_budget") as caught:
        await client.token_prices(["ETH"])
    assert "held" in caught.value.message
    mock.payments.assert_charged(times=0)


async def test_two_signatures_that_were_not_settled_need_a_person(mock: MockService) -> None:
    signer = CountingSigner()
    client = buyer_of(mock, signer=signer)
    first = await lost(client, mock, kind="settlement")
    rule = mock.add_fault("settlement", paid="only")
    with pytest.raises(PaymentOutcomeUnknownError, match="suspect_paid") as caught:
        await client.token_prices(TWO)
    mock.remove_fault(rule.id)
    assert caught.value.payment is not None
    assert (how(caught.value.payment), caught.value.charged) == ("taken, suspect", "unknown")
    assert f"mark('{first.id}'" in caught.value.hint
    mock.clock.advance(EXPIRED)
    with pytest.raises(PaymentRefusedError, match="unresolved_payment"):
        await client.token_prices(TWO)
    assert len(signer.digests) == 2
    assert [one.id for one in (await client.payments.reconcile()).unresolved] == [first.id]
    await client.payments.mark(first.id, paid=False)
    result = await client.token_prices(TWO)
    assert result.payment is not None
    assert (result.payment.nonce, result.payment.signatures) == (first.nonce, 3)
    assert nonces(mock) == [first.nonce]


async def mark_each(client: AsyncMarketClient) -> list[Payment]:
    return [await client.payments.mark(one.id, paid=False) for one in await client.payments.list()]


async def reconcile_first(client: AsyncMarketClient) -> list[Payment]:
    await client.payments.reconcile()
    return await mark_each(client)


@each_of(("mark", "dated"), [(how, dated) for how in (mark_each, reconcile_first) for dated in (0, 1)])
async def test_a_service_that_does_not_tell_its_time_is_asked_once(
    mark: Callable[[AsyncMarketClient], Any], dated: int
) -> None:
    """Not once for each payment: it may be unreachable, and each question takes the whole time-out."""
    ledger, asked = Ledger.memory(), []

    def silent(request: httpx.Request) -> httpx.Response:
        asked.append(client_clock.now())
        client_clock.advance(2)
        if dated:  # it answers, without a date
            return httpx.Response(503)
        raise httpx.ConnectTimeout("", request=request)

    client_clock = VirtualClock()
    for number in range(5):
        one = draft(f"call {number}", url=f"{BASE}/v1/token-prices", valid_before=int(client_clock.now()) + 60)
        submitted(ledger, one, budget=Budget.unlimited(), now=client_clock.now())
    client_clock.advance(10_000)
    client = market_of(silent, ledger=ledger, clock=client_clock)
    assert len(await mark(client)) == 5
    assert len(asked) == 1
    client_clock.advance(61)
    late = draft("late", url=f"{BASE}/v1/token-prices", valid_before=int(client_clock.now()) - 9_000)
    other = submitted(ledger, late, budget=Budget.unlimited(), now=client_clock.now() - 9_060)
    await client.payments.mark(other.id, paid=False)
    assert len(asked) == 2, "after a minute it is asked again"


@each_of("change", ["recipient", "price", "budget", "signer"])
async def test_what_stops_the_next_signature_changes_nothing(change: str) -> None:
    """The payment keeps its state, its nonce, what it counts and until when."""
    half = offer_2(requirement_2(amount=str(ONE)))
    seller = Seller(sold=lambda _: asks_2(half), offer=half)
    ledger, signer = Ledger.memory(), BreakingSigner()
    client = market_of(seller, signer=signer, ledger=ledger, budget=Budget(total="0.10"))
    await in_doubt(client)
    seller.clock.advance(EXPIRED)
    (before,) = await client.payments.list()
    seller.offer = offer_2()
    if change == "recipient":
        seller.offer = offer_2(requirement_2(payTo="0x209693Bc6afc0C5328bA36FaF03C514EF312287D"))
    elif change == "price":
        seller.offer = offer_2(requirement_2(amount="60001"))
    elif change == "budget":
        client = market_of(seller, signer=signer, ledger=ledger, budget=Budget(total="0.05"))
    else:
        signer.broken = True
    with pytest.raises(PaymentRefusedError):
        await client.token_prices(TWO)
    (after,) = await client.payments.list()
    assert how(after) == how(before)
    assert (after.nonce, after.counted, after.signatures) == (before.nonce, ONE, 1)
    assert (after.valid_before, after.counts_until) == (before.valid_before, before.counts_until)
    assert (await client.payments.spending()).held == ONE
