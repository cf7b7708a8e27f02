"""The scripted service of signals itself: it does what its plan says, and its judge sees every difference."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import InvalidEvent, StreamSignal, UnknownEvent

from .._clock import VirtualClock
from .._rows import each_of
from .._streamservice import StreamService
from .._streamservice_judge import StreamJudge
from .._streamservice_plan import KINDS, STALLS, Fate, Plan
from .._streamservice_wire import Connection

STREAM = "https://service.example/v1/signals/stream?chain=8453"
LONG = 20_000.0  # seconds, far beyond the last signal
SMALL = {"signals": 400, "disconnects": 12, "stalls": 3, "refusals": 4}


def ask(service: StreamService, url: str, read: float = 60.0) -> httpx.Response:
    timeout = {"connect": 5.0, "read": read, "write": 5.0, "pool": 5.0}
    headers = {"Authorization": "Bearer key"}
    return service.handle_request(httpx.Request("GET", url, headers=headers, extensions={"timeout": timeout}))


def opened(service: StreamService, read: float = 60.0) -> tuple[httpx.Response, Connection]:
    response = ask(service, STREAM, read)
    assert response.status_code == 200
    assert isinstance(response.stream, Connection)
    return response, response.stream


def of_fate(kind: str, life: float = 300.0, **options: Any) -> StreamService:
    """One connection with this fate; the others live on."""
    plan = Plan.of(11, signals=400, disconnects=0, stalls=0, refusals=0)
    plan.fates = [Fate(kind, life, **options)]
    return StreamService(plan, VirtualClock())


def received(connection: Connection) -> tuple[bytes, str]:
    """All that came, and how it ended."""
    pieces = []
    try:
        while piece := connection.read():
            pieces.append(piece)
    except httpx.HTTPError as error:
        return b"".join(pieces), type(error).__name__
    return b"".join(pieces), "end"


def signals_in(body: bytes) -> list[Any]:
    """A reading of its own for bodies without anything odd in them: what stands whole between blank lines."""
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found = []
    for block in text.split(b"\n\n")[:-1]:
        data = b"\n".join(line[5:] for line in block.split(b"\n") if line.startswith(b"data:"))
        try:
            item = json.loads(data)
        except ValueError:
            continue
        if isinstance(item, dict) and item.get("type") == "signal" and len(item) > 5:
            found.append(item)
    return found


def test_a_plan_follows_from_its_seed_alone() -> None:
    one, same, other = Plan.of(5, **SMALL), Plan.of(5, **SMALL), Plan.of(6, **SMALL)
    assert [each.event for each in one.signals] == [each.event for each in same.signals]
    assert one.timeline == same.timeline
    assert (one.fates, one.obstacles, one.refusals) == (same.fates, same.obstacles, same.refusals)
    assert one.timeline != other.timeline


@pytest.mark.long
def test_what_a_whole_plan_holds() -> None:
    plan = Plan.of(0)
    sorts = Counter(entry[2] for entry in plan.timeline)
    assert sorts == {"signal": 10_000, "again": 500, "invalid": 40, "noise": 60, "unknown": 20}
    assert Counter(fate.kind for fate in plan.fates) == dict.fromkeys(KINDS, 25) | dict.fromkeys(STALLS, 10)
    assert len(plan.refusals) == 10
    assert len(plan.obstacles) == 16
    lags = [each.seen - each.at for each in plan.signals]
    assert min(lags) == 0
    assert 1.99 < max(lags) <= 2.0001
    stamps = Counter(each.fields["timestamp"] for each in plan.signals)
    assert max(stamps.values()) > 10
    assert sum(not each.event.isascii() for each in plan.signals) > 3000
    assert any(older.seen > newer.seen for older, newer in zip(plan.signals, plan.signals[1:], strict=False))
    assert [entry[0] for entry in plan.timeline] == sorted(entry[0] for entry in plan.timeline)


# The judge


Change = Callable[[list[Any]], None]


def judged(change: Change, **options: Any) -> str:
    """What the judge says when `change` has been at what an honest client would have yielded."""
    service = of_fate("clean", LONG)
    received(opened(service)[1])
    plan = service.plan
    begin = plan.first = len(plan.signals) - 400
    items: list[Any] = [StreamSignal.model_validate({**each.fields, "type": "signal"}) for each in plan.signals[begin:]]
    for data in plan.invalid:
        items.append(InvalidEvent("no JSON", data))
    change(items)
    service.open = 0
    judge = StreamJudge(service, **options)
    for item in items:
        judge.take(item)
    judge.finish()
    return judge.problem


def replaced(place: int, **update: Any) -> Change:
    def change(items: list[Any]) -> None:
        items[place] = items[place].model_copy(update=update)

    return change


def flagged(place: int, *, replayed: bool = False, late: bool = False) -> Change:
    def change(items: list[Any]) -> None:
        items[place] = items[place].marked(replayed=replayed, late=late)

    return change


def test_the_judge_accepts_what_is_right() -> None:
    assert judged(lambda items: None) == ""


@pytest.mark.long
@each_of(
    ("change", "found"),
    [
        (lambda items: items.pop(200), r"seed 11: not there: \d+; \d+ came instead"),
        (lambda items: items.pop(399), r"seed 11: lost: 1, the first of them"),
        (lambda items: items.insert(200, items[200]), r"seed 11: twice: \d+"),
        (lambda items: items.insert(390, items[100]), r"seed 11: twice: \d+"),
        (lambda items: items.insert(200, items.pop(201)), r"not there: \d+; \d+ came instead"),
        (lambda items: items.pop(), r"events that cannot be read: .* the first difference"),
        (lambda items: items.append(InvalidEvent("", b"x")), "events that cannot be read: "),
        (lambda items: items.append(UnknownEvent("odd", {}, b"")), "events of unknown kinds"),
        (replaced(7, price_usd=99.0), "other content"),
        (replaced(7, id="other"), "never published"),
        (flagged(7, late=True), "late: "),
        (flagged(7, replayed=True), "wrongly flagged"),
    ],
)
def test_the_judge_sees_what_is_wrong(change: Change, found: str) -> None:
    problem = judged(change)
    assert re.search(found, problem)
    assert "published:" in problem


def test_the_judge_sees_two_that_are_swapped_also_where_gaps_are_allowed() -> None:
    problem = judged(lambda items: items.insert(200, items.pop(201)), gaps_allowed=True)
    assert "out of order" in problem


def test_a_client_that_only_opens_the_stream_again_loses_signals() -> None:
    """The plan is hard enough to notice what does not look back."""
    service = StreamService(Plan.of(3, **SMALL), VirtualClock())
    judge = StreamJudge(service)
    known: set[str] = set()
    while service.unfinished and not judge.problem:
        try:
            response = ask(service, STREAM, 45.0)
        except httpx.HTTPError:
            service.clock.advance(2)
            continue
        if response.status_code != 200:
            service.clock.advance(2)
            continue
        assert isinstance(response.stream, Connection)
        body, _ = received(response.stream)
        response.close()
        for item in signals_in(body):
            if item["id"] not in known:
                known.add(item["id"])
                judge.take(StreamSignal.model_validate(item))
    assert "not there: " in judge.problem
