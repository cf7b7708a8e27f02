# Generated from src/tradesdk/_async/resources/positions.py by scripts/unasync.py: change that file instead.
"""Open positions."""

from __future__ import annotations

from ..._http.arguments import optional_identifier
from ..._http.request import Listing, endpoint
from ...models.positions import Position
from ..pagination import Pager
from ..session import Resource


class PositionsResource(Resource):
    """`client.positions`: what agents hold now."""

    def list(
        self,
        *,
        agent_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> Pager[Position]:
        """All open positions, page by page (`GET /v1/positions`).

        Args:
            agent_id: only positions of this agent.
            limit: items per page, 1 to 100 (default 100).
            cursor: where to start: a page's `next_cursor`.
            max_items: at most this many items in total.
        """
        listing = Listing(endpoint("positions"), Position, {"agent_id": optional_identifier("agent_id", agent_id)})
        return Pager(self._session, listing, limit=limit, cursor=cursor, max_items=max_items)
