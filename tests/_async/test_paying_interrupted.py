"""The ledger fails, or somebody presses Ctrl-C, at every step of a payment: nothing is paid twice, nothing is lost."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import Any

import httpx
import pytest

from tradesdk import (
    LedgerError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentStage,
    PaymentUndeliveredError,
    RateClaim,
)

from .._eventful import EventfulLedger, Stop, agree, broken_disk, stop
from .._flavour_async import at_once
from .._paidservice import PRICE
from .._payments import how
from .._rows import each_of
from .._seller import TWO, Seller, settled
from ..unit._ledger import draft, mark, submitted
from ..unit._offers import decoded, encoded, prices
from ._market import market_of
from ._paidshop import ANSWERS, EVERY_ANSWER, EVERY_STEP, SILENT, WHEN, Shop, in_doubt, lost, outcome, steps_of

pytestmark = pytest.mark.twin


@EVERY_STEP
async def test_the_ledger_fails_at_any_step(kinds: list[str], after: bool) -> None:
    """Whether what it was told is written down or not."""
    steps = await steps_of(kinds)
    assert steps >= 3
    for at in range(1, steps + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, broken_disk
        result, error = await outcome(shop)
        if error is None:
            assert result.data.results[0].symbol == "ETH"
            told = [text for text in result.warnings if "could not be written to the ledger" in text]
            assert bool(told) == (shop.ledger.calls[at - 1] == "record")
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


@pytest.mark.parametrize("after", WHEN.values(), ids=WHEN)
async def test_a_failing_ledger_names_the_payment_that_was_to_be_handed_over_again(after: bool) -> None:
    """It is in doubt since the call before, so this one cannot say that nothing was charged."""

    async def in_doubt() -> Shop:
        shop = Shop(["lost after"])
        with pytest.raises(PaymentOutcomeUnknownError):
            await shop.another(max_retries=0).token_prices(["ETH"])
        shop.ledger.calm()
        return shop

    whole = await in_doubt()
    await outcome(whole)
    shop = await in_doubt()
    shop.ledger.at, shop.ledger.after = whole.ledger.calls.index("resubmit") + 1, after
    shop.ledger.event = broken_disk
    with pytest.raises((LedgerError, PaymentOutcomeUnknownError)) as caught:
        await shop.buy()
    assert caught.value.payment is not None
    assert caught.value.charged == "unknown"
    await shop.end()


@EVERY_STEP
async def test_it_is_interrupted_at_any_step(kinds: list[str], after: bool) -> None:
    """As by Ctrl-C: what can be said is written down, and the claim is given back."""
    for at in range(1, await steps_of(kinds) + 1):
        shop = Shop(kinds)
        shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, stop
        with pytest.raises(Stop):
            await shop.buy()
        await shop.end()


@each_of("kinds", [kinds for kinds in ANSWERS.values() if not set(kinds) & SILENT])
async def test_it_is_interrupted_when_the_answer_is_there(kinds: list[str]) -> None:
    shop = Shop(kinds)
    shop.interrupt = stop
    with pytest.raises(Stop):
        await shop.buy()
    (payment,) = shop.ledger.history()
    assert (how(payment), payment.charged) == ("sent, unknown", "unknown")
    await shop.end()


async def test_nothing_is_sent_before_it_is_written_down() -> None:
    """Whatever fails before the first submission is durable, no payment has left."""
    shop = Shop([])
    await shop.buy()
    before = shop.ledger.calls.index("submit") + 1
    for at in range(1, before + 1):
        for after in (False, True):
            shop = Shop([])
            shop.ledger.at, shop.ledger.after, shop.ledger.event = at, after, broken_disk
            with pytest.raises(LedgerError) as caught:
                await shop.buy()
            assert caught.value.charged is False
            assert shop.service.authorizations == {}
            assert (await shop.client.payments.spending()).total.counted == 0 or shop.ledger.history()[0].header is None
            await shop.end()


async def expired() -> Shop:
    """A payment that the service never got, and that has expired."""
    shop = Shop([])
    await in_doubt(shop)
    shop.clock.advance(300)
    shop.ledger.calm()
    return shop


@each_of(("after", "marked"), [(False, False), (False, True), (True, False)])
async def test_a_signature_that_cannot_be_written_down_changes_nothing(after: bool, marked: bool) -> None:
    """Neither what an earlier one counts, nor what a person says of it meanwhile."""
    whole = await expired()
    await whole.buy()
    shop = await expired()

    def fails() -> None:
        if marked:
            mark(shop.ledger, shop.ledger.history()[0], paid=False, now=shop.clock.now())
        broken_disk()

    shop.ledger.at, shop.ledger.after, shop.ledger.event = whole.ledger.calls.index("submit") + 1, after, fails
    with pytest.raises(LedgerError):
        await shop.buy()
    (payment,) = shop.ledger.history()
    assert payment.paid is (False if marked else None)
    assert (await shop.client.payments.spending()).total.counted == (0 if marked else PRICE)
    assert payment.signatures == 1 + after
    await shop.end()


async def test_what_a_person_says_while_it_is_signed_counts() -> None:
    """The signature was made for the payment as it was: the call looks again."""
    whole = await expired()
    await whole.buy()
    shop = await expired()
    shop.ledger.at = whole.ledger.calls.index("submit") + 1
    shop.ledger.event = lambda: mark(shop.ledger, shop.ledger.history()[0], paid=False, now=shop.clock.now())
    result, _ = await outcome(shop)
    assert (shop.ledger.calls.count("submit"), result.payment.signatures, result.payment.submissions) == (2, 2, 1)
    await shop.end()


async def test_closed_by_somebody_else_it_is_not_sent_again() -> None:
    """A person whose clock is wrong marks a payment while this call waits to hand it over again."""
    shop = Shop(["bare"])
    await outcome(shop)
    at = shop.ledger.calls.index("resubmit") + 1
    shop = Shop(["bare"])
    shop.ledger.at = at
    shop.ledger.event = lambda: mark(shop.ledger, shop.ledger.history()[0], paid=False, now=2e9)
    _, error = await outcome(shop)
    assert isinstance(error, PaymentOutcomeUnknownError)
    assert error.payment is not None
    assert how(error.payment) == "sent, unknown, unpaid by person"
    assert shop.service.requests == 2  # the offer, and the payment once
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


@each_of(("seconds", "off"), [(60, 0), (3600, 0), (1, -60)])
async def test_an_old_price_is_not_given_unasked(seconds: float, off: float) -> None:
    """Neither is one of unknown age, after the clock was put back. By its payment's id it is there."""
    shop = Shop([])
    payment = await lost(shop)
    shop.clock.advance(seconds)
    shop.clock.off = off
    found = await shop.buy()
    assert (found.again, shop.service.total) == (False, 2 * PRICE)
    for _ in range(2):
        old = await shop.client.payments.resume(payment.id)
        assert (old.again, old.answered_at) == (True, payment.updated_at)
        assert old.data == found.data
    assert shop.service.total == 2 * PRICE


async def test_two_equal_calls_are_two_purchases() -> None:
    shop = Shop([])
    first, second = await shop.buy(), await shop.buy()
    assert (first.again, second.again, shop.service.total) == (False, False, 2 * PRICE)
    assert [payment.reply for payment in shop.ledger.history()] == [None, None]
    with pytest.raises(PaymentRefusedError, match="is not kept"):
        await shop.client.payments.resume(first.payment.id)


async def test_an_answer_is_given_to_one_of_several_calls() -> None:
    shop = Shop([])
    payment = await lost(shop)
    shop.clock.at_a_wait = lambda _: time.sleep(0.05)  # virtual waits alone would end before another thread is done
    clients = [shop.another() for _ in range(3)]
    found = await at_once([partial(client.token_prices, ["ETH"]) for client in clients])
    assert sorted(one.again for one in found) == [False, False, True]
    assert [one.payment and one.payment.id for one in found if one.again] == [payment.id]
    assert shop.service.total == 3 * PRICE


async def test_another_call_does_not_get_it() -> None:
    shop = Shop([])
    await lost(shop)
    assert not (await shop.client.token_prices(["BRETT"])).again
    assert not (await shop.client.token_prices(["ETH"], purchase="another")).again
    assert (await shop.buy()).again
    assert shop.service.total == 3 * PRICE


async def test_a_dry_run_says_so_and_leaves_it() -> None:
    shop = Shop([])
    payment = await lost(shop)
    told = await shop.client.dry_run.token_prices(["ETH"])
    assert (told.existing, told.authorization, told.refusal) == (payment, None, None)
    assert (await shop.buy()).again


async def test_what_was_resumed_is_not_given_again() -> None:
    shop = Shop([])
    payment = await lost(shop)
    assert (await shop.client.payments.resume(payment.id)).again
    assert not (await shop.buy()).again


async def test_what_was_bought_under_a_name_is_its_own() -> None:
    shop = Shop([])
    whole = Shop([])
    await anext(whole.client.batches.token_prices(["ETH"], job="tuesday"))
    shop.ledger.at, shop.ledger.after, shop.ledger.event = whole.ledger.calls.index("record") + 1, True, stop
    with pytest.raises(Stop):
        await anext(shop.client.batches.token_prices(["ETH"], job="tuesday"))
    shop.ledger.calm()
    assert not (await shop.buy()).again
    assert (await anext(shop.client.batches.token_prices(["ETH"], job="tuesday"))).again
    assert shop.service.total == 2 * PRICE


async def test_a_run_that_tries_a_batch_again_counts_it_once() -> None:
    shop, whole = Shop([]), Shop([])
    await anext(whole.client.batches.token_prices(["ETH"], max_total="0.03"))
    run = shop.client.batches.token_prices(["ETH"], max_total="0.03")
    shop.ledger.at, shop.ledger.after, shop.ledger.event = whole.ledger.calls.index("record") + 1, True, stop
    with pytest.raises(Stop):
        await anext(run)
    shop.ledger.calm()
    batch = await anext(run)
    assert (batch.again, batch.spent, run.spent) == (True, PRICE, PRICE)
    assert shop.service.total == PRICE


def at_a_wait(shop: Shop) -> None:
    """Ctrl-C in the next wait."""
    shop.clock.at_a_wait = lambda clock: stop()


async def test_no_third_signature_after_two_that_were_not_settled_and_ctrl_c() -> None:
    """The second refusal is the end, and is written down: there is no wait in which it could be forgotten."""
    shop = Shop(["settlement failed"] * 9)
    for _ in range(4):
        at_a_wait(shop)
        with contextlib.suppress(Stop, PaymentOutcomeUnknownError, PaymentRefusedError):
            await shop.buy()
        shop.clock.at_a_wait = None
        shop.clock.advance(100)
    assert len(shop.signer.digests) == 2
    (payment,) = shop.ledger.history()
    assert how(payment) == "taken, suspect"
    with pytest.raises(PaymentRefusedError, match="unresolved_payment"):
        await shop.buy()


@pytest.mark.parametrize("resends", [1, 2])
async def test_a_receipt_is_written_down_though_ctrl_c_ends_the_wait_for_the_answer(resends: int) -> None:
    """Whether the wait or the next submission is interrupted."""
    headers = {"PAYMENT-RESPONSE": encoded(settled())}
    seller = Seller(sold=lambda request: httpx.Response(500, json={}, headers=headers))

    def handle(request: httpx.Request) -> httpx.Response:
        answer = seller(request)
        if len(seller.paid) == resends:
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
    limiter = Held(at=3 if resent else 2)
    seller = Seller(sold=lambda request: httpx.Response(503, json={}))
    client = market_of(seller, rate_limiter=limiter, send_api_key=True, api_key="trade_key_of_a_test")
    with pytest.raises(Stop):
        await client.token_prices(TWO)
    assert len(seller.paid) == resent
    assert [(one.stage, one.submissions) for one in await client.payments.list()] == [(PaymentStage.SENT, 1)] * resent
    assert (await client.payments.spending()).held == resent * 2 * PRICE


class Full:
    """A rate limiter that has room for the claim `at` only after a while."""

    rate_limit = None
    claims = 0

    def __init__(self, at: int, wait: float) -> None:
        self.at, self.wait = at, wait

    async def claim(self, name: str, /) -> RateClaim:
        self.claims += 1
        return RateClaim(self.wait, name) if self.claims == self.at else RateClaim(0, name, "granted")

    async def answered(self, claim: RateClaim, status: int, headers: Any, /) -> None:
        """Nothing is counted here."""

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Nothing is counted here."""


@each_of(
    ("at", "wait"),  # at the first submission, or at the second one
    [(2, 50.0), (2, 56.0), (2, 58.0), (2, 150.0), (3, 30.0), (3, 56.0), (3, 90.0)],
)
async def test_no_payment_is_sent_that_has_ended_while_it_waited_for_the_rate_limit(at: int, wait: float) -> None:
    """A payment is valid for 60 s, and a rate limit resets in as many. Its nonce is signed again then."""
    seller = Seller(ahead=0.0, receipt=settled())
    late = []

    def sold(request: httpx.Request) -> httpx.Response:
        until = int(decoded(request.headers["payment-signature"])["payload"]["authorization"]["validBefore"])
        late.append(until < seller.clock.now() + 6)
        if len(late) == 1 and at == 3:
            return httpx.Response(503, json={})
        return httpx.Response(200, json=prices("ETH", "BRETT"), headers={"PAYMENT-RESPONSE": encoded(settled())})

    seller.sold = sold
    client = market_of(seller, rate_limiter=Full(at, wait), send_api_key=True, api_key="trade_key_of_a_test")
    bought = await client.token_prices(TWO)
    assert bought.charged
    assert not any(late)
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 1
    assert (await client.payments.spending()).total.counted == 2 * PRICE


class Held:
    """A rate limiter that is interrupted while its claim `at` waits."""

    rate_limit = None
    claims = 0

    def __init__(self, at: int) -> None:
        self.at = at

    async def claim(self, name: str, /) -> RateClaim:
        self.claims += 1
        if self.claims == self.at:
            stop()
        return RateClaim()

    async def answered(self, claim: RateClaim, status: int, headers: Any, /) -> None:
        """Nothing is counted here."""

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Nothing is counted here."""


class Stopping:
    """A rate limiter that is interrupted when it is told of the answer to a payment."""

    rate_limit = None
    told = 0

    async def claim(self, name: str, /) -> RateClaim:
        return RateClaim()

    async def answered(self, claim: RateClaim, status: int, headers: Any, /) -> None:
        self.told += 1
        if self.told == 2:
            stop()

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Nothing fails here."""


async def test_an_answer_that_has_arrived_is_kept_though_the_call_is_interrupted_then() -> None:
    """The next equal call gets it, unpaid."""
    seller = Seller(receipt=settled())
    client = market_of(seller, rate_limiter=Stopping(), send_api_key=True, api_key="trade_key_of_a_test")
    with pytest.raises(Stop):
        await client.token_prices(TWO)
    (payment,) = await client.payments.list()
    assert (payment.stage, payment.charged, payment.waits) == (PaymentStage.ANSWERED, True, True)
    assert (await client.token_prices(TWO)).again
    assert len(seller.paid) == 1


async def test_it_is_not_collected_for_a_call_that_is_interrupted_then() -> None:
    """Not even until the next write: a kill in between would lose it."""
    ledger, waits = EventfulLedger.memory(), list[bool]()
    ledger.at, ledger.event = 4, lambda: waits.append(ledger.history()[0].waits)
    options: dict[str, Any] = {"rate_limiter": Stopping(), "send_api_key": True, "api_key": "trade_key_of_a_test"}
    with pytest.raises(Stop):
        await market_of(Seller(), ledger=ledger, **options).token_prices(TWO)
    assert [call for call in ledger.calls if call != "history"] == ["overview", "submit", "record", "record"]
    assert waits == [True]


class Counting:
    """A rate limiter that counts its claims, and what becomes of them."""

    rate_limit = None

    def __init__(self) -> None:
        self.told: list[str] = []

    async def claim(self, name: str, /) -> RateClaim:
        self.told.append("claim")
        return RateClaim()

    async def answered(self, claim: RateClaim, status: int, headers: Any, /) -> None:
        self.told.append("answered")

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        self.told.append(f"failed, sent {sent}")


async def test_a_place_in_the_rate_limit_is_given_back_when_the_signature_is_dropped() -> None:
    """Another call was faster: the next place is for its bytes."""
    seller = Seller()
    same = (await market_of(seller).token_prices(TWO)).payment
    assert same is not None
    ledger, limiter, now = EventfulLedger.memory(), Counting(), seller.clock.now()
    faster = draft(same.fingerprint, url=same.url, body=same.body, payer=same.payer, valid_before=int(now) + 60)
    ledger.at, ledger.event = 2, lambda: submitted(ledger, faster, now=now)
    client = market_of(seller, ledger=ledger, rate_limiter=limiter, send_api_key=True, api_key="trade_key_of_a_test")
    result = await client.token_prices(TWO)
    assert result.payment is not None
    assert result.payment.id == faster.id
    assert limiter.told == ["claim", "answered", "claim", "failed, sent False", "claim", "answered"]
