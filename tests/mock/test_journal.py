"""The journal of what was asked."""

from __future__ import annotations

import httpx
import pytest

from tradesdk_mock import JournalEntry, MockServer

from ._support import FULL, START, client


def test_what_is_noted(server: MockServer, api: httpx.Client, anyone: httpx.Client) -> None:
    api.get("/v1/agents", params={"status": "idle", "limit": 3})
    server.clock.advance(2)
    api.post("/v1/agents", json={"name": "n"})
    anyone.get("/v1/account?empty=")
    assert server.journal() == [
        JournalEntry("GET", "/v1/agents", {"status": "idle", "limit": "3"}, "main", "main", 200, START, n=1),
        JournalEntry("POST", "/v1/agents", {}, "main", "main", 400, START + 2, "invalid_request", {"name": "n"}, n=2),
        JournalEntry("GET", "/v1/account", {"empty": ""}, None, None, 401, START + 2, "unauthorized", n=3),
    ]


def test_by_tenant_and_cleared(server: MockServer, api: httpx.Client) -> None:
    api.get("/v1/account")
    with client(server, "mock_read_other") as other:
        other.get("/v1/trades")
    assert [entry.path for entry in server.journal("other")] == ["/v1/trades"]
    assert [entry.path for entry in server.journal("main")] == ["/v1/account"]
    assert server.journal("nobody") == []
    server.clear_journal()
    assert server.journal() == []


def test_from_a_number_on_and_a_part(server: MockServer, api: httpx.Client) -> None:
    for path in ("account", "trades", "agents", "wallets"):
        api.get(f"/v1/{path}")
    assert [entry.n for entry in server.journal(after=1)] == [2, 3, 4]
    assert [entry.n for entry in server.journal("main", after=1, limit=2)] == [2, 3]
    assert server.journal(after=4) == []
    with pytest.raises(ValueError, match=r"^limit: must be at least 1$"):
        server.journal(limit=0)


def test_no_key_is_ever_in_it(server: MockServer, api: httpx.Client) -> None:
    key = server.create_key()
    with client(server, key.value) as http:
        http.get("/v1/account")
    api.get("/v1/account")
    assert key.value not in repr(server.journal())
    assert FULL not in repr(server.journal())


def test_what_strangers_send_is_bounded(server: MockServer, api: httpx.Client) -> None:
    api.get("/v1/" + "a" * 20_000 + "?q=" + "b" * 20_000)
    api.post("/v1/agents", json={"name": "n" * 100_000})
    api.post("/v1/agents", content=b"{not json", headers={"Content-Type": "application/json"})
    long, large, broken = server.journal()
    assert len(long.path) <= 2_000
    assert len(long.query["q"]) <= 2_000
    assert large.body is None
    assert broken.body is None
    assert broken.error == "invalid_request"


@pytest.mark.parametrize("path", ["/v1/nothing", "/elsewhere"])
def test_unknown_paths_are_noted_too(server: MockServer, api: httpx.Client, path: str) -> None:
    api.get(path)
    assert [(entry.path, entry.status) for entry in server.journal()] == [(path, 404)]


def test_only_the_latest_are_kept(server: MockServer) -> None:
    entry = JournalEntry("GET", "/old", {}, None, None, 200, 0.0)
    server.world.journal.add(entry)
    for _ in range(10_000):
        server.world.journal.add(JournalEntry("GET", "/new", {}, None, None, 200, 0.0))
    assert len(server.journal()) == 10_000
    assert entry not in server.journal()


def test_a_deeply_nested_body_can_be_shown(server: MockServer, api: httpx.Client) -> None:
    nested = '{"a":' + "[" * 190 + "]" * 190 + "}"
    api.post("/v1/agents", content=nested, headers={"Content-Type": "application/json"})
    shown = api.get("/_mock/journal")
    assert shown.status_code == 200
    assert shown.json()["data"][0]["body"] == server.journal()[0].body == httpx.Response(200, content=nested).json()
