"""`trade pay reconcile`: unfinished payments, resolved by the service, by the chain, or by a person's mark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import typer

from tradesdk import Payment, PaymentRefusedError, PaymentStage, Reconciliation
from tradesdk.payments import ChainVerdict
from tradesdk_cli.confirm import LEDGER, Change, approve
from tradesdk_cli.errors import OUTCOME_UNKNOWN
from tradesdk_cli.output.columns import PAYMENTS, RECONCILED
from tradesdk_cli.pay.buy import collect, kept, note_under_way, rows_of, show, waiting_for_answer
from tradesdk_cli.pay.calls import verb_of
from tradesdk_cli.pay.checkout import ALL, client_for, find_payment
from tradesdk_cli.pay.rows import brief
from tradesdk_cli.run import Run
from tradesdk_cli.text import dollars, usd

_ABOUT = ("status", "amount_usd", "endpoint", "created_at", "reason", "transaction")


def mark(run: Run, payment_id: str | None, older_than: float | None, *, paid: bool, yes: bool, dry_run: bool) -> None:
    """Stores a person's mark for one payment, or for all that expired at least `older_than` seconds ago."""
    now, label = run.now(), "paid" if paid else "unpaid"
    money, taken = ("its money is", "it was taken") if payment_id else ("their money is", "some was taken")
    warning = f"{money} no longer held then; if {taken}, the budget is wrong by it"
    warnings = () if paid else (warning,)
    if payment_id is not None:
        payment = find_payment(run, payment_id)
        about = {name: value for name, value in brief(payment, now).items() if name in _ABOUT and value is not None}
        what, path = f"mark the payment {payment.id} as {label}", f"payments/{payment.id}"
        change = Change(what, LEDGER, path, {"mark": label}, about=about, warnings=warnings, needs_yes=False)
        if approve(run, change, yes=yes, dry_run=dry_run):
            run.out.one(brief(client_for(run, payment).payments.mark(payment.id, paid=paid), run.now()))
        return
    sent = run.ledger.history(stages=[PaymentStage.SENT], unproven=True, limit=ALL)
    found = [one for one in sent if one.is_expired(now) and one.counts_until + (older_than or 0) <= now]
    what = f"mark {len(found)} payments of {dollars(usd(sum(one.counted for one in found)))} as {label}"
    about = {"payments": [one.id for one in found]}
    if not found:
        run.out.note("no unproven payment expired that long ago")
    elif approve(
        run,
        Change(what, LEDGER, "payments", {"mark": label}, about=about, warnings=warnings),
        yes=yes,
        dry_run=dry_run,
    ):
        client, marked = client_for(run, None), []
        for one in found:  # only the confirmed ones: others may have expired since
            try:
                marked.append(client.payments.mark(one.id, paid=paid))
            except PaymentRefusedError:  # another process has resolved it
                continue
        run.out.many(PAYMENTS, [[brief(payment, now) for payment in marked]], empty="nothing was marked")
        run.out.note(f"{len(marked)} of {len(found)} payments were marked as {label}")


def show_unfinished(run: Run) -> None:
    """Lists unresolved payments of the ledger."""
    now, sent, answered = run.now(), PaymentStage.SENT, PaymentStage.ANSWERED
    found = run.ledger.history(stages=[sent, answered], unproven=True, limit=ALL)
    found += filter(lambda one: one.needs_proof, run.ledger.history(stages=[PaymentStage.TAKEN], limit=ALL))
    run.out.many(PAYMENTS, [[brief(payment, now) for payment in found]], empty="no open payments")
    run.out.note("nothing was sent and nothing changed (--dry-run)")


def reconcile(run: Run, *, send_api_key: bool) -> None:
    """Resends payments in doubt, checks the chain, prints the results, and what a person must decide."""
    client, now = client_for(run, None, send_api_key=send_api_key), run.now()
    sent = run.ledger.history(stages=[PaymentStage.SENT], unproven=True, limit=ALL)
    waits = any(payment.in_doubt and payment.is_live(now) for payment in sent)
    with waiting_for_answer(run, lambda: waits, lambda: note_under_way(run, "pay reconcile", waits)):
        found = client.payments.reconcile()
        waits = False
        _print(run, found, now)
        collect(client, found.delivered)
        in_doubt = _print_next_steps(run, found)
    if found.unresolved or in_doubt:
        raise typer.Exit(OUTCOME_UNKNOWN)


def _print(run: Run, found: Reconciliation, now: float) -> None:
    rows = list(_rows(found, now))
    with kept(run, found.delivered):
        run.out.many(RECONCILED, [rows], empty="no open payments")
        if run.out.draws(many=True):
            for row in rows:  # a table may cut it
                if row["message"]:
                    run.out.note(f"{row['id']}: {row['message']}")
            for result in found.delivered:
                if result.payment is not None:
                    run.out.note(f"what {result.payment.id} bought:")
                    show(run, verb_of(result.payment), result)


def _rows(found: Reconciliation, now: float) -> Iterator[dict[str, Any]]:
    """One row per payment: the service's answer, the chain's result, or unknown."""
    for result in found.delivered:
        if result.payment is not None:
            data = rows_of(verb_of(result.payment), result.data)
            yield _row(result.payment, "delivered", "", now, data=data)
    witnessed = {payment.id for payment, _ in found.witnessed}
    for payment, error in found.failed:
        if payment.id not in witnessed:
            yield _row(payment, _outcome(payment, now), str(getattr(error, "message", error)), now)
    for payment, verdict in found.witnessed:
        yield _chain_row(payment, verdict, now)
    handled = witnessed | {payment.id for payment, _ in found.failed}
    for payment in found.unresolved:
        if payment.id not in handled:
            yield _row(payment, "unresolved", _reason(payment) or "unknown whether it was paid", now)
    for payment in found.live:
        if payment.id not in handled:
            yield _row(payment, "live", f"it could still be taken until {payment.expires_at:%H:%M:%S} UTC", now)


def _print_next_steps(run: Run, found: Reconciliation) -> bool:
    """Prints the next steps in full, as tables may cut them. True while payments are in doubt."""
    program = run.settings.program
    proven = {payment.id for payment, verdict in found.witnessed if verdict.paid}
    for payment in found.unresolved:
        what, other = "look at the wallet, then mark the payment", ", or --mark unpaid"
        if payment.id in proven:
            what, other = "it was paid: ask the service for the answer, or allow to buy it again", ""
        run.out.note(f"{what}: {program} pay reconcile --mark paid {payment.id}{other}")
    in_doubt = [payment for payment in found.live if payment.in_doubt]
    for payment in in_doubt:
        over = f"{payment.expires_at + timedelta(seconds=30):%H:%M:%S} UTC"  # with tolerance for clocks
        run.out.note(f"still in doubt: {program} pay resume {payment.id}, or {program} pay reconcile after {over}")
    return bool(in_doubt)


def _chain_row(payment: Payment, verdict: ChainVerdict, now: float) -> dict[str, Any]:
    message = f"chain: {verdict.reason}"
    if verdict.paid is None:
        message = "; ".join(filter(None, (_reason(payment), f"the chain does not decide: {verdict.reason}")))
    elif verdict.paid:
        message += f": {dollars(payment.amount_usd)} was taken"
        message += "" if payment.stage is PaymentStage.ANSWERED else ", and no answer came"
    else:
        message += ": its money is no longer held"
    undecided = "unresolved" if payment.paid is None else _outcome(payment, now)
    return _row(payment, "released" if verdict.paid is False else undecided, message, now)


def _outcome(payment: Payment, now: float) -> str:
    if payment.is_live(now):
        return "live"
    return "unresolved" if payment.is_unresolved(now) else payment.status(now)


def _reason(payment: Payment) -> str:
    no_receipt = payment.stage is PaymentStage.ANSWERED and payment.charged == "unknown"
    return "answered without a receipt" if no_receipt else payment.reason


def _row(payment: Payment, outcome: str, message: str, now: float, **more: Any) -> dict[str, Any]:
    about = brief(payment, now)
    named = {name: about[name] for name in ("id", "status", "charged", "amount_usd", "endpoint")}
    return {**named, "outcome": outcome, "message": message, **more}
