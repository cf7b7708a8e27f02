"""Where `trade` is run: closed and full streams, no home, no terminal, a folder that is gone, signals."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted, agent
from ._streams import publishing
from ._terminal import TRADE, Run, Terminal
from .test_processes import on_a_terminal, started

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors, signals and limits as POSIX has them")
long = pytest.mark.long
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(trade: Terminal, line: str, **env: str) -> Run:
    """Runs a line of shell in which `trade` is the program under test."""
    function = f'trade() {{ {TRADE[0]} -m tradesdk_cli "$@"; }}\n'
    environment = trade.environment() | {"HOME": str(trade.home)} | env
    done = subprocess.run(  # the program under test
        ["/bin/sh", "-c", function + line],
        env={name: value for name, value in environment.items() if value != "-"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    return Run(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


@pytest.fixture
def one(trade: Terminal, service: Scripted) -> Terminal:
    """`trade` at a service with one agent, and more to come."""
    service.says(200, {"data": [agent()], "next_cursor": "more"})
    return trade


# Streams


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("trade agents list -n 1 >&-", 1, "standard output cannot be written: Bad file descriptor"),
        ("trade agents list -n 1 2>&-", 0, ""),
        pytest.param("trade --help >&-", 1, "standard output cannot be written", marks=long),
        pytest.param("trade --version >&-", 1, "standard output cannot be written", marks=long),
        pytest.param("trade agents list -n 1 <&-", 0, "there is more", marks=long),
        pytest.param("trade agents list -n 1 <&- >&- 2>&-", 1, "", marks=long),
        pytest.param("trade agents delete agt_1 <&-", 2, "--yes is needed", marks=long),
        pytest.param("trade login --api-key-stdin <&-", 3, "held no API key", marks=long),
        pytest.param("trade agents get agt_1 2>&-", 10, "", marks=long),
        pytest.param("trade agents list -n 1 >/dev/full", 1, "No space left on device", marks=long),
        pytest.param("trade agents list -n 1 -o table >/dev/full", 1, "No space left on device", marks=long),
        pytest.param("trade --help >/dev/full", 1, "cannot be written: No space left on device", marks=long),
        pytest.param("PYTHONUNBUFFERED=1 trade --help >/dev/full", 1, "written: No space left on device", marks=long),
        pytest.param("trade --version >/dev/full", 1, "No space left on device", marks=long),
        pytest.param("trade agents list -n 1 2>/dev/full", 0, "", marks=long),
        pytest.param("trade agents get agt_1 2>/dev/full", 10, "", marks=long),
        pytest.param("trade agents list -n 1 >/dev/full 2>/dev/full", 1, "", marks=long),
    ],
)
def test_streams_that_take_nothing(one: Terminal, line: str, code: int, said: str) -> None:
    run = shell(one, line)
    assert (run.code, said in run.err) == (code, True), run.err
    assert "Traceback" not in run.err
    assert "Exception ignored" not in run.err
    assert run.err == "" or said
    assert code != 0 or json.loads(run.out)["id"] == "agt_1"


@long
def test_what_is_opened_later_does_not_get_the_number_of_a_closed_stream(trade: Terminal) -> None:
    # The database of the mock and its journal are opened after the start; notes must not land in them.
    run = shell(
        trade, "trade --mock trades list --limit 1 <&- 2>&-; trade --mock trades list --limit 1 -o json >&- 2>&-"
    )
    assert run.code == 1
    assert trade("--mock", "trades", "list", "--limit", "1").code == 0, "its state is sound"


def test_notes_that_nobody_takes_change_nothing(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "more"})
    with open("/dev/full", "w") as full, pytest.MonkeyPatch.context() as patch:
        from tradesdk_cli.output import stderr

        made = stderr.Notes.__init__

        def deaf(self: Any, *given: Any) -> None:
            made(self, *given)
            self.stderr = full

        patch.setattr(stderr.Notes, "__init__", deaf)
        assert trade("agents", "list", "-n", "1").code == 0


# Homes


@each_of(
    ("line", "variable"),
    [
        *(("--mock account show", "TRADE_HOME"), ("pay budget", "TRADE_HOME"), ("config path", "TRADE_HOME")),
        *(("pay key address", "TRADE_KEYSTORE"), ("--mock account show --out URL.json", "")),
    ],
)
def test_a_url_is_no_path(trade: Terminal, monkeypatch: pytest.MonkeyPatch, line: str, variable: str) -> None:
    """Nothing is made, and its password is not shown."""
    url = "postgresql://user:hidden@host/db"
    (trade.home / "here").mkdir(exist_ok=True)
    monkeypatch.chdir(trade.home / "here")
    run = trade(*line.replace("URL", url).split(), env={variable: url} if variable else {})
    assert run.code != 0
    assert "hidden" not in run.err
    assert list((trade.home / "here").iterdir()) == []


@each_of("line", ["account show", "agents list -n 1", "pay budget", "mock status"])
@each_of("home", ["below a file", "a file", "nowhere"])
def test_a_home_that_cannot_be_written(trade: Terminal, line: str, home: str) -> None:
    file = trade.home / "file"
    file.write_text("mine")
    folder = {"below a file": file / "x", "a file": file, "nowhere": Path("/proc/nowhere")}[home]
    run = trade("--mock", *line.split(), env={"TRADE_HOME": str(folder)}, tty=True)
    assert run.code == 3, run.err
    assert str(folder) in run.err
    assert "TRADE_HOME" in run.err
    assert file.read_text() == "mine"


@long
@pytest.mark.parametrize(
    ("env", "line", "code"),
    [
        ({"HOME": "-", "TRADE_HOME": "-"}, "trade agents list -n 1", 0),
        ({"HOME": "-", "TRADE_HOME": "-"}, "trade --version", 0),
        ({"HOME": "/dev/null", "TRADE_HOME": "-"}, "trade agents list -n 1", 0),
        ({"HOME": "/dev/null", "TRADE_HOME": "-", "XDG_DATA_HOME": "-"}, "trade --mock agents list -n 1", 3),
        ({"HOME": "", "TRADE_HOME": "-"}, "trade agents list -n 1", 0),
        ({"HOME": "relative", "TRADE_HOME": "-"}, "trade agents list -n 1", 0),
    ],
)
def test_homes_that_are_none(one: Terminal, env: dict[str, str], line: str, code: int) -> None:
    run = shell(one, line, **env)
    assert run.code == code, run.err
    assert "Traceback" not in run.err


@long
def test_a_mask_that_takes_every_permission(trade: Terminal) -> None:
    run = shell(trade, "umask 0777; trade --mock account show")
    assert run.code in (0, 3), run.err
    assert "Traceback" not in run.err


@long
def test_a_disk_that_is_full(trade: Terminal) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(  # the program under test
        [*TRADE, "--mock", "account", "show", "-o", "table"],
        env=trade.environment(),
        preexec_fn=little,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 3, done.stderr
    assert "disk" in done.stderr
    assert "TRADE_HOME" in done.stderr.splitlines()[-1]
    assert "in use" not in done.stderr
    assert "Traceback" not in done.stderr
    assert trade("--mock", "account", "show").code == 0, "with room again it works, or starts over"


@long
@pytest.mark.parametrize(
    ("line", "limit"),
    [("--mock account show", 5), ("--mock account show", 6), ("pay history", 5)],
)
def test_too_many_open_files(trade: Terminal, line: str, limit: int) -> None:
    trade("--mock", "account", "show")
    run = shell(trade, f"ulimit -n {limit}; trade {line}")
    assert run.code in (1, 3), run.err
    assert (run.problem["code"], "Too many open files" in run.problem["message"]) != ("internal", False)
    assert "ulimit -n" in run.problem["hint"]


@long
def test_a_folder_that_is_gone(one: Terminal, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    run = shell(one, f"mkdir {gone} && cd {gone} && rmdir {gone} && trade agents list -n 1 && trade --help >/dev/null")
    assert (run.code, json.loads(run.out)["id"]) == (0, "agt_1")
    run = shell(one, f"mkdir {gone} && cd {gone} && rmdir {gone} && trade agents list -n 1 --out x.json")
    assert run.code == 1
    assert "x.json cannot be written" in run.err


# Terminals


@each_of("term", ["dumb", "", "nonsense-9000"])
def test_terminals_of_few_words(one: Terminal, term: str) -> None:
    run = one("agents", "list", "-n", "1", tty=True, env={"TERM": term})
    assert run.code == 0, run.err
    assert run.out.splitlines()[0].strip("\x1b[1m0").startswith("id")
    assert term != "dumb" or "\x1b" not in run.out + run.err


@each_of("columns", ["0", "1", "20", "-5", "junk", "99999"])
def test_widths_that_are_none(one: Terminal, service: Scripted, columns: str) -> None:
    for argv in (("agents", "list"), ("--help",), ("config", "list")):
        service.says(200, {"data": [agent(), agent("漢字" * 30)]})
        run = one(*argv, tty=True, env={"COLUMNS": columns})
        assert run.code == 0, run.err
    assert "agt_1" in one("agents", "list", tty=True, env={"COLUMNS": columns}).out


@long
@pytest.mark.parametrize("env", [ASCII, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_what_a_stream_cannot_say_is_an_escape(trade: Terminal, service: Scripted, env: dict[str, str]) -> None:
    service.says(200, {"data": [agent("漢字 ❤\ufe0f é")]})
    for form in ("table", "json") if env is ASCII else ("table",):
        run = shell(trade, f"trade agents list -o {form}", **env)
        assert (run.code, run.err) == (0, ""), form
        assert "agt_1" in run.out
        assert "\\u6f22" in run.out or "\\\\u6f22" in run.out, run.out
    service.fails(404, "not_found", "kein Agent mit Größe 漢")
    assert "\\u6f22" in shell(trade, "trade agents get agt_1", **env).err


@long
def test_no_terminal_name_at_all_on_a_real_terminal(trade: Terminal) -> None:
    for name in ("dumb", "xterm"):
        trade.env["TERM"] = name
        code, screen = on_a_terminal(trade, "--mock", "account", "usage", columns=60)
        assert code == 0
        assert "requests" in screen


# Signals


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@long
@pytest.mark.parametrize(("number", "codes"), [(signal.SIGTERM, (143,)), (signal.SIGHUP, (129, -1))])
def test_told_to_end_in_a_stream(trade: Terminal, number: int, codes: tuple[int, ...]) -> None:
    with MockServer(signals="scripted") as running, publishing(running, *({} for _ in range(5))):
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        with started(trade, "signals", "stream", "--chain", "base", "--since", "last") as process:
            assert process.stdout is not None
            first, _ = (json.loads(process.stdout.readline())["id"] for _ in range(2))
            process.send_signal(number)
            code, _, err = ended(process)
            assert code in codes
            assert "Traceback" not in err
        running.emit_signal()  # on a slow machine, all of the others have been printed
        again = trade("signals", "stream", "--chain", "base", "--since", "last", "--count", "1").lines[0]["id"]
        assert again != first, "it continues after that one, or at the one that was being printed"
