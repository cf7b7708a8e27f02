"""Mocks and plain HTTP clients, over sockets and in process; checks of answers; wallets and agents to begin with."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from eth_account import Account
from eth_account.messages import encode_defunct

from tradesdk_mock import MockClock, MockServer, MockServerError, MockService, wallet_message

START = 1_800_000_000
BASE, BNB = 8453, 56
HOUR, DAY = 3_600, 86_400
FULL = "mock_full_main"
READ = "mock_read_main"

CARRIERS = ("sockets", "in process")

# Nothing here speaks TLS; a bare context saves every client from loading the certificate store.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def carried(carrier: str, **options: Any) -> Iterator[MockService]:
    """A mock with a frozen clock and a scripted market, unless the options say otherwise."""
    made = MockServer if carrier == "sockets" else MockService
    with made(**{"clock": MockClock(START), "signals": "scripted", **options}) as mock:
        if "signals" not in options and "db" not in options:
            without_past(mock)
        yield mock


def without_past(mock: MockService) -> None:
    """Its market begins now: most of what a world costs that shows signals are those of two weeks before."""
    mock.world.store.set_meta("signals_upto", repr(mock.clock.now()))


@contextmanager
def silent(carrier: str, **options: Any) -> Iterator[MockService]:
    """The same, without heartbeats on its streams."""
    with carried(carrier, **options) as mock:
        mock.set_gaps(heartbeat=0)
        yield mock


def client(mock: MockService, key: str | None = FULL, timeout: float = 30) -> httpx.Client:
    """A client of a server over its socket, of any other mock in process, where timeouts are of the mock's clock."""
    transport = None if isinstance(mock, MockServer) else mock.transport()
    return _client(mock, key, transport, timeout)


def in_process(mock: MockService, key: str | None = FULL) -> httpx.Client:
    """A client in process, of a server too."""
    return _client(mock, key, mock.transport(), 10)


def _client(mock: MockService, key: str | None, transport: httpx.BaseTransport | None, timeout: float) -> httpx.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(
        base_url=mock.url, headers=headers, transport=transport, verify=TLS, trust_env=False, timeout=timeout
    )


def error(response: httpx.Response, status: int, code: str) -> str:
    """Check that an answer is exactly an error of the service; its message."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["code"] == code
    message = body["error"]["message"]
    assert isinstance(message, str)
    assert message
    assert "\n" not in message
    return message


def ok(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    assert response.status_code == status, response.text
    found = response.json()
    assert isinstance(found, dict)
    return found


def walk(http: httpx.Client, path: str, **query: Any) -> list[dict[str, Any]]:
    """Every item of a list, by following its cursors."""
    found: list[dict[str, Any]] = []
    while True:
        page = ok(http.get(path, params=query))
        found += page["data"]
        if "next_cursor" not in page:
            return found
        assert page["data"]
        query["cursor"] = page["next_cursor"]


# Throw-away keys: whoever holds money never writes a key into a file.
OWNER = Account.from_key("0x" + "11" * 32)
OTHER = Account.from_key("0x" + "22" * 32)


@functools.cache
def sign(message: str, owner: Any = OWNER) -> str:
    return "0x" + bytes(owner.sign_message(encode_defunct(text=message)).signature).hex()


def connection(chain_id: int = 8453, label: str = "mine", owner: Any = OWNER) -> dict[str, Any]:
    """A body of POST /v1/wallets that is accepted."""
    signature = sign(wallet_message(owner.address, chain_id), owner)
    return {"address": owner.address, "chain_id": chain_id, "label": label, "signature": signature}


def add_wallet(http: httpx.Client, chain_id: int = 8453) -> str:
    return str(ok(http.post("/v1/wallets", json=connection(chain_id)), 201)["id"])


def add_agent(http: httpx.Client, wallet_id: str, **fields: Any) -> dict[str, Any]:
    body = {"name": "one", "wallet_id": wallet_id, "chain_id": 8453, **fields}
    return ok(http.post("/v1/agents", json=body), 201)


def control(mock: MockService, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the control API answers to `method /_mock/{path}`; MockServerError when it refuses."""
    status, content = mock.control_response(method, path, b"" if body is None else json.dumps(body).encode())
    found: dict[str, Any] = json.loads(content)
    if status != 200:
        raise MockServerError(found["error"]["message"])
    return found
