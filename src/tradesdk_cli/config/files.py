"""Changes of the settings files, which keep what else is written there."""

from __future__ import annotations

import contextlib
import os
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.settings import parse_toml, read_text
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write, locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_PATIENCE = 10.0


def change(path: Path, table: Sequence[str], values: Mapping[str, Any]) -> None:
    """Sets settings of one table of a file; None removes one.

    When the file is not there it is made, readable by its owner only.

    Args:
        path: the file; through a link, the file that it points at.
        table: the table's name in its parts; empty: what stands above all tables.
        values: the settings by name.

    Raises:
        ConfigProblem: the file is not TOML, cannot be written, or cannot be changed without losing comments.
    """
    real = Path(os.path.realpath(path))
    with _told(path):
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    in_use = ConfigProblem(
        f"another command is changing {path}; nothing was changed", "run it again when that one is done"
    )
    with locked(str(real), in_use, wait=_PATIENCE):  # else one would undo the other's change
        text = read_text(real, guarded=True) or ""
        before = text
        for name, value in values.items():
            text = with_value(text, path, table, name, value)
        if text != before:
            with _told(path):
                atomic_write(real, text, mode=None if real.exists() else 0o600)


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
