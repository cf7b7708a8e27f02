"""How `signals stream` ends while the history is still being read."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

import pytest

from tradesdk import RetryPolicy
from tradesdk.models._types import _unix_seconds
from tradesdk_cli.stream.follow import Watchdog
from tradesdk_mock import MockServer

from ._streams import (
    ROUTE,
    STREAM,
    emit,
    ids,
    over_when_said,
    publishing,
    recent,
    said,
    tried_again,
)
from ._terminal import Terminal

pytestmark = pytest.mark.long

HISTORY = "/v1/signals/history"


def waits(monkeypatch: pytest.MonkeyPatch, base: float) -> None:
    """The SDK waits so many seconds before it tries again, or up to twice as long."""
    tried_again(monkeypatch, RetryPolicy(base=base, jitter=0))


def test_it_is_not_idle_while_the_history_is_read(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = emit(market, 2)
    waits(monkeypatch, 0.2)
    market.add_fault("status", route=HISTORY, status=502, count=2)
    run = trade(*recent(market), "--until-idle", "0.1s")
    assert (run.code, ids(run)) == (0, emitted)
    assert len(said(run, "retry")) == 2
    assert said(run, "summary")[0]["catching_up"] is False


def test_a_time_that_is_over_before_the_history_was_read_is_said(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit(market, 2)
    waits(monkeypatch, 30)
    over_when_said(monkeypatch, "retry")
    market.add_fault("status", route=HISTORY, status=503)
    run = trade(*recent(market), "--duration", "0.1s")
    assert (run.code, run.out) == (0, "")
    summary = run.notes[-1]
    assert summary["catching_up"] is True
    assert "ended before all that was missed was read from the history" in summary["note"]
    assert summary["seconds"] < 25, "the first wait alone is longer"


@contextmanager
def ctrl_c(when: Callable[[], object]) -> Iterator[None]:
    """Presses it as soon as `when` is true."""
    over = threading.Event()

    def press() -> None:
        while not over.wait(0.01):
            if when():
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_says_what_is_missing_only_when_something_is(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit(market, 1)
    file = trade.home / "signals.ndjson"
    line = (*recent(market), "--out", str(file))
    market.clear_journal()

    def read() -> bool:
        if len([entry for entry in market.journal() if entry.path.startswith(HISTORY)]) < 2:
            return False
        if file.read_text().count("\n") == 1:
            emit(market, 1)  # after the second look: when this one is there, all is
        return file.read_text().count("\n") == 2

    with ctrl_c(read):
        run = trade(*line)
    assert run.code == 130
    assert said(run, "summary")[0]["catching_up"] is False
    assert "missed" not in run.err
    market.clear_journal()
    market.add_fault("status", route=HISTORY, status=503)
    waits(monkeypatch, 30)
    with ctrl_c(lambda: any(entry.path.startswith(HISTORY) for entry in market.journal())):
        run = trade(*line)
    assert run.code == 130
    summary = said(run, "summary")[0]
    assert summary["catching_up"] is True
    assert summary["note"].endswith("missed was read from the history; --since last continues there")


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("into_file", [False, True])
def test_ctrl_c_while_a_signal_is_turned_into_json(trade: Terminal, market: MockServer, into_file: bool) -> None:
    """The library that does it makes an error of its own of whatever is raised there."""
    published = emit(market, 2)
    inside = _unix_seconds.__code__
    left = 2 if into_file else 1  # first what is written is turned, and then what the progress shows

    def press(frame: FrameType, what: str, _: object) -> None:
        nonlocal left
        if what == "call" and frame.f_code is inside:
            left -= 1
            if not left:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    file = trade.home / "signals.ndjson"
    options = ("--out", str(file)) if into_file else ()
    sys.setprofile(press)
    try:
        run = trade(*recent(market), *options)
    finally:
        sys.setprofile(None)
    assert (run.code, len(said(run, "summary"))) == (130, 1)
    rest = trade(*STREAM, "--since", "last", "--until-idle", "0.3s", *options)
    lines = file.read_text() if into_file else rest.out
    assert [json.loads(line)["id"] for line in lines.splitlines()] == published


def test_what_breaks_off_because_it_ends_is_not_told(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit(market, 1)
    market.add_fault("latency", route=HISTORY, seconds=30)
    over_when_said(monkeypatch, "connected")
    run = trade(*recent(market), "--duration", "0.3s")
    assert run.code == 0
    assert [note["type"] for note in run.notes] == ["connected", "summary"]


def test_a_look_that_fails_is_said(trade: Terminal, market: MockServer) -> None:
    emitted = emit(market, 1)
    market.add_fault("status", route=HISTORY, status=403, count=1)
    run = trade(*recent(market), "--until-idle", "0.3s")
    assert (run.code, ids(run)) == (0, emitted), "the second look finds it"
    (note,) = said(run, "history_unread")
    assert "the history cannot be read: " in note["note"]
    assert "403" in note["note"]
    assert said(run, "gap") == []


@pytest.mark.parametrize("route", [HISTORY, ROUTE])
def test_a_wait_of_the_service_is_said_once(
    trade: Terminal, market: MockServer, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit(market, 1)
    if route == ROUTE:
        market.add_fault("drop", route=ROUTE, after=1, count=1)
    with (
        publishing(market, {}, first=lambda: market.add_fault("status", route=ROUTE, status=429, retry_after=61))
        if route == ROUTE
        else nullcontext()
    ):
        if route == HISTORY:
            market.add_fault("status", route=HISTORY, status=429, retry_after=61)
        kind = "retry" if route == HISTORY else "disconnected"
        over_when_said(monkeypatch, kind, 1 if route == HISTORY else 2)
        run = trade(*recent(market), "--duration", "0.1s")
    told = [note["note"] for note in said(run, kind) if "429" in note["note"]]
    assert len(told) == 1
    assert told[0].count(" in 6") == 1, "the wait, once"


def test_watch_counts_from_the_last_moment_that_was_busy() -> None:
    stopped, busy = threading.Event(), threading.Event()
    busy.set()
    with Watchdog(stopped.set, sys.stdout, None, 0.05, busy.is_set) as watch:
        watch.idle()
        assert not stopped.wait(0.3)
        busy.clear()
        assert stopped.wait(60)
    assert watch.reason == "idle"
