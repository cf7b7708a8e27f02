"""Whether a stream is alive, and when it is opened again."""

from __future__ import annotations

from email.utils import formatdate

from tradesdk import RetryPolicy
from tradesdk._stream.watchdog import Watchdog
from tradesdk.types import Failure, FailureCause

from .._clock import START
from .._rows import each_of

LOST = Failure(FailureCause.LOST)
HOPELESS = Failure(FailureCause.HOPELESS)


def watchdog(idle: float = 90.0, draw: float = 0.0) -> Watchdog:
    one = Watchdog(RetryPolicy(), idle, random=lambda: draw)
    one.opened(0.0)
    return one


def status(code: int, **headers: str) -> Failure:
    return Failure(FailureCause.STATUS, code, {name.replace("_", "-"): value for name, value in headers.items()})


def beats(one: Watchdog, *times: float, delay: float = 0.0) -> None:
    for at in times:
        one.heartbeat(at + delay, START + at)


# alive


def test_until_an_interval_is_known_the_limit_is_what_was_asked_for() -> None:
    assert [watchdog(idle).limit for idle in (90.0, 5.0, 4_000.0)] == [90, 5, 4_000]
    one = watchdog()
    beats(one, 15)
    assert one.limit == 90


def test_three_times_the_longest_interval_of_late() -> None:
    one = watchdog()
    beats(one, 0, 15, 30)
    assert one.limit == 45
    beats(one, 70)
    assert one.limit == 120
    beats(one, *range(85, 85 + 8 * 15, 15))
    assert one.limit == 45


def test_an_interval_is_what_heartbeats_say_not_when_they_arrive() -> None:
    """They may have lain in a buffer, all together."""
    one = watchdog()
    for at in (0, 15, 30):
        one.heartbeat(100.0, START + at)
    assert one.limit == 45


def test_the_limit_has_limits() -> None:
    one = watchdog()
    beats(one, 0, 1, 2)
    assert one.limit == 10
    one = watchdog()
    beats(one, 0, 599)
    assert one.limit == 600


@each_of("timestamp", [START + 10, START + 10.5, START - 5, 0.0, START + 10_000, 99_999_999_999.0])
def test_an_absurd_interval_is_not_learned(timestamp: float) -> None:
    one = watchdog()
    one.heartbeat(10.0, START + 10)
    one.heartbeat(25.0, timestamp)
    assert one.limit == 90
    assert not one.stalled(110.0)


def test_an_interval_does_not_reach_over_a_reconnect() -> None:
    one = watchdog()
    beats(one, 0)
    one.broke_off()
    one.opened(300.0)
    beats(one, 300)
    assert one.limit == 90


def test_a_stream_is_stalled_when_no_event_came_for_longer_than_the_limit() -> None:
    one = watchdog()
    assert not one.stalled(90.0)
    assert one.stalled(90.1)
    one.event(90.0)
    assert not one.stalled(180.0)
    assert one.stalled(180.1)
    one.heartbeat(180.0, START)
    assert not one.stalled(270.0)


def test_while_nobody_reads_nothing_is_silent() -> None:
    one = watchdog()
    one.read(0, 10)
    one.event(10)
    one.read(1_000, 1_001)
    assert not one.stalled(1_001)
    one.read(5_001, 5_080)
    assert not one.stalled(5_080)
    one.read(5_080, 5_092)
    assert one.stalled(5_092)


@each_of(("waited", "caught_up"), [(0.0, False), (0.001, False), (0.2, True), (15.0, True)])
def test_a_read_that_had_to_wait_found_nothing_in_the_buffers(waited: float, caught_up: bool) -> None:
    one = watchdog()
    assert not one.caught_up
    one.read(5.0, 5.0 + waited)
    assert one.caught_up is caught_up


def test_a_read_may_take_what_is_left_of_the_limit() -> None:
    one = watchdog()
    assert one.patience == 90
    one.read(0, 40)  # nothing but bytes
    assert one.patience == 50
    one.read(1_040, 1_080)  # a thousand seconds in which nobody read
    assert one.patience == 10
    one.read(1_080, 1_090)
    assert 0 < one.patience < 1
    one.event(1_090)
    assert one.patience == 90


def test_silence_widens_the_limit_to_ten_minutes() -> None:
    """Perhaps this service sends no heartbeats at all; then a quiet chain must not be opened again and again."""
    one = watchdog()
    limits = []
    for _ in range(20):
        limits.append(one.limit)
        one.broke_off(silent=True)
        one.opened(0.0)
    assert limits[:5] == [90, 180, 360, 600, 600]
    assert set(limits[3:]) == {600}


def test_a_heartbeat_brings_the_limit_back() -> None:
    one = watchdog()
    one.broke_off(silent=True)
    one.opened(0.0)
    assert one.limit == 180
    beats(one, 5)
    assert one.limit == 90
    one.broke_off(silent=True)  # one that had heartbeats and lost them is dead, not quiet
    assert one.limit == 90


# again


def test_waits_double_up_to_a_minute() -> None:
    one = watchdog()
    assert [one.wait(LOST, now=START) for _ in range(8)] == [2, 4, 8, 16, 32, 60, 60, 60]
    assert one.tries == 8


def test_an_end_waits_like_a_loss() -> None:
    assert watchdog().wait(None, now=START) == 2
    assert watchdog(draw=1.0).wait(None, now=START) == 2.5


def test_after_a_minute_of_health_it_counts_from_the_beginning() -> None:
    one = watchdog()
    for _ in range(4):
        one.wait(LOST, now=START)
    one.opened(100.0)
    one.event(159.0)
    one.broke_off()  # open for long, but alive for 59 s only
    assert one.wait(None, now=START) == 32
    one.opened(100.0)
    one.event(160.0)
    one.broke_off()
    assert one.wait(None, now=START) == 2


def test_twenty_tries_at_most_in_five_minutes_whatever_happens() -> None:
    """Also for a service that takes every connection and cuts it at once, or after a minute of health."""
    for life, health in ((0.0, 0.0), (0.5, 0.0), (59.0, 59.0), (60.0, 60.0)):
        one = watchdog()
        now, tries = 0.0, []
        while now < 3_600:
            tries.append(now)
            one.opened(now)
            one.event(now + health)
            one.broke_off()
            wait = one.wait(None, now=START)
            assert wait is not None
            now += life + wait
        assert max(sum(at <= each < at + 300 for each in tries) for at in tries) <= 20
        assert len(tries) > 30


@each_of(
    ("failure", "wait"),
    [
        (status(429, retry_after="30"), 30),
        (status(503, retry_after="30"), 30),
        (status(429, retry_after="1"), 2),
        (status(429, x_ratelimit_reset=str(START + 40)), 41),
        (status(503, retry_after=formatdate(START + 50, usegmt=True)), 50),
        (status(503, retry_after="3600"), 3_600),
        (status(502, retry_after="30"), 2),
        (status(504), 2),
        (status(520), 2),
        (Failure(FailureCause.NOT_SENT), 2),
    ],
)
def test_what_the_service_asks_for_is_the_least(failure: Failure, wait: float) -> None:
    assert watchdog().wait(failure, now=START) == wait


@each_of("code", [300, 301, 304, 400, 401, 403, 404, 409, 410, 422, 451, 501, 505])
def test_what_another_try_cannot_help_is_not_tried(code: int) -> None:
    assert watchdog().wait(status(code), now=START) is None


@each_of("seconds", ["3601", "99999999999"])
def test_a_wait_of_more_than_an_hour_is_an_error(seconds: str) -> None:
    assert watchdog().wait(status(503, retry_after=seconds), now=START) is None


@each_of(("floor", "wait"), [(0.0, 2), (1.0, 2), (7.5, 7.5), (60.0, 60), (10.0**12, 60)])
def test_what_the_stream_has_asked_for_counts_up_to_the_cap(floor: float, wait: float) -> None:
    assert watchdog().wait(None, now=START, floor=floor) == wait


@each_of("failure", [HOPELESS, status(500)])
def test_ten_in_a_row_that_look_hopeless_are_the_end(failure: Failure) -> None:
    one = watchdog()
    assert all(one.wait(failure, now=START) is not None for _ in range(9))
    assert one.wait(failure, now=START) is None


def test_one_success_between_them_and_it_is_not() -> None:
    one = watchdog()
    for _ in range(9):
        one.wait(HOPELESS, now=START)
    one.opened(0.0)
    assert all(one.wait(HOPELESS, now=START) is not None for _ in range(9))
