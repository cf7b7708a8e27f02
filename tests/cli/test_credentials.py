"""Where API keys are kept: a file that only its owner can read, or the system's keyring."""

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tradesdk_cli.config.credentials import forget, keep, kept_key, key_file, place_of
from tradesdk_cli.config.files import Files
from tradesdk_cli.config.settings import Settings
from tradesdk_cli.errors import ConfigProblem

from . import _keyring
from ._keyring import Ring

KEY = "MARKED-key-0123456789"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "not there yet"
    return Settings(home=folder, files=Files(config_file=folder / "config.toml"))


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    ring = Ring()
    _keyring.install(monkeypatch, ring)
    return ring


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_in_a_file(settings: Settings) -> None:
    assert kept_key(settings, "work", "file") is None
    keep(settings, "work", "file", KEY)
    path = key_file(settings, "work")
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    assert kept_key(settings, "work", "file") == KEY
    keep(settings, "work", "file", "another")
    assert kept_key(settings, "work", "file") == "another"
    assert os.listdir(path.parent) == ["work"], "nothing is left beside it"
    assert (forget(settings, "work", "file"), forget(settings, "work", "file")) == (True, False)


def test_the_rights_do_not_depend_on_the_umask(settings: Settings) -> None:
    before = os.umask(0)
    try:
        keep(settings, "work", "file", KEY)
    finally:
        os.umask(before)
    assert mode(key_file(settings, "work")) == 0o600


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o644, 0o660, 0o620])
def test_a_file_that_is_open_to_others_is_refused(settings: Settings, rights: int) -> None:
    keep(settings, "work", "file", KEY)
    path = key_file(settings, "work")
    path.chmod(rights)
    with pytest.raises(ConfigProblem, match=f"mode 0{rights:o}") as caught:
        kept_key(settings, "work", "file")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("chmod 600 ")
    assert "not there yet'" in caught.value.hint.replace("/keys/work", ""), "quoted, so that it can be pasted"


def test_a_file_of_somebody_else_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(settings, "work", "file", KEY)
    monkeypatch.setattr("tradesdk_cli.config.files._foreign", lambda found: True)
    with pytest.raises(ConfigProblem, match="belongs to somebody else"):
        kept_key(settings, "work", "file")


def test_what_a_link_points_at_is_not_ours_to_change(settings: Settings, tmp_path: Path) -> None:
    keep(settings, "work", "file", KEY)
    path, elsewhere = key_file(settings, "work"), tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert kept_key(settings, "work", "file") == KEY
    keep(settings, "work", "file", "another")
    assert (kept_key(settings, "work", "file"), elsewhere.read_text()) == ("another", f"{KEY}\n")


def test_what_is_no_key_file(settings: Settings) -> None:
    path = key_file(settings, "work")
    path.parent.mkdir(parents=True)
    for make, message in (
        (lambda: path.mkdir(), "is not a file"),
        (lambda: os.mkfifo(path), "is not a file"),
        (lambda: path.write_bytes(b"\xff\n"), "is not text"),
    ):
        make()
        path.chmod(0o600)
        with pytest.raises(ConfigProblem, match=message):
            kept_key(settings, "work", "file")
        path.rmdir() if path.is_dir() else path.unlink()
    path.write_bytes(b"\n\n")
    path.chmod(0o600)
    assert kept_key(settings, "work", "file") is None


def test_a_folder_that_cannot_be_written(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", "/home/me")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(ConfigProblem, match="cannot write /home/me: Permission denied; the key was not kept"):
        keep(settings, "work", "file", KEY)


def test_nothing_is_left_of_a_write_that_failed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(settings, "work", "file", KEY)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigProblem, match="No space left") as caught:
        keep(settings, "work", "file", "MARKED-other")
    assert "MARKED" not in str(caught.value)
    path = key_file(settings, "work")
    assert os.listdir(path.parent) == ["work"]
    assert kept_key(settings, "work", "file") == KEY


def test_a_key_in_the_keyring(settings: Settings, ring: Ring) -> None:
    keep(settings, "work", "keyring", KEY)
    assert ring.kept == {(f"trade {settings.home}", "work"): KEY}
    assert kept_key(settings, "work", "keyring") == KEY
    assert kept_key(settings, "other", "keyring") is None
    assert (forget(settings, "work", "keyring"), forget(settings, "work", "keyring")) == (True, False)
    assert not key_file(settings, "work").exists()
    assert place_of(Settings(), "work", "keyring") == "the keyring (trade)"


def test_a_keyring_that_does_not_answer(settings: Settings, ring: Ring) -> None:
    ring.broken = "the collection is\x1b[2J locked"
    for use in (
        lambda: keep(settings, "work", "keyring", KEY),
        lambda: kept_key(settings, "work", "keyring"),
        lambda: forget(settings, "work", "keyring"),
    ):
        with pytest.raises(ConfigProblem) as caught:
            use()
        assert caught.value.message == "the keyring did not answer: the collection is\\x1b[2J locked"
        assert "trade login --file" in str(caught.value.hint)
        assert "MARKED" not in str(caught.value)


@pytest.mark.parametrize("module", ["keyring.backends.fail", "keyring.backends.null"])
def test_a_system_without_a_keyring(settings: Settings, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    _keyring.install(monkeypatch, type("Keyring", (), {"__module__": module})())
    with pytest.raises(ConfigProblem, match="no keyring"):
        keep(settings, "work", "keyring", KEY)


def test_the_keyring_is_an_extra(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    _keyring.remove(monkeypatch)
    with pytest.raises(ConfigProblem) as caught:
        kept_key(settings, "work", "keyring")
    assert str(caught.value.hint).startswith("pip install 'tradesdk[keyring]'")


def test_files_never_touch_the_keyring(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def untouched() -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_keyring=untouched))
    keep(settings, "work", "file", KEY)
    assert kept_key(settings, "work", "file") == KEY
    assert forget(settings, "work", "file")
