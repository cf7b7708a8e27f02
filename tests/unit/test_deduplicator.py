"""What was seen, what may be missing and in which order it is yielded: scripts of a stream and of a history."""

from __future__ import annotations

import pytest

from tradesdk import StreamSignal
from tradesdk._http.service_time import AHEAD
from tradesdk._stream import deduplication
from tradesdk._stream.deduplication import MOST_REMEMBERED, OVERLAP, REMEMBERED
from tradesdk._stream.events import marked

from .._clock import START
from .._rows import each_of
from ._replays import Follows, History, listed, live

FAR = 99_999_999_999 - START  # the year 5138


def test_a_hole_is_closed_in_order_before_what_came_afterwards() -> None:
    history = History([("a", 1), ("h1", 5), ("h2", 6), ("h3", 7)])
    one = Follows.begun(history=history)
    one.live("a", 1)
    assert one.first_look(30) == ["h1", "h2", "h3"]
    assert one.second_look(33, attached=30) == []
    assert one.live("b", 31, now=33) == ["b"]
    assert [signal.replayed for signal in one.yielded] == [False, True, True, True, False]
    assert not any(signal.late for signal in one.yielded)
    assert (one.replay.replayed, one.replay.late, one.gaps) == (3, 0, [])


def test_what_the_history_shows_late_comes_with_the_second_look() -> None:
    """Nothing newer was yielded meanwhile, so it is in order."""
    history = History([("h1", 20)])
    one = Follows.begun(history=history)
    assert one.first_look(30) == ["h1"]
    history.add("h2", 28)
    assert one.second_look(33, attached=30) == ["h2"]
    assert not any(signal.late for signal in one.yielded)


def test_the_first_look_hands_out_only_what_the_history_has_surely_completed() -> None:
    history = History([("h1", 20), ("h3", 27)])
    one = Follows.begun(history=history)
    assert one.first_look(30) == ["h1"]  # 27 lies within the settle time: an older one may still show up
    history.add("h2", 26)
    assert one.second_look(33, attached=30) == ["h2", "h3"]


def test_a_look_reaches_back_by_the_overlap() -> None:
    """Signals needn't arrive in the order of their times."""
    one = Follows.begun()
    one.live("a", 100)
    look = one.replay.backfill(START + 200)
    assert look.start == START + 100 - OVERLAP
    assert look.first == START + 89  # and a second more, where `from` is exclusive
    history = History([("early", 91), ("too early", 89), ("a", 100)])
    one.history = history
    assert one.both_looks(200) == ["early"]
    assert one.yielded[-1].late


def test_a_look_does_not_reach_back_before_the_beginning() -> None:
    one = Follows.begun(at=50, history=History([("before", 49), ("at once", 50)]))
    assert one.replay.backfill(START + 60).first == START + 49
    assert one.both_looks(60) == ["at once"]


def test_what_was_in_the_history_before_is_not_wanted_unless_it_comes_live() -> None:
    one = Follows.begun(history=History([("old", 0), ("older", 0), ("new", 0)]))
    one.replay.before([listed("old", 0), listed("older", 0)], START)
    assert one.live("old", 0) == ["old"]
    assert one.both_looks(10) == ["new"]


@each_of(("shown_by", "ahead"), [("a heartbeat", 3_600), ("a signal", 50)])
def test_the_first_event_shows_that_it_began_earlier_than_a_clock_ahead_said(shown_by: str, ahead: float) -> None:
    """What dates the answers is ahead of what dates the signals: all that follow would lie before the begin."""
    one = Follows(history=History([("older", -500), ("old", -50), ("missed", 15)]))
    one.replay.ahead = AHEAD
    one.replay.start(START + ahead)
    came = one.beat(10) if shown_by == "a heartbeat" else one.live("a", 10, now=10 + ahead)
    assert came + one.both_looks(60 + ahead) == ([] if shown_by == "a heartbeat" else ["a"]) + ["missed"]


def test_a_signal_of_long_ago_does_not_move_a_beginning_that_answers_dated() -> None:
    one = Follows(history=History([("old", -50), ("first", -3_000)]))
    one.replay.ahead = AHEAD
    one.replay.start(START)
    assert one.live("first", -3_000, now=1) == ["first"]
    assert one.both_looks(60) == one.audit(400) == []


def test_on_a_quiet_chain_the_last_signal_is_not_yielded_twice() -> None:
    """It was three days ago: ids are remembered by the position, not by the time that passes."""
    history = History([("a", 1), ("b", 2)])
    one = Follows.begun(history=history)
    one.live("a", 1)
    one.live("b", 2)
    for days in range(1, 4):
        assert one.both_looks(days * 86_400) == []
        assert one.audit(days * 86_400 + 300) == []
    assert one.live("b", 2, now=4 * 86_400) == []
    assert one.ids == ["a", "b"]


def test_ids_are_forgotten_with_the_position_once_they_were_audited() -> None:
    one = Follows.begun()
    for number in range(3_000):
        one.live(f"s{number}", number)
        one.history.add(f"s{number}", number)
        if number % 600 == 0:
            assert one.audit(number + 5) == []
    assert REMEMBERED <= len(one.replay._seen) < 3 * REMEMBERED
    assert one.live("s2999", 2999, now=3000) == one.live("s2100", 2100, now=3000) == []


@pytest.mark.long
@each_of("shown_by", ["a signal", "a heartbeat", "nothing"])
def test_what_an_audit_found_may_still_come_live_long_after(shown_by: str) -> None:
    """The consumer is so far behind that its connection holds what audits have yielded meanwhile."""
    one = Follows.begun(history=History((f"s{number}", number) for number in range(1, 3_000)))
    if shown_by == "a signal":
        one.live("s1", 1)
    elif shown_by == "a heartbeat":
        one.beat(0.5)
    for now in range(300, 3_001, 300):
        one.audit(now)
    seen = len(one.ids)
    assert seen > 2 * REMEMBERED
    for number in range(1, seen):
        assert one.live(f"s{number}", number, now=3_000) == []
    assert len(one.ids) == seen


def test_what_no_audit_has_read_yet_is_remembered() -> None:
    one = Follows.begun(history=History((f"s{number}", number) for number in range(2_500)))
    for number in range(2_500):
        if number != 500:
            one.live(f"s{number}", number)
    assert one.audit(2_600) == ["s500"]


def test_not_more_ids_are_remembered_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten does not come back from the history."""
    assert MOST_REMEMBERED == 50_000
    monkeypatch.setattr(deduplication, "MOST_REMEMBERED", 500)
    one = Follows.begun(history=History((f"s{number}", number) for number in range(1_200)))
    for number in range(1_200):
        one.live(f"s{number}", number)
        assert len(one.replay._seen) <= 500
    assert one.audit(1_300) == []


@each_of("at", [FAR, AHEAD + 100])
def test_a_live_signal_dated_ahead_moves_nothing(at: float) -> None:
    one = Follows.begun(history=History([("a", 1), ("far", at), ("h", 50)]))
    one.replay.ahead = AHEAD
    one.live("a", 1)
    assert one.live("far", at, now=2) == ["far"]
    assert one.position == 1
    assert one.live("b", 3) == ["b"]
    assert not one.yielded[-1].late
    assert one.both_looks(60) == ["h"]
    assert one.ids.count("far") == 1


def test_a_signal_dated_ahead_is_never_yielded_twice_however_often_it_is_found() -> None:
    """Its id is remembered until its time has come, and that of every other for as long as usual."""
    history = History([("far", FAR)])
    one = Follows.begun(history=history)
    one.live("far", FAR, now=1)
    for number in range(2, 8000, 50):
        one.live(f"s{number}", number)
        history.add(f"s{number}", number)
        assert one.both_looks(number + 1) == []
        assert one.live("far", FAR, now=number) == []
    assert one.ids.count("far") == 1
    assert len(one.replay._seen) < 200


def test_a_signal_dated_ahead_that_only_the_history_has_is_yielded_once() -> None:
    history = History([("far", FAR), ("h", 50)])
    one = Follows.begun(history=history)
    one.both_looks(60)
    for number in range(1, 4):
        one.audit(60 + 300 * number)
    assert sorted(one.ids) == ["far", "h"]
    assert one.position == 50
    assert one.replay.waiting == 0


@each_of("at", [-START, -START + 5, -86_400.0, 0])
def test_a_signal_of_long_ago_is_late_and_nothing_else(at: float) -> None:
    """1970 is a time as well."""
    one = Follows.begun(at=1000)
    one.live("a", 1001)
    assert one.live("old", at, now=1002) == ["old"]
    assert one.yielded[-1].late
    assert one.position == 1001
    assert one.live("old", at, now=1003) == []
    assert one.live("b", 1004) == ["b"]
    assert (one.replay.late, one.replay.duplicates, one.position) == (1, 1, 1004)


def test_a_signal_of_1970_in_the_history_is_not_what_was_asked_for() -> None:
    """A service that pays no heed to `from` lists it again and again."""
    one = Follows.begun()
    look = one.replay.backfill(START + 20)
    assert one.replay.add(look, [listed("h", 10), listed("old", -START)]) == (True, [])
    assert one.replay.found(look, START + 20, one.out) == (None, False)
    assert one.handed() == ["h"]


def test_the_walk_ends_with_the_first_page_that_is_too_old() -> None:
    one = Follows.begun(at=100)
    look = one.replay.backfill(START + 200)
    assert one.replay.add(look, [listed("h", 150), listed("before", 50)]) == (True, [])
    assert one.replay.add(look, [listed("before", 50), listed("older", 40)]) == (False, [])
    assert one.replay.add(look, []) == (True, [])  # an empty page says nothing: the cursor does


def test_a_page_in_no_order_is_sorted() -> None:
    one = Follows.begun()
    look = one.replay.backfill(START + 100)
    one.replay.add(look, [listed("h2", 20), listed("h4", 40), listed("h1", 10)])
    one.replay.add(look, [listed("h5", 50), listed("h3", 30)])
    assert one.replay.found(look, START + 100, one.out) == (None, False)
    assert one.handed() == ["h1", "h2", "h3", "h4", "h5"]


def test_what_is_equally_old_keeps_the_order_of_the_history() -> None:
    one = Follows.begun(history=History([("h1", 7), ("h2", 7.1), ("h3", 7.2)]))
    assert one.both_looks(30) == ["h1", "h2", "h3"]


def test_a_list_that_grows_while_it_is_read_shows_some_twice() -> None:
    one = Follows.begun()
    look = one.replay.backfill(START + 100)
    one.replay.add(look, [listed("h3", 30), listed("h2", 20)])
    one.replay.add(look, [listed("h2", 20), listed("h1", 10)])
    one.replay.found(look, START + 100, one.out)
    assert one.handed() == ["h1", "h2", "h3"]


def test_an_id_that_comes_again_with_other_content_is_a_conflict() -> None:
    one = Follows.begun()
    one.live("a", 1)
    assert one.replay.live(live("a", 1), START + 2, one.out)
    assert not one.replay.live(live("a", 1, price_usd=9.0), START + 2, one.out)
    one.live("b", 2)
    look = one.replay.backfill(START + 9)
    other = listed("b", 2, direction="SELL")
    assert one.replay.add(look, [listed("a", 1), other]) == (True, [other])
    assert one.replay.duplicates == 2
    assert one.handed() == []


def test_an_id_that_comes_twice_in_one_walk_with_other_content_is_a_conflict() -> None:
    one = Follows.begun()
    look = one.replay.backfill(START + 100)
    conflicts = one.replay.add(look, [listed("h", 30, price_usd=7.0), listed("h", 30), listed("h", 30, price_usd=7.0)])[
        1
    ]
    one.replay.found(look, START + 100, one.out)
    assert one.handed() == ["h"]
    assert conflicts == [listed("h", 30)]


def test_other_content_than_in_the_history_is_a_conflict_when_it_was_waited_for() -> None:
    one = Follows.begun(history=History([("h", 98)]))
    one.second_look(100, attached=97)
    assert one.replay.waiting == 1
    assert not one.replay.live(live("h", 98, price_usd=7.0), START + 100, one.out)
    assert one.handed() == ["h"]


# walks that are long, or fail; more of them in test_replay_walks


@pytest.fixture
def few_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "MOST_HELD", 20)


def apart(count: int, each: float = 1.0) -> list[tuple[str, float]]:
    return [(f"h{number}", 10 + number * each) for number in range(count)]


@pytest.mark.usefixtures("few_held")
@each_of(("count", "each", "pages"), [(20, 1.0, 1), (21, 1.0, 2), (130, 1.0, 15), (50, 0.0, 5)])
def test_more_than_is_held_is_read_in_several_walks(count: int, each: float, pages: int) -> None:
    """The last of them are published in a single second, which cannot be cut."""
    history = History(apart(count, each))
    one = Follows.begun(history=history)
    assert one.first_look(2_000) == [f"h{number}" for number in range(count)]
    assert (one.gaps, one.replay.late) == ([], 0)
    assert history.pages <= pages


@pytest.mark.usefixtures("few_held")
def test_an_audit_finds_more_than_is_held() -> None:
    one = Follows.begun(history=History(apart(50)))
    one.live("a", 5)
    one.live("b", 990)
    assert one.audit(1_000) == [f"h{number}" for number in range(50)]
    assert one.audit(1_300) == []


@each_of("each", [1.0, 0.0])
def test_a_walk_that_fails_yields_what_it_found_and_is_a_gap(each: float) -> None:
    history = History(apart(250, each))
    one = Follows.begun(history=history)
    assert len(one.second_look(303, attached=300, breaks=2)) == 200
    assert one.gaps == [(0, 303, "a page could not be read")]


def test_filters_keep_back_and_count_and_remember() -> None:
    one = Follows.begun(
        history=History([("low", 5), ("high", 6)]), predicate=lambda signal: not signal.id.startswith("low")
    )
    assert one.live("low live", 1) == []
    assert one.live("high live", 2) == ["high live"]
    assert one.both_looks(30) == ["high"]
    assert (one.replay.filtered, one.replay.signals, one.position) == (2, 2, 6)
    assert one.both_looks(60) == []
    assert (one.replay.filtered, one.replay.duplicates) == (2, 0)


def test_our_marks_do_not_touch_what_the_service_sent() -> None:
    signal = listed("h", 5, venue="x", type="spot", late=True)
    made = marked(signal, replayed=True, late=False)
    assert (made.type, made.replayed, made.late) == ("signal", True, False)
    assert made.model_extra == {"venue": "x"}
    again = marked(made, replayed=False, late=True)
    assert isinstance(again, StreamSignal)
    assert (again.replayed, again.late, again.model_extra) == (False, True, {"venue": "x"})
    assert (made.replayed, made.late) == (True, False)


@each_of(("last", "gaps"), [(101, []), (80, [(80, 102, "the history does not reach back to the last signal seen")])])
def test_the_history_need_not_list_yet_what_is_not_settled(last: int, gaps: list[tuple[float, float, str]]) -> None:
    """It lists a newer signal and not the last one seen: that one may come late, or was let go of."""
    one = Follows.begun(history=History([("newer", 102)]))
    one.live("last", last)
    assert one.second_look(104, attached=103) == ["newer"]
    assert one.gaps == gaps
