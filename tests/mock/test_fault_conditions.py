"""Faults for one key, one query or one span of the service's time, over real sockets and in process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.control.service import MockService

from ._faulty import ASK, CARRIERS, STREAM, carried, connect, fault, hit, listen
from ._support import FULL, START

PATH = "/v1/account"


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


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


def test_they_are_kept_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with MockService(db=file, clock=MockClock(START)) as mock:
        made = fault(mock, key="key_1", query={"a": 1}, since=START, until=START + 1.5)
    with MockService(db=file, clock=MockClock(START)) as mock:
        (kept,) = mock.faults()
        assert kept == made
        assert dict(kept.parameters) == {"status": 599, "executed": False}
