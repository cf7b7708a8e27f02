"""`trade api`: reads method, path and body as typed, sends the request, and prints the answer. It pays nothing."""

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

from tradesdk_cli.errors import SERVER, CliError, UsageProblem
from tradesdk_cli.purchase.calls import ENDPOINTS
from tradesdk_cli.redact import HIDDEN, is_secret_header
from tradesdk_cli.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk import RawResponse
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MARKET = {f"/v1/{endpoint}": verb for verb, endpoint in ENDPOINTS.items()}
"""Paths of the market data, and the verbs of `trade market` for them."""
_FREE = "tokens"
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
    def market_verb(self) -> str | None:
        """The verb of `trade market` that sends the same; None when it is not about market data."""
        return MARKET.get(self.path) if self.method == "POST" else None

    def as_dict(self) -> dict[str, Any]:
        """What `--dry-run` prints."""
        shown: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.query:
            shown["query"] = self.query
        return shown if self.body is None else {**shown, "body": self.body}


def read_request(words: Sequence[str], texts: Sequence[str], typed: Sequence[str], data: str | None) -> RawRequest:
    """The request that a command line means; a full URL keeps only what is behind its origin (see `origin_of`).

    Args:
        words: `PATH`, or `METHOD PATH`; without a method it is a GET, or a POST when there is a body.
        texts: `name=value` whose values are text.
        typed: the same whose values are JSON where they can be.
        data: the body as JSON, `@file`, or `-` for standard input.

    Raises:
        UsageProblem: it cannot be meant like this; nothing was sent.
    """
    if not 1 <= len(words) <= 2:
        raise UsageProblem("one method and one path are needed", "for example: {trade} api GET /v1/account")
    if data is not None and (texts or typed):
        raise UsageProblem("-d and -f exclude each other", "put everything into -d, or use -f and -F only")
    fields = [(*_pair("-f", text), False) for text in texts] + [(*_pair("-F", text), True) for text in typed]
    usual = "POST" if fields or data is not None else "GET"
    method = words[0].upper() if len(words) == 2 else usual
    if method not in METHODS:
        raise UsageProblem(f"{one_line(words[0], 40)!r} is not a method", f"it is one of {', '.join(METHODS)}")
    path, query = _place(words[-1])
    if method == "GET":
        if data is not None:
            raise UsageProblem("a GET has no body", "leave -d out, or name the method: {trade} api POST PATH -d …")
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
        raise UsageProblem("this URL cannot be read", "give the path alone: {trade} api /v1/account") from None
    if parts.username or parts.password or not host:
        raise UsageProblem("this URL cannot be used", "give the path alone: {trade} api /v1/account")
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


def send(run: Session, asked: RawRequest, *, include: bool, yes: bool, dry_run: bool) -> None:
    """Sends a request and prints the answer; writes are shown and asked about first.

    Raises:
        UsageProblem: it would have to be paid for, or its answer never ends.
    """
    program, verb = run.settings.program, asked.market_verb
    if asked.path == STREAM:
        raise UsageProblem("the stream never ends", f"{program} signals stream --help")
    if verb not in (None, _FREE):
        raise UsageProblem(f"{asked.path} is paid for, and nothing is paid here", f"{program} market {verb} --help")
    if dry_run and (asked.reads or verb is not None):
        run.out.one(asked.as_dict(), whole=True)
        run.out.note("nothing was sent (--dry-run)")
        return
    if not asked.reads and verb is None and not _agreed(run, asked, yes=yes, dry_run=dry_run):
        return
    with _told_anyway(run, include=include), _hinting(asked):
        answer = _answer(run, asked)
    if include:
        _tell_headers(run, answer)
    _show(run.out, answer)


def _agreed(run: Session, asked: RawRequest, *, yes: bool, dry_run: bool) -> bool:
    from tradesdk_cli.confirm import Change, approve

    change = Change(f"{asked.method} {asked.path}", asked.method, asked.path, asked.body, query=asked.query)
    return approve(run, change, yes=yes, dry_run=dry_run)


def _answer(run: Session, asked: RawRequest) -> RawResponse:
    if asked.market_verb is None:
        return run.client.request(asked.method, asked.path, query=asked.query, json=asked.body)
    from tradesdk_cli.purchase.checkout import market_client

    return market_client(run).request(path=asked.path, json=asked.body).data


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
def _hinting(asked: RawRequest) -> Iterator[None]:
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


_SIGNED = re.compile(r"eyJ[\w+/=-]{200}|(?:0x)?[0-9a-fA-F]{130}")
"""A payment, as its header is written, or a signature."""
_KIND = re.compile(r"[a-z]{1,20}/[a-z]{1,20}\b", re.IGNORECASE)


class BadAnswer(CliError):
    """What came is not what was asked for."""

    exit_code = SERVER
    code = "bad_response"


@contextmanager
def _told_anyway(run: Session, *, include: bool) -> Iterator[None]:
    """Tells the headers of an answer that is an error."""
    from tradesdk import APIStatusError

    try:
        yield
    except APIStatusError as error:
        if include and error.response is not None:
            _tell_headers(run, error.response)
        raise


def _tell_headers(run: Session, answer: RawResponse) -> None:
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


def _show(out: Output, answer: RawResponse) -> None:
    """Prints a body: JSON, or the format that was asked for; anything else as it is, on a terminal made visible."""
    if not answer.content.strip():
        out.note(f"{answer.status}: the answer has no body, so nothing is printed")
        return
    try:
        found = answer.json()
    except ValueError:
        _show_text(out, answer)
        return
    out = out.usually("json")
    if isinstance(found, list):
        rows = [item if isinstance(item, dict) else {"value": item} for item in found]
        out.many((), [rows], empty="the list is empty")
    else:
        out.one(found if isinstance(found, dict) else {"value": found})


def _show_text(out: Output, answer: RawResponse) -> None:
    if out.settings.output not in ("auto", "table") or out.selection is not None:
        # Of the text nothing is repeated: it may hold the key that was sent.
        found = _KIND.match(answer.headers.get("content-type", ""))
        what = f"{found[0]}, {len(answer.content)} bytes" if found else f"{len(answer.content)} bytes"
        raise BadAnswer(f"the answer is not JSON but {what}", "leave -o, --fields and --query out to see it all")
    text = answer.text
    with out.result():
        out.write("".join(f"{visible(line)}\n" for line in text.splitlines()) if out.on_terminal else text)
