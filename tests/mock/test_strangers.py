"""Whatever strangers send: never a 5xx, never an answer in another form, never a change of what isn't theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import GapOptions, MockClock, MockServer, MockService
from tradesdk_mock.core.messages import Request

from .._texts import texts
from ._http import START, client, connection, in_process, ok

pytestmark = pytest.mark.long

CODES = {
    400: {"invalid_request", "invalid_signature"},
    401: {"unauthorized"},
    403: {"forbidden"},
    404: {"not_found"},
    405: {"invalid_request"},
    409: {"conflict"},
    422: {"validation_error"},
}
OPTIONS = GapOptions(quotas="enterprise=1000000/1000000", enterprise_limit=10**9)
STRICT = OPTIONS.changed(unknown_field="400", bounds="none", no_routes="routes", stream_filter="honoured")


@pytest.fixture(
    scope="module", params=["process", *(pytest.param(one, marks=pytest.mark.long) for one in ("strict", "socket"))]
)
def stranger(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Without a socket; under other gap options; and over one."""
    kind = MockServer if request.param == "socket" else MockService
    with kind(clock=MockClock(START), gaps=STRICT if request.param == "strict" else OPTIONS) as mock:
        key = mock.create_key(plan="enterprise", tenant="main").value
        mock.populate("main")
        with client(mock, key) if isinstance(mock, MockServer) else in_process(mock, key) as http:
            yield http


def check(answer: httpx.Response) -> None:
    if answer.status_code == 204:
        assert answer.content == b""
        return
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    if answer.status_code in (200, 201):
        assert isinstance(body, dict)
        assert "error" not in body
        return
    assert body["error"]["code"] in CODES[answer.status_code], (answer.status_code, body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}


FIXED = settings(max_examples=60, deadline=None)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(max_size=10), inner, max_size=4),
    max_leaves=8,
)
NAMES = ("name", "wallet_id", "chain_id", "risk", "min_confidence", "max_positions", "address", "label", "signature")
RISKS = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct", "x")


@FIXED
@given(
    body=st.dictionaries(st.sampled_from(NAMES) | texts(max_size=8), json_values, max_size=6),
    content=st.binary(max_size=200) | texts(max_size=100).map(str.encode),
)
def test_bodies(stranger: httpx.Client, body: dict[str, Any], content: bytes) -> None:
    agent = ok(stranger.get("/v1/agents?limit=1"))["data"][0]["id"]
    headers = {"Content-Type": "application/json"}
    for method, path in (("POST", "agents"), ("POST", "wallets"), ("PATCH", f"agents/{agent}")):
        check(stranger.request(method, f"/v1/{path}", json=body))
        check(stranger.request(method, f"/v1/{path}", content=content, headers=headers))
    check(stranger.get(f"/v1/agents/{agent}"))
    answer = stranger.put("/_mock/gaps", content=content or b"[]", headers=headers)
    # An empty object is the only change of options that bytes at random will hit.
    assert answer.status_code == 400 or not json.loads(content)


@FIXED
@given(
    given=st.fixed_dictionaries(
        {
            "name": texts(max_size=30),
            "risk": st.dictionaries(st.sampled_from(RISKS), numbers | texts(max_size=3) | st.none() | st.booleans()),
            "min_confidence": numbers,
            "max_positions": st.integers(),
        }
    )
)
def test_agents_that_are_nearly_right(stranger: httpx.Client, given: dict[str, Any]) -> None:
    wallet = ok(stranger.get("/v1/wallets?chain_id=8453"))["data"][0]["id"]
    answer = stranger.post("/v1/agents", json={"wallet_id": wallet, "chain_id": 8453, **given})
    check(answer)
    if answer.status_code == 201:
        made = ok(stranger.get(f"/v1/agents/{answer.json()['id']}"))
        del given["risk"]
        assert {name: made[name] for name in given} == given
        assert stranger.delete(f"/v1/agents/{made['id']}").status_code == 204


@FIXED
@given(
    signature=st.binary(min_size=60, max_size=70),
    text=texts(max_size=10),
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80),
)
def test_signatures_and_keys(stranger: httpx.Client, signature: bytes, text: str, key: str) -> None:
    answer = stranger.post("/v1/wallets", json={**connection(), "signature": "0x" + signature.hex() + text})
    check(answer)
    assert answer.json()["error"]["code"] == "invalid_signature"
    answer = stranger.get("/v1/account", headers={"Authorization": f"Bearer {key}"})
    check(answer)
    assert answer.status_code == 401 or key.startswith("mock_")


PARAMETERS = [
    "limit",
    "cursor",
    "status",
    "agent_id",
    "chain",
    "chain_id",
    "token_address",
    "from",
    "to",
    "min_confidence",
]


@FIXED
@given(
    path=st.sampled_from(
        [
            *("agents", "wallets", "trades", "positions", "signals", "signals/history", "account", "agents/x"),
            *("trades/x", "signals/stream", "signals/stream"),
        ]
    ),
    query=st.dictionaries(
        st.sampled_from(PARAMETERS) | texts(max_size=3),
        st.sampled_from(["8453", "56", "1", "20", "100", "open", "idle", "0.5", "0x" + "ab" * 20])
        | numbers.map(str)
        | texts(max_size=20),
        max_size=5,
    ),
    last=st.sampled_from(["", "sig_1"]) | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
)
def test_queries(stranger: httpx.Client, path: str, query: dict[str, str], last: str) -> None:
    with stranger.stream("GET", f"/v1/{path}", params=query, headers={"Last-Event-ID": last}) as answer:
        if answer.headers["content-type"] == "text/event-stream":
            assert query["chain"] in ("8453", "56")
        else:
            answer.read()
            check(answer)


@FIXED
@given(raw=st.binary(max_size=60), method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]))
def test_raw_queries_and_paths(stranger: httpx.Client, raw: bytes, method: str) -> None:
    check(stranger.get("/v1/trades?" + quote(raw)))
    check(stranger.get("/v1/signals/history?chain=56&" + quote(raw, safe="=&%+;")))
    check(stranger.get("/v1/agents/" + quote(raw, safe="")))
    check(stranger.get("/" + quote(raw, safe="/")))
    for path in ("", "faults/", "journal?"):
        answer = stranger.request(method, f"/_mock/{path}" + quote(raw, safe="" if path else "/"))
        check(answer)
        assert answer.status_code in (200, 400, 404, 405)


CONTROL = st.dictionaries(
    st.sampled_from(
        (
            *("kind", "route", "method", "tenant", "nth", "every", "probability", "count", "status", "after", "how"),
            *("token", "direction", "confidence", "price_usd", "timestamp", "at", "chain_id"),
            *("scope", "plan", "name", "advance", "set", "freeze", "speed", "allow_backwards", "populate"),
        )
    )
    | texts(max_size=8),
    json_values | st.sampled_from(["reset", "drop", "status", "/v1/trades", "*", "GET", "BUY", "BRETT", 1, 0.5, 56]),
    max_size=6,
)


@FIXED
@given(
    path=st.sampled_from(
        ["reset", "keys", "clock", "tenants/t/plan", "agents/a/status", "faults", "signals", "market", "keys/a/expire"]
    ),
    body=CONTROL,
)
def test_control(stranger: httpx.Client, path: str, body: dict[str, Any]) -> None:
    if path == "reset":
        body = {**body, "unknown": 1}
    answer = stranger.post(f"/_mock/{path}", json=body)
    check(answer)
    assert answer.status_code in (200, 400, 404)
    assert ok(stranger.get("/_mock/status"))["frozen"] in (True, False)
    ok(stranger.delete("/_mock/faults"))
    ok(stranger.post("/_mock/clock", json={"freeze": True, "set": START, "allow_backwards": True, "speed": 1}))


names = st.binary(max_size=20) | st.sampled_from(
    [b"authorization", b"content-type", b"host", b"origin", b"last-event-id"]
)
values = st.binary(max_size=40) | st.sampled_from([b"Bearer mock_full_x", b"application/json", b"localhost"])


@FIXED
@given(
    method=texts(max_size=10) | st.sampled_from(["GET", "POST", "PATCH", "PUT", "DELETE"]),
    path=st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.sampled_from(["/v1/account", "/v1/agents", "/v1/token-prices", "/_mock/faults", "/v1/signals/stream"]),
    query=st.binary(max_size=30),
    headers=st.lists(st.tuples(names, values), max_size=6),
    content=st.none() | st.binary(max_size=50) | st.just(b"{}"),
    sender=st.none() | texts(max_size=20) | st.just("127.0.0.1"),
)
def test_requests_that_no_server_would_let_in(
    method: str,
    path: str,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    content: bytes | None,
    sender: str | None,
) -> None:
    """The engine itself takes anything for what it is."""
    with MockService(clock=MockClock(START)) as mock:
        for market in (False, True):
            response = mock.pipeline.respond(Request(method, path, query, list(headers), content, sender, market))
            assert response.status < 500
            if isinstance(response.body, bytes):
                assert isinstance(json.loads(response.body), dict)
