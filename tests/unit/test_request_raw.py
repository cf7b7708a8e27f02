"""`client.request`: any path, but none that would lead elsewhere."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import APIConnectionError, InvalidArgumentError, TradeClient

from .._answers import BASE, KEY, Service, ok
from .._clock import VirtualClock

LOST = httpx.ReadError("the connection was lost")


def client_of(service: Service) -> TradeClient:
    http = httpx.Client(transport=httpx.MockTransport(service))
    return TradeClient(api_key=KEY, base_url=BASE, clock=VirtualClock(), http_client=http)


def raw(method: Any, path: Any, **more: Any) -> httpx.Request:
    """What is sent."""
    service = Service(ok({}))
    client_of(service).request(method, path, **more)
    return service.requests[0]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "one slash"),
        ("v1/account", "one slash"),
        ("//evil.example/v1", "one slash"),
        ("https://evil.example/v1", "one slash"),
        ("@evil.example/", "one slash"),
        (":80/", "one slash"),
        (None, "one slash"),
        (5, "one slash"),
        (b"/v1/account", "one slash"),
        ("/v1/a?b=c", "query="),
        ("/v1/a#b", "query="),
        ("/..", "segment"),
        ("/v1/..", "segment"),
        ("/v1/../admin", "segment"),
        ("/v1/./account", "segment"),
        ("/v1/%2e%2e/admin", "segment"),
        ("/v1/%2E%2E", "segment"),
        ("/v1/.%2e", "segment"),
        ("/v1/%2e%2e%2fadmin", "segment"),
        ("/v1/%2e%2fadmin", "segment"),
        ("/v1/x%2F..", "segment"),
        ("/v1/a b", "printable"),
        ("/v1/a\nb", "printable"),
        ("/v1/a\r\nHost: evil", "printable"),
        ("/v1/\x00", "printable"),
        ("/v1/é", "printable"),
        ("/v1/a\\b", "printable"),
        ("/\\evil.example", "printable"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        raw("GET", path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/account", "/v1/agents/a%20b", "/v1/a%2Fb", "/v2/x", "/v1/..."])
def test_any_other_path_is_taken_as_it_is(path: str) -> None:
    assert raw("GET", path).url.raw_path.decode() == path


@pytest.mark.parametrize("method", ["", "GETT", "HEAD", "CONNECT", "GET ", "GET\r\n", "ＧＥＴ", None, 5, b"GET"])  # noqa: RUF001 RUF100  # full-width letters
def test_other_methods_are_refused(method: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="method must be one of GET, PUT, PATCH, DELETE, POST"):
        raw(method, "/v1/account")


@pytest.mark.parametrize(
    ("method", "sent", "again"),
    [
        *(("get", "GET", True), ("Post", "POST", False), ("PUT", "PUT", True)),
        *(("patch", "PATCH", True), ("delete", "DELETE", True)),
    ],
)
def test_methods_in_any_case(method: str, sent: str, again: bool) -> None:
    """After a lost answer all but a POST are sent again, and nothing is looked up."""
    service = Service(LOST, *([ok({})] if again else []))
    client = client_of(service)
    if again:
        client.request(method, "/v1/x")
    else:
        with pytest.raises(APIConnectionError):
            client.request(method, "/v1/x")
    assert service.sent == [f"{sent} /v1/x"] * (1 + again)


def test_query_and_body() -> None:
    request = raw("POST", "/v1/x", query={"a": "1/2", "b": None, "c": True}, json={"n": None})
    assert request.url.raw_path == b"/v1/x?a=1%2F2&c=true"
    assert request.content == b'{"n":null}'  # unlike the typed methods, every value is the caller's own
    assert raw("POST", "/v1/x", json=[]).content == b"[]"
    without = raw("POST", "/v1/x")
    assert without.content == b""
    assert "content-type" not in without.headers


@given(st.text(alphabet="/.%2eEfF5cC?#@:\\ ;abv1\n", max_size=20) | st.text(max_size=20))
def test_no_path_leaves_the_service(path: str) -> None:
    try:
        request = raw("GET", path)
    except InvalidArgumentError:
        return
    assert f"{request.url.scheme}://{request.url.netloc.decode()}" == BASE
    assert request.url.userinfo == b""
    assert request.url.query == b""
    assert request.url.raw_path.count(b"/") == path.count("/")  # nothing was folded
