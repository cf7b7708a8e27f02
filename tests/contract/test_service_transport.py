"""Bodies, paths and the version prefix as the specification has them, shown on the mock over bare HTTP."""

import pytest

from ._wire import Wire, error_of


@pytest.mark.rule("transport.request-json", "error.400.malformed")
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'"text"', b"{'name': 1}", b'{"name": NaN}', b"\xff\xfe", b"[" * 20_000]
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/agents"), ("POST", "/wallets"), ("PATCH", "/agents/{id}")])
def test_a_body_that_is_no_json_object_is_refused(wire: Wire, method: str, path: str, content: bytes) -> None:
    path = path.format(id=wire.create()["id"])
    assert error_of(wire(method, path, content=content)) == (400, "invalid_request")


@pytest.mark.rule("transport.request-json")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_a_body_is_sent_as_json(wire: Wire, kind: str) -> None:
    answer = wire("POST", "/agents", content=b'{"name": "a"}', headers={"Content-Type": kind})
    assert error_of(answer) == (400, "invalid_request")
    assert "application/json" in answer.json()["error"]["message"]


@pytest.mark.rule("version.prefix")
@pytest.mark.parametrize("path", ["/account", "/v2/account", "/v0/account", "/V1/account"])
def test_every_path_carries_the_version(wire: Wire, path: str) -> None:
    answer = wire.http.get(wire.server.url + path, headers={"Authorization": f"Bearer {wire.key}"})
    assert error_of(answer) == (404, "not_found")


@pytest.mark.parametrize("path", ["/nothing", "/agents/a/b", "/wallets/x", "/agents/x/start", "/trades/x/execute"])
def test_paths_that_are_not_written_do_not_exist(wire: Wire, path: str) -> None:
    assert error_of(wire.get(path))[0] in (404, 405)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/agents"), ("DELETE", "/wallets"), ("POST", "/account"), ("PATCH", "/trades"), ("POST", "/trades")],
)
def test_methods_that_are_not_written_do_not_exist(wire: Wire, method: str, path: str) -> None:
    assert error_of(wire(method, path))[0] in (404, 405)


@pytest.mark.rule("transport.response-json")
def test_an_error_is_json_too(wire: Wire) -> None:
    answer = wire.get("/agents/nobody")
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.rule("transport.text")
def test_text_comes_back_as_it_was_sent(wire: Wire) -> None:
    name = 'Zoë "β" \\ \u2028 🚀 <b>'
    assert wire.get(f"/agents/{wire.create(name=name)['id']}").json()["name"] == name
