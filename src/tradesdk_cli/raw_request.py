"""`trade api`: reads method, path and body as typed, sends or buys the request, and prints the answer."""

from __future__ import annotations

import json
import math
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tradesdk_cli.errors import INVALID, SERVER, CliError, Interrupted, UsageProblem
from tradesdk_cli.purchase.calls import ENDPOINTS, Call
from tradesdk_cli.redact import HIDDEN, is_secret_header
from tradesdk_cli.text import dollars, one_line, plain_dollars, usd, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk import RawResponse
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.purchase.checkout import Terms
    from tradesdk_cli.session import Session


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SOLD = {f"/v1/{endpoint}": verb for verb, endpoint in ENDPOINTS.items()}
"""Paths of the market data, and the verbs of `trade market` for them."""
_VERSION = re.compile(r"/v\d{1,3}/.")
_SAFE = "/%:@!$&'()*+,;=~"
_LARGEST = 1024 * 1024
_FORM = "for example: -f name=calm, -F risk.stop_loss_pct=4, -f 'tokens[].identifier=ETH'"


@dataclass(frozen=True)
class RawRequest:
    """One request.

    Attributes:
        method: one of `METHODS`.
        path: quoted, from `/v1/` on.
        query: what stands behind the question mark.
        body: what is sent as JSON; None: nothing.
        looks_typed: the first `-f` of the body whose text looks like a number, true, false or null.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    looks_typed: str | None = field(default=None, compare=False)

    @property
    def reads(self) -> bool:
        """True when it changes nothing."""
        return self.method == "GET"

    @property
    def is_sold(self) -> bool:
        """True when it is about market data, which is paid for."""
        return self.method == "POST" and self.path in SOLD

    def as_dict(self) -> dict[str, Any]:
        """What `--dry-run` prints."""
        shown: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.query:
            shown["query"] = self.query
        return shown if self.body is None else {**shown, "body": self.body}


@dataclass(frozen=True)
class RawCall(Call):
    """The same as what `Checkout` buys: for market data, with any body."""

    path_of: str = ""
    content: Any = None

    @property
    def endpoint(self) -> str:
        return self.path_of.rpartition("/")[2]

    @property
    def path(self) -> str:
        return self.path_of

    @property
    def method(self) -> str:
        return "request"

    @property
    def given(self) -> dict[str, Any]:
        return {"path": self.path_of, "json": self.content}

    def told(self, count: int | None = None) -> str:
        return self.path_of

    def body(self) -> dict[str, Any]:
        return dict(self.content or {})


def read_request(
    words: Sequence[str], texts: Sequence[str], typed: Sequence[str], data: str | None, *, usually: str | None = None
) -> RawRequest:
    """The request that a command line means; a full URL keeps only what is behind its origin (see `origin_of`).

    Args:
        words: `PATH`, or `METHOD PATH`.
        texts: `name=value` whose values are text.
        typed: the same whose values are JSON where they can be.
        data: the body as JSON, `@file`, or `-` for standard input.
        usually: the method when none is said; else a GET, or a POST when there is a body.

    Raises:
        UsageProblem: it cannot be meant like this; nothing was sent.
    """
    if not 1 <= len(words) <= 2:
        raise UsageProblem("one method and one path are needed", "for example: trade api GET /v1/account")
    if data is not None and (texts or typed):
        raise UsageProblem("-d and -f exclude each other", "put everything into -d, or use -f and -F only")
    fields = [(*_pair("-f", text), False) for text in texts] + [(*_pair("-F", text), True) for text in typed]
    usual = usually or ("POST" if fields or data is not None else "GET")
    method = words[0].upper() if len(words) == 2 else usual
    if method not in METHODS:
        raise UsageProblem(f"{one_line(words[0], 40)!r} is not a method", f"it is one of {', '.join(METHODS)}")
    path, query = _place(words[-1])
    if method == "GET":
        if data is not None:
            raise UsageProblem("a GET has no body", "leave -d out, or name the method: trade api POST PATH -d …")
        for name, value, _ in fields:
            _once(query, name, value)
        return RawRequest(method, path, query)
    if data is not None:
        return RawRequest(method, path, query, _json_of(data))
    body: dict[str, Any] = {}
    for name, value, is_typed in fields:
        _set(body, name, _typed(value) if is_typed else value)
    looks_typed = next(
        (text for text in texts if not isinstance(_typed(_pair("-f", text)[1]), (str, list, dict))), None
    )
    return RawRequest(method, path, query, body if fields else None, looks_typed)


def origin_of(word: str) -> str | None:
    """Where a full URL points: all of it before `/v1/`; None for a path.

    Raises:
        UsageProblem: it is not a URL, or it has a password.
    """
    if "://" not in word.partition("?")[0]:
        return None
    try:
        parts = urlsplit(word)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise UsageProblem("this URL cannot be read", "give the path alone: trade api /v1/account") from None
    if parts.username or parts.password or not host:
        raise UsageProblem("this URL cannot be used", "give the path alone: trade api /v1/account")
    scheme = parts.scheme.lower()
    port = port or {"https": 443, "http": 80}.get(scheme)
    before = parts.path[: found.start()] if (found := _VERSION.search(parts.path)) else parts.path
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{before.rstrip('/')}"


def _place(word: str) -> tuple[str, dict[str, str]]:
    """Path and query."""
    if origin_of(word) is not None:
        parts = urlsplit(word)
        found = _VERSION.search(parts.path)
        path, query, fragment = parts.path[found.start() :] if found else "/", parts.query, parts.fragment
    else:
        rest, _, fragment = word.partition("#")
        path, _, query = rest.partition("?")
        path = path if path.startswith("/") else f"/{path}"
    if fragment or not _VERSION.match(path):
        told = one_line(word, 80)
        raise UsageProblem(f"{told!r} is not a path of the API", "paths begin with the version: /v1/agents")
    if "\\" in path or any(part in (".", "..") for part in unquote(path).split("/")):
        raise UsageProblem("a path has no . or .. or backslash", "write the path as the service knows it: /v1/agents")
    pairs: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        _once(pairs, name, value)
    return quote(path, safe=_SAFE), pairs


def _once(query: dict[str, str], name: str, value: str) -> None:
    if name in query:
        raise UsageProblem(f"{one_line(name, 60)} is twice in the query", "leave one of them out")
    query[name] = value


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageProblem(f"{option} takes name=value, not {one_line(text, 60)!r}", _FORM)
    return name, value


def _typed(text: str) -> Any:
    """JSON where it is JSON, else text: `4`, `true`, `null`, `[1,2]`, `calm`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _set(body: dict[str, Any], name: str, value: Any) -> None:
    """Puts a value where its name says: `a.b` into an object, `a[]` at the end of a list, `a[].b` into its objects.

    A field of an object in a list that is there already begins the next object.
    """
    place: Any = body
    parts = name.split(".")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        key, is_list = (part[:-2], True) if part.endswith("[]") else (part, False)
        if not key or "[" in key or "]" in key or not isinstance(place, dict):
            raise UsageProblem(f"{one_line(name, 60)!r} is not a name of a field", _FORM)
        if not is_list and last:
            if key in place:
                raise UsageProblem(f"{one_line(name, 60)} is given twice", _FORM)
            place[key] = value
            return
        fresh: Any = [] if is_list else {}
        inner: Any = place.setdefault(key, fresh)
        if type(inner) is not type(fresh):
            raise UsageProblem(f"{one_line(name, 60)} is two things at once", _FORM)
        if not is_list:
            place = inner
        elif last:
            inner.append(value)
            return
        else:
            rest = parts[number + 1].removesuffix("[]")
            if not inner or not isinstance(inner[-1], dict) or (rest in inner[-1] and len(parts) == number + 2):
                inner.append({})
            place = inner[-1]


def _json_of(data: str) -> Any:
    if data in ("-", "@-"):
        text, where = sys.stdin.read(_LARGEST + 1), "standard input"
    elif data.startswith("@"):
        path = Path(data[1:]).expanduser()
        where = str(path)
        try:
            with open(path, encoding="utf-8") as stream:
                text = stream.read(_LARGEST + 1)
        except OSError as error:
            raise UsageProblem(f"cannot read {one_line(where, 200)}: {error.strerror}", "-d @FILE, or -d -") from None
        except UnicodeDecodeError:
            raise UsageProblem(f"{one_line(where, 200)} is not text in UTF-8", "a body is JSON") from None
    else:
        text, where = data, "-d"
    if len(text) > _LARGEST:
        raise UsageProblem(f"{one_line(where, 200)} is longer than {_LARGEST // 1024} KiB", "send less at a time")
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        told = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a number"
        message = f"{one_line(where, 200)} is not JSON: {told}"
        raise UsageProblem(message, 'for example: -d \'{"name": "calm"}\'; a file: -d @body.json') from None
    except RecursionError:
        raise UsageProblem(f"{one_line(where, 200)} is nested too deep", "a body is JSON") from None


STREAM = "/v1/signals/stream"


class PaymentNeeded(CliError):
    """The service wants money for it, and nobody said that it may be paid."""

    exit_code = INVALID
    code = "payment_required"
    status = 402


def send(run: Session, asked: RawRequest, *, include: bool, yes: bool, dry_run: bool) -> None:
    """Sends a request of the account API; writes are shown and asked about first."""
    from tradesdk_cli.confirm import Change, approve

    if asked.path == STREAM:
        raise UsageProblem("the stream never ends", f"{run.settings.program} signals stream --help")
    if asked.reads and dry_run:
        run.out.one(asked.as_dict(), whole=True)
        run.out.note("nothing was sent (--dry-run)")
        return
    if not asked.reads:
        change = Change(f"{asked.method} {asked.path}", asked.method, asked.path, asked.body, query=asked.query)
        if not approve(run, change, yes=yes, dry_run=dry_run):
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
                f"{self._asked.path} is not a list with pages: there is no data in its answer", "leave --paginate out"
            )
        following = found.get("next_cursor")
        records = [_Record(item if isinstance(item, dict) else {"value": item}) for item in items]
        return _Page(records, following if isinstance(following, str) and following else None)


def paginate(run: Session, asked: RawRequest, *, include: bool) -> None:
    """Prints all items of a list, page after page, as one list."""
    from tradesdk_cli.framework.params import plan
    from tradesdk_cli.lists.listing import show_list
    from tradesdk_cli.lists.paging import Source

    pages = _Pages(run, asked, include=include)
    columns = columns_of(asked.path, [record.item for record in pages.first.data])
    source = Source("items", lambda **_: pages)
    show_list(run, columns, plan(None, True, None, None), source, empty="the list is empty")


# Market data


def buy(run: Session, asked: RawRequest, terms: Terms, *, include: bool) -> None:
    """Pays for market data, as `trade market` does: the same guards, budgets and ledger."""
    from tradesdk_cli.interrupts import exit_code_of
    from tradesdk_cli.purchase.buy import kept
    from tradesdk_cli.purchase.checkout import Checkout
    from tradesdk_cli.purchase.dryrun import show_dry_run

    checkout = Checkout(run, _call(asked), terms)
    if terms.dry_run:
        show_dry_run(checkout)
        return
    run.out.expect_fields(_fields_of(SOLD[asked.path]))
    result = checkout.buy()
    try:
        with kept(run, [result]):
            if include:
                tell_headers(run, result.data)
            show(run.out, result.data)
    finally:
        checkout.account_for([result])
    if checkout.told is not None:
        run.out.note("interrupted, after it was bought")
        raise Interrupted(exit_code_of(checkout.told))


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
    from tradesdk_cli.wallet import Wallet

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


_SIGNED = re.compile(r"eyJ[\w+/=-]{200}|(?:0x)?[0-9a-fA-F]{130}")
"""A payment, as its header is written, or a signature."""
_KIND = re.compile(r"[a-z]{1,20}/[a-z]{1,20}\b", re.IGNORECASE)


class BadAnswer(CliError):
    """What came is not what was asked for."""

    exit_code = SERVER
    code = "bad_response"


@contextmanager
def told_anyway(run: Session, *, include: bool) -> Iterator[None]:
    """Tells the headers of an answer that is an error."""
    from tradesdk import APIStatusError

    try:
        yield
    except APIStatusError as error:
        if include and error.response is not None:
            tell_headers(run, error.response)
        raise


def tell_headers(run: Session, answer: RawResponse) -> None:
    """Status and headers on stderr, so that stdout is the body alone. What could be a secret is not shown."""
    out = run.out
    secret = {name for name, value in answer.headers.items() if is_secret_header(name) or _has_key(run, value)}
    shown = {name: HIDDEN if name in secret else answer.headers[name] for name in sorted(answer.headers)}
    if out.machine_notes:
        out.report({"type": "headers", "status": answer.status, "headers": shown})
        return
    from tradesdk_cli.confirm import say

    say(out, f"HTTP {answer.status}")
    for name, value in shown.items():
        say(out, f"{visible(name, 100)}: {visible(value, 1000)}")
    say(out, "")


def _has_key(run: Session, text: str) -> bool:
    """Whether one of the API keys is in it, as it is or as URLs write it."""
    text = unquote(text)
    return _SIGNED.search(text) is not None or any(key in text or unquote(key) in text for key in run.keys if key)


def show(out: Output, answer: RawResponse, path: str = "") -> None:
    """Prints a body: JSON in the format that was asked for, anything else as it is; on a terminal made visible.

    A page of a list is a table of its items where tables are drawn; `path` says which columns it has.
    """
    if not answer.content.strip():
        out.note(f"{answer.status}: the answer has no body, so nothing is printed")
        return
    try:
        found = answer.json()
    except ValueError:
        _show_text(out, answer)
        return
    if isinstance(found, dict) and out.draws(many=False) and _is_page(found):
        _show_rows(out, path, found["data"])
        if found.get("next_cursor"):
            out.note("there is more: --paginate", next_cursor=found["next_cursor"])
    elif isinstance(found, dict):
        out.one(found)
    elif isinstance(found, list):
        _show_rows(out, path, found)
    else:
        out.one({"value": found})


def _is_page(body: dict[str, Any]) -> bool:
    return isinstance(body.get("data"), list) and body.keys() <= {"data", "next_cursor"}


def _show_rows(out: Output, path: str, items: list[Any]) -> None:
    rows = [item if isinstance(item, dict) else {"value": item} for item in items]
    out.many(columns_of(path, rows), [rows], empty="the list is empty")


def _show_text(out: Output, answer: RawResponse) -> None:
    if out.settings.output not in ("auto", "table") or out.selection is not None:
        # Of the text nothing is repeated: it may hold the key that was sent.
        found = _KIND.match(answer.headers.get("content-type", ""))
        what = f"{found[0]}, {len(answer.content)} bytes" if found else f"{len(answer.content)} bytes"
        raise BadAnswer(f"the answer is not JSON but {what}", "leave -o, --fields and --query out to see it all")
    text = answer.text
    with out.result():
        out.write("".join(f"{visible(line)}\n" for line in text.splitlines()) if out.on_terminal else text)


def columns_of(path: str, rows: list[dict[str, Any]]) -> list[Column]:
    """The columns of a list in a table: those that its own command has, or all fields."""
    from tradesdk_cli.output import columns
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.table import kind_of

    known = {
        "/v1/agents": columns.AGENTS,
        "/v1/wallets": columns.WALLETS,
        "/v1/trades": columns.TRADES,
        "/v1/positions": columns.POSITIONS,
        "/v1/signals": columns.SIGNALS,
        "/v1/signals/history": columns.SIGNALS,
    }
    if path in known:
        return list(known[path])
    keys = dict.fromkeys(key for row in rows for key in row)
    return [Column(key, kind_of(key), optional=number > 0, title=visible(key)) for number, key in enumerate(keys)]
