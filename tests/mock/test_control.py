"""The control API: it moves the world, for programs on this machine only, and answers every mistake plainly."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockServer
from tradesdk_mock.control import check_local
from tradesdk_mock.errors import ApiError

from ._support import FULL, START, add_agent, add_wallet, client, error, ok

SERVICE_PATHS = ("/v1/account", "/v1/agents", "/v1/trades")


def test_status(server: MockServer, anyone: httpx.Client) -> None:
    server.populate("main")
    assert ok(anyone.get("/_mock/status")) == {
        "seed": 7,
        "now": START,
        "frozen": True,
        "db": None,
        "tenants": ["main"],
        "keys": 0,
        "agents": 6,
        "trades": 250,
    }


def test_keys(anyone: httpx.Client) -> None:
    made = ok(anyone.post("/_mock/keys", json={"name": "bot", "scope": "read-only", "plan": "free", "tenant": "acme"}))
    assert list(made) == ["id", "value", "name", "scope", "tenant", "last4"]
    headers = {"Authorization": f"Bearer {made['value']}"}
    assert ok(anyone.get("/v1/account", headers=headers))["plan"] == "free"
    listed = ok(anyone.get("/_mock/keys"))["data"]
    assert listed == [
        {
            "id": made["id"],
            "name": "bot",
            "scope": "read-only",
            "tenant": "acme",
            "last4": made["last4"],
            "state": "valid",
            "created_at": START,
        }
    ]
    changed = ok(anyone.post(f"/_mock/keys/{made['id']}/scope", json={"scope": "full-access"}))
    assert (changed["scope"], changed["state"]) == ("full-access", "valid")
    rotated = ok(anyone.post(f"/_mock/keys/{made['id']}/rotate"))
    assert rotated["scope"] == "full-access"
    error(anyone.get("/v1/account", headers=headers), 401, "unauthorized")
    later = ok(anyone.post(f"/_mock/keys/{rotated['id']}/expire", json={"at": START + 5}))
    assert later["state"] == "valid"
    assert ok(anyone.post(f"/_mock/keys/{rotated['id']}/expire"))["state"] == "expired"
    third = ok(anyone.post("/_mock/keys"))
    assert (third["name"], third["scope"]) == ("bot", "full-access")
    assert ok(anyone.post(f"/_mock/keys/{third['id']}/revoke"))["state"] == "revoked"
    states = [key["state"] for key in ok(anyone.get("/_mock/keys"))["data"]]
    assert states == ["revoked", "expired", "revoked"]


def test_plans(anyone: httpx.Client, api: httpx.Client) -> None:
    reset_at = ok(api.get("/v1/account/usage"))["reset_at"]
    down = ok(anyone.post("/_mock/tenants/main/plan", json={"plan": "free"}))
    assert down == {"tenant": "main", "plan": "pro", "next_plan": "free", "reset_at": reset_at}
    up = ok(anyone.post("/_mock/tenants/main/plan", json={"plan": "enterprise"}))
    assert up == {"tenant": "main", "plan": "enterprise", "next_plan": None, "reset_at": reset_at}


def test_populate(anyone: httpx.Client, api: httpx.Client) -> None:
    expected = {"wallets": 2, "agents": 6, "trades": 300, "positions": 8}
    assert ok(anyone.post("/_mock/tenants/main/populate", json={"trades": 300})) == expected
    assert ok(anyone.post("/_mock/tenants/main/populate")) == expected
    assert len(ok(api.get("/v1/agents"))["data"]) == 6


def test_agents(anyone: httpx.Client, api: httpx.Client) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    assert ok(anyone.post(f"/_mock/agents/{agent}/start")) == {"id": agent, "status": "active"}
    error(anyone.post(f"/_mock/agents/{agent}/start"), 409, "conflict")
    assert ok(anyone.post(f"/_mock/agents/{agent}/stop"))["status"] == "idle"
    error(anyone.post(f"/_mock/agents/{agent}/stop"), 409, "conflict")
    assert ok(anyone.post(f"/_mock/agents/{agent}/status", json={"status": "paused"}))["status"] == "paused"
    assert ok(api.get(f"/v1/agents/{agent}"))["status"] == "paused"
    error(anyone.post("/_mock/agents/unknown/start"), 404, "not_found")


def test_clock(server: MockServer, anyone: httpx.Client) -> None:
    assert ok(anyone.get("/_mock/clock")) == {"now": START, "frozen": True}
    assert ok(anyone.post("/_mock/clock", json={"advance": 1.5})) == {"now": START + 1.5, "frozen": True}
    assert ok(anyone.post("/_mock/clock", json={"set": START + 60})) == {"now": START + 60, "frozen": True}
    message = error(anyone.post("/_mock/clock", json={"set": START}), 400, "invalid_request")
    assert "allow_backwards" in message
    back = ok(anyone.post("/_mock/clock", json={"set": START, "allow_backwards": True, "advance": 1}))
    assert back["now"] == START + 1
    assert ok(anyone.post("/_mock/clock", json={"freeze": False}))["frozen"] is False
    assert not server.clock.frozen
    frozen = ok(anyone.post("/_mock/clock", json={"freeze": True}))
    assert server.clock.now() == frozen["now"]


def test_gaps(server: MockServer, anyone: httpx.Client) -> None:
    shown = ok(anyone.get("/_mock/gaps"))
    assert shown["options"] == GapOptions().as_dict()
    assert [info["name"] for info in shown["described"]] == list(shown["options"])
    changed = ok(anyone.put("/_mock/gaps", json={"write_status": "200/200", "clock_skew": 5}))
    assert changed["options"] == GapOptions(write_status="200/200", clock_skew=5).as_dict()
    assert server.gaps.write_status == "200/200"
    assert "mood" in error(anyone.put("/_mock/gaps", json={"mood": "1", "order": "oldest"}), 400, "invalid_request")
    assert server.gaps.order == "newest"


def test_reset(server: MockServer, anyone: httpx.Client, rich: httpx.Client) -> None:
    server.set_gaps(write_status="200/200")
    first = ok(rich.get("/v1/account"))["id"]
    assert ok(anyone.post("/_mock/reset"))["tenants"] == []
    assert server.journal() == []
    answer = rich.get("/v1/trades")
    assert ok(answer) == {"data": []}
    assert answer.headers["x-ratelimit-remaining"] == "299"
    assert ok(rich.get("/v1/account"))["id"] == first
    assert server.gaps.write_status == "200/200"
    assert ok(anyone.post("/_mock/reset", json={"seed": 99}))["seed"] == 99
    assert ok(rich.get("/v1/account"))["id"] != first
    server.reset(seed=7)
    assert ok(rich.get("/v1/account"))["id"] == first


def test_journal(anyone: httpx.Client, api: httpx.Client) -> None:
    api.get("/v1/agents?limit=5")
    listed = ok(anyone.get("/_mock/journal"))["data"]
    assert [(entry["path"], entry["query"], entry["status"]) for entry in listed] == [
        ("/v1/agents", {"limit": "5"}, 200)
    ]
    assert ok(anyone.delete("/_mock/journal")) == {"data": []}
    assert ok(anyone.get("/_mock/journal")) == {"data": []}


MISTAKES: list[tuple[str, str, Any]] = [
    ("POST", "/_mock/reset", {"seed": "7"}),
    ("POST", "/_mock/reset", {"seed": True}),
    ("POST", "/_mock/reset", {"sead": 7}),
    ("POST", "/_mock/reset", {"seed": 10**30}),
    ("POST", "/_mock/keys", {"scope": "admin"}),
    ("POST", "/_mock/keys", {"plan": "gold"}),
    ("POST", "/_mock/keys", {"tenant": "a b"}),
    ("POST", "/_mock/keys", {"tenant": 5}),
    ("POST", "/_mock/keys", {"name": ["x"]}),
    ("POST", "/_mock/keys/KEY/scope", {}),
    ("POST", "/_mock/keys/KEY/scope", {"scope": "admin"}),
    ("POST", "/_mock/keys/KEY/expire", {"at": "soon"}),
    ("POST", "/_mock/keys/KEY/expire", {"at": 10**30}),
    ("POST", "/_mock/keys/KEY/expire", {"at": 2**62}),
    ("POST", "/_mock/keys/KEY/expire", {"at": 1e300}),
    ("POST", "/_mock/keys/KEY/expire", {"at": -5}),
    ("POST", "/_mock/keys/KEY/revoke", {"now": True}),
    ("POST", "/_mock/tenants/main/plan", {}),
    ("POST", "/_mock/tenants/main/plan", {"plan": "gold"}),
    ("POST", "/_mock/tenants/no name/plan", {"plan": "pro"}),
    ("POST", "/_mock/tenants/main/populate", {"trades": 1}),
    ("POST", "/_mock/tenants/main/populate", {"trades": 10.5}),
    ("POST", "/_mock/tenants/main/populate", {"trades": 10**30}),
    ("POST", "/_mock/agents/AGENT/status", {}),
    ("POST", "/_mock/agents/AGENT/status", {"status": "asleep"}),
    ("POST", "/_mock/agents/AGENT/start", {"now": True}),
    ("POST", "/_mock/clock", {"set": "tomorrow"}),
    ("POST", "/_mock/clock", {"set": -5}),
    ("POST", "/_mock/clock", {"advance": -5}),
    ("POST", "/_mock/clock", {"advance": 1e300}),
    ("POST", "/_mock/clock", {"advance": 10**4_000}),
    ("POST", "/_mock/clock", {"set": 10**30}),
    ("POST", "/_mock/clock", {"freeze": 1}),
    ("POST", "/_mock/clock", {"advance": True}),
    ("POST", "/_mock/clock", {"speed": 2}),
    ("POST", "/_mock/clock", {"set": START + 5, "allow_backwards": "yes"}),
    ("POST", "/_mock/clock", {"freeze": False, "set": START + 5, "advance": -1}),
    ("PUT", "/_mock/gaps", {"order": "random"}),
    ("PUT", "/_mock/gaps", {"order": []}),
    ("PUT", "/_mock/gaps", {"clock_skew": 10**30}),
    ("PUT", "/_mock/gaps", []),
    ("POST", "/_mock/clock", "later"),
]


@pytest.mark.parametrize(("method", "path", "body"), MISTAKES)
def test_mistakes_are_answered_plainly_and_change_nothing(
    server: MockServer, api: httpx.Client, method: str, path: str, body: Any
) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    key = ok(api.get("/_mock/keys"))["data"][0]["id"]
    before = [api.get(known).content for known in ("/_mock/clock", "/_mock/gaps", "/_mock/keys", f"/v1/agents/{agent}")]
    error(api.request(method, path.replace("KEY", key).replace("AGENT", agent), json=body), 400, "invalid_request")
    after = [api.get(known).content for known in ("/_mock/clock", "/_mock/gaps", "/_mock/keys", f"/v1/agents/{agent}")]
    assert before == after


@pytest.mark.parametrize(
    "body",
    [
        {"freeze": True, "set": -5},
        {"freeze": True, "set": START - 10_000},
        {"freeze": True, "advance": -1},
        {"freeze": True, "set": START + 50_000, "advance": 1e300},
        {"freeze": True, "set": START + 50_000, "allow_backwards": 1},
    ],
)
def test_a_refused_change_of_the_clock_is_not_half_made(
    server: MockServer, anyone: httpx.Client, body: dict[str, Any]
) -> None:
    server.clock.resume()
    error(anyone.post("/_mock/clock", json=body), 400, "invalid_request")
    assert not server.clock.frozen
    assert server.clock.now() < START + 10_000


def test_paths_and_methods_that_do_not_exist(api: httpx.Client) -> None:
    key = ok(api.post("/_mock/keys"))["id"]
    for path in ("/_mock/", "/_mock/nothing", f"/_mock/keys/{key}", "/_mock/keys/a/b/c"):
        error(api.post(path), 404, "not_found")
    for path in (
        f"/_mock/keys/{key}/polish",
        "/_mock/tenants/main/move",
        "/_mock/agents/a/jump",
        "/_mock/keys/no/revoke",
    ):
        error(api.post(path), 404, "not_found")
    assert error(api.delete("/_mock/status"), 405, "invalid_request")
    assert api.delete("/_mock/status").headers["allow"] == "GET"


def test_bodies_that_are_no_json(api: httpx.Client) -> None:
    error(api.post("/_mock/reset", content=b"seed=1", headers={"Content-Type": "text/plain"}), 400, "invalid_request")
    error(api.post("/_mock/reset", content=b"{", headers={"Content-Type": "application/json"}), 400, "invalid_request")
    big = b'{"seed": ' + b" " * 1_100_000 + b"1}"
    error(api.post("/_mock/reset", content=big, headers={"Content-Type": "application/json"}), 400, "invalid_request")


def test_a_crash_is_answered_too(
    server: MockServer, api: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(server.world.journal, "clear", broken)
    assert "secret" not in error(api.delete("/_mock/journal"), 500, "internal_error")
    assert "crashed" in caplog.text
    ok(api.get("/_mock/status"))


def test_web_pages_are_kept_out(server: MockServer, api: httpx.Client) -> None:
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{server.port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "192.168.1.5"},
        {"Host": "[::1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        error(api.get("/_mock/status", headers=headers), 403, "forbidden")
        error(api.post("/_mock/reset", headers=headers), 403, "forbidden")
    for headers in (
        {"Host": "localhost"},
        {"Host": f"LOCALHOST:{server.port}"},
        {"Host": "127.0.0.2:80"},
        {"Host": "[::1]:80"},
        {"Origin": "http://localhost:3000"},
        {"Origin": server.url},
    ):
        ok(api.get("/_mock/status", headers=headers))
    # The service itself answers under any name.
    ok(api.get("/v1/account", headers={"Host": "api.example", "Origin": "https://shop.example"}))


@pytest.mark.parametrize(
    "peer", [("10.0.0.5", 1), ("192.168.0.1", 1), ("::ffff:10.0.0.5", 1), ("2001:db8::1", 1), None]
)
def test_other_machines_are_kept_out(peer: tuple[str, int] | None) -> None:
    with pytest.raises(ApiError, match="this machine only"):
        check_local({"type": "http", "client": peer, "headers": [(b"host", b"localhost")]})


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_let_in(peer: str) -> None:
    check_local({"type": "http", "client": (peer, 1), "headers": [(b"host", b"localhost:80")]})


def test_control_is_not_in_the_journal(server: MockServer, api: httpx.Client) -> None:
    api.get("/_mock/status")
    api.post("/_mock/nothing")
    assert server.journal() == []


def test_a_key_is_not_needed_and_not_looked_at(server: MockServer) -> None:
    with client(server, "nonsense") as http:
        ok(http.get("/_mock/status"))
    with client(server, FULL) as http:
        ok(http.get("/_mock/status"))
    assert server.world.store.value("SELECT count(*) FROM keys") == 0
