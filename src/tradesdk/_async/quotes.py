"""What calls for market data cost, without making them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from .. import _market as market
from .._market import MarketRequest, TokenQuery
from ..models.market import SignalType, SortBy
from ..payments.results import Quote


class AsyncQuoting(Protocol):
    """Says what a request costs and what the budgets leave."""

    async def __call__(self, asked: MarketRequest[Any], /) -> Quote: ...


class AsyncQuotes:
    """`client.quote`: the published price of a call, and what the budgets leave. No key is needed, nothing is sent.

    Each method takes what the call of the same name takes, and refuses what that refuses (`InvalidArgumentError`).
    """

    def __init__(self, of: AsyncQuoting) -> None:
        self._of = of

    async def token_signals(self, tokens: Sequence[str | TokenQuery], *, limit: int | None = None) -> Quote:
        """The newest signals of 1 to 5 tokens: $0.05 a token (`POST /v1/token-signals`)."""
        return await self._of(market.token_signals(tokens, limit))

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
        signal_type: SignalType | None = None,
    ) -> Quote:
        """Signals of 1 to 5 tokens in a period: $0.05 a token (`POST /v1/signal-history`)."""
        return await self._of(market.signal_history(tokens, start, end, signal_type))

    async def token_prices(self, tokens: Sequence[str]) -> Quote:
        """What 1 to 5 tokens cost: $0.03 a token (`POST /v1/token-prices`)."""
        return await self._of(market.token_prices(tokens))

    async def token_win_rate(self, tokens: Sequence[str]) -> Quote:
        """How often agents won with 1 to 5 tokens: $0.03 a token (`POST /v1/token-win-rate`)."""
        return await self._of(market.token_win_rate(tokens))

    async def token_avg_prices(self, tokens: Sequence[str]) -> Quote:
        """What agents paid and got for 1 to 5 tokens: $0.02 a token (`POST /v1/token-avg-prices`)."""
        return await self._of(market.token_avg_prices(tokens))

    async def top_performers(self, sort_by: SortBy, *, limit: int | None = None) -> Quote:
        """The tokens that agents do best with: $0.06 (`POST /v1/top-performers`)."""
        return await self._of(market.top_performers(sort_by, limit))

    async def aggregate_metrics(self) -> Quote:
        """The whole platform in numbers: $0.06 (`POST /v1/aggregate-metrics`)."""
        return await self._of(market.aggregate_metrics())

    async def supported_tokens(self, *, limit: int | None = None) -> Quote:
        """The tokens that there is market data about: free (`POST /v1/supported-tokens`)."""
        return await self._of(market.supported_tokens(limit))

    async def request(self, path: str, *, json: Mapping[str, Any] | None = None) -> Quote:
        """Any body for an endpoint whose price is published, such as `/v1/token-prices`."""
        return await self._of(market.raw(path, json))
