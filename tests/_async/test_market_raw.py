"""Any body to an endpoint with a published price: paid and guarded as the named calls are."""

import pytest

from tradesdk import DryRun, Ledger, PaymentRefusedError
from tradesdk_mock import MockService

from ._market import buyer_of

pytestmark = pytest.mark.twin

TOKENS = {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}


async def test_what_it_brings_is_the_answer_as_it_came(mock: MockService) -> None:
    client = buyer_of(mock)
    found = await client.request("/v1/token-prices", json=TOKENS)
    assert found.payment is not None
    assert (found.payment.amount, found.charged) == (60_000, True)
    assert found.data.status == 200
    answer = found.data.json()
    assert list(answer) == ["success", "data", "error"]
    assert [one["symbol"] for one in answer["data"]["results"]] == ["ETH", "BRETT"]
    fixed = await client.request("/v1/aggregate-metrics")
    assert fixed.payment is not None
    assert (fixed.payment.amount, fixed.payment.body) == (60_000, b"{}")


async def test_what_is_free_is_not_paid(mock: MockService) -> None:
    found = await buyer_of(mock, signer=None).request("/v1/supported-tokens", json={"limit": 2})
    assert (found.payment, len(found.data.json()["data"]["tokens"])) == (None, 2)


async def test_the_same_bytes_are_the_same_purchase(mock: MockService) -> None:
    ledger = Ledger.memory()
    client = buyer_of(mock, ledger=ledger)
    named = await client.token_prices(["ETH", "BRETT"])
    again = await client.request("/v1/token-prices", json=TOKENS)
    assert named.payment is not None
    assert again.payment is not None
    assert named.payment.fingerprint == again.payment.fingerprint


async def test_a_quote_and_a_dry_run_buy_nothing(mock: MockService) -> None:
    client = buyer_of(mock)
    assert (await client.quote.request("/v1/token-prices", json=TOKENS)).amount == 60_000
    tried = await client.dry_run.request("/v1/token-prices", json=TOKENS)
    assert isinstance(tried, DryRun)
    assert tried.authorization is not None
    assert tried.authorization["value"] == "60000"
    assert mock.payments.submissions() == []


async def test_max_price_is_the_most(mock: MockService) -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        await buyer_of(mock).request("/v1/token-prices", json=TOKENS, max_price="0.05")
    assert caught.value.code in ("over_price", "over_budget")
