"""Bare HTTP to a mock server: no SDK in between, so that one misreading cannot hide the other."""

import functools
from typing import Any

import httpx
from eth_account import Account
from eth_account.messages import encode_defunct

from tradesdk_mock import MockService

WALLET_KEY = "0x" + "1d" * 32


class Wire:
    """One API key's view of a server. ``wire.get("/account")`` is ``GET /v1/account`` with the bearer header.

    In process, unless `http` goes through sockets; that both carry the same is shown in tests/mock/test_transport.py.
    """

    def __init__(self, server: MockService, key: str | None, http: httpx.Client | None = None) -> None:
        self.server = server
        self.key = key
        self.http = http or httpx.Client(transport=server.transport(), trust_env=False)

    def with_key(self, key: str | None) -> "Wire":
        return Wire(self.server, key, self.http)

    def __call__(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> httpx.Response:
        sent = dict(headers or {})
        if self.key is not None:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        params = {name.rstrip("_"): value for name, value in query.items()}
        return self.http.request(
            method, f"{self.server.url}/v1{path}", json=body, content=content, headers=sent, params=params or None
        )

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self("GET", path, **query)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self("POST", path, body=body)

    def patch(self, path: str, body: Any) -> httpx.Response:
        return self("PATCH", path, body=body)

    def delete(self, path: str) -> httpx.Response:
        return self("DELETE", path)

    def connect(self, *, chain_id: int = 8453, label: str = "Trading", private_key: str = WALLET_KEY) -> str:
        """Connect a wallet and return its id."""
        answer = self.post("/wallets", proof(chain_id=chain_id, label=label, private_key=private_key))
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    def create(self, **changes: Any) -> Any:
        """Create an agent (on a new wallet unless ``wallet_id`` is given) and return its JSON."""
        body: dict[str, Any] = {"name": "contract", "chain_id": 8453} | changes
        if "wallet_id" not in body:
            body["wallet_id"] = self.connect(chain_id=body["chain_id"])
        answer = self.post("/agents", body)
        assert answer.is_success, answer.text
        return answer.json()


@functools.cache
def sign(text: str, private_key: str = WALLET_KEY) -> str:
    return "0x" + bytes(Account.from_key(private_key).sign_message(encode_defunct(text=text)).signature).hex()


def proof(*, chain_id: int = 8453, label: str = "Trading", private_key: str = WALLET_KEY) -> dict[str, Any]:
    """The body that connects a wallet, with a real signature over the verification message."""
    address = Account.from_key(private_key).address
    text = f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"
    return {"address": address, "chain_id": chain_id, "label": label, "signature": sign(text, private_key)}


def error_of(answer: httpx.Response, named: str = "") -> tuple[int, str]:
    """Status and code of an error, whose body must have the specified form and whose message `named`."""
    body = answer.json()
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert list(body) == ["error"]
    assert sorted(body["error"]) == ["code", "message"]
    message = body["error"]["message"]
    assert isinstance(message, str)
    assert message
    assert "\n" not in message
    assert named in message
    return answer.status_code, body["error"]["code"]


def numbers(answer: httpx.Response) -> tuple[int, int, int]:
    """What the headers of the rate limit say: limit, remaining, reset."""
    limit, remaining, reset = (int(answer.headers[f"X-RateLimit-{name}"]) for name in ("Limit", "Remaining", "Reset"))
    return limit, remaining, reset


def walk(wire: Wire, path: str, **query: Any) -> list[Any]:
    """Every item of a list. Each page but the last must be full and have a new cursor."""
    found: list[Any] = []
    cursors: set[str] = set()
    size = query.get("limit", 20)
    while True:
        page = wire.get(path, **query).json()
        found += page["data"]
        if "next_cursor" not in page:
            assert list(page) == ["data"]
            assert len(page["data"]) <= size
            return found
        assert isinstance(page["next_cursor"], str)
        assert page["next_cursor"] not in cursors
        assert len(page["data"]) == size
        cursors.add(page["next_cursor"])
        query["cursor"] = page["next_cursor"]
