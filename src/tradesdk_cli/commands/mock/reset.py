"""`trade mock reset`: an empty mock again."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import ask, given, place
from tradesdk_cli.commands.mock.serve import ScenarioOption
from tradesdk_cli.commands.mock.status import STATUS
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import DryRun, Yes, whole
from tradesdk_cli.session import session

app = single("Delete everything but the clock and the gap options.")


@app.verb("reset", "trade --mock mock reset --yes", "trade mock reset --scenario crash --populate me --dry-run")
def reset(
    ctx: typer.Context,
    seed: Annotated[
        int | None, typer.Option("--seed", parser=whole(), metavar="N", help="The seed of the new world.")
    ] = None,
    scenario: ScenarioOption = None,
    populate: Annotated[
        list[str] | None,
        typer.Option("--populate", metavar="TENANT", help="Populate this tenant afterwards; may be repeated."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete everything but the clock and the gap options.

    Agents, trades, keys, signals and faults are gone, and open streams end. The embedded world's own tenant is filled
    again by itself, and what was paid in that world is forgotten on both sides.
    """
    from tradesdk_cli import idcache
    from tradesdk_cli.commands.mock.show import show_status
    from tradesdk_cli.confirm import Change, approve

    tenants = list(dict.fromkeys(populate or []))
    with session(ctx) as run:
        if run.settings.mock:
            from tradesdk_cli.mockworld import MOCK_TENANT

            tenants = list(dict.fromkeys([MOCK_TENANT, *tenants]))
        body = given(seed=seed, scenario=scenario, populate=tenants or None)
        what = f"reset {place(run)}: forget agents, trades, keys, signals and faults"
        change = Change(what, "POST", "/_mock/reset", body, mock=place(run))
        if approve(run, change, yes=yes, dry_run=dry_run):
            status = ask(run, "POST", "reset", body, gives=STATUS)
            idcache.forget_all()
            if run.settings.mock:
                from tradesdk_cli.mockworld import forget_payments

                forget_payments(run.settings)
            show_status(run.out, status)
            if not tenants:
                run.out.note(f"every tenant is empty now: {run.settings.program} mock tenant populate NAME fills one")
