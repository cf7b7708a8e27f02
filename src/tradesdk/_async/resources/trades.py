"""Trades."""

from __future__ import annotations

from typing import Literal

from ..._http.arguments import identifier, optional_identifier, optional_text
from ..._http.request import Listing, endpoint, model_request
from ...models.trades import Trade, TradeDetail
from ..pagination import AsyncPager
from ..session import AsyncResource


class AsyncTradesResource(AsyncResource):
    """`client.trades`: what agents bought and sold."""

    def list(
        self,
        *,
        agent_id: str | None = None,
        status: Literal["open", "closed"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> AsyncPager[Trade]:
        """All trades, page by page, without transaction hashes (`GET /v1/trades`).

        Args:
            agent_id: only trades of this agent.
            status: only trades with this status: `open` or `closed`.
            limit: items per page, 1 to 100 (default 100).
            cursor: where to start: a page's `next_cursor`.
            max_items: at most this many items in total.
        """
        query = {"agent_id": optional_identifier("agent_id", agent_id), "status": optional_text("status", status)}
        listing = Listing(endpoint("trades"), Trade, query)
        return AsyncPager(self._session, listing, limit=limit, cursor=cursor, max_items=max_items)

    async def get(self, trade_id: str) -> TradeDetail:
        """One trade with its transaction hashes (`GET /v1/trades/{trade_id}`).

        Raises:
            NotFoundError: the id is unknown, or the trade is not yours.
        """
        path = endpoint("trades", identifier("trade_id", trade_id))
        return await self._session.call(model_request(TradeDetail, "GET", path))
