"""Headers, the raw answer and the rate limit: small values that are handed to users."""

import contextlib
import copy
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import RateLimit, RawResponse
from tradesdk._http.response import rate_limit, service_error
from tradesdk._values.http import Headers

from ._pickled import pickled


def test_headers_are_found_in_any_case() -> None:
    headers = Headers([("Retry-After", "5"), ("X-RATELIMIT-LIMIT", "60")])
    for name in ("retry-after", "Retry-After", "RETRY-AFTER"):
        assert headers[name] == "5"
        assert headers.get(name) == "5"
        assert name in headers
    assert "date" not in headers
    assert headers.get("date") is None
    with pytest.raises(KeyError):
        headers["date"]
    assert list(headers) == ["retry-after", "x-ratelimit-limit"]
    assert len(headers) == 2
    assert dict(headers) == {"retry-after": "5", "x-ratelimit-limit": "60"}
    assert headers == Headers([("retry-after", "5"), ("x-ratelimit-limit", "60")])
    assert "retry-after" in repr(headers)


def test_a_header_that_came_twice_is_joined() -> None:
    assert Headers([("A", "1"), ("b", "x"), ("a", "2"), ("A", "3")])["a"] == "1, 2, 3"


def test_headers_cannot_be_changed_and_can_be_copied() -> None:
    headers = Headers([("A", "1")])
    assert not hasattr(headers, "__setitem__")
    assert copy.copy(headers) == copy.deepcopy(headers) == pickled(headers) == headers


def answer(content: bytes) -> RawResponse:
    return RawResponse(200, Headers([("A", "1")]), content)


def test_a_raw_answer_is_a_value() -> None:
    response = answer(b'{"a": 1}')
    assert (response.status, response.text, response.json()) == (200, '{"a": 1}', {"a": 1})
    assert pickled(response) == copy.deepcopy(response) == response
    with pytest.raises(AttributeError):
        response.status = 500  # type: ignore[misc]  # that it is refused is the point


def test_its_repr_shows_neither_body_nor_headers() -> None:
    shown = repr(RawResponse(200, Headers([("Set-Cookie", "hidden")]), b"hidden"))
    assert shown == "RawResponse(status=200, 6 bytes)"


def test_bytes_that_are_no_utf8_are_shown_as_far_as_they_go() -> None:
    assert answer(b"caf\xe9").text == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b" ", b"{", b"[1,]", b"{'a': 1}", b"nul", b"\xff\xfe", b'"\xe9"', b"<html></html>", b"{} {}"),
        *(b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000),
    ],
    ids=lambda content: ascii(content[:12]),
)
def test_what_is_no_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        answer(content).json()


def test_nesting_is_bounded_even_where_recursion_is_not() -> None:
    """Libraries raise the interpreter's limit so far that the standard parser would overflow the stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        for content in (b"[" * 20_000, b'{"a":' * 20_000, b"[" * 20_000 + b"]" * 20_000):  # what a stack still holds
            with pytest.raises(ValueError, match="recursion limit"):
                answer(content).json()
            assert service_error(content) is None
    finally:
        sys.setrecursionlimit(limit)


@given(st.binary(max_size=50))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        answer(content).json()
    answer(content).text.encode()


# The rate limit


@pytest.mark.rule("error.429.headers", "limit.headers")
def test_the_three_headers() -> None:
    headers = {"x-ratelimit-limit": "300", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000060"}
    assert rate_limit(headers) == RateLimit(300, 0, datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC))


def test_each_of_them_may_be_missing() -> None:
    assert rate_limit({}) is None
    assert rate_limit({"x-ratelimit-limit": "300"}) == RateLimit(300, None, None)
    assert rate_limit({"x-ratelimit-remaining": "7"}) == RateLimit(None, 7, None)
    assert rate_limit({"x-ratelimit-reset": "99999999999"}) == RateLimit(
        None, None, datetime(5138, 11, 16, 9, 46, 39, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.5", "1e3", "nan", "inf", "٣", "²", "5, 5", " 5", "9" * 16, "9" * 400]
)
def test_garbage_is_nothing(text: str) -> None:
    headers = {"x-ratelimit-limit": text, "x-ratelimit-remaining": text, "x-ratelimit-reset": text}
    assert rate_limit(headers) is None
    assert rate_limit({**headers, "x-ratelimit-limit": "60"}) == RateLimit(60, None, None)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_text_makes_it_raise(limit: str, remaining: str, reset: str) -> None:
    rate_limit({"x-ratelimit-limit": limit, "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset})
