"""What time it is for the service: three clocks, none of them trusted alone."""

from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.service_time import ServiceClock

from .._rows import each_of

NOW = 1_800_000_000.0


def seen(difference: float, *, now: float = NOW, monotonic: float = 100.0) -> ServiceClock:
    time = ServiceClock()
    time.observe({"date": formatdate(now + difference, usegmt=True)}, now=now, monotonic=monotonic)
    return time


def test_without_a_date_there_is_only_the_local_clock() -> None:
    time = ServiceClock()
    time.observe({}, now=NOW, monotonic=0)
    assert not time.is_known
    assert (time.now(NOW), time.latest(NOW, 7), time.difference) == (NOW, NOW, 0)
    assert time.earliest(NOW, 7) == NOW - 900  # it may be ahead, and money that is freed too early is spent twice


@each_of("difference", [0, 1, 4, 5, -5])
def test_five_seconds_are_nothing(difference: float) -> None:
    assert seen(difference).now(NOW + 10) == NOW + 10


@each_of("difference", [6, -6, 600, -600])
def test_more_is_corrected(difference: float) -> None:
    assert seen(difference).now(NOW + 10) == NOW + 10 + difference


def test_a_damaged_date_changes_nothing() -> None:
    time = ServiceClock()
    time.observe({"date": "yesterday"}, now=NOW, monotonic=0)
    assert time.now(NOW) == NOW


def test_a_local_clock_that_is_put_back_does_not_turn_time_back() -> None:
    time = seen(0)
    assert time.latest(NOW - 3600, 130.0) == NOW + 30


def test_a_local_clock_that_is_put_forward_does_not_free_money() -> None:
    time = seen(0)
    assert time.earliest(NOW + 3600, 130.0) == NOW + 30


def test_a_date_from_the_future_does_not_free_money() -> None:
    assert seen(600).earliest(NOW + 30, 130.0) == NOW + 30


def test_a_machine_that_slept() -> None:
    """Its monotonic clock stood still, and the wall's did not."""
    time = seen(0)
    assert time.latest(NOW + 3600, 101.0) == NOW + 3600
    assert time.earliest(NOW + 3600, 101.0) == NOW + 1


@given(difference=st.integers(-90_000, 90_000), local=st.floats(-1e5, 1e5), elapsed=st.floats(0, 1e5))
def test_the_latest_is_never_before_the_earliest(difference: int, local: float, elapsed: float) -> None:
    time = seen(difference)
    now, monotonic = NOW + local, 100.0 + elapsed
    assert time.earliest(now, monotonic) <= time.now(now) <= time.latest(now, monotonic)


# A stream's, which goes by its events as well


def streams(*, date: float | None = None) -> ServiceClock:
    time = ServiceClock(now=NOW, monotonic=100.0)
    if date is not None:
        time.observe({"date": formatdate(date, usegmt=True)}, now=NOW, monotonic=100.0)
    return time


def test_a_stream_begins_with_the_local_clock_and_follows_dates() -> None:
    assert streams().at(130.0) == NOW + 30
    assert streams(date=NOW + 600).at(130.0) == NOW + 630


@each_of(("ahead", "moved"), [(-7_200, True), (-5, True), (5, True), (7_200, True), (86_401, False), (-86_401, False)])
def test_without_a_date_the_first_event_sets_it(ahead: float, moved: bool) -> None:
    time = streams()
    time.observe_event(NOW + ahead, 100.0)
    assert time.at(100.0) == NOW + ahead * moved
    time.observe_event(time.at(100.0) - 50, 100.0)  # the second one not back
    assert time.at(100.0) == NOW + ahead * moved


@each_of(("ahead", "moved"), [(-50, False), (0, False), (50, True), (60, False), (86_000, False)])
def test_with_a_date_an_event_that_is_a_little_ahead_sets_it(ahead: float, moved: bool) -> None:
    time = streams(date=NOW)
    time.observe_event(NOW + ahead, 100.0)
    assert time.at(100.0) == NOW + ahead * moved
