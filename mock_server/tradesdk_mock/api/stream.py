"""GET /v1/signals/stream

`Feed` is the body of the response: steps that the transport takes one by one. It never waits and has no thread: when
there is nothing to send, its step is a `WaitForEvent` until the next signal or heartbeat is due, or until `Notifier`
wakes it (a signal was emitted, the world was reset, the stream was closed). Only the transport's thread or task takes
steps; `close` may be called from any thread.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..core.errors import ApiError
from ..core.messages import NEW_FIELD, BodyStep, Disconnect, Response, WaitForEvent
from ..core.subscribers import Notifier
from ..state import tenants
from ..trading import signal_feed
from .context import Context, Endpoint, Routes

if TYPE_CHECKING:
    from ..state.world import World

_POLL = 0.5


def stream(call: Context) -> Response:
    world, key_id, query = call.world, call.caller.key_id, call.query()
    chain = query.chain("chain", required=True)
    assert chain is not None  # noqa: S101 - required
    min_confidence = query.confidence() if world.gaps.stream_filter == "honoured" else None
    after = signal_feed.last_seq(world)
    resumed = call.request.header(b"last-event-id") if world.gaps.resume == "ids" else None
    if resumed is not None:
        known = world.store.value("SELECT seq FROM signals WHERE id = ?", (resumed.decode("latin-1"),))
        after = after if known is None else int(known)
    signal_feed.schedule_first_signal(world, chain)
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    feed = Feed(world, key_id, chain, after, min_confidence or 0.0, call.now)
    return Response(200, headers=headers, body=feed)


class Feed:
    """The events of one stream, as steps. It stores only its position, so a slow reader costs no memory."""

    def __init__(
        self, world: World, key_id: str, chain_id: int, after: int, min_confidence: float, opened: float
    ) -> None:
        self._world = world
        self._key_id = key_id
        self._chain_id = chain_id
        self._after = after
        self._min_confidence = min_confidence
        # Heartbeats count from this time, not from the first read.
        self._opened = opened
        self._epoch = world.subscribers.epoch
        self._closed = False
        self._notifier = Notifier()
        world.subscribers.join(self._notifier)
        self._steps = self._run()

    def __iter__(self) -> Iterator[BodyStep]:
        return self

    def __next__(self) -> BodyStep:
        try:
            return next(self._steps)
        except ApiError:
            # Another thread has just closed the world.
            if self._world.closed:
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the stream, from any thread; a wait for the next step ends."""
        self._closed = True
        self._world.subscribers.leave(self._notifier)
        self._notifier.notify()
        with contextlib.suppress(ValueError):  # another thread is running the generator
            self._steps.close()

    def _run(self) -> Generator[BodyStep, None, None]:
        world = self._world
        last_heartbeat = self._opened
        if world.gaps.unknown_values == "on":
            yield event({"type": "notice", "timestamp": int(last_heartbeat), **NEW_FIELD})
        # The world may be reset while a client is listening.
        while not self._closed and self._epoch == world.subscribers.epoch:
            # Read before the signals, so that a heartbeat never comes before an earlier signal.
            now, interval = world.now(), world.gaps.heartbeat
            if not tenants.is_valid(world, self._key_id, now):
                break
            try:
                signals, upto, next_due = signal_feed.new_signals(world, self._chain_id, self._after, now)
            except ApiError:  # another process has locked the file: try again later
                yield WaitForEvent(None, self._notifier, _POLL)
                continue
            for seq, record in signals:
                self._after = seq
                if record["confidence"] < self._min_confidence:
                    continue
                extra = NEW_FIELD if world.gaps.unknown_values == "on" else {}
                ident = record["id"] if world.gaps.resume == "ids" else None
                yield event({"type": "signal", **record, **extra}, ident)
            if signals:
                continue
            self._after = upto
            last_heartbeat = min(last_heartbeat, now)
            if interval and now >= last_heartbeat + interval:
                last_heartbeat = now
                yield event({"type": "heartbeat", "timestamp": int(now)})
                continue
            due = min(next_due, last_heartbeat + interval) if interval else next_due
            until = None if due == math.inf else self._on_the_clock(due)
            yield WaitForEvent(until, self._notifier, _POLL if world.store.path else None)
        if world.closed:
            # Like a server that crashes: no regular end.
            yield Disconnect.CLOSE

    def _on_the_clock(self, ts: float) -> float:
        """The time of the mock's clock at the service's time `ts`, rounded up."""
        skew = self._world.gaps.clock_skew
        shown = ts - skew
        while shown + skew < ts:
            shown = math.nextafter(shown, math.inf)
        return shown


def event(data: dict[str, Any], ident: str | None = None) -> bytes:
    """One event of the stream; its kind is the `type` in the data."""
    name = b"" if ident is None else b"id: %s\n" % ident.encode()
    return name + b"data: %s\n\n" % to_json(data)


ROUTES: Routes = {
    "/v1/signals/stream": {"GET": Endpoint(stream, live=True, signals=True)},
}
