"""From a call for market data to what is printed: one request, or batches."""

from __future__ import annotations

from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from tradesdk_cli.errors import OUTCOME_UNKNOWN, Interrupted, Unwritable, UsageProblem
from tradesdk_cli.explain import of_error
from tradesdk_cli.interrupts import StopRequested, deferring, exit_code_of, on_signal
from tradesdk_cli.ledger import until_printed
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.purchase.calls import Call
from tradesdk_cli.purchase.checkout import Checkout, Terms
from tradesdk_cli.purchase.dryrun import left_to_buy, over_total, show_dry_run
from tradesdk_cli.purchase.records import IN_BRIEF, IN_RECEIPT, Unprinted, brief, receipt_record
from tradesdk_cli.session import wire
from tradesdk_cli.text import counted, dollars, one_line, plain_dollars, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

Rows = list[dict[str, Any]]
PER_SIGNAL = ("signals", "history")
"""Verbs whose records are tokens, each with its signals."""


def purchase(run: Session, call: Call, terms: Terms) -> None:
    """Buys what `call` asks for under `terms`, and prints it."""
    checkout = Checkout(run, call, terms)
    if terms.dry_run:
        show_dry_run(checkout)
        return
    if terms.receipt:
        run.out.expect_fields(_names_with_receipt(call.verb))
    else:
        run.out.expect(*_models(run.out, call.verb))
    with until_printed(run.ledger) as printed:
        (_in_batches if terms.batches else _at_once)(checkout, printed)
    if checkout.told is not None:  # whoever wanted it to stop meanwhile need not run the next command
        run.out.note("interrupted, after all of it was bought")
        raise Interrupted(exit_code_of(checkout.told))


def _at_once(checkout: Checkout, printed: Callable[[], None]) -> None:
    results: list[Any] = []
    try:
        with on_signal(checkout.hear):
            results.append(checkout.buy())
            try:
                with kept(checkout.run, results):
                    show(checkout.run, checkout.call.verb, results[0], receipt=checkout.terms.receipt)
                checkout.is_printed = True
                printed()
            finally:
                checkout.account_for(results)
    except KeyboardInterrupt:
        checkout.say_unprinted(results)
        raise


@contextmanager
def kept(run: Session, results: Sequence[Any]) -> Iterator[None]:
    """While this is printed: when it cannot be, it says how what was paid for is printed again."""
    try:
        yield
    except (Unwritable, UsageProblem) as error:
        payments = [result.payment for result in results if result.payment is not None]
        if not payments:
            raise
        commands = ", ".join(f"{run.settings.program} pay resume {payment.id}" for payment in payments)
        what = "your answer is kept" if len(payments) == 1 else "your answers are kept"
        kind = type(error) if isinstance(error, Unwritable) else Unprinted
        told = kind(error.message, f"{what}: {commands}")
        told.about = {"charged": payments[-1].charged, "payment": of_error(payments[-1])}
        raise told from None


def show(run: Session, verb: str, result: Any, *, receipt: bool = False) -> None:
    """Prints what was bought: the service's own records; with `receipt`, an object with the payment beside them."""
    if receipt:
        run.out.one(_with_receipt(verb, result))
    elif verb == "metrics":
        run.out.one(wire(result.data))
    else:
        show_records(run, verb, iter([records(verb, result.data)]))


def show_records(run: Session, verb: str, pages: Iterator[Rows]) -> None:
    """Prints records page by page; in rows each signal has one of its own."""
    from tradesdk_cli.output.columns import MARKET

    if verb in PER_SIGNAL and run.out.in_rows:
        pages = map(_a_row_each, pages)
    columns: Sequence[Column] = MARKET[verb]
    run.out.many(columns, pages, empty="nothing was found")


def _models(out: Output, verb: str) -> Sequence[Any]:
    """What the records of `verb` will be, by the fields that they have together."""
    import tradesdk

    models: dict[str, Sequence[Any]] = {
        "prices": (tradesdk.TokenPrice,),
        "win-rate": (tradesdk.TokenWinRate,),
        "avg-prices": (tradesdk.TokenAvgPrices,),
        "top": (tradesdk.TopPerformer,),
        "metrics": (tradesdk.AggregateMetrics,),
        "tokens": (tradesdk.SupportedToken,),
    }
    more = (tradesdk.SignalRecord,) if out.in_rows else ()
    return models.get(verb, (tradesdk.TokenSignals, *more))


def records(verb: str, data: Any) -> Rows:
    """The records in an answer."""
    dumped = wire(data)
    if verb == "metrics":
        return [dumped]
    found: Rows = dumped["tokens" if verb in ("top", "tokens") else "results"]
    return found


def _a_row_each(tokens: Rows) -> Rows:
    return [
        {"tokenSymbol": token["tokenSymbol"], "tokenAddress": token["tokenAddress"], **signal}
        for token in tokens
        for signal in token["signals"]
    ]


def _with_receipt(verb: str, result: Any) -> dict[str, Any]:
    found = records(verb, result.data)
    return {
        "data": found[0] if verb == "metrics" else found,
        "payment": None if result.payment is None else brief(result.payment, result.payment.updated),
        "receipt": None if result.receipt is None else receipt_record(result.receipt),
    }


def _names_with_receipt(verb: str) -> list[str]:
    """The fields of what is printed with --receipt, before anything is paid."""
    import tradesdk
    from tradesdk_cli.output.select import names_of_model

    names = ["data", "payment", "receipt"]
    names += [*(f"payment.{name}" for name in IN_BRIEF), *(f"receipt.{name}" for name in IN_RECEIPT)]
    return names + list(names_of_model(tradesdk.AggregateMetrics, "data.")) if verb == "metrics" else names


# Batches


def _in_batches(checkout: Checkout, printed: Callable[[], None]) -> None:
    run, terms = checkout.run, checkout.terms
    batches = checkout.in_batches()
    budget = checkout.client.payments.spending().budget
    _refuse_too_little(checkout, batches)
    told = f"{checkout.call.told(len(batches.tokens))} in {counted(batches.count, 'batches')}"
    most = checkout.agreed(batches.price, budget.is_set, told)
    batches = checkout.in_batches(most)
    results: list[Any] = []
    bought: list[Any] = []
    ended: list[BaseException] = []
    progress = Progress(run.out, "tokens", len(batches.tokens), at_once=True)
    cap = batches.price if most is None else Decimal(most)

    def each() -> Iterator[Rows]:
        # What has been paid for is printed whatever becomes of the rest.
        done, free, spent = 0, False, batches.price * 0
        while len(results) + len(batches.passed_over) < batches.count:
            # A wallet that isn't open may ask for its password.
            if progress.on_line and (checkout.wallet is None or checkout.wallet.opened):
                progress.step(done, f"batch {len(results) + 1} of {batches.count}", _money(spent, cap), free=free)
            try:
                with stop.open():
                    if checkout.told is not None:
                        raise checkout.told
                    batch = checkout.signing(lambda: next(batches, None))
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, KeyboardInterrupt):
                    progress.clear()
                if not results:
                    raise
                ended.append(error)
                run.out.incomplete()
                return
            if batch is None:
                break
            results.append(batch.result)
            done, free, spent = done + len(batch.tokens), batch.again, batch.spent_usd
            if not batch.again and batch.result.payment is not None:
                bought.append(batch.result)
            if not progress.on_line:
                _tell(checkout, batch, cap)
            if terms.receipt:
                yield [_with_receipt(checkout.call.verb, batch.result)]
            else:
                yield records(checkout.call.verb, batch.data)
        try:
            with stop.open():
                pass
        except StopRequested as told:  # it came while the last one was printed
            checkout.told = told
        stop.over()
        progress.wipe()

    try:
        with kept(run, results), deferring() as stop, progress:
            if terms.receipt and run.out.format_for(many=True) == "table":
                for page in each():
                    run.out.one(page[0])
            elif terms.receipt:
                run.out.many((), each(), empty="nothing was found")
            else:
                show_records(run, checkout.call.verb, each())
            printed()
    except KeyboardInterrupt as interrupt:
        checkout.say_unprinted(results)
        run.out.note("interrupted")
        raise Interrupted(exit_code_of(interrupt)) from None
    finally:
        if batches.spent:
            checkout.account_for(bought)
    if results and not ended and not batches.spent:
        had = "the ledger" if terms.job is None else f"the job {one_line(terms.job, 80)}"
        run.out.note(f"nothing was paid: {had} had all of it")
    _say_passed_over(run, batches.passed_over)
    if ended:
        _say_how_to_go_on(checkout, f"{len(results)} of {counted(batches.count, 'batches')}", ended[0])
        raise ended[0]
    if batches.passed_over and checkout.told is None:
        raise typer.Exit(OUTCOME_UNKNOWN)


def _say_passed_over(run: Session, batches: Sequence[Sequence[str]]) -> None:
    """Says which batches of a job were paid for and have no answer here."""
    for tokens in batches:
        shown = one_line(", ".join(tokens), 200)
        run.out.note(
            f"passed over: {shown}: this job has paid for it before, and its answer is not in this ledger; to buy it "
            "again, use another --job name"
        )


def _refuse_too_little(checkout: Checkout, batches: Any) -> None:
    """--max-price is for all batches together: when it is not enough for them, none is bought.

    Raises:
        PaymentRefusedError: it is not.
    """
    from tradesdk import PaymentRefusedError

    if checkout.terms.max_price is None:
        return
    left = left_to_buy(checkout, batches)
    price, most = usd(sum(left)), Decimal(checkout.terms.max_price)
    if price > most:
        raise PaymentRefusedError(
            over_total(most, price, len(left)),
            code="over_total",
            hint=f"to buy them all: --max-price {plain_dollars(price)}",
        )


def _say_how_to_go_on(checkout: Checkout, bought: str, ended: BaseException) -> None:
    """Says what was bought before `ended` ended it; of Ctrl-C and SIGTERM that is all that there is to say."""
    from tradesdk import PaymentUndeliveredError

    again = (
        "the same command continues from there" if checkout.terms.job else "with --job NAME such a run can be continued"
    )
    undelivered = isinstance(ended, PaymentUndeliveredError) or getattr(ended, "code", "") == "unresolved_payment"
    if undelivered and not checkout.terms.job:
        again = f"once that payment is marked, {again}"
    where = "printed" if checkout.run.out.on_stdout else "kept"
    interrupted = isinstance(ended, KeyboardInterrupt)
    begin = "interrupted: " if interrupted else ""
    checkout.run.out.note(f"{begin}{bought} were bought and are {where}; {again}")
    if isinstance(ended, KeyboardInterrupt):
        raise Interrupted(exit_code_of(ended)) from None


def _money(spent: Any, cap: Any) -> str:
    return f"{dollars(spent)} of {dollars(cap)} spent"


def _tell(checkout: Checkout, batch: Any, cap: Any) -> None:
    """A line for each batch, where no line can be overwritten."""
    out = checkout.run.out
    text = f"batch {batch.number} of {batch.count}: {', '.join(batch.tokens)}; {_money(batch.spent_usd, cap)}"
    if batch.again:
        text += " (had already, not paid again)"
    if out.machine_notes:
        spent, most = plain_dollars(batch.spent_usd), plain_dollars(cap)
        out.note(text, batch=batch.number, batches=batch.count, spent_usd=spent, cap_usd=most)
    else:
        out.note(text)
