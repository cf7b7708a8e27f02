"""Completion: what a shell offers for the word at the cursor. It asks no network, and loads no more than it must.

The shell's script (`shells`) hands over the words of the line, up to the one at the cursor, with U+001F between them.
The first line of the answer says whether file names fit there as well (`files` or `words`); each of the others is a
word and, after a tab, what it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from tradesdk_cli.plumbing import LazyCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk_cli.config import Settings

BETWEEN = "\x1f"
_MOST = 500
_SAFE = re.compile(r"[A-Za-z0-9@._,:=/+-]+")
_UNSAFE = re.compile(r"[^\w .,;:()|/+=<>-]", re.ASCII)
_FILES = ("FILE", "PATH", "FOLDER", "@FILE")


def answer(root: Any, environ: Mapping[str, str]) -> str:
    """What to print for the shell that set `environ`. Empty when anything is wrong: a prompt is no place for errors."""
    shell = environ.get("_TRADE_COMPLETE", "").removeprefix("complete_")
    words = environ.get("_TRADE_WORDS", "").split(BETWEEN)
    try:
        files, found = candidates(root, _unquoted(words))
        lines = [_line(shell, value, about) for value, about in found if _SAFE.fullmatch(value)]
    except Exception:  # whatever it is: the command itself will say it
        return ""
    return "\n".join(["files" if files else "words", *lines[:_MOST]])


def _line(shell: str, value: str, about: str) -> str:
    about = " ".join(_UNSAFE.sub("", about).split())
    return f"{value}\t{about}" if about and shell != "bash" else value


def _unquoted(words: list[str]) -> list[str]:
    """Words as they were typed, without quotes, and `--option`, `=`, `value` as one, as bash takes them apart."""
    import shlex

    plain: list[str] = []
    for word in words:
        try:
            parts = shlex.split(word) if word else [""]
        except ValueError:  # a quote is open still
            parts = [word.lstrip("'\"")]
        part = " ".join(parts)
        before = plain[-1] if plain else ""
        if (part == "=" and before.startswith("--")) or (before.startswith("--") and before.endswith("=")):
            plain[-1] += part
        else:
            plain.append(part)
    return plain


_Found = tuple[bool, "list[tuple[str, str]]"]
"""Whether file names fit as well, and the words that do, each with what it is."""


def candidates(root: Any, words: Sequence[str]) -> _Found:
    """What may stand in place of the last of `words`; the first is the program."""
    flags: dict[str, Any] = {}
    context = _context(root, None, "trade", flags)
    waiting: Any = None  # the option whose value comes next
    used: set[str] = set()
    positions, no_options = 0, False
    for word in words[1:-1]:
        command = context.command
        if waiting is not None:
            _take(flags, waiting, word)
            waiting = None
        elif word == "--" and not no_options:
            no_options = True
        elif word.startswith("-") and len(word) > 1 and not no_options:
            name, equals, value = word.partition("=")
            param = _option(context, name)
            if param is not None:
                used.update(param.opts)
                if _is_flag(param):
                    _take(flags, param, name not in param.secondary_opts)
                elif equals or (name not in param.opts):  # --limit=5, -n5
                    _take(flags, param, value or word[2:])
                else:
                    waiting = param
        elif hasattr(command, "commands"):
            found = command.commands.get(word)
            if found is None:
                return False, []
            real = found.load() if isinstance(found, LazyCommand) else found
            context = _context(real, context, word, flags)
        else:
            positions += 1
    return _at(context, words[-1], waiting, used, positions, no_options=no_options)


def _context(command: Any, parent: Any, name: str, flags: dict[str, Any]) -> Any:
    return typer.Context(
        command, parent=parent, info_name=name, obj=flags, resilient_parsing=True, **command.context_settings
    )


def _at(context: Any, begun: str, waiting: Any, used: set[str], positions: int, *, no_options: bool) -> _Found:
    command = context.command
    if waiting is not None:
        return _values(context, waiting, begun)
    if begun.startswith("-") and not no_options:
        name, equals, value = begun.partition("=")
        if equals and name.startswith("--"):
            param = _option(context, name)
            if param is None or _is_flag(param):
                return False, []
            files, found = _values(context, param, value)
            # bash takes the words apart at =, the others replace the whole of it.
            joined = os.environ.get("_TRADE_COMPLETE") != "complete_bash"
            return files, [(f"{name}={word}", about) for word, about in found] if joined else found
        return False, list(_options(context, begun, used))
    if hasattr(command, "commands"):
        names = [name for name in command.shown if name.startswith(begun)]
        return False, [(name, _first(command.commands[name].get_short_help_str())) for name in names]
    arguments = [param for param in command.get_params(context) if param.param_type_name == "argument"]
    for index, param in enumerate(arguments):
        if index == positions or (param.nargs == -1 and index <= positions):
            return _values(context, param, begun)
    return False, []


def _is_flag(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False) or getattr(param, "count", False))


def _option(context: Any, name: str) -> Any:
    options = [param for param in context.command.get_params(context) if param.param_type_name == "option"]
    for param in options:
        if name in param.opts or name in param.secondary_opts:
            return param
    if not name.startswith("--"):  # -n5
        return next((param for param in options if name[:2] in param.opts), None)
    return None


def _options(context: Any, begun: str, used: set[str]) -> Iterator[tuple[str, str]]:
    for param in context.command.get_params(context):
        if param.param_type_name != "option" or param.hidden or (used.intersection(param.opts) and not param.multiple):
            continue
        for name in (*param.opts, *param.secondary_opts):
            if name.startswith(begun) and (name.startswith("--") or begun == "-" or name == begun):
                yield name, _first(param.help or "")


def _first(text: str) -> str:
    return text.partition("\n")[0]


def _values(context: Any, param: Any, begun: str) -> _Found:
    metavar = str(getattr(param, "metavar", "") or "").upper().removesuffix("...")
    offer = next((_OFFERS[name] for name in (*param.opts, metavar) if name in _OFFERS), None)
    if offer is not None:
        found = list(offer(context, begun))
    else:
        found = [(str(item.value), str(item.help or "")) for item in param.shell_complete(context, begun)]
    return metavar in _FILES, [(word, about) for word, about in found if word.startswith(begun)]


def _take(flags: dict[str, Any], param: Any, value: object) -> None:
    """Remembers a global option, so that ids are those of the service that the line is about."""
    if param.name in ("mock", "world", "profile", "base_url", "market_url"):
        flags[param.name] = value


# Values that Typer knows nothing of: each offers words, with what they are


def _settings(flags: Mapping[str, Any]) -> Settings:
    from tradesdk_cli.settings.profiles import settings_of

    return settings_of(flags, os.environ)


def _known(kind: str) -> _Offer:
    """Ids or symbols that were seen before, at the service that the line is about."""

    def offer(context: Any, begun: str) -> Iterable[tuple[str, str]]:
        from tradesdk_cli.helping.remembered import read

        return read(_settings(context.obj), kind).items()

    return offer


def _worlds(context: Any, begun: str) -> Iterable[tuple[str, str]]:
    folder = _settings({"mock": True}).data_folder() / "mock"
    names = sorted(path.name.removesuffix(".sqlite3") for path in folder.glob("*.sqlite3"))
    return [(name, "") for name in names if "." not in name]


def _profiles(context: Any, begun: str) -> Iterable[tuple[str, str]]:
    from tradesdk_cli.settings.profiles import read_files

    return [(name, "") for name in read_files(os.environ).profiles]


def _fields(context: Any, begun: str) -> Iterable[tuple[str, str]]:
    """The last name of a list with commas."""
    from tradesdk_cli.results.fieldnames import FIELDS

    words = context.command_path.split()[1:]
    offered = FIELDS.get(" ".join(words)) or FIELDS.get(words[0] if words else "", ())
    before, comma, _ = begun.rpartition(",")
    taken = before.split(",")
    return [(f"{before}{comma}{name}", "") for name in offered if name not in taken]


def _topics(context: Any, begun: str) -> Iterable[tuple[str, str]]:
    from tradesdk_cli.helping.helptopics import TOPICS

    commands = context.find_root().command.commands
    return [
        *((topic.name, topic.summary) for topic in TOPICS.values()),
        *((name, _first(one.get_short_help_str())) for name, one in commands.items()),
    ]


def _shells(context: Any, begun: str) -> Iterable[tuple[str, str]]:
    from tradesdk_cli.helping.shells import SHELLS

    return [(shell, "") for shell in SHELLS]


_Offer = Callable[[Any, str], Iterable[tuple[str, str]]]
_OFFERS: Mapping[str, _Offer] = {
    "AGENT_ID": _known("agents"),
    "--agent-id": _known("agents"),
    "WALLET_ID": _known("wallets"),
    "--wallet-id": _known("wallets"),
    "TRADE_ID": _known("trades"),
    "PAYMENT_ID": _known("payments"),
    "TOKEN": _known("tokens"),
    "SYMBOL": _known("tokens"),
    "--world": _worlds,
    "--profile": _profiles,
    "PROFILE": _profiles,
    "--fields": _fields,
    "TOPIC": _topics,
    "SHELL": _shells,
}
"""By the name that an option has, or that a value has in help."""
