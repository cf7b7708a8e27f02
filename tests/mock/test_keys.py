"""Keys and tenants that are made by control or by pattern. The rules of keys: tests/contract/test_service_auth."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServerError, MockService

from ._http import FULL, START, client, error, ok


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
def test_keys_by_pattern_say_their_tenant_and_plan(server: MockService, key: str, tenant: str, plan: str) -> None:
    with client(server, key) as http:
        account = ok(http.get("/v1/account"))
    assert (account["email"], account["plan"]) == (f"{tenant}@example.test", plan)


@pytest.mark.parametrize("plan", ["free", "enterprise"])
def test_the_plan_in_a_key_counts_only_when_it_makes_the_tenant(server: MockService, plan: Any) -> None:
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


def test_a_made_key_hides_its_value_and_keeps_its_name_through_a_rotation(server: MockService) -> None:
    key = server.create_key(name="laptop", scope="read-only", tenant="acme")
    assert key.last4 == key.value[-4:]
    assert key.value not in repr(key)
    new = server.rotate_key(key.id)
    assert (new.name, new.scope, new.tenant) == ("laptop", "read-only", "acme")
    assert new.id != key.id
    with pytest.raises(MockServerError, match="is revoked"):
        server.rotate_key(key.id)
    one, two = server.create_key(), server.create_key()
    assert one.tenant != two.tenant
    assert one.value != two.value


def test_full_and_read_keys_of_one_name_share_a_tenant(api: httpx.Client, reader: httpx.Client) -> None:
    assert ok(reader.get("/v1/account"))["id"] == ok(api.get("/v1/account"))["id"]


def test_a_key_expires_by_the_clock(server: MockService) -> None:
    key = server.create_key(tenant="acme")
    server.expire_key(key.id, at=START + 100)
    with client(server, key.value) as http:
        server.clock.advance(99)
        ok(http.get("/v1/account"))
        server.clock.advance(1)
        assert "expired" in error(http.get("/v1/account"), 401, "unauthorized")
        server.expire_key(server.create_key(tenant="acme").id)


@pytest.mark.rule("auth.secret")
def test_values_are_not_stored(server: MockService, api: httpx.Client) -> None:
    key = server.create_key()
    ok(api.get("/v1/account"))
    for table in ("keys", "tenants", "meta"):
        for row in server.world.store.all(f"SELECT * FROM {table}"):  # noqa: S608 - names from the line above
            assert key.value not in str(row)
            assert FULL not in str(row)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda mock, key: mock.create_key(scope="admin"), "scope"),
        (lambda mock, key: mock.create_key(plan="gold"), "plan"),
        (lambda mock, key: mock.create_key(tenant="a b"), "tenant name"),
        (lambda mock, key: mock.populate(["main"]), "a tenant is a name"),
        (lambda mock, key: mock.revoke_key("key_1"), "no key 'key_1'"),
        (lambda mock, key: mock.rotate_key("key_1"), "no key 'key_1'"),
        (lambda mock, key: mock.set_plan(key.tenant, "gold"), "plan"),
        *(
            (lambda mock, key, at=at: mock.expire_key(key.id, at=at), "not a time")
            for at in (10**30, -1, float("nan"), float("inf"))
        ),
    ],
)
def test_what_python_callers_get_wrong_is_said(server: MockService, call: Any, said: str) -> None:
    with pytest.raises(MockServerError, match=said):
        call(server, server.create_key())


def test_a_value_instead_of_an_id_is_never_repeated(server: MockService, anyone: httpx.Client) -> None:
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
        )
        for change in changes:
            with pytest.raises(MockServerError) as caught:
                change(value)
            assert str(caught.value) == said
        for verb in ("revoke", "rotate", "expire"):
            assert error(anyone.post(f"/_mock/keys/{value}/{verb}", json={}), 404, "not_found") == f"{said}."
        assert value not in error(anyone.post(f"/_mock/keys/{value}/nonsense"), 404, "not_found")
    assert ok(anyone.get("/_mock/keys"))["data"][-1]["state"] == "valid"
