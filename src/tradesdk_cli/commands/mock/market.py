"""`trade mock market`: prices that fail."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tradesdk_cli.commands.mock.control import ask
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

app = single("Show whether prices of market data fail, or change that.")


@app.verb(
    "market",
    "trade --mock mock market --fail-prices --token BRETT --token DEGEN",
    "trade --mock mock market --no-fail-prices",
)
def market(
    ctx: typer.Context,
    fail_prices: Annotated[
        bool | None, typer.Option("--fail-prices/--no-fail-prices", help="Prices are answered with 502, or as usual.")
    ] = None,
    token: Annotated[
        list[str] | None,
        typer.Option("--token", metavar="SYMBOL|ADDRESS", help="Only this token; may be given several times."),
    ] = None,
) -> None:
    """Show whether prices of market data fail, or change that."""
    if token and not fail_prices:
        raise UsageProblem(
            "--token belongs to --fail-prices", "for example: trade mock market --fail-prices --token BRETT"
        )
    body: dict[str, Any] | None = None if fail_prices is None else {"price_failure": token or fail_prices}
    with session(ctx) as run:
        run.out.one(ask(run, "POST" if body else "GET", "market", body, gives={"price_failure": (bool, list)}))
