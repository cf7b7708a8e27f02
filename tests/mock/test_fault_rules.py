"""Fault rules: how they are listed, kept and removed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError
from tradesdk_mock.control.service import MockService

from ._faulty import carried, connect, fault, hit
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
    }
    assert mock.control("GET", "faults") == {"data": [rule]}
    assert [asdict(each) for each in mock.faults()] == [rule]
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
    assert not mock.pipeline.faults.active()
    asked: list[str] = []
    mock.world.store._db.set_trace_callback(asked.append)
    assert not mock.pipeline.faults.active()
    assert asked == []


def test_a_restored_world_has_its_own_rules(mock: MockService, http: httpx.Client) -> None:
    faults = mock.pipeline.faults
    fault(mock)
    kept = mock.snapshot()
    mock.reset()
    assert not faults.active()
    mock.restore(kept)
    assert faults.active()
    assert hit(http)
    mock.reset()
    assert not faults.active()


def test_a_thousand_rules_are_listed_at_once(mock: MockService) -> None:
    """CPU time: what else the machine does doesn't count."""
    with mock.world.transaction():
        for number in range(1_000):
            mock.add_fault("latency", route=f"/v1/agents/a{number}*", method="GET", tenant="main", since=number)
    begun = time.process_time()
    assert len(mock.faults()) == 1_000
    assert time.process_time() - begun < 1


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
        assert not two.pipeline.faults.active()
    with MockService(db=file, clock=MockClock(START)) as again:
        fault(again, tenant="main", route=PATH, every=2, headers={"X-A": "b"}, since=1, until=2e10)
        fault(again, query={"x": 1}, key="key_0")
        kept = again.faults()
        assert (kept[1].query, dict(kept[1].parameters)) == ({"x": "1"}, {"status": 599, "executed": False})
    with MockService(db=file, clock=MockClock(START)) as again, connect(again) as http:
        assert again.faults() == kept
        assert [hit(http), hit(http)] == [False, True]


def test_many_stars_are_not_slow(mock: MockService, http: httpx.Client) -> None:
    fault(mock, route="*" + "a*" * 999)
    assert not hit(http, "/v1/" + "a" * 900)
    assert not hit(http, "/v1/" + "ab" * 900)
