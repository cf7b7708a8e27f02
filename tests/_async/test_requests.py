"""What goes over the wire for each method: the exact target, body and headers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, InvalidArgumentError, LocalSigner, Risk, __version__, wallet_message
from tradesdk.payments.signing.signer import sign_message

from .._answers import (
    ACCOUNT,
    BALANCE,
    KEY,
    USAGE,
    Service,
    agent,
    created,
    ok,
    page,
    signal,
    summary,
    trade,
    wallet,
)
from .._rows import each_of
from ._client import client_of

ADDRESS = "0x" + "Ab" * 20
DETAIL = trade(entry_tx_hash="0x01", exit_tx_hash=None)
Act = Callable[[AsyncTradeClient], Any]

# name, call, method and target, body (None: none at all), answer
CALLS: list[tuple[str, Act, str, Any, Any]] = [
    ("account", lambda c: c.account.get(), "GET /v1/account", None, ACCOUNT),
    ("usage", lambda c: c.account.usage(), "GET /v1/account/usage", None, USAGE),
    ("agents", lambda c: c.agents.list().first(), "GET /v1/agents?limit=1", None, page([summary()])),
    (
        "agents filtered",
        lambda c: c.agents.list(status="paused", cursor="c=1&2").first(),
        "GET /v1/agents?status=paused&limit=1&cursor=c%3D1%262",
        None,
        page([]),
    ),
    ("agent", lambda c: c.agents.get("a1"), "GET /v1/agents/a1", None, agent()),
    ("id quoted", lambda c: c.agents.get("é a?b#c%2e"), "GET /v1/agents/%C3%A9%20a%3Fb%23c%252e", None, agent()),
    (
        "create",
        lambda c: c.agents.create(name="é\n", wallet_id="w1", chain_id=8453),
        "POST /v1/agents",
        {"name": "é\n", "wallet_id": "w1", "chain_id": 8453},
        created(),
    ),
    (
        "create with everything",
        lambda c: c.agents.create(
            name="n",
            wallet_id="w1",
            chain_id=56,
            risk=Risk(position_size_pct=5, stop_loss_pct=2.5, trailing_stop_pct=0, take_profit_pct=10),
            min_confidence=1,
            max_positions=0,
        ),
        "POST /v1/agents",
        {
            "name": "n",
            "wallet_id": "w1",
            "chain_id": 56,
            "risk": {
                "position_size_pct": 5.0,
                "stop_loss_pct": 2.5,
                "trailing_stop_pct": 0.0,
                "take_profit_pct": 10.0,
            },
            "min_confidence": 1.0,
            "max_positions": 0,
        },
        created(),
    ),
    (
        "update",
        lambda c: c.agents.update("a1", name="b", wallet_id="w2", risk=Risk(stop_loss_pct=3), min_confidence=0.0),
        "PATCH /v1/agents/a1",
        {"name": "b", "wallet_id": "w2", "risk": {"stop_loss_pct": 3.0}, "min_confidence": 0.0},
        agent(),
    ),
    ("update of nothing", lambda c: c.agents.update("a1"), "PATCH /v1/agents/a1", {}, agent()),
    ("delete", lambda c: c.agents.delete("a1"), "DELETE /v1/agents/a1", None, None),
    (
        "connect",
        lambda c: c.wallets.connect(address=ADDRESS, chain_id=56, label="l", signature="0x12"),
        "POST /v1/wallets",
        {"address": ADDRESS, "chain_id": 56, "label": "l", "signature": "0x12"},
        wallet(),
    ),
    ("wallets", lambda c: c.wallets.list(chain_id=56).first(), "GET /v1/wallets?chain_id=56&limit=1", None, page([])),
    ("balance", lambda c: c.wallets.balance("w1"), "GET /v1/wallets/w1/balance", None, BALANCE),
    (
        "trades",
        lambda c: c.trades.list(agent_id="a1", status="closed").first(),
        "GET /v1/trades?agent_id=a1&status=closed&limit=1",
        None,
        page([trade()]),
    ),
    ("trade", lambda c: c.trades.get("t1"), "GET /v1/trades/t1", None, DETAIL),
    (
        "positions",
        lambda c: c.positions.list(agent_id="a 1").first(),
        "GET /v1/positions?agent_id=a+1&limit=1",
        None,
        page([]),
    ),
    ("latest", lambda c: c.signals.latest(chain=8453), "GET /v1/signals?chain=8453", None, page([signal()])),
    (
        "latest filtered",
        lambda c: c.signals.latest(chain=56, limit=100, min_confidence=0.8),
        "GET /v1/signals?chain=56&limit=100&min_confidence=0.8",
        None,
        page([]),
    ),
    (
        "history",
        lambda c: c.signals.history(
            chain=8453,
            token_address="0xab",
            start=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            end=1767225600.9,
        ).first(),
        "GET /v1/signals/history?chain=8453&token_address=0xab&from=1767218400&to=1767225600&limit=1",
        None,
        page([signal()]),
    ),
]


@pytest.mark.rule("agents.list.status", "agents.create")
@each_of(("act", "sent", "body", "answer"), [case[1:] for case in CALLS], ids=[c[0] for c in CALLS])
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


BAD_IDS = ["", ".", "..", "a/b", "a\\b", "a\n", "\x00", "x" * 10_240, "\ud800", None, 5]
NAIVE = datetime(2026, 1, 1)
REFUSED: list[tuple[Callable[[AsyncTradeClient, Any], Any], list[Any]]] = [
    (lambda c, bad: c.agents.get(bad), BAD_IDS),
    (lambda c, bad: c.agents.update(bad, name="n"), BAD_IDS),
    (lambda c, bad: c.agents.delete(bad), BAD_IDS),
    (lambda c, bad: c.trades.get(bad), BAD_IDS),
    (lambda c, bad: c.wallets.balance(bad), BAD_IDS),
    (lambda c, bad: c.agents.create(name="n", wallet_id=bad, chain_id=56), BAD_IDS),
    (lambda c, bad: c.agents.create(name=bad, wallet_id="w", chain_id=56), ["", "\ud800", None, 5]),
    (lambda c, bad: c.agents.create(name="n", wallet_id="w", chain_id=bad), [1, 8454, None]),
    (lambda c, bad: c.agents.update("a1", name=bad), ["", 5]),
    (lambda c, bad: c.agents.update("a1", min_confidence=bad), [-0.1, 1.1, float("nan"), True]),
    (lambda c, bad: c.agents.update("a1", max_positions=bad), [1.5, True, "3"]),
    (lambda c, bad: c.agents.update("a1", risk=bad), [{"stop_los_pct": 1}, {"stop_loss_pct": "1%"}, 5]),
    (lambda c, bad: c.agents.update("a1", risk=Risk.model_validate({bad: 1})), ["stop_los_pct"]),
    (lambda c, bad: c.agents.update("a1", risk=Risk.model_construct(stop_loss_pct=bad)), [float("nan")]),
    (lambda c, bad: c.agents.list(status=bad), ["", 5]),
    (lambda c, bad: c.agents.list(cursor=bad), ["", 5]),
    (lambda c, bad: c.trades.list(limit=bad), [0, 101, -1, True, 2.0, "5"]),
    (lambda c, bad: c.trades.list(agent_id=bad), ["", ".."]),
    (lambda c, bad: c.positions.list(max_items=bad), [-1, True, 1.5]),
    (lambda c, bad: c.wallets.list(chain_id=bad), [1, 0]),
    (lambda c, bad: c.wallets.connect(address=bad, chain_id=56, label="l", signature="0x"), ["", None]),
    (lambda c, bad: c.wallets.connect(address="0x", chain_id=56, label=bad, signature="0x"), ["", None]),
    (lambda c, bad: c.wallets.connect(address="0x", chain_id=56, label="l", signature=bad), ["", None]),
    (lambda c, bad: c.wallets.connect_with(bad, label="l"), ["0x" + "2b" * 32, None, 5]),
    (lambda c, bad: c.signals.latest(chain=bad), [1, True, "8453", None]),
    (lambda c, bad: c.signals.latest(chain=56, limit=bad), [0, 101]),
    (lambda c, bad: c.signals.latest(chain=56, min_confidence=bad), [-0.1, 1.1, float("nan"), "1"]),
    (lambda c, bad: c.signals.history(chain=56, start=bad), [NAIVE, date(2026, 1, 1), -1, float("inf"), "now"]),
    (lambda c, bad: c.signals.history(chain=56, start=bad, end=0), [1, datetime(2026, 1, 1, tzinfo=UTC)]),
    (lambda c, bad: c.signals.history(chain=56, end=bad), [NAIVE, True]),
    (lambda c, bad: c.signals.history(chain=56, token_address=bad), ["", "a/b"]),
]


@each_of(("act", "bad"), [(act, bad) for act, values in REFUSED for bad in values])
async def test_bad_argument_is_refused_unsent(act: Callable[[AsyncTradeClient, Any], Any], bad: Any) -> None:
    service = Service()
    with pytest.raises(InvalidArgumentError) as caught:
        await act(client_of(service), bad)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()
    assert service.requests == []


class Chain(int, Enum):
    BASE = 8453


@each_of("chain_id", [Chain.BASE, 8453.0])
async def test_what_equals_a_chain_is_sent_and_signed_as_its_number(chain_id: Any) -> None:
    signer = LocalSigner.from_key("0x" + "2b" * 32)
    service = Service(httpx.ReadTimeout("lost"), ok(page([])), ok(wallet()))
    await client_of(service).wallets.connect_with(signer, label="l", chain_id=chain_id)
    assert service.sent == ["POST /v1/wallets", "GET /v1/wallets?chain_id=8453&limit=100", "POST /v1/wallets"]
    for post in service.requests[::2]:
        assert b'"chain_id":8453,' in post.content
        signed = wallet_message(signer.address, 8453)
        assert json.loads(post.content)["signature"] == sign_message(signer, signed)

    service = Service(httpx.ReadTimeout("lost"), ok(page([summary("a1")])), ok(agent("a1")))
    assert (await client_of(service).agents.create(name="mine", wallet_id="w1", chain_id=chain_id)).id == "a1"
    assert b'"chain_id":8453' in service.requests[0].content
    assert b"8453." not in service.requests[0].content

    service = Service(ok(page([])))
    await client_of(service).signals.latest(chain=chain_id)
    assert service.sent == ["GET /v1/signals?chain=8453"]


@pytest.mark.rule("transport.unix-seconds")
async def test_models_come_back() -> None:
    service = Service(ok(agent(risk={"stop_loss_pct": 4})), ok(page([signal(), signal("s2")])), ok(DETAIL))
    client = client_of(service)
    found = await client.agents.get("a1")
    assert found.risk.stop_loss_pct == 4.0
    assert found.stats is not None
    assert found.stats.total_trades == 3
    assert found.created_at.tzinfo is UTC or found.created_at.utcoffset() == timedelta(0)
    assert [one.id for one in await client.signals.latest(chain=8453)] == ["s1", "s2"]
    detail = await client.trades.get("t1")
    assert (detail.exit_price_usd, detail.closed_at, detail.exit_tx_hash) == (None, None, None)


@pytest.mark.rule("version.additive")
async def test_values_that_come_later_are_kept() -> None:
    service = Service(ok(agent(status="hibernating", mood="good")))
    found = await client_of(service).agents.get("a1")
    assert found.status == "hibernating"
    assert found.model_dump(mode="json")["mood"] == "good"
