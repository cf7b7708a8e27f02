"""The throttle in virtual time: never more than what is left, and never for longer than the window."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.rate_limit import RateWindow

from .._rows import each_of
from .._texts import texts

EPOCH = 1_700_000_000.0


class World:
    """A throttle, and a clock whose two readings run together."""

    def __init__(self, *, local_off: float = 0.0) -> None:
        self.throttle = RateWindow()
        self.time = 0.0  # seconds since EPOCH on the service's clock
        self.local_off = local_off

    @property
    def monotonic(self) -> float:
        return 5000.0 + self.time

    def answer(
        self,
        remaining: object,
        reset: object,
        *,
        limit: object = 60,
        written: float | None = None,
        date: bool = True,
    ) -> None:
        """An answer arrives now that the service wrote at `written`; `reset` is in seconds since EPOCH if a number."""
        reset = int(EPOCH + reset) if isinstance(reset, int | float) else reset
        named = {"x-ratelimit-limit": limit, "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset}
        headers = {name: str(value) for name, value in named.items() if value is not None}
        if date:
            moment = datetime.fromtimestamp(EPOCH + int(self.time if written is None else written), UTC)
            headers["date"] = format_datetime(moment, usegmt=True)
        self.throttle.observe(headers, now=partial(float, EPOCH + self.time + self.local_off), monotonic=self.monotonic)

    def claim(self) -> float:
        return self.throttle.claim(self.monotonic)

    def let_through(self, tries: int = 1000) -> int:
        """How many of so many requests may go now."""
        return sum(self.claim() == 0 for _ in range(tries))


@each_of("remaining", [0, 1, 7, 60])
def test_no_more_than_what_is_left(remaining: int) -> None:
    world = World()
    world.answer(remaining, 60)
    assert world.let_through() == remaining
    assert world.claim() == 60


def test_a_new_window_is_taken_to_be_as_large_as_the_last() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 60
    assert world.let_through() == 60
    assert world.claim() == 60
    world.time = 120
    assert world.let_through() == 60


def test_after_a_pause_the_windows_keep_their_rhythm() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 60 + 25 * 60 + 10  # 10 s into a later window
    assert world.let_through() == 60
    assert world.claim() == 50


def test_the_first_answer_of_a_new_window_is_believed_if_it_says_less() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 61
    assert world.claim() == 0
    world.answer(3, 120)  # somebody else uses the key as well
    assert world.let_through() == 3


def test_the_first_answer_of_a_new_window_does_not_forget_what_was_sent_meanwhile() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 60
    assert sum(world.claim() == 0 for _ in range(50)) == 50
    world.answer(59, 120)
    assert world.let_through() == 10


def test_an_answer_of_the_next_window_counts_before_anything_is_sent_in_it() -> None:
    world = World()
    world.answer(5, 60)
    world.time = 61
    world.answer(0, 120)
    assert world.claim() == 59


def test_a_late_answer_does_not_close_a_window_that_is_still_a_guess() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 61
    assert world.claim() == 0
    world.answer(0, 60, written=59)
    assert world.let_through() == 59


def test_a_downgrade_takes_effect_at_the_next_answer() -> None:
    world = World()
    world.answer(200, 60, limit=300)
    world.answer(0, 60, limit=60)
    assert world.claim() == 60
    world.time = 60
    assert world.let_through() == 60


def test_without_a_limit_it_opens_wide_after_the_reset() -> None:
    world = World()
    world.answer(2, 60, limit=None)
    assert world.let_through() == 2
    world.time = 60
    assert world.let_through() == 1000


def test_a_limit_of_nothing_still_lets_one_ask_in_every_window() -> None:
    world = World()
    world.answer(0, 60, limit=0)
    assert world.claim() == 60
    world.time = 60
    assert world.let_through() == 1
    world.answer(59, 120, limit=60)  # the plan was changed
    assert world.let_through() == 59


def test_giving_back_never_makes_more_than_the_limit() -> None:
    world = World()
    world.throttle.release()  # nothing is known yet
    world.answer(60, 60)
    world.throttle.release()
    assert world.let_through() == 60


@each_of("local_off", [-20 * 365 * 86400, -86400, -600, -30, 600, 20 * 365 * 86400])
def test_without_a_date_a_wrong_clock_does_not_stop_the_client_for_long(local_off: float) -> None:
    world = World(local_off=local_off)
    world.answer(0, 60, date=False)
    assert world.claim() <= 65
    world.time = 65
    assert world.claim() == 0


@each_of(("away", "held"), [(60, True), (64, True), (66, False), (90, False), (86400, False)])
def test_a_reset_further_away_than_a_window_is_none(away: int, held: bool) -> None:
    world = World()
    world.answer(0, away)
    assert (world.claim() > 0) is held
    world.time = 65
    assert world.claim() == 0


def test_a_reset_in_the_past_holds_nothing_back() -> None:
    world = World()
    world.time = 100
    world.answer(0, 60)
    assert world.claim() == 0


GARBAGE = ["", " ", "-1", "1.5", "1e3", "inf", "nan", "x", "٣", "²", "5, 5", "0x1", "9" * 400, None]


def test_what_is_no_number_is_ignored_and_the_rest_counts() -> None:
    for bad in GARBAGE:
        world = World()
        world.answer(bad, 60)
        assert world.let_through() == 1000
        world.answer(4, 60, limit=bad)
        assert world.let_through() == 4
        world.time = 60
        assert world.let_through() == 1000
    for bad in (*GARBAGE, "60", "99999999999", "1700000000000"):
        world = World()
        world.answer(0, bad)
        assert world.let_through() == 1000


def test_garbage_does_not_undo_what_is_known() -> None:
    world = World()
    world.answer(0, 60)
    for bad in GARBAGE:
        world.answer(bad, 60)
        world.answer(50, bad)
    assert world.claim() == 60


@each_of("start", [None, 60])
def test_threads_together_get_no_more_than_what_is_left(start: float | None) -> None:
    world = World()
    world.answer(500 if start is None else 0, 60, limit=500)
    world.time = start or 0.0
    passed: list[int] = []
    ready = threading.Barrier(8)

    def take() -> None:
        ready.wait(60)
        passed.append(sum(world.claim() == 0 for _ in range(200)))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(passed) == 8
    assert sum(passed) == 500


# Against a model of the service: fixed windows, any delays, any order of answers

WINDOWS = 1_700_000_000  # windows begin at multiples of 60 s from here
MONOTONIC = 5000.0


@dataclass
class Service:
    """Counts requests per window, as the service does."""

    limit: int
    window: int = -1
    used: int = 0

    def answer(self, time: float) -> tuple[bool, dict[str, str]]:
        if (window := int(time // 60)) != self.window:
            self.window, self.used = window, 0
        refused = self.used >= self.limit
        self.used += not refused
        return refused, {
            "date": format_datetime(datetime.fromtimestamp(WINDOWS + int(time), UTC), usegmt=True),
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.limit - self.used),
            "x-ratelimit-reset": str(WINDOWS + 60 * (window + 1)),
        }


def seconds(most: int) -> st.SearchStrategy[float]:
    return st.integers(0, most * 8).map(lambda eighths: eighths / 8)  # sums of these are exact


local_clock = st.sampled_from([0.0, 600.0, -600.0, 3e8, -3e8])


@given(st.integers(1, 20), st.lists(seconds(30), max_size=150), local_clock)
def test_one_after_the_other_never_collects_a_429(limit: int, pauses: list[float], off: float) -> None:
    service, throttle, time = Service(limit), RateWindow(), 0.0
    for pause in pauses:
        time += pause
        while wait := throttle.claim(MONOTONIC + time):
            assert 0 < wait <= 61
            time += wait
        refused, headers = service.answer(time)
        assert not refused
        throttle.observe(headers, now=partial(float, WINDOWS + time + off), monotonic=MONOTONIC + time)


@given(
    st.integers(2, 20),
    st.lists(st.tuples(st.just(0.0) | seconds(3), st.just(0.0) | seconds(25)), max_size=200),
    local_clock,
)
def test_answers_that_come_late_and_out_of_order_open_nothing(
    limit: int, requests: list[tuple[float, float]], off: float
) -> None:
    """Each request is a pause before it and the time its answer travels. The service answers at once."""
    service, throttle = Service(limit), RateWindow()
    _, headers = service.answer(0.0)
    throttle.observe(headers, now=partial(float, WINDOWS + off), monotonic=MONOTONIC)
    time = 0.0
    travelling: list[tuple[float, dict[str, str]]] = []
    for pause, delay in requests:
        time += pause
        while True:
            for arrival, headers in sorted(travelling, key=lambda item: item[0]):
                if arrival <= time:
                    throttle.observe(
                        headers, now=partial(float, WINDOWS + arrival + off), monotonic=MONOTONIC + arrival
                    )
            travelling = [item for item in travelling if item[0] > time]
            wait = throttle.claim(MONOTONIC + time)
            if not wait:
                break
            time += wait
        refused, headers = service.answer(time)
        assert not refused
        travelling.append((time + delay, headers))


@given(st.integers(1, 5), st.lists(texts(max_size=15) | st.integers(-5, 10**12).map(str), max_size=60))
def test_it_always_recovers(limit: int, texts: list[str]) -> None:
    throttle, time = RateWindow(), 0.0
    names = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "date")
    for text in texts:
        time += 1
        headers = {**Service(limit).answer(time)[1], names[len(text) % 4]: text}
        throttle.observe(headers, now=partial(float, WINDOWS + time), monotonic=MONOTONIC + time)
    assert throttle.claim(MONOTONIC + time + 3600) == 0
