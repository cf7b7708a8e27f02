"""What can be a rule about faults, and what can't."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockServerError
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults.catalog import KINDS, fault_kinds

from ._faulty import ASK, STREAM, carried, connect, fault
from ._support import FULL, error, ok

PATH = "/v1/account"


@pytest.fixture
def mock() -> Iterator[MockService]:
    with carried("in process") as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("explode", {}, "there is no fault 'explode'; there are: latency, status, reset"),
        ("", {}, "there is no fault ''"),
        (503, {}, 'kind: must be the name of a kind, as in add_fault("status", status=503), not of type int'),
        (
            "bom",
            {"path": "/v1/trades"},
            "no parameter 'path'; it has none; conditions are route, method, tenant, key, query, paid, since,",
        ),
        ("latency", {"second": 1}, "fault latency has no parameter 'second'; it has seconds, jitter"),
        ("bom", {"after": 1}, "fault bom has no parameter 'after'; it has none"),
        ("latency", {"seconds": -1}, "fault latency: seconds: must be from 0 to 3,600"),
        ("latency", {"seconds": math.nan}, "seconds: must be from"),
        ("latency", {"seconds": math.inf}, "seconds: must be from"),
        ("latency", {"seconds": 10**400}, "seconds: must be from"),
        ("latency", {"seconds": "1"}, "seconds: must be a number"),
        ("latency", {"seconds": True}, "seconds: must be a number"),
        ("status", {"status": 199}, "status: must be an integer from 200 to 599"),
        ("status", {"status": 503.0}, "status: must be an integer"),
        ("status", {"executed": 1}, "executed: must be true or false"),
        ("status", {"message": ["x"]}, "message: must be text"),
        ("status", {"message": "\ud800"}, "message: must be text"),
        ("status", {"code": "x" * 2_001}, "code: must be text of at most 2,000"),
        ("status", {"headers": []}, "headers: must be an object"),
        ("status", {"headers": {"a b": "c"}}, "headers: 'a b' is not the name of a header"),
        ("status", {"headers": {"A": "b\r\nSet-Cookie: c"}}, "headers: A: must be printable ASCII"),
        ("status", {"headers": {"A": None}}, "headers: A: must be"),
        ("status", {"headers": {"Content-Length": "3"}}, "use truncate or bad_chunk"),
        ("status", {"headers": {f"A{n}": "b" for n in range(51)}}, "at most 50"),
        ("status", {"retry_after": -1}, "retry_after: must be an integer"),
        ("status", {"retry_after": 1.5}, "retry_after: must be whole seconds"),
        ("status", {"retry_after": "ä"}, "retry_after: must be printable"),
        ("reset", {"after": -1}, "after: must be an integer from 0"),
        ("content_type", {"value": 3}, "value: must be printable"),
        ("huge_body", {"mib": 0}, "mib: must be from 0.001 to 1,024"),
        ("drip", {"piece": 0}, "piece: must be an integer from 1"),
        ("drop", {"how": "slowly"}, "how: must be one of clean, close, reset"),
        ("duplicate", {"share": 2}, "share: must be from 0 to 1"),
        ("skip", {"share": 0}, "share: must be above 0"),
        ("garbage", {"share": 0.0}, "share: must be above 0"),
        ("half_event", {"at": "end"}, "at: must be one of middle, character"),
        ("half_event", {"how": "clean"}, "how: must be one of close, reset"),
        ("silence", {"comments": 0}, "comments: must be from 0.001"),
        ("inject", {}, "text, base64: it needs one of them"),
        ("body", {"text": "", "base64": ""}, "text, base64: it needs one of them"),
        ("body", {"text": {"a": 1}}, "text: must be text of at most 8 MiB"),
        ("body", {"text": "\ud800"}, "text: must be text"),
        ("body", {"text": "é" * (4 * 2**20 + 1)}, "text: must be text of at most 8 MiB"),
        ("inject", {"text": "a" * (8 * 2**20 + 1)}, "text: must be text of at most 8 MiB"),
        ("inject", {"base64": "AAAA" * (8 * 2**20 // 3 + 1)}, "base64: must be base64 of at most 8 MiB"),
        ("inject", {"base64": "AAAA" * 2**22}, "base64: must be base64 of at most 8 MiB"),
        ("inject", {"base64": "QQ"}, "base64: must be base64, with its padding"),
        ("inject", {"base64": "Q Q="}, "base64: must be base64"),
        ("inject", {"base64": "ä==="}, "base64: must be base64"),
        ("inject", {"base64": 5}, "base64: must be base64"),
        ("body", {"text": "", "headers": {"Content-Length": "3"}}, "use truncate or bad_chunk"),
        ("body", {"text": "", "content_type": "a\nb"}, "content_type: must be printable"),
        ("reorder", {"window": 1}, "window: must be an integer from 2"),
        ("line_endings", {"style": ["cr"]}, "style: must be one of cr, lf, crlf, mixed"),
        ("bom", {"route": "v1/account"}, "route: must be a path that begins with /"),
        ("bom", {"route": ""}, "route: must be"),
        ("bom", {"route": 5}, "route: must be"),
        ("bom", {"route": "/" + "a" * 2_000}, "route: must be"),
        ("bom", {"route": "/\udc80"}, "route: must be"),
        ("bom", {"method": "GET /"}, "method: must be a method such as GET, not 'GET /'"),
        ("bom", {"method": 1}, "method: must be a method such as GET, not int"),
        ("bom", {"tenant": ""}, "tenant: must be"),
        ("bom", {"tenant": ["main"]}, "tenant: must be"),
        ("bom", {"key": ""}, "key: must be the id"),
        ("bom", {"key": 5}, "key: must be the id"),
        ("bom", {"query": {}}, "query: must be an object of 1 to 20"),
        ("bom", {"query": "chain=8453"}, "query: must be an object"),
        ("bom", {"query": {"a": True}}, "query: 'a': must be text"),
        ("bom", {"query": {"a": None}}, "query: 'a': must be text"),
        ("bom", {"query": {5: "a"}}, "query: int: must be text"),
        ("bom", {"query": {"a" * 201: "a"}}, "must be text, at most 200"),
        ("bom", {"since": -1}, "since: must be from 0"),
        ("bom", {"since": math.inf}, "since: must be from 0"),
        ("bom", {"until": "soon"}, "until: must be a number"),
        ("bom", {"nth": 0}, "nth: must be an integer from 1"),
        ("bom", {"nth": 2**70}, "nth: must be an integer from 1"),
        ("bom", {"every": 1.0}, "every: must be an integer"),
        ("bom", {"count": 0}, "count: must be an integer from 1"),
        ("bom", {"count": True}, "count: must be an integer"),
        ("bom", {"probability": 1.01}, "probability: must be from 0 to 1"),
        ("bom", {"probability": math.nan}, "probability: must be from 0 to 1"),
        ("bom", {"probability": "half"}, "probability: must be a number"),
        ("bom", {"nth": 1, "every": 2}, "nth and every: a rule has one of them"),
    ],
)  # fmt: skip
def test_bad_input(mock: MockService, kind: str, given: dict[str, Any], words: str) -> None:
    fault(mock, count=1)
    before = mock.faults()
    with pytest.raises(MockServerError, match=re.escape(words)) as refused:
        mock.add_fault(kind, **given)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
    assert mock.faults() == before


@pytest.mark.parametrize("kind", [5, ["latency"], {}, True, "x" * 9_999])
def test_a_kind_that_is_none(mock: MockService, http: httpx.Client, kind: object) -> None:
    assert len(error(http.post("/_mock/faults", json={"kind": kind}), 400, "invalid_request")) < 500


def test_names_that_python_has_a_meaning_for(mock: MockService, http: httpx.Client) -> None:
    for name in ("self", "world", "kind_", "given", "parameters", "id", "seen", ""):
        message = error(http.post("/_mock/faults", json={"kind": "bom", name: 1}), 400, "invalid_request")
        assert message.startswith(f"fault bom has no parameter {name!r}; it has none; conditions are route, method,")
    error(http.post("/_mock/faults", json={"route": "/"}), 400, "invalid_request")


def test_too_many_rules(mock: MockService) -> None:
    with mock.world.transaction():
        for _ in range(1_000):
            mock.add_fault("latency")
    with pytest.raises(MockServerError, match="there are 1,000 rules already"):
        mock.add_fault("latency")


NAMES = sorted({spec.name for kind in fault_kinds() for spec in kind.parameters})
CONDITIONS = [
    "route", "method", "tenant", "key", "query", "paid", "since", "until", "nth", "every", "probability", "count"
]  # fmt: skip
NESTED = st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
VALUES = st.one_of(
    st.sampled_from(["/v1/account", "/v1/*", STREAM, "GET", "main", "reset", "mixed", "", "503"]),
    st.integers(-2, 700),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=20),
    NESTED,
)
BODIES = st.builds(
    lambda kind, fields: {"kind": kind, **fields},
    st.sampled_from(sorted(KINDS)) | VALUES,
    st.dictionaries(st.sampled_from(NAMES + CONDITIONS) | st.text(max_size=9), VALUES, max_size=4),
)


@given(BODIES | VALUES)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_a_rule_or_refused_and_the_service_goes_on(
    mock: MockService, caplog: pytest.LogCaptureFixture, body: object
) -> None:
    mock.clear_faults()
    mock.clock.advance(60)  # beyond the rate limit's window
    with connect(mock) as http, caplog.at_level(logging.WARNING):
        headers = {"Content-Type": "application/json"}
        answer = http.post("/_mock/faults", content=json.dumps(body), headers=headers)
        if answer.status_code == 200:
            assert [asdict(rule) for rule in mock.faults()] == [answer.json()]
            for path in (PATH, STREAM):
                with mock.transport() as transport:
                    played(mock, transport, path)
        else:
            error(answer, 400, "invalid_request")
            assert mock.faults() == []
        mock.clear_faults()
        ok(http.get(PATH))
        assert caplog.records == []


def played(mock: MockService, transport: httpx.BaseTransport, path: str) -> None:
    """Ask once, and read some of what comes; nothing but a failure of the transport may happen."""
    mock.emit_signal()
    asked = httpx.Request(
        "GET",
        f"http://localhost{path}?chain={ASK['chain']}",
        headers={"Authorization": f"Bearer {FULL}"},
        extensions={"timeout": {"read": 10.0}},
    )
    try:
        answer = transport.handle_request(asked)
        assert isinstance(answer.stream, httpx.SyncByteStream)
        for _ in islice(answer.stream, 20):
            pass
        answer.close()
    except httpx.TransportError:
        pass


# the kinds


def test_kinds_as_the_control_api_has_them(mock: MockService) -> None:
    kinds = mock.control("GET", "faults/kinds")["data"]
    assert [kind["name"] for kind in kinds] == [
        "latency",
        "status",
        "reset",
        "truncate",
        "bad_chunk",
        "body",
        "malformed_json",
        "content_type",
        "huge_body",
        "drip",
        "drop",
        "half_event",
        "silence",
        "skip",
        "duplicate",
        "reorder",
        "garbage",
        "inject",
        "bom",
        "line_endings",
        "split_utf8",
        "offer",
        "overlook",
        "verification",
        "settlement",
        "receipt",
    ]
    assert [kind["on"] for kind in kinds] == ["response"] * 10 + ["stream"] * 11 + ["payment"] * 5
    assert mock.fault_kinds() == fault_kinds()
    for kind in kinds:
        assert set(kind) == {"name", "on", "text", "parameters"}
        assert kind["text"][0].isupper()
        assert kind["text"].endswith(".")
        for parameter in kind["parameters"]:
            assert set(parameter) == {"name", "default", "text"}
            assert parameter["name"] not in CONDITIONS
            assert parameter["text"]


def test_defaults_are_what_a_rule_has(mock: MockService) -> None:
    for kind in fault_kinds():
        defaults = {spec.name: spec.default for spec in kind.parameters}
        needed: dict[str, Any] = {"text": "x"} if "text" in defaults else {}
        rule = mock.add_fault(kind.name, **needed)
        assert rule.on == kind.on
        assert rule.parameters == {name: value for name, value in {**defaults, **needed}.items() if value is not None}
        assert mock.add_fault(kind.name, **rule.parameters).parameters == rule.parameters
