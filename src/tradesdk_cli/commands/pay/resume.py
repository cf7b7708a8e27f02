"""`trade pay resume`: the same payment once more."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.plumbing import TradeCommand, examples, session, single

app = single("Hand a payment over once more and print what it bought.")


@app.command(
    "resume",
    cls=TradeCommand,
    epilog=examples("trade --mock pay resume PAYMENT_ID", "trade --mock pay resume PAYMENT_ID -o json"),
)
def resume(
    ctx: typer.Context,
    payment_id: Annotated[str, typer.Argument(metavar="PAYMENT_ID", help="As trade pay history shows it.")],
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Print {data, payment, receipt} instead of the data alone.")
    ] = False,
    send_api_key: Annotated[
        bool, typer.Option("--send-api-key", help="Send the API key too, should the service want it.")
    ] = False,
) -> None:
    """Hand a payment over once more and print what it bought.

    These are the same bytes, so it cannot be taken twice. No wallet is needed. What trade market has bought already is
    kept in the ledger and only printed again.
    """
    from tradesdk_cli.pastpayments import client_for, found_in, verb_of
    from tradesdk_cli.paying import tell
    from tradesdk_cli.purchases import kept, show

    with session(ctx) as run:
        payment = found_in(run, payment_id)
        client = client_for(run, payment, send_api_key=send_api_key)
        result = client.payments.resume(payment_id)
        try:
            with kept(run, [result]):
                show(run, verb_of(payment), result, receipt=receipt)
        finally:
            if result.payment is not None:
                tell(run, client, [result.payment])
