"""Which requests a fault rule applies to, and how often, over real sockets and in process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults import rules
from tradesdk_mock.state import tenants

from ._faulty import ASK, CARRIERS, STREAM, carried, connect, fault, hit, listen
from ._support import FULL, READ, START, error, ok

PATH = "/v1/account"


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
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


def test_probability_and_count_count_what_was_applied(mock: MockService, http: httpx.Client) -> None:
    fault(mock, probability=0.5, count=3)
    assert sum(hit(http) for _ in range(40)) == 3
    (rule,) = mock.faults()
    assert (rule.seen, rule.fired) == (40, 3)


def test_two_rules_of_one_kind_have_dice_of_their_own(mock: MockService, http: httpx.Client) -> None:
    first, second = fault(mock, probability=0.5), fault(mock, probability=0.5)
    assert first.id != second.id
    numbers = [[rules.chance(7, rule, "hit", ordinal) for ordinal in range(20)] for rule in (first, second)]
    assert numbers[0] != numbers[1]


# one key, one query, one span of time


def test_key(mock: MockService) -> None:
    """Two keys of one tenant, and what carries neither."""
    one, two = mock.create_key(tenant="main"), mock.create_key(tenant="main")
    assert fault(mock, key=one.id).key == one.id
    for value, expected in {one.value: True, two.value: False, FULL: False, "nonsense": False, None: False}.items():
        with connect(mock, value) as http:
            assert hit(http) is expected
    mock.revoke_key(one.id)
    with connect(mock, one.value) as http:
        assert hit(http, headers={"Authorization": f"bearer   {one.value}"})
    assert [(rule.seen, rule.fired) for rule in mock.faults()] == [(2, 2)]


def test_the_key_of_a_name_is_met_once_it_exists(mock: MockService, http: httpx.Client) -> None:
    assert not hit(http)
    (made,) = mock.control("GET", "keys")["data"]
    fault(mock, key=made["id"], tenant="main")
    assert hit(http)


@pytest.mark.parametrize(
    ("wanted", "query", "expected"),
    [
        ({"chain": "8453"}, "chain=8453", True),
        ({"chain": "8453"}, "limit=5&chain=8453&x", True),
        ({"chain": "8453"}, "chain=56", False),
        ({"chain": "8453"}, "chain=56&chain=8453", True),
        ({"chain": "8453"}, "", False),
        ({"chain": "8453"}, "Chain=8453", False),
        ({"chain": 8453, "limit": 5}, "chain=8453&limit=5", True),
        ({"chain": 8453, "limit": 5}, "chain=8453", False),
        ({"a": ""}, "a", True),
        ({"a": "ü b"}, "a=%C3%BC+b", True),
        ({"a": "\N{REPLACEMENT CHARACTER}"}, "a=%FF", True),
        ({"": "b"}, "=b", True),
    ],
    ids=range(12),
)
def test_query(mock: MockService, http: httpx.Client, wanted: dict[str, Any], query: str, expected: bool) -> None:
    rule = fault(mock, query=wanted)
    assert rule.query == {name: str(value) for name, value in wanted.items()}
    assert hit(http, f"{PATH}?{query}") is expected


def test_a_stream_of_one_chain(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", query={"chain": "56"}, after=0, how="clean")
    mock.add_fault("drop", query=ASK, after=1, how="clean")
    with http.stream("GET", STREAM, params={"chain": 56}) as answer:
        assert answer.read() == b""
    emitted, content, _ = listen(mock, http, 2)
    assert content.count(b"data:") == 1
    assert emitted[0].encode() in content


def test_an_outage_in_virtual_time(mock: MockService, http: httpx.Client) -> None:
    fault(mock, since=START + 10, until=START + 20)
    found = []
    for moment in (0, 9.9, 10, 19.9, 20, 30):
        mock.clock.set(START + moment)
        if hit(http):
            found.append(moment)
    assert found == [10, 19.9]
    (rule,) = mock.faults()
    assert (rule.seen, rule.fired, rule.since, rule.until) == (2, 2, START + 10, START + 20)


def test_since_and_until_alone_and_with_numbers_of_their_own(mock: MockService, http: httpx.Client) -> None:
    """Requests are counted from `since` on."""
    fault(mock, since=START + 10, nth=2)
    first = [hit(http) for _ in range(3)]
    mock.clock.advance(10)
    assert [*first, *(hit(http) for _ in range(3))] == [False] * 3 + [False, True, False]
    mock.clear_faults()
    fault(mock, until=START + 11)
    assert hit(http)
    mock.clock.advance(1)
    assert not hit(http)


def test_the_time_is_that_of_the_service(mock: MockService, http: httpx.Client) -> None:
    fault(mock, since=START + 60)
    assert not hit(http)
    mock.set_gaps(clock_skew=60)
    assert hit(http)
