"""The golden files and the calls that lead to them. Typed by hand: no value here comes from the SDK or the mock."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tradesdk import (
    Account,
    Agent,
    AgentSummary,
    Position,
    Risk,
    Signal,
    Trade,
    TradeDetail,
    Usage,
    Wallet,
    WalletBalance,
)

GOLDEN = Path(__file__).parent / "golden"
SIGNATURE = "0x" + "5a" * 65
CHECKSUMMED = "0x52908400098527886E0F7030069857D2E4169EE7"
TOKEN = "0x532f27101965dd16442E59d40670FaF5eBB142E4"


def load(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text())


def errors() -> list[str]:
    return sorted(f"errors/{file.name}" for file in (GOLDEN / "errors").glob("*.json") if ".headers." not in file.name)


# File: its model, or that of its items, and the answer that it is.
RECORDS: dict[str, tuple[Any, str, str, int]] = {
    "account.json": (Account, "GET", "/v1/account", 200),
    "usage.json": (Usage, "GET", "/v1/account/usage", 200),
    "agent_created.json": (Agent, "POST", "/v1/agents", 201),
    "agent_created_without_risk.json": (Agent, "POST", "/v1/agents", 201),
    "agent.json": (Agent, "GET", "/v1/agents/{agent_id}", 200),
    "agent_updated.json": (Agent, "PATCH", "/v1/agents/{agent_id}", 200),
    "wallet.json": (Wallet, "POST", "/v1/wallets", 201),
    "wallet_balance.json": (WalletBalance, "GET", "/v1/wallets/{wallet_id}/balance", 200),
    "trade_open.json": (TradeDetail, "GET", "/v1/trades/{trade_id}", 200),
    "trade_closed.json": (TradeDetail, "GET", "/v1/trades/{trade_id}", 200),
}
LISTS: dict[str, tuple[Any, str, str, int]] = {
    "agents_page.json": (AgentSummary, "GET", "/v1/agents", 200),
    "agents_page_last.json": (AgentSummary, "GET", "/v1/agents", 200),
    "wallets_page.json": (Wallet, "GET", "/v1/wallets", 200),
    "wallets_page_last.json": (Wallet, "GET", "/v1/wallets", 200),
    "trades_page.json": (Trade, "GET", "/v1/trades", 200),
    "trades_page_last.json": (Trade, "GET", "/v1/trades", 200),
    "positions_page.json": (Position, "GET", "/v1/positions", 200),
    "positions_page_last.json": (Position, "GET", "/v1/positions", 200),
    "signals_history_page.json": (Signal, "GET", "/v1/signals/history", 200),
    "signals_history_page_last.json": (Signal, "GET", "/v1/signals/history", 200),
    "signals_latest.json": (Signal, "GET", "/v1/signals", 200),
    "page_empty.json": (Trade, "GET", "/v1/trades", 200),
}


@dataclass(frozen=True)
class Call:
    """One way to call an endpoint, and the request it must become.

    ``run`` works on either flavour: a value from the blocking client is an awaitable from the other.
    A pager stands for its first page.
    """

    name: str
    run: Callable[[Any], Any]
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    golden: str | None = None


CALLS = [
    Call("account", lambda c: c.account.get(), "GET", "/v1/account", golden="account.json"),
    Call("usage", lambda c: c.account.usage(), "GET", "/v1/account/usage", golden="usage.json"),
    Call("agents", lambda c: c.agents.list(limit=20), "GET", "/v1/agents", {"limit": "20"}, golden="agents_page.json"),
    Call(
        "agents with everything",
        lambda c: c.agents.list(status="paused", limit=100, cursor="c2lnbmVk"),
        "GET",
        "/v1/agents",
        {"status": "paused", "limit": "100", "cursor": "c2lnbmVk"},
        golden="agents_page_last.json",
    ),
    Call(
        "agent created",
        lambda c: c.agents.create(
            name="base-scalper",
            wallet_id="wal_0b64f2d8",
            chain_id=8453,
            risk=Risk(position_size_pct=5.5, stop_loss_pct=3.25, trailing_stop_pct=2.5, take_profit_pct=12.75),
            min_confidence=0.75,
            max_positions=5,
        ),
        "POST",
        "/v1/agents",
        body={
            "name": "base-scalper",
            "wallet_id": "wal_0b64f2d8",
            "chain_id": 8453,
            "risk": {
                "position_size_pct": 5.5,
                "stop_loss_pct": 3.25,
                "trailing_stop_pct": 2.5,
                "take_profit_pct": 12.75,
            },
            "min_confidence": 0.75,
            "max_positions": 5,
        },
        golden="agent_created.json",
    ),
    Call(
        "agent created with what is required",
        lambda c: c.agents.create(name="bnb-defaults", wallet_id="wal_f7719e05", chain_id=56),
        "POST",
        "/v1/agents",
        body={"name": "bnb-defaults", "wallet_id": "wal_f7719e05", "chain_id": 56},
        golden="agent_created_without_risk.json",
    ),
    Call("agent", lambda c: c.agents.get("agt_51c0aa17"), "GET", "/v1/agents/agt_51c0aa17", golden="agent.json"),
    Call(
        "agent patched with everything",
        lambda c: c.agents.update(
            "agt_51c0aa17",
            name="base-momentum-2",
            wallet_id="wal_a3d95c11",
            risk=Risk(stop_loss_pct=2.75),
            min_confidence=0.9,
            max_positions=6,
        ),
        "PATCH",
        "/v1/agents/agt_51c0aa17",
        body={
            "name": "base-momentum-2",
            "wallet_id": "wal_a3d95c11",
            "risk": {"stop_loss_pct": 2.75},
            "min_confidence": 0.9,
            "max_positions": 6,
        },
        golden="agent_updated.json",
    ),
    Call(
        "agent patched with one field",
        lambda c: c.agents.update("agt_51c0aa17", max_positions=6),
        "PATCH",
        "/v1/agents/agt_51c0aa17",
        body={"max_positions": 6},
        golden="agent_updated.json",
    ),
    Call("agent deleted", lambda c: c.agents.delete("agt_51c0aa17"), "DELETE", "/v1/agents/agt_51c0aa17"),
    Call(
        "wallet connected",
        lambda c: c.wallets.connect(address=CHECKSUMMED, chain_id=8453, label="Treasury on Base", signature=SIGNATURE),
        "POST",
        "/v1/wallets",
        body={"address": CHECKSUMMED, "chain_id": 8453, "label": "Treasury on Base", "signature": SIGNATURE},
        golden="wallet.json",
    ),
    Call(
        "wallets", lambda c: c.wallets.list(limit=20), "GET", "/v1/wallets", {"limit": "20"}, golden="wallets_page.json"
    ),
    Call(
        "wallets with everything",
        lambda c: c.wallets.list(chain_id=56, limit=1, cursor="a+b/c=="),
        "GET",
        "/v1/wallets",
        {"chain_id": "56", "limit": "1", "cursor": "a+b/c=="},
        golden="wallets_page_last.json",
    ),
    Call(
        "balance",
        lambda c: c.wallets.balance("wal_0b64f2d8"),
        "GET",
        "/v1/wallets/wal_0b64f2d8/balance",
        golden="wallet_balance.json",
    ),
    Call("trades", lambda c: c.trades.list(limit=20), "GET", "/v1/trades", {"limit": "20"}, golden="trades_page.json"),
    Call(
        "trades with everything",
        lambda c: c.trades.list(agent_id="agt_51c0aa17", status="closed", limit=50, cursor="c2lnbmVk"),
        "GET",
        "/v1/trades",
        {"agent_id": "agt_51c0aa17", "status": "closed", "limit": "50", "cursor": "c2lnbmVk"},
        golden="trades_page_last.json",
    ),
    Call(
        "trade, open",
        lambda c: c.trades.get("trd_b1770c3e"),
        "GET",
        "/v1/trades/trd_b1770c3e",
        golden="trade_open.json",
    ),
    Call(
        "trade, closed",
        lambda c: c.trades.get("trd_64de88f0"),
        "GET",
        "/v1/trades/trd_64de88f0",
        golden="trade_closed.json",
    ),
    Call(
        "positions",
        lambda c: c.positions.list(limit=20),
        "GET",
        "/v1/positions",
        {"limit": "20"},
        golden="positions_page.json",
    ),
    Call(
        "positions with everything",
        lambda c: c.positions.list(agent_id="agt_90e3cd42", limit=99, cursor="c2lnbmVk"),
        "GET",
        "/v1/positions",
        {"agent_id": "agt_90e3cd42", "limit": "99", "cursor": "c2lnbmVk"},
        golden="positions_page_last.json",
    ),
    Call(
        "signals",
        lambda c: c.signals.latest(chain=8453),
        "GET",
        "/v1/signals",
        {"chain": "8453"},
        golden="signals_latest.json",
    ),
    Call(
        "signals with everything",
        lambda c: c.signals.latest(chain=56, limit=10, min_confidence=0.75),
        "GET",
        "/v1/signals",
        {"chain": "56", "limit": "10", "min_confidence": "0.75"},
        golden="signals_latest.json",
    ),
    Call(
        "history",
        lambda c: c.signals.history(chain=8453, limit=20),
        "GET",
        "/v1/signals/history",
        {"chain": "8453", "limit": "20"},
        golden="signals_history_page.json",
    ),
    Call(
        "history with everything",
        lambda c: c.signals.history(
            chain=56,
            token_address=TOKEN,
            since=datetime(2026, 1, 1, tzinfo=UTC),
            until=1767484800,
            limit=100,
            cursor="c2lnbmVk",
        ),
        "GET",
        "/v1/signals/history",
        {
            "chain": "56",
            "token_address": TOKEN,
            "from": "1767225600",
            "to": "1767484800",
            "limit": "100",
            "cursor": "c2lnbmVk",
        },
        golden="signals_history_page_last.json",
    ),
]
