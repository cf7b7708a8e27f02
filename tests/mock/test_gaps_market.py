"""What is not written about market data and payments: the default and every other value of the option."""

from __future__ import annotations

from itertools import product
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockService

from .._rows import each_of
from .._stock import stocked
from ._buyer import BODY, PATH, PRICE, Answer, Shop, good_body, tokens
from ._http import START, client, error, ok
from ._paying import ALL, JSON, PAID, PAYER, STRANGER, decode


def test_b_port(server: MockService, api: httpx.Client) -> None:
    """More of it in test_market_port."""
    stocked(server, START)
    ok(api.post("/v1/supported-tokens", json={}))
    assert server.market_url == server.url
    server.set_gaps(b_port="another")
    assert server.market_url != server.url
    error(api.post("/v1/supported-tokens", json={}), 404, "not_found")
    assert ok(api.post(f"{server.market_url}/v1/supported-tokens", json={}))["data"]["total"] == 620


@each_of("value", ["not-required", "required"])
def test_b_bearer(value: str) -> None:
    shop = Shop(traded=True, b_bearer=value, paywall="open")
    for path in ALL:
        for key in (None, b"Bearer wrong", b"Basic abc", b"Bearer mock_read_bot"):
            headers = [] if key is None else [(b"authorization", key)]
            if value == "required" and key != b"Bearer mock_read_bot":
                # The key comes first: what the body says doesn't matter.
                answer = shop.post(path, "nonsense", headers)
                assert (answer.status, answer.body["error"]["code"]) == (401, "unauthorized")
                assert (set(answer.body), answer.headers["www-authenticate"]) == ({"error"}, "Bearer")
            else:
                assert shop.post(path, good_body(path), headers).data


BUSINESS: list[tuple[str, dict[str, Any]]] = [
    ("token-prices", tokens("ETH", "eth")),
    ("token-prices", tokens(*"abcdef")),
    ("token-signals", {"tokens": [{"identifier": "ETH", "limit": 101}]}),
    ("signal-history", {**tokens("ETH"), "signalType": "HOLD"}),
    ("signal-history", {**tokens("ETH"), "startDate": "2026-01-02", "endDate": "2026-01-01"}),
    ("top-performers", {"sortBy": "profit"}),
    ("supported-tokens", {"limit": 501}),
    ("aggregate-metrics", {"all": True}),
]
MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("token-prices", {}),
    ("token-signals", {"tokens": [{"identifier": "ETH", "limit": "5"}]}),
    ("signal-history", {**tokens("ETH"), "startDate": "soon"}),
]


@each_of("value", ["400", "422", "402-first"])
@each_of("paywall", ["closed", "open"])
def test_b_invalid(value: str, paywall: str) -> None:
    """422 only for what is well formed, as in the account API. What is free is never paid for, right or wrong."""
    shop, usual = Shop(b_invalid=value, paywall=paywall), Shop()
    for path, body in (*BUSINESS, *MALFORMED):
        answer = shop.post(path, body)
        if value == "402-first" and paywall == "closed" and path in PAID:
            assert answer.status == 402
        else:
            assert answer.status == (422 if value == "422" and (path, body) in BUSINESS else 400)
            assert answer.error == usual.post(path, body).error


def test_what_a_wrong_request_would_cost() -> None:
    shop = Shop(b_invalid="402-first")
    malformed: list[Any] = [{"tokens": []}, {"tokens": "abc"}, {}, [1, 2, 3], "tokens", None]
    for body, count in [(tokens(*"abcdef"), 5), (tokens("a", "a"), 2), *[(each, 1) for each in malformed]]:
        assert shop.ask(body=body)["accepts"][0]["amount"] == str(PRICE * count), body
    for content in (b"", b"\xff", b"[" * 100_000, b"9" * 10_000, b" " * 2_000_000):
        answer = shop.send("POST", PATH, content, [JSON])
        assert decode(answer.headers["payment-required"])["accepts"][0]["amount"] == str(PRICE)


@pytest.mark.long
@each_of("value", ["none", "60"])
def test_b_rate(value: str) -> None:
    """It comes before everything else, and counts by address."""
    gaps = GapOptions(b_rate=value, b_bearer="required")
    with MockServer(gaps=gaps, clock=MockClock(START)) as server, client(server, None) as http:
        answers = [http.post("/v1/token-prices", json=BODY) for _ in range(60)]
        assert {answer.status_code for answer in answers} == {401}
        last = http.post("/v1/supported-tokens", json={})
        if value == "none":
            error(last, 401, "unauthorized")
            assert not [name for each in (*answers, last) for name in each.headers if "x-ratelimit" in name]
            return
        assert [int(answer.headers["x-ratelimit-remaining"]) for answer in answers] == list(range(59, -1, -1))
        error(last, 429, "rate_limited")
        named = {name: last.headers[name] for name in ("retry-after", "x-ratelimit-limit", "x-ratelimit-remaining")}
        assert named == {"retry-after": "60", "x-ratelimit-limit": "60", "x-ratelimit-remaining": "0"}
        assert last.headers["x-ratelimit-reset"] == str(START + 60)
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=elsewhere, base_url=server.url) as other:
            assert other.post("/v1/supported-tokens", json={}).headers["x-ratelimit-remaining"] == "59"
        server.clock.advance(60)
        error(http.post("/v1/token-prices", json=BODY), 401, "unauthorized")


@each_of("value", ["404", "partial"])
def test_unknown_token(value: str) -> None:
    shop = Shop(unknown_token=value, paywall="open")
    body = {"tokens": [{"identifier": "NOPE", "limit": 1}, {"identifier": "TOSHI", "limit": 2}, {"identifier": "X"}]}
    answer = shop.post("token-signals", body)
    if value == "404":
        assert (answer.status, "NOPE" in answer.error) == (404, True)
    else:
        (result,) = answer.data["results"]
        assert (result["tokenSymbol"], result["signalCount"]) == ("TOSHI", 2)
    # With no known one among them there is nothing to answer.
    assert shop.post("token-signals", tokens("NOPE", "X")).status == 404


@each_of(("value", "status"), [("closed", 402), ("open", 200)])
def test_paywall(value: str, status: int) -> None:
    shop = Shop(traded=True, paywall=value)
    for path in PAID:
        assert shop.post(path, good_body(path)).status == status, path
    assert shop.post("supported-tokens", {}).status == 200


@each_of("seconds", [60, 1, 15, 86_400])
def test_payment_window(seconds: int) -> None:
    shop = Shop(payment_window=seconds)
    (way,) = shop.ask()["accepts"]
    assert way["maxTimeoutSeconds"] == seconds
    answer = shop.buy(1)
    if seconds == 1:
        assert answer.reason == "invalid_exact_evm_payload_authorization_valid_before"
    else:
        assert answer.status == 200
    # It is advice: a payment that is valid for longer is taken.
    assert shop.buy(2, validBefore=str(START + 10**6)).status == 200


@each_of("value", ["none", "optional", "required"])
def test_payment_identifier(value: str) -> None:
    """More of it in test_payments."""
    shop = Shop(payment_identifier=value)
    offer = shop.ask()
    assert ("extensions" in offer) is (value != "none")
    assert shop.buy(1).status == (400 if value == "required" else 200)
    if value != "none":
        extension = offer["extensions"]["payment-identifier"]
        assert extension["info"] == {"required": value == "required"}
        assert extension["schema"]["properties"]["id"]["minLength"] == 16
        content = shop.signed(2, identifier="x" * 16)
        assert [shop.submit(content).status for _ in range(2)] == [200, 200]


@each_of("value", ["one", "several"])
def test_offers(value: str) -> None:
    shop = Shop(offers=value)
    plain = ("exact", "eip155:8453", "30000")
    ways = [(way["scheme"], way["network"], way["amount"]) for way in shop.ask()["accepts"]]
    if value == "one":
        assert ways == [plain]
        return
    assert ways == [
        ("exact", "eip155:8453", "60000"),
        ("upto", "eip155:8453", "30000"),
        ("exact", "eip155:84532", "30000"),
        plain,
    ]
    assert shop.buy(1).status == 200
    assert shop.buy(2, choice=0).status == 200
    assert shop.buy(3, choice=1).reason == "unsupported_scheme"
    assert shop.buy(4, choice=2).reason == "invalid_network"
    assert [each.amount for each in shop.payments.settlements()] == [PRICE, 2 * PRICE]


@each_of("dollars", [1_000, 0, 1])
def test_payer_balance(dollars: int) -> None:
    shop = Shop(payer_balance=dollars)
    answer = shop.buy(1)
    if not dollars:
        assert answer.reason == "insufficient_funds"
        return
    assert answer.receipt()["success"] is True
    assert shop.payments.balance(PAYER.address) == dollars * 1_000_000 - PRICE
    assert shop.payments.balance(STRANGER.address) == dollars * 1_000_000


@each_of("value", ["header", "body", "both"])
def test_offer_in(value: str) -> None:
    shop = Shop(offer_in=value)
    answer = shop.post("token-prices", tokens("ETH"))
    offers = {"header": header_of(answer), "body": answer.body}
    found = {name: {**offer, "error": None} for name, offer in offers.items() if "accepts" in offer}
    assert set(found) == ({"header", "body"} if value == "both" else {value})
    assert all(offer == {**shop.ask(), "error": None} for offer in found.values())
    assert shop.buy(1).status == 200


@each_of(("offer_in", "value"), list(product(["header", "body", "both"], ["header", "body"])))
def test_reason_in(offer_in: str, value: str) -> None:
    """One place only: with the offer in the header, or in the body."""
    shop = Shop(offer_in=offer_in, reason_in=value)
    shop.payments.set_balance(PAYER.address, 0)
    answer = shop.buy(1)
    there = "header" if value == "header" and offer_in != "body" else "body"
    reasons = {"header": header_of(answer).get("error"), "body": answer.body.get("error")}
    assert reasons == {"header": None, "body": None} | {there: "insufficient_funds"}


def header_of(answer: Answer) -> Any:
    return decode(answer.headers["payment-required"]) if "payment-required" in answer.headers else {}


@each_of(("value", "choice"), [("authorization", 0), ("upfront", 0), ("both", 0), ("both", 1)])
def test_flow(value: str, choice: int) -> None:
    """Paid before the work, an error costs the price too, and has a receipt."""
    shop = Shop(flow=value)
    ways = [way["extra"].get("paymentFlow", "authorization") for way in shop.ask()["accepts"]]
    assert ways == (["upfront", "authorization"] if value == "both" else [value])
    is_upfront = ways[choice] == "upfront"
    assert shop.buy(1, choice=choice).receipt()["success"] is True
    nothing = tokens("NOPE")
    unknown = shop.buy(2, body=nothing, choice=choice)
    assert unknown.status == 404
    assert [each.delivered for each in shop.payments.settlements()] == [200, 404][: 1 + is_upfront]
    assert shop.payments.balance(PAYER.address) == 1_000 * 1_000_000 - PRICE * (1 + is_upfront)
    if is_upfront:
        assert decode(unknown.headers["payment-response"])["success"] is True
        assert header_of(shop.buy(2, body=nothing, choice=choice))["error"] == "invalid_exact_evm_nonce_already_used"
    shop.add_fault("settlement", reason="transaction_failed")
    failed = shop.buy(3, choice=choice)
    receipt = decode(failed.headers["payment-response"])
    assert (failed.status, receipt["success"], receipt["errorReason"]) == (402, False, "transaction_failed")
    assert shop.settled() == 1 + is_upfront
