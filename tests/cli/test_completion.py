"""Completion of commands, options and values, as the shells ask for it."""

import pytest

from ._terminal import Terminal


def complete(trade: Terminal, words: str) -> set[str]:
    env = {"_TRADE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    run = trade(env=env)
    assert (run.code, run.err) == (0, "")
    return set(run.out.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("trade a", {"account", "agents"}),
        ("trade agents ", {"list", "get", "create", "update", "delete"}),
        ("trade mock key c", {"create"}),
        ("trade --mock agents list --status ", {"active", "idle", "paused", "error"}),
        ("trade signals latest --chain b", {"base", "bnb"}),
        ("trade -o ", {"auto", "table", "json", "ndjson"}),
        ("trade agents list -o nd", {"ndjson"}),
        ("trade agents list --pa", {"--page-size"}),
        ("trade agents list --mo", {"--mock"}),
    ],
)
def test_completion(trade: Terminal, words: str, offered: set[str]) -> None:
    assert complete(trade, words) == offered


def test_the_script_for_the_shell(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "zsh")
    run = trade("--show-completion")
    assert run.code == 0
    assert run.out.startswith("#compdef trade")
