"""The calls for market data, and the same calls as quotes and as dry runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from .. import _market as market
from .._market import MarketRequest, TokenQuery
from .._values.http import RawResponse
from ..models.market import (
    AggregateMetrics,
    SignalType,
    SortBy,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformers,
)
from ..payments.money import Usd
from ..payments.results import DryRun, MarketResult, Quote

T = TypeVar("T")


class AsyncMarketMethods(ABC):
    """Market data about tokens on Base. The price of a call is known before it is made, and is paid at most once."""

    @abstractmethod
    async def _buy(
        self, asked: MarketRequest[T], *, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[T]: ...

    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the newest signals of tokens, newest first (`POST /v1/token-signals`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case;
                `TokenQuery("BRETT", 50)` gives one a limit of its own.
            limit: signals of each token, 1 to 100 (the service's default is 10).
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.token_signals(tokens, limit), max_price=max_price, new_purchase=new_purchase)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the signals of tokens in a period, newest first (`POST /v1/signal-history`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            start: not before this moment: an aware datetime, or Unix seconds (`startDate` on the wire).
            end: not after this moment, the same way (`endDate` on the wire).
            signal_type: only signals of this type; `ALL` is every type.
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        asked = market.signal_history(tokens, start, end, signal_type)
        return await self._buy(asked, max_price=max_price, new_purchase=new_purchase)

    async def token_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[TokenResults[TokenPrice]]:
        """Get the current prices of tokens, in ETH and in USD (`POST /v1/token-prices`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.token_prices(tokens), max_price=max_price, new_purchase=new_purchase)

    async def token_win_rate(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[TokenResults[TokenWinRate]]:
        """Get how often agents won with tokens, in percent (`POST /v1/token-win-rate`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.token_win_rate(tokens), max_price=max_price, new_purchase=new_purchase)

    async def token_avg_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[TokenResults[TokenAvgPrices]]:
        """Get the average prices that agents paid and got for tokens (`POST /v1/token-avg-prices`, $0.02 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.token_avg_prices(tokens), max_price=max_price, new_purchase=new_purchase)

    async def top_performers(
        self, sort_by: SortBy, *, limit: int | None = None, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[TopPerformers]:
        """Get the tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit).

        Args:
            sort_by: `winRate` or `ROI`.
            limit: tokens, 1 to 300 (the service's default is 300).
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.top_performers(sort_by, limit), max_price=max_price, new_purchase=new_purchase)

    async def aggregate_metrics(
        self, *, max_price: Usd | None = None, new_purchase: bool = False
    ) -> MarketResult[AggregateMetrics]:
        """Get the totals of the platform (`POST /v1/aggregate-metrics`, $0.06).

        Args:
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget refused it; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was sent.
        """
        return await self._buy(market.aggregate_metrics(), max_price=max_price, new_purchase=new_purchase)

    async def supported_tokens(self, *, limit: int | None = None) -> MarketResult[SupportedTokens]:
        """List the tokens with market data (`POST /v1/supported-tokens`, free).

        Args:
            limit: tokens, 1 to 500 (the service's default is 500).

        Raises:
            APIError: the service refused it or could not be reached.
        """
        return await self._buy(market.supported_tokens(limit))

    async def request(
        self,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
    ) -> MarketResult[RawResponse]:
        """POST any body to an endpoint with a published price; paid, guarded and budgeted like the named calls.

        Args:
            path: such as `/v1/token-prices`.
            json: the body. Where the price is per token, its `tokens` are 1 to 5 objects with an `identifier`.
            max_price: the most that this call may cost, in USD (default: the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.

        Raises:
            InvalidArgumentError: no price is published for the path, or the tokens cannot be counted; nothing was sent.
            PaymentError, APIError: as the named calls.
        """
        return await self._buy(market.raw(path, json), max_price=max_price, new_purchase=new_purchase)


class AsyncQuoting(Protocol):
    """Says what a request costs."""

    async def __call__(self, asked: MarketRequest[Any], /) -> Quote: ...


class AsyncQuotes:
    """`client.quote`: what calls cost by the published prices, and what the budgets leave. No key, no request.

    Each method takes what describes the call of the same name, and refuses what that refuses (`InvalidArgumentError`).
    """

    def __init__(self, quote: AsyncQuoting) -> None:
        self._quote = quote

    async def token_signals(self, tokens: Sequence[str | TokenQuery], *, limit: int | None = None) -> Quote:
        """Quote the newest signals of 1 to 5 tokens (`POST /v1/token-signals`, $0.05 a token)."""
        return await self._quote(market.token_signals(tokens, limit))

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
    ) -> Quote:
        """Quote the signals of 1 to 5 tokens in a period (`POST /v1/signal-history`, $0.05 a token)."""
        return await self._quote(market.signal_history(tokens, start, end, signal_type))

    async def token_prices(self, tokens: Sequence[str]) -> Quote:
        """Quote the current prices of 1 to 5 tokens (`POST /v1/token-prices`, $0.03 a token)."""
        return await self._quote(market.token_prices(tokens))

    async def token_win_rate(self, tokens: Sequence[str]) -> Quote:
        """Quote the win rates of 1 to 5 tokens (`POST /v1/token-win-rate`, $0.03 a token)."""
        return await self._quote(market.token_win_rate(tokens))

    async def token_avg_prices(self, tokens: Sequence[str]) -> Quote:
        """Quote the average prices of 1 to 5 tokens (`POST /v1/token-avg-prices`, $0.02 a token)."""
        return await self._quote(market.token_avg_prices(tokens))

    async def top_performers(self, sort_by: SortBy, *, limit: int | None = None) -> Quote:
        """Quote the tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit)."""
        return await self._quote(market.top_performers(sort_by, limit))

    async def aggregate_metrics(self) -> Quote:
        """Quote the totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._quote(market.aggregate_metrics())

    async def supported_tokens(self, *, limit: int | None = None) -> Quote:
        """Quote the tokens with market data (`POST /v1/supported-tokens`, free)."""
        return await self._quote(market.supported_tokens(limit))

    async def request(self, path: str, *, json: Mapping[str, Any] | None = None) -> Quote:
        """Quote any body for an endpoint with a published price, such as `/v1/token-prices`."""
        return await self._quote(market.raw(path, json))


class AsyncRehearsing(Protocol):
    """Says what would be signed for a request."""

    async def __call__(self, asked: MarketRequest[Any], /, *, max_price: Usd | None = None) -> DryRun: ...


class AsyncDryRuns:
    """`client.dry_run`: what calls would sign. The service is asked for its offer; nothing is signed or reserved.

    Each method takes what describes the call of the same name, and `max_price`: the most that the call may cost.
    """

    def __init__(self, dry_run: AsyncRehearsing) -> None:
        self._dry_run = dry_run

    async def token_signals(
        self, tokens: Sequence[str | TokenQuery], *, limit: int | None = None, max_price: Usd | None = None
    ) -> DryRun:
        """Try the newest signals of 1 to 5 tokens (`POST /v1/token-signals`, $0.05 a token)."""
        return await self._dry_run(market.token_signals(tokens, limit), max_price=max_price)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
    ) -> DryRun:
        """Try the signals of 1 to 5 tokens in a period (`POST /v1/signal-history`, $0.05 a token)."""
        return await self._dry_run(market.signal_history(tokens, start, end, signal_type), max_price=max_price)

    async def token_prices(self, tokens: Sequence[str], *, max_price: Usd | None = None) -> DryRun:
        """Try the current prices of 1 to 5 tokens (`POST /v1/token-prices`, $0.03 a token)."""
        return await self._dry_run(market.token_prices(tokens), max_price=max_price)

    async def token_win_rate(self, tokens: Sequence[str], *, max_price: Usd | None = None) -> DryRun:
        """Try the win rates of 1 to 5 tokens (`POST /v1/token-win-rate`, $0.03 a token)."""
        return await self._dry_run(market.token_win_rate(tokens), max_price=max_price)

    async def token_avg_prices(self, tokens: Sequence[str], *, max_price: Usd | None = None) -> DryRun:
        """Try the average prices of 1 to 5 tokens (`POST /v1/token-avg-prices`, $0.02 a token)."""
        return await self._dry_run(market.token_avg_prices(tokens), max_price=max_price)

    async def top_performers(
        self, sort_by: SortBy, *, limit: int | None = None, max_price: Usd | None = None
    ) -> DryRun:
        """Try the tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit)."""
        return await self._dry_run(market.top_performers(sort_by, limit), max_price=max_price)

    async def aggregate_metrics(self, *, max_price: Usd | None = None) -> DryRun:
        """Try the totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._dry_run(market.aggregate_metrics(), max_price=max_price)

    async def supported_tokens(self, *, limit: int | None = None) -> DryRun:
        """Try the tokens with market data (`POST /v1/supported-tokens`, free)."""
        return await self._dry_run(market.supported_tokens(limit))

    async def request(
        self, path: str, *, json: Mapping[str, Any] | None = None, max_price: Usd | None = None
    ) -> DryRun:
        """Try any body for an endpoint with a published price, such as `/v1/token-prices`."""
        return await self._dry_run(market.raw(path, json), max_price=max_price)
