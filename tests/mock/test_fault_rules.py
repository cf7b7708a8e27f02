"""Fault rules: which requests they apply to, how often, which of several apply, and how they are kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import FaultRule, MockClock, MockServerError, MockService

from .._rows import each_of
from ._http import FULL, READ, START, client, control, error, ok, silent
from ._streams import BASE_CHAIN, STREAM, listen

PATH = "/v1/account"
Rule = tuple[str, dict[str, Any]]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with silent("in process") as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock) as made:
        yield made


def fault(mock: MockService, **conditions: Any) -> FaultRule:
    """A rule that `hit` can tell from any answer of the service."""
    return mock.add_fault("status", status=599, **conditions)


def hit(http: httpx.Client, path: str = "/v1/account", method: str = "GET", **options: Any) -> bool:
    """Whether a rule made by `fault` applied to this request."""
    return http.request(method, path, **options).status_code == 599


def counts(mock: MockService) -> list[tuple[int, int]]:
    """Of each rule how many requests it has met, and to how many it was applied."""
    return [(rule.seen, rule.fired) for rule in mock.faults()]


# Which requests


@each_of(
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
        ("/v1/{thing}/{id}", "usage agent stream"),
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
    mock.clear_faults()
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


def test_many_stars_are_not_slow(mock: MockService, http: httpx.Client) -> None:
    fault(mock, route="*" + "a*" * 999)
    assert not hit(http, "/v1/" + "a" * 900)
    assert not hit(http, "/v1/" + "ab" * 900)


@pytest.mark.parametrize("method", ["POST", "post"])
def test_method(mock: MockService, http: httpx.Client, method: str) -> None:
    assert fault(mock, method=method).method == "POST"
    assert not hit(http, "/v1/agents")
    assert hit(http, "/v1/agents", "POST")


def test_tenant_and_key(mock: MockService) -> None:
    """Keys that were revoked count, too."""
    one, two, other = (mock.create_key(tenant=tenant) for tenant in ("main", "main", "other"))
    for_main = fault(mock, tenant="main")
    fault(mock, key=one.id)
    mock.revoke_key(one.id)
    sent: list[tuple[list[str], str | None]] = [
        ([f"Bearer {FULL}"], for_main.id),
        ([f"Bearer {READ}"], for_main.id),
        (["Bearer mock_full_enterprise_main"], for_main.id),
        ([f"bearer   {two.value}"], for_main.id),
        ([f"Bearer {other.value}"], None),
        (["Bearer mock_full_somebody"], None),
        (["Bearer nonsense"], None),
        ([f"Basic {FULL}"], None),
        (["Bearer \xff"], None),
        ([f"Bearer {FULL}"] * 2, None),
        ([], None),
    ]
    with client(mock, None) as http:
        for values, expected in sent:
            before = counts(mock)
            http.get(PATH, headers=[(b"Authorization", value.encode("latin-1")) for value in values])
            seen = [now[0] - then[0] for now, then in zip(counts(mock), before, strict=True)]
            assert seen == [int(expected == for_main.id), 0], values
        assert hit(http, headers={"Authorization": f"bearer   {one.value}"})
    assert counts(mock) == [(5, 5), (1, 0)]


def test_the_key_of_a_name_is_met_once_it_exists(mock: MockService, http: httpx.Client) -> None:
    assert not hit(http)
    (made,) = control(mock, "GET", "keys")["data"]
    fault(mock, key=made["id"], tenant="main")
    assert hit(http)


@each_of(
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
)
def test_query(mock: MockService, http: httpx.Client, wanted: dict[str, Any], query: str, expected: bool) -> None:
    mock.clear_faults()
    rule = fault(mock, query=wanted)
    assert rule.query == {name: str(value) for name, value in wanted.items()}
    assert hit(http, f"{PATH}?{query}") is expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"since": 10, "until": 20}, [10, 19.9]),
        ({"since": 10}, [10, 19.9, 20, 30]),
        ({"until": 20}, [0, 9.9, 10, 19.9]),
        ({"since": 10, "nth": 2}, [19.9]),  # counted from `since` on
    ],
    ids=str,
)
def test_since_and_until(
    mock: MockService, http: httpx.Client, conditions: dict[str, float], expected: list[float]
) -> None:
    """The time is the service's, which may differ from the mock's clock."""
    mock.set_gaps(clock_skew=5)
    fault(mock, **{name: START + 5 + at if name != "nth" else at for name, at in conditions.items()})
    found = []
    for moment in (0, 9.9, 10, 19.9, 20, 30):
        mock.clock.set(START + moment)
        if hit(http):
            found.append(moment)
    assert found == expected


# How often


@each_of(
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
        ({"probability": 0.5}, [1, 2, 4, 5, 6, 9, 10, 11]),
        ({"probability": 0.5, "count": 3}, [1, 2, 4]),
    ],
)
def test_how_often(conditions: dict[str, Any], expected: list[int]) -> None:
    with silent("in process") as mock, client(mock) as http:
        fault(mock, route=PATH, **conditions)
        found = []
        for ordinal in range(1, 13):
            ok(http.get("/v1/agents"))  # it doesn't match, and isn't counted
            if hit(http):
                found.append(ordinal)
        assert found == expected
        assert counts(mock) == [(12, len(expected))]


def test_probability_follows_from_the_seed_and_differs_from_rule_to_rule() -> None:
    def found(seed: int) -> list[list[bool]]:
        with silent("in process", seed=seed) as mock, client(mock) as http:
            played = []
            for _ in range(2):
                rule = fault(mock, probability=0.3)
                played.append([hit(http) for _ in range(40)])
                mock.remove_fault(rule.id)
            return played

    first = found(7)
    assert found(7) == first
    assert len({tuple(each) for each in (*first, *found(8))}) == 4
    assert all(6 < sum(each) < 18 for each in first)


def test_a_stream_rule_counts_connections(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", query={"chain": "56"}, after=0, how="clean", count=1)
    mock.add_fault("drop", query=BASE_CHAIN, after=1, how="clean", count=2)
    error(http.post(STREAM, json={}), 405, "invalid_request")
    ok(http.get(PATH))
    assert counts(mock) == [(0, 0), (0, 0)]
    assert http.get(STREAM, params={"chain": 56}).content == b""
    for _ in range(2):
        emitted, content, _ = listen(mock, http, 2)
        assert content.count(b"data:") == 1
        assert emitted[0].encode() in content
    with http.stream("GET", STREAM, params=BASE_CHAIN):
        assert counts(mock) == [(1, 1), (3, 2)]


def test_a_stream_that_was_refused_has_not_been_changed(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", after=1, count=1, how="clean")
    error(http.get(STREAM, params={"chain": 1}), 422, "validation_error")
    assert mock.journal()[-1].faults == ()
    assert counts(mock) == [(1, 0)]


def test_a_status_takes_nothing_of_the_rate_limit(mock: MockService, http: httpx.Client) -> None:
    before = ok(http.get("/v1/account/usage"))["requests"]["used"]
    mock.add_fault("status", status=503, count=3)
    assert {http.get(PATH).headers["x-ratelimit-remaining"] for _ in range(3)} == {"299"}
    assert http.get(PATH).headers["x-ratelimit-remaining"] == "298"
    assert ok(http.get("/v1/account/usage"))["requests"]["used"] == before + 2


def test_a_status_without_a_key_and_by_gap_options(mock: MockService) -> None:
    mock.add_fault("status", status=401)
    with client(mock, None) as http:
        assert http.get(PATH).headers["x-ratelimit-limit"] == "60"
        mock.set_gaps(rate_headers="never", unknown_values="on")
        answer = http.get(PATH)
    assert "x-ratelimit-limit" not in answer.headers
    assert set(answer.json()["error"]) == {"code", "message", "introduced_later"}


def test_the_control_api_is_never_hit(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("reset")
    assert ok(http.get("/_mock/status"))["faults"] == 1
    ok(http.delete("/_mock/faults"))
    ok(http.get(PATH))


# Several rules


def applied(*rules: Rule) -> list[bool]:
    """Whether each of these rules, added in their order, applies to some of the requests of two tenants."""
    paths = (PATH, f"{PATH}?a=b", f"{PATH}?a=c", "/v1/trades", f"{STREAM}?chain=8453&a=b")
    with silent("in process") as mock, client(mock) as http, client(mock, "mock_full_other") as other:
        for kind, given in rules:
            mock.add_fault(kind, **given)
        mock.emit_signal()
        for _ in range(2):
            for one, path in [*((http, path) for path in paths), (other, PATH)]:
                with suppress(httpx.TransportError), one.stream("GET", path):
                    pass
            mock.clock.advance(5)
        return [rule.fired > 0 for rule in mock.faults()]


ONLY_THE_OLDER: list[tuple[Rule, Rule]] = [
    (("status", {}), ("status", {"status": 503})),
    (("status", {}), ("reset", {})),
    (("status", {"route": PATH}), ("status", {"route": PATH, "method": "GET"})),
    (("status", {"every": 1, "probability": 1}), ("status", {"count": 2, "every": 3, "tenant": "main"})),
    (("status", {"query": {"a": "b"}}), ("status", {"query": {"a": "b"}, "since": START})),
    (("truncate", {}), ("bad_chunk", {})),
    (("truncate", {}), ("reset", {"after": 5})),
    (("malformed_json", {}), ("huge_body", {})),
    (("drip", {"route": PATH}), ("drip", {"route": PATH})),
    (("reset", {}), ("truncate", {})),
    (("reset", {}), ("body", {"text": ""})),
    (("reset", {"route": STREAM}), ("bom", {"route": STREAM})),
    (("status", {}), ("bom", {})),
    (("body", {"text": ""}), ("bom", {})),
    (("drop", {}), ("half_event", {})),
    (("duplicate", {}), ("duplicate", {"each": 2})),
    *((("status", {"status": 204}), (kind, {})) for kind in ("truncate", "bad_chunk", "malformed_json", "drip")),
    *((("status", {"status": 204}), (kind, {})) for kind in ("content_type", "huge_body")),
    (("status", {"status": 204}), ("body", {"text": "x"})),
]


@each_of(("older", "younger"), ONLY_THE_OLDER)
def test_only_the_older_of_two_applies(older: Rule, younger: Rule) -> None:
    """They change the same, or the older leaves nothing to change."""
    assert applied(older, younger) == [True, False]


BOTH: list[tuple[Rule, Rule]] = [
    (("status", {"count": 2}), ("status", {})),
    (("status", {"nth": 2}), ("status", {})),
    (("status", {"route": PATH}), ("status", {"route": "/v1/trades"})),
    (("status", {"query": {"a": "b"}}), ("status", {"query": {"a": "c"}})),
    (("status", {"tenant": "main"}), ("status", {"tenant": "other"})),
    (("status", {"until": START + 5}), ("status", {})),
    (("latency", {}), ("latency", {})),
    (("reset", {}), ("latency", {})),
    (("status", {}), ("truncate", {})),
    (("status", {}), ("body", {"text": ""})),
    (("body", {"text": "{}"}), ("malformed_json", {})),
    (("reset", {"after": 5}), ("status", {})),
    (("bom", {}), ("split_utf8", {})),
]


@each_of(("older", "younger"), BOTH)
def test_two_that_both_apply(older: Rule, younger: Rule) -> None:
    assert applied(older, younger) == [True, True]


@each_of(
    ("kind", "conditions"),
    [
        ("status", {"route": "/v1/nothing"}),
        ("status", {"route": "/v1/trades?a=b"}),
        ("status", {"since": START + 60, "until": START + 5}),
        ("status", {"tenant": "no name"}),
        ("status", {"key": "key_0"}),
        ("drop", {"route": "/v1/trades"}),
        ("drop", {"method": "POST"}),
        ("malformed_json", {"route": STREAM}),
        ("huge_body", {"route": "/v1/signals/str*"}),
    ],
)
def test_rules_that_never_apply_are_kept(kind: str, conditions: dict[str, Any]) -> None:
    assert applied((kind, conditions)) == [False]


def test_rules_with_a_count_are_used_up_one_after_the_other(mock: MockService, http: httpx.Client) -> None:
    """Those that wait still count what they have met, and those that are used up stay listed."""
    mock.add_fault("status", status=500, count=2)
    mock.add_fault("status", status=503, count=1)
    mock.add_fault("reset", count=1)
    assert [http.get(PATH).status_code for _ in range(3)] == [500, 500, 503]
    with pytest.raises(httpx.ReadError):
        http.get(PATH)
    assert http.get(PATH).status_code == 200
    assert counts(mock) == [(5, 2), (5, 1), (5, 1)]


# Kept, listed and removed


def test_a_rule_as_the_control_api_has_it(mock: MockService) -> None:
    body = {"kind": "status", "route": "/v1/trades", "count": 2, "status": 503, "retry_after": 3, "tenant": None}
    rule = control(mock, "POST", "faults", body)
    assert re.fullmatch(r"flt_[0-9a-f]{24}", rule["id"])
    left_out = ("method", "tenant", "key", "query", "paid", "since", "until", "nth", "every", "probability")
    assert rule == {
        **dict.fromkeys(left_out),
        "id": rule["id"],
        "kind": "status",
        "on": "response",
        "route": "/v1/trades",
        "count": 2,
        "parameters": {"status": 503, "retry_after": 3, "executed": False},
        "seen": 0,
        "fired": 0,
    }
    assert control(mock, "GET", "faults") == {"data": [rule]}
    assert [json.loads(json.dumps(asdict(each))) for each in mock.faults()] == [rule]
    assert control(mock, "DELETE", f"faults/{rule['id']}") == {"data": []}
    deep = {"a": [{"b": None}, "ü"]}
    rule = control(mock, "POST", "faults", {"kind": "offer", "paid": "only", "fields": deep})
    assert (rule["paid"], rule["on"], rule["parameters"]) == ("only", "payment", {"fields": deep})
    assert control(mock, "GET", "faults")["data"] == [rule]


def test_ids_follow_from_the_seed_and_come_once() -> None:
    def made(seed: int) -> list[str]:
        with MockService(seed=seed) as mock:
            first = mock.add_fault("bom").id
            mock.create_key()
            mock.clear_faults()
            return [first, mock.add_fault("bom").id]

    assert made(7) == made(7)
    assert len({*made(7), *made(8)}) == 4


def test_remove_clear_and_reset(mock: MockService, http: httpx.Client) -> None:
    first, second = fault(mock, count=5), mock.add_fault("latency", seconds=0)
    mock.remove_fault(first.id)
    assert [rule.id for rule in mock.faults()] == [second.id]
    assert not hit(http)
    with pytest.raises(MockServerError, match="there is no fault 'flt_0'"):
        mock.remove_fault("flt_0")
    error(http.delete("/_mock/faults/flt_0"), 404, "not_found")
    for forget in (mock.clear_faults, mock.reset):
        fault(mock)
        assert hit(http)
        forget()
        assert mock.faults() == []
        assert not hit(http)


def test_a_restored_world_has_its_own_rules(mock: MockService, http: httpx.Client) -> None:
    fault(mock)
    with_rule = mock.snapshot()
    mock.reset()
    assert not hit(http)
    without = mock.snapshot()
    mock.restore(with_rule)
    assert hit(http)
    mock.restore(without)
    assert not hit(http)


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
    ok(http.get(PATH))
    asked: list[str] = []
    mock.world.store._db.set_trace_callback(asked.append)
    ok(http.get(PATH))
    assert asked
    assert not any("faults" in each for each in asked)


@pytest.mark.long
def test_a_thousand_rules_are_listed_at_once_and_no_more_are_taken(mock: MockService) -> None:
    """CPU time: what else the machine does doesn't count."""
    with mock.world.transaction():
        for number in range(1_000):
            mock.add_fault("latency", route=f"/v1/agents/a{number}*", method="GET", tenant="main", since=number)
    begun = time.process_time()
    assert len(mock.faults()) == 1_000
    assert time.process_time() - begun < 1
    with pytest.raises(MockServerError, match="there are 1,000 rules already"):
        mock.add_fault("latency")


def test_processes_on_one_file_play_the_same_rules(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with (
        MockService(db=file, clock=MockClock(START)) as one,
        MockService(db=file, clock=MockClock(START)) as two,
        client(one) as http,
        client(two) as other,
    ):
        assert not hit(http)
        rule = fault(two, count=3)
        assert [hit(http), hit(other), hit(http), hit(other), hit(http)] == [True, True, True, False, False]
        assert one.faults() == two.faults()
        assert [(each.id, each.seen, each.fired) for each in one.faults()] == [(rule.id, 5, 3)]
        one.clear_faults()
        fault(one)
        assert hit(other)
        one.clear_faults()
        assert not hit(other)
    with MockService(db=file, clock=MockClock(START)) as again:
        fault(again, tenant="main", route=PATH, every=2, headers={"X-A": "b"}, since=1, until=2e10)
        fault(again, query={"x": 1}, key="key_0")
        kept = again.faults()
        assert (kept[1].query, dict(kept[1].parameters)) == ({"x": "1"}, {"status": 599, "executed": False})
    with MockService(db=file, clock=MockClock(START)) as again, client(again) as http:
        assert again.faults() == kept
        assert [hit(http), hit(http)] == [False, True]
