"""The live stream in the demo: the connection is cut, and no signal is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tradesdk_cli.demo.common import START, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk import SignalStream, StreamItem, StreamSignal, TradeClient
    from tradesdk_cli.demo.screen import Screen
    from tradesdk_mock import MockServer

BASE = 8453
PUBLISHED: tuple[tuple[str, Literal["BUY", "SELL"], float], ...] = (
    ("BRETT", "BUY", 0.91),
    ("AERO", "SELL", 0.84),
    ("DEGEN", "BUY", 0.78),
    ("PRIME", "SELL", 0.88),
    ("BRETT", "SELL", 0.95),
)
BEFORE_THE_CUT = 2
_LATER = START + 60  # the wait before connecting again is as long as chance says


def plan_the_cut(server: MockServer) -> None:
    """The next stream that is opened ends after two signals."""
    server.add_fault("drop", route="/v1/signals/stream", after=BEFORE_THE_CUT, how="close", nth=1)


def publish(server: MockServer) -> list[str]:
    """Publishes the signals of this step; their ids."""
    return [
        server.emit_signal(token=token, direction=direction, confidence=confidence).id
        for token, direction, confidence in PUBLISHED
    ]


def five_signals(stream: SignalStream[StreamItem]) -> Iterator[StreamItem]:
    """What the stream yields until it has yielded as many signals as were published."""
    from tradesdk import StreamSignal

    left = len(PUBLISHED)
    for item in stream:
        yield item
        left -= isinstance(item, StreamSignal)
        if left == 0:
            return


def live_stream(screen: Screen, client: TradeClient, server: MockServer) -> None:
    """Follows the stream over a cut."""
    from tradesdk import Connected, Disconnected, StreamSignal

    screen.step("Follow the live stream, which is cut after two signals")
    screen.call("stream = client.signals.stream(chain=8453, reports=True, idle_timeout=20, max_reconnects=2)")
    screen.call("with stream: items = list(five_signals(stream))")
    plan_the_cut(server)
    with client.signals.stream(chain=BASE, reports=True, idle_timeout=20, max_reconnects=2) as stream:
        published = publish(server)
        items = list(five_signals(stream))
    cuts = 0
    for item in items:
        if isinstance(item, StreamSignal):
            screen.result(_told(item))
        elif isinstance(item, Connected):
            screen.result("connected" if item.connects == 1 else "connected again")
        elif isinstance(item, Disconnected):
            cuts += 1
            screen.result(f"cut: {item.reason}", "yellow")
    came = [item for item in items if isinstance(item, StreamSignal)]
    ids = [signal.id for signal in came]
    check(cuts == 1, f"the stream was cut {cuts} times, not once")
    check(len(set(ids)) == len(ids), "a signal came twice")
    check(set(ids) >= set(published), f"signals are missing: {len(set(published) - set(ids))}")
    check(ids == published, "the signals came in another order")
    replayed = [signal.replayed for signal in came]
    live = [False] * BEFORE_THE_CUT
    check(replayed == live + [True] * (len(PUBLISHED) - len(live)), "the history was not asked for what was missed")
    check(stream.stats.gaps == 0, "the stream says that signals may be missing")
    screen.result(f"{len(published)} were published, {len(ids)} came: each once, in order, none is missing")
    server.clock.move(to=_LATER)


def _told(signal: StreamSignal) -> str:
    came = " (from the history)" if signal.replayed else ""
    return f"{signal.direction:<4} {signal.token_symbol:<5} {signal.confidence:.0%} at {signal.price_usd:.4g} USD{came}"
