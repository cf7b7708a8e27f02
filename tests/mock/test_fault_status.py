"""The fault `status`: another answer, over real sockets and in process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.control.service import MockService

from ._faulty import CARRIERS, carried, connect
from ._support import FULL, START, add_wallet, error, ok

PATH = "/v1/account"
RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "not_found"),
        (409, "conflict"),
        (422, "validation_error"),
        (429, "rate_limited"),
        (500, "internal_error"),
        (503, "service_unavailable"),
        (418, "i_m_a_teapot"),
        (504, "gateway_timeout"),
        (599, "status_599"),
        (302, "found"),
    ],
)
def test_status(mock: MockService, http: httpx.Client, status: int, code: str) -> None:
    rule = mock.add_fault("status", route=PATH, status=status)
    answer = http.get(PATH)
    assert rule.id in error(answer, status, code)
    assert all(name in answer.headers for name in RATE)
    assert mock.journal()[-1].error == code
    assert mock.journal()[-1].status == status
    error(http.get("/v1/agents/none"), 404, "not_found")
    mock.clear_faults()
    ok(http.get(PATH))


def test_status_with_everything(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault(
        "status",
        status=500,
        code="broken",
        message='a "message"\nof two lines',
        headers={"X-Trace": "abc", "Content-Type": "text/plain", "X-Number": 7, "Date": "today"},
        retry_after=9,
    )
    answer = http.get(PATH)
    assert answer.status_code == 500
    assert answer.json() == {"error": {"code": "broken", "message": 'a "message"\nof two lines'}}
    assert [answer.headers[name] for name in ("x-trace", "x-number", "retry-after")] == ["abc", "7", "9"]
    assert answer.headers.get_list("content-type") == ["text/plain"]
    assert answer.headers.get_list("date") == ["today"]


@pytest.mark.parametrize(
    ("status", "given", "expected"),
    [
        (429, {}, "1"),
        (429, {"retry_after": 30}, "30"),
        (429, {"retry_after": ""}, None),
        (503, {}, None),
        (503, {"retry_after": 0}, "0"),
        (503, {"retry_after": "Fri, 15 Jan 2027 08:00:09 GMT"}, "Fri, 15 Jan 2027 08:00:09 GMT"),
    ],
)
def test_retry_after(
    mock: MockService, http: httpx.Client, status: int, given: dict[str, Any], expected: str | None
) -> None:
    mock.add_fault("status", status=status, **given)
    assert http.get(PATH).headers.get("retry-after") == expected


@pytest.mark.parametrize("status", [204, 304])
def test_status_without_a_body(mock: MockService, http: httpx.Client, status: int) -> None:
    mock.add_fault("status", status=status, count=1)
    answer = http.get(PATH)
    assert answer.status_code == status
    assert answer.content == b""
    ok(http.get(PATH))


def test_status_counts_nothing_of_the_rate_limit(mock: MockService, http: httpx.Client) -> None:
    before = ok(http.get("/v1/account/usage"))["requests"]["used"]
    mock.add_fault("status", status=503, count=3)
    left = {http.get(PATH).headers["x-ratelimit-remaining"] for _ in range(3)}
    assert left == {"299"}
    assert http.get(PATH).headers["x-ratelimit-remaining"] == "298"
    assert ok(http.get("/v1/account/usage"))["requests"]["used"] == before + 2


def test_status_for_nobody(mock: MockService) -> None:
    """Without a key the headers are those that a stranger gets; by gap option there are none."""
    mock.add_fault("status", status=401)
    with connect(mock, None) as http:
        answer = http.get(PATH)
        error(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["x-ratelimit-limit"] == "60"
        mock.set_gaps(rate_headers="never")
        assert not any(name in http.get(PATH).headers for name in RATE)


def test_status_instead_of_a_create(mock: MockService, http: httpx.Client) -> None:
    wallet_id = add_wallet(http)
    body = {"name": "one", "wallet_id": wallet_id, "chain_id": 8453}
    mock.add_fault("status", route="/v1/agents", method="POST", status=500, count=1)
    error(http.post("/v1/agents", json=body), 500, "internal_error")
    assert ok(http.get("/v1/agents"))["data"] == []


def test_status_after_a_create(mock: MockService, http: httpx.Client) -> None:
    """`executed`: the request was carried out, and nobody is told."""
    wallet_id = add_wallet(http)
    body = {"name": "one", "wallet_id": wallet_id, "chain_id": 8453}
    mock.add_fault("status", route="/v1/agents", method="POST", status=503, executed=True, retry_after=2)
    answer = http.post("/v1/agents", json=body)
    error(answer, 503, "service_unavailable")
    assert answer.headers["retry-after"] == "2"
    assert answer.headers["x-ratelimit-remaining"] == "298"  # it was counted
    assert all(len(answer.headers.get_list(name)) == 1 for name in (*RATE, "date", "content-length"))
    assert [agent["name"] for agent in ok(http.get("/v1/agents"))["data"]] == ["one"]


@pytest.mark.parametrize("executed", [False, True])
@pytest.mark.parametrize("status", [400, 404, 502, 429, 500])
def test_status_of_market_data(mock: MockService, http: httpx.Client, status: int, executed: bool) -> None:
    mock.add_fault("status", route="/v1/supported-tokens", status=status, message="no", executed=executed)
    answer = http.post("/v1/supported-tokens", json={})
    assert answer.status_code == status
    if status in (400, 404, 502):
        assert answer.json() == {"success": False, "data": None, "error": "no"}
    else:
        assert answer.json()["error"]["message"] == "no"
    assert not any(name in answer.headers for name in RATE)


def test_status_with_unknown_values(mock: MockService, http: httpx.Client) -> None:
    mock.set_gaps(unknown_values="on")
    mock.add_fault("status", status=409)
    assert set(http.get(PATH).json()["error"]) == {"code", "message", "introduced_later"}


def test_numbers_are_words_too(mock: MockService, http: httpx.Client) -> None:
    """A command line can't say which it means."""
    mock.add_fault("status", code=7, message=1.5)
    assert http.get(PATH).json() == {"error": {"code": "7", "message": "1.5"}}


@pytest.mark.parametrize("status", [429, 503])
def test_the_reset_is_no_later_than_retry_after(status: int) -> None:
    with (
        MockService(clock=MockClock(START)) as mock,
        httpx.Client(
            transport=mock.transport(), base_url=mock.url, headers={"Authorization": f"Bearer {FULL}"}
        ) as http,
    ):
        mock.add_fault("status", status=status, retry_after=3, count=1)
        assert http.get("/v1/account").headers["x-ratelimit-reset"] == str(START + 3)
        mock.add_fault("status", status=status, retry_after=300, count=1)
        assert http.get("/v1/account").headers["x-ratelimit-reset"] == str(START + 60)
