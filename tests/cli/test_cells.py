"""What people see: money, times and shares made readable, and columns that stay straight whatever is in them."""

import io
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tradesdk_cli.output import columns as tables_of
from tradesdk_cli.output.cells import ago, cell, moment, price, short_ago
from tradesdk_cli.output.columns import POSITIONS, Column, kind_of
from tradesdk_cli.output.table import GrowingTable, render_list, render_one

from .._rows import each_of
from ._services import Scripted, agent
from ._terminal import Terminal
from .test_top import filled, lines_of

NOON = 1767268800.0
KINDS = ("id", "text", "state", "number", "share", "usd", "price", "rate", "pnl", "change", "percent", "time", "chain")
ODD = st.sampled_from(
    [
        *"a漢😀🏽é\u0301\u0e47\u200b\u200d\u202e\u2066\ufe0f\ufe0e\u1160\u3164\u00ad\ud800\x1b\x9b\0\r\n\t אب",
        "🇩",
        "🇩🇪",
        "👩🏽‍🚀",
    ]
)
TEXTS = st.lists(st.one_of(ODD, st.characters(codec=None, exclude_categories=())), max_size=60).map("".join)
IDS = st.from_regex(r"[a-z]{3}_[0-9a-f]{1,24}", fullmatch=True, alphabet=string.ascii_lowercase + string.digits + "_")


# Values


@each_of(
    ("kind", "value", "style"),
    [
        ("to_stop", -0.4, "red"),
        ("to_stop", -4.0, ""),
        ("to_profit", 0.4, "green"),
        ("to_profit", 9.0, ""),
        ("to_stop", 0.1, "red"),
    ],
)
def test_a_color_says_that_a_stop_is_near(kind: Any, value: float, style: str) -> None:
    assert str(cell(kind, value).style) == style


@each_of(
    ("kind", "value", "shown"),
    [
        ("pnl", 5.0, "+$5.00"),
        ("pnl", -1234.5, "-$1,234.50"),
        ("pnl", -0.0, "$0.00"),
        ("pnl", -0.001, "$0.00"),
        ("pnl", 1e308, "+$1e+308"),
        ("change", 6.23, "+6.23%"),
        ("change", -3.6449, "-3.64%"),
        ("percent", 34.15, "34.15%"),
        ("percent", -1.5, "-1.50%"),
        ("usd", 1234.5, "$1,234.50"),
        ("usd", -2.0, "-$2.00"),
        ("usd", 380e9, "$380,000,000,000"),
        ("usd", "0.000001", "$0.000001"),
        ("usd", "-1234.50", "-$1,234.50"),
        ("usd", "a lot", "a lot"),
        ("usd", None, "-"),
        ("price", 0.009716, "$0.009716"),
        ("price", -0.5, "-$0.5000"),
        ("rate", 0.0004205, "0.0004205"),
        ("share", 0.9, "0.900"),
        ("share", 1e300, "1e+300"),
        ("number", 100000, "100,000"),
        ("number", 4186.5443, "4,186.5443"),
        ("number", 3.0, "3"),
        ("chain", 8453, "base"),
        ("chain", 99, "99"),
        ("time", NOON, "2026-01-01 12:00:00Z"),
        ("time", "2026-01-01T12:00:00.123Z", "2026-01-01 12:00:00Z"),
        ("time", "2026-01-01T12:00:00", "2026-01-01T12:00:00"),
        ("time", "soon", "soon"),
        ("time", True, "true"),
        ("text", {"a": "\x1b"}, '{"a":"\\u001b"}'),
        ("text", "love ❤\ufe0f", "love ❤"),
        ("number", "\x1b[2J", "\\x1b[2J"),
    ],
)
def test_cells(kind: Any, value: Any, shown: str) -> None:
    assert cell(kind, value).plain == shown


def test_gains_and_losses_have_a_color_and_nothing_has_none() -> None:
    assert [cell("pnl", value).style for value in (1.0, -1.0, 0.001, -0.001)] == ["green", "red", "", ""]
    assert [cell("change", value).style for value in (1.0, -1.0, 0.0)] == ["green", "red", ""]


@each_of(
    ("value", "shown"),
    [
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (3912.444, "3,912.44"),
        (1.23456, "1.2346"),
        (0.101, "0.1010"),
        (0.00001234, "0.00001234"),
        (1e-12, "0.000000000001000"),
        (1e308, "1e+308"),
        (5e-324, "4.941e-324"),
    ],
)
def test_prices_have_enough_digits(value: float, shown: str) -> None:
    assert price(value) == shown


@each_of(
    ("seconds", "told"),
    [
        (0, "now"),
        (0.9, "now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (47.9 * 3600, "47 h ago"),
        (48 * 3600, "2 d ago"),
        (400 * 86400, "400 d ago"),
        (4000 * 86400, "4,000 d ago"),
        (-7200, "in 2 h"),
        (-90, "in 1 min"),
    ],
)
def test_how_long_ago(seconds: float, told: str) -> None:
    assert ago(NOON - seconds, NOON) == told


def test_in_a_list_what_is_far_away_is_a_date() -> None:
    assert short_ago(NOON - 29 * 86400, NOON) == "29 d ago"
    assert short_ago(NOON - 31 * 86400, NOON) == "2025-12-01"
    assert short_ago(1e18, NOON) == "1e+18"
    assert cell("time", NOON - 60, NOON).plain == "1 min ago"
    assert cell("moment", NOON - 60, NOON).plain == "2026-01-01 11:59:00Z"
    assert moment(1e20) == "1e+20"


@pytest.mark.long
@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers()), st.sampled_from(KINDS))
def test_no_number_is_too_much(value: float, kind: Any) -> None:
    shown = cell(kind, value, NOON).plain
    assert shown.isprintable()
    assert len(shown) <= 40 or kind in ("id", "chain", "text", "state", "number", "time", "moment")
    assert "-$0.00" != shown != "-0.00%"


def test_kinds_by_name() -> None:
    known = {
        "created_at": "time",
        "stop_loss_pct": "percent",
        "left_today_usd": "usd",
        "price_usd": "price",
        "exit_price_usd": "price",
        "last_price": "price",
        "take_profit_price": "trigger",
        "signalPriceEth": "rate",
        "balance": "number",
        "email": "id",
    }
    assert {name: kind_of(name) for name in known} == known
    assert (cell("trigger", 0).plain, cell("price", 0).plain) == ("-", "$0.00")


# One thing


def drawn(draw: Any) -> list[str]:
    stream = io.StringIO()
    draw(Console(file=stream, no_color=True, width=100_000))
    return [line.rstrip(" ") for line in stream.getvalue().splitlines()]


def test_a_list_on_a_terminal_tells_times_from_now(world: Terminal) -> None:
    person = world("signals", "latest", "--chain", "base", "-n", "3", tty=True, columns=120, env={"NO_COLOR": "1"})
    assert all("ago" in line.split() for line in person.out.splitlines()[1:]), person.out
    assert " ago" not in world("signals", "latest", "--chain", "base", "-n", "3", "-o", "table").out


def shown(item: dict[str, Any], width: int | None) -> list[str]:
    return drawn(lambda console: render_one(console, item, width))


def test_how_much_is_used_is_a_number() -> None:
    usage = {"requests": {"used": 42, "limit": 100_000}}
    assert shown(usage, 80) == ["requests.used   42", "requests.limit  100,000"]


def test_values_stand_in_line_behind_names_of_any_width() -> None:
    item = {"漢": "1", "abcd": "2"}
    assert shown(item, None) == shown(item, 18) == ["漢    1", "abcd  2"]
    assert shown(item, 17) == ["漢", "  1", "abcd", "  2"]
    assert shown({"n" * 50: "1", "a": "2"}, None) == ["n" * 50 + "  1", "a" + " " * 39 + "  2"]


def test_how_far_the_stops_are() -> None:
    position = {"current_price_usd": 100.0, "stop_loss_price": 90.0, "trailing_stop_price": 95.0}
    columns = {column.key: column for column in POSITIONS}
    assert columns["to_stop"].value(position) == pytest.approx(-5.0)
    assert columns["to_profit"].value(position) is None
    assert columns["to_stop"].value({**position, "trailing_stop_price": None}) == pytest.approx(-10.0)
    for odd in (0.0, -1.0, 5e-324, None, "1"):
        assert columns["to_stop"].value({**position, "current_price_usd": odd}) is None
    passed = columns["to_stop"].value({**position, "current_price_usd": 93.0})
    assert (passed > 0, str(cell("to_stop", passed)), str(cell("to_profit", -0.1))) == (True, "passed", "passed")


def test_a_field_has_one_heading_in_all_tables() -> None:
    """One thing that is shown alone has the names of its fields, and so do the lists inside it (`NESTED`)."""
    tables = [table for table in (*vars(tables_of).values(), *tables_of.MARKET.values()) if isinstance(table, tuple)]
    headings: dict[str, set[str]] = {}
    for column in (column for table in tables for column in table if isinstance(column, Column)):
        headings.setdefault(column.key, set()).add(column.heading)
    assert {key: found for key, found in headings.items() if len(found) > 1} == {}
    shown = [line.split() for line in lines_of(filled(), 200, 60)]
    for keys in (
        "name status open total_pnl_usd unrealized_pnl_usd win_rate_pct total_trades chain_id id",
        "token_symbol unrealized_pnl_usd to_stop to_profit current_price_usd agent opened_at entry_price_usd id",
        "timestamp direction token_symbol confidence price_usd chain_id token_address",
    ):
        assert [min(headings.get(key, {key})) for key in keys.split()] in shown


def test_a_very_narrow_terminal_has_the_value_below_the_name(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent("calm")]})
    lines = trade("agents", "list", tty=True, columns=20, env={"NO_COLOR": "1"}).out.splitlines()
    assert lines[:4] == ["id", "  agt_1", "name", "  calm"]
    service.says(200, {"data": [agent("calm"), agent("wild")]})
    two = trade("agents", "list", tty=True, columns=20, env={"NO_COLOR": "1"}).out.splitlines()
    assert two[: len(lines) + 2] == [*lines, "", "id"], "a blank line between them"
    service.says(200, agent("calm", risk={}, min_confidence=0.5, max_positions=1))
    lines = trade("agents", "get", "agt_1", tty=True, columns=20, env={"NO_COLOR": "1"}).out.splitlines()
    assert lines[:4] == ["id", "  agt_1", "name", "  calm"]


def test_a_terminal_that_can_little_and_a_pipe_cut_nothing(world: Terminal) -> None:
    for line in ("agents list -o table", "trades list -n 3 -o table"):
        whole = world(*line.split()).out
        assert world(*line.split(), env={"TERM": "dumb", "COLUMNS": "40"}).out == whole
        for row in world(*line.split()[:-2], "-o", "json").json:
            assert row["id"] in whole.split()


# Straight columns

ROWS = st.lists(
    st.fixed_dictionaries({"id": IDS, "name": TEXTS, "side": TEXTS, "price": st.floats(allow_nan=False), "at": TEXTS}),
    min_size=1,
    max_size=4,
)
COLUMNS = (
    Column("name"),
    Column("side", "state"),
    Column("at", "time"),
    Column("price", "price"),
    Column("id", "id"),
    Column("end", "id", of=lambda row: "END"),
)


def straight(lines: list[str], ends: tuple[str, ...] = ("END", "end")) -> None:
    places = {cell_len(line[: -len(ends[0])]) for line in lines}
    assert all(line.endswith(ends) for line in lines), lines
    assert len(places) == 1, lines


def test_ids_are_shortened_where_that_shows_more_and_stay_apart() -> None:
    columns = (Column("id", "id", short=True), Column("name"), Column("at", "id", optional=True))
    rows = [{"id": f"agt_1cee9c02f9{end}dee7667e2b87f", "name": "a", "at": "2026-10-21"} for end in "012"]
    whole = drawn(lambda console: render_list(console, columns, rows, 46))
    assert whole[1] == "agt_1cee9c02f90dee7667e2b87f  a     2026-10-21"
    short = drawn(lambda console: render_list(console, columns, rows, 45))
    assert short[1:] == [f"agt_1cee9c02f9{end}…  a     2026-10-21" for end in "012"]
    assert drawn(lambda console: render_list(console, columns[:2], rows, 36))[1] == "agt_1cee9c02f90dee7667e2b87f  a"
    early = [{**row, "id": f"agt_{end}cee9c02f91dee7667e2b87f"} for end, row in enumerate(rows)]
    assert drawn(lambda console: render_list(console, columns, early, 45))[1] == "agt_0cee9c02…  a     2026-10-21"
    for width, ident in ((None, rows[0]["id"]), (46, rows[0]["id"]), (45, "agt_1cee9c02f90d…")):
        table = GrowingTable((columns[0], columns[2]), rows[0], width and width - 6)
        assert drawn(lambda console, table=table: console.print(table.row(rows[0])))[0].split()[0] == ident
    assert GrowingTable(columns, rows[0], 10).left_out == "at", "what is needed stays, however narrow it is"
    odd = [{"id": "1cee9c02f91dee7667e2b87f1cee", "name": "a", "at": "2026-10-21"}]
    assert drawn(lambda console: render_list(console, columns, odd, 40))[1] == "1cee9c02f91dee7667e2b87f1cee  a"


def test_columns_without_any_value_go_first_and_then_the_last_ones() -> None:
    columns = (Column("id", "id"), *(Column(name, "id", optional=True) for name in ("none", "some", "all")))
    rows = [{"id": "agt_1", "some": "value", "all": "value"}, {"id": "agt_2", "all": "value"}]
    heads = [
        drawn(lambda console, width=width: render_list(console, columns, rows, width))[0] for width in (25, 24, 18)
    ]
    assert [head.split() for head in heads] == [["id", "none", "some", "all"], ["id", "some", "all"], ["id", "some"]]


@given(ROWS, st.one_of(st.none(), st.integers(20, 220)))
@example([{"id": "a", "name": "\u0301", "side": "🏽", "price": 0.0, "at": "🇩"}], None)
@example([{"id": "a", "name": "🇩", "side": "🇪", "price": 0.0, "at": "x\ufe0f"}, {"id": "b" * 24, "name": ""}], 100)
def test_rows_are_straight_whatever_stands_in_them(rows: list[dict[str, Any]], width: int | None) -> None:
    lines = drawn(lambda console: render_list(console, COLUMNS, rows, width))
    assert all(line.isprintable() for line in lines)
    if lines[0].endswith("end"):
        assert len(lines) == 1 + len(rows)
        straight(lines)
        assert width is None or all(cell_len(line) <= width for line in lines)
    else:
        assert width is not None
        assert len([line for line in lines if line.endswith("END")]) == len(rows), "a block for each"


@given(ROWS, st.one_of(st.none(), st.integers(20, 220)))
def test_rows_that_come_one_by_one_are_straight_below_their_headings(
    rows: list[dict[str, Any]], width: int | None
) -> None:
    table = GrowingTable(COLUMNS, rows[0], width)

    def all_of_it(console: Console) -> None:
        for line in (table.header(), *(table.row(row) for row in rows)):
            console.print(line)

    lines = drawn(all_of_it)
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 1 + len(rows), "one line each; a longer value moves what stands behind it"
    assert lines[0].endswith("end") or table.left_out
    assert all(line.endswith("END") for line in lines[1:]) or table.left_out


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.none(), st.floats(allow_nan=False)), min_size=1, max_size=5))
def test_one_thing_is_a_line_for_each_field(item: dict[str, Any]) -> None:
    lines = drawn(lambda console: render_one(console, item, 80, lambda: NOON))
    assert len(lines) == len(item)
    assert all(line.isprintable() for line in lines)


def test_marks_do_not_pile_up_and_what_is_unseen_is_seen(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent("e" + "\u0301" * 50), agent("a\u3164b\ufe00"), agent("x" * 40)]})
    out = trade("agents", "list", "-o", "table").out
    assert "e\u0301\u0301\u0301\\u0301" in out
    assert "a\\u3164b\\ufe00" in out
