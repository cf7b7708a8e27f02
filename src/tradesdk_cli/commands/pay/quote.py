"""`trade pay quote`: what a call costs, without making it."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.purchase.calls import ABOUT_TOKENS, ENDPOINTS, MOST, Call
from tradesdk_cli.session import session

app = single("Show what market data costs, and what the budgets leave.")


def _verb(value: str) -> str:
    """A verb of `trade market`; the API's and the SDK's names for the same are understood too."""
    verbs = {name: verb for verb, endpoint in ENDPOINTS.items() for name in (verb, endpoint)}
    found = verbs.get(value.strip().lower().replace("_", "-"))
    if found is None:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(ENDPOINTS)}")
    return found


@app.verb("quote", "trade pay quote prices ETH BRETT", "trade pay quote top -o json")
def quote(
    ctx: typer.Context,
    endpoint: Annotated[
        str,
        typer.Argument(
            parser=_verb, metavar="ENDPOINT", help="A verb of trade market, such as prices, or token-prices."
        ),
    ],
    tokens: Annotated[
        list[str] | None, typer.Argument(metavar="TOKEN...", help="The tokens, if the price is per token.")
    ] = None,
) -> None:
    """Show what market data costs, and what the budgets leave.

    Uses the published prices; needs no key and sends nothing.
    """
    from tradesdk_cli.purchase.checkout import NO_SERVICE, market_client
    from tradesdk_cli.purchase.records import left_in_windows, left_over, room
    from tradesdk_cli.text import plain_dollars

    verb = endpoint
    if tokens and verb not in ABOUT_TOKENS:
        raise UsageProblem(f"the price of {verb} does not depend on tokens", f"{{trade}} pay quote {verb}")
    call = Call(verb, tokens or (), {"sort_by": "winRate"} if verb == "top" else {})
    with session(ctx) as run:
        client = market_client(run, at=None if run.settings.mock else run.settings.market_url or NO_SERVICE)
        batches = 1
        if len(call.tokens) > MOST:
            batch_run = getattr(client.batches, call.method)(**call.given)
            spending, price, batches = client.payments.spending(), batch_run.price, batch_run.count
            count = len(batch_run.tokens)
        else:
            found = getattr(client.quote, call.method)(**call.given)
            spending, price, count = found.spending, found.price, found.tokens
        left = spending.left
        largest = price if batches == 1 else price * MOST / count  # of several payments, the first one
        window = left_in_windows(spending)
        fits = (left is None or largest * 1_000_000 <= left) and (window is None or price * 1_000_000 <= window)
        run.out.one(
            {
                "endpoint": call.endpoint,
                "tokens": count,
                "payments": batches if price else 0,
                "price_usd": plain_dollars(price),
                **room(spending),
                "affordable": price == 0 or (fits if spending.budget.is_set else None),
            }
        )
        if price and not spending.budget.is_set:
            run.out.note(
                f"no budget is set, so a purchase needs --max-price, such as {plain_dollars(price)}, or a budget: "
                f"{run.settings.program} pay budget set --per-day 5"
            )
        elif left_over(spending):
            run.out.note(left_over(spending))
