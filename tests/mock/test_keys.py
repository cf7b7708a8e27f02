"""Who may do what: keys, scopes, tenants."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer, MockServerError

from ._support import FULL, START, add_agent, add_wallet, client, connection, error, ok


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer unknown",
        "Basic " + FULL,
        FULL,
        f"Bearer {FULL} more",
        "Bearer mock_full_",
        "Bearer mock_write_x",
        "Bearer mock_full_a/b",
        "Bearer mock_full_" + "a" * 65,
        "Bearer " + "a" * 5_000,
    ],
)
def test_keys_that_are_none(anyone: httpx.Client, header: str) -> None:
    answer = anyone.get("/v1/account", headers={"Authorization": header})
    message = error(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "mock_" not in message, "a key is never echoed"


def test_no_header_two_headers_and_bytes_that_are_no_text(anyone: httpx.Client) -> None:
    error(anyone.get("/v1/account"), 401, "unauthorized")
    twice = [("Authorization", f"Bearer {FULL}")] * 2
    error(anyone.get("/v1/account", headers=twice), 401, "unauthorized")
    error(anyone.get("/v1/account", headers={b"Authorization": b"Bearer \xff\xfe"}), 401, "unauthorized")


def test_the_scheme_is_read_in_any_case(anyone: httpx.Client) -> None:
    ok(anyone.get("/v1/account", headers={"Authorization": f"bearer {FULL}"}))


def test_a_new_tenant_is_empty_and_on_the_pro_plan(api: httpx.Client) -> None:
    account = ok(api.get("/v1/account"))
    assert account == {
        "id": account["id"],
        "email": "main@example.test",
        "plan": "pro",
        "created_at": START,
        "api_key_last4": "main",
    }
    assert account["id"].startswith("acc_")
    for path in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions"):
        assert ok(api.get(path)) == {"data": []}


@pytest.mark.parametrize(
    ("key", "tenant", "plan"),
    [
        ("mock_full_free_bot", "bot", "free"),
        ("mock_read_pro_bot", "bot", "pro"),
        ("mock_full_enterprise_a_b", "a_b", "enterprise"),
        ("mock_full_free", "free", "pro"),
        ("mock_full_premium_bot", "premium_bot", "pro"),
    ],
)
def test_keys_by_pattern_say_their_tenant_and_plan(server: MockServer, key: str, tenant: str, plan: str) -> None:
    with client(server, key) as http:
        account = ok(http.get("/v1/account"))
    assert (account["email"], account["plan"]) == (f"{tenant}@example.test", plan)


@pytest.mark.parametrize("plan", ["free", "enterprise"])
def test_the_plan_in_a_key_counts_only_when_it_makes_the_tenant(server: MockServer, plan: str) -> None:
    with client(server, f"mock_full_{plan}_new") as http:
        assert ok(http.get("/v1/account"))["plan"] == plan
    server.populate("main")
    server.set_plan("main", "free")
    for scope in ("read", "full"):
        with client(server, f"mock_{scope}_{plan}_main") as http:
            assert ok(http.get("/v1/account"))["plan"] == "pro"
    assert server.create_key(plan=plan, tenant="main").tenant == "main"
    kept = server.world.store.one("SELECT plan, next_plan FROM tenants WHERE name = 'main'")
    assert kept == ("pro", "free"), "a downgrade that was asked for stays, too"


def test_full_and_read_keys_of_one_name_share_a_tenant(api: httpx.Client, reader: httpx.Client) -> None:
    wallet = add_wallet(api)
    assert [item["id"] for item in ok(reader.get("/v1/wallets"))["data"]] == [wallet]
    assert ok(reader.get("/v1/account"))["id"] == ok(api.get("/v1/account"))["id"]


def test_a_read_only_key_reads_everything_and_writes_nothing(rich: httpx.Client, reader: httpx.Client) -> None:
    agent = ok(rich.get("/v1/agents"))["data"][0]
    trade = ok(rich.get("/v1/trades"))["data"][0]["id"]
    before = rich.get(f"/v1/agents/{agent['id']}").json()
    for path in (
        "/v1/account",
        "/v1/account/usage",
        "/v1/agents",
        f"/v1/agents/{agent['id']}",
        "/v1/wallets",
        f"/v1/wallets/{agent['wallet_id']}/balance",
        "/v1/trades",
        f"/v1/trades/{trade}",
        "/v1/positions",
        "/v1/signals?chain=8453",
        "/v1/signals/history?chain=56",
    ):
        ok(reader.get(path))
    body = {"name": "n", "wallet_id": agent["wallet_id"], "chain_id": agent["chain_id"]}
    writes: list[tuple[str, str, Any]] = [
        ("POST", "/v1/agents", body),
        ("PATCH", f"/v1/agents/{agent['id']}", {"name": "other"}),
        ("DELETE", f"/v1/agents/{agent['id']}", None),
        ("POST", "/v1/wallets", connection()),
        # The scope comes first: neither the body nor the id matters.
        ("POST", "/v1/agents", {}),
        ("PATCH", "/v1/agents/unknown", {"name": "other"}),
        ("DELETE", "/v1/agents/unknown", None),
    ]
    for method, path, sent in writes:
        error(reader.request(method, path, json=sent), 403, "forbidden")
    assert rich.get(f"/v1/agents/{agent['id']}").json() == before
    assert len(ok(rich.get("/v1/wallets"))["data"]) == 2


def test_a_made_key_works_until_it_is_revoked(server: MockServer) -> None:
    key = server.create_key(name="laptop", scope="full-access", plan="free", tenant="acme")
    assert key.last4 == key.value[-4:]
    assert key.value not in repr(key)
    with client(server, key.value) as http:
        assert ok(http.get("/v1/account"))["api_key_last4"] == key.last4
        server.revoke_key(key.id)
        assert "revoked" in error(http.get("/v1/account"), 401, "unauthorized")


def test_keys_without_a_tenant_get_one_each(server: MockServer) -> None:
    one, two = server.create_key(), server.create_key()
    assert one.tenant != two.tenant
    assert one.value != two.value


def test_a_key_expires_by_the_clock(server: MockServer) -> None:
    key = server.create_key(tenant="acme")
    server.expire_key(key.id, at=START + 100)
    with client(server, key.value) as http:
        server.clock.advance(99)
        ok(http.get("/v1/account"))
        server.clock.advance(1)
        assert "expired" in error(http.get("/v1/account"), 401, "unauthorized")
        server.expire_key(server.create_key(tenant="acme").id)


def test_rotation_keeps_tenant_and_scope(server: MockServer) -> None:
    old = server.create_key(name="bot", scope="read-only", tenant="acme")
    new = server.rotate_key(old.id)
    assert (new.name, new.scope, new.tenant) == ("bot", "read-only", "acme")
    assert new.id != old.id
    with client(server, old.value) as http:
        error(http.get("/v1/account"), 401, "unauthorized")
    with client(server, new.value) as http:
        assert ok(http.get("/v1/account"))["api_key_last4"] == new.last4 != old.last4
        error(http.post("/v1/wallets", json={}), 403, "forbidden")


def test_a_scope_can_be_changed(server: MockServer) -> None:
    key = server.create_key(scope="read-only")
    with client(server, key.value) as http:
        error(http.post("/v1/wallets", json=connection()), 403, "forbidden")
        server.set_scope(key.id, "full-access")
        ok(http.post("/v1/wallets", json=connection()), 201)


@pytest.mark.rule("auth.secret")
def test_values_are_not_stored(server: MockServer, api: httpx.Client) -> None:
    key = server.create_key()
    ok(api.get("/v1/account"))
    for table in ("keys", "tenants", "meta"):
        for row in server.world.store.all(f"SELECT * FROM {table}"):  # noqa: S608 - names from the line above
            assert key.value not in str(row)
            assert FULL not in str(row)


def test_what_python_callers_get_wrong_is_said(server: MockServer) -> None:
    with pytest.raises(MockServerError, match="scope"):
        server.create_key(scope="admin")
    with pytest.raises(MockServerError, match="plan"):
        server.create_key(plan="gold")
    with pytest.raises(MockServerError, match="tenant name"):
        server.create_key(tenant="a b")
    with pytest.raises(MockServerError, match="no key 'key_1'"):
        server.revoke_key("key_1")
    with pytest.raises(MockServerError, match="no key 'key_1'"):
        server.rotate_key("key_1")
    with pytest.raises(MockServerError, match="a tenant is a name"):
        server.populate(["main"])  # type: ignore[arg-type]
    key = server.create_key()
    for at in (10**30, -1, float("nan"), float("inf")):
        with pytest.raises(MockServerError, match="not a time"):
            server.expire_key(key.id, at=at)
    with pytest.raises(MockServerError, match="scope"):
        server.set_scope(key.id, "everything")
    with pytest.raises(MockServerError, match="plan"):
        server.set_plan(key.tenant, "gold")


def test_a_value_instead_of_an_id_is_never_repeated(server: MockServer, anyone: httpx.Client) -> None:
    key = server.create_key()
    for value, said in (
        (key.value, "that is a key's value; its id begins with key_"),
        (FULL, "that is a key's value; its id begins with key_"),
        ("mock_read_me", "that is a key's value; its id begins with key_"),
        ("sk_live_secret", "that is not the id of a key, which begins with key_"),
    ):
        changes = (
            server.revoke_key,
            server.rotate_key,
            server.expire_key,
            partial(server.set_scope, scope="read-only"),
        )
        for change in changes:
            with pytest.raises(MockServerError) as caught:
                change(value)
            assert str(caught.value) == said
        for verb in ("revoke", "rotate", "expire", "scope"):
            body = {"scope": "read-only"} if verb == "scope" else {}
            assert error(anyone.post(f"/_mock/keys/{value}/{verb}", json=body), 404, "not_found") == f"{said}."
        assert value not in error(anyone.post(f"/_mock/keys/{value}/nonsense"), 404, "not_found")
    assert ok(anyone.get("/_mock/keys"))["data"][-1]["state"] == "valid"


def test_tenants_do_not_see_each_other(server: MockServer, rich: httpx.Client) -> None:
    server.populate("second")
    with client(server, "mock_full_second") as second:
        for path in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions"):
            mine = {item["id"] for item in ok(rich.get(path, params={"limit": 100}))["data"]}
            theirs = {item["id"] for item in ok(second.get(path, params={"limit": 100}))["data"]}
            assert mine
            assert theirs
            assert not mine & theirs
        agent = ok(rich.get("/v1/agents"))["data"][0]["id"]
        assert ok(second.get("/v1/trades", params={"agent_id": agent})) == {"data": []}
        add_agent(second, ok(second.get("/v1/wallets", params={"chain_id": 8453}))["data"][0]["id"])
        assert len(ok(rich.get("/v1/agents"))["data"]) == 6


def test_a_revoked_key_gives_no_new_one(server: MockServer) -> None:
    key = server.create_key(tenant="acme")
    server.revoke_key(key.id)
    with pytest.raises(MockServerError, match="is revoked"):
        server.rotate_key(key.id)
