"""Rules about faults that can never be played because of another rule, of time, or of somebody that can't exist."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults import faultwarnings

from ._faulty import STREAM, carried, connect
from ._support import START

PATH = "/v1/account"
Rule = tuple[str, dict[str, Any]]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with carried("in process") as made:
        yield made


def shown(mock: MockService, *rules: Rule) -> list[str | None]:
    """The warnings of these rules, added in their order: the same when they are made and when they are listed."""
    made = [mock.add_fault(kind, **given).warning for kind, given in rules]
    assert [rule.warning for rule in mock.faults()] == made
    return made


HIDDEN: list[tuple[Rule, Rule]] = [
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


@pytest.mark.parametrize(("older", "younger"), HIDDEN, ids=range(len(HIDDEN)))
def test_behind_a_rule_that_is_always_played(mock: MockService, older: Rule, younger: Rule) -> None:
    warnings = shown(mock, older, younger)
    first, second = mock.faults()
    words = f"fault {first.id} ({first.kind}) is older, is always played, and leaves nothing to this one"
    assert warnings == [None, words]
    mock.emit_signal()
    with connect(mock) as http:
        for path in (PATH, f"{STREAM}?chain=8453&a=b", f"{PATH}?a=b"):
            with suppress(httpx.TransportError), http.stream("GET", path):
                pass
    assert [rule.fired > 0 for rule in mock.faults()] == [True, False]
    mock.remove_fault(first.id)
    assert [rule.warning for rule in mock.faults()] == [None]
    assert second.id == mock.faults()[0].id


@pytest.mark.parametrize(
    ("older", "younger"),
    [
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
        (("body", {"text": ""}), ("malformed_json", {})),
        (("reset", {"after": 5}), ("status", {})),
        (("bom", {}), ("split_utf8", {})),
    ],
    ids=range(16),
)
def test_not_behind(mock: MockService, older: Rule, younger: Rule) -> None:
    assert shown(mock, older, younger) == [None, None]


def test_behind_a_rule_that_can_not_be_played_itself(mock: MockService) -> None:
    """Its conditions, and not the rule in front, are what keeps each of them from being played."""
    warnings = shown(mock, ("status", {"until": START}), ("status", {}), ("status", {"until": START}))
    assert [warning and warning.split(":")[0] for warning in warnings] == [
        "its until is over",
        None,
        "its until is over",
    ]


def test_time(mock: MockService) -> None:
    spans: list[Rule] = [
        ("latency", {"since": START + 5, "until": START + 5}),
        ("latency", {"since": START + 5, "until": START - 5}),
        ("latency", {"until": START}),
        ("latency", {"until": START + 1}),
        ("latency", {"since": START + 9}),
    ]
    order = "its until is not after its since"
    over = "its until is over: the service's time is {:.3f}"
    assert shown(mock, *spans) == [order, order, over.format(START), None, None]
    mock.clock.advance(1)
    assert [rule.warning for rule in mock.faults()][2:] == [over.format(START + 1)] * 2 + [None]
    assert len(mock.status()["warnings"]) == 4


def test_tenants_that_can_not_exist_and_keys_that_do_not_yet(mock: MockService) -> None:
    tenants: list[Rule] = [("latency", {"tenant": name}) for name in ("no name", "ä", "-x", "not-yet")]
    bad, *others = shown(mock, *tenants)
    assert bad == "'no name' is not a tenant name: letters, digits, `_`, `.` and `-`, at most 64"
    assert [warning is None for warning in others] == [False, False, True]
    assert mock.add_fault("latency", key="key_0").warning == "there is no key 'key_0' so far"
    key = mock.create_key()
    assert mock.add_fault("latency", key=key.id).warning is None
    mock.revoke_key(key.id)
    assert mock.faults()[-1].warning is None


def test_a_hint_where_a_query_belongs(mock: MockService) -> None:
    (warning,) = shown(mock, ("latency", {"route": "/v1/trades?status=open"}))
    assert warning is not None
    assert warning.endswith("what a query must have is the condition query")


def test_what_a_route_is_about_is_looked_up_once(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = faultwarnings.could_meet

    def counted(route: str, pattern: str) -> bool:
        asked.append(route)
        return real(route, pattern)

    monkeypatch.setattr(faultwarnings, "could_meet", counted)
    for _ in range(5):
        mock.add_fault("latency", route="/v1/once*")
        mock.status()
    # Once for each path of the service.
    assert len(asked) == len(faultwarnings.places(True))


def test_a_thousand_rules_are_listed_at_once(mock: MockService) -> None:
    """CPU time: what else the machine does counts for nothing."""
    with mock.world.transaction():
        for number in range(1_000):
            mock.add_fault("latency", route=f"/v1/agents/a{number}*", method="GET", tenant="main", since=number)
    mock.faults()
    begun = time.process_time()
    assert len(mock.faults()) == 1_000
    assert time.process_time() - begun < 1
