"""`client.request`: any path, but none that would lead elsewhere."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import InvalidArgumentError
from tradesdk._http.request import Request, raw_request
from tradesdk._http.response import decode_raw
from tradesdk._http.retry import Operation
from tradesdk._values.http import RawResponse


def raw(method: Any, path: Any, **more: Any) -> Request[RawResponse]:
    return raw_request(method, path, decode_raw, **more)


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
    assert raw("GET", path).path == path


@pytest.mark.parametrize("method", ["", "GETT", "HEAD", "CONNECT", "GET ", "GET\r\n", "ＧＥＴ", None, 5, b"GET"])  # noqa: RUF001 RUF100  # full-width letters
def test_other_methods_are_refused(method: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="method must be one of GET, PUT, PATCH, DELETE, POST"):
        raw(method, "/v1/account")


@pytest.mark.parametrize(
    ("method", "sent", "operation"),
    [
        ("get", "GET", Operation.READ),
        ("Post", "POST", Operation.CREATE),
        ("PUT", "PUT", Operation.WRITE),
        ("patch", "PATCH", Operation.WRITE),
        ("delete", "DELETE", Operation.WRITE),
    ],
)
def test_methods_in_any_case(method: str, sent: str, operation: Operation) -> None:
    request = raw(method, "/v1/x")
    assert (request.method, request.operation, request.lookup) == (sent, operation, None)


def test_query_and_body() -> None:
    request = raw("POST", "/v1/x", query={"a": "1/2", "b": None, "c": True}, body={"n": None})
    assert request.target == "/v1/x?a=1%2F2&c=true"
    assert request.body == b'{"n":null}'  # unlike the typed methods, every value is the caller's own
    assert raw("POST", "/v1/x", body=[]).body == b"[]"
    assert raw("POST", "/v1/x").body is None


@given(st.text(alphabet="/.%2eEfF5cC?#@:\\ ;abv1\n", max_size=20) | st.text(max_size=20))
def test_no_path_leaves_the_service(path: str) -> None:
    try:
        request = raw("GET", path)
    except InvalidArgumentError:
        return
    url = httpx.URL("https://api.example.com" + request.path)
    assert url.host == "api.example.com"
    assert url.port is None
    assert url.userinfo == b""
    assert url.query == b""
    assert url.raw_path.count(b"/") == path.count("/")  # nothing was folded
