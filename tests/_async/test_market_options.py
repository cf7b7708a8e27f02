"""Copies with other settings, paying at the first request, trying without paying, asking for the price alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    Budget,
    DryRun,
    InvalidArgumentError,
    Ledger,
    MarketResult,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    Timeout,
    TokenQuery,
)
from tradesdk_mock import MockService

from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import BASE, PRICE, TWO, Seller
from ..unit._offers import PAYER, offer_2, prices, requirement_2
from ._market import buyer_of, in_doubt, market_of

pytestmark = pytest.mark.twin

# Copies with other settings.


async def test_a_paid_answer_may_take_longer() -> None:
    seller = Seller()
    client = market_of(seller)
    await client.token_prices(TWO)
    await client.with_options(timeout=7).token_prices(TWO)
    await client.with_options(timeout=Timeout(read=8), deadline=50).token_prices(TWO)
    await client.with_options(deadline=20).token_prices(TWO)
    await client.with_options(max_retries=0).token_prices(TWO)
    await market_of(seller, timeout=9).token_prices(TWO)
    reads = [request.extensions["timeout"]["read"] for request in seller.requests]
    assert reads == pytest.approx([30, 90, 7, 7, 8, 8, 20, 20, 30, 90, 9, 9])
    connects = [request.extensions["timeout"]["connect"] for request in seller.requests]
    assert connects == pytest.approx([5, 5, 7, 7, 5, 5, 5, 5, 5, 5, 9, 9])


async def test_a_copy_shares_ledger_budget_and_connections() -> None:
    seller, ledger = Seller(), Ledger.memory()
    client = market_of(seller, ledger=ledger, budget=Budget(total="0.12"))
    async with client.with_options(timeout=5) as twin:
        assert twin.base_url == client.base_url
        await twin.token_prices(TWO)
    await client.token_prices(TWO)  # closing the copy has closed nothing
    assert (await twin.payments.spending()).left == 0
    assert len(await twin.payments.list()) == len(await client.payments.list()) == 2
    assert [type(twin), twin.rate_limit] == [type(client), None]


async def test_a_copy_with_fewer_retries(mock: MockService) -> None:
    mock.add_fault("status", status=500, paid="only")
    client = buyer_of(mock)
    assert (await in_doubt(client)).submissions == 1
    with pytest.raises(PaymentOutcomeUnknownError) as caught:  # the same payment: six more, while it is valid
        await client.token_prices(TWO)
    assert caught.value.payment is not None
    assert 2 < caught.value.payment.submissions <= 7
    assert mock.payments.signatures() == 1


# What would be signed.


async def test_a_dry_run_shows_what_would_be_signed() -> None:
    seller, signer = Seller(offer=offer_2(requirement_2(maxTimeoutSeconds=300))), CountingSigner()
    client = market_of(seller, signer=signer)
    tried = await client.dry_run.token_prices(TWO)
    assert isinstance(tried, DryRun)
    assert (tried.refusal, tried.quote.amount) == (None, PRICE)
    assert tried.requirement == requirement_2(maxTimeoutSeconds=300)
    assert tried.authorization is not None
    nonce = tried.authorization.pop("nonce")
    assert tried.authorization == {
        "from": PAYER,
        "to": tried.requirement["payTo"],
        "value": "60000",
        "validAfter": "0",
        "validBefore": str(int(seller.clock.now()) + 120),
    }
    assert (len(bytes.fromhex(nonce[2:])), nonce[:2]) == (32, "0x")
    assert (signer.digests, len(seller.requests), seller.paid) == ([], 1, [])
    assert await client.payments.list() == []
    assert (await client.payments.spending()).total.counted == 0

    await client.token_prices(TWO)
    signed = seller.payments[0]["payload"]["authorization"]
    assert signed.pop("nonce") != nonce
    assert signed == tried.authorization


@each_of(
    ("options", "fields", "refusal", "shown"),
    [
        ({}, {"amount": "90000"}, "over_price", False),
        ({}, {"network": "eip155:1"}, "unsupported_network", False),
        ({"pay_to": ["0x" + "Ab" * 20]}, {}, "recipient_changed", False),
        ({"budget": None}, {}, "no_budget", True),
        ({"budget": Budget(per_call="0.05")}, {}, "over_budget", True),
        ({"signer": None}, {}, "no_signer", False),
        ({"base_url": "http://market.example", "allow_insecure": True}, {}, "insecure_url", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_dry_run_says_why_it_would_be_refused(
    options: dict[str, Any], fields: dict[str, Any], refusal: str, shown: bool
) -> None:
    seller = Seller(offer=offer_2(requirement_2(**fields)))
    tried = await market_of(seller, **options).dry_run.token_prices(TWO)
    assert tried.refusal is not None
    assert (tried.refusal.code, tried.refusal.__traceback__) == (refusal, None)
    with pytest.raises(type(tried.refusal)) as raised:
        await market_of(seller, **options).token_prices(TWO)
    assert (raised.value.code, raised.value.hint, raised.value.details) == (
        refusal,
        tried.refusal.hint,
        tried.refusal.details,
    )
    assert (tried.authorization is not None) == shown
    assert seller.payments == []


async def test_a_dry_run_of_what_costs_nothing() -> None:
    seller = Seller(asking=lambda request: httpx.Response(200, json=prices(*TWO)))
    tried = await market_of(seller).dry_run.token_prices(TWO)
    assert (tried.authorization, tried.requirement, tried.refusal) == (None, None, None)


# The price alone.


class Nowhere(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"somebody asked for {request.url}")


async def test_a_quote_needs_no_network_and_no_key() -> None:
    http = httpx.AsyncClient(transport=Nowhere())
    client = AsyncMarketClient(http_client=http, base_url=BASE, ledger=Ledger.memory(), budget=Budget(per_call="0.10"))
    quote = client.quote
    found = [
        await quote.token_signals(["A", "B", "C", "D", "E"]),
        await quote.signal_history(["A"]),
        await quote.token_prices(TWO),
        await quote.token_win_rate(["A", "B", "C"]),
        await quote.token_avg_prices(["A"]),
        await quote.top_performers("ROI", limit=300),
        await quote.aggregate_metrics(),
        await quote.supported_tokens(),
    ]
    assert [one.amount for one in found] == [250_000, 50_000, 60_000, 90_000, 20_000, 60_000, 60_000, 0]
    assert [one.tokens for one in found] == [5, 1, 2, 3, 1, None, None, None]
    assert [one.affordable for one in found] == [False, True, True, True, True, True, True, True]
    assert {one.spending.left for one in found} == {100_000}
    with pytest.raises(InvalidArgumentError, match="limit"):
        await quote.top_performers("ROI", limit=301)


async def test_a_quote_tells_what_the_budgets_leave() -> None:
    client = market_of(Seller(), budget=Budget(per_day="0.15"))
    assert (await client.quote.token_prices(TWO)).spending.left == 150_000
    result = await client.token_prices(TWO)
    assert isinstance(result, MarketResult)
    assert result.quote.spending.left == 150_000  # before the call
    assert (await client.quote.token_prices(TWO)).spending.left == 90_000
    await client.token_prices(TWO)
    later = await client.quote.token_prices(TWO)
    assert (later.spending.left, later.affordable) == (30_000, False)


# What may be paid, for each kind of call.

Act = Callable[..., Any]
BODY = {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}
PAID: list[Act] = [
    lambda c, **more: c.token_signals(["ETH", TokenQuery("BRETT", 5)], limit=3, **more),
    lambda c, **more: c.signal_history(["ETH"], since=0, until=1, **more),
    lambda c, **more: c.token_prices(TWO, **more),
    lambda c, **more: c.token_win_rate(TWO, **more),
    lambda c, **more: c.token_avg_prices(["ETH"], **more),
    lambda c, **more: c.top_performers("ROI", limit=10, **more),
    lambda c, **more: c.aggregate_metrics(**more),
    lambda c, **more: c.request("/v1/token-prices", json=BODY, **more),
]


@each_of(("act", "name"), [(act, f"call {number}") for number, act in enumerate(PAID)])
async def test_what_a_price_and_names_do(act: Act, name: str, mock: MockService) -> None:
    client = buyer_of(mock)
    taken = len(mock.payments.settlements())
    with pytest.raises(PaymentRefusedError, match="over_price"):
        await act(client, max_price="0")
    cheap = await act(client.dry_run, max_price="0")
    assert cheap.refusal.code == "over_price"
    bought = await act(client, purchase=name, max_price="0.50")
    again = await act(client, purchase=name)
    assert (bought.again, again.again, again.payment.id) == (False, True, bought.payment.id)
    assert (await act(client.dry_run, purchase=name, max_price="0")).existing == again.payment
    anew = await act(client, purchase=f"{name} of tomorrow")
    assert (anew.again, anew.payment.id != bought.payment.id) == (False, True)
    assert (await act(client.quote)).amount == bought.payment.amount
    mock.payments.assert_charged(times=taken + 2)


async def test_the_free_call_takes_nothing_about_money() -> None:
    for more in ("max_price", "purchase"):
        call: Any = market_of(Seller()).supported_tokens
        with pytest.raises(TypeError, match=more):
            await call(**{more: 1})


async def test_what_any_body_brings_is_the_answer_as_it_came(mock: MockService) -> None:
    """The same bytes are the same purchase as by the named call, and what is free needs no wallet."""
    client = buyer_of(mock)
    found = await client.request("/v1/token-prices", json=BODY)
    assert found.payment is not None
    assert (found.payment.amount, found.charged, found.data.status) == (PRICE, True, 200)
    answer = found.data.json()
    assert list(answer) == ["success", "data", "error"]
    assert [one["symbol"] for one in answer["data"]["results"]] == TWO
    named = (await client.token_prices(TWO)).payment
    assert named is not None
    assert named.fingerprint == found.payment.fingerprint
    fixed = (await client.request("/v1/aggregate-metrics")).payment
    assert fixed is not None
    assert (fixed.amount, fixed.body) == (60_000, b"{}")
    free = await buyer_of(mock, signer=None).request("/v1/supported-tokens", json={"limit": 2})
    assert (free.payment, len(free.data.json()["data"]["tokens"])) == (None, 2)
