"""Pages as the specification has them, shown on the mock over bare HTTP: sizes, cursors, filters."""

from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer

from ._wire import Wire, error_of, proof

# Every list with a cursor, and the filter that it cannot do without.
PAGED: list[tuple[str, dict[str, Any]]] = [
    ("/agents", {}),
    ("/wallets", {}),
    ("/trades", {}),
    ("/positions", {}),
    ("/signals/history", {"chain": 8453}),
]
EVERY_LIST = [*PAGED, ("/signals", {"chain": 8453})]
MANY = 25  # more than a page by default


@pytest.fixture(scope="module")
def busy(service: MockServer, bare_http: httpx.Client) -> Wire:
    """A tenant with more than a page by default of everything that a caller can create."""
    key = service.create_key(name="busy", scope="full-access", plan="enterprise", tenant="busy")
    service.populate("busy")
    wire = Wire(service, bare_http, key.value)
    for number in range(1, MANY + 1):
        wallet = wire.connect(private_key=f"0x{number:064x}", label=f"wallet {number}")
        wire.create(wallet_id=wallet, name=f"agent {number}")
    return wire


def walk(wire: Wire, path: str, **query: Any) -> list[Any]:
    """Every item of a list, and the proof that each page but the last is full and has a cursor."""
    found: list[Any] = []
    cursors: set[str] = set()
    size = query.get("limit", 20)
    while True:
        page = wire.get(path, **query).json()
        found += page["data"]
        if "next_cursor" not in page:
            assert list(page) == ["data"]
            assert len(page["data"]) <= size
            return found
        assert isinstance(page["next_cursor"], str)
        assert page["next_cursor"] not in cursors
        assert len(page["data"]) == size
        cursors.add(page["next_cursor"])
        query["cursor"] = page["next_cursor"]


@pytest.mark.rule(
    "agents.list.limit wallets.list.limit trades.list.limit positions.list.limit signals.latest.limit",
    "signals.history.limit limit.page.default",
)
@pytest.mark.parametrize(("path", "query"), EVERY_LIST)
def test_a_page_has_twenty_items_by_default(busy: Wire, path: str, query: dict[str, Any]) -> None:
    at_most = len(busy.get(path, limit=100, **query).json()["data"])
    assert len(busy.get(path, **query).json()["data"]) == min(20, at_most)
    assert at_most > 20 or path == "/positions", "too few to show anything"


@pytest.mark.rule(
    "agents.list.limit wallets.list.limit trades.list.limit positions.list.limit signals.latest.limit",
    "signals.history.limit limit.page.max",
)
@pytest.mark.parametrize(("path", "query"), EVERY_LIST)
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_a_page_has_as_many_as_asked_for(busy: Wire, path: str, query: dict[str, Any], limit: int) -> None:
    found = busy.get(path, limit=limit, **query).json()["data"]
    assert 0 < len(found) <= limit
    if limit < 20 and path != "/positions":
        assert len(found) == limit


@pytest.mark.rule(
    "agents.list.limit wallets.list.limit trades.list.limit positions.list.limit signals.latest.limit",
    "signals.history.limit limit.page.max",
)
@pytest.mark.parametrize(("path", "query"), EVERY_LIST)
@pytest.mark.parametrize("limit", ["0", "101", "-1", "ten", "1.5", ""])
def test_a_page_size_out_of_range_is_refused(busy: Wire, path: str, query: dict[str, Any], limit: str) -> None:
    answer = busy.get(path, limit=limit, **query)
    assert error_of(answer)[0] in (400, 422)
    assert "limit" in answer.json()["error"]["message"]


@pytest.mark.rule(
    "agents.list.cursor wallets.list.cursor trades.list.cursor positions.list.cursor signals.history.cursor",
    "page.fields page.cursor.walk",
)
@pytest.mark.parametrize(("path", "query"), PAGED)
def test_a_walk_meets_everything_once(busy: Wire, path: str, query: dict[str, Any]) -> None:
    """In pages of three as in pages of a hundred, and without a cursor at the end."""
    if path == "/signals/history":
        query = query | {"from": busy.get(path, limit=100, **query).json()["data"][-1]["timestamp"]}
    if path == "/trades":
        query = query | {"status": "open"}
    small, large = walk(busy, path, limit=3, **query), walk(busy, path, limit=100, **query)
    assert [one["id"] for one in small] == [one["id"] for one in large]
    assert len({one["id"] for one in small}) == len(small) > 3


@pytest.mark.rule("trade.status", "trades.list", "trades.list.status", "trades.list.cursor")
def test_all_trades_are_reached(busy: Wire) -> None:
    trades = walk(busy, "/trades", limit=100)
    assert len({trade["id"] for trade in trades}) == len(trades) >= 250
    open_ones, closed = walk(busy, "/trades", status="open"), walk(busy, "/trades", limit=100, status="closed")
    assert {one["status"] for one in open_ones} == {"open"}
    assert {one["status"] for one in closed} == {"closed"}
    assert {one["id"] for one in trades} == {one["id"] for one in open_ones + closed}


@pytest.mark.rule("page.last")
def test_the_last_page_has_no_cursor_even_when_it_is_full(wire: Wire) -> None:
    wallet = wire.connect()
    for name in "ab":
        wire.create(wallet_id=wallet, name=name)
    assert "next_cursor" not in wire.get("/agents", limit=2).json()
    assert "next_cursor" in wire.get("/agents", limit=1).json()


@pytest.mark.rule("page.last")
@pytest.mark.parametrize("path", ["/agents", "/wallets", "/trades", "/positions"])
def test_an_empty_list_is_an_empty_page(wire: Wire, path: str) -> None:
    assert wire.get(path).json() == {"data": []}


@pytest.mark.rule("page.cursor.opaque", "error.400.malformed")
@pytest.mark.parametrize(("path", "query"), PAGED)
@pytest.mark.parametrize("cursor", ["made-up", "AAAA", "%00", "../../etc"])
def test_a_made_up_cursor_is_refused(busy: Wire, path: str, query: dict[str, Any], cursor: str) -> None:
    assert error_of(busy.get(path, cursor=cursor, **query)) == (400, "invalid_request")


@pytest.mark.rule("page.cursor.walk")
def test_a_cursor_stays_good_while_rows_are_added(wire: Wire) -> None:
    wallet = wire.connect()
    old = {wire.create(wallet_id=wallet, name=f"old {number}")["id"] for number in range(4)}
    page = wire.get("/agents", limit=2).json()
    wire.server.clock.advance(1)
    wire.create(wallet_id=wallet, name="new")
    rest = wire.get("/agents", limit=100, cursor=page["next_cursor"]).json()["data"]
    seen = [one["id"] for one in page["data"] + rest]
    assert len(seen) == len(set(seen))
    assert old <= set(seen)


@pytest.mark.rule("trades.list.agent_id", "positions.list.agent_id")
@pytest.mark.parametrize("path", ["/trades", "/positions"])
def test_list_can_be_filtered_by_agent(busy: Wire, path: str) -> None:
    agent = busy.get(path, limit=1).json()["data"][0]["agent_id"]
    mine = walk(busy, path, limit=100, agent_id=agent)
    everything = walk(busy, path, limit=100)
    assert mine == [one for one in everything if one["agent_id"] == agent]
    assert 0 < len(mine) < len(everything)


@pytest.mark.rule("trades.list.status")
@pytest.mark.parametrize("status", ["pending", "OPEN", "active"])
def test_a_trade_status_that_does_not_exist_is_refused(busy: Wire, status: str) -> None:
    assert error_of(busy.get("/trades", status=status))[0] in (400, 422)


@pytest.mark.rule("trade.open.nulls", "trades.get")
def test_open_trades_have_no_exit_and_closed_ones_have_one(busy: Wire) -> None:
    exits = ("exit_price_usd", "pnl_usd", "roi_pct", "closed_at")
    for trade in walk(busy, "/trades", limit=100):
        assert {trade[name] is None for name in exits} == {trade["status"] == "open"}
        if trade["status"] == "closed":
            assert trade["closed_at"] >= trade["opened_at"]
    for status in ("open", "closed"):
        trade = busy.get("/trades", status=status, limit=1).json()["data"][0]
        detail = busy.get(f"/trades/{trade['id']}").json()
        assert (detail.pop("exit_tx_hash") is None) is (status == "open")
        assert isinstance(detail.pop("entry_tx_hash"), str)
        assert detail == trade


@pytest.mark.rule("positions.list")
def test_positions_are_the_open_trades(busy: Wire) -> None:
    """A position is open by definition: its agent, token and price at entry are those of an open trade."""

    def key(one: dict[str, Any]) -> tuple[Any, ...]:
        return one["agent_id"], one["token_address"], one["chain_id"], one["entry_price_usd"], one["opened_at"]

    trades = walk(busy, "/trades", limit=100, status="open")
    positions = walk(busy, "/positions", limit=100)
    assert positions
    assert {key(one) for one in positions} <= {key(one) for one in trades}


@pytest.mark.rule("agent.status", "trade.direction", "account.plan")
def test_every_value_is_one_of_those_written(busy: Wire) -> None:
    for trade in walk(busy, "/trades", limit=100):
        assert trade["direction"] in {"BUY", "SELL"}
        assert trade["chain_id"] in {8453, 56}
    assert {agent["status"] for agent in walk(busy, "/agents")} <= {"active", "idle", "paused", "error"}
    assert busy.get("/account").json()["plan"] in {"free", "pro", "enterprise"}


def test_wallets_and_agents_that_were_made_are_listed(busy: Wire) -> None:
    labels = {wallet["label"] for wallet in walk(busy, "/wallets")}
    names = {agent["name"] for agent in walk(busy, "/agents")}
    assert {f"wallet {number}" for number in range(1, MANY + 1)} <= labels
    assert {f"agent {number}" for number in range(1, MANY + 1)} <= names
    assert proof(private_key=f"0x{1:064x}")["address"] in {wallet["address"] for wallet in walk(busy, "/wallets")}
