"""Bodies, paths and the version prefix as the specification has them, shown on the mock over bare HTTP."""

import httpx
import pytest

from .._rows import each_of
from ._wire import Wire, error_of


@pytest.fixture
def wire(wire: Wire, bare_http: httpx.Client) -> Wire:
    """Through sockets: what is sent is seen as it arrives."""
    return Wire(wire.server, wire.key, bare_http)


@pytest.fixture
def writes(wire: Wire) -> list[tuple[str, str]]:
    return [("POST", "/agents"), ("POST", "/wallets"), ("PATCH", f"/agents/{wire.create()['id']}")]


@pytest.mark.rule("transport.request-json", "error.400.malformed")
@each_of(
    "content",
    [
        *(b"", b"{", b"{]", b"[]", b"null", b'"text"', b"1", b"{'name': 1}", b"name=a&chain_id=8453"),
        *(b'{"name": NaN}', b'{"min_confidence": Infinity}', b'{"risk": {"stop_loss_pct": -Infinity}}'),
        *(b"\xff\xfe", b'{"name": "\xff"}', b'{"name": "\\ud800"}', b"\xef\xbb\xbf{}", b'{"name": "a"} {}'),
        *(b"[" * 100_000, b'{"a":' * 50_000),
    ],
    ids=lambda content: repr(content[:30]),
)
def test_a_body_that_is_no_json_object_is_refused(wire: Wire, writes: list[tuple[str, str]], content: bytes) -> None:
    for method, path in writes:
        assert error_of(wire(method, path, content=content)) == (400, "invalid_request")


@pytest.mark.rule("transport.request-json")
@each_of(
    ("kind", "accepted"),
    [
        *((kind, True) for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8")),
        *((kind, False) for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/jsonp")),
        ("application/json; charset=latin-1", False),
    ],
)
def test_a_body_is_sent_as_json(wire: Wire, writes: list[tuple[str, str]], kind: str, accepted: bool) -> None:
    headers = {"Content-Type": kind}
    if accepted:
        answer = wire(*writes[2], content=b'{"name": "\xc3\xa9"}', headers=headers)
        assert (answer.status_code, answer.json()["name"]) == (200, "é")
    for method, path in [] if accepted else writes:
        assert error_of(wire(method, path, content=b"{}", headers=headers), "JSON") == (400, "invalid_request")


@pytest.mark.rule("version.prefix")
@each_of("path", ["/account", "/v2/account", "/v0/account", "/V1/account", "/v1", "/v1/", "/"])
def test_every_path_carries_the_version(wire: Wire, path: str) -> None:
    answer = wire.http.get(wire.server.url + path, headers={"Authorization": f"Bearer {wire.key}"})
    assert error_of(answer) == (404, "not_found")


@pytest.mark.rule("transport.response-json")
@each_of("path", ["/agents/nobody", "/nothing", "/agents/a/b", "/wallets/x", "/agents/x/start"])
def test_paths_that_are_not_written_do_not_exist(wire: Wire, path: str) -> None:
    assert error_of(wire.get(path)) == (404, "not_found")


@pytest.mark.rule("transport.text")
def test_text_comes_back_as_it_was_sent(wire: Wire) -> None:
    name = 'Zoë "β" \\ \u2028 🚀 <b>'
    assert wire.get(f"/agents/{wire.create(name=name)['id']}").json()["name"] == name
