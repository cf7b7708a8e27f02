"""What is said on stderr: a note, an error and its hint are a line each, which the terminal breaks and nobody else."""

import pytest

from tradesdk_cli.config.settings import Settings
from tradesdk_cli.errors import Problem
from tradesdk_cli.output.stderr import Notes

from .._rows import each_of
from ._terminal import Stream

PASTED = (
    "curl -N -H 'Authorization: Bearer mock_full_me, or another' 'http://127.0.0.1:8402/v1/signals/stream?chain=8453'"
)


def lines(monkeypatch: pytest.MonkeyPatch, *, tty: bool, color: str = "NO_COLOR") -> list[str]:
    monkeypatch.setenv("COLUMNS", "40")
    said = Notes(Settings(output="table"), {color: "1"})
    said.stderr = stderr = Stream(tty=tty)
    said.note(f"on this machine: {PASTED}; and look again")
    said.problem(Problem(1, "error", "something long went wrong and this is about it", hint=PASTED))
    return stderr.written().splitlines()


@each_of("tty", [True, False])
def test_a_line_each_at_any_width(monkeypatch: pytest.MonkeyPatch, tty: bool) -> None:
    assert lines(monkeypatch, tty=tty) == [
        f"on this machine: {PASTED}; and look again",
        "error: something long went wrong and this is about it",
        f"hint: {PASTED}",
    ]


def test_colors_stay_with_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    _, error, hint = lines(monkeypatch, tty=True, color="FORCE_COLOR")
    assert error.startswith("\x1b[31merror:\x1b[0m something long")
    assert hint == f"\x1b[33mhint:\x1b[0m {PASTED}"
