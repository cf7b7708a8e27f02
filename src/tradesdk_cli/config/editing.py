"""Changes one line of a TOML file and leaves everything else as its owner wrote it, comments too.

The text is edited line by line, and then read again: only if it says exactly what it should, it is written.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.files import parse_toml, read_text
from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PATIENCE = 10.0
_PAUSE = 0.02
_HEADER = re.compile(r"\s*\[(?!\[)([^\[\]]+)\]\s*(?:#.*)?")


def change(path: Path, table: Sequence[str], values: Mapping[str, Any], *, private: bool = False) -> None:
    """Sets settings of one table of a file; None removes one. The file is made when it is not there.

    Args:
        path: the file; through a link, the file that it points at.
        table: the table's name in its parts; empty: what stands above all tables.
        values: the settings by name.
        private: a new file is readable by its owner only.

    Raises:
        ConfigProblem: the file is no TOML, cannot be written, or cannot be changed without losing comments.
    """
    real = Path(os.path.realpath(path))
    if private:
        with _told(path):
            real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(real):
        text = read_text(real, guarded=private) or ""
        before = text
        for name, value in values.items():
            text = with_value(text, path, table, name, value)
        if text != before:
            _write(real, text, private=private)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While one command reads and replaces the file, no other does: it would undo that change without knowing.

    The folder is locked, since the file is replaced, and a file only for the lock would be left there.

    Raises:
        ConfigProblem: another command does not come to its end.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError:  # reading or writing says why
        yield
        return
    try:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ConfigProblem(
                        f"another command is changing {path}; nothing was changed", "run it again when that one is done"
                    ) from None
                time.sleep(_PAUSE)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(folder)  # and with it the lock


def with_value(text: str, path: Path, table: Sequence[str], name: str, value: Any) -> str:
    """The text with one setting changed; None removes it. `path` is for what is said when that cannot be done.

    Raises:
        ConfigProblem: the text is no TOML, or too unusual to be changed without losing comments.
    """
    data = parse_toml(text, path)
    expected = _changed(data, table, name, value)
    if expected == data:
        return text
    edited = _edited(text, table, name, value)
    with contextlib.suppress(ConfigProblem):
        if parse_toml(edited, path) == expected:
            return edited
    if "#" not in text:  # nothing would be lost
        import tomli_w

        return tomli_w.dumps(expected)
    where = f"[{'.'.join(table)}] of {path}" if table else f"the top of {path}"
    todo = f"take {name} out" if value is None else f"write there: {_line(name, value).strip()}"
    raise ConfigProblem(f"{where} cannot be changed without losing what else is written there", todo)


def _changed(data: dict[str, Any], table: Sequence[str], name: str, value: Any) -> dict[str, Any]:
    """What the file should say afterwards."""
    changed = deepcopy(data)
    place = changed
    for part in table:
        if value is None and part not in place:
            return data
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            return data  # `profiles = 1`: whoever reads it has complained already
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    return changed


def _edited(text: str, table: Sequence[str], name: str, value: Any) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    begin, end = _section(lines, table)
    if begin is None:
        if value is None:
            return text  # it stands there in another way: as name.name = …, or in { }
        gap = ["\n"] if lines else []
        return "".join([*lines, *gap, f"[{'.'.join(table)}]\n", _line(name, value)])
    setting = re.compile(rf"\s*(?:{name}|\"{name}\"|'{name}')\s*=")
    for index in range(begin, end):
        if setting.match(lines[index]):
            new = [] if value is None else [_line(name, value).rstrip("\n") + _comment(lines[index])]
            return "".join([*lines[:index], *new, *lines[index + 1 :]])
    if value is None:
        return text
    last = max((index + 1 for index in range(begin, end) if _says_something(lines[index])), default=begin)
    gap = ["\n"] if not table and last == 0 and lines else []
    return "".join([*lines[:last], _line(name, value), *gap, *lines[last:]])


def _section(lines: list[str], table: Sequence[str]) -> tuple[int | None, int]:
    """The lines of a table, from the one after its header to the one before the next header."""
    begin: int | None = None if table else 0
    for index, line in enumerate(lines):
        if not line.lstrip().startswith("["):
            continue
        if begin is not None:
            return begin, index
        found = _HEADER.fullmatch(line.rstrip("\r\n"))
        if found is not None and [part.strip().strip("\"'") for part in found[1].split(".")] == list(table):
            begin = index + 1
    return begin, len(lines)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _line(name: str, value: Any) -> str:
    import tomli_w

    return tomli_w.dumps({name: value})


def _comment(line: str) -> str:
    """What stands behind a value, with the end of the line."""
    import tomllib

    body = line.rstrip("\r\n")
    ending = line[len(body) :] or "\n"
    for found in re.finditer(r"\s*#", body):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(body[: found.start()])
            return body[found.start() :] + ending
    return ending


def _write(path: Path, text: str, *, private: bool) -> None:
    """Whole or not at all; with the rights that it had."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with _told(path, half):
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600 if private else 0o644
        with contextlib.suppress(FileNotFoundError):
            half.unlink()
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(half, path)


@contextlib.contextmanager
def _told(path: Path, half: Path | None = None) -> Iterator[None]:
    """What goes wrong is said of the file, and what was half written is removed."""
    try:
        yield
    except OSError as error:
        if half is not None:
            with contextlib.suppress(OSError):
                half.unlink()
        raise ConfigProblem(
            f"cannot write {path}: {error.strerror}; nothing was changed", "TRADE_HOME chooses another folder"
        ) from None
