"""Nothing in a stranger's text may act on a terminal or change a value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_cli.text import one_line, to_json, visible

from .._rows import each_of

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@each_of(
    ("text", "shown"),
    [
        ("plain äöü 漢字 🙂", "plain äöü 漢字 🙂"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY_TEXT)
def test_visible_is_always_printable_and_one_line(text: str) -> None:
    assert visible(text).isprintable()
    assert one_line(text).isprintable()


def test_visible_cuts_before_it_escapes() -> None:
    assert visible("x" * 50, 10) == "x" * 9 + "…"
    assert visible("x" * 10, 10) == "x" * 10


@given(ANY_TEXT, st.booleans())
def test_json_is_safe_and_unchanged(text: str, ascii_only: bool) -> None:
    line = to_json({"k": [text]}, ascii_only=ascii_only)
    assert line.isprintable()
    assert not ascii_only or line.isascii()
    # json.dumps writes a pair of lone surrogates like the character they would make together.
    assert json.loads(line)["k"][0].encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


def test_json_refuses_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(float("nan"))
