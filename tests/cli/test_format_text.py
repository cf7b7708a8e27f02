"""What values look like in CSV and TSV: read back they are the same, and spreadsheets run nothing."""

import csv
import io
import json
import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_cli.output.formats import Rows, as_rows, cells_of, flatten, harmless, with_times
from tradesdk_cli.output.stderr import broken
from tradesdk_cli.text import one_line, to_json, visible

from .._rows import each_of
from .._texts import WEAPONS, texts

ODD = [
    *("", " ", "a ", " a", "y", "No", "on", "TRUE", "null", "~", ".inf", ".nan", "1", "1_000", "0x1f", "0o17", "1e5"),
    *("2026-01-01", "2026-01-01T12:00:00Z", "12:30:45", "1.5", "-", "- a", "a: b", "a #b", "#a", "&a", "*a", "!a", "|"),
    *(">", "%a", "@a", "`a", "'a'", '"a"', "{a}", "[a]", "?", "? a", ":", "a:", "---", "...", "=", "<<", "é", "漢字 a"),
    *(
        "a\nb",
        'a "b",\n\nc\n',
        "a\n=b",
        "\t",
        "a\\b",
        "\x85",
        "\u2028",
        "\ufeff",
        "😀",
        *WEAPONS.values(),
    ),
]
TEXT = st.one_of(st.sampled_from(ODD), texts(max_size=12))
NUMBER = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.just(-0.0))
SCALAR = st.one_of(st.none(), st.booleans(), NUMBER, TEXT)
MULTILINE = re.compile(r"(?:[A-Za-z0-9 ,\"]*\n)*[A-Za-z0-9 ,\"]*")
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r]")


def printable(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


WORDS = st.lists(
    st.sampled_from(["a", "price", "(trade", "trade", "pay", "resume", "TRADE_X=1", "or:", "no;", "x" * 30])
)


@given(WORDS, st.integers(20, 60))
def test_a_line_breaks_at_words_and_never_in_a_command(words: list[str], columns: int) -> None:
    lines = broken(" ".join(words), columns)
    assert " ".join(lines).split() == words
    inside = False
    for line in lines:
        pieces = line.split()
        assert not inside, "a command goes on in the next line"
        for word in pieces:
            inside = (inside or word in ("trade", "(trade")) and word[-1] not in ":;"
        commands = [at for at, word in enumerate(pieces) if word in ("trade", "(trade")]
        assert len(line) <= columns or len(pieces) == 1 or commands, "only one word, or a command, may be longer"
        inside = inside and line is not lines[-1]


@each_of(
    ("text", "lines"),
    [
        (
            "look at one: trade approve CODE, or --refuse CODE",
            ["look at one:", "trade approve CODE,", "or --refuse CODE"],
        ),
        (
            "then: TRADE_RPC_URL=https://a.b trade pay reconcile",
            ["then:", "TRADE_RPC_URL=https://a.b trade pay reconcile"],
        ),
        ("log in (trade login): keys are made there", ["log in", "(trade login): keys", "are made there"]),
    ],
)
def test_a_command_can_be_pasted_from_a_narrow_terminal(text: str, lines: list[str]) -> None:
    assert broken(text, 20) == lines


MOMENTS = st.one_of(st.integers(-(10**10), 4 * 10**10), st.floats(0, 4e9).map(lambda one: round(one, 6)))


@given(MOMENTS, st.sampled_from(["opened_at", "timestamp", "stats.updated_at", "createdAt", "at"]))
def test_a_moment_is_the_same_in_each_form(moment: float, name: str) -> None:
    iso = Rows("csv", [name]).row({name: moment}).strip()
    assert iso.endswith("Z")
    assert datetime.fromisoformat(iso).timestamp() == pytest.approx(moment, abs=1e-6)
    assert Rows("csv", [name], "unix").row({name: moment}).strip() == to_json(moment).removesuffix(".0")
    assert with_times({"a": [{name.rpartition(".")[2]: iso}], "id": iso}, "unix") == {
        "a": [{name.rpartition(".")[2]: pytest.approx(moment, abs=1e-6)}],
        "id": iso,
    }
    assert with_times({name: moment}, "iso") == {name: iso}


@given(SCALAR, st.sampled_from(["opened_at", "id"]))
def test_what_is_no_moment_stays(value: Any, name: str) -> None:
    is_moment = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_moment or name == "id":
        assert with_times({name: value}, "iso") == {name: value}


@given(st.lists(st.dictionaries(TEXT, SCALAR, min_size=1, max_size=4), min_size=1, max_size=4))
def test_csv_and_tsv_read_back_and_are_safe(items: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for item in items for name in item))
    for form, dialect in (("csv", "excel"), ("tsv", "excel-tab")):
        rows = Rows(form, names)
        text = rows.header() + "".join(rows.row(item) for item in items)
        assert printable(text.replace("\t", ""))
        assert form == "csv" or text.count("\n") == len(items) + 1, "a line each, whatever is in it"
        if form == "tsv" and len(names) == 1:
            continue  # an empty line is one empty cell, but readers leave it out
        read = list(csv.reader(io.StringIO(text), dialect))
        assert read[0] == [harmless(name) for name in names]
        for item, cells in zip(items, read[1:], strict=True):
            for name, cell in zip(names, cells, strict=True):
                value = item.get(name)
                if isinstance(value, str):
                    assert cell == harmless(value, lines=form == "csv")
                    assert form == "tsv" or not MULTILINE.fullmatch(value) or cell == value, "line breaks are kept"
                    assert not FORMULA.match(cell) or re.fullmatch(r"-\d+(\.\d+)?", cell)
                else:
                    assert cell == ("" if value is None else to_json(value)), "numbers stay numbers"


@each_of("start", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "  =", " @", "x; =", 'x;"='])
def test_formulas_become_text(start: str) -> None:
    assert "'" in harmless(f"{start}HYPERLINK(1)")
    assert harmless(f"{start}A1").replace("'", "") == f"{start}A1"


@each_of("start", ["\t", "\r", "\n", "\u00a0", "\u200b", "\ufeff"])
def test_what_hides_a_formula_is_shown(start: str) -> None:
    assert harmless(f"{start}=1").startswith("\\")


def test_numbers_in_text_are_no_formulas() -> None:
    assert [harmless(text) for text in ("-1.50", "-7", "-1-1", "+1", "a=b", "a-b")] == [
        *("-1.50", "-7", "'-1-1", "'+1", "a=b", "a-b")
    ]


def test_quotes_in_csv() -> None:
    rows = Rows("csv", ("a", "b", "c", "d", "e"))
    row = {"a": 'say "hi"', "b": "1,5", "c": "", "d": None, "e": " x"}
    assert rows.row(row) == '"say ""hi""","1,5","",," x"\n'
    assert Rows("csv", ("a",)).row({"a": None}) == '""\n', "else it would be an empty line"
    assert Rows("tsv", ("a", "b")).row({"a": '"x', "b": 'y"'}) == '"""x"\ty"\n'


@each_of("form", ["csv", "tsv"])
def test_a_header_is_read_back(form: str) -> None:
    names = ["id", "risk.stop_loss_pct", "my field", "a,b", '"quoted"']
    assert cells_of(form, Rows(form, names).header().encode()) == names


def test_flat_names() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": []}, "e": {}}) == {"a.b.c": 1, "a.d": [], "e": {}}
    assert as_rows([[1, 2], [3]]) == [{"1": 1, "2": 2}, {"1": 3}]
    assert as_rows([1, {"a": 2}]) == [{"value": 1}, {"value": {"a": 2}}]


# Text that is visible and JSON that is safe


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
