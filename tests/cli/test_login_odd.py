"""`trade login`, `logout` and `whoami` where something is odd: files, services, and profiles that are mocks."""

import tomllib
from pathlib import Path

import pytest

from ._services import Scripted
from ._settings import configured
from ._terminal import Terminal

KEY = "MARKED-key-that-is-echoed"
ECHO = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": KEY}


@pytest.fixture
def shell(trade: Terminal, service: Scripted) -> Terminal:
    """`trade` without settings; the service takes every key, and says it whole where four characters belong."""
    del trade.env["TRADE_BASE_URL"], trade.env["TRADE_API_KEY"]
    service.says(200, ECHO)
    return trade


def key_file(shell: Terminal) -> Path:
    folder = shell.home / "keys"
    folder.mkdir(mode=0o700)
    file = folder / "work"
    file.write_text(KEY)
    file.chmod(0o600)
    return file


def test_of_a_key_that_the_service_says_whole_four_characters_are_shown(shell: Terminal, service: Scripted) -> None:
    kept = shell("login", "--api-key-stdin", "--base-url", service.url, stdin=KEY)
    assert kept.json["api_key_last4"] == "hoed"
    runs = [kept, shell("whoami"), shell("whoami", "-o", "table"), shell("doctor", "-o", "json"), shell("doctor")]
    assert all("MARKED" not in run.out + run.err and "hoed" in run.out for run in runs)


def test_logout_says_both_when_the_settings_cannot_be_changed(shell: Terminal, service: Scripted) -> None:
    file, key = configured(shell, 'profile = "work"\nprofiles.work.key = "file" # mine\n'), key_file(shell)
    before = file.read_text()
    run = shell("logout")
    assert run.code == 3
    assert run.problem["message"].startswith(f"the key was removed from {key}, but the settings still name it: ")
    assert run.problem["hint"] == "take key out"
    assert (key.exists(), file.read_text()) == (False, before)


@pytest.mark.parametrize("profile", ['profiles.work.key = "file"\n', '[profiles]\nwork = {key = "file"}\n'])
def test_logout_where_a_profile_is_written_in_another_way(shell: Terminal, profile: str) -> None:
    file, key = configured(shell, f'profile = "work"\n{profile}'), key_file(shell)
    assert shell("logout").json == {"profile": "work", "removed": str(key)}
    assert tomllib.loads(file.read_text()) == {"profile": "work", "profiles": {"work": {}}}


def test_the_way_back_from_a_mock_is_named_and_works(shell: Terminal, service: Scripted) -> None:
    made, out = shell("login", "--mock"), shell("logout")
    for run in (made, out):
        assert "to take the mock out of default: trade config unset kind --profile default" in run.err
        assert "trade login --profile NAME, then trade config use NAME" in run.err
    assert shell("config", "unset", "kind", "--profile", "default").code == 0
    assert shell("login", "--api-key-stdin", "--base-url", service.url, stdin=KEY).code == 0
    assert shell("whoami").json["mode"] == "local"
