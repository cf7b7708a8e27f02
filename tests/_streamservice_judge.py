"""Compares what a client yields with the service's own timeline, item by item, and keeps only the first difference."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from tradesdk import Gap, InvalidEvent, StreamSignal, StreamStats, UnknownEvent

from ._streamservice import StreamService

AROUND = 4


class StreamJudge:
    """Every item goes to `take`, in the order in which it came; `finish` looks at the whole.

    Attributes:
        problem: the first difference, with what is around it; empty while there is none.
        taken: signals so far.
        late: those of them that were flagged as late.
        replayed: those that were flagged as such.
        gaps: gaps so far.
    """

    def __init__(self, service: StreamService, *, gaps_allowed: bool = False) -> None:
        self.service = service
        self.plan = service.plan
        self.problem = ""
        self.taken = 0
        self.late = 0
        self.replayed = 0
        self.gaps: list[Gap] = []
        self.reports: Counter[str] = Counter()
        self._gaps_allowed = gaps_allowed
        self._newest = 0
        self._numbers = {one.id: number for number, one in enumerate(self.plan.signals)}
        self._seen = bytearray(len(self.plan.signals))
        self._last = self.plan.first - 1
        self._invalid: list[bytes] = []
        self._unknown: list[str] = []
        self._latest: deque[str] = deque(maxlen=2 * AROUND)

    @property
    def missing(self) -> list[int]:
        """Signals that were to come and did not so far."""
        return [number for number in range(self.plan.first, len(self.plan.signals)) if not self._seen[number]]

    def take(self, item: Any) -> None:
        if isinstance(item, StreamSignal):
            self._signal(item)
            return
        self.reports[type(item).__name__] += 1
        match item:
            case Gap():
                self.gaps.append(item)
                if not self._gaps_allowed:
                    self._differs(f"a gap was reported: {item}", self._last)
            case InvalidEvent():
                if item.source == "stream":
                    self._invalid.append(item.raw)
                else:
                    self._differs(f"history was good, and yet: {item}", self._last)
            case UnknownEvent():
                self._unknown.append(item.type)
            case _:
                pass

    def _signal(self, signal: StreamSignal) -> None:
        self.taken += 1
        self.replayed += signal.replayed
        number = self._numbers.get(signal.id)
        if number is None:
            return self._differs(f"never published: {signal}", self._last)
        marks = f"{' replayed' * signal.replayed}{' late' * signal.late}"
        self._latest.append(f"{number}{marks}")
        if number < self.plan.first:
            return self._differs(f"older than what was asked for: {number}", number)
        if self._seen[number]:
            return self._differs(f"twice: {number}{marks}", number)
        self._seen[number] = 1
        if (
            signal.model_dump(mode="json", exclude={"type"}, exclude_computed_fields=True)
            != self.plan.signals[number].fields
        ):
            return self._differs(f"other content: {signal}", number)
        if not (self.service.served if signal.replayed else self.service.live)[number]:
            return self._differs(f"wrongly flagged: {number}{marks} never came that way", number)
        self.late += signal.late
        newest, self._newest = self._newest, max(self._newest, self._when(number))
        if self.plan.disorder:
            if signal.late != (self._when(number) < newest):
                return self._differs(f"wrongly flagged: {number}{marks} after the time {newest}", number)
            return None
        if signal.late:
            if number not in self.plan.dropped:
                return self._differs(f"late: {number}, although the stream did not leave it out", number)
            return None
        return self._in_order(number, marks)

    def _in_order(self, number: int, marks: str) -> None:
        if number < self._last:
            if number in self.plan.dropped and self._when(number) == self._when(self._last):
                return None  # times are whole seconds: that it is late cannot be seen
            return self._differs(f"out of order: {number}{marks} after {self._last}", number)
        if not self._gaps_allowed:
            for missing in range(self._last + 1, number):
                if missing not in self.plan.dropped:
                    return self._differs(f"not there: {missing}; {number}{marks} came instead", missing)
        self._last = number
        return None

    def finish(self, stats: StreamStats | None = None) -> None:
        """When the stream has been left."""
        service, plan = self.service, self.plan
        if not self._gaps_allowed and (missing := self.missing):
            self._differs(f"lost: {len(missing)}, the first of them {missing[0]}", missing[0])
        sent = [plan.invalid[number] for number in service.invalid]
        if self._invalid != sent:
            self._differs(f"events that cannot be read: {_first(self._invalid, sent)}", self._last)
        named = [plan.unknown[number] for number in service.unknown]
        if self._unknown != named:
            self._differs(f"events of unknown kinds: {_first(self._unknown, named)}", self._last)
        if service.open or service.most_open > 1:
            self._differs(f"{service.open} streams left open, {service.most_open} at the same time", self._last)
        if stats is not None:
            told = (stats.signals, stats.replayed, stats.late, stats.connects, stats.invalid, stats.gaps)
            true = (self.taken, self.replayed, self.late, len(service.connects), len(sent), len(self.gaps))
            if told != true:
                self._differs(f"stats say {told}, and it was {true}", self._last)

    def _when(self, number: int) -> int:
        return int(self.plan.signals[number].fields["timestamp"])

    def _differs(self, what: str, number: int) -> None:
        if self.problem:
            return
        plan = self.plan
        lines = [f"seed {plan.seed}: {what}", f"the last that came: {', '.join(self._latest)}", "published:"]
        for place in range(max(0, number - AROUND), min(len(plan.signals), number + AROUND + 1)):
            one = plan.signals[place]
            arrived = f"{'live ' * self.service.live[place]}{'history ' * self.service.served[place]}"
            lines.append(
                f"  {place}: at {one.at:.3f}, in history from {one.seen:.3f}, timestamp {one.fields['timestamp']},"
                f" arrived: {arrived or 'not at all '}{'(yielded)' * self._seen[place]}"
            )
        lines += ["what the service did last:", *self.service.log]
        self.problem = "\n".join(lines)


def _first(got: list[Any], sent: list[Any]) -> str:
    """The first place where two lists differ."""
    for place, (one, other) in enumerate(zip(got, sent, strict=False)):
        if one != other:
            return f"number {place} is {one!r}, sent was {other!r}"
    place = min(len(got), len(sent))
    return (
        f"{len(got)} came, {len(sent)} were sent, the first difference is {(got + sent)[place:][:1] or got[place:][:1]}"
    )
