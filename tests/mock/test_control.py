"""The control API moves the world. Who may use it: test_remote_control; what can be wrong: test_control_mistakes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockServer, MockServerError

from ._support import FULL, START, add_agent, add_wallet, client, error, ok

SERVICE_PATHS = ("/v1/account", "/v1/agents", "/v1/trades")


def test_status(server: MockServer, anyone: httpx.Client) -> None:
    server.populate("main")
    assert ok(anyone.get("/_mock/status")) == {
        "seed": 7,
        "now": START,
        "service_now": START,
        "frozen": True,
        "speed": 1.0,
        "market": "live",
        "scenario": "ordinary",
        "db": None,
        "tenants": ["main"],
        "keys": 0,
        "agents": 6,
        "trades": 250,
        "signals": 0,
        "signals_upto": None,
        "settlements": 0,
        "streams": 0,
        "faults": 0,
        "gaps": {},
        "price_failure": False,
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
    def moved(**change: object) -> dict[str, Any]:
        return ok(anyone.post("/_mock/clock", json=change))

    server.set_gaps(clock_skew=90)
    still = {"now": START, "service_now": START + 90, "frozen": True, "speed": 1.0}
    assert ok(anyone.get("/_mock/clock")) == still
    assert moved(advance=1.5) == {**still, "now": START + 1.5, "service_now": START + 91.5}
    still.update(now=START + 60, service_now=START + 150)
    assert moved(set=START + 60) == still
    assert moved(speed=60) == {**still, "speed": 60.0}
    message = error(anyone.post("/_mock/clock", json={"set": START}), 400, "invalid_request")
    assert "allow_backwards" in message
    assert moved(set=START, allow_backwards=True, advance=1)["now"] == START + 1
    assert moved(freeze=False)["frozen"] is False
    assert not server.clock.frozen
    frozen = moved(freeze=True)
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
    server.add_fault("status", route="/v1/trades", status=500)
    server.emit_signal()
    begun = ok(anyone.post("/_mock/reset"))
    assert (begun["tenants"], begun["faults"], begun["signals"]) == ([], 0, 0)
    assert begun == ok(anyone.get("/_mock/status"))
    assert begun["gaps"] == {"write_status": "200/200"}
    assert server.journal() == []
    answer = rich.get("/v1/trades")
    assert ok(answer) == {"data": []}
    assert answer.headers["x-ratelimit-remaining"] == "299"
    assert ok(rich.get("/v1/account"))["id"] == first
    assert server.gaps.write_status == "200/200"
    assert ok(anyone.post("/_mock/reset", json={"seed": 99}))["seed"] == 99
    assert ok(rich.get("/v1/account"))["id"] != first
    assert ok(anyone.post("/_mock/reset", json={"seed": 7, "populate": ["b", "main"]}))["tenants"] == ["b", "main"]
    assert ok(rich.get("/v1/account"))["id"] == first
    assert len(ok(rich.get("/v1/agents"))["data"]) == 6


def test_methods_give_what_the_control_api_gives(server: MockServer, anyone: httpx.Client) -> None:
    server.create_key(tenant="acme")
    server.add_fault("status", route="/v1/nothing", status=500)
    assert server.list_keys() == ok(anyone.get("/_mock/keys"))["data"]
    assert server.status() == ok(anyone.get("/_mock/status"))
    server.reset(seed=99, populate=["main"])
    assert (server.status()["seed"], server.status()["tenants"]) == (99, ["main"])
    with pytest.raises(MockServerError, match="names of tenants"):
        server.reset(populate="main")
    assert server.status()["seed"] == 99


def test_journal(server: MockServer, anyone: httpx.Client, api: httpx.Client) -> None:
    def listed(query: str = "") -> tuple[list[str], int]:
        found = ok(anyone.get(f"/_mock/journal{query}"))
        return [entry["path"] for entry in found["data"]], found["last"]

    assert listed() == ([], 0)
    api.get("/v1/agents?limit=5")
    (entry,) = ok(anyone.get("/_mock/journal"))["data"]
    assert entry == asdict(server.journal()[0]) | {"faults": []}
    assert (entry["n"], entry["path"], entry["query"], entry["status"]) == (1, "/v1/agents", {"limit": "5"}, 200)
    anyone.get("/v1/account")
    api.get("/v1/trades")
    assert listed("?after=1") == (["/v1/account", "/v1/trades"], 3)
    assert listed("?tenant=main") == (["/v1/agents", "/v1/trades"], 3)
    assert listed("?after=3") == ([], 3)
    assert ok(anyone.delete("/_mock/journal")) == {"data": []}
    assert listed() == ([], 3), "whoever follows it by its numbers misses nothing"


def test_signals(server: MockServer, anyone: httpx.Client, api: httpx.Client) -> None:
    asked = {"chain_id": 56, "direction": "SELL", "confidence": 0.9, "price_usd": 2.5, "timestamp": START - 1}
    (signal,) = ok(anyone.post("/_mock/signals", json={**asked, "token": "cake"}))["data"]
    assert (signal | asked, signal["token_symbol"], signal["published_at"]) == (signal, "CAKE", START)
    published = signal.pop("published_at")
    assert ok(api.get("/v1/signals?chain=56&limit=1"))["data"] == [signal]
    several = ok(anyone.post("/_mock/signals", json={"count": 3, "every": 10, "at": published + 5}))["data"]
    assert [each["published_at"] for each in several] == [START + 5, START + 15, START + 25]
    together = ok(anyone.post("/_mock/signals", json={"count": 2}))["data"]
    assert [each["published_at"] for each in together] == [START, START]
    assert len({each["id"] for each in (*several, *together)}) == 5


def test_prices_that_fail(anyone: httpx.Client) -> None:
    anyone.put("/_mock/gaps", json={"paywall": "open"})
    asked = {"tokens": [{"identifier": "BRETT"}]}
    for failing, status in ((True, 502), (["DEGEN"], 200), (["BRETT"], 502), (False, 200)):
        assert ok(anyone.post("/_mock/market", json={"price_failure": failing})) == {"price_failure": failing}
        assert ok(anyone.get("/_mock/status"))["price_failure"] == failing
        assert anyone.post("/v1/token-prices", json=asked).status_code == status


def test_faults(server: MockServer, anyone: httpx.Client, api: httpx.Client) -> None:
    assert ok(anyone.get("/_mock/faults")) == {"data": []}
    asked = {"kind": "status", "route": "/v1/trades", "method": "GET", "count": 1, "status": 503}
    made = ok(anyone.post("/_mock/faults", json=asked))
    assert made == asdict(server.faults()[0])
    error(api.get("/v1/trades"), 503, "service_unavailable")
    ok(api.get("/v1/trades"))
    (listed,) = ok(anyone.get("/_mock/faults"))["data"]
    assert (listed["seen"], listed["fired"]) == (2, 1)
    second = ok(anyone.post("/_mock/faults", json={"kind": "drop", "route": "/v1/nothing"}))
    assert ok(anyone.get("/_mock/status"))["faults"] == 2
    assert ok(anyone.delete(f"/_mock/faults/{made['id']}")) == {"data": [second]}
    error(anyone.delete(f"/_mock/faults/{made['id']}"), 404, "not_found")
    assert ok(anyone.delete("/_mock/faults")) == {"data": []}
    kinds = ok(anyone.get("/_mock/faults/kinds"))["data"]
    assert {kind["on"] for kind in kinds} == {"response", "stream", "payment"}
    assert all(set(kind) == {"name", "on", "text", "parameters"} for kind in kinds)
    assert all(set(each) == {"name", "default", "text"} for kind in kinds for each in kind["parameters"])


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
