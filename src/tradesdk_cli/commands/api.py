"""`trade api`: any request, with the same key and retries. It pays nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, quote, unquote

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.cli.params import Consent, pairs
from tradesdk_cli.errors import SERVER, CliError, UsageProblem
from tradesdk_cli.files import file_errors
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import one_line, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradesdk import RawResponse
    from tradesdk_cli.confirm import Change
    from tradesdk_cli.output.printer import Output

app = Verbs(run_of)

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SAFE = "/%:@!$&'()*+,;=~"


@app.verb("api", "trade --mock api GET /v1/agents -f status=active", "trade --mock api /v1/account -o table")
def api(
    run: Run,
    words: Annotated[list[str], typer.Argument(metavar="[METHOD] PATH", help="GET, POST, PUT, PATCH, DELETE; /v1/….")],
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field", "-f", metavar="NAME=VALUE", help="A field of a GET's query; else a text field of the body."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", "-d", metavar="JSON|@FILE|-", help="The whole body; - is standard input.")
    ] = None,
    *,
    consent: Consent,
) -> None:
    """Send any request, with the same key and retries. Print the answer as JSON.

    The method is GET by default, or POST with a body. In a GET, -f is the query; elsewhere it is a text field of the
    body, and -d is the whole body. Other methods than GET show the request and ask first, or need --yes. Nothing is
    paid: market data is bought with trade market. --debug shows headers.
    """
    from tradesdk_cli.confirm import approve

    change = read_request(words, field or (), data)
    if change.method == "GET" and consent.dry_run:
        run.out.one(change.as_dict())
        run.out.note("nothing was sent (--dry-run)")
    elif change.method == "GET" or approve(run, change, **vars(consent)):
        _show(run.out, run.client.request(change.method, change.path, query=change.query, json=change.body))


def read_request(words: Sequence[str], texts: Sequence[str], data: str | None) -> Change:
    """The request for these words, `name=value` texts and data; its path is quoted and begins with `/v1/`."""
    from tradesdk_cli.confirm import Change
    from tradesdk_cli.pay.calls import ENDPOINTS

    if not 1 <= len(words) <= 2:
        raise UsageProblem("one method and one path are needed", "for example: {trade} api GET /v1/account")
    method = words[0].upper() if len(words) == 2 else "GET" if data is None and not texts else "POST"
    if method not in _METHODS:
        raise UsageProblem(f"{one_line(words[0], 40)!r} is not a method", f"it is one of {', '.join(_METHODS)}")
    path, query = _path_and_query(words[-1])
    if path == "/v1/signals/stream":
        raise UsageProblem("the stream never ends", "{trade} signals stream --help")
    if verb := next((verb for verb, endpoint in ENDPOINTS.items() if path == f"/v1/{endpoint}"), None):
        raise UsageProblem(f"{path} is market data, which has its own commands", f"{{trade}} market {verb} --help")
    fields, body = pairs(texts, "for example: -f name=calm"), None
    if method == "GET":
        if data is not None:
            raise UsageProblem("a GET has no body", "leave -d out, or name the method: {trade} api POST PATH -d …")
        query += fields.items()
    elif data is not None and fields:
        raise UsageProblem("-d and -f exclude each other", "put everything into -d")
    else:
        body = fields or None if data is None else _json_of(data)
    names = [name for name, _ in query]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageProblem(f"{one_line(twice[0], 60)} is given twice", "leave one of them out")
    return Change(f"{method} {path}", method, path, body, query=dict(query))


def _path_and_query(word: str) -> tuple[str, list[tuple[str, str]]]:
    """Path and query. A URL with a host is refused: the key goes only to the service of the settings."""
    rest, _, fragment = word.partition("#")
    path, _, query = rest.partition("?")
    path = path if path.startswith("/") else f"/{path}"
    if fragment or not re.match(r"/v\d{1,3}/.", path):
        shown = "a URL" if "://" in word else repr(one_line(word, 80))
        raise UsageProblem(f"{shown} is not a path of the API", "paths begin with the version: /v1/agents")
    if "\\" in path or any(part in (".", "..") for part in unquote(path).split("/")):
        raise UsageProblem("a path has no . or .. or backslash", "write the path as the service knows it: /v1/agents")
    return quote(path, safe=_SAFE), parse_qsl(query, keep_blank_values=True)


def _json_of(data: str) -> Any:
    text, where = data, "-d"
    try:
        if data in ("-", "@-"):
            text, where = sys.stdin.read(), "standard input"
        elif data.startswith("@"):
            where = one_line(data[1:], 200)
            with file_errors(UsageProblem, f"cannot read {where}", "-d @FILE, or -d -"):
                text = Path(data[1:]).expanduser().read_text("utf-8")
        found = json.loads(text)
        to_json(found)  # refuses what Python accepts beyond JSON: NaN and infinity
        return found
    except (ValueError, RecursionError) as error:
        position = f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageProblem(
            f"{where} is not JSON{position}", 'for example: -d \'{"name": "calm"}\', -d @body.json'
        ) from None


def _show(out: Output, answer: RawResponse) -> None:
    """Prints a body: JSON in the chosen format; anything else as it is, with escapes on a terminal."""
    if not answer.content.strip():
        out.note(f"{answer.status}: the answer has no body, so nothing is printed")
        return
    try:
        found = answer.json()
    except ValueError:
        if out.settings.output not in ("auto", "table") or not out.selection.is_all:
            # The text is not repeated: it may contain the key.
            message = f"the answer is not JSON ({len(answer.content)} bytes)"
            hint = "leave -o, --fields and --query out to see it all"
            raise CliError(message, hint, code="bad_response", exit_code=SERVER) from None
        lines = (f"{visible(line)}\n" for line in answer.text.splitlines())
        out.write("".join(lines) if out.on_terminal else answer.text)
        return
    out.usual = "json"
    if isinstance(found, list):
        rows = [item if isinstance(item, dict) else {"value": item} for item in found]
        out.many((), [rows], empty="the list is empty")
    else:
        out.one(found if isinstance(found, dict) else {"value": found})
