"""`trade mock clock`: the time of the service."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import CLOCK, ask, given
from tradesdk_cli.errors import RefusedByMock, UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import A_TIME, number, unix_or_date
from tradesdk_cli.session import session

app = single("Show, move, stop or speed up the mock's clock.")


@app.verb("clock", "trade --mock mock clock", "trade --mock mock clock --freeze --advance 3600")
def clock(
    ctx: typer.Context,
    advance: Annotated[
        float | None,
        typer.Option("--advance", parser=number(0), metavar="SECONDS", help="Move it forward, such as 3600."),
    ] = None,
    set_to: Annotated[
        float | None, typer.Option("--set", parser=unix_or_date(), metavar="TIME", help=f"Set it: {A_TIME}.")
    ] = None,
    backwards: Annotated[bool, typer.Option("--allow-backwards", help="Let --set go back in time.")] = False,
    freeze: Annotated[bool | None, typer.Option("--freeze/--resume", help="Stop it, or let it run again.")] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", parser=number(0), metavar="N", help="N times real time (1: real time)."),
    ] = None,
) -> None:
    """Show, move, stop or speed up the mock's clock."""
    from tradesdk_cli.commands.mock.show import show_clock

    if backwards and set_to is None:
        raise UsageProblem("--allow-backwards belongs to --set", "trade mock clock --help")
    body = given(freeze=freeze, set=set_to, advance=advance, speed=speed, allow_backwards=backwards or None)
    with session(ctx) as run:
        try:
            method = "POST" if body else "GET"
            show_clock(run.out, ask(run, method, "clock", body or None, gives=CLOCK))
        except RefusedByMock as error:
            if set_to is not None and not backwards:
                error.hint = "--allow-backwards lets --set go into its past"
            raise
