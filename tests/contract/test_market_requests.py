"""Requests for market data that are refused, and with which words: in the wrapper, and before anybody pays."""

import json
from typing import Any

import pytest

from .._rows import each_of
from ..mock._buyer import Shop, good_body, open_shop, tokens
from ..mock._paying import ALL, JSON, PER_TOKEN, Headers

LONG = "z" * 5_000


@pytest.fixture(scope="module")
def shop() -> Shop:
    """Behind its paywall. Nothing here changes it."""
    return Shop(traded=True)


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
    (b'{"limit": 1, "limit": 2}', "'limit': given twice"),
    (b'{"tokens": [{"identifier": "a", "identifier": "b"}]}', "'identifier': given twice"),
    (b'{"x": {"y": [{"\\u001b": 1, "\\u001b": 1}]}}', r"'\x1b': given twice"),
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


@pytest.mark.rule("market.paths", "market.wrapper.failure", "market.wrapper.statuses")
@each_of("path", ALL)
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


BRETT = "0x47fe61016e7dc56faa19b8764a766820c4b2f9f3"  # its address in a world of seed 7
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


@pytest.mark.rule("market.batch", "market.identifier.required", "market.identifier.twice")
@each_of("path", PER_TOKEN)
def test_tokens(shop: Shop, path: str) -> None:
    for body, text in WRONG_TOKENS:
        answer = shop.post(path, body)
        assert (answer.status, text in answer.error) == (400, True), body


@pytest.mark.rule("market.signals.limit", "market.top.limit", "market.supported.limit")
@each_of(("path", "high"), [("token-signals", 100), ("top-performers", 300), ("supported-tokens", 500)])
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


@pytest.mark.rule("market.history.dates", "market.history.type", "market.top.sort", "market.aggregate.body")
@each_of(("path", "fields", "text"), FIELDS, ids=lambda value: ascii(value)[:40])
def test_other_fields(shop: Shop, path: str, fields: dict[str, Any], text: str) -> None:
    answer = shop.post(path, (tokens("BRETT") if path in PER_TOKEN else {}) | fields)
    assert (answer.status, text in answer.error) == (400, True)


@pytest.mark.rule("market.base-only", "market.identifier.unknown")
def test_a_token_that_nobody_knows(shop: Shop) -> None:
    paid = open_shop()
    answer = paid.post("token-signals", tokens("BRETT", "\x1b[31mNOPE" + "x" * 99))
    assert (answer.status, answer.error.startswith("No token '\\x1b[31mNOPExxx")) == (404, True)
    for wrong in ("CAKE", "0x" + "00" * 20, "0x", "brett ", "BRETT\x00"):
        assert paid.post("token-prices", tokens(wrong)).status == 404
        assert shop.post("token-prices", tokens(wrong)).status == 402, "payment is asked for before it is looked for"
