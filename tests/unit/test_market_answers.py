"""Out of the wrapper: data, or an error that keeps the bytes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk import APIResponseError, InvalidArgumentError, RawResponse
from tradesdk._market import decode_answer, decode_by_path
from tradesdk._values.http import Headers
from tradesdk.models.market import AggregateMetrics, TokenPrice, TokenResults, TokenSignals

URL = "https://service.example/v1/token-prices"
PRICE = {"tokenAddress": "0xab", "symbol": "ABC", "currentPriceEth": 0.5, "currentPriceUsd": 1500.25}
DATA = {"results": [PRICE]}


def wrapped(**changes: Any) -> bytes:
    return json.dumps({"success": True, "data": DATA, "error": None} | changes).encode()


def prices(content: bytes, status: int = 200) -> TokenResults[TokenPrice]:
    return decode_answer(TokenResults[TokenPrice], "POST", URL, RawResponse(status, Headers(), content))


def refused(content: bytes, decode: Callable[[bytes], object] = prices) -> str:
    with pytest.raises(APIResponseError) as caught:
        decode(content)
    error = caught.value
    assert (error.method, error.url) == ("POST", URL)
    assert error.response is not None
    assert error.response.content == content
    assert error.__context__ is None
    text = str(error)
    assert text.isprintable()
    assert len(text) < 1300
    return text


def test_data() -> None:
    assert prices(wrapped()) == TokenResults[TokenPrice](results=[TokenPrice.model_validate(PRICE)])
    assert prices(wrapped(), status=201).results[0].symbol == "ABC"
    assert prices(wrapped(data={"results": []})).results == []


def test_a_key_more_is_no_reason_to_lose_what_was_paid() -> None:
    assert prices(wrapped(requestId="r1", data=DATA | {"asOf": 1})).model_extra == {"asOf": 1}


@pytest.mark.rule("market.wrapper.failure")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"success": False, "data": None, "error": "no price"}, "the answer (200) is a failure: no price"),
        ({"success": False, "data": None}, "neither data nor an error"),
        ({"data": None}, "neither data nor an error"),
        ({"error": "also this"}, "both data and an error: also this"),
        ({"success": False, "error": "x"}, "both data and an error"),
        ({"success": False}, "has data, but success is false"),
        ({"data": None, "error": "x"}, "has an error, but success is true: x"),
        ({"success": "true"}, "success"),
        ({"success": 1}, "success"),
        ({"success": None}, "success"),
        ({"error": {"code": "x", "message": "y"}}, "error"),
        ({"error": ""}, "both data and an error"),
        ({"data": []}, "data"),
        ({"data": {}}, "data.results"),
        ({"data": {"results": [PRICE, {}]}}, "data.results.1.tokenAddress"),
        ({"data": {"results": [PRICE] * 6}}, "data.results"),
    ],
)
def test_a_wrapper_that_contradicts_itself_is_no_answer(changes: dict[str, Any], said: str) -> None:
    text = refused(wrapped(**changes))
    assert "expected TokenResults[TokenPrice], but" in text
    assert said in text


def test_a_hostile_error_text_is_one_short_line() -> None:
    text = refused(wrapped(success=False, data=None, error="\x1b]52;c;x\x07\n\u202e" + "x" * 9999))
    assert "\\x1b]52;c;x\\x07\\n\\u202e" in text


def test_names_of_python_mean_nothing_on_the_wire() -> None:
    ours = {"token_address": "0xab", "symbol": "ABC", "current_price_eth": 1, "current_price_usd": 1}
    assert "data.results.0.tokenAddress" in refused(wrapped(data={"results": [ours]}))
    assert TokenPrice.model_validate(ours).token_address == "0xab"
    both = prices(wrapped(data={"results": [PRICE | {"token_address": "0xother"}]})).results[0]
    assert both.token_address == "0xab"
    assert both.model_extra == {"token_address": "0xother"}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b" ", b"null", b"[]", b"{}", b"0", b'"x"', b"{", b"<html>", b"\xff\xfe", b'{"success":true'),
        *(b"[" * 100_000, wrapped().replace(b"1500.25", b"NaN"), wrapped().replace(b"0xab", b"\xff")),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_wrapper_is_refused_with_its_bytes(content: bytes) -> None:
    refused(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.mark.rule("market.wrapper.success")
@given(json_values, json_values, json_values)
@example(True, DATA, None)
@example(True, DATA, "x")
@example(1, DATA, None)
@example(False, DATA, None)
@example(True, None, None)
def test_only_one_kind_of_wrapper_gives_data(success: Any, data: Any, error: Any) -> None:
    content = json.dumps({"success": success, "data": data, "error": error}).encode()
    if success is True and error is None and data == DATA:
        assert prices(content).model_dump(mode="json") == data
    else:
        refused(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_data_or_an_api_response_error(content: bytes) -> None:
    refused(content)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/token-prices", TokenResults[TokenPrice]),
        ("/v1/signal-history", TokenResults[TokenSignals]),
        ("/v1/token-signals", TokenResults[TokenSignals]),
    ],
)
def test_a_path_tells_what_its_bytes_are(path: str, model: type) -> None:
    answer = RawResponse(200, Headers(), wrapped(data={"results": []}))
    assert type(decode_by_path(path, "POST", URL, answer)) is model
    refused(b"{}", lambda content: decode_by_path(path, "POST", URL, RawResponse(200, Headers(), content)))


def test_a_path_without_a_list_inside() -> None:
    names = [str(field.alias) for field in AggregateMetrics.model_fields.values()]
    answer = RawResponse(200, Headers(), wrapped(data=dict.fromkeys(names, 2)))
    assert decode_by_path("/v1/aggregate-metrics", "POST", URL, answer).win_rate == 2


@pytest.mark.parametrize("path", ["", "/", "/v1/", "token-prices", "/v2/token-prices", "/v1/token-prices/", "/v1/\x1b"])
def test_another_path_is_none_of_market_data(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not an endpoint of market data") as caught:
        decode_by_path(path, "POST", URL, RawResponse(200, Headers(), wrapped()))
    assert str(caught.value).isprintable()
