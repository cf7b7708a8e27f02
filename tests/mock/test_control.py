"""The control API: it moves the world, says what is wrong with a request, and answers programs on this machine only."""

from __future__ import annotations

import inspect
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService
from tradesdk_mock.api.pipeline import Pipeline
from tradesdk_mock.control.http import OPERATIONS, ControlOperation, signature
from tradesdk_mock.control.http import ControlApi as Control
from tradesdk_mock.core.messages import Request

from .._rows import each_of
from ._http import FULL, START, add_agent, add_wallet, client, error, in_process, ok

DOCS = Path(__file__).parents[2] / "docs" / "mock.md"


@pytest.fixture
def mock() -> Iterator[MockService]:
    """An empty world whose time stands still."""
    with MockService(clock=MockClock(START)) as found:
        yield found


@pytest.fixture
def api(mock: MockService) -> Iterator[httpx.Client]:
    """The tenant `main` with full access. The control API doesn't look at its key."""
    with in_process(mock) as http:
        yield http


# What it does


def test_status(mock: MockService, api: httpx.Client) -> None:
    mock.populate("main")
    assert ok(api.get("/_mock/status", headers={"Authorization": "Bearer nonsense"})) == {
        "seed": 7,
        "now": START,
        "service_now": START,
        "frozen": True,
        "speed": 1.0,
        "market": "live",
        "db": None,
        "tenants": ["main"],
        "keys": 0,
        "agents": 6,
        "trades": 250,
        "signals": 0,
        "signals_upto": None,
        "settlements": 0,
        "streams": 0,
        "faults": 0,
        "gaps": {},
    }
    api.post("/_mock/nothing")
    assert mock.journal() == [], "only requests to the service"


def test_keys_and_plans(mock: MockService, api: httpx.Client) -> None:
    made = ok(api.post("/_mock/keys", json={"name": "bot", "scope": "read-only", "plan": "free", "tenant": "acme"}))
    assert list(made) == ["id", "value", "name", "scope", "tenant", "last4"]
    headers = {"Authorization": f"Bearer {made['value']}"}
    assert ok(api.get("/v1/account", headers=headers))["plan"] == "free"
    shown = {name: made[name] for name in made if name != "value"}
    assert ok(api.get("/_mock/keys"))["data"] == mock.list_keys() == [{**shown, "state": "valid", "created_at": START}]

    def change(key: dict[str, Any], verb: str, **body: object) -> dict[str, Any]:
        return ok(api.post(f"/_mock/keys/{key['id']}/{verb}", json=body))

    rotated = change(made, "rotate")
    assert (rotated["scope"], rotated["tenant"]) == ("read-only", "acme")
    error(api.get("/v1/account", headers=headers), 401, "unauthorized")
    assert change(rotated, "expire", at=START + 5)["state"] == "valid"
    assert change(rotated, "expire")["state"] == "expired"
    third = ok(api.post("/_mock/keys"))
    assert (third["name"], third["scope"]) == ("bot", "full-access")
    assert change(third, "revoke")["state"] == "revoked"
    assert [key["state"] for key in mock.list_keys()] == ["revoked", "expired", "revoked"]
    reset_at = ok(api.get("/v1/account/usage"))["reset_at"]
    for plan, now, later in (("free", "pro", "free"), ("enterprise", "enterprise", None)):
        answer = ok(api.post("/_mock/tenants/main/plan", json={"plan": plan}))
        assert answer == {"tenant": "main", "plan": now, "next_plan": later, "reset_at": reset_at}


def test_populate_and_agents(api: httpx.Client) -> None:
    expected = {"wallets": 2, "agents": 6, "trades": 300, "positions": 8}
    for body in ({"trades": 300}, None):
        assert ok(api.post("/_mock/tenants/main/populate", json=body)) == expected
    assert len(ok(api.get("/v1/agents"))["data"]) == 6
    agent = ok(api.get("/v1/agents?status=idle&limit=1"))["data"][0]["id"]
    for verb, status in (("start", "active"), ("stop", "idle")):
        assert ok(api.post(f"/_mock/agents/{agent}/{verb}")) == {"id": agent, "status": status}
        error(api.post(f"/_mock/agents/{agent}/{verb}"), 409, "conflict")
    assert ok(api.post(f"/_mock/agents/{agent}/status", json={"status": "paused"}))["status"] == "paused"
    assert ok(api.get(f"/v1/agents/{agent}"))["status"] == "paused"


def test_clock(mock: MockService, api: httpx.Client) -> None:
    mock.set_gaps(clock_skew=90)
    still = {"now": START, "service_now": START + 90, "frozen": True, "speed": 1.0}
    assert ok(api.get("/_mock/clock")) == still
    for change, shown in (
        ({"advance": 1.5}, {"now": START + 1.5, "service_now": START + 91.5}),
        ({"set": START + 60}, {"now": START + 60, "service_now": START + 150}),
        ({"speed": 60}, {"now": START + 60, "speed": 60.0}),
        ({"set": START, "allow_backwards": True, "advance": 1}, {"now": START + 1}),
        ({"freeze": False}, {"frozen": False}),
        ({"freeze": True}, {"frozen": True}),
    ):
        assert ok(api.post("/_mock/clock", json=change)).items() >= shown.items()
    assert mock.clock.frozen
    assert mock.clock.now() == ok(api.get("/_mock/clock"))["now"]


def test_gaps(mock: MockService, api: httpx.Client) -> None:
    shown = ok(api.get("/_mock/gaps"))
    assert {each["name"]: each["value"] for each in shown["data"]} == GapOptions().as_dict()
    assert [{**each, "others": tuple(each["others"])} for each in shown["data"]] == [
        {"value": getattr(mock.gaps, each.name), **asdict(each)} for each in GapOptions.describe()
    ]
    changed = ok(api.put("/_mock/gaps", json={"write_status": "200/200", "clock_skew": 5}))
    assert {each["name"]: each["value"] for each in changed["data"]} == {"write_status": "200/200", "clock_skew": 5}
    assert mock.gaps == GapOptions(write_status="200/200", clock_skew=5)
    assert "mood" in error(api.put("/_mock/gaps", json={"mood": "1", "order": "oldest"}), 400, "invalid_request")
    assert mock.gaps.order == "newest"


def test_reset(mock: MockService, api: httpx.Client) -> None:
    mock.populate("main")
    mock.set_gaps(write_status="200/200")
    first = ok(api.get("/v1/account"))["id"]
    mock.add_fault("status", route="/v1/trades", status=500)
    mock.emit_signal()
    begun = ok(api.post("/_mock/reset"))
    assert begun.items() >= {"tenants": [], "faults": 0, "signals": 0, "gaps": {"write_status": "200/200"}}.items()
    assert begun == ok(api.get("/_mock/status")) == mock.status()
    assert mock.journal() == []
    answer = api.get("/v1/trades")
    assert ok(answer) == {"data": []}
    assert answer.headers["x-ratelimit-remaining"] == "299"
    assert ok(api.get("/v1/account"))["id"] == first
    assert ok(api.post("/_mock/reset", json={"seed": 99}))["seed"] == 99
    assert ok(api.get("/v1/account"))["id"] != first
    assert ok(api.post("/_mock/reset", json={"seed": 7, "populate": ["b", "main"]}))["tenants"] == ["b", "main"]
    assert ok(api.get("/v1/account"))["id"] == first
    assert len(ok(api.get("/v1/agents"))["data"]) == 6
    mock.reset(seed=9, populate=["main"])
    assert mock.status().items() >= {"seed": 9, "tenants": ["main"]}.items()
    with pytest.raises(MockServerError, match="names of tenants"):
        mock.reset(seed=5, populate="main")
    mock.reset()
    assert mock.status()["seed"] == 9


def test_journal(mock: MockService, api: httpx.Client) -> None:
    def listed(query: str = "") -> tuple[list[str], int]:
        found = ok(api.get(f"/_mock/journal{query}"))
        return [entry["path"] for entry in found["data"]], found["last"]

    assert listed() == ([], 0)
    api.get("/v1/agents?limit=5")
    (entry,) = ok(api.get("/_mock/journal"))["data"]
    assert entry == asdict(mock.journal()[0]) | {"faults": []}
    assert (entry["n"], entry["path"], entry["query"], entry["status"]) == (1, "/v1/agents", {"limit": "5"}, 200)
    api.get("/v1/account", headers={"Authorization": ""})
    api.get("/v1/trades")
    assert listed("?after=1") == (["/v1/account", "/v1/trades"], 3)
    assert listed("?tenant=main") == (["/v1/agents", "/v1/trades"], 3)
    assert listed("?after=3") == ([], 3)
    assert ok(api.delete("/_mock/journal")) == {"data": []}
    assert listed() == ([], 3), "whoever follows it by its numbers misses nothing"


def test_signals_and_prices(api: httpx.Client) -> None:
    asked = {"chain_id": 56, "direction": "SELL", "confidence": 0.9, "price_usd": 2.5, "timestamp": START - 1}
    signal = ok(api.post("/_mock/signals", json={**asked, "token": "cake"}))
    assert (signal | asked, signal["token_symbol"], signal["published_at"]) == (signal, "CAKE", START)
    signal.pop("published_at")
    assert ok(api.get("/v1/signals?chain=56&limit=1"))["data"] == [signal]
    later = [ok(api.post("/_mock/signals", json=when)) for when in ({"at": START + 5}, {"after": 5})]
    assert [each["published_at"] for each in later] == [START + 5] * 2
    assert later[0]["id"] != later[1]["id"]


def test_faults(mock: MockService, api: httpx.Client) -> None:
    assert ok(api.get("/_mock/faults")) == {"data": []}
    asked = {"kind": "status", "route": "/v1/trades", "method": "GET", "count": 1, "status": 503}
    made = ok(api.post("/_mock/faults", json=asked))
    assert made == asdict(mock.faults()[0])
    error(api.get("/v1/trades"), 503, "service_unavailable")
    ok(api.get("/v1/trades"))
    (listed,) = ok(api.get("/_mock/faults"))["data"]
    assert (listed["seen"], listed["fired"]) == (2, 1)
    second = ok(api.post("/_mock/faults", json={"kind": "drop", "route": "/v1/nothing"}))
    assert ok(api.get("/_mock/status"))["faults"] == 2
    assert ok(api.delete(f"/_mock/faults/{made['id']}")) == {"data": [second]}
    error(api.delete(f"/_mock/faults/{made['id']}"), 404, "not_found")
    assert ok(api.delete("/_mock/faults")) == {"data": []}
    kinds = ok(api.get("/_mock/faults/kinds"))["data"]
    assert {kind["on"] for kind in kinds} == {"response", "stream", "payment", "node"}
    assert all(set(kind) == {"name", "on", "text", "parameters"} for kind in kinds)
    assert all(set(each) == {"name", "default", "text"} for kind in kinds for each in kind["parameters"])


# What can be wrong with a request

PAYER = f"payments/balances/0x{'1' * 40}"
MISTAKES: dict[str, list[Any]] = {
    "POST reset": [
        *({"seed": "7"}, {"seed": True}, {"sead": 7}, {"seed": 10**30}),
        *({"populate": "main"}, {"populate": [1]}, {"seed": 9, "populate": ["a", "no name"]}),
    ],
    "POST keys": [{"scope": "admin"}, {"plan": "gold"}, {"tenant": "a b"}, {"tenant": 5}, {"name": ["x"]}],
    "POST keys/KEY/expire": [{"at": at} for at in ("soon", 10**30, 2**62, 1e300, -5)],
    "POST keys/KEY/revoke": [{"now": True}],
    "POST tenants/main/plan": [{}, {"plan": "gold"}],
    "POST tenants/no name/plan": [{"plan": "pro"}],
    "POST tenants/main/populate": [{"trades": trades} for trades in (1, 10.5, 10**30)],
    "POST agents/AGENT/status": [{}, {"status": "asleep"}],
    "POST agents/AGENT/start": [{"now": True}],
    "POST clock": [
        *(
            {"allow_backwards": True},
            {"set": "tomorrow"},
            {"set": -5},
            {"set": 10**30},
            {"set": START + 5, "allow_backwards": "yes"},
        ),
        *({"advance": -5}, {"advance": 1e300}, {"advance": 10**4_000}, {"advance": True}, {"freeze": 1}),
        *({"speed": 0}, {"speed": -1}, {"speed": 1e7}, {"speed": "fast"}),
        *({"advance": 5, "speed": None, "later": 1}, {"freeze": False, "set": START + 5, "advance": -1}),
        *({"freeze": False, "set": START - 10_000}, {"freeze": False, "set": START + 5, "allow_backwards": 1}),
        "later",
    ],
    "PUT gaps": [{"order": "random"}, {"order": []}, {"clock_skew": 10**30}, [], {"self": 1}],
    "GET journal": ["after=x", "after=1&after=2", "tenant=", "aftr=0", "limit=0"],
    "POST signals": [
        *({"chain_id": 1}, {"direction": "HOLD"}, {"confidence": 1.5}, {"price_usd": 0}, {"token": ""}),
        *({"timestamp": 1.5}, {"at": -1}, {"symbol": "ETH"}, {"after": -1}, {"after": 1, "at": START + 1}),
    ],
    "GET payments": ["path=v1", "limit=10001"],
    "GET payments/twice": ["within=-1", "within=soon"],
    "GET payments/balances/nobody": [""],
    f"PUT {PAYER}": [{}, {"balance": "5"}, {"balance": -1}, {"balance": None}],
    "POST faults": [
        *({}, {"kind": "earthquake"}, {"kind": ["status"]}, {"kind": "status", "status": 99}),
        *({"kind": "status", "status": "500"}, {"kind": "status", "status": 500, "mood": 1}),
        {"kind": "latency", "seconds": -1},
        *({"kind": "reset", "nth": 0}, {"kind": "reset", "nth": 1, "every": 2}, {"kind": "reset", "probability": 1.5}),
        *({"kind": "reset", "count": True}, {"kind": "reset", "route": "v1/trades"}, {"kind": "reset", "method": 5}),
        {"kind": "reset", "tenant": "a" * 100},
    ],
}


@pytest.fixture(scope="module")
def untouched() -> Iterator[tuple[httpx.Client, str, str]]:
    """A world that no mistake changes, so that one will do for all of them: a client, an agent and a key of it."""
    with MockService(clock=MockClock(START)) as mock, in_process(mock, "mock_full_enterprise_main") as http:
        agent = add_agent(http, add_wallet(http))["id"]
        mock.add_fault("latency", route="/v1/nothing", seconds=0)
        yield http, agent, ok(http.get("/_mock/keys"))["data"][0]["id"]


@pytest.mark.long
@each_of("what", MISTAKES)
def test_mistakes_are_answered_plainly_and_change_nothing(untouched: tuple[httpx.Client, str, str], what: str) -> None:
    api, agent, key = untouched
    method, _, path = what.replace("KEY", key).replace("AGENT", agent).partition(" ")
    looks = ("/_mock/status", "/_mock/clock", "/_mock/gaps", "/_mock/keys", f"/v1/agents/{agent}")
    before = [api.get(known).content for known in looks]
    for wrong in MISTAKES[what]:
        query = f"?{wrong}" if method == "GET" else ""
        answer = api.request(method, f"/_mock/{path}{query}", json=None if method == "GET" else wrong)
        error(answer, 400, "invalid_request")
        assert [api.get(known).content for known in looks] == before, wrong
    assert ok(api.get("/_mock/journal"))["data"][0]["path"] == "/v1/wallets"


@each_of(
    ("method", "path", "body", "said"),
    [
        ("POST", "reset", {"sed": 7}, "sed: not a field of this request; it has: seed, populate"),
        ("POST", "agents/agt_1/start", {"now": 1}, "now: not a field of this request; it has none"),
        ("POST", "reset", {"seed": "7"}, "seed: must be an integer"),
        ("POST", "reset", {"seed": 2**63}, "seed: must be an integer of at most 64 bits"),
        ("POST", "reset", {"seed": -(2**63) - 1}, "seed: must be an integer of at most 64 bits"),
        ("POST", "reset", {"populate": "me"}, "populate: must be a list"),
        ("POST", "keys", {"name": 5}, "name: must be text"),
        ("POST", "clock", {"advance": "1h"}, "advance: must be a number"),
        ("POST", "clock", {"freeze": 1}, "freeze: must be true or false"),
        ("GET", "journal?aftr=0", None, "aftr: not a parameter of this request; it has: tenant, after, limit"),
        (
            "POST",
            "clock",
            {"set": START - 10_000},
            f'the clock shows {START}.000; going back to {START - 10_000}.000 needs "allow_backwards": true',
        ),
    ],
)
def test_it_is_said_what_would_be_right(api: httpx.Client, method: str, path: str, body: Any, said: str) -> None:
    assert error(api.request(method, f"/_mock/{path}", json=body), 400, "invalid_request") == said


def test_what_there_is_not_and_what_is_no_json(api: httpx.Client) -> None:
    key = ok(api.post("/_mock/keys"))["id"]
    for path in (
        *("", "nothing", f"keys/{key}", "keys/a/b/c", f"keys/{key}/polish", "keys/no/revoke"),
        *("tenants/main/move", "agents/a/jump", "agents/unknown/start"),
    ):
        error(api.post(f"/_mock/{path}"), 404, "not_found")
    refused = api.delete("/_mock/status")
    error(refused, 405, "invalid_request")
    assert refused.headers["allow"] == "GET"
    big = b'{"seed": ' + b" " * 1_100_000 + b"1}"
    for kind, content in (("text/plain", b"seed=1"), ("application/json", b"{"), ("application/json", big)):
        answer = api.post("/_mock/reset", content=content, headers={"Content-Type": kind})
        error(answer, 400, "invalid_request")


def test_what_fails_halfway_leaves_no_other_seed_and_options_behind(
    mock: MockService, api: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    first = ok(api.get("/v1/account"))["id"]
    with monkeypatch.context() as patched:
        patched.setattr(mock.world, "_save_clock", full)
        error(api.post("/_mock/reset", json={"seed": 9}), 500, "internal_error")
        patched.setattr(mock.world, "_save_gaps", full)
        assert "disk" not in error(api.put("/_mock/gaps", json={"order": "oldest"}), 500, "internal_error")
    assert "disk is full" in caplog.text
    assert "crashed" in caplog.text
    status = ok(api.get("/_mock/status"))
    assert (status["seed"], status["gaps"], status["tenants"]) == (7, {}, ["main"])
    assert ok(api.get("/v1/account"))["id"] == first


# Who may ask: programs on this machine, and no web page in a browser on it

LOCAL = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
FOREIGN = ["10.0.0.9", "192.168.0.1", "::ffff:10.0.0.5", "2001:db8::1", "", "somewhere.example", None]
EVIL_HOSTS = [
    *("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5"),
    *("[::1", "127.0.0.1@evil.example", "localhost:80@evil.example", "evil.example#127.0.0.1", "", "\xe9"),
]
GOOD_HOSTS = ["localhost", "LOCALHOST:8787", "127.0.0.2:80", "[::1]:80", "trade.localhost"]
EVIL_ORIGINS = ["https://evil.example", "null", "file://", "http://localhost.evil.example", "http://[::1", "evil"]
GOOD_ORIGINS = ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"]


def ask(
    mock: MockService,
    path: str = "/_mock/status",
    method: str = "GET",
    *,
    sender: str | None = "127.0.0.1",
    remote: bool = False,
    also: list[tuple[str, str]] | None = None,
    **headers: str,
) -> httpx.Response:
    request = Request(method, path, client=sender)
    given = [*{"host": "localhost:8787", **headers}.items(), *(also or [])]
    request.headers = [(name.encode(), value.encode("latin-1")) for name, value in given]
    response = Pipeline(mock.world, control=Control(mock, allow_remote=remote)).respond(request)
    assert isinstance(response.body, bytes)
    return httpx.Response(response.status, headers=response.headers, content=response.body)


def kept_out(mock: MockService, why: str, **options: Any) -> None:
    for method, path in (
        ("GET", "status"),
        ("POST", "reset"),
        ("POST", "restore"),
        ("POST", "nothing"),
        ("PATCH", "gaps"),
    ):
        message = error(ask(mock, f"/_mock/{path}", method, **options), 403, "forbidden")
        assert why in message
        assert len(message) < 200
        assert json.dumps(message).isascii()
    # What is served is for everybody.
    ok(ask(mock, "/v1/account", authorization=f"Bearer {FULL}", **options))
    assert mock.status()["tenants"] == ["main"]


def test_other_machines_are_kept_out_unless_asked_for(mock: MockService) -> None:
    for near in LOCAL:
        ok(ask(mock, sender=near))
    for far in FOREIGN:
        kept_out(mock, "this machine only", sender=far)
    for anyone in (*LOCAL, *FOREIGN):
        ok(ask(mock, sender=anyone, remote=True, host="mock.build.example:8787"))
        assert ok(ask(mock, "/_mock/reset", "POST", sender=anyone, remote=True))["tenants"] == []


def test_names_and_web_pages_that_are_not_of_this_machine_are_kept_out(mock: MockService) -> None:
    for host in GOOD_HOSTS:
        ok(ask(mock, host=host))
    for host in (*EVIL_HOSTS, "evil.example" + "x" * 5_000):
        kept_out(mock, "Host", host=host)
    for origin in GOOD_ORIGINS:
        ok(ask(mock, origin=origin))
    for origin in EVIL_ORIGINS:
        for remote in (False, True):
            kept_out(mock, "Origin", origin=origin, remote=remote)
    # Every one of several counts.
    kept_out(mock, "Host", host="evil.example", also=[("host", "localhost")])
    kept_out(mock, "Host", also=[("host", "evil.example")])
    kept_out(mock, "Origin", origin="http://localhost", also=[("origin", "http://evil.example")])


@each_of("allowed", [False, True], ids=["local", "remote"])
def test_the_server_hands_on_what_it_was_told(allowed: bool) -> None:
    with MockServer(clock=MockClock(START), allow_remote_control=allowed) as server, client(server) as http:
        answer = http.get("/_mock/status", headers={"Host": "mock.build.example"})
        if allowed:
            ok(answer)
        else:
            error(answer, 403, "forbidden")
        error(http.get("/_mock/status", headers={"Origin": "https://evil.example"}), 403, "forbidden")
        ok(http.get("/_mock/status", headers={"Origin": server.url}))


# Its table: arguments are read from signatures, and the docs list every operation

ALL = [(f"/_mock/{each.path}", each.method, each) for each in OPERATIONS]
BY_NAME = {f"{each.method} {each.path}": each for each in OPERATIONS}


def fields(path: str, operation: ControlOperation) -> list[str]:
    """What a request may say beside its path."""
    return [name for name in signature(operation.function)[0] if f"{{{name}}}" not in path]


def test_arguments_are_read_from_the_signature() -> None:
    for path, _, operation in ALL:
        if operation.raw:
            continue
        arguments, others = signature(operation.function)
        parameters = inspect.signature(operation.function).parameters
        assert {*re.findall(r"\{(\w+)\}", path)} <= arguments.keys()
        for name, argument in arguments.items():
            assert argument.required == (parameters[name].default is inspect.Parameter.empty)
            assert argument.types, f"{path}: {name}: {parameters[name].annotation} says nothing about JSON"
        assert others == any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    arguments, others = signature(BY_NAME["POST faults"].function)
    assert others
    assert {name: each.types for name, each in arguments.items()} == {
        **dict.fromkeys(("kind", "route", "method", "tenant", "key", "paid"), (str,)),
        **dict.fromkeys(("since", "until", "probability"), (float,)),
        **dict.fromkeys(("nth", "every", "count"), (int,)),
        "query": (dict,),
    }
    assert [name for name, each in arguments.items() if each.required] == ["kind"]
    assert signature(BY_NAME["POST reset"].function)[0]["populate"].types == (list,)


def section() -> str:
    text = DOCS.read_text(encoding="utf-8")
    return text[text.index("## The control API") :]


def rows() -> Iterator[tuple[list[str], str]]:
    """The paths of each row of the table, and its cell about methods."""
    for line in section().splitlines():
        if line.startswith("| `/_mock/"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            first, *verbs = re.findall(r"`([^`]+)`", cells[0])
            yield [first, *(first.rpartition("/")[0] + "/" + verb for verb in verbs)], cells[1]


def documented(path: str) -> str:
    names = {"{tenant}": "NAME"} | dict.fromkeys(("{payer}", "{owner}", "{address}"), "ADDRESS")
    return re.sub(r"\{\w*\}", lambda found: names.get(found[0], "ID"), path)


def test_the_docs_list_every_operation_and_fields_that_there_are() -> None:
    listed, named = set(), 0
    for paths, cell in rows():
        listed |= {(path, method) for path in paths for method in re.findall(r"\b(GET|POST|PUT|DELETE)\b", cell)}
        operations = [each for each in ALL if documented(each[0]) in paths and not each[2].raw]
        there = {field for path, _, each in operations for field in fields(path, each)}
        if any(signature(each.function)[1] for _, _, each in operations):
            continue  # it takes fields that no signature has
        for query, body in re.findall(r"[?&](\w+)=|\"(\w+)\":", cell):
            assert (query or body) in there, f"{paths[0]}: {query or body}"
            named += 1
    assert listed == {(documented(path), method) for path, method, _ in ALL}
    assert named > 20
    for word in ("clock", "signals", "faults"):
        line = re.search(rf"^- {word}: (.*?)[;.]$", section(), re.MULTILINE | re.DOTALL)
        assert line is not None
        assert set(re.findall(r"`(\w+)`", line[1])) == set(fields(word, BY_NAME[f"POST {word}"]))
