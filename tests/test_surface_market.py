"""What users see of market data: calls and values with their documentation, both flavours alike, what loading costs."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable

import pytest

import tradesdk
import tradesdk.payments

from ._rows import each_of
from .test_surface import HEAVY, LIBRARIES, PUBLIC, loaded_by

CALLS = (
    "token_signals",
    "signal_history",
    "token_prices",
    "token_win_rate",
    "token_avg_prices",
    "top_performers",
    "aggregate_metrics",
    "supported_tokens",
)


def market_classes(flavour: str) -> list[type]:
    """What a market client consists of, and its own classes first."""
    prefix = "Async" if flavour == "_async" else ""
    found = []
    for module, name in (
        ("market_client", "MarketClient"),
        ("previews", "Previews"),
        ("batches", "Batches"),
        ("batches", "BatchRun"),
        ("payment_history", "Payments"),
        ("chain_witness", "ChainWitness"),
    ):
        found.append(getattr(importlib.import_module(f"tradesdk.{flavour}.{module}"), prefix + name))
    return found


def public_members(one: type) -> dict[str, object]:
    names = [name for name in dir(one) if not name.startswith("_")]
    return {name: inspect.getattr_static(one, name) for name in names}


@each_of("flavour", ["_async", "_sync"])
def test_everything_of_a_market_client_is_documented(flavour: str) -> None:
    seen = set()
    for one in market_classes(flavour):
        assert inspect.getdoc(one), one
        for name, member in public_members(one).items():
            seen.add(f"{one.__name__.removeprefix('Async')}.{name}")
            assert inspect.getdoc(member), f"{one.__qualname__}.{name}"
    assert {
        f"MarketClient.{name}" for name in (*CALLS, "quote", "dry_run", "batches", "payments", "with_options")
    } <= seen
    assert {f"Previews.{name}" for name in (*CALLS, "request")} <= seen
    assert {f"Payments.{name}" for name in ("get", "list", "resume", "reconcile", "mark", "trust", "spending")} <= seen
    assert {f"Batches.{name}" for name in CALLS[:5]} <= seen


def test_paid_calls_name_their_endpoint_and_price() -> None:
    for name in CALLS:
        path = "/v1/" + name.replace("_", "-")
        for one in (tradesdk.MarketClient, *market_classes("_sync")[1:2]):
            told = inspect.getdoc(getattr(one, name)) or ""
            assert path in told, (one, name)
            assert ("free" in told) if name == "supported_tokens" else re.search(r"\$0\.0[0-9]", told), (one, name)


def test_both_flavours_of_a_market_client_take_the_same() -> None:
    for waiting, blocking in zip(market_classes("_async"), market_classes("_sync"), strict=True):
        names = {name: name for name in public_members(waiting)} | {"__init__": "__init__"}
        if "aclose" in names:
            names["aclose"] = "close"
        assert set(names.values()) - {"__init__"} == set(public_members(blocking))
        for name, twin in names.items():
            mine, other = inspect.getattr_static(waiting, name), inspect.getattr_static(blocking, twin)
            assert type(mine) is type(other), name
            if inspect.isfunction(mine):
                assert shape(mine) == shape(other), f"{waiting.__name__}.{name}"


def shape(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    """What can be handed over; annotations differ where they name a flavour's classes."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def test_values_about_payments_are_documented() -> None:
    """Their attributes stand in the docstring of the class, the rest has one of its own."""
    for name in (
        "Budget",
        "Spending",
        "WindowSpending",
        "Quote",
        "MarketResult",
        "DryRun",
        "Payment",
        "Receipt",
        "Batch",
        "TokenQuery",
        "ChainVerdict",
        "AccountCode",
    ):
        one = getattr(tradesdk, name, None) or getattr(tradesdk.payments, name)
        told = one.__doc__
        for field in dataclasses.fields(one):
            assert f"    {field.name}:" in told, f"{name}.{field.name}"
        for member, value in public_members(one).items():
            if isinstance(value, property) or inspect.isroutine(value):
                assert inspect.getdoc(value), f"{name}.{member}"
    for one in (
        tradesdk.Ledger,
        tradesdk.LocalSigner,
        tradesdk.payments.DigestSigner,
        tradesdk.payments.TypedDataSigner,
    ):
        for member, value in public_members(one).items():
            if isinstance(value, property) or inspect.isroutine(value):
                assert inspect.getdoc(value), f"{one.__name__}.{member}"


def test_what_both_flavours_give_is_one_class() -> None:
    """So that a name of the package fits whatever a client returns."""
    own = {"AsyncPager", "AsyncBatchRun", "AsyncRateLimiter", "AsyncSignalStream", "AsyncChainWitness"}
    for name in PUBLIC - {"AsyncTradeClient", "AsyncMarketClient"} - own:
        home = getattr(getattr(tradesdk, name), "__module__", "")
        assert not home.startswith("tradesdk._async"), f"{name} is the async flavour's own"


@pytest.mark.long
def test_an_account_client_loads_nothing_about_money() -> None:
    make = "from tradesdk import TradeClient; TradeClient(api_key='k', base_url='https://service.example')"
    loaded = loaded_by(make, given=LIBRARIES)
    assert [name for name in loaded if "market" in name or name.startswith(("tradesdk.payments", "sqlite3"))] == []
    assert (
        loaded & {"sqlite3", "platformdirs", "secrets", "tradesdk._async.payment_flow", "tradesdk._sync.payment_flow"}
        == set()
    )


@pytest.mark.long
@pytest.mark.parametrize("client", ["MarketClient", "AsyncMarketClient"])
def test_making_a_market_client_loads_nothing_that_signs(client: str) -> None:
    """And nothing of what most programs never ask it for."""
    flavour = "_async" if client.startswith("Async") else "_sync"
    other = "tradesdk._sync" if flavour == "_async" else "tradesdk._async"
    make = f"from tradesdk import {client}; {client}(base_url='https://service.example')"
    loaded = loaded_by(make, given=LIBRARIES)
    assert f"tradesdk.{flavour}.market_client" in loaded
    never = HEAVY - ({"anyio", "asyncio"} if flavour == "_async" else set()) | {
        other,
        "tradesdk.payments.signing.keystore",
    }
    rarely = {f"tradesdk.{flavour}.{module}" for module in ("batches", "payment_history", "retry_loop", "pagination")}
    assert loaded & (never | rarely) == set()
    assert [name for name in loaded if name.startswith("tradesdk.models.")] == [
        name for name in loaded if name in ("tradesdk.models._base", "tradesdk.models.market")
    ]


@pytest.mark.long
def test_a_quote_loads_nothing_that_signs() -> None:
    make = "client = MarketClient(base_url='https://service.example', ledger=Ledger.memory())"
    ask = "assert client.quote.token_prices(['ETH']).amount == 30_000"
    loaded = loaded_by(f"from tradesdk import Ledger, MarketClient; {make}; {ask}", given=LIBRARIES)
    assert loaded & HEAVY == set()


def test_words_about_payments_load_without_the_network() -> None:
    names = "PaymentRefusedError, LedgerError, Budget, Payment, MarketResult, Receipt"
    loaded = loaded_by(f"from tradesdk import {names}")
    assert loaded & ({"httpx", "pydantic", "sqlite3"} | HEAVY) == set()
