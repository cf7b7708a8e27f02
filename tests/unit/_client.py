"""A blocking client in front of a scripted service: a public door to what the modules decide."""

from __future__ import annotations

from typing import Any

import httpx

from tradesdk import TradeClient

from .._answers import BASE, KEY, Service
from .._clock import VirtualClock


def client_of(service: Service, **options: Any) -> TradeClient:
    http = httpx.Client(transport=httpx.MockTransport(service))
    settings: dict[str, Any] = {"api_key": KEY, "base_url": BASE, "clock": VirtualClock()}
    return TradeClient(http_client=http, **settings | options)
