"""A shell for every test; services to talk to."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from tradesdk import TradeClient
from tradesdk_mock import GapOptions, MockClock, MockServer

from .._postgres import Postgres, new_schema
from .._stock import stocked, stocked_worlds
from ._services import Scripted, scripted
from ._streams import quick_market
from ._terminal import Terminal

BUYER_KEY = "0x" + "6b" * 32
NOON = 1_795_262_400  # 2026-11-21 UTC


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The URL of a database of its own."""
    name = new_schema()
    postgres.do(f"CREATE DATABASE {name}")
    yield postgres.url().replace("/postgres?", f"/{name}?")
    postgres.do(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def trade(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    """`trade` without any settings; it sends every request once, unless a test wants more."""
    made = Terminal(monkeypatch, tmp_path)
    made.env["TRADE_MAX_RETRIES"] = "0"
    return made


@pytest.fixture
def patient(trade: Terminal) -> None:
    """`trade` sends a request again, as it does without settings."""
    del trade.env["TRADE_MAX_RETRIES"]


@pytest.fixture(scope="package")
def server() -> Iterator[MockServer]:
    """One world that stands still: two commands, and two runs, read the same. Most tests have a tenant of their own."""
    with MockServer(signals="scripted", gaps=GapOptions(enterprise_limit=60_000), clock=MockClock(NOON)) as running:
        running.populate("shared")
        running.set_plan("shared", "enterprise")  # no minute ends: its requests must do for all
        yield running


@pytest.fixture
def world(trade: Terminal, server: MockServer) -> Terminal:
    """`trade` on a filled tenant that no test changes. Its time stands still: ask for dates, not for ages."""
    trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_shared"}
    return trade


@pytest.fixture
def own(request: pytest.FixtureRequest, trade: Terminal, server: MockServer) -> Terminal:
    """`trade` on a filled tenant of this test."""
    tenant = f"cli{sha256(request.node.nodeid.encode()).hexdigest()[:12]}"  # what it holds does not follow from others
    server.populate(tenant, trades=12)
    trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": f"mock_full_{tenant}"}
    return trade


@pytest.fixture
def client(own: Terminal) -> Iterator[TradeClient]:
    """The SDK's client on the tenant of this test."""
    with TradeClient(api_key=own.env["TRADE_API_KEY"], base_url=own.env["TRADE_BASE_URL"]) as made:
        yield made


@pytest.fixture
def worlds(trade: Terminal) -> None:
    """What `trade --mock` and `trade --world` begin with, without building it."""
    stocked_worlds(trade.home, "default", "one", "side", "w")


@pytest.fixture
def service(trade: Terminal) -> Iterator[Scripted]:
    """A service that says what the test wants; `trade` is set to it."""
    with scripted() as running:
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "key-of-the-test"}
        yield running


@pytest.fixture
def shop() -> Iterator[MockServer]:
    """A mock that sells market data, with books of its own."""
    with MockServer(seed=7, signals="scripted") as running:
        stocked(running)
        yield running


@pytest.fixture
def buyer(trade: Terminal, shop: MockServer) -> Terminal:
    """`trade` with a wallet, at that shop."""
    trade.env |= {"TRADE_MARKET_BASE_URL": shop.url, "TRADE_WALLET_KEY": BUYER_KEY}
    return trade


@pytest.fixture(scope="module")
def stock() -> Iterator[MockServer]:
    """A mock that sells market data, for the tests of a module: agents use it."""
    with MockServer(seed=7, signals="scripted") as running:
        stocked(running)
        yield running


@pytest.fixture
def market(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockServer]:
    """A market whose signals a test emits; `trade` is set to it, and waits for nothing."""
    with quick_market(trade, monkeypatch) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """An empty folder, beside what `trade` keeps."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture(scope="package")
def tokens(server: MockServer) -> tuple[str, ...]:
    """Eleven symbols that there are; they are the same in every world."""
    answer = httpx.post(f"{server.url}/v1/supported-tokens", json={"limit": 40}, trust_env=False).json()
    return tuple(dict.fromkeys(one["symbol"] for one in answer["data"]["tokens"]))[:11]
