"""The settings files: `config.toml` with the user's profiles, and `.trade.toml` of a project.

Reads them, and changes them without losing comments.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tradesdk import ConfigError
from tradesdk.local import Profiles, SettingsFile, config_folder
from tradesdk_cli.config.entries import PROJECT_FILE
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write, file_errors, locked
from tradesdk_cli.text import one_line

CONFIG_FILE = "config.toml"
_PATIENCE = 10.0


@dataclass(frozen=True)
class Files:
    """The contents of the settings files, made by `read_files`.

    Attributes:
        project: `.trade.toml`; None when there is none.
        saved: the profiles of `config.toml`.
    """

    project: SettingsFile | None = None
    saved: Profiles = field(default_factory=Profiles)


# Reading


def read_files(environ: Mapping[str, str]) -> Files:
    """Reads the settings files."""
    try:
        folder = config_folder(environ.get("TRADE_HOME"))
    except ConfigError:
        if environ.get("TRADE_HOME"):
            raise
        saved = Profiles()  # no home folder, so no files
    else:
        saved = Profiles.read(folder)
    project = find_project()
    return Files(None if project is None else SettingsFile.read(project), saved)


def find_project() -> Path | None:
    """The project file of this folder or the nearest one above, within the home folder and owned by this user."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return None
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        with contextlib.suppress(OSError):
            found = (folder / PROJECT_FILE).stat()
            if stat.S_ISREG(found.st_mode) and not SettingsFile.is_foreign(found):
                return folder / PROJECT_FILE
        if os.path.realpath(folder) == home:
            break
    return None


def expanded(path: str) -> Path:
    """A typed path, with `~` as the home folder."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):  # it may contain a password
        raise ConfigProblem("a URL was given as a path", "give a path; for a ledger in a database: TRADE_FLEET")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigProblem(f"there is no home folder for {one_line(path, 200)}", "write the path without ~") from None


# Changing


def change(path: Path, table: Sequence[str], values: Mapping[str, Any]) -> None:
    """Sets settings of one table of a file; None removes one. See `changing`."""
    with changing(path) as (_, put):
        put(table, values)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[tuple[dict[str, Any], Callable[[Sequence[str], Mapping[str, Any]], None]]]:
    """Locks a settings file. Yields its content and a function that sets settings of a table (None removes one).

    A table is named by its parts; no parts: the top level. A new file is readable by its owner only. A link is
    followed.
    """
    real, hint = Path(os.path.realpath(path)), "TRADE_HOME chooses another folder"
    with file_errors(ConfigProblem, f"nothing was changed: cannot write {path}", hint):
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    in_use = ConfigProblem(
        f"another command is changing {path}; nothing was changed", "run it again when that one is done"
    )

    def now() -> str:
        return SettingsFile.read(real, forbidden=0o002).text

    def put(table: Sequence[str], values: Mapping[str, Any]) -> None:
        before = now()
        text = edited(before, path, table, values)
        if text != before:
            with file_errors(ConfigProblem, f"nothing was changed: cannot write {path}", hint):
                atomic_write(real, text, mode=None if real.exists() else 0o600)

    with locked(str(real), in_use, wait=_PATIENCE):  # else two commands would overwrite each other's changes
        yield SettingsFile(path, now()).table, put


def edited(text: str, path: Path, table: Sequence[str], values: Mapping[str, Any]) -> str:
    """The text with settings of one table changed; None removes one. `path` is for error messages."""
    wanted = SettingsFile(path, text).table
    _put(wanted, table, values)
    if wanted == SettingsFile(path, text).table:
        return text
    import tomlkit

    with contextlib.suppress(Exception):  # tomlkit fails on rare TOML, so its output is parsed again
        document = tomlkit.parse(text)
        _put(document, table, values)
        after = tomlkit.dumps(document)
        if SettingsFile(path, after).table == wanted:
            return after
    if "#" not in text:  # there are no comments to lose
        return tomlkit.dumps(wanted)
    names = ", ".join(".".join((*table, name)) for name in values)
    raise ConfigProblem(f"{path} cannot be changed without losing its comments", f"change {names} by hand")


def _put(current: MutableMapping[str, Any], table: Sequence[str], values: Mapping[str, Any]) -> None:
    """Sets values in a tomlkit document or in plain tables. None removes one."""
    from tomlkit.items import Comment, Table, Whitespace

    for part in table:
        if part not in current and not any(value is not None for value in values.values()):
            return
        current = current.setdefault(part, {})
    for name, value in values.items():
        if value is None:
            current.pop(name, None)
            continue
        # A new setting goes below the others, above trailing comments, which are about the next table.
        body: list[Any] = current.value.body if isinstance(current, Table) and name not in current else []
        behind: list[Any] = []
        while body and isinstance(body[-1][1], (Comment, Whitespace)):
            behind.insert(0, body.pop())
        current[name] = value
        body.extend(behind)
