"""What buyers of market data may ask, and how the rest is refused: in the wrapper, before anybody pays, never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk_mock.market.tokens import find
from tradesdk_mock.market.tokens import tokens as tokens_of

from ._paying import decode
from ._shop import ALL, JSON, PER_TOKEN, Answer, Headers, Shop, good_body, open_shop, tokens

LONG = "z" * 5_000


@pytest.fixture(scope="module")
def shop() -> Shop:
    """Nothing here changes it."""
    return Shop()


NOT_JSON: list[tuple[bytes, str]] = [
    (b"", "not valid JSON"),
    (b'{"tokens": [', "not valid JSON"),
    (b'{"tokens": [{"identifier": "\xff"}]}', "not valid JSON"),
    (b'{"tokens": [{"identifier": "\\ud800"}]}', "not valid JSON"),
    (b"\xef\xbb\xbf{}", "not valid JSON"),
    ("{}".encode("utf-16"), "not valid JSON"),
    (b'{"limit": NaN, "sortBy": "ROI"}', "not valid JSON"),
    (b'{"limit": -Infinity}', "not valid JSON"),
    (b'{"limit": ' + b"9" * 5_000 + b"}", "not valid JSON"),
    (b'{"tokens": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "not valid JSON"),
    (b"[]", "must be a JSON object"),
    (b'"ETH"', "must be a JSON object"),
    (b"null", "must be a JSON object"),
    (b'{"limit": 1, "limit": 2}', "'limit': stands there twice"),
    (b'{"tokens": [{"identifier": "a", "identifier": "b"}]}', "'identifier': stands there tw"),
    (b'{"x": {"y": [{"\\u001b": 1, "\\u001b": 1}]}}', r"'\x1b': stands there twice"),
    (b'{"x": "' + b"x" * 1_048_576 + b'"}', "longer than 1 MiB"),
]
NOT_SAID: list[tuple[Headers, str]] = [
    ([], "Content-Type: application/json"),
    ([(b"content-type", b"text/plain")], "Content-Type: application/json"),
    ([(b"content-type", b"application/x-www-form-urlencoded")], "Content-Type: application/json"),
    ([JSON, JSON], "Content-Type: application/json"),
    ([(b"content-type", b"application/json; charset=latin-1")], "UTF-8"),
    ([JSON, (b"content-encoding", b"gzip")], "Compressed"),
]


@pytest.mark.parametrize("path", ALL)
def test_a_body_is_a_json_object_and_says_so(shop: Shop, path: str) -> None:
    good = json.dumps(good_body(path)).encode()
    for content, headers, text in [
        *[(content, [JSON], text) for content, text in NOT_JSON],
        *[(good, headers, text) for headers, text in NOT_SAID],
    ]:
        answer = shop.send("POST", path, content, headers)
        assert (answer.status, text in answer.error) == (400, True), (content[:40], headers)
    charset = [(b"content-type", b'Application/JSON; charset="UTF-8"')]
    assert shop.send("POST", path, good, charset).status in (200, 402)


BRETT = find(7, 8453, "BRETT").address.lower()  # type: ignore[union-attr]  # it is there
WRONG_TOKENS: list[tuple[Any, str]] = [
    ({}, "tokens: required"),
    ({"tokens": None}, "tokens: required"),
    ({"tokens": "ETH"}, "tokens: must be an array"),
    ({"tokens": {"identifier": "ETH"}}, "tokens: must be an array"),
    ({"tokens": []}, "tokens: must have from 1 to 5 items, not 0"),
    (tokens(*"abcdef"), "tokens: must have from 1 to 5 items, not 6"),
    ({"tokens": ["ETH"]}, "tokens[0]: must be an object"),
    ({"tokens": [{"identifier": "ETH"}, None]}, "tokens[1]: must be an object"),
    ({"tokens": [{}]}, "tokens[0].identifier: required"),
    *[({"tokens": [{"identifier": each}]}, "tokens[0].identifier: must be a string") for each in (None, 1, True)],
    (tokens("BRETT", " \t\n"), "tokens[1].identifier: must not be blank"),
    (tokens(""), "tokens[0].identifier: must not be blank"),
    (tokens("BRETT", "BRETT"), "tokens[1].identifier: 'BRETT' is the same token as 'BRETT'"),
    (tokens("BRETT", "ETH", "bReTt"), "tokens[2].identifier: 'bReTt' is the same token as 'BRETT'"),
    (tokens("NOPE", "nope"), "tokens[1].identifier: 'nope' is the same token as 'NOPE'"),
    (tokens("brett", "based-brett"), "'based-brett' is the same token as 'brett'"),
    (tokens("TOSHI", BRETT, "BRETT"), f"tokens[2].identifier: 'BRETT' is the same token as '{BRETT}'"),
    (tokens("\x1b[2J\n", "\x1b[2j\n"), r"'\x1b[2j\n' is the same token as '\x1b[2J\n'"),
    (tokens(LONG, LONG), f"'{'z' * 77}...' is the same token as '{'z' * 77}...'"),
]


@pytest.mark.parametrize("path", PER_TOKEN)
def test_tokens(shop: Shop, path: str) -> None:
    for body, text in WRONG_TOKENS:
        answer = shop.post(path, body)
        assert (answer.status, text in answer.error) == (400, True), body


@pytest.mark.parametrize(("path", "high"), [("token-signals", 100), ("top-performers", 300), ("supported-tokens", 500)])
def test_limits(shop: Shop, path: str, high: int) -> None:
    at = "tokens[1].limit" if path == "token-signals" else "limit"
    limits: list[Any] = [0, -1, 10**30, high + 1, 5.0, 1.5, "5", True, None, []]
    for wrong in limits:
        body: dict[str, Any] = {"sortBy": "ROI", "limit": wrong}
        if path == "token-signals":
            body = {"tokens": [{"identifier": "BRETT"}, {"identifier": "ETH", "limit": wrong}]}
        answer = shop.post(path, body)
        text = f"must be from 1 to {high}" if type(wrong) is int else "must be an integer"
        assert (answer.status, answer.error) == (400, f"{at}: {text}")
    answer = shop.send("POST", "supported-tokens", b'{"limit": 1e999}', [JSON])
    assert (answer.status, answer.error) == (400, "limit: must be an integer")


NO_DATE = ["2026-02-30", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:00+25:00", "20260101"]
NO_DATE += ["2026-01-01 00:00:00", "2026-W01-1", "0000-01-01", "2026-01-01T00:00:00Z" + "0" * 900, "\uff12026-01-01"]
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("signal-history", {"startDate": 1}, "startDate: must be a string"),
    ("signal-history", {"endDate": None}, "endDate: must be a string"),
    ("signal-history", {"startDate": ""}, "startDate: '' is not a date"),
    ("signal-history", {"startDate": "yesterday"}, "startDate: 'yesterday' is not a date"),
    *[("signal-history", {"endDate": date}, "endDate: ") for date in NO_DATE],
    ("signal-history", {"endDate": "\x1b\u202e"}, r"'\x1b\u202e'"),
    *[
        ("signal-history", {"startDate": start, "endDate": end}, "startDate: must not be after endDate")
        for start, end in (
            ("2026-01-02", "2026-01-01"),
            ("2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00-01:00", "2026-01-01T00:30:00Z"),
        )
    ],
    ("signal-history", {"signalType": "buy"}, "signalType: 'buy' is not one of BUY, SELL, WAITING FOR SIGNAL, ALL"),
    *[("signal-history", {"signalType": each}, "signalType: '") for each in ("WAITING", "")],
    *[("signal-history", {"signalType": each}, "signalType: must be a string") for each in (None, ["BUY"])],
    ("top-performers", {"limit": 1}, "sortBy: required"),
    *[("top-performers", {"sortBy": each}, "sortBy: must be a string") for each in (None, 1)],
    *[("top-performers", {"sortBy": each}, f"sortBy: '{each}' is not one of winRate, ROI") for each in ("roi", "")],
    *[
        ("aggregate-metrics", {name: value}, f"{name!r}: the body must be the empty object {{}}")
        for name, value in (("x", 1), ("limit", 5), ("tokens", []), ("\x1b", {}))
    ],
]


@pytest.mark.parametrize(("path", "fields", "text"), FIELDS, ids=lambda value: ascii(value)[:40])
def test_other_fields(shop: Shop, path: str, fields: dict[str, Any], text: str) -> None:
    answer = shop.post(path, (tokens("BRETT") if path in PER_TOKEN else {}) | fields)
    assert (answer.status, text in answer.error) == (400, True)


@pytest.mark.parametrize(("path", "field"), [(path, "x") for path in ALL] + [("token-prices", "limit")])
def test_unknown_fields(path: str, field: str) -> None:
    """Ignored, or refused by gap option; what nobody knows in an item of `tokens` as well."""
    strict = open_shop(unknown_field="400")
    assert strict.post(path, good_body(path)).status == 200
    for body in (good_body(path) | {field: 1}, {"tokens": [{"identifier": "BRETT", "x": 1}]}):
        if path in PER_TOKEN or field in body:
            assert open_shop().post(path, body).status == (400 if path == "aggregate-metrics" else 200)
            answer = strict.post(path, body)
            assert answer.status == 400
            assert "not a field of this request" in answer.error or path == "aggregate-metrics"


def test_unknown_values_in_everything_but_the_wrapper() -> None:
    answer = open_shop(unknown_values="on").post("token-signals", tokens("BRETT"))
    (result,) = answer.data["results"]
    for record in (answer.data, result, *result["signals"]):
        assert record["introduced_later"] == {"since": "next"}
    assert {record["signal"] for record in result["signals"]} == {"HOLD"}


def test_a_token_that_nobody_knows(shop: Shop) -> None:
    paid = open_shop()
    answer = paid.post("token-signals", tokens("BRETT", "\x1b[31mNOPE" + "x" * 99))
    assert (answer.status, answer.error.startswith("No token '\\x1b[31mNOPExxx")) == (404, True)
    for wrong in ("CAKE", "0x" + "00" * 20, "0x", "brett ", "BRETT\x00"):
        assert paid.post("token-prices", tokens(wrong)).status == 404
        assert shop.post("token-prices", tokens(wrong)).status == 402, "payment is asked for before it is looked for"


def test_a_crash_has_the_error_body_of_the_account_api(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = open_shop()
    monkeypatch.setattr("tradesdk_mock.trading.performance.top", lambda *args: 1 / 0)
    answer = paid.post("top-performers", {"sortBy": "ROI"})
    assert answer.status == 500
    assert answer.body == {"error": {"code": "internal_error", "message": "Something went wrong in the server."}}
    assert paid.post("token-prices", tokens("ETH")).status == 200


# Whatever strangers send

FIXED = settings(max_examples=50, deadline=None)
KNOWN = [name for token in tokens_of(7, 8453)[::60] for name in (token.symbol, token.coin_id, token.address)]
SHOPS = {
    "open": open_shop(),
    "closed": Shop(),
    "422 and strict": open_shop(b_invalid="422", unknown_field="400", unknown_token="partial"),
    "402 first": Shop(b_invalid="402-first"),
    "unknown values": open_shop(unknown_values="on"),
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
    | st.text(max_size=30)
    | st.sampled_from(KNOWN)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
items = st.fixed_dictionaries(
    {"identifier": st.sampled_from(KNOWN) | st.text(max_size=50)},
    optional={"limit": st.integers(-5, 200), "x": scalars},
)
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


def check(shop: Shop, answer: Answer) -> None:
    if answer.status == 402:
        assert set(answer.body) == {"x402Version", "error", "accepts"}
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
@given(path=st.sampled_from(ALL), content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@example(path="token-prices", content=b'{"tokens":' * 100_000)
@example(path="token-prices", content=b'{"tokens":[{"identifier":"' + b"A" * 1_000_000 + b'"}]}')
@example(path="token-prices", content=b'{"tokens":[' + b'{"identifier":"ETH"},' * 40_000 + b"1]}")
@example(path="supported-tokens", content=b'{"limit":1e-999}')
def test_bytes(shop: Shop, path: str, content: bytes) -> None:
    check(shop, shop.send("POST", path, content, [JSON]))


# What a header may hold on the wire, but for the spaces at its ends.
header_values = st.binary(max_size=60).map(lambda value: bytes(each for each in value if each > 32 and each != 127))
header_names = st.sampled_from(
    [b"authorization", b"x-payment", b"payment-signature", b"content-type", b"content-encoding"]
)


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
@given(chosen=st.lists(st.sampled_from(KNOWN), min_size=1, max_size=5))
def test_known_tokens_are_sold_in_the_order_of_the_request(chosen: list[str]) -> None:
    found = [find(7, 8453, name) for name in chosen]
    for path in PER_TOKEN:
        answer = SHOPS["open"].post(path, tokens(*chosen))
        if len(set(found)) < len(found):
            assert (answer.status, bool(answer.error)) == (400, True)
        else:
            addresses = [result["tokenAddress"] for result in answer.data["results"]]
            assert addresses == [token.address for token in found if token]


def test_the_same_request_has_the_same_answer() -> None:
    one, two = open_shop(), open_shop()
    two.post("supported-tokens", {})
    two.post("token-signals", tokens("SKI"))
    for path in ALL:
        body = {} if path == "aggregate-metrics" else {**tokens("brett", "toshi"), "sortBy": "ROI"}
        answer = one.post(path, body)
        assert answer == two.post(path, body) == one.post(path, body)
