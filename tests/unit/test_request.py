"""A request as a value: query and body hold exactly what was asked for."""

import json
import math
import sys
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Agent, InvalidArgumentError, Signal
from tradesdk._http.request import Listing, encode_body, encode_query, model_request
from tradesdk._http.retry import Operation

HUGE = pytest.param(10**5000, id="5000 digits")  # more than Python turns into text


def test_what_is_none_is_left_out() -> None:
    query = {"status": None, "limit": 5, "ok": True, "no": False, "cursor": "a b&c=d/é"}
    request = model_request(Agent, "PATCH", "/v1/agents/a", query=query, body={"name": None, "max_positions": 0})
    assert request.query == "limit=5&ok=true&no=false&cursor=a+b%26c%3Dd%2F%C3%A9"
    assert request.target == "/v1/agents/a?" + request.query
    assert request.body == b'{"max_positions":0}'
    assert model_request(Agent, "GET", "/v1/agents/a").target == "/v1/agents/a"
    assert model_request(Agent, "GET", "/v1/agents/a").body is None
    assert model_request(Agent, "PATCH", "/v1/agents/a", body={"name": None}).body == b"{}"


@pytest.mark.parametrize(
    ("method", "operation"),
    [("GET", Operation.READ), ("PATCH", Operation.WRITE), ("DELETE", Operation.WRITE), ("POST", Operation.CREATE)],
)
def test_what_a_method_does(method: Any, operation: Operation) -> None:
    assert model_request(Agent, method, "/v1/agents").operation is operation


def test_a_page_of_a_list() -> None:
    listing = Listing("/v1/signals/history", Signal, {"chain": 56, "from": None})
    assert listing.page(limit=100, cursor=None).target == "/v1/signals/history?chain=56&limit=100"
    assert listing.page(limit=1, cursor="a/b=").target == "/v1/signals/history?chain=56&limit=1&cursor=a%2Fb%3D"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_a_query_round_trips(query: dict[str, str]) -> None:
    encoded = encode_query(query)
    assert parse_qsl(encoded, keep_blank_values=True) == list(query.items())
    assert encoded.isascii()
    assert not set(encoded) & set("#? \r\n/")


def test_a_query_that_is_no_text_is_refused() -> None:
    for query in ({"a": "\ud800"}, {"\ud800": "a"}):
        with pytest.raises(InvalidArgumentError, match="UTF-8"):
            encode_query(query)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
def test_a_body_round_trips_or_is_refused(body: Any) -> None:
    try:
        sent = encode_body(body)
    except InvalidArgumentError:
        assert "\\ud" in json.dumps(body)  # half a surrogate pair has no UTF-8
    else:
        assert json.loads(sent) == body


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    return nest


NO_JSON: list[Any] = [math.nan, math.inf, -math.inf, b"x", {1}, object(), "\ud800", {(1, 2): 3}, HUGE]


@pytest.mark.parametrize("bad", [*NO_JSON, pytest.param(circular(), id="circular")])
def test_a_body_that_is_no_json_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be sent as JSON") as caught:
        encode_body({"x": bad})
    assert str(caught.value).isprintable()


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # the usual one; libraries raise it
    try:
        with pytest.raises(InvalidArgumentError, match="cannot be sent as JSON"):
            encode_body(deep())
    finally:
        sys.setrecursionlimit(limit)
