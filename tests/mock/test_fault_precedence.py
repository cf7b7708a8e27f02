"""Which rules apply together, which the oldest keeps from applying, and which can't apply at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._faulty import STREAM, carried, connect
from ._support import START

PATH = "/v1/account"
Rule = tuple[str, dict[str, Any]]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with carried("in process") as made:
        yield made


def applied(mock: MockService, *rules: Rule) -> list[bool]:
    """Whether each of these rules, added in their order, applies to some of the requests of two tenants."""
    for kind, given in rules:
        mock.add_fault(kind, **given)
    mock.emit_signal()
    for _ in range(3):
        for key in ("mock_full_main", "mock_full_other"):
            with connect(mock, key) as http:
                for path in (PATH, f"{PATH}?a=b", f"{PATH}?a=c", "/v1/trades", f"{STREAM}?chain=8453&a=b"):
                    with suppress(httpx.TransportError), http.stream("GET", path):
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
]


@pytest.mark.parametrize(("older", "younger"), ONLY_THE_OLDER, ids=range(len(ONLY_THE_OLDER)))
def test_the_older_of_two_that_change_the_same(mock: MockService, older: Rule, younger: Rule) -> None:
    assert applied(mock, older, younger) == [True, False]


BOTH: list[tuple[Rule, Rule]] = [
    (("status", {"count": 2}), ("status", {})),
    (("status", {"nth": 2}), ("status", {})),
    (("status", {"every": 2}), ("status", {})),
    (("status", {"probability": 0.5}), ("status", {})),
    (("status", {"route": PATH}), ("status", {})),
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


@pytest.mark.parametrize(("older", "younger"), BOTH, ids=range(len(BOTH)))
def test_two_that_both_apply(mock: MockService, older: Rule, younger: Rule) -> None:
    assert applied(mock, older, younger) == [True, True]


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [
        ("status", {"route": "/v1/nothing"}),
        ("status", {"route": "/v1/trades?a=b"}),
        ("status", {"method": "POST"}),
        ("status", {"until": START}),
        ("status", {"since": START + 60, "until": START + 5}),
        ("status", {"tenant": "no name"}),
        ("status", {"key": "key_0"}),
        ("status", {"probability": 0}),
        ("drop", {"route": "/v1/trades"}),
        ("drop", {"method": "POST"}),
        ("malformed_json", {"route": STREAM}),
        ("huge_body", {"route": "/v1/signals/str*"}),
    ],
)
def test_rules_that_never_apply_are_kept(mock: MockService, kind: str, conditions: dict[str, Any]) -> None:
    assert applied(mock, (kind, conditions)) == [False]
