"""The settings files: where they are looked for, what is wrong with them, and who may have written them."""

import json
import os
from pathlib import Path

import pytest

from tradesdk.local import Profiles, SettingsFile
from tradesdk_cli.config.files import Files, read_files

from .._rows import each_of
from ._services import Scripted
from ._settings import configured
from ._terminal import Run, Terminal


@pytest.fixture
def project(trade: Terminal, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a project, which the command is run in."""
    folder = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(folder)
    return folder


def test_an_unknown_profile(trade: Terminal) -> None:
    configured(trade, "[profiles.work]\n[profiles.paper]\nkind = 'mock'\n")
    run = trade("account", "show", "--profile", "wrok")
    assert run.code == 3
    assert run.problem["message"] == "there is no profile wrok; saved: paper, work"
    assert run.problem["hint"] == "did you mean work?"
    assert trade("account", "show", env={"TRADE_PROFILE": "nothing-like-it"}).problem["hint"] == (
        "name one of them, or save it: trade login --profile nothing-like-it"
    )
    assert trade("account", "show", "--profile", "../x").code == 2
    assert trade("account", "show", env={"TRADE_PROFILE": "../x"}).code == 3


def test_errors_have_the_format_that_a_profile_asks_for_and_hints_keep_the_profile(
    trade: Terminal, service: Scripted
) -> None:
    configured(trade, f'[profiles.work]\nbase_url = "{service.url}"\noutput = "json"\n')
    del trade.env["TRADE_BASE_URL"]
    service.fails(403, "forbidden", "no")
    run = trade("account", "show", "--profile", "work", tty=True)
    assert run.code == 5
    assert json.loads(run.err.splitlines()[-1])["hint"].endswith("trade --profile work account show")


# The files themselves


@each_of(
    ("text", "where"),
    [
        ("[profiles.work\nx = 1\n", "line 1, column 15"),
        ('a = 1\n[profiles.w]\napi_key = SECRET-1\nb = "', "line 3, column 11"),
        ("sk_live_SECRET-1\n", "line 1, column 17"),
        ('[profiles.w]\nbase_url = "https://me:SECRET-1@x', "end of document"),
    ],
)
def test_broken_toml_is_shown_with_its_place_and_nothing_is_sent(
    trade: Terminal, service: Scripted, text: str, where: str
) -> None:
    file = configured(trade, text)
    run = trade("account", "show")
    assert run.code == 3
    assert run.problem["message"].startswith(f"{file}: ")
    assert run.problem["message"].endswith(f"(at {where})")
    assert run.problem["hint"].startswith("correct that line: a setting is NAME = VALUE")
    assert "SECRET" not in run.err
    assert service.seen == []


@each_of(
    "text",
    [
        'profile = "sk_live_SECRET-1"\n',
        'profile = "SECRET-1-and-24-letters"\n[profiles.work]\n',
        '[profiles.default]\noutput = "SECRET-1"\n',
        '[profiles.default]\nbase_url = ["https://me:SECRET-1@x.invalid"]\n',
        "[profiles.default]\ntimeout = {SECRET-1 = 1}\n",
    ],
)
def test_a_key_in_the_wrong_place_is_not_repeated(trade: Terminal, text: str) -> None:
    configured(trade, text)
    for form in ("json", "table"):
        run = trade("account", "show", "-o", form)
        assert (run.code, run.out) == (3, "")
        assert "SECRET" not in run.err


def test_a_profile_whose_name_is_a_path_is_refused(trade: Terminal) -> None:
    """Files are called after profiles: this one would be the settings file itself."""
    text = 'profile = "../config.toml"\n[profiles."../config.toml"]\nbase_url = "https://x.invalid"\nkey = "file"\n'
    file = configured(trade, text)
    for argv in (("logout",), ("config", "set", "profile", "../config.toml")):
        run = trade(*argv)
        assert (run.code, "is not a name" in run.problem["message"]) == (3, True)
    file.write_text(text.partition("\n")[2])
    assert "a profile with no usable name" in trade("logout").problem["message"]
    assert file.read_text() == text.partition("\n")[2]


def test_files_that_are_none(trade: Terminal) -> None:
    file = configured(trade, "")
    for content, message in (
        (b"a = '\xff'\n", "UTF-8 (line 1)"),
        (b"#" * 300_000, "too large"),
        (b"a = " + b"9" * 5000, "a value that cannot be read"),
    ):
        file.write_bytes(content)
        assert message in trade("config", "list").problem["message"]
    file.unlink()
    file.mkdir()
    assert "is not a file" in trade("config", "list").problem["message"]
    file.rmdir()
    os.mkfifo(file)
    assert "is not a file" in trade("config", "list").problem["message"], "and nobody waits for a writer"


def test_a_file_that_others_can_write_is_refused(trade: Terminal) -> None:
    file = configured(trade, '[profiles.default]\nbase_url = "https://a.example"\n')
    file.chmod(0o666)
    run = trade("config", "list")
    assert run.code == 3
    assert run.problem["hint"].startswith(f"chmod 600 {file}: look at its addresses")
    file.chmod(0o644)
    assert trade("config", "list").code == 0


def test_files_of_somebody_else(trade: Terminal, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = configured(trade, "")
    (project / ".trade.toml").write_text('output = "csv"\n')
    monkeypatch.setattr("tradesdk._local.files.SettingsFile.is_foreign", lambda found: True)
    assert trade("config", "list").problem["message"] == f"{file} belongs to somebody else"
    file.unlink()
    assert trade("config", "get", "output").out == "auto\n", "that of a project is as if it were not there"


def test_the_project_is_this_folder_or_one_above_but_not_above_home(
    trade: Terminal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    whole = SettingsFile(project / ".trade.toml", 'output = "json"\n')
    whole.path.write_text(whole.text)
    monkeypatch.chdir(inner)
    assert read_files(trade.env).project == whole
    monkeypatch.setenv("HOME", str(project / "a"))
    assert read_files(trade.env).project is None
    monkeypatch.setenv("HOME", str(project))
    assert read_files(trade.env).project == whole
    (inner / ".trade.toml").write_text("verbose = 1\n")
    assert read_files(trade.env).project == SettingsFile(inner / ".trade.toml", "verbose = 1\n")
    inner.joinpath(".trade.toml").unlink()
    inner.joinpath(".trade.toml").mkdir()
    assert read_files(trade.env).project == whole


def test_nothing_is_read_where_nothing_is(trade: Terminal, project: Path) -> None:
    assert read_files(trade.env) == Files(saved=Profiles({}, trade.home / "config.toml"))


def test_without_a_home_folder(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry anywhere."""

    def nowhere(path: str) -> str:
        return path

    monkeypatch.setattr(os.path, "expanduser", nowhere)
    trade.env["TRADE_HOME"] = ""
    run = trade("config", "get", "output")
    assert (run.out, run.err) == ("auto\n", "")
    for argv in (("config", "path"), ("config", "set", "output", "json"), ("pay", "history")):
        run = trade(*argv)
        assert (run.code, run.problem["code"]) == (3, "configuration"), argv
        assert "TRADE_HOME" in run.problem["hint"]


def test_a_home_folder_that_cannot_be_told(trade: Terminal) -> None:
    trade.env["TRADE_HOME"] = "~nobody-of-that-name/x"
    run = trade("config", "list")
    assert (run.code, run.problem["message"]) == (3, "there is no home folder for ~nobody-of-that-name/x")


def test_help_and_completion_read_no_file(trade: Terminal) -> None:
    configured(trade, "broken")
    runs: list[Run] = [trade("--help"), trade("agents", "--help"), trade("config", "path")]
    assert [run.code for run in runs] == [0, 0, 0]
