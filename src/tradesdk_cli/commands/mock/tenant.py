"""`trade mock tenant`: who has accounts at the mock."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import ask, given, word
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import whole
from tradesdk_cli.session import session

app = noun("tenant", "Tenants of the mock: populate, plan.")


class Plan(StrEnum):
    """What a tenant has subscribed to."""

    free = "free"
    pro = "pro"
    enterprise = "enterprise"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant, as in the key mock_full_NAME.")]


@app.verb("populate", "trade --mock mock tenant populate you", "trade mock tenant populate you --trades 5000")
def populate(
    ctx: typer.Context,
    name: Name,
    trades: Annotated[
        int | None, typer.Option("--trades", parser=whole(8, 1_000_000), metavar="N", help="How many; 250 by default.")
    ] = None,
) -> None:
    """Give a tenant wallets, agents, trades and positions, once.

    Creates the tenant if needed; a populated one stays as it is.
    """
    with session(ctx) as run:
        run.out.one(ask(run, "POST", f"tenants/{word(name)}/populate", given(trades=trades)))


@app.verb("plan", "trade --mock mock tenant plan me enterprise", "trade mock tenant plan you free -o json")
def plan(ctx: typer.Context, name: Name, plan: Annotated[Plan, typer.Argument(metavar="free|pro|enterprise")]) -> None:
    """Change a tenant's plan: upward at once, downward at the end of the period."""
    with session(ctx) as run:
        run.out.one(ask(run, "POST", f"tenants/{word(name)}/plan", {"plan": plan.value}))
