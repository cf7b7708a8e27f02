"""What buyers of market data may ask, and how what they may not is refused: in the wrapper, before anybody pays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tradesdk_mock.market.tokens import find

from ._market import ALL, JSON, PAID, PER_TOKEN, Headers, Market, good_body, tokens

LONG = "z" * 5_000


@pytest.fixture(scope="module")
def shop() -> Market:
    """Nothing here changes it."""
    return Market(paywall="closed")


@pytest.fixture(scope="module")
def open_shop() -> Market:
    return Market()


NOT_JSON: list[tuple[str, bytes | None, str]] = [
    ("nothing", b"", "not valid JSON"),
    ("half", b'{"tokens": [', "not valid JSON"),
    ("invalid UTF-8", b'{"tokens": [{"identifier": "\xff"}]}', "not valid JSON"),
    ("a lone surrogate", b'{"tokens": [{"identifier": "\\ud800"}]}', "not valid JSON"),
    ("byte order mark", b"\xef\xbb\xbf{}", "not valid JSON"),
    ("UTF-16", "{}".encode("utf-16"), "not valid JSON"),
    ("not a number", b'{"limit": NaN, "sortBy": "ROI"}', "not valid JSON"),
    ("infinity", b'{"limit": -Infinity}', "not valid JSON"),
    ("a huge integer", b'{"limit": ' + b"9" * 5_000 + b"}", "not valid JSON"),
    ("deep nesting", b'{"tokens": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "not valid JSON"),
    ("an array", b"[]", "must be a JSON object"),
    ("a string", b'"ETH"', "must be a JSON object"),
    ("null", b"null", "must be a JSON object"),
    ("a field twice", b'{"limit": 1, "limit": 2}', "'limit': stands there twice"),
    ("an item's field twice", b'{"tokens": [{"identifier": "a", "identifier": "b"}]}', "'identifier': stands there tw"),
    ("a field within twice", b'{"x": {"y": [{"\\u001b": 1, "\\u001b": 1}]}}', r"'\x1b': stands there twice"),
    ("too long to be read", None, "longer than 1 MiB"),
]


@pytest.mark.parametrize("path", ALL)
@pytest.mark.parametrize(("content", "text"), [case[1:] for case in NOT_JSON], ids=[case[0] for case in NOT_JSON])
def test_a_body_is_a_json_object(shop: Market, path: str, content: bytes | None, text: str) -> None:
    answer = shop.send("POST", path, content, [JSON])
    assert answer.status == 400
    assert text in answer.error


@pytest.mark.parametrize("path", ALL)
@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([], "Content-Type: application/json"),
        ([(b"content-type", b"text/plain")], "Content-Type: application/json"),
        ([(b"content-type", b"application/x-www-form-urlencoded")], "Content-Type: application/json"),
        ([JSON, JSON], "Content-Type: application/json"),
        ([(b"content-type", b"application/json; charset=latin-1")], "UTF-8"),
        ([JSON, (b"content-encoding", b"gzip")], "Compressed"),
    ],
    ids=["none", "text", "form", "two", "charset", "gzip"],
)
def test_a_body_says_that_it_is_json(shop: Market, path: str, headers: Headers, text: str) -> None:
    answer = shop.send("POST", path, json.dumps(good_body(path)).encode(), headers)
    assert answer.status == 400
    assert text in answer.error


@pytest.mark.parametrize("path", ALL)
def test_a_charset_may_be_named(open_shop: Market, path: str) -> None:
    headers = [(b"content-type", b'Application/JSON; charset="UTF-8"')]
    assert open_shop.send("POST", path, json.dumps(good_body(path)).encode(), headers).status == 200


WRONG_TOKENS: list[tuple[str, Any, str]] = [
    ("none", {}, "tokens: required"),
    ("null", {"tokens": None}, "tokens: required"),
    ("a string", {"tokens": "ETH"}, "tokens: must be an array"),
    ("an object", {"tokens": {"identifier": "ETH"}}, "tokens: must be an array"),
    ("no items", {"tokens": []}, "tokens: must have from 1 to 5 items, not 0"),
    ("six", tokens(*"abcdef"), "tokens: must have from 1 to 5 items, not 6"),
    ("a bare string", {"tokens": ["ETH"]}, "tokens[0]: must be an object"),
    ("a null item", {"tokens": [{"identifier": "ETH"}, None]}, "tokens[1]: must be an object"),
    ("no identifier", {"tokens": [{}]}, "tokens[0].identifier: required"),
    ("a null identifier", {"tokens": [{"identifier": None}]}, "tokens[0].identifier: must be a string"),
    ("a number", {"tokens": [{"identifier": 1}]}, "tokens[0].identifier: must be a string"),
    ("true", {"tokens": [{"identifier": True}]}, "tokens[0].identifier: must be a string"),
    ("blank", tokens("BRETT", " \t\n"), "tokens[1].identifier: must not be blank"),
    ("empty", tokens(""), "tokens[0].identifier: must not be blank"),
    ("twice", tokens("BRETT", "BRETT"), "tokens[1].identifier: 'BRETT' is the same token as 'BRETT'"),
    ("another case", tokens("BRETT", "ETH", "bReTt"), "tokens[2].identifier: 'bReTt' is the same token as 'BRETT'"),
    ("unknown, twice", tokens("NOPE", "nope"), "tokens[1].identifier: 'nope' is the same token as 'NOPE'"),
    ("a name and its coin id", tokens("brett", "based-brett"), "'based-brett' is the same token as 'brett'"),
    ("unknown and terrible", tokens("\x1b[2J\n", "\x1b[2j\n"), r"'\x1b[2j\n' is the same token as '\x1b[2J\n'"),
    ("unknown and endless", tokens(LONG, LONG), f"'{'z' * 77}...' is the same token as '{'z' * 77}...'"),
]


@pytest.mark.parametrize("path", PER_TOKEN)
@pytest.mark.parametrize(("body", "text"), [case[1:] for case in WRONG_TOKENS], ids=[case[0] for case in WRONG_TOKENS])
def test_tokens(shop: Market, path: str, body: Any, text: str) -> None:
    answer = shop.post(path, body)
    assert answer.status == 400
    assert text in answer.error


@pytest.mark.parametrize("path", PER_TOKEN)
def test_an_address_and_a_symbol_of_one_token_are_one_token(shop: Market, path: str) -> None:
    brett = find(7, 8453, "BRETT")
    assert brett is not None
    answer = shop.post(path, tokens("TOSHI", brett.address.lower(), "BRETT"))
    assert answer.status == 400
    assert answer.error == f"tokens[2].identifier: 'BRETT' is the same token as '{brett.address.lower()}'"


NOT_A_LIMIT = [
    (0, "must be from 1 to"),
    (-1, "must be from 1 to"),
    (10**30, "must be from 1 to"),
    (5.0, "must be an integer"),
    (1.5, "must be an integer"),
    ("5", "must be an integer"),
    (True, "must be an integer"),
    (None, "must be an integer"),
    ([], "must be an integer"),
]


@pytest.mark.parametrize(("limit", "text"), NOT_A_LIMIT, ids=[repr(case[0]) for case in NOT_A_LIMIT])
@pytest.mark.parametrize(("path", "high"), [("token-signals", 100), ("top-performers", 300), ("supported-tokens", 500)])
def test_limits(shop: Market, path: str, high: int, limit: object, text: str) -> None:
    for wrong in (limit, high + 1) if limit == 0 else (limit,):
        if path == "token-signals":
            body: dict[str, Any] = {"tokens": [{"identifier": "BRETT"}, {"identifier": "ETH", "limit": wrong}]}
        else:
            body = {"sortBy": "ROI", "limit": wrong}
        answer = shop.post(path, body)
        assert answer.status == 400
        assert text in answer.error
        assert answer.error.startswith("tokens[1].limit: " if path == "token-signals" else "limit: ")
        assert str(high) in answer.error or "integer" in text


def test_a_number_beyond_all_floats_is_no_limit(shop: Market) -> None:
    answer = shop.send("POST", "supported-tokens", b'{"limit": 1e999}', [JSON])
    assert (answer.status, answer.error) == (400, "limit: must be an integer")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"startDate": 1}, "startDate: must be a string"),
        ({"endDate": None}, "endDate: must be a string"),
        ({"startDate": ""}, "startDate: '' is not a date"),
        ({"startDate": "yesterday"}, "startDate: 'yesterday' is not a date"),
        ({"endDate": "2026-02-30"}, "endDate: '2026-02-30' is not a date"),
        ({"endDate": "2026-13-01T00:00:00Z"}, "endDate: "),
        ({"endDate": "2026-01-01T25:00:00Z"}, "endDate: "),
        ({"endDate": "2026-01-01T00:00:00+25:00"}, "endDate: "),
        ({"endDate": "2026-01-01 00:00:00"}, "endDate: "),
        ({"endDate": "20260101"}, "endDate: "),
        ({"endDate": "2026-W01-1"}, "endDate: "),
        ({"endDate": "0000-01-01"}, "endDate: "),
        ({"endDate": "2026-01-01T00:00:00Z" + "0" * 900}, "endDate: "),
        ({"endDate": "\uff12026-01-01"}, "endDate: "),
        ({"endDate": "\x1b\u202e"}, r"'\x1b\u202e'"),
        ({"startDate": "2026-01-02", "endDate": "2026-01-01"}, "startDate: must not be after endDate"),
        (
            {"startDate": "2026-01-01T00:00:00.000001Z", "endDate": "2026-01-01T00:00:00Z"},
            "startDate: must not be after endDate",
        ),
        ({"startDate": "2026-01-01T00:00:00-01:00", "endDate": "2026-01-01T00:30:00Z"}, "startDate: must not be after"),
        ({"signalType": "buy"}, "signalType: 'buy' is not one of BUY, SELL, WAITING FOR SIGNAL, ALL"),
        ({"signalType": "WAITING"}, "signalType: "),
        ({"signalType": ""}, "signalType: "),
        ({"signalType": None}, "signalType: must be a string"),
        ({"signalType": ["BUY"]}, "signalType: must be a string"),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, dict) else "",
)
def test_filters_of_the_history(shop: Market, fields: dict[str, Any], text: str) -> None:
    answer = shop.post("signal-history", {**tokens("BRETT"), **fields})
    assert answer.status == 400
    assert text in answer.error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "sortBy: required"),
        ({"sortBy": None}, "sortBy: must be a string"),
        ({"sortBy": 1}, "sortBy: must be a string"),
        ({"sortBy": "roi"}, "sortBy: 'roi' is not one of winRate, ROI"),
        ({"sortBy": ""}, "sortBy: '' is not one of winRate, ROI"),
    ],
    ids=repr,
)
def test_the_order_of_top_performers(shop: Market, body: dict[str, Any], text: str) -> None:
    answer = shop.post("top-performers", body)
    assert (answer.status, answer.error) == (400, text)


@pytest.mark.parametrize("body", [{"x": 1}, {"limit": 5}, {"tokens": []}, {"\x1b": {}}], ids=repr)
def test_aggregate_metrics_take_the_empty_object_only(shop: Market, body: dict[str, Any]) -> None:
    answer = shop.post("aggregate-metrics", body)
    assert answer.status == 400
    assert answer.error == f"{next(iter(body))!r}: the body must be the empty object {{}}"


@pytest.mark.parametrize(("path", "field"), [(path, "x") for path in ALL] + [("token-prices", "limit")])
def test_unknown_fields(open_shop: Market, path: str, field: str) -> None:
    """Ignored, or refused by gap option; what nobody knows in an item of `tokens` as well."""
    bodies = [{**good_body(path), field: 1}]
    if path in PER_TOKEN:
        bodies.append({"tokens": [{"identifier": "BRETT", "x": 1}]})
    strict = Market(unknown_field="400")
    assert strict.post(path, good_body(path)).status == 200
    for body in bodies:
        assert open_shop.post(path, body).status == (400 if path == "aggregate-metrics" else 200)
        answer = strict.post(path, body)
        assert answer.status == 400
        assert "not a field of this request" in answer.error or path == "aggregate-metrics"


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


@pytest.mark.parametrize(("path", "body", "status"), [(*c, 422) for c in BUSINESS] + [(*c, 400) for c in MALFORMED])
def test_422_by_gap_option(path: str, body: dict[str, Any], status: int) -> None:
    """Only for what is well formed, as in the account API."""
    answer = Market(paywall="closed", b_invalid="422").post(path, body)
    assert answer.status == status
    assert answer.error == Market().post(path, body).error


@pytest.mark.parametrize("path", PAID)
def test_payment_is_asked_for_first_by_gap_option(path: str) -> None:
    shop = Market(paywall="closed", b_invalid="402-first")
    assert shop.post(path, {"x": 1}).status == 402
    assert shop.send("POST", path, b"nonsense").status == 402
    shop.world.set_gaps({"paywall": "open"})
    assert shop.send("POST", path, b"nonsense").status == 400
    # Nobody pays for the free one.
    assert shop.post("supported-tokens", {"limit": 0}).status == 400
