"""`trade doctor --service`: which value of each gap option a service shows, and which rules it breaks."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import tradesdk_cli.probe.ask as asking
from tradesdk import APIConnectionError, AuthenticationError, Ledger, LocalSigner, MarketClient, TradeClient
from tradesdk_cli.probe.answers import Answer, Answers
from tradesdk_cli.probe.ask import LONGEST, WRITES, Probe
from tradesdk_cli.probe.points import NEVER, options, rows
from tradesdk_cli.probe.rules import MARKET, RECORDS, RULES, broken
from tradesdk_mock import GapOptions, MockClock, MockServer, MockService, fault_kinds

from .._rows import each_of
from .._stock import stock, stocked
from ._terminal import Terminal

NOON = 1_795_262_400
KEY = "0x" + "6b" * 32
Rows = dict[str, dict[str, Any]]


@dataclass
class Probed:
    """What one run found, by point; the mock keeps its requests."""

    mock: MockService
    found: Rows
    left_behind: list[str]
    ledger: Ledger

    @property
    def broken(self) -> set[str]:
        return {name for name, row in self.found.items() if row["finding"] == "broken"}

    @property
    def options(self) -> dict[str, Any]:
        return options([*self.found.values()])


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Building it takes as long as five runs of the probe."""
    stock(NOON, "me")


@contextmanager
def service(**gaps: Any) -> Iterator[MockService]:
    """A service with agents, wallets and trades, whose next signal comes 8 s from now."""
    with MockService(seed=7, clock=MockClock(NOON), signals="scripted") as mock:
        stocked(mock, NOON, "me")
        mock.emit_signal(at=NOON + 8)
        mock.set_gaps(**gaps)
        yield mock


def probe(
    mock: MockService, *, write: bool = True, pay: str | None = "0.05", key: str = "mock_full_me", market: bool = True
) -> Probed:
    with mock.transport().http_client() as http, Ledger.memory() as ledger:
        trade = TradeClient(api_key=key, base_url=mock.url, http_client=http, clock=mock.clock)

        def connect(send: bool) -> MarketClient:
            return MarketClient(
                signer=LocalSigner(bytes.fromhex(KEY[2:])),
                ledger=ledger,
                base_url=mock.market_url,
                http_client=http,
                clock=mock.clock,
                send_api_key=send,
                api_key=key if send else None,
            )

        asked = Probe(trade, connect if market else None, mock.clock, write=write, pay=pay)
        found = rows(asked.run())
    return Probed(mock, {row["point"]: row for row in found}, asked.left_behind, ledger)


def under(*, write: bool = True, pay: str | None = "0.05", key: str = "mock_full_me", **gaps: Any) -> Probed:
    with service(**gaps) as mock:
        return probe(mock, write=write, pay=pay, key=key)


# The gap options

DEFAULTS = GapOptions().as_dict()
# Seen only where there is what it is about: the options beside it, and the key.
BESIDE: dict[str, dict[str, Any]] = {
    "delete_stopped": {"no_routes": "routes"},
    "agent_quota_status": {"quotas": "pro=100000/1"},
    "enterprise_limit": {"key": "mock_full_enterprise_x"},
    "read_only_account": {"key": "mock_read_me"},
}
PAID = {"unknown_token", "payer_balance"}
NOT_IN_TIME = {("heartbeat", "60"), ("heartbeat", "0")}
ONLY_UNTIL_USED_UP = {("request_quota", "429")}  # then there is no other answer
VALUES = [(gap.name, value) for gap in GapOptions.describe() for value in (gap.default, *gap.others)]
FREE = {"/v1/supported-tokens", "/v1/top-performers", "/v1/aggregate-metrics"}  # POSTs that were not paid for
WRITTEN = {"write_status", "risk_defaults", "bounds", "delete_stopped", "unknown_wallet", "wallet_chain"} | {
    "empty_patch", "read_only_account",
}  # fmt: skip


def shows(option: str, value: str) -> None:
    """Under this value the probe names it, or says why it cannot be seen; and no rule is broken."""
    chosen = {option: value, **BESIDE.get(option, {})}
    if (option, value) == ("request_quota", "served"):
        chosen["quotas"] = "pro=1/25"
    key = chosen.pop("key", "mock_full_me")
    run = under(key=key, pay="0.05" if option in PAID else None, **chosen)
    row = run.found[option]
    if option in NEVER or (option, value) in NOT_IN_TIME | ONLY_UNTIL_USED_UP:
        assert (row["finding"], row["value"]) == ("unseen", None)
    elif option == "quotas":  # of this plan
        assert GapOptions(quotas=row["value"]).quota("pro") == GapOptions(quotas=value).quota("pro")
    else:
        assert (row["finding"], str(row["value"])) == ("seen", value)
    assert run.broken == ({"price"} if (option, value) == ("paywall", "open") else set())
    assert not run.left_behind


@pytest.mark.parametrize(
    ("option", "value"),
    [("write_status", "200/200"), pytest.param("order", "oldest", marks=pytest.mark.long)],
)
def test_a_value_is_named(option: str, value: str) -> None:
    shows(option, value)


@pytest.mark.long
@pytest.mark.parametrize(("option", "value"), VALUES)
def test_every_value_is_named(option: str, value: str) -> None:
    shows(option, value)


def test_what_is_seen_under_the_defaults() -> None:
    """Reading only; the rest says what it takes. Nothing is written or bought, and nothing asked twice."""
    with service() as mock:
        run = probe(mock, write=False, pay=None)
        asked = [(entry.method, entry.path, str(entry.query), str(entry.body)) for entry in mock.journal()]
        assert not mock.payments.settlements()
    assert {path for method, path, *_ in asked if method != "GET"} == FREE
    assert len(asked) == len(set(asked)) <= 25
    assert not run.broken
    assert all(value == DEFAULTS[name] for name, value in run.options.items())
    unseen = {name: row["seen"] for name, row in run.found.items() if row["finding"] == "unseen"}
    assert {name for name, why in unseen.items() if why == "only with --write"} == WRITTEN
    assert [name for name, why in unseen.items() if why == "only with --pay USD"] == ["unknown_token"]
    assert NEVER.items() <= unseen.items()


# Heartbeats, the history, and the file


@pytest.mark.long
@each_of(
    ("gaps", "seen"),
    [
        ({"heartbeat": 2}, {"heartbeat": 2, "history_lag": 0}),
        ({"heartbeat": 7, "time_bounds": "exclusive"}, {"heartbeat": 7, "history_lag": 0, "time_bounds": "exclusive"}),
        ({"heartbeat": 7, "history_lag": 3}, {"heartbeat": 7, "history_lag": 3}),
        ({"history_lag": 3, "time_bounds": "exclusive"}, {"heartbeat": 15, "history_lag": 3}),
        ({"heartbeat": 4, "history_lag": 9}, {"heartbeat": 4, "history_lag": None}),
        ({"heartbeat": 60, "clock_skew": 601}, {"heartbeat": None, "clock_skew": 601}),
    ],
)
def test_what_takes_time_is_timed(gaps: dict[str, Any], seen: dict[str, Any]) -> None:
    """Whatever is asked meanwhile; what was not seen twice, or not in time, is not said."""
    run = under(write=False, pay=None, **gaps)
    assert {name: run.found[name]["value"] for name in seen} == seen


def again(chosen: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is written for a service with these options, and for a mock with what was written."""
    key = "mock_full_enterprise_x" if "enterprise_limit" in chosen else "mock_full_me"
    key = "mock_read_me" if "read_only_account" in chosen else key
    first = under(key=key, **chosen).options
    return first, under(key=key, **first).options


OTHERS = [(gap.name, other) for gap in GapOptions.describe() for other in gap.others]


@pytest.mark.long
@pytest.mark.parametrize(("option", "value"), OTHERS)
def test_a_mock_with_the_file_is_probed_to_the_same_file(option: str, value: str) -> None:
    first, second = again({option: value, **{name: it for name, it in BESIDE.get(option, {}).items() if name != "key"}})
    assert first == second


PAIRS = [two for two in combinations(OTHERS, 2) if two[0][0] != two[1][0]]
SOME = int(os.environ.get("TRADE_PROBE_PAIRS") or 10)
SEED = int(os.environ.get("TRADE_SEED") or 0)


@pytest.mark.long
@pytest.mark.parametrize("pair", random.Random(SEED).sample(PAIRS, min(SOME, len(PAIRS))))
def test_a_mock_with_the_file_of_two_options_too(pair: Any) -> None:
    first, second = again(dict(pair))
    assert first == second


# Rules. The kinds that are not here break none: they are slow, lose answers or repeat themselves.

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("status", {"status": 418, "route": "/v1/trades"}, "statuses"),
    ("status", {"status": 404, "code": "gone", "route": "/v1/agents/unknown"}, "errors"),
    ("status", {"status": 429, "headers": {"Retry-After": ""}, "route": "/v1/agents"}, "rate_limit"),
    ("content_type", {"route": "/v1/account/usage"}, "json"),
    ("malformed_json", {"route": "/v1/positions"}, "json"),
    ("body", {"route": "/v1/wallets", "text": '{"data": [{"id": 1}]}'}, "fields"),
    ("body", {"route": "/v1/agents/unknown", "text": '{"error": "none"}'}, "errors"),
    ("body", {"route": "/v1/supported-tokens", "text": '{"success": true, "data": {}}'}, "wrapper"),
    ("garbage", {"route": "/v1/signals/stream"}, "stream"),
    ("inject", {"route": "/v1/signals/stream", "text": "data: no JSON\n\n"}, "stream"),
    ("content_type", {"route": "/v1/signals/stream"}, "stream"),
    ("offer", {"fields": {"amount": "1"}}, "price"),
    ("offer", {"fields": {"network": "eip155:1"}}, "price"),
    ("offer", {"header": "no base64"}, "price"),
    ("overlook", {}, "paid"),
    ("verification", {}, "paid"),
    ("settlement", {}, "paid"),
]
STREAM = {kind.name for kind in fault_kinds() if kind.on == "stream"}
NODE = {kind.name for kind in fault_kinds() if kind.on == "node"}  # it is not asked
BREAK_NONE = STREAM - {"garbage", "inject"} | {
    "latency", "reset", "truncate", "bad_chunk", "huge_body", "drip", "hold", "receipt"
}  # fmt: skip


def test_every_kind_of_fault_is_listed() -> None:
    assert {kind.name for kind in fault_kinds()} == {kind for kind, *_ in FAULTS} | BREAK_NONE | NODE


def broken_by(kind: str, options: dict[str, Any]) -> Probed:
    with service() as mock:
        mock.add_fault(kind, **options)
        on_payment = kind in {fault.name for fault in fault_kinds() if fault.on == "payment"}
        run = probe(mock, pay="0.02" if on_payment else None)  # of two tokens, one unknown, nothing is settled
        assert any(rule.fired for rule in mock.faults()) or kind in ("half_event", "receipt")
        return run


@pytest.mark.parametrize(("kind", "options", "rule"), FAULTS[3:4])
def test_a_broken_rule_is_named(kind: str, options: dict[str, Any], rule: str) -> None:
    run = broken_by(kind, options)
    assert run.broken == {rule}
    first = next(iter(run.found.values()))
    assert (first["point"], first["specification"], first["client_relies"]) == (rule, RULES[rule], None)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "options", "rule"), FAULTS)
def test_every_fault_that_breaks_a_rule_is_named(kind: str, options: dict[str, Any], rule: str) -> None:
    assert rule in broken_by(kind, options).broken


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(BREAK_NONE))
def test_other_faults_break_none(kind: str) -> None:
    on_market: dict[str, dict[str, Any]] = {"hold": {}, "receipt": {}}
    route = {"route": "/v1/signals/stream"} if kind in STREAM else {"route": "/v1/account/usage"}
    assert not broken_by(kind, on_market.get(kind, route)).broken


HEADERS = {"content-type": "application/json"} | dict.fromkeys(
    ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"), "1"
)
TOKEN = {"id": "x", "token_address": "0x", "token_symbol": "T", "chain_id": 8453, "direction": "BUY"}
SIGNAL = TOKEN | {"confidence": 0.9, "price_usd": 1.0, "timestamp": 5}
TRADE = TOKEN | {"agent_id": "a", "entry_price_usd": 1.0, "exit_price_usd": None, "pnl_usd": None, "roi_pct": None}
TRADE |= {"status": "open", "opened_at": 5, "closed_at": None}
AGENT = {"id": "x", "name": "n", "status": "idle", "chain_id": 8453, "wallet_id": "w", "risk": {"stop_loss_pct": 5}}
AGENT |= {"min_confidence": 0.75, "max_positions": 5, "created_at": 5}
CHANGED = AGENT | {"max_positions": 4}


@each_of(
    ("rule", "question", "body"),
    [
        ("open_trades", "trades", {"data": [TRADE | {"pnl_usd": 1.0}]}),
        ("page_size", "trades", {"data": [TRADE] * 21}),
        ("fields", "trades", {"data": [TRADE | {"opened_at": "now"}]}),
        ("fields", "trades", {"data": {}}),
        ("filters", "latest", {"data": [SIGNAL | {"confidence": 0.1}]}),
        ("filters", "history", {"data": [SIGNAL | {"chain_id": 56}]}),
        ("filters", "range", {"data": [SIGNAL | {"timestamp": 7}]}),
        ("order", "history", {"data": [SIGNAL, SIGNAL | {"timestamp": 6}]}),
        ("not_found", "no_agent", AGENT),
        ("created", "create", AGENT | {"status": "active"}),
        ("created", "create", AGENT | {"max_positions": 10}),
        ("patched", "patch", CHANGED | {"name": "other"}),
        ("patched", "patch", AGENT),
        ("deleted", "delete", {}),
        ("wrapper", "tokens", {"success": True, "data": {}, "error": "?"}),
        ("price", "offer", {"success": True, "data": {}, "error": None}),
        (None, "trades", {"data": [TRADE] * 20}),
        (None, "latest", {"data": [SIGNAL]}),
        (None, "range", {"data": [SIGNAL | {"timestamp": 6}, SIGNAL]}),
        (None, "create", AGENT | {"status": "hibernating"}),
        (None, "patch", CHANGED),
        (None, "tokens", {"success": True, "data": {}, "error": None}),
    ],
)
def test_rules(rule: str | None, question: str, body: object) -> None:
    answers = Answers()
    answers.window = (5, 6)
    answers["create"] = Answer("POST", "/v1/agents", 201, HEADERS, json.dumps(AGENT))
    answers[question] = Answer("GET", "/v1/x?key=1", 200, HEADERS, json.dumps(body))
    assert list(broken(answers)) == ([] if rule is None else [rule])


# Answers of any shape: strings where objects are due, lists, numbers, what is nested too deeply

SHAPES: list[Any] = [["x"], "x", 5, None, [], {}, [[1]], {"data": ["x"]}, {"data": "x"}, {"data": {"tokens": ["x"]}}]
SHAPES += [{"data": [{"timestamp": ["x"], "created_at": "x"}]}, {"risk": ["x"], "stats": "x"}, {"requests": [1]}]
OFFERS: list[Any] = [*SHAPES, {"accepts": "x"}, {"accepts": ["x"]}]
OFFERS += [{"accepts": [{"scheme": "exact", "network": "eip155:8453", "amount": "9" * 5_000}], "extensions": ["x"]}]
QUESTIONS = [
    *(*RECORDS, *MARKET, *WRITES, "market_here"),
    *("no_agent", "no_filter", "limit_0", "start", "lag", "stream_filter", "delete"),
]


@each_of("shape", range(len(OFFERS) + 1))
def test_an_answer_of_any_shape_breaks_rules_and_nothing_else(shape: int) -> None:
    body = "[" * 100_000 if shape == len(OFFERS) else json.dumps(OFFERS[shape])
    header = {"payment-required": base64.b64encode(body.encode()).decode()}
    answers = Answers()
    answers.window = (5, 6)
    for name in dict.fromkeys(QUESTIONS):
        answers[name] = Answer("GET", "/v1/x", 402 if name == "offer" else 200, HEADERS | header, body)
    found = rows(answers)
    assert len([row for row in found if row["finding"] != "broken"]) == len(DEFAULTS)
    assert "wrapper" in broken(answers)


def test_a_list_of_tokens_that_are_strings_is_a_broken_rule() -> None:
    with service() as mock:
        text = '{"success": true, "data": {"total": 1, "tokens": ["x"]}, "error": null}'
        mock.add_fault("body", route="/v1/supported-tokens", text=text)
        run = probe(mock, write=False, pay="0.02")
        assert not mock.payments.settlements()
    assert run.broken == {"fields"}
    assert run.found["fields"]["seen"].startswith("POST /v1/supported-tokens: ")
    assert run.found["unknown_token"]["seen"] == "the list of tokens names none"


# What it leaves, spends and shows


def agents_of(mock: MockService) -> list[str]:
    with mock.transport().http_client() as http:
        trade = TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=mock.clock)
        return [agent.name for agent in trade.agents.list()]


@pytest.mark.long
@each_of(
    ("fault", "options"),
    [
        ("reset", {"route": "/v1/agents", "method": "POST", "executed": True}),
        ("malformed_json", {"route": "/v1/agents", "method": "POST"}),
        ("status", {"route": "/v1/agents/{agent_id}", "method": "PATCH", "status": 503}),
        ("latency", {"route": "/v1/agents/{agent_id}", "method": "PATCH", "seconds": 30}),
    ],
)
def test_the_agent_is_deleted_whatever_happens(fault: str, options: dict[str, Any]) -> None:
    with service() as mock:
        before = agents_of(mock)
        mock.add_fault(fault, **options)
        run = probe(mock, pay=None)
        assert agents_of(mock) == before
        made = [entry.body for entry in mock.journal() if (entry.method, entry.path) == ("POST", "/v1/agents")]
    assert not run.left_behind
    assert len(made) == 2
    assert all("to be deleted" in str(body) for body in made)


def test_an_agent_that_cannot_be_deleted_is_named() -> None:
    with service() as mock:
        before = agents_of(mock)
        mock.add_fault("status", method="DELETE", status=500)
        run = probe(mock, pay=None)
        assert len(agents_of(mock)) == len(before) + 1
    assert len(run.left_behind) == 1


@pytest.mark.long
@each_of(("pay", "spent", "tokens"), [("0.05", 0, 2), ("0.02", 20_000, 1), ("0.01", 0, 0)])
def test_one_purchase_at_most(pay: str, spent: int, tokens: int) -> None:
    """By the ledger. An unknown token among two is found for what two cost; it costs nothing where it is refused."""
    with service() as mock:
        run = probe(mock, write=False, pay=pay)
        paid = [entry.body for entry in mock.journal() if entry.payment]
        assert [len(body["tokens"]) for body in paid if isinstance(body, dict)] == [tokens] * bool(tokens)
        assert mock.payments.spent() == spent
    assert run.found["unknown_token"]["finding"] == ("seen" if tokens == 2 else "unseen")


def test_it_ends_when_nobody_is_there_or_the_key_is_refused() -> None:
    with service() as mock, pytest.raises(AuthenticationError):
        probe(mock, key="nonsense")
    with service() as mock:
        mock.add_fault("reset", route="/v1/account")
        with pytest.raises(APIConnectionError):
            probe(mock)


def test_a_slow_service_is_left_in_time() -> None:
    """What was not asked says so; the agent is deleted all the same."""
    with service() as mock:
        before = agents_of(mock)
        mock.add_fault("latency", seconds=2.5)
        began = mock.clock.now()
        run = probe(mock, pay=None)
        assert mock.clock.now() - began < LONGEST + 4 * 2.5
        mock.clear_faults()
        assert agents_of(mock) == before
    assert "the time was up before this request" in {row["seen"] for row in run.found.values()}


def test_a_slow_refusal_is_not_taken_for_a_stream() -> None:
    with service(stream_filter="honoured") as mock:
        mock.add_fault("latency", seconds=1.5)
        run = probe(mock, write=False, pay=None, market=False)
    assert run.found["stream_filter"]["value"] in ("honoured", None), "or there was no time to ask"


@pytest.mark.long
def test_it_stays_within_the_rate_limit() -> None:
    with service() as mock:
        mock.set_plan("me", "free")
        for _ in range(50):
            agents_of(mock)
        probe(mock)
        assert 429 not in {entry.status for entry in mock.journal()}


# The command


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LONGEST", 6.0)
    monkeypatch.setattr(asking, "_ENDLESS", 0.05)


@pytest.fixture
def shown(trade: Terminal) -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as running:
        stocked(running, None, "me")
        running.set_gaps(heartbeat=1, write_status="200/200")
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me", "TRADE_WALLET_KEY": KEY}
        yield running


@pytest.mark.long
def test_the_command(trade: Terminal, shown: MockServer, brief: None, files: Path) -> None:
    file = files / "gaps.json"
    line = ("doctor", "--service", "--write", "--pay", "0.05", "--gaps", str(file))
    run = trade(*line, "--yes", "-o", "json")
    assert run.code == 0
    assert [row["point"] for row in run.json] == ["write_status", "heartbeat"], "the rest is as the mock is by default"
    told = run.notes[0]
    assert told["note"] == "make, change and delete agents and pay at most $0.05 for market data"
    assert (told["target"]["mode"], list(told["about"])) == (
        "local",
        ["agent", "second agent", "purchase", "market data"],
    )
    row = next(row for row in run.json if row["point"] == "write_status")
    assert row == {
        "finding": "seen",
        "point": "write_status",
        "seen": "200/200",
        "specification": "not shown",
        "client_relies": "no",
        "value": "200/200",
    }
    assert json.loads(file.read_text())["heartbeat"] == 1
    assert "trade mock serve --gap write_status=200/200" in run.err
    assert not any(secret in run.out + run.err + file.read_text() for secret in (KEY[2:], "mock_full_me"))
    spent = trade("pay", "history", "-o", "json").json
    assert [one["amount_usd"] for one in spent] == ["0.04"], "through the ledger, like any purchase"
    with_file = ("doctor", "--service", "--compare", str(file), "-o", "json")
    run = trade(*with_file)
    assert (run.code, run.json) == (0, []), run.out
    shown.set_gaps(order="oldest")
    run = trade(*with_file)
    assert (run.code, [(row["point"], row["seen"], row["file"]) for row in run.json]) == (
        10,
        [("order", "oldest", "newest")],
    )
    shown.add_fault("content_type", route="/v1/wallets")
    run = trade("doctor", "--service", tty=True, columns=100, env={"NO_COLOR": "1"})
    assert run.code == 10
    assert re.search(r"finding +point +seen +specification.*\n *broken +json +GET /v1/wallets: text/html", run.out)
    assert run.err.startswith(f"checking {shown.url.removeprefix('http://')} · this machine: at most ")


@pytest.mark.long
def test_a_silent_stream_is_left_when_the_time_is_up(trade: Terminal, shown: MockServer, brief: None) -> None:
    shown.set_gaps(heartbeat=0)
    run = trade("doctor", "--service", "-o", "json", "-v")
    assert run.code == 0
    assert len(run.json) == len(DEFAULTS)
    row = next(row for row in run.json if row["point"] == "heartbeat")
    assert (row["finding"], row["value"]) == ("unseen", None)
    assert re.fullmatch(r"none came within \d+ s", row["seen"])


@each_of(
    "argv",
    [
        ("doctor", "--write"),
        ("doctor", "--pay", "1"),
        ("doctor", "--gaps", "x.json"),
        ("doctor", "--compare", "x.json"),
        ("doctor", "--yes"),
        ("doctor", "--service", "--write"),
        ("doctor", "--service", "--compare", "not-there.json"),
        ("doctor", "--service", "--pay", "much"),
    ],
)
def test_usage(trade: Terminal, argv: tuple[str, ...]) -> None:
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:1", "TRADE_API_KEY": "mock_full_me"}
    assert trade(*argv).problem["code"] == "usage"


@each_of(
    ("more", "said"), [(("--write",), "make, change and delete agents?"), (("--pay", "0.05"), "pay at most $0.05 for")]
)
def test_it_asks_before_it_writes_or_pays(trade: Terminal, more: tuple[str, ...], said: str) -> None:
    """And sends nothing before the answer: nobody is there."""
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:1", "TRADE_API_KEY": "mock_full_me", "TRADE_WALLET_KEY": KEY}
    run = trade("doctor", "--service", *more, answers="n\n", env={"NO_COLOR": "1"})
    assert (run.code, run.err.endswith("[y/N] nothing was changed\n"), said in run.err) == (1, True, True)
    assert trade("doctor", "--service", *more).problem["hint"] == "add --yes"


@each_of(("name", "reason"), [("nowhere/gaps.json", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_asked(
    trade: Terminal, tmp_path: Path, name: str, reason: str
) -> None:
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:1", "TRADE_API_KEY": "mock_full_me", "TRADE_WALLET_KEY": KEY}
    problem = trade("doctor", "--service", "--pay", "0.05", "--gaps", str(tmp_path / name)).problem
    assert (problem["code"], problem["message"]) == ("system", f"{tmp_path / name} cannot be written: {reason}")
    assert list(tmp_path.iterdir()) == []


def test_paying_takes_a_wallet(trade: Terminal) -> None:
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:1", "TRADE_API_KEY": "mock_full_me"}
    assert trade("doctor", "--service", "--pay", "0.05").code == 3


# The file


@pytest.mark.long
def test_a_bot_is_tested_on_a_mock_like_the_service(trade: Terminal, tmp_path: Path) -> None:
    """What the probe wrote, taken by pytest and by `trade mock serve`."""
    chosen = {"write_status": "200/200", "order": "oldest", "range_status": "400", "heartbeat": 1}
    with service(**chosen) as mock:
        found = probe(mock).options
    assert chosen.items() <= found.items()
    (tmp_path / "service.json").write_text(json.dumps(found))
    (tmp_path / "test_bot.py").write_text(BOT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--trade-mock-gaps", "service.json"]
    done = subprocess.run([*command, "test_bot.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


BOT = """
import httpx, pytest
from tradesdk import InvalidRequestError, TradeClient

def client(mock):
    return TradeClient(api_key="mock_full_me", http_client=httpx.Client(transport=mock.transport(), base_url=mock.url))

@pytest.mark.trade_mock(populate=["me"])
def test_bot(trade_mock):
    trade = client(trade_mock)
    made = [agent.created_at for agent in trade.agents.list()]
    assert made == sorted(made), "oldest first, as this service has it"
    with pytest.raises(InvalidRequestError):
        trade.request("GET", "/v1/trades", query={"limit": 0})

@pytest.mark.trade_mock(gaps={"range_status": "422"})
def test_a_mark_wins(trade_mock):
    assert (trade_mock.gaps.range_status, trade_mock.gaps.order) == ("422", "oldest")

def test_the_server(trade_mock_server):
    assert trade_mock_server.gaps.order == "oldest"
"""
