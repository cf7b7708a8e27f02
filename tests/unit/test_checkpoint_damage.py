"""A checkpoint that cannot be believed: it is refused with a reason, and left as it is."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointState, fingerprint
from tradesdk.errors import CheckpointError

from ._checkpoints import BASE, NOW, PRINT, URL, checkpoint, kept, refused, state

GOOD: dict[str, Any] = {
    "version": 1,
    "service": URL,
    "key": PRINT,
    "chain": BASE,
    "begin": NOW,
    "position": NOW + 5,
    "handled": [["sig_1", NOW + 4.5]],
}


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a whole state would be due, where a line is meant."""
    monkeypatch.setattr(checkpoint_module, "monotonic", lambda: 1_000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


def text(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def test_the_good_one_is_good(path: Path) -> None:
    """So that what is refused below is refused for what is changed in it."""
    path.write_bytes(text())
    assert kept(path) == CheckpointState(NOW, NOW + 5, (("sig_1", NOW + 4.5),))
    path.write_bytes(text(begin=5, position=6, handled=[], note="of a later release that says it is of this version"))
    assert kept(path) == CheckpointState(5.0, 6.0)


LINES = [b'["sig_2",1760000004.75]\n', b'["sig_3",1760000005]\n', b'["sig_4",1760000005.5]\n']
ADDED = (("sig_2", NOW + 4.75), ("sig_3", NOW + 5), ("sig_4", NOW + 5.5))


def test_lines_are_read_as_far_as_they_are_whole(path: Path) -> None:
    """A system that died may have written any part of what stood behind the state; the state was synced."""
    first = text() + b"\n"
    whole = first + b"".join(LINES)
    for end in range(len(first) - 1, len(whole) + 1):
        path.write_bytes(whole[:end])
        found = kept(path)
        assert found is not None
        complete = whole[len(first) : end].count(b"\n")
        assert found.handled == (("sig_1", NOW + 4.5), *ADDED[:complete])


RUBBISH = {
    "zeros": bytes(4096),
    "zeros and an end": bytes(40) + b"\n",
    "nothing": b"\n",
    "half a line": b'["sig_9",17\n',
    "no pair": b'["sig_9"]\n',
    "an object": b'{"sig_9": 5}\n',
    "a number": b"[9, 5]\n",
    "no time": b'["sig_9", "5"]\n',
    "a time that is none": b'["sig_9", 1e12]\n',
    "a time that is too large": b'["sig_9", 1e999]\n',
    "an integer that is too large": b'["sig_9", 1' + b"0" * 400 + b"]\n",
    "no UTF-8": b'["\xff", 5]\n',
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_behind_the_state_is_where_it_ends(path: Path, what: str) -> None:
    """What stands after it is not believed either: it comes again, and nothing is lost."""
    path.write_bytes(text() + b"\n" + LINES[0] + RUBBISH[what] + LINES[1])
    file = checkpoint(path)
    found = file.open()
    assert found is not None
    assert found.handled == (("sig_1", NOW + 4.5), ADDED[0])
    assert not file.add("sig_5", NOW)  # behind rubbish it would not be found
    file.save(found)
    assert file.add("sig_5", NOW)
    file.close()
    assert kept(path) == CheckpointState(NOW, NOW + 5, (("sig_1", NOW + 4.5), ADDED[0], ("sig_5", NOW)))


# Changed by somebody else while a stream uses it


def other_file(path: Path) -> Path:
    other = path.with_name("other")
    other.write_bytes(text())
    return other


CHANGES: dict[str, Callable[[Path], object]] = {
    "written anew": lambda path: path.write_bytes(text(position=NOW + 50)),
    "written anew, of the same size": lambda path: path.write_bytes(path.read_bytes().replace(b"sig_1_0", b"sig_7_0")),
    "replaced": lambda path: other_file(path).replace(path),
    "more behind it": lambda path: path.write_bytes(path.read_bytes() + LINES[0]),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "emptied": lambda path: path.write_bytes(b""),
    "too large": lambda path: os.truncate(path, 2 << 20),
}


@pytest.mark.parametrize("lines", [0, 2])
@pytest.mark.parametrize("how", CHANGES)
def test_what_somebody_else_has_put_there_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch, how: str, lines: int
) -> None:
    monkeypatch.setattr(checkpoint_module, "LARGEST", 1 << 20)
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    for number in range(lines):
        assert file.add(f"line {number}", NOW)
    mine = path.read_bytes()
    CHANGES[how](path)
    theirs = path.stat().st_size, path.read_bytes()[:10_000]
    for _ in range(2):
        error = refused(file, state(2))
        assert "cannot be written: " in error.message
        assert "another program" in error.message or "more than 1 MiB" in error.message
        assert "move that file away" in error.hint
        assert not file.add("a", NOW)
        assert (path.stat().st_size, path.read_bytes()[:10_000]) == theirs
    if lines:
        path.write_bytes(mine)  # put back what was there
    else:
        path.unlink()
    file.save(state(3))
    assert file.add("b", NOW)
    file.close()
    found = kept(path)
    assert found is not None
    assert found.handled == (*state(3).handled, ("b", NOW))


def test_one_that_appears_where_there_was_none(path: Path) -> None:
    file = checkpoint(path)
    assert file.open() is None
    path.write_bytes(text())
    assert "another program" in refused(file, state(1)).message
    assert path.read_bytes() == text()
    file.close()
    assert kept(path) is not None


def test_one_that_is_removed_is_made_anew(path: Path) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    path.unlink()
    assert not file.add("a", NOW)
    assert not path.exists()
    file.save(state(2))
    file.close()
    assert kept(path) == state(2)


DAMAGED = {
    "empty": b"",
    "blank": b" \n",
    "no JSON": b"position: 5",
    "cut off": text()[:-9],
    "two": text() * 2,
    "zeros after a crash": bytes(4096),
    "no UTF-8": text(service="x").replace(b'"x"', b'"\xff"'),
    "UTF-16": text().decode().encode("utf-16"),
    "a mark in front": b"\xef\xbb\xbf" + text(),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a number without end": b'{"version":' + b"9" * 10_000 + b"}",
    "a list": b"[1]",
    "null": b"null",
    "a string": b'"version"',
    "no version": without("version"),
    "version 0": text(version=0),
    "version -1": text(version=-1),
    "version true": text(version=True),
    "version 1.0": text(version=1.0),
    "version as text": text(version="1"),
    "no service": without("service"),
    "service 5": text(service=5),
    "no key": without("key"),
    "key null": text(key=None),
    "no chain": without("chain"),
    "chain as text": text(chain="8453"),
    "chain true": text(chain=True),
    "no begin": without("begin"),
    "begin as text": text(begin="5"),
    "begin true": text(begin=True),
    "begin NaN": text(begin=float("nan")),
    "begin negative": text(begin=-1),
    "no position": without("position"),
    "position null": text(position=None),
    "position negative": text(begin=0, position=-0.5),
    "position NaN": text(position=float("nan")),
    "position infinite": text(position=float("inf")),
    "position too large": text().replace(str(NOW + 5).encode(), b"1e999"),
    "position of an integer too large": text(position=10**400),
    "position after the year 9999": text(position=253402300800),
    "position before begin": text(position=NOW - 1),
    "no handled": without("handled"),
    "handled an object": text(handled={}),
    "handled null": text(handled=None),
    "handled ids": text(handled=["sig_1"]),
    "handled too short": text(handled=[["sig_1"]]),
    "handled too long": text(handled=[["sig_1", 1, 2]]),
    "handled with a number": text(handled=[[1, 1]]),
    "handled without a time": text(handled=[["sig_1", None]]),
    "handled true": text(handled=[["sig_1", True]]),
    "handled NaN": text(handled=[["sig_1", float("nan")]]),
    "handled too large": text(handled=[["sig_1", 10**400]]),
    "handled of the year 10000": text(handled=[["sig_1", 253402300800]]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_and_stays(path: Path, name: str) -> None:
    path.write_bytes(DAMAGED[name])
    file = checkpoint(path)
    for _ in range(2):
        error = refused(file)
        assert "damaged, or no checkpoint (" in error.message
        assert "move it away" in error.hint
        assert "not open" in refused(file, state(1)).message
    assert path.read_bytes() == DAMAGED[name]
    path.unlink()
    assert file.open() is None  # the lock was given back
    file.close()


@given(st.binary(max_size=200) | st.integers(0, len(text()) - 1).map(lambda at: text()[:at] + b"7" + text()[at + 1 :]))
@example(b"")
def test_any_bytes_are_a_state_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    same_or_refused(path)
    assert path.read_bytes() == data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, max_size=3))
def test_any_values_are_a_state_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(text(**changes))
    same_or_refused(path)


def same_or_refused(path: Path) -> None:
    """What can be read can be saved and read again."""
    file = checkpoint(path)
    try:
        found = file.open()
    except CheckpointError:
        refused(file)  # and it says so in one line
        return
    assert found is not None
    before = path.read_bytes()
    file.save(found)
    file.close()
    assert kept(path) == found
    path.write_bytes(before)


def test_a_file_that_is_too_large(path: Path) -> None:
    with open(path, "wb") as file:
        file.write(text())
        file.truncate((64 << 20) + 1)  # takes no room on the disk
    assert "more than 64 MiB" in refused(checkpoint(path)).message
    assert path.stat().st_size == (64 << 20) + 1


def test_none_is_written_that_would_be_too_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    size = path.stat().st_size
    for largest, ids in ((size, 3), (size - 1, 4)):
        monkeypatch.setattr(checkpoint_module, "LARGEST", largest)
        if ids == 3:
            file.save(state(1))
        else:
            assert "too large" in refused(file, state(2, ids)).message
    monkeypatch.setattr(checkpoint_module, "LARGEST", size)
    file.close()
    assert kept(path) == state(1)  # exactly as large as it may be


OTHERS: dict[str, tuple[Callable[[], dict[str, Any]], str, str]] = {
    "service": (lambda: {"base_url": "https://other.example"}, URL, "choose another file"),
    "chain": (lambda: {"chain": 56}, "8453, not 56", "choose another file"),
    "API key": (lambda: {"key_fingerprint": fingerprint("other")}, "API key", "was rotated"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_file_of_another_stream(path: Path, what: str) -> None:
    changes, told, hint = OTHERS[what]
    path.write_bytes(text())
    error = refused(checkpoint(path, **changes()))
    assert f"another {what}" in error.message
    assert told in error.message
    assert hint in error.hint
    assert path.read_bytes() == text()
    assert kept(path) is not None


def test_a_strange_service_is_shown_in_one_line(path: Path) -> None:
    path.write_bytes(text(service="\x1b[2J\n" * 1000))
    assert "another service" in refused(checkpoint(path)).message


@pytest.mark.parametrize("version", [2, 99, 10**30])
def test_a_file_of_a_newer_release(path: Path, version: int) -> None:
    data = json.dumps({"version": version, "all": "is different"}).encode()
    path.write_bytes(data)
    error = refused(checkpoint(path))
    assert f"has version {str(version)[:20]}" in error.message
    assert "up to 1" in error.message
    assert "newer release" in error.hint
    assert path.read_bytes() == data


# Something else than a file


def test_a_folder_in_the_way(path: Path) -> None:
    path.mkdir()
    assert "it is a folder" in refused(checkpoint(path)).message
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_comes_while_it_is_in_use(path: Path) -> None:
    file = checkpoint(path)
    file.open()
    path.mkdir()
    assert "cannot be written" in refused(file, state(1)).message
    path.rmdir()
    file.save(state(1))
    file.close()
    assert kept(path) == state(1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert "it is not a file" in refused(checkpoint(path)).message


@pytest.mark.skipif(os.name == "nt", reason="a device of POSIX")
def test_a_device_gets_no_company() -> None:
    before = os.listdir(os.path.dirname(os.devnull))
    assert "it is not a file" in refused(checkpoint(os.devnull)).message
    assert os.listdir(os.path.dirname(os.devnull)) == before


def test_a_file_where_its_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for below in ("checkpoint.json", "a/b/checkpoint.json"):
        error = refused(checkpoint(tmp_path / "file" / below))
        assert "cannot be" in error.message
        assert "ENOTDIR" in error.message or os.name == "nt"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    for length in (255, 300):  # with .lock behind it
        assert "cannot be" in refused(checkpoint(tmp_path / ("n" * length))).message
    assert list(tmp_path.iterdir()) == []
