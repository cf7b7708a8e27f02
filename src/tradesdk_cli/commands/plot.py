"""`trade plot`: charts of prices and results in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import AgentId, AnyChain
from tradesdk_cli.plot import Wanted
from tradesdk_cli.run import Run, run_of

app = noun("plot", "Draw a token's price or an agent's result.", run_of)


@app.verb(
    "token",
    "trade plot token BRETT --chain base",
    "trade plot token BRETT --chain base --since 7d -o csv",
)
def token(
    run: Run,
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

    plot_token(run, symbol, chain, wanted)


@app.verb("agent", "trade plot agent AGENT_ID", "trade plot agent AGENT_ID --since 30d --height 12")
def agent(
    run: Run,
    *,
    agent_id: AgentId,
    wanted: Wanted,
) -> None:
    """Plot an agent's result over time.

    Adds up its closed trades; the last point includes the unrealized result of open positions. With --since the sum
    starts at zero there. -o json and -o csv print the points, as --out does.
    """
    from tradesdk_cli.plot.plots import plot_agent

    plot_agent(run, agent_id, wanted)
