"""Long holes, walks that fail, and what waits for the stream to bring it."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from tradesdk._stream import deduplication
from tradesdk._stream.deduplication import MOST_HELD, HistoryWalk

from .._clock import START
from ._replays import Follows, History, listed

pytestmark = pytest.mark.long

HELD = 1_000
FAR = 99_999_999_999 - START


@pytest.fixture(autouse=True)
def small_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what is held outside of tests: the same decisions, sooner made."""
    assert MOST_HELD == 10 * HELD
    monkeypatch.setattr(deduplication, "MOST_HELD", HELD)


def rush(count: int, *, begin: float = 10.0, each: float = 0.1) -> list[tuple[str, float]]:
    return [(f"h{number}", begin + number * each) for number in range(count)]


# more than fit


def test_memory_holds_no_more_than_a_load() -> None:
    history = History(rush(3_000))
    one = Follows.begun(history=history)
    look = one.replay.backfill(START + 20_000)
    for offset in range(0, 3_000, 100):
        one.replay.add(look, history.page(look, offset))
        assert len(look.found) <= HELD
    assert look.truncated


def test_what_is_published_during_a_long_walk_comes_as_well() -> None:
    history = History(rush(2_500))
    one = Follows.begun(history=history)
    for number in range(30):
        history.add(f"new{number}", 300 + number)
    one.both_looks(340)
    assert one.ids == [f"h{n}" for n in range(2_500)] + [f"new{n}" for n in range(30)]


def test_a_service_that_means_from_and_to_without_their_ends() -> None:
    class Exclusive(History):
        def _first(self, walk: HistoryWalk) -> int:
            return bisect_left(self.entries, (walk.first + 1,))

    for each in (0.0, 0.1):
        one = Follows.begun(history=Exclusive(rush(3_000, each=each)))
        assert one.first_look(400) == [f"h{number}" for number in range(3_000)]


# walks that fail


def test_a_second_look_that_fails_at_once_is_a_gap_up_to_now() -> None:
    one = Follows.begun(history=History([("h", 50)]))
    one.live("a", 5)
    assert one.second_look(103, attached=100, breaks=0) == []
    assert one.gaps == [(5, 103, "a page could not be read")]


@pytest.mark.parametrize("breaks", [0, 1, 5, 10, 11, 18, 24, 25, 26, 30])
@pytest.mark.parametrize("kind", ["ordinary", "a signal of 5138", "the newest wait"])
def test_whatever_a_failing_walk_does_not_yield_lies_in_its_gap_or_waits(breaks: int, kind: str) -> None:
    attached = 200.0 if kind == "the newest wait" else 400.0
    history = History(rush(1_930 if kind == "the newest wait" else 2_500))
    if kind == "a signal of 5138":
        history.add("far", FAR)
    one = Follows.begun(history=history)
    one.second_look(attached + 3, attached=attached, breaks=breaks)
    assert one.gaps
    told = {signal.id for _, signal in one.replay._waiting} | set(one.ids) | {"far"}
    for when, _, signal_id in history.entries:
        if signal_id not in told:
            assert any(start <= when - START <= end for start, end, _ in one.gaps), signal_id
    assert all(end <= attached + 3 for _, end, _ in one.gaps)
    assert len(one.ids) == len(set(one.ids))


def test_an_audit_recovers_what_a_failed_walk_left() -> None:
    history = History(rush(250, each=1.0))
    one = Follows.begun(history=history)
    one.second_look(303, attached=300, breaks=1)
    assert one.gaps == [(0, 303, "a page could not be read")]
    assert one.live("b", 305) == ["b"]
    assert one.audit(600) == [f"h{number}" for number in range(150)]
    assert all(signal.late and signal.replayed for signal in one.yielded[-150:])
    assert sorted(one.ids) == sorted(["b", *(f"h{number}" for number in range(250))])
    assert one.audit(900) == []


def test_after_a_good_audit_the_next_one_begins_there() -> None:
    one = Follows.begun(history=History(rush(50, each=6.0)))
    one.audit(400)
    assert one.position == 304
    assert one.replay.audit(START + 700).first == START + 304 - 10 - 1


def test_too_many_in_no_order_come_all_the_same() -> None:
    history = History(rush(1_500))
    one = Follows.begun(history=history)
    again, walks = True, 0
    while again:
        look = one.replay.backfill(START + 400, attached=START + 400)
        for offset in range(0, 1_500, 100):
            one.replay.add(look, [listed(name, at) for name, at in rush(1_500)[offset : offset + 100]])
        gap, again = one.replay.found(look, START + 400, one.out)
        assert gap is None
        walks += 1
    one.handed()
    assert sorted(one.ids) == sorted(name for name, _ in rush(1_500))
    assert (walks, one.replay.late) == (2, 0)


# what the stream will perhaps still bring


def waiting() -> Follows:
    """Three signals after the moment at which the stream was opened: at 95, 96 and 96."""
    one = Follows.begun(history=History([("h", 90), ("w1", 95), ("w2", 96), ("w3", 96.5)]))
    assert one.second_look(97, attached=94) == ["h"]
    assert one.replay.waiting == 3
    return one


def test_what_the_stream_brings_itself_is_live() -> None:
    one = waiting()
    assert [one.live(name, at, now=98) for name, at in (("w1", 95), ("w2", 96), ("w3", 96))] == [["w1"], ["w2"], ["w3"]]
    assert [signal.replayed for signal in one.yielded] == [True, False, False, False]
    assert one.replay.waiting == 0


def test_one_that_is_further_on_in_the_list_releases_those_before_it() -> None:
    one = waiting()
    assert one.live("w3", 96, now=98) == ["w1", "w2", "w3"]
    assert [signal.replayed for signal in one.yielded] == [True, True, True, False]


def test_a_newer_one_releases_what_is_older() -> None:
    one = waiting()
    assert one.live("b", 96, now=98) == ["w1", "b"]
    assert one.live("c", 97, now=98) == ["w2", "w3", "c"]
    assert not any(signal.late for signal in one.yielded)


def test_one_dated_ahead_is_no_evidence() -> None:
    one = waiting()
    assert one.live("far", FAR, now=98) == ["far"]
    assert one.replay.waiting == 3


def test_a_heartbeat_releases_what_is_older() -> None:
    one = waiting()
    assert one.beat(95) == []
    assert one.beat(96) == ["w1"]
    one.replay.heartbeat(START + FAR, START + 98, one.out)
    assert one.handed() == []
    assert one.beat(97) == ["w2", "w3"]


def test_an_audit_releases_what_nothing_else_did() -> None:
    one = waiting()
    assert one.audit(397) == ["w1", "w2", "w3"]
    assert one.replay.waiting == 0
    assert one.live("w1", 95, now=398) == []


def test_another_disconnect_loses_nothing_that_waits() -> None:
    one = waiting()
    assert one.both_looks(110) == ["w1", "w2", "w3"]
    assert one.replay.waiting == 0


def test_what_waits_is_in_the_gap_when_the_next_walk_fails() -> None:
    one = waiting()
    one.second_look(113, attached=110, breaks=0)
    assert one.gaps == [(90, 113, "a page could not be read")]
    assert one.audit(413) == ["w1", "w2", "w3"]


def test_a_gap_does_not_reach_into_a_time_to_come() -> None:
    one = Follows.begun()
    look = one.replay.backfill(START + 103, attached=START + 100)
    one.replay.add(look, [listed("far", FAR)])
    one.told(one.replay.failed(look, "broken", START + 103, one.out))
    assert one.gaps == [(0, 103, "broken")]
