"""Rules about faults: how they are listed and kept, and which of them can never be met."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults import faultwarnings, rules

from ._faulty import STREAM, carried, connect, fault, hit
from ._support import START, error

PATH = "/v1/account"


@pytest.fixture
def mock() -> Iterator[MockService]:
    with carried("in process") as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


def test_a_rule_as_the_control_api_has_it(mock: MockService) -> None:
    body = {"kind": "status", "route": "/v1/trades", "count": 2, "status": 503, "retry_after": 3}
    rule = mock.control("POST", "faults", body)
    assert re.fullmatch(r"flt_[0-9a-f]{24}", rule["id"])
    assert rule == {
        "id": rule["id"],
        "kind": "status",
        "on": "response",
        "route": "/v1/trades",
        "method": None,
        "tenant": None,
        "key": None,
        "query": None,
        "paid": None,
        "since": None,
        "until": None,
        "nth": None,
        "every": None,
        "probability": None,
        "count": 2,
        "parameters": {"status": 503, "retry_after": 3, "executed": False},
        "seen": 0,
        "fired": 0,
        "warning": None,
    }
    assert mock.control("GET", "faults") == {"data": [rule]}
    assert [each.as_dict() for each in mock.faults()] == [rule]
    assert mock.control("DELETE", f"faults/{rule['id']}") == {"data": []}


def test_what_is_left_out_may_be_null(mock: MockService) -> None:
    body = dict.fromkeys(["route", "tenant", "key", "query", "since", "until", "nth", "count", "seconds", "jitter"])
    rule = mock.control("POST", "faults", {"kind": "latency", **body})
    assert rule["parameters"] == {"seconds": 1.0, "jitter": 0.0}


def test_ids_follow_from_the_seed_and_come_once() -> None:
    def made(seed: int) -> list[str]:
        with MockService(seed=seed) as mock:
            first = mock.add_fault("bom").id
            mock.create_key()
            mock.clear_faults()
            return [first, mock.add_fault("bom").id]

    assert made(7) == made(7)
    assert len({*made(7), *made(8)}) == 4


def test_remove_and_clear(mock: MockService, http: httpx.Client) -> None:
    first, second = fault(mock, count=5), mock.add_fault("latency", seconds=0)
    mock.remove_fault(first.id)
    assert [rule.id for rule in mock.faults()] == [second.id]
    assert not hit(http)
    with pytest.raises(MockServerError, match="there is no fault 'flt_0'"):
        mock.remove_fault("flt_0")
    error(http.delete("/_mock/faults/flt_0"), 404, "not_found")
    mock.clear_faults()
    assert mock.faults() == []
    fault(mock)
    mock.reset()
    assert mock.faults() == []
    assert not hit(http)


def test_a_used_up_rule_stays_listed(mock: MockService, http: httpx.Client) -> None:
    fault(mock, count=1)
    assert [hit(http), hit(http)] == [True, False]
    assert [(rule.count, rule.seen, rule.fired) for rule in mock.faults()] == [(1, 2, 1)]


def test_a_change_that_is_undone_is_not_remembered(mock: MockService, http: httpx.Client) -> None:
    def undone() -> None:
        with mock.world.transaction():
            mock.clear_faults()
            raise KeyError

    fault(mock)
    assert hit(http)
    with pytest.raises(KeyError):
        undone()
    assert hit(http)


def test_without_rules_the_database_is_not_asked(mock: MockService, http: httpx.Client) -> None:
    mock.clear_faults()
    assert not mock.world.faults.active()
    asked: list[str] = []
    mock.world.store._db.set_trace_callback(asked.append)
    assert not mock.world.faults.active()
    assert asked == []


# kept in the state file


def test_processes_on_one_file_play_the_same_rules(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with (
        MockService(db=file, clock=MockClock(START)) as one,
        MockService(db=file, clock=MockClock(START)) as two,
        connect(one) as http,
        connect(two) as other,
    ):
        assert not hit(http)
        rule = fault(two, count=3)
        assert [hit(http), hit(other), hit(http), hit(other), hit(http)] == [True, True, True, False, False]
        assert one.faults() == two.faults()
        assert [(each.id, each.seen, each.fired) for each in one.faults()] == [(rule.id, 5, 3)]
        one.clear_faults()
        assert not two.world.faults.active()
    with MockService(db=file, clock=MockClock(START)) as again:
        fault(again, tenant="main", route=PATH, every=2, headers={"X-A": "b"}, since=1, until=2e10)
        fault(again, query={"x": "y"}, key="key_0")
        kept = again.faults()
    with MockService(db=file, clock=MockClock(START)) as again, connect(again) as http:
        assert again.faults() == kept
        assert [hit(http), hit(http)] == [False, True]


# rules that can never be met


@pytest.mark.parametrize(
    ("kind", "conditions", "words"),
    [
        ("status", {"route": "/v1/nothing"}, "the service has no path /v1/nothing"),
        ("status", {"route": "/v1/agents/a/b/c"}, "the service has no path"),
        ("status", {"route": "/v1/agents/{agent_id}/{more}"}, "the service has no path"),
        ("status", {"route": "*/nothing/*/nothing"}, "the service has no path"),
        ("status", {"route": "/v1/trades?status=open"}, "compared with the path alone"),
        ("status", {"route": "/v1/agents/agt_1/start"}, "the service has no path"),
        ("status", {"route": "/v1/trades", "method": "POST"}, "/v1/trades has no method POST; it has GET"),
        ("status", {"route": "/v1/agents", "method": "PUT"}, "it has GET, POST"),
        ("status", {"method": "PUT"}, "the service has no method PUT; it has DELETE, GET, PATCH, POST"),
        ("status", {"route": "/v1/token-prices", "method": "GET"}, "it has POST"),
        ("status", {"probability": 0}, "its probability is 0"),
        ("status", {"probability": 0.0}, "its probability is 0"),
        ("status", {"probability": 1e-9, "nth": 4}, "request 4 is not among those that the probability chooses"),
        ("drop", {"route": "/v1/trades"}, "/v1/trades is no stream, and drop"),
        ("drop", {"method": "POST"}, "the stream has no method POST; it has GET"),
        ("malformed_json", {"route": STREAM}, "is a stream, and malformed_json"),
        ("huge_body", {"route": "/v1/signals/str*"}, "is a stream, and huge_body"),
    ],
)
def test_warnings(mock: MockService, kind: str, conditions: dict[str, Any], words: str) -> None:
    rule = mock.add_fault(kind, **conditions)
    assert rule.warning is not None
    assert words in rule.warning
    assert [each.warning for each in mock.faults()] == [rule.warning]
    assert mock.status()["warnings"] == [f"fault {rule.id} ({kind}): {rule.warning}"]


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [
        ("status", {}),
        ("status", {"route": "*"}),
        ("status", {"route": "/v1/agents/*", "method": "DELETE"}),
        ("status", {"route": "/v1/agents/agt_*", "method": "DELETE"}),
        ("status", {"route": "/v1/*/agt_1"}),
        ("status", {"route": "/v1/agents/{id}", "method": "patch"}),
        ("status", {"route": "/v1/token-prices", "method": "POST"}),
        ("status", {"route": "*s/trd*"}),
        ("drop", {}),
        ("drop", {"route": STREAM, "method": "GET"}),
        ("drop", {"route": "/v1/signals/*"}),
        ("malformed_json", {"route": "/v1/signals*"}),
        ("status", {"probability": 0.999999, "nth": 4}),
    ],
)
def test_no_warning(mock: MockService, kind: str, conditions: dict[str, Any]) -> None:
    assert mock.add_fault(kind, **conditions).warning is None
    assert mock.status()["warnings"] == []


def test_a_warning_comes_and_goes_with_the_gap_options(mock: MockService) -> None:
    rule = fault(mock, route="/v1/agents/{agent_id}/start")
    assert rule.warning is not None
    mock.set_gaps(no_routes="routes")
    assert mock.faults()[0].warning is None


def test_a_warning_when_its_request_has_come_and_gone(mock: MockService, http: httpx.Client) -> None:
    fault(mock, nth=1)
    fault(mock, nth=1)
    assert hit(http)
    assert [rule.warning for rule in mock.faults()] == [None, "request 1 has come and gone"]


LETTERS = st.text("ab/*", max_size=8)


@given(LETTERS, st.lists(st.sampled_from(["a", "b", "/", "{x}"]), max_size=5))
@settings(deadline=None)
def test_a_route_that_meets_a_path_gets_no_warning(route: str, shape: list[str]) -> None:
    """Paths are made from a pattern; when one of them is met, the pattern could be."""
    dice = random.Random(f"{route} {shape}")
    met = False
    for _ in range(200):
        path = "".join("".join(dice.choices("ab", k=dice.randint(1, 4))) if part == "{x}" else part for part in shape)
        met = met or rules.meets(route, path, None)
    if met:
        assert faultwarnings.could_meet(route, "".join(shape))


@pytest.mark.parametrize(
    ("route", "pattern"),
    [
        ("/v1/a", "/v1/{x}/b"),
        ("/v1/*", "/v2/{x}"),
        ("*/c", "/v1/{x}/b"),
        ("/v1/a/", "/v1/{x}"),
        ("", "{x}"),
        ("a*b*c", "ac"),
    ],
)
def test_patterns_that_a_route_never_meets(route: str, pattern: str) -> None:
    assert not faultwarnings.could_meet(route, pattern)


def test_many_stars_are_not_slow(mock: MockService, http: httpx.Client) -> None:
    fault(mock, route="*" + "a*" * 999)
    assert not hit(http, "/v1/" + "a" * 900)
    assert not hit(http, "/v1/" + "ab" * 900)
