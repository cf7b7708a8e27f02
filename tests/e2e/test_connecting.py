"""A host with several addresses, one of which swallows what is sent to it, as a broken IPv6 route does."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tradesdk import APIConnectionError, APITimeoutError, AsyncTradeClient, RetryPolicy, Timeout, TradeClient

from .._answers import ACCOUNT, KEY
from .._hostile import always, answer, hostile
from .._rows import each_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine, and a full queue drops")

HOST = "service.example"
SILENT, REFUSING, GOOD = "127.0.0.2", "127.0.0.3", "127.0.0.1"


@contextmanager
def swallowing(port: int) -> Iterator[None]:
    """Nobody takes connections there, and no more of them fit into the queue: packets of others are dropped."""
    with ExitStack() as held:
        listener = held.enter_context(socket.create_server((SILENT, port), backlog=0))
        for _ in range(3):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield


def blocking(settings: dict[str, Any]) -> None:
    with TradeClient(**settings) as client:
        client.account.get()


def awaited(settings: dict[str, Any]) -> None:
    async def run() -> None:
        async with AsyncTradeClient(**settings) as client:
            await client.account.get()

    asyncio.run(run())


@each_of(
    ("addresses", "error", "most"),
    [
        ([SILENT, GOOD], None, 1.5),
        ([REFUSING, GOOD], None, 1.0),
        ([SILENT, SILENT, REFUSING], APITimeoutError, 2.0),
        ([REFUSING, REFUSING], APIConnectionError, 1.0),
    ],
)
@each_of("call", [blocking, awaited])
@pytest.mark.long
def test_what_another_address_costs(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[dict[str, Any]], None],
    addresses: list[str],
    error: type[APIConnectionError] | None,
    most: float,
) -> None:
    with hostile(always(answer(json.dumps(ACCOUNT).encode()))) as server, swallowing(server.port):
        resolve = socket.getaddrinfo

        def resolved(host: Any, port: Any, *more: Any, **options: Any) -> list[Any]:
            if host not in (HOST, HOST.encode()):
                return resolve(host, port, *more, **options)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port))) for address in addresses]

        settings = {
            "api_key": KEY,
            "base_url": f"http://{HOST}:{server.port}",
            "allow_insecure": True,
            "timeout": Timeout(connect=60),
            "deadline": 1.0 if error is APITimeoutError else 60.0,
            "retry": RetryPolicy(max_retries=0),
        }
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", resolved)
            began = time.monotonic()
            if error is None:
                call(settings)
            else:
                with pytest.raises(error) as caught:
                    call(settings)
                assert (type(caught.value), caught.value.sent) == (error, False)
            assert time.monotonic() - began < most
