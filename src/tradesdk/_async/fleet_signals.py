"""The signals that a member of a fleet gets."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING

from .._fleet.bodies import GAP, LONGEST, MOST_MISSED, Behind, lost, missed, read
from .._http import settings
from .._http.arguments import chain as checked_chain
from .._http.arguments import flags, moment, required_text, seconds
from .._http.log_events import event
from .._postgres.server import SCHEMA, server
from .._values.frames import hides_locals
from ..errors import APIConnectionError, APIError, APIStatusError, FleetError, InvalidArgumentError, TradeError
from ..models.stream import FleetSignal, Gap
from .base_client import AsyncConnected
from .client import AsyncTradeClient
from .concurrency import AsyncInterruptible, Interrupted, always_in_thread, in_thread

if TYPE_CHECKING:
    from typing import Self

_LONGEST_NAME = 100


def _text(name: str, value: str) -> str:
    if "\0" in required_text(name, value):
        raise InvalidArgumentError(
            f"{name} must not contain NUL: PostgreSQL cannot store it", hint=f'write {name} without "\\0"'
        )
    if len(value.encode()) > LONGEST:
        message = f"{name} must be at most {LONGEST} bytes in UTF-8, not {len(value.encode())}"
        raise InvalidArgumentError(message, hint=f"set {name} to a shorter text, such as its SHA-256")
    return value


class AsyncFleetSignals(AsyncConnected):
    """The signals of a chain for one member of a fleet: a context manager, and an iterator for one consumer.

    An `AsyncFleetRelay` stores them. With `group`, each signal goes to one member of the group; it is done when the
    member asks for the next one, or with `ack`. A signal that a member did not finish in time is delivered again, with
    `redelivered`. Without a group, a member gets every signal in order, from now on or since a moment.

    After a `FleetError`, or an `APIError` of the history, the iterator can be used again: it reconnects, and no signal
    is lost.

    Args:
        chain: 8453 (Base) or 56 (BNB Chain).
        group: the name of the group. It keeps its position, also while it has no members.
        since: start with signals from this moment on: an aware datetime, or Unix seconds. By default now; for a group
            only when it is new.
        client: reads signals that the fleet no longer keeps from the service's history. Without it, they are a `Gap`.
        base_url: the service whose signals these are; by default that of `client`, else TRADE_BASE_URL.
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables.
        lease: seconds for which a member has a signal, by the server's clock; then another one may get it.
        manual_ack: signals count as done when `ack` is called, not when the next one is asked for.
        reports: also yield `Gap`; else it is only logged and counted.

    Attributes:
        gaps: number of gaps so far.

    Raises:
        InvalidArgumentError: an argument was refused.
        ConfigError: a URL or the schema cannot be used, or psycopg is not installed.

    Example:
        ```python
        async with AsyncFleetSignals(chain=8453, group="bots") as signals:
            async for signal in signals:
                print(signal.direction, signal.token_symbol)
        ```
    """

    @hides_locals
    def __init__(
        self,
        *,
        chain: int,
        group: str | None = None,
        since: datetime | float | None = None,
        client: AsyncTradeClient | None = None,
        base_url: str | None = None,
        url: str | None = None,
        schema: str = SCHEMA,
        lease: float = 60.0,
        manual_ack: bool = False,
        reports: bool = False,
    ) -> None:
        self.chain, self.gaps = checked_chain("chain", chain), 0
        first, lease = moment("since", since), seconds("lease", lease, least=0.1, most=86_400)
        settings.instance("client", client, AsyncTradeClient, "an AsyncTradeClient")
        if group is not None and not 0 < len(_text("group", group)) <= _LONGEST_NAME:
            message = f"group must be 1 to {_LONGEST_NAME} characters"
            raise InvalidArgumentError(message, hint='write group="bots", or leave it out')
        flags(manual_ack=manual_ack, reports=reports)
        if manual_ack and group is None:
            raise InvalidArgumentError("manual_ack=True needs group=", hint='add group="bots", or leave manual_ack out')
        known = client.base_url if client is not None and base_url is None else base_url
        self._service = settings.base_url(known, allow_insecure=True)
        database = server(url, schema)
        from .._fleet.signals import Member  # needs psycopg, an extra

        self.group, self._client, self._reports, self._manual_ack = group, client, reports, manual_ack
        self._member = Member(database, self.chain, self._service, group, since=first, lease=lease)
        self._interruptible = AsyncInterruptible()
        self._taken: str | None = None
        self._unrelayed = False

    async def ack(self, signal: FleetSignal) -> bool:
        """Mark a signal of the group as done. False if this member no longer had it.

        After a `FleetError` it can be called again: within the lease the result is the same.

        Raises:
            FleetError: the server cannot be used.
            InvalidArgumentError: there is no group.
        """
        if self.group is None:
            message = "ack needs group=: without a group, signals are not acknowledged"
            raise InvalidArgumentError(message, hint='make FleetSignals with group="bots"')
        if self._taken == signal.id:
            self._taken = None
        return await in_thread(self._member.done, signal.id)

    async def once(self, key: str) -> bool:
        """Whether this is the first call for a key in the whole fleet: True for one caller, for at least 90 days.

        It says who may do something, not that it was done: if that caller is killed, no other caller gets True.

        Raises:
            FleetError: the server cannot be used; this call may have got the key.
            InvalidArgumentError: PostgreSQL cannot store the text, or it is longer than 1,000 bytes.
        """
        key = _text("key", key)
        from .._fleet.signals import once

        return await in_thread(once, self._member.link, key)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FleetSignal | Gap:
        if self._interruptible.foreign:
            raise TradeError("these signals belong to the parent process: open others in this process")
        # Also after closing: signals taken before are done. Gaps are not acknowledged.
        taken, self._taken = self._taken, None
        if taken is not None and (not self._manual_ack or taken.startswith(GAP)):
            self._member.done_later(taken)
        try:
            return await self._interruptible.run(self._next)
        except Interrupted:
            await always_in_thread(self._leave)
            raise StopAsyncIteration from None

    async def _next(self) -> FleetSignal | Gap:
        member = self._member
        while True:
            while not member.items:
                await in_thread(member.look)
                if member.behind is not None:
                    await self._catch_up(member.behind)
                elif not member.items:
                    self._tell_of_relay()
                    await self._interruptible.readable(member.descriptor, member.wait)
            taken = member.items.popleft()
            self._taken = taken.id
            item = read(taken)
            if isinstance(item, FleetSignal):
                return item
            self.gaps += 1
            text = "signals of chain %(chain)d may be missing from %(start)s to %(end)s: %(reason)s"
            event("stream_gap", text, chain=self.chain, start=item.start, end=item.end, reason=item.reason)
            if self._reports:
                return item
            member.done_later(taken.id)

    async def _catch_up(self, behind: Behind) -> None:
        """Read signals that the fleet no longer keeps from the service's history."""
        if behind.is_nothing:
            items = []
        elif self._client is None:
            items = [lost(behind, "the fleet no longer keeps them, and without client= the history was not read")]
        else:
            history = self._client.signals.history(
                chain=self.chain, since=int(behind.start), until=int(behind.end) + 1, max_items=MOST_MISSED + 1
            )
            found = []
            try:
                async for signal in history:
                    found.append(signal)
                items = missed(behind, found)
            except APIError as error:
                away = isinstance(error, APIConnectionError)
                if away or (isinstance(error, APIStatusError) and (error.status == 429 or error.status >= 500)):
                    raise  # the next call reads it again
                items = [lost(behind, f"the history cannot be read: {error.headline}")]
        await in_thread(self._member.recovered, behind, items)

    def _tell_of_relay(self) -> None:
        if self._member.unrelayed and not self._unrelayed:
            text = (
                "no relay stores the signals of chain %(chain)d of %(url)s: run one (FleetRelay, or trade fleet relay)"
            )
            event("fleet_unrelayed", text, chain=self.chain, url=self._service)
        self._unrelayed = self._member.unrelayed

    async def aclose(self) -> None:
        """End it, from any task: a waiting consumer ends at once. Closing again does nothing.

        Signals that the member has not finished go to another one at once.
        """
        if self._interruptible.close():
            await always_in_thread(self._leave)

    def _leave(self) -> None:
        self._member.link.end(self._left)

    def _left(self) -> None:
        try:
            if not self._interruptible.foreign:
                self._member.leave()
        except FleetError:
            pass  # its signals are delivered again when their leases end
        finally:
            self._member.link.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._taken is not None and not self._manual_ack:
            self._member.done_later(self._taken)
        await self.aclose()

    def __repr__(self) -> str:
        whose = "" if self.group is None else f" for the group {self.group}"
        return f"<{type(self).__name__} of chain {self.chain}{whose}>"
