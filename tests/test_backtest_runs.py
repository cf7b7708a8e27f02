"""The example that tries a rule on the past, as a newcomer runs it: options, terminals, services, the whole month."""

import importlib
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tradesdk_mock import MockServer

from .test_examples import EXAMPLES, start

pytestmark = pytest.mark.long

example = importlib.import_module("backtest_a_rule")
Rule = example.Rule

NUMBERS = r" +([\d,]+) +(\d+) +(\d+%|-) +([+-]\d+\.\d%) +-(\d+\.\d)% +([+-]\d+\.\d%) +-(\d+\.\d)%"


def printed(folder: Path, *options: str, env: dict[str, str] | None = None) -> str:
    done = start("-W", "error", EXAMPLES / "backtest_a_rule.py", *options, folder=folder, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_it_runs(tmp_path: Path) -> None:
    told = printed(tmp_path, "--days", "0.3")
    head, *rows = told.splitlines()[:7]
    assert head.split() == ["signals", "trades", "won", "rule", "rule", "fell", "holding", "holding", "fell"]
    found = [re.fullmatch(r"\w+" + NUMBERS, row) for row in rows]
    assert all(found), rows
    counts = [[int(row[place].replace(",", "")) for place in (1, 2)] for row in found if row]
    assert counts[-1] == [sum(column) for column in zip(*counts[:-1], strict=True)]
    assert re.fullmatch(r"[\d,]+ signals in \d+\.\d s", told.splitlines()[-1])
    assert "Days of the mock's market, seed 7" in told
    assert "holding" in told.split("seed 7")[1]
    assert "⣀" in told or "⠉" in told
    assert "\x1b" not in told
    assert {len(line) for line in told.splitlines()} <= set(range(81))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "env", "colored"),
    [
        (120, {"TERM": "xterm-256color"}, True),
        pytest.param(80, {"NO_COLOR": "1"}, False, marks=pytest.mark.long),
    ],
)
def test_the_picture_fits_the_terminal_and_has_colors_there(
    columns: int, env: dict[str, str], colored: bool, tmp_path: Path
) -> None:
    seen = on_terminal(columns, env, tmp_path)
    bare = re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert max(len(line.rstrip()) for line in bare.splitlines()) in (columns - 1, columns)
    assert ("\x1b[" in seen) == colored


def on_terminal(columns: int, env: dict[str, str], folder: Path) -> str:
    reader, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, columns))
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("TRADE_", "COLUMNS", "NO_COLOR"))}
    command = [sys.executable, str(EXAMPLES / "backtest_a_rule.py"), "--days", "0.1"]
    with subprocess.Popen(command, cwd=folder, env={**clean, **env}, stdout=terminal, stderr=terminal) as child:
        os.close(terminal)
        chunks = b""
        try:
            while chunk := os.read(reader, 65_536):
                chunks += chunk
        except OSError:  # how a terminal says on Linux that nobody writes to it any more
            pass
        finally:
            os.close(reader)
        assert child.wait(timeout=300) == 0, chunks
    return chunks.decode().replace("\r\n", "\n")


def test_without_the_library_for_pictures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    for name in ("TRADE_API_KEY", "TRADE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["backtest_a_rule.py", "--days", "0.02", "--tokens", "2"])
    example.main()
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[3:4]] == ["together"]
    assert lines[-2] == "For the lines as a picture: pip install plotext"


def test_the_service_that_is_set(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        env = {"TRADE_API_KEY": "mock_read_enterprise_me", "TRADE_BASE_URL": server.url}
        told = printed(tmp_path, "--days", "1", env=env)
        assert {entry.path for entry in server.journal()} == {"/v1/signals/history"}
    assert [line.split()[0] for line in told.splitlines()[6:7]] == ["together"]
    assert "Days, the service's history" in told


@pytest.mark.parametrize("options", [("--days", "0"), ("--days", "32"), ("--tokens", "0")])
def test_what_it_refuses(options: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["backtest_a_rule.py", *options])
    with pytest.raises(SystemExit) as caught:
        example.main()
    assert caught.value.code == 2


@pytest.mark.parametrize("name", ["TRADE_API_KEY", "TRADE_BASE_URL"])
def test_it_drops_no_option_silently(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["backtest_a_rule.py", "--seed", "7"])
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    with pytest.raises(SystemExit) as caught:
        example.main()
    assert caught.value.code == 2
    assert "--seed is about the mock" in capsys.readouterr().err
