"""The journal of requests: what is in it, what a test finds in it, and what a failed assertion says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import JournalEntry, MockClock, MockService

from .._rows import each_of
from .._texts import texts
from ._http import FULL, START, in_process

ENTRIES = [
    JournalEntry("GET", "/v1/agents", {"status": "idle", "limit": "3"}, "main", "main", 200, START),
    JournalEntry("POST", "/v1/agents", {}, "main", "main", 201, START, None, {"name": "a", "risk": {"stop": 5}}),
    JournalEntry(
        "PATCH", "/v1/agents/agt_1", {}, "ther", "other", 422, START, "validation_error", {"risk": {"stop": 9}}
    ),
    JournalEntry("POST", "/v1/agents", {}, "main", "main", 0, START, None, {"name": "b", "on": True}, ("reset",)),
    JournalEntry("GET", "/v1/agents/agt_1/x", {"all": "true"}, None, None, 404, START, "not_found"),
]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        yield mock


@pytest.fixture
def full(mock: MockService) -> MockService:
    """With these requests in its journal."""
    remember(mock, *ENTRIES)
    return mock


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with in_process(mock) as made:
        yield made


def remember(mock: MockService, *entries: JournalEntry) -> None:
    for entry in entries:
        mock.world.journal.add(replace(entry))


def failure(mock: MockService, *wanted: Any, **others: Any) -> list[str]:
    """What `assert_requested` says, line by line."""
    with pytest.raises(AssertionError) as caught:
        mock.assert_requested(*wanted, **others)
    return str(caught.value).splitlines()


# What is in it


def test_entries(mock: MockService, http: httpx.Client) -> None:
    http.get("/v1/agents", params={"status": "idle", "limit": 3})
    mock.clock.advance(2)
    http.post("/v1/agents", json={"name": "n"})
    http.get("/v1/account?empty=", headers={"Authorization": "nobody"})
    http.get("/elsewhere", headers={"Authorization": "Bearer mock_read_other"})
    http.get("/v1/trades", headers={"Authorization": "Bearer mock_read_other"})
    assert mock.journal() == [
        JournalEntry("GET", "/v1/agents", {"status": "idle", "limit": "3"}, "main", "main", 200, START, n=1),
        JournalEntry("POST", "/v1/agents", {}, "main", "main", 400, START + 2, "invalid_request", {"name": "n"}, n=2),
        JournalEntry("GET", "/v1/account", {"empty": ""}, None, None, 401, START + 2, "unauthorized", n=3),
        JournalEntry("GET", "/elsewhere", {}, None, None, 404, START + 2, "not_found", n=4),
        JournalEntry("GET", "/v1/trades", {}, "ther", "other", 200, START + 2, n=5),
    ]
    selections: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2, 3, 4, 5]),
        ({"tenant": "main"}, [1, 2]),
        ({"tenant": "nobody"}, []),
        ({"tenant": "other"}, [5]),
        ({"after": 1}, [2, 3, 4, 5]),
        ({"after": 5}, []),
        ({"after": 1, "limit": 2}, [4, 5]),
        ({"tenant": "main", "limit": 1}, [2]),
    ]
    for asked, expected in selections:
        assert [entry.n for entry in mock.journal(**asked)] == expected
    with pytest.raises(ValueError, match=r"^limit: must be at least 1$"):
        mock.journal(limit=0)
    mock.clear_journal()
    assert mock.journal() == []


def test_no_key_is_in_it_or_in_a_message(mock: MockService, http: httpx.Client) -> None:
    key = mock.create_key()
    for value in (FULL, key.value):
        http.get("/v1/account", headers={"Authorization": f"Bearer {value}"})
    for text in (repr(mock.journal()), "\n".join(failure(mock, "POST"))):
        assert FULL not in text
        assert key.value not in text
    assert mock.requests(tenant=key.tenant)[0].key_last4 == key.last4


def test_untrusted_requests_are_bounded(mock: MockService, http: httpx.Client) -> None:
    http.get("/v1/" + "a" * 20_000 + "?q=" + "b" * 20_000)
    http.post("/v1/agents", json={"name": "n" * 100_000})
    http.post("/v1/agents", content=b"{not json", headers={"Content-Type": "application/json"})
    long, large, broken = mock.journal()
    assert len(long.path) <= 2_000
    assert len(long.query["q"]) <= 2_000
    assert large.body is None
    assert broken.body is None
    assert broken.error == "invalid_request"


def test_a_deeply_nested_body_can_be_shown(mock: MockService, http: httpx.Client) -> None:
    nested = '{"a":' + "[" * 190 + "]" * 190 + "}"
    http.post("/v1/agents", content=nested, headers={"Content-Type": "application/json"})
    assert http.get("/_mock/journal").json()["data"][0]["body"] == mock.journal()[0].body == json.loads(nested)


def test_only_the_latest_are_kept(mock: MockService) -> None:
    remember(mock, replace(ENTRIES[0], path="/old"), *ENTRIES[:1] * 10_000)
    assert len(mock.journal()) == 10_000
    mock.assert_requested(path="/v1/account", times=0)
    assert mock.requests(path="/old") == []


# Finding requests


@each_of(
    ("wanted", "found"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"method": "POST"}, [2, 4]),
        ({"method": "post"}, [2, 4]),
        ({"path": "/v1/agents"}, [1, 2, 4]),
        ({"path": "/v1/agents/{agent_id}"}, [3]),
        ({"path": "/v1/agents/{agent_id}/x"}, [5]),
        ({"path": "/v1/agents/*"}, [3, 5]),
        ({"path": "*agents"}, [1, 2, 4]),
        ({"path": "*"}, [1, 2, 3, 4, 5]),
        ({"path": "/v1/agents/agt.1"}, []),
        ({"tenant": "main"}, [1, 2, 4]),
        ({"status": 422}, [3]),
        ({"status": 0}, [4]),
        ({"query": {}}, [1, 2, 3, 4, 5]),
        ({"query": {"limit": 3}}, [1]),
        ({"query": {"limit": "3", "status": "idle"}}, [1]),
        ({"query": {"limit": 4}}, []),
        ({"query": {"all": True}}, [5]),
        ({"query": {"limit": None}}, [2, 3, 4, 5]),
        ({"body": {}}, [2, 3, 4]),
        ({"body": {"name": "a"}}, [2]),
        ({"body": {"risk": {"stop": 5}}}, [2]),
        ({"body": {"risk": {}}}, [2, 3]),
        ({"body": {"name": None}}, [3]),
        ({"body": {"on": True}}, [4]),
        ({"body": {"on": 1}}, []),
        ({"body": "a"}, []),
        ({"method": "POST", "path": "/v1/agents", "body": {"name": "b"}, "tenant": "main", "status": 0}, [4]),
    ],
    ids=str,
)
def test_requests(full: MockService, wanted: dict[str, Any], found: list[int]) -> None:
    assert [entry.n for entry in full.requests(**wanted)] == found
    full.assert_requested(**wanted, times=len(found))
    if found:
        full.assert_requested(**wanted)
        with pytest.raises(AssertionError):
            full.assert_requested(**wanted, times=0)
    else:
        full.assert_requested(**wanted, times=0)
        assert failure(full, **wanted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        yield mock


@given(body=st.dictionaries(texts(), JSON, min_size=1, max_size=4), data=st.data())
@settings(deadline=None)
def test_a_body_is_like_itself_and_a_part_of_it_but_like_no_other(
    shared: MockService, body: dict[str, Any], data: st.DataObject
) -> None:
    shared.clear_journal()
    remember(shared, replace(ENTRIES[0], body=body))
    name = data.draw(st.sampled_from(sorted(body)))
    shared.assert_requested(body=body)
    shared.assert_requested(body={name: body[name]})
    assert len(failure(shared, body={name: ("another",)})) == 3


@given(path=texts(), other=texts())
@settings(deadline=None)
def test_a_path_is_like_itself_and_nothing_else(shared: MockService, path: str, other: str) -> None:
    path = "/" + re.sub(r"[?{}*]", "", path)
    shared.clear_journal()
    remember(shared, replace(ENTRIES[0], path=path), replace(ENTRIES[0], path="/" + other))
    assert {entry.path for entry in shared.requests(path=path)} == {path}


def test_a_request_as_it_was_sent(mock: MockService, http: httpx.Client) -> None:
    http.get("/v1/agents", params={"status": "idle"})
    http.post("/v1/agents", json={"name": "one", "wallet_id": "wal_0", "chain_id": 8453})
    (created,) = mock.assert_requested("POST", "/v1/agents", body={"chain_id": 8453}, tenant="main", times=1)
    assert created == mock.journal()[-1]
    mock.assert_requested("GET", "/v1/agents", query={"status": "idle", "limit": None}, status=200)


# What a failed assertion says


def test_what_was_asked_instead(full: MockService) -> None:
    """The nearest first, with every difference."""
    assert failure(full, "POST", "/v1/agents", body={"name": "c", "risk": {"stop": 5}}) == [
        "there was no POST /v1/agents body={'name': 'c', 'risk': {'stop': 5}}",
        "other requests, the closest first:",
        "  #2 POST /v1/agents: 201, but body.name 'a'",
        "  #4 POST /v1/agents: no response (fault: reset), but body.name 'b', no body.risk",
        "  #1 GET /v1/agents?status=idle&limit=3: 200, but method GET, no body",
        "  #5 GET /v1/agents/agt_1/x?all=true: 404 not_found, but method GET, another path, no body",
        "  #3 PATCH /v1/agents/agt_1: 422 validation_error,"
        " but method PATCH, another path, no body.name, body.risk.stop 9",
    ]
    wanted = {"tenant": "main", "status": 201, "query": {"limit": 3, "all": None}, "body": {"risk": 7}}
    assert failure(full, **wanted)[2:] == [
        "  #1 GET /v1/agents?status=idle&limit=3: 200, but status 200, no body",
        "  #2 POST /v1/agents: 201, but no query limit, body.risk {'stop': 5}",
        "  #4 POST /v1/agents: no response (fault: reset), but status 0, no query limit, no body.risk",
        "  #3 PATCH /v1/agents/agt_1: 422 validation_error,"
        " but tenant other, status 422, no query limit, body.risk {'stop': 9}",
        "  #5 GET /v1/agents/agt_1/x?all=true: 404 not_found,"
        " but no tenant, status 404, no query limit, query all 'true', no body",
    ]


def test_counts(full: MockService) -> None:
    asked = ["  #2 POST /v1/agents: 201", "  #4 POST /v1/agents: no response (fault: reset)"]
    assert failure(full, "POST", times=3)[:4] == [
        "POST was sent 2 times, not 3:",
        *asked,
        "other requests, the closest first:",
    ]
    assert failure(full, "POST", times=1) == ["POST was sent 2 times, not 1:", *asked]
    with pytest.raises(AssertionError) as caught:
        full.assert_requested(path="/v1/agents/*", status=404, times=0)
    assert str(caught.value).splitlines() == [
        "request /v1/agents/* status=404 was sent:",
        "  #5 GET /v1/agents/agt_1/x?all=true: 404 not_found",
    ]
    for times in (-1, True, 1.0, "2"):
        with pytest.raises(ValueError, match="times: must be a count"):
            full.assert_requested(times=times)  # type: ignore[arg-type]  # that is the point


def test_when_nothing_was_asked(mock: MockService) -> None:
    mock.assert_requested(times=0)
    assert failure(mock, "GET") == ["there was no GET", "there were no requests"]
    remember(mock, ENTRIES[0])
    assert failure(mock, "GET", times=2)[2:] == ["there was no other request"]


def test_long_lists_and_texts_are_cut(mock: MockService) -> None:
    remember(mock, *ENTRIES[:1] * 20)
    assert failure(mock, "DELETE")[-2:] == [
        "  #8 GET /v1/agents?status=idle&limit=3: 200, but method GET",
        "  ... and 12 more",
    ]
    with pytest.raises(AssertionError, match=r"\n  \.\.\. and 12 more$"):
        mock.assert_requested("GET", times=0)
    mock.clear_journal()
    wild = "\x1b[2J\r\n" + "x" * 2_000
    remember(mock, JournalEntry("GET", wild, {"q": wild}, None, None, 404, START, None, {"a": wild}))
    _, _, shown = failure(mock, "POST", body={"a": "b"})
    assert shown.isprintable()
    assert len(shown) < 400


# A typo is not taken for a request that never came


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"method": "/v1/agents"}, "method: '/v1/agents' is not a method such as GET; a path goes into path="),
        ({"method": ""}, "method: '' is not a method"),
        ({"path": "v1/agents"}, "path: 'v1/agents' is not a path such as /v1/agents"),
        ({"path": "http://localhost/v1/agents"}, "path: 'http://localhost/v1/agents' is not a path"),
        ({"path": ""}, "path: '' is not a path"),
        ({"path": "/v1/agents?status=idle"}, "path: '/v1/agents?status=idle' has a query; that goes into query="),
    ],
    ids=str,
)
def test_what_is_no_method_and_no_path_is_refused(mock: MockService, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^(method|path): ") as caught:
        mock.assert_requested(**wanted, times=0)
    assert str(caught.value).startswith(said)
