"""The calls of a market client as quotes and dry runs, which pay nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from .. import _market as market
from .._market import MarketRequest, TokenQuery
from ..models.market import SignalType, SortBy
from ..payments.budget import Usd

R = TypeVar("R")


class AsyncPreviews(Generic[R]):
    """`client.quote` and `client.dry_run`: the same calls, which pay nothing here.

    `client.quote` gives published prices of calls, and what the budgets leave. No key, no request. `max_price` counts
    as a limit; a `purchase` changes nothing.

    `client.dry_run` gives what calls would sign. It requests the offer; it signs and pays nothing.

    Each method takes the arguments of the client's method of the same name, and raises `InvalidArgumentError` for the
    same values.
    """

    def __init__(self, url: str, preview: Callable[[MarketRequest[Any], Usd | None, str | None], Awaitable[R]]) -> None:
        self._url = url
        self._ask = preview

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._url}>"

    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """The newest signals of 1 to 5 tokens (`POST /v1/token-signals`, $0.05 a token)."""
        return await self._ask(market.token_signals(tokens, limit), max_price, purchase)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """The signals of 1 to 5 tokens in a period (`POST /v1/signal-history`, $0.05 a token)."""
        request = market.signal_history(tokens, since, until, signal_type)
        return await self._ask(request, max_price, purchase)

    async def token_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The current prices of 1 to 5 tokens (`POST /v1/token-prices`, $0.03 a token)."""
        return await self._ask(market.token_prices(tokens), max_price, purchase)

    async def token_win_rate(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The win rates of 1 to 5 tokens (`POST /v1/token-win-rate`, $0.03 a token)."""
        return await self._ask(market.token_win_rate(tokens), max_price, purchase)

    async def token_avg_prices(
        self, tokens: Sequence[str], *, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The average prices of 1 to 5 tokens (`POST /v1/token-avg-prices`, $0.02 a token)."""
        return await self._ask(market.token_avg_prices(tokens), max_price, purchase)

    async def top_performers(
        self, sort_by: SortBy, *, limit: int | None = None, max_price: Usd | None = None, purchase: str | None = None
    ) -> R:
        """The tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit)."""
        return await self._ask(market.top_performers(sort_by, limit), max_price, purchase)

    async def aggregate_metrics(self, *, max_price: Usd | None = None, purchase: str | None = None) -> R:
        """The totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._ask(market.aggregate_metrics(), max_price, purchase)

    async def supported_tokens(self, *, limit: int | None = None) -> R:
        """The tokens with market data (`POST /v1/supported-tokens`, free)."""
        return await self._ask(market.supported_tokens(limit), None, None)

    async def request(
        self,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> R:
        """Any body for an endpoint with a published price, such as `/v1/token-prices`."""
        return await self._ask(market.raw(path, json), max_price, purchase)
