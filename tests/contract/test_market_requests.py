"""Every call for market data, in both flavours, against the request that the specification describes."""

import json
from typing import Any, NoReturn

import pytest

from tradesdk import RawResponse
from tradesdk._async.marketcalls import AsyncMarketMethods
from tradesdk._async.quotes import AsyncQuotes
from tradesdk._request import Request
from tradesdk._response import Headers
from tradesdk._retry import Operation
from tradesdk._sync.marketcalls import MarketMethods
from tradesdk._sync.quotes import Quotes

from ._golden import GOLDEN, Call, load
from ._market import MARKET_CALLS


class Blocking(MarketMethods):
    """Keeps what would be sent instead of sending it."""

    def _buy(self, asked: Any, **options: Any) -> Any:
        return asked

    def _dry_run(self, asked: Any, **options: Any) -> NoReturn:
        raise AssertionError("nobody asked for a dry run")


class Waiting(AsyncMarketMethods):
    async def _buy(self, asked: Any, **options: Any) -> Any:
        return asked

    async def _dry_run(self, asked: Any, **options: Any) -> NoReturn:
        raise AssertionError("nobody asked for a dry run")


def kept(asked: Any) -> Any:
    return asked


async def kept_async(asked: Any) -> Any:
    return asked


def check(call: Call, asked: Any) -> None:
    request: Request[Any] = asked.request
    assert (request.method, request.path, request.query) == (call.method, call.path, "")
    assert request.body is not None
    assert json.loads(request.body) == call.body
    assert request.operation is Operation.QUERY
    assert asked.tokens == (len(call.body["tokens"]) if "tokens" in call.body else None)
    assert call.golden is not None
    answer = RawResponse(200, Headers(), (GOLDEN / call.golden).read_bytes())
    data = request.decode("POST", "https://service.example" + call.path, answer)
    assert data.model_dump(mode="json") == load(call.golden)["data"]


@pytest.mark.parametrize("call", MARKET_CALLS, ids=lambda call: call.name)
def test_blocking_calls_ask_what_is_specified(call: Call) -> None:
    check(call, call.run(Blocking()))
    check(call, call.run(Quotes(kept)))


@pytest.mark.rule("market.paths", "market.aggregate.body")
@pytest.mark.parametrize("call", MARKET_CALLS, ids=lambda call: call.name)
async def test_async_calls_ask_what_is_specified(call: Call) -> None:
    check(call, await call.run(Waiting()))
    check(call, await call.run(AsyncQuotes(kept_async)))


@pytest.mark.rule("market.paths")
def test_every_endpoint_of_market_data_is_called() -> None:
    assert {f"{call.method} {call.path}" for call in MARKET_CALLS} == {
        "POST /v1/token-signals",
        "POST /v1/token-prices",
        "POST /v1/signal-history",
        "POST /v1/token-win-rate",
        "POST /v1/token-avg-prices",
        "POST /v1/top-performers",
        "POST /v1/aggregate-metrics",
        "POST /v1/supported-tokens",
    }
