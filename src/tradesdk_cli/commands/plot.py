"""`trade plot`: charts of prices and results in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import AgentId, AnyChain, Since, Until, count, whole
from tradesdk_cli.run import run_of

if TYPE_CHECKING:
    from tradesdk_cli.plot.plots import Wanted

app = noun("plot", "Draw a token's price or an agent's result.")

_OF_POINTS = "At most N points, the newest (default 500)."


def wanted(
    since: Since = None,
    until: Until = None,
    limit: Annotated[int | None, count(_OF_POINTS, 10000)] = None,
    height: Annotated[
        int | None, typer.Option(parser=whole(8, 200), metavar="N", help="Height in lines, 8 to 200.")
    ] = None,
) -> Wanted:
    """The options of both plots."""
    from tradesdk_cli.plot.plots import Wanted

    return Wanted(since, until, limit or 500, height)


@app.verb(
    "token",
    "trade plot token BRETT --chain base",
    "trade plot token BRETT --chain base --since 7d -o csv",
    wanted=wanted,
)
def token(
    ctx: typer.Context,
    *,
    symbol: Annotated[str, typer.Argument(metavar="SYMBOL", help="The token: its symbol or its address.")],
    chain: AnyChain = None,
    wanted: Wanted,
) -> None:
    """Plot a token's price with its BUY and SELL signals.

    Shows the prices that signals report, which are free; the line connects them. Current prices cost money: trade
    market prices. -o json and -o csv print the signals, oldest first, as --out does.
    """
    from tradesdk_cli.plot.plots import plot_token

    with run_of(ctx) as run:
        plot_token(run, symbol, chain, wanted)


@app.verb("agent", "trade plot agent AGENT_ID", "trade plot agent AGENT_ID --since 30d --height 12", wanted=wanted)
def agent(
    ctx: typer.Context,
    *,
    agent_id: AgentId,
    wanted: Wanted,
) -> None:
    """Plot an agent's result over time.

    Adds up its closed trades; the last point includes the unrealized result of open positions. With --since the sum
    starts at zero there. -o json and -o csv print the points, as --out does.
    """
    from tradesdk_cli.plot.plots import plot_agent

    with run_of(ctx) as run:
        plot_agent(run, agent_id, wanted)
