"""Pages as the specification has them, shown on the mock over bare HTTP: sizes, cursors, filters."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockServer

from ._wire import Wire, error_of, walk

# Every list with a cursor, and the filter that it cannot do without.
PAGED: list[tuple[str, dict[str, Any]]] = [
    ("/agents", {}),
    ("/wallets", {}),
    ("/trades", {}),
    ("/positions", {}),
    ("/signals/history", {"chain": 8453}),
]
MANY = 25  # more than a page by default


@pytest.fixture(scope="module")
def busy(service: MockServer) -> Wire:
    """A tenant with more than a page by default of everything that a caller can create."""
    key = service.create_key(name="busy", scope="full-access", plan="enterprise", tenant="busy")
    service.populate("busy")
    wire = Wire(service, key.value)
    for number in range(1, MANY + 1):
        wallet = wire.connect(private_key=f"0x{number:064x}", label=f"wallet {number}")
        wire.create(wallet_id=wallet, name=f"agent {number}")
    return wire


@pytest.mark.rule(
    "agents.list.limit wallets.list.limit trades.list.limit positions.list.limit signals.latest.limit",
    "signals.history.limit limit.page.default limit.page.max",
)
@pytest.mark.parametrize(("path", "query"), [*PAGED, ("/signals", {"chain": 8453})])
def test_a_page_has_twenty_items_or_as_many_as_asked_for(busy: Wire, path: str, query: dict[str, Any]) -> None:
    most = busy.get(path, limit=100, **query).json()["data"]
    assert 20 < len(most) <= 100 or path == "/positions", "too few to show anything"
    assert busy.get(path, **query).json()["data"] == most[:20]
    for limit in (1, 7, 99):
        assert busy.get(path, limit=limit, **query).json()["data"] == most[:limit]
    for wrong in ("0", "101", "-1", "ten", "1.5", "", "1e1", "9" * 30):
        assert error_of(busy.get(path, limit=wrong, **query), "limit")[0] in (400, 422)


@pytest.mark.rule(
    "agents.list.cursor wallets.list.cursor trades.list.cursor positions.list.cursor signals.history.cursor",
    "page.fields page.cursor.walk",
)
@pytest.mark.parametrize(("path", "query"), PAGED)
def test_a_walk_meets_everything_once(busy: Wire, path: str, query: dict[str, Any]) -> None:
    """In pages of three as in pages of a hundred or of other sizes on the way, and without a cursor at the end."""
    if path == "/signals/history":
        query = query | {"from": busy.get(path, limit=100, **query).json()["data"][-1]["timestamp"]}
    if path == "/trades":
        query = query | {"status": "open"}
    small, large = walk(busy, path, limit=3, **query), walk(busy, path, limit=100, **query)
    assert small == large
    assert len({one["id"] for one in small}) == len(small) > 3
    page = busy.get(path, limit=2, **query).json()
    assert page["data"] + walk(busy, path, limit=100, cursor=page["next_cursor"], **query) == large
    first, *rest = page["next_cursor"]
    for cursor in ("made-up", "".join(["B" if first == "A" else "A", *rest])):
        assert error_of(busy.get(path, cursor=cursor, **query), "cursor") == (400, "invalid_request")


@pytest.mark.rule("page.last")
def test_the_last_page_has_no_cursor_even_when_it_is_full_or_empty(wire: Wire) -> None:
    for path in ("/agents", "/wallets", "/trades", "/positions"):
        assert wire.get(path).json() == {"data": []}
    wallet = wire.connect()
    for name in "ab":
        wire.create(wallet_id=wallet, name=name)
    assert "next_cursor" not in wire.get("/agents", limit=2).json()
    assert "next_cursor" in wire.get("/agents", limit=1).json()


@pytest.mark.rule(
    "trade.status trades.list trades.list.status trades.list.cursor trades.list.agent_id", "positions.list.agent_id"
)
def test_trades_and_positions_by_status_and_agent(busy: Wire) -> None:
    trades, positions = walk(busy, "/trades", limit=100), walk(busy, "/positions", limit=100)
    assert len({trade["id"] for trade in trades}) == len(trades) >= 250
    for status in ("open", "closed"):
        assert walk(busy, "/trades", limit=100, status=status) == [one for one in trades if one["status"] == status]
    for agent in {trade["agent_id"] for trade in trades}:
        mine = [trade for trade in trades if trade["agent_id"] == agent]
        assert walk(busy, "/trades", agent_id=agent, limit=37) == mine
        opened = [trade for trade in mine if trade["status"] == "open"]
        assert walk(busy, "/trades", agent_id=agent, status="open", limit=1) == opened
        held = [position for position in positions if position["agent_id"] == agent]
        assert walk(busy, "/positions", agent_id=agent, limit=1) == held
        assert 0 < len(mine) < len(trades)
    for status in ("pending", "OPEN", "active", ""):
        assert error_of(busy.get("/trades", status=status), "status")[0] in (400, 422)


@pytest.mark.rule("trade.open.nulls", "trades.get", "trade.direction")
def test_open_trades_have_no_exit_and_closed_ones_have_one(busy: Wire) -> None:
    for trade in walk(busy, "/trades", limit=100):
        exits = [trade[name] for name in ("exit_price_usd", "pnl_usd", "roi_pct", "closed_at")]
        assert trade["direction"] in {"BUY", "SELL"}
        assert trade["chain_id"] in {8453, 56}
        if trade["status"] == "open":
            assert exits == [None] * 4
        else:
            assert [type(value) for value in exits] == [float, float, float, int]
            assert trade["opened_at"] < trade["closed_at"]
            won = trade["exit_price_usd"] - trade["entry_price_usd"]
            assert won * trade["pnl_usd"] >= 0
            assert trade["roi_pct"] == pytest.approx(100 * won / trade["entry_price_usd"], abs=0.00501)
    for status in ("open", "closed"):
        trade = busy.get("/trades", status=status, limit=1).json()["data"][0]
        detail = busy.get(f"/trades/{trade['id']}").json()
        assert list(detail) == [*trade, "entry_tx_hash", "exit_tx_hash"]
        hashes = detail.pop("entry_tx_hash"), detail.pop("exit_tx_hash")
        assert detail == trade
        assert (hashes[1] is None) is (status == "open")
        for each in filter(None, hashes):
            assert len(bytes.fromhex(each.removeprefix("0x"))) == 32
        assert hashes[0] != hashes[1]


@pytest.mark.rule("positions.list")
def test_positions_are_the_open_trades(busy: Wire) -> None:
    """A position is open by definition: its agent, token and price at entry are those of an open trade."""
    shared = ("agent_id", "token_address", "token_symbol", "chain_id", "entry_price_usd", "opened_at")
    trades, positions = walk(busy, "/trades", limit=100, status="open"), walk(busy, "/positions", limit=100)
    assert [[one[name] for name in shared] for one in positions] == [[one[name] for name in shared] for one in trades]
    assert positions


@pytest.mark.rule("agent.status", "account.plan")
def test_what_was_made_is_listed_with_values_that_are_written(busy: Wire) -> None:
    labels, agents = {wallet["label"] for wallet in walk(busy, "/wallets")}, walk(busy, "/agents")
    assert {f"wallet {number}" for number in range(1, MANY + 1)} <= labels
    assert {f"agent {number}" for number in range(1, MANY + 1)} <= {agent["name"] for agent in agents}
    assert {agent["status"] for agent in agents} <= {"active", "idle", "paused", "error"}
    assert busy.get("/account").json()["plan"] in {"free", "pro", "enterprise"}


@pytest.mark.rule("page.cursor.walk")
@settings(max_examples=4, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=8), changes=st.lists(st.sampled_from("+-."), max_size=8))
def test_a_walk_sees_what_was_there_once_while_rows_come_and_go(
    busy: Wire, sizes: list[int], changes: list[str]
) -> None:
    wallet = busy.get("/wallets", chain_id=8453, limit=1).json()["data"][0]["id"]
    made = [busy.create(wallet_id=wallet, name=f"old {number}")["id"] for number in range(12)]
    before = [agent["id"] for agent in walk(busy, "/agents", limit=100, status="idle")]
    assert before[:12] == made[::-1], "agents of one second are in their order"
    seen, added = list[str](), list[str]()
    query: dict[str, Any] = {"status": "idle"}
    for step in count():
        busy.server.clock.advance(step % 2)
        page = busy.get("/agents", **query, limit=sizes[step % len(sizes)]).json()
        seen += [agent["id"] for agent in page["data"]]
        if "next_cursor" not in page:
            break
        query["cursor"] = page["next_cursor"]
        change = changes[step] if step < len(changes) else "."
        if change == "+":
            added.append(busy.create(wallet_id=wallet, name="new")["id"])
        elif change == "-" and seen[-1] in made:
            # The very row that the cursor points at goes away.
            busy.delete(f"/agents/{seen[-1]}")
    assert seen == before
    for agent in made + added:
        busy.delete(f"/agents/{agent}")
