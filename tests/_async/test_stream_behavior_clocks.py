"""No `Date` anywhere, and a local clock that is wrong: nothing is lost, nothing old is taken for new."""

from __future__ import annotations

from typing import Any

import pytest

from .._clock import START, VirtualClock
from .._rows import each_of
from .._streamscript import Life, StreamScript, beat, fields, live
from .._streamservice_plan import BACKEND
from ._following import followed

pytestmark = pytest.mark.twin


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


class WrongClock(VirtualClock):
    def __init__(self, hours: float) -> None:
        super().__init__()
        self._off = hours * 3600

    def now(self) -> float:
        return super().now() + self._off


def calm(begin: int, end: int) -> list[bytes | float]:
    return [step for at in range(begin, end, 15) for step in (15.0, beat(at))]


OLD = [fields(f"old{number}", -10_000 + 50 * number) for number in range(198)]


@each_of(
    ("dated", "hours", "beats", "first"),  # each with each other one
    [
        (True, -3.0, True, True),
        (True, 3.0, False, False),
        (True, 3.0, True, False),
        (False, -3.0, False, False),
        (False, -3.0, True, False),
        (False, 3.0, False, True),
        (False, 3.0, True, True),
    ],
)
async def test_holes_are_closed_whatever_the_clocks_say(dated: bool, hours: float, beats: bool, first: bool) -> None:
    lives: list[Life] = [
        [5.0, *([beat(5)] if beats else []), *([live("a", 5)] if first else []), 5.0],
        [20.0, *([beat(33)] if beats else []), live("b", 33), 4.0],
        [20.0, live("end", 60)],
    ]
    listed = [*OLD, *([fields("a", 5)] if first else []), fields("h1", 11), fields("b", 33), fields("h2", 38)]
    script = StreamScript(*lives, listed=listed, dated=dated, clock=WrongClock(hours))
    found = await followed(script)
    assert found.error is None
    assert found.ids == [*(["a"] if first else []), "h1", "b", "h2"]
    assert (found.stats.gaps, found.stats.late) == (0, 0)


@each_of(
    ("dated", "before", "since"), [(True, OLD, None), (False, OLD, None), (True, [], None), (True, OLD, START - 9)]
)
@each_of("age", [START, 86_000, 3_000], ids=["1970", "yesterday", "an hour ago"])
@each_of("reconnects", [1, 2])
async def test_a_first_signal_of_long_ago_is_not_where_the_history_is_read_from(
    dated: bool, before: list[dict[str, Any]], since: float | None, age: int, reconnects: int
) -> None:
    lives: list[Life] = [[5.0, live("first", -age), 5.0], [5.0], [5.0]]
    listed = [*before, fields("missed", 11), fields("end", 60)]
    script = StreamScript(*lives[:reconnects], [20.0, live("end", 60)], listed=listed, dated=dated)
    found = await followed(script, since=since)
    assert (found.error, found.ids, found.stats.gaps) == (None, ["first", "missed"], 0)
    assert min(int(query.get("from", START)) for query in script.asked) >= OLD[-1]["timestamp"] - 61


@each_of("dated", [True, False], ids=["with Date", "without"])
@each_of("hours", [-3.0, 3.0])
async def test_audits_find_what_was_left_out_whatever_the_clocks_say(dated: bool, hours: float) -> None:
    lives: list[Life] = [[5.0, live("a", 5), *calm(20, 900), live("end", 900)]]
    listed = [*OLD, fields("a", 5), fields("left out", 400)]
    script = StreamScript(*lives, listed=listed, dated=dated, clock=WrongClock(hours))
    found = await followed(script)
    assert found.ids == ["a", "left out"]


@each_of("hours", [-3.0, 3.0])
async def test_since_is_the_services_time(hours: float) -> None:
    script = StreamScript([20.0, live("end", 20)], listed=OLD, dated=False, clock=WrongClock(hours))
    found = await followed(script, since=START - 1_000)
    assert found.ids == [one["id"] for one in OLD if one["timestamp"] >= START - 1_000]
