"""The ledger fails, or somebody presses Ctrl-C, at every step of a payment: nothing is paid twice, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import httpx
import pytest

from tradesdk import LedgerError, PaymentOutcomeUnknownError, PaymentRefusedError, PaymentStage, PaymentUndeliveredError
from tradesdk.types import RateClaim

from .._eventful import EventfulLedger, Stop, agree, broken_disk, stop
from .._paidservice import PRICE
from .._payments import how
from .._rows import each_of
from .._seller import TWO, Seller, settled
from ..unit._ledger import draft, mark, submitted
from ..unit._offers import decoded, encoded, prices
from ._market import market_of
from ._paidshop import EVERY_STEP, SOME, Limiter, Shop, in_doubt, lost, outcome, steps_of

pytestmark = pytest.mark.twin


@EVERY_STEP
async def test_the_ledger_fails_at_any_step(kinds: list[str], after: bool) -> None:
    """Whether what it was told is written down or not. Nothing leaves before it is."""
    whole = Shop(kinds)
    await outcome(whole)
    written = whole.ledger.calls.index("submit") + 1
    for at in range(1, len(whole.ledger.calls) + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, broken_disk
        result, error = await outcome(shop)
        if at <= written:
            assert isinstance(error, LedgerError)
            assert (error.charged, shop.service.authorizations) == (False, {})
            assert (error.payment is not None) == (at == written), "a signature that may be written has a name"
        elif error is None:
            assert result.data.results[0].symbol == "ETH"
            told = [text for text in result.warnings if "could not be written to the ledger" in text]
            assert bool(told) == (shop.ledger.calls[at - 1] == "record")
        else:
            assert isinstance(error, LedgerError | PaymentUndeliveredError | PaymentOutcomeUnknownError)
            assert error.payment is not None
            assert error.charged == ((shop.service.total > 0 and error.payment.charged) or "unknown")
        await shop.end()


@each_of("kinds", SOME)
async def test_the_disk_is_full_from_any_step_on(kinds: list[str]) -> None:
    """Until there is room again: then the same call does not wait for one that has ended."""
    for at in range(1, await steps_of(kinds) + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.lasting, shop.ledger.event = at, True, broken_disk
        await outcome(shop)
        await shop.end()


@each_of("name", [None, "tuesday"])
async def test_an_answer_that_cannot_be_written_down_is_known_all_the_same(name: str | None) -> None:
    """While the disk is full and when there is room again: it is not paid for again, nor said to be lost."""
    shop = Shop([])
    await shop.client.token_prices(["ETH"], purchase=name)
    shop.clock.advance(100)
    at = shop.ledger.calls.index("record") + 1
    shop.ledger.calm()
    shop.ledger.at, shop.ledger.lasting, shop.ledger.event = at, True, broken_disk
    first = await shop.client.token_prices(["BRETT"], purchase=name and "wednesday")
    assert first.warnings
    assert first.payment is not None
    for _ in range(2):
        found = await shop.client.payments.get(first.payment.id)
        assert (found, how(found), found.waits) == ((await shop.client.payments.list())[0], "answered", False)
        shop.ledger.calm()  # there is room again
    spending = await shop.client.payments.spending()
    assert (spending.total.counted, spending.held) == (2 * PRICE, 0)
    again = await shop.client.token_prices(["BRETT"], purchase=name and "wednesday")
    assert (again.again, shop.service.total) == (name is not None, (2 if name else 3) * PRICE)
    assert again.answered_at == (first.answered_at if name else again.payment and again.payment.updated_at)
    agree(shop.service, shop.ledger)


@each_of("after", [False, True])
async def test_a_failing_ledger_names_the_payment_that_was_to_be_handed_over_again(after: bool) -> None:
    """It is in doubt since the call before, so this one cannot say that nothing was charged."""

    async def doubted() -> Shop:
        shop = Shop(["lost after"])
        with pytest.raises(PaymentOutcomeUnknownError):
            await shop.another(max_retries=0).token_prices(["ETH"])
        shop.ledger.calm()
        return shop

    whole = await doubted()
    await outcome(whole)
    shop = await doubted()
    shop.ledger.at, shop.ledger.after = whole.ledger.calls.index("resubmit") + 1, after
    shop.ledger.event = broken_disk
    with pytest.raises((LedgerError, PaymentOutcomeUnknownError)) as caught:
        await shop.buy()
    assert caught.value.payment is not None
    assert caught.value.charged == "unknown"
    await shop.end()


async def expired() -> Shop:
    """A payment that the service never got, and that has expired."""
    shop = Shop([])
    await in_doubt(shop)
    shop.clock.advance(300)
    shop.ledger.calm()
    return shop


@each_of("after", [False, True])
async def test_a_signature_that_cannot_be_written_down_changes_nothing(after: bool) -> None:
    """Neither what an earlier one counts, nor that it is in doubt."""
    whole = await expired()
    await whole.buy()
    shop = await expired()
    (before,) = shop.ledger.history()
    shop.ledger.calm()
    shop.ledger.at, shop.ledger.after = whole.ledger.calls.index("submit") + 1, after
    shop.ledger.event = broken_disk
    with pytest.raises(LedgerError) as caught:
        await shop.buy()
    assert (caught.value.payment, caught.value.charged) == (before, "unknown")
    (payment,) = shop.ledger.history()
    assert (payment.counted, payment.paid, payment.signatures) == (PRICE, None, 1 + after)
    await shop.end()


@each_of("paid", [False, True])
async def test_a_payment_that_a_person_marks_meanwhile_is_not_resent(paid: bool) -> None:
    """While the call waits to resend it. Its nonce is signed again if it was not paid, and this call signs no other."""
    shop = Shop(["bare"])
    await outcome(shop)
    at = shop.ledger.calls.index("resubmit") + 1
    shop = Shop(["bare"])
    shop.ledger.at = at
    shop.ledger.event = lambda: mark(shop.ledger, shop.ledger.history()[0], paid=paid, now=2e9)
    result, error = await outcome(shop)
    (payment,) = shop.ledger.history()
    assert (result is None, payment.signatures) == (paid, 1 if paid else 2)
    assert shop.service.requests == (2 if paid else 4)  # an offer, and the payment once, for each signature
    if paid:
        assert isinstance(error, PaymentRefusedError)
        assert (error.code, error.charged) == ("not_live", True)
    else:
        shop.clock.advance(60)
        await shop.end()


@each_of("options", [{}, {"max_price": "0.01"}])
async def test_an_answer_that_nobody_got_is_given_to_the_next_equal_call(options: dict[str, Any]) -> None:
    """Nothing is paid, so neither price nor recipient matters; and only once."""
    shop = Shop([])
    payment = await lost(shop)
    shop.clock.advance(59)
    spent = (await shop.client.payments.spending()).total.counted
    client = shop.another(pay_to=["0x" + "1" * 40])
    found = await client.token_prices(["ETH"], **options)
    assert (found.again, found.charged, found.data.results[0].symbol) == (True, True, "ETH")
    assert found.answered_at is not None
    assert (found.answered_at, found.answered_at.tzinfo) == (payment.updated_at, UTC)
    assert found.payment == shop.ledger.get(payment.id) == replace(payment, waits=False, reply=None)
    assert (shop.service.total, len(shop.signer.digests)) == (PRICE, 1)
    assert (await shop.client.payments.spending()).total.counted == spent
    anew = await shop.buy()
    assert not anew.again
    assert anew.answered_at == anew.payment.updated_at
    assert shop.service.total == 2 * PRICE


@each_of("resumed", [False, True])
async def test_it_is_given_once(resumed: bool) -> None:
    """To the same call, or by its payment's id. A dry run leaves it, and other calls do not get it."""
    shop = Shop([])
    payment = await lost(shop)
    told = await shop.client.dry_run.token_prices(["ETH"])
    assert (told.existing, told.authorization, told.refusal) == (payment, None, None)
    assert not (await shop.client.token_prices(["BRETT"])).again
    assert not (await shop.client.token_prices(["ETH"], purchase="another")).again
    assert (await (shop.client.payments.resume(payment.id) if resumed else shop.buy())).again
    if not resumed:
        with pytest.raises(PaymentRefusedError, match="is not kept"):
            await shop.client.payments.resume(payment.id)
    assert not (await shop.buy()).again
    assert shop.service.total == 4 * PRICE


@each_of("waits", [True, False])
async def test_a_receipt_is_written_down_though_ctrl_c_ends_the_call(waits: bool) -> None:
    """Whether the wait or the next submission is interrupted."""
    headers = {"PAYMENT-RESPONSE": encoded(settled())}
    seller = Seller(sold=lambda request: httpx.Response(500, json={}, headers=headers))

    def handle(request: httpx.Request) -> httpx.Response:
        answer = seller(request)
        if waits and seller.paid:
            seller.clock.sleep_async = seller.clock.sleep = lambda seconds: stop()  # type: ignore[assignment]
        elif len(seller.paid) > 1:
            stop()
        return answer

    client = market_of(handle, clock=seller.clock)
    with pytest.raises(Stop):
        await client.token_prices(TWO)
    (payment,) = await client.payments.list()
    assert (payment.stage, payment.charged) == (PaymentStage.TAKEN, True)
    assert (await client.payments.spending()).held == 0


@each_of("resent", [False, True])
async def test_a_payment_that_waits_for_the_rate_limit_was_not_sent(resent: bool) -> None:
    """Interrupted then, it counts nothing; what was sent before that counts."""
    limiter = Limiter(stop, at=3 if resent else 2)
    seller = Seller(sold=lambda request: httpx.Response(503, json={}))
    client = market_of(seller, **limiter.options)
    with pytest.raises(Stop):
        await client.token_prices(TWO)
    assert len(seller.paid) == resent
    assert [(one.stage, one.submissions) for one in await client.payments.list()] == [(PaymentStage.SENT, 1)] * resent
    assert (await client.payments.spending()).held == resent * 2 * PRICE


@each_of(
    ("at", "wait"),  # at the first submission, or at the second one; 0: for the ledger
    [(2, 50.0), (2, 56.0), (2, 58.0), (2, 150.0), (3, 30.0), (3, 56.0), (3, 90.0), (0, 50.0), (0, 56.0)],
)
async def test_no_payment_is_sent_that_has_ended_while_it_waited(at: int, wait: float) -> None:
    """A payment is valid for 60 s, and a rate limit resets in as many. Its nonce is signed again then."""
    seller, ledger = Seller(ahead=0.0, receipt=settled()), EventfulLedger.memory()
    ledger.at, ledger.after, ledger.event = 2 if at == 0 else 0, True, lambda: seller.clock.advance(wait)
    late = []

    def sold(request: httpx.Request) -> httpx.Response:
        until = int(decoded(request.headers["payment-signature"])["payload"]["authorization"]["validBefore"])
        late.append(until < seller.clock.now() + 6)
        if len(late) == 1 and at == 3:
            return httpx.Response(503, json={})
        return httpx.Response(200, json=prices("ETH", "BRETT"), headers={"PAYMENT-RESPONSE": encoded(settled())})

    seller.sold = sold
    client = market_of(seller, ledger=ledger, **Limiter(lambda: RateClaim(wait), at=at).options)
    assert (await client.token_prices(TWO)).charged
    assert not any(late)
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 1
    assert (await client.payments.spending()).total.counted == 2 * PRICE


async def test_an_answer_that_has_arrived_is_kept_though_the_call_is_interrupted_then() -> None:
    """The next equal call gets it, unpaid. It is not collected even until the next write: a kill would lose it."""
    seller, ledger, waits = Seller(receipt=settled()), EventfulLedger.memory(), list[bool]()
    ledger.at, ledger.event = 4, lambda: waits.append(ledger.history()[0].waits)
    client = market_of(seller, ledger=ledger, **Limiter(stop, answered=2).options)
    with pytest.raises(Stop):
        await client.token_prices(TWO)
    assert [call for call in ledger.calls if call != "history"] == ["overview", "submit", "record", "record"]
    assert waits == [True]
    (payment,) = await client.payments.list()
    assert (payment.stage, payment.charged, payment.waits) == (PaymentStage.ANSWERED, True, True)
    assert (await client.token_prices(TWO)).again
    assert len(seller.paid) == 1


async def test_a_place_in_the_rate_limit_is_given_back_when_the_signature_is_dropped() -> None:
    """Another call was faster: the next place is for its bytes."""
    seller = Seller()
    same = (await market_of(seller).token_prices(TWO)).payment
    assert same is not None
    ledger, limiter, now = EventfulLedger.memory(), Limiter(), seller.clock.now()
    faster = draft(same.fingerprint, url=same.url, body=same.body, payer=same.payer, valid_before=int(now) + 60)
    ledger.at, ledger.event = 2, lambda: submitted(ledger, faster, now=now)
    result = await market_of(seller, ledger=ledger, **limiter.options).token_prices(TWO)
    assert result.payment is not None
    assert result.payment.id == faster.id
    assert limiter.told == ["claim", "answered", "claim", "failed, sent False", "claim", "answered"]
