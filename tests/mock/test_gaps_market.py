"""What is not written about the market data: the default and every other value of the option."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer

from ._market import PAID
from ._support import error, ok

BRETT = {"tokens": [{"identifier": "BRETT"}]}
SOME_UNKNOWN = {"tokens": [{"identifier": "BRETT"}, {"identifier": "NOBODY KNOWS IT"}]}


def wrapped(answer: httpx.Response, status: int) -> str:
    """Check that an answer is a failure in the wrapper; its text."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body == {"success": False, "data": None, "error": body["error"]}
    assert isinstance(body["error"], str)
    return str(body["error"])


def test_b_port(server: MockServer, api: httpx.Client) -> None:
    """More of it in test_market_port."""
    ok(api.post("/v1/supported-tokens", json={}))
    assert server.market_url == server.url
    server.set_gaps(b_port="another")
    assert server.market_url != server.url
    error(api.post("/v1/supported-tokens", json={}), 404, "not_found")
    assert ok(api.post(f"{server.market_url}/v1/supported-tokens", json={}))["data"]["total"] == 620


@pytest.mark.parametrize("value", ["not-required", "required"])
def test_b_bearer(server: MockServer, anyone: httpx.Client, value: str) -> None:
    server.set_gaps(b_bearer=value, paywall="open")
    key = server.create_key(scope="read-only")
    for given in (None, "nonsense", key.value):
        headers = {} if given is None else {"Authorization": f"Bearer {given}"}
        for path, body in (("/v1/token-prices", BRETT), ("/v1/supported-tokens", {})):
            answer = anyone.post(path, json=body, headers=headers)
            if value == "required" and given != key.value:
                error(answer, 401, "unauthorized")
            else:
                ok(answer)


@pytest.mark.parametrize(("value", "status"), [("400", 400), ("422", 422), ("402-first", 400)])
@pytest.mark.parametrize("paywall", ["closed", "open"])
def test_b_invalid(server: MockServer, api: httpx.Client, value: str, status: int, paywall: str) -> None:
    server.set_gaps(b_invalid=value, paywall=paywall)
    unpaid = value == "402-first" and paywall == "closed"
    for identifiers in (["BRETT", "brett"], list("abcdef"), []):
        answer = api.post("/v1/token-prices", json={"tokens": [{"identifier": each} for each in identifiers]})
        if unpaid:
            assert answer.status_code == 402
        else:
            wrapped(answer, status)
    answer = api.post("/v1/top-performers", json={"sortBy": "ROI", "limit": 301})
    if unpaid:
        assert answer.status_code == 402
    else:
        assert wrapped(answer, status).startswith("limit")
    # What is free is never paid for, not even when it is wrong.
    wrapped(api.post("/v1/supported-tokens", json={"limit": 501}), status)


@pytest.mark.parametrize("value", ["none", "60"])
def test_b_rate(server: MockServer, anyone: httpx.Client, value: str) -> None:
    server.set_gaps(b_rate=value, paywall="open")
    answers = [anyone.post("/v1/token-prices", json=BRETT) for _ in range(60)]
    assert {answer.status_code for answer in answers} == {200}
    last = anyone.post("/v1/supported-tokens", json={})
    if value == "none":
        ok(last)
        assert not [name for answer in (*answers, last) for name in answer.headers if name.startswith("x-ratelimit")]
        return
    assert [int(answer.headers["x-ratelimit-remaining"]) for answer in answers] == list(range(59, -1, -1))
    error(last, 429, "rate_limited")
    assert (last.headers["retry-after"], last.headers["x-ratelimit-limit"]) == ("60", "60")
    server.clock.advance(60)
    ok(anyone.post("/v1/supported-tokens", json={}))


@pytest.mark.parametrize(("value", "header", "body"), [("both", 2, 1), ("v2", 2, None), ("v1", None, 1)])
def test_payment_402(
    server: MockServer, anyone: httpx.Client, value: str, header: int | None, body: int | None
) -> None:
    server.set_gaps(payment_402=value)
    answer = anyone.post("/v1/token-prices", json=BRETT)
    assert answer.status_code == 402
    offered = answer.headers.get("payment-required")
    said: dict[str, Any] = json.loads(b64decode(offered)) if offered else {}
    assert (said.get("x402Version"), answer.json().get("x402Version")) == (header, body)
    for offer, amount in ((said, "amount"), (answer.json(), "maxAmountRequired")):
        assert [each[amount] for each in offer.get("accepts", [])] in ([], ["30000"])


@pytest.mark.parametrize("value", ["404", "partial"])
def test_unknown_token(server: MockServer, anyone: httpx.Client, value: str) -> None:
    server.set_gaps(unknown_token=value, paywall="open")
    answer = anyone.post("/v1/token-prices", json=SOME_UNKNOWN)
    if value == "404":
        assert "NOBODY KNOWS IT" in wrapped(answer, 404)
    else:
        assert [each["symbol"] for each in ok(answer)["data"]["results"]] == ["BRETT"]
    # With no known one among them there is nothing to answer.
    wrapped(anyone.post("/v1/token-prices", json={"tokens": SOME_UNKNOWN["tokens"][1:]}), 404)


@pytest.mark.parametrize(("value", "status"), [("closed", 402), ("open", 200)])
def test_paywall(server: MockServer, anyone: httpx.Client, value: str, status: int) -> None:
    server.set_gaps(paywall=value)
    for name in PAID:
        body: dict[str, Any] = {"top-performers": {"sortBy": "ROI"}, "aggregate-metrics": {}}.get(name, BRETT)
        assert anyone.post(f"/v1/{name}", json=body).status_code == status, name
    ok(anyone.post("/v1/supported-tokens", json={}))
