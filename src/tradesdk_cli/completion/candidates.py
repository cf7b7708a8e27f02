"""Completion: the candidates for the word at the cursor. No network, few imports.

The shell's script (`shells`) passes the words of the line, up to the one at the cursor, separated by U+001F, or, as
bash also splits them at `=`, `:` and `@`, the line. The
first line of the output is `files` if file names fit there as well, else `words`. Each other line is a word and, after
a tab, its description. Commands and options are read from commands.json, which scripts/commandtree.py writes: importing
Typer and the commands would take most of the time.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # importing typing takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tradesdk_cli.config.settings import Settings

    Found = tuple[bool, list[tuple[str, str]]]
    Offer = Callable[["Line", str], Iterable[tuple[str, str]]]

BETWEEN = "\x1f"
_MOST = 500
_SAFE = re.compile(r"[A-Za-z0-9@._,:=/+-]+")
_BREAKS = re.compile(r".*[:=@]")
"""Characters at which bash splits words."""
_FILES = ("FILE", "FOLDER")
_ELSEWHERE = ("mock", "world", "profile", "base_url")


def answer(environ: Mapping[str, str]) -> str:
    """The output for the shell that set `environ`. Empty after any error, which would garble the prompt."""
    shell = environ.get("_TRADE_COMPLETE", "").removeprefix("complete_")
    typed = environ.get("_TRADE_LINE")
    try:
        words = (
            _of_line(typed)
            if typed
            else [" ".join(_of_line(word)) for word in environ.get("_TRADE_WORDS", "").split(BETWEEN)]
        )
        files, found = candidates(words)
        if typed is not None:  # bash replaces only the text after the last break
            begun = _BREAKS.match(words[-1])
            found = [(value.removeprefix(begun[0] if begun else ""), about) for value, about in found]
        lines = [_line(shell, value, about) for value, about in found if _SAFE.fullmatch(value)]
    except Exception:  # any error: the command itself will report it
        return ""
    return "\n".join(["files" if files else "words", *lines[:_MOST]])


def _line(shell: str, value: str, about: str) -> str:
    about = " ".join("".join(ch if ch.isprintable() else " " for ch in about).split())
    return f"{value}\t{about}" if about and shell != "bash" else value


def _of_line(typed: str) -> list[str]:
    """The words of a line up to the cursor; the last one may have an open quote."""
    import shlex

    for quote in ("", "'", '"'):
        try:
            return shlex.split(typed + quote) + [""] * (not quote and typed[-1:].isspace())
        except ValueError:
            continue
    return typed.split()


class Line:
    """A command line up to the word at the cursor."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.tree = tree
        self.command = ""
        """The words of the command so far."""
        self.flags: dict[str, object] = {}
        """Global options that choose the service."""
        self.used: set[str] = set()
        self.waiting: Mapping[str, Any] | None = None
        """The option whose value is next."""
        self.words: list[str] = []
        """The arguments so far."""
        self.no_options = False

    def params(self) -> Iterator[Mapping[str, Any]]:
        """The options and the arguments of the command."""
        known = self.tree["params"]
        return (known[number] for number in self.tree["commands"][self.command]["params"])

    def option(self, name: str) -> Mapping[str, Any] | None:
        """The option of this name."""
        known = {each: param for param in self.params() for each in (*param.get("names", ()), *param.get("off", ()))}
        return known.get(name) or (None if name.startswith("--") else known.get(name[:2]))  # -n5

    def below(self) -> Mapping[str, str] | None:
        """The commands that may follow, with descriptions; None when none may."""
        below: Mapping[str, str] | None = self.tree["commands"][self.command].get("commands")
        return below

    def read(self, word: str) -> bool:
        """Adds a word; False when it must be a command and is none."""
        if self.waiting is not None:
            self._take(self.waiting, word)
            self.waiting = None
        elif word == "--" and not self.no_options:
            self.no_options = True
        elif word.startswith("-") and len(word) > 1 and not self.no_options:
            self._read_option(word)
        elif self.below() is not None:
            self.command = f"{self.command} {word}".strip()
            return self.command in self.tree["commands"]
        else:
            self.words.append(word)
        return True

    def _read_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        param = self.option(name)
        if param is None:
            return
        names = param["names"]
        self.used.update(names)
        if "value" not in param:
            self._take(param, name not in param.get("off", ()))
        elif equals or name not in names:  # --limit=5, -n5
            self._take(param, value or word[2:])
        else:
            self.waiting = param

    def _take(self, param: Mapping[str, Any], value: object) -> None:
        name = param["names"][0].removeprefix("--").replace("-", "_")
        if name in _ELSEWHERE:
            self.flags[name] = value


def candidates(words: Sequence[str]) -> Found:
    """Whether file names may complete the last of `words`, and the candidates with descriptions.

    The first word is the program.
    """
    line = Line(_tree())
    if not all(line.read(word) for word in words[1:-1]):
        return False, []
    begun = words[-1]
    if line.waiting is not None:
        return _values(line, line.waiting, begun)
    if begun.startswith("-") and not line.no_options:
        name, equals, value = begun.partition("=")
        if not (equals and name.startswith("--")):
            return False, list(_options(line, begun))
        param = line.option(name)
        if param is None or "value" not in param:
            return False, []
        files, found = _values(line, param, value)
        return files, [(f"{name}={word}", about) for word, about in found]
    below = line.below()
    if below is not None:
        return False, [(name, about) for name, about in below.items() if name.startswith(begun)]
    arguments = [param for param in line.params() if "names" not in param]
    for index, param in enumerate(arguments):
        if index == len(line.words) or (param.get("many") and index <= len(line.words)):
            return _values(line, param, begun)
    return False, []


def _tree() -> Any:
    import json

    # The loader, also of a zip archive, reads files beside this module; importing importlib.resources takes 10 ms.
    loader: Any = globals()["__loader__"]
    return json.loads(loader.get_data(os.path.join(os.path.dirname(__file__), "commands.json")))


def _options(line: Line, begun: str) -> Iterator[tuple[str, str]]:
    for param in line.params():
        names = param.get("names", ())
        if line.used.intersection(names) and not param.get("many"):
            continue
        fitting = [name for name in names if name.startswith(begun)]
        yield from ((name, param.get("about", "")) for name in fitting if begun == "-" or name == begun)
        # An alias of the same option comes later.
        long = next((name for name in fitting if name.startswith("--")), None)
        if long is not None and begun not in ("-", long):
            yield long, param.get("about", "")
        yield from ((name, "") for name in param.get("off", ()) if name.startswith(begun))


def _values(line: Line, param: Mapping[str, Any], begun: str) -> Found:
    kind = param["value"]
    offer = next((_OFFERS[name] for name in (*param.get("names", ()), kind) if name in _OFFERS), None)
    found = param.get("words", {}).items() if offer is None else offer(line, begun)
    files = kind in _FILES or ("@FILE" in kind and begun.startswith("@"))
    if kind.startswith(("TOKEN", "SYMBOL")):  # ignoring case, as the commands do
        return files, [(word, about) for word, about in found if word.casefold().startswith(begun.casefold())]
    return files, [(word, about) for word, about in found if word.startswith(begun)]


# Values that depend on the user or the line, each with a description


def _settings(flags: Mapping[str, Any]) -> Settings:
    from tradesdk_cli.config.settings import settings_of

    return settings_of(flags, os.environ)


def _known(kind: str, *, named: bool = False) -> Offer:
    """Ids or symbols that earlier commands printed, of the line's service; `named`: also names instead of these ids."""

    def offer(line: Line, begun: str) -> Iterable[tuple[str, str]]:
        from tradesdk_cli.idcache import read

        ids = read(_settings(line.flags), kind)
        names = (about.rpartition(", ") for about in ids.values()) if named else ()
        return [*ids.items(), *{name: rest for name, _, rest in names if name}.items()]

    return offer


def _worlds(line: Line, begun: str) -> Iterable[tuple[str, str]]:
    folder = _settings(line.flags).data_folder() / "mock"
    names = sorted(path.name.removesuffix(".sqlite3") for path in folder.glob("*.sqlite3"))
    return [(name, "") for name in names if "." not in name]


def _profiles(line: Line, begun: str) -> Iterable[tuple[str, str]]:
    from tradesdk_cli.config.files import read_files

    return [(name, "") for name in read_files(os.environ).saved.tables]


def _fields(line: Line, begun: str) -> Iterable[tuple[str, str]]:
    """Completes the last name of a comma-separated list."""
    known = line.tree["fields"]
    offered = known.get(line.command) or known.get(line.command.partition(" ")[0], ())
    before, comma, _ = begun.rpartition(",")
    taken = before.split(",")
    return [(f"{before}{comma}{name}", "") for name in offered if name not in taken]


def _topics(line: Line, begun: str) -> Iterable[tuple[str, str]]:
    from tradesdk_cli.cli.topics import TOPICS, topic

    below = line.tree["commands"].get(" ".join(line.words), {}).get("commands", {})
    topics = () if line.words else ((name, topic(name)[0]) for name in TOPICS)
    return [*topics, *below.items()]


def _setting(line: Line, begun: str) -> Iterable[tuple[str, str]]:
    """Values of the setting that the word before names."""
    from tradesdk_cli.choices import FORMATS

    known = {"output": FORMATS, "mock": ("true", "false")}
    return [(value, "") for value in known.get(line.words[0], ())]


_OFFERS: Mapping[str, Offer] = {
    "AGENT_ID": _known("agents", named=True),
    "--agent-id": _known("agents", named=True),
    "WALLET_ID": _known("wallets", named=True),
    "--wallet-id": _known("wallets", named=True),
    "TRADE_ID": _known("trades"),
    "PAYMENT_ID": _known("payments"),
    "TOKEN": _known("tokens"),
    "SYMBOL": _known("tokens"),
    "--world": _worlds,
    "--profile": _profiles,
    "--fields": _fields,
    "TOPIC": _topics,
    "ENDPOINT": lambda line, begun: line.tree["commands"]["market"]["commands"].items(),
    "VALUE": _setting,
    "[METHOD] PATH": lambda line, begun: (
        () if line.words else [(method, "") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
    ),
}
"""By the name of the option, or the metavar of the value."""
