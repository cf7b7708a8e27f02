"""The settings files, read when they are there: `config.toml` with the user's profiles, `.trade.toml` of a project."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.entries import ENTRIES, PROJECT_FILE, plain_name
from tradesdk_cli.config.settings import Files, Settings, expanded, platform_folder, resolve
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.redact import is_secret_setting
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_LARGEST = 256 * 1024


def settings_of(flags: Mapping[str, Any], environ: Mapping[str, str], *, new_profile: bool = False) -> Settings:
    """The settings of this run, files included. With `new_profile`, the profile that is named need not be there.

    Raises:
        UsageProblem: flags that contradict each other or have unusable values.
        ConfigProblem: a variable or a file with an unusable value, or a profile that is not there.
    """
    return resolve(flags, environ, read_files(environ), new_profile=new_profile)


def read_files(environ: Mapping[str, str]) -> Files:
    """What the settings files say.

    Raises:
        ConfigProblem: a file cannot be read or is no TOML, or others can write the one with the addresses.
    """
    config_file = _config_file(environ)
    config = _table(config_file, guarded=True) if config_file is not None else None
    project_file, warnings = _find_project()
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


def project_file() -> Path | None:
    """The project's file; None when there is none that counts."""
    return _find_project()[0]


def _find_project() -> tuple[Path | None, tuple[str, ...]]:
    """The project's file, in this folder or the nearest above, not above the home folder."""
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
        raise _broken(text, path, str(error)) from None
    except RecursionError:
        raise ConfigProblem(f"{path} is nested too deeply", "settings are a few lines") from None
    except ValueError:  # of Python's own, for a number of thousands of digits
        raise ConfigProblem(f"{path} has a number or a date that cannot be read", "settings are a few lines") from None


def _broken(text: str, path: Path, reason: str) -> ConfigProblem:

    what, where = reason, ""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
    if found is not None:
        lines = text.splitlines() or [""]
        row, column = (int(found[1]), int(found[2])) if found[1] else (len(lines), len(lines[-1]) + 1)
        what = reason[: found.start()]
        where = f", line {row}, column {column}"
        line = lines[row - 1] if row <= len(lines) else ""
        return ConfigProblem(f"{path}{where}: {_lowered(what)}", _correct(line))
    return ConfigProblem(f"{path}: {_lowered(what)}", "it is not TOML")


def _correct(line: str) -> str:
    """What to do about a line. Of the line only a name that we know is repeated: all else may be a key or a password
    that somebody put there."""
    name, equals, _ = line.partition("=")
    name = plain_name(name.strip().strip("\"'"))
    if equals and (name in ENTRIES or is_secret_setting(name)):
        return f"correct that line: {name} = …"
    return 'correct that line: a setting is NAME = VALUE with text in "", a profile begins with [profiles.NAME]'


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


_PATIENCE = 10.0
_PAUSE = 0.02


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
            with _told(path):
                atomic_write(real, text, mode=0o600 if private and not real.exists() else None)


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
