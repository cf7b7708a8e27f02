"""What a test asks of the journal, and what it is told when the answer is no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_mock import JournalEntry, MockClock, MockService
from tradesdk_mock.control.assertions import RequestMatcher, line
from tradesdk_mock.core.router import path_pattern

from ._support import FULL, START

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
    for entry in ENTRIES:
        mock.world.journal.add(replace(entry))
    return mock


@pytest.mark.parametrize(
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
    if found:
        full.assert_requested(**wanted)
        full.assert_requested(**wanted, times=len(found))
        with pytest.raises(AssertionError):
            full.assert_not_requested(**wanted)
    else:
        full.assert_not_requested(**wanted)
        full.assert_requested(**wanted, times=0)
        with pytest.raises(AssertionError):
            full.assert_requested(**wanted)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"method": "/v1/agents"}, "method: '/v1/agents' is not a method such as GET; a path goes into path="),
        ({"method": ""}, "method: '' is not a method"),
        ({"path": "v1/agents"}, "path: 'v1/agents' is not a path such as /v1/agents"),
        ({"path": "http://localhost/v1/agents"}, "is not a path"),
        ({"path": ""}, "path: '' is not a path"),
        ({"path": "/v1/agents?status=idle"}, "has a query; that goes into query="),
    ],
    ids=str,
)
def test_what_no_request_could_be_is_refused(full: MockService, wanted: dict[str, Any], said: str) -> None:
    """An assertion that something like that was not asked would hold for ever."""
    for ask in (full.requests, full.assert_requested, full.assert_not_requested):
        with pytest.raises(ValueError, match=r"(method|path): ") as caught:
            ask(**wanted)
        assert said in str(caught.value)


@pytest.mark.parametrize("times", [-1, True, 1.0, "2"])
def test_times_is_a_count(full: MockService, times: Any) -> None:
    with pytest.raises(ValueError, match="times: must be a count"):
        full.assert_requested(times=times)


def test_what_was_asked_instead(full: MockService) -> None:
    with pytest.raises(AssertionError) as caught:
        full.assert_requested("POST", "/v1/agents", body={"name": "c", "risk": {"stop": 5}})
    assert str(caught.value).splitlines() == [
        "there was no POST /v1/agents body={'name': 'c', 'risk': {'stop': 5}}",
        "other requests, the closest first:",
        "  #2 POST /v1/agents: 201, but body.name 'a'",
        "  #4 POST /v1/agents: no answer (fault: reset), but body.name 'b', no body.risk",
        "  #1 GET /v1/agents?status=idle&limit=3: 200, but method GET, no body",
        "  #5 GET /v1/agents/agt_1/x?all=true: 404 not_found, but method GET, another path, no body",
        "  #3 PATCH /v1/agents/agt_1: 422 validation_error,"
        " but method PATCH, another path, no body.name, body.risk.stop 9",
    ]


def test_every_difference_has_a_word() -> None:
    wanted = RequestMatcher("GET", "/v1/trades", "main", 200, {"limit": 3, "all": None}, {"a": {"b": 1}, "c": [1]})
    entry = JournalEntry("POST", "/v1", {"all": "1"}, None, None, 500, START, None, {"a": 7, "c": [2]})
    assert wanted.differences(entry) == [
        "method POST",
        "another path",
        "no tenant",
        "status 500",
        "no query limit",
        "query all '1'",
        "body.a 7",
        "body.c [2]",
    ]
    assert RequestMatcher(tenant="main").differences(ENTRIES[2]) == ["tenant other"]
    assert RequestMatcher(body=[1]).differences(ENTRIES[0]) == ["no body"]


def test_too_few(full: MockService) -> None:
    with pytest.raises(AssertionError) as caught:
        full.assert_requested("POST", times=3)
    assert str(caught.value).splitlines()[:4] == [
        "POST was sent 2 times, not 3:",
        "  #2 POST /v1/agents: 201",
        "  #4 POST /v1/agents: no answer (fault: reset)",
        "other requests, the closest first:",
    ]


def test_too_many(full: MockService) -> None:
    with pytest.raises(AssertionError) as caught:
        full.assert_requested("POST", times=1)
    assert str(caught.value).splitlines() == [
        "POST was sent 2 times, not 1:",
        "  #2 POST /v1/agents: 201",
        "  #4 POST /v1/agents: no answer (fault: reset)",
    ]


def test_what_should_not_have_been(full: MockService) -> None:
    with pytest.raises(AssertionError) as caught:
        full.assert_not_requested(path="/v1/agents/*", status=404)
    assert str(caught.value).splitlines() == [
        "request /v1/agents/* status=404 was sent:",
        "  #5 GET /v1/agents/agt_1/x?all=true: 404 not_found",
    ]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"method": "DELET"}, "method: there is no method DELET, so this could never fail"),
        ({"path": "/agents/*"}, "path: the service has no path /agents/*, so this could never fail"),
        ({"method": "DELETE", "path": "/v1/agent/*"}, "path: the service has no path /v1/agent/*, so"),
        ({"path": "/v1/agent/{agent_id}"}, "path: the service has no path /v1/agent/{agent_id}, so"),
        ({"path": "*/v1/trade"}, "path: the service has no path */v1/trade, so"),
        ({"tenant": "mee"}, "tenant: there is no tenant 'mee', so this could never fail; there are: me, you"),
    ],
    ids=str,
)
def test_a_slip_of_the_pen_is_not_taken_for_a_request_that_never_came(
    mock: MockService, wanted: dict[str, Any], said: str
) -> None:
    mock.create_key(tenant="me")
    mock.create_key(tenant="you")
    with pytest.raises(ValueError, match="so this could never fail") as caught:
        mock.assert_not_requested(**wanted)
    assert str(caught.value).startswith(said)
    with pytest.raises(ValueError, match="so this could never fail"):
        mock.assert_requested(**wanted, times=0)


@pytest.mark.parametrize(
    "wanted",
    [
        {"method": "delete"},
        {"method": "DELETE", "path": "/v1/agents/{id}"},
        {"path": "/v1/{what}"},
        {"path": "/v1/agents/agt_1/start"},
        {"path": "*"},
        {"path": "/v1/token-prices"},
        {"tenant": "me"},
    ],
    ids=str,
)
def test_what_could_have_been_asked(mock: MockService, wanted: dict[str, Any]) -> None:
    mock.create_key(tenant="me")
    mock.assert_not_requested(**wanted)


def test_a_wrong_path_that_was_asked_is_found(mock: MockService) -> None:
    with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        http.get("/v1/agent/1")
    with pytest.raises(AssertionError, match="#1 GET /v1/agent/1: 401"):
        mock.assert_not_requested(path="/v1/agent/*")


def test_a_tenant_that_there_is_not_where_there_is_none(mock: MockService) -> None:
    with pytest.raises(ValueError, match="there are none yet"):
        mock.assert_not_requested(tenant="me")


def test_when_nothing_was_asked(mock: MockService) -> None:
    mock.assert_not_requested()
    with pytest.raises(AssertionError, match=r"^there was no GET\nthere were no requests$"):
        mock.assert_requested("GET")


def test_long_lists_are_cut(mock: MockService) -> None:
    for _ in range(20):
        mock.world.journal.add(replace(ENTRIES[0]))
    with pytest.raises(AssertionError) as caught:
        mock.assert_requested("DELETE")
    assert str(caught.value).splitlines()[-2:] == [
        "  #8 GET /v1/agents?status=idle&limit=3: 200, but method GET",
        "  ... and 12 more",
    ]
    with pytest.raises(AssertionError, match=r"\n  \.\.\. and 12 more$"):
        mock.assert_not_requested("GET")


def test_strangers_texts_are_short_and_on_one_line(mock: MockService) -> None:
    wild = "\x1b[2J\r\n" + "x" * 2_000
    mock.world.journal.add(JournalEntry("GET", wild, {"q": wild}, None, None, 404, START, None, {"a": wild}))
    with pytest.raises(AssertionError) as caught:
        mock.assert_requested("POST", body={"a": "b"})
    _, _, shown = str(caught.value).split("\n")
    assert shown.isprintable()
    assert len(shown) < 400


def test_no_key_is_shown(mock: MockService) -> None:
    key = mock.create_key()
    with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        for value in (FULL, key.value):
            http.get("/v1/account", headers={"Authorization": f"Bearer {value}"})
    with pytest.raises(AssertionError) as caught:
        mock.assert_requested("POST")
    assert FULL not in str(caught.value)
    assert key.value not in str(caught.value)
    assert mock.requests(tenant=key.tenant)[0].key_last4 == key.last4


def test_a_request_as_it_was_sent(mock: MockService) -> None:
    with httpx.Client(
        transport=mock.transport(), base_url=mock.url, headers={"Authorization": f"Bearer {FULL}"}
    ) as http:
        http.get("/v1/agents", params={"status": "idle"})
        http.post("/v1/agents", json={"name": "one", "wallet_id": "wal_0", "chain_id": 8453})
    (created,) = mock.assert_requested("POST", "/v1/agents", body={"chain_id": 8453}, tenant="main", times=1)
    assert created == mock.journal()[-1]
    assert line(created) == "#2 POST /v1/agents: 404 not_found"
    mock.assert_requested("GET", "/v1/agents", query={"status": "idle", "limit": None}, status=200)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_any_body_is_like_itself(body: object) -> None:
    entry = JournalEntry("POST", "/v1/agents", {}, None, None, 200, START, None, body)
    assert RequestMatcher(body=body).differences(entry) == []


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=4), st.data())
def test_a_part_of_a_body_will_do_but_no_other_value(body: dict[str, object], data: st.DataObject) -> None:
    entry = JournalEntry("POST", "/v1/agents", {}, None, None, 200, START, None, body)
    name = data.draw(st.sampled_from(sorted(body)))
    assert RequestMatcher(body={name: body[name]}).differences(entry) == []
    (said,) = RequestMatcher(body={name: ("another",)}).differences(entry)
    assert "\n" not in said


@given(st.text(), st.text())
def test_a_path_is_like_itself_and_nothing_else(path: str, other: str) -> None:
    if not set(path) & set("{}*"):
        assert (path_pattern(path).fullmatch(other) is not None) == (path == other)
        assert path_pattern(path).fullmatch(path)
