"""Which requests the rules about faults hit, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults import rules
from tradesdk_mock.state import tenants

from ._faulty import ASK, STREAM, carried, connect, fault, hit
from ._support import FULL, READ, START, error, ok

PATH = "/v1/account"


@pytest.fixture
def mock() -> Iterator[MockService]:
    with carried("in process") as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


# which requests


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (None, "account usage agents agent nested trades stream prices nowhere"),
        ("*", "account usage agents agent nested trades stream prices nowhere"),
        ("/v1/account", "account"),
        ("/v1/account*", "account usage"),
        ("/v1/account/*", "usage"),
        ("/v1/agents/agt_1", "agent"),
        ("/v1/agents/{agent_id}", "agent"),
        ("/v1/agents/{id}", "agent"),
        ("/v1/{thing}/{id}", ""),
        ("/v1/agents/*", "agent nested"),
        ("/v1/agents/{agent_id}/*", "nested"),
        ("/v1/agents/*/start", "nested"),
        ("*a*t_1*s*", "nested"),
        ("*agents*agents*", ""),
        ("*/stream", "stream"),
        ("/v1/token-prices", "prices"),
        ("/v1/nowhere", "nowhere"),
        ("/v1/acc.unt", ""),
        ("/V1/account", ""),
    ],
)
def test_route(mock: MockService, http: httpx.Client, route: str | None, expected: str) -> None:
    mock.set_gaps(no_routes="routes")
    fault(mock, route=route)
    paths = {
        "account": ("GET", "/v1/account"),
        "usage": ("GET", "/v1/account/usage?a=1"),
        "agents": ("GET", "/v1/agents"),
        "agent": ("GET", "/v1/agents/agt_1"),
        "nested": ("POST", "/v1/agents/agt_1/start"),
        "trades": ("GET", "/v1/trades"),
        "stream": ("GET", "/v1/signals/stream"),
        "prices": ("POST", "/v1/token-prices"),
        "nowhere": ("GET", "/v1/nowhere"),
    }
    assert [name for name, (method, path) in paths.items() if hit(http, path, method)] == expected.split()


def test_the_control_api_is_never_hit(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("reset")
    assert ok(http.get("/_mock/status"))["faults"] == 1
    ok(http.delete("/_mock/faults"))
    ok(http.get(PATH))


@pytest.mark.parametrize("method", ["POST", "post"])
def test_method(mock: MockService, http: httpx.Client, method: str) -> None:
    assert fault(mock, method=method).method == "POST"
    assert not hit(http, "/v1/agents")
    assert hit(http, "/v1/agents", "POST")


def test_tenant(mock: MockService) -> None:
    key = mock.create_key(tenant="other")
    fault(mock, tenant="main")
    fault(mock, tenant="other")
    headers = {
        FULL: True,
        READ: True,
        "mock_full_enterprise_main": True,
        key.value: True,
        "mock_full_somebody": False,
        "nonsense": False,
        None: False,
    }
    for value, expected in headers.items():
        with connect(mock, value) as http:
            assert hit(http) is expected
    mock.revoke_key(key.id)
    with connect(mock, key.value) as http:
        assert hit(http)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (["Bearer mock_full_ghost"], "ghost"),
        (["bearer   mock_read_free_ghost "], "ghost"),
        (["Bearer nonsense"], None),
        (["Basic mock_full_ghost"], None),
        (["Bearer \xff"], None),
        (["Bearer mock_full_ghost"] * 2, None),
        ([], None),
    ],
)
def test_whose_key_it_is_can_be_told_without_making_it(
    mock: MockService, sent: list[str], expected: str | None
) -> None:
    headers = [(b"authorization", value.encode("latin-1")) for value in sent]
    assert tenants.identify(mock.world, headers) == (expected, None)
    assert (mock.status()["tenants"], mock.status()["keys"]) == ([], 0)


def test_a_stream_rule_counts_connections(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", after=0)
    error(http.post(STREAM, json={}), 405, "invalid_request")
    ok(http.get(PATH))
    assert mock.faults()[0].seen == 0
    with http.stream("GET", STREAM, params=ASK):
        assert mock.faults()[0].seen == 1


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"nth": 3}, [3]),
        ({"every": 4}, [4, 8, 12]),
        ({"count": 2}, [1, 2]),
        ({"every": 3, "count": 2}, [3, 6]),
        ({"nth": 5, "count": 1}, [5]),
        ({"probability": 1}, list(range(1, 13))),
        ({"probability": 1.0, "every": 6}, [6, 12]),
        ({"probability": 0}, []),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_how_often(mock: MockService, http: httpx.Client, conditions: dict[str, Any], expected: list[int]) -> None:
    fault(mock, route=PATH, **conditions)
    found = []
    for ordinal in range(1, 13):
        ok(http.get("/v1/agents"))  # it doesn't match, and isn't counted
        if hit(http):
            found.append(ordinal)
    assert found == expected
    (rule,) = mock.faults()
    assert (rule.seen, rule.fired) == (12, len(expected))


def test_probability_follows_from_the_seed() -> None:
    def found(seed: int) -> list[bool]:
        with MockService(seed=seed, clock=MockClock(START)) as mock, connect(mock) as http:
            fault(mock, probability=0.3)
            return [hit(http) for _ in range(100)]

    assert found(7) == found(7)
    assert found(7) != found(8)
    assert 15 < sum(found(7)) < 45


def test_probability_and_count_count_what_was_played(mock: MockService, http: httpx.Client) -> None:
    fault(mock, probability=0.5, count=3)
    assert sum(hit(http) for _ in range(40)) == 3
    (rule,) = mock.faults()
    assert (rule.seen, rule.fired, rule.warning) == (40, 3, None)


def test_two_rules_of_one_kind_have_dice_of_their_own(mock: MockService, http: httpx.Client) -> None:
    first, second = fault(mock, probability=0.5), fault(mock, probability=0.5)
    assert first.id != second.id
    numbers = [[rules.chance(7, rule, "hit", ordinal) for ordinal in range(20)] for rule in (first, second)]
    assert numbers[0] != numbers[1]
