"""How every command is called, in each format and with hostile answers, and how each format is read back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

import tradesdk_cli.output.printer as printing
from tradesdk import LocalSigner, TradeClient
from tradesdk_cli.mcp.approvals import Approvals, approvals_file
from tradesdk_cli.output.lines import Lines
from tradesdk_mock import MockServer

from .._stock import stocked
from ._reading import Handed
from ._terminal import Terminal

KEY = "0x" + "5a" * 32
FORMS = ("json", "ndjson", "csv", "tsv", "table")

# Behind the words of the command; names in capitals are made by `Things`.
CALLS = {
    "agents list": "--limit 3",
    "agents get": "AGENT",
    "agents create": "--name momentum --wallet-id WALLET --chain base --yes",
    "agents update": "NEW_AGENT --stop-loss-pct 4 --yes",
    "agents delete": "NEW_AGENT --yes",
    "wallets list": "",
    "wallets connect": "OTHER_WALLET --label main --chain base --yes",
    "wallets balance": "WALLET",
    "trades list": "--limit 3",
    "trades get": "TRADE",
    "positions list": "--limit 3",
    "signals latest": "--chain base --limit 3",
    "signals history": "--chain base --limit 3",
    "signals stream": "--chain base --since 24h --count 3",
    "market signals": "ETH BRETT:2 --max-price 0.20",
    "market prices": "ETH BRETT --max-price 0.20",
    "market history": "BRETT --since 24h --max-price 0.20",
    "market win-rate": "ETH BRETT --max-price 0.20",
    "market avg-prices": "ETH BRETT --max-price 0.20",
    "market top": "--sort ROI --limit 3 --max-price 0.20",
    "market metrics": "--max-price 0.20",
    "market tokens": "--limit 3",
    "pay quote": "prices ETH BRETT",
    "pay history": "PAID",
    "pay report": "PAID",
    "pay show": "PAYMENT",
    "pay budget": "",
    "pay resume": "PAYMENT",
    "pay reconcile": "DOUBT",
    "pay trust": "ADDRESS --yes",
    "pay key new": "--wallet KEYSTORE",
    "pay key import": "--wallet KEYSTORE",
    "pay key address": "",
    "pay key accept-secret": "--yes",
    "plot token": "BRETT --chain base",
    "plot agent": "TRADER",
    "account show": "",
    "account usage": "",
    "login": "--mock --profile PROFILE",
    "logout": "--profile LOGGED_IN",
    "whoami": "",
    "config list": "--sources",
    "config get": "output",
    "config set": "timeout 10 --profile LOGGED_IN",
    "config unset": "timeout --profile TIMED",
    "config path": "",
    "doctor": "",
    "mock status": "",
    "mock reset": "--dry-run",
    "mock snapshot": "SNAPSHOT",
    "mock restore": "TAKEN --dry-run",
    "mock clock": "",
    "mock fault add": "status --route /v1/nothing status=503",
    "mock fault list": "FAULT_BEFORE",
    "mock fault kinds": "",
    "mock fault remove": "FAULT",
    "mock fault clear": "",
    "mock emit": "--chain base",
    "mock agent start": "NEW_AGENT",
    "mock agent stop": "RUNNING_AGENT",
    "mock agent set-status": "NEW_AGENT paused",
    "mock key create": "--name bot",
    "mock key list": "KEY_BEFORE",
    "mock key expire": "KEY_ID",
    "mock key rotate": "KEY_ID",
    "mock key revoke": "KEY_ID",
    "mock tenant populate": "TENANT --trades 8",
    "mock tenant plan": "TENANT enterprise",
    "mock payments list": "PAID",
    "mock payments submissions": "PAID",
    "mock payments balances": "PAID",
    "mock payments balance": "ADDRESS",
    "mock payments set-balance": "ADDRESS 12.50",
    "mock payments wallet": "ADDRESS",
    "mock payments deploy-wallet": "ADDRESS",
    "mock payments delegate": "ADDRESS",
    "mock payments check": "",
    "mock logs": "",
    "mock gaps list": "",
    "mock gaps set": "order=oldest",
    "mcp tools": "--write --spend 0.50",
    "approve": "ACTION_BEFORE",
    "api": "/v1/agents",
}

NO_DATA = {
    **dict.fromkeys(("fleet init", "fleet status"), "needs a server of PostgreSQL: test_fleet.py"),
    "fleet relay": "runs until it is ended: test_fleet.py",
    "top": "a board for people",
    "help": "prints pages, and takes no option about results",
    "mock serve": "runs until it is ended; what it prints first is shown by its own tests",
    "demo": "a story on the screen",
    "mcp config": "settings of another program, in the format of their file",
    **dict.fromkeys(
        ("completion bash", "completion zsh", "completion fish", "completion powershell"),
        "a script for the shell, in whatever format",
    ),
}
"""Commands that print no data, and why."""

CODES = {"doctor": (0, 1), "mock payments check": (0, 1)}
"""Commands that say with their exit code what they found."""

SILENT = ("mock payments check", "mock fault remove", "mock fault clear")
"""Commands that have nothing to print on success."""

numbers = count(1)


@dataclass
class Things:
    """What commands are about: made when a command asks for it, and new where the command uses it up."""

    trade: Terminal
    client: TradeClient
    kept: dict[str, str] = field(default_factory=dict)

    def argv(self, words: str) -> tuple[list[str], str]:
        """The command line, and what is typed into it."""
        rest = [self._word(word) for word in CALLS[words].split()]
        return [*words.split(), *(word for word in rest if word)], KEY if words == "pay key import" else ""

    def _word(self, word: str) -> str:
        if not re.fullmatch("[A-Z_]+", word) or word in ("ETH", "BRETT", "ROI"):
            return word
        if word.endswith("_BEFORE"):
            self._make(word.removesuffix("_BEFORE"))
            return ""
        made = self._make(word)
        return "" if word in ("PAID", "DOUBT") else made

    def _make(self, word: str) -> str:
        trade, home, number = self.trade, self.trade.home, next(numbers)
        makers: dict[str, Callable[[], str]] = {
            "AGENT": lambda: next(iter(self.client.agents.list(limit=1))).id,
            "NEW_AGENT": self._agent,
            "RUNNING_AGENT": lambda: self._id("mock", "agent", "start", self._agent()),
            "TRADER": lambda: next(iter(self.client.trades.list(status="closed", limit=1))).agent_id,
            "OTHER_WALLET": lambda: trade.env.update(TRADE_WALLET_KEY=f"0x{number:064x}") or "",
            "WALLET": self._wallet,
            "TRADE": lambda: next(iter(self.client.trades.list(limit=1))).id,
            "PAID": self._payment,
            "PAYMENT": self._payment,
            "DOUBT": self._doubt,
            "ADDRESS": lambda: LocalSigner.from_key(f"0x{number:064x}").address,
            "KEYSTORE": lambda: str(home / f"wallet-{number}.json"),
            "PROFILE": lambda: f"paper-{number}",
            "LOGGED_IN": lambda: self._did(f"paper-{number}", "login", "--mock", "--profile", f"paper-{number}"),
            "TIMED": self._timed,
            "SNAPSHOT": lambda: str(home / f"{number}.sqlite3"),
            "TAKEN": lambda: self._did(
                str(home / f"{number}.sqlite3"), "mock", "snapshot", str(home / f"{number}.sqlite3")
            ),
            "FAULT": lambda: self._id("mock", "fault", "add", "status", "--route", "/v1/nothing", "status=503"),
            "KEY_ID": lambda: self._id("mock", "key", "create", "--name", "some"),
            "KEY": lambda: self._id("mock", "key", "create", "--name", "some"),
            "ACTION": self._action,
            "TENANT": lambda: f"other{number}",
        }
        return makers[word]()

    def _did(self, name: str, *argv: str) -> str:
        run = self.trade(*argv)
        assert run.code == 0, run.err
        return name

    def _id(self, *argv: str) -> str:
        run = self.trade(*argv, "-o", "json")
        assert run.code == 0, run.err
        found: str = run.json["id"]
        return found

    def _agent(self) -> str:
        there = ("--name", "some", "--wallet-id", self._wallet(), "--chain", "base")
        return self._id("agents", "create", *there, "--yes")

    def _wallet(self) -> str:
        if "wallet" not in self.kept:
            self.kept["wallet"] = next(wallet.id for wallet in self.client.wallets.list() if wallet.chain_id == 8453)
        return self.kept["wallet"]

    def _payment(self) -> str:
        if "payment" not in self.kept:
            self._did("", "market", "prices", "ETH", "--max-price", "0.20")
            self.kept["payment"] = self.trade("pay", "history", "-o", "json").json[0]["id"]
        return self.kept["payment"]

    def _doubt(self) -> str:
        self._did("", "mock", "fault", "add", "status", "--paid", "only", "--count", "1")
        self.trade("market", "prices", "ETH", "--max-price", "0.20")
        return ""

    def _action(self) -> str:
        approvals = Approvals(approvals_file(self.trade.home / "ledger.sqlite3"))
        content: dict[str, Any] = {"do": "buy", "what": "token-prices", "body": {}, "purchase": f"mcp/{next(numbers)}"}
        content |= {"price_usd": "0.03", "where": "here", "payer": None}
        return approvals.prepare(content, content, time.time()).code

    def _timed(self) -> str:
        name = self._make("LOGGED_IN")
        return self._did(name, "config", "set", "timeout", "10", "--profile", name)


@contextmanager
def shop() -> Iterator[MockServer]:
    """A service with everything, market data too."""
    with MockServer(seed=7, signals="scripted") as running:
        stocked(running)
        running.populate("matrix")
        running.set_plan("matrix", "enterprise")
        yield running


def settle_in(trade: Terminal, server: MockServer) -> None:
    """Points `trade` at that service, with a wallet."""
    trade.env |= {
        "TRADE_BASE_URL": server.url,
        "TRADE_MARKET_BASE_URL": server.url,
        "TRADE_API_KEY": "mock_full_matrix",
        "TRADE_WALLET_KEY": KEY,
        "XDG_CONFIG_HOME": str(trade.home),
    }


# What was handed over to be printed


@contextmanager
def handed(patch: pytest.MonkeyPatch) -> Iterator[list[Handed]]:
    """Notes what is handed over meanwhile; items of a stream are one list."""
    found: list[Handed] = []
    one, many, put = printing.Output.one, printing.Output.many, Lines.put

    def print_one(out: Any, item: Any, **options: Any) -> None:
        found.append(Handed(False, plain(item)))
        one(out, item, **options)

    def print_many(out: Any, columns: Any, pages: Any, **options: Any) -> None:
        kept = [list(page) for page in pages]
        found.append(Handed(True, plain([item for page in kept for item in page])))
        many(out, columns, iter(kept), **options)

    def put_line(lines: Any, item: Any, **options: Any) -> None:
        if not found:
            found.append(Handed(True, []))
        found[0].value.append(plain(item))
        put(lines, item, **options)

    with patch.context() as patched:
        patched.setattr(printing.Output, "one", print_one)
        patched.setattr(printing.Output, "many", print_many)
        patched.setattr(Lines, "put", put_line)
        yield found


def plain(value: Any) -> Any:
    """A copy, as JSON would have it."""
    return json.loads(json.dumps(value))
