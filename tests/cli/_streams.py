"""Signals for streams and tapes, and a receiver that they are forwarded to."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tradesdk
import tradesdk_cli.stream.follow as following
import tradesdk_cli.stream.watchdog as watchdog
from tradesdk import RetryPolicy, TradeClient
from tradesdk_cli.output.stderr import Notes
from tradesdk_mock import MockServer

from .._hostile import Visit, answer, hostile
from ._terminal import Run, Terminal

STREAM = ("signals", "stream", "--chain", "base")
ROUTE = "/v1/signals/stream"
BEGIN = 1_767_268_800


def event(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A signal as it is printed."""
    return {
        "type": "signal",
        "id": f"sig_{number:024x}",
        "token_address": "0x7D050D38d93e46546a1F4454f6f061C6a935B6a7",
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "BUY",
        "confidence": 0.81,
        "price_usd": 0.014597478,
        "timestamp": BEGIN + number,
        "replayed": False,
        "late": False,
    } | fields


def tape_of(path: Path, *lines: tuple[float, dict[str, Any]]) -> Path:
    """A tape with these lines."""
    path.write_text("".join(json.dumps({"at": at, "event": held}) + "\n" for at, held in lines))
    return path


def tried_again(monkeypatch: pytest.MonkeyPatch, policy: RetryPolicy) -> None:
    """Whatever a command says, its client tries again as `policy` says."""

    def client(**options: Any) -> TradeClient:
        options["retry"] = policy
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
    monkeypatch.setattr(watchdog, "time", clock)


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
    monkeypatch.setattr(watchdog, "time", Steady())
    monkeypatch.setattr(watchdog, "_EVERY", 0.03)  # so that each look finds a moment
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


class Hook:
    """A receiver: answers with what is in `answers`, the first once, the last forever; 0 hangs up."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = [(204, {})]
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""

    def says(self, *statuses: int, **headers: str) -> None:
        self.answers = [
            (status, {name.replace("_", "-"): value for name, value in headers.items()}) for status in statuses
        ]

    @property
    def ids(self) -> list[str]:
        return [body["id"] for _, _, body in self.seen]


@contextmanager
def hooked() -> Iterator[Hook]:
    hook = Hook()

    def answering(visit: Visit) -> None:
        _, path, headers = visit.request
        hook.seen.append((path, headers, json.loads(visit.body)))
        status, more = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
        if status == 0:
            visit.close()
        else:
            visit.send(answer(status=status, kind=None, **more))

    with hostile(answering) as server:
        hook.url = f"{server.url}/hook"
        yield hook
