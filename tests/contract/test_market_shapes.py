"""The mock's market data against JSON typed by hand from the specification: exactly its keys and types, everywhere."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockService

from .._rows import each_of
from ..mock._paying import PAYER, Json, decode, encode, offer_of, payment
from ._golden import GOLDEN, load
from ._market import differences, items
from ._wire import Wire


@pytest.fixture(scope="module")
def bazaar() -> Iterator[Wire]:
    """Market data for nothing, and no key."""
    with MockService(seed=7, gaps=GapOptions(paywall="open"), clock=MockClock(TIME)) as server:
        yield Wire(server, None)


# The last two have open trades only, and none at all.
TRADED = ("BRETT", "degen-base", "ICYSEA", "JOLTIG")
CASES: list[tuple[str, str, Json]] = [
    ("token_signals.json", "/token-signals", items("BRETT", "TOSHI")),
    ("signal_history.json", "/signal-history", items("TOSHI", "ETH", signalType="SELL")),
    ("token_prices.json", "/token-prices", items("BRETT", "ETH", "aerodrome-finance", "ZORA", "SEAM")),
    ("token_win_rate.json", "/token-win-rate", items(*TRADED)),
    ("token_avg_prices.json", "/token-avg-prices", items(*TRADED)),
    ("top_performers.json", "/top-performers", {"sortBy": "ROI"}),
    ("aggregate_metrics.json", "/aggregate-metrics", {}),
    ("supported_tokens.json", "/supported-tokens", {"limit": 500}),
]


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is neither object nor array, with the way to it but for the places in arrays."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield at, value
        return
    for key, each in inner:
        yield from leaves(each, at if isinstance(value, list) else f"{at}.{key}")


@pytest.mark.long
@pytest.mark.rule("market.signals.averages", "market.win-rate.null", "market.avg-prices.null", "market.signals.none")
@each_of(("name", "path", "body"), CASES)
def test_market_data_has_the_golden_shape(bazaar: Wire, name: str, path: str, body: Json) -> None:
    """Whatever may be null is null somewhere in these answers and somewhere else it isn't."""
    bazaar.server.emit_signal(token="BRETT", direction="SELL")
    golden, answer = load(f"market/{name}"), bazaar.post(path, body)
    assert answer.status_code == 200, answer.text
    assert differences(answer.json(), golden) == []
    assert all(value for value in answer.json()["data"].values() if isinstance(value, list)), "no shape is shown"
    for at in {at for at, value in leaves(golden["data"]) if value is None}:
        assert {value is None for where, value in leaves(answer.json()["data"]) if where == at} == {True, False}, at


@pytest.mark.rule("market.payment.scheme", "market.payment.body")
def test_payment_required_has_the_golden_shape(wire: Wire) -> None:
    answer = wire.with_key(None).post("/token-prices", items("BRETT", "ETH"))
    assert (answer.status_code, answer.json()) == (402, {})
    assert answer.headers["content-type"] == "application/json"
    offer, golden = decode(answer.headers["PAYMENT-REQUIRED"]), load("market/payment_required.json")
    assert offer["resource"]["url"] == f"{wire.server.url}/v1/token-prices"
    assert offer["accepts"][0]["payTo"] == wire.server.payments.pay_to
    assert differences(offer, golden) == []
    (mine,), (theirs,) = offer["accepts"], golden["accepts"]
    assert mine | {"payTo": ""} == theirs | {"payTo": ""}


PRICES = ("/token-prices", items("BRETT"))
# One second before the authorization in the golden files has to be submitted at the latest.
TIME = 1_795_176_341


@pytest.fixture
def shop() -> Iterator[Wire]:
    """Market data behind its paywall, no key, and a clock that stands still."""
    with MockService(seed=7, clock=MockClock(TIME)) as server:
        yield Wire(server, None)


def golden_payment(shop: Wire) -> Json:
    """The golden payment, for whom this server wants to be paid."""
    found: Json = load("market/payment_signature.json")
    made = payment(offer_of(shop.post(*PRICES).headers), TIME, 1, validBefore=str(TIME + 7))
    found["payload"] = made["payload"]
    found["accepted"]["payTo"] = shop.server.payments.pay_to
    assert differences(made, found) == []
    return found


def submit(shop: Wire, content: Json) -> httpx.Response:
    path, body = PRICES
    return shop("POST", path, body=body, headers={"PAYMENT-SIGNATURE": encode(content)})


def test_a_payment_of_the_golden_shape_is_taken(shop: Wire) -> None:
    answer = submit(shop, golden_payment(shop))
    assert answer.status_code == 200
    assert answer.json()["success"] is True
    receipt, golden = decode(answer.headers["PAYMENT-RESPONSE"]), load("market/payment_response.json")
    assert differences(receipt, golden) == []
    assert {key: value for key, value in receipt.items() if key != "transaction"} == {
        key: value for key, value in golden.items() if key != "transaction"
    }
    assert len(receipt["transaction"]) == len(golden["transaction"])


def test_the_golden_payment_is_signed_by_its_payer() -> None:
    """By the vector's key, over what is in it."""
    offer = load("market/payment_required.json")
    offer["accepts"][0] |= {"amount": "30000"}
    assert payment(offer, 0, 1, payer=PAYER, validBefore="1795176348") == load("market/payment_signature.json")


def test_a_failed_settlement_has_the_golden_shape(shop: Wire) -> None:
    shop.server.add_fault("settlement")
    answer = submit(shop, golden_payment(shop))
    assert (answer.status_code, answer.json()) == (402, {})
    assert "PAYMENT-REQUIRED" not in answer.headers
    assert decode(answer.headers["PAYMENT-RESPONSE"]) == load("market/payment_response_failed.json")


def test_the_identifier_is_offered_in_the_golden_shape(shop: Wire) -> None:
    shop.server.set_gaps(payment_identifier="optional")
    offer = offer_of(shop.post(*PRICES).headers)
    assert offer["extensions"] == {"payment-identifier": load("market/payment_identifier.json")}


def test_every_golden_file_of_market_data_is_compared() -> None:
    files = {file.name for file in (GOLDEN / "market").glob("*.json")}
    errors = {f"error_{status}.json" for status in (400, 404, 502)}  # by test_market_service
    compared = {case[0] for case in CASES} | errors | {"payment_signature.json"}
    offers = {"payment_required.json", "payment_identifier.json"}
    receipts = {"payment_response.json", "payment_response_failed.json"}
    assert files == compared | offers | receipts
