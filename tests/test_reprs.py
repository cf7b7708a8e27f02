"""What a person sees at a prompt and in an editor: objects by name, times in UTC, fields with their units."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import Any

import pytest

import tradesdk
from tradesdk import Agent, AsyncTradeClient, Budget, Ledger, MarketClient, Signal, SystemClock, TradeClient, models
from tradesdk.models._base import Model
from tradesdk_mock import MockClock, MockService

from ._answers import KEY, agent
from ._rows import each_of

URL = "http://127.0.0.1:1"


def parts() -> list[Any]:
    """The clients, and what hangs on them; parts of the mock."""
    market = MarketClient(base_url=URL, budget=Budget.unlimited(), ledger=Ledger.memory())
    found: list[Any] = [TradeClient(api_key=KEY, base_url=URL), AsyncTradeClient(api_key=KEY, base_url=URL), market]
    for client in list(found):
        names = [name for name in dir(client) if not name.startswith("_")]
        found += [value for name in names if not inspect.ismethod(value := getattr(client, name))]
    mocked = MockClock(5), MockService(clock=MockClock(5)).payments
    return [*found, SystemClock(), found[0].agents.list(), found[0].signals.stream(chain=8453), *mocked]


def test_nothing_is_shown_by_its_place_in_memory() -> None:
    shown = [repr(part) for part in parts()]
    assert len(shown) > 20
    assert [text for text in shown if "object at 0x" in text] == []


def test_times_of_models_are_shown_in_utc() -> None:
    shown = repr(Agent.model_validate(agent("a1")))
    assert "created_at=datetime.datetime(" in shown
    assert shown.count("tzinfo=datetime.timezone.utc") == 2
    assert "TzInfo" not in shown


def all_models() -> list[type[Model]]:
    found: set[type[Model]] = set()
    for module in pkgutil.iter_modules(models.__path__):
        for value in vars(import_module(f"tradesdk.models.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Model) and "[" not in value.__name__:
                found.add(value)
    return sorted(found, key=lambda model: model.__name__)


@each_of("model", all_models())
def test_every_field_has_a_description(model: type[Model]) -> None:
    """The docstring below it, which editors show, is that of the JSON schema."""
    properties = model.model_json_schema().get("properties", {})
    assert len(properties) == len(model.model_fields)
    assert [name for name, one in properties.items() if not one.get("description", "").endswith(".")] == []


def test_descriptions_name_units_and_those_of_a_base_class_hold() -> None:
    schema = tradesdk.TradeDetail.model_json_schema()["properties"]
    assert schema["entry_price_usd"]["description"] == "Price at entry, in USD."
    assert schema["entry_tx_hash"]["description"] == "Hash of the entry's transaction."
    prices = tradesdk.TokenPrice.model_json_schema()["properties"]
    assert prices["currentPriceEth"]["description"] == "The price in ETH."
    assert Signal.model_json_schema()["properties"]["confidence"]["description"].endswith("0.0 to 1.0.")


def test_a_pager_that_is_taken_for_a_list_says_what_it_has() -> None:
    with TradeClient(api_key=KEY, base_url=URL) as trade, pytest.raises(TypeError, match=r"use first\(\)"):
        trade.agents.list()[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="async for"):
        iter(AsyncTradeClient(api_key=KEY, base_url=URL).agents.list())  # type: ignore[call-overload]
