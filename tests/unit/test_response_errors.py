"""Which error an answer becomes, what it says, and what the retry policy is told of it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import (
    AmbiguousOutcomeError,
    APIConnectionError,
    APIResponseError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadGatewayError,
    ConfigError,
    ConflictError,
    InternalServerError,
    InvalidRequestError,
    InvalidSignatureError,
    NotFoundError,
    PermissionDeniedError,
    RateLimit,
    RateLimitError,
    RawResponse,
    ServiceUnavailableError,
    UnprocessableEntityError,
)
from tradesdk._http.response import failure_of, moment_after, service_error, status_error
from tradesdk._http.retry import FailureCause
from tradesdk._values.http import Headers

URL = "https://api.example.com/v1/agents/agt_1"
NOW = 1_700_000_000.0
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def error_of(status: int, content: bytes | Any = b"", **headers: str) -> APIStatusError:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    error = status_error("GET", URL, RawResponse(status, Headers(named), body), now=NOW)
    assert str(error).isprintable()
    assert len(str(error)) <= 1201
    return error


def told(code: str, message: str = "why") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


CLASSES = {
    (400, "invalid_request"): InvalidRequestError,
    (400, "invalid_signature"): InvalidSignatureError,
    (401, "unauthorized"): AuthenticationError,
    (403, "forbidden"): PermissionDeniedError,
    (404, "not_found"): NotFoundError,
    (409, "conflict"): ConflictError,
    (422, "validation_error"): UnprocessableEntityError,
    (429, "rate_limited"): RateLimitError,
    (500, "internal_error"): InternalServerError,
    (502, "bad_gateway"): BadGatewayError,
    (503, "service_unavailable"): ServiceUnavailableError,
    (402, "payment_required"): APIStatusError,
    (418, "teapot"): APIStatusError,
    (504, "timeout"): APIStatusError,
    (301, "moved"): APIStatusError,
    (999, "odd"): APIStatusError,
}


@pytest.mark.parametrize(("status", "code"), CLASSES)
def test_every_status_has_its_class(status: int, code: str) -> None:
    error = error_of(status, told(code))
    assert type(error) is CLASSES[status, code]
    assert (error.status, error.service_code, error.message) == (status, code, "why")
    assert (error.method, error.url, error.outcome, error.retries) == ("GET", URL, "none", 0)
    assert str(error) == f"{status} {code}: why (GET {URL})"


def test_the_status_decides_and_not_the_code() -> None:
    assert type(error_of(404, told("invalid_signature"))) is NotFoundError
    assert type(error_of(500, told("rate_limited"))) is InternalServerError
    assert type(error_of(400, told("a_new_code"))) is InvalidRequestError


def test_the_whole_answer_is_kept() -> None:
    error = error_of(409, told("conflict"), x_request_id="req_1")
    assert error.headers["X-Request-Id"] == "req_1"
    assert json.loads(error.body) == told("conflict")
    assert error.response is not None
    assert error.response.json() == told("conflict")


def test_the_market_data_wrapper_has_a_message_and_no_code() -> None:
    error = error_of(502, {"success": False, "data": None, "error": "price logic failed"})
    assert type(error) is BadGatewayError
    assert (error.service_code, error.message) == (None, "price logic failed")
    assert str(error) == f"502: price logic failed (GET {URL})"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"error": {"code": "conflict", "message": "m"}}, ("conflict", "m")),
        ({"error": {"code": "conflict", "message": "m", "more": 1}, "trace": 2}, ("conflict", "m")),
        ({"error": {"code": "conflict"}}, ("conflict", "")),
        ({"error": {"code": "conflict", "message": None}}, ("conflict", "")),
        ({"error": {"code": "conflict", "message": ["m"]}}, ("conflict", "")),
        ({"success": False, "data": None, "error": "m"}, (None, "m")),
        ({"success": True, "data": None, "error": "m"}, None),
        ({"success": 0, "data": None, "error": "m"}, None),
        ({"error": "m"}, None),
        ({"error": {"message": "m"}}, None),
        ({"error": {"code": 5, "message": "m"}}, None),
        ({"error": None}, None),
        ({"error": []}, None),
        ({"code": "conflict", "message": "m"}, None),
        ({}, None),
        ([], None),
        ([{"error": {"code": "c", "message": "m"}}], None),
        ("error", None),
        (None, None),
        (b"", None),
        (b"<html>502 Bad Gateway</html>", None),
        (b'{"error": {"code": "conflict", "mess', None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b"9" * 5000, None),
        (told("conflict", "\ud800"), None),  # half a surrogate pair is no text
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_whether_a_body_is_an_error_of_the_service(content: Any, expected: tuple[str | None, str] | None) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    assert service_error(body) == expected
    assert failure_of(error_of(503, body)).service_error is (expected is not None)


@pytest.mark.parametrize(
    ("status", "content", "kind", "text"),
    [
        (500, b"", "", "500: Internal Server Error"),
        (404, b"{}", "application/json", "404: Not Found"),
        (404, b"{}", "application/json; charset=utf-8", "404: Not Found"),
        (502, b"<html>", "text/html; charset=utf-8", "502: Bad Gateway (the answer is text/html, so it may not come"),
        (503, told("service_unavailable", ""), "", "503 service_unavailable: Service Unavailable"),
        (599, b"", "", "599: unknown status"),
        (301, b"", "", "301: Moved Permanently: redirects are never followed; check the base URL"),
        (308, b"", "", "308: Permanent Redirect: redirects are never followed"),
        (502, b"<", "text/\x1b]0;x\x07", r"502: Bad Gateway (the answer is text/\x1b]0"),
    ],
)
def test_without_a_message_the_status_is_explained(status: int, content: Any, kind: str, text: str) -> None:
    assert str(error_of(status, content, **({"content_type": kind} if kind else {}))).startswith(text)


HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "a\nb\r\nc",
    "\u202egnp.exe",
    "\u2028\u2029\x85",
    "\x00\x7f\u200b",
    "x" * 60_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_hostile_messages_and_codes_stay_on_one_printable_line(text: str) -> None:
    for status in (400, 429, 500):
        error = error_of(status, told(text, text), content_type=text)
        assert "\n" not in str(error)
        assert error.message == text  # kept as it came


# What the service says about time


@pytest.mark.parametrize("status", [429, 503])
def test_how_long_to_wait(status: int) -> None:
    error = error_of(status, told("x"), Date=DATE, Retry_After="30", X_RateLimit_Reset="1700000040")
    assert error.retry_after == 41
    assert error.retry_at == datetime(2023, 11, 14, 22, 14, 1, tzinfo=UTC)
    assert error.rate_limit == RateLimit(None, None, datetime(2023, 11, 14, 22, 14, tzinfo=UTC))


def test_the_moment_is_by_the_local_clock() -> None:
    error = error_of(429, told("x"), Date="Tue, 14 Nov 2023 22:03:20 GMT", X_RateLimit_Reset="1699999459")
    assert error.retry_after == 60
    assert error.retry_at == datetime.fromtimestamp(NOW + 60, UTC)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500, 502, 504])
def test_other_answers_name_no_wait(status: int) -> None:
    error = error_of(status, told("x"), Retry_After="30", X_RateLimit_Limit="60", X_RateLimit_Remaining="5")
    assert (error.retry_after, error.retry_at) == (None, None)
    assert error.rate_limit == RateLimit(60, 5, None)


@pytest.mark.parametrize("text", ["soon", "-5", "inf", "nan", ""])
def test_a_wait_that_is_none_is_none(text: str) -> None:
    error = error_of(429, told("x"), Retry_After=text)
    assert (error.retry_after, error.retry_at, error.rate_limit) == (None, None, None)


def test_a_wait_beyond_the_calendar_has_no_moment() -> None:
    error = error_of(429, told("x"), Retry_After="9" * 400)
    assert error.retry_after is not None
    assert error.retry_after >= 1e12
    assert error.retry_at is None


@pytest.mark.parametrize("seconds", [None, float("inf"), float("nan"), 1e300])
def test_no_moment_after(seconds: float | None) -> None:
    assert moment_after(NOW, seconds) is None


def test_moment_after() -> None:
    assert moment_after(NOW, 0.5) == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)


# What the retry policy is told


def test_failures() -> None:
    where: dict[str, Any] = {"method": "POST", "url": URL}
    assert failure_of(APIConnectionError("x", sent=False, **where)).cause is FailureCause.NOT_SENT
    assert failure_of(APIConnectionError("x", sent=True, **where)).cause is FailureCause.LOST
    assert failure_of(APITimeoutError("x", sent=True, **where)).cause is FailureCause.LOST
    for sent in (True, False):
        hopeless = APIConnectionError("x", sent=sent, temporary=False, **where)
        assert failure_of(hopeless).cause is FailureCause.HOPELESS
    assert failure_of(APIResponseError("x", **where)).cause is FailureCause.HOPELESS
    assert failure_of(AmbiguousOutcomeError("x", **where)).cause is FailureCause.HOPELESS
    assert failure_of(ConfigError("x")).cause is FailureCause.HOPELESS
    assert failure_of(KeyError("x")).cause is FailureCause.HOPELESS


def test_a_request_that_was_held_back_here_is_not_tried_again() -> None:
    held = RateLimitError("x", method="GET", url=URL, status=429, retry_after=500)
    assert failure_of(held).cause is FailureCause.HOPELESS


def test_a_status_is_told_with_its_headers() -> None:
    failure = failure_of(error_of(429, told("rate_limited"), Retry_After="5"))
    assert (failure.cause, failure.status, failure.service_error) == (FailureCause.STATUS, 429, True)
    assert failure.headers is not None
    assert failure.headers["retry-after"] == "5"


header_text = st.text(max_size=20)


@given(st.integers(100, 999), st.binary(max_size=60), header_text, header_text, header_text, header_text)
def test_no_answer_makes_it_raise(status: int, body: bytes, after: str, reset: str, date: str, kind: str) -> None:
    error = error_of(status, body, Retry_After=after, X_RateLimit_Reset=reset, Date=date, Content_Type=kind)
    assert error.status == status
    failure_of(error)
