"""The settings files: `config.toml` with the user's profiles, and `.trade.toml` of a project.

They are read, and changed so that what else is written there stays.
"""

from __future__ import annotations

import contextlib
import os
import stat
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tradesdk_cli.config.entries import NAME, NAME_RULE, PROJECT_FILE, is_name
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write, locked
from tradesdk_cli.text import one_line, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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
        warnings: what was left alone, and why.
    """

    project: Mapping[str, Any] | None = None
    project_file: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_file: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def profiles(self) -> Mapping[str, Any]:
        """The tables of the profiles, by name. Those whose names are none are left out: files are called after them.

        Raises:
            ConfigProblem: `profiles` is not a table of tables.
        """
        found = self.config.get("profiles", {})
        if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
            raise ConfigProblem(
                f"profiles in {self.config_file} is not a table of tables", "a profile begins with [profiles.NAME]"
            )
        return {name: table for name, table in found.items() if NAME.fullmatch(name)}

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

    def misplaced(self) -> list[str]:
        """What of `config.toml` is left alone, in words."""
        found = [
            f"{self.config_file} has {one_line(name, 60)} outside of a profile: it belongs below [profiles.NAME]"
            for name in self.config
            if name not in ("profile", "profiles")
        ]
        nameless = -len(self.profiles) + len(self.config.get("profiles", ()))
        if nameless:
            some = "a profile" if nameless == 1 else f"{nameless} profiles"
            found.append(f"{self.config_file} has {some} with no usable name, left alone: names are {NAME_RULE}")
        return found


# Reading


def read_files(environ: Mapping[str, str]) -> Files:
    """What the settings files say.

    Raises:
        ConfigProblem: a file cannot be read or is not TOML, or others can write the one with the addresses.
    """
    config_file = _config_file(environ)
    config = _table(config_file, guarded=True) if config_file is not None else None
    project_file, warnings = find_project()
    project = None if project_file is None else _table(project_file)
    return Files(project, project_file, config or {}, config_file, warnings)


def _config_file(environ: Mapping[str, str]) -> Path | None:
    try:
        return config_folder(environ.get("TRADE_HOME")) / "config.toml"
    except ConfigProblem:
        if environ.get("TRADE_HOME"):
            raise
        return None  # no home folder: then there are no files either


def config_folder(home: str | None) -> Path:
    """`TRADE_HOME`, or else the platform's folder for settings. It need not be there.

    Raises:
        ConfigProblem: there is no home folder.
    """
    if home:
        return expanded(home)
    from platformdirs import user_config_path

    return platform_folder(user_config_path)


def find_project() -> tuple[Path | None, tuple[str, ...]]:
    """The project's file, in this folder or the nearest above but not above the home folder, and warnings."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return None, ()
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        path = folder / PROJECT_FILE
        try:
            found = path.stat()
        except OSError:
            found = None
        if found is not None and stat.S_ISREG(found.st_mode):
            if _foreign(found):
                return None, (f"{path} belongs to somebody else: it is left alone",)
            return path, ()
        if os.path.realpath(folder) == home:
            break
    return None, ()


def _foreign(found: os.stat_result) -> bool:
    return os.name != "nt" and found.st_uid not in (0, os.geteuid())


def _table(path: Path, *, guarded: bool = False) -> dict[str, Any] | None:
    """The file as a table; None when it is not there. `guarded`: only if nobody else can write it."""
    text = read_text(path, guarded=guarded)
    return None if text is None else parse_toml(text, path)


def read_text(path: Path, *, guarded: bool = False) -> str | None:
    """The text of a settings file; None when it is not there.

    Raises:
        ConfigProblem: it cannot be read; or, with `guarded`, others could have written it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigProblem(f"cannot read {path}: {error.strerror}", f"ls -ld {visible(str(path))}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigProblem(f"{path} is not a file", "move it away")
        if found.st_size > _LARGEST:
            raise ConfigProblem(f"{path} is too large for settings ({found.st_size} bytes)", "move it away")
        if guarded and (_foreign(found) or (os.name != "nt" and found.st_mode & 0o002)):
            raise ConfigProblem(
                f"{path} can be written by others, who could send your key elsewhere",
                f"look at its addresses, then: chmod 600 {visible(str(path))}"
                + ("; it belongs to somebody else" if _foreign(found) else ""),
            )
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read(_LARGEST)
    finally:
        os.close(descriptor)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigProblem(f"{path} is not text in UTF-8 (line {line})", "save it as UTF-8") from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """TOML as a table.

    Raises:
        ConfigProblem: it is none; the line and the column are named.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The line may be a key that somebody put there: it is not repeated.
        raise ConfigProblem(f"{path}: {str(error)[:1].lower()}{str(error)[1:]}", _FORM) from None
    except RecursionError:
        raise ConfigProblem(f"{path} is nested too deeply", _FORM) from None
    except ValueError:  # of Python's own, for a number of thousands of digits
        raise ConfigProblem(f"{path} has a number or a date that cannot be read", _FORM) from None


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
        ConfigProblem: there is no home folder.
    """
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
        text = before = read_text(real, guarded=True) or ""
        for name, value in values.items():
            text = with_value(text, path, table, name, value)
        if text != before:
            with _told(path):
                atomic_write(real, text, mode=None if real.exists() else 0o600)

    with locked(str(real), in_use, wait=_PATIENCE):  # else one would undo the other's change
        yield parse_toml(read_text(real, guarded=True) or "", path), put


def with_value(text: str, path: Path, table: Sequence[str], name: str, value: Any) -> str:
    """The text with one setting changed; None removes it. `path` is for what is said when that cannot be done.

    Raises:
        ConfigProblem: the text is not TOML, or too unusual to be changed without losing comments.
    """
    data = parse_toml(text, path)
    expected = _changed(data, table, name, value)
    if expected == data:
        return text
    import tomlkit

    with contextlib.suppress(Exception):  # tomlkit knows all of TOML but for odd corners; what comes out is read again
        edited = tomlkit.parse(text)
        place: Any = edited
        for part in table:
            place = place.setdefault(part, {} if value is None else tomlkit.table())
        if value is None:
            place.pop(name)
        else:
            _put(place, name, value)
        after = tomlkit.dumps(edited)
        if parse_toml(after, path) == expected:
            return after
    if "#" not in text:  # nothing would be lost
        return tomlkit.dumps(expected)
    where = f"[{'.'.join(table)}] of {path}" if table else f"the top of {path}"
    todo = f"take {name} out" if value is None else f"write there: {tomlkit.dumps({name: value}).strip()}"
    raise ConfigProblem(f"{where} cannot be changed without losing what else is written there", todo)


def _put(table: Any, name: str, value: Any) -> None:
    """A new setting stands below the others; comments behind them are about the next table, and stay before that."""
    from tomlkit.items import Comment, Table, Whitespace

    body: list[Any] = table.value.body if isinstance(table, Table) and name not in table else []
    behind: list[Any] = []
    while body and isinstance(body[-1][1], (Comment, Whitespace)):
        behind.insert(0, body.pop())
    table[name] = value
    body.extend(behind)


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


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What goes wrong is said of the file."""
    try:
        yield
    except OSError as error:
        raise ConfigProblem(
            f"cannot write {path}: {error.strerror}; nothing was changed", "TRADE_HOME chooses another folder"
        ) from None
