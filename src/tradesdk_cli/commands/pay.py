"""`trade pay`: prices of market data, payments, budgets, and resolving unfinished payments."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import All, Consent, DryRun, Limit, Since, Until, Walk, parse_span
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.pay import key, rows
from tradesdk_cli.pay.calls import ENDPOINTS, Call, SendKey, verb_of
from tradesdk_cli.run import Run, run_of, target_of
from tradesdk_cli.text import dollars, one_line, plain_dollars, usd

app = noun("pay", "Payments: quote, history, show, report, budget, resume, reconcile, key, trust.", run_of)

PaymentId = Annotated[str, typer.Argument(metavar="PAYMENT_ID", help="Its id, or the beginning of its id.")]


def _verb(value: str) -> str:
    """A verb of `trade market`; names of the API and the SDK are accepted too."""
    verbs = {name: verb for verb, endpoint in ENDPOINTS.items() for name in (verb, endpoint)}
    found = verbs.get(value.strip().lower().replace("_", "-"))
    if found is None:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(ENDPOINTS)}")
    return found


@app.verb("quote", "trade pay quote prices ETH BRETT", "trade pay quote top -o json")
def quote(
    run: Run,
    verb: Annotated[
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
    from tradesdk_cli.pay.checkout import client_for

    call = Call(verb, tokens or (), {"sort_by": "winRate"} if verb == "top" else {})
    if tokens and "tokens" not in call.takes:
        raise UsageProblem(f"the price of {verb} does not depend on tokens", f"{{trade}} pay quote {verb}")
    found = getattr(client_for(run, None).quote, call.method)(**call.given)
    has_budget = found.spending.budget.is_set
    run.out.one(
        {
            "endpoint": call.endpoint,
            "tokens": found.tokens,
            "price_usd": plain_dollars(found.price),
            **rows.room(found.spending),
            "affordable": found.affordable if has_budget or not found.price else None,
        }
    )
    if found.price and not has_budget:
        run.out.note(
            f"no budget is set, so a purchase needs --max-price, such as {plain_dollars(found.price)}, or a "
            f"budget: {run.settings.program} pay budget set --per-day 5"
        )
    elif rows.left_over(found.spending):
        run.out.note(rows.left_over(found.spending))


class Stage(StrEnum):  # Typer takes no list of a Literal
    """Stages of a payment."""

    sent = "sent"
    answered = "answered"
    taken = "taken"


@app.verb("history", "trade --mock pay history", "trade pay history --stage sent --unproven -o json")
def history(
    run: Run,
    stage: Annotated[
        list[Stage] | None,
        typer.Option(metavar="STAGE", help="Only payments at this stage, such as sent; may be repeated."),
    ] = None,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Only payments without a proof that they were paid or not.")
    ] = False,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    everything: All = False,
) -> None:
    """List payments, newest first; the first 20 by default.

    --since and --until select by the time of the first signature. Reads only the ledger; trade pay reconcile asks the
    service, and the chain.
    """
    from tradesdk import PaymentStage
    from tradesdk_cli import idcache
    from tradesdk_cli.commands.lists import refuse_query
    from tradesdk_cli.output.columns import PAYMENTS

    total = Walk(limit, everything).total
    chosen = {"stages": [PaymentStage(one.value) for one in stage or ()], "unproven": unproven}
    start, end = run.period(since, until)
    page = 500 if since or until or total is None else total + 1
    walked = rows.payments_of(run.ledger, start, end, page=page, **chosen)
    found, now = list(islice(walked, None if total is None else total + 1)), run.now()
    there_are_more = total is not None and len(found) > total
    if limit is None and there_are_more:
        refuse_query(run.out, "--all, or --limit N")
    for payment in found[:total]:
        idcache.add("payments", payment.id, payment.status(now))
    run.out.many(
        PAYMENTS,
        [[rows.brief(payment, now) for payment in found[:total]]],
        empty="no payments like this" if stage or unproven or since or until else "nothing was bought yet",
        foot=lambda: ([f"the newest {total}; there are more: --all, or --limit N"] * there_are_more, {}),
    )


@app.verb("report", "trade pay report --since 7d", "trade --mock pay report --by endpoint -o csv")
def report(
    run: Run,
    by: Annotated[Literal["day", "month", "endpoint", "purchase"], typer.Option(help="Group of the sums.")] = "day",
    since: Since = None,
    until: Until = None,
) -> None:
    """Add up what was spent and is held, and count the payments.

    By the time of the first signature, in UTC. Spent and held mean the same as in trade pay budget. Payments that were
    not taken are left out. Reads only the ledger.
    """
    from tradesdk_cli.output.columns import SPENT, Column

    found = list(rows.payments_of(run.ledger, *run.period(since, until)))
    spent, held = (sum(map(attrgetter(part), found)) for part in ("spent", "held"))
    money = dollars(usd(spent)) + " spent" + (f", {dollars(usd(held))} held" if held else "")
    sums = rows.sums_of(found, by)
    has_total = run.out.on_terminal and sums and run.out.draws(many=True)
    run.out.many(
        (Column(by), *SPENT),
        [sums],
        empty="nothing was bought yet" if since is until is None else "no payments in that period",
        foot=lambda: ([money] if has_total else [], {}),
    )


@app.verb("show", "trade --mock pay show PAYMENT_ID", "trade --mock pay show PAYMENT_ID -o json")
def show(run: Run, payment_id: PaymentId) -> None:
    """Show one payment (without its signature).

    State, terms, receipt, and the answer where it is kept.
    """
    from tradesdk_cli.pay.checkout import find_payment

    run.out.one(rows.whole(find_payment(run, payment_id), run.now()))


# Budgets


def _limit(scope: str) -> Any:
    return typer.Option(metavar="USD", help=f"With set: {scope}; none removes the limit.")


@app.verb("budget", "trade pay budget", "trade --mock pay budget set --per-day 5 --per-call 0.25 --total none")
def budget(
    run: Run,
    action: Annotated[
        Literal["show", "set"], typer.Argument(metavar="set", show_default=False, help="Set limits.")
    ] = "show",
    per_call: Annotated[str | None, _limit("for one purchase")] = None,
    per_hour: Annotated[str | None, _limit("in any 60 minutes")] = None,
    per_day: Annotated[str | None, _limit("in a day of UTC")] = None,
    per_month: Annotated[str | None, _limit("in a month of UTC")] = None,
    total: Annotated[str | None, _limit("ever")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show the budgets and what is left of them, or set them.

    Spent: a receipt, the chain or your mark proves it. Held: it was sent without proof, and counts too. The ledger
    keeps the budgets. TRADE_BUDGET_PER_CALL, _PER_HOUR, _PER_DAY, _PER_MONTH and TRADE_BUDGET_TOTAL count too; the
    strictest limit applies.
    """
    given = zip(rows.LIMITS, (per_call, per_hour, per_day, per_month, total), strict=True)
    changes = {name: text for name, text in given if text is not None}
    hint = "for example: {trade} pay budget set --per-day 5"
    if changes and action == "show":
        raise UsageProblem("to change a limit, use budget set", hint)
    if action == "set" and not changes:
        raise UsageProblem("no limit was given", hint)
    if action == "show" or _set_budget(run, changes, yes=yes, dry_run=dry_run):
        _show_budget(run)


def _set_budget(run: Run, changes: dict[str, str], *, yes: bool, dry_run: bool) -> bool:
    """True when it is set, also if it had this value before."""
    from tradesdk import Budget
    from tradesdk_cli.confirm import LEDGER, Change, approve
    from tradesdk_cli.pay.checkout import amount_of

    limits = {
        name: None if text == "none" else amount_of(f"--{name.replace('_', '-')}", text)
        for name, text in changes.items()
    }
    given = Budget.from_micro(limits)

    def changed(setting: str | None) -> str:
        now = Budget.from_json(setting)
        for name in body:
            confirmed, other = (rows.limits_of(each)[name] or "none" for each in (kept, now))
            if confirmed != other:
                meanwhile = f"{name} was {confirmed}, and is {other} now"
                raise ConfigProblem(
                    f"another command has changed the budget: {meanwhile}; nothing was set", "run it again"
                )
        merged = {name: getattr(now, name) for name in rows.LIMITS} | limits
        return Budget.from_micro(merged, is_unlimited=now.is_unlimited).to_json()

    kept = Budget.from_json(run.ledger.setting("budget"))
    body = {f"{name}_usd": rows.limits_of(given)[f"{name}_usd"] for name in limits}
    change = Change("change the budget", LEDGER, "budget", body, rows.limits_of(kept), needs_yes=False)
    if not change.differences() and not dry_run:
        run.out.note("the budget already has these values: nothing to change")
        return True
    if not approve(run, change, yes=yes, dry_run=dry_run):
        return False
    run.ledger.set_setting("budget", changed)
    return True


def _show_budget(run: Run) -> None:
    from tradesdk import Budget

    of_environment = Budget.from_environment()
    spending = run.ledger.spending(of_environment, now=run.now())
    if run.out.draws(many=False):
        run.out.draw(lambda console: rows.render_spending(console, spending))
    else:
        run.out.one(rows.spending_fields(spending))
    own = Budget.from_json(run.ledger.setting("budget"))
    stricter = [
        f"TRADE_BUDGET_{name.upper()}"
        for name in rows.LIMITS
        if getattr(own, name) != getattr(of_environment, name) == getattr(spending.budget, name) is not None
    ]
    if stricter:
        run.out.note(f"stricter than the ledger's own: {', '.join(stricter)}")
    if spending.held:
        run.out.note(f"held was sent, and nothing proves whether it was taken: {run.settings.program} pay reconcile")
    if not spending.budget.is_set:
        run.out.note(f"no budget is set: {run.settings.program} pay budget set --per-day 5")


@app.verb("trust", "trade --mock pay trust ADDRESS", "trade --mock pay trust ADDRESS --dry-run", rare=True)
def trust(
    run: Run,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The recipient that a purchase refused.")],
    consent: Consent,
) -> None:
    """Accept one more address to pay.

    The first address paid is remembered, and another one is refused, as it may be an attacker's. Accept one only if the
    service confirms it elsewhere.
    """
    from tradesdk_cli.confirm import LEDGER, Change, approve
    from tradesdk_cli.pay.checkout import market_client
    from tradesdk_cli.redact import safe

    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", address):
        raise UsageProblem(
            f"{one_line(safe(address), 60)} is not an address",
            "an address is 0x and 40 hexadecimal digits; the error of the refused purchase has it",
        )
    payments = (client := market_client(run)).payments
    parts = urlsplit(client.base_url)
    origin, known = f"{parts.scheme}://{parts.netloc}", payments.trusted()
    body = {
        "service": origin,
        "recipient": address,
        "accepted_so_far": ", ".join(known) or "any, at the first call",
    }
    if approve(run, Change(f"pay {address} from now on", LEDGER, "trust", body), **vars(consent)):
        payments.trust(address)
        run.out.one({"service": origin, "accepted": payments.trusted()})


# Unfinished payments


@app.verb("resume", "trade --mock pay resume PAYMENT_ID", "trade --mock pay resume PAYMENT_ID -o json")
def resume(
    run: Run,
    payment_id: PaymentId,
    send_api_key: SendKey = False,
    dry_run: DryRun = False,
) -> None:
    """Resend a payment and print what it bought.

    Sends the same signed bytes, which cannot be taken twice; needs no wallet. An answer that the ledger already has is
    only printed.
    """
    from tradesdk_cli.confirm import say_target
    from tradesdk_cli.pay.buy import note_under_way, print_bought, waiting_for_answer
    from tradesdk_cli.pay.checkout import client_for, find_payment

    payment = find_payment(run, payment_id)
    if not run.out.machine_notes and payment.reply is None:
        # To the service of the payment, whatever the settings are now.
        origin = payment.url.rpartition("/v1/")[0]
        say_target(run.out, target_of(replace(run.settings, market_url=origin), market=True))
    waits, line = payment.reply is None, f"pay resume {payment.id}"
    if dry_run:  # what would be sent, without the signed payment
        fields = rows.whole(payment, run.now())
        names = ("id", "status", "charged", "amount_usd", "endpoint", "url", "body", "pay_to", "valid_before")
        run.out.one({name: fields[name] for name in (*names, "live")})
        kept = "" if waits else "; its answer is kept, so nothing would be"
        run.out.note(f"nothing was sent (--dry-run){kept}")
        return
    client = client_for(run, payment, send_api_key=send_api_key)
    with waiting_for_answer(run, lambda: waits, lambda: note_under_way(run, line, waits)):
        result = client.payments.resume(payment.id)
        waits = False
        print_bought(run, client, verb_of(payment), result)


@app.verb("reconcile", "trade --mock pay reconcile", "trade --mock pay reconcile --mark unpaid --older-than 1h")
def reconcile(
    run: Run,
    payment_id: Annotated[
        str | None, typer.Argument(metavar="PAYMENT_ID", help="The payment that --mark is about.")
    ] = None,
    mark: Annotated[
        Literal["paid", "unpaid"] | None,
        typer.Option(help="Record that an unresolved payment was paid or unpaid; check the wallet first."),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            parser=parse_span,
            metavar="SPAN",
            help="With --mark, instead of PAYMENT_ID: all that expired at least this long ago, such as 1h or 2d.",
        ),
    ] = None,
    send_api_key: SendKey = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Skip the confirmation prompt; required with --older-than without a terminal."
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Resolve unfinished payments.

    Payments in doubt are resent while they are valid, unless they were bought again since. With TRADE_RPC_URL, a node
    of Base says what happened to the expired ones; the others stay held until --mark says it. Nothing is signed. While
    a payment is in doubt or without proof, the exit code is 14.
    """
    from tradesdk_cli.pay import reconciling

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
    if mark is not None:
        reconciling.mark(run, payment_id, older_than, paid=mark == "paid", yes=yes, dry_run=dry_run)
    elif dry_run:
        reconciling.show_unfinished(run)
    else:
        reconciling.reconcile(run, send_api_key=send_api_key)


app.add_typer(key.app, name="key")
