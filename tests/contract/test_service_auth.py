"""Keys and scopes as the specification has them, shown on the mock over bare HTTP."""

from typing import Any

import httpx
import pytest

from .._rows import each_of
from ._wire import Wire, error_of, proof

EVERY_PATH = [
    ("GET", "/account"),
    ("GET", "/account/usage"),
    ("GET", "/agents"),
    ("POST", "/agents"),
    ("GET", "/agents/x"),
    ("PATCH", "/agents/x"),
    ("DELETE", "/agents/x"),
    ("POST", "/wallets"),
    ("GET", "/wallets"),
    ("GET", "/wallets/x/balance"),
    ("GET", "/trades"),
    ("GET", "/trades/x"),
    ("GET", "/positions"),
    ("GET", "/signals"),
    ("GET", "/signals/history"),
    ("GET", "/signals/stream"),
]


@pytest.fixture
def wire(wire: Wire, bare_http: httpx.Client) -> Wire:
    """Through sockets: what is sent is seen as it arrives."""
    return Wire(wire.server, wire.key, bare_http)


@pytest.mark.rule("auth.required", "auth.missing")
@each_of(("method", "path"), EVERY_PATH)
def test_every_endpoint_needs_a_key(wire: Wire, method: str, path: str) -> None:
    answer = wire.with_key(None)(method, path)
    assert error_of(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.rule("auth.missing", "auth.invalid", "error.401", "stream.bearer")
@each_of(
    "header",
    [
        "",
        "Bearer",
        "Bearer unknown",
        "Basic dXNlcjpwYXNz",
        "{key}",
        "Basic {key}",
        "Token {key}",
        "Bearer {key} more",
        "Bearer mock_full_",
        "Bearer mock_write_x",
        "Bearer mock_full_a/b",
        "Bearer mock_full_" + "a" * 65,
        "Bearer " + "a" * 5_000,
    ],
)
@each_of("path", ["/account", "/signals/stream?chain=8453"])
def test_only_a_known_bearer_key_counts(wire: Wire, path: str, header: str) -> None:
    answer = wire.with_key(None)("GET", path, headers={"Authorization": header.format(key=wire.key)})
    assert error_of(answer) == (401, "unauthorized")
    assert "mock" not in answer.text, "a key is never echoed"


@pytest.mark.rule("auth.invalid")
def test_two_headers_and_bytes_that_are_no_text(wire: Wire) -> None:
    url, value = f"{wire.server.url}/v1/account", f"Bearer {wire.key}".encode()
    for headers in ([(b"authorization", value)] * 2, [(b"authorization", b"Bearer \xff\xfe")]):
        assert error_of(wire.http.get(url, headers=headers)) == (401, "unauthorized")
    assert wire.http.get(url, headers=[(b"authorization", value.replace(b"B", b"b"))]).is_success


@pytest.mark.rule("auth.revoked", "auth.expired", "error.401", "stream.bearer")
@pytest.mark.parametrize("end", ["revoke_key", "expire_key"])
def test_a_key_that_is_revoked_or_expired_ends_at_once(wire: Wire, end: str) -> None:
    key = wire.server.create_key(name="second", scope="full-access", tenant=end)
    second = wire.with_key(key.value)
    assert second.get("/account").status_code == 200
    getattr(wire.server, end)(key.id)
    for path in ("/account", "/signals/stream?chain=56"):
        assert error_of(second.get(path), {"revoke_key": "revoked", "expire_key": "expired"}[end])[0] == 401


@pytest.mark.rule("account.api_key_last4", "auth.rotation")
@pytest.mark.parametrize("scope", ["read-only", "full-access"])
def test_rotation_replaces_a_key_by_one_of_the_same_scope(wire: Wire, scope: Any) -> None:
    old = wire.server.create_key(name="bot", scope=scope, tenant=f"rotating-{scope}")
    account = wire.with_key(old.value).get("/account").json()
    assert account["api_key_last4"] == old.value[-4:]
    new = wire.server.rotate_key(old.id)
    assert error_of(wire.with_key(old.value).get("/account")) == (401, "unauthorized")
    after = wire.with_key(new.value).get("/account").json()
    assert after == account | {"api_key_last4": new.value[-4:]}
    assert new.value != old.value
    writes = wire.with_key(new.value).post("/wallets", proof()).status_code
    assert (writes == 403) is (scope == "read-only")


@pytest.mark.rule("auth.scope.read-only.reads", "auth.scope.read-only.writes", "auth.scope.forbidden", "error.403")
def test_a_read_only_key_reads_everything_and_writes_nothing(populated: Wire) -> None:
    key = populated.server.create_key(name="reader", scope="read-only", plan="enterprise", tenant="populated")
    reader = populated.with_key(key.value)
    for path in ("/agents", "/trades", "/positions", "/wallets", "/signals?chain=8453", "/signals/history?chain=56"):
        assert reader.get(path).json()["data"]
    agent, trade = (reader.get(f"/{kind}", limit=1).json()["data"][0] for kind in ("agents", "trades"))
    for path in (f"/agents/{agent['id']}", f"/trades/{trade['id']}", f"/wallets/{agent['wallet_id']}/balance"):
        assert reader.get(path).status_code == 200
    before = [populated.get(path).json() for path in (f"/agents/{agent['id']}", "/agents", "/wallets")]
    body = {"name": "forbidden", "wallet_id": agent["wallet_id"], "chain_id": agent["chain_id"]}
    for method, path, sent in (
        ("POST", "/agents", body),
        ("PATCH", f"/agents/{agent['id']}", {"name": "forbidden"}),
        ("DELETE", f"/agents/{agent['id']}", None),
        ("POST", "/wallets", proof(private_key="0x" + "77" * 32)),
        # The scope comes first: neither the body nor the id matters.
        ("POST", "/agents", {}),
        ("PATCH", "/agents/unknown", {"name": "forbidden"}),
        ("DELETE", "/agents/unknown", None),
    ):
        assert error_of(reader(method, path, body=sent)) == (403, "forbidden")
    assert [populated.get(path).json() for path in (f"/agents/{agent['id']}", "/agents", "/wallets")] == before


@pytest.mark.rule("auth.scope.full-access")
def test_a_full_key_writes(wire: Wire) -> None:
    agent = wire.create()
    assert wire.patch(f"/agents/{agent['id']}", {"name": "b"}).status_code == 200
    assert wire.delete(f"/agents/{agent['id']}").status_code == 204


@pytest.mark.rule("error.404.foreign")
def test_things_of_another_account_do_not_exist(populated: Wire, wire: Wire) -> None:
    for kind in ("agents", "trades", "wallets", "positions"):
        theirs = populated.get(f"/{kind}", limit=1).json()["data"][0]["id"]
        assert wire.get(f"/{kind}").json() == {"data": []}
        if kind in ("agents", "trades"):
            assert error_of(wire.get(f"/{kind}/{theirs}")) == (404, "not_found")
