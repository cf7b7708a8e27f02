"""From a call for market data to what is printed: one request, batches, or a dry run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tradesdk_cli.calls import Call, plural
from tradesdk_cli.context import wire
from tradesdk_cli.errors import Unwritable
from tradesdk_cli.paying import Terms, Till
from tradesdk_cli.payviews import brief, dollars, plain_dollars, receipt_record, room, usd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk_cli.context import Session
    from tradesdk_cli.views import Column

Rows = list[dict[str, Any]]


def purchase(run: Session, call: Call, terms: Terms) -> None:
    """Buys what `call` asks for under `terms`, and prints it."""
    till = Till(run, call, terms)
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


@contextmanager
def kept(run: Session, results: Sequence[Any]) -> Iterator[None]:
    """While this is printed: when it cannot be, it says how what was paid for is printed again."""
    try:
        yield
    except Unwritable as error:
        names = [result.payment.id for result in results if result.payment is not None]
        if not names:
            raise
        commands = ", ".join(f"{run.settings.program} pay resume {name}" for name in names)
        what = "your answer is kept" if len(names) == 1 else "your answers are kept"
        raise Unwritable(error.message, f"{what}: {commands}") from None


def show(run: Session, verb: str, result: Any, *, receipt: bool = False) -> None:
    """Prints what was bought: the service's own records; with `receipt`, an object with the payment beside them."""
    if receipt:
        run.out.one(_with_receipt(verb, result))
    elif verb == "metrics":
        run.out.one(wire(result.data))
    else:
        show_records(run, verb, iter([records(verb, result.data)]))


def show_records(run: Session, verb: str, pages: Iterator[Rows]) -> None:
    """Prints records page by page; in a table each signal has a row of its own."""
    from tradesdk_cli.views import MARKET

    if run.out.format_for(many=True) == "table" and verb in ("signals", "history"):
        pages = map(_a_row_each, pages)
    columns: Sequence[Column] = MARKET[verb]
    run.out.many(columns, pages, empty="nothing was found")


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

    def each() -> Iterator[Rows]:
        # What has been paid for is printed whatever becomes of the rest.
        while len(results) < batches.count:
            try:
                batch = till.signing(lambda: next(batches))
            except (Exception, KeyboardInterrupt) as error:
                if not results:
                    raise
                ended.append(error)
                return
            results.append(batch.result)
            if not batch.again and batch.result.payment is not None:
                bought.append(batch.result)
            _progress(till, batch)
            if terms.receipt:
                yield [_with_receipt(till.call.verb, batch.result)]
            else:
                yield records(till.call.verb, batch.data)

    try:
        with kept(run, results):
            if terms.receipt and run.out.format_for(many=True) == "table":
                for page in each():
                    run.out.one(page[0])
            elif terms.receipt:
                run.out.many((), each(), empty="nothing was found")
            else:
                show_records(run, till.call.verb, each())
    finally:
        if batches.spent:
            till.account_for(bought)
    if ended:
        again = "the same command goes on from there" if terms.job else "with --job NAME such a run can be gone on with"
        run.out.note(f"{len(results)} of {plural(batches.count, 'batch')} were bought and are printed; {again}")
        raise ended[0]


def _run_of(till: Till, most: str | None = None) -> Any:
    given = till.call.given
    return getattr(till.client.batches, till.call.method)(**given, job=till.terms.job, max_total=most)


def _progress(till: Till, batch: Any) -> None:
    out = till.run.out
    text = f"batch {batch.number} of {batch.count}: {', '.join(batch.tokens)}; {dollars(batch.spent_usd)} spent"
    if batch.again:
        text += " (had already, not paid again)"
    if out.machine_notes:
        out.note(text, batch=batch.number, batches=batch.count, spent_usd=plain_dollars(batch.spent_usd))
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
    till.run.out.one(shown)
    till.run.out.note("nothing was signed, reserved or paid (--dry-run)")
