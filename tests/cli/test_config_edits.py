"""A change of one line of a settings file is exactly that change, and loses nothing."""

import contextlib
import errno
import os
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import ConfigError
from tradesdk_cli.config import files
from tradesdk_cli.config.files import edited
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write

from .._rows import each_of
from .._texts import texts

FILE = Path("/home/me/config.toml")


@pytest.mark.parametrize(
    ("before", "table", "name", "value", "after"),
    [
        ("", (), "profile", "a", 'profile = "a"\n'),
        ("a = 1", (), "b", 2, "a = 1\nb = 2\n"),
        ("[t]\nx = 1\n", (), "profile", "a", 'profile = "a"\n\n[t]\nx = 1\n'),
        ("[t]\nx = 1 # why\r\n", ("t",), "x", 2, "[t]\nx = 2 # why\r\n"),
        ('[t]\nx = "a # b" # why\n', ("t",), "x", "c # d", '[t]\nx = "c # d" # why\n'),
        ("[t]\n# x = 1\ny = 2\n\n# of u\n[u]\n", ("t",), "x", 3, "[t]\n# x = 1\ny = 2\nx = 3\n\n# of u\n[u]\n"),
        ("[t]\nx = 1 # a\ny = 2\n", ("t",), "x", None, "[t]\ny = 2\n"),
        ("[t]\nx = 1\n", ("u",), "x", None, "[t]\nx = 1\n"),
        ("t = {x = 1} # a\n", ("t",), "x", 2, "t = {x = 2} # a\n"),
        ('x = """\n[t]\ny = 1"""\n', ("t",), "y", 2, 'x = """\n[t]\ny = 1"""\n\n[t]\ny = 2\n'),
    ],
)
def test_a_line_is_changed(before: str, table: tuple[str, ...], name: str, value: Any, after: str) -> None:
    found = edited(before, FILE, table, {name: value})
    if '"""' in before:  # a string that looks like a table: read, not guessed
        assert tomllib.loads(found) == tomllib.loads(after)
    else:
        assert found == after


def test_a_file_that_cannot_be_changed_is_left_to_the_owner_when_it_has_comments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tomlkit.parse", lambda text: tomlkit.document())
    assert edited("x = 1\n", FILE, (), {"y": 2}) == "x = 1\ny = 2\n"
    with pytest.raises(ConfigProblem, match="without losing") as refused:
        edited("x = 1 # why\n", FILE, (), {"y": 2})
    assert refused.value.hint == "change y by hand"


def test_two_changes_at_once_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = tmp_path / "config.toml", atomic_write
    other = threading.Thread(target=files.change, args=(file, ("t",), {"b": 2}))

    def slowly(*given: Any, **more: Any) -> None:
        if other.ident is None:  # the first one has read the file and is about to replace it
            other.start()
            other.join(0.1)
        write(*given, **more)

    monkeypatch.setattr("tradesdk_cli.config.files.atomic_write", slowly)
    files.change(file, ("t",), {"a": 1})
    other.join()
    assert tomllib.loads(file.read_text()) == {"t": {"a": 1, "b": 2}}
    assert sorted(one.name for one in tmp_path.iterdir()) == [".config.toml.trade-lock", "config.toml"]


def test_a_change_that_never_ends_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setattr(files, "_PATIENCE", 0)
    with (
        FileLock(tmp_path / ".config.toml.trade-lock"),
        pytest.raises(ConfigProblem, match="another command is changing"),
    ):
        files.change(file, ("t",), {"a": 1})
    assert not file.exists()


def test_without_a_module_for_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, None)  # as where Python is built without it
    files.change(tmp_path / "config.toml", (), {"timeout": 5})
    assert os.listdir(tmp_path) == ["config.toml"]


@each_of(
    ("number", "there", "said"),
    [
        (errno.EACCES, True, "opened: Permission denied"),
        (errno.ENOSPC, False, "made: No space left"),
        (errno.EACCES, False, None),  # of the folder
        (errno.ENOLCK, True, None),
        (errno.EROFS, False, None),
    ],
)
def test_a_lock_that_cannot_be_opened_is_said_and_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: bool, said: str | None
) -> None:
    file, lock, opened = tmp_path / "config.toml", tmp_path / ".config.toml.trade-lock", os.open
    file.unlink(missing_ok=True)
    lock.touch() if there else lock.unlink(missing_ok=True)

    def refuse(path: Any, *given: Any, **more: Any) -> int:
        if str(path).endswith(".trade-lock"):
            raise OSError(number, os.strerror(number))
        return opened(path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with contextlib.nullcontext() if said is None else pytest.raises(ConfigProblem, match=f"the lock .* {said}"):
            files.change(file, ("t",), {"a": 1})
    assert file.exists() == (said is None)


NAMES = st.sampled_from(["a", "b", "world"])
LINES = st.sampled_from(
    [
        "a = 1",
        "b = 'x' # c",
        'world = "#"',
        "# a = 2",
        "",
        "[p]",
        "[p.q] # d",
        "[ p . r ]",
        "a = [1,",
        "]",
        '"b"=2',
        "[[l]]",
    ]
)


@given(
    st.lists(LINES, max_size=8),
    st.sampled_from([(), ("p",), ("p", "q"), ("new",)]),
    NAMES,
    st.none() | texts(max_size=5),
)
def test_whatever_the_file_the_change_is_exactly_the_change(
    lines: list[str], table: tuple[str, ...], name: str, value: str | None
) -> None:
    before = "\n".join(lines)
    try:
        data = tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ConfigError, match=str(FILE)):
            edited(before, FILE, table, {name: value})
        return
    expected = place = tomllib.loads(before)
    for part in table:
        place = place.setdefault(part, {}) if value is not None else place.get(part, {})
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    try:
        after = edited(before, FILE, table, {name: value})
    except ConfigProblem:
        assert "#" in before, "there is something to lose"
        return
    assert tomllib.loads(after) == expected
    kept = [line for line in lines if line.startswith("#")]
    assert [line for line in after.splitlines() if line.startswith("#")] == kept or data == expected
