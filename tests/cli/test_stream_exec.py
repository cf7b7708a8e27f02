"""`--exec`: words first, values afterwards, no shell; a child that fails, hangs or never reads."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tradesdk_cli.stream.exec as executing
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.stream.exec import PLACEHOLDERS, NotRunnable, parse_command

from .._rows import each_of
from .._texts import texts
from ._streams import event

PYTHON = shlex.quote(sys.executable)


def words(line: str, **fields: Any) -> list[str]:
    return parse_command(line, 60).words(event(**fields))[1:]


def python(code: str) -> str:
    """A command line that runs `code`."""
    return f"{PYTHON} -c {shlex.quote(code.replace('{', '{{').replace('}', '}}'))}"


@each_of(
    ("line", "expected"),
    [
        ("echo plain", ["plain"]),
        ("echo {id}", ["sig_000000000000000000000001"]),
        ("echo {direction} {token_symbol}", ["BUY", "BRETT"]),
        ("echo '{direction} {token_symbol}'", ["BUY BRETT"]),
        ("echo a{chain_id}b{timestamp}c", ["a8453b1767268801c"]),
        ("echo {confidence}/{price_usd}", ["0.9/0.014597478"]),
        ("echo {token_address}", ["0x" + "cd" * 20]),
        ('echo \'{{"id":"{id}"}}\'', ['{"id":"sig_000000000000000000000001"}']),
        ("echo {{id}} {{{{", ["{id}", "{{"]),
        ("echo {{{id}}}", ["{sig_000000000000000000000001}"]),
        ("echo ''", [""]),
    ],
)
def test_placeholders_are_replaced_inside_words(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_every_field_has_its_placeholder() -> None:
    assert set(PLACEHOLDERS) == set(event()) - {"type", "replayed", "late"}
    assert words("echo " + " ".join(f"{{{name}}}" for name in PLACEHOLDERS)) == [
        str(event()[name]) for name in PLACEHOLDERS
    ]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_whatever_a_token_is_called_it_stays_one_word(symbol: str) -> None:
    assert words("echo -- {token_symbol} x{token_symbol}y", token_symbol=symbol) == ["--", symbol, f"x{symbol}y"]


@given(texts())
def test_any_line_is_a_command_or_a_usage_error(line: str) -> None:
    try:
        command = parse_command(line, 5)
        assert len(command.words(event())) == len(shlex.split(line))
    except (UsageProblem, NotRunnable):
        pass


@each_of(
    ("line", "says"),
    [
        ("echo {symbol}", "{symbol} is not a placeholder"),
        ("echo {}", "{} is not a placeholder"),
        ("echo {id", "{id has a brace without its other one"),
        ("echo id}", "id} has a brace without its other one"),
        ("echo {id.__class__}", "is not a placeholder"),
        ("echo {id!r}", "is not a placeholder"),
        ("echo 'open", "cannot be split"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("''", "is empty"),
        ("{token_symbol} x", "the program cannot be a placeholder"),
        ("x{id}", "the program cannot be a placeholder"),
        ("no-such-program-anywhere {id}", "there is no program no-such-program-anywhere"),
        ("/no/such/place", "there is no program"),
        ("echo;ls {id}", "there is no program echo;ls"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(line: str, says: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        parse_command(line, 5)
    assert says in refused.value.message
    assert refused.value.hint


def test_a_name_that_would_be_an_option_is_not_handed_over() -> None:
    assert parse_command("echo {token_symbol}", 5).run(event(token_symbol="--help")) == {
        "error": "{token_symbol} begins with '-' and would be taken for an option: put -- first"
    }
    assert words("echo -- {token_symbol}", token_symbol="--help") == ["--", "--help"]
    assert words("echo x={token_symbol}", token_symbol="--help") == ["x=--help"]
    assert words("echo -{chain_id}") == ["-8453"], "what is written by the user may be an option"


@each_of("symbol", ["a\0b", "\ud800"])
def test_text_that_no_program_can_be_given(symbol: str) -> None:
    problem = parse_command("echo -- {token_symbol}", 5).run(event(token_symbol=symbol))
    assert problem == {"error": "{token_symbol} is text that cannot be passed to a program"}


def test_the_event_is_standard_input(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    hostile = event(token_symbol="$(touch x) `id` \x1b[2J é \ud800")
    line = python("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())") + f" {shlex.quote(str(copy))}"
    assert parse_command(line, 60).run(hostile) is None
    assert json.loads(copy.read_text()) == hostile
    assert copy.read_text().endswith("}\n")


def test_a_child_that_reads_nothing_is_no_error() -> None:
    assert parse_command("true {id}", 60).run(event(token_symbol="x" * 3_000_000)) is None


def test_what_it_prints_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    line = python("import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)")
    assert parse_command(line, 60).run(event()) is None
    assert capfd.readouterr() == ("", "out\nerr\n")


@each_of(
    ("line", "problem"),
    [
        ("false", {"error": "it ended with 1", "exit_code": 1}),
        (python("import sys; sys.exit(7)"), {"error": "it ended with 7", "exit_code": 7}),
        (
            python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
            {"error": "it was killed by SIGKILL", "signal": "SIGKILL"},
        ),
    ],
)
def test_how_a_child_fails(line: str, problem: dict[str, Any]) -> None:
    assert parse_command(line, 60).run(event()) == problem


def test_a_program_that_has_gone_since(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    command = parse_command(f"{program} {{id}}", 60)
    assert command.run(event()) is None
    program.unlink()
    assert command.run(event()) == {"error": "it cannot be run: No such file or directory"}


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="process groups as POSIX has them")
def test_a_child_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    written = tmp_path / "pid"
    line = f"sh -c {shlex.quote(f'sleep 60 & echo $! > {shlex.quote(str(written))}; wait')}"
    for seconds in (1, 5, 25):  # a shell that had no time to start anything is given more
        begin = time.monotonic()
        assert parse_command(line, seconds).run(event()) == {"error": f"it was ended after {seconds} s"}
        assert time.monotonic() - begin < 55
        if written.exists() and written.read_text():
            break
    deadline = time.monotonic() + 50
    while alive(int(written.read_text())):
        assert time.monotonic() < deadline, "the grandchild lives on"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_one_that_takes_too_long_is_told_to_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"

    def too_long(child: Any, *given: Any, **more: Any) -> None:
        while not ready.exists():
            assert child.poll() is None
            time.sleep(0.005)
        raise subprocess.TimeoutExpired("it", 5)

    monkeypatch.setattr(subprocess.Popen, "communicate", too_long)
    script = f"trap 'touch {told}; exit' TERM; touch {ready}; sleep 60 & wait"
    command = parse_command(f"sh -c {shlex.quote(script)}", 5)
    assert (command.program, command.run(event())) == ("sh", {"error": "it was ended after 5 s"})
    assert told.exists()


@pytest.mark.long
def test_one_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "_GRACE", 0.1)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    command = parse_command(python(code), 0.5)
    assert command.run(event()) == {"error": "it was ended after 0.5 s"}
