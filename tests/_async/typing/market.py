"""What a type checker sees of the client of market data. Nothing here runs, as in `surface`.

A line with an ignore comment must be refused: mypy reports an ignore that has nothing to ignore.
"""

from datetime import datetime
from decimal import Decimal
from typing import Literal, assert_type

import httpx
from eth_account import Account

from tradesdk import (
    AggregateMetrics,
    APIError,
    AsyncBatchRun,
    AsyncChainWitness,
    AsyncMarketClient,
    Batch,
    Budget,
    Clock,
    DryRun,
    ErrorCode,
    Ledger,
    LocalSigner,
    MarketResult,
    Payment,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRejectedError,
    PaymentStage,
    PaymentUndeliveredError,
    Quote,
    RateLimit,
    RawResponse,
    Receipt,
    Reconciliation,
    SignalRecord,
    Signer,
    Spending,
    SupportedToken,
    SupportedTokens,
    Timeout,
    TokenAvgPrices,
    TokenPrice,
    TokenQuery,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformer,
    TopPerformers,
)
from tradesdk.payments import ChainVerdict
from tradesdk.types import MarketModel


async def bought(market: AsyncMarketClient) -> None:
    signals = await market.token_signals(["ETH", TokenQuery("BRETT", 50)], limit=10)
    assert_type(signals, MarketResult[TokenResults[TokenSignals]])
    assert_type(signals.data, TokenResults[TokenSignals])
    assert_type(signals.data.results, list[TokenSignals])
    assert_type(signals.data.results[0].signals, list[SignalRecord])
    assert_type(signals.data.results[0].signals[0].created_at, datetime)
    assert_type(signals.data.results[0].signals[0].previous_long_sma, float | None)
    assert_type(signals.payment, Payment | None)
    assert_type(signals.receipt, Receipt | None)
    assert_type(signals.charged, bool | Literal["unknown"])
    assert_type(signals.quote.price, Decimal)
    await market.signal_history(["ETH"], since=datetime.now(), until=5.5, signal_type="WAITING FOR SIGNAL")
    assert_type(await market.signal_history(["ETH"]), MarketResult[TokenResults[TokenSignals]])
    prices = await market.token_prices(("ETH",), max_price="0.05", purchase="today")
    assert_type(prices, MarketResult[TokenResults[TokenPrice]])
    assert_type(prices.data.results[0], TokenPrice)
    assert_type(prices.data.results[0].current_price_usd, float)
    rates = await market.token_win_rate(["ETH"], max_price=Decimal("0.03"))
    assert_type(rates, MarketResult[TokenResults[TokenWinRate]])
    assert_type(rates.data.results[0].win_rate, float | None)
    averages = await market.token_avg_prices(["ETH"], max_price="1")
    assert_type(averages, MarketResult[TokenResults[TokenAvgPrices]])
    assert_type(averages.data.results[0].average_sell_price_eth, float | None)
    best = await market.top_performers("ROI", limit=10)
    assert_type(best, MarketResult[TopPerformers])
    assert_type(best.data.tokens, list[TopPerformer])
    assert_type(best.data.tokens[0].roi, float)
    assert_type((await market.top_performers(sort_by="winRate")).data.tokens[0].agent_count, int)
    assert_type(await market.aggregate_metrics(), MarketResult[AggregateMetrics])
    free = await market.supported_tokens(limit=500)
    assert_type(free, MarketResult[SupportedTokens])
    assert_type(free.data.tokens, list[SupportedToken])
    assert_type(free.data.total, int)


async def tried(market: AsyncMarketClient) -> None:
    assert_type(await market.dry_run.token_signals(["ETH"], limit=5, max_price="1"), DryRun)
    assert_type(await market.dry_run.signal_history(["ETH"], since=5), DryRun)
    assert_type(await market.dry_run.token_prices(["ETH"]), DryRun)
    assert_type(await market.dry_run.token_win_rate(["ETH"]), DryRun)
    assert_type(await market.dry_run.token_avg_prices(["ETH"]), DryRun)
    assert_type(await market.dry_run.top_performers("ROI"), DryRun)
    assert_type(await market.dry_run.aggregate_metrics(max_price="1"), DryRun)
    assert_type(await market.dry_run.supported_tokens(limit=5), DryRun)
    assert_type(await market.dry_run.request("/v1/token-prices", json={}, max_price="1"), DryRun)
    shown = await market.dry_run.top_performers("ROI", limit=5)
    assert_type(shown.authorization, dict[str, str] | None)
    assert_type(shown.refusal, PaymentError | None)


async def looked_after(market: AsyncMarketClient) -> None:
    assert_type(await market.payments.list(stages=[PaymentStage.SENT], limit=5, before="pay_1"), list[Payment])
    payment = await market.payments.get("pay_1")
    assert_type(payment, Payment)
    assert_type(payment.stage, PaymentStage)
    assert_type(payment.amount_usd, Decimal)
    assert_type(payment.expires_at, datetime)
    assert_type(await market.payments.mark(payment.id, paid=True), Payment)
    assert_type(await market.payments.spending(), Spending)
    found = await market.payments.reconcile()
    assert_type(found, Reconciliation)
    assert_type(found.witnessed, tuple[tuple[Payment, ChainVerdict], ...])
    assert_type(await market.payments.purchase_secret_ids(), tuple[str | None, str])
    verdict = await AsyncChainWitness("https://node.example", "https://other.example", timeout=5).check(payment)
    assert_type(verdict.outcome, Literal["paid", "unpaid", "undecided"])
    assert_type(verdict.paid, bool | None)
    assert_type(await AsyncChainWitness("https://node.example").check(payment), ChainVerdict)
    assert_type((await market.payments.resume(payment.id)).receipt, Receipt | None)
    assert_type(await market.payments.resume(payment.id), MarketResult[MarketModel])
    prices = await market.payments.resume(payment.id, TokenResults[TokenPrice])
    assert_type(prices, MarketResult[TokenResults[TokenPrice]])
    assert_type(prices.data.results[0].current_price_usd, float)
    assert_type((await market.payments.resume(payment.id, data=TopPerformers)).data.tokens, list[TopPerformer])
    assert_type(found.delivered, tuple[MarketResult[MarketModel], ...])
    await market.payments.trust("0x1")


async def failed(market: AsyncMarketClient) -> None:
    try:
        await market.token_prices(["ETH"])
    except PaymentOutcomeUnknownError as error:
        assert_type(error.payment, Payment)
        assert_type((await market.payments.resume(error.payment.id)).receipt, Receipt | None)
        assert_type(error.charged, bool | Literal["unknown"])
    except (PaymentRejectedError, PaymentUndeliveredError) as error:
        assert_type(error.payment, Payment)
    except PaymentError as error:
        assert_type(error.payment, Payment | None)
        assert_type(error.code, ErrorCode)
        assert_type(error.reason, str)
        assert_type(error.hint, str)
        assert_type(error.response, RawResponse | None)
    except APIError as error:
        assert_type(error.payment, Payment | None)


async def opened(signer: Signer, store: Ledger, http: httpx.AsyncClient, clock: Clock) -> None:
    AsyncMarketClient()
    AsyncMarketClient(signer=signer, budget=Budget(per_day="5.00"), ledger=store, pay_to=["0x1"])
    AsyncMarketClient(signer=Account.create())
    AsyncMarketClient(signer=LocalSigner.from_env(), budget=Budget.unlimited(), ledger=Ledger.memory(), clock=clock)
    AsyncMarketClient(send_api_key=True, api_key=lambda: "key", max_validity=60, timeout=Timeout(read=5))
    async with AsyncMarketClient(http_client=http, base_url="https://service.example", deadline=60) as market:
        assert_type(market, AsyncMarketClient)
        assert_type(market.with_options(timeout=5, max_retries=0, deadline=9.5), AsyncMarketClient)
        assert_type(market.rate_limit, RateLimit | None)
    await market.aclose()


async def quoted(market: AsyncMarketClient) -> None:
    assert_type(await market.quote.token_signals(["ETH", TokenQuery("BRETT")], limit=5), Quote)
    assert_type(await market.quote.signal_history(["ETH"], since=5, until=6, signal_type="BUY"), Quote)
    assert_type(await market.quote.token_prices(["ETH"]), Quote)
    assert_type(await market.quote.token_win_rate(["ETH"]), Quote)
    assert_type(await market.quote.token_avg_prices(["ETH"]), Quote)
    assert_type(await market.quote.top_performers("ROI", limit=5), Quote)
    assert_type(await market.quote.aggregate_metrics(), Quote)
    assert_type(await market.quote.supported_tokens(limit=5), Quote)


async def batched(market: AsyncMarketClient, symbols: set[str]) -> None:
    run = market.batches.token_prices(symbols, size=3, job="today", max_price="0.10", max_total="5")
    assert_type(run, AsyncBatchRun[TokenResults[TokenPrice]])
    assert_type(run.price, Decimal)
    assert_type(run.count, int)
    async for batch in run:
        assert_type(batch, Batch[TokenResults[TokenPrice]])
        assert_type(batch.result, MarketResult[TokenResults[TokenPrice]])
        assert_type(batch.data.results[0], TokenPrice)
        assert_type(batch.tokens, tuple[str, ...])
        assert_type(batch.spent_usd, Decimal)
    assert_type(
        market.batches.token_signals((TokenQuery("ETH", 5), "BRETT"), limit=3),
        AsyncBatchRun[TokenResults[TokenSignals]],
    )
    assert_type(
        market.batches.signal_history(symbols, since=5, signal_type="SELL"), AsyncBatchRun[TokenResults[TokenSignals]]
    )
    assert_type(market.batches.token_win_rate(symbols), AsyncBatchRun[TokenResults[TokenWinRate]])
    assert_type(market.batches.token_avg_prices(symbols), AsyncBatchRun[TokenResults[TokenAvgPrices]])


def made() -> None:
    price = TokenPrice(token_address="0x1", symbol="A", current_price_eth=0.1, current_price_usd=300.0)
    assert_type(price.token_address, str)


async def refused(market: AsyncMarketClient) -> None:
    """Every ignore here is needed: each line is a mistake that a type checker should find before it costs money."""
    await market.token_prices(["ETH"], max_price=0.1)  # type: ignore[arg-type]  # a float is not exact
    quote = await market.quote.token_prices(["ETH"])
    await market.token_prices(["ETH"], max_price=quote.amount)  # type: ignore[arg-type]  # micro-dollars
    await market.token_prices([TokenQuery("ETH", 5)])  # type: ignore[list-item]  # only signals have limits
    await market.signal_history(["ETH"], since="2026-01-01")  # type: ignore[arg-type]  # text for a time
    await market.signal_history(["ETH"], signal_type="HOLD")  # type: ignore[arg-type]  # not one of the four
    await market.top_performers("roi")  # type: ignore[arg-type]  # it is ROI
    await market.top_performers()  # type: ignore[call-arg]  # by what?
    await market.supported_tokens(max_price="1")  # type: ignore[call-arg]  # it is free
    await market.token_prices(["ETH"], dry_run=True)  # type: ignore[call-arg]  # that is market.dry_run
    print((await market.dry_run.token_prices(["ETH"])).data)  # type: ignore[attr-defined]  # nothing was bought
    await market.batches.token_prices(["ETH"])  # type: ignore[misc]  # a run is walked, not awaited  # async only
    for batch in market.batches.token_prices(["ETH"]):  # type: ignore[attr-defined]  # an async for is missing  # async only
        print(batch)  # async only
    AsyncMarketClient(signer="0x01")  # type: ignore[arg-type]  # a key is no signer
    AsyncMarketClient(budget="5.00")  # type: ignore[arg-type]  # Budget(total="5.00")?
    AsyncMarketClient("https://service.example")  # type: ignore[call-arg]  # everything by name
    Budget(per_day=0.5)  # type: ignore[arg-type]  # a float is not exact
    Budget(per_day=5)  # type: ignore[arg-type]  # dollars? or micro-dollars, as its own attributes are?
    await market.payments.resume("pay_1", str)  # type: ignore[type-var]  # no model of market data
    print((await market.payments.resume("pay_1")).data.results)  # type: ignore[attr-defined]  # of which model?
    await market.payments.mark("pay_1")  # type: ignore[call-arg]  # paid or unpaid?
    market.batches.token_prices(5)  # type: ignore[arg-type]  # no list
    print(market.token_prices(["ETH"]).data)  # type: ignore[attr-defined]  # an await is missing  # async only
