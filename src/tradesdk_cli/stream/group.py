"""`signals stream --group`: the signals that a fleet's relay writes, each to one member of a group."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.retries import heard_by
from tradesdk_cli.stream.watchdog import Watchdog
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tradesdk import StreamItem, StreamSignal
    from tradesdk.fleet import SharedStream
    from tradesdk_cli.session import Session
    from tradesdk_cli.stream.bookmark import AnyStream


def refuse_with_group(given: Mapping[str, object]) -> None:
    """Refuses options that have no meaning with --group.

    Raises:
        UsageProblem: one of them was given.
    """
    for option, value in given.items():
        if value is not None:
            why = "a relay sends none" if option == "--heartbeats" else "the fleet's server keeps how far the group is"
            raise UsageProblem(f"{option} does not go with --group: {why}", "leave one of them out")


def fleet_url(run: Session, what: str) -> str:
    """The URL of the fleet's server, for what cannot do without.

    Raises:
        UsageProblem: there is no fleet.
    """
    settings = run.settings
    if settings.fleet_url is not None:
        return settings.fleet_url
    if settings.mock:
        raise UsageProblem(
            f"{what} needs a fleet, and no other machine sees the embedded mock",
            "serve the mock for all: trade mock serve, which says what to set in the other terminals",
        )
    raise UsageProblem(
        f"{what} needs the server that the machines of a fleet share, and none is set",
        "export TRADE_FLEET=redis://HOST (or --fleet redis://HOST), the same on every machine",
    )


class _Waits(logging.Handler):
    """Says on stderr why the stream is not open yet: each reason once."""

    def __init__(self, run: Session) -> None:
        super().__init__(logging.WARNING)
        self._out = run.out
        self._why = ""

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        if fields.get("event") == "stream_disconnected" and fields["reason"] != self._why:
            self._why = fields["reason"]
            self._out.event("waiting", f"{one_line(self._why)}; trying again until it answers")


class Shared:
    """A group's stream, for `follow`."""

    def __init__(self, run: Session, stream: SharedStream[StreamItem], url: str, duration: float | None) -> None:
        self._run, self._stream, self._url, self._duration = run, stream, url, duration
        self.goes_on = f"the group {stream.group}"
        self.member: str = stream.member

    @contextlib.contextmanager
    def opened(self) -> Iterator[AnyStream]:
        """The stream, open. It is said if the server is away until then, and if nobody relays.

        If it is not open when the duration is over, it is closed: then it ends at once.
        """
        watch = Watchdog(self._stream.close, self._run.out.stdout, duration=self._duration)
        with contextlib.ExitStack() as stack:
            with heard_by(_Waits(self._run)), watch:
                stream = stack.enter_context(self._stream)
            if watch.reason is None:
                self._say_if_nobody_relays()
            yield stream

    def ack(self, stream: AnyStream, signal: StreamSignal) -> None:
        """The signal is done. While the server is away, that is told with the next step."""
        from tradesdk import FleetError

        with contextlib.suppress(FleetError):
            stream.ack(signal)

    def _say_if_nobody_relays(self) -> None:
        from tradesdk import FleetError

        chain = self._stream.chain
        with contextlib.suppress(FleetError):  # the stream says it
            if self._run.client.signals.relay_status(chain=chain, redis=self._url).relayed_by is None:
                name = CHAIN_NAMES[chain]
                text = f"nobody relays {name} now: {self._run.settings.program} fleet relay --chain {name}"
                self._run.out.event("no_relay", f"{text}, on one machine or on several", chain=chain)


def in_group(
    run: Session, chain: int, group: str, filters: Mapping[str, Any], *, duration: float | None = None
) -> Shared:
    """The stream of a group. Nothing is sent yet. `duration`: seconds that it may take to open.

    Raises:
        UsageProblem: there is no fleet.
    """
    url = fleet_url(run, "--group")
    stream = run.client.signals.shared(chain=chain, group=group, redis=url, reports=True, manual_ack=True, **filters)
    return Shared(run, stream, url, duration)
