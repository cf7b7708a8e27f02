"""The checks of `trade doctor`: settings, both services, wallet, ledger, and the MCP server."""

from __future__ import annotations

import importlib.metadata
import logging
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tradesdk import (
    Budget,
    ChainWitness,
    ConfigError,
    LocalSigner,
    MarketClient,
    PaymentError,
    PaymentStage,
    TradeClient,
    keystore_address,
)
from tradesdk_cli.config.credentials import without_password
from tradesdk_cli.config.settings import DEFAULT
from tradesdk_cli.errors import CONFIG, OTHER, ConfigProblem
from tradesdk_cli.explain import problem_of
from tradesdk_cli.mcp import INSTALL
from tradesdk_cli.output.stderr import broken
from tradesdk_cli.pay.checkout import market_client
from tradesdk_cli.pay.rows import LIMITS, left_over, spending_fields
from tradesdk_cli.retries import log_handler
from tradesdk_cli.text import dollars, maybe_dollars, one_line, plural, usd, visible
from tradesdk_cli.wallet import KEY, KEYSTORE, keystore_path, play_money

if TYPE_CHECKING:
    from rich.console import Console

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.run import Run


State = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: its stable name.
        status: `ok`, `warning`, `problem`, or `skipped` where there is nothing to check.
        message: the finding, in words.
        next: the next step.
        facts: the same for programs.
        config: whether it is a problem of the settings.
    """

    check: str
    status: State
    message: str
    next: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    config: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The row for machine formats."""
        return {name: value for name, value in vars(self).items() if name != "config"}


def exit_code(findings: Iterable[Finding]) -> int:
    """0 without problems; 3 when a setting is wrong; else 1. Warnings do not count."""
    codes = (CONFIG if one.config else OTHER for one in findings if one.status == "problem")
    return max(codes, default=0)


def examine(run: Run, broken: ConfigProblem | ConfigError | None) -> list[Finding]:
    """The findings of all checks; an exception is a finding as well. `broken`: why not all settings could be read."""
    checks: dict[str, Callable[[Run], Sequence[Finding]]] = {
        "settings": lambda run: settings(run, broken),
        "api": account,
        "market data": market,
        "wallet": wallet,
        "ledger": ledger,
        "fleet": fleet,
        "mcp": mcp,
    }
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += check(run)
        except Exception as error:
            problem = problem_of(error, run.settings.program)
            message = (
                problem.headline if problem.code != "internal" else f"could not be checked: {type(error).__name__}"
            )
            facts = {"code": problem.code} | ({} if problem.status is None else {"http_status": problem.status})
            is_config = problem.exit_code == CONFIG
            found.append(Finding(name, "problem", one_line(message), problem.hint, facts, config=is_config))
    return found


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_TITLES = {"base_url": "address", "market_url": "market data", "rpc_url": "node"}


def settings(run: Run, broken: ConfigProblem | ConfigError | None) -> list[Finding]:
    """The settings with their sources, and proxies."""
    if broken is not None:
        return [Finding("settings", "problem", one_line(broken.message), broken.hint, config=True)]
    chosen, environ = run.settings, run.out.environ
    parts = []
    facts: dict[str, Any] = {}
    for name, source in sorted(chosen.sources.items()):
        facts[name] = {"source": one_line(source)}
        if name == "api_key":
            continue
        value = getattr(chosen, name)
        shown = facts[name]["value"] = without_password(value) if name in _TITLES and value else value
        if source != DEFAULT and not (chosen.mock and name in (*_TITLES, "world")):
            entry = f"mock world {chosen.world}" if name == "mock" and value else f"{_TITLES.get(name, name)} {shown}"
            parts.append(f"{one_line(entry)} ({one_line(source.removeprefix('flag '))})")
    proxies = {name: environ.get(name) or environ.get(name.lower()) for name in _PROXIES}
    facts["proxies"] = {name: without_password(value) for name, value in proxies.items() if value}
    parts += [f"{name} {value}" for name, value in facts["proxies"].items()]
    file = chosen.saved.file
    facts["config_file"] = None if file is None else str(file)
    hint = "trade config list --sources"
    return [
        Finding("settings", "ok", "; ".join(parts) or "none: every setting has its default", None, facts),
        *(Finding("settings", "warning", one_line(warning), hint) for warning in chosen.warnings),
    ]


TIMEOUT = 5.0
_FAR = 30.0
_NEAR = 3.0


class LastAnswer:
    """The last response: its headers, time and duration."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.headers: dict[str, str] = {}
        self.seconds = 0.0
        self.at = 0.0

    def handle(self, record: logging.LogRecord) -> None:
        wire = vars(record).get("wire", {})
        if wire.get("event") == "answer":
            self.headers, self.seconds, self.at = wire["headers"], wire["seconds"], self._now()

    @property
    def difference(self) -> float | None:
        """Seconds that the service's clock is ahead of ours; None without a Date header."""
        try:
            there = parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError, OSError):
            return None
        # Date has whole seconds, so half a second is missing on average; it was written half a round trip ago.
        return there + 0.5 - (self.at - self.seconds / 2)


ClientT = TypeVar("ClientT", TradeClient, MarketClient)


@contextmanager
def _single_try(run: Run, client: ClientT) -> Iterator[tuple[ClientT, LastAnswer]]:
    """A copy of `client` without retries, and its last response."""
    last = LastAnswer(run.now)
    with log_handler(last.handle, log="tradesdk.wire", alone=True):
        yield client.with_options(timeout=TIMEOUT, max_retries=0, deadline=TIMEOUT), last


def _answers(run: Run, url: str, milliseconds: int) -> str:
    where = f"mock world {run.settings.world}" if run.settings.mock else url
    return f"{where} answers in {milliseconds} ms"


def account(run: Run) -> list[Finding]:
    """Whether the API can be reached and accepts the key; plan, rate limit and clock."""
    settings = run.settings
    if not settings.mock and not settings.base_url:
        hint = "log in: trade login; or look around without an account: trade demo"
        return [Finding("api", "problem", "no address is set", hint, config=True)]
    with _single_try(run, run.client) as (client, last):
        found = client.account.get()
        limit = client.rate_limit
    last4 = found.api_key_last4[-4:]  # a service may say more
    facts: dict[str, Any] = {
        "url": client.base_url,
        "email": found.email,
        "plan": found.plan,
        "api_key_last4": last4,
        "api_key_source": settings.sources.get("api_key"),
        "milliseconds": round(last.seconds * 1000),
        "rate_limit": None if limit is None else {"limit": limit.limit, "remaining": limit.remaining},
    }
    whose = f"{one_line(found.email, 80)}, plan {one_line(found.plan, 40)}; key …{one_line(last4)}"
    message = f"{_answers(run, client.base_url, facts['milliseconds'])}: {whose}"
    if limit is not None and limit.remaining is not None:
        message += f"; {limit.remaining} of {limit.limit} requests left this minute"
    return [Finding("api", "ok", message, None, facts), *_clock(last.difference)]


def _clock(difference: float | None) -> list[Finding]:
    if difference is None:
        return [Finding("clock", "skipped", "the service does not say what time it is")]
    facts = {"difference_seconds": round(difference, 1)}
    if abs(difference) <= _NEAR:
        return [Finding("clock", "ok", "the same time here and at the service", None, facts)]
    message = f"the service is {abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} this machine"
    if abs(difference) <= _FAR:
        return [Finding("clock", "ok", message, None, facts)]
    hint = "set this machine's clock (timedatectl set-ntp true): payments are valid for a minute only"
    return [Finding("clock", "warning", message, hint, facts)]


def market(run: Run) -> list[Finding]:
    """Whether market data can be reached: lists the tokens, which is free. Without a wallet, nothing can be paid."""
    if not run.settings.mock and not run.settings.market_url:
        hint = "only purchases need it: TRADE_MARKET_BASE_URL"
        return [Finding("market data", "skipped", "no address is set", hint)]
    with _single_try(run, market_client(run)) as (client, last):
        try:
            found = client.supported_tokens(limit=1).data.total
            listing = f"{found:,} tokens" if isinstance(found, int) else "tokens are listed"
        except PaymentError:
            listing = "it charges even for the list of tokens; nothing was paid"
    facts: dict[str, Any] = {"url": client.base_url, "milliseconds": round(last.seconds * 1000)}
    message = f"{_answers(run, client.base_url, facts['milliseconds'])}: {listing}"
    clock = _clock(last.difference) if abs(last.difference or 0.0) > _FAR else []
    return [Finding("market data", "ok", message, None, facts), *clock]


def wallet(run: Run) -> list[Finding]:
    """The wallet's key and, if known without a password, its address; its balance from a node, and the code there."""
    found = _key(run)
    address = found.facts.get("address")
    if address is None:
        return [found]
    fund = f"add USDC on Base to {address}"
    if run.settings.mock:
        fund = f"{run.settings.program} mock payments set-balance {address} 10"
        node = ChainWitness(run.mock.rpc_url, http_client=run.http)
    elif run.settings.rpc_url is not None:
        node = ChainWitness(*run.out.environ["TRADE_RPC_URL"].split(), timeout=TIMEOUT)
    else:
        return [found]
    with node:
        balance, code = node.balance(address), node.code(address)
    facts = found.facts | {"balance_usd": maybe_dollars(balance), "code": None if code is None else code.kind}
    has = "the node does not report its balance" if balance is None else f"{dollars(usd(balance))} of USDC"
    shown = replace(found, message=f"{found.message}; {has}", facts=facts)
    findings = [replace(shown, status="warning", next=fund) if balance == 0 else shown]
    if code is not None and code.kind != "none":
        findings.append(Finding("wallet", "warning", one_line(str(code)), None, {"code": code.kind}))
    return findings


def _key(run: Run) -> Finding:
    """The source of the key, and its address."""
    environ = run.out.environ
    if run.settings.mock:
        address = play_money(run.mock.world.seed, lambda _: None).address
        message = f"play money of the mock world {run.settings.world}"
        return Finding("wallet", "ok", message, None, {"source": "mock", "address": address})
    if environ.get(KEY):
        address = LocalSigner.from_env(KEY).address
        return Finding("wallet", "ok", f"{address}, from {KEY}", None, {"source": KEY, "address": address})
    path = keystore_path(run.settings, None)
    if not environ.get(KEYSTORE) and not path.exists():
        return Finding("wallet", "skipped", "there is none", "only purchases need one: trade pay key new")
    facts: dict[str, Any] = {"source": str(path)}
    try:
        address = keystore_address(path)
    except ConfigError as error:
        if error.code != "keystore_without_address":
            raise
        return Finding("wallet", "ok", f"{path} can be read; it has no address in it", None, facts)
    facts |= {"address": address, "mode": f"{stat.S_IMODE(path.stat().st_mode):04o}"}
    return Finding("wallet", "ok", f"{address}, in {path}", None, facts)


def ledger(run: Run) -> list[Finding]:
    """Whether the ledger is consistent, payments in doubt, and what is left of the budgets."""
    budget = Budget.from_environment()
    facts: dict[str, Any] = {"file": run.ledger_name}
    set_one = f"{run.settings.program} pay budget set --per-day 5"
    # Opening a missing ledger would create it. If only its marker file is left, the ledger is reported as lost.
    if run.settings.fleet is None and not any(Path(f"{run.ledger_file}{end}").exists() for end in ("", "-signed")):
        message = "nothing was bought yet" + ("" if budget.is_set else "; no budget is set")
        return [Finding("ledger", "skipped", message, None if budget.is_set else set_one, facts)]
    run.ledger.check()
    sent = run.ledger.history(stages=[PaymentStage.SENT], unproven=True)
    doubtful = [payment for payment in sent if payment.in_doubt]
    spending = run.ledger.spending(budget, now=run.now())
    money_fields = spending_fields(spending)
    facts |= {
        "in_doubt": [payment.id for payment in doubtful],
        **{name: money_fields[name] for name in money_fields if name.startswith(("spent_", "held_"))},
        "budget_usd": {name: maybe_dollars(getattr(spending.budget, name)) for name in LIMITS},
    }
    money = left_over(spending) or ("a budget for one purchase only" if spending.budget.is_set else "no budget is set")
    if doubtful or spending.held:
        doubt = f"{plural(len(doubtful), 'payments')} in doubt, " if doubtful else ""
        message = f"consistent; {doubt}{dollars(spending.held_usd)} held; {money}"
        hint: str | None = f"{run.settings.program} pay reconcile"
        if not run.settings.mock and run.settings.rpc_url is None:
            message += "; no node of Base is set to prove what was paid (TRADE_RPC_URL)"
            if run.target(market=True).fields["mode"] == "live":
                hint = f"TRADE_RPC_URL=https://mainnet.base.org {hint}"
        return [Finding("ledger", "warning", message, hint, facts)]
    hint = None if spending.budget.is_set else set_one
    return [Finding("ledger", "ok", f"consistent, no open payments; {money}", hint, facts)]


def fleet(run: Run) -> list[Finding]:
    """Whether the fleet's server is safe for a ledger, has the tables, and grants this user access."""
    if run.settings.fleet is None:
        if run.settings.fleet_url is None:
            return []
        return [Finding("fleet", "skipped", "a mock world has its own ledger and limits")]
    from tradesdk.fleet import status

    found = status(run.settings.fleet)
    facts = {"version": found.version, "clock_seconds": round(found.ahead, 1), "unread": found.unread}
    message = f"{found.server} (PostgreSQL {found.version}, synced)"
    if found.unread:
        what = next(iter(found.unread.values()))
        hint = "grant the rights of docs/fleet.md to this user"
        return [Finding("fleet", "problem", f"{message}: {one_line(what)}", hint, facts, config=True)]
    if abs(found.ahead) > _NEAR:
        clock = f"its clock is {abs(found.ahead):.0f} s {'ahead of' if found.ahead > 0 else 'behind'} this machine's"
        return [Finding("fleet", "warning", f"{message}: {clock}", "set the clocks of all machines: NTP", facts)]
    working = sum(relay.is_working for relay in found.relays)
    message += f"; {plural(len(found.members), 'members')}, {plural(working, 'relays')} at work"
    return [Finding("fleet", "ok", message, None, facts)]


def mcp(_: Run) -> list[Finding]:
    """Whether `trade mcp` can serve AI clients."""
    try:
        found = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        hint = f"only needed for AI clients: {INSTALL}"
        return [Finding("mcp", "skipped", "the package mcp is not installed", hint, {"mcp": None})]
    return [Finding("mcp", "ok", f"trade mcp can serve AI clients (mcp {found})", None, {"mcp": found})]


_LOOKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red"), "skipped": ("-", "dim")}


def show(out: Output, findings: Sequence[Finding]) -> None:
    """Prints them and a summary; the next step begins a line of its own, and its commands are not broken."""
    names = max(len(one.check) for one in findings)
    states = max(len(one.status) for one in findings)
    indent = 2 + states + 2 + names + 2
    room = max(30, (out.width or sys.maxsize) - indent)

    def draw(console: Console) -> None:
        from rich.text import Text

        from tradesdk_cli.output.table import print_line

        for one in findings:
            mark, style = _LOOKS[one.status]
            parts = map(visible, one.message.split("; ") if one.check == "settings" else [one.message])
            lines = (wrap(part, room, break_long_words=False, break_on_hyphens=False) for part in parts)
            first, *rest = chain.from_iterable(lines)
            status = (f"{mark} {one.status:<{states}}", style)
            print_line(console, Text.assemble(status, "  ", (f"{one.check:<{names}}", "bold"), f"  {first}"))
            for line in rest:
                print_line(console, Text(" " * indent + line))
            if one.next and one.status != "ok":
                first, *rest = broken(f"next: {visible(one.next)}", (out.width or sys.maxsize) - 10)
                print_line(console, Text.assemble("    ", ("next:", "cyan"), first.removeprefix("next:")))
                for line in rest:
                    print_line(console, Text(f"          {line}"))

    out.draw(draw)
    counts = Counter(one.status for one in findings)
    parts = [plural(counts[status], f"{status}s") for status in ("problem", "warning") if counts[status]]
    out.note(" and ".join(parts) if parts else "all checks passed")
