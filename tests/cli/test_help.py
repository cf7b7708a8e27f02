"""Every command has two examples, and every example works."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tradesdk_cli.commands.mock.serve as serve_command
from tradesdk import LocalSigner, create_keystore
from tradesdk.fleet import FleetRelay, create_tables
from tradesdk_cli.app import command
from tradesdk_cli.cli.group import LazyCommand
from tradesdk_cli.errors import INTERRUPTED
from tradesdk_mock import MockServer

from .._rows import each_of
from .._stock import stocked, stocked_worlds
from ._terminal import Terminal

KEY = "0x" + "5a" * 32
ASKED = [("agents", "create"), ("agents", "update"), ("agents", "delete"), ("wallets", "connect"), ("pay", "trust")]
"""Writes that somebody at a terminal says yes to: their examples do not."""


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    for name, found in group.commands.items():
        real = found.load() if isinstance(found, LazyCommand) else found
        if hasattr(real, "commands"):
            yield from leaves(real, (*path, name))
        else:
            yield (*path, name), real


def nouns(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Every group below `group`: the words that call it, what stands for it in the list above it, and itself."""
    for name, found in group.commands.items():
        real = found.load() if isinstance(found, LazyCommand) else found
        if hasattr(real, "commands"):
            yield (*path, name), found, real
            yield from nouns(real, (*path, name))


ROOT = command()
LEAVES = dict(leaves(ROOT))
EXAMPLES = {words: [line.strip() for line in leaf.epilog.splitlines()[2:]] for words, leaf in LEAVES.items()}


def test_two_examples_of_the_command_itself() -> None:
    for words in LEAVES:
        assert len(EXAMPLES[words]) == 2
        for line in EXAMPLES[words]:
            assert line.removeprefix("trade ").removeprefix("--mock ").startswith(" ".join(words))


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    """A world for the examples alone: they change it, and to signals that they emit agents of any tenant may act."""
    with MockServer(signals="scripted") as running:
        stocked(running)
        running.populate("shared", trades=60)
        running.set_plan("shared", "enterprise")
        yield running


@each_of("words", [(), *sorted({*LEAVES, *(words for words, _, _ in nouns(ROOT))})], ids=" ".join)
def test_help_fits_and_says_everything(trade: Terminal, words: tuple[str, ...]) -> None:
    run = trade(*words, "--help")
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("Usage: trade")
    assert len(words) > 1 or trade(*words, "-h").out == run.out
    before_examples = run.out.partition("Examples:")[0]
    assert all(len(line) <= 80 for line in before_examples.splitlines())
    for line in EXAMPLES.get(words, []):
        assert f"    {line}\n" in run.out
    for param in getattr(LEAVES.get(words), "params", []):
        assert getattr(param, "help", "argument") or param.param_type_name == "argument", f"{param.name} has no help"
    assert "--mock / --no-mock" not in run.out
    assert run.out.rstrip().partition("\n\n  Examples:")[0].endswith("trade help options")
    assert words or run.out.count("\n") <= 22, "the first page fits a terminal of 24 lines"


@pytest.mark.parametrize("line", ["agents create --help", pytest.param("", marks=pytest.mark.long)])
def test_help_without_docstrings(trade: Terminal, line: str) -> None:
    """`python -OO` drops them."""
    lines = [line] if line else ["--help", *(f"{' '.join(words)} --help" for words, _ in leaves(command()))]
    code = "import sys; from tradesdk_cli.__main__ import main; [main(line.split()) for line in sys.argv[1:]]"
    words = [sys.executable, "-OO", "-c", code, *lines]
    done = subprocess.run(words, env=trade.environment(), capture_output=True, text=True, timeout=300)  # our own code
    assert done.stderr == ""
    assert done.stdout == "".join(trade(*line.split()).out for line in lines)


def test_the_first_page_names_every_noun(trade: Terminal) -> None:
    rows = trade("--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert {name for row in rows for name in row[2:].split("  ")[0].split(", ")} == set(ROOT.commands)


def test_global_options_have_a_page(trade: Terminal) -> None:
    page = trade("help", "options").out
    assert all(option in page for option in ("-o, --output FORMAT", "--mock / --no-mock", "--curl"))
    assert all(len(line) <= 80 for line in page.splitlines())


def test_the_verbs_that_a_noun_is_said_to_have_are_its_verbs() -> None:
    for words, listed, real in nouns(ROOT):
        _, colon, verbs = listed.get_short_help_str().rstrip(".").partition(": ")
        named = [name for name, verb in real.commands.items() if not verb.hidden]
        assert not colon or set(verbs.split(", ")) <= set(named), words


def test_the_list_of_a_noun_says_of_a_verb_what_the_verb_says() -> None:
    lists = {words: real for words, _, real in nouns(ROOT)}
    lazy = {
        (*words, name): (found.short_help, found.load().help)
        for words, real in lists.items()
        for name, found in real.commands.items()
        if isinstance(found, LazyCommand)
    }
    assert ("mock", "serve") in lazy
    for words, (summary, full) in lazy.items():
        first = full.partition("\n\n")[0]
        assert summary == " ".join(first.split()), words


def in_doubt(trade: Terminal, later: int) -> str:
    """A payment in the mock world whose outcome is not known; with `later`, so many seconds ago."""
    stocked_worlds(trade.home, "default")
    trade("--mock", "mock", "fault", "add", "status", "--paid", "only", "--count", "1")
    run = trade("--mock", "market", "prices", "ETH", "--max-price", "0.03")
    trade("--mock", "mock", "clock", "--advance", str(later))
    found: str = run.problem["payment"]["id"]
    return found


def keystores_cost_nothing(trade: Terminal, patch: pytest.MonkeyPatch) -> None:
    password = trade.home / "password"
    password.write_text("a password")
    password.chmod(0o600)
    trade.env["TRADE_KEYSTORE_PASSWORD_FILE"] = str(password)
    patch.chdir(trade.home)
    patch.setitem(create_keystore.__kwdefaults__ or {}, "work", 2)


LISTED = {
    "AGENT_ID": "agents list --status idle",
    "WALLET_ID": "wallets list --chain base",
    "TRADE_ID": "trades list -n 1",
}
"""The list whose first id is put in an example for this word."""


def played() -> Iterator[Any]:
    """Every example. Quick is the first of two, where test_format_matrix.py does not call the command as well."""
    for words, lines in EXAMPLES.items():
        for place, line in enumerate(lines):
            is_long = place or words[0] in ("mock", "demo", "market", "pay")
            yield pytest.param(line, marks=[pytest.mark.long] if is_long else [])


@pytest.mark.parametrize("line", [*played(), "trade --mock agents list"])
def test_example(trade: Terminal, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(serve_command, "_wait_for", lambda stop: None)
    in_the_world = "--mock" in line
    changes = "AGENT_ID" in line or line.startswith(("trade agents create", "trade wallets connect"))
    own: Terminal = trade if in_the_world else request.getfixturevalue("own" if changes else "world")
    same = ("--mock",) if in_the_world else ()
    address = LocalSigner.from_key(KEY).address
    if line.split()[1] == "fleet":
        own.env["TRADE_FLEET"] = request.getfixturevalue("database")
        monkeypatch.setattr(FleetRelay, "run", lambda relay: print(relay))
        create_tables(own.env["TRADE_FLEET"])
    values = {"ADDRESS": address, "0x1a64…": address, "SIGNATURE": "0x" + "11" * 65}
    for name, command_line in LISTED.items():
        if name in line:
            values[name] = own(*same, "-o", "json", *command_line.split()).json[0]["id"]
    if "before.sqlite3" in line:
        values["before.sqlite3"] = str(own.home / "before.sqlite3")
        if "snapshot" not in line or "--force" in line:
            own(*same, "mock", "snapshot", values["before.sqlite3"])  # of the same world, which others go on using
    if "KEY_ID" in line:
        values["KEY_ID"] = own(*same, "mock", "key", "create", "--name", "example").json["id"]
    if "FAULT_ID" in line:
        values["FAULT_ID"] = own(*same, "mock", "fault", "add", "latency").json["id"]
    if "PAYMENT_ID" in line:
        values["PAYMENT_ID"] = in_doubt(own, later=3600 if "--mark" in line else 0)
    words, typed = shlex.split(line)[1:], ""
    if words[-2:] == ["<", "key.txt"]:
        words, typed = words[:-2], own.env["TRADE_API_KEY"] if words[0] == "login" else KEY
    if words[-2:-1] == [">"]:
        words = words[:-2]
    if words[0] in ("config", "logout"):
        for profile in {"work", "paper"}.intersection(words):
            own("login", "--mock", "--profile", profile)
    if words[:2] == ["pay", "key"]:
        keystores_cost_nothing(own, monkeypatch)
    argv = [values.get(word, word) for word in words]
    if argv[:2] == ["mock", "serve"]:
        argv += ["--port", "0"]  # the usual one may be taken on this machine
    if "mock agent stop" in line:
        own(*same, "mock", "agent", "start", values["AGENT_ID"])
    own.env["TRADE_WALLET_KEY"] = KEY
    if tuple(word for word in words if word != "--mock")[:2] in ASKED and "--dry-run" not in argv:
        argv.append("--yes")
    run = own(*argv, stdin=typed)
    if "SIGNATURE" in line:
        assert run.problem["code"] == "invalid_signature", "all that a made-up signature can be"
    else:
        ends = INTERRUPTED if "--follow" in argv else 0
        said = run.out or re.search("no |nobody |nothing |all ", run.err)
        assert (run.code, bool(said)) == (ends, True), run.err


NOUNS = sorted({" ".join(words[:-1]) for words in LEAVES if len(words) > 1} - {"mcp"})
"""But `mcp`, which serves."""


@each_of("noun", NOUNS)
def test_a_noun_alone_shows_its_help(own: Terminal, noun: str) -> None:
    alone, helped = own(*noun.split()), own(*noun.split(), "--help")
    assert (alone.code, alone.err, alone.out) == (0, "", helped.out)


@each_of(("noun", "last"), [("", "api, fleet"), ("pay", "trust"), ("pay key", "accept-secret"), ("mock", "restore")])
def test_what_is_rarely_used_stands_last(own: Terminal, noun: str, last: str) -> None:
    commands = own(*noun.split(), "--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    names = [line[2:].partition("  ")[0] for line in commands if line[2] != " "]
    assert names[-1] == last
    assert noun != "mock" or names[-4:] == ["key", "tenant", "snapshot", "restore"]
