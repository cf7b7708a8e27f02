"""Whatever strangers send for market data: an answer of the specified kind, in the wrapper, and never a 5xx."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .._texts import texts
from ._buyer import Answer, Shop, good_body, open_shop, tokens
from ._paying import ALL, JSON, PER_TOKEN, Headers, decode

pytestmark = pytest.mark.long


def test_unknown_fields() -> None:
    """Ignored, or refused by gap option; what nobody knows in an item of `tokens` as well."""
    usual, strict = open_shop(), open_shop(unknown_field="400")
    for path in ALL:
        assert strict.post(path, good_body(path)).status == 200
        bodies = [good_body(path) | {"x": 1}]
        if path in PER_TOKEN:
            bodies += [tokens("BRETT") | {"limit": 1}, {"tokens": [{"identifier": "BRETT", "x": 1}]}]
        for body in bodies:
            assert usual.post(path, body).status == (400 if path == "aggregate-metrics" else 200)
            answer = strict.post(path, body)
            assert answer.status == 400
            assert "not a field of this request" in answer.error or path == "aggregate-metrics"


def test_unknown_values_in_everything_but_the_wrapper() -> None:
    answer = open_shop(unknown_values="on").post("token-signals", tokens("BRETT"))
    (result,) = answer.data["results"]
    for record in (answer.data, result, *result["signals"]):
        assert record["introduced_later"] == {"since": "next"}
    assert {record["signal"] for record in result["signals"]} == {"HOLD"}


def test_a_crash_has_the_error_body_of_the_account_api(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = open_shop()
    monkeypatch.setattr("tradesdk_mock.trading.performance.top", lambda *args: 1 / 0)
    answer = paid.post("top-performers", {"sortBy": "ROI"})
    assert answer.status == 500
    assert answer.body == {"error": {"code": "internal_error", "message": "Something went wrong in the server."}}
    assert paid.post("token-prices", tokens("ETH")).status == 200


FIXED = settings(max_examples=50, deadline=None)
SHOPS = {
    "open": open_shop(),
    "closed": Shop(),
    "422 and strict": open_shop(b_invalid="422", unknown_field="400", unknown_token="partial"),
    "402 first": Shop(b_invalid="402-first"),
    "unknown values": open_shop(unknown_values="on"),
}
# By name, the address of every eightieth token. A coin id isn't in the answer; these are known.
KNOWN = {
    name: token["tokenAddress"]
    for token in SHOPS["open"].post("supported-tokens", {"limit": 500}).data["tokens"][::80]
    for name in (token["symbol"], token["tokenAddress"], token["tokenAddress"].lower())
}
KNOWN |= {
    coin: SHOPS["open"].results("token-prices", coin)[0]["tokenAddress"]
    for coin in ("based-brett", "toshi", "ethereum", "amber-ape")
}
QUICK_AND_LONG = pytest.mark.parametrize(
    "shop",
    [
        pytest.param(shop, id=name, marks=[pytest.mark.long] if place else [])
        for place, (name, shop) in enumerate(SHOPS.items())
    ],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(max_size=30)
    | st.sampled_from(sorted(KNOWN))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(texts(max_size=10), inner, max_size=4),
    max_leaves=10,
)
items = st.fixed_dictionaries(
    {"identifier": st.sampled_from(sorted(KNOWN)) | texts(max_size=50)},
    optional={"limit": st.integers(-5, 200), "x": scalars},
)
dates = st.datetimes().map(lambda moment: moment.isoformat()) | st.dates().map(str) | texts(max_size=20)
requests = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.lists(items, max_size=7) | st.lists(items | values, max_size=3) | values,
        "limit": st.integers(-5, 1_000) | values,
        "sortBy": st.sampled_from(["winRate", "ROI", "roi"]) | values,
        "signalType": st.sampled_from(["BUY", "SELL", "WAITING FOR SIGNAL", "ALL", "HOLD"]) | values,
        "startDate": dates | values,
        "endDate": dates | values,
        "y": values,
    },
)


def check(shop: Shop, answer: Answer) -> None:
    if answer.status == 402:
        assert answer.body == {}
        amount = int(decode(answer.headers["payment-required"])["accepts"][0]["amount"])
        assert amount % 10_000 == 0
        assert 20_000 <= amount <= 250_000
    else:
        assert answer.status in (200, 400, 404, 422 if shop.gaps.b_invalid == "422" else 400)
        assert answer.data if answer.status == 200 else answer.error


@QUICK_AND_LONG
@FIXED
@given(path=st.sampled_from(ALL), body=values | requests)
@example(path="token-prices", body=tokens("\u0000"))
@example(path="token-prices", body=tokens("\U0010ffff" * 200))
@example(path="signal-history", body={"tokens": [{"identifier": "ETH"}], "startDate": "9999-12-31T23:59:59-23:59"})
@example(path="signal-history", body={"tokens": [{"identifier": "ETH"}], "endDate": "0001-01-01T00:00:00+23:59"})
@example(path="top-performers", body={"sortBy": "winRate", "limit": 2**64})
def test_bodies(shop: Shop, path: str, body: Any) -> None:
    check(shop, shop.post(path, body))


@QUICK_AND_LONG
@FIXED
@given(path=st.sampled_from(ALL), content=st.binary(max_size=200) | texts(max_size=100).map(str.encode))
@example(path="token-prices", content=b'{"tokens":' * 100_000)
@example(path="token-prices", content=b'{"tokens":[{"identifier":"' + b"A" * 1_000_000 + b'"}]}')
@example(path="token-prices", content=b'{"tokens":[' + b'{"identifier":"ETH"},' * 40_000 + b"1]}")
@example(path="supported-tokens", content=b'{"limit":1e-999}')
def test_bytes(shop: Shop, path: str, content: bytes) -> None:
    check(shop, shop.send("POST", path, content, [JSON]))


# What a header may hold on the wire, but for the spaces at its ends.
header_values = st.binary(max_size=60).map(lambda value: bytes(each for each in value if each > 32 and each != 127))
header_names = st.sampled_from([b"authorization", b"payment-signature", b"content-type", b"content-encoding"])


@FIXED
@given(headers=st.lists(st.tuples(header_names, header_values), max_size=4))
def test_headers(headers: Headers) -> None:
    answer = SHOPS["closed"].post("token-prices", tokens("ETH"), headers)
    assert answer.status in (400, 402)
    check(SHOPS["closed"], answer)


@FIXED
@given(host=st.binary(max_size=400).map(lambda value: bytes(each for each in value if each > 32 and each != 127)))
def test_any_host_can_be_named_in_an_offer(host: bytes) -> None:
    answer = SHOPS["closed"].post("aggregate-metrics", {}, [(b"host", host)])
    assert decode(answer.headers["payment-required"])["resource"]["url"].startswith("http://")


@FIXED
@given(chosen=st.lists(st.sampled_from(sorted(KNOWN)), min_size=1, max_size=5))
def test_known_tokens_are_sold_in_the_order_of_the_request(chosen: list[str]) -> None:
    found = [KNOWN[name] for name in chosen]
    for path in PER_TOKEN:
        answer = SHOPS["open"].post(path, tokens(*chosen))
        if len(set(found)) < len(found):
            assert (answer.status, bool(answer.error)) == (400, True)
        else:
            addresses = [result["tokenAddress"] for result in answer.data["results"]]
            assert addresses == found


def test_the_same_request_has_the_same_answer() -> None:
    one, two = open_shop(), open_shop()
    two.post("supported-tokens", {})
    two.post("token-signals", tokens("SKI"))
    for path in ALL:
        body = {} if path == "aggregate-metrics" else {**tokens("brett", "toshi"), "sortBy": "ROI"}
        answer = one.post(path, body)
        assert answer == two.post(path, body) == one.post(path, body)
