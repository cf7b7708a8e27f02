"""`trade pay history`: the payments in the ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import whole
from tradesdk_cli.session import session

app = single("List payments, newest first.")


class State(StrEnum):
    """Where a payment is."""

    reserved = "reserved"
    submitted = "submitted"
    pending = "pending"
    unknown = "unknown"
    rejected_live = "rejected_live"
    delivered = "delivered"
    paid_undelivered = "paid_undelivered"
    suspect_paid = "suspect_paid"
    taken_elsewhere = "taken_elsewhere"
    expired_unpaid = "expired_unpaid"
    expired_unknown = "expired_unknown"
    cancelled = "cancelled"
    marked_paid = "marked_paid"
    marked_unpaid = "marked_unpaid"


@app.verb("history", "trade --mock pay history", "trade pay history --state unknown --state pending -o json")
def history(
    ctx: typer.Context,
    state: Annotated[
        list[State] | None,
        typer.Option("--state", metavar="STATE", help="Only payments in this state, such as unknown; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", parser=whole(1), metavar="N", help="How many in total.")] = 20,
) -> None:
    """List payments, newest first.

    Reads the ledger as it is; trade pay reconcile updates it.
    """
    from tradesdk import PaymentState
    from tradesdk_cli import idcache
    from tradesdk_cli.output.columns import PAYMENTS
    from tradesdk_cli.purchase.records import brief

    with session(ctx) as run:
        wanted = [PaymentState(one.value) for one in state or ()]
        found = run.ledger.history(states=wanted, limit=limit + 1)
        for payment in found[:limit]:
            idcache.note_payment(payment.id, payment.state.value)
        empty = "no payments like this" if wanted else "nothing was bought yet"
        run.out.many(PAYMENTS, [[brief(payment) for payment in found[:limit]]], empty=empty)
        if len(found) > limit:
            run.out.note(f"the newest {limit}; there are more: --limit N")
