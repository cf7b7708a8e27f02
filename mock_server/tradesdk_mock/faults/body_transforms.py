"""Changes of a body by faults, step by step while it is read. Nothing here waits.

The functions for streams are called with the matched rule, the steps and the world.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, TypeGuard

from ..core.messages import BodyStep, Delay, Disconnect, WaitForEvent, close_body
from .rules import chance

if TYPE_CHECKING:
    from ..state.world import World
    from .rules import MatchedRule

Steps = Iterator[BodyStep]

_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_DASH = "\N{EM DASH}".encode()
_KEEP_ALIVE = b": nothing new\n"
_COMMENT = ": \N{EM DASH} \N{CHART WITH UPWARDS TREND}\n".encode()
_PIECE = 64 * 1024

GARBAGE = (
    b"weight: 7\n",
    b"a line without a colon\n:\nretry: soon\n",
    b'data: {"type":"signal","id":\n\n',
    b'data: {"type":"\xff\xfe","id":"\xc3("}\n\n',
    b"data\n\n",
    b"data: [1, 2]\n\n",
    b'event: weather\ndata: {"type":"weather","wind":7}\n\n',
    b"data: null\n\n",
)
"""Sent in turn before events. Lines without an empty line after them become part of the next event."""


class Raw(bytes):
    """Bytes that other faults of a stream neither count nor change."""


class TransformedSteps(Steps):
    """Steps that faults have changed. Closing them closes their source too."""

    def __init__(self, source: Steps, changed: Steps) -> None:
        self._source = source
        self._changed = changed

    def __next__(self) -> BodyStep:
        return next(self._changed)

    def close(self) -> None:
        close_body(self._source)
        close_body(self._changed)


def is_signal(step: BodyStep) -> TypeGuard[bytes]:
    return isinstance(step, bytes) and b'"type":"signal"' in step


def is_event(step: BodyStep) -> TypeGuard[bytes]:
    return isinstance(step, bytes) and not isinstance(step, Raw) and not step.startswith(b":")


def _events(source: Steps, count: int) -> Steps:
    """The first `count` events, and the steps before and between them."""
    while count:
        step = next(source, None)
        if step is None:
            return
        count -= is_event(step)
        yield step


def _at_latest(until: float, step: WaitForEvent) -> WaitForEvent:
    """The same wait, but at most until then (infinity: no limit)."""
    if until == math.inf:
        return step
    return WaitForEvent(until if step.until is None else min(until, step.until), step.notifier, step.poll)


def _each(
    match: MatchedRule, source: Steps, world: World, counts: Callable[[BodyStep], bool]
) -> Iterator[tuple[BodyStep, bool]]:
    """Every step, and whether the fault applies to it. Those that `counts` are numbered from 1."""
    after, each, share = match.get("after"), match.get("each"), match.get("share")
    ordinal = 0
    for step in source:
        chosen = False
        if counts(step):
            ordinal += 1
            chosen = ordinal > after and (ordinal - after) % each == 0
            if chosen and share < 1:
                chosen = chance(world.seed, match.rule, "event", match.ordinal, ordinal) < share
        yield step, chosen


def content(parameters: Mapping[str, object]) -> bytes:
    """The bytes of the parameter `text` or `base64`."""
    text = parameters.get("text")
    return base64.b64decode(str(parameters["base64"])) if text is None else str(text).encode()


def drop(match: MatchedRule, source: Steps, world: World) -> Steps:
    """End after `after` events, or with the stream."""
    yield from _events(source, match.get("after"))
    if match.get("how") != "clean":
        yield Disconnect(match.get("how"))


def half_event(match: MatchedRule, source: Steps, world: World) -> Steps:
    """End in the middle of the event after `after` others, or after the first byte of a character in it."""
    yield from _events(source, match.get("after"))
    for step in source:
        if not is_event(step):
            yield step
            continue
        half = step[: len(step) // 2]
        if match.get("at") == "character":
            found = _CHARACTER.search(step)
            half = step[: found.start() + 1] if found else half + _DASH[:1]
        yield half
        yield Disconnect(match.get("how"))
        return


def silence(match: MatchedRule, source: Steps, world: World) -> Steps:
    """Send nothing for `seconds` of the clock, and hold back what comes meanwhile; with None, drop it forever.

    Every `comments` seconds of the clock, a comment line is sent anyway.
    """
    seconds, comments, clock = match.get("seconds"), match.get("comments"), world.clock.now
    begun = clock()
    for step in _events(source, match.get("after")):
        # Before the step is yielded: the reader may move the clock at once.
        begun = clock()
        yield step
    ends = math.inf if seconds is None else begun + seconds
    commented = begun
    held: list[BodyStep] = []
    for step in source:
        # One comment, even if the clock has jumped past several.
        if comments is not None and not commented <= clock() < min(commented + comments, ends):
            commented = clock()
            if begun < commented < ends:
                yield _KEEP_ALIVE
        if seconds is not None and not begun <= clock() < ends:
            yield from held
            yield step
            break
        if isinstance(step, WaitForEvent):
            # The source is still read: its heartbeats keep their times, and it can end.
            yield _at_latest(min(ends, math.inf if comments is None else commented + comments), step)
        elif not isinstance(step, bytes):
            yield step
        elif seconds is not None:
            held.append(step)
    yield from source


def skip(match: MatchedRule, source: Steps, world: World) -> Steps:
    for step, chosen in _each(match, source, world, is_signal):
        if not chosen:
            yield step


def duplicate(match: MatchedRule, source: Steps, world: World) -> Steps:
    for step, chosen in _each(match, source, world, is_event):
        yield step
        if chosen:
            yield step


def reorder(match: MatchedRule, source: Steps, world: World) -> Steps:
    """Hold back `window` signals, at most for `seconds`, then yield them in another order."""
    seconds, clock = match.get("seconds"), world.clock.now
    held: list[bytes] = []
    begun, turns = 0.0, 0

    def shuffled() -> list[bytes]:
        nonlocal held, turns
        order = list(range(len(held)))
        for last in range(len(order) - 1, 0, -1):
            turns += 1
            other = int(chance(world.seed, match.rule, "turn", match.ordinal, turns) * (last + 1))
            order[last], order[other] = order[other], order[last]
        if order == sorted(order):
            order = order[1:] + order[:1]
        signals, held = [held[index] for index in order], []
        return signals

    for step in source:
        if is_signal(step):
            begun = begun if held else clock()
            held.append(step)
            if len(held) == match.get("window"):
                yield from shuffled()
            continue
        if held and (isinstance(step, Disconnect) or not begun <= clock() < begun + seconds):
            yield from shuffled()
        if held and isinstance(step, WaitForEvent):
            yield _at_latest(begun + seconds, step)
        else:
            yield step
    yield from shuffled()


def garbage(match: MatchedRule, source: Steps, world: World) -> Steps:
    turns = cycle(GARBAGE)
    for step, chosen in _each(match, source, world, is_event):
        if chosen:
            yield next(turns)
        yield step


def inject(match: MatchedRule, source: Steps, world: World) -> Steps:
    """Insert bytes after `after` events."""
    yield from _events(source, match.get("after"))
    for step in source:
        if is_event(step):
            yield Raw(content(match.rule.parameters))
            yield step
            break
        yield step
    yield from source


def split_utf8(match: MatchedRule, source: Steps, world: World) -> Steps:
    """Cut every piece inside a character: after its first byte, the next piece after its second …"""
    turn = 0
    for step in source:
        if not isinstance(step, bytes) or isinstance(step, Raw):
            yield step
            continue
        found = _CHARACTER.search(step)
        if found is None:
            step = _COMMENT + step
            found = _CHARACTER.search(step)
        assert found is not None  # noqa: S101 - the comment has one
        cut = found.start() + 1 + turn % (found.end() - found.start() - 1)
        turn += 1
        yield step[:cut]
        yield step[cut:]


def line_endings(match: MatchedRule, source: Steps, world: World) -> Steps:
    fixed = {"cr": b"\r", "lf": b"\n", "crlf": b"\r\n"}.get(match.get("style"))
    mixed = (b"\r", b"\n", b"\r\n")
    count = 0
    after_cr = False
    for step in source:
        if not isinstance(step, bytes) or isinstance(step, Raw) or not step:
            after_cr = after_cr and not isinstance(step, Raw)
            yield step
            continue
        lines = step.split(b"\n")
        changed = bytearray(lines[0])
        after_cr = after_cr and not lines[0]
        for line in lines[1:]:
            count += 1
            ending = fixed or mixed[int(chance(world.seed, match.rule, "turn", match.ordinal, count) * 3)]
            if fixed is None and after_cr and ending == b"\n":
                # After a CR it would end the same line, and an empty line would be lost.
                ending = b"\r\n"
            changed += ending + line
            after_cr = ending == b"\r" and not line
        yield bytes(changed)


def bom(match: MatchedRule, source: Steps, world: World) -> Steps:
    for step in source:
        if isinstance(step, bytes):
            yield b"\xef\xbb\xbf" + step
            break
        yield step
    yield from source


OF_STREAMS = (skip, reorder, duplicate, silence, half_event, drop, inject, garbage, split_utf8, line_endings, bom)
"""The faults on streams, named like their kinds, in the order in which they are applied."""


def cut(source: Steps, after: int | None, ending: Disconnect) -> Steps:
    """End with `ending` after `after` bytes. None is half of the first piece."""
    left = after
    for step in () if after == 0 else source:
        if not isinstance(step, bytes):
            yield step
            continue
        left = len(step) // 2 if left is None else left
        if len(step) >= left:
            if left:
                yield step[:left]
            break
        left -= len(step)
        yield step
    yield ending


def drip(source: Steps, piece: int, seconds: float) -> Steps:
    begun = False
    for step in source:
        if not isinstance(step, bytes):
            yield step
            continue
        for start in range(0, len(step), piece):
            if begun:
                yield Delay(seconds)
            begun = True
            yield step[start : start + piece]


def padded(text: bytes, spaces: int) -> Steps:
    """A JSON text after white space, without holding all of it in memory."""
    blank = b" " * min(spaces, _PIECE)
    for _ in range(spaces // _PIECE):
        yield blank
    yield blank[: spaces % _PIECE] + text
