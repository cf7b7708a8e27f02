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


TOO_MANY_FILES = """
import asyncio, os, resource
from tradesdk import APIConnectionError, AsyncTradeClient, TradeClient

async def awaited(client):
    await client.account.get()

resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
loop = asyncio.new_event_loop()
settings = {"api_key": "key", "base_url": "http://127.0.0.1:9"}
one, other = TradeClient(**settings), AsyncTradeClient(**settings)
one.account, other.account
files = []
try:
    while True:
        files.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
errors = []
for call in (one.account.get, lambda: loop.run_until_complete(awaited(other))):
    try:
        call()
    except APIConnectionError as error:
        errors.append((error.code, error.sent, error.outcome))
for file in files:
    os.close(file)
loop.close()
assert errors == [("too_many_files", False, "none")] * 2, errors
"""


FIRST_USE = """
import os, resource
from tradesdk import AsyncTradeClient, ChainWitness, Ledger, LocalSigner, MarketClient, TradeClient, TradeError
from tradesdk import create_keystore, fleet

settings = {"api_key": "key", "base_url": "http://127.0.0.1:9"}
server = "postgresql://user@127.0.0.1:9/fleet"
client, ledger = TradeClient(**settings), Ledger.memory()
market = MarketClient(base_url="http://127.0.0.1:9", ledger=ledger)
with_signals = TradeClient(**settings)
with_signals.signals
uses = [
    lambda: AsyncTradeClient(**settings),
    lambda: TradeClient(api_key="key", base_url="https://b\u00fccher.example"),
    lambda: ChainWitness("https://node.example"),
    *(lambda name=name: getattr(client, name) for name in "account agents wallets trades positions signals".split()),
    lambda: market.payments,
    lambda: with_signals.signals.stream(chain=8453, checkpoint=True),
    lambda: Ledger.postgres(server),
    lambda: fleet.FleetRateLimiter(server),
    lambda: create_keystore("keystore", "password", work=2),
]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
files = []
try:
    while True:
        files.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
errors, works = [], []
for number, use in enumerate(uses):
    try:
        use()
        works.append(number)
    except TradeError as error:
        if (error.code, "ulimit -n" in error.hint) != ("too_many_files", True):
            errors.append(repr(error))
for file in files:
    os.close(file)
assert not errors and len(works) < 3, (errors, works)  # what others have loaded already
for use in uses[:-3]:
    use()
"""


@pytest.mark.parametrize("script", [SCRIPT, TOO_MANY_FILES, FIRST_USE])
@pytest.mark.long
def test_the_library_for_retries_is_not_loaded(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
