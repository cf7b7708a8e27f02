"""Answers of the service, made by hand, and a stand-in that gives them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import httpx
import respx

from ._clock import START

Scripted = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]

BASE = "https://service.example"
KEY = "key-0123456789"
SCRIPTED = respx.MockRouter(assert_all_called=False)
"""Intercepts the connections of clients that `client_of` makes; tests/conftest.py stops it after the test."""
CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    422: "validation_error",
    429: "rate_limited",
    500: "internal_error",
    503: "service_unavailable",
}


class Service:
    """Answers what is scripted, in order, and keeps what was asked. A request beyond the script fails the test."""

    def __init__(self, *answers: Scripted) -> None:
        self._answers = deque(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(f"nobody expected {request.method} {request.url}")
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            if isinstance(answer, httpx.RequestError):
                answer.request = request
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    @property
    def sent(self) -> list[str]:
        """Method and target of every request."""
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    @property
    def left(self) -> int:
        return len(self._answers)


def forever(make: Callable[[], httpx.Response]) -> Callable[[httpx.Request], httpx.Response]:
    """The same answer to every request."""
    return lambda request: make()


def ok(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers=_named(headers))


def failed(status: int, message: str = "told why", **headers: str) -> httpx.Response:
    """An error of the service itself."""
    code = CODES.get(status, "other")
    return httpx.Response(status, json={"error": {"code": code, "message": message}}, headers=_named(headers))


def bare(status: int, **headers: str) -> httpx.Response:
    """An error of something in front of the service."""
    return httpx.Response(status, content=b"<h1>oops</h1>", headers={"content-type": "text/html"} | _named(headers))


def limited(remaining: int, reset: float, limit: int = 60) -> dict[str, Any]:
    """The three rate-limit headers, as keyword arguments of the functions above."""
    return {
        "x_ratelimit_limit": str(limit),
        "x_ratelimit_remaining": str(remaining),
        "x_ratelimit_reset": str(int(reset)),
    }


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def page(items: list[Any], cursor: str | None = None) -> Any:
    return {"data": items} if cursor is None else {"data": items, "next_cursor": cursor}


ACCOUNT: Any = {"id": "acc_1", "email": "a@example.com", "plan": "pro", "created_at": START, "api_key_last4": "6789"}
USAGE: Any = {
    "requests": {"used": 5, "limit": 100},
    "agents": {"used": 1, "limit": 3},
    "reset_at": START + 86_400,
}
BALANCE: Any = {"wallet_id": "w1", "native_balance_usd": 12.5, "token_balances": [], "updated_at": START}


def summary(agent_id: str = "a1", **changes: Any) -> dict[str, Any]:
    return {
        "id": agent_id,
        "name": "mine",
        "status": "idle",
        "chain_id": 8453,
        "wallet_id": "w1",
        "created_at": START,
    } | changes


def created(agent_id: str = "a1", **changes: Any) -> Any:
    return summary(agent_id, risk={}, min_confidence=0.75, max_positions=5) | changes


def agent(agent_id: str = "a1", **changes: Any) -> Any:
    stats = {"total_trades": 3, "win_rate_pct": 66.7, "total_pnl_usd": -1.5}
    return created(agent_id, stats=stats, updated_at=START + 60) | changes


def wallet(wallet_id: str = "w1", **changes: Any) -> Any:
    return {
        "id": wallet_id,
        "address": "0x" + "Ab" * 20,
        "chain_id": 8453,
        "label": "Trading",
        "created_at": START,
    } | changes


def trade(trade_id: str = "t1", **changes: Any) -> dict[str, Any]:
    return {
        "id": trade_id,
        "agent_id": "a1",
        "token_address": "0x" + "cd" * 20,
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "BUY",
        "entry_price_usd": 1.5,
        "exit_price_usd": None,
        "pnl_usd": None,
        "roi_pct": None,
        "status": "open",
        "opened_at": START,
        "closed_at": None,
    } | changes


def position(position_id: str = "p1", **changes: Any) -> dict[str, Any]:
    return {
        "id": position_id,
        "agent_id": "a1",
        "token_address": "0x" + "cd" * 20,
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "entry_price_usd": 1.5,
        "current_price_usd": 1.75,
        "unrealized_pnl_usd": 1.5,
        "stop_loss_price": 1.25,
        "take_profit_price": 2.0,
        "trailing_stop_price": 1.5,
        "opened_at": START,
    } | changes


def signal(signal_id: str = "s1", **changes: Any) -> dict[str, Any]:
    return {
        "id": signal_id,
        "token_address": "0x" + "cd" * 20,
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "SELL",
        "confidence": 0.9,
        "price_usd": 0.25,
        "timestamp": START,
    } | changes
