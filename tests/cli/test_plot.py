"""`trade plot`: what is drawn, and where it goes."""

import re
from typing import Any

import pytest

from tradesdk_cli.plot.chart import Chart, Mark, draw, value_ticks

from .. import _answers
from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted, agent
from ._settings import configured
from ._terminal import Terminal

BEGIN = 1767225600
ADDRESS = "0x" + "ab" * 20
STATS = {"total_trades": 2, "win_rate_pct": 50.0, "total_pnl_usd": 4.0}
RULES = {"risk": {}, "min_confidence": 0.75, "max_positions": 5, "updated_at": BEGIN, "stats": STATS}


def signal(number: int, price: float, **fields: Any) -> dict[str, Any]:
    direction, moment = "BUY" if number % 2 else "SELL", BEGIN + number * 3600
    about = {"token_address": ADDRESS, "direction": direction, "price_usd": price, "timestamp": moment}
    return _answers.signal(f"sig_{number}", **about | fields)


def trade_of(number: int, pnl: float) -> dict[str, Any]:
    """A closed one."""
    begin = BEGIN + number * 3600
    gain: dict[str, Any] = {"exit_price_usd": 1.0, "pnl_usd": pnl, "roi_pct": 1.0}
    return _answers.trade(f"trd_{number}", status="closed", opened_at=begin, closed_at=begin + 1800, **gain)


SIGNALS = [signal(number, 0.01 + number * 0.001) for number in range(6)]


@pytest.fixture
def prices(service: Scripted) -> Scripted:
    """A service that knows one token."""
    newest_first = {"data": SIGNALS[::-1]}
    service.says(200, newest_first)
    return service


@pytest.fixture
def result(service: Scripted) -> Scripted:
    """A service with one agent that has traded."""
    position = _answers.position(opened_at=BEGIN, unrealized_pnl_usd=-1.5)
    service.says(200, agent("calm") | RULES)
    service.then(200, {"data": [trade_of(2, -6.0), trade_of(1, 10.0)]})  # in no order that was promised
    service.then(200, {"data": [position]})
    return service


# Drawing


def text_of(chart: Chart, width: int = 80, height: int = 20, *, ascii_only: bool = False) -> str:
    return "\n".join(line.plain for line in draw(chart, width, height, ascii_only=ascii_only))


def test_a_rising_line_rises() -> None:
    chart = Chart("up", [(BEGIN + step, float(step)) for step in range(100)], "price")
    rows = text_of(chart, ascii_only=True).splitlines()[1:-3]
    begins = [row.index("*") for row in rows if "*" in row]
    assert begins == sorted(begins, reverse=True)
    assert len(begins) > 10


@each_of("width", [30, 60, 80, 140])
@each_of("height", [8, 20, 60])
def test_it_has_the_size_that_was_asked_for(width: int, height: int) -> None:
    points = [(BEGIN + step * 3600, (step * 7 % 11) * 1e-7) for step in range(50)]
    marks = [Mark("BUY", *points[3]), Mark("SELL", *points[40])]
    lines = draw(Chart("tiny prices", points, "price", marks, notes=["from here to there"]), width, height)
    assert max(len(line.plain) for line in lines) <= width
    assert len(lines) <= height + 2, "a legend that is broken at a narrow width takes lines of its own"
    assert sum("▲" in line.plain for line in lines) == 2, "in the chart and in the legend"


@each_of(
    "values",
    [[1.0], [5.0, 5.0], [0.0, 0.0], [-1e300, 1e300], [1e-300, 2e-300], [1e15, 1e15 + 1], [-3.0, -1.0], [1e-18] * 3],
)
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    points = [(float(BEGIN + number * 60), value) for number, value in enumerate(values)]
    for ascii_only in (False, True):
        lines = draw(Chart("any", points, "price", base=0.0), 60, 12, ascii_only=ascii_only)
        assert max(len(line.plain) for line in lines) <= 60
        assert not ascii_only or all(line.plain.isascii() for line in lines)


def test_ticks_are_round_and_cover_the_values() -> None:
    assert [text for _, text in value_ticks(0.013, 0.0181, 4)] == ["0.012", "0.014", "0.016", "0.018", "0.020"]
    assert [text for _, text in value_ticks(-34.0, 51.0, 4)] == ["-50", "0", "50", "100"]
    assert [text for _, text in value_ticks(1200.0, 5300.0, 3)] == ["0", "2,000", "4,000", "6,000"]


def test_marks_stand_beside_the_line_and_are_explained_in_words() -> None:
    points = [(float(BEGIN + step), 1.0 + step % 2) for step in range(20)]
    shown = text_of(Chart("x", points, "price", [Mark("BUY", *points[10]), Mark("SELL", *points[11])]))
    assert "▲ BUY" in shown
    assert "▼ SELL" in shown
    plain = text_of(Chart("x", points, "price", [Mark("BUY", *points[10])]), ascii_only=True)
    assert "^ BUY" in plain
    assert "SELL" not in plain


def test_times_are_named_below() -> None:
    day = [(float(BEGIN + hour * 3600), float(hour)) for hour in range(24)]
    axis = text_of(Chart("x", day, "price")).splitlines()[-2]
    assert re.search(r"01 Jan +\d\d:00", axis)
    year = [(float(BEGIN + day * 86400), float(day)) for day in range(365)]
    assert re.search(r"\d\d Mar 2026 +\d\d Jun 2026", text_of(Chart("x", year, "price")))


# Tokens


def test_a_token_in_a_pipe_is_a_plain_chart(trade: Terminal, prices: Scripted) -> None:
    run = trade("plot", "token", "brett", "--chain", "base")
    assert (run.code, run.err) == (0, "")
    assert "\x1b" not in run.out
    lines = run.out.splitlines()
    assert lines[0] == "BRETT on base: 0.01500 USD at the last signal"
    assert "prices" not in lines[0]
    assert "price in USD at the moments of signals   ▲ BUY   ▼ SELL" in run.out
    assert "6 signals (3 BUY, 3 SELL), 2026-01-01 00:00:00Z to 2026-01-01 05:00:00Z" in run.out
    assert max(len(line) for line in lines) <= 80
    assert [path.partition("?")[0] for _, path, _ in prices.seen] == ["/v1/signals", "/v1/signals/history"]
    assert f"token_address={ADDRESS}" in prices.seen[1][1]


def test_a_token_for_programs_is_its_signals_oldest_first(trade: Terminal, prices: Scripted) -> None:
    assert trade("plot", "token", ADDRESS, "--chain", "base", "-o", "json").json == SIGNALS
    assert len(prices.seen) == 1, "an address needs no search"
    assert trade("plot", "token", "BRETT", "-o", "csv").out.splitlines()[1].startswith("sig_0,")


def test_colors_and_size_on_a_terminal(trade: Terminal, prices: Scripted) -> None:
    run = trade("plot", "token", "BRETT", "--chain", "base", "--height", "10", tty=True, columns=100)
    assert "\x1b[36m" in run.out
    assert 9 <= len(run.out.splitlines()) <= 11
    plain = trade("plot", "token", "BRETT", tty=True, columns=50, env={"NO_COLOR": "1"})
    assert "\x1b" not in plain.out
    assert max(len(line) for line in plain.out.splitlines()) <= 50


@each_of("how", [{"encoding": "ascii"}, {"env": {"TERM": "dumb"}}])
def test_plain_characters_where_nothing_else_is_shown(trade: Terminal, prices: Scripted, how: Any) -> None:
    run = trade("plot", "token", "BRETT", **how)
    assert run.out.isascii()
    assert "^ BUY" in run.out


def test_one_symbol_of_several_tokens_is_not_guessed(trade: Terminal, service: Scripted) -> None:
    other = "0x" + "cd" * 20
    service.says(200, {"data": [*SIGNALS, signal(7, 9.0, token_address=other)]})
    run = trade("plot", "token", "BRETT", "--chain", "base")
    assert run.code == 2
    assert ADDRESS in run.problem["message"]
    assert other in run.problem["message"]
    assert run.problem["hint"].startswith("name its address: trade plot token 0x")


def test_a_token_without_signals_in_that_time(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": SIGNALS})
    service.then(200, {"data": []})
    file = trade.home / "points.csv"
    run = trade("plot", "token", "BRETT", "--since", "2026-01-01", "--out", str(file))
    assert (run.code, run.out) == (0, "")
    assert run.notes[0]["note"].startswith("no signals of BRETT on base or bnb in that time; see the latest signals")
    assert not file.exists()


@each_of("span", [(), ("--since", "2026-01-01")])
@each_of(("symbol", "there"), [("NOPE", []), ("NOPE", ["BRETT", "AERO\x1b[2J"]), ("6b" * 31 + "6", [])])
def test_a_token_that_no_signal_names_is_not_found(
    trade: Terminal, service: Scripted, symbol: str, there: list[str], span: tuple[str, ...]
) -> None:
    service.says(200, {"data": [signal(number, 1.0, token_symbol=name) for number, name in enumerate(there)]})
    file = trade.home / "points.csv"
    run = trade("plot", "token", symbol, "--out", str(file), *span)
    assert (run.code, run.problem["code"], run.problem["status"]) == (6, "not_found", None)
    assert (run.problem["message"], run.problem["hint"]) == (
        f"no signals of {symbol if len(symbol) < 48 else '****'} among the latest 500 on base or bnb",
        "see the latest signals: trade signals latest --chain base",
    )
    assert not file.exists()


def test_an_address_without_signals_is_not_found(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": []})
    assert trade("plot", "token", ADDRESS).code == 6
    assert trade("plot", "token", ADDRESS, "--since", "2026-01-01").code == 0


# Agents


def test_an_agent_is_its_results_added_up_and_what_is_open(trade: Terminal, result: Scripted) -> None:
    run = trade("plot", "agent", "agt_1", "-o", "json")
    assert [(point["total_pnl_usd"], point["pnl_usd"], point["status"]) for point in run.json] == [
        (10.0, 10.0, "closed"),
        (4.0, -6.0, "closed"),
        (2.5, -1.5, "open"),
    ]
    assert [point["trade_id"] for point in run.json] == ["trd_1", "trd_2", None]


def test_an_agent_as_a_chart(trade: Terminal, result: Scripted) -> None:
    run = trade("plot", "agent", "agt_1")
    assert run.out.splitlines()[0] == "calm: +4.00 USD from 2 closed trades, -1.50 open in 1"
    assert "◆ with open positions" in run.out


def test_an_agent_in_a_period_begins_at_zero(trade: Terminal, result: Scripted) -> None:
    until = str(BEGIN + 2 * 3600 + 3000)
    run = trade("plot", "agent", "agt_1", "--since", str(BEGIN + 2 * 3600), "--until", until)
    assert run.out.splitlines()[0] == "calm: -6.00 USD from 1 closed trades"
    assert "begins at zero where --since says" in run.out


def test_an_agent_without_trades(trade: Terminal, service: Scripted) -> None:
    service.says(200, agent(HOSTILE) | RULES)
    service.then(200, {"data": []})
    run = trade("plot", "agent", "agt_1")
    assert (run.code, run.out) == (0, "")
    assert "there is nothing to draw" in run.err
    assert all(line.isprintable() for line in run.err.split("\n"))


def test_a_missing_agent_is_an_error(trade: Terminal, service: Scripted) -> None:
    service.fails(404, "not_found", "no such agent")
    assert trade("plot", "agent", "agt_9").code == 6


@pytest.mark.long
def test_strangers_names_are_only_text(trade: Terminal, service: Scripted) -> None:
    rows = [signal(number, 1.0, token_symbol=HOSTILE) for number in range(3)]
    service.says(200, {"data": rows})
    for form in ((), ("-o", "table"), ("-o", "json"), ("-o", "csv")):
        run = trade("plot", "token", ADDRESS, *form)
        assert run.code == 0
        assert all(line.isprintable() for line in run.out.split("\n"))


# Files


def test_a_file_has_the_points(trade: Terminal, prices: Scripted) -> None:
    for ending in ("png", "svg"):
        run = trade("plot", "token", "BRETT", "--out", str(trade.home / f"chart.{ending}"))
        assert (run.code, prices.seen, "use .json" in run.err) == (2, [], True)
    data = trade.home / "points.csv"
    assert trade("plot", "token", "BRETT", "--out", str(data)).code == 0
    assert data.read_text().splitlines()[1].startswith("sig_0,")


def test_what_is_selected_is_no_chart(trade: Terminal, prices: Scripted) -> None:
    for tty in (True, False):
        run = trade("plot", "token", "BRETT", "--fields", "id", "-o", "table", tty=tty, env={"NO_COLOR": "1"})
        assert [line.strip() for line in run.out.splitlines()][:2] == ["id", "sig_0"]
    assert trade("plot", "token", "BRETT", "-q", "[0].id").json == "sig_0"


def test_a_format_of_a_profile_does_not_turn_a_picture_off(own: Terminal) -> None:
    configured(own, '[profiles.default]\noutput = "json"\n')
    line = ("plot", "agent", own("agents", "list").json[-1]["id"])
    assert "└" in own(*line, tty=True, env={"NO_COLOR": "1"}).out
    assert own(*line).out.startswith("["), "a program gets data"
    assert own(*line, "-o", "json", tty=True).out.startswith("[")
