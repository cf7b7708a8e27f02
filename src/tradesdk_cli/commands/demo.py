"""`trade demo`: the whole service in a few seconds."""

from __future__ import annotations

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.run import Run, run_of

app = Verbs(run_of)


@app.verb("demo", "trade demo", "trade demo -v", silent=True)
def demo(run: Run) -> None:
    """Run a tour: real calls with the real client, against a mock service on this machine.

    Account and plan, a wallet with a real signature, agents, trades, signals, a rate limit, and market data paid for
    with play money: within a budget, and only once although the connection is lost. Every answer is checked; the exit
    code is 1 when one is wrong.
    """
    from tradesdk_cli.demo.story import run_tour
    from tradesdk_cli.idcache import listen

    listen(False)  # its agents are gone with it: nothing to complete
    run_tour(run.out)
