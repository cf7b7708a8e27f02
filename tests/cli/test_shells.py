"""`trade completion`: a script and one line, asked for before, never twice, and gone without a trace."""

import stat
import sys
from pathlib import Path

import pytest

from tradesdk_cli.completion.shells import MARK, SCRIPTS

from ._terminal import Terminal

RC = {
    "bash": ".bashrc",
    "zsh": ".zshrc",
    "powershell": ".config/powershell/Microsoft.PowerShell_profile.ps1",
}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the folders are those of Unix")


@pytest.fixture
def home(trade: Terminal, tmp_path: Path) -> Path:
    """A home folder with nothing in it."""
    folder = tmp_path / "the home"
    folder.mkdir()
    trade.env |= {"HOME": str(folder), "SHELL": "/bin/bash", "ZDOTDIR": "", "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    return folder


@pytest.mark.parametrize("shell", list(RC))
def test_installed_once_and_removed(trade: Terminal, home: Path, shell: str) -> None:
    rc_file = home / RC[shell]
    rc_file.parent.mkdir(parents=True, exist_ok=True)
    rc_file.write_bytes(b"export A=1 # \xff mine")
    rc_file.chmod(0o640)
    run = trade("completion", "install", shell, "--yes")
    assert (run.code, run.json["result"], run.json["rc_file"]) == (0, "installed", str(rc_file))
    script = Path(run.json["script"])
    assert script.read_text() == SCRIPTS[shell]
    lines = rc_file.read_bytes().splitlines()
    assert lines[0] == b"export A=1 # \xff mine"
    assert lines[1:] == [run.json["rc_line"].encode()]
    assert str(script) in run.json["rc_line"]
    assert stat.S_IMODE(rc_file.stat().st_mode) == 0o640
    again = trade("completion", "install", shell, "--yes")
    assert (again.code, again.json["result"]) == (0, "unchanged")
    assert rc_file.read_bytes().count(MARK.encode()) == 1
    gone = trade("completion", "uninstall", shell, "--yes")
    assert (gone.code, gone.json["result"]) == (0, "removed")
    assert rc_file.read_bytes() == b"export A=1 # \xff mine\n"
    assert not script.exists()
    assert trade("completion", "uninstall", shell, "--yes").json["result"] == "unchanged"


def test_fish_needs_no_line(trade: Terminal, home: Path) -> None:
    run = trade("completion", "install", "fish")
    assert (run.code, run.json["rc_file"]) == (0, None)
    assert (home / ".config" / "fish" / "completions" / "trade.fish").read_text() == SCRIPTS["fish"]


def test_an_older_script_is_replaced_and_the_line_stays(trade: Terminal, home: Path) -> None:
    first = trade("completion", "install", "--yes").json
    Path(first["script"]).write_text("old")
    run = trade("completion", "install")
    assert (run.code, run.json["result"]) == (0, "installed")
    assert Path(first["script"]).read_text() == SCRIPTS["bash"]
    assert (home / ".bashrc").read_text().count(MARK) == 1


def test_it_asks_before_it_touches_your_file(trade: Terminal, home: Path) -> None:
    assert trade("completion", "install").code == 2
    no = trade("completion", "install", answers="n\n")
    assert no.code == 1
    assert "gets this line:" in no.err
    assert not list(home.iterdir())
    assert trade("completion", "install", answers="y\n").code == 0
    assert MARK in (home / ".bashrc").read_text()
    assert trade("completion", "uninstall").code == 2
    assert trade("completion", "uninstall", answers="n\n").code == 1
    assert MARK in (home / ".bashrc").read_text()


def test_rehearsals_write_nothing(trade: Terminal, home: Path) -> None:
    run = trade("completion", "install", "--dry-run")
    assert (run.code, run.json["result"]) == (0, "not written")
    assert not list(home.iterdir())
    trade("completion", "install", "--yes")
    assert trade("completion", "uninstall", "--dry-run").json["result"] == "not removed"
    assert MARK in (home / ".bashrc").read_text()


def test_a_file_that_is_a_link_stays_one(trade: Terminal, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text("export A=1\n")
    (home / ".bashrc").symlink_to(real)
    trade("completion", "install", "--yes")
    assert (home / ".bashrc").is_symlink()
    assert MARK in real.read_text()


def test_what_cannot_be_written_is_named(trade: Terminal, home: Path) -> None:
    (home / ".local").write_text("a file")
    run = trade("completion", "install", "--yes")
    assert (run.code, run.problem["code"]) == (1, "system")
    assert "cannot be written" in run.problem["message"]
    assert run.problem["hint"] == "trade completion bash prints it"
    assert not (home / ".bashrc").exists()


def test_the_shell_of_the_session_or_the_one_named(trade: Terminal, home: Path) -> None:
    for shell, script in SCRIPTS.items():
        assert trade("completion", shell).out == script
    trade.env["SHELL"] = "/usr/bin/tcsh"
    run = trade("completion", "install")
    assert (run.code, run.problem["message"]) == (2, "completion is for bash, zsh, fish and powershell, not 'tcsh'")
    trade.env["SHELL"] = ""
    assert trade("completion", "install").problem["message"] == "SHELL is not set, so the shell is not known"
