"""Signals for streams."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import tradesdk
import tradesdk_cli.stream.follow as following
from tradesdk import RetryPolicy, TradeClient
from tradesdk_cli.output.stderr import Notes
from tradesdk_mock import MockServer

from .. import _answers
from ._terminal import Run, Terminal

STREAM = ("signals", "stream", "--chain", "base")
ROUTE = "/v1/signals/stream"
BEGIN = 1_767_268_800


def event(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A signal as it is printed."""
    made = _answers.signal(f"sig_{number:024x}", direction="BUY", price_usd=0.014597478, timestamp=BEGIN + number)
    return {"type": "signal"} | made | {"replayed": False, "late": False} | fields


def sends(market: MockServer, *events: dict[str, Any]) -> tuple[str, ...]:
    """The stream that reads exactly these events, in every run."""
    text = "".join(f"data: {json.dumps(held)}\n\n" for held in events)
    market.set_gaps(unknown_values="on")  # so that there is an event at once, which they come before
    market.add_fault("inject", route=ROUTE, after=0, text=text)
    return (*STREAM, "--count", str(len(events)))


def tried_again(monkeypatch: pytest.MonkeyPatch, policy: RetryPolicy) -> None:
    """Whatever a command says, its client tries again as `policy` says."""

    def client(**options: Any) -> TradeClient:
        options["retry"] = policy
        options.pop("max_retries", None)
        return TradeClient(**options)

    monkeypatch.setattr(tradesdk, "TradeClient", client)


def over_when_said(monkeypatch: pytest.MonkeyPatch, kind: str, times: int = 1) -> None:
    """The time of `--duration` is over when notes of this kind were said, however long that takes on this machine."""
    heard: list[str] = []
    really = Notes.event

    def event(notes: Notes, name: str, text: str, **fields: Any) -> None:
        really(notes, name, text, **fields)
        heard.append(name)

    monkeypatch.setattr(Notes, "event", event)
    clock = SimpleNamespace(monotonic=lambda: math.inf if heard.count(kind) >= times else 0.0)
    monkeypatch.setattr(following, "time", clock)


class Steady:
    """Time for what ends a stream: however long all of this process is held up, no more than a moment has passed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._real, self._passed = time.monotonic(), 0.0

    def monotonic(self) -> float:
        with self._lock:
            real = time.monotonic()
            self._passed += min(real - self._real, 0.05)
            self._real = real
            return self._passed


@contextmanager
def quick_market(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockServer]:
    """A market without signals of its own; `trade` is set to it, and does not wait long."""
    tried_again(monkeypatch, RetryPolicy(base=0.005, cap=0.02))
    monkeypatch.setattr(following, "SETTLE", 0.05)
    monkeypatch.setattr(following, "time", Steady())
    monkeypatch.setattr(following, "_EVERY", 0.03)  # so that each look finds a moment
    with MockServer(signals="scripted") as running:
        running.clock.advance(3600)  # what was there from the beginning is old
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def emit(market: MockServer, count: int) -> list[str]:
    """Publishes so many signals; their ids."""
    return [market.emit_signal().id for _ in range(count)]


def recent(market: MockServer) -> tuple[str, ...]:
    """A stream with all that a test has published so far."""
    return (*STREAM, "--since", str(int(market.clock.now()) - 600))


def ids(run: Run) -> list[str]:
    """Of the signals that were printed."""
    return [line["id"] for line in run.lines]


def said(run: Run, kind: str) -> list[dict[str, Any]]:
    """What was said of this kind on stderr, as a program reads it."""
    return [note for note in run.notes if note.get("type") == kind]


@contextmanager
def publishing(
    server: MockServer, *signals: dict[str, Any], first: Callable[[], object] = lambda: None, pause: float = 0
) -> Iterator[list[str]]:
    """As soon as a stream is open: does `first`, then publishes these signals, `pause` seconds apart; their ids."""
    ids: list[str] = []
    over = threading.Event()
    while server.status()["streams"]:  # one that has ended is perhaps not forgotten yet, and is not the one meant
        over.wait(0.005)

    def publish() -> None:
        while server.status()["streams"] == 0:
            if over.wait(0.005):
                return
        first()
        for signal in signals:
            ids.append(server.emit_signal(**signal).id)
            over.wait(pause)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield ids
    finally:
        over.set()
        thread.join()
