"""Market data for more tokens than one call takes: in batches, each bought when it is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .. import _market as market
from .._http.arguments import optional_whole
from .._market import MAX_BATCH, MarketRequest, TokenQuery
from ..models.market import SignalType, TokenAvgPrices, TokenPrice, TokenResults, TokenSignals, TokenWinRate
from ..payments.batches import Batch, BatchPlan
from ..payments.budget import Usd
from ..payments.buyer import PurchaseIntent
from ..payments.purchases import item_name

if TYPE_CHECKING:
    from .purchase_driver import AsyncPurchaseDriver

T = TypeVar("T")


class AsyncBatchRun(BatchPlan[T]):
    """Batches, each bought when it is requested. For one consumer, and one pass.

    After an error, the run stays at the same batch and the next step tries it again. For 10 minutes, or always with a
    `job`, it resends a payment that may have been taken instead of making a new one. With a job, a batch is skipped
    if it was paid for and its answer is out of reach (another machine bought it, or it never arrived): its name is
    never paid for again. If an answer is lost in this run, that error is raised first.

    Attributes:
        count: the number of batches.
        tokens: all tokens, without duplicates.
        job: the name under which the ledger keeps the answers, if any.
    """

    _driver: AsyncPurchaseDriver

    def __aiter__(self) -> AsyncBatchRun[T]:
        return self

    async def __anext__(self) -> Batch[T]:
        while self._done < self.count:
            number = self._done + 1
            call = self._call(number)
            intent = PurchaseIntent(
                base_url=self._driver.session.base_url,
                call=call,
                max_price=self._max_price,
                name=None if self.job is None else item_name(self.job, call.request),
                run=self._id,
                max_total=self._max_total,
            )
            try:
                return self._delivered(number, await self._driver.buy(intent))
            except BaseException as error:
                if not self._failed(number, error):
                    raise
        raise StopAsyncIteration

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.tokens)} tokens, {self._done} of {self.count} batches done>"


class AsyncBatches:
    """`client.batches`: market data for any number of tokens, a few in each call, under the same budgets.

    Every method checks the whole list, buys nothing yet, and returns an `AsyncBatchRun`. Duplicates, also in another
    case, are bought once. All methods take:

    - `size`: tokens per batch, 1 to 5.
    - `job`: a name. Each batch is a named purchase: job and request are its name. The same call with the same name
      continues an earlier one, also in another process: batches that were delivered in the last 30 days are yielded
      again, and none is paid for again, on no machine with this wallet. List, size and filters must be the same.
    - `max_price`: the most that one batch may cost, in USD; by default the published price.
    - `max_total`: the most that the run may spend, in USD. A batch that would exceed it raises `PaymentRefusedError`.
      Like `max_price`, it serves as the budget if there is no other.

    Example:
        ```python
        async for batch in client.batches.token_prices(symbols, job="prices of today", max_total="2.00"):
            print(f"{batch.number}/{batch.count}", batch.spent_usd, [each.symbol for each in batch.data.results])
        ```
    """

    def __init__(self, driver: AsyncPurchaseDriver) -> None:
        self._driver = driver

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._driver.session.base_url}>"

    def token_signals(
        self,
        tokens: Iterable[str | TokenQuery],
        *,
        limit: int | None = None,
        size: int = MAX_BATCH,
        job: str | None = None,
        max_price: Usd | None = None,
        max_total: Usd | None = None,
    ) -> AsyncBatchRun[TokenResults[TokenSignals]]:
        """The newest signals of tokens: $0.05 a token (`POST /v1/token-signals`); `limit` as in the single call."""
        optional_whole("limit", limit, 1, market.MAX_SIGNALS)  # without tokens no request checks it
        ask = partial(market.token_signals, limit=limit)
        return self._run(market.distinct(tokens, limits=True), ask, size, job, max_price, max_total)

    def signal_history(
        self,
        tokens: Iterable[str],
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        signal_type: SignalType | None = None,
        size: int = MAX_BATCH,
        job: str | None = None,
        max_price: Usd | None = None,
        max_total: Usd | None = None,
    ) -> AsyncBatchRun[TokenResults[TokenSignals]]:
        """Signals of tokens in a period: $0.05 a token (`POST /v1/signal-history`); filters as in the single call."""
        market.history_filter(since, until, signal_type)  # without tokens no request checks it
        ask = partial(market.signal_history, since=since, until=until, signal_type=signal_type)
        return self._run(market.distinct(tokens), ask, size, job, max_price, max_total)

    def token_prices(
        self,
        tokens: Iterable[str],
        *,
        size: int = MAX_BATCH,
        job: str | None = None,
        max_price: Usd | None = None,
        max_total: Usd | None = None,
    ) -> AsyncBatchRun[TokenResults[TokenPrice]]:
        """Prices of tokens: $0.03 a token (`POST /v1/token-prices`)."""
        return self._run(market.distinct(tokens), market.token_prices, size, job, max_price, max_total)

    def token_win_rate(
        self,
        tokens: Iterable[str],
        *,
        size: int = MAX_BATCH,
        job: str | None = None,
        max_price: Usd | None = None,
        max_total: Usd | None = None,
    ) -> AsyncBatchRun[TokenResults[TokenWinRate]]:
        """Win rates of tokens: $0.03 a token (`POST /v1/token-win-rate`)."""
        return self._run(market.distinct(tokens), market.token_win_rate, size, job, max_price, max_total)

    def token_avg_prices(
        self,
        tokens: Iterable[str],
        *,
        size: int = MAX_BATCH,
        job: str | None = None,
        max_price: Usd | None = None,
        max_total: Usd | None = None,
    ) -> AsyncBatchRun[TokenResults[TokenAvgPrices]]:
        """Average prices that agents bought and sold tokens at: $0.02 a token (`POST /v1/token-avg-prices`)."""
        return self._run(market.distinct(tokens), market.token_avg_prices, size, job, max_price, max_total)

    def _run(
        self,
        tokens: Sequence[TokenQuery],
        ask: Callable[[Sequence[TokenQuery]], MarketRequest[T]],
        size: int,
        job: str | None,
        max_price: Usd | None,
        max_total: Usd | None,
    ) -> AsyncBatchRun[T]:
        run = AsyncBatchRun(tokens, ask, size=size, job=job, max_price=max_price, max_total=max_total)
        run._driver = self._driver
        return run
