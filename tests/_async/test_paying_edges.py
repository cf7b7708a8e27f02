"""Rules about money at their edges: when a payment stops counting, and what may be handed over again."""

from __future__ import annotations

import ssl
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIConnectionError,
    AsyncMarketClient,
    Budget,
    Ledger,
    LedgerError,
    Payment,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentStage,
    PaymentUndeliveredError,
)
from tradesdk.payments.ledger.rules import BUDGET
from tradesdk.payments.signing.secp256k1 import checksummed

from .._clock import VirtualClock
from .._paidservice import JumpingClock
from .._rows import each_of
from .._seller import KEEPS, PAYMENT_HEADER, PRICE, TWO, Seller, asks_2, down, lost, settled, used
from ..unit._offers import PAY_TO, encoded, offer_2, prices, requirement_2
from ._market import in_doubt, market_of

pytestmark = pytest.mark.twin

HOUR = 3600
OTHER = "0x" + "ab" * 20


async def counts_until(client: AsyncMarketClient, seller: Seller, end: float) -> None:
    """What was signed counts in the budget of an hour until an hour after the minute of its `end`."""
    over = ((end - 1) // 60 + 1) * 60
    seller.clock.advance(over + HOUR - 1 - seller.clock.now())
    assert (await client.payments.spending()).last_hour.counted == PRICE
    paid = len(seller.paid)
    with pytest.raises(PaymentRefusedError, match="over_budget"):
        await client.token_prices(["TOSHI", "DEGEN"])
    assert len(seller.paid) == paid
    seller.clock.advance(1)
    assert (await client.payments.spending()).last_hour.counted == 0
    seller.sold = None
    assert (await client.token_prices(["TOSHI", "DEGEN"])).payment is not None


@each_of("ahead", [None, -50, 50])
async def test_a_payment_counts_until_it_has_expired_by_both_clocks(ahead: float | None) -> None:
    """By a service whose clock is behind it may be taken for longer than the local clock says; never for less."""
    seller = Seller(sold=lost, ahead=ahead)
    client = market_of(seller, budget=Budget(per_hour="0.06"))
    first = await in_doubt(client)
    await counts_until(client, seller, first.valid_before + max(0, -(ahead or 0)))


@each_of(
    ("offered", "accepted", "goes_on"),
    [
        *((offered, accepted, True) for offered in (PAY_TO, PAY_TO.lower()) for accepted in (PAY_TO, PAY_TO.lower())),
        (PAY_TO, "0x" + PAY_TO[2:].upper(), True),
        (PAY_TO, OTHER, False),
        (PAY_TO.lower(), checksummed(OTHER), False),
    ],
)
async def test_whom_an_earlier_payment_is_for_is_compared_without_regard_to_case(
    offered: str, accepted: str, goes_on: bool
) -> None:
    seller = Seller(offer=offer_2(requirement_2(payTo=offered)), sold=lost)
    ledger = Ledger.memory()
    first = await in_doubt(market_of(seller, ledger=ledger))
    seller.sold = None
    before = len(seller.paid)
    client = market_of(seller, ledger=ledger, pay_to=[OTHER, accepted])
    if goes_on:
        again = (await client.token_prices(TWO)).payment
        assert again is not None
        assert (again.id, again.signatures) == (first.id, 1)
        return
    with pytest.raises(PaymentRefusedError) as caught:
        await client.token_prices(TWO)
    assert caught.value.code == "recipient_changed"
    assert len(seller.paid) == before


@each_of("named", [True, False])
async def test_what_a_person_marked_as_unpaid_is_signed_anew_and_not_handed_over_as_it_was(named: bool) -> None:
    """Also to a service that keeps answers by identifier, which is asked for one with the expired signature else."""
    seller = Seller(offer=offer_2(**KEEPS), sold=lost, ahead=0)
    client = market_of(seller).with_options(max_retries=0)
    options: dict[str, Any] = {"purchase": "once"} if named else {}
    first = await in_doubt(client, **options)
    seller.clock.advance(200)
    await client.payments.mark(first.id, paid=False)
    old = seller.paid[0].headers[PAYMENT_HEADER]
    seller.sold = None
    seller.requests.clear()
    result = await client.token_prices(TWO, **options)
    assert result.payment is not None
    assert result.payment.nonce == first.nonce
    (handed_over,) = seller.paid
    assert handed_over.headers[PAYMENT_HEADER] != old


class Oversleeping(VirtualClock):
    """Every wait takes longer than a payment is valid: the machine was suspended."""

    def _reach(self, end: float) -> None:
        super()._reach(end + 300)


async def test_a_receipt_of_success_is_not_lost_where_a_wait_takes_too_long() -> None:
    """While the answer may still come it is kept back; then it says what became of the money."""
    headers = {"PAYMENT-RESPONSE": encoded(settled())}
    seller = Seller(clock=Oversleeping(), sold=lambda request: httpx.Response(500, json={}, headers=headers))
    client = market_of(seller)
    with pytest.raises(PaymentError) as caught:
        await client.token_prices(TWO)
    assert len(seller.paid) == 1
    (payment,) = await client.payments.list()
    assert caught.value.payment == payment
    assert payment.receipt is not None
    assert (payment.stage, payment.charged) == (PaymentStage.TAKEN, True)
    assert (await client.payments.spending()).held == 0


@each_of("ahead", [2 * HOUR, 3 * 24 * HOUR])
@each_of("taken", [False, True])
async def test_a_clock_that_was_ahead_blocks_an_equal_call_no_longer_than_a_right_one(taken: bool, ahead: int) -> None:
    """The service's date tells which clock is right. The payment counts as before: it may be taken for days."""
    clock = JumpingClock()
    seller = Seller(clock=clock, sold=lost)
    client = market_of(seller, max_retries=0, budget=Budget(per_hour="0.18"))
    clock.off = ahead
    first = await in_doubt(client)
    seller.sold = used if taken else lost
    if taken:
        with pytest.raises(PaymentUndeliveredError):
            await client.token_prices(TWO)
    clock.off, seller.ahead = 0, 0
    for passed in (0, 590):  # ten minutes begin when it is found by the right clock
        clock.advance(passed)
        with pytest.raises(PaymentError) as caught:
            await client.token_prices(TWO)
        assert caught.value.payment is not None
        assert (caught.value.payment.id, caught.value.payment.signatures) == (first.id, 1)
    clock.advance(11)
    seller.sold = None
    again = (await client.token_prices(TWO)).payment
    assert again is not None
    assert again.nonce != first.nonce
    spending = await client.payments.spending()
    assert (spending.last_hour.counted, spending.total.counted) == (2 * PRICE, 2 * PRICE)


class Behind(VirtualClock):
    """Seventy minutes behind another clock."""

    def __init__(self, right: VirtualClock) -> None:
        super().__init__()
        self.right = right

    def now(self) -> float:
        return self.right.now() - 70 * 60

    def monotonic(self) -> float:
        return self.right.monotonic()


@each_of("dated", [0, None])
async def test_a_clock_that_is_behind_does_not_end_the_ten_minutes_of_a_payment(dated: float | None) -> None:
    """To a machine whose clock is behind, the payment of another one is of the future. It is not paid for again."""
    ledger, seller = Ledger.memory(), Seller(ahead=dated, sold=used)
    client = market_of(seller, clock=seller.clock, ledger=ledger)
    other = market_of(seller, clock=Behind(seller.clock), ledger=ledger)
    seller.sold = lambda request: httpx.Response(200, content=b"<html>")
    with pytest.raises(PaymentUndeliveredError):
        await client.token_prices(TWO)
    for each in (other, client):
        seller.clock.advance(30)
        with pytest.raises(PaymentRefusedError, match="unresolved_payment"):
            await each.token_prices(TWO)
    assert len(seller.paid) == 1


@each_of("text", ["failed:\n{}", "a\\u00e9{}", "{}\\", "\\n{}"])
async def test_an_answer_that_repeats_the_payment_stays_readable(text: str) -> None:
    """A receipt and a body may repeat what was signed anywhere in their texts, also after what JSON has to escape."""

    def repeats(request: httpx.Request) -> httpx.Response:
        said = text.format(request.headers[PAYMENT_HEADER])
        receipt = encoded(settled(errorMessage=said))
        return httpx.Response(200, json={**prices(*TWO), "note": said}, headers={"PAYMENT-RESPONSE": receipt})

    seller = Seller(sold=repeats)
    result = await market_of(seller).token_prices(TWO)
    assert (result.charged, len(result.data.results)) == (True, 2)
    assert result.receipt is not None
    assert seller.paid[0].headers[PAYMENT_HEADER][1:] not in str(result.receipt.raw)


async def test_a_settlement_that_failed_before_a_proof_of_unpaid_no_longer_counts() -> None:
    """Two failed settlements of two signatures are suspect; one before it is proven that nothing was taken is not."""
    seller = Seller(ahead=0, sold=lambda request: asks_2(**{"PAYMENT-RESPONSE": encoded(settled(success=False))}))
    client = market_of(seller, clock=seller.clock)
    first = await in_doubt(client)
    seller.clock.advance(200)
    await client.payments.mark(first.id, paid=False)
    failures = iter([seller.sold])
    delivered = httpx.Response(200, json=prices(*TWO), headers={"PAYMENT-RESPONSE": encoded(settled())})
    assert seller.sold is not None
    failed = seller.sold
    seller.sold = lambda request: failed(request) if next(failures, None) else delivered
    again = await client.token_prices(TWO)
    assert again.payment is not None
    assert (again.charged, again.payment.id, again.payment.signatures) == (True, first.id, 2)


@each_of("stops", ["nothing", "ledger"])
async def test_a_receipt_that_came_is_in_the_error_of_a_resend_that_cannot_be_made(stops: str) -> None:
    ledger = Ledger.memory()
    answer = httpx.Response(500, headers={"PAYMENT-RESPONSE": encoded(settled())})
    seller = Seller(ahead=0)
    seller.sold = lambda request: answer
    client = market_of(seller, clock=seller.clock, ledger=ledger)
    update = ledger.update

    def full(payment_id: str, change: Any, row: Any = None) -> Any:
        if type(change).__name__ == "Resubmit":
            raise LedgerError("no space", code="ledger_failed")
        return update(payment_id, change, row)

    if stops == "ledger":
        ledger.update = full  # type: ignore[method-assign]
    with pytest.raises(PaymentUndeliveredError) as caught:
        await client.token_prices(TWO)
    assert (caught.value.charged, caught.value.payment is not None) == (True, True)


@each_of("limit", [{"budget": Budget(per_call="0.05")}, {"ledger budget": "0.05"}])
async def test_what_one_call_may_cost_holds_for_an_earlier_payment_too(limit: dict[str, Any]) -> None:
    ledger, seller = Ledger.memory(), Seller(sold=down, ahead=0)
    await in_doubt(market_of(seller, ledger=ledger))
    seller.sold = None
    other = market_of(seller, ledger=ledger, budget=limit.get("budget", Budget()))
    if "ledger budget" in limit:
        ledger.set_setting(BUDGET, lambda known: Budget(per_call=limit["ledger budget"]).to_json())
    with pytest.raises(PaymentRefusedError, match="over_price"):
        await other.token_prices(TWO)
    assert len(seller.paid) == 1


async def test_no_claim_stays_on_a_payment_whose_ten_minutes_end_meanwhile() -> None:
    """While this call asks for an offer, another one buys the same anew."""
    ledger, seller = Ledger.memory(), Seller(sold=down, ahead=0)
    other = market_of(seller, ledger=ledger, max_retries=0)
    first = await in_doubt(other)
    seller.clock.advance(595)
    bought: list[Payment] = []

    async def answering(request: httpx.Request) -> httpx.Response:
        if not bought:
            seller.clock.advance(10)
            bought.append(await in_doubt(other))
            seller.sold = None
        return seller(request)

    result = await market_of(answering, ledger=ledger, clock=seller.clock, max_retries=0).token_prices(TWO)
    assert result.payment is not None
    assert first.id != result.payment.id == bought[0].id
    with pytest.raises(PaymentError) as caught:
        await other.payments.resume(first.id)
    assert caught.value.code != "in_progress"


@each_of("status", [409, 429, 499, 500, 501, 505, 599])
async def test_an_error_of_a_server_or_gateway_after_a_payment_proves_nothing(status: int) -> None:
    """Also one that means for other requests that nothing was carried out: the same bytes are resent, and it counts."""
    seller = Seller(sold=lambda request: httpx.Response(status))
    client = market_of(seller)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await client.token_prices(TWO)
    assert caught.value.charged == "unknown"
    assert len(seller.paid) > 1
    assert len({one.headers[PAYMENT_HEADER] for one in seller.paid}) == 1
    seller.clock.advance(1000)
    (payment,) = await client.payments.list()
    assert (payment.stage, payment.is_refused) == (PaymentStage.SENT, False)
    assert (await client.payments.spending()).held == PRICE


async def test_a_given_client_that_quotes_the_request_shows_no_payment() -> None:
    """A payment in an error, its cause, or the ledger could be cashed by whoever reads it."""

    def quoting(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError(f"no answer to {request.headers[PAYMENT_HEADER]}", request=request)

    seller = Seller(sold=quoting)
    client = market_of(seller, max_retries=0)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await client.token_prices(TWO)
    cause = caught.value.__cause__
    assert isinstance(cause, APIConnectionError)
    (payment,) = await client.payments.list()
    for text in (str(caught.value), caught.value.reason, str(cause), payment.reason):
        assert seller.paid[0].headers[PAYMENT_HEADER] not in str(text)
        assert "****" in str(text)


async def test_a_certificate_that_a_given_client_refuses_ends_a_paid_call_at_once() -> None:
    """Nothing is resent. Its transport may have sent the payment before, so the outcome counts as unknown."""

    def replaced(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("x", request=request) from ssl.SSLCertVerificationError("self-signed certificate")

    seller = Seller(sold=replaced)
    client = market_of(seller)
    with pytest.raises(PaymentOutcomeUnknownError, match="certificate was refused") as caught:
        await client.token_prices(TWO)
    assert (caught.value.charged, len(seller.paid), seller.clock.waits) == ("unknown", 1, [])
    assert isinstance(caught.value.__cause__, APIConnectionError)
    assert caught.value.__cause__.code == "certificate_refused"
    assert (await client.payments.spending()).total.counted == PRICE
