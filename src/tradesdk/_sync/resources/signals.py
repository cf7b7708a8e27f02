# Generated from src/tradesdk/_async/resources/signals.py by scripts/unasync.py: change that file instead.
"""Signals."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, overload

from ..._http.arguments import MAX_PAGE, argument_called, confidence, optional_identifier, optional_whole, period
from ..._http.arguments import chain as checked_chain
from ..._http.parts import loading
from ..._http.request import Listing, endpoint, model_request
from ...models.signals import Signal, SignalList
from ..pagination import Pager
from ..session import Resource

if TYPE_CHECKING:
    from ...models.stream import StreamItem, StreamSignal
    from ..signal_stream import SignalStream


class SignalsResource(Resource):
    """`client.signals`: BUY and SELL signals of a chain."""

    @argument_called("chain", not_="chain_id")
    def latest(self, *, chain: int, limit: int | None = None, min_confidence: float | None = None) -> list[Signal]:
        """The newest signals (`GET /v1/signals`).

        Args:
            chain: 8453 (Base) or 56 (BNB Chain).
            limit: at most this many, 1 to 100 (the service's default is 20).
            min_confidence: only signals with this confidence or more, 0.0 to 1.0.
        """
        query = {
            "chain": checked_chain("chain", chain),
            "limit": optional_whole("limit", limit, 1, MAX_PAGE),
            "min_confidence": confidence(min_confidence),
        }
        return (self._session.call(model_request(SignalList, "GET", endpoint("signals"), query=query))).data

    @argument_called("chain", not_="chain_id")
    def history(
        self,
        *,
        chain: int,
        token_address: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> Pager[Signal]:
        """Past signals, newest first, page by page (`GET /v1/signals/history`).

        Args:
            chain: 8453 (Base) or 56 (BNB Chain).
            token_address: only signals of this token.
            since: not before this moment: an aware datetime, or Unix seconds (`from` on the wire).
            until: not after this moment: an aware datetime, or Unix seconds (`to` on the wire).
            limit: items per page, 1 to 100 (default 100).
            cursor: where to start: a page's `next_cursor`.
            max_items: at most this many items in total.
        """
        first, last = period(since, until)
        query = {
            "chain": checked_chain("chain", chain),
            "token_address": optional_identifier("token_address", token_address),
            "from": first,
            "to": last,
        }
        listing = Listing(endpoint("signals", "history"), Signal, query)
        return Pager(self._session, listing, limit=limit, cursor=cursor, max_items=max_items)

    @overload
    def stream(  # pyright: ignore[reportOverlappingOverload] # by default, only signals are yielded
        self,
        *,
        chain: int,
        since: datetime | float | None = None,
        min_confidence: float | None = None,
        direction: Literal["BUY", "SELL"] | None = None,
        token: str | None = None,
        checkpoint: str | os.PathLike[str] | bool = False,
        manual_ack: bool = False,
        heartbeats: Literal[False] = False,
        unknown_events: Literal[False] = False,
        reports: Literal[False] = False,
        idle_timeout: float = 90.0,
        settle: float = 3.0,
        recovery_timeout: float = 600.0,
        max_reconnects: int | None = None,
    ) -> SignalStream[StreamSignal]: ...

    @overload
    def stream(
        self,
        *,
        chain: int,
        since: datetime | float | None = None,
        min_confidence: float | None = None,
        direction: Literal["BUY", "SELL"] | None = None,
        token: str | None = None,
        checkpoint: str | os.PathLike[str] | bool = False,
        manual_ack: bool = False,
        heartbeats: bool = False,
        unknown_events: bool = False,
        reports: bool = False,
        idle_timeout: float = 90.0,
        settle: float = 3.0,
        recovery_timeout: float = 600.0,
        max_reconnects: int | None = None,
    ) -> SignalStream[StreamItem]: ...

    @argument_called("chain", not_="chain_id")
    @loading()
    def stream(
        self,
        *,
        chain: int,
        since: datetime | float | None = None,
        min_confidence: float | None = None,
        direction: Literal["BUY", "SELL"] | None = None,
        token: str | None = None,
        checkpoint: str | os.PathLike[str] | bool = False,
        manual_ack: bool = False,
        heartbeats: bool = False,
        unknown_events: bool = False,
        reports: bool = False,
        idle_timeout: float = 90.0,
        settle: float = 3.0,
        recovery_timeout: float = 600.0,
        max_reconnects: int | None = None,
    ) -> SignalStream[Any]:
        """Signals as they are generated (`GET /v1/signals/stream`), without gaps and duplicates.

        The stream reconnects by itself, without limit, and reads missed signals from the history. What cannot be
        recovered is logged, counted in `stats.gaps`, and yielded as a `Gap` with `reports=True`.

        Args:
            chain: 8453 (Base) or 56 (BNB Chain).
            since: start with signals from this moment on: an aware datetime, or Unix seconds. By default now.
            min_confidence: only signals with this confidence or more, 0.0 to 1.0; filtered by the client.
            direction: only `BUY` or only `SELL`; filtered by the client.
            token: only signals of this token, by address or symbol, in any case; filtered by the client.
            checkpoint: a file that stores the position, so that a restart continues there. True: a file for this
                service, key and chain in TRADE_HOME or in the user's data folder. It wins over `since`.
            manual_ack: signals count as done when `ack` is called, not when the next one is taken.
            heartbeats: also yield `Heartbeat`.
            unknown_events: also yield `UnknownEvent`: events of types that this version does not know.
            reports: also yield `Gap`, `PositionReset`, `InvalidEvent`, `Connected` and `Disconnected`, in order.
            idle_timeout: seconds without an event after which the connection is given up. Once the interval of the
                heartbeats is known, three times that interval.
            settle: seconds that the history may be late. After a disconnect nothing newer is yielded before that.
            recovery_timeout: seconds to keep trying when the history fails after a disconnect; then a `Gap` follows.
                Live signals wait meanwhile, to keep the order.
            max_reconnects: give up after this many failures in a row; None for no limit.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
        """
        from ..._stream.options import StreamOptions  # only where there is a stream
        from ..signal_stream import SignalStream

        options = StreamOptions(
            chain=chain,
            since=since,
            min_confidence=min_confidence,
            direction=direction,
            token=token,
            checkpoint=checkpoint,
            manual_ack=manual_ack,
            heartbeats=heartbeats,
            unknown_events=unknown_events,
            reports=reports,
            idle_timeout=idle_timeout,
            settle=settle,
            recovery_timeout=recovery_timeout,
            max_reconnects=max_reconnects,
        )
        return SignalStream(self._session, options)
