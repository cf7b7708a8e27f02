"""GET /v1/signals, GET /v1/signals/history"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.messages import Response
from ..trading import signal_feed
from .context import Context, Endpoint, Routes
from .pagination import page


def latest(call: Context) -> Response:
    query = call.query()
    chain = query.chain("chain", required=True)
    limit = query.limit()
    min_confidence = query.confidence()
    rows = call.world.store.rows(
        signal_feed.FIELDS,
        "signals WHERE chain_id = ? AND confidence >= ? ORDER BY timestamp DESC, seq DESC LIMIT ?",
        (chain, 0.0 if min_confidence is None else min_confidence, limit),
    )
    if call.world.gaps.order == "oldest":
        rows.reverse()  # still the latest ones: the option changes only their order
    return Response(200, call.with_unknown({"data": [call.with_unknown(row) for row in rows]}))


def history(call: Context) -> Response:
    query = call.query()
    filters = {"chain_id": query.chain("chain", required=True), "token_address": query.token_address()}
    start, end = query.integer("from"), query.integer("to")
    equal = "=" if call.world.gaps.time_bounds == "inclusive" else ""
    where: list[tuple[str, object]] = []
    if start is not None:
        where.append((f"timestamp >{equal} ?", start))
    if end is not None:
        where.append((f"timestamp <{equal} ?", end))
    return page(
        call,
        query,
        table="signals",
        columns=signal_feed.FIELDS,
        time="timestamp",
        filters=filters,
        where=where,
        passing=_arrived(call),
        always_newest_first=True,
    )


def _arrived(call: Context) -> list[tuple[str, Sequence[object]]]:
    """Which signals are in the history by now."""
    gaps = call.world.gaps
    spread, now = gaps.history_lag_spread, call.now - gaps.history_lag
    if not spread:
        return [("published_at <= ?", [now])] if gaps.history_lag else []
    # Only the latest ones need their own number.
    late = "published_at + ? * chance(?, 'history lag', id) <= ?"
    return [(f"(published_at <= ? OR {late})", [now - spread, spread, str(call.world.seed), now])]


ROUTES: Routes = {
    "/v1/signals": {"GET": Endpoint(latest, signals=True)},
    "/v1/signals/history": {"GET": Endpoint(history, signals=True)},
}
