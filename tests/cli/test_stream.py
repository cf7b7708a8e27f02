"""`trade signals stream`: what is printed, what is said beside it, and how it ends."""

from __future__ import annotations

import httpx
import pytest
from rich.cells import cell_len

from tradesdk import RetryPolicy
from tradesdk_mock import MockServer

from ._streams import ROUTE, STREAM, emit, ids, over_when_said, publishing, recent, said, tried_again
from ._terminal import Terminal

PLAIN = {"NO_COLOR": "1"}


def test_a_line_is_what_the_service_sends_and_two_marks(trade: Terminal, market: MockServer) -> None:
    emitted = emit(market, 3)
    run = trade(*recent(market), "--count", "3")
    assert run.code == 0
    headers = {"Authorization": "Bearer mock_full_me"}
    sent = httpx.get(f"{market.url}/v1/signals?chain=8453&limit=3", headers=headers, trust_env=False).json()["data"][
        ::-1
    ]
    assert [signal["id"] for signal in sent] == emitted
    marks = {"replayed": True, "late": False}
    assert run.lines == [{"type": "signal", **signal, **marks} for signal in sent]
    assert [list(line) for line in run.lines] == [["type", *signal, "replayed", "late"] for signal in sent]
    assert said(run, "connected") == [{"type": "connected", "note": "the stream of chain 8453 is open"}]
    (summary,) = said(run, "summary")
    assert run.notes[-1] == summary
    assert (summary["signals"], summary["replayed"], summary["connects"], summary["gaps"]) == (3, 3, 1, 0)


def test_live_signals(trade: Terminal, market: MockServer) -> None:
    emit(market, 2)
    with publishing(market, {}, {"token": "BRETT"}) as published:
        run = trade(*STREAM, "--count", "2")
    assert (run.code, ids(run)) == (0, published), "what was there before is not asked for"
    assert [line["replayed"] for line in run.lines] == [False, False]
    assert run.lines[1]["token_symbol"] == "BRETT"


@pytest.mark.long
def test_what_is_asked_for(trade: Terminal, market: MockServer) -> None:
    wanted = market.emit_signal(token="BRETT", direction="BUY", confidence=0.9).id
    market.emit_signal(token="BRETT", direction="SELL", confidence=0.9)
    market.emit_signal(token="BRETT", direction="BUY", confidence=0.5)
    market.emit_signal(token="TOSHI", direction="BUY", confidence=0.9)
    market.emit_signal(token="BRETT", direction="BUY", confidence=0.9, chain_id=56)
    filters = ("--token", "brett", "--direction", "buy", "--min-confidence", "0.8")
    run = trade(*recent(market), *filters, "--until-idle", "0.3s")
    assert (run.code, ids(run)) == (0, [wanted])
    assert said(run, "summary")[0]["filtered"] == 3


@pytest.mark.long
def test_it_is_cut_and_nothing_is_lost_or_doubled(trade: Terminal, market: MockServer) -> None:
    market.add_fault("drop", route=ROUTE, after=2, how="reset", count=3)
    market.add_fault("duplicate", route=ROUTE, each=3)
    with publishing(market, *[{}] * 20, pause=0.02) as published:
        run = trade(*STREAM, "--count", "20")
    assert (run.code, ids(run)) == (0, published)
    assert len(set(published)) == 20
    cuts = len(said(run, "disconnected"))
    assert 1 <= cuts <= 3
    assert len(said(run, "connected")) == cuts + 1
    assert {"reason", "wait", "tries"} <= set(said(run, "disconnected")[0])
    (summary,) = said(run, "summary")
    assert summary["replayed"] == sum(line["replayed"] for line in run.lines) > 0
    assert summary["connects"] == cuts + 1


def test_what_cannot_be_read_is_said_and_the_rest_goes_on(trade: Terminal, market: MockServer) -> None:
    market.add_fault("inject", route=ROUTE, after=1, text='data: {"type":"signal","id":7,"x":"\x1b[2J"}\n\n')
    with publishing(market, {}, {}) as published:
        run = trade(*STREAM, "--count", "2")
    assert (run.code, ids(run)) == (0, published)
    (note,) = said(run, "invalid_event")
    assert note["source"] == "stream"
    assert "\x1b" not in run.err
    assert said(run, "summary")[0]["invalid"] == 1


def test_a_gap_is_said(trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    over_when_said(monkeypatch, "gap")
    market.add_fault("drop", route=ROUTE, after=2, count=1)
    with publishing(market, {}, {}, first=lambda: market.add_fault("status", route="/v1/signals/history", status=403)):
        run = trade(*STREAM, "--duration", "0.1s")
    assert run.code == 0
    (gap,) = said(run, "gap")
    assert gap["start"] <= gap["end"]
    assert "may be missing" in gap["note"]
    assert said(run, "summary")[0]["gaps"] == 1


@pytest.mark.long
def test_it_ends_after_a_time_or_when_nothing_comes(trade: Terminal, market: MockServer) -> None:
    for end in (("--duration", "0.2s"), ("--until-idle", "0.2s")):
        run = trade(*STREAM, *end)
        assert (run.code, run.out) == (0, "")
        summary = run.notes[-1]
        assert (summary["type"], summary["signals"]) == ("summary", 0)
        assert 0.19 < summary["seconds"] < 60
    emitted = emit(market, 2)
    assert ids(trade(*recent(market), "--until-idle", "0.3s")) == emitted


@pytest.mark.long
def test_a_command_that_takes_long_is_no_idleness(trade: Terminal, market: MockServer) -> None:
    emitted = emit(market, 3)
    run = trade(*recent(market), "--until-idle", "0.2s", "--exec", "sleep 0.3")
    assert (run.code, ids(run)) == (0, emitted)


def test_a_time_that_is_over_ends_the_wait_for_another_try(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried_again(monkeypatch, RetryPolicy(base=30))
    over_when_said(monkeypatch, "disconnected")
    market.add_fault("drop", route=ROUTE, after=1)
    with publishing(market, {}):
        run = trade(*STREAM, "--duration", "0.1s")
    assert run.code == 0
    assert said(run, "disconnected")[0]["wait"] > 50
    assert run.notes[-1]["seconds"] < 10


# On a terminal


def cells(line: str) -> str:
    """As many characters as it takes cells."""
    return "".join(char + "." * (cell_len(char) - 1) for char in line)


def test_a_growing_table(trade: Terminal, market: MockServer) -> None:
    market.emit_signal(token="BRETT", direction="BUY", confidence=0.81, price_usd=0.0123)
    market.emit_signal(token="AVERYLONGTOKENNAMEINDEED", direction="SELL", confidence=0.5, price_usd=3912.444)
    emitted = [market.emit_signal(token="[bold]\u6f22[/bold]:smile:").id]
    for columns, headings in (
        (60, "time side token confidence price"),
        (100, "time side token confidence price source id"),
        (160, "time side token confidence price source id token_address"),
    ):
        run = trade(*recent(market), "--count", "3", tty=True, columns=columns, env=PLAIN)
        assert run.code == 0
        header, *rows = run.out.splitlines()
        assert header.split() == headings.split()
        assert len(rows) == 3
        assert all((row[2] == ":") is (columns == 60) for row in rows), "the time of the day, in place of the price"
        assert all(len(line) <= columns for line in (header, *rows[:2])), run.out
        places = [place for place in ("side", "source") if place in header]
        for column in map(header.index, places):
            assert all(cells(row)[column - 1] == " " for row in rows), run.out
        assert "  AVERYLON" in rows[1]
        assert "…" in rows[1]
        assert (emitted[0] in rows[2]) is (columns == 160)
        assert (f"{emitted[0][:16]}…" in rows[2]) is (columns == 100)
        assert "\x1b" not in run.out
        assert "the stream of chain 8453 is open\n" in run.err
        assert "3 signals in " in run.err.splitlines()[-1]
        assert ("not shown: " in run.err) is (columns < 160)


@pytest.mark.parametrize("columns", [80, pytest.param(140, marks=pytest.mark.long)])
def test_a_price_of_many_digits_moves_nothing(trade: Terminal, market: MockServer, columns: int) -> None:
    for price in (0.0123, 0.0000008003, 0.5):
        market.emit_signal(token="BRETT", direction="BUY", price_usd=price)
    run = trade(*recent(market), "--count", "3", tty=True, columns=columns, env=PLAIN)
    header, *rows = run.out.splitlines()
    assert [row.split()[5:7] for row in rows] == [
        ["$0.01230", "replayed"],
        ["$0.0000008003", "replayed"],
        ["$0.5000", "replayed"],
    ]
    for title, value in (("side", "BUY"), ("source", "replayed")):
        assert {row.index(value) for row in rows} == {header.index(title)}, run.out
    assert all(len(line) <= columns for line in (header, *rows))


def test_a_table_in_a_pipe_has_everything(trade: Terminal, market: MockServer) -> None:
    market.emit_signal(token="AVERYLONGTOKENNAMEINDEED")
    run = trade(*recent(market), "--count", "1", "-o", "table")
    header, row = run.out.splitlines()
    assert header.split()[-1] == "token_address"
    assert "AVERYLONGTOKENNAMEINDEED" in row
    assert run.err.splitlines()[0] == "the stream of chain 8453 is open"


def test_colors_are_those_of_the_other_tables(trade: Terminal, market: MockServer) -> None:
    market.emit_signal(direction="SELL")
    run = trade(*recent(market), "--count", "1", tty=True)
    assert "\x1b[1mtime" in run.out
    assert "\x1b[31mSELL" in run.out
    assert "\x1b[2mthe stream of chain 8453 is open\x1b[0m" in run.err
