"""A service of signals of the tests' own, in virtual time: what its plan says happens, and everything else is honest.

It shares no code with the SDK or the mock. One object serves both flavours and opens no socket: a read moves the clock
to the next thing that is sent, or by the read timeout. What is sent while nobody reads is kept, as TCP keeps it.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from math import inf

import httpx
from anyio.lowlevel import checkpoint

from ._clock import START, VirtualClock, http_date
from ._streamservice_plan import CHAIN, Fate, Plan, Refusal
from ._streamservice_wire import Connection

GRACE = 700.0  # how long it continues after the last signal: two audits fit in
LASTING = Fate("lasting", inf)

Hook = Callable[["StreamService", httpx.Request], httpx.Response | None]
"""May answer instead, or raise; None leaves it to the plan."""


class StreamService(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The transport of an HTTP client, blocking or not.

    Attributes:
        live: which signals arrived whole on a stream, by number.
        served: which were in an answer of history.
        invalid: which events that cannot be read arrived whole, in order.
        unknown: likewise of those of unknown kinds.
        connects: when a stream was opened.
        tries: when one was asked for.
        unfinished: fates that are still to come.
        escaped: how many the client avoided by leaving earlier.
        open: streams that are open.
        most_open: how many were at the same time.
        last_fate: when the last connection was cut.
        log: what happened last.
        keeps: seconds for which the history shows a signal.
    """

    keeps = inf

    def __init__(self, plan: Plan, clock: VirtualClock, hook: Hook | None = None) -> None:
        self.plan = plan
        self.clock = clock
        self.hook = hook
        self.draw = random.Random(f"service {plan.seed}")
        self.live = bytearray(len(plan.signals))
        self.served = bytearray(len(plan.signals))
        self.invalid: list[int] = []
        self.unknown: list[int] = []
        self.connects: list[float] = []
        self.tries: list[float] = []
        self.unfinished = len(plan.fates)
        self.escaped = 0
        self.open = 0
        self.most_open = 0
        self.looks = 0
        self.last_fate = 0.0
        self.log: deque[str] = deque(maxlen=60)
        self._stamps = [plan.signals[number].fields["timestamp"] for number in plan.listed]
        self.moments = [entry[0] for entry in plan.timeline]
        self._obstacles = {number: list(found) for number, found in plan.obstacles.items()}
        self._horizon = 3 * plan.end + 100_000
        self._begin = clock.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock.monotonic() - self._begin

    def over(self, heartbeat: float) -> bool:
        """Nothing more will come after a heartbeat of this time."""
        return self.unfinished <= 0 and heartbeat - START - self.plan.skew > self.plan.end + GRACE

    def note(self, text: str) -> None:
        self.log.append(f"{self.now:10.2f}  {text}")

    def move(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.now > self._horizon:
            raise AssertionError("the client never came to the end")

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert request.method == "GET"
        assert request.headers["authorization"].startswith("Bearer ")
        query = dict(request.url.params)
        assert query.pop("chain") == str(CHAIN)
        stream = request.url.path == "/v1/signals/stream"
        if stream:
            assert not query
            self.tries.append(self.now)
        else:
            assert request.url.path == "/v1/signals/history"
            self.looks += 1
        if self.hook is not None and (answer := self.hook(self, request)) is not None:
            return answer
        return self._connect(request) if stream else self._history(query)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await checkpoint()
        return self.handle_request(request)

    def date(self) -> dict[str, str]:
        return {"Date": http_date(int(self.clock.now() + self.plan.skew))}

    def refuse(self, refusal: Refusal) -> httpx.Response:
        """429 or 503, as the service words them."""
        headers = self.date()
        if refusal.retry_after is not None:
            headers["Retry-After"] = str(refusal.retry_after)
        if refusal.reset is not None:
            headers["X-RateLimit-Reset"] = str(int(self.clock.now() + self.plan.skew) + refusal.reset)
        code = "rate_limited" if refusal.status == 429 else "service_unavailable"
        return httpx.Response(refusal.status, json={"error": {"code": code, "message": "not now"}}, headers=headers)

    def _connect(self, request: httpx.Request) -> httpx.Response:
        number = len(self.connects)
        if waiting := self._obstacles.get(number):
            return self.hinder(request, waiting.pop(0))
        self.move(self.draw.uniform(0, 0.2))
        return self.accept(request, self.plan.fates[number] if number < len(self.plan.fates) else LASTING)

    def accept(self, request: httpx.Request, fate: Fate) -> httpx.Response:
        """A stream from now on, which ends as `fate` says."""
        self.note(f"stream {len(self.connects) + 1} opened: {fate.kind} after {fate.life:.2f}")
        self.connects.append(self.now)
        connection = Connection(self, fate, request.extensions["timeout"])
        headers = self.date() | {"Content-Type": "text/event-stream; charset=utf-8"}
        self.move(self.draw.uniform(0, 0.2))
        return httpx.Response(200, headers=headers, stream=connection)

    def hinder(self, request: httpx.Request, obstacle: str) -> httpx.Response:
        """No stream, or no history, for one of `OBSTACLES`."""
        self.note(f"{request.url.path}: {obstacle}")
        match obstacle:
            case "refused":
                raise httpx.ConnectError("connection refused", request=request)
            case "no answer":
                self.move(request.extensions["timeout"]["connect"])
                raise httpx.ConnectTimeout("no connection in time", request=request)
            case "cut before the answer":
                self.move(0.1)
                raise httpx.RemoteProtocolError("server disconnected without sending a response", request=request)
            case "503":
                return self.refuse(Refusal(503))
            case _:
                return self.refuse(Refusal(503, 7))

    def _history(self, query: dict[str, str]) -> httpx.Response:
        """Newest first; a signal is missing until history shows it."""
        number = self.looks - 1
        self.move(self.draw.uniform(0.01, 0.4))
        if refusal := self.plan.refusals.get(number):
            self.note(f"history {number}: {refusal.status}, Retry-After {refusal.retry_after}")
            return self.refuse(refusal)
        now, signals, listed = self.now, self.plan.signals, self.plan.listed
        oldest = self.clock.now() + self.plan.skew - self.keeps
        low = bisect_left(self._stamps, max(int(query.pop("from", "0")), oldest))
        high = bisect_right(self._stamps, min(int(query.pop("to", "99999999999")), self.clock.now() + self.plan.skew))
        if cursor := query.pop("cursor", ""):
            assert cursor.startswith("below-")
            high = min(high, int(cursor.removeprefix("below-")))
        limit = int(query.pop("limit", "20"))
        assert 1 <= limit <= 100
        assert not query
        places: list[int] = []
        more = False
        for place in range(high - 1, low - 1, -1):
            if signals[listed[place]].seen <= now:
                if len(places) == limit:
                    more = True
                    break
                places.append(place)
        found = [listed[place] for place in places]
        for place in found:
            self.served[place] = 1
        body = b'{"data": [' + b", ".join([signals[place].wire for place in found]) + b"]"
        if more:
            body += b', "next_cursor": "below-%d"' % places[-1]
        self.note(f"history {number}: from {low}, below {high}: {len(found)}, newest {found[0] if found else None}")
        headers = self.date() | {"Content-Type": "application/json"}
        self.move(self.draw.uniform(0, 0.1))
        return httpx.Response(200, content=body + b"}", headers=headers)
