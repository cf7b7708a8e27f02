"""The calls for market data, their quotes and their batches, in front of a purse that is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from tradesdk import (
    APIConnectionError,
    AsyncBatchRun,
    Batch,
    DryRun,
    InvalidArgumentError,
    MarketResult,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentState,
    Quote,
    RawResponse,
    TokenPrice,
    TokenQuery,
    TradeError,
)
from tradesdk._async.batches import AsyncBatches
from tradesdk._async.market_methods import AsyncDryRuns, AsyncMarketMethods, AsyncQuotes
from tradesdk._market import MarketRequest, price
from tradesdk._values.http import Headers
from tradesdk.models.market import TokenResults

from .._payments import payment, quote, result
from .._rows import each_of
from ._client import collected


def priced(asked: MarketRequest[Any]) -> Any:
    """Prices of the tokens that are asked for."""
    found = [
        {"tokenAddress": "0x1", "symbol": token["identifier"], "currentPriceEth": 1, "currentPriceUsd": 2}
        for token in json.loads(asked.request.body or b"{}")["tokens"]
    ]
    body = json.dumps({"success": True, "data": {"results": found}, "error": None}).encode()
    return asked.request.decode("POST", "https://service.example", RawResponse(200, Headers(), body))


@dataclass
class AsyncShop(AsyncMarketMethods):
    """Sells prices at the published price; `errors` come first. Keeps how it was called."""

    errors: list[TradeError | None] = field(default_factory=list)
    bought: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    tried: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    kept: dict[tuple[str, bytes], Any] = field(default_factory=dict)

    buys_again = False

    async def _buy(self, asked: MarketRequest[Any], **options: Any) -> Any:
        self.bought.append((asked.request.path, options))
        self.bodies.append(json.loads(asked.request.body or b""))
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        amount = price(asked.request.path, asked.tokens or 0)
        data = priced(asked) if asked.request.path == "/v1/token-prices" else None
        sold = result(data, payment(len(self.bought), amount) if amount else None, asked.request.path)
        if job := options.get("job"):
            self.kept[job, asked.request.body or b""] = sold
        return sold

    async def _try(self, asked: MarketRequest[Any], /, **options: Any) -> DryRun:
        self.tried.append((asked.request.path, options))
        return DryRun(quote=quote(asked.request.path, 1))

    async def buy(self, asked: MarketRequest[Any], finish: Callable[[Any], Any], **options: Any) -> Any:
        return finish(await self._buy(asked, **options))

    async def recall(self, asked: MarketRequest[Any], job: str) -> Any:
        found = self.kept.get((job, asked.request.body or b""))
        return None if found is None else replace(found, again=True)

    async def priced(self, asked: MarketRequest[Any]) -> Quote:
        self.tried.append((asked.request.path, {}))
        return quote(asked.request.path, price(asked.request.path, asked.tokens or 0), asked.tokens)

    @property
    def quote(self) -> AsyncQuotes:
        return AsyncQuotes(self.priced)

    @property
    def dry_run(self) -> AsyncDryRuns:
        return AsyncDryRuns(self._try)

    @property
    def batches(self) -> AsyncBatches:
        flow: Any = self
        return AsyncBatches(flow)


Act = Callable[..., Any]
PAID: list[tuple[str, Act, int]] = [
    ("/v1/token-signals", lambda c, **more: c.token_signals(["A", TokenQuery("B", 5)], limit=3, **more), 100_000),
    ("/v1/signal-history", lambda c, **more: c.signal_history(["A"], start=0, end=1, **more), 50_000),
    ("/v1/token-prices", lambda c, **more: c.token_prices(["A", "B", "C"], **more), 90_000),
    ("/v1/token-win-rate", lambda c, **more: c.token_win_rate(["A", "B"], **more), 60_000),
    ("/v1/token-avg-prices", lambda c, **more: c.token_avg_prices(["A"], **more), 20_000),
    ("/v1/top-performers", lambda c, **more: c.top_performers("ROI", limit=10, **more), 60_000),
    ("/v1/aggregate-metrics", lambda c, **more: c.aggregate_metrics(**more), 60_000),
]


@each_of(("path", "act", "amount"), PAID, ids=[case[0] for case in PAID])
async def test_a_paid_call_hands_on_what_may_be_paid(path: str, act: Act, amount: int) -> None:
    shop = AsyncShop()
    plain = await act(shop)
    assert isinstance(plain, MarketResult)
    assert plain.payment is not None
    assert plain.payment.amount == amount
    more = {"max_price": "0.50", "purchase": "today", "new_purchase": "pay_1"}
    await act(shop, **more)
    assert shop.bought == [(path, dict.fromkeys(more)), (path, more)]
    assert shop.tried == []


@each_of(("path", "act", "amount"), PAID, ids=[case[0] for case in PAID])
async def test_a_dry_run_and_a_quote_buy_nothing(path: str, act: Act, amount: int) -> None:
    shop = AsyncShop()
    assert isinstance(await act(shop.dry_run), DryRun)
    assert isinstance(await act(shop.dry_run, max_price="1"), DryRun)
    assert shop.tried == [(path, {"max_price": most, "purchase": None}) for most in (None, "1")]
    quoted = await act(shop.quote)
    assert (quoted.path, quoted.amount) == (path, amount)
    assert shop.bought == []


async def test_the_free_call_takes_nothing_about_money() -> None:
    shop = AsyncShop()
    assert (await shop.supported_tokens(limit=5)).payment is None
    assert shop.bought == [("/v1/supported-tokens", {})]
    assert (await shop.quote.supported_tokens(limit=5)).price == 0
    assert isinstance(await shop.dry_run.supported_tokens(limit=5), DryRun)
    for more in ("max_price", "purchase", "new_purchase"):
        call: Any = shop.supported_tokens
        with pytest.raises(TypeError, match=more):
            await call(**{more: 1})


REFUSED: list[Act] = [
    lambda c: c.token_signals("ETH"),
    lambda c: c.token_signals(["ETH"], limit=101),
    lambda c: c.signal_history(["ETH"], start=2, end=1),
    lambda c: c.signal_history(["ETH"], signal_type="HOLD"),
    lambda c: c.token_prices([]),
    lambda c: c.token_win_rate(["ETH", "eth"]),
    lambda c: c.token_avg_prices(list("abcdef")),
    lambda c: c.top_performers("best"),
    lambda c: c.top_performers("ROI", limit=301),
    lambda c: c.supported_tokens(limit=501),
]


@each_of("act", REFUSED)
async def test_what_is_certainly_wrong_is_neither_bought_nor_quoted(act: Act) -> None:
    shop = AsyncShop()
    with pytest.raises(InvalidArgumentError):
        await act(shop)
    with pytest.raises(InvalidArgumentError):
        await act(shop.quote)
    assert (shop.bought, shop.tried) == ([], [])


# batches

TWELVE = [f"T{number}" for number in range(12)]


def told(batch: Batch[TokenResults[TokenPrice]]) -> tuple[int, list[str], int, bool]:
    assert list(batch.tokens) == [price.symbol for price in batch.data.results]
    return batch.number, list(batch.tokens), batch.spent, batch.again


@pytest.mark.rule("market.batch")
async def test_a_batch_is_bought_when_it_is_asked_for() -> None:
    shop = AsyncShop()
    run = shop.batches.token_prices(TWELVE)
    assert (run.count, run.price, run.amount, run.spent) == (3, Decimal("0.36"), 360_000, 0)
    assert run.tokens == tuple(TWELVE)
    seen = []
    async for batch in run:
        seen.append(told(batch))
        assert len(shop.bought) == batch.number
        assert batch.count == 3
        assert run.spent == batch.spent
    assert seen == [
        (1, TWELVE[:5], 150_000, False),
        (2, TWELVE[5:10], 300_000, False),
        (3, TWELVE[10:], 360_000, False),
    ]
    unnamed = {"max_price": None, "new_purchase": None, "job": None}
    assert shop.bought == [("/v1/token-prices", unnamed)] * 3
    assert await collected(run) == []
    assert len(shop.bought) == 3


async def test_leaving_early_buys_no_more() -> None:
    shop = AsyncShop()
    run = shop.batches.token_prices(TWELVE, size=1)
    async for batch in run:
        if batch.number == 2:
            break
    assert len(shop.bought) == 2
    assert (await anext(run)).number == 3


# how it begins, the path, the price of a token, what is in the body of a batch: in each token, and beside them
RUNS: list[tuple[Callable[[AsyncBatches, Sequence[str]], AsyncBatchRun[Any]], str, int, Any, Any]] = [
    (lambda b, tokens: b.token_signals(tokens, limit=7, size=2), "/v1/token-signals", 50_000, {"limit": 7}, {}),
    (
        lambda b, tokens: b.signal_history(tokens, start=0, end=1, signal_type="BUY", size=2),
        "/v1/signal-history",
        50_000,
        {},
        {"startDate": "1970-01-01T00:00:00Z", "endDate": "1970-01-01T00:00:01Z", "signalType": "BUY"},
    ),
    (lambda b, tokens: b.token_prices(tokens, size=2), "/v1/token-prices", 30_000, {}, {}),
    (lambda b, tokens: b.token_win_rate(tokens, size=2), "/v1/token-win-rate", 30_000, {}, {}),
    (lambda b, tokens: b.token_avg_prices(tokens, size=2), "/v1/token-avg-prices", 20_000, {}, {}),
]


@pytest.mark.rule("market.price.batch")
@each_of(("start", "path", "each", "inside", "beside"), RUNS, ids=[case[1] for case in RUNS])
async def test_every_batch_costs_what_its_tokens_cost(
    start: Any, path: str, each: int, inside: dict[str, Any], beside: dict[str, Any]
) -> None:
    shop = AsyncShop()
    run = start(shop.batches, iter(["A", "b", "a ", "B", "C"]))
    assert (run.tokens, run.count, run.amount) == (("A", "b", "C"), 2, 3 * each)
    assert [batch.spent for batch in await collected(run)] == [2 * each, 3 * each]
    assert [sent[0] for sent in shop.bought] == [path, path]
    assert shop.bodies == [
        {"tokens": [{"identifier": one, **inside} for one in tokens], **beside} for tokens in (["A", "b"], ["C"])
    ]
    nothing = start(shop.batches, [])
    assert (nothing.count, nothing.price, await collected(nothing)) == (0, 0, [])


@each_of(
    "start",
    [
        lambda b: b.token_prices("ETH"),
        lambda b: b.token_prices([*TWELVE, ""]),
        lambda b: b.token_prices([*TWELVE, TokenQuery("ETH", 5)]),
        lambda b: b.token_prices(TWELVE, size=6),
        lambda b: b.token_prices(TWELVE, job=""),
        lambda b: b.token_prices(TWELVE, max_price=0.5),
        lambda b: b.token_prices(TWELVE, max_total="a lot"),
        lambda b: b.token_signals([*TWELVE, TokenQuery("ETH", 101)]),
        lambda b: b.token_signals([TokenQuery("ETH", 5), TokenQuery("eth", 6)]),
        lambda b: b.token_signals([], limit=0),
        lambda b: b.signal_history(TWELVE, start=2, end=1),
        lambda b: b.signal_history([], signal_type="HOLD"),
        lambda b: b.token_win_rate(5),
        lambda b: b.token_avg_prices([*TWELVE, "\x00"]),
    ],
)
def test_the_whole_run_is_checked_before_anything_is_bought(start: Callable[[AsyncBatches], Any]) -> None:
    shop = AsyncShop()
    with pytest.raises(InvalidArgumentError):
        start(shop.batches)
    assert shop.bought == []


async def test_after_an_error_the_run_goes_on_where_it_was() -> None:
    doubtful = payment(7, 150_000, state=PaymentState.UNKNOWN)
    lost = PaymentOutcomeUnknownError("lost", code="timeout", payment=doubtful)
    shop = AsyncShop(errors=[None, lost, APIConnectionError("down", method="POST", url="u", sent=False)])
    run = shop.batches.token_prices(TWELVE)
    assert (await anext(run)).number == 1
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await anext(run)
    assert caught.value is lost
    assert run.spent == 300_000
    with pytest.raises(APIConnectionError):
        await anext(run)
    assert run.spent == 300_000
    assert [batch.number for batch in await collected(run)] == [2, 3]


async def test_a_job_goes_on_in_another_run_without_paying_again() -> None:
    shop = AsyncShop(errors=[None, None, PaymentRefusedError("no", code="over_budget")])
    run = shop.batches.token_prices(TWELVE, job="j")
    assert [(await anext(run)).number for _ in range(2)] == [1, 2]
    with pytest.raises(PaymentRefusedError, match="over_budget"):
        await anext(run)
    paid = len(shop.bought)

    again = await collected(shop.batches.token_prices(TWELVE, job="j"))
    assert [told(batch) for batch in again] == [
        (1, TWELVE[:5], 0, True),
        (2, TWELVE[5:10], 0, True),
        (3, TWELVE[10:], 60_000, False),
    ]
    named = {"max_price": None, "new_purchase": None, "job": "j"}
    assert shop.bought[paid:] == [("/v1/token-prices", named)]

    for job in ("k", None):
        before = len(shop.bought)
        anew = await collected(shop.batches.token_prices(TWELVE, job=job))
        assert [batch.again for batch in anew] == [False] * 3
        assert len(shop.bought) == before + 3


async def test_a_run_stops_before_it_passes_its_total() -> None:
    shop = AsyncShop()
    run = shop.batches.token_prices(TWELVE, max_total="0.32", job="j")
    assert [(await anext(run)).spent for _ in range(2)] == [150_000, 300_000]
    with pytest.raises(PaymentRefusedError) as caught:
        await anext(run)
    assert caught.value.code == "over_total"
    allowed = [options["max_price"] for _, options in shop.bought]
    assert allowed == [150_000, 150_000]
    rest = await collected(shop.batches.token_prices(TWELVE, max_total="0.06", job="j"))
    assert [batch.again for batch in rest] == [True, True, False]


async def test_what_a_batch_may_cost_is_handed_on() -> None:
    shop = AsyncShop()
    await collected(shop.batches.token_prices(TWELVE, max_price="0.2", max_total="0.40"))
    assert [options["max_price"] for _, options in shop.bought] == [200_000, 200_000, 100_000]


async def test_a_run_says_how_far_it_is() -> None:
    run = AsyncShop().batches.token_prices(TWELVE)
    await anext(run)
    assert repr(run) == f"<{type(run).__name__} of 12 tokens, 1 of 3 batches done>"
