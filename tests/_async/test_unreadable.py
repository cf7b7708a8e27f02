"""A success whose body cannot be read: what was asked for has happened all the same, and the error says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tradesdk import APIResponseError, AsyncTradeClient

from .._clock import VirtualClock
from .._hostile import Visit, answer
from .._rows import each_of
from ._client import facing

pytestmark = pytest.mark.twin

UNREADABLE = {
    "another coding": answer(b'{"id": "a1"}', content_encoding="br"),
    "damaged": answer(b'{"id": "a1"}', content_encoding="gzip"),
    "too large": answer(b" " * (4 * 1024 * 1024 + 1)),
}

CALLS: dict[str, tuple[Callable[[AsyncTradeClient], Any], str]] = {
    "create": (lambda c: c.agents.create(name="mine", wallet_id="w1", chain_id=8453), "unknown"),
    "update": (lambda c: c.agents.update("a1", name="n"), "unknown"),
    "raw post": (lambda c: c.request("POST", "/v1/later", json={}), "unknown"),
    "get": (lambda c: c.agents.get("a1"), "none"),
    "list": (lambda c: c.agents.list().first(), "none"),
}


@each_of("sent", UNREADABLE.values(), ids=UNREADABLE)
async def test_only_a_read_has_certainly_changed_nothing(sent: bytes) -> None:
    clock = VirtualClock()
    async with facing(lambda visit: None if visit.send(sent) else visit.close(), clock=clock) as (server, client):
        for act, outcome in CALLS.values():
            with pytest.raises(APIResponseError, match="the answer cannot be read") as caught:
                await act(client)
            assert (caught.value.outcome, caught.value.retries) == (outcome, 0)
            assert ("check before sending it again" in str(caught.value)) is (outcome == "unknown")
        assert len(server.visits) == len(CALLS)
    assert clock.waits == []


@each_of("sent", UNREADABLE.values(), ids=UNREADABLE)
async def test_where_no_body_is_wanted_nothing_is_wrong(sent: bytes) -> None:
    def answering(visit: Visit) -> None:
        visit.send(sent)

    async with facing(answering) as (server, client):
        await client.agents.delete("a1")
        assert len(server.visits) == 1
