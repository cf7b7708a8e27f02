"""One page of a list, newest first by default. Rows added later don't move its cursor."""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import invalid, missing
from ..core.messages import Response
from ..core.seeding import digest
from .context import Context
from .validation import Query

# The last row's sort time and seq, and the time of the cursor.
_FORM = struct.Struct(">qqq")
_TAG = 12


def page(
    call: Context,
    query: Query,
    *,
    table: str,
    columns: Sequence[str],
    time: str,
    filters: Mapping[str, object],
    where: Sequence[tuple[str, object]] = (),
    passing: Sequence[tuple[str, Sequence[object]]] = (),
    always_newest_first: bool = False,
) -> Response:
    """A page of `table`: rows whose columns equal `filters` (None: not filtered) and satisfy `where` and `passing`.

    Rows are ordered by (`time`, seq); a cursor names a page's last row, so inserts and deletes elsewhere don't move it.
    A cursor is valid for the same filters and `where`; `passing` (clauses with their values) may differ from page to
    page. `columns` contains `time`.
    """
    world = call.world
    limit, cursor = query.limit(), query.text("cursor")
    newest = always_newest_first or world.gaps.order == "newest"
    bound = [(name, value) for name, value in filters.items() if value is not None]
    clauses = [f"{name} = ?" for name, _ in bound] + [clause for clause, _ in (*where, *passing)]
    args = [value for _, value in (*bound, *where)] + [value for _, values in passing for value in values]
    scope = (call.tenant, table, "newest" if newest else "oldest", bound, list(where))
    if cursor is not None:
        at, seq = decode_cursor(world.seed, scope, cursor, int(call.now), world.gaps.cursor_ttl)
        clauses.append(f"({time}, seq) {'<' if newest else '>'} (?, ?)")
        args += [at, seq]
    way = "DESC" if newest else "ASC"
    rows = world.store.rows(
        (*columns, "seq"),
        f"{table} WHERE {' AND '.join(clauses)} ORDER BY {time} {way}, seq {way} LIMIT {limit + 1}",
        args,
    )
    numbers = [row.pop("seq") for row in rows]
    envelope: dict[str, Any] = {"data": [call.with_unknown(row) for row in rows[:limit]]}
    if len(rows) > limit:
        last = limit - 1
        envelope["next_cursor"] = encode_cursor(world.seed, scope, rows[last][time], numbers[last], int(call.now))
    return Response(200, call.with_unknown(envelope))


def agent_filter(call: Context, query: Query) -> str | None:
    """The `agent_id` filter; for another tenant's agent, an empty page or, by gap option, 404."""
    agent_id = query.text("agent_id")
    if agent_id is not None and call.world.gaps.unknown_agent_filter == "404":
        known = call.world.store.value("SELECT 1 FROM agents WHERE id = ? AND tenant = ?", (agent_id, call.tenant))
        if not known:
            raise missing("agent", agent_id)
    return agent_id


# Cursors: opaque, signed, valid for one caller, list and set of filters.


def _tag(seed: int, payload: bytes, scope: Sequence[object]) -> bytes:
    return hmac.digest(digest(seed, "cursor", *scope), payload, "sha256")[:_TAG]


def encode_cursor(seed: int, scope: Sequence[object], time: int, seq: int, now: int) -> str:
    """A cursor that points behind the row (time, seq). It is valid only for `scope`: tenant, list, order, filters."""
    payload = _FORM.pack(time, seq, now)
    return base64.urlsafe_b64encode(payload + _tag(seed, payload, scope)).decode("ascii")


def decode_cursor(seed: int, scope: Sequence[object], text: str, now: int, ttl: int) -> tuple[int, int]:
    """The row that a cursor points behind; 400 if it is damaged, from another list or, with a `ttl`, expired."""
    try:
        raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid("cursor: not a cursor of this service") from None
    payload, tag = raw[: _FORM.size], raw[_FORM.size :]
    # base64 has several forms of the same bytes; only the form of `encode_cursor` is accepted.
    same_spelling = base64.urlsafe_b64encode(raw).decode("ascii") == text
    if len(payload) != _FORM.size or not same_spelling or not hmac.compare_digest(tag, _tag(seed, payload, scope)):
        raise invalid("cursor: not a cursor for this list with these filters")
    time, seq, made = _FORM.unpack(payload)
    if ttl and now >= made + ttl:
        raise invalid("cursor: expired")
    return time, seq
