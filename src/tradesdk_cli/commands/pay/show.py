"""`trade pay show`: one payment."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

app = single("Show one payment (without its signature).")


@app.verb("show", "trade --mock pay show PAYMENT_ID", "trade --mock pay show PAYMENT_ID -o json")
def show(
    ctx: typer.Context,
    payment_id: Annotated[str, typer.Argument(metavar="PAYMENT_ID", help="Its id, or the beginning of its id.")],
) -> None:
    """Show one payment (without its signature).

    State, terms, receipt, and the answer where it is kept.
    """
    from tradesdk_cli.purchase.records import whole
    from tradesdk_cli.purchase.recover import found_in

    with session(ctx) as run:
        run.out.one(whole(found_in(run, payment_id), run.now()))
