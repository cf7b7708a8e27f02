"""The mock's answers against its description: all of them are in it, and all that is in it happens."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError, MockService

from .._openapi import described, document, header_problems, problems, response
from ._http import READ, START, add_wallet, connection, in_process
from ._paying import offer_of, pay

MARKET = {
    path: item["post"]["x-price"] for path, item in document()["paths"].items() if "x-price" in item.get("post", {})
}
EVERY = [(method, path) for method, path, _ in described()]
ACCOUNT = [(method, path) for method, path in EVERY if path not in MARKET]
LISTS = ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions", "/v1/signals", "/v1/signals/history")
STREAM = "/v1/signals/stream"
NOBODYS = {"agent_id": "nobodys", "wallet_id": "nobodys", "trade_id": "nobodys"}


class Witness:
    """Asks a mock, and looks each answer up in the description. `seen` are the methods, paths and statuses."""

    def __init__(self, mock: MockService) -> None:
        self.mock = mock
        self.seen: set[tuple[str, str, int]] = set()

    def ask(
        self,
        method: str,
        path: str,
        status: int,
        *,
        key: str | None = "mock_full_main",
        ids: dict[str, str] | None = None,
        **sent: Any,
    ) -> httpx.Response:
        if method == "POST" and path in MARKET:
            sent.setdefault("json", example(path))
            key = None
        if path == STREAM or path.startswith("/v1/signals"):
            sent.setdefault("params", {"chain": 8453})
        url = path.format_map(ids or NOBODYS)
        with in_process(self.mock, key) as http, http.stream(method, url, **sent) as answer:
            said = response(method, path, answer.status_code)
            if answer.headers.get("content-type") == "text/event-stream":
                self._event(next(answer.iter_lines()))
            else:
                answer.read()
                self._body(said, answer)
        assert answer.status_code == status, answer.text
        assert header_problems(said, answer.headers) == []
        self.seen.add((method, path, status))
        return answer

    def _body(self, said: dict[str, Any], answer: httpx.Response) -> None:
        if "content" not in said:
            assert answer.content == b""
            return
        ((media, content),) = said["content"].items()
        assert answer.headers["content-type"] == media
        assert problems(content["schema"], answer.json()) == []
        if answer.status_code == 402:
            offer = json.loads(base64.b64decode(answer.headers["payment-required"]))
            assert problems("PaymentRequired", offer) == []

    def _event(self, line: str) -> None:
        name, _, value = line.partition(": ")
        assert name == "data"
        assert problems("ServerSentEvent", {"data": value}) == problems("StreamEvent", json.loads(value)) == []


def example(path: str, method: str = "post") -> Any:
    return document()["paths"][path][method]["requestBody"]["content"]["application/json"]["example"]


@pytest.fixture
def witness() -> Iterator[Witness]:
    with MockService(seed=7, clock=MockClock(START), first_within=0) as mock:
        mock.populate("main")
        yield Witness(mock)


def statuses(endpoints: list[tuple[str, str]], *kinds: int) -> set[tuple[str, str, int]]:
    """All that is described for these, and begins with such a digit."""
    return {
        (method, path, int(status))
        for method, path, operation in described()
        for status in operation["responses"]
        if (method, path) in endpoints and int(status[0]) in kinds
    }


@pytest.mark.rule(
    "agents.list agents.get wallets.list trade.open.nulls trades.list trades.get positions.list signals.latest",
    "signals.history account.get usage.get transport.response-json",
)
def test_every_answer_of_the_account_is_described(witness: Witness) -> None:
    succeed(witness)
    assert witness.seen == statuses(ACCOUNT, 2)


@pytest.mark.rule(
    "agent.delete.active auth.invalid auth.scope.forbidden wallets.connect.bad-signature error.400.malformed",
    "error.400.signature error.401 error.403 error.404.missing error.409 error.429",
)
def test_every_refusal_of_the_account_is_described(witness: Witness) -> None:
    refuse(witness)
    assert witness.seen == statuses(ACCOUNT, 4)


@pytest.mark.rule("error.500", "error.503")
def test_every_failure_of_the_account_is_described(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(witness, ACCOUNT, monkeypatch)
    assert witness.seen == statuses(ACCOUNT, 5)


@pytest.mark.long
def test_every_answer_of_market_data_is_described(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    sell(witness)
    paths = [("POST", path) for path in MARKET]
    fail(witness, paths, monkeypatch)
    assert witness.seen == statuses(paths, 2, 4, 5)


def succeed(witness: Witness) -> None:
    """Everything that can be done with an account, by the description's own examples where they don't name things."""
    ask, mock = witness.ask, witness.mock
    with in_process(mock) as http:
        ids = {
            "agent_id": http.get("/v1/agents", params={"status": "idle"}).json()["data"][0]["id"],
            "wallet_id": http.get("/v1/wallets").json()["data"][0]["id"],
            "trade_id": http.get("/v1/trades").json()["data"][0]["id"],
        }
    for method, path in ACCOUNT:
        if method == "GET":
            ask("GET", path, 200, ids=ids)
    for status in ("open", "closed"):
        with in_process(mock) as http:
            trade = http.get("/v1/trades", params={"status": status}).json()["data"][0]["id"]
        ask("GET", "/v1/trades/{trade_id}", 200, ids={"trade_id": trade})
    for path in LISTS:
        ask("GET", path, 200, params={"limit": 2, **({"chain": 56} if "signals" in path else {})})
    wallet = ask("POST", "/v1/wallets", 201, json=example("/v1/wallets")).json()
    ask("POST", "/v1/agents", 201, json={**example("/v1/agents"), "wallet_id": wallet["id"]})
    ask("POST", "/v1/agents", 201, json={"name": "one", "wallet_id": wallet["id"], "chain_id": 8453})
    ask("PATCH", "/v1/agents/{agent_id}", 200, ids=ids, json=example("/v1/agents/{agent_id}", "patch"))
    ask("DELETE", "/v1/agents/{agent_id}", 204, ids=ids)


def refuse(witness: Witness) -> None:
    """Everything that may be wrong with a request."""
    ask, mock = witness.ask, witness.mock
    poor = mock.create_key(tenant="poor", plan="free").value
    with in_process(mock) as http:
        active = http.get("/v1/agents", params={"status": "active"}).json()["data"][0]
        wallet = add_wallet(http)
    with in_process(mock, poor) as http:
        while http.get("/v1/account").status_code == 200:
            pass
    for method, path in ACCOUNT:
        ask(method, path, 401, key=None)
        if path != STREAM:
            ask(method, path, 400, headers={"x-long": "x" * 70_000})
            ask(method, path, 429, key=poor)
        if method != "GET":
            ask(method, path, 403, key=READ, json={} if method != "DELETE" else None)
        if "{" in path:
            ask(method, path, 404, json={} if method == "PATCH" else None)
    for path in (*LISTS, STREAM):
        ask("GET", path, 422, params={"limit": 0, "chain": 1} if "signals" in path else {"limit": 101})
    ask("GET", STREAM, 400, params={})
    agent = {"name": "one", "wallet_id": wallet, "chain_id": 8453}
    ask("POST", "/v1/agents", 404, json={**agent, "wallet_id": "wal_nobodys"})
    ask("POST", "/v1/agents", 422, json={**agent, "max_positions": 0})
    ask("PATCH", "/v1/agents/{agent_id}", 422, ids={"agent_id": active["id"]}, json={"risk": {"stop_loss_pct": 0}})
    ask("DELETE", "/v1/agents/{agent_id}", 409, ids={"agent_id": active["id"]})
    ask("POST", "/v1/wallets", 409, json=connection())
    ask("POST", "/v1/wallets", 422, json={**connection(), "address": "0x12"})
    assert (
        ask("POST", "/v1/wallets", 400, json={**connection(), "signature": "0x12"}).json()["error"]["code"]
        == "invalid_signature"
    )


def sell(witness: Witness) -> None:
    """Everything that can be bought, and what may be wrong with an order."""
    ask, mock = witness.ask, witness.mock
    for number, (path, price) in enumerate(MARKET.items()):
        paid = {}
        if float(price["usd"]):
            paid = pay(offer_of(ask("POST", path, 402).headers), mock.clock.now(), number)
        answer = ask("POST", path, 200, headers=paid)
        receipt = answer.headers.get("payment-response")
        assert (receipt is None) == (float(price["usd"]) == 0)
        assert receipt is None or problems("PaymentResponse", json.loads(base64.b64decode(receipt))) == []
    mock.set_gaps(paywall="open")
    mock.add_fault("status", route="/v1/token-prices", status=502, count=1)
    ask("POST", "/v1/token-prices", 502)
    for path, price in MARKET.items():
        ask("POST", path, 400, json=[])
        if price["per"] == "token":
            ask("POST", path, 404, json={"tokens": [{"identifier": "NOPE"}]})


def fail(witness: Witness, endpoints: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the server itself, on each endpoint."""

    def broken(failure: Exception) -> Callable[[object], None]:
        def transaction(_: object) -> None:
            raise failure

        return transaction

    closed = MockService(signals="scripted")
    closed.close()
    with pytest.raises(MockServerError) as caught:
        closed.status()
    unavailable = caught.value.api_error
    assert unavailable is not None
    for status, failure in ((503, unavailable), (500, RuntimeError("for the test"))):
        with monkeypatch.context() as patch:
            patch.setattr(type(witness.mock.world), "transaction", broken(failure))
            for method, path in endpoints:
                witness.ask(method, path, status)
