"""GET /v1/signals, GET /v1/signals/history"""

from __future__ import annotations

from .. import signals
from ..pages import page
from ..web import Answer, Call, Endpoint, Routes


def latest(call: Call) -> Answer:
    signals.catch_up(call.world)
    query = call.query()
    chain = query.chain("chain", required=True)
    limit = query.limit()
    floor = query.confidence()
    rows = call.world.store.records(
        signals.FIELDS,
        "signals WHERE chain_id = ? AND confidence >= ? ORDER BY timestamp DESC, seq DESC LIMIT ?",
        (chain, 0.0 if floor is None else floor, limit),
    )
    if call.world.gaps.order == "oldest":
        rows.reverse()  # the latest ones all the same: the option only turns around how they are listed
    return Answer(200, call.shown({"data": [call.shown(row) for row in rows]}))


def history(call: Call) -> Answer:
    signals.catch_up(call.world)
    query = call.query()
    filters = {"chain_id": query.chain("chain", required=True), "token_address": query.token_address()}
    start, end = query.integer("from"), query.integer("to")
    equal = "=" if call.world.gaps.time_bounds == "inclusive" else ""
    lag = call.world.gaps.history_lag
    where: list[tuple[str, object]] = []
    if start is not None:
        where.append((f"timestamp >{equal} ?", start))
    if end is not None:
        where.append((f"timestamp <{equal} ?", end))
    return page(
        call,
        query,
        table="signals",
        columns=signals.FIELDS,
        time="timestamp",
        filters=filters,
        where=where,
        passing=[("published_at <= ?", call.world.now() - lag)] if lag else [],
        always_newest_first=True,
    )


ROUTES: Routes = [
    ("/v1/signals", {"GET": Endpoint(latest)}),
    ("/v1/signals/history", {"GET": Endpoint(history)}),
]
