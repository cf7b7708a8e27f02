"""Whole sessions of `trade`, as they stand in `sessions/*.txt`. `pytest --update` rewrites what has changed."""

import difflib
import shlex
from pathlib import Path

import pytest

from ._sessions import SESSIONS, SessionError, parse, play
from ._terminal import Terminal
from .test_help import LEAVES

FILES = sorted(SESSIONS.glob("*.txt"))
NOT_PLAYED = {
    **dict.fromkeys(("fleet init", "fleet relay", "fleet status"), "need a server of PostgreSQL: test_fleet.py"),
    "mcp config": "names the program by its path on this machine: test_mcp.py",
    "mock serve": "runs until it is ended: test_mock_serve.py; served.txt has a server",
    **dict.fromkeys(("completion bash", "completion zsh", "completion powershell"), "like fish: test_shells.py"),
}
"""Commands that are in no session, and why."""


# What these show has quick tests in other files.
LONG = ("doubt", "help", "hostile", "market", "mock", "positions", "prices")


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.long if file.stem in LONG else (), id=file.stem) for file in FILES],
)
def test_session(
    file: Path,
    trade: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    kept = file.read_text(encoding="utf-8")
    played = play(kept, trade, monkeypatch)
    if pytestconfig.getoption("update"):
        file.write_text(played, encoding="utf-8")
    elif played != kept:
        lines = difflib.unified_diff(kept.splitlines(), played.splitlines(), file.name, "as it is now", lineterm="")
        pytest.fail("\n".join([*lines, "if that is right: pytest tests/cli/test_sessions.py --update"]), pytrace=False)


def test_every_command_is_in_a_session() -> None:
    played = set()
    for file in FILES:
        for step in parse(file.read_text(encoding="utf-8"))[1]:
            words = shlex.split(step.command)
            words = words[words.index("trade") + 1 :] if "trade" in words else []
            played |= {" ".join(words[:count]) for count in (1, 2, 3) if tuple(words[:count]) in LEAVES}
    assert played | set(NOT_PLAYED) == {" ".join(words) for words in LEAVES}
    assert not played & set(NOT_PLAYED)


CASES = {
    "no header": ("$ trade --version\n", "first line"),
    "no command": ("# pipe\n\n# nothing\n", "no command"),
    "a name that no output has bound": ("# pipe\n\n$ trade pay show {payment}\n", "{payment} is not bound"),
    "another program": ("# pipe\n\n$ rm -r .\n", "no such command"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_session_that_cannot_be_played(case: str, trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    text, message = CASES[case]
    with pytest.raises(SessionError, match=message):
        play(text, trade, monkeypatch)


def test_what_differs_is_found(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    right = "# pipe\n\n# why\n$ trade agents get nobody -o table\n"
    played = play(right, trade, monkeypatch)
    assert played.startswith(right)
    assert played.endswith("\n[exit 6]\n")
    for wrong in (played.replace("! error", "! eror"), played.replace("[exit 6]\n", ""), played + "more\n"):
        assert play(wrong, trade, monkeypatch) == played
