"""`trade pay reconcile`: unfinished payments."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.errors import OUTCOME_UNKNOWN, UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import DryRun, Yes, parse_span
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk import ChainVerdict, Payment
    from tradesdk_cli.session import Session

app = single("Resolve unfinished payments.")


_ABOUT = ("status", "amount_usd", "endpoint", "created_at", "reason", "transaction")
_MOST = 1000


class Mark(StrEnum):
    """What a person says of a payment, after a look at the wallet."""

    paid = "paid"
    unpaid = "unpaid"


@app.verb("reconcile", "trade --mock pay reconcile", "trade --mock pay reconcile --mark unpaid --older-than 1h")
def reconcile(
    ctx: typer.Context,
    payment_id: Annotated[
        str | None, typer.Argument(metavar="PAYMENT_ID", help="The payment that --mark is about.")
    ] = None,
    mark: Annotated[
        Mark | None,
        typer.Option("--mark", help="Record that an unresolved payment was paid or unpaid; check the wallet first."),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            parser=parse_span,
            metavar="SPAN",
            help="With --mark, instead of PAYMENT_ID: all that expired at least this long ago, such as 1h or 2d.",
        ),
    ] = None,
    send_api_key: Annotated[
        bool, typer.Option("--send-api-key", help="Send the API key too, if the service requires it.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Resolve unfinished payments.

    Payments in doubt are resent while they are valid, unless they were bought again since. With TRADE_RPC_URL, a node
    of Base says what happened to the expired ones; the others stay held until --mark says it. Nothing is signed. While
    a payment is in doubt or without proof, the exit code is 14.
    """
    if older_than is not None and (mark is None or payment_id is not None):
        raise UsageProblem(
            "--older-than belongs to --mark, without a payment's id",
            "trade pay reconcile --mark unpaid --older-than 1h",
        )
    if older_than is None and (mark is None) is not (payment_id is None):
        raise UsageProblem(
            "--mark and a payment's id belong together",
            "trade pay reconcile --mark paid PAYMENT_ID",
        )
    with session(ctx) as run:
        if mark is not None and older_than is not None:
            _mark_expired(run, older_than, paid=mark is Mark.paid, yes=yes, dry_run=dry_run)
        elif mark is not None and payment_id is not None:
            _mark(run, payment_id, paid=mark is Mark.paid, yes=yes, dry_run=dry_run)
        elif dry_run:
            _show_dry_run(run)
        else:
            _reconcile(run, send_api_key=send_api_key)


def _mark(run: Session, payment_id: str, *, paid: bool, yes: bool, dry_run: bool) -> None:
    from tradesdk_cli.confirm import LEDGER, Change, approve
    from tradesdk_cli.purchase.records import brief
    from tradesdk_cli.purchase.recover import client_for, found_in

    payment = found_in(run, payment_id)
    about = {name: value for name, value in brief(payment, run.now()).items() if name in _ABOUT and value is not None}
    said = "paid" if paid else "unpaid"
    change = Change(
        f"mark the payment {payment.id} as {said}",
        LEDGER,
        f"payments/{payment.id}",
        {"mark": said},
        about=about,
        warnings=() if paid else ("its money is no longer held then; if it was taken, the budget is wrong by it",),
        needs_yes=False,
    )
    if approve(run, change, yes=yes, dry_run=dry_run):
        run.out.one(brief(client_for(run, payment).payments.mark(payment.id, paid=paid), run.now()))


def _mark_expired(run: Session, older_than: float, *, paid: bool, yes: bool, dry_run: bool) -> None:
    from tradesdk import PaymentRefusedError, PaymentStage
    from tradesdk_cli.confirm import LEDGER, Change, approve
    from tradesdk_cli.output.columns import PAYMENTS
    from tradesdk_cli.purchase.records import brief
    from tradesdk_cli.purchase.recover import client_for
    from tradesdk_cli.text import dollars, usd

    now = run.now()
    sent = run.ledger.history(stages=[PaymentStage.SENT], unproven=True, limit=_MOST)
    found = [one for one in sent if one.is_expired(now) and one.counts_until + older_than <= now]
    said = "paid" if paid else "unpaid"
    change = Change(
        f"mark {len(found)} payments of {dollars(usd(sum(one.counted for one in found)))} as {said}",
        LEDGER,
        "payments",
        {"mark": said},
        about={"payments": [one.id for one in found]},
        warnings=() if paid else ("their money is no longer held then; if some was taken, the budget is wrong by it",),
    )
    if not found:
        run.out.note("no payment expired so long ago without proof")
    elif approve(run, change, yes=yes, dry_run=dry_run):
        client, marked = client_for(run, None), []
        for one in found:  # only what was asked about: meanwhile more may have expired
            try:
                marked.append(client.payments.mark(one.id, paid=paid))
            except PaymentRefusedError:  # another process was faster
                continue
        run.out.many(PAYMENTS, [[brief(payment, now) for payment in marked]], empty="nothing was marked")


def _show_dry_run(run: Session) -> None:
    """Lists what there is to put in order, by the ledger alone."""
    from tradesdk import PaymentStage
    from tradesdk_cli.output.columns import PAYMENTS
    from tradesdk_cli.purchase.records import brief

    now, sent, answered = run.now(), PaymentStage.SENT, PaymentStage.ANSWERED
    found = run.ledger.history(stages=[sent, answered], unproven=True, limit=_MOST)
    found += filter(lambda one: one.needs_proof, run.ledger.history(stages=[PaymentStage.TAKEN], limit=_MOST))
    run.out.many(PAYMENTS, [[brief(payment, now) for payment in found]], empty="all payments ended well")
    run.out.note("nothing was sent and nothing changed (--dry-run)")


def _reconcile(run: Session, *, send_api_key: bool) -> None:
    from tradesdk import PaymentStage
    from tradesdk_cli.ledger import until_printed
    from tradesdk_cli.output.columns import RECONCILED
    from tradesdk_cli.purchase.buy import kept, records, show
    from tradesdk_cli.purchase.records import surely_over
    from tradesdk_cli.purchase.recover import client_for, verb_of, waited_for

    client = client_for(run, None, send_api_key=send_api_key)
    now = run.now()
    sent = run.ledger.history(stages=[PaymentStage.SENT], unproven=True, limit=_MOST)
    open_ = [payment for payment in sent if payment.in_doubt and payment.is_live(now)]
    printed = run.enter(until_printed(run.ledger))
    with waited_for(run, "pay reconcile", under_way=bool(open_)) as end:
        found = client.payments.reconcile()
    delivered = [(result.payment, result) for result in found.delivered if result.payment is not None]
    witnessed = {payment.id for payment, _ in found.witnessed}
    said = witnessed | {payment.id for payment, _ in found.failed}
    rows = [
        _row(payment, "delivered", "", now, data=records(verb_of(payment), result.data))
        for payment, result in delivered
    ]
    rows += [
        _row(payment, _outcome(payment, now), str(getattr(error, "message", error)), now)
        for payment, error in found.failed
        if payment.id not in witnessed
    ]
    rows += [_witnessed(payment, verdict, now) for payment, verdict in found.witnessed]
    rows += [
        _row(payment, "unresolved", _reason(payment) or "nobody knows whether it was paid", now)
        for payment in found.unresolved
        if payment.id not in said
    ]
    rows += [_row(payment, "live", _live(payment), now) for payment in found.live if payment.id not in said]
    with kept(run, found.delivered):
        run.out.many(RECONCILED, [rows], empty="all payments ended well")
        if run.out.draws(many=True):
            for row in rows:  # the table may cut it
                if row["message"]:
                    run.out.note(f"{row['id']}: {row['message']}")
            for payment, result in delivered:
                run.out.note(f"what {payment.id} bought:")
                show(run, verb_of(payment), result)
    printed()
    # Tables may have no room for what to do, and ids are to be copied: so it is said here, whatever the width.
    program = run.settings.program
    proven = {payment.id for payment, verdict in found.witnessed if verdict.paid}
    for payment in found.unresolved:
        what, mark = "look at the wallet, then say what it was", "paid|unpaid"
        if payment.id in proven:
            what, mark = "it was paid: ask the service for the answer, or allow to buy it again", "paid"
        run.out.note(f"{what}: {program} pay reconcile --mark {mark} {payment.id}")
    in_doubt = [payment for payment in found.live if payment.in_doubt]
    for payment in in_doubt:
        over = f"{surely_over(payment):%H:%M:%S} UTC"
        run.out.note(f"still in doubt: {program} pay resume {payment.id}, or {program} pay reconcile after {over}")
    end()
    if found.unresolved or in_doubt:
        raise typer.Exit(OUTCOME_UNKNOWN)


def _witnessed(payment: Payment, verdict: ChainVerdict, now: float) -> dict[str, Any]:
    """A payment of which the chain was asked: what it says, and what follows from it."""
    from tradesdk_cli.text import dollars

    said = f"chain: {verdict.reason}"
    if verdict.paid is None:
        said = "; ".join(filter(None, (_reason(payment), f"the chain decides nothing: {verdict.reason}")))
    elif verdict.paid:
        said += f": {dollars(verdict.amount_usd or payment.amount_usd)} was taken"
        said += "" if payment.stage.value == "answered" else ", and no answer came"
    else:
        said += ": its money is no longer held"
    undecided = "unresolved" if payment.paid is None else _outcome(payment, now)
    return _row(payment, "released" if verdict.paid is False else undecided, said, now)


def _live(payment: Payment) -> str:
    return f"it could still be taken until {payment.expires_at:%H:%M:%S} UTC"


def _outcome(payment: Payment, now: float) -> str:
    if payment.is_live(now):
        return "live"
    return "unresolved" if payment.is_unresolved(now) else payment.status(now)


def _without_receipt(payment: Payment) -> bool:
    return payment.stage.value == "answered" and payment.charged == "unknown"


def _reason(payment: Payment) -> str:
    return "answered without a receipt" if _without_receipt(payment) else payment.reason


def _row(payment: Payment, outcome: str, message: str, now: float, **more: Any) -> dict[str, Any]:
    from tradesdk_cli.purchase.records import brief

    about = brief(payment, now)
    named = {name: about[name] for name in ("id", "status", "charged", "amount_usd", "endpoint")}
    return {**named, "outcome": outcome, "message": message, **more}
