"""The settings files: `config.toml` with the user's profiles, and `.trade.toml` of a project.

They are read, and changed so that what else is written there stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tradesdk_cli.config.entries import NAME_RULE, PROJECT_FILE, is_name
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write, locked
from tradesdk_cli.text import one_line, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence


CONFIG_FILE = "config.toml"
_PATIENCE = 10.0
_LARGEST = 256 * 1024
"""Bytes of a settings file."""
_FORM = 'correct that line: a setting is NAME = VALUE with text in "", a profile begins with [profiles.NAME]'


@dataclass(frozen=True)
class Files:
    """What the settings files say, as it was read: `read_files` makes it.

    Attributes:
        project: the table of `.trade.toml`; None when there is none.
        project_file: where it is.
        config: the table of `config.toml`; empty when there is none.
        config_file: where it is, or would be; None where there is no home folder.
    """

    project: Mapping[str, Any] | None = None
    project_file: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_file: Path | None = None

    @property
    def profiles(self) -> Mapping[str, Any]:
        """The tables of the profiles, by name.

        Raises:
            ConfigProblem: `profiles` is not a table of tables, or one has a name that a file could not have.
        """
        found = self.config.get("profiles", {})
        if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
            raise ConfigProblem(
                f"profiles in {self.config_file} is not a table of tables", "a profile begins with [profiles.NAME]"
            )
        if not all(map(is_name, found)):  # files are called after them
            raise ConfigProblem(f"{self.config_file} has a profile with no usable name", f"names are {NAME_RULE}")
        return found

    @property
    def default_profile(self) -> str | None:
        """The profile that counts when none is named.

        Raises:
            ConfigProblem: it is not a name.
        """
        found = self.config.get("profile")
        if found is None:
            return "default" if "default" in self.profiles else None
        if not is_name(found):
            raise ConfigProblem(
                f'profile in {self.config_file} is not a name, such as "work": {NAME_RULE}', "correct that line"
            )
        return str(found)


# Reading


def read_files(environ: Mapping[str, str]) -> Files:
    """What the settings files say.

    Raises:
        ConfigProblem: a file cannot be read or is not TOML, or others can write the one with the addresses.
    """
    try:
        config_file: Path | None = config_folder(environ.get("TRADE_HOME")) / CONFIG_FILE
    except ConfigProblem:
        if environ.get("TRADE_HOME"):
            raise
        config_file = None  # no home folder: then there are no files either
    config = None if config_file is None else _table(config_file, read_own(config_file, forbidden=0o002))
    project_file = find_project()
    project = None if project_file is None else _table(project_file, read_own(project_file))
    return Files(project, project_file, config or {}, config_file)


def config_folder(home: str | None) -> Path:
    """`TRADE_HOME`, or else the platform's folder for settings. It need not be there.

    Raises:
        ConfigProblem: there is no home folder.
    """
    if home:
        return expanded(home)
    from platformdirs import user_config_path

    return platform_folder(user_config_path)


def find_project() -> Path | None:
    """The project's file, in this folder or the nearest above but not above the home folder, never of somebody else."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return None
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        with contextlib.suppress(OSError):
            found = (folder / PROJECT_FILE).stat()
            if stat.S_ISREG(found.st_mode) and not _foreign(found):
                return folder / PROJECT_FILE
        if os.path.realpath(folder) == home:
            break
    return None


def _foreign(found: os.stat_result) -> bool:
    return os.name != "nt" and found.st_uid not in (0, os.geteuid())


def read_own(path: Path, *, forbidden: int = 0) -> str | None:
    """The text of a file of this user; None when it is not there. `forbidden`: rights that others must not have.

    Raises:
        ConfigProblem: it cannot be read, or others could have read or written it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigProblem(f"cannot read {path}: {error.strerror}", f"ls -ld {visible(str(path))}") from None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or _foreign(found):
            what = "belongs to somebody else" if stat.S_ISREG(found.st_mode) else "is not a file"
            raise ConfigProblem(f"{path} {what}", "move it away")
        if os.name != "nt" and found.st_mode & forbidden:
            from shlex import quote

            done, then = "written", ": look at its addresses, they could have your key sent elsewhere"
            if forbidden & 0o044:
                done, then = "read", "; they may have read it: then make a new key and log in again"
            said = f"{path} can be {done} by others (mode {stat.S_IMODE(found.st_mode):04o})"
            raise ConfigProblem(said, f"chmod 600 {quote(str(path))}{then}")
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ConfigProblem(f"{path} is too large ({found.st_size} bytes)", "move it away")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigProblem(f"{path} is not text in UTF-8 (line {line})", "save it as UTF-8") from None


def _table(path: Path, text: str | None) -> dict[str, Any]:
    """TOML as a table, which is empty where there is no text.

    Raises:
        ConfigProblem: it is none; the line and the column are named.
    """
    if not text:
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The line may be a key that somebody put there: it is not repeated.
        raise ConfigProblem(f"{path}: {str(error)[:1].lower()}{str(error)[1:]}", _FORM) from None
    except (RecursionError, ValueError):  # of Python's own, for a number of thousands of digits
        raise ConfigProblem(f"{path} has a value that cannot be read", _FORM) from None


def platform_folder(find: Callable[..., Path]) -> Path:
    """The folder for `trade` that a function of platformdirs finds.

    Raises:
        ConfigProblem: there is no home folder.
    """
    try:
        folder = find("trade", appauthor=False)
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():  # ~ stands for nothing
        raise ConfigProblem("there is no home folder", "set HOME, or TRADE_HOME to a folder")
    return folder


def expanded(path: str) -> Path:
    """A path that was typed, with `~` as the home folder.

    Raises:
        ConfigProblem: there is no home folder, or it is a URL.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):  # it may contain a password
        raise ConfigProblem("a URL was given as a path", "give a path; for a ledger in a database: TRADE_FLEET")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigProblem(f"there is no home folder for {one_line(path, 200)}", "write the path without ~") from None


# Changing


def change(path: Path, table: Sequence[str], values: Mapping[str, Any]) -> None:
    """Sets settings of one table of a file; None removes one. As `changing` has it."""
    with changing(path) as (_, put):
        put(table, values)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[tuple[dict[str, Any], Callable[[Sequence[str], Mapping[str, Any]], None]]]:
    """Inside, no other command changes the file: what it says now, and what sets settings of a table (None removes).

    A table is named in its parts; without any, it is what stands above all tables. A file that is not there is made,
    readable by its owner only; through a link, it is the file that the link points at.

    Raises:
        ConfigProblem: the file is not TOML, cannot be written, or cannot be changed without losing comments.
    """
    real = Path(os.path.realpath(path))
    with _told(path):
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    in_use = ConfigProblem(
        f"another command is changing {path}; nothing was changed", "run it again when that one is done"
    )

    def put(table: Sequence[str], values: Mapping[str, Any]) -> None:
        before = read_own(real, forbidden=0o002) or ""
        text = edited(before, path, table, values)
        if text != before:
            with _told(path):
                atomic_write(real, text, mode=None if real.exists() else 0o600)

    with locked(str(real), in_use, wait=_PATIENCE):  # else one would undo the other's change
        yield _table(path, read_own(real, forbidden=0o002)), put


def edited(text: str, path: Path, table: Sequence[str], values: Mapping[str, Any]) -> str:
    """The text with settings of one table changed; None removes one. `path` is for what is said when that fails.

    Raises:
        ConfigProblem: the text is not TOML, or too unusual to be changed without losing comments.
    """
    wanted = _table(path, text)
    _put(wanted, table, values)
    if wanted == _table(path, text):
        return text
    import tomlkit

    with contextlib.suppress(Exception):  # tomlkit knows all of TOML but for odd corners; what comes out is read again
        document = tomlkit.parse(text)
        _put(document, table, values)
        after = tomlkit.dumps(document)
        if _table(path, after) == wanted:
            return after
    if "#" not in text:  # nothing would be lost
        return tomlkit.dumps(wanted)
    names = ", ".join(".".join((*table, name)) for name in values)
    raise ConfigProblem(f"{path} cannot be changed without losing its comments", f"change {names} by hand")


def _put(place: MutableMapping[str, Any], table: Sequence[str], values: Mapping[str, Any]) -> None:
    """Sets the values, in a document of tomlkit as in plain tables. None removes."""
    from tomlkit.items import Comment, Table, Whitespace

    for part in table:
        if part not in place and not any(value is not None for value in values.values()):
            return
        place = place.setdefault(part, {})
    for name, value in values.items():
        if value is None:
            place.pop(name, None)
            continue
        # A new setting stands below the others; comments behind them are about the next table, and stay before that.
        body: list[Any] = place.value.body if isinstance(place, Table) and name not in place else []
        behind: list[Any] = []
        while body and isinstance(body[-1][1], (Comment, Whitespace)):
            behind.insert(0, body.pop())
        place[name] = value
        body.extend(behind)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What goes wrong is said of the file."""
    try:
        yield
    except OSError as error:
        raise ConfigProblem(
            f"cannot write {path}: {error.strerror}; nothing was changed", "TRADE_HOME chooses another folder"
        ) from None
