"""`trade pay history`: the payments in the ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import whole
from tradesdk_cli.session import session

app = single("List payments, newest first.")


class Stage(StrEnum):
    """How far a payment has come."""

    reserved = "reserved"
    sent = "sent"
    answered = "answered"
    taken = "taken"


@app.verb("history", "trade --mock pay history", "trade pay history --stage sent --unproven -o json")
def history(
    ctx: typer.Context,
    stage: Annotated[
        list[Stage] | None,
        typer.Option("--stage", metavar="STAGE", help="Only payments at this stage, such as sent; may be repeated."),
    ] = None,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Only payments without a proof that they were paid or not.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", parser=whole(1), metavar="N", help="How many in total.")] = 20,
) -> None:
    """List payments, newest first.

    Reads only the ledger; trade pay reconcile asks the service, and the chain.
    """
    from tradesdk import PaymentStage
    from tradesdk_cli import idcache
    from tradesdk_cli.output.columns import PAYMENTS
    from tradesdk_cli.purchase.records import brief

    with session(ctx) as run:
        wanted, now = [PaymentStage(one.value) for one in stage or ()], run.now()
        found = run.ledger.history(stages=wanted, unproven=unproven, limit=limit + 1)
        for payment in found[:limit]:
            idcache.note_payment(payment.id, payment.status(now))
        empty = "no payments like this" if wanted or unproven else "nothing was bought yet"
        run.out.many(PAYMENTS, [[brief(payment, now) for payment in found[:limit]]], empty=empty)
        if len(found) > limit:
            run.out.note(f"the newest {limit}; there are more: --limit N")
