"""Keys and scopes as the specification has them, shown on the mock over bare HTTP."""

from typing import Any

import pytest

from ._wire import Wire, error_of, proof

READS: list[tuple[str, dict[str, Any]]] = [
    ("/agents", {}),
    ("/trades", {}),
    ("/positions", {}),
    ("/wallets", {}),
    ("/signals", {"chain": 8453}),
    ("/signals/history", {"chain": 8453}),
]
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
]


@pytest.mark.rule("auth.required", "auth.missing")
@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
def test_every_endpoint_needs_a_key(wire: Wire, method: str, path: str) -> None:
    assert error_of(wire.with_key(None)(method, path)) == (401, "unauthorized")


@pytest.mark.rule("auth.missing", "auth.invalid", "error.401")
@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "mock_full_neighbour",
        "Token mock_full_neighbour",
        "Bearer unknown",
    ],
)
def test_only_a_known_bearer_key_counts(wire: Wire, header: str) -> None:
    answer = wire.with_key(None)("GET", "/account", headers={"Authorization": header})
    assert error_of(answer) == (401, "unauthorized")


@pytest.mark.rule("auth.revoked")
def test_a_revoked_key_ends_at_once(wire: Wire) -> None:
    key = wire.server.create_key(name="second", scope="full-access", tenant="revoking")
    second = wire.with_key(key.value)
    assert second.get("/account").status_code == 200
    wire.server.revoke_key(key.id)
    assert error_of(second.get("/account")) == (401, "unauthorized")


@pytest.mark.rule("auth.expired", "error.401")
def test_an_expired_key_is_refused(wire: Wire) -> None:
    key = wire.server.create_key(name="old", scope="full-access", tenant="expiring")
    wire.server.expire_key(key.id)
    assert error_of(wire.with_key(key.value).get("/account")) == (401, "unauthorized")


@pytest.mark.rule("account.api_key_last4", "auth.rotation")
@pytest.mark.parametrize("scope", ["read-only", "full-access"])
def test_rotation_replaces_a_key_by_one_of_the_same_scope(wire: Wire, scope: Any) -> None:
    old = wire.server.create_key(name="bot", scope=scope, tenant=f"rotating-{scope}")
    account = wire.with_key(old.value).get("/account").json()
    new = wire.server.rotate_key(old.id)
    assert error_of(wire.with_key(old.value).get("/account")) == (401, "unauthorized")
    after = wire.with_key(new.value).get("/account").json()
    assert after == account | {"api_key_last4": new.value[-4:]}
    assert new.value != old.value
    writes = wire.with_key(new.value).post("/wallets", proof()).status_code
    assert (writes == 403) is (scope == "read-only")


@pytest.mark.rule("account.api_key_last4")
def test_account_tells_the_last_four_of_the_key(wire: Wire) -> None:
    assert wire.key is not None
    assert wire.get("/account").json()["api_key_last4"] == wire.key[-4:]


@pytest.fixture
def reader(populated: Wire) -> Wire:
    """A read-only key of the populated tenant."""
    key = populated.server.create_key(name="reader", scope="read-only", plan="enterprise", tenant="populated")
    return populated.with_key(key.value)


@pytest.mark.rule("auth.scope.read-only.reads")
@pytest.mark.parametrize(("path", "query"), READS)
def test_a_read_only_key_reads(reader: Wire, path: str, query: dict[str, Any]) -> None:
    listed = reader.get(path, **query)
    assert listed.status_code == 200
    assert listed.json()["data"]


@pytest.mark.rule("auth.scope.read-only.reads")
@pytest.mark.parametrize("kind", ["agents", "trades"])
def test_a_read_only_key_reads_single_things(reader: Wire, kind: str) -> None:
    first = reader.get(f"/{kind}", limit=1).json()["data"][0]
    assert reader.get(f"/{kind}/{first['id']}").status_code == 200


@pytest.mark.rule("auth.scope.read-only.reads")
def test_a_read_only_key_reads_balances(reader: Wire) -> None:
    wallet = reader.get("/wallets", limit=1).json()["data"][0]
    assert reader.get(f"/wallets/{wallet['id']}/balance").status_code == 200


@pytest.mark.rule("auth.scope.read-only.writes", "auth.scope.forbidden", "error.403")
@pytest.mark.parametrize("write", ["create", "patch", "delete", "connect"])
def test_a_read_only_key_writes_nothing(reader: Wire, populated: Wire, write: str) -> None:
    agent = reader.get("/agents", limit=1).json()["data"][0]
    before = populated.get(f"/agents/{agent['id']}").json()
    body = {"name": "forbidden", "wallet_id": agent["wallet_id"], "chain_id": agent["chain_id"]}
    answer = {
        "create": lambda: reader.post("/agents", body),
        "patch": lambda: reader.patch(f"/agents/{agent['id']}", {"name": "forbidden"}),
        "delete": lambda: reader.delete(f"/agents/{agent['id']}"),
        "connect": lambda: reader.post("/wallets", proof(private_key="0x" + "77" * 32)),
    }[write]()
    assert error_of(answer) == (403, "forbidden")
    assert populated.get(f"/agents/{agent['id']}").json() == before
    assert "forbidden" not in {one["name"] for one in populated.get("/agents", limit=100).json()["data"]}


@pytest.mark.rule("auth.scope.full-access")
def test_a_full_key_writes(wire: Wire) -> None:
    agent = wire.create()
    assert wire.patch(f"/agents/{agent['id']}", {"name": "b"}).status_code == 200
    assert wire.delete(f"/agents/{agent['id']}").status_code == 204


@pytest.mark.rule("error.404.foreign")
@pytest.mark.parametrize("kind", ["agents", "trades"])
def test_things_of_another_account_do_not_exist(populated: Wire, wire: Wire, kind: str) -> None:
    theirs = populated.get(f"/{kind}", limit=1).json()["data"][0]["id"]
    assert error_of(wire.get(f"/{kind}/{theirs}")) == (404, "not_found")
    assert wire.get(f"/{kind}").json() == {"data": []}
