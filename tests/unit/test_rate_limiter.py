"""The throttle in virtual time: never more than what is left, and never for longer than the window."""

import threading
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from tradesdk._http.rate_limit import RateLimiter

EPOCH = 1_700_000_000.0


class World:
    """A throttle, and a clock whose two readings run together."""

    def __init__(self, *, local_off: float = 0.0) -> None:
        self.throttle = RateLimiter()
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
        self.throttle.observe(headers, now=EPOCH + self.time + self.local_off, monotonic=self.monotonic)

    def claim(self) -> float:
        return self.throttle.claim(self.monotonic)

    def let_through(self, tries: int = 1000) -> int:
        """How many of so many requests may go now."""
        return sum(self.claim() == 0 for _ in range(tries))


def test_before_the_first_answer_nothing_is_held_back() -> None:
    world = World()
    assert world.let_through() == 1000
    assert world.throttle.rate_limit is None


@pytest.mark.parametrize("remaining", [0, 1, 7, 60])
def test_no_more_than_what_is_left(remaining: int) -> None:
    world = World()
    world.answer(remaining, 60)
    assert world.let_through() == remaining
    assert world.claim() == 60


def test_it_says_how_long_and_opens_at_the_reset() -> None:
    world = World()
    world.time = 10
    world.answer(0, 60)
    assert world.claim() == 50
    world.time = 59.5
    assert world.claim() == 0.5
    world.time = 60
    assert world.claim() == 0


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


def test_answers_of_one_window_only_ever_lower_what_is_left() -> None:
    world = World()
    world.answer(10, 60)
    assert world.claim() == 0
    world.answer(50, 60)  # overtaken by the one before
    assert world.let_through() == 9
    world.answer(0, 60)
    assert world.claim() > 0


def test_a_late_answer_of_the_window_before_is_ignored() -> None:
    world = World()
    world.answer(5, 60)
    world.time = 61
    world.answer(40, 120)
    world.time = 62
    world.answer(0, 60, written=59)
    assert world.let_through() == 40


@pytest.mark.parametrize("late", [0.5, 5, 25])
def test_a_late_answer_does_not_open_a_window_that_is_still_a_guess_again(late: float) -> None:
    world = World()
    world.answer(0, 60)
    world.time = 60
    assert world.let_through() == 60
    world.time = 60 + late
    world.answer(0, 60, written=59)
    assert world.claim() > 0
    for second in range(61, 120):
        world.time = second
        assert world.claim() > 0, f"let one more through at {second} s"


def test_a_late_answer_does_not_close_a_window_that_is_still_a_guess() -> None:
    world = World()
    world.answer(0, 60)
    world.time = 61
    assert world.claim() == 0
    world.answer(0, 60, written=59)
    assert world.let_through() == 59


def test_an_upgrade_takes_effect_at_the_next_answer() -> None:
    world = World()
    world.answer(1, 60)
    world.answer(240, 60, limit=300)
    assert world.let_through() == 240
    world.time = 60
    assert world.let_through() == 300


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


def test_a_request_that_was_never_sent_is_given_back() -> None:
    world = World()
    world.answer(1, 60)
    assert world.claim() == 0
    assert world.claim() > 0
    world.throttle.give_back()
    assert world.let_through() == 1


def test_giving_back_never_makes_more_than_the_limit() -> None:
    world = World()
    world.throttle.give_back()  # nothing is known yet
    world.answer(60, 60)
    world.throttle.give_back()
    assert world.let_through() == 60


@pytest.mark.parametrize("local_off", [-10 * 365 * 86400, -600, 600, 10 * 365 * 86400])
def test_a_wrong_local_clock_changes_nothing(local_off: float) -> None:
    world = World(local_off=local_off)
    world.answer(0, 60)
    assert world.claim() == 60
    world.time = 60
    assert world.claim() == 0


@pytest.mark.parametrize("local_off", [-20 * 365 * 86400, -86400, -600, -30, 600, 20 * 365 * 86400])
def test_without_a_date_a_wrong_clock_does_not_stop_the_client_for_long(local_off: float) -> None:
    world = World(local_off=local_off)
    world.answer(0, 60, date=False)
    assert world.claim() <= 65
    world.time = 65
    assert world.claim() == 0


@pytest.mark.parametrize(("away", "held"), [(60, True), (64, True), (66, False), (90, False), (86400, False)])
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


@pytest.mark.parametrize("remaining", GARBAGE)
def test_a_remainder_that_is_no_number_is_ignored(remaining: str | None) -> None:
    world = World()
    world.answer(remaining, 60)
    assert world.let_through() == 1000


@pytest.mark.parametrize("reset", [*GARBAGE, "60", "99999999999", "1700000000000"])
def test_a_reset_that_is_no_time_is_ignored(reset: str | None) -> None:
    world = World()
    world.answer(0, reset)
    assert world.let_through() == 1000


@pytest.mark.parametrize("limit", GARBAGE)
def test_a_limit_that_is_no_number_still_lets_the_rest_count(limit: str | None) -> None:
    world = World()
    world.answer(4, 60, limit=limit)
    assert world.let_through() == 4
    world.time = 60
    assert world.let_through() == 1000


def test_garbage_does_not_undo_what_is_known() -> None:
    world = World()
    world.answer(0, 60)
    for bad in GARBAGE:
        world.answer(bad, 60)
        world.answer(50, bad)
    assert world.claim() == 60


def test_the_snapshot_is_what_the_last_answer_said() -> None:
    world = World()
    world.answer(7, 60)
    world.claim()
    seen = world.throttle.rate_limit
    assert seen is not None
    assert (seen.limit, seen.remaining, seen.reset) == (60, 7, datetime.fromtimestamp(EPOCH + 60, UTC))


@pytest.mark.parametrize("start", [None, 60])
def test_threads_together_get_no_more_than_what_is_left(start: float | None) -> None:
    world = World()
    world.answer(500 if start is None else 0, 60, limit=500)
    world.time = start or 0.0
    passed: list[int] = []
    ready = threading.Barrier(8)

    def take() -> None:
        ready.wait(10)
        passed.append(sum(world.claim() == 0 for _ in range(200)))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(passed) == 8
    assert sum(passed) == 500
