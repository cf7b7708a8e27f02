"""What a service of signals will do, drawn from a seed beforehand: signals, when history shows them, and every fault.

All times are seconds after the beginning; the service's own wall clock is `START + skew` then.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from ._clock import START

CHAIN = 8453
BACKEND = "asyncio"  # what is decided is the same under trio, and one plan is ten thousand signals
KINDS = ("clean", "reset", "inside an event", "inside a character")
STALLS = ("silent", "silent inside an event", "dripping comments")
OBSTACLES = ("refused", "no answer", "503", "503 retry-after", "cut before the answer")
SYMBOLS = ("BRETT", "ETH", "DEGEN", "VIRTUAL", "Ünï", "猫猫", "🚀MOON", "ДЕГЕН", "𠜎𠜱", "a\u2028b\u0085c")
QUIET = 60.0  # nothing is published so shortly before and after the beginning: who connects then is sure what is new

# What a timeline holds besides signals, which stand there by their number.
Sort = Literal["signal", "again", "invalid", "unknown", "noise"]
Entry = tuple[float, bytes, Sort, int]


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A signal.

    Attributes:
        at: when it was published.
        seen: when history shows it.
        fields: as the service describes it.
        wire: the same as JSON.
        event: the same on the stream.
    """

    at: float
    seen: float
    fields: dict[str, Any]
    wire: bytes
    event: bytes

    @property
    def id(self) -> str:
        return str(self.fields["id"])


@dataclass(frozen=True, slots=True)
class Fate:
    """How a connection ends.

    Attributes:
        kind: one of `KINDS` or of `STALLS`.
        life: seconds until then; a cut inside an event waits for the next one.
        loses: what was sent and not read by then is gone, as after a reset.
        abrupt: the end is an error, not an ordinary one.
        drip: seconds between the comments of a stalled connection.
    """

    kind: str
    life: float
    loses: bool = False
    abrupt: bool = False
    drip: float = 5.0

    @property
    def stalls(self) -> bool:
        return self.kind in STALLS


@dataclass(frozen=True, slots=True)
class Refusal:
    """What history answers instead."""

    status: int
    retry_after: int | None = None
    reset: int | None = None


@dataclass(kw_only=True)
class Plan:
    """The whole of it.

    Attributes:
        seed: it follows from this alone.
        skew: seconds by which the service's clock is ahead of the client's.
        since: Unix seconds to ask the client for; None: from now on.
        disorder: seconds that a signal may be older than its publication.
        signals: all, as they are published. Those before `first` are not for the client.
        listed: their numbers as history lists them, the oldest first.
        timeline: what is sent on the stream, in order.
        fates: of the first, second, … connection; later ones live on.
        obstacles: what meets the tries before each connection stands.
        refusals: by the number of the request to history.
        invalid: data of the events that cannot be read.
        unknown: kinds of the events that nobody knows.
        dawdles: how long the client does something else after so many signals.
        dropped: signals that the stream leaves out.
        end: when the last signal is published.
    """

    seed: int
    skew: float = 0.0
    since: int | None = None
    first: int = 0
    disorder: float = 0.0
    signals: list[Published] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)
    timeline: list[Entry] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    obstacles: dict[int, list[str]] = field(default_factory=dict)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    invalid: list[bytes] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    dawdles: dict[int, float] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    end: float = 0.0

    @property
    def expected(self) -> int:
        """How many signals are to come."""
        return len(self.signals) - self.first

    @classmethod
    def of(
        cls,
        seed: int,
        *,
        signals: int = 10_000,
        disconnects: int = 100,
        stalls: int = 30,
        refusals: int = 10,
        dropped: int = 0,
        disorder: float = 0.0,
        pace: float = 2.0,
    ) -> Plan:
        """The plan of a seed. `pace`: seconds from signal to signal where there are no disconnects to fit in."""
        draw = random.Random(seed)
        plan = cls(seed=seed)
        plan.skew = (0, 1, -1)[seed % 3] * draw.uniform(100, 10_000)
        plan.fates = _fates(draw, disconnects, stalls)
        tries = disconnects + stalls
        for number in draw.sample(range(tries), tries // 8) if tries else ():
            few = 2 if number == 0 else draw.choice((1, 1, 2, 4))
            plan.obstacles[number] = [draw.choice(OBSTACLES) for _ in range(few)]
        plan.refusals = _refusals(draw, refusals, tries)
        plan.dawdles = {draw.randrange(signals): draw.choice((1.0, 20.0, 100.0, 400.0)) for _ in range(signals // 1000)}
        # Long enough for all of that, with what it costs to connect again.
        span = (
            1.15 * (sum(fate.life for fate in plan.fates) + 75 * stalls + 9 * tries + 200) if tries else pace * signals
        )
        moments = [-QUIET - moment for moment in reversed(_moments(draw, 150, 400.0))]
        plan.first = len(moments)
        moments += [QUIET + moment for moment in _moments(draw, signals, span)]
        plan.disorder = disorder
        plan.signals = [_signal(draw, number, at, plan) for number, at in enumerate(moments)]
        plan.listed = sorted(range(len(moments)), key=lambda number: plan.signals[number].fields["timestamp"])
        plan.end = moments[-1]
        if seed % 2 and not disorder:
            begin = draw.uniform(-500, -QUIET)
            plan.since = int(START + plan.skew + begin)
            plan.first = sum(one.fields["timestamp"] < plan.since for one in plan.signals)
        plan.dropped = frozenset(draw.sample(range(len(moments) - signals, len(moments)), dropped))
        plan.timeline = _timeline(draw, plan, len(moments) - signals)
        return plan


def _fates(draw: random.Random, disconnects: int, stalls: int) -> list[Fate]:
    """The kinds evenly; lives that end at once, while the client looks back, soon after that, and late."""
    kinds = [KINDS[number % len(KINDS)] for number in range(disconnects)]
    kinds += [STALLS[number % len(STALLS)] for number in range(stalls)]
    draw.shuffle(kinds)
    spans = ((0.0, 0.5), (0.5, 6.0), (0.5, 6.0), (6.0, 70.0), (6.0, 70.0), *((70.0, 250.0),) * 4, (300.0, 700.0))
    return [
        Fate(
            kind,
            draw.uniform(*draw.choice(spans)),
            loses=kind == "reset" and draw.random() < 0.5,
            abrupt=kind == "reset" or draw.random() < 0.5,
            drip=draw.choice((1.0, 5.0, 20.0)),
        )
        for kind in kinds
    ]


def _refusals(draw: random.Random, count: int, tries: int) -> dict[int, Refusal]:
    """Of every ten, half come singly and half in one burst."""
    last = 2 * tries + 2 * count
    numbers: set[int] = set()
    for _ in range(count // 10):
        burst = draw.randrange(5, last)
        numbers.update(range(burst, burst + 5))
    numbers.update(draw.sample([number for number in range(2, last) if number not in numbers], count - len(numbers)))
    waits = (None, None, 1, 3, 20)
    found = {}
    for number in sorted(numbers):
        status = draw.choice((429, 503))
        reset = draw.choice((None, 2, 10)) if status == 429 else None
        found[number] = Refusal(status, draw.choice(waits), reset)
    return found


def _moments(draw: random.Random, count: int, span: float) -> list[float]:
    """Stretches that are quiet, ordinary, or a rush of dozens in a second."""
    moments: list[float] = []
    now = 0.0
    while len(moments) < count:
        pace, longest = draw.choice(((8.0, 60), (2.0, 300), (2.0, 300), (0.05, 400)))
        for _ in range(min(draw.randrange(10, longest), count - len(moments))):
            now += draw.expovariate(1 / pace)
            moments.append(now)
    return [moment * span / now for moment in moments]


def _signal(draw: random.Random, number: int, at: float, plan: Plan) -> Published:
    generated = at - draw.choice((0.0, 0.0, draw.uniform(0, plan.disorder))) if plan.disorder else at
    fields: dict[str, Any] = {
        "id": f"{draw.getrandbits(64):016x}",
        "token_address": f"0x{draw.getrandbits(160):040x}",
        "token_symbol": draw.choice(SYMBOLS),
        "chain_id": CHAIN,
        "direction": draw.choice(("BUY", "SELL")),
        "confidence": draw.randrange(101) / 100,
        "price_usd": draw.random() * 10,
        "timestamp": int(START + plan.skew + generated),
    }
    if number % 50 == 0:
        fields["venue"] = "ünknown"
    wire = json.dumps(fields, ensure_ascii=False).encode()
    seen = at + draw.choice((0.0, draw.uniform(0, 2), draw.uniform(0, 2), draw.uniform(1.9, 2)))
    return Published(at, seen, fields, wire, _event(draw, b'{"type": "signal", ' + wire[1:]))


def _event(draw: random.Random, data: bytes) -> bytes:
    """As an event: now and then with other line ends, over two lines, or among fields that mean nothing."""
    way = draw.randrange(100)
    if way == 0:
        return b"data:" + data + b"\r\r"
    if way < 4:
        return b"data: " + data + b"\r\n\r\n"
    if way < 6:
        return b"data: " + data.replace(b", ", b",\ndata: ", 1) + b"\n\n"
    if way < 8:
        return b"event: other\nid: a\0b\nretry: +5\nwhat\xff: \xc3(\ndata: " + data + b"\n\n"
    return b"data: " + data + b"\n\n"


def _timeline(draw: random.Random, plan: Plan, begin: int) -> list[Entry]:
    """Signals, 5 % of them once more, 1 % that is no event or none that anybody knows."""
    entries: list[Entry] = []
    count = len(plan.signals) - begin
    for number in range(begin, len(plan.signals)):
        one = plan.signals[number]
        if number not in plan.dropped:
            entries.append((one.at, one.event, "signal", number))
    for number in draw.sample(range(begin, len(plan.signals)), count // 20):
        one = plan.signals[number]
        if number not in plan.dropped:
            delay = draw.choice((0.0, 0.0, draw.uniform(0, 5), draw.uniform(0, 5), draw.uniform(0, 60)))
            entries.append((one.at + delay, one.event, "again", number))
    for turn in range(count // 100):
        at = draw.uniform(1.0, plan.end)
        match turn % 5:
            case 0:
                entries.append((at, draw.choice(NOISE), "noise", 0))
            case 1:
                entries.append((at, b"what\xffever: \xe2\x82\n", "noise", 0))
            case 2:
                entries.append((at, b": \xff\xfe\xc3\n", "noise", 0))
            case _:
                data = draw.choice(INVALID) % turn
                entries.append((at, b"data: " + data + b"\n\n", "invalid", len(plan.invalid)))
                plan.invalid.append(data)
    for turn in range(count // 500):
        kind = f"kind{turn}"
        data = b'{"type": "%s", "timestamp": 1}' % kind.encode()
        entries.append((draw.uniform(1.0, plan.end), b"data: " + data + b"\n\n", "unknown", len(plan.unknown)))
        plan.unknown.append(kind)
    entries.sort(key=lambda entry: entry[0])
    return entries


NOISE = (
    b"%%%$ senseless\n",
    b"\n\n",
    b"dat: a: b\n",
    b": data: x\n\n",
    b"id: 7\n\n",
    b"event: signal\n\n",
    b" data: y\n",
)
INVALID = (
    b"hello %d",
    b'{"type": "signal", "id": "cut %d',
    b"[%d]",
    b"1%d",
    b'"signal %d"',
    b'{"type": "signal", "id": "bare %d"}',
    b'{"timestamp": %d}',
    b'{"type": %d}',
    b'{"type": "signal", "id": "s%d", "token_address": "0x1", "token_symbol": "X", "chain_id": 8453,'
    b' "direction": "BUY", "confidence": 0.5, "price_usd": NaN, "timestamp": 1}',
    b'{"type": "signal", "id": "t%d", "token_address": "0x1", "token_symbol": "X", "chain_id": 8453,'
    b' "direction": "BUY", "confidence": "much", "price_usd": 1.0, "timestamp": 1}',
    b"\xff\xfe %d",
)
