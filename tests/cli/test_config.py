"""`trade config`: what is set and why, and changes that lose nothing."""

import re
import tomllib
from pathlib import Path

import pytest

from .._rows import each_of
from ._terminal import Terminal

COMMENTED = """\
# my settings
profile = "work"   # the usual one

# the real one
[profiles.work]   # careful
base_url = "https://api.example.com" # not the old one
key = "file"

# play money
[ profiles . "paper" ]
kind = "mock"
"""


@pytest.fixture
def shell(trade: Terminal, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """`trade` in a folder of its own, with two profiles."""
    monkeypatch.chdir(tmp_path_factory.mktemp("project"))
    (trade.home / "config.toml").write_text(COMMENTED)
    del trade.env["TRADE_MAX_RETRIES"]
    return trade


def text(shell: Terminal) -> str:
    return (shell.home / "config.toml").read_text()


def value(shell: Terminal, name: str) -> str:
    return shell("config", "get", name).out.rstrip("\n")


# Looking


def test_list_has_every_setting_and_no_key(shell: Terminal) -> None:
    environ = {
        "TRADE_API_KEY": "MARKED",
        "TRADE_MARKET_BASE_URL": "https://user:MARKED@m.example",
        "TRADE_FLEET": "postgresql://me:MARKED@db.example:5432/bots?password=MARKED",
        "TRADE_RPC_URL": "https://node.example/v2/MARKED?key=MARKED  MARKED",
    }
    run = shell("config", "list", "--sources", "--timeout", "5", env=environ)
    assert "MARKED" not in run.out + run.err
    assert run.lines == [
        {"name": "profile", "value": "work", "source": "config.toml"},
        {"name": "profiles", "value": "work, paper", "source": "config.toml"},
        {"name": "mock", "value": False, "source": "default"},
        {"name": "world", "value": "default", "source": "default"},
        {"name": "base_url", "value": "https://api.example.com", "source": "profile work"},
        {"name": "market_url", "value": "https://…@m.example", "source": "TRADE_MARKET_BASE_URL"},
        {"name": "rpc_url", "value": "node.example …", "source": "TRADE_RPC_URL"},
        {"name": "allow_upfront", "value": False, "source": "default"},
        {"name": "fleet_url", "value": "postgresql://db.example:5432/bots", "source": "TRADE_FLEET"},
        {"name": "api_key", "value": "set", "source": "TRADE_API_KEY"},
        {"name": "output", "value": "auto", "source": "default"},
        {"name": "timeout", "value": 5.0, "source": "flag --timeout"},
        {"name": "retries", "value": None, "source": "default"},
        {"name": "verbose", "value": 0, "source": "default"},
    ]
    assert set(shell("config", "list").lines[0]) == {"name", "value"}


def test_list_fits_a_terminal(shell: Terminal) -> None:
    Path(".trade.toml").write_text("mock = true\n")
    run = shell("config", "list", "--sources", tty=True, columns=60, env={"NO_COLOR": "1"})
    assert all(len(line) <= 60 for line in run.out.splitlines())
    rows = {line.split()[0]: re.split("  +", line)[2] for line in run.out.splitlines()}
    assert (rows["profile"], rows["base_url"], rows["mock"]) == ("config.toml", "profile work", ".trade.toml")
    assert rows["api_key"] == "profile work (file)"


def test_get_is_the_bare_value(shell: Terminal) -> None:
    assert shell("config", "get", "base_url").out == "https://api.example.com\n"
    assert shell("config", "get", "base-url", tty=True).out == "https://api.example.com\n"
    assert shell("config", "get", "verbose").out == "0\n"
    run = shell("config", "get", "timeout")
    assert (run.code, run.out) == (0, "")
    assert "timeout is not set" in run.err
    assert shell("config", "get", "timeout", "-o", "json").json == {
        "name": "timeout",
        "value": None,
        "source": "default",
    }
    assert shell("config", "get", "world", "--profile", "paper").out == "default\n"


@each_of(
    ("argv", "message"),
    [
        (("get", "outptu"), "there is no setting outptu"),
        (("get", "api_key"), "keys are never shown"),
        (("set", "outptu", "json"), "there is no setting outptu"),
        (("set", "output", "xml"), "output is one of auto, table, json, ndjson, csv, tsv, not xml"),
        (("set", "api-key", "MARKED"), "keys are not kept in settings"),
        (("set", "key", "MARKED"), "keys are not kept in settings"),
        (("set", "mock", "true"), "a profile is a mock by its kind"),
        (("set", "retries", "9"), "retries is a whole number from 0 to 5, not 9"),
        (("set", "timeout", "-1"), None),
        (("set", "timeout", "nan"), "timeout is seconds above 0, at most 3600, not nan"),
        (("set", "verbose", "9"), "verbose is 0, 1 or 2, not 9"),
        (("unset", "profile"), "the default profile is changed, not removed"),
        (("unset", "key"), "keys are not kept in settings"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(shell: Terminal, argv: tuple[str, ...], message: str | None) -> None:
    run = shell("config", *argv)
    assert run.code == 2
    assert message is None or run.problem["message"] == message
    assert "MARKED" not in run.out + run.err
    assert text(shell) == COMMENTED
    assert not Path(".trade.toml").exists()


def test_path_works_with_a_broken_file_too(shell: Terminal) -> None:
    (shell.home / "config.toml").write_text("[broken")
    Path(".trade.toml").write_text("broken")
    assert shell("config", "path").out == f"{shell.home / 'config.toml'}\n"
    assert shell("config", "path", "-o", "json").json == {
        "config": str(shell.home / "config.toml"),
        "project": str(Path.cwd() / ".trade.toml"),
        "keys": str(shell.home / "keys"),
        "data": str(shell.home),
    }


def test_profiles(shell: Terminal) -> None:
    assert shell("config", "get", "profiles").out == "work, paper\n"
    (shell.home / "config.toml").unlink()
    run = shell("config", "get", "profiles")
    assert (run.out, "profiles is not set" in run.err) == ("", True)


# Changing


def test_set_and_unset_keep_every_comment(shell: Terminal) -> None:
    run = shell("config", "set", "output", "json")
    assert run.json == {"name": "output", "value": "json", "profile": "work", "file": str(shell.home / "config.toml")}
    assert text(shell) == COMMENTED.replace('key = "file"\n', 'key = "file"\noutput = "json"\n')
    assert value(shell, "output") == "json", "bare, although the profile says how results are printed"
    assert shell("config", "set", "output", "csv", "-o", "json").code == 0
    assert 'output = "csv"\n' in text(shell)
    run = shell("config", "unset", "output", "-o", "json")
    assert (run.json["value"], text(shell)) == (None, COMMENTED)
    again = shell("config", "unset", "output")
    assert (again.code, "nothing to remove" in again.err, text(shell)) == (0, True, COMMENTED)


def test_set_replaces_the_value_and_keeps_what_stands_behind_it(shell: Terminal) -> None:
    shell("config", "set", "base_url", "https://api.example.com/v1/")
    assert text(shell) == COMMENTED
    shell("config", "set", "profile", "paper")
    assert text(shell) == COMMENTED.replace('profile = "work" ', 'profile = "paper" ')
    shell("config", "set", "world", "side")
    assert text(shell).endswith('[ profiles . "paper" ]\nkind = "mock"\nworld = "side"\n')
    assert value(shell, "world") == "side"


def test_the_profile_that_is_meant(shell: Terminal) -> None:
    for argv, env in ((("--profile", "paper"), {}), ((), {"TRADE_PROFILE": "paper"})):
        run = shell("config", "set", "timeout", "10", *argv, env=env)
        assert run.json["profile"] == "paper"
        assert tomllib.loads(text(shell))["profiles"]["paper"]["timeout"] == 10
        assert shell("config", "unset", "timeout", *argv, env=env).code == 0
    run = shell("config", "set", "timeout", "10", "--profile", "papre")
    assert (run.code, run.problem["hint"]) == (3, "did you mean paper?")
    assert text(shell) == COMMENTED
    shell("config", "set", "kind", "mock", "--profile", "second")
    assert tomllib.loads(text(shell))["profiles"]["second"] == {"kind": "mock"}
    assert text(shell).startswith(COMMENTED)


def test_the_first_setting_makes_a_profile_that_counts(shell: Terminal) -> None:
    file = shell.home / "config.toml"
    file.unlink()
    assert "nothing to remove: output is not set there" in shell("config", "unset", "output").err
    assert not file.exists()
    assert shell("config", "set", "output", "json").json["profile"] == "default"
    assert file.read_text() == '[profiles.default]\noutput = "json"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert value(shell, "profile") == "default"


def test_use_and_a_default_that_is_gone(shell: Terminal) -> None:
    (shell.home / "config.toml").write_text(COMMENTED.replace('"work"', '"gone"'))
    assert shell("whoami").code == 3
    run = shell("config", "set", "profile", "paper")
    assert (run.code, run.json["value"]) == (0, "paper")
    assert shell("config", "set", "profile", "nobody").code == 3
    run = shell("config", "set", "profile", "work", env={"TRADE_PROFILE": "paper"})
    assert "paper is used here, because of TRADE_PROFILE" in run.err
    assert tomllib.loads(text(shell))["profile"] == "work"


@pytest.mark.parametrize("name", ["base_url", "market_url"])
def test_a_kept_key_does_not_move_silently(shell: Terminal, name: str) -> None:
    argv = ("config", "set", name, "https://other.example")
    run = shell(*argv)
    assert run.code == 2
    what = "let the key that profile work keeps go to other.example"
    assert run.problem["message"].startswith(f"--yes is needed to {what}")
    assert f"{what}? [y/N]" in shell(*argv, tty=True, answers="n\n").err
    assert text(shell) == COMMENTED
    assert shell(*argv, "--yes").code == 0
    assert tomllib.loads(text(shell))["profiles"]["work"][name] == "https://other.example"
    assert shell("config", "set", name, "http://far.example").code == 3


def test_a_link_stays_a_link(shell: Terminal, tmp_path: Path) -> None:
    file, elsewhere = shell.home / "config.toml", tmp_path / "dotfiles.toml"
    file.rename(elsewhere)
    elsewhere.chmod(0o640)
    file.symlink_to(elsewhere)
    assert shell("config", "set", "output", "json").code == 0
    assert file.is_symlink()
    assert 'output = "json"' in elsewhere.read_text()
    assert elsewhere.stat().st_mode & 0o777 == 0o640, "it keeps its rights"
