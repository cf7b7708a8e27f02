"""Buying market data: ask, buy, print, collect; and notes about the payment."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import tradesdk
from tradesdk import LedgerError, MarketClient, MarketResult, Payment, PaymentRefusedError, PaymentStage
from tradesdk_cli.confirm import ask, can_ask, say_target
from tradesdk_cli.errors import OTHER, Declined, Interrupted, Unwritable, UsageProblem
from tradesdk_cli.explain import about_payment
from tradesdk_cli.interrupts import StopRequested, on_signal
from tradesdk_cli.output.columns import MARKET
from tradesdk_cli.output.printer import Output
from tradesdk_cli.pay.calls import Call, Terms
from tradesdk_cli.pay.checkout import amount_of, market_client
from tradesdk_cli.pay.rows import left_over, room
from tradesdk_cli.run import Run, wire
from tradesdk_cli.text import dollars, plain_dollars, usd, visible
from tradesdk_cli.wallet import Wallet

Rows = list[dict[str, Any]]
PER_SIGNAL = ("signals", "history")
"""Verbs whose rows are tokens with their signals."""


def purchase(run: Run, call: Call, terms: Terms) -> None:
    """Buys the data of `call` under `terms`, and prints it."""
    if terms.max_price is not None:
        amount_of("--max-price", terms.max_price)
    wallet, target = run.wallet(terms.wallet), run.target(market=True)
    client = market_client(run, wallet, send_api_key=terms.send_api_key)
    if run.settings.verbose > 1:
        run.out.note(f"market data comes from {target.text}, payments are written to {run.ledger_name}")
    given: dict[str, Any] = call.given
    if terms.dry_run:
        dry_run = getattr(client.dry_run, call.method)
        _show_dry_run(run, call, dry_run(**given, max_price=terms.max_price, purchase=terms.purchase))
        return
    run.out.selection.expect(*_models(run.out, call.verb))
    most = _agreed(run, wallet, call, client, terms)
    buy = getattr(client, call.method)
    began, results = run.now(), list[MarketResult[Any]]()

    def under_way() -> bool:
        return not results and wallet is not None and wallet.signatures > 0

    with waiting_for_answer(run, under_way, lambda: _note_unfinished(run, began)):
        results.append(_bought(wallet, lambda: buy(**given, max_price=most, purchase=terms.purchase)))
        print_bought(run, client, call.verb, results[0])


def print_bought(
    run: Run,
    client: MarketClient,
    verb: str,
    result: MarketResult[Any],
) -> None:
    """Prints the purchase, collects it, and prints its price and what is left."""
    try:
        with kept(run, [result]):
            show(run, verb, result)
        collect(client, [result])
    finally:
        for warning in result.warnings:
            run.out.note(f"warning: {warning}")
        if result.payment is None:
            run.out.note("this cost nothing")
        elif result.again:
            _note_earlier(run, result, result.payment)
        else:
            _note_payment(run, client, result.payment)


def collect(client: MarketClient, results: Sequence[MarketResult[Any]]) -> None:
    """Collects answers after they are written and flushed.

    If the process ends before, the same command prints them again, unpaid.
    """
    for payment in [result.payment for result in results]:
        if payment is not None:
            with suppress(LedgerError):  # then the same command prints it again, unpaid
                client.payments.collect(payment.id)


def _agreed(run: Run, wallet: Wallet | None, call: Call, client: MarketClient, terms: Terms) -> str | None:
    """The maximum price: --max-price, or, without a budget, the price that a person at the terminal accepts."""
    most, given = terms.max_price, call.given
    quote: tradesdk.Quote = getattr(client.quote, call.method)(**given)
    allowed = most is not None or quote.spending.budget.is_set
    if wallet is None or not (can_ask() if not allowed else not run.out.machine_notes):
        return most
    say_target(run.out, run.target(market=True))
    run.out.note(f"{call.description()}, wallet {wallet.address}")
    if allowed:
        return most
    found: tradesdk.DryRun = getattr(client.dry_run, call.method)(**given, purchase=terms.purchase)
    if found.refusal is not None and found.refusal.code == "unknown_token":
        raise found.refusal
    if not ask(f"{call.description()} costs {dollars(quote.price)}. Pay?"):
        raise Declined("nothing was paid")
    return plain_dollars(quote.price)


def _bought(wallet: Wallet | None, buy: Callable[[], MarketResult[Any]]) -> MarketResult[Any]:
    """Buys, and raises the wallet's own error if it could not sign.

    Typing the password may take longer than the payment allows. Then nothing was signed, and it buys again with the
    open wallet.
    """
    was_open = wallet is None or wallet.opened
    try:
        return buy()
    except PaymentRefusedError as refused:
        if refused.code == "signer_failed" and wallet is not None and wallet.failure is not None:
            raise wallet.failure from None
        if refused.code != "signer_too_slow" or was_open:
            raise
    return buy()


# Ctrl-C, SIGTERM and SIGHUP


@contextmanager
def waiting_for_answer(run: Run, under_way: Callable[[], bool], on_stop: Callable[[], object]) -> Iterator[None]:
    """Inside, the first signal waits for the answer of a payment `under_way`, and ends the command after this.

    Others end it at once; then `on_stop` prints the next step.
    """
    stops: list[StopRequested] = []

    def handle(number: int) -> bool:
        stop = StopRequested(number)
        if stops or not under_way():
            raise stop
        stops.append(stop)
        name = "Ctrl-C" if number == signal.SIGINT else "the same signal"
        run.out.note(f"a payment is under way: waiting for its answer; {name} again stops at once")
        return True

    try:
        with on_signal(handle):
            yield
    except KeyboardInterrupt as stop:
        run.out.after_ctrl_c()
        on_stop()
        run.out.note("interrupted")
        raise Interrupted(stop) from None
    if stops:
        run.out.note("interrupted after the answer arrived")
        raise Interrupted(stops[0])


def note_under_way(run: Run, line: str, waits: bool) -> None:
    """Prints the command that continues an interrupted payment."""
    if waits:
        run.out.note(f"a payment was under way: {run.settings.program} {line} continues the same one")


def _note_unfinished(run: Run, began: float) -> None:
    """Prints the payment since then without printed answer, and the command that continues it."""
    last = None
    with suppress(LedgerError):
        found = run.ledger.history(stages=(PaymentStage.SENT, PaymentStage.ANSWERED))
        last = max((one for one in found if one.updated >= began), key=lambda one: one.updated, default=None)
    if last is None or (last.stage is PaymentStage.ANSWERED and last.purchase is None and not last.waits):
        return  # there is none, or its answer was printed
    resume = f"{run.settings.program} pay resume {last.id}"
    if last.stage is PaymentStage.SENT:
        text = f"was being paid: {resume}, or the same command, continues it"
    else:
        span = " for 60 s" if last.purchase is None else ""
        text = f"was paid, and the answer is kept: the same command prints it{span}, {resume} at any time"
    run.out.note(f"{dollars(last.amount_usd)} {text}")


# Results


@contextmanager
def kept(run: Run, results: Sequence[MarketResult[Any]]) -> Iterator[None]:
    """Inside, an output error gets a hint how to print the paid answer again."""
    try:
        yield
    except (Unwritable, UsageProblem) as error:
        if payments := [result.payment for result in results if result.payment is not None]:
            commands = ", ".join(f"{run.settings.program} pay resume {payment.id}" for payment in payments)
            error.hint = f"{'your answer is' if len(payments) == 1 else 'your answers are'} kept: {commands}"
            error.about = about_payment(payments[-1])
            if isinstance(error, UsageProblem):
                error.code, error.exit_code = "not_printed", OTHER
        raise


def show(run: Run, verb: str, result: MarketResult[Any]) -> None:
    """Prints the rows of an answer."""
    found = rows_of(verb, result.data)
    if verb == "metrics":
        run.out.one(found[0])
    else:
        rows, quiet = found, list[str]()
        if verb in PER_SIGNAL and run.out.in_rows:
            rows = signal_rows(found)
            quiet = [visible(token["tokenSymbol"]) for token in found if not token["signals"]]
        none = f"no signals of {', '.join(quiet)}" if quiet else ""
        run.out.many(MARKET[verb], [rows], empty=none or "nothing was found")
        if none and rows:
            run.out.note(none)


def rows_of(verb: str, data: Any) -> Rows:
    """The rows of an answer."""
    dumped = wire(data)
    if verb == "metrics":
        return [dumped]
    found: Rows = dumped["tokens" if verb in ("top", "tokens") else "results"]
    return found


def signal_rows(tokens: Rows) -> Rows:
    """One row per signal of these tokens."""
    return [
        {"tokenSymbol": token["tokenSymbol"], "tokenAddress": token["tokenAddress"], **signal}
        for token in tokens
        for signal in token["signals"]
    ]


def _models(out: Output, verb: str) -> Sequence[Any]:
    """The models whose fields the rows of `verb` have."""
    models: dict[str, Sequence[Any]] = {
        "prices": (tradesdk.TokenPrice,),
        "win-rate": (tradesdk.TokenWinRate,),
        "avg-prices": (tradesdk.TokenAvgPrices,),
        "top": (tradesdk.TopPerformer,),
        "metrics": (tradesdk.AggregateMetrics,),
    }
    more = (tradesdk.SignalRecord,) if out.in_rows else ()
    return models.get(verb, (tradesdk.TokenSignals, *more))


def _show_dry_run(run: Run, call: Call, found: tradesdk.DryRun) -> None:
    """Prints the request, its price, and the payment to sign or the reason for a refusal."""
    authorization, refusal = found.authorization, found.refusal
    shown: dict[str, Any] = {
        "method": "POST",
        "path": f"/v1/{call.endpoint}",
        "body": json.loads(found.quote.body),
        "price_usd": plain_dollars(found.quote.price),
        "amount_usd": None if authorization is None else plain_dollars(usd(int(authorization["value"]))),
        **room(found.quote.spending),
        "authorization": authorization,
        "refusal": None if refusal is None else {"code": refusal.code, "message": refusal.message},
    }
    if authorization is None and refusal is None and found.existing is not None:
        answered = f"{found.existing.updated_at:%Y-%m-%d %H:%M:%S} UTC"
        note = f"the answer of {answered} is kept: without --dry-run it is returned again, and costs nothing"
        run.out.note(note, payment=found.existing.id)
    if run.out.format_for(many=False) == "table":
        shown = {name: value for name, value in shown.items() if value is not None}  # not for people
    run.out.one(shown)
    run.out.note("nothing was signed or paid (--dry-run)")


# Notes about the payment


def _note_earlier(run: Run, result: MarketResult[Any], payment: Payment) -> None:
    """Prints that nothing was paid now, and the age of the answer."""
    answered = result.answered_at
    if answered is None:
        return
    paid = "was paid" if payment.charged is True else "may have been paid"
    text = (
        f"nothing was paid now: {dollars(payment.amount_usd)} {paid} before, payment {payment.id}; "
        f"answered {answered:%Y-%m-%d %H:%M:%S} UTC"
    )
    fields = {"paid_usd": plain_dollars(usd(0)), "payments": [], "answered_at": int(answered.timestamp())}
    run.out.event("paid_before", text, **fields)


def _note_payment(run: Run, client: MarketClient, payment: Payment) -> None:
    """Prints the amount, the payer, and what is left of the budgets."""
    receipt = payment.receipt
    transactions = [receipt.transaction] if receipt is not None and receipt.transaction else []
    paid = "paid" if payment.charged is True else "may have paid"
    left = left_over(client.payments.spending())
    text = f"{paid} {dollars(payment.amount_usd)} from {payment.payer}, payment {payment.id}"
    fields = {
        "target": run.target(market=True).fields,
        "paid_usd": plain_dollars(payment.amount_usd),
        "payments": [payment.id],
        "transactions": transactions,
    }
    run.out.event("paid", text + (f"; {left}" if left else ""), **fields)
