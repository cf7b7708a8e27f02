"""What can be wrong with a request to the control API: each mistake is answered plainly and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from ._support import START, add_agent, add_wallet, client, error, ok

MISTAKES: list[tuple[str, str, Any]] = [
    ("POST", "/_mock/reset", {"seed": "7"}),
    ("POST", "/_mock/reset", {"seed": True}),
    ("POST", "/_mock/reset", {"sead": 7}),
    ("POST", "/_mock/reset", {"seed": 10**30}),
    ("POST", "/_mock/reset", {"populate": "main"}),
    ("POST", "/_mock/reset", {"populate": [1]}),
    ("POST", "/_mock/reset", {"populate": ["a", "no name"]}),
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
    ("POST", "/_mock/clock", {"speed": 0}),
    ("POST", "/_mock/clock", {"speed": -1}),
    ("POST", "/_mock/clock", {"speed": 1e7}),
    ("POST", "/_mock/clock", {"speed": "fast"}),
    ("POST", "/_mock/clock", {"advance": 5, "speed": None, "later": 1}),
    ("POST", "/_mock/clock", {"set": START + 5, "allow_backwards": "yes"}),
    ("POST", "/_mock/clock", {"freeze": False, "set": START + 5, "advance": -1}),
    ("PUT", "/_mock/gaps", {"order": "random"}),
    ("PUT", "/_mock/gaps", {"order": []}),
    ("PUT", "/_mock/gaps", {"clock_skew": 10**30}),
    ("PUT", "/_mock/gaps", []),
    ("POST", "/_mock/clock", "later"),
    ("GET", "/_mock/journal?after=x", None),
    ("GET", "/_mock/journal?after=1&after=2", None),
    ("GET", "/_mock/journal?tenant=", None),
    ("GET", "/_mock/journal?aftr=0", None),
    ("POST", "/_mock/signals", {"chain_id": 1}),
    ("POST", "/_mock/signals", {"direction": "HOLD"}),
    ("POST", "/_mock/signals", {"confidence": 1.5}),
    ("POST", "/_mock/signals", {"price_usd": 0}),
    ("POST", "/_mock/signals", {"token": ""}),
    ("POST", "/_mock/signals", {"timestamp": 1.5}),
    ("POST", "/_mock/signals", {"at": -1}),
    ("POST", "/_mock/signals", {"count": 0}),
    ("POST", "/_mock/signals", {"count": 10_001}),
    ("POST", "/_mock/signals", {"count": 2, "every": -1}),
    ("POST", "/_mock/signals", {"count": 2, "every": 1e300}),
    ("POST", "/_mock/signals", {"count": 3, "at": 1e11 - 1, "every": 86_400}),
    ("POST", "/_mock/signals", {"symbol": "ETH"}),
    ("POST", "/_mock/signals", {"after": -1}),
    ("POST", "/_mock/signals", {"after": 1, "at": START + 1}),
    ("GET", "/_mock/journal?limit=0", None),
    ("GET", "/_mock/payments?path=v1", None),
    ("GET", "/_mock/payments?limit=10001", None),
    ("GET", "/_mock/payments/twice?within=-1", None),
    ("GET", "/_mock/payments/twice?within=soon", None),
    ("GET", "/_mock/payments/balances/nobody", None),
    ("PUT", f"/_mock/payments/balances/0x{'1' * 40}", {}),
    ("PUT", f"/_mock/payments/balances/0x{'1' * 40}", {"balance": "5"}),
    ("PUT", f"/_mock/payments/balances/0x{'1' * 40}", {"balance": -1}),
    ("PUT", f"/_mock/payments/balances/0x{'1' * 40}", {"balance": None}),
    ("PUT", "/_mock/gaps", {"self": 1}),
    ("POST", "/_mock/market", {}),
    ("POST", "/_mock/market", {"price_failure": "all"}),
    ("POST", "/_mock/market", {"price_failure": [1]}),
    ("POST", "/_mock/market", {"price_failure": ["NO SUCH TOKEN"]}),
    ("POST", "/_mock/faults", {}),
    ("POST", "/_mock/faults", {"kind": "earthquake"}),
    ("POST", "/_mock/faults", {"kind": ["status"]}),
    ("POST", "/_mock/faults", {"kind": "status", "status": 99}),
    ("POST", "/_mock/faults", {"kind": "status", "status": "500"}),
    ("POST", "/_mock/faults", {"kind": "status", "status": 500, "mood": 1}),
    ("POST", "/_mock/faults", {"kind": "latency", "seconds": -1}),
    ("POST", "/_mock/faults", {"kind": "reset", "nth": 0}),
    ("POST", "/_mock/faults", {"kind": "reset", "nth": 1, "every": 2}),
    ("POST", "/_mock/faults", {"kind": "reset", "probability": 1.5}),
    ("POST", "/_mock/faults", {"kind": "reset", "count": True}),
    ("POST", "/_mock/faults", {"kind": "reset", "route": "v1/trades"}),
    ("POST", "/_mock/faults", {"kind": "reset", "method": 5}),
    ("POST", "/_mock/faults", {"kind": "reset", "tenant": "a" * 100}),
]


@pytest.fixture(scope="module")
def untouched() -> Iterator[tuple[httpx.Client, str, str]]:
    """A world that no mistake changes, so that one will do for all of them: a client, an agent and a key of it."""
    with MockServer(clock=MockClock(START)) as server, client(server, "mock_full_enterprise_main") as http:
        agent = add_agent(http, add_wallet(http))["id"]
        yield http, agent, ok(http.get("/_mock/keys"))["data"][0]["id"]


@pytest.mark.parametrize(("method", "path", "body"), MISTAKES)
def test_mistakes_are_answered_plainly_and_change_nothing(
    untouched: tuple[httpx.Client, str, str], method: str, path: str, body: Any
) -> None:
    api, agent, key = untouched
    looks = ("/_mock/status", "/_mock/clock", "/_mock/gaps", "/_mock/keys", f"/v1/agents/{agent}")
    before = [api.get(known).content for known in looks]
    error(api.request(method, path.replace("KEY", key).replace("AGENT", agent), json=body), 400, "invalid_request")
    assert [api.get(known).content for known in looks] == before


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "reset", {"sed": 7}, "sed: not a field of this request; it has: seed, scenario, populate"),
        ("POST", "agents/agt_1/start", {"now": 1}, "now: not a field of this request; it has none"),
        ("POST", "reset", {"seed": "7"}, "seed: must be an integer"),
        ("POST", "reset", {"populate": "me"}, "populate: must be a list"),
        ("POST", "keys", {"name": 5}, "name: must be text"),
        ("POST", "clock", {"advance": "1h"}, "advance: must be a number"),
        ("POST", "clock", {"freeze": 1}, "freeze: must be true or false"),
        ("POST", "market", {"price_failure": "all"}, "price_failure: must be true or false or a list"),
        ("GET", "journal?aftr=0", None, "aftr: not a parameter of this request; it has: tenant, after, limit"),
        (
            "POST",
            "clock",
            {"set": START - 10_000},
            f'the clock shows {START}.000; going back to {START - 10_000}.000 needs "allow_backwards": true',
        ),
    ],
)
def test_it_is_said_what_would_be_right(anyone: httpx.Client, method: str, path: str, body: Any, said: str) -> None:
    assert error(anyone.request(method, f"/_mock/{path}", json=body), 400, "invalid_request") == said


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


def test_a_refused_reset_forgets_nothing(server: MockServer, api: httpx.Client) -> None:
    server.add_fault("latency", seconds=0)
    ok(api.get("/v1/account"))
    before = ok(api.get("/_mock/status")), server.journal()
    error(api.post("/_mock/reset", json={"seed": 9, "populate": ["a", "no name"]}), 400, "invalid_request")
    assert (ok(api.get("/_mock/status")), server.journal()) == before
    assert ok(api.get("/v1/account/usage"))["requests"]["used"] == 2


def test_what_fails_halfway_leaves_no_other_seed_and_options_behind(
    server: MockServer, api: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    first = ok(api.get("/v1/account"))["id"]
    with monkeypatch.context() as patched:
        patched.setattr(server.world, "_save_clock", full)
        error(api.post("/_mock/reset", json={"seed": 9}), 500, "internal_error")
        patched.setattr(server.world, "_save_gaps", full)
        error(api.put("/_mock/gaps", json={"order": "oldest"}), 500, "internal_error")
    assert "disk is full" in caplog.text
    status = ok(api.get("/_mock/status"))
    assert (status["seed"], status["gaps"], status["tenants"]) == (7, {}, ["main"])
    assert ok(api.get("/v1/account"))["id"] == first


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
