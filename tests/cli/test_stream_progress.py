"""A stream into a file says on the terminal how much has come."""

from __future__ import annotations

import re

import pytest

import tradesdk_cli.stream.progress as stream_progress
from tradesdk_cli.config.settings import Settings
from tradesdk_cli.output.printer import Output
from tradesdk_cli.stream.progress import SignalProgress
from tradesdk_mock import MockServer

from ._streams import emit, event, quick_market, recent
from ._terminal import Stream, Terminal

WIPE = "\r\x1b[K"


def made(monkeypatch: pytest.MonkeyPatch, *, tty: bool) -> tuple[Output, list[float]]:
    now = [1000.0]
    monkeypatch.setattr(stream_progress, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "80")
    out = Output(Settings(output="table"), {"TERM": "xterm", "NO_COLOR": "1"})
    out.stdout, out.stderr = Stream(tty=False), Stream(tty=tty)
    return out, now


def err(out: Output) -> str:
    assert isinstance(out.stderr, Stream)
    return out.stderr.written()


def test_it_counts_and_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now = made(monkeypatch, tty=True)
    with SignalProgress(out) as progress:
        progress.tick()
        assert err(out) == "", "nothing before the stream is open"
        progress.show()
        progress.signal(event())
        progress.tick()  # nothing new
        now[0] += 15
        progress.tick()
        out.event("gap", "something else")
        progress.tick()  # does not draw into a line that is being written
        progress.signal(event(direction="SELL", token_symbol="\x1b[31m"))
    lines = err(out).split(WIPE)
    assert lines == [
        "",
        "no signals so far",
        "1 signal so far, the last 1 s ago: BUY BRETT",
        "1 signal so far, the last 15 s ago: BUY BRETT",
        "something else\n",
        "2 signals so far, the last 1 s ago: SELL \\x1b[31m",
        "",
    ]


def test_where_nobody_looks_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = made(monkeypatch, tty=False)
    with SignalProgress(out) as progress:
        progress.show()
        progress.signal(event())
        progress.tick()
    assert err(out) == ""


def test_a_stream_into_a_file(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    market: MockServer
    with quick_market(trade, monkeypatch) as market:
        emit(market, 2)
        file = str(trade.home / "a.ndjson")
        run = trade(*recent(market), "--count", "2", "--out", file, tty=True, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert f"{WIPE}no signals so far" in run.err
    assert re.search(rf"{re.escape(WIPE)}1 signal so far, the last \d+ s ago: ", run.err)
    last = run.err.rpartition(WIPE)[2]
    assert "so far" not in last
    assert "2 signals in " in last
