"""What the calls for market data are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from .._market import MarketRequest
from ..payments.money import Usd
from ..payments.results import DryRun, MarketResult

T = TypeVar("T")


class AsyncMarketBuying(ABC):
    """Buys what a request asks for, or says what that would take."""

    @abstractmethod
    async def _buy(
        self,
        asked: MarketRequest[T],
        *,
        max_price: Usd | None = None,
        new_purchase: bool = False,
    ) -> MarketResult[T]: ...

    @abstractmethod
    async def _dry_run(self, asked: MarketRequest[T], *, max_price: Usd | None = None) -> DryRun: ...

    async def _bought(
        self, asked: MarketRequest[T], max_price: Usd | None, new_purchase: bool, dry_run: bool
    ) -> MarketResult[T] | DryRun:
        if dry_run:
            return await self._dry_run(asked, max_price=max_price)
        return await self._buy(asked, max_price=max_price, new_purchase=new_purchase)
