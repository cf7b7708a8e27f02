"""Finds agents by name, wallets by label or address, and all by the beginning of their ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from tradesdk_cli.errors import NOT_FOUND, CliError, ConfigProblem, RefusedByMock, UsageProblem
from tradesdk_cli.run import Run, wire_all
from tradesdk_cli.text import one_line, to_paste

T = TypeVar("T")

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID = re.compile(rf"[a-z]{{2,8}}_[0-9A-Za-z]+|{_UUID}")
_BEGINNING = re.compile(r"[a-z]{2,8}_[0-9A-Za-z]+|0x[0-9a-fA-F]{8,}")
_SHOWN = 8


@dataclass(frozen=True)
class Kind:
    """A kind of items with ids.

    Attributes:
        many: the plural; also the name of the client's resource and of the kind for completion.
        prefix: the beginning of their ids.
        names: the fields with names.
        most: the number of items to search; None: all.
    """

    many: str
    prefix: str
    names: tuple[str, ...] = ()
    most: int | None = None


AGENTS = Kind("agents", "agt", ("name",))
WALLETS = Kind("wallets", "wal", ("label", "address"))
TRADES = Kind("trades", "trd", (), 1000)
PAYMENTS = Kind("payments", "pay")


class NotThere(CliError):
    """No item has this id or name."""

    exit_code = NOT_FOUND
    code = "not_found"


def reached(run: Run, kind: Kind, text: str, read: Callable[[str], T]) -> T:
    """The result of `read` for the item that `text` names.

    The form of an id is tried as an id first, so an id costs no extra request.
    """
    from tradesdk import ConfigError, NotFoundError

    text = _pasted(text)
    missing: Exception | None = None
    if not _may_name(kind, text):
        return read(text)
    if _ID.fullmatch(text):
        try:
            return read(text)
        except (NotFoundError, RefusedByMock) as error:
            if error.status != 404 or _is_whole(kind, text):
                raise
            missing = error
    try:
        found = id_of(run, kind, text)
    except (NotFoundError, ConfigError, ConfigProblem):
        if missing is None:
            raise
        raise missing from None  # this kind has no list to search
    except NotThere as error:
        error.status = None if missing is None else 404
        raise
    return read(found)


def _pasted(text: str) -> str:
    """`text` without the `…` of a table, when it is the beginning of an id."""
    beginning = text.removesuffix("…")
    return beginning if _BEGINNING.fullmatch(beginning) else text


def _is_whole(kind: Kind, text: str) -> bool:
    """Whether `text` is certainly a whole id."""
    return re.fullmatch(rf"{kind.prefix}_[0-9A-Za-z]{{20,}}|{_UUID}", text) is not None


def _may_name(kind: Kind, text: str) -> bool:
    """Whether `text` may be a name or the beginning of an id; else the SDK reports what is wrong."""
    if not kind.names:
        return _BEGINNING.fullmatch(text) is not None
    return text.isprintable() and text.strip(" .") != ""


def id_of(run: Run, kind: Kind, text: str) -> str:
    """The id of the item that `text` names, with a note; an id is returned as it is, without a request."""
    text = _pasted(text)
    if _is_whole(kind, text) or not _may_name(kind, text):
        return text
    items: list[Any] = list(getattr(run.client, kind.many).list(max_items=kind.most))
    wire_all(items)
    item = the_one(run, kind, text, items)
    if item is None:
        raise _not_there(run, kind, text, items)
    return str(item.id)


def the_one(run: Run, kind: Kind, text: str, items: Sequence[T]) -> T | None:
    """The item that `text` names, with a note; None when none matches."""
    text = _pasted(text)
    found = _matches(kind, text, items)
    if not found:
        return None
    shown = one_line(text, 80)
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        described = (
            [one_line(item.id, 80), *(f"({one_line(name, 40)})" for name in _names(kind, item)[:1])]
            for item in found[:_SHOWN]
        )
        listed = ", ".join(map(" ".join, described))
        raise UsageProblem(f"{len(found)} {kind.many} match {shown}: {listed}{more}", "use the id of the one you mean")
    item = found[0]
    if item.id != text:
        run.out.event("named", f"{shown} is {item.id}", name=text, id=item.id)
    return cast("T", item)


def _matches(kind: Kind, text: str, items: Sequence[Any]) -> list[Any]:
    """The items with this id; else this name; else this name ignoring case; else this beginning of id or address."""
    folded = text.casefold()
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda item: bool(item.id == text),
        lambda item: text in _names(kind, item),
        lambda item: folded in [name.casefold() for name in _names(kind, item)],
        lambda item: (
            _BEGINNING.fullmatch(text) is not None
            and any(word.startswith(text) for word in (item.id, *_names(kind, item)))
        ),
    )
    return next(filter(None, ([item for item in items if test(item)] for test in tests)), [])


def _names(kind: Kind, item: Any) -> list[str]:
    return [getattr(item, name) for name in kind.names]


def _not_there(run: Run, kind: Kind, text: str, items: Sequence[Any]) -> NotThere:
    from tradesdk_cli.redact import looks_secret

    words = {word.casefold(): word for item in reversed(items) for word in (item.id, *_names(kind, item))}
    begun = [word for word in words if word.startswith(text.casefold())]
    close = get_close_matches(text.casefold(), list(words), cutoff=0.7)
    near = to_paste(words[word] for word in dict.fromkeys((*begun, *close)))
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    among = f" among the newest {kind.most:,}" if kind.most is not None and len(items) == kind.most else ""
    named = "id or name" if kind.names else "id"
    mistyped = looks_secret(text) and not text.startswith(f"{kind.prefix}_")  # a key instead of an id
    return NotThere(
        f"no {kind.many[:-1]}{among} has " + (f"that {named}" if mistyped else f"the {named} {one_line(text, 80)}"),
        f"{meant}see what there is: {run.settings.program} {kind.many} list",
    )
