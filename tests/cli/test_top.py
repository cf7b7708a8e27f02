"""`trade top` without a terminal: what the board knows, what it reads when, and what it draws."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tradesdk import InvalidArgumentError, RateLimit
from tradesdk_cli.config.settings import Settings
from tradesdk_cli.top import reader, view
from tradesdk_cli.top.reader import SIGNALS_KEPT, Board, Source
from tradesdk_cli.top.view import divide, draw, header

from .. import _answers
from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted, agent
from ._terminal import Terminal

NOW = 1767268800.0


ACCOUNT = {"id": "acc_1", "email": "a@b.c", "plan": "free", "created_at": 1, "api_key_last4": "abcd"}
PARTS = ("agents", "positions", "signals")


def lines_of(board: Board, width: int = 120, height: int = 40, *, ascii_only: bool = False) -> list[str]:
    """What is drawn, as a terminal of this size shows it."""
    board.now = lambda: NOW
    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere, width=width, color_system=None)
        lines = console.render_lines(draw(board, width, height, ascii_only=ascii_only), pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def put(board: Board, part: str, data: Any, key: str = "") -> Board:
    board.now = lambda: NOW - 1
    board.put(part, data, key)
    return board


def test_what_is_being_read_shows_nothing_and_then_the_last_figure() -> None:
    board = put(Board(), "positions", [position(1)])
    assert "agt_1" not in "".join(lines_of(board)), "a name that is being read is not an id meanwhile"
    put(board, "agents", [agent("calm", id="agt_1")])
    assert "…" not in "".join(lines_of(board))
    stats = {"total_pnl_usd": 12.5, "win_rate_pct": 50.0, "total_trades": 4}
    put(board, "details", {"stats": stats}, "agt_1")
    put(board, "agents", [agent("calm", id="agt_1")])
    assert "+$12.50" in "".join(lines_of(board)), "it stays while it is read again"


def test_rows_that_do_not_fit_are_counted() -> None:
    board = put(put(Board(), "agents", []), "positions", [position(number) for number in range(30)])
    lines = lines_of(board, height=20)
    shown = sum("AERO" in line for line in lines)
    assert f"; {30 - shown} do not fit" in next(line for line in lines if line.startswith("positions"))


def signal(number: int, **fields: Any) -> dict[str, Any]:
    about = {"token_address": f"0x{number:040x}", "direction": "BUY", "timestamp": 1767268700 + number}
    about |= {"price_usd": 0.0123}
    return _answers.signal(f"sig_{number}", **about | fields)


def position(number: int, **fields: Any) -> dict[str, Any]:
    about = {"agent_id": "agt_1", "token_address": f"0x{number:040x}", "token_symbol": "AERO"}
    prices = {"entry_price_usd": 1.0, "current_price_usd": 2.0, "unrealized_pnl_usd": number * 1.5}
    stops = {"stop_loss_price": 1.5, "take_profit_price": 3.0, "trailing_stop_price": 1.8}
    return _answers.position(f"pos_{number}", **about | prices | stops | fields)


def filled(text: str = "calm") -> Board:
    """A board that has read everything, with `text` wherever strangers may write."""
    board = Board(target="mock world default")
    stats = {"total_trades": 9, "win_rate_pct": 33.33, "total_pnl_usd": -7.25}
    for part in (
        ("account", {"plan": text}),
        ("usage", {"requests": {"used": 1234, "limit": 100000}, "reset_at": 1767268800 + 86400 * 5}),
        ("money", {"spent_today_usd": "0.12", "left_today_usd": "4.88", "next_call_usd": "4.88"}),
        ("limit", RateLimit(limit=60, remaining=57, reset=datetime.fromtimestamp(1767268830, UTC))),
        ("agents", [agent(text), agent("other", id="agt_2", status="active", chain_id=56)]),
        ("details", agent(text) | {"stats": stats}, "agt_1"),
        ("positions", [position(n, token_symbol=text) for n in range(1, 31)]),
        ("signals", [signal(n, token_symbol=text) for n in range(40)]),
        ("streams", "live", "base"),
        ("streams", f"connecting again in 4 s: {text}", "bnb"),
    ):
        put(board, *part)
    return board


# What it knows


def test_what_follows_for_an_agent() -> None:
    first, second = filled().agent_rows()
    assert (first["open"], first["unrealized_pnl_usd"]) == (30, sum(range(1, 31)) * 1.5)
    assert (first["total_pnl_usd"], first["win_rate_pct"]) == (-7.25, 33.33)
    assert (second["open"], second["unrealized_pnl_usd"], second["total_pnl_usd"]) == (0, None, "")


PRICES = ("stop_loss_price", "trailing_stop_price", "take_profit_price")


@each_of(
    ("prices", "to_stop", "to_profit", "stops"),
    [
        ((0.0, 0.0, 0.0), "-", "-", ["-", "-", "-"]),
        ((0.0, 1.8, 0.0), "-10.00%", "-", ["-", "$1.8000", "-"]),
        ((1.5, 0.0, 3.0), "-25.00%", "+50.00%", ["$1.5000", "-", "$3.0000"]),
        ((1.5, 1.8, 1.0), "-10.00%", "passed", ["$1.5000", "$1.8000", "$1.0000"]),
        ((2.5, 0.0, -1.0), "passed", "-", ["$2.5000", "-", "-$1.0000"]),
    ],
)
def test_a_price_of_0_is_no_rule_in_the_list_and_on_the_board(
    trade: Terminal,
    service: Scripted,
    prices: tuple[float, ...],
    to_stop: str,
    to_profit: str,
    stops: list[str],
) -> None:
    item = position(1, **dict(zip(PRICES, prices, strict=True)))
    service.says(200, {"data": [item]})
    headings, cells = (line.split() for line in trade("positions", "list", "-o", "table").out.splitlines())
    row = dict(zip(headings, cells[: headings.index("opened")], strict=False))
    assert (row["to_stop"], row["to_profit"]) == (to_stop, to_profit)
    assert trade("positions", "list", "-o", "table", "--fields", ",".join(PRICES)).out.split()[3:] == stops
    assert trade("positions", "list", "-o", "json").json == [item], "programs get what the service sends"
    drawn = [line.split() for line in lines_of(put(filled(), "positions", [item]))]
    headings, cells = drawn[(at := next(n for n, words in enumerate(drawn) if "to_stop" in words))], drawn[at + 1]
    row = dict(zip(headings, cells, strict=False))
    assert (row["to_stop"], row["to_profit"]) == (to_stop, to_profit)


def test_each_signal_once_newest_first() -> None:
    board = Board()
    for number in (5, 3, 5, 9):
        put(board, "signals", [signal(number)])
    put(board, "signals", [signal(4), signal(9)])
    assert [one["id"] for one in board.signals] == ["sig_9", "sig_5", "sig_4", "sig_3"]
    put(board, "signals", [signal(number) for number in range(500)])
    assert len(board.signals) == SIGNALS_KEPT
    assert board.signals[0]["id"] == "sig_499"


def test_only_one_chain() -> None:
    board = put(Board(chain=56), "agents", [agent(), agent("other", id="agt_2", chain_id=56)])
    assert [one["id"] for one in board.agents] == ["agt_2"]


# What it reads, and when


class Clock:
    """Time that passes by waiting only; `over` is set at its end."""

    def __init__(self, end: float) -> None:
        self.now, self.end = 50.0, 50.0 + end

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def is_set(self) -> bool:
        return self.now >= self.end


def reading(
    monkeypatch: pytest.MonkeyPatch, source: Source, answer: Callable[[str], list[Any]]
) -> list[tuple[float, str]]:
    """What is read in five minutes, and when; `answer` gives what a job reads, or raises."""
    clock, jobs = Clock(300), list[tuple[float, str]]()

    def read(_: object, board: Board, job: str) -> None:
        jobs.append((clock.now, job))
        board.put(job.partition(" ")[0], answer(job), job)

    monkeypatch.setattr(reader, "time", clock)
    monkeypatch.setattr(reader, "read", read)
    vars(source)["_over"] = clock
    source._read()
    return jobs


def source_of(limit: int | None = None) -> Source:
    known = None if limit is None else SimpleNamespace(limit=limit)
    run: Any = SimpleNamespace(settings=Settings(), client=SimpleNamespace(rate_limit=known))
    return Source(run, Board())


@pytest.mark.parametrize("limit", [3, 60, 300])
@pytest.mark.parametrize("agents", [0, 6, pytest.param(250, marks=pytest.mark.long)])
def test_never_more_than_a_third_of_the_rate_limit(monkeypatch: pytest.MonkeyPatch, limit: int, agents: int) -> None:
    listed = [agent(id=f"agt_{number}") for number in range(agents)]
    jobs = reading(monkeypatch, source_of(limit), lambda job: listed if job == "agents" else [])
    times, read = [at for at, _ in jobs], [job for _, job in jobs]
    for begin in times:
        assert sum(begin <= at < begin + 59.9 for at in times) <= max(1, limit // 3)
    assert set(read) >= {"positions", "agents"}
    if limit >= 60 and agents <= 6:
        assert {"usage", "account", *(f"details agt_{number}" for number in range(agents))} <= set(read)
        assert (read.count("signals 8453"), read.count("signals 56")) == (1, 1)
        usual = 300 / max(2.0, 2 * 180 / limit)
        assert read.count("positions") >= usual * 0.9, "what moves fastest is read most often"
        assert 4 <= read.count("usage") <= 7, "the rest about once a minute"


def test_after_failures_it_waits_longer_each_time_and_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(300)

    def fails(job: str) -> list[Any]:
        raise ValueError("no")

    times = [at for at, _ in reading(monkeypatch, source, fails)]
    waits = [round(then - now) for now, then in pairwise(times)]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    late = ValueError("no")
    vars(late)["retry_after"] = 90.0
    assert source._failed("positions", late, 1) == 90.0


def test_rows_are_shared_out() -> None:
    assert divide(10, {"agents": 2, "positions": 30, "signals": 40}) == {"agents": 2, "positions": 4, "signals": 4}
    assert sum(divide(2, {"agents": 9, "positions": 9, "signals": 9}).values()) == 2
    assert divide(-5, {"agents": 9, "positions": 9, "signals": 9}) == dict.fromkeys(PARTS, 0)


# What it draws


@pytest.mark.parametrize("size", [(60, 20), (140, 50), (30, 24), pytest.param((300, 100), marks=pytest.mark.long)])
@each_of("text", ["calm", HOSTILE[:120], "漢字" * 30, "x" * 5000])
def test_it_fits_and_nothing_in_it_acts(size: tuple[int, int], text: str) -> None:
    width, height = size
    board = put(filled(text), "problem", text)
    for ascii_only in {False, text == "calm"}:
        lines = lines_of(board, width, height, ascii_only=ascii_only)
        assert len(lines) <= max(height, 24)
        assert all(cell_len(line) <= width for line in lines)
        assert all(line.isprintable() for line in lines)


def test_what_is_on_it() -> None:
    shown = "\n".join(lines_of(filled()))
    for part in (
        "mock world default · 12:00:00Z · plan calm",
        "left 57/60 a minute",
        "used 1,234/100,000 requests, resets in 5 d",
        "market data today $0.12 spent, $4.88 left",
        "2 agents, 1 s ago",
        "30 open positions, 1 s ago; ",
        "base: live, bnb: connecting again in 4 s: calm",
        "-$7.25",
        "33.33%",
        "q quits",
    ):
        assert part in shown


@each_of(("left", "style"), [(15, "green"), (14, "yellow"), (6, "yellow"), (5, "red")])
def test_what_is_left_of_the_rate_limit_has_a_color(left: int, style: str) -> None:
    (part,) = header(put(Board(), "limit", RateLimit(limit=60, remaining=left, reset=None)), 80, NOW)[1:]
    assert [span.style for span in part.spans] == [style]


def test_it_is_drawn_until_q(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    service.says(200, ACCOUNT)
    keys = ["", "x", "Q"]
    monkeypatch.setattr(view, "_keys", lambda: nullcontext(lambda seconds: keys.pop(0)))
    monkeypatch.setattr(view, "Source", lambda run, board: nullcontext())
    run = trade("top", tty=True, env={"TERM": "xterm"})
    assert (run.code, keys, run.out.count("q quits")) == (0, [], 2)


def test_money_that_cannot_be_told_is_not_left_out() -> None:
    spent = {"spent_today_usd": "0.12", "left_today_usd": None}
    for money, part in (
        (spent, "market data today $0.12 spent, no daily budget"),
        ({"problem": "the ledger is damaged"}, "market data: what was spent cannot be read (trade doctor)"),
    ):
        assert part in "\n".join(lines_of(put(filled(), "money", money), 140))


def test_what_has_not_been_read_yet_is_not_nothing() -> None:
    board = put(filled(), "details", {}, "agt_2")
    put(board, "agents", [*board.agents, agent(id="agt_3")])
    by_id = {line.split()[-1]: line for line in lines_of(board, 140) if " agt_" in line}
    assert by_id["agt_3"].split() == ["calm", "idle", "0", "-", "base", "agt_3"], "three figures are blank"
    assert by_id["agt_2"].count(" - ") == 4, "it was tried, and there is nothing"


def test_an_empty_board_says_that_it_reads() -> None:
    assert "\n".join(lines_of(Board(target="x"), 80, 24)).count("reading …") == 2


def test_all_of_an_error_is_there_to_be_read() -> None:
    reason = "the service says that it is in maintenance until noon, and that nothing was lost " * 2 + "END"
    shown = lines_of(put(filled(), "problem", reason), 60, 24)
    assert len(shown) == 24
    assert " ".join(" ".join(shown).split()).count(" ".join(reason.split())) == 1


# For programs, and where there is no terminal to draw on


def test_a_damaged_ledger_is_told_and_costs_the_board_nothing_else(own: Terminal) -> None:
    (own.home / "ledger.sqlite3").write_bytes(b"this is no ledger" * 99)
    run = own("top", "--once")
    assert run.code == 0, run.err
    assert "market data: what was spent cannot be read (trade doctor)" in run.out
    assert "base-momentum" in run.out


def test_a_snapshot_for_people(own: Terminal) -> None:
    run = own("top", "--once", "--chain", "bnb", tty=True, columns=80, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert "\x1b" not in run.out
    assert "chain bnb" in run.out.splitlines()[0]
    assert all(cell_len(line) <= 80 for line in run.out.splitlines())
    dumb = own("top", tty=True, env={"TERM": "dumb"})
    assert (dumb.code, "\x1b" in dumb.out, " - plan " in dumb.out) == (0, False, True)


def _odd(service: Scripted, *answers: tuple[int, dict[str, Any]]) -> None:
    """What `--once` reads of two agents, the first of which nobody can ask for."""
    service.says(200, ACCOUNT)
    service.then(200, {"data": [agent("odd", id="x" * 300), agent("calm", id="agt_2")]})
    service.then(200, {"data": []})
    quotas = {"requests": {"used": 1, "limit": 2}, "agents": {"used": 1, "limit": 2}, "reset_at": 1767268800}
    service.then(200, quotas)
    service.then(200, {"data": []})
    service.then(200, {"data": []})
    for status, answer in answers:
        service.then(status, answer)


def test_one_odd_agent_costs_its_own_results_only(trade: Terminal, service: Scripted) -> None:
    rules = {"risk": {}, "min_confidence": 0.75, "max_positions": 5, "updated_at": 1}
    stats = {"total_trades": 4, "win_rate_pct": 50.0, "total_pnl_usd": -12.5}
    _odd(service, (200, agent("calm", id="agt_2") | rules | {"stats": stats}))
    run = trade("top", "--once")
    assert run.code == 0, run.err
    assert "the results of odd could not be read: agent_id is" in run.err
    odd, calm = (line for line in run.out.splitlines() if line.startswith(("odd", "calm")))
    assert ("-$12.50" in odd, "-$12.50" in calm) == (False, True)


def test_a_service_that_fails_for_all_ends_it(trade: Terminal, service: Scripted) -> None:
    _odd(service, (500, {"error": {"code": "internal_error", "message": "no"}}))
    run = trade("top", "--once")
    assert (run.code, run.out) == (10, "")


def test_while_it_is_live_an_odd_agent_holds_nothing_up() -> None:
    source = source_of()
    board: Board = vars(source)["_board"]
    assert source._failed("details odd", InvalidArgumentError("agent_id is odd"), 1) == 0  # as the reading thread does
    assert (board.details, board.problem) == ({"odd": {}}, None), "no problem, and no pause"


def test_a_problem_is_gone_with_the_next_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    source, answers = source_of(), iter([ValueError("no")])
    board: Board = vars(source)["_board"]
    shown = list[str | None]()

    def answer(job: str) -> list[Any]:
        shown.append(board.problem)
        for error in answers:
            raise error
        return []

    reading(monkeypatch, source, answer)
    assert shown[1] is not None
    assert shown[2:] == [None] * len(shown[2:])


def test_a_wrong_key_ends_it_before_anything_is_drawn(trade: Terminal, service: Scripted) -> None:
    service.fails(401, "unauthorized", "no such key")
    for argv in (("top",), ("top", "--once")):
        assert trade(*argv).code == 4
