"""`trade help`: topics that are true, and the help of every command."""

import re
import shlex
from pathlib import Path
from typing import get_args

import tradesdk
import tradesdk_cli
import tradesdk_mock
from tradesdk import ErrorCode, TradeError
from tradesdk.payments.budget import LIMITS
from tradesdk_cli import errors
from tradesdk_cli.app import command
from tradesdk_cli.cli.group import LazyCommand
from tradesdk_cli.cli.topics import TOPICS
from tradesdk_cli.cli.topics import topic as read_topic

from .._rows import each_of
from ._terminal import Terminal

PACKAGES = [Path(package.__file__).parent for package in (tradesdk, tradesdk_cli, tradesdk_mock) if package.__file__]
OURS = {"TRADE_ID"}  # the name of an argument


def test_the_topics_are_listed(trade: Terminal) -> None:
    for words in (("help",), ("help", "topics")):
        run = trade(*words)
        assert run.code == 0
        assert [line.split()[0] for line in run.out.splitlines()[1 : 1 + len(TOPICS)]] == list(TOPICS)


@each_of("topic", list(TOPICS))
def test_a_topic_fits_every_terminal(trade: Terminal, topic: str) -> None:
    run = trade("help", topic)
    assert (run.code, run.err) == (0, "")
    assert all(len(line) <= 80 for line in run.out.splitlines())
    assert trade("help", topic, tty=True).out == run.out, "the same in a pipe, for less"
    assert run.out.strip() == run.out.rstrip("\n")
    narrow = trade("help", topic, columns=50)
    indented = [line for line in narrow.out.splitlines() if line.startswith("  ")]
    assert all(len(line) <= 50 for line in narrow.out.splitlines() if line not in indented)


def first_column(topic: str) -> list[str]:
    return [
        line.partition("\t")[0].strip() for part in read_topic(topic)[1] for line in part.split("\n") if "\t" in line
    ]


def test_exit_codes_are_all_of_them() -> None:
    known = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert [int(code) for code in first_column("exit-codes")] == sorted(known | {0})


def test_every_variable_that_is_read_is_listed_and_no_other() -> None:
    source = "".join(path.read_text() for package in PACKAGES for path in package.rglob("*.py"))
    found = set(re.findall(r"(?<![A-Z_])TRADE_[A-Z]+(?:_[A-Z]+)*\b(?!_)", source)) - OURS
    found |= {f"TRADE_BUDGET_{name.upper()}" for name in LIMITS}
    listed = set(first_column("environment"))
    assert {name for name in found if name != "TRADE_BUDGET"} == {name for name in listed if name.startswith("TRADE_")}
    assert {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"} <= listed


def test_commands_and_options_in_the_topics_are_there() -> None:
    root = command()
    for topic in TOPICS:
        for line in re.findall(r"^  trade (.+)$", "\n".join(read_topic(topic)[1]), re.M):
            words = shlex.split(line, comments=False)
            here, options = root, {name for param in root.params for name in param.opts}
            for word in words:
                below = getattr(here, "commands", {}).get(word)
                if below is not None:
                    here = below.load() if isinstance(below, LazyCommand) else below
                    options |= {name for param in here.params for name in param.opts}
            assert not hasattr(here, "commands"), line
            assert {word for word in words if word.startswith("--")} <= options, line


@each_of("words", [("agents",), ("agents", "list"), ("mock", "fault", "add"), ("demo",), ("help",)])
def test_the_help_of_a_command(trade: Terminal, words: tuple[str, ...]) -> None:
    assert trade("help", *words).out == trade(*words, "--help").out


@each_of(
    ("line", "hint"),
    [
        ("paymnts", "did you mean trade help payments"),
        ("agent", "did you mean trade help agents"),
        ("agents xyz", "its verbs: list, get, "),
        ("xyz", "there are: output, options, "),
        ("payments agents", "trade help payments"),
        ("exit codes 2", "trade help exit-codes"),
    ],
)
def test_what_there_is_no_help_about(trade: Terminal, line: str, hint: str) -> None:
    run = trade("help", *line.split())
    assert (run.code, run.problem["code"]) == (2, "usage")
    assert hint in run.problem["hint"]


@each_of("words", ["exit codes", "exit-code", "payment", "TIMES", "time", "stream"])
def test_nearly_the_name_of_a_topic_is_enough(trade: Terminal, words: str) -> None:
    run = trade("help", *words.split())
    assert run.code == 0
    assert run.out.count("\n") > 10


@each_of("code", get_args(ErrorCode))
def test_the_code_of_an_error_is_a_topic(trade: Terminal, code: ErrorCode) -> None:
    run = trade("help", code)
    assert run.code == 0
    text = " ".join(run.out.split())
    assert text.startswith(f"{code}: {TradeError('', code=code).meaning} next: ")
    assert "{" not in text
