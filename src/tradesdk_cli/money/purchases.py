"""From a call for market data to what is printed: one request, batches, or a dry run."""

from __future__ import annotations

from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tradesdk_cli.context import wire
from tradesdk_cli.errors import Interrupted, Unwritable, UsageProblem
from tradesdk_cli.lists.progress import Progress
from tradesdk_cli.lists.stopping import deferring
from tradesdk_cli.live.streaming import exit_code_of
from tradesdk_cli.money.calls import Call, plural
from tradesdk_cli.money.paying import Terms, Till
from tradesdk_cli.money.payviews import IN_BRIEF, IN_RECEIPT, brief, dollars, plain_dollars, receipt_record, room, usd
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk_cli.context import Session
    from tradesdk_cli.output import Output
    from tradesdk_cli.results.views import Column

Rows = list[dict[str, Any]]
PER_SIGNAL = ("signals", "history")
"""Verbs whose records are tokens, each with its signals."""


def purchase(run: Session, call: Call, terms: Terms) -> None:
    """Buys what `call` asks for under `terms`, and prints it."""
    till = Till(run, call, terms)
    if terms.receipt and not terms.dry_run:
        run.out.selection.expect(_names_with_receipt(call.verb))
    elif not terms.dry_run:
        run.out.expect(*_models(run.out, call.verb))
    if terms.dry_run:
        rehearse(till)
    elif terms.batches:
        _in_batches(till)
    else:
        result = till.buy()
        try:
            with kept(run, [result]):
                show(run, call.verb, result, receipt=terms.receipt)
        finally:
            till.account_for([result])
        if till.told is not None:
            run.out.note("interrupted, after all of it was bought")
            raise Interrupted(exit_code_of(till.told))


@contextmanager
def kept(run: Session, results: Sequence[Any]) -> Iterator[None]:
    """While this is printed: when it cannot be, it says how what was paid for is printed again."""
    try:
        yield
    except (Unwritable, UsageProblem) as error:
        names = [result.payment.id for result in results if result.payment is not None]
        if not names:
            raise
        commands = ", ".join(f"{run.settings.program} pay resume {name}" for name in names)
        what = "your answer is kept" if len(names) == 1 else "your answers are kept"
        raise type(error)(error.message, f"{what}: {commands}") from None


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
    from tradesdk_cli.results.views import MARKET

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
        "payment": None if result.payment is None else brief(result.payment),
        "receipt": None if result.receipt is None else receipt_record(result.receipt),
    }


def _names_with_receipt(verb: str) -> list[str]:
    """The fields of what is printed with --receipt, before anything is paid."""
    import tradesdk
    from tradesdk_cli.results.selecting import names_of_model

    names = ["data", "payment", "receipt"]
    names += [*(f"payment.{name}" for name in IN_BRIEF), *(f"receipt.{name}" for name in IN_RECEIPT)]
    return names + list(names_of_model(tradesdk.AggregateMetrics, "data.")) if verb == "metrics" else names


# Batches


def _in_batches(till: Till) -> None:
    run, terms = till.run, till.terms
    batches = _run_of(till)
    budget = till.client.payments.spending().budget
    told = f"{till.call.told(len(batches.tokens))} in {plural(batches.count, 'batch')}"
    most = till.agreed(batches.price, budget.is_set, told)
    batches = _run_of(till, most)
    results: list[Any] = []
    bought: list[Any] = []
    ended: list[BaseException] = []
    progress = Progress(run.out, "tokens", len(batches.tokens), at_once=True)
    cap = batches.price if most is None else Decimal(most)

    def each() -> Iterator[Rows]:
        # What has been paid for is printed whatever becomes of the rest.
        done, free, spent = 0, False, batches.price * 0
        while len(results) < batches.count:
            if progress.on_line and (till.wallet is None or till.wallet.opened):  # else it may ask for its password
                progress.step(done, f"batch {len(results) + 1} of {batches.count}", _money(spent, cap), free=free)
            try:
                with stop.open():
                    if till.told is not None:
                        raise till.told
                    batch = till.signing(lambda: next(batches))
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, KeyboardInterrupt):
                    progress.clear()
                if not results:
                    raise
                ended.append(error)
                run.out.incomplete()
                return
            results.append(batch.result)
            done, free, spent = done + len(batch.tokens), batch.again, batch.spent_usd
            if not batch.again and batch.result.payment is not None:
                bought.append(batch.result)
            if not progress.on_line:
                _tell(till, batch, cap)
            if terms.receipt:
                yield [_with_receipt(till.call.verb, batch.result)]
            else:
                yield records(till.call.verb, batch.data)
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
                show_records(run, till.call.verb, each())
    except KeyboardInterrupt as interrupt:
        run.out.note("interrupted")
        raise Interrupted(exit_code_of(interrupt)) from None
    finally:
        if batches.spent:
            till.account_for(bought)
    if results and not ended and not batches.spent:
        run.out.note(f"nothing was paid: the job {one_line(str(terms.job), 80)} had all of it")
    if ended:
        _say_how_to_go_on(till, f"{len(results)} of {plural(batches.count, 'batch')}", ended[0])
        raise ended[0]


def _say_how_to_go_on(till: Till, bought: str, ended: BaseException) -> None:
    """Says what was bought before `ended` ended it; of Ctrl-C and SIGTERM that is all that there is to say."""
    again = (
        "the same command goes on from there" if till.terms.job else "with --job NAME such a run can be gone on with"
    )
    where = "printed" if till.run.out.on_stdout else "kept"
    interrupted = isinstance(ended, KeyboardInterrupt)
    begin = "interrupted: " if interrupted else ""
    till.run.out.note(f"{begin}{bought} were bought and are {where}; {again}")
    if isinstance(ended, KeyboardInterrupt):
        raise Interrupted(exit_code_of(ended)) from None


def _run_of(till: Till, most: str | None = None) -> Any:
    given = till.call.given
    return getattr(till.client.batches, till.call.method)(**given, job=till.terms.job, max_total=most)


def _money(spent: Any, cap: Any) -> str:
    return f"{dollars(spent)} of {dollars(cap)} spent"


def _tell(till: Till, batch: Any, cap: Any) -> None:
    """A line for each batch, where no line can be overwritten."""
    out = till.run.out
    text = f"batch {batch.number} of {batch.count}: {', '.join(batch.tokens)}; {_money(batch.spent_usd, cap)}"
    if batch.again:
        text += " (had already, not paid again)"
    if out.machine_notes:
        spent, most = plain_dollars(batch.spent_usd), plain_dollars(cap)
        out.note(text, batch=batch.number, batches=batch.count, spent_usd=spent, cap_usd=most)
    else:
        out.note(text)


# Dry runs


def rehearse(till: Till) -> None:
    """Prints what would be sent, what it costs, and what would be signed. Only the wallet's address is needed."""
    call, terms = till.call, till.terms
    request: dict[str, Any] = {"method": "POST", "path": call.path}
    if terms.batches:
        batches = _run_of(till, terms.max_price)
        spending = till.client.payments.spending()
        shown = request | {
            "tokens": len(batches.tokens),
            "batches": batches.count,
            "price_usd": plain_dollars(batches.price),
            **room(spending),
        }
    else:
        found = getattr(till.client, call.method)(**call.given, max_price=terms.max_price, dry_run=True)
        asked = found.authorization
        shown = request | {
            "body": call.body(),
            "price_usd": plain_dollars(found.quote.price),
            "asked_usd": None if asked is None else plain_dollars(usd(int(asked["value"]))),
            **room(found.quote.spending),
            "authorization": asked,
            "refusal": found.refusal,
        }
    if till.run.out.format_for(many=False) == "table":
        shown = {name: value for name, value in shown.items() if value is not None}  # people need not read of those
    till.run.out.one(shown, whole=True)
    till.run.out.note("nothing was signed, reserved or paid (--dry-run)")
