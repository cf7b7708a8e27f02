"""Small services on loopback that say whatever a test wants, for what a well-behaved mock never says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

from .. import _answers
from .._hostile import Visit, answer
from .._hostile import hostile as hostile_server

# Cursor movement, window title, bell, carriage return, line break, tab, C1, bidi, invisible, markup, lone surrogate.
HOSTILE = (
    "\x1b[2J\x1b[31mred\x1b[0m \x1b]0;title\x07 \r\n\t \x9b31m \u202eevil\u202c \u2066x\u2069 \u200b\u2028 "
    "[bold]b[/bold] [link=http://x]l[/link] :smile: \U000e0041 \x7f"
)
LONE = "\ud800"


class Scripted:
    """Answers every request with what is in `answers`: the first once, the last forever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.seen: list[tuple[str, str, bytes]] = []
        self.keys: list[str] = []
        self.url = ""

    def says(self, status: int, body: object, **headers: str) -> None:
        """From now on: this answer; header names have `_` for `-`."""
        self.answers = [_answer(status, body, headers)]

    def then(self, status: int, body: object, **headers: str) -> None:
        """After what it says already: this answer."""
        self.answers.append(_answer(status, body, headers))

    def fails(self, status: int, code: str, message: str, **headers: str) -> None:
        """From now on: an error in the service's own form."""
        self.says(status, {"error": {"code": code, "message": message}}, **headers)


def _answer(status: int, body: object, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, content


@contextmanager
def scripted() -> Iterator[Scripted]:
    service = Scripted()

    def answering(visit: Visit) -> None:
        method, path, headers = visit.request
        service.seen.append((method, path, visit.body))
        service.keys.append(headers.get("authorization", ""))
        status, more, content = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
        given: dict[str, Any] = {"Content-Type": "application/json", "Date": formatdate(usegmt=True)} | more
        visit.send(answer(content, status=status, kind=None, **given))

    with hostile_server(answering) as server:
        service.url = server.url
        yield service


def agent(text: str = "calm", **fields: Any) -> dict[str, Any]:
    return _answers.summary("agt_1", **{"name": text, "wallet_id": "wal_1", "created_at": 1767268800} | fields)


def hostile(path: str) -> Any:
    """What a stranger could make the service say on `path`, with `HOSTILE` wherever text may stand."""
    text = HOSTILE
    token = {"token_address": text, "token_symbol": text}
    trade = _answers.trade("trd_1", agent_id=text, direction=text, status=text, **token)
    signal = _answers.signal(text, direction=text, price_usd=0.00001234, **token)
    full = agent(text, status=text, wallet_id=text, risk={text: text}, min_confidence=0.75, max_positions=5)
    wallet = {"id": text, "address": text, "chain_id": 8453, "label": text, "created_at": 1767268800}
    stats = {"total_trades": 1, "win_rate_pct": 50.0, "total_pnl_usd": -1.0, text: text}
    answers: dict[str, Any] = {
        "/v1/account": {"id": text, "email": text, "plan": text, "created_at": 1, "api_key_last4": text, text: text},
        "/v1/account/usage": {
            "requests": {"used": 1, "limit": 2, text: text},
            "agents": {"used": 1, "limit": 2},
            "reset_at": 1767268800,
        },
        "/v1/agents": {"data": [agent(text, status=text)], "next_cursor": text},
        "/v1/agents/agt_1": full | {"stats": stats, "updated_at": 1767268800},
        "/v1/wallets": {"data": [wallet], "next_cursor": text},
        "/v1/wallets/wal_1/balance": {
            "wallet_id": text,
            "native_balance_usd": 1.0,
            "token_balances": [
                {"token_address": text, "token_symbol": text, "balance": 1.0, "balance_usd": 1.0, text: text}
            ],
            "updated_at": 1767268800,
        },
        "/v1/trades": {"data": [trade], "next_cursor": text},
        "/v1/trades/trd_1": trade | {"entry_tx_hash": text, "exit_tx_hash": text},
        "/v1/positions": {
            "data": [_answers.position("trd_1", agent_id=text, **token)],
            "next_cursor": text,
        },
        "/v1/signals": {"data": [signal]},
        "/v1/signals/history": {"data": [signal], "next_cursor": text},
    }
    return answers[path]
