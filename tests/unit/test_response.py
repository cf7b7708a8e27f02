"""What an answer becomes: a model, a page, an error that says why, and small values beside it."""

import contextlib
import copy
import json
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import (
    Account,
    APIResponseError,
    APIStatusError,
    BadGatewayError,
    InternalServerError,
    InvalidRequestError,
    NotFoundError,
    Page,
    RateLimit,
    RawResponse,
    Signal,
    TradeClient,
)
from tradesdk._values.http import Headers

from .._answers import ACCOUNT, BASE, Service, agent, signal
from .._clock import START, http_date
from .._rows import each_of
from .._texts import WEAPONS, texts
from ._client import client_of
from ._pickled import pickled

SIGNAL: dict[str, Any] = signal()
Act = Callable[[TradeClient], Any]


def answer(content: Any, status: int = 200, **headers: str) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return httpx.Response(status, headers=named, content=body)


def read(act: Act, content: Any, status: int = 200, **headers: str) -> Any:
    return act(client_of(Service(answer(content, status, **headers)), max_retries=0))


def account(content: Any, status: int = 200, **headers: str) -> Account:
    found: Account = read(lambda c: c.account.get(), content, status, **headers)
    return found


def page(content: Any) -> Page[Signal]:
    found: Page[Signal] = read(lambda c: c.signals.history(chain=8453).page(), content)
    return found


def refused(decode: Callable[[], object]) -> APIResponseError:
    with pytest.raises(APIResponseError) as caught:
        decode()
    error = caught.value
    assert error.method == "GET"
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error).isprintable()
    assert len(str(error)) < 1300
    assert error.response is not None
    return error


# Models


def test_any_success_with_a_body_will_do() -> None:
    for status in (200, 201, 202, 206, 299):
        assert account(ACCOUNT, status).id == "acc_1"
    assert account(ACCOUNT, content_type="text/plain").id == "acc_1"


GOOD = json.dumps(ACCOUNT).encode()
WRONG: list[tuple[bytes, str]] = [
    (b"", "the response (200) is empty"),
    (b" \r\n", "the response (200) is empty"),
    *(
        (wrong, "is not JSON")
        for wrong in (b"<!DOCTYPE html>", b"{", GOOD[:-1], GOOD[:-20], GOOD + b"{}", b"\xff\xfe\xfd")
    ),
    (GOOD.replace(b"pro", b"p\xe9"), "is not JSON"),
    (b"\xef\xbb\xbf" + b"\xef\xbb\xbf" + GOOD, "is not JSON"),
    (GOOD.replace(b"pro", b"\\ud800")[:-1], "is not JSON"),
    (GOOD.replace(b"pro", b"p\xe9\\ud800"), "is not JSON"),
    (b"[" * 100_000, "recursion limit exceeded"),
    *((wrong, "the response should be an object") for wrong in (b"[]", b"[" + GOOD + b"]", b"null", b"5", b'"acc_1"')),
    (b"{}", "id: Field required (and 4 more)"),
    *(
        (json.dumps(ACCOUNT | {name: value}).encode(), f"{name} should {said}")
        for name, said, values in (
            ("plan", "be a valid string", (None, 5)),
            ("created_at", "be a valid datetime", ("soon", 10**12, 10**400, None)),
            ("created_at", "have timezone", ("2024-01-01T00:00:00", "2024-01-01")),
        )
        for value in values
    ),
]


@each_of(("content", "reason"), WRONG, ids=lambda value: ascii(value)[:40])
def test_what_is_no_such_model_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    error = refused(lambda: account(content))
    assert str(error).startswith("expected Account, but ")
    assert reason in error.message
    assert error.response is not None
    assert error.response.content == content


def test_the_status_and_another_kind_of_content_are_named() -> None:
    assert "the response (204) is empty" in refused(lambda: account(b"", 204)).message
    error = refused(lambda: account(b"<html>", content_type="text/html; charset=utf-8"))
    assert "the response (text/html) is not JSON" in error.message
    assert r"\x1b" in refused(lambda: account(b"<html>", content_type="text/\x1b[2J" + "x" * 5000)).message


@each_of(
    ("field", "number", "reason"),
    [
        ("confidence", "2.0", "but data.0.confidence should be less than"),
        ("chain_id", "true", "but data.0.chain_id should be a valid integer"),
        *(
            (field, number, "is not JSON")
            for number in ("NaN", "Infinity", "-Infinity")
            for field in ("price_usd", "confidence", "a_new_field")
        ),
        *(
            (field, wrap.format(number), f"but data.0.{field}")
            for number in ("1e999", "-1e999")
            for field in ("price_usd", "a_new_field")
            for wrap in ("{}", '[{{"deep": [1, {}]}}]')
        ),
    ],
)
def test_what_is_no_number_is_refused_wherever_it_stands(field: str, number: str, reason: str) -> None:
    item = json.dumps(SIGNAL | {field: "@"}).replace('"@"', number)
    error = refused(lambda: page(b'{"data": [' + item.encode() + b"]}"))
    assert reason in error.message
    assert "more)" not in error.message


@each_of("name", ["NaN", "Infinity", "-Infinity coin", '"NaN"'])
def test_a_token_may_be_called_that(name: str) -> None:
    assert page({"data": [SIGNAL | {"token_symbol": name}]}).data[0].token_symbol == name


# Pages


def test_a_page() -> None:
    found = page({"data": [SIGNAL] * 100, "next_cursor": "abc", "total": 9})
    assert len(found.data) == 100
    assert isinstance(found.data[0], Signal)
    assert (found.next_cursor, found.model_extra) == ("abc", {"total": 9})
    for last in ({}, {"next_cursor": None}, {"next_cursor": ""}):
        assert page({"data": []} | last).next_cursor is None


@each_of(
    ("envelope", "reason"),
    [
        ([], "but the response should"),
        ([SIGNAL], "but the response should"),
        ({}, "data: Field required"),
        *(({"data": wrong}, "but data") for wrong in (None, {}, SIGNAL, "none")),
        ({"data": [None]}, "but data.0"),
        ({"data": [SIGNAL, SIGNAL | {"price_usd": "much"}]}, "but data.1.price_usd"),
        ({"data": [], "next_cursor": 5}, "but next_cursor"),
        ({"data": [], "next_cursor": {}}, "but next_cursor"),
        ({"data": [SIGNAL] * 101}, "at most 100"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_no_page_is_refused(envelope: Any, reason: str) -> None:
    error = refused(lambda: page(envelope))
    assert str(error).startswith("expected a page of Signal, but ")
    assert reason in error.message


BALANCE = b'{"wallet_id": "w", "native_balance_usd": 1, "updated_at": 1, "token_balances": [%b]}'


@pytest.mark.parametrize(
    "decode",
    [
        lambda items: page(b'{"data": [' + items + b"]}"),
        lambda items: read(lambda c: c.wallets.balance("w"), BALANCE % items),
    ],
    ids=["page", "balances"],
)
@pytest.mark.parametrize("item", [b"0", *(pytest.param(item, marks=pytest.mark.long) for item in (b"{}", b'{"id":0}'))])
def test_a_mebibyte_of_wrong_items_is_refused_quickly(decode: Callable[[bytes], object], item: bytes) -> None:
    items = b",".join([item] * (1_000_000 // (len(item) + 1)))
    started = time.thread_time()
    error = refused(lambda: decode(items))
    assert time.thread_time() - started < 5
    assert ".0" in error.message
    assert not re.search(r"and \d\d+ more", error.message), "it went on after the first wrong item"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts(max_size=5)
    | st.sampled_from(["acc_1", 1700000000]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ACCOUNT, *SIGNAL, *agent(), "data"]), inner, max_size=8)
    ),
    max_leaves=12,
)
CALLS: list[Act] = [
    *(lambda c: c.account.get(), lambda c: c.account.usage(), lambda c: c.agents.get("a"), lambda c: c.trades.get("t")),
    *(lambda c: c.wallets.balance("w"), lambda c: c.wallets.list().page(), lambda c: c.signals.latest(chain=56)),
]


@pytest.mark.long
@settings(max_examples=40)
@given(anything.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=100))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    for act in CALLS:
        with contextlib.suppress(APIResponseError):
            read(act, content)


# Errors


def error_after(answer: httpx.Response) -> APIStatusError:
    with pytest.raises(APIStatusError) as caught:
        client_of(Service(answer), max_retries=0).request("GET", "/v1/x")
    return caught.value


def error_of(status: int, content: Any = b"", **headers: str) -> APIStatusError:
    """By the clock of the service the time is `START`."""
    error = error_after(answer(content, status, **headers))
    assert str(error).isprintable()
    assert len(str(error)) <= 1201
    return error


def told(code: str, message: Any = "why") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def test_the_status_decides_and_not_the_code() -> None:
    assert type(error_of(404, told("invalid_signature"))) is NotFoundError
    assert type(error_of(500, told("rate_limited"))) is InternalServerError
    assert type(error_of(400, told("a_new_code"))) is InvalidRequestError
    assert type(error_of(999, told("odd"))) is APIStatusError
    wrapped = error_of(502, {"success": False, "data": None, "error": "price logic failed"})
    assert type(wrapped) is BadGatewayError
    assert str(wrapped) == f"502: price logic failed (GET {BASE}/v1/x)"


NO_ERRORS: list[Any] = [
    *({"error": "m"}, {"error": {"message": "m"}}, {"error": {"code": 5, "message": "m"}}, {"error": None}),
    *({"success": bad, "data": None, "error": "m"} for bad in (True, 0)),
    *({"code": "conflict", "message": "m"}, {}, [], [told("c")], "error", None),
    *(b"", b"<html>", b'{"error": {"code": "c", "mess', b"\xff\xfe", b"[" * 100_000, b"9" * 5000),
]


@each_of(
    ("content", "expected"),
    [
        ({"error": {"code": "conflict", "message": "m"}}, ("conflict", "m")),
        ({"error": {"code": "conflict", "message": "m", "more": 1}, "trace": 2}, ("conflict", "m")),
        ({"error": {"code": "conflict"}}, ("conflict", "")),
        (told("conflict", "\ud800"), ("conflict", "\ufffd")),
        *((told("conflict", message), ("conflict", "")) for message in (None, ["m"])),
        ({"success": False, "data": None, "error": "m"}, (None, "m")),
        *((content, None) for content in NO_ERRORS),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_whether_a_body_is_an_error_of_the_service(content: Any, expected: tuple[str | None, str] | None) -> None:
    """A create after a 503 of something else may have happened, and nobody can look for this one."""
    error = error_of(503, content)
    assert (error.service_code, error.message) == (
        (expected or (None, ""))[0],
        (expected or "  ")[1].strip() or "Service Unavailable",
    )
    with pytest.raises(APIStatusError) as caught:
        read(lambda c: c.request("POST", "/v1/x"), content, 503)
    assert caught.value.outcome == ("unknown" if expected is None else "none")


@each_of(
    ("status", "content", "kind", "text"),
    [
        (500, b"", "", "500: Internal Server Error"),
        (404, b"{}", "application/json", "404: Not Found ("),
        (404, b"{}", "application/json; charset=utf-8", "404: Not Found ("),
        (502, b"<html>", "text/html; charset=utf-8", "502: Bad Gateway (the response is text/html, so it may not come"),
        (503, told("service_unavailable", ""), "", "503 service_unavailable: Service Unavailable"),
        (599, b"", "", "599: unknown status"),
        (301, b"", "", "301: Moved Permanently: redirects are never followed; check the base URL"),
        (308, b"", "", "308: Permanent Redirect: redirects are never followed"),
        (502, b"<", "text/\x1b]0;x\x07", r"502: Bad Gateway (the response is text/\x1b]0"),
    ],
)
def test_without_a_message_the_status_is_explained(status: int, content: Any, kind: str, text: str) -> None:
    assert str(error_of(status, content, **({"content_type": kind} if kind else {}))).startswith(text)


@each_of(
    "text",
    [*(text for name, text in WEAPONS.items() if name != "lone"), "x" * 20_000],
    ids=lambda text: ascii(text)[:20],
)
def test_hostile_messages_and_codes_stay_on_one_printable_line(text: str) -> None:
    for status in (400, 429, 500):
        assert error_of(status, told(text, text)).message == text  # kept as it came


# What the service says about time


def waiting(status: int, **headers: str) -> tuple[float | None, datetime | None, RateLimit | None]:
    error = error_of(status, told("x"), **headers)
    return error.retry_after, error.retry_at, error.rate_limit


def local(after: float) -> datetime:
    return datetime.fromtimestamp(START + after, UTC)


def test_how_long_to_wait() -> None:
    """The moment is by the local clock."""
    for status in (429, 503):
        both = {"Retry_After": "30", "X_RateLimit_Reset": str(START + 40)}
        assert waiting(status, Date=http_date(START), **both) == (41, local(41), RateLimit(None, None, local(40)))
        ahead = {"Date": http_date(START - 600), "X_RateLimit_Reset": str(START - 541)}
        assert waiting(status, **ahead)[:2] == (60, local(60))
    for status in (400, 401, 404, 409, 422, 500, 502, 504):
        headers = {"Retry_After": "30", "X_RateLimit_Limit": "60", "X_RateLimit_Remaining": "5"}
        assert waiting(status, **headers) == (None, None, RateLimit(60, 5, None))
    for text in ("soon", "-5", "inf", "nan", ""):
        assert waiting(429, Retry_After=text) == (None, None, None)
    for text in ("2.0000005", "31.4159265"):  # not one microsecond off
        assert waiting(503, Retry_After=text)[:2] == (float(text), local(float(text)))
    seconds, moment, _ = waiting(429, Retry_After="9" * 400)
    assert seconds is not None
    assert (seconds >= 1e12, moment) == (True, None)


@pytest.mark.rule("error.429.headers", "limit.headers")
def test_the_rate_limit() -> None:
    def shown(**headers: str) -> RateLimit | None:
        return error_of(404, **{f"x_ratelimit_{name}": text for name, text in headers.items()}).rate_limit

    assert shown(limit="300", remaining="0", reset=str(START)) == RateLimit(300, 0, local(0))
    assert shown() is None
    assert shown(limit="300") == RateLimit(300, None, None)
    assert shown(remaining="7") == RateLimit(None, 7, None)
    assert shown(reset="99999999999") == RateLimit(None, None, datetime(5138, 11, 16, 9, 46, 39, tzinfo=UTC))
    for bad in ("", "-1", "+1", "1.5", "1e3", "nan", "inf", "٣", "²", "5, 5", "9" * 16, "9" * 400):
        assert shown(limit=bad, remaining=bad, reset=bad) is None
        assert shown(limit="60", remaining=bad, reset=bad) == RateLimit(60, None, None)


header_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.integers(300, 999), st.binary(max_size=60), header_text, header_text, header_text, header_text)
def test_no_answer_makes_it_raise(status: int, body: bytes, after: str, reset: str, date: str, kind: str) -> None:
    error = error_of(status, body, Retry_After=after, X_RateLimit_Reset=reset, Date=date, Content_Type=kind)
    assert error.status == status


# Headers and the raw answer


def test_headers_are_found_in_any_case_joined_and_constant() -> None:
    named = [("Retry-After", "5"), ("A", "1"), ("b", "x"), ("a", "2"), ("A", "3")]
    headers = error_after(httpx.Response(404, headers=named)).headers
    for name in ("retry-after", "Retry-After", "RETRY-AFTER"):
        assert headers[name] == headers.get(name) == "5"
        assert name in headers
    assert headers["a"] == "1, 2, 3"
    assert "date" not in headers
    assert headers.get("date") is None
    with pytest.raises(KeyError):
        headers["date"]
    assert dict(headers) == {"retry-after": "5", "a": "1, 2, 3", "b": "x"}
    assert len(headers) == 3
    assert "retry-after" in repr(headers)
    assert not hasattr(headers, "__setitem__")
    assert copy.copy(headers) == copy.deepcopy(headers) == pickled(headers) == headers


def raw(content: bytes) -> RawResponse:
    return RawResponse(200, {"set-cookie": "hidden"}, content)


def test_a_raw_answer_is_a_value_whose_repr_shows_neither_body_nor_headers() -> None:
    response = raw(b'{"a": 1}')
    assert (response.status, response.text, response.json()) == (200, '{"a": 1}', {"a": 1})
    assert pickled(response) == copy.deepcopy(response) == response
    with pytest.raises(AttributeError):
        response.status = 500  # type: ignore[misc]  # that it is refused is the point
    assert repr(raw(b"hidden")) == "RawResponse(status=200, 6 bytes)"
    assert repr(Headers([("Date", "x"), ("X-Echo", "a signed payment")])) == "Headers(date, x-echo)"
    assert raw(b"caf\xe9").text == "caf\N{REPLACEMENT CHARACTER}"


@each_of(
    "content",
    [
        *(b"", b" ", b"{", b"[1,]", b"{'a': 1}", b"nul", b"\xff\xfe", b'"\xe9"', b"<html></html>", b"{} {}"),
        *(b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000),
    ],
    ids=lambda content: ascii(content[:12]),
)
def test_what_is_no_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        raw(content).json()


def test_nesting_is_bounded_even_where_recursion_is_not() -> None:
    """Libraries raise the interpreter's limit so far that the standard parser would overflow the stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        for content in (b"[" * 20_000, b'{"a":' * 20_000, b"[" * 20_000 + b"]" * 20_000):  # what a stack still holds
            with pytest.raises(ValueError, match="recursion limit"):
                raw(content).json()
            assert error_of(400, content).service_code is None
    finally:
        sys.setrecursionlimit(limit)


@given(st.binary(max_size=50))
def test_no_bytes_of_a_raw_answer_raise_anything_else(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        raw(content).json()
    raw(content).text.encode()
