"""Follows a stream that a test wrote down, until its signal `end`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pytest

from tradesdk import AsyncRateLimiter, AsyncSignalStream, AsyncTradeClient, StreamSignal, StreamStats
from tradesdk.types import StreamItem

from .._answers import BASE, KEY
from .._streamscript import CHAIN, StreamScript
from ._network import networked

T = TypeVar("T")


@dataclass
class Followed:
    """Everything that came, `end` excluded; what the stream says of itself; and the error that ended it, if one did."""

    items: list[StreamItem] = field(default_factory=list)
    stats: StreamStats = field(default_factory=StreamStats)
    error: Exception | None = None

    @property
    def signals(self) -> list[StreamSignal]:
        return [item for item in self.items if isinstance(item, StreamSignal)]

    @property
    def ids(self) -> list[str]:
        return [signal.id for signal in self.signals]

    def of(self, kind: type[T]) -> list[T]:
        return [item for item in self.items if isinstance(item, kind)]


@asynccontextmanager
async def opened(
    script: StreamScript,
    *,
    base_url: str = BASE,
    rate_limiter: AsyncRateLimiter | None = None,
    patch: pytest.MonkeyPatch | None = None,
    **options: Any,
) -> AsyncIterator[AsyncSignalStream[StreamItem]]:
    """A stream of it with reports, not entered yet; with `patch`, by our own connections."""
    settings: dict[str, Any] = {"chain": CHAIN, "reports": True} | options
    http = httpx.AsyncClient(transport=script)
    about: dict[str, Any] = {"api_key": KEY, "base_url": base_url, "clock": script.clock, "rate_limiter": rate_limiter}
    if patch is not None:
        networked(patch, script)
    async with http, AsyncTradeClient(**about, http_client=http if patch is None else None) as client:
        yield client.signals.stream(**settings)
    assert script.open == 0, "a stream was left open"


async def followed(
    script: StreamScript, *, after: Callable[[StreamItem], object] | None = None, **options: Any
) -> Followed:
    """Until the signal `end`, or the error that ends it. `after` is called with each item."""
    found = Followed()
    async with opened(script, **options) as stream:
        try:
            async with stream:
                async for item in stream:
                    if isinstance(item, StreamSignal) and item.id == "end":
                        break
                    found.items.append(item)
                    if after is not None:
                        after(item)
        except Exception as error:
            found.error = error
        found.stats = stream.stats
    return found
