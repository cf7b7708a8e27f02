"""Pages: every item once, whatever is added meanwhile; cursors that nobody can bend."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServer

from ._support import START, add_agent, client, error, ok, walk


@pytest.mark.parametrize("limit", [1, 7, 20, 50, 100])
def test_every_trade_once_whatever_the_page_size(rich: httpx.Client, limit: int) -> None:
    everything = walk(rich, "/v1/trades", limit=100)
    if limit > 1:
        assert walk(rich, "/v1/trades", limit=limit) == everything
    page = ok(rich.get("/v1/trades", params={"limit": limit}))
    assert page["data"] == everything[:limit]


def test_the_default_is_twenty(rich: httpx.Client) -> None:
    for path in ("/v1/trades", "/v1/signals?chain=8453", "/v1/signals/history?chain=8453"):
        assert len(ok(rich.get(path))["data"]) == 20


def test_a_last_page_has_no_cursor(rich: httpx.Client) -> None:
    assert set(ok(rich.get("/v1/agents?limit=6"))) == {"data"}
    assert set(ok(rich.get("/v1/agents?limit=5"))) == {"data", "next_cursor"}


def test_page_sizes_may_change_on_the_way(rich: httpx.Client) -> None:
    everything = walk(rich, "/v1/trades", limit=100)
    first = ok(rich.get("/v1/trades?limit=10"))
    rest = walk(rich, "/v1/trades", limit=100, cursor=first["next_cursor"])
    assert first["data"] + rest == everything


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions"])
@pytest.mark.parametrize("limit", ["0", "101", "-5"])
def test_limits_out_of_range(api: httpx.Client, path: str, limit: str) -> None:
    assert error(api.get(path, params={"limit": limit}), 422, "validation_error").startswith("limit: ")
    error(api.get(path, params={"limit": "many"}), 400, "invalid_request")


def test_ties_in_time_are_no_trouble(server: MockServer, rich: httpx.Client) -> None:
    wallet = ok(rich.get("/v1/wallets?chain_id=8453"))["data"][0]["id"]
    made = [add_agent(rich, wallet, name=f"agent {number}")["id"] for number in range(15)]
    found = [agent["id"] for agent in walk(rich, "/v1/agents", limit=4)]
    assert found[:15] == made[::-1]
    assert len(found) == len(set(found)) == 21


@pytest.fixture(scope="module")
def shared() -> Iterator[MockServer]:
    with MockServer(clock=MockClock(START)) as running:
        running.create_key(plan="enterprise", tenant="busy")
        running.populate("busy")
        yield running


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=8), changes=st.lists(st.sampled_from("+-."), max_size=8))
def test_a_walk_sees_what_was_there_once_while_rows_come_and_go(
    shared: MockServer, sizes: list[int], changes: list[str]
) -> None:
    shared.world.limiter.clear()
    with client(shared, "mock_full_enterprise_busy") as http:
        wallet = ok(http.get("/v1/wallets?chain_id=8453"))["data"][0]["id"]
        for agent in walk(http, "/v1/agents", limit=100, status="idle"):
            http.delete(f"/v1/agents/{agent['id']}")
        for number in range(12):
            shared.clock.advance(number % 2)
            add_agent(http, wallet, name=f"old {number}")
        before = [agent["id"] for agent in walk(http, "/v1/agents", limit=100)]
        seen: list[str] = []
        added: list[str] = []
        query: dict[str, Any] = {}
        step = 0
        while True:
            page = ok(http.get("/v1/agents", params={**query, "limit": sizes[step % len(sizes)]}))
            seen += [agent["id"] for agent in page["data"]]
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
            change = changes[step] if step < len(changes) else "."
            if change == "+":
                added.append(add_agent(http, wallet, name="new")["id"])
            elif change == "-":
                # The very row that the cursor points at goes away, if its state allows that.
                http.delete(f"/v1/agents/{seen[-1]}")
            step += 1
        assert seen == before
        assert not set(added) & set(seen)
        for ident in added:
            http.delete(f"/v1/agents/{ident}")


def flip(text: str, place: int) -> str:
    raw = bytearray(base64.urlsafe_b64decode(text))
    raw[place % len(raw)] ^= 1
    return base64.urlsafe_b64encode(bytes(raw)).decode()


def test_cursors_that_were_tampered_with(rich: httpx.Client) -> None:
    cursor = ok(rich.get("/v1/trades?limit=5"))["next_cursor"]
    bent = [flip(cursor, place) for place in range(36)]
    others = [
        cursor[:-1],
        cursor[1:],
        cursor + "=",
        cursor * 2,
        cursor + "\n",
        " " + cursor,
        "AAAA",
        "1",
        "é",
        "%",
        "null",
    ]
    others += [cursor.replace("_", "/").replace("-", "+") + "!", "A" * 5_000, "A" * 48]
    for text in bent + others:
        answer = rich.get("/v1/trades", params={"limit": 5, "cursor": text})
        assert error(answer, 400, "invalid_request").startswith("cursor: "), text
    error(rich.get("/v1/trades?cursor="), 400, "invalid_request")
    ok(rich.get("/v1/trades", params={"cursor": cursor}))


def test_cursors_belong_to_a_list_its_filters_and_a_tenant(server: MockServer, rich: httpx.Client) -> None:
    cursor = ok(rich.get("/v1/trades?limit=5&status=closed"))["next_cursor"]
    for path in (
        "/v1/trades",
        "/v1/trades?status=open",
        "/v1/trades?status=closed&agent_id=x",
        "/v1/positions",
        "/v1/agents",
        "/v1/wallets",
        "/v1/signals/history?chain=8453",
    ):
        joined = f"{path}{'&' if '?' in path else '?'}cursor={cursor}"
        error(rich.get(joined), 400, "invalid_request")
    signals = ok(rich.get("/v1/signals/history?chain=8453"))["next_cursor"]
    error(rich.get(f"/v1/signals/history?chain=56&cursor={signals}"), 400, "invalid_request")
    error(rich.get(f"/v1/signals/history?chain=8453&from=5&cursor={signals}"), 400, "invalid_request")
    server.populate("other")
    with client(server, "mock_full_other") as other:
        error(other.get(f"/v1/trades?status=closed&cursor={cursor}"), 400, "invalid_request")
        error(other.get(f"/v1/signals/history?chain=8453&cursor={signals}"), 400, "invalid_request")
    with client(server, "mock_read_main") as same:
        ok(same.get(f"/v1/trades?status=closed&cursor={cursor}"))


def test_a_cursor_of_another_seed_is_foreign(rich: httpx.Client) -> None:
    cursor = ok(rich.get("/v1/trades?limit=5"))["next_cursor"]
    with MockServer(seed=8, clock=MockClock(START)) as second, client(second) as http:
        second.populate("main")
        error(http.get("/v1/trades", params={"cursor": cursor}), 400, "invalid_request")


def test_cursors_do_not_age_by_default() -> None:
    # On a market of its own agents would have a month of trades to catch up with.
    with MockServer(clock=MockClock(START), signals="scripted") as server, client(server) as rich:
        server.populate("main")
        cursor = ok(rich.get("/v1/trades?limit=5"))["next_cursor"]
        server.clock.advance(400 * 86_400)
        ok(rich.get("/v1/trades", params={"cursor": cursor}))


@pytest.mark.parametrize(
    "query",
    [
        "agents WHERE tenant = ? AND (created_at, seq) < (?, ?) ORDER BY created_at DESC, seq DESC",
        "agents WHERE tenant = ? AND status = ? AND (created_at, seq) < (?, ?) ORDER BY created_at DESC, seq DESC",
        "wallets WHERE tenant = ? AND (created_at, seq) < (?, ?) ORDER BY created_at DESC, seq DESC",
        "trades WHERE tenant = ? AND (opened_at, seq) < (?, ?) ORDER BY opened_at DESC, seq DESC",
        "trades WHERE tenant = ? AND status = ? AND (opened_at, seq) < (?, ?) ORDER BY opened_at DESC, seq DESC",
        "trades WHERE tenant = ? AND agent_id = ? AND (opened_at, seq) > (?, ?) ORDER BY opened_at, seq",
        "trades WHERE tenant = ? AND agent_id = ? AND status = ? AND (opened_at, seq) < (?, ?)"
        " ORDER BY opened_at DESC, seq DESC",
        "positions WHERE tenant = ? AND (opened_at, seq) < (?, ?) ORDER BY opened_at DESC, seq DESC",
        "positions WHERE tenant = ? AND agent_id = ? AND (opened_at, seq) < (?, ?) ORDER BY opened_at DESC, seq DESC",
        "signals WHERE chain_id = ? AND (timestamp, seq) < (?, ?) ORDER BY timestamp DESC, seq DESC",
        "signals WHERE chain_id = ? AND token_address = ? AND (timestamp, seq) < (?, ?)"
        " ORDER BY timestamp DESC, seq DESC",
    ],
)
def test_no_page_needs_a_scan_or_a_sort(server: MockServer, query: str) -> None:
    sql = f"EXPLAIN QUERY PLAN SELECT * FROM {query} LIMIT 101"  # noqa: S608 - the queries above
    plan = [row[3] for row in server.world.store.all(sql, [1] * query.count("?"))]
    assert len(plan) == 1, plan
    assert plan[0].startswith("SEARCH"), plan
    assert "USING INDEX" in plan[0], plan
