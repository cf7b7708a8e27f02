"""Cursors that nobody can bend, and pages that cost no scan. The rules of pages: tests/contract/test_service_lists."""

from __future__ import annotations

import base64

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._http import START, client, error, ok

pytestmark = pytest.mark.long


def flip(text: str, place: int) -> str:
    raw = bytearray(base64.urlsafe_b64decode(text))
    raw[place % len(raw)] ^= 1
    return base64.urlsafe_b64encode(bytes(raw)).decode()


def test_cursors_that_were_tampered_with(rich: httpx.Client) -> None:
    cursor = ok(rich.get("/v1/trades?limit=5"))["next_cursor"]
    bent = [flip(cursor, place) for place in range(36)]
    spelled = [cursor[:-1], cursor[1:], cursor + "=", cursor * 2, cursor + "\n", " " + cursor, cursor[:-1] + "B"]
    odd = ["AAAA", "1", "é", "%", "null", "A" * 5_000, "A" * 48, cursor.replace("_", "/").replace("-", "+") + "!"]
    for text in bent + spelled + odd:
        answer = rich.get("/v1/trades", params={"limit": 5, "cursor": text})
        assert error(answer, 400, "invalid_request").startswith("cursor: "), text
    error(rich.get("/v1/trades?cursor="), 400, "invalid_request")
    ok(rich.get("/v1/trades", params={"cursor": cursor}))


def test_cursors_belong_to_a_list_its_filters_order_tenant_and_seed(server: MockService, rich: httpx.Client) -> None:
    cursors = {
        path: ok(rich.get(path))["next_cursor"]
        for path in ("/v1/trades?limit=5&status=closed", "/v1/trades?limit=5", "/v1/signals/history?chain=8453")
    }

    def refused(http: httpx.Client, place: int, path: str) -> None:
        joined = f"{path}{'&' if '?' in path else '?'}cursor={[*cursors.values()][place]}"
        error(http.get(joined), 400, "invalid_request")

    for path in ("trades", "trades?status=open", "trades?status=closed&agent_id=x", "positions", "agents", "wallets"):
        refused(rich, 0, f"/v1/{path}")
    for path in ("/v1/signals/history?chain=56", "/v1/signals/history?chain=8453&from=5"):
        refused(rich, 2, path)
    server.populate("other")
    with client(server, "mock_full_other") as other, client(server, "mock_read_main") as same:
        for place, path in enumerate(cursors):
            refused(other, place, path)
            ok(same.get(f"{path}&cursor={cursors[path]}"))
    server.set_gaps(order="oldest")
    refused(rich, 1, "/v1/trades")
    with MockService(seed=8, clock=MockClock(START)) as second, client(second) as http:
        second.populate("main")
        refused(http, 1, "/v1/trades")


@pytest.mark.parametrize(
    "query",
    [
        *(f"{table} WHERE tenant = ?" for table in ("agents", "wallets", "trades", "positions")),
        *(f"{table} WHERE tenant = ? AND status = ?" for table in ("agents", "trades")),
        *(f"{table} WHERE tenant = ? AND agent_id = ?" for table in ("trades", "positions")),
        "trades WHERE tenant = ? AND agent_id = ? AND status = ?",
        "signals WHERE chain_id = ?",
        "signals WHERE chain_id = ? AND token_address = ?",
    ],
)
@pytest.mark.parametrize(("sign", "way"), [("<", "DESC"), (">", "ASC")])
def test_no_page_needs_a_scan_or_a_sort(server: MockService, query: str, sign: str, way: str) -> None:
    time = {"agents": "created_at", "wallets": "created_at", "signals": "timestamp"}.get(query.split()[0], "opened_at")
    sql = f"SELECT * FROM {query} AND ({time}, seq) {sign} (?, ?) ORDER BY {time} {way}, seq {way} LIMIT 101"  # noqa: S608 - our own
    plan = [row[3] for row in server.world.store.all(f"EXPLAIN QUERY PLAN {sql}", [1] * sql.count("?"))]
    assert len(plan) == 1, plan
    assert plan[0].startswith("SEARCH"), plan
    assert "USING INDEX" in plan[0], plan
