"""Which of two settings of a shared ledger is the one to go by."""

from __future__ import annotations

import itertools
import json

import pytest

from tradesdk import Budget
from tradesdk._fleet import ledger_settings as settings

from .._rows import each_of

A, B, C = "0x" + "a" * 40, "0x" + "B" * 40, "0x" + "c" * 40
LOW, HIGH, NONE = Budget(total="0.09"), Budget(total="0.50", per_call="0.01"), Budget()
EXACT = Budget(total="0.09", per_call="0.01")


def budget(value: Budget, at: int) -> str:
    """A budget of a time; of 0, as it was stored before there were times."""
    row = json.loads(settings.budget_text(value, None, at))
    return json.dumps(row if at else row[:-1])


BUDGETS = {
    "the newer one, though it allows more": ((LOW, 5), (HIGH, 6), HIGH),
    "the newer one, which allows less": ((HIGH, 5), (LOW, 6), LOW),
    "removed later": ((LOW, 5), (NONE, 6), NONE),
    "set again later": ((NONE, 5), (LOW, 6), LOW),
    "unlimited later": ((LOW, 5), (Budget.unlimited(), 6), Budget.unlimited()),
    "at the same time": ((LOW, 5), (HIGH, 5), EXACT),
    "one without a time": ((LOW, 0), (HIGH, 6), EXACT),
    "removed at an unknown time": ((LOW, 6), (NONE, 0), LOW),
    "both without a time": ((LOW, 0), (HIGH, 0), EXACT),
    "the same": ((LOW, 5), (LOW, 5), LOW),
    "a release that holds more": ((Budget(total="1", release="service"), 0), (Budget(total="1"), 0), Budget(total="1")),
}


@each_of("name", BUDGETS)
def test_budgets(name: str) -> None:
    one, other, expected = BUDGETS[name]
    for own, found in ((one, other), (other, one)):
        text = settings.joined(settings.BUDGET, budget(*own), budget(*found))
        assert settings.budget_of(text) == expected
        for again in (budget(*one), budget(*other)):  # once more, from the journals of others
            assert settings.budget_of(settings.joined(settings.BUDGET, again, text)) == expected


def test_a_change_is_later_than_the_one_before_whatever_the_clock_says() -> None:
    text = settings.budget_text(LOW, None, 1000)
    for now in (2000, 1500, 0):
        later = settings.budget_text(HIGH, text, now)
        for own, found in ((text, later), (later, text)):
            assert settings.joined(settings.BUDGET, own, found) == later
        text = later
    assert json.loads(settings.budget_text(LOW, budget(HIGH, 0), 7))[-1] == 7


RECIPIENTS = {
    "one more": ([(A, 1.0)], [(A, 1.0), (B, 2.0)], {A, B}),
    "the same, written differently": ([(B, 1.0)], [(B.lower(), 1.0)], {B}),
    "none": ([], [(A, 1.0)], {A}),
    "each has one of its own": ([(A, 1.0), (B, 2.0)], [(A, 1.0), (C, 3.0)], {A}),
    "none in common": ([(A, 1.0)], [(C, 3.0), (B, 4.0)], {A}),
    "none in common, of the same time": ([(A, 1.0)], [(C, 1.0)], {A}),
}


@each_of("name", RECIPIENTS)
def test_recipients(name: str) -> None:
    one, other, expected = RECIPIENTS[name]
    for own, found in itertools.permutations((one, other)):
        text = settings.joined(
            settings.trusted_for("https://x"), settings.recipients_text(own), settings.recipients_text(found)
        )
        assert {address.lower() for address, _ in settings.recipients(text)} == {one.lower() for one in expected}


@each_of("name", [settings.BUDGET, settings.trusted_for("https://x")])
def test_what_only_one_has(name: str) -> None:
    text = budget(LOW, 5) if name == settings.BUDGET else settings.recipients_text([(A, 1.0)])
    assert settings.joined(name, text, None) == settings.joined(name, text, text) == text


@each_of(
    ("name", "text"),
    [
        ("wrong", "[]"),
        *((settings.BUDGET, text) for text in ("", "{}", "[]", "7", "[1,2,3,4,0]", '["9",null,null,null,0,"proof",1]')),
        (settings.BUDGET, '[null,null,null,null,0,"proof",1.5]'),
        (settings.BUDGET, '[null,null,null,null,0,"proof",1,2]'),
        *(("trusted:x", text) for text in ("", "{}", '["0x"]', '[["0x"]]', "[[1,2]]", '[["0x","1"]]', "[[]]")),
    ],
)
def test_what_cannot_be_read(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        settings.joined(name, text, None)
