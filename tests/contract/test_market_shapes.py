"""The mock's market data against JSON typed by hand from the specification: exactly its keys and types, everywhere."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer

from ..mock._paying import PAYER, Json, decode, encode, header_name, offer_of, payment
from ._golden import GOLDEN, load
from ._wire import Wire


@pytest.fixture(scope="module")
def bazaar(bare_http: httpx.Client) -> Iterator[Wire]:
    """Market data for nothing, and no key."""
    with MockServer(seed=7, gaps=GapOptions(paywall="open"), clock=MockClock(TIME)) as server:
        yield Wire(server, bare_http, None)


def differences(answer: Any, golden: Any, at: str = "$") -> list[str]:
    """Where an answer has other keys or JSON types. An item of a list is like one of the golden items, whole."""
    if isinstance(golden, dict):
        if not isinstance(answer, dict) or sorted(answer) != sorted(golden):
            return [f"{at} has other keys"]
        return [text for key in golden for text in differences(answer[key], golden[key], f"{at}.{key}")]
    if isinstance(golden, list):
        if not isinstance(answer, list):
            return [f"{at} is not an array"]
        found = []
        for index, item in enumerate(answer):
            tried = [differences(item, one, f"{at}[{index}]") for one in golden] or [[f"{at} should be empty"]]
            # Of several golden items, the most alike.
            found += sorted(tried, key=lambda texts: len(texts))[0]
        return found
    if isinstance(golden, float) and type(answer) in (int, float):
        return []
    return [] if type(answer) is type(golden) else [f"{at} is {answer!r}, unlike {golden!r}"]


def items(*identifiers: str) -> dict[str, Any]:
    return {"tokens": [{"identifier": identifier} for identifier in identifiers]}


@dataclass(frozen=True)
class Case:
    golden: str
    path: str
    body: dict[str, Any] = field(default_factory=dict)
    signals: tuple[dict[str, Any], ...] = ()


# The last two have open trades only, and none at all.
TRADED = ("BRETT", "degen-base", "ICYSEA", "JOLTIG")
CASES = [
    Case("token_signals.json", "/token-signals", items("BRETT", "TOSHI"), ({"token": "BRETT", "direction": "SELL"},)),
    Case("signal_history.json", "/signal-history", {**items("TOSHI", "ETH"), "signalType": "SELL"}),
    Case("token_prices.json", "/token-prices", items("BRETT", "ETH", "aerodrome-finance", "ZORA", "SEAM")),
    Case("token_win_rate.json", "/token-win-rate", items(*TRADED)),
    Case("token_avg_prices.json", "/token-avg-prices", items(*TRADED)),
    Case("top_performers.json", "/top-performers", {"sortBy": "ROI"}),
    Case("aggregate_metrics.json", "/aggregate-metrics"),
    Case("supported_tokens.json", "/supported-tokens", {"limit": 500}),
]


@pytest.mark.rule("market.wrapper.success", "market.wrapper.statuses", "market.signals.none")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.golden)
def test_market_data_has_the_golden_shape(case: Case, bazaar: Wire) -> None:
    for signal in case.signals:
        bazaar.server.emit_signal(**signal)
    answer = bazaar.post(case.path, case.body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert differences(answer.json(), load(f"market/{case.golden}")) == []
    lists = [value for value in answer.json()["data"].values() if isinstance(value, list)]
    assert all(lists), "an empty list shows no shape"


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is neither object nor array, with the way to it but for the places in arrays."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield at, value
        return
    for key, each in inner:
        yield from leaves(each, at if isinstance(value, list) else f"{at}.{key}")


@pytest.mark.rule("market.signals.averages", "market.win-rate.null", "market.avg-prices.null")
@pytest.mark.parametrize("name", ["token_signals.json", "token_win_rate.json", "token_avg_prices.json"])
def test_nothing_and_something_are_both_compared(name: str, bazaar: Wire) -> None:
    """Whatever may be null is null somewhere in these answers and somewhere else it isn't."""
    case = next(case for case in CASES if case.golden == name)
    bazaar.server.emit_signal(token="BRETT")
    golden, answer = load(f"market/{name}"), bazaar.post(case.path, case.body).json()
    nullable = {at for at, value in leaves(golden["data"]) if value is None}
    assert nullable
    for at in nullable:
        assert {value is None for where, value in leaves(answer["data"]) if where == at} == {True, False}, at


FAILURES = [
    ("error_400.json", "/token-prices", items("BRETT", "brett"), 400),
    ("error_400.json", "/token-prices", {}, 400),
    ("error_400.json", "/top-performers", {}, 400),
    ("error_404.json", "/token-win-rate", items("NOPE"), 404),
    ("error_502.json", "/token-prices", items("BRETT"), 502),
]


@pytest.mark.rule(
    "market.wrapper.failure market.wrapper.statuses market.identifier.unknown market.prices.failure",
)
@pytest.mark.parametrize(("golden", "path", "body", "status"), FAILURES)
def test_failure_has_the_golden_shape(bazaar: Wire, golden: str, path: str, body: Any, status: int) -> None:
    bazaar.server.set_price_failure(status == 502)
    answer = bazaar.post(path, body)
    bazaar.server.set_price_failure(False)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert differences(answer.json(), load(f"market/{golden}")) == []
    assert answer.json()["error"]


@pytest.mark.rule("market.payment.scheme")
def test_payment_required_has_the_golden_shape(wire: Wire) -> None:
    answer = wire.with_key(None).post("/token-prices", items("BRETT", "ETH"))
    assert answer.status_code == 402
    assert answer.headers["content-type"] == "application/json"
    header = json.loads(base64.b64decode(answer.headers["PAYMENT-REQUIRED"], validate=True))
    for offer, name in ((answer.json(), "payment_required.json"), (header, "payment_required_header.json")):
        golden = load(f"market/{name}")
        assert differences(offer, golden) == []
        (mine,), (theirs,) = offer["accepts"], golden["accepts"]
        for key in mine.keys() - {"payTo", "resource"}:
            assert mine[key] == theirs[key], key


PRICES = ("/token-prices", items("BRETT"))
PAYMENTS = {2: "payment_signature.json", 1: "payment_x_payment.json"}
# One second before the authorization in the golden files has to be presented at the latest.
TIME = 1_795_176_341


@pytest.fixture
def shop(bare_http: httpx.Client) -> Iterator[Wire]:
    """Market data behind its paywall, no key, and a clock that stands still."""
    with MockServer(seed=7, clock=MockClock(TIME)) as server:
        yield Wire(server, bare_http, None)


def golden_payment(shop: Wire, version: int) -> Json:
    """The golden payment, for whom this server wants to be paid."""
    found: Json = load(f"market/{PAYMENTS[version]}")
    answer = shop.post(*PRICES)
    made = payment(offer_of(answer.headers, answer.json(), version), TIME, 1, validBefore=str(TIME + 7))
    found["payload"] = made["payload"]
    if version == 2:
        found["accepted"]["payTo"] = shop.server.payments.pay_to
    assert differences(made, found) == []
    return found


def present(shop: Wire, content: Json) -> httpx.Response:
    path, body = PRICES
    return shop("POST", path, body=body, headers={header_name(content): encode(content)})


@pytest.mark.parametrize(
    ("version", "header", "name"),
    [(2, "PAYMENT-RESPONSE", "payment_response.json"), (1, "X-PAYMENT-RESPONSE", "payment_x_payment_response.json")],
)
def test_a_payment_of_the_golden_shape_is_taken(shop: Wire, version: int, header: str, name: str) -> None:
    content = golden_payment(shop, version)
    answer = present(shop, content)
    assert answer.status_code == 200
    assert answer.json()["success"] is True
    receipt, golden = decode(answer.headers[header]), load(f"market/{name}")
    assert differences(receipt, golden) == []
    assert {key: value for key, value in receipt.items() if key != "transaction"} == {
        key: value for key, value in golden.items() if key != "transaction"
    }
    assert len(receipt["transaction"]) == len(golden["transaction"])


def test_the_golden_payments_are_signed_by_their_payer() -> None:
    """By the vector's key, over what stands in them."""
    for version, name in PAYMENTS.items():
        golden = load(f"market/{name}")
        offer = load("market/payment_required_header.json" if version == 2 else "market/payment_required.json")
        offer["accepts"][0] |= {"amount": "30000"} if version == 2 else {"maxAmountRequired": "30000"}
        made = payment(offer, 0, 1, payer=PAYER, validBefore="1795176348")
        assert made == golden


def test_a_failed_settlement_has_the_golden_shape(shop: Wire) -> None:
    shop.server.add_fault("settlement")
    answer = present(shop, golden_payment(shop, 2))
    assert (answer.status_code, answer.json()) == (402, {})
    assert "PAYMENT-REQUIRED" not in answer.headers
    assert decode(answer.headers["PAYMENT-RESPONSE"]) == load("market/payment_response_failed.json")


def test_the_identifier_is_offered_in_the_golden_shape(shop: Wire) -> None:
    shop.server.set_gaps(payment_identifier="optional")
    offer = offer_of(shop.post(*PRICES).headers)
    assert offer["extensions"] == {"payment-identifier": load("market/payment_identifier.json")}


def test_every_golden_file_of_market_data_is_compared() -> None:
    files = {file.name for file in (GOLDEN / "market").glob("*.json")}
    compared = {case.golden for case in CASES} | {failure[0] for failure in FAILURES} | set(PAYMENTS.values())
    offers = {"payment_required.json", "payment_required_header.json", "payment_identifier.json"}
    receipts = {"payment_response.json", "payment_response_failed.json", "payment_x_payment_response.json"}
    assert files == compared | offers | receipts
