"""The checkpoint's file: what is in it, where it lies, who may read it, and which links are followed."""

import dataclasses
import hashlib
import json
import math
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState, default_path, fingerprint
from tradesdk.errors import CheckpointError, ConfigError, InvalidArgumentError

from ._checkpoints import BASE, KEY, NOW, PRINT, URL, checkpoint, kept, refused, state

posix = pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


def test_what_is_saved_is_found_again(path: Path) -> None:
    file = checkpoint(path)
    assert file.open() is None
    assert not path.exists()
    for number in range(3):
        file.save(state(number))
        file.save(state(number, ids=0))
    file.save(state(7))
    file.close()
    assert kept(path) == state(7)
    assert sorted(one.name for one in path.parent.iterdir()) == ["checkpoint.json", "checkpoint.json.lock"]
    assert repr(file) == f"CheckpointFile({str(path)!r})"


def test_it_opens_again_after_it_was_closed(path: Path) -> None:
    file = checkpoint(path)
    for number in range(3):
        assert file.open() == (state(number - 1) if number else None)
        file.save(state(number))
        file.close()
        file.close()
    assert "not open" in refused(file, state(9)).message
    assert kept(path) == state(2)


times = st.floats(0, 253402300799, allow_nan=False)


@given(st.lists(times, min_size=2, max_size=2).map(sorted), st.lists(st.tuples(st.text(), times), max_size=9))
def test_every_state_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, pair: list[float], handled: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "every.json"
    path.unlink(missing_ok=True)
    one = CheckpointState(pair[0], pair[1], tuple(handled))
    file = checkpoint(path)
    assert file.open() is None
    file.save(one)
    file.close()
    assert kept(path) == one


def test_odd_ids(path: Path) -> None:
    odd = CheckpointState(0, 0, (("\U0001f600", -5.5), ("\0\n\u2028", 0), ('"', 1)))
    file = checkpoint(path)
    file.open()
    file.save(odd)
    file.close()
    assert kept(path) == odd
    assert path.read_bytes().isascii()


@pytest.mark.parametrize(
    ("begin", "position", "mark"),
    [
        (-1, 0, 0),
        (math.nan, 0, 0),
        (0, math.nan, 0),
        (0, math.inf, 0),
        (0, 253402300800, 0),
        (2, 1, 0),
        (0, 0, math.nan),
        (0, 0, math.inf),
        (0, 0, -1e11),
    ],
)
def test_a_state_that_could_not_be_read_again_is_none(begin: float, position: float, mark: float) -> None:
    with pytest.raises(ValueError, match=r"begin|position|handled"):
        CheckpointState(begin, position, (("id", mark),))


def test_a_state_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        state(1).position = 5  # type: ignore[misc]
    assert state(1) == state(1) != state(2)


def test_what_stands_in_the_file(path: Path) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1, ids=1))
    file.close()
    text = path.read_text()
    assert json.loads(text) == {
        "version": 1,
        "service": URL,
        "key": PRINT,
        "chain": BASE,
        "begin": NOW,
        "position": NOW + 1,
        "handled": [["sig_1_0", NOW + 1]],
    }
    assert text.endswith("}\n")
    assert KEY not in text
    assert KEY[-4:] not in text


# Lines behind the state


class Time:
    """What the file takes for the time. `step` passes with each look at it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(checkpoint_module, "monotonic", time)
    return time


def test_what_is_added_is_found_behind_the_state(path: Path, time: Time) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1, ids=1))
    whole = path.read_bytes()
    odd = (("a", NOW + 2), ("\U0001f600\0\n", -5.5), ("sig_1_0", NOW + 1), ("a", NOW + 2), ('"', 0.0))
    for signal_id, when in odd:
        assert file.add(signal_id, when)
    assert file.has_lines
    assert path.read_bytes().startswith(whole + b'["a",1760000002.0]\n')
    assert path.read_bytes().isascii()
    file.close()
    one = state(1, ids=1)
    assert kept(path) == dataclasses.replace(one, handled=(*one.handled, odd[0], odd[1], odd[4]))
    assert file.open() != state(1, ids=1)
    file.save(state(2))
    assert not file.has_lines
    assert json.loads(path.read_text())["position"] == NOW + 2
    file.close()
    assert kept(path) == state(2)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.text(), times), max_size=9, unique_by=lambda pair: pair[0]))
def test_every_line_is_found_again(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, float]]) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.json"
    path.unlink(missing_ok=True)
    file = checkpoint(path)
    file.open()
    file.save(CheckpointState(0, 0))
    added = [pair for pair in pairs if file.add(*pair)]
    file.close()
    assert kept(path) == CheckpointState(0, 0, tuple(added))


def test_there_is_nothing_to_add_to_before_the_first_save(path: Path, time: Time) -> None:
    file = checkpoint(path)
    for _ in range(2):
        file.open()
        assert not file.add("a", NOW)
        file.save(state(1))
        assert file.add("a", NOW)
        file.close()
    assert "not open" in refused(file, state(2)).message
    with pytest.raises(CheckpointError, match="is not open"):
        file.add("b", NOW)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 253402300800.0, -1e11])
def test_a_time_that_could_not_be_read_again_is_not_added(path: Path, time: Time, bad: float) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    before = path.read_bytes()
    assert not file.add("a", bad)
    assert path.read_bytes() == before
    file.close()


def test_a_whole_state_is_due_once_in_a_while(path: Path, time: Time) -> None:
    file = checkpoint(path)
    file.open()
    for number in range(3):
        file.save(state(number))
        time.now += 0.99
        assert file.add("a", NOW)
        time.now += 0.02
        assert not file.add("b", NOW)
    file.close()


def test_on_a_slow_disk_it_is_less_often(path: Path, time: Time) -> None:
    file = checkpoint(path)
    file.open()
    time.step = 2.0  # for a save
    file.save(state(1))
    time.step = 0.0
    time.now += 39
    assert file.add("a", NOW)
    time.now += 2
    assert not file.add("b", NOW)
    file.close()


@pytest.mark.parametrize("ids", [0, 1_000])
def test_a_thousand_in_a_second_cost_what_one_costs(
    path: Path, time: Time, monkeypatch: pytest.MonkeyPatch, ids: int
) -> None:
    """What is written stays in proportion to what is acknowledged, however much a state remembers."""
    lines = 16 * 1024
    monkeypatch.setattr(checkpoint_module, "MOST_LINES", lines)
    file = checkpoint(path)
    file.open()
    one = state(1, ids=ids)
    file.save(one)
    whole = path.stat().st_size
    line = len(f'["sig_{0:024d}",{NOW}]\n')
    written = largest = 0
    for number in range(5_000):
        before = path.stat().st_size
        if not file.add(f"sig_{number:024d}", NOW):
            file.save(one)
            before = 0
        written += path.stat().st_size - before
        largest = max(largest, path.stat().st_size)
    file.close()
    assert written <= 2.2 * line * 5_000
    assert whole + lines < largest <= whole + max(whole, lines) + 2 * line


def test_a_file_of_several_lines_is_read_as_one_state(path: Path) -> None:
    """Somebody has looked at it with an editor that likes to be neat."""
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    file.close()
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2) + "\n")
    assert kept(path) == state(1)
    path.write_text(json.dumps(json.loads(path.read_text())))  # and no end of the line
    assert kept(path) == state(1)


def test_a_fingerprint_tells_keys_apart_and_not_more() -> None:
    keys = [KEY, KEY[:-1], KEY + "a", KEY.lower(), KEY[1:]]
    prints = [fingerprint(key) for key in keys]
    assert len(set(prints)) == len(keys)
    assert fingerprint(KEY) == PRINT
    for one in prints:
        assert len(one) == 16
        int(one, 16)
        assert not any(KEY[at : at + 4].lower() in one for at in range(len(KEY) - 3))
    assert PRINT not in hashlib.sha256(KEY.encode()).hexdigest()  # of use nowhere else


def test_a_rotated_key_goes_on_from_there(path: Path) -> None:
    """The error says how, and it is true."""
    file = checkpoint(path)
    file.open()
    file.save(state(4))
    file.close()
    new = fingerprint("another key of the same account")
    error = refused(checkpoint(path, key_fingerprint=new))
    assert "another API key" in error.message
    assert f'"key":"{new}"' in error.hint
    assert "another account" in error.hint
    text = path.read_text()
    assert text.count(f'"key":"{PRINT}"') == 1
    path.write_text(text.replace(f'"key":"{PRINT}"', f'"key":"{new}"'))
    assert kept(path, key_fingerprint=new) == state(4)


def test_a_service_may_be_spelled_in_several_ways(path: Path) -> None:
    file = checkpoint(path, base_url="https://API.trade.example:443/Path/")
    file.open()
    file.save(state(4))
    file.close()
    assert kept(path, base_url="https://api.trade.example/Path") == state(4)
    for other in (
        "https://api.trade.example/path",
        "http://api.trade.example/Path",
        "https://api.trade.example:8443/Path",
    ):
        assert "another service" in refused(checkpoint(path, base_url=other)).message


# Where it lies


def test_the_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_HOME", str(tmp_path))
    here = default_path(URL, PRINT, BASE)
    assert here.parent == tmp_path / "checkpoints"
    assert here.name.startswith("api.trade.example-8453-")
    assert here.suffix == ".json"
    assert default_path(f"{URL}/", PRINT, BASE) == here
    others = {
        default_path(f"{URL}/other", PRINT, BASE),
        default_path(URL, fingerprint("another"), BASE),
        default_path(URL, PRINT, 56),
        here,
    }
    assert len(others) == 4
    assert not (tmp_path / "checkpoints").exists()
    assert PRINT not in here.name


def test_a_place_has_a_name_that_every_system_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_HOME", "/home")
    for url in (
        "http://[::1]:8000",
        "http://127.0.0.1:8000",
        f"https://{'long.' * 50}example",
        "https://bücher.example",
    ):
        name = default_path(url, PRINT, BASE).name
        assert name.isascii()
        assert not set(name) & set('/\\:*?"<>| %[]')
        assert len(name) < 100


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("TRADE_HOME", "~/trading")
    monkeypatch.setattr(Path, "expanduser", nowhere)
    with pytest.raises(ConfigError, match=r"checkpoint.*TRADE_HOME"):
        default_path(URL, PRINT, BASE)


def test_the_folder_is_the_one_of_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tradesdk.payments.ledger.opening import default_path as ledger_path

    for home in (str(tmp_path), "~/trading", ""):
        monkeypatch.setenv("TRADE_HOME", home)
        assert default_path(URL, PRINT, BASE).parents[1] == ledger_path().parent


@pytest.mark.parametrize("bad", ["", "a\0b", "\udfff\ud800", b"bytes"])
def test_a_path_must_name_a_file(bad: str) -> None:
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        CheckpointFile(bad, base_url=URL, key_fingerprint=PRINT, chain=BASE)


def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    file = checkpoint("here.json")
    monkeypatch.chdir("elsewhere")
    file.open()
    file.save(state(1))
    file.close()
    assert kept(tmp_path / "here.json") == state(1)


# Who may read it


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_only_its_owner_may_read_it(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "new" / "newer" / "checkpoint.json"
    before = os.umask(mask)
    try:
        file = checkpoint(path)
        file.open()
        file.save(state(1))
        file.save(state(2))
        file.close()
        assert kept(path) == state(2)
    finally:
        os.umask(before)
    modes = {one.relative_to(tmp_path).as_posix(): stat.S_IMODE(one.stat().st_mode) for one in tmp_path.rglob("*")}
    assert modes == {
        "new": 0o700,
        "new/newer": 0o700,
        "new/newer/checkpoint.json": 0o600,
        "new/newer/checkpoint.json.lock": 0o600,
    }


@posix
def test_a_file_that_others_may_read_is_so_no_longer(path: Path) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    file.save(state(2))
    file.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755  # a folder that was there is not ours to change


# Links


@posix
def test_links_are_followed(tmp_path: Path) -> None:
    """To the file, to a file that is not there yet, and to a folder."""
    real = tmp_path / "real" / "checkpoint.json"
    link, second, folder = tmp_path / "link", tmp_path / "second", tmp_path / "folder"
    link.symlink_to(real)
    second.symlink_to(link)
    folder.symlink_to(real.parent)
    for number, one in enumerate((link, second, folder / "checkpoint.json", real)):
        file = checkpoint(one)
        assert file.open() == (state(number - 1) if number else None)
        file.save(state(number))
        for other in (link, second, folder / "checkpoint.json", real):  # one file has one lock, whatever it is called
            assert "in use" in refused(checkpoint(other)).message
        file.close()
    assert link.is_symlink()
    assert second.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "link", "real", "second"]
    assert kept(real) == state(3)


@pytest.mark.skipif(not hasattr(os, "link"), reason="there are no such links here")
def test_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    """Replacing it would part the two, and one of them would say for ever what was true then."""
    other = tmp_path / "other.json"
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    os.link(path, other)
    for one in (checkpoint(path), checkpoint(other)):
        if one.path == str(path):
            assert "in use" in refused(one).message
        else:
            assert "has 2 names (hard links)" in refused(one).message
    file.close()
    before = path.read_bytes()
    for one in (checkpoint(path), checkpoint(other)):
        error = refused(one)
        assert "has 2 names (hard links)" in error.message
        assert "copy" in error.hint
    assert path.read_bytes() == before
    assert path.samefile(other)
    other.unlink()
    assert kept(path) == state(1)


@posix
def test_a_link_that_leads_to_itself(path: Path) -> None:
    path.symlink_to(path)
    assert "ELOOP" in refused(checkpoint(path)).message
    assert path.is_symlink()
