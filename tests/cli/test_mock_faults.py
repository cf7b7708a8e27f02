"""`trade mock fault`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_cli.commands.mock.fault import value_of
from tradesdk_cli.errors import UsageProblem
from tradesdk_mock import MockServer, fault_kinds

from .._rows import each_of
from ._services import HOSTILE, Scripted
from ._terminal import Terminal

PLAIN = {"NO_COLOR": "1"}
FAULT = ("--mock", "mock", "fault")


@each_of(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ('{"X-A":"b"}', {"X-A": "b"}),
        ("[1, 2]", [1, 2]),
        ('"503"', "503"),
        ('""', ""),
        ("", ""),
        ("text/html", "text/html"),
        ("close", "close"),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("007", "007"),
        ("True", "True"),
        (" 3 x", " 3 x"),
    ],
)
def test_what_a_value_stands_for(text: str, value: object) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


@each_of("text", ['{"a":', "[1", '"open', "{'a': 1}", "[" * 100_000])
def test_what_begins_like_json_must_be_json(text: str) -> None:
    with pytest.raises(UsageProblem, match="starts like JSON"):
        value_of(text)


@given(st.text())
def test_any_value_can_be_sent(text: str) -> None:
    try:
        value = value_of(text)
    except UsageProblem:
        return
    json.dumps(value, allow_nan=False)


def test_a_fault_is_added_played_and_taken_back(trade: Terminal) -> None:
    line = "status --route /v1/trades --count 2 status=404 code=gone retry_after=3"
    rule = trade(*FAULT, "add", *line.split()).json
    assert (rule["kind"], rule["route"], rule["count"]) == ("status", "/v1/trades", 2)
    assert rule["parameters"] | {"status": 404, "code": "gone", "retry_after": 3} == rule["parameters"]
    hit = trade("--mock", "trades", "list")
    assert (hit.code, hit.problem["code"]) == (6, "gone")
    assert trade("--mock", "agents", "list").code == 0
    [listed] = trade(*FAULT, "list").lines
    assert (listed["id"], listed["seen"], listed["fired"]) == (rule["id"], 1, 1)
    gone = trade(*FAULT, "remove", rule["id"])
    assert gone.json == {"id": rule["id"], "removed": True, "faults": 0}
    assert trade("--mock", "trades", "list").code == 0
    empty = trade(*FAULT, "list")
    assert (empty.lines, json.loads(empty.err)) == ([], {"note": "no faults"})


def test_every_condition_is_sent(trade: Terminal, service: Scripted) -> None:
    line = "add latency --route /v1/* --method post --tenant me --every 3 --probability 0.5 --count 7 seconds=0.5"
    line += " --key key_1 --query chain=8453 --query a= --since 2027-01-15T08:00Z --until 1800000060.5"
    service.fails(400, "invalid_request", "no")
    trade("mock", "fault", *line.split(), "--nth", "2")
    method, path, content = service.seen[-1]
    assert (method, path) == ("POST", "/_mock/faults")
    assert json.loads(content) == {
        "kind": "latency",
        "route": "/v1/*",
        "method": "POST",
        "tenant": "me",
        "key": "key_1",
        "query": {"chain": "8453", "a": ""},
        "since": 1_800_000_000,
        "until": 1_800_000_060.5,
        "nth": 2,
        "every": 3,
        "probability": 0.5,
        "count": 7,
        "seconds": 0.5,
    }


def test_texts_are_sent_as_they_are(trade: Terminal, service: Scripted) -> None:
    service.fails(400, "invalid_request", "no")
    trade("mock", "fault", "add", "body", 'text={"a": NaN', "base64=1234", "content_type=7")
    assert json.loads(service.seen[-1][2]) == {
        "kind": "body",
        "text": '{"a": NaN',
        "base64": "1234",
        "content_type": 7,
    }


def test_a_long_text_is_shortened_for_people_only(trade: Terminal) -> None:
    added = trade(*FAULT, "add", "body", "text=" + "x" * 50_000)
    assert added.json["parameters"]["text"] == "x" * 50_000
    assert 900 < trade(*FAULT, "list", tty=True, env=PLAIN).out.count("x") < 1_100


def test_clear(trade: Terminal) -> None:
    for kind in ("latency", "drip"):
        trade(*FAULT, "add", kind)
    assert trade("--mock", "mock", "status").json["faults"] == 2
    assert trade(*FAULT, "clear").json == {"faults": 0}
    assert trade("--mock", "mock", "status").json["faults"] == 0


def test_refusals(trade: Terminal) -> None:
    for line in ("add nonsense", "add status nonsense=1", "add latency seconds=soon", "add status status=99"):
        run = trade(*FAULT, *line.split())
        assert (run.code, run.problem["status"]) == (8, 400), line
        assert run.problem["hint"] == "see what there is: trade --mock mock fault kinds"
    for line in (
        "add",
        "add status status",
        "add status =3",
        "add status status=1 status=2",
        "add status route=/v1/trades",
        "add status kind=drop",
        'add status headers={"X',
        "add latency --nth 0",
        "add latency --every 0",
        "add latency --count 0",
        "add latency --probability 2",
        "add latency --nth x",
        "add latency --query chain",
        "add latency --query a=1 --query a=2",
        "add latency --since soon",
        "add latency --until -1",
        "add latency key=key_1",
    ):
        run = trade(*FAULT, *line.split())
        assert (run.code, run.problem["code"]) == (2, "usage"), line
    missing = trade(*FAULT, "remove", "flt_nope")
    assert (missing.code, missing.problem["hint"]) == (6, "see what there is: trade --mock mock fault list")
    assert trade(*FAULT, "remove", "a/b").code == 6
    assert trade(*FAULT, "list").lines == []


def test_kinds_need_no_mock(trade: Terminal) -> None:
    kinds = trade("mock", "fault", "kinds").lines
    assert [kind["name"] for kind in kinds] == [kind.name for kind in fault_kinds()]
    assert {kind["on"] for kind in kinds} == {"response", "stream", "payment", "node"}
    assert not (trade.home / "mock").exists()


def test_kinds_are_those_that_the_mock_says(trade: Terminal, server: MockServer) -> None:
    assert trade("mock", "fault", "kinds", "-o", "json").json == server.control("GET", "faults/kinds")["data"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_shows_all_of_it(trade: Terminal, columns: int) -> None:
    kinds = trade("mock", "fault", "kinds", tty=True, columns=columns, env=PLAIN)
    words = " ".join(kinds.out.split())
    for kind in fault_kinds():
        assert f"{kind.name} (on {kind.on}s) {kind.text}" in words
        for parameter in kind.parameters:
            assert f" {parameter.name}" in words
            assert parameter.text in words
    trade(*FAULT, "add", "latency")
    line = "status --route /v1/agents/{agent_id} --method PATCH --tenant me --every 2 --probability 0.5 --count 9"
    long = trade(*FAULT, "add", *line.split(), 'headers={"X-A":"b"}', f"message={'so long ' * 30}").json
    rules = trade(*FAULT, "list", tty=True, columns=columns, env=PLAIN)
    assert (kinds.err, rules.err) == ("", "")
    assert all(len(line) <= columns for line in (kinds.out + rules.out).splitlines())
    words = " ".join(rules.out.split())
    assert f"{long['id']} status" in words
    conditions = "PATCH /v1/agents/{agent_id}, of me, every 2nd, with probability 0.5, at most 9 times; seen 0, hit 0"
    assert conditions in words
    assert "every request; seen 0, hit 0" in words
    assert 'headers={"X-A":"b"}' in words


def rule(text: str, **fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("query", "paid", "since", "until", "nth", "every", "probability", "count"))
    texts = dict.fromkeys(("id", "kind", "on", "route", "method", "tenant", "key"), text)
    return {**texts, **nothing, "parameters": {text: text}, "seen": 1, "fired": 0, **fields}


def test_nothing_in_a_rule_moves_a_cursor(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [rule(HOSTILE, query={HOSTILE: HOSTILE})]})
    for form in ("table", "json", "ndjson"):
        run = trade("mock", "fault", "list", "-o", form)
        assert run.code == 0
        assert all(line.isprintable() for line in (run.out + run.err).splitlines())


@each_of(
    ("fields", "words"),
    [
        ({"nth": 1}, "the 1st only"),
        ({"nth": 12}, "the 12th only"),
        ({"nth": 103}, "the 103rd only"),
        ({"every": 1}, "each"),
        ({"every": 3}, "every 3rd"),
        ({"count": 1}, "once"),
        ({"key": "key_1"}, "with the key key_1"),
        ({"key": None, "query": {"chain": "8453", "a": ""}}, "of x, with chain=8453 a= in the query"),
        ({"paid": "only"}, "with a payment"),
        ({"paid": "never"}, "without a payment"),
        ({"since": 1_800_000_000}, "from 2027-01-15 08:00:00Z (1800000000) on"),
        ({"until": 1_800_000_000.25}, "until 2027-01-15 08:00:00Z (1800000000.25)"),
    ],
)
def test_conditions_in_words(trade: Terminal, service: Scripted, fields: dict[str, Any], words: str) -> None:
    service.says(200, {"data": [rule("x", **fields)]})
    assert f", {words};" in trade("mock", "fault", "list", "-o", "table").out
