"""Every method of the SDK, in both flavours, against the request that the specification describes."""

import json
import re
import tomllib
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, TradeClient

from .._rows import each_of
from ._golden import CALLS, GOLDEN, Call, load

RULES: dict[str, str] = tomllib.loads((GOLDEN.parent / "rules.toml").read_text())

BASE = "https://service.example"
KEY = "contract-key-0001"


class Service:
    """Answers any request with one prepared answer and keeps what was sent."""

    def __init__(self, call: Call) -> None:
        self.seen: list[httpx.Request] = []
        self._call = call

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if self._call.golden is None:
            return httpx.Response(204)
        return httpx.Response(201 if request.method == "POST" else 200, json=load(self._call.golden))


def first_page(value: Any) -> Any:
    return next(iter(value.pages())) if hasattr(value, "pages") else value


async def first_page_async(value: Any) -> Any:
    if hasattr(value, "pages"):
        return await anext(aiter(value.pages()))
    return await value


def run_sync(call: Call) -> tuple[httpx.Request, Any]:
    service = Service(call)
    with httpx.Client(transport=httpx.MockTransport(service)) as http:
        client = TradeClient(api_key=KEY, base_url=BASE, http_client=http)
        value = first_page(call.run(client))
    (request,) = service.seen
    return request, value


async def run_async(call: Call) -> tuple[httpx.Request, Any]:
    service = Service(call)
    async with httpx.AsyncClient(transport=httpx.MockTransport(service)) as http:
        client = AsyncTradeClient(api_key=KEY, base_url=BASE, http_client=http)
        value = await first_page_async(call.run(client))
    (request,) = service.seen
    return request, value


def check(call: Call, request: httpx.Request) -> None:
    assert request.method == call.method
    assert request.url.host == "service.example"
    assert request.url.path == call.path
    assert dict(request.url.params.multi_items()) == call.query
    assert len(request.url.params.multi_items()) == len(call.query), "a parameter was sent twice"
    assert request.headers.get_list("authorization") == [f"Bearer {KEY}"]
    if call.body is None:
        assert request.content == b""
    else:
        assert request.headers["content-type"] == "application/json"
        assert json.loads(request.content) == call.body


def dumped(value: Any) -> Any:
    """What the caller got, as wire JSON."""
    if value is None:
        return None
    if isinstance(value, list):
        return {"data": [item.model_dump(mode="json") for item in value]}
    if hasattr(value, "data"):
        rest = {} if value.next_cursor is None else {"next_cursor": value.next_cursor}
        return {"data": [item.model_dump(mode="json") for item in value.data]} | rest
    return value.model_dump(mode="json", exclude_unset=True)


@pytest.mark.rule(
    "transport.request-json version.prefix agent.fields.created agent.fields.updated risk.optional",
    "agent.delete.idle agents.list agents.list.status agents.list.limit agents.list.cursor agents.create",
    "agents.create.required agents.create.optional agents.get agents.update agents.update.partial",
    "agents.update.risk agents.delete wallets.connect wallets.connect.required wallets.list wallets.list.chain_id",
    "wallets.list.limit wallets.list.cursor wallets.balance trades.list trades.list.agent_id trades.list.status",
    "trades.list.limit trades.list.cursor trades.get positions.list positions.list.agent_id positions.list.limit",
    "positions.list.cursor signals.latest signals.latest.chain signals.latest.limit signals.latest.min_confidence",
    "signals.history signals.history.chain signals.history.token_address signals.history.from signals.history.to",
    "signals.history.limit signals.history.cursor account.get usage.get page.fields page.cursor.opaque auth.bearer",
)
@each_of("call", CALLS, ids=lambda call: call.name)
def test_blocking_client_sends_what_is_specified(call: Call) -> None:
    request, value = run_sync(call)
    check(call, request)
    assert dumped(value) == (load(call.golden) if call.golden else None)


@each_of("call", CALLS, ids=lambda call: call.name)
async def test_async_client_sends_what_is_specified(call: Call) -> None:
    request, value = await run_async(call)
    check(call, request)
    assert dumped(value) == (load(call.golden) if call.golden else None)


@pytest.mark.rule("version.prefix")
def test_every_account_endpoint_is_called() -> None:
    """Those that a rule names, besides the live stream; ids are placeholders here."""
    ids = ("agt_51c0aa17", "wal_0b64f2d8", "trd_b1770c3e", "trd_64de88f0")
    called = set()
    for call in CALLS:
        path = call.path
        for one in ids:
            path = path.replace(one, "{id}")
        called.add(f"{call.method} {path}")
    named = {
        found[0] for text in RULES.values() if (found := re.match(r"(GET|POST|PATCH|DELETE) /v1/[a-z{_}/]+", text))
    }
    endpoints = {re.sub(r"{\w+}", "{id}", name) for name in named}
    assert called == endpoints - {"GET /v1/signals/stream"}
