"""What the tests of the mock share: a plain HTTP client, and looks at answers."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any

import httpx
from eth_account import Account
from eth_account.messages import encode_defunct

from tradesdk_mock import MockServer, MockService, wallet_message

START = 1_800_000_000
FULL = "mock_full_main"
READ = "mock_read_main"

# Nothing here speaks TLS; a bare context saves every client from loading the certificate store.
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(server: MockServer, key: str | None = FULL) -> httpx.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, verify=_TLS, trust_env=False, timeout=10)


def in_process(service: MockService, key: str | None = FULL) -> httpx.Client:
    """The same, without a socket."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(transport=service.transport(), base_url=service.url, headers=headers, timeout=10)


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    data: Any
    id: str | None = None


def events(
    http: httpx.Client,
    count: int,
    *,
    timeout: float = 60,
    headers: dict[str, Any] | None = None,
    **query: str,
) -> list[Event]:
    """The first events of a stream of Base. Where the clock stands still, `timeout` is of its seconds."""
    found: list[Event] = []
    ident: str | None = None
    asked = {"chain": "8453", **query}
    with http.stream("GET", "/v1/signals/stream", params=asked, headers=headers, timeout=timeout) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                ident = value
            elif name == "data":
                found.append(Event(json.loads(value), ident))
                ident = None
                if len(found) == count:
                    break
    return found


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
