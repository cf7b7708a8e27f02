"""The calls for market data, each with its price."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, overload

from .. import _market as market
from .._market import TokenQuery
from ..models.market import SignalType, SupportedTokensData, TokenPricesData, TokenSignalsData
from ..payments.money import Usd
from ..payments.results import DryRun, MarketResult
from .market_statistics import AsyncMarketStatistics


class AsyncMarketMethods(AsyncMarketStatistics):
    """Market data about tokens on Base. What a call costs is known before it is made, and is paid at most once."""

    @overload
    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TokenSignalsData]: ...
    @overload
    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TokenSignalsData] | DryRun: ...
    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TokenSignalsData] | DryRun:
        """The newest signals of tokens, newest first (`POST /v1/token-signals`, $0.05 a token).

        Args:
            tokens: 1 to 5 tokens, none twice: address on Base, id in a coin registry, or symbol, in any case;
                `TokenQuery("BRETT", 50)` gives one a limit of its own.
            limit: signals of each token, 1 to 100 (the service's default is 10).
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.token_signals(tokens, limit), max_price, new_purchase, dry_run)

    @overload
    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TokenSignalsData]: ...
    @overload
    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TokenSignalsData] | DryRun: ...
    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TokenSignalsData] | DryRun:
        """Signals of tokens in a period, at most 100 of each (`POST /v1/signal-history`, $0.05 a token).

        Args:
            tokens: 1 to 5 tokens, none twice: address on Base, id in a coin registry, or symbol, in any case.
            start: not before this moment: an aware datetime, or Unix seconds.
            end: not after this moment: an aware datetime, or Unix seconds.
            signal_type: only `BUY`, `SELL` or `WAITING FOR SIGNAL` (the service's default is `ALL`).
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(
            market.signal_history(tokens, start, end, signal_type), max_price, new_purchase, dry_run
        )

    @overload
    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[False] = False,
    ) -> MarketResult[TokenPricesData]: ...
    @overload
    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @overload
    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool,
    ) -> MarketResult[TokenPricesData] | DryRun: ...
    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
        dry_run: bool = False,
    ) -> MarketResult[TokenPricesData] | DryRun:
        """What tokens cost now, in ETH and in USD (`POST /v1/token-prices`, $0.03 a token).

        Args:
            tokens: 1 to 5 tokens, none twice: address on Base, id in a coin registry, or symbol, in any case.
            max_price: the most that this call may cost, in USD (without it, the published price).
            new_purchase: pay even though an earlier payment for the same call could still be taken.
            dry_run: nothing is signed or paid; the result says what would be.

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            PaymentRefusedError: a guard or a budget said no; nothing was signed.
            PaymentOutcomeUnknownError: it may have been paid; `error.payment` says how to go on.
            BadGatewayError: the service cannot find the prices at the moment.
            PaymentError, APIError: everything else, with `.payment` when one was handed over.
        """
        return await self._bought(market.token_prices(tokens), max_price, new_purchase, dry_run)

    async def supported_tokens(self, *, limit: int | None = None) -> MarketResult[SupportedTokensData]:
        """The tokens that there is market data about (`POST /v1/supported-tokens`, free).

        Args:
            limit: how many, 1 to 500 (the service's default is 100).

        Raises:
            InvalidArgumentError: an argument was refused; nothing was sent.
            APIError: the service did not answer, or not as it should.
        """
        return await self._buy(market.supported_tokens(limit))
