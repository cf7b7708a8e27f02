"""What to do next after an error: every code in Python, in `trade` and for a model; and it works when pasted."""

from __future__ import annotations

import re
import shlex
from typing import Any, cast, get_args

import pytest
import typer

from tradesdk import ErrorCode, PaymentRefusedError, TradeError
from tradesdk_cli.app import command
from tradesdk_cli.cli.group import LazyCommand
from tradesdk_cli.explain import problem_of
from tradesdk_cli.next_steps import BY_STATUS, FOR_A_MODEL, IN_TRADE, PERSON, UNKNOWN_OUTCOME

from .._payments import REJECTED, payment
from .._rows import each_of

CODES = get_args(ErrorCode)
KNOWN = {
    "python": "",
    "trade": "trade",
    "login": "trade login",
    "address": "TRADE_BASE_URL or --base-url",
    "lister": "trade agents list",
    "wait": "7 s",
    "chain": "bnb",
    "payment": "pay_1",
    "look": "trade pay show pay_1",
    "until": "10:00:00 UTC",
    "again": "to buy it again, give it another --purchase name",
    "fund": "add USDC on Base to the wallet",
}
USAGE_ERROR = typer.BadParameter.__bases__[0]
KNOWN_VALUES = {"USD": "5", "ADDRESS": "0x" + "ab" * 20, "PAYMENT_ID": "pay_1"}
LINE = re.compile(
    r"\btrade (?!help )[a-z]+(?: (?:[a-z][a-z-]*|--[a-z-]+(?: [A-Z0-9][\w.]*)?|pay_\w+|[A-Z_]+)(?=[ ;,:)]|$))*"
)


def in_trade(code: str) -> str:
    step = IN_TRADE[code]
    return TradeError("", code=cast(Any, code)).hint if step is None else step.format(**KNOWN)


def test_every_code_has_each_of_its_columns() -> None:
    assert set(IN_TRADE) == set(FOR_A_MODEL) == set(CODES)
    for code in CODES:
        error = TradeError("", code=code)
        assert all([error.meaning, error.hint, in_trade(code), FOR_A_MODEL[code]]), code
        assert error.meaning.isprintable()
        assert not re.search(r"\btrade [a-z]", error.hint), "a command, in words for Python"


@each_of("code", CODES)
def test_a_step_in_trade_names_nothing_of_python(code: str) -> None:
    found = in_trade(code)
    assert not re.search(r"\b(client|error|tradesdk)\.|\b[a-z]\w*=|\w\(\)|\(…\)", found), found


@each_of("code", [*CODES, *BY_STATUS, "unknown"])
def test_every_line_for_trade_is_one_that_the_program_takes(code: str | int) -> None:
    """By its own parser, and nothing is run."""
    text = in_trade(cast(str, code)) if code in CODES else str(BY_STATUS.get(cast(int, code), UNKNOWN_OUTCOME))
    for line in LINE.findall(text.format(**KNOWN)):
        assert_parses(line)


def assert_parses(line: str) -> None:
    found, words = cast(Any, command()), shlex.split(line)[1:]
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
        found = found.load() if isinstance(found, LazyCommand) else found
    # A command keeps the help option of its first context.
    found.make_context(line, [KNOWN_VALUES.get(word, word) for word in words], help_option_names=["-h", "--help"])


def test_the_parser_finds_what_is_wrong() -> None:
    for line in ("trade pay shw pay_1", "trade pay budget set --per-dy 5", "trade pay show"):
        with pytest.raises((KeyError, USAGE_ERROR)):
            assert_parses(line)
    assert LINE.findall("see what there is: trade pay history; or trade pay budget set --per-day 5 (once)") == [
        "trade pay history",
        "trade pay budget set --per-day 5",
    ]


@each_of("code", [code for code in CODES if not code.startswith(("stream", "checkpoint", "not_a_stream"))])
def test_what_is_shown_has_its_names_filled_in(code: str) -> None:
    for error in (
        TradeError("no", code=cast(Any, code)),
        PaymentRefusedError("no", code=cast(Any, code)),
        PaymentRefusedError("no", code=cast(Any, code), payment=payment(**REJECTED)),
    ):
        hint = problem_of(error, "trade --mock").hint
        assert hint
        assert "{" not in hint
        for line in LINE.findall(hint.replace("trade --mock", "trade")):
            assert_parses(line)


def test_a_model_is_sent_to_the_person_where_only_a_person_can_help() -> None:
    for code in ("no_budget", "no_signer", "unauthorized", "ledger_lost", "insufficient_funds"):
        assert FOR_A_MODEL[code] == PERSON
