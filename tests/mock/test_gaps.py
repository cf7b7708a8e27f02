"""Every place where the specification is silent: the options, and the default and every other value of each.

Those of market data and of payments are in test_gaps_market and test_gaps_payments.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapInfo, GapOptions, MockClock, MockService

from .._rows import each_of
from ._http import OWNER, START, add_agent, add_wallet, client, connection, error, in_process, ok, sign, walk
from ._streams import first_events

# The options


def test_every_option_is_described_and_has_a_test() -> None:
    described = GapOptions.describe()
    shown = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert {info.name for info in described} == set(GapOptions().as_dict())
    for info in described:
        assert isinstance(info, GapInfo)
        assert f"def test_{info.name}(" in shown or f'("{info.name}", "' in shown, f"no test shows {info.name}"
        assert info.others, info.name
        assert info.text
        assert "\n" not in info.text
        assert str(GapOptions().as_dict()[info.name]) == info.default
        for value in (info.default, *info.others):
            assert str(GapOptions().changed(**{info.name: value}).as_dict()[info.name]) == value


@each_of(
    ("options", "message"),
    [
        ({"write_status": "204"}, "write_status"),
        *(({"clock_skew": value}, "clock_skew") for value in ("soon", 1.5, True, 10**6)),
        ({"cursor_ttl": -1}, "cursor_ttl"),
        ({"history_lag_spread": 3_601}, "0 to 3600"),
        *(({"quotas": value}, "quotas") for value in ("pro=1", "gold=1/1")),
        *(({"wallet_message": value}, "wallet_message") for value in ("hello", "{address}" + "a" * 3_000, 5)),
        ({"order": None}, "order"),
        ({"mood": "good"}, "there is no gap option 'mood'; there are: " + ", ".join(GapOptions().as_dict())),
        ({"ordr": "oldest"}, r"there is no gap option 'ordr'; did you mean order\?$"),
    ],
)
def test_values_that_an_option_does_not_have(server: MockService, options: dict[str, Any], message: str) -> None:
    before = server.gaps
    with pytest.raises(ValueError, match=message):
        server.set_gaps(**{"range_status": "400", **options})
    assert server.gaps == before
    if options.keys() <= before.as_dict().keys():
        with pytest.raises(ValueError, match=message):
            GapOptions(**options)


def test_options_are_values() -> None:
    options = GapOptions(order="oldest", clock_skew=5)
    assert copy.deepcopy(options) == pickle.loads(pickle.dumps(options)) == replace(options) == options  # noqa: S301 - our own bytes
    # Numbers stand for their text.
    options = GapOptions().changed(agent_quota_status=422, clock_skew="-600")
    assert (options.agent_quota_status, options.clock_skew) == ("422", -600)
    with pytest.raises(AttributeError):
        options.order = "oldest"  # type: ignore[misc]  # that this can't be done is what is tested
    with MockService(gaps=GapOptions(range_status="400")) as mock, in_process(mock) as http:
        error(http.get("/v1/trades?limit=0"), 400, "invalid_request")
        assert mock.gaps.range_status == "400"


# Which status

RISKS = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")
HUGE: dict[str, Any] = {"risk": {"position_size_pct": 250, "stop_loss_pct": -1}, "max_positions": 2**63 - 1}
NAMELESS = [{"name": ""}, {"name": " \t"}]
POSITIONS = [{"max_positions": count} for count in (0, -1, 101)]
RISKY = [{"risk": {name: value}} for name, value in zip(RISKS, (0, -1, 100.01, 0), strict=True)]
ADDRESSES = [{"address": text} for text in ("0x12", "me", "")]
# Option, request, fields of its body, and by value of the option the status and what the message has in it.
STATUSES: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    *(("write_status", f"POST {what}", {}, {"201/200": "201", "200/200": "200"}) for what in ("agents", "wallets")),
    ("write_status", "PATCH agent", {"name": "m"}, {"201/200": "200", "201/201": "201"}),
    *(
        ("bounds", f"{what}", each, {"checked": "422 name: "})
        for each in NAMELESS
        for what in ("POST agents", "PATCH agent")
    ),
    *(("bounds", "POST agents", each, {"checked": "422 max_positions: ", "none": "201"}) for each in POSITIONS),
    *(("bounds", "PATCH agent", each, {"checked": "422 max_positions: ", "none": "200"}) for each in POSITIONS),
    *(("bounds", "POST agents", each, {"checked": f"422 risk.{next(iter(each['risk']))}: "}) for each in RISKY),
    *(("bounds", "PATCH agent", each, {"checked": f"422 risk.{next(iter(each['risk']))}: "}) for each in RISKY),
    *(
        ("bounds", "POST agents", {"max_positions": n, "risk": dict.fromkeys(RISKS, n)}, {"checked": "201"})
        for n in (1, 100)
    ),
    ("bounds", "POST agents", HUGE, {"checked": "422 ", "none": "201"}),
    *(("bounds", "POST wallets", each, {"checked": "422 address: ", "none": "422 address: "}) for each in ADDRESSES),
    ("bounds", "POST wallets", {"label": ""}, {"checked": "422 label: "}),
    # The range of a confidence is written down: no option lifts it.
    (
        "bounds",
        "POST agents",
        {"min_confidence": 1.5},
        {"checked": "422 min_confidence: ", "none": "422 min_confidence: "},
    ),
    *(
        ("delete_stopped", f"DELETE {state}", {}, {"204": "204", "409": f"409 {state}"})
        for state in ("paused", "error")
    ),
    ("delete_stopped", "DELETE idle", {}, {"204": "204", "409": "204"}),
    ("unknown_wallet", "POST agents", {"wallet_id": "wal_x"}, {"404": "404 wal_x", "422": "422 wallet_id: "}),
    ("unknown_wallet", "PATCH agent", {"wallet_id": "wal_x"}, {"404": "404 wal_x", "422": "422 wallet_id: "}),
    ("wallet_chain", "POST agents", {"chain_id": 56}, {"422": "422 wallet_id: ", "400": "400 wallet_id: "}),
    ("wallet_chain", "PATCH agent", {"wallet_id": "bnb"}, {"422": "422 wallet_id: ", "400": "400 wallet_id: "}),
    ("unknown_field", "POST agents", {"color": "red"}, {"ignored": "201", "400": "400 color: "}),
    ("unknown_field", "PATCH agent", {"risk": {"mood": 1}}, {"ignored": "200", "400": "400 risk.mood: "}),
    ("unknown_field", "PATCH agent", {"chain_id": 56}, {"ignored": "200", "400": "400 chain_id: "}),
    ("unknown_field", "POST wallets", {"note": ""}, {"ignored": "201", "400": "400 note: "}),
    ("unknown_field", "POST agents", {}, {"400": "201"}),
    ("empty_patch", "PATCH agent", {}, {"200": "200", "400": "400 "}),
    ("empty_patch", "PATCH agent", {"name": "m"}, {"400": "200"}),
    *(
        ("range_status", request, fields, {value: f"{value} {named}: " for value in ("422", "400")})
        for request, fields, named in [
            *((f"GET {path}", {}, "limit") for path in ("trades?limit=0", "agents?limit=101", "wallets?limit=-1")),
            *(("GET signals?chain=1", {}, "chain"), ("GET wallets?chain_id=1", {}, "chain_id")),
            ("GET agents?status=asleep", {}, "status"),
            *(("POST agents", {"chain_id": 1}, "chain_id"), ("POST wallets", {"chain_id": 1}, "chain_id")),
        ]
    ),
    # This 422 is written down: no option changes it.
    ("range_status", "GET signals/history?chain=56&token_address=ETH", {}, {"400": "422 token_address: "}),
    ("agent_quota_status", "FILL agents", {}, {"403": "403 25 agents", "422": "422 25 agents"}),
]
CODES = {400: "invalid_request", 403: "forbidden", 404: "not_found", 409: "conflict", 422: "validation_error"}


@each_of(
    ("option", "value", "request_", "fields", "answer"),
    [(option, value, *row, answer) for option, *row, answers in STATUSES for value, answer in answers.items()],
)
def test_which_status(option: str, value: str, request_: str, fields: dict[str, Any], answer: str) -> None:
    with MockService(clock=MockClock(START)) as server, in_process(server) as api:
        which_status(server, api, option, value, request_, fields, answer)


def which_status(
    server: MockService, api: httpx.Client, option: str, value: str, request_: str, fields: dict[str, Any], answer: str
) -> None:
    wallet = add_wallet(api)
    agent = add_agent(api, wallet)["id"]
    server.set_gaps(**{option: value})
    what: Any  # a status, among others
    method, what = request_.split(" ", 1)
    before = api.get(f"/v1/agents/{agent}").json()
    body = {"name": "n", "wallet_id": wallet, "chain_id": 8453, **fields}
    if what == "wallets":
        api.headers["Authorization"] = "Bearer mock_full_new"
        found = api.post("/v1/wallets", json={**connection(), **fields})
    elif method == "PATCH":
        more = {"wallet_id": add_wallet(api, 56)} if "bnb" in fields.values() else {}
        found = api.patch(f"/v1/agents/{agent}", json={**fields, **more})
    elif method == "DELETE":
        server.set_agent_status(agent, what)
        found = api.delete(f"/v1/agents/{agent}")
    else:
        count = 25 if method == "FILL" else 1
        found = (
            api.get(f"/v1/{what}") if method == "GET" else [api.post("/v1/agents", json=body) for _ in range(count)][-1]
        )
    status, _, said = answer.partition(" ")
    assert found.status_code == int(status), found.text
    if found.is_error:
        assert said in error(found, int(status), CODES[int(status)])
        api.headers["Authorization"] = "Bearer mock_full_main"
        assert api.get(f"/v1/agents/{agent}").json() | {"status": 0} == before | {"status": 0}


def test_bounds_and_an_empty_patch(server: MockService, api: httpx.Client) -> None:
    server.set_gaps(bounds="none")
    made = add_agent(api, add_wallet(api), **HUGE)
    assert (made["risk"], made["max_positions"]) == (HUGE["risk"], 2**63 - 1)
    path = f"/v1/agents/{made['id']}"
    before = ok(api.get(path))
    server.clock.advance(5)
    # The chain and the state are no fields of a change.
    assert ok(api.patch(path, json={})) == ok(api.patch(path, json={"chain_id": 56, "status": "active"})) == before


# What an answer has in it


def test_risk_defaults(server: MockService, api: httpx.Client) -> None:
    wallet = add_wallet(api)
    assert add_agent(api, wallet)["risk"] == {}
    server.set_gaps(risk_defaults="filled")
    made = add_agent(api, wallet, risk={"stop_loss_pct": 8})
    filled = {"position_size_pct": 5, "stop_loss_pct": 8, "trailing_stop_pct": 2, "take_profit_pct": 10}
    assert made["risk"] == ok(api.get(f"/v1/agents/{made['id']}"))["risk"] == filled


def test_wallet_message(server: MockService, api: httpx.Client) -> None:
    ok(api.post("/v1/wallets", json=connection(56)), 201)
    server.set_gaps(wallet_message="I own {address} on chain {chain_id}")
    refused = api.post("/v1/wallets", json=connection())
    error(refused, 400, "invalid_signature")
    assert refused.json()["error"]["message"].endswith("the gap option wallet_message"), (
        "says where the text comes from"
    )
    signature = sign(f"I own {OWNER.address} on chain 8453")
    ok(api.post("/v1/wallets", json={**connection(), "signature": signature}), 201)


def test_wallet_twice(server: MockService, api: httpx.Client) -> None:
    """It is connected once for each chain; the proof is looked at first."""
    first, _ = (ok(api.post("/v1/wallets", json=connection(chain)), 201) for chain in (8453, 56))
    error(api.post("/v1/wallets", json=connection(label="second")), 409, "conflict")
    error(api.post("/v1/wallets", json={**connection(), "signature": "0x"}), 400, "invalid_signature")
    server.set_gaps(wallet_twice="again")
    assert ok(api.post("/v1/wallets", json=connection(label="second")), 201) == first
    assert [wallet["chain_id"] for wallet in walk(api, "/v1/wallets", limit=1)] == [56, 8453]


def test_order(server: MockService, rich: httpx.Client) -> None:
    paths = ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions")
    newest = {path: walk(rich, path, limit=100) for path in paths}
    for path, time in zip(paths, ("created_at", "created_at", "opened_at", "opened_at"), strict=True):
        times = [one[time] for one in newest[path]]
        assert times == sorted(times, reverse=True)
    latest = ok(rich.get("/v1/signals?chain=56"))["data"]
    history = rich.get("/v1/signals/history?chain=56").json()["data"]
    server.set_gaps(order="oldest")
    for path in paths:
        assert walk(rich, path, limit=3 if path != "/v1/trades" else 100) == newest[path][::-1]
    assert ok(rich.get("/v1/signals?chain=56"))["data"] == latest[::-1]
    assert rich.get("/v1/signals/history?chain=56").json()["data"] == history, "its order is written down"


def test_unknown_values(server: MockService, rich: httpx.Client) -> None:
    agent, trade = (ok(rich.get(path))["data"][0]["id"] for path in ("/v1/agents", "/v1/trades"))
    plain = {path: ok(rich.get(path)) for path in ("/v1/account", f"/v1/trades/{trade}", "/v1/positions")}
    server.set_gaps(unknown_values="on")
    new = {"introduced_later": {"since": "next"}}
    for path, before in plain.items():
        record = ok(rich.get(path))
        assert record["introduced_later"] == new["introduced_later"]
        assert list(record) == [*before, *new], "they come after the known ones"
        for item, known in zip(record.get("data", ()), before.get("data", ()), strict=True):
            assert list(item) == [*known, *new]
    for path in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions", "/v1/signals?chain=56"):
        page = ok(rich.get(path))
        assert all(item["introduced_later"] == new["introduced_later"] for item in (page, *page["data"]))
    assert ok(rich.get(f"/v1/agents/{agent}"))["status"] == "hibernating"
    assert ok(rich.get(f"/v1/agents/{agent}"))["stats"]["introduced_later"] == new["introduced_later"]
    assert {item["status"] for item in ok(rich.get("/v1/trades"))["data"]} == {"settling"}
    failed = rich.get("/v1/agents/unknown")
    assert (failed.status_code, failed.json()["error"]["introduced_later"]) == (404, new["introduced_later"])
    server.set_gaps(unknown_values="off")
    assert {path: ok(rich.get(path)) for path in plain} == plain


@pytest.mark.parametrize(("skew", "date"), [(600, "08:10:00"), (-600, "07:50:00")])
def test_clock_skew(server: MockService, api: httpx.Client, skew: int, date: str) -> None:
    server.set_gaps(clock_skew=skew)
    answer = api.get("/v1/account")
    assert answer.headers["date"] == f"Fri, 15 Jan 2027 {date} GMT"
    assert answer.headers["x-ratelimit-reset"] == str(START + skew + 60)
    assert answer.json()["created_at"] == START + skew
    assert server.clock.now() == START


def test_rate_headers(server: MockService, api: httpx.Client, anyone: httpx.Client) -> None:
    for value in ("always", "never"):
        server.set_gaps(rate_headers=value)
        for answer in (anyone.get("/v1/account"), api.get("/v1/agents/unknown"), api.get("/v1/nothing")):
            assert answer.status_code in (401, 404)
            assert bool([name for name in answer.headers if name.startswith("x-ratelimit")]) is (value == "always")
        for answer in (api.get("/v1/account"), api.get("/v1/agents?limit=0"), api.put("/v1/agents")):
            assert "x-ratelimit-reset" in answer.headers


def test_cursor_ttl() -> None:
    # On a market of its own agents would have years of trades to catch up with.
    with MockService(clock=MockClock(START), signals="scripted") as server, client(server) as rich:
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


def test_quotas(server: MockService, api: httpx.Client) -> None:
    server.set_gaps(quotas="pro=20/2,free=10/1")
    usage = ok(api.get("/v1/account/usage"))
    assert (usage["requests"]["limit"], usage["agents"]["limit"]) == (20, 2)
    with client(server, "mock_full_enterprise_x") as http:
        assert ok(http.get("/v1/account/usage"))["agents"]["limit"] == 1_000


def test_request_quota(server: MockService, api: httpx.Client) -> None:
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


def test_unknown_agent_filter(server: MockService, rich: httpx.Client) -> None:
    known = ok(rich.get("/v1/agents"))["data"][0]["id"]
    for path in ("/v1/trades", "/v1/positions"):
        server.set_gaps(unknown_agent_filter="empty")
        assert ok(rich.get(path, params={"agent_id": "agt_unknown"})) == {"data": []}
        server.set_gaps(unknown_agent_filter="404")
        error(rich.get(path, params={"agent_id": "agt_unknown"}), 404, "not_found")
        ok(rich.get(path, params={"agent_id": known}))
        with client(server, "mock_full_other") as other:
            error(other.get(path, params={"agent_id": known}), 404, "not_found")


def test_time_bounds(server: MockService, api: httpx.Client) -> None:
    times = [item["timestamp"] for item in ok(api.get("/v1/signals/history?chain=8453&limit=30"))["data"]]
    query = {"chain": 8453, "from": times[-1], "to": times[5], "limit": 100}
    inclusive = [item["timestamp"] for item in ok(api.get("/v1/signals/history", params=query))["data"]]
    assert {times[5], times[-1]} <= set(inclusive)
    server.set_gaps(time_bounds="exclusive")
    exclusive = [item["timestamp"] for item in ok(api.get("/v1/signals/history", params=query))["data"]]
    assert exclusive == [moment for moment in inclusive if times[-1] < moment < times[5]]


def test_enterprise_limit(server: MockService) -> None:
    with client(server, "mock_full_enterprise_x") as http:
        server.set_gaps(enterprise_limit=60_000)
        assert http.get("/v1/account").headers["x-ratelimit-limit"] == "60000"


@pytest.mark.parametrize("value", ["allowed", "403"])
def test_read_only_account(server: MockService, api: httpx.Client, reader: httpx.Client, value: str) -> None:
    server.set_gaps(read_only_account=value)
    for path in ("/v1/account", "/v1/account/usage", "/v1/positions"):
        assert reader.get(path).status_code == (403 if value == "403" else 200)
        ok(api.get(path))
    for path in ("/v1/agents", "/v1/trades", "/v1/wallets", "/v1/signals?chain=56"):
        ok(reader.get(path))


def test_no_routes(server: MockService, api: httpx.Client, reader: httpx.Client) -> None:
    wallet = add_wallet(api)
    agent = add_agent(api, wallet)["id"]
    start, stop, pause = paths = [f"/v1/agents/{agent}/{verb}" for verb in ("start", "stop", "pause")]
    for path in paths:
        error(api.post(path), 404, "not_found")
        error(api.get(path), 404, "not_found")
    error(api.delete(f"/v1/wallets/{wallet}"), 404, "not_found")
    server.set_gaps(no_routes="routes")
    assert [ok(api.post(path))["status"] for path in paths] == ["active", "idle", "paused"]
    assert ok(api.post(start)) == ok(api.get(f"/v1/agents/{agent}")), "a full agent, as a PATCH gives it"
    error(api.post(start), 409, "conflict")
    ok(api.post(stop))
    error(api.post(stop), 409, "conflict")
    ok(api.post(pause))
    for path in (*paths, "/v1/agents/agt_unknown/start"):
        error(reader.post(path), 403, "forbidden")
    error(api.post("/v1/agents/agt_unknown/start"), 404, "not_found")
    assert api.get(start).headers["allow"] == "POST"
    # Wallets that no agent uses can be removed.
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


# Signals, in process: a read of the stream moves the clock on


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(seed=7, clock=MockClock(START), signals="scripted") as service:
        yield service


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with in_process(mock) as made:
        yield made


@pytest.mark.parametrize("seconds", [15, 1, 60])
def test_heartbeat(mock: MockService, http: httpx.Client, seconds: int) -> None:
    mock.set_gaps(heartbeat=seconds)
    beats = [event.data for event in first_events(http, 3, timeout=100)]
    assert beats == [{"type": "heartbeat", "timestamp": START + n * seconds} for n in (1, 2, 3)]


def test_no_heartbeat_and_one_that_changes_under_an_open_stream(mock: MockService, http: httpx.Client) -> None:
    mock.set_gaps(heartbeat=0)
    mock.emit_signal(at=START + 80_000)
    with pytest.raises(httpx.ReadTimeout):
        first_events(http, 1, timeout=79_000)
    assert mock.clock.now() == START + 79_000
    assert [event.data["type"] for event in first_events(http, 1, timeout=79_000)] == ["signal"]
    mock.set_gaps(heartbeat=15)
    with http.stream("GET", "/v1/signals/stream?chain=8453", timeout=100) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert next(lines).endswith(f"{START + 80_015}}}")
        mock.set_gaps(heartbeat=1)
        assert next(lines).endswith(f"{START + 80_016}}}")


@pytest.mark.parametrize("value", ["none", "ids"])
def test_resume(mock: MockService, http: httpx.Client, value: str) -> None:
    mock.set_gaps(resume=value)
    for n in range(4):
        mock.emit_signal(at=START + 1 + n)
    first, *rest = found = first_events(http, 4)
    assert [event.id for event in found] == [event.data["id"] if value == "ids" else None for event in found]
    mock.emit_signal(chain_id=56)
    latest = mock.emit_signal(at=START + 10)
    resumed = {"Last-Event-ID": first.data["id"]}
    missed = [event.data["id"] for event in rest] if value == "ids" else []
    got = [event.data["id"] for event in first_events(http, len(missed) + 1, headers=resumed)]
    assert got == [*missed, latest.id]
    # An id that nobody gave out, in whatever bytes, says nothing.
    for odd in ("sig_unknown", "' OR 1=1", "\xff"):
        coming = mock.emit_signal(at=mock.clock.now() + 10)
        (event,) = first_events(http, 1, headers={"Last-Event-ID": odd.encode("latin-1")})
        assert event.data["id"] == coming.id


@pytest.mark.parametrize("value", ["none", "honoured"])
def test_stream_filter(mock: MockService, http: httpx.Client, value: str) -> None:
    mock.set_gaps(stream_filter=value)
    for n, confidence in enumerate((0.2, 0.75, 0.749, 0.9)):
        mock.emit_signal(at=START + 1 + n, confidence=confidence)
    kept = [0.75, 0.9] if value == "honoured" else [0.2, 0.75, 0.749, 0.9]
    seen = first_events(http, len(kept), min_confidence="0.75")
    assert [event.data["confidence"] for event in seen] == kept
    if value == "honoured":
        assert http.get("/v1/signals/stream?chain=8453&min_confidence=2", timeout=1).status_code == 422


# A history that is late: all of it, or each signal by a time of its own

STEP = 0.125  # sums of it are exact


def shown(http: httpx.Client) -> list[str]:
    """The ids in the history, newest first."""
    return [signal["id"] for signal in walk(http, "/v1/signals/history", chain=8453, **{"from": START}, limit=100)]


def emit(mock: MockService, count: int, every: float = 0.0) -> list[str]:
    """Signals so many seconds apart from now on; the clock stays where it is."""
    return [mock.emit_signal(after=n * every).id for n in range(count)]


def lateness(mock: MockService, http: httpx.Client, emitted: list[str], seconds: float) -> list[float]:
    """When, from now on, the history showed each signal first; looked at for so long."""
    begun, found = mock.clock.now(), dict[str, float]()
    while True:
        for ident in shown(http):
            found.setdefault(ident, mock.clock.now() - begun)
        if mock.clock.now() - begun >= seconds:
            return [found[ident] for ident in emitted]
        mock.clock.advance(STEP)


@pytest.mark.parametrize("lag", [0, 2])
def test_history_lag(mock: MockService, http: httpx.Client, lag: int) -> None:
    mock.set_gaps(history_lag=lag)
    (emitted,) = emit(mock, 1)
    assert ok(http.get("/v1/signals?chain=8453&limit=1"))["data"][0]["id"] == emitted, "no option keeps it out of these"
    assert (emitted in shown(http)) == (lag == 0)
    mock.clock.advance(1.999)
    assert (emitted in shown(http)) == (lag == 0)
    mock.clock.advance(0.001)
    assert emitted in shown(http)


@pytest.mark.long
def test_history_lag_spread(mock: MockService, http: httpx.Client) -> None:
    """By a time of its own, on top of the lag; it grows with the option and follows from seed and id."""
    emitted = emit(mock, 40)

    def measured(**options: int) -> list[float]:
        mock.clock.set(START, allow_backwards=True)
        mock.set_gaps(**{"history_lag": 0, "clock_skew": 0, **options})
        return lateness(mock, http, emitted, 5)

    assert measured(history_lag_spread=0) == [0] * 40
    narrow, wide = measured(history_lag_spread=2), measured(history_lag_spread=4)
    assert min(narrow) < 0.5
    assert 1.5 < max(narrow) <= 2
    assert len(set(narrow)) > 8
    # Both were checked eight times a second.
    assert all(abs(far - 2 * near) <= 2 * STEP for near, far in zip(narrow, wide, strict=True))
    assert measured(history_lag_spread=2, history_lag=3) == [3 + late for late in narrow]
    assert measured(history_lag_spread=2, clock_skew=1) == [max(0.0, late - 1) for late in narrow]
    for seed, same in ((7, True), (2**70, False)):
        with MockService(seed=seed, clock=MockClock(START), signals="scripted") as other, in_process(other) as its:
            other.set_gaps(history_lag_spread=2)
            found = emit(other, 40)
            for _ in range(5):
                other.emit_signal(chain_id=56)
            assert (lateness(other, its, found, 2) == narrow) is same


def test_nothing_else_is_late(mock: MockService, http: httpx.Client) -> None:
    mock.set_gaps(history_lag_spread=3_600, history_lag=3_600)
    with http.stream("GET", "/v1/signals/stream?chain=8453") as stream:
        emitted = emit(mock, 5)
        lines = (line for line in stream.iter_lines() if line)
        assert [ident in next(lines) for ident in emitted] == [True] * 5
    latest = ok(http.get("/v1/signals?chain=8453&limit=5"))["data"]
    assert [signal["id"] for signal in latest] == emitted[::-1]
    assert shown(http) == []


def test_a_later_signal_may_come_first_and_a_walk_stays_in_order(mock: MockService, http: httpx.Client) -> None:
    """What arrives between two pages is seen at its place, and nothing twice."""
    mock.set_gaps(history_lag_spread=20)
    emitted = emit(mock, 60, every=1)
    holes = 0
    for _ in range(30):
        mock.clock.advance(1)
        places = [emitted.index(ident) for ident in shown(http)]
        assert places == sorted(places, reverse=True)
        holes += any(newer - older > 1 for newer, older in pairwise(places))
    assert holes > 20
    before = shown(http)
    query: dict[str, Any] = {"chain": 8453, "from": START, "limit": 3}
    page = ok(http.get("/v1/signals/history", params=query))
    mock.clock.advance(50)
    found = page["data"] + walk(http, "/v1/signals/history", **query, cursor=page["next_cursor"])
    ids = [signal["id"] for signal in found]
    assert ids[:3] == before[:3]
    # Below the first page it is complete by now; above it, a cursor never goes back.
    assert ids[2:] == emitted[emitted.index(ids[2]) :: -1]
    assert len(before) < len(ids)
    assert shown(http) == emitted[::-1]


def test_a_state_file_keeps_the_options(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    with MockService(seed=7, db=path, clock=MockClock(START), signals="scripted") as first, in_process(first) as http:
        first.set_gaps(history_lag_spread=2)
        emitted = emit(first, 40)
        first.clock.advance(1)
        before = shown(http)
    with MockService(db=path) as second, in_process(second) as http:
        assert second.gaps == GapOptions(history_lag_spread=2)
        assert shown(http) == before
        second.clock.advance(1)
        assert shown(http) == emitted[::-1]
    assert 5 < len(before) < 35
