"""One page of a list: newest first by default, continued by a cursor that rows added meanwhile don't disturb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import missing
from ..core.messages import Answer
from . import cursors
from .validation import Query
from .web import Call


def page(
    call: Call,
    query: Query,
    *,
    table: str,
    columns: Sequence[str],
    time: str,
    filters: Mapping[str, object],
    where: Sequence[tuple[str, object]] = (),
    passing: Sequence[tuple[str, Sequence[object]]] = (),
    always_newest_first: bool = False,
) -> Answer:
    """A page of `table`: rows whose columns equal `filters` (None: not filtered) and satisfy `where` and `passing`.

    Rows are in the order of (`time`, seq), and a cursor is the place of a page's last row in it: what is inserted or
    deleted elsewhere moves nothing. A cursor is good for the same filters and `where`; `passing`, clauses with their
    values, may differ from page to page. `columns` has `time` among them.
    """
    world = call.world
    limit = query.limit()
    newest = always_newest_first or world.gaps.order == "newest"
    bound = [(name, value) for name, value in filters.items() if value is not None]
    clauses = [f"{name} = ?" for name, _ in bound] + [clause for clause, _ in (*where, *passing)]
    args = [value for _, value in (*bound, *where)] + [value for _, values in passing for value in values]
    scope = (call.tenant, table, "newest" if newest else "oldest", bound, list(where))
    cursor = query.text("cursor")
    if cursor is not None:
        at, seq = cursors.decode(world.seed, scope, cursor, world.second(), world.gaps.cursor_ttl)
        clauses.append(f"({time}, seq) {'<' if newest else '>'} (?, ?)")
        args += [at, seq]
    way = "DESC" if newest else "ASC"
    rows = world.store.records(
        (*columns, "seq"),
        f"{table} WHERE {' AND '.join(clauses)} ORDER BY {time} {way}, seq {way} LIMIT {limit + 1}",
        args,
    )
    places = [row.pop("seq") for row in rows]
    envelope: dict[str, Any] = {"data": [call.shown(row) for row in rows[:limit]]}
    if len(rows) > limit:
        last = limit - 1
        envelope["next_cursor"] = cursors.encode(world.seed, scope, rows[last][time], places[last], world.second())
    return Answer(200, call.shown(envelope))


def agent_filter(call: Call, query: Query) -> str | None:
    """The `agent_id` filter; one of an agent that isn't the caller's gives an empty page or, by gap option, 404."""
    agent_id = query.text("agent_id")
    if agent_id is not None and call.world.gaps.unknown_agent_filter == "404":
        known = call.world.store.value("SELECT 1 FROM agents WHERE id = ? AND tenant = ?", (agent_id, call.tenant))
        if not known:
            raise missing("agent", agent_id)
    return agent_id
