"""Calls for market data, and the same calls as quotes and dry runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from ..payments.money import Usd, micro_usd
from ..payments.results import DryRun, MarketResult, Quote

if TYPE_CHECKING:
    from .payment_flow import AsyncPaymentFlow

T = TypeVar("T")
R = TypeVar("R")


class AsyncMarketMethods(ABC):
    """Market data about tokens on Base. The price of a call is known before the call, and is paid at most once.

    All paid methods take:

    - `max_price`: the call may cost at most this much, in USD (default: the published price).
    - `purchase`: the name of this purchase: it is paid for once, on all machines with this wallet. Its answer is kept
      for 30 days.

    Raises:
        InvalidArgumentError: an argument was refused; nothing was sent.
        PaymentRefusedError: a guard or a budget refused it; nothing was signed.
        PaymentOutcomeUnknownError: it may have been paid; see `error.payment` and `error.hint`.
        PaymentError, APIError: all other failures, with `.payment` if one was sent.
    """

    @abstractmethod
    async def _buy(
        self,
        request: MarketRequest[T],
        /,
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[T]: ...

    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the newest signals of tokens, newest first (`POST /v1/token-signals`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case;
                `TokenQuery("BRETT", 50)` sets the limit of one token.
            limit: signals per token, 1 to 100 (the service's default is 10).
        """
        return await self._buy(market.token_signals(tokens, limit), max_price=max_price, purchase=purchase)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the signals of tokens in a period, newest first (`POST /v1/signal-history`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            start: not before this moment: an aware datetime, or Unix seconds (`startDate` on the wire).
            end: not after this moment, the same way (`endDate` on the wire).
            signal_type: only signals of this type; `ALL` for every type.
        """
        request = market.signal_history(tokens, start, end, signal_type)
        return await self._buy(request, max_price=max_price, purchase=purchase)

    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenPrice]]:
        """Get the current prices of tokens, in ETH and in USD (`POST /v1/token-prices`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_prices(tokens), max_price=max_price, purchase=purchase)

    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenWinRate]]:
        """Get how often agents won with tokens, in percent (`POST /v1/token-win-rate`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_win_rate(tokens), max_price=max_price, purchase=purchase)

    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenAvgPrices]]:
        """Get the average prices that agents paid and got for tokens (`POST /v1/token-avg-prices`, $0.02 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_avg_prices(tokens), max_price=max_price, purchase=purchase)

    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TopPerformers]:
        """Get the tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit).

        Args:
            sort_by: `winRate` or `ROI`.
            limit: tokens, 1 to 300 (the service's default is 300).
        """
        return await self._buy(market.top_performers(sort_by, limit), max_price=max_price, purchase=purchase)

    async def aggregate_metrics(
        self, *, max_price: Usd | None = None, purchase: str | None = None
    ) -> MarketResult[AggregateMetrics]:
        """Get the totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._buy(market.aggregate_metrics(), max_price=max_price, purchase=purchase)

    async def supported_tokens(self, *, limit: int | None = None) -> MarketResult[SupportedTokens]:
        """List the tokens with market data (`POST /v1/supported-tokens`, free).

        Args:
            limit: tokens, 1 to 500 (default 100).

        Raises:
            APIError: the service refused the call or could not be reached.
        """
        return await self._buy(market.supported_tokens(limit))

    async def request(
        self,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[RawResponse]:
        """POST any body to an endpoint with a published price; paid, guarded and budgeted like the other methods.

        Args:
            path: such as `/v1/token-prices`.
            json: the body. If the price is per token, its `tokens` are 1 to 5 objects with an `identifier`.

        Raises:
            InvalidArgumentError: no price is published for the path, or the tokens cannot be counted; nothing was sent.
            PaymentError, APIError: as for the other methods.
        """
        return await self._buy(market.raw(path, json), max_price=max_price, purchase=purchase)


class AsyncPreviews(ABC, Generic[R]):
    """The same calls, of which nothing is paid. Each takes the arguments of the client's method of the same name."""

    def __init__(self, flow: AsyncPaymentFlow) -> None:
        self._flow = flow

    @abstractmethod
    async def _ask(
        self, request: MarketRequest[Any], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R: ...

    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """The newest signals of 1 to 5 tokens (`POST /v1/token-signals`, $0.05 a token)."""
        return await self._ask(market.token_signals(tokens, limit), max_price=max_price, purchase=purchase)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """The signals of 1 to 5 tokens in a period (`POST /v1/signal-history`, $0.05 a token)."""
        request = market.signal_history(tokens, start, end, signal_type)
        return await self._ask(request, max_price=max_price, purchase=purchase)

    async def token_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The current prices of 1 to 5 tokens (`POST /v1/token-prices`, $0.03 a token)."""
        return await self._ask(market.token_prices(tokens), max_price=max_price, purchase=purchase)

    async def token_win_rate(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The win rates of 1 to 5 tokens (`POST /v1/token-win-rate`, $0.03 a token)."""
        return await self._ask(market.token_win_rate(tokens), max_price=max_price, purchase=purchase)

    async def token_avg_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The average prices of 1 to 5 tokens (`POST /v1/token-avg-prices`, $0.02 a token)."""
        return await self._ask(market.token_avg_prices(tokens), max_price=max_price, purchase=purchase)

    async def top_performers(
        self, sort_by: SortBy, *, limit: int | None = None, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit)."""
        return await self._ask(market.top_performers(sort_by, limit), max_price=max_price, purchase=purchase)

    async def aggregate_metrics(self, *, max_price: Usd | None = None, purchase: str | None = None) -> R:
        """The totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._ask(market.aggregate_metrics(), max_price=max_price, purchase=purchase)

    async def supported_tokens(self, *, limit: int | None = None) -> R:
        """The tokens with market data (`POST /v1/supported-tokens`, free)."""
        return await self._ask(market.supported_tokens(limit))

    async def request(
        self,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """Any body for an endpoint with a published price, such as `/v1/token-prices`."""
        return await self._ask(market.raw(path, json), max_price=max_price, purchase=purchase)


class AsyncQuotes(AsyncPreviews[Quote]):
    """`client.quote`: published prices of calls, and what the budgets leave. No key, no request.

    Each method takes the arguments of the client's method of the same name, and raises `InvalidArgumentError` for the
    same values. `max_price` counts as a limit; a `purchase` changes nothing.
    """

    async def _ask(
        self, request: MarketRequest[Any], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> Quote:
        return await self._flow.quote(request, _micro(max_price), purchase)


class AsyncDryRuns(AsyncPreviews[DryRun]):
    """`client.dry_run`: what calls would sign. Requests the offer; signs, reserves and pays nothing.

    Each method takes the arguments of the client's method of the same name.
    """

    async def _ask(
        self, request: MarketRequest[Any], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> DryRun:
        return await self._flow.dry_run(request, max_price=_micro(max_price), purchase=purchase)


def _micro(max_price: Usd | None) -> int | None:
    return None if max_price is None else micro_usd("max_price", max_price)
