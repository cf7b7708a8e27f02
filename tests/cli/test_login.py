"""`trade login`, `logout` and `whoami`: a key is tried, kept, shown to nobody, and forgotten."""

import getpass
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.commands import login

from .._requirements import install
from .._rows import each_of
from . import _keyring
from ._keyring import Ring
from ._services import Scripted
from ._settings import configured
from ._terminal import Run, Terminal

KEY = "MARKED-key-of-the-login"
ACCOUNT = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": "ogin"}


@pytest.fixture
def shell(trade: Terminal, service: Scripted) -> Terminal:
    """`trade` without settings; the service takes every key."""
    del trade.env["TRADE_BASE_URL"], trade.env["TRADE_API_KEY"]
    service.says(200, ACCOUNT)
    return trade


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Somebody types this when asked for what is not shown; gives the prompts."""

    def answer(text: str) -> list[str]:
        prompts: list[str] = []

        def asked(prompt: str) -> str:
            prompts.append(prompt)
            return text

        monkeypatch.setattr(getpass, "getpass", asked)
        return prompts

    return answer


def piped(shell: Terminal, *argv: str, key: str = KEY, **how: Any) -> Run:
    run = shell("login", "--api-key-stdin", *argv, stdin=f"{key}\n", **how)
    assert "MARKED" not in run.out + run.err
    return run


def config(shell: Terminal) -> dict[str, Any]:
    file = shell.home / "config.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


def kept(shell: Terminal) -> dict[str, str]:
    folder = shell.home / "keys"
    return {file.name: file.read_text() for file in folder.iterdir()} if folder.exists() else {}


def test_a_login_is_tried_and_then_kept(shell: Terminal, service: Scripted) -> None:
    before = os.umask(0)
    run = piped(shell, "--base-url", f"{service.url}/v1/")
    os.umask(before)
    assert (shell.home / "keys").stat().st_mode & 0o777 == 0o700
    assert (run.code, run.err, run.json["base_url"]) == (0, "", service.url)
    assert [(method, path) for method, path, _ in service.seen] == [("GET", "/v1/account")]
    assert config(shell) == {"profile": "default", "profiles": {"default": {"base_url": service.url, "key": "file"}}}
    assert kept(shell) == {"default": f"{KEY}\n"}
    for file in (shell.home / "config.toml", shell.home / "keys" / "default"):
        assert file.stat().st_mode & 0o777 == 0o600
    assert shell("account", "show").json["email"] == "me@example.test"
    assert service.keys == [f"Bearer {KEY}"] * 2


@each_of(("status", "code"), [(401, 4), (403, 5), (500, 10)])
def test_a_key_that_is_not_taken_is_not_kept(shell: Terminal, service: Scripted, status: int, code: int) -> None:
    service.fails(status, "unauthorized", f"not you, {KEY}")
    run = piped(shell, "--base-url", service.url)
    assert run.code == code
    assert "nothing was saved" in run.err
    assert (config(shell), kept(shell)) == ({}, {})


def test_without_trying(shell: Terminal, service: Scripted) -> None:
    run = piped(shell, "--base-url", service.url, "--no-verify")
    assert (run.code, service.seen) == (0, [])
    assert "email" not in run.json
    assert kept(shell) == {"default": f"{KEY}\n"}
    assert "the key was saved without a test" in run.err


@each_of("key", ["MARKED two words", "MARKED\tx", "MARKEDä", ""])
def test_what_is_no_key(shell: Terminal, service: Scripted, key: str) -> None:
    for more in ((), ("--no-verify",)):
        assert piped(shell, "--base-url", service.url, *more, key=key).code == 3
    assert (service.seen, config(shell), kept(shell)) == ([], {}, {})


@each_of("url", ["http://far.example", "ftp://x", "https://u:MARKED@x.example", "nothing", "https://"])
def test_what_is_no_address_is_said_before_the_key_is_asked_for(
    shell: Terminal, typed: Callable[[str], list[str]], url: str
) -> None:
    prompts = typed(KEY)
    run = shell("login", "--base-url", url, tty=True)
    assert (run.code, prompts) == (3, [])
    assert "MARKED" not in run.err
    assert config(shell) == {}


def test_a_person_is_asked_for_the_address_and_the_key(
    shell: Terminal, service: Scripted, typed: Callable[[str], list[str]]
) -> None:
    prompts = typed(f" {KEY} ")
    run = shell("login", "--profile", "work", tty=True, answers=f"{service.url}\n")
    assert run.code == 0
    assert prompts == [f"API key for {service.url.removeprefix('http://')}: "]
    assert "address of the service, such as https://api.example.com: " in run.err
    assert "me@example.test" in run.out
    assert kept(shell) == {"work": f"{KEY}\n"}
    assert "MARKED" not in run.out + run.err


def test_a_wrong_address_is_asked_for_again(
    shell: Terminal, service: Scripted, typed: Callable[[str], list[str]]
) -> None:
    typed(KEY)
    run = shell("login", tty=True, answers=f"api.example.com\nhttp://far.example\n{service.url}\n")
    assert run.code == 0
    assert run.err.count("address of the service") == 3
    assert kept(shell) == {"default": f"{KEY}\n"}
    assert shell("login", "--profile", "b", tty=True, answers="nonsense\n\n").code == 3


def test_nothing_typed(shell: Terminal, service: Scripted, typed: Callable[[str], list[str]]) -> None:
    typed("")
    assert shell("login", "--base-url", service.url, tty=True).code == 3
    assert shell("login", tty=True, answers="\n").code == 3
    assert service.seen == []


def test_where_nobody_can_be_asked(shell: Terminal, service: Scripted) -> None:
    run = shell("login", "--base-url", service.url)
    assert (run.code, run.problem["hint"]) == (3, "read it from a pipe: trade login --api-key-stdin < FILE")
    run = piped(shell)
    assert (run.code, run.problem["message"]) == (3, "no address to log in to: add --base-url")


def test_a_login_is_replaced_only_if_that_is_meant(
    shell: Terminal, service: Scripted, typed: Callable[[str], list[str]]
) -> None:
    piped(shell, "--base-url", service.url, key="first")
    run = piped(shell)
    assert (run.code, run.problem["message"].partition(":")[0]) == (
        2,
        "--yes is needed to replace the login of profile default at 127.0.0.1",
    )
    typed(KEY)
    run = shell("login", tty=True, answers="n\n")
    assert run.code == 1
    assert f"replace the login of profile default at {service.url.removeprefix('http://')}? [y/N]" in run.err
    assert kept(shell) == {"default": "first\n"}
    assert piped(shell, "--yes").code == 0
    assert kept(shell) == {"default": f"{KEY}\n"}


def test_of_two_logins_at_one_time_one_is_refused(
    shell: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the key of one could go to the address of the other."""
    read = login._key

    def meanwhile(*given: Any, **more: Any) -> str:
        monkeypatch.setattr(login, "_key", read)
        key = read(*given, **more)
        assert piped(shell, "--base-url", "http://127.0.0.1:2", "--no-verify", key="first").code == 0
        return key

    monkeypatch.setattr(login, "_key", meanwhile)
    run = piped(shell, "--base-url", service.url)
    assert (run.code, run.problem["hint"]) == (3, "run it again")
    assert run.problem["message"] == "another command has changed profile default meanwhile; nothing was saved"
    assert kept(shell) == {"default": "first\n"}
    assert config(shell)["profiles"]["default"]["base_url"] == "http://127.0.0.1:2"


def test_a_second_profile_leaves_the_first_alone(shell: Terminal, service: Scripted) -> None:
    piped(shell, "--base-url", service.url, "--profile", "work", key="first")
    run = piped(shell, "--base-url", service.url, "--profile", "other")
    assert shell("config", "set", "market_url", "http://127.0.0.1:1/", "--profile", "other", "--yes").code == 0
    assert run.json["default"] is False
    assert "trade config set profile other" in run.err
    assert config(shell) == {
        "profile": "work",
        "profiles": {
            "work": {"base_url": service.url, "key": "file"},
            "other": {"base_url": service.url, "market_url": "http://127.0.0.1:1", "key": "file"},
        },
    }
    assert kept(shell) == {"work": "first\n", "other": f"{KEY}\n"}
    assert shell("whoami").json["profile"] == "work"
    assert shell("whoami", "--profile", "other").json["profile"] == "other"
    run = piped(shell, "--base-url", service.url, "--profile", "Work")
    assert (run.code, run.problem["message"]) == (
        2,
        "the profile work exists already, and some systems treat Work as the same file",
    )


def test_the_profile_keeps_its_own_address_whatever_the_environment_says(shell: Terminal, service: Scripted) -> None:
    piped(shell, "--base-url", service.url, key="first")
    environ = {"TRADE_BASE_URL": "http://127.0.0.1:1", "TRADE_API_KEY": "MARKED-other"}
    run = piped(shell, "--yes", env=environ)
    assert run.code == 0
    assert run.json["base_url"] == service.url
    assert service.keys[-1] == f"Bearer {KEY}"
    said = [note["note"] for note in run.notes]
    assert said == [
        f"{name} is set and takes precedence over the saved login: unset {name}"
        for name in ("TRADE_API_KEY", "TRADE_BASE_URL")
    ]


def test_a_profile_for_the_mock(shell: Terminal) -> None:
    run = shell("login", "--world", "rehearsal", "--profile", "paper")
    assert (run.code, run.json) == (
        0,
        {"profile": "paper", "kind": "mock", "world": "rehearsal", "default": True},
    )
    assert kept(shell) == {}
    assert "--yes is needed to" in shell("login", "--world", "other", "--profile", "paper").problem["message"]
    assert shell("login", "--mock", "--profile", "paper").json["world"] == "rehearsal", "what it is already"
    assert shell("login", "--world", "other", "--profile", "paper", "--yes").json["world"] == "other"
    assert "because of profile paper" in shell("login").err


def test_a_mock_and_a_service_do_not_share_a_profile(shell: Terminal, service: Scripted) -> None:
    shell("login", "--mock", "--profile", "paper")
    run = piped(shell, "--base-url", service.url)
    assert (run.code, run.problem["message"]) == (2, "the profile paper is a mock")
    piped(shell, "--base-url", service.url, "--profile", "work")
    run = shell("login", "--mock", "--profile", "work")
    assert run.code == 2
    assert config(shell)["profiles"]["work"]["key"] == "file"


def test_in_the_keyring(shell: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    _keyring.install(monkeypatch, ring)
    place = (f"trade {shell.home}", "default")
    assert piped(shell, "--base-url", service.url, "--keyring").json["key_kept_in"] == f"the keyring ({place[0]})"
    assert (ring.kept, kept(shell)) == ({place: KEY}, {})
    assert shell("whoami").json["key_from"] == f"profile default (the keyring ({place[0]}))"
    assert service.keys == [f"Bearer {KEY}"] * 2
    assert piped(shell, "--yes", "--file").code == 0
    assert (ring.kept, kept(shell)) == ({}, {"default": f"{KEY}\n"}), "it is kept in one place only"
    piped(shell, "--yes", "--keyring")
    assert (ring.kept, kept(shell)) == ({place: KEY}, {})
    assert shell("logout").json == {"profile": "default", "removed": f"the keyring ({place[0]})"}
    assert ring.kept == {}


@each_of(
    ("backend", "said"),
    [
        (None, install("keyring")),
        *(
            (type("Keyring", (), {"__module__": f"keyring.backends.{name}"})(), "no keyring")
            for name in ("fail", "null")
        ),
    ],
)
def test_no_key_is_asked_for_that_could_not_be_kept(
    shell: Terminal,
    service: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    typed: Callable[[str], list[str]],
    backend: object,
    said: str,
) -> None:
    _keyring.remove(monkeypatch) if backend is None else _keyring.install(monkeypatch, backend)
    prompts = typed(KEY)
    run = shell("login", "--base-url", service.url, "--keyring", tty=True)
    assert (run.code, prompts, service.seen) == (3, [], [])
    assert said in run.err


def test_a_keyring_that_does_not_answer(shell: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    _keyring.install(monkeypatch, ring)
    assert piped(shell, "--base-url", service.url, "--keyring").code == 0
    ring.broken = "the collection is\x1b[2J locked"
    for run in (piped(shell, "--yes"), shell("whoami"), shell("logout")):
        assert run.problem["message"] == "the keyring failed: the collection is\\x1b[2J locked"
        assert "trade login --file" in run.problem["hint"]


def test_unknown_fields_are_refused_before_anything_is_kept(shell: Terminal, service: Scripted) -> None:
    run = piped(shell, "--base-url", service.url, "--fields", "profile,emial")
    assert run.code == 2
    assert (service.seen, config(shell), kept(shell)) == ([], {}, {})
    assert piped(shell, "--base-url", service.url, "--fields", "profile,email").json == {
        "profile": "default",
        "email": "me@example.test",
    }


def test_where_the_settings_cannot_be_written_no_key_is_left(
    shell: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell.home / "config.toml").mkdir()
    run = piped(shell, "--base-url", service.url)
    assert run.code == 3
    (shell.home / "config.toml").rmdir()

    real, refused = os.replace, ["config.toml", "default"]

    def full(source: Path, target: Path) -> None:
        if target.name == refused[0]:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    for said in ("nothing was changed", "the key was not saved"):
        run = piped(shell, "--base-url", service.url)
        message = run.problem["message"]
        assert (run.code, message.startswith(said), message.endswith(": No space left on device")) == (3, True, True)
        assert (config(shell), kept(shell)) == ({}, {})
        refused.pop(0)


def test_a_place_that_cannot_be_written(shell: Terminal, service: Scripted) -> None:
    (shell.home / "keys").write_text("in the way")
    run = piped(shell, "--base-url", service.url)
    assert run.code == 3
    file = shell.home / "keys" / "default"
    assert run.problem["message"] == f"the key was not saved: cannot write {file}: File exists"
    assert config(shell) == {}


def test_logout_removes_the_key_and_keeps_the_rest(shell: Terminal, service: Scripted) -> None:
    piped(shell, "--base-url", service.url)
    run = shell("logout")
    assert run.json == {"profile": "default", "removed": str(shell.home / "keys" / "default")}
    assert "revoke it in the dashboard" in run.err
    assert (config(shell)["profiles"], kept(shell)) == ({"default": {"base_url": service.url}}, {})
    run = shell("whoami")
    assert (run.code, run.problem["message"]) == (
        3,
        "profile default has no API key: save one with trade login, or set TRADE_API_KEY",
    )
    again = shell("logout", env={"TRADE_API_KEY": KEY})
    assert (again.code, again.json["removed"]) == (0, None)
    assert [note["note"] for note in again.notes] == [
        "nothing to remove: no key was saved",
        "TRADE_API_KEY is still set: unset TRADE_API_KEY",
    ]
    assert shell("logout", "--profile", "nobody").code == 3


def test_logout_without_any_profile(shell: Terminal) -> None:
    run = shell("logout")
    assert (run.code, run.json) == (0, {"profile": None, "removed": None})
    assert list(shell.home.iterdir()) == []


KILLED = """
import os, signal, sys
from tradesdk_cli.__main__ import main

os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL and locks of this system")


@POSIX
@pytest.mark.long
@pytest.mark.parametrize("then", ["login", "login --profile other", "logout", "account show"])
def test_a_killed_login_leaves_no_key_behind(shell: Terminal, service: Scripted, then: str) -> None:
    """It dies when the key is written and has not its name yet; the next run removes that."""
    if then == "account show":
        piped(shell, "--base-url", service.url)
    command = [sys.executable, "-c", KILLED, "login", "--api-key-stdin", "--base-url", service.url, "--no-verify"]
    for _ in range(2):
        subprocess.run([*command, "--yes"], input=f"{KEY}-2\n", text=True, env=os.environ | shell.env, timeout=60)
        assert f"{KEY}-2\n" in kept(shell).values()
    if then.startswith("login"):
        piped(shell, "--base-url", service.url, *then.split()[1:])
    else:
        run = shell(*then.split())
        assert (run.code, "the key of a login that was killed" in run.out) == (0, then == "logout")
    assert set(kept(shell).values()) <= {f"{KEY}\n"}


@POSIX
@each_of("line", ["login --api-key-stdin --base-url {}", "logout"])
def test_what_a_login_is_writing_now_stays(shell: Terminal, service: Scripted, line: str) -> None:
    """It holds a lock; what nobody holds was left by one that was killed. Other files are not ours."""
    import fcntl

    folder = shell.home / "keys"
    folder.mkdir(exist_ok=True)
    live, left, other = (folder / f".work.{part}" for part in ("0" * 16 + ".tmp", "1" * 16 + ".tmp", "swp"))
    for file in (live, left, other):
        file.write_text("MARKED")
    with live.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert shell(*line.format(service.url).split(), stdin=f"{KEY}\n").code == 0
    assert (live.exists(), left.exists(), other.exists()) == (True, False, True)


def test_logout_removes_a_key_that_the_profile_does_not_name(shell: Terminal, service: Scripted) -> None:
    piped(shell, "--base-url", service.url)
    file = shell.home / "config.toml"
    file.write_text(file.read_text().replace('key = "file"\n', "# the key was here\n"))
    assert shell("logout").json["removed"] is not None
    assert kept(shell) == {}
    assert "# the key was here" in file.read_text()


def test_whoami(shell: Terminal, service: Scripted) -> None:
    piped(shell, "--base-url", service.url)
    assert (
        shell("whoami", env={"TRADE_API_KEY": KEY, "TRADE_BASE_URL": service.url}).json["key_from"] == "TRADE_API_KEY"
    )
    for form in ("table", "json", "csv", "tsv", "ndjson"):
        run = shell("whoami", "-vv", "-o", form)
        assert run.code == 0
        assert "MARKED" not in run.out + run.err


@each_of(
    "added",
    [
        *("\ufeff{}\r\n", "'{}'\r\n", '"{}"', ' \ufeff"{}"\r\n', "TRADE_API_KEY={}", 'export TRADE_API_KEY="{}"\n'),
        *("api_key={}", "export trade_api_key={}\n", "key: {}", '  "api_key": "{}",\n', "API-Key = '{}'"),
        *("\ufeffTRADE_API_KEY='{}'\r\n", "set TRADE_API_KEY={}\r\n", '$env:TRADE_API_KEY = "{}"\r\n'),
    ],
)
def test_what_a_file_adds_to_a_key_is_no_part_of_it(shell: Terminal, service: Scripted, added: str) -> None:
    text = added.replace("{}", KEY)
    for run in (
        shell("whoami", env={"TRADE_API_KEY": text, "TRADE_BASE_URL": service.url}),
        shell("login", "--api-key-stdin", "--yes", "--base-url", service.url, stdin=text),
    ):
        assert run.code == 0, run.err
        assert "MARKED" not in run.out + run.err
    assert [key.strip() for key in kept(shell).values()] == [KEY]
    assert set(service.keys) == {f"Bearer {KEY}"}


def test_a_line_that_sets_another_variable_is_refused(shell: Terminal, service: Scripted) -> None:
    private = "0x" + "5a" * 32
    for name in ("TRADE_WALLET_KEY", "private_key", "trade_wallet_key"):
        line = f"export {name}={private}\n"
        run = shell("login", "--api-key-stdin", "--yes", "--base-url", service.url, stdin=line)
        assert (run.code, service.keys) == (3, [])
        assert run.problem["message"] == f"this line sets {name}, not TRADE_API_KEY"
        assert private not in run.out + run.err


# Where something is odd


ECHOED = "MARKED-key-that-is-echoed"
ECHO = {"id": "acc_1", "email": "me@example.test", "plan": "pro", "created_at": 1, "api_key_last4": ECHOED}


@pytest.fixture
def echoing(trade: Terminal, service: Scripted) -> Terminal:
    """`trade` without settings; the service takes every key, and says it whole where four characters belong."""
    del trade.env["TRADE_BASE_URL"], trade.env["TRADE_API_KEY"]
    service.says(200, ECHO)
    return trade


def key_file(echoing: Terminal) -> Path:
    folder = echoing.home / "keys"
    folder.mkdir(mode=0o700)
    file = folder / "work"
    file.write_text(ECHOED)
    file.chmod(0o600)
    return file


def test_of_a_key_that_the_service_says_whole_four_characters_are_shown(echoing: Terminal, service: Scripted) -> None:
    kept = echoing("login", "--api-key-stdin", "--base-url", service.url, stdin=ECHOED)
    assert kept.json["api_key_last4"] == "hoed"
    runs = [
        kept,
        echoing("whoami"),
        echoing("whoami", "-o", "table"),
        echoing("doctor", "-o", "json"),
        echoing("doctor"),
    ]
    assert all("MARKED" not in run.out + run.err and "hoed" in run.out for run in runs)


def test_logout_says_both_when_the_settings_cannot_be_changed(echoing: Terminal, service: Scripted) -> None:
    file, key = configured(echoing, 'profile = "work"\nprofiles.work.key = "file" # mine\n'), key_file(echoing)
    before = file.read_text()
    run = echoing("logout")
    assert run.code == 3
    assert run.problem["message"].startswith(f"the key was removed from {key}, but the settings still name it: ")
    assert run.problem["hint"] == "change profiles.work.key by hand"
    assert (key.exists(), file.read_text()) == (False, before)


@pytest.mark.parametrize("profile", ['profiles.work.key = "file"\n', '[profiles]\nwork = {key = "file"}\n'])
def test_logout_where_a_profile_is_written_in_another_way(echoing: Terminal, profile: str) -> None:
    file, key = configured(echoing, f'profile = "work"\n{profile}'), key_file(echoing)
    assert echoing("logout").json == {"profile": "work", "removed": str(key)}
    assert tomllib.loads(file.read_text()) == {"profile": "work", "profiles": {"work": {}}}


def test_the_way_back_from_a_mock_is_named_and_works(echoing: Terminal, service: Scripted) -> None:
    made, out = echoing("login", "--mock"), echoing("logout")
    for run in (made, out):
        assert "to remove the mock: trade config unset kind --profile default" in run.err
    assert echoing("config", "unset", "kind", "--profile", "default").code == 0
    assert echoing("login", "--api-key-stdin", "--base-url", service.url, stdin=ECHOED).code == 0
    assert echoing("whoami").json["mode"] == "local"
