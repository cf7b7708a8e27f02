"""`trade account`: the account of the key, and the usage of its plan."""

from __future__ import annotations

from tradesdk_cli.cli.group import noun
from tradesdk_cli.run import Run, run_of

app = noun("account", "Who you are, your plan and what is left of it.", run_of)


@app.verb("show", "trade account show", "trade account show -o json")
def show(run: Run) -> None:
    """Show the account: e-mail address, plan and the last four characters of the key."""
    run.show(run.client.account.get())


@app.verb("usage", "trade account usage", "trade account usage -o json")
def usage(run: Run) -> None:
    """Show how much of the plan's requests and agents is used, and when the period resets."""
    run.show(run.client.account.usage())
