"""A success whose body cannot be read: what was asked for has happened all the same, and the error says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tradesdk import APIResponseError, AsyncTradeClient

from .._clock import VirtualClock
from .._hostile import Visit, always, answer
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
            with pytest.raises(APIResponseError, match="the response cannot be read") as caught:
                await act(client)
            assert (caught.value.outcome, caught.value.retries) == (outcome, 0)
            assert ("check before sending it again" in str(caught.value)) is (outcome == "unknown")
        assert len(server.visits) == len(CALLS)
    assert clock.waits == []


PORTAL = b"<!doctype html><title>Hotel Wi-Fi</title>"
NOTHING = {
    "204": answer(status=204),
    "204 of an odd coding": answer(status=204, content_encoding="br"),
    "empty": answer(),
    "a line break": answer(b"\r\n", kind="text/plain"),
    "JSON": answer(b'{"id": "a1", "deleted": true}', status=202),
    "JSON with a byte order mark": answer(b"\xef\xbb\xbf{}"),
}
SOMETHING = {
    "a captive portal": answer(PORTAL, kind="text/html"),
    "a captive portal that says it is JSON": answer(PORTAL),
    "a text": answer(b"OK", kind="text/plain"),
    "JSON that is cut short": answer(b'{"id": "a1"', status=203),
    **UNREADABLE,
}


@each_of("sent", NOTHING.values(), ids=NOTHING)
async def test_a_delete_succeeds_with_nothing_or_json(sent: bytes) -> None:
    async with facing(always(sent)) as (server, client):
        await client.agents.delete("a1")
        assert len(server.visits) == 1


@each_of("sent", SOMETHING.values(), ids=SOMETHING)
async def test_anything_else_is_no_success_of_a_delete(sent: bytes) -> None:
    clock = VirtualClock()
    async with facing(lambda visit: None if visit.send(sent) else visit.close(), clock=clock) as (server, client):
        with pytest.raises(APIResponseError) as caught:
            await client.agents.delete("a1")
        assert (caught.value.code, caught.value.outcome) == ("invalid_response", "unknown")
        assert "check before sending it again" in str(caught.value)
        assert (len(server.visits), clock.waits) == (1, [])


async def test_the_page_of_a_portal_does_not_say_that_an_agent_is_gone() -> None:
    sent = [answer(status=502), answer(PORTAL, status=404, kind="text/html")]

    def answering(visit: Visit) -> None:
        visit.send(sent[visit.number])

    async with facing(answering) as (server, client):
        with pytest.raises(APIResponseError, match=r"the response \(text/html\) is not JSON") as caught:
            await client.agents.delete("a1")
        assert (caught.value.outcome, len(server.visits)) == ("unknown", 2)
