"""Prints the answers to what `trade api` sends: bodies in every format, headers without secrets."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tradesdk_cli.errors import SERVER, CliError
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk import RawResponse
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

_HIDDEN = re.compile(r"cookie|authorization|payment|token|secret|signature|api-?key", re.IGNORECASE)
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
    secret = {name for name, value in answer.headers.items() if _HIDDEN.search(name) or _has_key(run, value)}
    shown = {name: "(not shown)" if name in secret else answer.headers[name] for name in sorted(answer.headers)}
    if out.machine_notes:
        out.report({"type": "headers", "status": answer.status, "headers": shown})
        return
    from tradesdk_cli.confirm import say

    say(out, f"HTTP {answer.status}")
    for name, value in shown.items():
        say(out, f"{visible(name, 100)}: {visible(value, 1000)}")
    say(out, "")


def _has_key(run: Session, text: str) -> bool:
    """Whether one of the API keys stands in it, as it is or as URLs write it."""
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
    if out.settings.output not in ("auto", "table") or out.selection.active:
        # Of the text nothing is repeated: it may hold the key that was sent.
        found = _KIND.match(answer.headers.get("content-type", ""))
        what = f"{found[0]}, {len(answer.content)} bytes" if found else f"{len(answer.content)} bytes"
        raise BadAnswer(f"the answer is no JSON but {what}", "leave -o, --fields and --query out to see it all")
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
