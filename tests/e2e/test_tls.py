"""A service with a certificate that nobody vouches for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from tradesdk import APIConnectionError, AsyncTradeClient, TradeClient

from .._answers import ACCOUNT, KEY
from .._hostile import always, answer, hostile
from ._streamrelay import relay, tls_contexts


class Wrapping(httpx.HTTPTransport):
    """Reports errors its own way, and where they came from only by accident."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return super().handle_request(request)
        except httpx.HTTPError:
            raise httpx.ReadError("no answer")  # noqa: B904 - as some do


class AsyncWrapping(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except httpx.HTTPError:
            raise httpx.ReadError("no answer")  # noqa: B904 - as some do


CLIENTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "own connections": (lambda: None, lambda: None),
    "httpx": (httpx.Client, httpx.AsyncClient),
    "httpx2": (httpx2.Client, httpx2.AsyncClient),
    "a transport": (
        lambda: httpx.Client(transport=Wrapping()),
        lambda: httpx.AsyncClient(transport=AsyncWrapping()),
    ),
}


LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in ("httpx", "httpx2")]


@pytest.mark.parametrize("kind", ["own connections", "a transport", *LONG])
async def test_a_refused_certificate_is_raised_at_once(tmp_path: Path, kind: str) -> None:
    """A retry could not help, whatever sends."""
    serving, _ = tls_contexts(tmp_path)
    blocking, waiting = CLIENTS[kind]
    with hostile(always(answer(json.dumps(ACCOUNT).encode()))) as server, relay(server.port, tls=serving) as between:
        settings: dict[str, Any] = {"api_key": KEY, "base_url": f"https://127.0.0.1:{between.port}"}
        errors: list[APIConnectionError] = []

        def called() -> None:
            given = blocking()
            with TradeClient(**settings, http_client=given) as client, pytest.raises(APIConnectionError) as caught:
                client.account.get()
            errors.append(caught.value)
            if given is not None:
                given.close()

        thread = threading.Thread(target=called)
        thread.start()
        thread.join()
        given = waiting()
        async with AsyncTradeClient(**settings, http_client=given) as client:
            with pytest.raises(APIConnectionError) as caught:
                await client.account.get()
        errors.append(caught.value)
        if given is not None:
            await given.aclose()
    assert [(e.code, e.temporary, e.sent, e.retries) for e in errors] == [("certificate_refused", False, False, 0)] * 2
