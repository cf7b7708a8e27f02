"""What faults do to a body, as functions from steps to steps."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_mock.core.messages import BodyStep, Delay, Disconnect, WaitForEvent
from tradesdk_mock.core.subscribers import Notifier
from tradesdk_mock.faults import body_transforms

from ._faulty import events

WAKE = Notifier()
IDLE = WaitForEvent(None, WAKE)
SOON = WaitForEvent(107.0, WAKE, 0.5)


def signal(ident: object, symbol: str = "ETH") -> bytes:
    text = json.dumps({"type": "signal", "id": str(ident), "token_symbol": symbol}, ensure_ascii=False)
    return b"data: %s\n\n" % text.replace('": ', '":').encode()


BEAT = b'data: {"type":"heartbeat","timestamp":7}\n\n'
A, B, C, D = map(signal, "ABCD")


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def said(steps: Iterator[BodyStep]) -> bytes:
    return b"".join(step for step in steps if isinstance(step, bytes))


def always(event: int) -> bool:
    return True


def fraction(turn: int) -> float:
    return turn * 0.37 % 1


def test_half_an_event_that_never_comes() -> None:
    assert list(body_transforms.half_event(iter([A]), 1, True, Disconnect.RESET)) == [A]


@pytest.mark.parametrize("symbol", ["ETH", "\N{CHART WITH UPWARDS TREND}", "é"], ids=["none", "four", "two"])
def test_half_an_event_ends_inside_a_character(symbol: str) -> None:
    *found, ending = body_transforms.half_event(iter([A, signal("B", symbol)]), 1, True, Disconnect.RESET)
    assert ending is Disconnect.RESET
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        said(iter(found)).decode()
    assert events(said(iter(found))) == events(A)


def test_silence_gives_what_it_held_back_when_it_is_over() -> None:
    time = Time()
    steps = body_transforms.silence(iter([A, B, SOON, BEAT, IDLE, SOON, C, D]), 1, 30, None, time)
    assert next(steps) == A
    assert next(steps) == SOON
    assert next(steps) == WaitForEvent(130.0, WAKE)
    time.now = 129.9
    assert next(steps) == SOON
    time.now = 130.0
    assert list(steps) == [B, BEAT, C, D]


def test_silence_ends_when_the_clock_goes_back() -> None:
    time = Time()
    steps = body_transforms.silence(iter([A, IDLE, B]), 1, 30, None, time)
    assert [next(steps), next(steps)] == [A, WaitForEvent(130.0, WAKE)]
    time.now = 99.0
    assert list(steps) == [B]


def test_comments_in_a_silence_come_at_their_times_and_once_after_a_jump() -> None:
    time = Time()
    steps = body_transforms.silence(iter([A, IDLE, B, IDLE, IDLE, SOON, IDLE, C]), 1, 40, 10, time)
    assert [next(steps), next(steps)] == [A, WaitForEvent(110.0, WAKE)]
    time.now = 110.0
    comment = next(steps)
    assert isinstance(comment, bytes)
    assert comment.startswith(b":")
    assert next(steps) == WaitForEvent(120.0, WAKE)
    time.now = 135.0
    assert next(steps) == comment
    assert next(steps) == WaitForEvent(140.0, WAKE)
    time.now = 140.0
    assert list(steps) == [B, SOON, IDLE, C]


def test_comments_and_bytes_of_ones_own_are_no_events() -> None:
    source = [A, b": c\n", body_transforms.Raw(b"data: x\n\n"), B]
    assert list(body_transforms.drop(iter(source), 2, None)) == source
    assert list(body_transforms.duplicate(iter(source), lambda event: event == 2)) == [*source, B]
    assert list(body_transforms.garbage(iter(source), lambda event: event == 2))[3] == body_transforms.GARBAGE[0]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_inject(after: int) -> None:
    source: list[BodyStep] = [A, IDLE, BEAT, B]
    found = list(body_transforms.inject(iter(source), after, b"\xff"))
    place = {0: 0, 1: 2, 2: 3}.get(after)
    assert found == (source if place is None else [*source[:place], b"\xff", *source[place:]])


@given(st.lists(st.sampled_from("sib"), max_size=40), st.integers(2, 9), st.integers(0, 99))
def test_reorder_loses_nothing_and_moves_no_signal_out_of_its_window(kinds: list[str], window: int, salt: int) -> None:
    source: list[BodyStep] = [
        signal(place) if kind == "s" else IDLE if kind == "i" else BEAT for place, kind in enumerate(kinds)
    ]
    signals = [step for step in source if isinstance(step, bytes) and step != BEAT]
    found = list(body_transforms.reorder(iter(source), window, 5, Time(), lambda turn: (turn * 0.37 + salt * 0.11) % 1))
    given = [step for step in found if isinstance(step, bytes) and step != BEAT]
    for start in range(0, len(signals), window):
        there, then = signals[start : start + window], given[start : start + window]
        assert sorted(there) == sorted(then)
        assert len(there) == 1 or there != then
    assert found.count(BEAT) == source.count(BEAT)


def test_reorder_waits_for_its_window_only_so_long() -> None:
    time = Time()
    steps = body_transforms.reorder(iter([A, B, SOON, IDLE, SOON, IDLE]), 3, 5, time, fraction)
    # Whatever comes first: what the stream waits for, or the end of the wait for the window.
    assert next(steps) == WaitForEvent(105.0, WAKE, 0.5)
    time.now = 104.0
    assert next(steps) == WaitForEvent(105.0, WAKE)
    time.now = 105.0
    assert [next(steps), next(steps)] == [B, A]
    assert list(steps) == [SOON, IDLE]


def test_reorder_holds_no_heartbeats_and_gives_what_it_holds_before_a_break() -> None:
    found = list(body_transforms.reorder(iter([A, BEAT, B, Disconnect.CLOSE]), 5, 5, Time(), fraction))
    assert found == [BEAT, B, A, Disconnect.CLOSE]


TEXT = st.lists(st.sampled_from([b"data: x\n", b"data: y\n\n", b"\n", b": c\n", b"data: z", b"a", b""]), max_size=20)


@given(TEXT, st.lists(st.floats(0, 0.999), min_size=1, max_size=7))
def test_mixed_line_endings_are_as_many_as_before(pieces: list[bytes], dice: list[float]) -> None:
    """However the text is cut into pieces: no CR and LF that belong to two lines become one end of a line."""
    found = said(body_transforms.line_endings(iter(pieces), "mixed", lambda turn: dice[turn % len(dice)]))
    assert found.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == b"".join(pieces)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters='"\\\r\n'), max_size=8), min_size=1))
def test_chunks_end_inside_a_character(symbols: list[str]) -> None:
    source = [signal(place, symbol) for place, symbol in enumerate(symbols)]
    pieces = [step for step in body_transforms.split_utf8(iter(source)) if isinstance(step, bytes)]
    assert len(pieces) == 2 * len(source)
    for first in pieces[::2]:
        with pytest.raises(UnicodeDecodeError):
            first.decode()
    content = b"".join(pieces)
    assert [json.loads(data)["token_symbol"] for data in events(content)] == symbols


def test_every_place_in_a_character_is_cut() -> None:
    source = [signal(place, "\N{CHART WITH UPWARDS TREND}") for place in range(4)]
    pieces = [step for step in body_transforms.split_utf8(iter(source)) if isinstance(step, bytes)]
    cuts = [len(piece.partition(b"\xf0")[2]) + 1 for piece in pieces[::2]]
    assert cuts == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (0, [Disconnect.RESET]),
        (1, [b"a", Disconnect.RESET]),
        (3, [b"abc", Disconnect.RESET]),
        (4, [b"abc", IDLE, b"d", Disconnect.RESET]),
        (99, [b"abc", IDLE, b"def", Disconnect.RESET]),
        (None, [b"a", Disconnect.RESET]),
    ],
)
def test_cut(after: int | None, expected: list[BodyStep]) -> None:
    assert list(body_transforms.cut(iter([b"abc", IDLE, b"def"]), after, Disconnect.RESET)) == expected


def test_drip() -> None:
    found = list(body_transforms.drip(iter([b"abcde", IDLE, b"f"]), 2, 0.5))
    assert found == [b"ab", Delay(0.5), b"cd", Delay(0.5), b"e", IDLE, Delay(0.5), b"f"]


@pytest.mark.parametrize("spaces", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_padding_is_never_in_memory_as_a_whole(spaces: int) -> None:
    pieces = [step for step in body_transforms.padded(b"{}", spaces) if isinstance(step, bytes)]
    assert b"".join(pieces) == b" " * spaces + b"{}"
    assert max(map(len, pieces)) <= 65_538


def test_closing_ends_what_the_steps_come_from() -> None:
    ended = []

    def source() -> Iterator[BodyStep]:
        try:
            yield A
            yield B
        finally:
            ended.append(True)

    steps = source()
    changed = body_transforms.TransformedSteps(steps, body_transforms.duplicate(steps, always))
    assert next(changed) == A
    changed.close()
    assert ended == [True]
    assert list(changed) == []


def test_closing_while_a_step_is_asked_for() -> None:
    """Another thread may close at any time, also in the middle of a step."""

    def source() -> Iterator[BodyStep]:
        yield A
        changed.close()
        yield B

    steps = source()
    changed = body_transforms.TransformedSteps(steps, body_transforms.duplicate(steps, lambda event: False))
    assert next(changed) == A
    assert next(changed) == B
