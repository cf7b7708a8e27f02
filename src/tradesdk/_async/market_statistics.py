"""Paid calls about how agents do: win rates, average prices, top performers, totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from .. import _market as market
from ..models.market import AggregateMetrics, SortBy, TokenAvgPricesData, TokenWinRatesData, TopPerformersData
from ..payments.money import Usd
from ..payments.results import DryRun, MarketResult
from .market_buying import AsyncMarketBuying


class AsyncMarketStatistics(AsyncMarketBuying):
    """How agents do with tokens."""

    @overload
    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TokenWinRatesData]: ...
    @overload
    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TokenWinRatesData] | DryRun: ...
    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TokenWinRatesData] | DryRun:
        """How often agents won with tokens, in per cent (`POST /v1/token-win-rate`, $0.03 a token).

        Args:
            tokens: 1 to 5 tokens, none twice: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.token_win_rate(tokens), max_price, new_purchase, dry_run)

    @overload
    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TokenAvgPricesData]: ...
    @overload
    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TokenAvgPricesData] | DryRun: ...
    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TokenAvgPricesData] | DryRun:
        """What agents paid and got for tokens on average (`POST /v1/token-avg-prices`, $0.02 a token).

        Args:
            tokens: 1 to 5 tokens, none twice: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.token_avg_prices(tokens), max_price, new_purchase, dry_run)

    @overload
    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TopPerformersData]: ...
    @overload
    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TopPerformersData] | DryRun: ...
    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TopPerformersData] | DryRun:
        """The tokens that agents do best with (`POST /v1/top-performers`, $0.06 whatever the limit).

        Args:
            sort_by: `winRate` or `ROI`.
            limit: how many, 1 to 300 (the service's default is 300).
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.top_performers(sort_by, limit), max_price, new_purchase, dry_run)

    @overload
    async def aggregate_metrics(
        self,
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[AggregateMetrics]: ...
    @overload
    async def aggregate_metrics(
        self,
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def aggregate_metrics(
        self,
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[AggregateMetrics] | DryRun: ...
    async def aggregate_metrics(
        self,
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[AggregateMetrics] | DryRun:
        """The whole platform in numbers (`POST /v1/aggregate-metrics`, $0.06).

        Args:
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.aggregate_metrics(), max_price, new_purchase, dry_run)
