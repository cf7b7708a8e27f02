"""An AI client's side of `trade mcp`: toolboxes in this process, and a person who approves."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tradesdk_cli.config.settings import settings_of
from tradesdk_cli.mcp.approvals import Action, Decisions, approvals_file
from tradesdk_cli.mcp.catalog import Scope
from tradesdk_cli.mcp.tools import Toolbox
from tradesdk_cli.output.printer import Output
from tradesdk_cli.run import Run
from tradesdk_mock import MockServer

if TYPE_CHECKING:
    from mcp import Client

EVERYTHING = Scope(write=True, spend=500_000, auto=0)
"""Changes, and fifty cents of purchases; a person approves all."""


class Clock:
    """The time by which approvals expire."""

    def __init__(self, now: float = 1_795_262_400.0) -> None:
        self.time = now

    def __call__(self) -> float:
        return self.time


class Box:
    """A toolbox on an event loop of its own, called from here."""

    def __init__(self, tools: Toolbox, portal: BlockingPortal) -> None:
        self.mcp = tools
        self.run = portal.call
        self.start = portal.start_task_soon

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mcp, name)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.run(self.mcp.call, tool, arguments)


@contextmanager
def toolbox(
    home: Path,
    server: MockServer | None,
    scope: Scope = EVERYTHING,
    *,
    tenant: str = "house",
    wallet: str | None = None,
    env: Mapping[str, str] | None = None,
    now: Callable[[], float] | None = None,
    **more: Any,
) -> Iterator[Box]:
    """The tools of a session, as `trade mcp` makes them; without a server, those of an embedded mock world."""
    environ = environment(home, server, tenant, wallet) | dict(env or {})
    settings = settings_of({"mock": True} if server is None else {}, environ | {"TRADE_MAX_RETRIES": "0"})
    run = Run(settings, Output(settings, environ))
    before = dict(os.environ)
    os.environ.update(environ)  # the wallet and the budgets are read from the environment
    try:
        tools = Toolbox(run, scope, **(more if now is None else {"now": now, **more}))
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(tools):
            yield Box(tools, portal)
    finally:
        run.stack.close()
        os.environ.clear()
        os.environ.update(before)


def environment(
    home: Path, server: MockServer | None, tenant: str = "house", wallet: str | None = None
) -> dict[str, str]:
    """The settings of a server that serves tools. By default each home has a wallet of its own: names are paid once."""
    found = {"TRADE_HOME": str(home)}
    if server is None:
        return found
    there = {"TRADE_BASE_URL": server.url, "TRADE_MARKET_BASE_URL": server.market_url}
    return {**found, **there, "TRADE_API_KEY": f"mock_full_{tenant}", "TRADE_WALLET_KEY": wallet or wallet_of(home)}


def wallet_of(home: Path) -> str:
    """A private key."""
    return "0x" + hashlib.sha256(str(home).encode()).hexdigest()


class Person:
    """Says yes or no in the file that `trade approve` writes."""

    def __init__(self, home: Path, now: Callable[[], float]) -> None:
        self.decisions = Decisions(approvals_file(home / "ledger.sqlite3"))
        self.now = now

    def approve(self, code: str) -> None:
        self._decide(code, yes=True)

    def refuse(self, code: str) -> None:
        self._decide(code, yes=False)

    def _decide(self, code: str, *, yes: bool) -> None:
        action = self.decisions.waiting(code, self.now())
        self.decisions.decide(action, yes=yes, now=self.now())

    def all(self) -> list[Action]:
        return self.decisions.all(self.now())

    def waiting(self) -> list[Action]:
        return [one for one in self.all() if one.state == "pending" and not one.expired(self.now())]


Call = Callable[..., Awaitable[dict[str, Any]]]


def calling(client: Client) -> Call:
    """Calls a tool that has to work: structured content and text agree, and fit the output schema."""

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        text = result.content[0]
        assert text.type == "text"
        assert json.loads(text.text) == result.structured_content
        assert not result.is_error, text.text
        found: dict[str, Any] = result.structured_content
        return found

    return call


async def fault(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a tool that must not work: text alone, as structured content would have to fit the tool's schema."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0]
    assert text.type == "text"
    assert result.is_error, text.text
    assert result.structured_content is None
    error: dict[str, Any] = json.loads(text.text)["error"]
    assert error["code"]
    assert error["next_step"]
    assert "Traceback" not in text.text
    return error


async def every_tool(client: Client, person: Person) -> set[str]:
    """Uses each tool once at least, as an agent would. Returns their names."""
    call, used = calling(client), set()

    async def use(tool: str, **arguments: Any) -> dict[str, Any]:
        used.add(tool)
        return await call(tool, **arguments)

    account = await use("account", balances=True)
    assert account["account"]["plan"]
    wallet = next(one for one in account["wallets"] if one["chain_id"] == 8453)
    first = await use("agents", limit=1)
    second = await use("agents", limit=1, cursor=first["next_cursor"], fields=["id", "name"])
    assert set(second["items"][0]) == {"id", "untrusted"}
    one = await use("agents", id=second["items"][0]["id"])
    assert one["item"]["untrusted"] == second["items"][0]["untrusted"]
    ranked = [agent["stats"]["total_pnl_usd"] for agent in (await use("results"))["items"]]
    assert ranked == sorted(ranked, reverse=True)
    trades = await use("trades", status="closed", limit=2)
    assert (await use("trades", id=trades["items"][0]["id"]))["item"]["entry_tx_hash"].startswith("0x")
    assert (await use("positions", limit=1))["items"]
    assert "items" in await use("signals", chain="base", limit=1)
    assert "items" in await use("signals", chain=8453, since="2026-01-01T00:00:00Z", limit=1)
    found = await use("market_tokens", search="brett")
    assert "BRETT" in [token["untrusted"]["symbol"] for token in found["items"]]
    assert (await use("market_quote", data="prices", tokens=["BRETT"]))["price_usd"] == "0.03"
    assert (await use("docs", topic="over_budget"))["next_step"]

    asked = await use("market_buy", data="prices", tokens=["BRETT"], purchase="brett-now")
    assert asked["status"] == "approval_required"
    person.approve(asked["code"])
    bought = await use("market_buy", data="prices", tokens=["BRETT"], purchase="brett-now")
    assert (bought["status"], bought["paid_now_usd"], bought["again"]) == ("done", "0.03", False)
    again = await use("market_buy", data="prices", tokens=["BRETT"], purchase="brett-now")
    assert (again["items"], again["paid_now_usd"], again["again"]) == (bought["items"], "0.00", True)
    payments = await use("payments", stage="answered")
    assert [payment["id"] for payment in payments["items"]] == [bought["payment"]]
    assert (await use("payments", action="budget"))["item"]["session"]["spent_usd"] == "0.03"

    change = {"operation": "create", "name": "watched", "wallet_id": wallet["id"], "chain": "base"}
    asked = await use("agent_change", **change, risk={"stop_loss_pct": 5})
    assert asked["changes"]["risk.stop_loss_pct"] == {"before": None, "after": 5}
    person.approve(asked["code"])
    made = await use("agent_change", **change, risk={"stop_loss_pct": 5})
    assert (made["item"]["risk"]["stop_loss_pct"], made["item"]["untrusted"]) == (5, {"name": "watched"})
    return used
