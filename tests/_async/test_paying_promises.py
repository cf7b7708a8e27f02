"""What a purchase promises, at a seller who breaks it: its nonce, its price, its data, its name, its time."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk import (
    Budget,
    MarketResult,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
    TokenPrice,
    TokenResults,
)

from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import PRICE, TWO, Seller, asks_2, lost, used
from ..unit._offers import offer_2, prices, requirement_2
from ._market import in_doubt, market_of
from ._paidshop import Limiter

pytestmark = pytest.mark.twin

ADDRESS = "0x" + "cd" * 20
"""Of every token that `prices` has."""
ONCE: dict[str, Any] = {"max_retries": 0}


# Data.


@each_of(
    ("bought", "has", "warned"),
    [
        (["ETH", "BRETT"], ["ETH", "BRETT"], None),
        (["eth", "Brett"], ["BRETT", "ETH"], None),
        ([ADDRESS], ["ANY"], None),
        ([ADDRESS.upper().replace("X", "x")], ["ANY"], None),
        (["ethereum"], ["ETH"], None),  # maybe an id
        (["degen-base", "BRETT"], ["BRETT", "DEGEN"], None),
        (["ETH"], ["BRETT"], "the response has 'BRETT', not only 'ETH'"),
        (["0x" + "ab" * 20], ["BRETT"], "the response has 'BRETT', not only '0x"),
        (["ETH", "BRETT"], ["ETH", "ETH"], "the response has 'ETH', not only 'ETH', 'BRETT'"),
        (["ethereum", "BRETT"], ["DEGEN", "TOSHI"], "the response has 'DEGEN', 'TOSHI', not only"),
        (["ETH"], ["ETH", "BRETT"], "the response has 'BRETT', not only 'ETH'"),
        (["ETH", "BRETT"], ["ETH"], "the response has 1 of the 2 tokens that were bought: 'ETH', 'BRETT'"),
        (["ETH"], [], "the response has none of the 1 tokens"),
    ],
)
async def test_other_tokens_than_were_bought_are_delivered_with_a_warning(
    bought: list[str], has: list[str], warned: str | None
) -> None:
    """They are paid for: what came is given, and given again, and nobody takes it for what was asked."""
    seller = Seller(offer=offer_2(requirement_2(amount="30000")))
    seller.sold = lambda _: httpx.Response(200, json=prices(*has))
    client = market_of(seller)
    plain = await client.token_prices(bought)
    raw = await client.request("/v1/token-prices", json={"tokens": [{"identifier": one} for one in bought]})
    named = [await client.token_prices(bought, purchase="a") for _ in range(2)]
    assert plain.payment is not None
    results: list[MarketResult[Any]] = [plain, raw, *named]
    assert [one.again for one in results] == [False, False, False, True]
    for result in results:
        assert len(result.warnings) == (warned is not None), result.warnings
        assert warned is None or result.warnings[0].startswith(warned)
    data: TokenResults[TokenPrice] = plain.data
    assert [one.symbol for one in data.results] == has


@each_of(("taken", "refused"), [(53, False), (54, True), (59, True), (61, True)])
async def test_a_signature_that_took_too_long_is_not_used(taken: int, refused: bool) -> None:
    """Verifiers refuse what is valid for less than six seconds. Signing it anew would take as long."""
    seller = Seller()
    signer = CountingSigner()
    sign, waits = signer.sign_digest, [taken]

    def slowly(digest: bytes, /) -> bytes:
        seller.clock.advance(waits.pop() if waits else 0)
        return sign(digest)

    signer.sign_digest = slowly  # type: ignore[method-assign]
    client = market_of(seller, signer=signer)
    if refused:
        with pytest.raises(PaymentRefusedError, match="signer_too_slow"):
            await client.token_prices(TWO)
    else:
        await client.token_prices(TWO)
    assert len(seller.paid) == (not refused)


async def test_an_answer_without_tokens_has_no_warning() -> None:
    metrics = dict.fromkeys(("totalAgents", "activeAgents", "totalTrades", "totalProfitableTrades"), 1)
    figures = ("totalBuyETH", "totalBuyUSD", "totalSellETH", "totalSellUSD", "realizedProfitETH", "realizedProfitUSD")
    metrics |= dict.fromkeys((*figures, "unrealizedProfitETH", "unrealizedProfitUSD", "winRate"), 1)
    seller = Seller(sold=lambda _: httpx.Response(200, json={"success": True, "data": metrics, "error": None}))
    assert (await market_of(seller).aggregate_metrics()).warnings == ()


# Time.


@each_of("valid", [True, False])
async def test_after_its_time_only_valid_bytes_are_resent(valid: bool) -> None:
    seller = Seller(sold=lost)
    client = market_of(seller, **ONCE, continue_for=30)
    first = await in_doubt(client)
    seller.clock.advance((54 if valid else 55) - 1)
    seller.sold = None
    again = (await client.token_prices(TWO)).payment
    assert again is not None
    assert (again.id == first.id) is valid
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 2 - valid


async def test_a_call_signs_one_nonce_however_long_it_takes() -> None:
    """Its own first signature is never too old for it to be continued."""
    seller = Seller()
    seller.sold = lambda request: httpx.Response(503) if len(seller.paid) == 1 else used(request)
    late = Limiter(lambda: seller.clock.advance(70), at=3)  # a payment is valid for 60 s
    with pytest.raises(PaymentUndeliveredError):
        await market_of(seller, continue_for=30, **late.options).token_prices(TWO)
    first, second = (one["payload"]["authorization"] for one in seller.payments)
    assert first["nonce"] == second["nonce"]
    assert first["validBefore"] < second["validBefore"]


# Signatures.


async def test_each_signature_has_an_identifier_of_its_own() -> None:
    """A service that keeps answers by identifier calls another payload under the same one a conflict."""
    wanted = {"info": {"required": True}, "schema": {}}
    seller = Seller(offer=offer_2(extensions={"payment-identifier": wanted}), sold=lost)
    client = market_of(seller, **ONCE)
    await in_doubt(client)
    seller.clock.advance(100)
    seller.sold = lambda request: asks_2() if len(seller.paid) == 2 else lost(request)  # it keeps no answer
    await in_doubt(client)
    told = [one["extensions"]["payment-identifier"]["info"]["id"] for one in seller.payments]
    signed = [one["payload"]["signature"] for one in seller.payments]
    assert (told[0] == told[1], signed[0] == signed[1]) == (True, True)  # the old bytes, once more
    assert told[2] != told[0]
    assert signed[2] != signed[0]
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 1


@each_of("per_call", [None, "0.10"])
async def test_an_earlier_payment_above_the_price_is_resent_only_by_a_call_that_may_cost_so_much(
    per_call: str | None,
) -> None:
    """`max_price` was for that call. This one costs the published price at most."""
    seller = Seller(offer=offer_2(requirement_2(amount="90000")), sold=lost)
    client = market_of(seller, **ONCE, budget=Budget(per_call=per_call, total="5"))
    dear = await in_doubt(client, max_price="0.09")
    handed_over = len(seller.paid)
    with pytest.raises(PaymentRefusedError, match="over_price") as caught:
        await client.token_prices(TWO)
    assert caught.value.payment == dear
    assert len(seller.paid) == handed_over
    seller.sold = None
    again = (await client.token_prices(TWO, max_price="0.09")).payment
    assert again is not None
    assert again.id == dear.id


async def test_a_run_counts_the_largest_amount_of_a_payment_that_it_resends() -> None:
    """The dear signature has expired, so the last one is cheap; what was signed counts all the same."""
    seller = Seller(sold=lost, offer=offer_2(requirement_2(amount="90000")))
    client = market_of(seller, **ONCE)
    await in_doubt(client, max_price="0.09")
    seller.clock.advance(100)
    seller.offer = offer_2()
    cheap = await in_doubt(client)
    assert (cheap.amount, cheap.counted) == (PRICE, 90_000)
    handed_over = len(seller.paid)
    with pytest.raises(PaymentRefusedError, match="over_total"):
        await client.batches.token_prices(TWO, max_total="0.08").__anext__()
    assert len(seller.paid) == handed_over
    seller.sold = None
    batch = await client.batches.token_prices(TWO, max_total="0.09").__anext__()
    assert (batch.spent, batch.result.payment is not None) == (90_000, True)


async def test_a_run_signs_again_what_it_has_signed() -> None:
    """It counts once in its own run, too."""
    seller = Seller(sold=lost)
    run = market_of(seller, **ONCE).batches.token_prices(TWO, max_total="0.06")
    with pytest.raises(PaymentOutcomeUnknownError):
        await run.__anext__()
    seller.clock.advance(200)  # its validity is over, and its ten minutes are not
    seller.sold = None
    batch = await run.__anext__()
    signed = [one["payload"] for one in seller.payments]
    assert batch.spent == PRICE
    assert len({one["authorization"]["nonce"] for one in signed}) == 1
    assert len({one["signature"] for one in signed}) == 2


# Names.


async def test_a_service_that_calls_fresh_nonces_used_is_told_of_by_each_batch() -> None:
    """It may have cashed each of them: a run that passed over its own batches would end without a word."""
    seller = Seller(sold=used, offer=offer_2(requirement_2(amount="30000")))
    client = market_of(seller, budget=Budget(total="0.20"))
    run = client.batches.token_prices(["A", "B", "C"], size=1, job="today")
    for number in range(3):
        with pytest.raises(PaymentUndeliveredError, match="taken_elsewhere"):
            await run.__anext__()
        assert len(run.passed_over) == number
    with pytest.raises(StopAsyncIteration):
        await run.__anext__()
    assert run.passed_over == (("A",), ("B",), ("C",))
    assert len(seller.paid) == 3
    assert (await client.payments.spending()).held == 90_000


# Receipts.
