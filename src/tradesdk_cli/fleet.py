"""A fleet in the terminal: relay a chain's signals, and look at what the machines share."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import CliError, Interrupted
from tradesdk_cli.interrupts import StopRequested, exit_code_of, on_signal
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.retries import heard_by
from tradesdk_cli.stream.group import fleet_url
from tradesdk_cli.stream.watchdog import Watchdog
from tradesdk_cli.text import counted, one_line, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeGuard

    from rich.console import Console

    from tradesdk import Ledger
    from tradesdk.fleet import RedisLedger, RelayStats, RelayStatus, ServerReport, SignalRelay
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

NEAR = 3.0
"""Seconds by which clocks may differ without a word about it."""

_SILENT = 20.0
"""Seconds after which a member counts as dead: twice the usual lease."""


# The relay


class _Line(Progress):
    """A line that is overwritten: who relays, and how many signals were relayed here."""

    def __init__(self, out: Output) -> None:
        super().__init__(out, "signals")
        self._text = ""
        # The watch and the relay write from threads of their own.
        self._drawing = RLock()

    def show(self, text: str) -> None:
        with self._drawing:
            if self.on_line and (text != self._text or not self._shown):
                self._text = text
                self._draw(text)

    def wipe(self) -> None:
        with self._drawing:
            super().wipe()


class _Events(logging.Handler):
    """Says on stderr what happens to a relay: each reason to wait once, until it relays again."""

    def __init__(self, out: Output, chain: str) -> None:
        super().__init__(logging.INFO)
        self._out = out
        self._chain = chain
        self._why = ""
        self.over = False
        """True when it is to end: what breaks off from then on was broken off by us."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.over:
            return
        fields = vars(record)
        event, reason = fields.get("event"), one_line(str(fields.get("reason", "")))
        if event == "relay_started":
            self._why = ""
            self._out.event(event, f"relaying {self._chain}: this process has the lease")
        elif event == "relay_ended":
            self._out.event(event, f"relaying {self._chain} no longer: {reason}", reason=reason)
        elif event == "stream_gap":
            start, end = (f"{fields[name]:%Y-%m-%d %H:%M:%SZ}" for name in ("start", "end"))
            self._out.event("gap", f"signals from {start} to {end} may be missing: {reason}", reason=reason)
        elif event in ("fleet_waiting", "stream_disconnected", "history_unread", "retry") and reason != self._why:
            self._why = reason
            self._out.event("waiting", f"{reason}; trying again until it works", reason=reason)
        elif event == "stream_connected" and self._why:
            self._why = ""
            self._out.event("connected", "connected to the service again")


def relay(run: Session, chain: int, *, keep: int, nautilus: bool, duration: float | None) -> None:
    """Offers to relay a chain until Ctrl-C, or for `duration` seconds.

    Raises:
        UsageProblem: there is no fleet.
        Interrupted: Ctrl-C or SIGTERM.
    """
    url, name = fleet_url(run, "a relay"), CHAIN_NAMES[chain]
    offered = run.client.signals.relay(chain=chain, redis=url, keep=keep, nautilus=nautilus)
    out, line = run.out, _Line(run.out)
    events = _Events(out, name)
    with line, heard_by(events):

        def stop() -> None:
            events.over = True
            offered.close()

        def hear(number: int) -> bool:
            events.over = True
            raise StopRequested(number)

        try:
            with on_signal(hear), offered:
                tick = _Teller(out, line, offered, name).tick
                with Watchdog(stop, out.stdout, duration=duration, tick=tick):
                    offered.wait()
        except KeyboardInterrupt as interrupt:
            line.clear()
            raise Interrupted(exit_code_of(interrupt)) from None
        finally:
            _summary(out, name, offered.stats)


class _Teller:
    """Says who relays: on a terminal in the line, else when that changes."""

    def __init__(self, out: Output, line: _Line, relay: SignalRelay, chain: str) -> None:
        self._out, self._line, self._relay, self._chain = out, line, relay, chain
        self._owner: str | None = None

    def tick(self) -> None:
        """Look. May be called by any thread."""
        stats = self._relay.stats
        if stats.relayed_by not in (None, self._owner):
            self._owner = stats.relayed_by
            if self._owner != self._relay.member:
                text = f"{self._owner} relays {self._chain}; this process takes over when that one ends"
                self._out.event("relay_waits", text, relayed_by=self._owner)
        self._line.show(_told(stats, self._chain))


def _told(stats: RelayStats, chain: str) -> str:
    many = f"{counted(stats.published, 'signals')} so far"
    if not stats.relaying:
        return f"waiting to relay {chain}, {many}"
    position = None if stats.stream is None else stats.stream.position
    return f"relaying {chain}, {many}" + ("" if position is None else f", up to {position:%H:%M:%S}Z")


def _summary(out: Output, chain: str, stats: RelayStats) -> None:
    had = "never had the lease" if not stats.terms else f"had the lease {counted(stats.terms, 'times')}"
    doubles = f", {counted(stats.duplicates, 'duplicates')} left out" if stats.duplicates else ""
    text = f"{counted(stats.published, 'signals')} of {chain} relayed{doubles}; {had}"
    out.event("summary", text, signals=stats.published, duplicates=stats.duplicates, terms=stats.terms)


# What the machines share


def status(run: Session, chains: Sequence[int]) -> dict[str, Any]:
    """What the machines of a fleet share. Nothing is sent to the service.

    What cannot be known here is None; why is said on stderr.

    Raises:
        UsageProblem: there is no fleet.
        FleetError: its server cannot be used.
    """
    from tradesdk.fleet import inspect_server

    url = fleet_url(run, "fleet status")
    record: dict[str, Any] = {
        "server": server_record(inspect_server(url)),
        "window": None,
        "money": _money(run),
        "relays": None,
    }
    base_url, limiter = run.settings.base_url, run.rate_limiter
    key = run.api_key(base_url) if base_url else None
    if key is None or limiter is None:
        run.out.note("rate limit and relays belong to an account: log in with trade login, or set TRADE_API_KEY")
        return record
    window = limiter.look(key[0])
    record["window"] = {
        "members": window.members,
        "in_flight": window.in_flight,
        "remaining": window.remaining,
        "limit": window.limit,
        "reset_in_seconds": window.reset_in,
    }
    signals = run.client.signals
    record["relays"] = [relay_record(signals.relay_status(chain=chain, redis=url)) for chain in chains]
    return record


def server_record(report: ServerReport) -> dict[str, Any]:
    """What a fleet's server says about itself."""
    return {
        "address": report.address,
        "engine": report.engine,
        "version": report.version,
        "durable": None if report.settings is None else not report.not_durable,
        "clock_difference_seconds": round(report.clock_ahead, 1),
    }


def relay_record(found: RelayStatus) -> dict[str, Any]:
    """Who relays a chain, and how far its groups are."""
    return {
        "chain": found.chain,
        "relayed_by": found.relayed_by,
        "lease_left_seconds": found.lease_left,
        "position": None if found.position is None else found.position.timestamp(),
        "published": found.published,
        "last_at": None if found.last is None else found.last.timestamp(),
        "kept": found.kept,
        "groups": [
            {
                "group": group.group,
                "lag": group.lag,
                "pending": group.pending,
                "members": [
                    {"member": one.member, "pending": one.pending, "seen_seconds_ago": one.seen}
                    for one in group.members
                ],
            }
            for group in found.groups
        ],
    }


def _money(run: Session) -> dict[str, Any] | None:
    """What the fleet spent and holds, and what its budgets leave."""
    from tradesdk import Budget, TradeError
    from tradesdk_cli.explain import problem_of
    from tradesdk_cli.purchase.records import spending_record

    if run.asks_for_password:
        run.out.note(f"money is not shown without the wallet's password; it is in: {run.settings.program} pay budget")
        return None
    try:
        record = spending_record(run.ledger.spending(Budget.from_environment(), now=run.now()))
        return {"wallet": run.ledger.wallet} | record if is_shared(run.ledger) else record
    except (TradeError, CliError) as error:
        problem = problem_of(error, run.settings.program)
        run.out.note(f"money is not shown: {problem.headline}")
        return None


def is_shared(ledger: Ledger | RedisLedger) -> TypeGuard[RedisLedger]:
    """Whether it is that of a fleet."""
    return hasattr(ledger, "wallet")


def draw_status(console: Console, record: dict[str, Any], width: int | None) -> None:
    """The same for people: a line for each thing that is shared, and below it the members of the groups."""
    from tradesdk_cli.output.columns import FLEET_GROUPS
    from tradesdk_cli.output.table import render_list, render_one

    relays = [one for one in record["relays"] or () if one["relayed_by"] or one["published"] or one["groups"]]
    shown = {"server": server_told(record["server"])}
    if record["window"] is not None:
        shown["rate limit"] = _window_told(record["window"])
    if record["money"] is not None:
        shown["money"] = _money_told(record["money"])
    for one in relays:
        shown[f"relay {CHAIN_NAMES[one['chain']]}"] = _relay_told(one)
    if record["relays"] is not None and not relays:
        shown["relay"] = "none yet: trade fleet relay --chain base"
    render_one(console, shown)
    rows = [row for one in relays for row in _member_rows(one)]
    if rows:
        console.print()
        render_list(console, FLEET_GROUPS, rows, width)


def server_told(server: Mapping[str, Any]) -> str:
    """A fleet's server in a few words."""
    durable = {True: "durable", False: "not durable, so it takes no payments", None: "does not tell its settings"}
    parts = [f"{server['address']}, {server['engine']} {server['version']}", durable[server["durable"]]]
    ahead = server["clock_difference_seconds"]
    if abs(ahead) > NEAR:
        parts.append(f"its clock is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's")
    return ", ".join(parts)


def _window_told(window: Mapping[str, Any]) -> str:
    members = "no member asked lately" if not window["members"] else counted(window["members"], "members")
    parts = [members]
    if window["remaining"] is not None and window["reset_in_seconds"]:
        limit = "" if window["limit"] is None else f" of {window['limit']}"
        parts.append(f"{window['remaining']}{limit} requests left for {span(window['reset_in_seconds'])}")
    if window["in_flight"]:
        parts.append(f"{window['in_flight']} under way")
    return ", ".join(parts)


def _money_told(money: Mapping[str, Any]) -> str:
    parts = [f"${money['spent_total_usd']} spent", f"${money['held_total_usd']} held"]
    for name in ("this_hour", "today", "total"):
        left = money[f"left_{name}_usd"]
        if left is not None:
            parts.append(f"${left} left {'in total' if name == 'total' else name.replace('_', ' ')}")
    if len(parts) == 2:
        parts.append("no budget")
    return f"{', '.join(parts)}, wallet {money.get('wallet', '')}"


def _relay_told(relay: Mapping[str, Any]) -> str:
    who = relay["relayed_by"]
    parts = [f"by {who}" if who else "nobody relays it now", counted(relay["published"], "signals")]
    if relay["last_at"] is not None:
        parts.append(f"the last at {datetime.fromtimestamp(relay['last_at'], UTC):%Y-%m-%d %H:%M:%S}Z")
    return ", ".join(parts)


def _member_rows(relay: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in relay["groups"]:
        for one in group["members"] or [{}]:
            yield {
                "chain": CHAIN_NAMES[relay["chain"]],
                "group": group["group"] or "(all signals)",
                "lag": group["lag"],
                "member": one.get("member"),
                "pending": one.get("pending"),
                "seen": _seen_told(one["seen_seconds_ago"]) if one else None,
            }


def _seen_told(seen: float | None) -> str:
    if seen is None:
        return "has left"
    return f"{span(seen)} ago" if seen < _SILENT else f"not for {span(seen)}"
