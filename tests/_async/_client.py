"""A client that talks to a scripted service and waits in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from tradesdk import AsyncTradeClient
from tradesdk._async.connection_pool import AsyncConnectionPool
from tradesdk._http.settings import Origin

from .._answers import BASE, KEY, SCRIPTED
from .._clock import VirtualClock
from .._hostile import Answering, HostileServer, hostile

T = TypeVar("T")


def client_of(
    service: Callable[[httpx.Request], httpx.Response], clock: VirtualClock | None = None, **options: Any
) -> AsyncTradeClient:
    """A client with connections of its own, which respx intercepts until the test ends. It needs no closing."""
    if "http_client" not in options:
        if not SCRIPTED.routes:
            SCRIPTED.start()
        SCRIPTED.route().mock(side_effect=service)
    settings: dict[str, Any] = {"api_key": KEY, "base_url": BASE, "clock": clock or VirtualClock()}
    return AsyncTradeClient(**settings | options)


def connected(url: str, **options: Any) -> AsyncTradeClient:
    """A client with connections of its own to a server on this machine, which also waits in virtual time."""
    settings: dict[str, Any] = {"api_key": KEY, "base_url": url, "clock": VirtualClock()}
    return AsyncTradeClient(**settings | options)


def at_most(connections: int, url: str, **options: Any) -> AsyncTradeClient:
    """As `connected`, with fewer connections than the 100 that a client allows itself."""
    client = connected(url, **options)
    client._session.sender = AsyncConnectionPool(Origin.of(url), max_connections=connections)
    return client


async def collected(items: AsyncIterable[T]) -> list[T]:
    """All of a list."""
    found: list[T] = []
    async for item in items:
        found.append(item)
    return found


@asynccontextmanager
async def facing(answering: Answering, **options: Any) -> AsyncIterator[tuple[HostileServer, AsyncTradeClient]]:
    """A server that answers like this, and a client of it."""
    with hostile(answering) as server:
        client = connected(server.url, **options)
        async with client:
            yield server, client
