"""The mock's description of itself: it says what the routes do, and anybody can have it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockServer, MockService
from tradesdk_mock.api import market_requests, validation
from tradesdk_mock.api.routes import MARKET_ROUTES, ROUTES
from tradesdk_mock.core import errors
from tradesdk_mock.core.gap_options import PLANS
from tradesdk_mock.trading import agent_states

from .._openapi import described, document, problems, resolved
from .._requirements import install
from .._rows import each_of
from ._http import client, in_process

ACCOUNT = [(method, path) for path, each in ROUTES.items() for method, endpoint in each.items() if not endpoint.option]
MARKET = MARKET_ROUTES
EVERY = ACCOUNT + [("POST", path) for path in MARKET]
STREAM = "/v1/signals/stream"


def test_every_route_is_described_and_nothing_else() -> None:
    assert sorted((method, path) for method, path, _ in described()) == sorted(EVERY)
    for method, path, operation in described():
        assert operation.get("security", document()["security"]) == (
            [{"bearer": []}] if (method, path) in ACCOUNT else [{"payment": []}, {}] * bool(MARKET[path].price)
        )
        wanted = re.findall(r"\{(\w+)\}", path)
        given = [*document()["paths"][path].get("parameters", ()), *operation.get("parameters", ())]
        assert [each["name"] for each in map(resolved, given) if each["in"] == "path"] == wanted


def test_prices_are_those_that_are_asked_for() -> None:
    for path, endpoint in MARKET.items():
        price = document()["paths"][path]["post"]["x-price"]
        assert round(float(price["usd"]) * 1_000_000) == endpoint.price
        assert price["per"] == ("token" if endpoint.each else "request")


def test_words_and_bounds_are_those_of_the_rules() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["AgentStatus"]["enum"] == [*agent_states.STATUSES]
    assert schemas["ChainId"]["enum"] == [*validation.CHAINS]
    assert schemas["SignalType"]["enum"] == [*market_requests.SIGNALS]
    assert schemas["TopPerformersRequest"]["properties"]["sortBy"]["enum"] == [*market_requests.SORTS]
    assert schemas["Account"]["properties"]["plan"]["enum"] == [*PLANS]
    assert {schemas[name]["properties"]["tokens"]["maxItems"] for name in schemas if name.startswith("TokensI")} == {
        market_requests.BATCH
    }
    quotas = [GapOptions().quota(plan) for plan in PLANS]
    for place, name in enumerate(("requests", "agents")):
        text = schemas["Usage"]["properties"][name]["description"]
        assert [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", text)] == [q[place] for q in quotas]


def test_every_error_code_is_described() -> None:
    made = [
        function(*(["x"] * len(inspect.signature(function).parameters)))
        for name, function in inspect.getmembers(errors, inspect.isfunction)
        if function.__module__ == errors.__name__ and name not in ("mock_errors", "unknown", "unusable", "wrong_method")
    ]
    codes = {error.code for error in made} | {"rate_limited"}
    assert codes == set(document()["components"]["schemas"]["ErrorCode"]["enum"])
    assert "405 with code `invalid_request`" in " ".join(document()["info"]["description"].split())


def test_the_description_says_whose_it_is() -> None:
    text = " ".join(document()["info"]["description"].split())
    assert "under its default gap options" in text
    assert "`/_mock/`" in text
    assert len(fields(GapOptions)) > 30  # too many to be described one by one


def test_every_part_is_used() -> None:
    used = set(re.findall(r'"#/components/(\w+/[\w-]+)"', json.dumps(document())))
    parts = document()["components"]
    assert used == {f"{kind}/{name}" for kind in parts if kind != "securitySchemes" for name in parts[kind]} - {
        "schemas/Wrapper",  # what `Success` and `Failure` are to a reader
        "schemas/PaymentSignature",  # and what requests have in their headers
    }


def test_examples_are_what_they_show() -> None:
    checked = 0
    for _, path, operation in described():
        bodies = [operation.get("requestBody", {}), *map(resolved, operation["responses"].values())]
        for content in (each for body in bodies for each in body.get("content", {}).values()):
            for example in [content["example"]] if "example" in content else _values(content):
                assert problems(content["schema"], example) == [], path
                checked += 1
        for parameter in map(resolved, operation.get("parameters", ())):
            if "example" in parameter:
                assert problems(parameter["schema"], parameter["example"]) == []
    for header in document()["components"]["headers"].values():
        assert "example" not in header or problems(header["schema"], header["example"]) == []
    assert checked > 150
    for event in _values(document()["paths"][STREAM]["get"]["responses"]["200"]["content"]["text/event-stream"]):
        assert problems("StreamEvent", json.loads(event["data"])) == []


def _values(content: dict[str, Any]) -> list[Any]:
    return [each["value"] for each in content["examples"].values()]


def test_it_is_served_to_anybody_and_leaves_no_trace(server: MockService, anyone: httpx.Client) -> None:
    answer = anyone.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.json() == {**document(), "servers": [{"url": server.url}]}
    assert [*answer.json()][:3] == ["openapi", "info", "servers"]
    assert server.journal() == []
    with client(server) as http:
        assert http.get("/v1/account").headers["x-ratelimit-remaining"] == "299"


def test_it_is_only_read(anyone: httpx.Client) -> None:
    for method in ("POST", "DELETE", "PUT"):
        answer = anyone.request(method, "/openapi.json")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"
        assert problems("Error", answer.json()) == []


def test_another_machine_is_answered_too(server: MockService, anyone: httpx.Client) -> None:
    host = {"host": "mock.example:8080"}
    assert anyone.get("/openapi.json", headers=host).json()["servers"] == [{"url": "http://mock.example:8080"}]


@each_of("host", ['"><script>alert(1)</script>', "no host", "x" * 300, "user@host", "&amp;"])
def test_an_odd_host_is_not_repeated(host: str) -> None:
    with MockService(seed=7) as mock, in_process(mock, None) as http:
        assert http.get("/openapi.json", headers={"host": host}).json()["servers"] == [{"url": "http://localhost"}]


def test_a_port_of_market_data_has_it_too() -> None:
    with MockServer(seed=7, gaps=GapOptions(b_port="another")) as server:
        answer = httpx.get(f"{server.market_url}/openapi.json", trust_env=False)
    assert answer.json()["servers"] == [{"url": server.market_url}]


@pytest.mark.long
def test_nothing_of_it_is_loaded_before_it_is_asked_for() -> None:
    script = """
import sys
from tradesdk_mock import MockService
from tradesdk_mock.core.messages import Request
with MockService(seed=7) as mock:
    mock.pipeline.respond(Request("GET", "/v1/account", headers=[(b"authorization", b"Bearer mock_full_me")]))
    before = {"yaml", "tradesdk_mock.api.openapi"} & set(sys.modules)
    sys.modules["yaml"] = None
    without = mock.pipeline.respond(Request("GET", "/openapi.json"))
    del sys.modules["yaml"]
    status = mock.pipeline.respond(Request("GET", "/openapi.json")).status
print(without.status, without.body.decode())
print(before, status, "yaml" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    without, then = done.stdout.splitlines()
    assert json.dumps(install("pyyaml"))[1:-1] in without
    assert (then, done.stderr) == ("set() 200 True", "")
