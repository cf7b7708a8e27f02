"""`trade top`: a live board."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.cli.params import AnyChain
from tradesdk_cli.run import Run, run_of

app = Verbs(run_of)


@app.verb("top", "trade top --once", "trade --mock top --once --chain base", silent=True)
def top(
    run: Run,
    chain: AnyChain = None,
    once: Annotated[bool, typer.Option("--once", help="Read everything once, print it and stop.")] = False,
) -> None:
    """A live board: agents, positions, signals, money.

    On a terminal it stays until q. Signals come live. The rest is read with at most a third of the plan's requests a
    minute; its age is shown. Without a terminal, and with --once, it prints everything once. Programs read the lists:
    trade positions list -o json.
    """
    from tradesdk_cli.top import view

    out = run.out
    has_screen = out.environ.get("TERM", "") not in ("", "dumb", "unknown")  # these cannot move the cursor
    if not once and out.pictures and out.on_terminal and has_screen:
        view.show_board(run, chain)
    else:
        view.once(run, chain)
