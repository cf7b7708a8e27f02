"""A failure that is not worth a retry costs no more than raising it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

# A new process shows what a first failure loads.
SCRIPT = """
import asyncio, sys
import httpx
from tradesdk import APIResponseError, AsyncTradeClient, NotFoundError, TradeClient

for expected, status in ((NotFoundError, 404), (APIResponseError, 200)):
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text="hello"))
    settings = {"api_key": "key", "base_url": "https://service.example"}

    def blocking():
        TradeClient(**settings, http_client=httpx.Client(transport=transport)).account.get()

    async def awaited():
        await AsyncTradeClient(**settings, http_client=httpx.AsyncClient(transport=transport)).account.get()

    for call in (blocking, lambda: asyncio.run(awaited())):
        try:
            call()
        except expected:
            assert "tenacity" not in sys.modules
        else:
            raise AssertionError(f"{expected} was not raised")
"""


@pytest.mark.long
def test_the_library_for_retries_is_not_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
