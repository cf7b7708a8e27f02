"""The throttle against a model of the service: fixed windows, any delays, any order of answers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.rate_limit import RateLimiter

EPOCH = 1_700_000_000  # on the service's clock; windows begin at multiples of 60 s from here
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
            "date": format_datetime(datetime.fromtimestamp(EPOCH + int(time), UTC), usegmt=True),
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.limit - self.used),
            "x-ratelimit-reset": str(EPOCH + 60 * (window + 1)),
        }


def seconds(most: int) -> st.SearchStrategy[float]:
    return st.integers(0, most * 8).map(lambda eighths: eighths / 8)  # sums of these are exact


local_clock = st.sampled_from([0.0, 600.0, -600.0, 3e8, -3e8])


@given(st.integers(1, 20), st.lists(seconds(30), max_size=150), local_clock)
def test_one_after_the_other_never_collects_a_429(limit: int, pauses: list[float], off: float) -> None:
    service, throttle, time = Service(limit), RateLimiter(), 0.0
    for pause in pauses:
        time += pause
        while wait := throttle.claim(MONOTONIC + time):
            assert 0 < wait <= 61
            time += wait
        refused, headers = service.answer(time)
        assert not refused
        throttle.observe(headers, now=EPOCH + time + off, monotonic=MONOTONIC + time)


@given(
    st.integers(2, 20),
    st.lists(st.tuples(st.just(0.0) | seconds(3), st.just(0.0) | seconds(25)), max_size=200),
    local_clock,
)
def test_answers_that_come_late_and_out_of_order_open_nothing(
    limit: int, requests: list[tuple[float, float]], off: float
) -> None:
    """Each request is a pause before it and the time its answer travels. The service answers at once."""
    service, throttle = Service(limit), RateLimiter()
    _, headers = service.answer(0.0)
    throttle.observe(headers, now=EPOCH + off, monotonic=MONOTONIC)
    time = 0.0
    travelling: list[tuple[float, dict[str, str]]] = []
    for pause, delay in requests:
        time += pause
        while True:
            for arrival, headers in sorted(travelling, key=lambda item: item[0]):
                if arrival <= time:
                    throttle.observe(headers, now=EPOCH + arrival + off, monotonic=MONOTONIC + arrival)
            travelling = [item for item in travelling if item[0] > time]
            wait = throttle.claim(MONOTONIC + time)
            if not wait:
                break
            time += wait
        refused, headers = service.answer(time)
        assert not refused
        travelling.append((time + delay, headers))


@given(st.integers(1, 5), st.lists(st.text(max_size=15) | st.integers(-5, 10**12).map(str), max_size=60))
def test_it_always_recovers(limit: int, texts: list[str]) -> None:
    throttle, time = RateLimiter(), 0.0
    names = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "date")
    for text in texts:
        time += 1
        headers = {**Service(limit).answer(time)[1], names[len(text) % 4]: text}
        throttle.observe(headers, now=EPOCH + time, monotonic=MONOTONIC + time)
    assert throttle.claim(MONOTONIC + time + 3600) == 0
