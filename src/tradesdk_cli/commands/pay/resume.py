"""`trade pay resume`: the same payment once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import DryRun
from tradesdk_cli.session import session, target_of

if TYPE_CHECKING:
    from tradesdk import Payment
    from tradesdk_cli.session import Session

app = single("Resend a payment and print what it bought.")


@app.verb("resume", "trade --mock pay resume PAYMENT_ID", "trade --mock pay resume PAYMENT_ID -o json")
def resume(
    ctx: typer.Context,
    payment_id: Annotated[str, typer.Argument(metavar="PAYMENT_ID", help="Its id, or the beginning of its id.")],
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Print {data, payment, receipt} instead of only the data.")
    ] = False,
    send_api_key: Annotated[
        bool, typer.Option("--send-api-key", help="Send the API key too, if the service requires it.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Resend a payment and print what it bought.

    Sends the same signed bytes, which cannot be taken twice; needs no wallet. An answer that is in the ledger already
    is only printed.
    """
    from tradesdk_cli.purchase.buy import kept, show
    from tradesdk_cli.purchase.checkout import tell, tell_before
    from tradesdk_cli.purchase.recover import client_for, found_in, verb_of, waited_for

    with session(ctx) as run:
        payment = found_in(run, payment_id)
        if dry_run:
            _show_dry_run(run, payment)
            return
        _tell_where(run, payment)
        client = client_for(run, payment, send_api_key=send_api_key)
        with waited_for(run, f"pay resume {payment.id}", under_way=payment.reply is None) as end:
            result = client.payments.resume(payment.id)
        try:
            with kept(run, [result]):
                show(run, verb_of(payment), result, receipt=receipt)
        finally:
            if result.payment is not None:
                if result.again:
                    tell_before(run, result)
                else:
                    tell(run, client, [result.payment])
        end()


def _show_dry_run(run: Session, payment: Payment) -> None:
    """Prints what would be sent; the signed payment itself is never shown."""
    from tradesdk_cli.purchase.records import brief, whole

    record = whole(payment, run.now())
    shown = {name: record[name] for name in ("method", "url", "body", "pay_to", "valid_before", "live")}
    about = brief(payment, run.now())
    _tell_where(run, payment)
    run.out.one(
        {**{name: about[name] for name in ("id", "status", "charged", "amount_usd", "endpoint")}, **shown}, whole=True
    )
    kept = payment.reply is not None
    run.out.note(f"nothing was sent (--dry-run){'; its answer is kept, so nothing would be' if kept else ''}")


def _tell_where(run: Session, payment: Payment) -> None:
    """Where a payment goes is where it was made to, whatever the settings say now."""
    from dataclasses import replace

    from tradesdk_cli.confirm import say_target

    if not run.out.machine_notes and payment.reply is None:
        origin = payment.url.rpartition("/v1/")[0]
        say_target(run.out, target_of(replace(run.settings, market_url=origin), market=True))
