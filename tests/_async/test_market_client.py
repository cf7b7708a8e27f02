"""The settings of a market client, and its life."""

from __future__ import annotations

import copy
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    AuthenticationError,
    Budget,
    ConfigError,
    InvalidArgumentError,
    Ledger,
    LocalSigner,
    NotFoundError,
    PaymentRefusedError,
    TradeError,
)

from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import BASE, PRICE, TWO, Seller
from ..unit._ledger import set_budget
from ..unit._offers import prices
from ._market import market_of, refused

pytestmark = pytest.mark.twin

WALLET_KEY = "0x" + "01" * 32
VARIABLES = [f"TRADE_BUDGET_{name}" for name in ("PER_CALL", "PER_HOUR", "PER_DAY", "PER_MONTH", "TOTAL")]
FREE = {"success": True, "data": {"total": 0, "tokens": []}, "error": None}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nothing of this machine's, and a home of its own."""
    for name in ("TRADE_API_KEY", "TRADE_BASE_URL", "TRADE_MARKET_BASE_URL", "TRADE_WALLET_KEY", *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRADE_HOME", str(tmp_path))
    return monkeypatch


def gives(body: Any, status: int = 200) -> Seller:
    """A seller that asks for nothing."""
    return Seller(asking=lambda request: httpx.Response(status, json=body))


# Where the service is.


async def test_base_url_comes_from_the_nearest(environment: pytest.MonkeyPatch) -> None:
    http = httpx.AsyncClient(base_url="https://of-client.example/v1", transport=httpx.MockTransport(Seller()))
    assert AsyncMarketClient(http_client=http).base_url == "https://of-client.example"
    environment.setenv("TRADE_BASE_URL", "https://account.example")
    assert AsyncMarketClient(http_client=http).base_url == "https://account.example"
    environment.setenv("TRADE_MARKET_BASE_URL", "https://market.example/v1/")
    assert AsyncMarketClient(http_client=http).base_url == "https://market.example"
    assert AsyncMarketClient(http_client=http, base_url="https://given.example").base_url == "https://given.example"
    environment.setenv("TRADE_MARKET_BASE_URL", " ")
    assert AsyncMarketClient(http_client=http).base_url == "https://account.example"


def test_a_base_url_that_is_no_good() -> None:
    with pytest.raises(ConfigError, match="no base URL"):
        AsyncMarketClient()
    for url in ("http://market.example", "ftp://market.example", "market.example", "https://a:b@market.example", ""):
        with pytest.raises(ConfigError, match="base URL"):
            AsyncMarketClient(base_url=url)


# The API key.


async def test_the_api_key_stays_at_home(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TRADE_API_KEY", "key-of-the-account")
    seller = Seller()
    await market_of(seller).token_prices(TWO)
    assert len(seller.requests) == 2
    assert all("Authorization" not in request.headers for request in seller.requests)


@pytest.mark.parametrize("given", [True, False])
async def test_the_api_key_goes_along_when_told(given: bool, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TRADE_API_KEY", "key-of-the-environment")
    seller = Seller()
    options = {"api_key": lambda: "key-that-is-given"} if given else {}
    await market_of(seller, send_api_key=True, **options).token_prices(TWO)
    key = "key-that-is-given" if given else "key-of-the-environment"
    assert [request.headers["Authorization"] for request in seller.requests] == [f"Bearer {key}"] * 2


def test_an_api_key_without_the_wish_to_send_it() -> None:
    with pytest.raises(ConfigError, match="send_api_key=True") as caught:
        market_of(Seller(), api_key="key-that-is-given")
    assert "key-that-is-given" not in str(caught.value)
    with pytest.raises(ConfigError, match="TRADE_API_KEY"):
        market_of(Seller(), send_api_key=True)


@each_of(
    ("body", "is_elsewhere"),
    [
        ({"error": {"code": "not_found", "message": "No such path."}}, True),
        ("<html>", True),
        (["unknown token"], True),
        ({"success": False, "data": None, "error": "unknown token"}, False),
    ],
)
async def test_a_404_says_that_market_data_may_be_elsewhere(body: Any, is_elsewhere: bool) -> None:
    """Unless it has the form of the market data's own errors."""
    with pytest.raises(NotFoundError) as caught:
        await market_of(gives(body, 404)).token_prices(TWO)
    assert ("base_url= or TRADE_MARKET_BASE_URL" in str(caught.value)) is is_elsewhere


async def test_a_401_says_how_to_send_the_key() -> None:
    body = {"error": {"code": "unauthorized", "message": "a key, key-0123456789, is needed"}}
    with pytest.raises(AuthenticationError, match=r"a key, .* is needed .*send_api_key=True") as caught:
        await market_of(gives(body, 401)).token_prices(TWO)
    assert caught.value.payment is None
    client = market_of(gives(body, 401), send_api_key=True, api_key="key-0123456789")
    with pytest.raises(AuthenticationError) as caught:
        await client.token_prices(TWO)
    assert "send_api_key" not in str(caught.value)
    assert "key-0123456789" not in str(caught.value)


# Who pays.


async def test_the_signer_of_the_environment_is_made_when_it_is_needed(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TRADE_WALLET_KEY", WALLET_KEY)
    seller = Seller()
    client = market_of(seller, signer=None)
    result = await client.token_prices(TWO)
    assert result.payment is not None
    assert result.payment.payer == LocalSigner.from_key(WALLET_KEY).address


@pytest.mark.parametrize("key", [WALLET_KEY + "7", WALLET_KEY[:-1], "0x" + "g7" * 32, "7" * 200, "0x" + "f" * 64])
async def test_a_key_that_is_no_key_is_never_echoed(key: str, environment: pytest.MonkeyPatch) -> None:
    """What needs no signer works all the same."""
    environment.setenv("TRADE_WALLET_KEY", key)
    seller = gives(FREE)
    client = market_of(seller, signer=None)
    assert (await client.quote.token_prices(TWO)).amount == PRICE
    assert (await client.supported_tokens()).data.total == 0
    seller.asking = None
    with pytest.raises(ConfigError, match="TRADE_WALLET_KEY") as caught:
        await client.token_prices(TWO)
    assert key not in str(caught.value)
    assert key[10:50] not in repr(caught.value)
    assert seller.paid == []


async def test_without_a_signer_quotes_and_what_is_free_work() -> None:
    client = market_of(gives(FREE), signer=None)
    assert (await client.quote.token_prices(TWO)).price == Decimal("0.06")
    assert (await client.supported_tokens(limit=5)).payment is None
    error = await refused(Seller(), "no_signer", signer=None)
    assert "TRADE_WALLET_KEY" in error.hint
    assert "LocalSigner" in error.hint


async def test_what_a_service_gives_for_nothing_is_taken() -> None:
    for signer in (None, CountingSigner()):
        result = await market_of(gives(prices(*TWO)), signer=signer, budget=None).token_prices(TWO)
        assert [one.symbol for one in result.data.results] == TWO
        assert (result.payment, result.receipt, result.charged) == (None, None, False)


# What may be spent.


@pytest.mark.parametrize("name", VARIABLES)
async def test_a_budget_of_the_environment(name: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv(name, "0.05")
    await refused(Seller(), "over_budget")
    environment.setenv(name, "")
    await market_of(Seller()).token_prices(TWO)


async def test_the_strictest_budget_wins(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TRADE_BUDGET_PER_CALL", "0.08")
    environment.setenv("TRADE_BUDGET_TOTAL", "3")
    ledger = Ledger.memory()
    set_budget(ledger, Budget(per_call="0.07", per_hour="2"))
    client = market_of(Seller(), ledger=ledger, budget=Budget(per_call="1", total="2.50", per_hour="0.12"))
    limits = (await client.quote.token_prices(TWO)).spending.budget
    assert limits.dollars() == {
        "per_call": Decimal("0.07"),
        "per_hour": Decimal("0.12"),
        "per_day": None,
        "per_month": None,
        "total": Decimal("2.50"),
    }
    for _ in range(2):
        await client.token_prices(TWO)
    with pytest.raises(PaymentRefusedError, match=r"over_budget: .*\$0\.06"):
        await client.token_prices(TWO)
    empty = Ledger.memory()
    set_budget(empty, Budget(per_call="0.05"))
    assert "0.05" in (await refused(Seller(), "over_budget", ledger=empty)).message


async def test_without_a_budget_only_max_price_is_paid() -> None:
    error = await refused(Seller(), "no_budget", budget=None)
    assert "max_price" in error.hint or "budget" in error.hint
    seller = Seller()
    client = market_of(seller, budget=None)
    assert not (await client.quote.token_prices(TWO)).affordable
    await client.token_prices(TWO, max_price="0.06")
    assert len(seller.paid) == 1
    with pytest.raises(PaymentRefusedError, match="no_budget"):
        await client.token_prices(TWO)
    await market_of(Seller(), budget=Budget.unlimited()).token_prices(TWO)


# What is handed in, and what is not.


@each_of(
    "wrong",
    [
        {"http_client": object()},
        {"clock": object()},
        {"retry": 3},
        {"budget": "5.00"},
        {"budget": 5},
        {"ledger": "ledger.sqlite3"},
        {"deadline": 0},
        {"timeout": -1},
        {"max_retries": 6},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_setting_of_the_wrong_kind(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        market_of(Seller(), **wrong)


@each_of("name", ["send_api_key", "check_tokens", "collect", "throttle", "allow_insecure"])
def test_a_switch_is_true_or_false(name: str) -> None:
    wrong: list[Any] = ["no", "", 0, 1, None, []]
    for value in wrong:
        with pytest.raises(ConfigError, match=f"^{name} must be True or False, not "):
            market_of(Seller(), **{name: value})


async def test_an_http_client_that_is_handed_in_stays_as_it_was() -> None:
    seller = Seller()
    http = httpx.AsyncClient(
        transport=httpx.MockTransport(seller), headers={"X-Mine": "1"}, cookies={"a": "b"}, params={"q": "1"}, timeout=3
    )
    before = (dict(http.headers), dict(http.cookies), str(http.params), http.timeout, str(http.base_url))
    async with market_of(seller, http_client=http) as client:
        await client.token_prices(TWO)
    assert not http.is_closed
    assert (dict(http.headers), dict(http.cookies), str(http.params), http.timeout, str(http.base_url)) == before
    assert {str(request.url) for request in seller.requests} == {f"{BASE}/v1/token-prices"}
    assert all(request.headers["X-Mine"] == "1" for request in seller.requests)
    assert "PAYMENT-SIGNATURE" not in http.headers


async def test_a_client_is_closed_once_and_for_all() -> None:
    ledger = Ledger.memory()
    client = AsyncMarketClient(base_url="http://127.0.0.1:1", ledger=ledger, signer=CountingSigner())
    for _ in range(2):
        await client.aclose()
    for call in (client.supported_tokens, client.aggregate_metrics):
        with pytest.raises(TradeError, match="closed"):
            await call()
    assert ledger.history() == []


async def test_a_ledger_that_is_handed_in_stays_open(tmp_path: Path) -> None:
    for ledger in (Ledger.memory(), Ledger(tmp_path / "mine.sqlite3")):
        async with market_of(Seller(), ledger=ledger) as client:
            await client.token_prices(TWO)
        assert len(ledger.history()) == 1
        ledger.close()


async def test_a_ledger_of_its_own_is_in_the_home_folder(tmp_path: Path) -> None:
    async with market_of(Seller(), ledger=None) as client:
        await client.token_prices(TWO)
    file = tmp_path / "ledger.sqlite3"
    assert os.stat(file).st_mode & 0o077 == 0
    with Ledger(file) as ledger:
        assert len(ledger.history()) == 1


async def test_making_a_client_and_asking_what_is_free_leave_no_file(tmp_path: Path) -> None:
    async with market_of(gives(FREE), ledger=None) as client:
        await client.supported_tokens()
        await client.quote.supported_tokens()
    assert os.listdir(tmp_path) == []


async def test_a_client_shows_and_copies_nothing(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TRADE_WALLET_KEY", WALLET_KEY)
    client = market_of(Seller(), signer=None, send_api_key=True, api_key="key-0123456789")
    await client.token_prices(TWO)
    assert repr(client).removeprefix("<Async").removeprefix("<") == f"MarketClient {BASE}>"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(client, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            duplicate(client)


async def test_what_is_wrong_with_the_tokens_is_said_before_anything_else() -> None:
    seller = Seller()
    client = market_of(seller, signer=None, budget=None)
    for tokens in ([], ["A"] * 6, ["eth", "ETH"], "ETH", [""], [5], None):
        bad: Any = tokens
        with pytest.raises(InvalidArgumentError, match="tokens"):
            await client.token_prices(bad)
        with pytest.raises(InvalidArgumentError, match="tokens"):
            await client.quote.token_prices(bad)
    assert seller.requests == []
