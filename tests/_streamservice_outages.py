"""Hours in which a service of signals is out of order, one way or another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache

import httpx

from ._streamservice import StreamService
from ._streamservice_plan import Fate, Plan, Refusal

BEGIN, END = 1_000.0, 4_600.0
KINDS = (
    "refused",
    "no answer",
    "503",
    "503 retry-after",
    "cut before the answer",
    "accepted, then cut",
    "accepted, then reset",
    "accepted, then silence",
    "accepted, then only comments",
    "an empty body",
    "a minute of health, then cut",
    "accepted, then cut, without history",
    "accepted, then silence, without history",
)
ENDS = {
    "accepted, then cut": Fate("clean", 0.0),
    "accepted, then reset": Fate("reset", 0.5, abrupt=True),
    "accepted, then silence": Fate("silent", 0.0),
    "accepted, then only comments": Fate("dripping comments", 0.0, drip=10.0),
    "a minute of health, then cut": Fate("clean", 61.0),
}


@dataclass(frozen=True)
class Outage:
    """Between `BEGIN` and `END`; to be handed to a `StreamService` as its hook."""

    kind: str

    @staticmethod
    @cache
    def plan() -> Plan:
        """Signals for an hour and a half, without any other fault."""
        return Plan.of(4, signals=700, disconnects=0, stalls=0, refusals=0, pace=8.0)

    def crowded(self, seed: int) -> Plan:
        """So many that those of the outage are more than a client will want to hold at once."""
        return Plan.of(seed, signals=30_000, disconnects=0, stalls=0, refusals=0, pace=0.4)

    def __call__(self, service: StreamService, request: httpx.Request) -> httpx.Response | None:
        if not BEGIN <= service.now < END:
            if service.now < BEGIN and request.url.path.endswith("/stream"):
                return service.accept(request, Fate("clean", BEGIN - service.now))
            return None
        kind = self.kind.removesuffix(", without history")
        if kind in ENDS or kind == "an empty body":
            if not request.url.path.endswith("/stream"):
                return None if kind == self.kind else service.refuse(Refusal(503))
            if kind in ENDS:
                return service.accept(request, ENDS[kind])
            headers = service.date() | {"Content-Type": "text/event-stream"}
            service.note("stream answered by an empty body")
            service.connects.append(service.now)
            return httpx.Response(200, headers=headers, content=b"")
        return service.hinder(request, kind)


def most_within(moments: list[float], seconds: float = 300.0) -> int:
    """The largest number of these that lie in any such stretch of time."""
    return max(bisect_right(moments, moment + seconds) - place for place, moment in enumerate(moments))


def during(moments: list[float]) -> int:
    """How many lie within the outage."""
    return bisect_left(moments, END) - bisect_left(moments, BEGIN)
