"""The gate before market data: what a 402 says, in which order things are checked, and who may judge payments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tradesdk_mock.core.messages import Answer
from tradesdk_mock.core.seeding import checksum_address
from tradesdk_mock.payments.facilitator import Facilitator
from tradesdk_mock.payments.requirements import Offer, PaidRequest, pay_to, payment_required
from tradesdk_mock.state.world import World

from ._market import ALL, JSON, PAID, PER_TOKEN, Market, good_body, tokens

EACH = {
    "token-signals": 50_000,
    "token-prices": 30_000,
    "signal-history": 50_000,
    "token-win-rate": 30_000,
    "token-avg-prices": 20_000,
}


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("path", PER_TOKEN)
def test_a_price_for_each_token(path: str, count: int) -> None:
    answer = Market(paywall="closed").post(path, tokens(*"abcde"[:count]))
    assert answer.offer()["accepts"][0]["amount"] == str(EACH[path] * count)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("top-performers", {"sortBy": "winRate", "limit": 1}),
        ("top-performers", {"sortBy": "ROI", "limit": 300}),
        ("aggregate-metrics", {}),
    ],
)
def test_a_price_for_everything(path: str, body: dict[str, Any]) -> None:
    assert Market(paywall="closed").post(path, body).offer()["accepts"][0]["amount"] == "60000"


def test_the_free_one_is_free() -> None:
    assert len(Market(paywall="closed").post("supported-tokens", {}).data["tokens"]) == 100


def test_both_generations_offer_the_same() -> None:
    market = Market(paywall="closed")
    answer = market.post("token-prices", tokens("BRETT", "ETH"))
    new, old = answer.offer(), answer.body
    assert (new["x402Version"], old["x402Version"]) == (2, 1)
    assert new["error"] == old["error"]
    (two,), (one,) = new["accepts"], old["accepts"]
    assert (two["network"], one["network"]) == ("eip155:8453", "base")
    assert two["amount"] == one["maxAmountRequired"] == "60000"
    assert new["resource"] == {
        "url": "http://127.0.0.1:8402/v1/token-prices",
        "description": one["description"],
        "mimeType": one["mimeType"],
    }
    assert one["resource"] == new["resource"]["url"]
    for name in ("scheme", "payTo", "asset", "maxTimeoutSeconds", "extra"):
        assert two[name] == one[name], name
    assert two["scheme"] == "exact"
    assert two["asset"] == "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    assert two["extra"] == {"name": "USD Coin", "version": "2"}
    assert two["payTo"] == checksum_address(two["payTo"]) == pay_to(market.world.seed)
    assert pay_to(8) != pay_to(7)


@pytest.mark.parametrize("payment_402", ["both", "v2", "v1"])
def test_a_402_may_speak_one_generation_only(payment_402: str) -> None:
    answer = Market(paywall="closed", payment_402=payment_402).post("aggregate-metrics", {})
    assert answer.status == 402
    assert ("payment-required" in answer.headers) == (payment_402 != "v1")
    assert answer.body == {} if payment_402 == "v2" else answer.body["x402Version"] == 1


@pytest.mark.parametrize("path", PAID)
def test_a_402_is_not_wrapped(path: str) -> None:
    assert not {"success", "data"} & set(Market(paywall="closed").post(path, good_body(path)).body)


@pytest.mark.parametrize("path", PAID)
def test_payment_is_asked_for_before_a_token_is_looked_for(path: str) -> None:
    body = tokens("NOPE") if path in PER_TOKEN else good_body(path)
    assert Market(paywall="closed").post(path, body).status == 402


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (tokens(*"abcdef"), 5),
        ({"tokens": []}, 1),
        (tokens("a", "a"), 2),
        ({"tokens": "abc"}, 1),
        ({}, 1),
        ([1, 2, 3], 1),
        ("tokens", 1),
        (None, 1),
    ],
    ids=repr,
)
def test_what_a_wrong_request_would_cost(body: object, count: int) -> None:
    shop = Market(paywall="closed", b_invalid="402-first")
    assert shop.post("token-prices", body).offer()["accepts"][0]["amount"] == str(30_000 * count)


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[" * 100_000, b"9" * 10_000], ids=lambda c: repr(c)[:12])
def test_what_no_request_at_all_would_cost(content: bytes | None) -> None:
    shop = Market(paywall="closed", b_invalid="402-first")
    assert shop.send("POST", "token-prices", content, [JSON]).offer()["accepts"][0]["amount"] == "30000"


class Honest(Facilitator):
    """Takes the header `x-payment: good` for a payment, and writes down what it was asked."""

    def __init__(self, withhold: bool = False) -> None:
        self.withhold = withhold
        self.seen: list[str] = []

    def verify(self, world: World, paid: PaidRequest, offer: Offer, now: float) -> Answer | None:
        self.seen.append(f"verify {offer.amount}")
        if paid.request.header(b"x-payment") == b"good":
            return None
        return payment_required(world, offer, "invalid_payload")

    def settle(self, world: World, paid: PaidRequest, offer: Offer, answer: Answer) -> Answer:
        self.seen.append(f"settle {offer.amount}")
        if self.withhold:
            return Answer(402, {})
        answer.headers.append((b"payment-response", b"receipt"))
        return answer


def paid(shop: Market, path: str, body: object) -> Any:
    return shop.post(path, body, [(b"x-payment", b"good")])


def test_a_verifier_lets_the_paid_in() -> None:
    shop = Market(paywall="closed")
    shop.pipeline.parts.facilitator = verifier = Honest()
    answer = paid(shop, "token-prices", tokens("ETH", "BRETT"))
    assert answer.data["results"][0]["symbol"] == "ETH"
    assert answer.headers["payment-response"] == "receipt"
    assert verifier.seen == ["verify 60000", "settle 60000"]
    refused = shop.post("token-prices", tokens("ETH"))
    assert refused.offer()["error"] == refused.body["error"] == "invalid_payload"
    assert verifier.seen[2:] == ["verify 30000"]


def test_a_failure_costs_nothing() -> None:
    shop = Market(paywall="closed")
    shop.pipeline.parts.facilitator = verifier = Honest()
    assert paid(shop, "token-prices", tokens("NOPE")).status == 404
    assert paid(shop, "token-prices", {}).status == 400
    assert verifier.seen == ["verify 30000"]
    shop.world.set_gaps({"b_invalid": "402-first"})
    assert paid(shop, "token-prices", {}).status == 400
    assert verifier.seen == ["verify 30000", "verify 30000"]


def test_what_is_not_settled_is_withheld() -> None:
    shop = Market(paywall="closed")
    shop.pipeline.parts.facilitator = Honest(withhold=True)
    answer = paid(shop, "aggregate-metrics", {})
    assert (answer.status, answer.body) == (402, {})


def test_the_free_one_asks_no_verifier() -> None:
    shop = Market(paywall="closed")
    shop.pipeline.parts.facilitator = verifier = Honest()
    assert shop.post("supported-tokens", {}).status == 200
    assert verifier.seen == []


def test_an_open_paywall_asks_no_verifier() -> None:
    shop = Market()
    shop.pipeline.parts.facilitator = verifier = Honest()
    assert shop.post("aggregate-metrics", {}).status == 200
    assert verifier.seen == []


@pytest.mark.parametrize("path", ALL)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post"])
def test_everything_is_a_post(path: str, method: str) -> None:
    answer = Market(paywall="closed").send(method, path, b"{}", [JSON])
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.body["error"]["code"] == "invalid_request"


@pytest.mark.parametrize("path", ALL)
def test_no_key_is_needed_and_a_wrong_one_is_ignored(path: str) -> None:
    shop = Market()
    assert shop.post(path, good_body(path)).status == 200
    assert shop.post(path, good_body(path), [(b"authorization", b"Bearer wrong")]).status == 200


@pytest.mark.parametrize("path", ALL)
def test_a_key_may_be_needed(path: str) -> None:
    shop = Market(b_bearer="required")
    for headers in ([], [(b"authorization", b"Bearer wrong")], [(b"authorization", b"Basic abc")]):
        # The key comes first: what the body says doesn't matter.
        answer = shop.post(path, "nonsense", headers)
        assert answer.status == 401
        assert set(answer.body) == {"error"}
        assert answer.body["error"]["code"] == "unauthorized"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert shop.post(path, good_body(path), [(b"authorization", b"Bearer mock_read_bot")]).status == 200


def test_a_rate_limit_comes_before_everything_else() -> None:
    shop = Market(paywall="closed", b_rate="60", b_bearer="required")
    answers = [shop.post("token-prices", tokens("ETH")) for _ in range(61)]
    assert [answer.status for answer in answers] == [401] * 60 + [429]
    first, last = answers[0], answers[-1]
    assert (first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]) == ("60", "59")
    assert last.body["error"]["code"] == "rate_limited"
    assert (last.headers["x-ratelimit-remaining"], last.headers["retry-after"]) == ("0", "60")
    assert int(last.headers["x-ratelimit-reset"]) == shop.clock.now() + 60
    other = shop.send("POST", "supported-tokens", b"{}", [JSON], client="127.0.0.2")
    assert other.headers["x-ratelimit-remaining"] == "59"
    shop.clock.advance(60)
    assert shop.post("token-prices", tokens("ETH")).status == 401


@pytest.mark.parametrize("path", ALL)
def test_without_a_rate_limit_nothing_is_said_about_one(path: str) -> None:
    answer = Market().post(path, good_body(path))
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_a_crash_has_the_error_body_of_the_account_api() -> None:
    shop = Market()
    shop.world.store.run("ALTER TABLE trades RENAME TO lost")
    answer = shop.post("top-performers", {"sortBy": "ROI"})
    assert answer.status == 500
    assert answer.body == {"error": {"code": "internal_error", "message": "Something went wrong in the server."}}
    assert shop.post("token-prices", tokens("ETH")).status == 200


def test_the_journal_says_how_it_went() -> None:
    shop = Market(paywall="closed")
    shop.post("token-prices", tokens("ETH"))
    shop.post("token-prices", tokens("ETH", "eth"))
    shop.post("supported-tokens", {})
    entries = shop.world.journal.entries()
    assert [(entry.path, entry.status, entry.error) for entry in entries] == [
        ("/v1/token-prices", 402, "payment_required"),
        ("/v1/token-prices", 400, "invalid_request"),
        ("/v1/supported-tokens", 200, None),
    ]
    assert json.loads(json.dumps(entries[0].body)) == tokens("ETH")
