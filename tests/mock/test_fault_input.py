"""What a fault rule may be told: of each kind, its parameters and the conditions, what is accepted and what isn't."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockServerError, MockService

from .._rows import each_of
from .._texts import texts
from ._http import client, control, error, ok, silent
from ._streams import BASE_CHAIN, STREAM

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "mock.md"

PATH = "/v1/account"
MIB8 = 8 * 2**20
with silent("in process") as service:
    KINDS = service.fault_kinds()
CONDITIONS = [
    *("route", "method", "tenant", "key", "query", "paid", "since", "until"),
    *("nth", "every", "probability", "count"),
]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with silent("in process") as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock) as made:
        yield made


# fmt: off
VALUES: list[tuple[str, str, list[Any], list[Any], str]] = [
    ("latency", "seconds", [0, 1.5, 3_600], [-1, 3_600.1, math.nan, math.inf, 10**400],
     "must be from 0 to 3,600"),
    ("latency", "seconds", [], ["1", True, [1]], "must be a number from 0 to 3,600"),
    ("latency", "jitter", [3_600], [3_601], "must be from 0 to 3,600"),
    ("status", "status", [200, 599], [199, 600, 503.0, "503", True], "must be an integer from 200 to 599"),
    ("status", "executed", [True, False], [1, "yes"], "must be true or false"),
    ("status", "message", ["", "x" * 2_000, 7, 1.5], [["x"], True, "\ud800", "x" * 2_001],
     "must be text of at most 2,000 characters"),
    ("status", "code", ["x" * 2_000], ["x" * 2_001], "must be text of at most 2,000 characters"),
    ("status", "headers", [{}, {"a" * 100: 7}, {f"A{n}": "b" for n in range(50)}],
     [[], "a", {f"A{n}": "b" for n in range(51)}], "must be an object of at most 50 names and values"),
    ("status", "headers", [], [{"a b": "c"}], "'a b' is not the name of a header"),
    ("status", "headers", [], [{"a" * 101: "c"}, {"": ""}, {1: "a"}], " is not the name of a header"),
    ("status", "headers", [{"A": "b" * 2_000}, {"A": ""}],
     [{"A": "b\r\nSet-Cookie: c"}, {"A": None}, {"A": True}, {"A": "b" * 2_001}, {"A": " b"}], "A: must be printable"),
    *((kind, "headers", [], [{name: "3"}], f"{name.lower()} sets where the body ends: use truncate or bad_chunk")
      for kind in ("status", "body") for name in ("Content-Length", "transfer-encoding", "Connection")),
    ("status", "retry_after", [0, 10**9, "", "soon"], [-1, 10**9 + 1], "must be an integer from 0 to 1,000,000,000"),
    ("status", "retry_after", [], [1.5, True, [1]], "must be whole seconds"),
    ("status", "retry_after", [], ["ä", "a\nb"], "must be printable ASCII of at most 2,000 characters"),
    ("reset", "after", [0, 2**40], [-1, 2**40 + 1], "must be an integer from 0"),
    ("content_type", "value", ["", "x" * 2_000], [3, "x" * 2_001, "a\nb"], "must be printable ASCII"),
    ("huge_body", "mib", [0.001, 1_024], [0, 0.0009, 1_025], "must be from 0.001 to 1,024"),
    ("drip", "piece", [1, 2**30], [0, 2**30 + 1], "must be an integer from 1"),
    ("drip", "seconds", [0, 3_600], [3_601], "must be from 0 to 3,600"),
    ("drop", "after", [0, 10**9], [-1, 10**9 + 1], "must be an integer from 0"),
    ("drop", "how", ["clean", "close", "reset"], ["slowly", ["close"]], "must be one of clean, close, reset"),
    ("half_event", "at", ["middle", "character"], ["end"], "must be one of middle, character"),
    ("half_event", "how", ["close", "reset"], ["clean"], "must be one of close, reset"),
    ("silence", "seconds", [0, 31 * 86_400], [-1, 31 * 86_400 + 1], "must be from 0 to 2,678,400"),
    ("silence", "comments", [0.001, 31 * 86_400], [0, 31 * 86_400 + 1], "must be from 0.001"),
    ("skip", "each", [1, 10**9], [0, 10**9 + 1], "must be an integer from 1"),
    ("duplicate", "share", [0.001, 1], [2, -1], "must be from 0 to 1"),
    *((kind, "share", [], [0, 0.0], "must be above 0") for kind in ("skip", "garbage")),
    ("reorder", "window", [2, 1_000], [1, 1_001], "must be an integer from 2 to 1,000"),
    ("reorder", "seconds", [0, 31 * 86_400], [31 * 86_400 + 1], "must be from 0"),
    ("line_endings", "style", ["cr", "lf", "crlf", "mixed"], [["cr"], "CR"], "must be one of cr, lf, crlf, mixed"),
    ("inject", "text", ["", "a"], [{"a": 1}, "\ud800", "é" * (MIB8 // 2 + 1), "a" * (MIB8 + 1)],
     "must be text of at most 8 MiB"),
    ("inject", "base64", ["", "QQ=="], [5, "AAAA" * (MIB8 // 3 + 1), "AAAA" * 2**22],
     "must be base64 of at most 8 MiB"),
    ("inject", "base64", [], ["QQ", "Q Q=", "ä==="], "must be base64, with its padding"),
    ("offer", "fields", [{"a": None}, {str(n): 1 for n in range(50)}], [{}, "amount=1", {str(n): 1 for n in range(51)}],
     "must be an object of 1 to 50"),
    ("offer", "fields", [], [{1: "x"}], "must have text for names"),
    ("offer", "top", [], [{"a": math.nan}, {"a": b"x"}], "must be JSON"),
    ("offer", "fields", [{"a": "x" * (2**20 - 10)}], [{"a": "\ud800"}, {"a": "x" * 2**20}],
     "must be JSON of at most 1 MiB, in characters that UTF-8 has"),
    ("offer", "header", ["", "a b", "x" * 2**20], ["a\r\nb: c", " a", "ü", "x" * (2**20 + 1), 5],
     "must be printable ASCII of at most 1 MiB"),
    ("offer", "body", [""], [5], "must be text"),
    ("overlook", "charged", [True], ["yes"], "must be true or false"),
    ("settlement", "reason", ["x"], [True], "must be text"),
    ("receipt", "raw", ["x"], ["a\nb"], "must be printable ASCII"),
    ("receipt", "missing", [True], [1], "must be true or false"),
    # Conditions
    ("", "route", ["/", "*x", "/" + "a" * 1_999], ["v1/account", "", 5, "/" + "a" * 2_000, "/\udc80"],
     "must be a path that begins with /"),
    ("", "method", ["GET", "a" * 20], ["GET /", "", 1, "a" * 21], "must be a method such as GET, not "),
    ("", "tenant", ["a" * 64], ["", ["main"], "a" * 65], "must be a tenant's name, at most 64 characters"),
    ("", "key", ["key_" + "a" * 60], ["", 5, "key_" + "a" * 61, "flt_1"], "must be the id of a key, which begins"),
    ("", "paid", ["only", "never"], ["sometimes"], "must be one of only, never"),
    ("", "query", [{str(n): n for n in range(20)}], [{}, "chain=8453", {str(n): n for n in range(21)}],
     "must be an object of 1 to 20"),
    ("", "query", [{"a" * 200: "b" * 2_000}],
     [{"a": True}, {"a": None}, {5: "a"}, {"a" * 201: "a"}, {"a": "b" * 2_001}],
     ": must be text, at most 200 characters of a name and 2,000 of a value"),
    *(("", name, [0, 1e11], [-1, math.inf, 1e12], "must be from 0 to ") for name in ("since", "until")),
    ("", "until", [], ["soon"], "must be a number"),
    *(("", name, [1, 10**9], [0, 1.0, True, 10**9 + 1, 2**70], "must be an integer from 1 to 1,000,000,000")
      for name in ("nth", "every", "count")),
    ("", "probability", [0, 1], [1.01, -0.1, math.nan], "must be from 0 to 1"),
    ("", "probability", [], ["half"], "must be a number"),
]
# fmt: on


@pytest.mark.long
@each_of(("kind", "name", "accepted", "refused", "words"), VALUES, ids=[f"{kind}-{name}" for kind, name, *_ in VALUES])
def test_values(mock: MockService, kind: str, name: str, accepted: list[Any], refused: list[Any], words: str) -> None:
    """Of a kind's parameter, or of a condition. What is refused leaves the rules as they were."""
    for value in accepted:
        rule = mock.add_fault(kind or "bom", **{name: value})
        assert rule in mock.faults()
    before = mock.faults()
    for value in refused:
        with pytest.raises(MockServerError) as caught:
            mock.add_fault(kind or "bom", **{name: value})
        message = str(caught.value)
        assert message.startswith(f"fault {kind}: {name}: " if kind else f"{name}: ")
        assert words in message
        assert "\n" not in message
        assert len(message) < 400
    assert mock.faults() == before
    mock.clear_faults()


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("explode", {}, "there is no fault 'explode'; there are: latency, status, reset"),
        ("x" * 9_999, {}, "there is no fault 'xxx"),
        ("", {}, "there is no fault ''"),
        (503, {}, 'kind: must be the name of a kind, as in add_fault("status", status=503), not of type int'),
        (["latency"], {}, "kind: must be the name of a kind"),
        ("bom", {"path": "/v1/trades"}, "fault bom has no parameter 'path'; it has none; conditions are route, method, "
         "tenant, key, query, paid, since, until, nth, every, probability, count"),
        ("latency", {"second": 1}, "fault latency has no parameter 'second'; it has seconds, jitter; conditions are"),
        ("inject", {}, "fault inject: text, base64: it needs one of them, and not both"),
        ("body", {"text": "", "base64": ""}, "fault body: text, base64: it needs one of them, and not both"),
        ("bom", {"nth": 1, "every": 2}, "nth and every: a rule has one of them, not both"),
        *(("bom", {name: 1}, f"fault bom has no parameter {name!r}; it has none")
          for name in ("self", "world", "kind_", "given", "parameters", "id", "seen", "")),
    ],
)  # fmt: skip
def test_kinds_and_names(
    mock: MockService, http: httpx.Client, kind: Any, parameters: dict[str, Any], words: str
) -> None:
    """What Python says; over HTTP the error is that of the service."""
    with pytest.raises(MockServerError) as caught:
        mock.add_fault(kind, **parameters)
    assert str(caught.value).startswith(words)
    assert len(str(caught.value)) < 500
    for body in ({"kind": kind, **parameters}, {"route": "/"}):
        assert len(error(http.post("/_mock/faults", json=body), 400, "invalid_request")) < 500


TEXTS = ["/v1/account", "/v1/*", STREAM, "GET", "main", "reset", "mixed", "", "503"]
NAMES = [*sorted({spec.name for kind in KINDS for spec in kind.parameters}), *CONDITIONS]
NESTED = st.recursive(st.none() | texts(), lambda inner: st.lists(inner) | st.dictionaries(texts(), inner))
ANYTHING = st.one_of(
    *(st.sampled_from(TEXTS), st.integers(-2, 700), st.integers(), st.floats(), st.booleans(), texts(max_size=20)),
    NESTED,
)
BODIES = st.builds(
    lambda kind, fields: {"kind": kind, **fields},
    st.sampled_from([kind.name for kind in KINDS]) | ANYTHING,
    st.dictionaries(st.sampled_from(NAMES) | texts(max_size=9), ANYTHING, max_size=4),
)


@pytest.mark.long
@given(BODIES | ANYTHING)
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_any_json_is_a_rule_or_refused_and_the_service_goes_on(
    mock: MockService, caplog: pytest.LogCaptureFixture, body: object
) -> None:
    mock.clear_faults()
    mock.clock.advance(60)  # beyond the rate limit's window
    with client(mock, timeout=10) as http, caplog.at_level(logging.WARNING):
        headers = {"Content-Type": "application/json"}
        answer = http.post("/_mock/faults", content=json.dumps(body), headers=headers)
        if answer.status_code == 200:
            assert [asdict(rule) for rule in mock.faults()] == [answer.json()]
            for path in (PATH, STREAM):
                played(mock, http, path)
        else:
            error(answer, 400, "invalid_request")
            assert mock.faults() == []
        mock.clear_faults()
        ok(http.get(PATH))
        assert caplog.records == []


def played(mock: MockService, http: httpx.Client, path: str) -> None:
    """Ask once, and read some of what comes; nothing but a failure of the transport may happen."""
    mock.emit_signal()
    try:
        with http.stream("GET", path, params=BASE_CHAIN) as answer:
            for number, _ in enumerate(answer.iter_raw()):
                if number == 20:
                    break
    except httpx.TransportError:
        pass


def test_kinds_as_the_control_api_has_them(mock: MockService) -> None:
    """And as the documentation has them, in a table with a row for each."""
    kinds = control(mock, "GET", "faults/kinds")["data"]
    assert [kind["name"] for kind in kinds] == [kind.name for kind in mock.fault_kinds()]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.*?) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(name, on, text, re.findall(r"\w+", parameters)) for name, on, text, parameters in rows] == [
        (kind["name"], kind["on"], kind["text"], [each["name"] for each in kind["parameters"]]) for kind in kinds
    ]
    for kind in kinds:
        assert set(kind) == {"name", "on", "text", "parameters"}
        assert kind["text"][0].isupper()
        assert kind["text"].endswith(".")
        for parameter in kind["parameters"]:
            assert set(parameter) == {"name", "default", "text"}
            assert parameter["name"] not in CONDITIONS
            assert parameter["text"]


def test_defaults_are_what_a_rule_has(mock: MockService) -> None:
    """None is the same as leaving an argument out."""
    for kind in mock.fault_kinds():
        defaults = {spec.name: spec.default for spec in kind.parameters}
        needed: dict[str, Any] = {"text": "x"} if "text" in defaults else {}
        rule = mock.add_fault(kind.name, **dict.fromkeys(CONDITIONS), **{**dict.fromkeys(defaults), **needed})
        assert rule.on == kind.on
        assert rule.parameters == {name: value for name, value in {**defaults, **needed}.items() if value is not None}
        assert mock.add_fault(kind.name, **rule.parameters).parameters == rule.parameters
