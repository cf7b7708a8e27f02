"""A stream as a value: what it does next, what it yields besides signals, what it says of itself."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from tradesdk import Gap, InvalidEvent, RetryPolicy, StreamSignal
from tradesdk._stream.events import HistoryPage
from tradesdk._stream.options import StreamOptions
from tradesdk._stream.state_machine import AUDIT_EVERY, NextAction, StreamState

from .._clock import START, http_date
from .._rows import each_of
from .._streamscript import CHAIN, beat, live
from ._replays import listed

ASKED = StreamOptions(
    chain=CHAIN,
    since=None,
    min_confidence=None,
    direction=None,
    token=None,
    checkpoint=False,
    heartbeats=False,
    unknown_events=False,
    reports=False,
    idle_timeout=90.0,
    settle=3.0,
    recovery_timeout=600.0,
    max_reconnects=None,
    manual_ack=False,
)


class Following:
    """A follower whose clocks tell the same: seconds after the beginning."""

    def __init__(self, **asked: Any) -> None:
        self.it = StreamState(replace(ASKED, **asked), RetryPolicy(), mono=0.0, local=START)
        self.it.begin(None)

    def connected(self, at: float = 0.0) -> None:
        self.it.connected({"date": http_date(int(START + at))}, at, START + at)

    def feed(self, data: bytes, at: float, waited: float = 1.0) -> str | None:
        return self.it.feed(data, at - waited, at)

    def do(self, at: float) -> NextAction:
        return self.it.step(at)[0]

    def taken(self) -> list[Any]:
        items = list(self.it.items)
        self.it.items.clear()
        return items

    def looks(self, at: float, *signals: Any, audit: bool = False) -> None:
        walk = self.it.begin_walk(at, audit=audit)
        self.it.add(walk, HistoryPage(list(signals), None, {}), at, START + at)
        self.it.walked(walk, at, audit=audit)


def test_the_service_cannot_set_our_marks() -> None:
    one = Following()
    one.connected()
    one.feed(live("a", 1, replayed=True, late=True) + live("b", 2, late="yes"), 2)
    found = one.taken()
    assert [(item.id, item.replayed, item.late, item.model_extra) for item in found] == [
        ("a", False, False, {}),
        ("b", False, False, {}),
    ]


def test_an_audit_comes_when_the_stream_was_read_up_to_now() -> None:
    one = Following()
    one.connected()
    one.feed(beat(AUDIT_EVERY), AUDIT_EVERY + 1, waited=0.0)
    assert one.do(AUDIT_EVERY + 1) is NextAction.READ
    one.feed(beat(AUDIT_EVERY + 15), AUDIT_EVERY + 15, waited=14.0)
    assert one.do(AUDIT_EVERY + 15) is NextAction.AUDIT
    one.looks(AUDIT_EVERY + 15, listed("left out", 100), audit=True)
    (found,) = one.taken()
    assert (found.id, found.replayed, found.late) == ("left out", True, False)
    assert one.do(AUDIT_EVERY + 16) is NextAction.READ
    one.feed(beat(AUDIT_EVERY + 30), AUDIT_EVERY + 30, waited=14.0)
    assert one.do(AUDIT_EVERY + 30) is NextAction.READ


def test_a_failed_audit_is_no_gap_and_is_not_tried_at_once() -> None:
    one = Following(reports=True)
    one.connected()
    one.feed(beat(301), 301, waited=14.0)
    one.taken()
    assert one.do(301) is NextAction.AUDIT
    one.it.walk_failed(one.it.begin_walk(301, audit=True), "no", 331, audit=True)
    assert (one.taken(), one.it.stats.gaps) == ([], 0)
    one.feed(beat(345), 345, waited=14.0)
    assert one.do(345) is NextAction.READ


def test_only_the_second_look_makes_a_gap() -> None:
    one = Following(reports=True)
    one.connected()
    one.feed(live("a", 5), 5)
    one.it.disconnected("cut", 10, START + 10)
    one.connected(20)
    one.taken()
    one.it.walk_failed(one.it.begin_walk(20), "first", 50)
    assert (one.taken(), one.it.stats.gaps, one.do(50)) == ([], 0, NextAction.BACKFILL)
    one.it.walk_failed(one.it.begin_walk(50), "second", 600)
    (gap,) = one.taken()
    assert isinstance(gap, Gap)
    assert (gap.start.timestamp(), gap.reason) == (START + 5, "second")
    assert gap.end.timestamp() >= START + 50
    assert (one.it.stats.gaps, one.do(600)) == (1, NextAction.READ)


@each_of("comment", [b": hello\n", b":\n\n", b"\n", b"event: x\n\n", b"id: 5\n\n", b"retry: 5\n\n", b"x"])
def test_bytes_without_an_event_are_no_life(comment: bytes) -> None:
    one = Following()
    one.connected()
    for at in range(5, 91, 5):
        assert one.feed(comment, at, waited=5.0) is None
    assert one.feed(comment, 95, waited=5.0) == "bytes, but no event for 90 s"


@each_of("garbage", [b"data: x\n\n", b'data: {"type": "signal"}\n\n', live("x", 1, chain_id=56)])
def test_garbage_is_no_life_either(garbage: bytes) -> None:
    one = Following()
    one.connected()
    assert one.feed(garbage, 80, waited=80.0) is None
    assert one.feed(garbage, 91, waited=11.0) == "bytes, but no event for 90 s"


def test_what_it_says_of_itself() -> None:
    one = Following()
    assert (one.it.stats.position, one.it.stats.lag) == (None, None)
    one.connected()
    one.feed(live("a", 4), 6)
    stats = one.it.stats
    assert stats.position is not None
    assert (stats.connects, stats.position.timestamp(), stats.lag) == (1, START + 4, 2.0)


def test_a_disconnect_says_why_and_when_again(caplog: pytest.LogCaptureFixture) -> None:
    one = Following(reports=True)
    one.connected()
    one.taken()
    with caplog.at_level(logging.WARNING, "tradesdk"):
        assert one.it.disconnected("the cable was cut", 5, START + 5)
    (gone,) = one.taken()
    assert (gone.reason, gone.tries, 2 <= gone.wait <= 2.5) == ("the cable was cut", 1, True)
    assert "the cable was cut; trying again in 2." in caplog.text
    fields = vars(caplog.records[-1])
    assert (fields["event"], fields["reason"], fields["wait"]) == ("stream_disconnected", gone.reason, gone.wait)


@each_of("end", ["cut", "interrupted"])
def test_a_connection_that_was_cut_says_nothing_about_silence(end: str) -> None:
    """Only silence widens the limit: else a service that hangs up often would be given ten minutes to be dead."""
    one = Following()
    for at in range(0, 500, 100):
        one.connected(at)
        if end == "cut":
            one.it.disconnected("cut", at + 1, START + at + 1)
        else:
            one.it.interrupted(at + 1)
    one.connected(600)
    assert one.feed(b":\n", 690, waited=90.0) is None
    assert one.feed(b":\n", 691, waited=1.0) == "bytes, but no event for 90 s"


def test_a_retry_field_is_a_floor_for_all_connections_after_it() -> None:
    one = Following(reports=True)
    one.connected()
    one.feed(b"retry: 20000\n\n", 1)
    for at in (2.0, 30.0):
        one.it.disconnected("cut", at, START + at)
        gone = one.taken()[-1]
        assert gone.wait == 20
        one.connected(at + 20)


def test_the_same_broken_item_of_the_history_is_told_once() -> None:
    one = Following(reports=True)
    one.connected()
    one.taken()
    bad = InvalidEvent("bad", json.dumps({"id": 5}).encode(), "history")
    for at in (10.0, 20.0):
        walk = one.it.begin_walk(at)
        one.it.add(walk, HistoryPage([], None, {}, [bad]), at, START + at)
    assert one.taken() == [bad]
    assert one.it.stats.invalid == 1


def test_an_id_that_comes_again_with_other_content_is_told_once() -> None:
    one = Following(reports=True)
    one.connected()
    one.taken()
    one.feed(live("a", 1) + live("a", 1), 2)
    assert [type(item) for item in one.taken()] == [StreamSignal]
    for at in (3, 4):
        one.feed(live("a", 1, price_usd=9.0), at)
    (bad,) = one.taken()
    assert (bad.reason, bad.source) == ("the id 'a' came again with other content", "stream")
    stats = one.it.stats
    assert (stats.conflicts, stats.invalid, stats.duplicates) == (1, 1, 3)


def test_the_first_interruption_costs_nothing_and_more_of_them_wait() -> None:
    one = Following()
    one.connected()
    one.it.interrupted(1)
    assert one.do(1) is NextAction.CONNECT
    one.connected(1)
    one.it.interrupted(2)
    do, wait = one.it.step(2)
    assert (do, wait >= 2) == (NextAction.WAIT, True)
