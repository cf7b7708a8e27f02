"""From bytes to models: what is kept, what is refused, and what the error says."""

import contextlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Account, Agent, APIResponseError, RawResponse, Signal, TradeDetail, Usage, Wallet, WalletBalance
from tradesdk._http.response import decode_model, decode_nothing, decode_page, decode_raw, decode_with_headers
from tradesdk._values.http import Headers

URL = "https://api.example.com/v1/account"
ACCOUNT = {"id": "acc_1", "email": "a@example.com", "plan": "pro", "created_at": 1700000000, "api_key_last4": "wxyz"}
SIGNAL = {
    "id": "s",
    "token_address": "0x1",
    "token_symbol": "ABC",
    "chain_id": 8453,
    "direction": "BUY",
    "confidence": 0.5,
    "price_usd": 1.5,
    "timestamp": 1700000000,
}


def answer(content: bytes | Any, status: int = 200, kind: str = "application/json") -> RawResponse:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return RawResponse(status, Headers([("Content-Type", kind)] if kind else []), body)


def account(content: bytes | Any, **more: Any) -> Account:
    return decode_model(Account, "GET", URL, answer(content, **more))


def refused(decode: Callable[[], object]) -> APIResponseError:
    with pytest.raises(APIResponseError) as caught:
        decode()
    error = caught.value
    assert (error.method, error.url) == ("GET", URL)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert str(error).isprintable()
    assert len(str(error)) < 1300
    return error


def test_a_model() -> None:
    got = account(ACCOUNT)
    assert (got.id, got.plan, got.api_key_last4) == ("acc_1", "pro", "wxyz")
    assert got.model_dump(mode="json") == ACCOUNT


def test_any_success_with_a_body_will_do() -> None:
    for status in (200, 201, 202, 206, 299):
        assert account(ACCOUNT, status=status).id == "acc_1"
    assert account(ACCOUNT, kind="text/plain").id == "acc_1"
    assert account(ACCOUNT, kind="").id == "acc_1"


WRONG: list[tuple[bytes, str]] = [
    (b"", "the answer (200) is empty"),
    (b" \r\n", "the answer (200) is empty"),
    (b"<!DOCTYPE html><html><body>502</body></html>", "is not JSON"),
    (b"{", "is not JSON"),
    (json.dumps(ACCOUNT).encode()[:-1], "is not JSON"),
    (json.dumps(ACCOUNT).encode()[:-20], "is not JSON"),
    (json.dumps(ACCOUNT).encode() + b"{}", "is not JSON"),
    (b"\xff\xfe\xfd", "is not JSON"),
    (json.dumps(ACCOUNT).replace("pro", "p\xe9").encode("latin-1"), "is not JSON"),
    (b"[" * 100_000, "recursion limit exceeded"),
    (b"[]", "the answer should be an object"),
    (b"[" + json.dumps(ACCOUNT).encode() + b"]", "the answer should be an object"),
    (b"null", "the answer should be an object"),
    (b"5", "the answer should be an object"),
    (b'"acc_1"', "the answer should be an object"),
    (b"{}", "id: Field required (and 4 more)"),
    (json.dumps({**ACCOUNT, "plan": None}).encode(), "plan should be a valid string"),
    (json.dumps({**ACCOUNT, "plan": 5}).encode(), "plan should be a valid string"),
    (json.dumps({**ACCOUNT, "plan": "\ud800"}).encode(), "is not JSON"),
    (json.dumps({**ACCOUNT, "created_at": "soon"}).encode(), "created_at should be a valid datetime"),
    (json.dumps({**ACCOUNT, "created_at": 10**12}).encode(), "created_at should be a valid datetime"),
    (json.dumps({**ACCOUNT, "created_at": 10**400}).encode(), "created_at should be a valid datetime"),
    (
        json.dumps({**ACCOUNT, "created_at": "2024-01-01T00:00:00"}).encode(),
        "created_at should have timezone",
    ),
    (json.dumps({**ACCOUNT, "created_at": "2024-01-01"}).encode(), "created_at should have timezone"),
    (json.dumps({**ACCOUNT, "created_at": None}).encode(), "created_at should be a valid datetime"),
]


@pytest.mark.parametrize(("content", "reason"), WRONG, ids=lambda value: ascii(value)[:40])
def test_what_is_no_such_model_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    error = refused(lambda: account(content))
    assert str(error).startswith("expected Account, but ")
    assert reason in error.message
    assert error.response is not None
    assert error.response.content == content


@pytest.mark.parametrize(
    ("field", "value", "reason"), [("confidence", 2.0, "less than"), ("chain_id", True, "integer")]
)
def test_a_number_that_is_none_is_refused_in_one_line(field: str, value: object, reason: str) -> None:
    """And the bytes are kept."""
    content = json.dumps({**SIGNAL, field: value}).encode()
    error = refused(lambda: decode_model(Signal, "GET", URL, answer(content)))
    assert reason in error.message
    assert error.message.startswith(f"expected Signal, but {field} should be ")
    assert "more)" not in error.message
    assert error.response is not None
    assert error.response.content == content


def test_204_where_a_body_is_due() -> None:
    assert "the answer (204) is empty" in refused(lambda: account(b"", status=204)).message


def test_another_kind_of_content_is_named() -> None:
    error = refused(lambda: account(b"<html>", kind="text/html; charset=utf-8"))
    assert "the answer (text/html) is not JSON" in error.message
    error = refused(lambda: account(b"<html>", kind="text/\x1b[2J" + "x" * 5000))
    assert r"\x1b" in error.message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("field", ["price_usd", "confidence", "a_new_field"])
def test_nan_and_infinity_are_no_json_wherever_they_stand(number: str, field: str) -> None:
    content = json.dumps({**SIGNAL, field: "@"}).replace('"@"', number).encode()
    assert "is not JSON" in refused(lambda: decode_model(Signal, "GET", URL, answer(content))).message
    page = b'{"data": [' + content + b"]}"
    assert "is not JSON" in refused(lambda: decode_page(Signal, "GET", URL, answer(page))).message


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
@pytest.mark.parametrize("field", ["price_usd", "a_new_field"])
@pytest.mark.parametrize("wrap", ["{}", '[{{"deep": [1, {}]}}]'])
def test_a_number_that_is_too_large_is_refused(number: str, field: str, wrap: str) -> None:
    content = json.dumps({**SIGNAL, field: "@"}).replace('"@"', wrap.format(number)).encode()
    assert f"but {field}" in refused(lambda: decode_model(Signal, "GET", URL, answer(content))).message


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity coin", '"NaN"'])
def test_a_token_may_be_called_that(name: str) -> None:
    assert decode_model(Signal, "GET", URL, answer({**SIGNAL, "token_symbol": name})).token_symbol == name


def test_unknown_fields_and_values_are_kept() -> None:
    got = account({**ACCOUNT, "plan": "platinum", "team": {"id": 7}, "flags": [1, None]})
    assert got.plan == "platinum"
    assert got.model_extra == {"team": {"id": 7}, "flags": [1, None]}
    assert got.model_dump(mode="json") == {**ACCOUNT, "plan": "platinum", "team": {"id": 7}, "flags": [1, None]}


def test_what_must_not_be_missing_and_what_may_be_null() -> None:
    trade = {
        "id": "t",
        "agent_id": "a",
        "token_address": "0x1",
        "token_symbol": "ABC",
        "chain_id": 56,
        "direction": "BUY",
        "entry_price_usd": 1.0,
        "exit_price_usd": None,
        "pnl_usd": None,
        "roi_pct": None,
        "status": "open",
        "opened_at": 1,
        "closed_at": None,
        "entry_tx_hash": "0x2",
        "exit_tx_hash": None,
    }
    got = decode_model(TradeDetail, "GET", URL, answer(trade))
    assert (got.exit_price_usd, got.closed_at, got.exit_tx_hash) == (None, None, None)
    for field in trade:
        less = {name: value for name, value in trade.items() if name != field}
        assert (
            f"{field}: Field required"
            in refused(
                lambda less=less: decode_model(TradeDetail, "GET", URL, answer(less))  # type: ignore[misc]  # bound now
            ).message
        )


# Pages


def test_a_page() -> None:
    page = decode_page(Signal, "GET", URL, answer({"data": [SIGNAL, SIGNAL], "next_cursor": "abc", "total": 9}))
    assert len(page.data) == 2
    assert isinstance(page.data[0], Signal)
    assert page.next_cursor == "abc"
    assert page.model_extra == {"total": 9}


@pytest.mark.parametrize("envelope", [{"data": []}, {"data": [], "next_cursor": None}, {"data": [], "next_cursor": ""}])
def test_no_cursor_in_any_writing(envelope: dict[str, Any]) -> None:
    assert decode_page(Signal, "GET", URL, answer(envelope)).next_cursor is None


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        ([], "but the answer should"),
        ([SIGNAL], "but the answer should"),
        ({}, "data: Field required"),
        ({"data": None}, "but data"),
        ({"data": {}}, "but data"),
        ({"data": SIGNAL}, "but data"),
        ({"data": "none"}, "but data"),
        ({"data": [None]}, "but data.0"),
        ({"data": [SIGNAL, {**SIGNAL, "price_usd": "much"}]}, "but data.1.price_usd"),
        ({"data": [], "next_cursor": 5}, "but next_cursor"),
        ({"data": [], "next_cursor": {}}, "but next_cursor"),
        ({"data": [SIGNAL] * 101}, "at most 100"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_no_page_is_refused(envelope: Any, reason: str) -> None:
    error = refused(lambda: decode_page(Signal, "GET", URL, answer(envelope)))
    assert str(error).startswith("expected a page of Signal, but ")
    assert reason in error.message


def test_a_hundred_items_are_a_page() -> None:
    assert len(decode_page(Signal, "GET", URL, answer({"data": [SIGNAL] * 100})).data) == 100


BALANCE = b'{"wallet_id": "w", "native_balance_usd": 1, "updated_at": 1, "token_balances": [%b]}'


@pytest.mark.parametrize(
    "decode",
    [
        lambda items: decode_page(Signal, "GET", URL, answer(b'{"data": [' + items + b"]}")),
        lambda items: decode_model(WalletBalance, "GET", URL, answer(BALANCE % items)),
    ],
    ids=["page", "balances"],
)
@pytest.mark.parametrize("item", [b"0", b"{}", b'{"id":0}'])
def test_four_mebibytes_of_wrong_items_are_refused_quickly(decode: Callable[[bytes], object], item: bytes) -> None:
    items = b",".join([item] * (4_000_000 // (len(item) + 1)))
    started = time.thread_time()
    error = refused(lambda: decode(items))
    assert time.thread_time() - started < 5
    assert ".0" in error.message
    assert not re.search(r"and \d\d+ more", error.message), "it went on after the first wrong item"


# The other ways to read an answer


def test_nothing_and_everything() -> None:
    decode_nothing("DELETE", URL, answer(b"<html>", status=204))
    response = answer(b"<html>")
    assert decode_raw("GET", URL, response) is response

    def decode(method: str, url: str, response: RawResponse) -> Account:
        return decode_model(Account, method, url, response)

    got, headers = decode_with_headers(decode)("GET", URL, answer(ACCOUNT))
    assert (got.id, headers["content-type"]) == ("acc_1", "application/json")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["acc_1", 1700000000]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ACCOUNT, *SIGNAL, "data"]), inner, max_size=8)
    ),
    max_leaves=12,
)


@given(anything)
def test_no_json_raises_anything_else(value: Any) -> None:
    for model in (Account, Usage, Agent, Wallet, WalletBalance, TradeDetail, Signal):
        with contextlib.suppress(APIResponseError):
            decode_model(model, "GET", URL, answer(value))
        with contextlib.suppress(APIResponseError):
            decode_page(model, "GET", URL, answer(value))


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    refused(lambda: account(content))
