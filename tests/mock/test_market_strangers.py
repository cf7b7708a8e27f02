"""Whatever strangers send for market data: an answer of the specified kind, in the wrapper, and never a 5xx."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk_mock.core.messages import Request
from tradesdk_mock.market.tokens import find, tokens

from ._market import ALL, JSON, Answer, Headers, Market

FIXED = settings(max_examples=50, deadline=None)
KNOWN = [name for token in tokens(7, 8453)[::60] for name in (token.symbol, token.coin_id, token.address)]
WRAPPED = {200, 400, 404, 422}

SHOPS = {
    "open": Market(),
    "closed": Market(paywall="closed"),
    "422 and strict": Market(b_invalid="422", unknown_field="400", unknown_token="partial"),
    "402 first": Market(paywall="closed", b_invalid="402-first"),
    "unknown values": Market(unknown_values="on"),
}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(KNOWN)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
identifiers = st.sampled_from(KNOWN) | st.text(max_size=50)
items = st.fixed_dictionaries({"identifier": identifiers}, optional={"limit": st.integers(-5, 200), "x": scalars})
dates = st.datetimes().map(lambda moment: moment.isoformat()) | st.dates().map(str) | st.text(max_size=20)
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


def check(shop: Market, answer: Answer) -> None:
    if answer.status == 402:
        assert set(answer.body) == {"x402Version", "error", "accepts"}
        amount = int(answer.offer()["accepts"][0]["amount"])
        assert amount % 10_000 == 0
        assert 20_000 <= amount <= 250_000
        return
    assert answer.status in WRAPPED
    if answer.status == 200:
        assert answer.data
    else:
        assert answer.error
    assert shop.world.gaps.b_invalid == "422" or answer.status != 422


QUICK_AND_LONG = [
    pytest.param(shop, id=name, marks=[pytest.mark.long] if place else [])
    for place, (name, shop) in enumerate(SHOPS.items())
]


@pytest.mark.parametrize("shop", QUICK_AND_LONG)
@FIXED
@given(path=st.sampled_from(ALL), body=values | requests)
@example(path="token-prices", body={"tokens": [{"identifier": "\u0000"}]})
@example(path="token-prices", body={"tokens": [{"identifier": "\U0010ffff" * 200}]})
@example(path="signal-history", body={"tokens": [{"identifier": "ETH"}], "startDate": "9999-12-31T23:59:59-23:59"})
@example(path="signal-history", body={"tokens": [{"identifier": "ETH"}], "endDate": "0001-01-01T00:00:00+23:59"})
@example(path="top-performers", body={"sortBy": "winRate", "limit": 2**64})
def test_bodies(shop: Market, path: str, body: Any) -> None:
    check(shop, shop.post(path, body))


@pytest.mark.parametrize("shop", QUICK_AND_LONG)
@FIXED
@given(path=st.sampled_from(ALL), content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@example(path="token-prices", content=b'{"tokens":' * 100_000)
@example(path="token-prices", content=b'{"tokens":[{"identifier":"' + b"A" * 1_000_000 + b'"}]}')
@example(path="token-prices", content=b'{"tokens":[' + b'{"identifier":"ETH"},' * 40_000 + b"1]}")
@example(path="supported-tokens", content=b'{"limit":1e-999}')
def test_bytes(shop: Market, path: str, content: bytes) -> None:
    check(shop, shop.send("POST", path, content, [JSON]))


header_values = st.binary(max_size=60).filter(lambda value: not set(value) & {0, 10, 13})


@FIXED
@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [b"authorization", b"x-payment", b"payment-signature", b"content-type", b"host", b"content-encoding"]
            ),
            header_values,
        ),
        max_size=4,
    )
)
def test_headers(headers: Headers) -> None:
    shop = SHOPS["closed"]
    content = json.dumps({"tokens": [{"identifier": "ETH"}]}).encode()
    answer = shop.send("POST", "token-prices", content, [JSON, *headers])
    assert answer.status in (400, 402)
    check(shop, answer)


@FIXED
@given(host=st.binary(max_size=400))
def test_any_host_can_be_named_in_an_offer(host: bytes) -> None:
    shop = SHOPS["closed"]
    reply = shop.pipeline.answer(
        Request("POST", "/v1/aggregate-metrics", headers=[(b"host", host), JSON], content=b"{}")
    )
    assert reply.status == 402
    (header,) = [value for name, value in reply.headers if name == b"payment-required"]
    assert json.loads(base64.b64decode(header, validate=True))["x402Version"] == 2


@FIXED
@given(chosen=st.lists(st.sampled_from(KNOWN), min_size=1, max_size=5))
def test_known_tokens_are_sold_in_the_order_of_the_request(chosen: list[str]) -> None:
    shop = SHOPS["open"]
    found = [find(7, 8453, name) for name in chosen]
    for path in ("token-signals", "token-prices", "signal-history", "token-win-rate", "token-avg-prices"):
        answer = shop.post(path, {"tokens": [{"identifier": name} for name in chosen]})
        if len(set(found)) < len(found):
            assert (answer.status, bool(answer.error)) == (400, True)
        else:
            addresses = [result["tokenAddress"] for result in answer.data["results"]]
            assert addresses == [token.address for token in found if token]


@pytest.mark.parametrize("path", ALL)
def test_the_same_request_has_the_same_answer(path: str) -> None:
    body: dict[str, Any] = {"tokens": [{"identifier": "brett"}, {"identifier": "toshi"}], "sortBy": "ROI"}
    body = {} if path == "aggregate-metrics" else body
    one, two = Market(), Market()
    two.post("supported-tokens", {})
    two.post("token-signals", {"tokens": [{"identifier": "SKI"}]})
    assert one.post(path, body) == two.post(path, body)
    assert one.post(path, body) == two.post(path, body)
