"""Words that a reader has to guess at, and spellings that are not American, anywhere in the repository.

Docs, help and messages, comments and docstrings, descriptions and scripts: one table for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ._pages import PAGES, ROOT, blocks, name_of
from ._rows import each_of

FOLDERS = ("benchmarks", "docs", "examples", "mock_server", "scripts", "skills", "src", "tests")
KINDS = {"", ".css", ".json", ".lua", ".md", ".mjs", ".py", ".svg", ".toml", ".txt", ".yaml", ".yml"}
GENERATED = ROOT / "tests" / "_sync"
PLAIN = {  # each with the plain words for it
    "when nothing else is said": "by default",
    "were looked at": "were checked",
    "log in anew": "log in again",
    "begin anew": "start over",
    "begins anew": "starts over",
    "signed anew": "signed again",
    "hand a payment over": "resend a payment",
    "handing the same payment over": "resending the payment",
    "put the ledger in order": "resolve unfinished payments",
    "did not end well": "unfinished",
    "but what could be cashed": "without its signature",
    "takes the limit away": "removes the limit",
    "of each limit the strictest": "the strictest limit applies",
    "the strictest holds": "the strictest limit applies",
    "signs of life": "heartbeats",
    "sign of life": "heartbeat",
    "so often, and then no more": "at most N times",
    "let something go wrong": "inject a fault",
    "a no to a question": "you answered no",
    'a "no" to a question': "you answered no",
    "what is shown stays": "paused",
    "it is there, and nothing was sold": "the price is beyond, and nothing was sold",
    "whole, nothing in doubt": "consistent, no open payments",
    "all is well": "all checks passed",
    "as it should be": "all checks passed",
    "the time to live by": "clock to use",
    "with some chance in it": "with jitter",
    "may stand there once": "may appear once",
    "what strangers wrote": "untrusted text",
    'column "came"': "source",
    "rejected live": "rejected (may still be taken until its time)",
    "nothing of that name": "not found",
    "stands in": "is in",
    "stands what": "is what",
    "go on where": "continue",
    "goes on where": "continues",
    "a quarrel is settled": "is proof",
    "nobody watches": "unattended",
    "whoever is canceled": "a canceled call",
    "what comes of it": "the result",
    "the world's birth": "the start",
    "the mock's birth": "the mock's start",
    "slip of the fingers": "typing mistake",
    "for ever": "forever",
    "per cent": "percent",
    "belong into": "belong in",
    "belongs into": "belongs in",
    "go on with": "continue",
    "goes on with": "continues",
    "gone on with": "continued",
    "is no json": "is not JSON",
    "is no toml": "is not TOML",
    "nobody is there to be asked": "there is no terminal to ask on",
    "nobody shall": "nobody should",
    "which would pay twice": "which could pay twice",
    "lists page by themselves": "the client fetches all pages",
    "repeated blindly": "the client checks before it repeats a create",
    "by the books of": "the service counted",
    "follow from the time, so yours": "signals depend on the time",
    "apart from your real": "separate from your real",
    "or new text": "the service may add others",
    "text to sign is not documented": "the service does not document the text",
    "ids with other content.": "two different signals with one id",
    "broken off, too": "fail too",
    "was within them, too": "is also that recent",
    "in any case all but": "always",
    "is not by its address": "was not made by the address",
    "the history is not idle": "doesn't count as idle",
    "the nearest names are": "similar names are listed",
    "mistake in its form": "invalid",
    "are announced": "the command first says",
    "must say so": "must have it",
    "same line continues": "the same call continues",
    "position from that future": "a position opened at a later date",
    "text of strangers": "untrusted text",
    "set what may be spent": "change the budget",
    "limits are set with set": "use budget set",
    "as time goes": "in real time",
    "when somebody looks": "when they are read",
    "opens less": "opens fewer positions",
    "goes before what": "takes precedence over",
    "the same again:": "repeat it",
    "tables of cases": "tests",
    "what travels": "what is sent",
    "what there is to turn": "the settings",
    "is like that already": "already has these values",
    "ai agent": "AI client",
    "colour": "color",
    "behaviour": "behavior",
    "licence": "license",
    "authoris": "authoriz",
    "reorganis": "reorganiz",
}

IN_DOCS = {"flavour": "kind"}  # in code it is the word for "blocking or async"

# A sentence continues in the next literal, and in the next line of a comment or quote.
NEXT_LITERAL = re.compile(r"""(["'])\s*\n\s*[frb]{0,2}\1""")
NEXT_LINE = re.compile(r"\n[ \t]*(?:#+|--+|//+|>)")


def plain_words_for(text: str, table: dict[str, str] = PLAIN) -> dict[str, str]:
    """What of `table` is in `text`, wherever lines and literals end."""
    text = " ".join(NEXT_LINE.sub(" ", NEXT_LITERAL.sub("", text.lower())).split())
    there = [words for words in table if words in text]  # a pattern for each would take a hundred times as long
    return {words: table[words] for words in there if re.search(rf"(?<![\w-]){re.escape(words)}(?!y)", text)}


def files() -> Iterator[Path]:
    """Every text of the repository, but this one."""
    for place in (ROOT, *(ROOT / folder for folder in FOLDERS)):
        for file in sorted(place.glob("*") if place == ROOT else place.rglob("*")):
            known = file.suffix in KINDS and "node_modules" not in file.parts and GENERATED not in file.parents
            if known and file.is_file() and file != Path(__file__):
                yield file


@pytest.mark.long
def test_plain_words_everywhere() -> None:
    texts = {name_of(file): file.read_text(encoding="utf-8") for file in files()}
    for name in ("mock_server/tradesdk_mock/api/openapi.yaml", "README.md"):
        assert name in texts
    assert {name: found for name, text in texts.items() if (found := plain_words_for(text))} == {}


def test_plain_words_of_the_docs() -> None:
    """Outside of the blocks, which show code."""
    found: dict[str, dict[str, str]] = {}
    for page in PAGES:
        inside = {number for block in blocks(page) for number in range(block.start, block.end)}
        lines = page.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for number, line in enumerate(lines) if number not in inside)
        found[name_of(page)] = plain_words_for(text, IN_DOCS)
    assert {name: words for name, words in found.items() if words} == {}


@each_of(
    "text",
    [
        "By and large, all\nis   well.",
        '    "all is "\n    "well"',
        "    f'{name}: all is '\n    f'well'",
        "    # all is\n    # well",
        "-- all is\n-- well",
        "> all\n> is well",
        "All is well",
    ],
)
def test_words_in_parts_are_found(text: str) -> None:
    assert plain_words_for(text) == {"all is well": PLAIN["all is well"]}


def test_words_inside_of_others_are_not() -> None:
    assert plain_words_for("overall is well") == {}
