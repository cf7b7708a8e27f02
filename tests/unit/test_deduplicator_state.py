"""What a checkpoint keeps: after a crash everything that was not acknowledged comes again, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.service_time import AHEAD as AHEAD_OF_DATES
from tradesdk._stream.checkpoint import CheckpointState
from tradesdk._stream.deduplication import OVERLAP

from .._clock import START
from .._rows import each_of
from ._replays import Follows, History, listed

FAR = 99_999_999_999 - START


def taking(*names: str) -> Follows:
    """Signals a second apart, none acknowledged."""
    one = Follows.begun(acknowledging=True)
    for number, name in enumerate(names, 1):
        one.live(name, number)
    return one


def again(one: Follows, history: History, now: float) -> list[str]:
    """What the next run yields."""
    next_run = Follows.resumed(one.replay.state(), history=history)
    return next_run.both_looks(now)


def test_before_the_first_signal() -> None:
    assert Follows.begun(at=5, acknowledging=True).replay.state() == CheckpointState(START + 5, START + 5)


def seconds_apart(count: int) -> History:
    return History((f"s{number}", number) for number in range(1, count + 1))


def test_what_is_older_than_the_overlap_need_not_be_named_after_an_audit() -> None:
    one = taking(*(f"s{number}" for number in range(1, 101)))
    for number in range(1, 101):
        one.replay.acknowledge(f"s{number}")
    one.history = seconds_apart(100)
    assert one.audit(110) == []
    state = one.replay.state()
    assert state.position == START + 100
    assert {name for name, _ in state.handled} == {f"s{number}" for number in range(int(100 - OVERLAP), 101)}
    assert again(one, seconds_apart(102), 130) == ["s101", "s102"]


@each_of("audited", [True, False])
def test_the_oldest_that_is_not_acknowledged_comes_again_however_many_follow(audited: bool) -> None:
    """Long after it others are not acknowledged either; and so many that not all are named in the file."""
    count = 1_200
    one = taking(*(f"s{number}" for number in range(1, count + 1)))
    one.history = seconds_apart(count)
    if audited:
        assert one.audit(count + 10) == []
    open_ones = ["s400", "s900", "s1100"]
    for number in range(1, count + 1):
        if f"s{number}" not in open_ones:
            one.replay.acknowledge(f"s{number}")
    assert again(one, one.history, count + 30) == open_ones


def test_what_the_stream_left_out_since_the_last_audit_comes_after_a_crash() -> None:
    one = taking(*(f"s{number}" for number in range(1, 101)))
    for number in range(1, 101):
        one.replay.acknowledge(f"s{number}")
    history = seconds_apart(100)
    history.add("left out", 20)
    assert again(one, history, 130) == ["left out"]
    state = one.replay.state()
    next_run = Follows.resumed(state, history=history).replay.state()
    assert (next_run.position, sorted(next_run.handled)) == (state.position, sorted(state.handled))


def test_not_very_many_are_named_for_that() -> None:
    one = taking(*(f"s{number}" for number in range(1, 2_001)))
    for number in range(1, 2_001):
        one.replay.acknowledge(f"s{number}")
    state = one.replay.state()
    assert len(state.handled) <= 1_000 + OVERLAP
    assert again(one, seconds_apart(2_003), 2_030) == ["s2001", "s2002", "s2003"]


def test_what_was_filtered_is_dealt_with() -> None:
    one = Follows.begun(acknowledging=True, predicate=lambda signal: signal.id != "no")
    one.live("no", 1)
    assert one.replay.state().handled == (("no", START + 1),)


def test_a_signal_dated_ahead_is_kept_by_its_own_time() -> None:
    one = taking("a")
    one.live("far", FAR, now=2)
    one.replay.acknowledge("a")
    history = History([("a", 1), ("far", FAR)])
    assert again(one, history, 30) == ["far"]
    one.replay.acknowledge("far")
    state = one.replay.state()
    assert ("far", START + FAR) in state.handled
    assert again(one, history, 30) == []
    second = Follows.resumed(state, history=history)
    second.both_looks(30)
    third = Follows.resumed(second.replay.state(), history=history)
    assert third.both_looks(60) == third.audit(400) == []
    assert third.live("far", FAR, now=500) == []


def test_what_was_in_the_history_before_is_not_replayed_after_a_crash() -> None:
    one = Follows.begun(acknowledging=True)
    one.replay.before([listed("old", 0)], START)
    assert again(one, History([("old", 0), ("new", 0)]), 30) == ["new"]


def test_what_was_there_before_is_not_replayed_once_the_position_has_moved() -> None:
    one = Follows.begun(acknowledging=True, history=History([("old", -5)]))
    one.replay.before([listed("old", -5)], START)
    one.history.add("a", 1)
    one.live("a", 1)
    one.replay.acknowledge("a")
    one.both_looks(20)
    assert again(one, one.history, 40) == []


def test_a_late_one_brings_nothing_back_that_was_acknowledged() -> None:
    history = History((f"s{number}", number) for number in range(2500))
    one = Follows.begun(acknowledging=True, history=history)
    for number in range(2500):
        one.live(f"s{number}", number)
        one.replay.acknowledge(f"s{number}")
    one.live("late", -START + 5, now=2500)
    assert one.ids[-1] == "late"
    assert again(one, history, 2530) == []


def test_a_state_survives_another_run_without_any_signal() -> None:
    one = taking("a", "b", "c")
    one.replay.acknowledge("b")
    state = one.replay.state()
    second = Follows.resumed(state)
    assert second.replay.state().position == state.position
    history = History([("a", 1), ("b", 2), ("c", 3)])
    assert again(second, history, 30) == ["a", "c"]


def test_a_restart_right_after_a_signal_is_no_gap_on_a_quiet_chain() -> None:
    """An audit has moved the position to before that signal, where no other one is."""
    one = taking("a")
    one.live("b", 59)
    one.history = History([("a", 1), ("b", 59)])
    one.audit(59.5)
    one.replay.acknowledge("a")
    one.replay.acknowledge("b")
    next_run = Follows.resumed(one.replay.state(), history=one.history)
    assert next_run.both_looks(59.5) == []
    assert next_run.gaps == []


# a position that cannot be right

AHEAD = [11.0, 60.0, 3_600.0, 86_400.0, 2_000_000_000.0]


@each_of("ahead", AHEAD)
def test_a_position_ahead_of_the_services_time_loses_nothing(ahead: float) -> None:
    """What was seen then is dated ahead as well. How far the next run has to look back, nobody knows."""
    history = History([("a", 5), ("seen", 100 + ahead), ("missed", 90)])
    state = CheckpointState(START, START + 100 + ahead, (("seen", START + 100 + ahead),))
    one = Follows.resumed(state, history=history)
    assert one.replay.not_after(START + 100)
    assert one.position == 0
    assert one.both_looks(100) == ["a", "missed"]
    assert one.live("b", 101) == ["b"]
    assert not any(signal.late for signal in one.yielded)
    assert one.audit(400) == []
    assert one.live("seen", 100 + ahead, now=401) == []


@each_of("ahead", [-3_600.0, 0.0, 9.0])
def test_clocks_of_servers_may_differ_by_seconds(ahead: float) -> None:
    state = CheckpointState(START, START + 5_000 + ahead, (("seen", START + 5_000 + ahead),))
    one = Follows.resumed(state)
    assert not one.replay.not_after(START + 5_000)
    assert one.position == 5_000 + ahead


@each_of("handled", [(), (("a", START + 50.0),)], ids=["none", "long before"])
@each_of("position", [61.0, 1_000.0, 2_000_000_000.0])
def test_a_position_that_no_acknowledged_signal_bears_out_is_not_believed(
    handled: tuple[tuple[str, float], ...], position: float
) -> None:
    """A digit of it is damaged."""
    history = History([("a", 50), ("b", 55), ("c", 900)])
    one = Follows(history=history, acknowledging=True)
    assert not one.replay.resume(CheckpointState(START, START + position, handled))
    assert one.both_looks(2_000) == (["b", "c"] if handled else ["a", "b", "c"])


def test_a_state_of_ours_is_always_believed() -> None:
    """Also when all that came for hours was not acknowledged."""
    one = taking("a")
    one.replay.acknowledge("a")
    for number in range(200):
        one.live(f"u{number}", 5_000 + number)
    one.history = History([("a", 1), *((f"u{number}", 5_000 + number) for number in range(200))])
    one.audit(5_300)
    state = one.replay.state()
    next_run = Follows(history=one.history, acknowledging=True)
    assert next_run.replay.resume(state)
    assert next_run.both_looks(5_400) == [f"u{number}" for number in range(200)]


def test_the_services_clock_is_put_right_while_the_stream_lives() -> None:
    """It was an hour ahead. What was published since the last event is found, and nothing comes twice."""
    history = History([("a", 3_601), ("b", 3_602), ("missed", 20)])
    one = Follows.begun(at=-10_000, history=history)
    one.live("a", 3_601)
    one.live("b", 3_602)
    assert one.replay.not_after(START + 60, away=50.0)
    assert one.both_looks(60) == ["missed"]
    for number in range(70, 3_605):
        one.live(f"s{number}", number)
    assert one.both_looks(3_610) == []
    assert one.ids.count("a") == one.ids.count("b") == 1


acts = st.one_of(
    st.tuples(st.just("live"), st.integers(0, 6)),
    st.tuples(st.just("late"), st.integers(0, 6)),
    st.tuples(st.just("missed"), st.integers(0, 6)),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("audit"), st.just(0)),
    st.tuples(st.just("acknowledge"), st.integers(0, 30)),
    st.tuples(st.just("save"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


@given(st.lists(st.integers(-40, -1), max_size=3), st.lists(acts, max_size=60))
def test_at_least_once_and_twice_only_what_was_not_acknowledged(
    before: list[int], script: list[tuple[str, int]]
) -> None:
    """Each `crash` goes on from the last `save`.

    Nothing is said to be missing: the history has it all. What it had `before` is not wanted.
    """
    history = History((f"old{at}", at) for at in before)
    one = Follows(acknowledging=True, history=history)
    one.replay.ahead = AHEAD_OF_DATES
    one.replay.start(START)
    saved = one.replay.state()
    now, number = 20.0, 0
    pending: list[str] = []
    durable: set[str] = set()
    acknowledged: set[str] = set()
    yielded: set[str] = set()

    def came(ids: list[str]) -> None:
        for each in ids:
            assert each not in durable, f"{each} came again though that was on the disk"
            yielded.add(each)
            pending.append(each)

    for act, value in [*script, ("crash", 0), ("look", 0), ("audit", 0)]:
        match act:
            case "live" | "missed" | "late":
                now += value * (act != "late")
                number += 1
                when = now - value * (act == "late")
                history.add(f"s{number}", when)
                if act != "missed":
                    came(one.live(f"s{number}", when, now=now))
            case "look":
                now += 6
                came(one.both_looks(now))
                now += 3
            case "audit":
                now += 300
                came(one.audit(now))
            case "acknowledge" if pending:
                each = pending.pop(value % len(pending))
                assert one.replay.acknowledge(each)
                acknowledged.add(each)
            case "save":
                saved = one.replay.state()
                durable |= acknowledged
            case "crash":
                assert one.gaps == []
                one = Follows.resumed(saved, history=history)
                pending.clear()
                acknowledged &= durable
                now += 6
                came(one.both_looks(now))
                now += 3
    assert one.gaps == []
    assert yielded == {signal_id for _, _, signal_id in history.entries if signal_id.startswith("s")}
