"""Every command in every format: it reads back, nothing is cut, every id can be pasted back, CSV opens safely."""

from collections.abc import Iterator

import pytest

from tradesdk import TradeClient
from tradesdk_mock import MockServer

from ._matrix import CALLS, CODES, FORMS, NO_DATA, SILENT, Things, handed, settle_in, shop
from ._reading import check, ids
from ._terminal import Terminal
from .test_help import LEAVES, keystores_cost_nothing

ALL = [(words, form) for words in CALLS for form in FORMS]
COSTLY = (
    "wallets connect",
    "pay reconcile",
    "top",
    "doctor",
    "mock snapshot",
    "mock restore",
    "mock tenant",
)
SAMPLE = [
    (words, FORMS[place % len(FORMS)])
    for place, words in enumerate(words for words in CALLS if not words.startswith(COSTLY))
]
REST = [cell for cell in ALL if cell not in SAMPLE]
TABLES_WITHOUT_IDS = {
    "top": "a board",
    "plot token": "a picture",
    "plot agent": "a picture",
}
"""What people see where programs see objects."""
ANEW = ("mock fault remove",)
"""What draws a table of its own, and would find nothing when it is asked again."""


def named(cell: tuple[str, str]) -> str:
    return f"{cell[0].replace(' ', '_')}-{cell[1]}"


@pytest.fixture(scope="module")
def everything() -> Iterator[MockServer]:
    with shop() as running:
        yield running


@pytest.fixture
def things(trade: Terminal, everything: MockServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Things]:
    settle_in(trade, everything)
    keystores_cost_nothing(trade, monkeypatch)
    with TradeClient(api_key=trade.env["TRADE_API_KEY"], base_url=everything.url) as client:
        yield Things(trade, client)


def test_every_command_is_in_the_table() -> None:
    assert set(CALLS) | set(NO_DATA) == {" ".join(words) for words in LEAVES}
    assert not set(CALLS) & set(NO_DATA)
    assert all(NO_DATA.values())
    assert {form for _, form in SAMPLE} == set(FORMS)


def play(things: Things, patch: pytest.MonkeyPatch, words: str, form: str) -> None:
    argv, typed = things.argv(words)
    with handed(patch) as found:
        run = things.trade(*argv, "-o", form, stdin=typed)
    if words == "signals stream" and form == "json":
        assert (run.code, run.problem["code"]) == (2, "usage")
        return
    assert run.code in CODES.get(words, (0,)), run.err
    if form != "table":
        assert all(isinstance(note, dict) for note in run.notes), "and so is what stands beside it"
        assert len(found) == 1 or words in SILENT
    for each in found[:1]:
        check(form, run, each)
    if form == "table":
        assert run.out or words in SILENT
        value = found[0].value if found else [] if words in ANEW else things.trade(*argv, "-o", "json").json
        cut = [name for name in ids(value) if name not in run.out and name[:-4] in run.out]
        assert not cut, "an id stands there whole, or not at all"
        missing = [item["id"] for item in (value if isinstance(value, list) else [value]) if "id" in item]
        assert words in TABLES_WITHOUT_IDS or all(name in run.out for name in missing), "every id can be pasted back"


@pytest.mark.parametrize(("words", "form"), SAMPLE, ids=map(named, SAMPLE))
def test_a_sample(things: Things, monkeypatch: pytest.MonkeyPatch, words: str, form: str) -> None:
    play(things, monkeypatch, words, form)


@pytest.mark.long
@pytest.mark.parametrize(("words", "form"), REST, ids=map(named, REST))
def test_every_command_in_every_format(things: Things, monkeypatch: pytest.MonkeyPatch, words: str, form: str) -> None:
    play(things, monkeypatch, words, form)
