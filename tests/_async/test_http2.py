"""A client of the user's own that speaks HTTP/2: a stream and calls share one connection."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any

import httpx
import httpx2
import pytest

from tradesdk import AsyncTradeClient, Connected, Disconnected, Heartbeat, StreamSignal
from tradesdk._stream import watchdog

from .._answers import ACCOUNT, KEY
from .._clock import VirtualClock
from .._http2 import Step, http2_server
from .._rows import each_of
from .._streamscript import CHAIN, beat, live

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused, and made sooner than one with certificates
STREAM = "/v1/signals/stream"


def answer(path: str) -> tuple[str, list[Step]]:
    """Three heartbeats and a signal, then silence; an account takes longer than this silence may last."""
    if path == STREAM:
        return "text/event-stream", [beat(1) + beat(2) + beat(3), live("a", 3), None]
    content = ACCOUNT if path == "/v1/account" else {"data": []}
    return "application/json", [0.25 if content is ACCOUNT else 0.0, json.dumps(content).encode()]


@pytest.mark.long
@each_of("library", [httpx, httpx2])
async def test_a_limit_of_the_stream_is_none_of_other_calls(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence of a tenth of the learned interval is too long here, for the stream and for nothing else."""
    monkeypatch.setattr(watchdog, "_TIMES", 0.1)
    monkeypatch.setattr(watchdog, "_LEAST", 0.1)
    with http2_server(answer) as server:
        async with (
            library.AsyncClient(http1=False, http2=True, verify=TLS) as http,
            AsyncTradeClient(
                api_key=KEY, base_url=server.url, clock=VirtualClock(), http_client=http, max_retries=0
            ) as client,
            client.signals.stream(chain=CHAIN, idle_timeout=30, heartbeats=True, reports=True) as stream,
        ):
            kinds = [type(await anext(stream)) for _ in range(5)]
            assert kinds == [Connected, Heartbeat, Heartbeat, Heartbeat, StreamSignal]
            assert (await client.account.get()).id == "acc_1"
            begin = time.monotonic()
            gone = await anext(stream)
            assert isinstance(gone, Disconnected)
            assert gone.reason.startswith("nothing came for")
            assert time.monotonic() - begin < 25, "it was the limit from before the heartbeats"
        assert server.paths(0) == ["/v1/signals/history", STREAM, "/v1/account"]
