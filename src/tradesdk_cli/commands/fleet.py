"""`trade fleet`: machines that share a ledger, a rate limit and signals in PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import Chain, parse_span
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.run import Run, run_of

if TYPE_CHECKING:
    from rich.console import Console

    from tradesdk import Spending

app = noun("fleet", "Many machines, one budget, rate limit and stream of signals: init, relay, status.", run_of)


def url_of(run: Run) -> str:
    """The URL of the fleet."""
    if run.settings.fleet is not None:
        return run.settings.fleet
    if run.settings.fleet_url is not None:
        hint = "for a try, serve a mock: trade mock serve; then TRADE_BASE_URL says where it is"
        raise ConfigProblem("a mock world belongs to no fleet", hint)
    raise ConfigProblem(
        "there is no fleet: TRADE_FLEET is not set",
        "export TRADE_FLEET=postgresql://USER@HOST:5432/DATABASE, or {trade} config set fleet_url URL",
    )


@app.verb("init", "trade fleet init", "trade fleet init -o json")
def init(run: Run) -> None:
    """Create the tables of a fleet in its database, unless they are there."""
    url = url_of(run)
    from tradesdk.fleet import create_tables, status

    created = create_tables(url)
    run.out.one({"server": status(url).server, "created": created})


@app.verb("relay", "trade fleet relay --chain base", "trade fleet relay --chain bnb --lease 30s", silent=True)
def relay(
    run: Run,
    chain: Chain,
    lease: Annotated[
        float | None,
        typer.Option(
            parser=parse_span,
            metavar="SPAN",
            help="How long the working relay may be silent before another takes over (default 15s).",
        ),
    ] = None,
) -> None:
    """Store the live signals of a chain for the fleet, until Ctrl-C.

    Run it on two machines: one works, the other waits and takes over. Members read the signals with signals stream
    --group. It ends when the database cannot be reached (exit code 11): let a service manager such as systemd restart
    it.
    """
    url = url_of(run)
    from tradesdk.fleet import FleetRelay

    run.out.log = "events"
    with FleetRelay(run.client, chain=chain, url=url, lease=15.0 if lease is None else lease) as relay:
        relay.run()


@app.verb("status", "trade fleet status", "trade fleet status -o json")
def status(run: Run) -> None:
    """Show relays, groups with their lag, members, rate limits and budgets.

    Tables that the database's user may not read are named; the rest is shown.
    """
    url = url_of(run)
    from tradesdk import Budget, LedgerError
    from tradesdk.fleet import status
    from tradesdk_cli.pay.rows import spending_fields

    found = status(url)
    spending, unread = None, dict(found.unread)
    try:
        spending = run.ledger.spending(Budget.from_environment(), now=run.now())
    except LedgerError as error:
        if error.code != "ledger_denied":
            raise
        unread["money"] = error.message
    parts = {name: [_fields(one) for one in getattr(found, name)] for name in _PARTS if name not in unread}
    if run.out.draws(many=False):
        run.out.draw(lambda console: _draw(console, run, found, parts, spending))
        if unread:
            run.out.note(f"this user may not read: {', '.join(sorted(unread))}")
        return
    run.out.one(
        {
            **parts,
            "money": None if spending is None else spending_fields(spending),
            "unread": unread or None,
            "server": found.server,
            "version": found.version,
            "clock_seconds": round(found.ahead, 1) + 0.0,  # no -0.0
        }
    )


_PARTS = {
    "relays": "no relay stores signals: trade fleet relay --chain base",
    "groups": "no group reads signals: trade signals stream --chain base --group NAME",
    "members": "no member was active in the last minute",
    "windows": "no rate limit is known yet",
}


def _draw(
    console: Console, run: Run, found: Any, parts: dict[str, list[dict[str, Any]]], spending: Spending | None
) -> None:
    """A table for each part, then the money as `pay budget` shows it, then the server."""
    from rich.text import Text

    from tradesdk_cli.output import columns
    from tradesdk_cli.output.table import render_list
    from tradesdk_cli.pay.rows import render_spending

    for name, rows in parts.items():
        for row in rows:
            row["state"] = "working" if row.get("is_working") else "stopped"
            row["seen_at"] = run.now() - row.get("seen", 0.0)
        console.print(Text("rate limits" if name == "windows" else name, style="bold"))
        if rows:
            render_list(console, getattr(columns, name.upper()), rows, run.out.width, indent=2, now=run.now)
        else:
            console.print(Text(f"  {_PARTS[name]}"))
        console.print()
    if spending is not None:
        render_spending(console, spending)
        console.print()
    ahead = round(found.ahead, 1)
    clock = f"its clock is {abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'} this machine's" if ahead else ""
    console.print(Text(f"{found.server} (PostgreSQL {found.version}){clock and ', '}{clock}"))


def _fields(one: Any) -> dict[str, Any]:
    return {name: _shown(value) for name, value in asdict(one).items()}


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp())
    return round(value, 1) if isinstance(value, float) else value
