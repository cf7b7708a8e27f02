"""How far long work is: when it is said, how, and that nothing of it stays on the screen."""

from __future__ import annotations

from itertools import count

import pytest

import tradesdk_cli.output.stderr as progress
from tradesdk_cli.config.settings import Settings
from tradesdk_cli.output.printer import Output
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.text import span

from .._rows import each_of
from ._terminal import Stream, Terminal

WIPE = "\r\x1b[K"


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "monotonic", made.monotonic)
    monkeypatch.setenv("COLUMNS", "80")
    return made


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second after the one before."""
    seconds = count(1)
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(seconds)))


def made(*, tty: bool, output: str = "table", term: str = "xterm") -> Output:
    out = Output(Settings(output=output), {"TERM": term, "NO_COLOR": "1"})
    out.stdout, out.stderr = Stream(tty=False), Stream(tty=tty)
    return out


def err(out: Output) -> str:
    assert isinstance(out.stderr, Stream)
    return out.stderr.written()


def test_a_line_on_a_terminal_that_is_overwritten_and_wiped(clock: Clock) -> None:
    out = made(tty=True)
    with Progress(out, "trades", 1000) as line:
        clock.now += 0.4
        line.step(100)
        assert err(out) == "", "half a second needs no words"
        clock.now += 0.6
        line.step(200)
        clock.now += 0.05
        line.step(300)  # not more than ten times a second
        clock.now += 1
        line.step(500)
    assert err(out) == f"{WIPE}200 of 1000 trades{WIPE}500 of 1000 trades{WIPE}"


def test_other_words_do_not_stand_in_the_line(clock: Clock) -> None:
    out = made(tty=True)
    with Progress(out, "trades") as line:
        clock.now += 1
        line.step(10)
        out.note("something else")
        out.note("and more")
    assert err(out) == f"{WIPE}10 trades{WIPE}something else\nand more\n"
    out.note("afterwards")
    assert err(out).endswith("and more\nafterwards\n")


def test_programs_get_a_note_every_ten_seconds(clock: Clock) -> None:
    out = made(tty=False, output="ndjson")
    with Progress(out, "trades", 1000) as line:
        for _ in range(9):
            clock.now += 3
            line.step(int(clock.now - 1000) * 10)
    notes = err(out).splitlines()
    assert notes == [
        '{"type":"progress","note":"120 of 1000 trades","done":120,"total":1000}',
        '{"type":"progress","note":"240 of 1000 trades","done":240,"total":1000}',
    ]


@each_of(("tty", "term"), [(True, "dumb"), (False, "xterm")])
def test_where_nothing_can_be_overwritten_there_are_lines(clock: Clock, tty: bool, term: str) -> None:
    out = made(tty=tty, term=term)
    with Progress(out, "trades") as line:
        clock.now += 1
        line.step(10)
        clock.now += 10
        line.step(110)
    assert err(out) == "110 trades\n"


@each_of(("columns", "drawn"), [(10, "100 of 10"), (40, "100 of 10000 trades")])
def test_the_line_fits(clock: Clock, monkeypatch: pytest.MonkeyPatch, columns: int, drawn: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = made(tty=True)
    with Progress(out, "trades", 10_000) as line:
        clock.now += 1
        line.step(100)
    assert err(out) == f"{WIPE}{drawn}{WIPE}"


def test_spans() -> None:
    assert [span(seconds) for seconds in (0.2, 59.4, 60, 200, 3000, 7200, 9000)] == [
        "1 s",
        "59 s",
        "1 min",
        "3 min 20 s",
        "50 min",
        "2 h",
        "2 h 30 min",
    ]


@pytest.mark.long
def test_a_list_says_how_far_it_is(world: Terminal, slow: None) -> None:
    person = world("trades", "list", "--limit", "230", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert f"{WIPE}100 of 230 trades" in person.err
    assert f"{WIPE}200 of 230 trades" in person.err
    assert "of 230" not in person.err[person.err.rindex(WIPE) :]
    assert "\r" not in person.out
    file = world("trades", "list", "--all", "-o", "table")
    assert "\r" not in file.err
