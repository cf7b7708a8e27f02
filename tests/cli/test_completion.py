"""Completion, as the four shells ask for it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tradesdk_cli.completion.candidates import BETWEEN
from tradesdk_cli.completion.shells import SCRIPTS

from .._pages import ROOT
from .._rows import each_of
from ._terminal import Terminal


def ask(trade: Terminal, line: str, shell: str = "zsh", **env: str) -> tuple[str, list[str]]:
    """What is answered for the word at the end of `line`: whether files fit, and the words."""
    pieces = line.split(" ")
    words = {"_TRADE_COMPLETE": f"complete_{shell}"}
    if shell == "bash":  # as readline takes them apart
        pieces = [part for piece in pieces for part in re.split("([=:@])", piece) if part] + [""] * (not pieces[-1])
        words["_TRADE_LINE"] = line
    words["_TRADE_WORDS"] = BETWEEN.join(pieces)
    run = trade(env=words | env)
    assert (run.code, run.err) == (0, "")
    first, *found = run.out.splitlines()
    return first, found


def complete(trade: Terminal, line: str, shell: str = "bash", **env: str) -> list[str]:
    return [word.partition("\t")[0] for word in ask(trade, line, shell, **env)[1]]


@each_of(
    ("words", "offered"),
    [
        ("trade a", ["agents", "account", "approve", "api"]),
        ("trade wallets ", ["list", "connect", "balance"]),
        ("trade mock key c", ["create"]),
        ("trade --mock agents list --status ", ["active", "idle", "paused", "error"]),
        ("trade agents list --status=a", ["active"]),
        ("trade agents list --status=", ["active", "idle", "paused", "error"]),
        ("trade agents list --status = a", []),
        ("trade --base-url http://127.0.0.1:8000 agents li", ["list"]),
        ("trade --base-url=http://127.0.0.1:8000 agents li", ["list"]),
        ("trade plot token BRETT --since 12:00 --mo", ["--mock"]),
        ("trade agents list --status  a", ["active"]),
        ("trade signals latest --ch", ["--chain"]),
        ("trade signals stream --direction ", ["BUY", "SELL"]),
        ("trade pay quote pr", ["prices"]),
        ("trade api P", ["POST", "PUT", "PATCH"]),
        ("trade config set output n", ["ndjson"]),
        ("trade config set nothing y", []),
        ("trade mock fault add drop", ["drop"]),
        ("trade help agents li", ["list"]),
        ("trade help output ", []),
        ("trade signals latest --chain b", ["base", "bnb"]),
        ("trade -o n", ["ndjson"]),
        ("trade agents list -o nd", ["ndjson"]),
        ("trade agents list --mo", ["--mock"]),
        ("trade agents list --mock --mo", []),
        ("trade agents list --limit 5 --lim", []),
        ("trade agents list -n5 --lim", []),
        ("trade agents list --fields n", ["name"]),
        ("trade agents list --fields id,na", ["id,name"]),
        ("trade agents get --fields stats.w", ["stats.win_rate_pct"]),
        ("trade help pay", ["payments", "pay"]),
        ("trade completion z", ["zsh"]),
        ("trade nonsense ", []),
        ("trade agents list -- --", []),
        ("trade 'agents' li", ["list"]),
        ('trade agents "li', ["list"]),
        ("trade agents list --", None),
    ],
)
def test_completion(trade: Terminal, words: str, offered: list[str] | None) -> None:
    found = complete(trade, words)
    if offered is None:
        assert {"--limit", "--output", "--mock"} <= set(found)
        assert all(word.startswith("--") for word in found)
    else:
        assert found == offered


@pytest.mark.long
def test_the_file_of_commands_is_current_and_holds_nothing_of_the_machine_where_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "mock").mkdir()
    (tmp_path / "mock" / "secretplan.sqlite3").touch()
    (tmp_path / "config.toml").write_text('[profiles.secretprofile]\nkind = "mock"\n')
    script = ROOT / "scripts" / "commandtree.py"
    env = {**os.environ, "TRADE_HOME": str(tmp_path), "TRADE_PROFILE": "secretprofile"}
    done = subprocess.run(
        [sys.executable, str(script), "--check"], env=env, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_of("shell", ["zsh", "fish", "powershell"])
def test_other_shells_show_what_a_word_is(trade: Terminal, shell: str) -> None:
    files, (found,) = ask(trade, "trade help exi", shell)
    assert (files, found) == ("words", "exit-codes\tWhat each exit code means.")
    assert ask(trade, "trade agents list --status=i", shell) == ("words", ["--status=idle"])


@each_of("shell", SCRIPTS)
def test_our_own_texts_are_whole(trade: Terminal, shell: str) -> None:
    about = dict(line.split("\t") for line in ask(trade, "trade pl", shell)[1]) if shell != "bash" else {}
    assert about == ({"plot": "Draw a token's price or an agent's result."} if shell != "bash" else {})
    assert ask(trade, "trade --no-mo", shell) == ("words", ["--no-mock"])


def test_files_where_files_fit(trade: Terminal) -> None:
    assert ask(trade, "trade agents list --out ")[0] == "files"
    assert ask(trade, "trade agents list --out=a")[0] == ask(trade, "trade agents list --out=a", "bash")[0] == "files"
    assert ask(trade, "trade api POST /v1/agents -d @a")[0] == "files"
    assert ask(trade, "trade api POST /v1/agents -d ")[0] == "words"
    assert ask(trade, "trade mock fault add drop --route ")[0] == "words"
    assert ask(trade, "trade agents list --status ")[0] == "words"
    for nothing in ("--all=", "--all=a", "--nothing=a"):
        assert ask(trade, f"trade agents list {nothing}") == ("words", []), "no value fits"


def test_only_what_lists_show_is_offered(trade: Terminal) -> None:
    offered = complete(trade, "trade agents ")
    assert ("update" in offered, "pause" in offered, "start" in offered) == (True, False, False)
    assert "--status" not in complete(trade, "trade agents update --")


def test_ids_and_symbols_that_were_printed(own: Terminal) -> None:
    assert complete(own, "trade agents get ") == []
    agents = own("agents", "list", "-o", "ndjson", tty=True).lines
    own("wallets", "list", tty=True)
    trades = own("trades", "list", "--limit", "3", "-o", "ndjson", tty=True).lines
    assert set(complete(own, "trade agents get ")) == {agent[key] for agent in agents for key in ("id", "name")}
    assert complete(own, f"trade trades list --agent-id {agents[0]['name'][:-1]}") == [agents[0]["name"]]
    assert complete(own, f"trade trades list --agent-id {agents[0]['id'][:9]}") == [agents[0]["id"]]
    assert set(complete(own, "trade trades get ")) == {trade["id"] for trade in trades}
    symbol = trades[0]["token_symbol"]
    assert symbol in complete(own, f"trade plot token {symbol.lower()}")
    assert set(complete(own, "trade market prices ")) >= {trade["token_symbol"] for trade in trades[:1]}
    described = dict(line.split("\t") for line in ask(own, "trade agents update ")[1])
    assert described[agents[0]["id"]] == f"{agents[0]['name']}, {agents[0]['status']}"


def test_symbols_that_were_bought(buyer: Terminal) -> None:
    assert buyer("market", "prices", "BRETT", "--max-price", "0.03", tty=True).code == 0
    assert complete(buyer, "trade market prices b") == ["BRETT"]


def test_ids_belong_to_a_service_a_key_and_a_world(own: Terminal) -> None:
    own("agents", "list", tty=True)
    assert complete(own, "trade agents get ")
    assert complete(own, "trade agents get ", TRADE_API_KEY="mock_full_other") == []
    assert complete(own, "trade --mock agents get ") == []
    assert complete(own, "trade --base-url http://127.0.0.1:9 agents get ") == []


def test_worlds_and_profiles(trade: Terminal) -> None:
    (trade.home / "mock").mkdir()
    for name in ("default", "second", "second.ledger"):
        (trade.home / "mock" / f"{name}.sqlite3").touch()
    assert complete(trade, "trade --world ") == ["default", "second"]
    (trade.home / "config.toml").write_text('[profiles.work]\nkind = "mock"\n[profiles.home]\nkind = "mock"\n')
    assert complete(trade, "trade --profile w") == ["work"]


@each_of("shell", SCRIPTS)
def test_whatever_is_wrong_a_prompt_shows_no_error(trade: Terminal, shell: str) -> None:
    (trade.home / "config.toml").write_text("this is [no TOML")
    for line in (
        "trade agents get ",
        "trade --profile ",
        "trade --world ..  ",
        "",
        "trade 'open",
        'trade agents get "',
    ):
        environment = {"_TRADE_COMPLETE": f"complete_{shell}", "_TRADE_WORDS": line.replace(" ", BETWEEN)}
        run = trade(env=environment)
        assert (run.code, run.err) == (0, "")


@each_of("words", ["agents list", "wallets list", "trades list", "positions list", "account show", "account usage"])
def test_the_fields_that_are_offered_are_printed(world: Terminal, words: str) -> None:
    """`--fields` refuses what is not there, and prints the others in the order that was asked for."""
    offered = complete(world, f"trade {words} --fields ")
    run = world(*words.split(), "-o", "csv", "--fields", ",".join(offered))
    assert (run.code, run.out.splitlines()[0].split(",")) == (0, offered)
    printed = world(*words.split(), "-o", "csv").out.splitlines()[0].split(",")
    assert printed == offered


def in_shell(trade: Terminal, tmp_path: Path, command: list[str], code: str) -> list[str]:
    """The lines that `code` prints in a real shell, which finds this `trade`."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / "trade"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tradesdk_cli "$@"\n')
    program.chmod(0o755)
    env = trade.environment() | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([*command, code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash(trade: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "trade.bash"
    script.write_text(SCRIPTS["bash"])
    found = in_shell(
        trade,
        tmp_path,
        ["bash", "--norc", "-c"],
        f"""
        source '{script}'; complete -p trade
        try() {{
            COMP_LINE=$1; COMP_POINT=${{#COMP_LINE}}; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trade_complete; echo "${{COMPREPLY[*]}}"
        }}
        try 'trade wallets ' trade wallets ''
        try 'trade agents list --status=a' trade agents list --status = a
        try 'trade help exi' trade help exi
        try 'trade $(touch pwned) ' trade '$(touch pwned)' ''
        """,
    )
    assert found == ["complete -F _trade_complete trade", "list connect balance", "active", "exit-codes", ""]
    assert not list(tmp_path.glob("**/pwned"))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh(trade: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "trade.zsh"
    script.write_text(SCRIPTS["zsh"])
    code = f"""
        compdef() {{ echo "$@" }}
        _describe() {{ print -l -- ${{(P)@[-1]}} }}; compadd() {{ print -l -- ${{(P)@[-1]}} }}
        source '{script}'
        words=(trade help exi); CURRENT=3; _trade; words=(trade agents list --status ''); CURRENT=5; _trade
    """
    found = in_shell(trade, tmp_path, ["zsh", "-f", "-c"], code)
    assert found == ["_trade trade", "exit-codes:What each exit code means.", "active", "idle", "paused", "error"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish(trade: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "trade.fish"
    script.write_text(SCRIPTS["fish"])
    code = f"source '{script}'; complete -C 'trade help exi'; complete -C 'trade agents list --status=a'"
    found = in_shell(trade, tmp_path, ["fish", "--no-config", "-c"], code)
    assert found == ["exit-codes\tWhat each exit code means.", "--status=active"]


def test_scripts_are_printed_and_have_no_path_of_this_machine(trade: Terminal) -> None:
    for shell, script in SCRIPTS.items():
        assert trade("completion", shell).out == script
        assert not re.search(r"/home|/work|/root|/usr", script)
