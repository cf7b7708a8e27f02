"""Random lives of a stream against the promise: nothing lost, nothing twice, nothing out of order."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk._stream.deduplication import SURELY_KEPT

from ._replays import SETTLE, Follows, History

FAR = 4_000_000_000.0


class Service:
    """Publishes one signal after the other; the history shows each up to the settle time later."""

    def __init__(self, draw: random.Random, *, absurd: bool, keeps: float) -> None:
        self.draw = draw
        self.keeps = keeps
        self.now = 0.0
        self.absurd = absurd
        self.published: list[tuple[str, float]] = []
        self.unshown: list[tuple[float, str, float]] = []
        self.unread: list[tuple[str, float]] = []
        self.history = History()
        self.open = True

    def passes(self, seconds: float) -> None:
        """Signals on the way; those of an open connection wait to be read."""
        end = self.now + seconds
        while self.now < end:
            step = self.draw.choice((0.01, 0.3, 2.0, 40.0))
            if self.now + step > end:
                break
            self.now += step
            at = self.now
            if self.absurd and self.draw.random() < 0.1:
                at = self.now + self.draw.choice((FAR, 100.0, 3_000.0))
            signal_id = f"s{len(self.published)}"
            self.published.append((signal_id, at))
            self.unshown.append((self.now + self.draw.choice((0.0, self.draw.uniform(0, SETTLE))), signal_id, at))
            if self.open:
                self.unread.append((signal_id, at))
                if self.draw.random() < 0.1:
                    self.unread.append(self.draw.choice(self.unread))
        self.now = end
        self.shown()
        self.history.since = self.now - self.keeps

    def shown(self) -> None:
        for entry in [one for one in self.unshown if one[0] <= self.now]:
            self.unshown.remove(entry)
            self.history.add(entry[1], entry[2])


class Life:
    """A consumer of it that does what a stream does around `Deduplicator`."""

    def __init__(self, seed: int, *, absurd: bool = False, keeps: float = math.inf) -> None:
        self.draw = random.Random(seed)
        self.service = Service(self.draw, absurd=absurd, keeps=keeps)
        self.follows = Follows.begun(history=self.service.history)

    def reads(self, most: int) -> None:
        service = self.service
        for signal_id, at in service.unread[:most]:
            self.follows.live(signal_id, at, now=service.now)
        del service.unread[:most]

    def step(self) -> None:
        service, draw, follows = self.service, self.draw, self.follows
        match draw.choice(("time", "time", "read", "read", "cut", "beat", "audit")):
            case "time":
                service.passes(draw.choice((0.5, 5.0, 60.0)))
            case "read":
                self.reads(draw.randrange(1, 20))
            case "beat":
                self.reads(len(service.unread))
                follows.beat(service.now)
            case "audit":
                self.reads(len(service.unread))
                follows.audit(service.now)
            case "cut":
                self.cut()

    def cut(self) -> None:
        """What was not read is gone. Some of the tries that follow find the stream open for a moment only."""
        service, draw, follows = self.service, self.draw, self.follows
        service.unread.clear()
        service.open = False
        service.passes(draw.choice((0.0, 2.0, 100.0)))
        service.open = True
        attached = service.now
        service.passes(draw.choice((0.0, 0.4)))
        follows.first_look(service.now)
        if draw.random() < 0.2:
            self.cut()
        else:
            service.passes(max(0.0, attached + SETTLE - service.now))
            follows.second_look(service.now, attached)

    def ends(self) -> None:
        self.service.passes(60)
        self.reads(len(self.service.unread))
        for _ in range(2):
            self.service.passes(300)
            self.reads(len(self.service.unread))
            self.follows.audit(self.service.now)


def judge(life: Life, *, ordered: bool) -> None:
    ids = life.follows.ids
    assert len(ids) == len(set(ids)), "twice"
    expected = [signal_id for signal_id, _ in life.service.published]
    assert set(ids) == set(expected), "lost"
    if ordered:
        times = [signal.timestamp for signal in life.follows.yielded]
        assert times == sorted(times), "out of order"
        assert life.follows.replay.late == 0
    assert life.follows.gaps == []
    assert life.follows.replay.waiting == 0


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_nothing_is_lost_twice_or_out_of_order(seed: int, steps: int) -> None:
    life = Life(seed)
    for _ in range(steps):
        life.step()
    life.ends()
    judge(life, ordered=True)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_absurd_dates_cost_the_order_and_nothing_else(seed: int, steps: int) -> None:
    life = Life(seed, absurd=True)
    for _ in range(steps):
        life.step()
    life.ends()
    judge(life, ordered=False)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([SURELY_KEPT, 60.0, 90.0]))
def test_what_a_history_has_let_go_lies_in_a_gap(seed: int, steps: int, keeps: float) -> None:
    """Once something was seen: before that nobody knows."""
    life = Life(seed, keeps=keeps)
    life.service.passes(5)
    life.service.published.append(("first", life.service.now))
    life.service.history.add("first", life.service.now)
    life.follows.live("first", life.service.now)
    life.reads(len(life.service.unread))
    for _ in range(steps):
        life.step()
    life.ends()
    ids = life.follows.ids
    assert len(ids) == len(set(ids)), "twice"
    for signal_id, at in life.service.published:
        told = any(start <= math.floor(at) <= end for start, end, _ in life.follows.gaps)
        assert signal_id in ids or told, (signal_id, at, life.follows.gaps)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 5_000, 1_000))
def test_many_lives(first: int) -> None:
    for seed in range(first, first + 1_000):
        life = Life(seed)
        for _ in range(40):
            life.step()
        life.ends()
        judge(life, ordered=True)
