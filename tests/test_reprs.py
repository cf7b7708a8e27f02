"""What a person sees at a prompt and in an editor: objects by name, times in UTC, fields with their units."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest

from tradesdk import Agent, AsyncTradeClient, Budget, Ledger, MarketClient, SystemClock, TradeClient, models
from tradesdk.models._base import Model

from ._answers import KEY, agent
from ._rows import each_of

URL = "http://127.0.0.1:1"


def parts() -> list[Any]:
    """The clients, and what hangs on them."""
    market = MarketClient(base_url=URL, budget=Budget.unlimited(), ledger=Ledger.memory())
    found: list[Any] = [TradeClient(api_key=KEY, base_url=URL), AsyncTradeClient(api_key=KEY, base_url=URL), market]
    for client in list(found):
        names = [name for name in dir(client) if not name.startswith("_")]
        found += [value for name in names if not inspect.ismethod(value := getattr(client, name))]
    return [*found, SystemClock(), found[0].agents.list(), found[0].signals.stream(chain=8453)]


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
def test_every_field_has_a_docstring(model: type[Model]) -> None:
    """Editors and the reference show it."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(model)).body if isinstance(node, ast.ClassDef))
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(ast.Constant(str(doc))):
                    found[field.target.id] = doc
    own = set(model.__annotations__) & set(model.model_fields)
    assert [name for name in own if not found.get(name, "").strip().endswith(".")] == []


WRONG_NAMES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "a part of a name": (lambda trade, market: market.prices, "token_avg_prices, token_prices"),
    "the singular": (lambda trade, market: trade.agent, "agents"),
    "more than a name": (lambda trade, market: trade.agents.list_all, "list"),
}


@each_of("wrong", WRONG_NAMES)
def test_a_name_that_does_not_exist_lists_those_like_it(wrong: str) -> None:
    look, alike = WRONG_NAMES[wrong]
    with (
        TradeClient(api_key=KEY, base_url=URL) as trade,
        MarketClient(base_url=URL, ledger=Ledger.memory()) as market,
        pytest.raises(AttributeError) as caught,
    ):
        look(trade, market)
    assert caught.value.__notes__ == [f"hint: it has {alike}"]


def test_a_pager_that_is_taken_for_a_list_says_what_it_has() -> None:
    with TradeClient(api_key=KEY, base_url=URL) as trade, pytest.raises(TypeError, match=r"use first\(\)"):
        trade.agents.list()[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="async for"):
        iter(AsyncTradeClient(api_key=KEY, base_url=URL).agents.list())  # type: ignore[call-overload]
