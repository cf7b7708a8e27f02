"""Sends what `trade api` was asked to send, and prints what comes back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import INVALID, CliError, Interrupted, UsageProblem
from tradesdk_cli.raw.rawanswers import BadAnswer, columns_of, show, tell_headers, told_anyway
from tradesdk_cli.raw.rawcalls import SOLD, RawCall, RawRequest, origin_of
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk_cli.purchase.checkout import Terms
    from tradesdk_cli.session import Session

STREAM = "/v1/signals/stream"


class PaymentNeeded(CliError):
    """The service wants money for it, and nobody said that it may be paid."""

    exit_code = INVALID
    code = "payment_required"
    status = 402


def send(run: Session, asked: RawRequest, *, include: bool, yes: bool, dry_run: bool) -> None:
    """Sends a request of the account API; writes are shown and asked about first."""
    from tradesdk_cli.confirm import Change

    if asked.path == STREAM:
        raise UsageProblem("the stream never ends, so it is no answer", f"{run.settings.program} signals stream --help")
    if asked.reads and dry_run:
        run.out.one(asked.as_dict(), whole=True)
        run.out.note("nothing was sent (--dry-run)")
        return
    if not asked.reads:
        change = Change(f"{asked.method} {asked.path}", asked.method, asked.path, asked.body, query=asked.query)
        if not run.approve(change, yes=yes, dry_run=dry_run):
            return
    with told_anyway(run, include=include), hinting(asked):
        answer = run.client.request(asked.method, asked.path, query=asked.query, json=asked.body)
    if include:
        tell_headers(run, answer)
    show(run.out, answer, asked.path)


def refuse_elsewhere(run: Session, word: str, *, market: bool = False) -> None:
    """A full URL is taken when it points to where the settings do: the key goes nowhere else.

    Raises:
        UsageProblem: it points elsewhere.
    """
    there = origin_of(word)
    if there is None:
        return
    from tradesdk_cli.purchase.checkout import market_client

    base_url = (market_client(run) if market else run.client).base_url
    if there != origin_of(f"{base_url}/v1/x"):
        raise UsageProblem(
            f"this URL is not of {run.target(market=market).text}: nothing was sent, for the key would go along",
            "give the path alone; --base-url or --profile says where it goes",
        )


@contextmanager
def hinting(asked: RawRequest) -> Iterator[None]:
    """A service that refuses a body whose texts look like numbers may have wanted numbers: the error says how."""
    from tradesdk import APIStatusError

    try:
        yield
    except APIStatusError as error:
        if error.status not in (400, 422) or not asked.looks_typed:
            raise
        from tradesdk_cli.explain import problem_of

        problem = problem_of(error)
        name, _, value = one_line(asked.looks_typed, 80).partition("=")
        what = value if value in ("true", "false", "null") else "a number"
        hinted = CliError(
            problem.message, f"-f sends text, so it was the text {value}; -F {name}={value} sends it as {what}"
        )
        hinted.exit_code, hinted.code, hinted.status = problem.exit_code, problem.code, problem.status
        raise hinted from None


# Pages


@dataclass(frozen=True)
class _Record:
    """An item as it came, for what prints models."""

    item: dict[str, Any]

    def model_dump(self, **options: object) -> dict[str, Any]:
        return self.item


@dataclass(frozen=True)
class _Page:
    data: list[_Record]
    next_cursor: str | None


class _Pages:
    """A list that is followed by its cursors."""

    def __init__(self, run: Session, asked: RawRequest, *, include: bool) -> None:
        self._run, self._asked, self._include = run, asked, include
        self.first = self._page(None)

    def pages(self) -> Iterator[_Page]:
        """Page by page; the first has been fetched already."""
        page, seen = self.first, set[str]()
        while True:
            yield page
            if page.next_cursor is None:
                return
            if page.next_cursor in seen:
                raise BadAnswer("the service gave the same cursor again, so the list has no end", "tell who runs it")
            seen.add(page.next_cursor)
            page = self._page(page.next_cursor)

    def _page(self, cursor: str | None) -> _Page:
        query = {"limit": "100", **self._asked.query, **({} if cursor is None else {"cursor": cursor})}
        with told_anyway(self._run, include=self._include):
            answer = self._run.client.request("GET", self._asked.path, query=query)
        if self._include:
            tell_headers(self._run, answer)
        try:
            found = answer.json()
        except ValueError:
            found = None
        found = found if isinstance(found, dict) else {}
        items = found.get("data")
        if not isinstance(items, list):
            raise BadAnswer(
                f"{self._asked.path} is no list with pages: there is no data in its answer", "leave --paginate out"
            )
        following = found.get("next_cursor")
        records = [_Record(item if isinstance(item, dict) else {"value": item}) for item in items]
        return _Page(records, following if isinstance(following, str) and following else None)


def paginate(run: Session, asked: RawRequest, *, include: bool) -> None:
    """Prints all items of a list, page after page, as one list."""
    from tradesdk_cli.lists.paging import Source, plan

    pages = _Pages(run, asked, include=include)
    columns = columns_of(asked.path, [record.item for record in pages.first.data])
    source = Source("items", "", asked.path, lambda **_: pages)
    run.show_list(columns, plan(None, True, None, None), source, empty="the list is empty")


# Market data


def buy(run: Session, asked: RawRequest, terms: Terms, *, include: bool) -> None:
    """Pays for market data, as `trade market` does: the same guards, budgets and ledger."""
    from tradesdk_cli.purchase.buy import kept
    from tradesdk_cli.purchase.checkout import Till
    from tradesdk_cli.purchase.dryrun import rehearse
    from tradesdk_cli.stream.deliver import exit_code_of

    till = Till(run, _call(asked), terms)
    if terms.dry_run:
        rehearse(till)
        return
    run.out.selection.expect(_fields_of(SOLD[asked.path]))
    result = till.buy()
    try:
        with kept(run, [result]):
            if include:
                tell_headers(run, result.data)
            show(run.out, result.data)
    finally:
        till.account_for([result])
    if till.told is not None:
        run.out.note("interrupted, after it was bought")
        raise Interrupted(exit_code_of(till.told))


def _fields_of(verb: str) -> list[str]:
    """What the whole answer of an endpoint may have in it, for --fields: what is misspelt costs nothing."""
    import tradesdk
    from tradesdk_cli.output.select import names_of_model

    if verb == "metrics":
        inner = [*names_of_model(tradesdk.AggregateMetrics, "data.")]
    else:
        inner = {"top": ["data.tokens"], "tokens": ["data.total", "data.tokens"]}.get(verb, ["data.results"])
    return ["success", "data", "error", *inner]


def ask_price(run: Session, asked: RawRequest, *, include: bool, dry_run: bool, send_api_key: bool) -> None:
    """Market data without `--pay`: what is free is printed, of the rest only what it would cost.

    Raises:
        PaymentNeeded: it costs something.
    """
    from tradesdk_cli.purchase.checkout import NOBODY, market_client
    from tradesdk_cli.purchase.records import dollars, plain_dollars, usd
    from tradesdk_cli.purchase.wallet import Wallet

    if dry_run:
        run.out.one(asked.as_dict(), whole=True)
        run.out.note("nothing was sent (--dry-run); with --pay it says what would be signed")
        return
    call = _call(asked)
    client = market_client(run, Wallet(NOBODY, _nothing_is_signed), send_api_key=send_api_key)
    quote = client.quote.request(**call.given)
    if quote.price:
        tried = client.dry_run.request(**call.given)
        price = usd(int(tried.authorization["value"])) if tried.authorization else quote.price
        if tried.authorization or tried.refusal:
            program, cost = run.settings.program, plain_dollars(price)
            raise PaymentNeeded(
                f"{asked.path} costs {dollars(price)}, and nothing was paid",
                f"to pay for it: add --pay --max-price {cost}; or see: {program} market {SOLD[asked.path]} --help",
            )
    result = client.request(**call.given)
    if include:
        tell_headers(run, result.data)
    show(run.out, result.data)


def _call(asked: RawRequest) -> RawCall:
    return RawCall(SOLD[asked.path], path_of=asked.path, content=asked.body)


def _nothing_is_signed() -> Any:
    raise UsageProblem("nothing is signed without --pay", "add --pay --max-price USD")
