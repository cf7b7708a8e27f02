"""What goes over the wire: the exact target, body and headers; tests/contract/test_requests.py has every method."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, LocalSigner, __version__, wallet_message
from tradesdk._sync.signing import ask_signer
from tradesdk.payments.signing.signer import sign_message

from .._answers import (
    KEY,
    Service,
    agent,
    created,
    ok,
    page,
    summary,
    wallet,
)
from .._rows import each_of
from ._client import client_of

pytestmark = pytest.mark.twin

Act = Callable[[AsyncTradeClient], Any]

# Call, method and target, body (None: none at all), answer; tests/contract has one of each method.
CALLS: list[tuple[Act, str, Any, Any]] = [
    (
        lambda c: c.agents.list(status="paused", cursor="c=1&2").first(),
        "GET /v1/agents?status=paused&limit=1&cursor=c%3D1%262",
        None,
        page([]),
    ),
    (lambda c: c.agents.get("é a?b#c%2e"), "GET /v1/agents/%C3%A9%20a%3Fb%23c%252e", None, agent()),
    (
        lambda c: c.agents.create(name="é\n", wallet_id="w1", chain_id=8453, min_confidence=1, max_positions=0),
        "POST /v1/agents",
        {"name": "é\n", "wallet_id": "w1", "chain_id": 8453, "min_confidence": 1.0, "max_positions": 0},
        created(),
    ),
    (lambda c: c.agents.delete("a1"), "DELETE /v1/agents/a1", None, None),
    (lambda c: c.positions.list(agent_id="a 1").first(), "GET /v1/positions?agent_id=a+1&limit=1", None, page([])),
]


@pytest.mark.rule("agents.list.status", "agents.create")
@each_of(("act", "sent", "body", "answer"), CALLS)
async def test_request_is_exactly(act: Act, sent: str, body: Any, answer: Any) -> None:
    service = Service(httpx.Response(204) if answer is None else ok(answer))
    await act(client_of(service))
    assert service.sent == [sent]
    (request,) = service.requests
    assert request.headers.get_list("authorization") == [f"Bearer {KEY}"]
    assert request.headers.get_list("accept") == ["application/json"]
    assert request.headers.get_list("accept-encoding") == ["gzip"]
    assert re.fullmatch(rf"tradesdk/{re.escape(__version__)} python/\d+\.\d+\.\d+", request.headers["user-agent"])
    if body is None:
        assert request.content == b""
        assert "content-type" not in request.headers
    else:
        assert json.loads(request.content) == body
        assert request.headers.get_list("content-type") == ["application/json"]
        assert request.headers.get_list("content-length") == [str(len(request.content))]


class Chain(int, Enum):
    BASE = 8453


async def test_an_enumeration_of_chains_is_sent_and_signed_as_their_number() -> None:
    chain_id: Any = Chain.BASE
    signer = LocalSigner.from_key("0x" + "2b" * 32)
    service = Service(httpx.ReadTimeout("lost"), ok(page([])), ok(wallet()))
    await client_of(service).wallets.connect_with(signer, label="l", chain_id=chain_id)
    assert service.sent == ["POST /v1/wallets", "GET /v1/wallets?chain_id=8453&limit=100", "POST /v1/wallets"]
    for post in service.requests[::2]:
        assert b'"chain_id":8453,' in post.content
        signed = wallet_message(signer.address, 8453)
        assert json.loads(post.content)["signature"] == ask_signer(sign_message(signer, signed))

    service = Service(httpx.ReadTimeout("lost"), ok(page([summary("a1")])), ok(agent("a1")))
    assert (await client_of(service).agents.create(name="mine", wallet_id="w1", chain_id=chain_id)).id == "a1"
    assert b'"chain_id":8453' in service.requests[0].content
    assert b"8453." not in service.requests[0].content

    service = Service(ok(page([])))
    await client_of(service).signals.latest(chain=chain_id)
    assert service.sent == ["GET /v1/signals?chain=8453"]
