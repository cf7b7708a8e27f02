"""Every place where the specification is silent: the default and every other value of the option.

The stream's and the market data's are in files of their own; that none is forgotten is looked at in test_gap_options.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from ._support import OWNER, START, add_agent, add_wallet, client, connection, error, ok, sign, walk

AGENT = {"name": "n", "chain_id": 8453}


def with_wallet(http: httpx.Client) -> dict[str, Any]:
    return {**AGENT, "wallet_id": add_wallet(http)}


@pytest.mark.parametrize("value", ["201/200", "200/200", "201/201"])
def test_write_status(server: MockServer, api: httpx.Client, value: str) -> None:
    post, patch = int(value[:3]), int(value[4:])
    server.set_gaps(write_status=value)
    wallet = ok(api.post("/v1/wallets", json=connection()), post)["id"]
    agent = ok(api.post("/v1/agents", json={**AGENT, "wallet_id": wallet}), post)["id"]
    ok(api.patch(f"/v1/agents/{agent}", json={"name": "m"}), patch)
    assert api.delete(f"/v1/agents/{agent}").status_code == 204


def test_risk_defaults(server: MockServer, api: httpx.Client) -> None:
    body = with_wallet(api)
    assert ok(api.post("/v1/agents", json=body), 201)["risk"] == {}
    server.set_gaps(risk_defaults="filled")
    made = ok(api.post("/v1/agents", json={**body, "risk": {"stop_loss_pct": 8}}), 201)
    filled = {"position_size_pct": 5, "stop_loss_pct": 8, "trailing_stop_pct": 2, "take_profit_pct": 10}
    assert made["risk"] == filled
    assert ok(api.get(f"/v1/agents/{made['id']}"))["risk"] == filled


def test_bounds(server: MockServer, api: httpx.Client) -> None:
    body = {**with_wallet(api), "risk": {"position_size_pct": 250, "stop_loss_pct": -1}, "max_positions": 2**63 - 1}
    error(api.post("/v1/agents", json=body), 422, "validation_error")
    server.set_gaps(bounds="none")
    made = ok(api.post("/v1/agents", json=body), 201)
    assert (made["risk"], made["max_positions"]) == (body["risk"], 2**63 - 1)
    # The range of a confidence is written down: no option lifts it.
    error(api.post("/v1/agents", json={**body, "min_confidence": 1.5}), 422, "validation_error")


@pytest.mark.parametrize("state", ["paused", "error", "idle"])
def test_delete_stopped(server: MockServer, api: httpx.Client, state: str) -> None:
    agent = ok(api.post("/v1/agents", json=with_wallet(api)), 201)["id"]
    server.set_agent_status(agent, state)
    server.set_gaps(delete_stopped="409")
    if state != "idle":
        error(api.delete(f"/v1/agents/{agent}"), 409, "conflict")
        server.set_gaps(delete_stopped="204")
    assert api.delete(f"/v1/agents/{agent}").status_code == 204


def test_wallet_message(server: MockServer, api: httpx.Client) -> None:
    ok(api.post("/v1/wallets", json=connection(56)), 201)
    server.set_gaps(wallet_message="I own {address} on chain {chain_id}")
    error(api.post("/v1/wallets", json=connection()), 400, "invalid_signature")
    signature = sign(f"I own {OWNER.address} on chain 8453")
    ok(api.post("/v1/wallets", json={**connection(), "signature": signature}), 201)


def test_order(server: MockServer, rich: httpx.Client) -> None:
    paths = ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions")
    newest = {path: walk(rich, path, limit=100) for path in paths}
    latest = ok(rich.get("/v1/signals?chain=56"))["data"]
    history = rich.get("/v1/signals/history?chain=56").json()["data"]
    server.set_gaps(order="oldest")
    for path in paths:
        assert walk(rich, path, limit=3 if path != "/v1/trades" else 100) == newest[path][::-1]
    assert ok(rich.get("/v1/signals?chain=56"))["data"] == latest[::-1]
    assert rich.get("/v1/signals/history?chain=56").json()["data"] == history, "its order is written down"


def test_unknown_values(server: MockServer, rich: httpx.Client) -> None:
    agent = ok(rich.get("/v1/agents"))["data"][0]
    trade = ok(rich.get("/v1/trades"))["data"][0]
    plain = {path: ok(rich.get(path)) for path in ("/v1/account", f"/v1/trades/{trade['id']}", "/v1/positions")}
    server.set_gaps(unknown_values="on")
    new = {"introduced_later": {"since": "next"}}
    for path, before in plain.items():
        record = ok(rich.get(path))
        assert record["introduced_later"] == new["introduced_later"]
        assert set(record) == set(before) | set(new)
    for path in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions", "/v1/signals?chain=56"):
        page = ok(rich.get(path))
        assert page["introduced_later"] == new["introduced_later"]
        assert all(item["introduced_later"] == new["introduced_later"] for item in page["data"])
    assert ok(rich.get(f"/v1/agents/{agent['id']}"))["status"] == "hibernating"
    assert ok(rich.get(f"/v1/agents/{agent['id']}"))["stats"]["introduced_later"] == new["introduced_later"]
    assert {item["status"] for item in ok(rich.get("/v1/trades"))["data"]} == {"settling"}
    failed = rich.get("/v1/agents/unknown")
    assert failed.status_code == 404
    assert failed.json()["error"]["introduced_later"] == new["introduced_later"]
    server.set_gaps(unknown_values="off")
    assert {path: ok(rich.get(path)) for path in plain} == plain


@pytest.mark.parametrize(("skew", "date"), [(600, "08:10:00"), (-600, "07:50:00")])
def test_clock_skew(server: MockServer, api: httpx.Client, skew: int, date: str) -> None:
    server.set_gaps(clock_skew=skew)
    answer = api.get("/v1/account")
    assert answer.headers["date"] == f"Fri, 15 Jan 2027 {date} GMT"
    assert answer.headers["x-ratelimit-reset"] == str(START + skew + 60)
    assert answer.json()["created_at"] == START + skew
    assert server.clock.now() == START


def test_rate_headers(server: MockServer, api: httpx.Client, anyone: httpx.Client) -> None:
    for answer in (anyone.get("/v1/account"), api.get("/v1/agents/unknown"), api.get("/v1/nothing")):
        assert "x-ratelimit-reset" in answer.headers
    server.set_gaps(rate_headers="never")
    for answer in (anyone.get("/v1/account"), api.get("/v1/agents/unknown"), api.get("/v1/nothing")):
        assert answer.status_code in (401, 404)
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    for answer in (api.get("/v1/account"), api.get("/v1/agents?limit=0"), api.put("/v1/agents")):
        assert "x-ratelimit-reset" in answer.headers


def test_cursor_ttl() -> None:
    with MockServer(clock=MockClock(START), signals="scripted") as server, client(server) as rich:
        server.populate("main")
        cursor = ok(rich.get("/v1/trades"))["next_cursor"]
        server.clock.advance(10 * 365 * 86_400)
        ok(rich.get("/v1/trades", params={"cursor": cursor}))
        server.set_gaps(cursor_ttl=3_600)
        cursor = ok(rich.get("/v1/trades"))["next_cursor"]
        server.clock.advance(3_599)
        ok(rich.get("/v1/trades", params={"cursor": cursor}))
        server.clock.advance(1)
        assert "expired" in error(rich.get("/v1/trades", params={"cursor": cursor}), 400, "invalid_request")


def test_quotas(server: MockServer, api: httpx.Client) -> None:
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["limit"], usage["agents"]["limit"]) == (100_000, 25)
    server.set_gaps(quotas="pro=20/2,free=10/1")
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["limit"], usage["agents"]["limit"]) == (20, 2)
    with client(server, "mock_full_enterprise_x") as http:
        assert ok(http.get("/v1/account/usage"))["agents"]["limit"] == 1_000


@pytest.mark.parametrize(("value", "code"), [("403", "forbidden"), ("422", "validation_error")])
def test_agent_quota_status(server: MockServer, api: httpx.Client, value: str, code: str) -> None:
    server.set_gaps(quotas="pro=20/1", agent_quota_status=value)
    body = with_wallet(api)
    ok(api.post("/v1/agents", json=body), 201)
    error(api.post("/v1/agents", json=body), int(value), code)


def test_request_quota(server: MockServer, api: httpx.Client) -> None:
    server.set_gaps(quotas="pro=3/1")
    for _ in range(4):
        ok(api.get("/v1/account"))
    server.set_gaps(request_quota="429")
    refused = api.get("/v1/account")
    assert "3 requests" in error(refused, 429, "rate_limited")
    assert refused.headers["retry-after"] == str(30 * 86_400)
    assert "x-ratelimit-reset" in refused.headers
    server.clock.advance(30 * 86_400)
    for _ in range(3):
        ok(api.get("/v1/account"))
    error(api.get("/v1/account"), 429, "rate_limited")


@pytest.mark.parametrize(("value", "code"), [("404", "not_found"), ("422", "validation_error")])
def test_unknown_wallet(server: MockServer, api: httpx.Client, value: str, code: str) -> None:
    server.set_gaps(unknown_wallet=value)
    error(api.post("/v1/agents", json={**AGENT, "wallet_id": "wal_unknown"}), int(value), code)


@pytest.mark.parametrize(("value", "code"), [("422", "validation_error"), ("400", "invalid_request")])
def test_wallet_chain(server: MockServer, api: httpx.Client, value: str, code: str) -> None:
    server.set_gaps(wallet_chain=value)
    body = {**with_wallet(api), "chain_id": 56}
    assert error(api.post("/v1/agents", json=body), int(value), code).startswith("wallet_id: ")


def test_wallet_twice(server: MockServer, api: httpx.Client) -> None:
    first = ok(api.post("/v1/wallets", json=connection(label="first")), 201)
    error(api.post("/v1/wallets", json=connection(label="second")), 409, "conflict")
    server.set_gaps(wallet_twice="again")
    assert ok(api.post("/v1/wallets", json=connection(label="second")), 201) == first
    assert ok(api.get("/v1/wallets"))["data"] == [first]


def test_unknown_agent_filter(server: MockServer, rich: httpx.Client) -> None:
    known = ok(rich.get("/v1/agents"))["data"][0]["id"]
    for path in ("/v1/trades", "/v1/positions"):
        assert ok(rich.get(path, params={"agent_id": "agt_unknown"})) == {"data": []}
    server.set_gaps(unknown_agent_filter="404")
    for path in ("/v1/trades", "/v1/positions"):
        error(rich.get(path, params={"agent_id": "agt_unknown"}), 404, "not_found")
        ok(rich.get(path, params={"agent_id": known}))
        with client(server, "mock_full_other") as other:
            error(other.get(path, params={"agent_id": known}), 404, "not_found")


def test_unknown_field(server: MockServer, api: httpx.Client) -> None:
    body = with_wallet(api)
    agent = ok(api.post("/v1/agents", json={**body, "colour": "red"}), 201)["id"]
    server.set_gaps(unknown_field="400")
    assert error(api.post("/v1/agents", json={**body, "colour": "red"}), 400, "invalid_request").startswith("colour: ")
    message = error(api.patch(f"/v1/agents/{agent}", json={"risk": {"mood": 1}}), 400, "invalid_request")
    assert message.startswith("risk.mood: ")
    error(api.patch(f"/v1/agents/{agent}", json={"chain_id": 56}), 400, "invalid_request")
    error(api.post("/v1/wallets", json={**connection(56), "note": ""}), 400, "invalid_request")
    ok(api.post("/v1/agents", json=body), 201)


def test_empty_patch(server: MockServer, api: httpx.Client) -> None:
    agent = ok(api.post("/v1/agents", json=with_wallet(api)), 201)["id"]
    ok(api.patch(f"/v1/agents/{agent}", json={}))
    server.set_gaps(empty_patch="400")
    error(api.patch(f"/v1/agents/{agent}", json={}), 400, "invalid_request")
    ok(api.patch(f"/v1/agents/{agent}", json={"name": "m"}))


def test_time_bounds(server: MockServer, api: httpx.Client) -> None:
    times = [item["timestamp"] for item in ok(api.get("/v1/signals/history?chain=8453&limit=30"))["data"]]
    query = {"chain": 8453, "from": times[-1], "to": times[5], "limit": 100}
    inclusive = [item["timestamp"] for item in ok(api.get("/v1/signals/history", params=query))["data"]]
    assert {times[5], times[-1]} <= set(inclusive)
    server.set_gaps(time_bounds="exclusive")
    exclusive = [item["timestamp"] for item in ok(api.get("/v1/signals/history", params=query))["data"]]
    assert exclusive == [moment for moment in inclusive if times[-1] < moment < times[5]]


@pytest.mark.parametrize(("value", "code"), [("422", "validation_error"), ("400", "invalid_request")])
def test_range_status(server: MockServer, api: httpx.Client, value: str, code: str) -> None:
    server.set_gaps(range_status=value)
    body = {**with_wallet(api), "chain_id": 1}
    for answer in (
        api.get("/v1/trades?limit=0"),
        api.get("/v1/trades?limit=101"),
        api.get("/v1/signals?chain=1"),
        api.get("/v1/wallets?chain_id=1"),
        api.get("/v1/agents?status=asleep"),
        api.post("/v1/agents", json=body),
        api.post("/v1/wallets", json={**connection(), "chain_id": 1}),
    ):
        error(answer, int(value), code)
    # These 422 are written down: no option changes them.
    error(api.get("/v1/signals/history?chain=8453&token_address=ETH"), 422, "validation_error")


def test_enterprise_limit(server: MockServer) -> None:
    with client(server, "mock_full_enterprise_x") as http:
        assert http.get("/v1/account").headers["x-ratelimit-limit"] == "3000"
        server.set_gaps(enterprise_limit=60_000)
        assert http.get("/v1/account").headers["x-ratelimit-limit"] == "60000"


def test_read_only_account(server: MockServer, api: httpx.Client, reader: httpx.Client) -> None:
    for path in ("/v1/account", "/v1/account/usage", "/v1/positions"):
        ok(reader.get(path))
    server.set_gaps(read_only_account="403")
    for path in ("/v1/account", "/v1/account/usage", "/v1/positions"):
        error(reader.get(path), 403, "forbidden")
        ok(api.get(path))
    for path in ("/v1/agents", "/v1/trades", "/v1/wallets", "/v1/signals?chain=56"):
        ok(reader.get(path))


@pytest.mark.parametrize("value", ["404", "routes"])
def test_no_routes(server: MockServer, rich: httpx.Client, reader: httpx.Client, value: str) -> None:
    server.set_gaps(no_routes=value)
    agent = add_agent(rich, ok(rich.get("/v1/wallets?chain_id=8453"))["data"][0]["id"])["id"]
    paths = [f"/v1/agents/{agent}/{verb}" for verb in ("start", "stop", "pause")]
    if value == "404":
        for path in paths:
            error(rich.post(path), 404, "not_found")
            error(rich.get(path), 404, "not_found")
        error(rich.delete("/v1/wallets/wal_1"), 404, "not_found")
        return
    states = [ok(rich.post(path))["status"] for path in paths]
    assert states == ["active", "idle", "paused"]
    assert ok(rich.post(paths[0])) == ok(rich.get(f"/v1/agents/{agent}")), "a full agent, as a PATCH gives it"
    error(rich.post(paths[0]), 409, "conflict")
    ok(rich.post(paths[1]))
    error(rich.post(paths[1]), 409, "conflict")
    for path in (*paths, "/v1/agents/agt_unknown/start"):
        error(reader.post(path), 403, "forbidden")
    error(rich.post("/v1/agents/agt_unknown/start"), 404, "not_found")
    assert rich.get(paths[0]).headers["allow"] == "POST"


def test_no_routes_of_wallets(server: MockServer, api: httpx.Client, reader: httpx.Client) -> None:
    server.set_gaps(no_routes="routes")
    wallet = add_wallet(api)
    agent = add_agent(api, wallet)["id"]
    error(api.delete(f"/v1/wallets/{wallet}"), 409, "conflict")
    error(reader.delete(f"/v1/wallets/{wallet}"), 403, "forbidden")
    with client(server, "mock_full_other") as other:
        error(other.delete(f"/v1/wallets/{wallet}"), 404, "not_found")
    assert api.delete(f"/v1/agents/{agent}").status_code == 204
    removed = api.delete(f"/v1/wallets/{wallet}")
    assert (removed.status_code, removed.content) == (204, b"")
    assert ok(api.get("/v1/wallets")) == {"data": []}
    error(api.delete(f"/v1/wallets/{wallet}"), 404, "not_found")
    assert add_wallet(api) != wallet, "connected again, it is another record"


@pytest.mark.parametrize("lag", [0, 2])
def test_history_lag(server: MockServer, api: httpx.Client, lag: int) -> None:
    server.set_gaps(history_lag=lag)
    signal = server.emit_signal(chain_id=56)

    def in_history() -> bool:
        return signal.id in [each["id"] for each in ok(api.get("/v1/signals/history?chain=56"))["data"]]

    assert ok(api.get("/v1/signals?chain=56&limit=1"))["data"][0]["id"] == signal.id, "no option keeps it out of these"
    assert in_history() == (lag == 0)
    server.clock.advance(1.999)
    assert in_history() == (lag == 0)
    server.clock.advance(0.001)
    assert in_history()
