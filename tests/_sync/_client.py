# Generated from tests/_async/_client.py by scripts/unasync.py: change that file instead.
"""A client that talks to a scripted service and waits in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from tradesdk import TradeClient
from tradesdk._http.settings import Origin
from tradesdk._sync.connection_pool import ConnectionPool

from .._answers import BASE, KEY
from .._clock import VirtualClock
from .._hostile import Answering, HostileServer, hostile

T = TypeVar("T")


def client_of(
    service: Callable[[httpx.Request], httpx.Response], clock: VirtualClock | None = None, **options: Any
) -> TradeClient:
    """It needs no closing: no connection is ever opened."""
    http = httpx.Client(transport=httpx.MockTransport(service))
    settings: dict[str, Any] = {"api_key": KEY, "base_url": BASE, "clock": clock or VirtualClock(), "http_client": http}
    return TradeClient(**settings | options)


def connected(url: str, **options: Any) -> TradeClient:
    """A client with connections of its own to a server on this machine, which also waits in virtual time."""
    settings: dict[str, Any] = {"api_key": KEY, "base_url": url, "clock": VirtualClock()}
    return TradeClient(**settings | options)


def at_most(connections: int, url: str, **options: Any) -> TradeClient:
    """As `connected`, with fewer connections than the 100 that a client allows itself."""
    client = connected(url, **options)
    client._session.sender = ConnectionPool(Origin.of(url), max_connections=connections)
    return client


def collected(items: Iterable[T]) -> list[T]:
    """All of a list."""
    found: list[T] = []
    for item in items:
        found.append(item)
    return found


@contextmanager
def facing(answering: Answering, **options: Any) -> Iterator[tuple[HostileServer, TradeClient]]:
    """A server that answers like this, and a client of it."""
    with hostile(answering) as server:
        client = connected(server.url, **options)
        with client:
            yield server, client
