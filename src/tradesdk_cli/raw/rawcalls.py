"""Requests that somebody writes by hand: method, path and body as they were typed. Pure: nothing is sent here."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.purchase.calls import ENDPOINTS, Call
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The same as what `Till` buys: for market data, with any body."""

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
        raise UsageProblem(f"{one_line(words[0], 40)!r} is no method", f"it is one of {', '.join(METHODS)}")
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
        UsageProblem: it is no URL, or a password stands in it.
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
        raise UsageProblem(f"{told!r} is no path of the API", "paths begin with the version: /v1/agents")
    if "\\" in path or any(part in (".", "..") for part in unquote(path).split("/")):
        raise UsageProblem("a path has no . or .. or backslash", "write the path as the service knows it: /v1/agents")
    pairs: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        _once(pairs, name, value)
    return quote(path, safe=_SAFE), pairs


def _once(query: dict[str, str], name: str, value: str) -> None:
    if name in query:
        raise UsageProblem(f"{one_line(name, 60)} stands in the query twice", "leave one of them out")
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
            raise UsageProblem(f"{one_line(name, 60)!r} is no name of a field", _FORM)
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
        message = f"{one_line(where, 200)} is no JSON: {told}"
        raise UsageProblem(message, 'for example: -d \'{"name": "calm"}\'; a file: -d @body.json') from None
    except RecursionError:
        raise UsageProblem(f"{one_line(where, 200)} is nested too deep", "a body is JSON") from None
