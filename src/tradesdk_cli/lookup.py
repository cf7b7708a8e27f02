"""Finds agents by name, wallets by label or address, and all by the beginning of their ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tradesdk_cli.errors import NOT_FOUND, CliError, ConfigProblem, RefusedByMock, UsageProblem
from tradesdk_cli.session import wire_all
from tradesdk_cli.text import one_line, to_paste

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tradesdk_cli.session import Session

T = TypeVar("T")

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID = re.compile(rf"[a-z]{{2,8}}_[0-9A-Za-z]+|{_UUID}")
_BEGINNING = re.compile(r"[a-z]{2,8}_[0-9A-Za-z]+|0x[0-9a-fA-F]{8,}")
_SHOWN = 8


@dataclass(frozen=True)
class Kind:
    """A kind of items with ids.

    Attributes:
        one: the singular.
        many: the plural; also the name of the client's resource and of the kind for completion.
        prefix: the beginning of their ids.
        names: the fields with names.
        most: the number of items to search; None: all.
    """

    one: str
    many: str
    prefix: str
    names: tuple[str, ...] = ()
    most: int | None = None


AGENTS = Kind("agent", "agents", "agt", ("name",))
WALLETS = Kind("wallet", "wallets", "wal", ("label", "address"))
TRADES = Kind("trade", "trades", "trd", (), 1000)
PAYMENTS = Kind("payment", "payments", "pay")


class NotThere(CliError):
    """No item has this id or name."""

    exit_code = NOT_FOUND
    code = "not_found"


def reached(run: Session, kind: Kind, text: str, read: Callable[[str], T]) -> T:
    """The result of `read` for the item that `text` names.

    The form of an id is tried as an id first, so an id costs no extra request.

    Raises:
        NotThere, UsageProblem: no item matches, or several.
    """
    from tradesdk import NotFoundError

    text = _pasted(text)
    missing: Exception | None = None
    if not _may_name(kind, text):
        return read(text)
    if _ID.fullmatch(text):
        try:
            return read(text)
        except (NotFoundError, RefusedByMock) as error:
            if error.status != 404:
                raise
            if _is_whole(kind, text):
                raise
            missing = error
    try:
        found = id_of(run, kind, text)
    except (NotFoundError, ConfigProblem):
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


def id_of(run: Session, kind: Kind, text: str) -> str:
    """The id of the item that `text` names, with a note; an id is returned as it is, without a request.

    Raises:
        NotThere, UsageProblem: no item matches, or several.
    """
    text = _pasted(text)
    if _is_whole(kind, text) or not _may_name(kind, text):
        return text
    things: list[Any] = list(getattr(run.client, kind.many).list(max_items=kind.most))
    wire_all(things)
    thing = the_one(run, kind, text, things)
    if thing is None:
        raise _not_there(run, kind, text, things)
    return str(thing.id)


def the_one(run: Session, kind: Kind, text: str, things: Sequence[T]) -> T | None:
    """The item that `text` names, with a note; None when none matches.

    Raises:
        UsageProblem: several match.
    """
    text = _pasted(text)
    found = _meant(kind, text, things)
    if not found:
        return None
    shown = one_line(text, 80)
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = ", ".join(_described(kind, thing) for thing in found[:_SHOWN])
        raise UsageProblem(f"{len(found)} {kind.many} match {shown}: {listed}{more}", "use the id of the one you mean")
    thing = found[0]
    if thing.id != text:
        run.out.event("named", f"{shown} is {thing.id}", name=text, id=thing.id)
    return cast("T", thing)


def _meant(kind: Kind, text: str, things: Sequence[Any]) -> list[Any]:
    """The items with this id; else this name; else this name ignoring case; else this beginning of id or address."""
    folded = text.casefold()
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda thing: bool(thing.id == text),
        lambda thing: text in _names(kind, thing),
        lambda thing: folded in [name.casefold() for name in _names(kind, thing)],
        lambda thing: (
            _BEGINNING.fullmatch(text) is not None
            and any(word.startswith(text) for word in (thing.id, *_names(kind, thing)))
        ),
    )
    return next(filter(None, ([thing for thing in things if test(thing)] for test in tests)), [])


def _names(kind: Kind, thing: Any) -> list[str]:
    return [getattr(thing, name) for name in kind.names]


def _described(kind: Kind, thing: Any) -> str:
    names = "".join(f" ({one_line(name, 40)})" for name in _names(kind, thing)[:1])
    return f"{one_line(thing.id, 80)}{names}"


def _not_there(run: Session, kind: Kind, text: str, things: Sequence[Any]) -> NotThere:
    from tradesdk_cli.redact import looks_secret

    words = {word.casefold(): word for thing in reversed(things) for word in (thing.id, *_names(kind, thing))}
    begun = [word for word in words if word.startswith(text.casefold())]
    close = get_close_matches(text.casefold(), list(words), cutoff=0.7)
    near = to_paste(words[word] for word in dict.fromkeys((*begun, *close)))
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    among = f" among the newest {kind.most:,}" if kind.most is not None and len(things) == kind.most else ""
    named = "id or name" if kind.names else "id"
    mistyped = looks_secret(text) and not text.startswith(f"{kind.prefix}_")  # a key instead of an id
    return NotThere(
        f"no {kind.one}{among} has " + (f"that {named}" if mistyped else f"the {named} {one_line(text, 80)}"),
        f"{meant}see what there is: {run.settings.program} {kind.many} list",
    )
