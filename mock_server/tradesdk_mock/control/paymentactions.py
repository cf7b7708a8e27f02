"""What the control API does about payments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..api.validation import Query
from ..core.errors import invalid
from ..core.messages import Request
from ..payments import settlements
from ..payments.report import MockPayments
from ..state.world import World

Action = Callable[[World, Request, dict[str, Any]], object]
_MOST = 10_000


def read_payments(world: World, request: Request, body: dict[str, Any]) -> object:
    query = Query(request.query, world.gaps)
    query.only("payer", "path", "after", "limit")
    books, payer = MockPayments(world), query.text("payer")
    found = books.settlements(payer, _path(query))
    return {
        "data": [asdict(each) for each in _part(query, found)],
        "spent": sum(each.amount for each in found),
        "signatures": books.signatures(payer),
        "pay_to": books.pay_to,
    }


def read_presentations(world: World, request: Request, body: dict[str, Any]) -> object:
    query = Query(request.query, world.gaps)
    query.only("payer", "after", "limit")
    found = MockPayments(world).presentations(query.text("payer"))
    return {"data": [asdict(each) for each in _part(query, found)]}


def read_twice(world: World, request: Request, body: dict[str, Any]) -> object:
    query = Query(request.query, world.gaps)
    query.only("payer", "within")
    within = query.integer("within")
    if within is not None and within < 0:
        raise invalid("within: must be 0 or more seconds")
    twice = MockPayments(world).charged_twice(query.text("payer"), within=within)
    return {"data": [[asdict(each) for each in found] for found in twice]}


def read_balances(world: World, request: Request, body: dict[str, Any]) -> object:
    found = settlements.balances(world)
    return {
        "data": [{"payer": payer, "balance": held} for payer, held in found.items()],
        "others": world.gaps.payer_balance * settlements.MICRO,
    }


def read_balance(world: World, request: Request, body: dict[str, Any]) -> object:
    payer = settlements.checked(request.params["payer"])
    return {"payer": settlements.spelled(payer), "balance": settlements.balance(world, payer)}


def change_balance(world: World, request: Request, body: dict[str, Any]) -> object:
    if list(body) != ["balance"]:
        raise invalid("balance: required, and nothing else")
    settlements.set_balance(world, request.params["payer"], body["balance"])
    return read_balance(world, request, {})


def _path(query: Query) -> str | None:
    path = query.text("path")
    if path is not None and path[:1] not in ("/", "*"):
        raise invalid("path: must be a path such as /v1/token-prices, or a pattern that begins with *")
    return path


def _part(query: Query, found: list[Any]) -> list[Any]:
    """Those behind the number `after`, at most `limit` of them."""
    after, limit = query.integer("after") or 0, query.integer("limit")
    if limit is not None and not 1 <= limit <= _MOST:
        raise invalid(f"limit: must be from 1 to {_MOST:,}")
    return [each for each in found if each.n > after][: limit or _MOST]


PAYMENT_ACTIONS: list[tuple[str, dict[str, Action]]] = [
    ("/_mock/payments", {"GET": read_payments}),
    ("/_mock/payments/presentations", {"GET": read_presentations}),
    ("/_mock/payments/twice", {"GET": read_twice}),
    ("/_mock/payments/balances", {"GET": read_balances}),
    ("/_mock/payments/balances/{payer}", {"GET": read_balance, "PUT": change_balance}),
]
