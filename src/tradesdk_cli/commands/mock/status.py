"""`trade mock status`: what the mock holds."""

from __future__ import annotations

import typer

from tradesdk_cli.commands.mock.control import CLOCK, OPTIONAL_TEXT, Shape, ask
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

app = single("Show what the mock holds.")

COUNTS = ("keys", "agents", "trades", "signals", "streams", "faults")
STATUS: Shape = {
    **CLOCK,
    **dict.fromkeys(("seed", *COUNTS), int),
    "market": str,
    "scenario": str,
    "price_failure": (bool, list),
    "db": OPTIONAL_TEXT,
    "tenants": list,
    "gaps": dict,
}


@app.verb("status", "trade --mock mock status", "trade mock status -o json")
def status(ctx: typer.Context) -> None:
    """Show what the mock holds: seed, clock, counts, faults."""
    from tradesdk_cli.commands.mock.show import show_status

    with session(ctx) as run:
        show_status(run.out, ask(run, "GET", "status", gives=STATUS))
