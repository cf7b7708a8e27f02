"""Signals."""

from __future__ import annotations

from datetime import datetime

from ..._request import (
    Listing,
    confidence,
    endpoint,
    model_request,
    optional_identifier,
    page_size,
    period,
)
from ..._request import chain as checked_chain
from ...models.signals import Signal, SignalList
from ..calls import AsyncCalls
from ..pager import AsyncPager


class AsyncSignalsResource:
    """`client.signals`: BUY and SELL signals of a chain."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def latest(
        self, *, chain: int, limit: int | None = None, min_confidence: float | None = None
    ) -> list[Signal]:
        """The newest signals (`GET /v1/signals`).

        Args:
            chain: 8453 (Base) or 56 (BNB Chain).
            limit: how many at most, 1 to 100 (the service's default is 20).
            min_confidence: only signals with this confidence or more, 0.0 to 1.0.
        """
        query = {
            "chain": checked_chain("chain", chain),
            "limit": page_size(limit),
            "min_confidence": confidence(min_confidence),
        }
        return (await self._calls.call(model_request(SignalList, "GET", endpoint("signals"), query=query))).data

    def history(
        self,
        *,
        chain: int,
        token_address: str | None = None,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> AsyncPager[Signal]:
        """Signals of the past, newest first, page by page (`GET /v1/signals/history`).

        Args:
            chain: 8453 (Base) or 56 (BNB Chain).
            token_address: only those of this token.
            start: not before this moment: an aware datetime, or Unix seconds (`from` on the wire).
            end: not after this moment: an aware datetime, or Unix seconds (`to` on the wire).
            limit: items per page, 1 to 100 (default 100).
            cursor: where to begin: a page's `next_cursor`.
            max_items: items in all.
        """
        first, last = period(start, end)
        query = {
            "chain": checked_chain("chain", chain),
            "token_address": optional_identifier("token_address", token_address),
            "from": first,
            "to": last,
        }
        listing = Listing(endpoint("signals", "history"), Signal, query)
        return AsyncPager(self._calls, listing, limit=limit, cursor=cursor, max_items=max_items)
