"""Histories that refuse, lie or are broken: what can be had is yielded, the rest is a gap, and the stream goes on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import AuthenticationError, Gap, InvalidEvent

from .._answers import KEY, bare, failed, limited
from .._clock import START
from .._rows import each_of
from .._streamscript import History, Life, StreamScript, beat, event, fields, live
from .._streamservice_plan import BACKEND
from ._following import followed

pytestmark = pytest.mark.twin

Answer = Callable[[], httpx.Response]


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


def cut_once(*, until: float = 40.0) -> list[Life]:
    """`a` comes live at 5, the stream is cut at 10; `end` comes live on the second connection."""
    calm: list[Any] = [15.0, event(b'{"type": "tick"}')] * (int(until - 30) // 15 + 1)
    return [[5.0, live("a", 5), 5.0], [1.0, *calm, live("end", until)]]


def calm(begin: int, end: int) -> list[Any]:
    return [step for at in range(begin, end, 15) for step in (15.0, beat(at + 15))]


HOLE = [fields("a", 5), *(fields(f"h{number}", 6 + number // 100) for number in range(120))]  # two pages
WHOLE = ["a", *(f"h{number}" for number in range(120))]


def answering(answer: Answer, *, until: float = float("inf")) -> StreamScript:
    """Its history answers so from the first look until then."""

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        return answer() if "from" in query and script.now < until else script.honest(query)

    return StreamScript(*cut_once(until=1_500.0), listed=HOLE, history=history)


REFUSALS: dict[str, tuple[Answer, str]] = {
    "301": (lambda: httpx.Response(301, headers={"location": "https://elsewhere.example"}), "301"),
    "400": (lambda: failed(400), "400 invalid_request"),
    "403": (lambda: failed(403, f"not with {KEY}"), "403 forbidden"),
    "404": (lambda: failed(404), "404 not_found"),
    "429 forever": (lambda: failed(429), "429 rate_limited"),
    "429 until tomorrow": (lambda: failed(429, retry_after="86400"), "429 rate_limited"),
    "500 forever": (lambda: failed(500), "500 internal_error"),
    "502 forever": (lambda: bare(502), "502"),
    "HTML": (lambda: httpx.Response(200, content=b"<h1>hello</h1>"), "the history cannot be read"),
    "nothing": (lambda: httpx.Response(200, content=b""), "the history cannot be read"),
    "204": (lambda: httpx.Response(204), "the history cannot be read"),
    "br": (
        lambda: httpx.Response(200, stream=httpx.ByteStream(b"x"), headers={"content-encoding": "br"}),
        "content encoding is br",
    ),
}


ALIKE = {"400", "404", "429 forever", "502 forever", "nothing", "204"}
"""Of the refusals: these are taken as another one is."""


@each_of("kind", [kind for kind in REFUSALS if kind not in ALIKE])
async def test_a_history_that_refuses_is_a_gap(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    await refuses(kind, caplog)


@pytest.mark.long
@each_of("kind", ALIKE)
async def test_a_history_that_refuses_like_another_is_a_gap(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    await refuses(kind, caplog)


async def refuses(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    answer, reason = REFUSALS[kind]
    script = answering(answer)
    found = await followed(script)
    assert (found.error, found.ids, found.stats.connects) == (None, ["a"], 2)
    (gap,) = found.of(Gap)
    assert gap.start.timestamp() == START + 5
    assert START + 10 <= gap.end.timestamp() <= START + 1_500
    assert reason in gap.reason
    assert found.stats.gaps == 1
    assert "signals of chain 8453 may be missing from 2025-10-09 08:53:25" in caplog.text
    assert KEY not in gap.reason
    assert KEY not in caplog.text
    assert len(script.asked) < 60


@each_of("kind", ["403", "500 forever"])
async def test_an_audit_finds_it_when_the_history_is_well_again(kind: str) -> None:
    found = await followed(answering(REFUSALS[kind][0], until=1_000.0))
    assert found.ids == WHOLE
    assert found.stats.gaps == 1
    assert all(signal.replayed for signal in found.signals[1:])


async def test_a_history_that_refuses_the_key_ends_it() -> None:
    found = await followed(answering(lambda: failed(401)))
    assert type(found.error) is AuthenticationError
    assert found.ids == ["a"]


@each_of("times", [1, 2, 5])
async def test_a_history_that_fails_a_few_times_loses_nothing(times: int) -> None:
    left = times

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        nonlocal left
        if "from" in query and left:
            left -= 1
            return failed(429 if left % 2 else 503, retry_after="2")
        return script.honest(query)

    found = await followed(StreamScript(*cut_once(until=400), listed=HOLE, history=history))
    assert (found.error, found.ids, found.stats.gaps, found.stats.late) == (None, WHOLE, 0, 0)


async def test_a_history_that_cannot_be_read_before_the_stream_does_no_harm() -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        return script.honest(query) if "from" in query else failed(500)

    found = await followed(StreamScript(*cut_once(), listed=HOLE, history=history))
    assert (found.error, found.ids, found.stats.gaps) == (None, WHOLE, 0)


async def test_why_it_waits_for_the_rate_limit_is_said_once_a_wait(caplog: pytest.LogCaptureFixture) -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        answer = script.honest(query)
        used_up = limited(0, START + script.now + 40)
        answer.headers.update({name.replace("_", "-"): text for name, text in used_up.items()})
        return answer

    script = StreamScript(*cut_once(until=400), listed=HOLE, history=history)
    found = await followed(script)
    assert (found.error, found.ids, found.stats.gaps) == (None, WHOLE, 0)
    said = [record for record in caplog.records if vars(record).get("event") == "rate_limit_wait"]
    assert {record.levelno for record in said} == {logging.WARNING}
    waits = [seconds for seconds in script.clock.waits if 10 < seconds <= 41]
    assert 1 < len(said) == len(waits)
    assert [vars(record)["wait"] for record in said] == waits
    assert max(waits) > 40, "many streams don't all come back at the moment of the reset"


def slow(script: StreamScript, number: int) -> list[Any]:
    """Signals without an end, one page in ten seconds."""
    script.clock.advance(10)
    return [fields(f"h{number}", 8)]


# The items of each page, its cursor, the reason for the gap, and how many requests a walk takes.
ENDLESS: dict[str, tuple[Callable[[StreamScript, int], list[Any]], bool, str, int]] = {
    "a cursor again": (lambda *_: [fields("h", 8)], False, "the history repeats a cursor, so it would never end", 2),
    "a page again": (lambda *_: [fields("h", 8)], True, "new cursors and no new items, so it would never end", 2),
    "empty pages": (lambda *_: [], True, "new cursors and no new items, so it would never end", 1_001),
    "ever new items": (slow, True, "the history was not read to its end within 90 s", 9),
}


@each_of("kind", [kind for kind in ENDLESS if kind != "empty pages"])
async def test_a_history_without_an_end_is_a_gap(kind: str) -> None:
    """At once, after the settle time, and in an audit."""
    await ends(kind)


@pytest.mark.long
async def test_a_history_of_empty_pages_without_an_end_is_a_gap() -> None:
    await ends("empty pages")


async def ends(kind: str) -> None:
    items, new_cursors, reason, most = ENDLESS[kind]
    asked: list[int] = []

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        if "from" not in query:
            return script.honest(query)
        asked.append(len(asked) if new_cursors else 1)
        return script.page(items(script, len(asked)), str(asked[-1]))

    audited = [[5.0, live("a", 5), *calm(5, 305), live("b", 305), live("end", 306)]]
    for lives, gaps, walks in ((cut_once(), 1, 2), (audited, 0, 1)):
        asked.clear()
        found = await followed(StreamScript(*lives, listed=[fields("a", 5)], history=history), recovery_timeout=90)
        assert (found.error, found.ids[0], found.stats.gaps) == (None, "a", gaps)
        assert [(gap.start.timestamp(), reason in gap.reason) for gap in found.of(Gap)] == [(START + 5, True)] * gaps
        assert walks <= len(asked) <= walks * most


def shuffled(script: StreamScript, query: dict[str, str]) -> httpx.Response:
    """The oldest first, page by page."""
    first = int(query.get("from", "0"))
    found = [one for one in script.listed if one["timestamp"] >= first and script.happened(one)]
    at = int(query.get("cursor", "0"))
    return script.page(found[at : at + 100], str(at + 100) if len(found) > at + 100 else None)


def heedless(script: StreamScript, query: dict[str, str]) -> httpx.Response:
    """All that there is, whatever `from` says."""
    return script.honest(query | {"from": "0"})


def doubling(script: StreamScript, query: dict[str, str]) -> httpx.Response:
    """Each signal twice."""
    body = json.loads(script.honest(query | {"limit": "50"}).content)
    return script.page(body["data"] * 2, body.get("next_cursor"))


@each_of("history", [shuffled, heedless, doubling])
async def test_another_order_and_more_than_was_asked_for_do_no_harm(history: Any) -> None:
    before = [fields(f"old{number}", number - 150) for number in range(150)]
    found = await followed(StreamScript(*cut_once(), listed=before + HOLE, history=history))
    assert found.error is None
    assert set(found.ids) == set(WHOLE)
    assert len(found.ids) == len(WHOLE)
    times = [signal.timestamp for signal in found.signals]
    assert times == sorted(times)
    assert (found.stats.gaps, found.stats.conflicts, found.stats.invalid) == (0, 0, 0)


def keeping(seconds: float, late: float = 0.0) -> History:
    """A history that shows a signal from `late` on, for so long."""

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        first, last = START + script.now - seconds, START + script.now - late
        query["from"] = str(max(int(query.get("from", "0")), int(first)))
        query["to"] = str(min(int(query.get("to", "999999999999")), int(last)))
        return script.honest(query)

    return history


OUTAGE = [httpx.ConnectError("refused")] * 11  # eight minutes
LOST = [fields(f"m{at}", at) for at in range(10, 400, 10)]

END: list[Any] = [9.0, live("end", 9_999)]
REACHES: dict[str, tuple[list[Life], list[Any], float, tuple[float, float] | None]] = {
    # what the connections bring, what is published, how long the history keeps it, and the gap
    "too little": ([[5.0, live("a", 5)], *OUTAGE, END], [fields("a", 5), *LOST], 120.0, (5, 380)),
    "enough": ([[5.0, live("a", 5)], *OUTAGE, END], [fields("a", 5), *LOST], 3_600.0, None),
    "nothing at all": ([[5.0, live("a", 5)], *OUTAGE, END], [fields("a", 5)], 120.0, (5, 490)),
    "nothing since, and all of it is there": ([[5.0, live("a", 5)], *OUTAGE, END], [fields("a", 5)], 3_600.0, None),
    "nothing was seen, but listed": ([[5.0], *OUTAGE, END], [fields("old", -40), *LOST], 120.0, (0, 380)),
    "nothing was seen, and all of it is there": ([[5.0], *OUTAGE, END], [fields("old", -40), *LOST], 3_600.0, None),
    "nothing was seen or listed": ([[5.0], *OUTAGE, END], LOST, 120.0, None),
    "a quiet chain": ([[live("a", 0), *calm(0, 9_000)], END], [fields("a", 0)], 120.0, None),
    "a quiet chain, and one in a short outage": (
        [[live("a", 0), *calm(0, 900)], END],
        [fields("a", 0), fields("m", 901)],
        120.0,
        None,
    ),
    "a short outage that is too long all the same": (
        [[live("a", 0), *calm(0, 900), live("b", 900)], *OUTAGE[:2], END],
        [fields("a", 0), fields("b", 900), fields("m", 901), fields("n", 909)],
        12.0,
        (900, 909),
    ),
    "a quiet chain, cut often": ([[live("a", 0), *calm(0, 900)], [9.0], END], [fields("a", 0)], 120.0, None),
    "said once": ([[5.0, live("a", 5)], *OUTAGE, calm(500, 590), END], [fields("a", 5)], 120.0, (5, 490)),
    "what was kept back counts": (
        [[5.0, live("a", 5, confidence=0.1)], *OUTAGE, END],
        [fields("a", 5, confidence=0.1), *LOST],
        120.0,
        (5, 380),
    ),
}


@each_of(("lives", "listed", "keeps", "hole"), REACHES.values(), ids=REACHES)
async def test_what_the_history_cannot_reach_back_to_is_a_gap(
    lives: list[Life], listed: list[Any], keeps: float, hole: tuple[float, float] | None
) -> None:
    """And only that: nothing is said of a quiet chain, or where nobody knows."""
    script = StreamScript(*lives, listed=listed, history=keeping(keeps))
    found = await followed(script, min_confidence=0.5)
    assert found.error is None
    gaps = [(gap.start.timestamp() - START, gap.end.timestamp() - START) for gap in found.of(Gap)]
    assert found.stats.gaps == len(gaps)
    if hole is None:
        assert gaps == []
    else:
        ((start, end),) = gaps
        assert start == hole[0]
        assert abs(end - hole[1]) <= 50  # the waits are drawn
        published = {one["id"]: one["timestamp"] - START for one in listed if one["timestamp"] > START + start}
        assert all(at < end for name, at in published.items() if name not in found.ids)
        kinds = [type(item).__name__ for item in found.items]
        assert "StreamSignal" not in kinds[kinds.index("Disconnected") : kinds.index("Gap")]


@each_of("late", [1.0, 2.0])
async def test_a_history_that_is_late_is_no_gap(late: float) -> None:
    """The signal that was seen last is not there yet when the stream is open again."""
    lives: list[Life] = [[30.0, live("a", 30)], [1.0, beat(33), 14.0, live("b", 47)], [9.0, live("end", 60)]]
    listed = [fields("a", 30), fields("m", 31), fields("b", 47)]
    found = await followed(StreamScript(*lives, listed=listed, history=keeping(600, late)))
    assert (found.ids, found.stats.gaps, found.stats.late) == (["a", "m", "b"], 0, 0)


SPOILED: dict[str, tuple[Any, str]] = {
    "NaN": (fields("bad", 7, price_usd=float("nan")), "price_usd "),
    "another chain": (fields("bad", 7, chain_id=56), "another chain: 56"),
    "null": (None, ""),
}


@each_of(("item", "reason"), SPOILED.values(), ids=SPOILED)
async def test_one_item_that_cannot_be_read_hides_no_other(
    item: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        body = json.loads(script.honest(query).content)
        return script.page([*body["data"][:50], item, *body["data"][51:]], body.get("next_cursor"))

    listed = [one for number, one in enumerate(HOLE) if number in (0, *range(1, 100))]
    found = await followed(StreamScript(*cut_once(), listed=listed, history=history))
    assert found.error is None
    assert len(found.ids) >= 99
    assert "bad" not in found.ids
    (bad,) = found.of(InvalidEvent)
    assert bad.source == "history"
    assert reason in bad.reason
    assert bad.raw
    assert (found.stats.invalid, found.stats.gaps) == (1, 0)
    assert "history of chain 8453 sent an invalid event" in caplog.text


async def test_other_content_in_the_history_is_told_once() -> None:
    listed = [fields("a", 5, price_usd=9.0), fields("h", 7)]
    found = await followed(StreamScript(*cut_once(until=700), listed=listed))
    (bad,) = found.of(InvalidEvent)
    assert (bad.source, bad.reason) == ("history", "the id 'a' came again with other content")
    assert json.loads(bad.raw)["price_usd"] == 9.0
    assert (found.ids, found.stats.conflicts, found.signals[0].price_usd) == (["a", "h"], 1, 0.25)


@pytest.mark.long
async def test_a_page_of_nothing_but_rubbish_is_no_endless_work(caplog: pytest.LogCaptureFixture) -> None:
    """As many bytes as an answer may have, and each item wrong."""
    caplog.set_level(logging.CRITICAL, "tradesdk")
    rubbish = b'{"data": [' + b"0," * 2_000_000 + b"0]}"
    script = answering(lambda: httpx.Response(200, content=rubbish), until=60.0)
    found = await followed(script)
    assert (found.error, found.stats.gaps) == (None, 1)
    assert found.stats.invalid <= 10
