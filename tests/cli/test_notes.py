"""What is said on stderr fits the terminal: broken between words, and never inside a command."""

import pytest

from tradesdk_cli.config.settings import Settings
from tradesdk_cli.errors import Problem
from tradesdk_cli.output.stderr import Notes

from .._rows import each_of
from ._terminal import Stream

ID = "agt_1cee9c02f91dee7667e2b87f"
PASTED = (
    f"trade --mock mock agent set-status {ID} paused",
    f"trade agents update {ID} --max-positions 1 --min-confidence 1 --stop-loss-pct 4.5",
    "curl -N -H 'Authorization: Bearer mock_full_me, or another' 'http://127.0.0.1:8402/v1/signals/stream?chain=8453'",
    "export TRADE_HOME=$(mktemp -d) TRADE_BASE_URL=http://127.0.0.1:8402",
)


def notes(monkeypatch: pytest.MonkeyPatch, columns: int, *, tty: bool = True, color: str = "NO_COLOR") -> Notes:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = Notes(Settings(output="table"), {color: "1"})
    said.stderr = Stream(tty=tty)
    return said


def lines(said: Notes) -> list[str]:
    stderr = said.stderr
    assert isinstance(stderr, Stream)
    return stderr.written().splitlines()


@each_of("columns", [60, 80, 140])
@each_of("command", PASTED, ids=["mock", "update", "curl", "export"])
def test_between_words_and_around_commands(monkeypatch: pytest.MonkeyPatch, columns: int, command: str) -> None:
    said = notes(monkeypatch, columns)
    text = f"with the real service this is done in the dashboard; on this machine: {command}; and then look again"
    said.note(text)
    said.problem(Problem(2, "usage", f"{text} once more", hint=text))
    found = lines(said)
    assert " ".join(found).count(text) == 3, "nothing but spaces has become the end of a line"
    assert sum(command in line for line in found) == 3
    assert all(len(line) <= columns or command in line for line in found)
    assert [line.split()[0] for line in found if line.startswith(("error:", "hint:"))] == ["error:", "hint:"]


def test_a_sentence_about_a_command_is_broken_where_it_is_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    said = notes(monkeypatch, 40)
    said.note("every tenant is empty now: trade mock tenant populate NAME fills one, and trade doctor says the rest")
    assert lines(said) == [
        "every tenant is empty now:",
        "trade mock tenant populate NAME fills",
        "one, and trade doctor says the rest",
    ]


def test_in_a_pipe_a_note_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = notes(monkeypatch, 40, tty=False)
    said.note("word " * 30)
    said.problem(Problem(1, "error", "word " * 30))
    assert len(lines(said)) == 2


def test_colors_stay_with_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    said = notes(monkeypatch, 40, color="FORCE_COLOR")
    said.problem(Problem(1, "error", "something long went wrong and this is about it", hint="do it again"))
    first, *rest = lines(said)
    assert first.startswith("\x1b[31merror:\x1b[0m something long")
    assert rest[-1] == "\x1b[33mhint:\x1b[0m do it again"
