"""The commands of `trade mock` that are operations of the mock: what they send, the result, and how it looks."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote

import httpx
import pytest
from hypothesis import given

from tradesdk_cli.cli.group import GLOBAL_PANEL
from tradesdk_cli.commands.mock.operations import COMMANDS, value_of
from tradesdk_mock import (
    ControlOperation,
    ControlParameter,
    GapOptions,
    MockClock,
    MockServer,
    control_operations,
    fault_kinds,
)

from .._rows import each_of
from .._stock import stocked_worlds
from .._texts import HOSTILE, texts
from ..mock._paying import PAYER, offer_of, pay
from ._services import Scripted
from ._terminal import Run, Terminal
from .test_help import LEAVES, ROOT

PLAIN = {"NO_COLOR": "1"}
START = 1_800_000_000
OPERATIONS = {f"{each.method} {each.path}": each for each in control_operations()}
MOCK = {"x_mock_control": "1"}
"""The header that a mock's answers have."""


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server of this test's own, on a clock that stands still; `trade` is set to it."""
    with MockServer(signals="scripted", clock=MockClock(START)) as running:
        running.populate("me", trades=8)
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


@pytest.fixture
def asked(trade: Terminal, service: Scripted) -> Scripted:
    """A service that takes everything for an operation of a mock; `trade` is set to it."""
    service.says(200, {"data": []}, **MOCK)
    trade.env["TRADE_BASE_URL"] = service.url
    return service


# What is sent


def test_every_operation_has_a_command() -> None:
    """Others look at one thing that a command shows too, or need data that a client signs."""
    without = {"GET clock", "DELETE journal", "POST payments/cancel"}
    assert {command.request for command in COMMANDS.values()} == OPERATIONS.keys() - without
    assert {("mock", *words.split()) for words in COMMANDS} < LEAVES.keys()


def sample(each: ControlParameter) -> tuple[list[str], Any]:
    """A value as it is typed, and as it is sent."""
    for unit, typed, sent in (("TIME", "2027-01-15T08:00Z", START), ("CHAIN", "bnb", 56), ("USD", "12.5", 12_500_000)):
        if each.unit == unit:
            return [typed], sent
    if each.types == (dict,):
        return ["chain=8453", "a="], {"chain": "8453", "a": ""}
    if list in each.types:
        return ["one", "two"], ["one", "two"]
    if each.choices:
        return [each.choices[-1].lower()], each.choices[-1]
    if each.types == (bool,):
        return [""], True
    if each.types == (str,):
        return ["a b/c"], "a b/c"
    return (["7"], 7) if each.types == (int,) else (["0.5"], 0.5)


def words_of(operation: ControlOperation, *, everything: bool) -> tuple[list[str], dict[str, Any]]:
    """What stands behind a command, and the fields that it becomes."""
    arguments, options, fields = list[str](), list[str](), dict[str, Any]()
    for each in operation.parameters:
        typed, sent = sample(each)
        name = "--chain" if each.name == "chain_id" else f"--{each.name.replace('_', '-')}"
        if not each.required and not everything:
            continue
        fields[each.name] = sent
        if each.required:
            arguments += typed
        else:
            name = "--query-param" if each.name == "query" else name
            options += [word for value in typed for word in (name, value) if word]
    if operation.more is not None:
        arguments += ["some=2", "text=3"]
        fields |= {"some": 2, "text": "3"} if operation.path == "faults" else {"some": "2", "text": "3"}
    return [*options, *arguments], fields


@each_of("everything", [True, False])
@each_of("words", sorted(COMMANDS))
def test_what_is_typed_is_sent_and_nothing_else(trade: Terminal, asked: Scripted, words: str, everything: bool) -> None:
    operation = OPERATIONS[COMMANDS[words].request]
    typed, fields = words_of(operation, everything=everything)
    agent = fields.get("agent_id")
    if agent is not None:
        typed, fields["agent_id"] = ["agt_" + "0" * 24, *typed[1:]], "agt_" + "0" * 24
    first = len(asked.seen)
    run = trade("mock", *words.split(), *typed, *(["--yes"] if COMMANDS[words].loses else []))
    assert run.code == 0, run.err
    method, target, content = asked.seen[first]
    path, _, query = target.partition("?")
    ids = {name: quote(str(fields.pop(name)), safe="") for name in re.findall(r"\{(\w+)\}", operation.path)}
    assert (method, path) == (operation.method, "/_mock/" + operation.path.format(**ids))
    if words == "logs" and not everything:
        fields["limit"] = 21  # one more than is shown
    if method in ("POST", "PUT"):
        assert (json.loads(content), query) == (fields, "")
    else:
        assert (parse_qs(query), content) == ({name: [str(value)] for name, value in fields.items()}, b"")


@each_of("words", sorted(LEAVES), ids=" ".join)
def test_no_option_takes_the_place_of_a_global_one(words: tuple[str, ...]) -> None:
    """`mock fault add --query` once did: then `-q` meant nothing."""
    shared = {param.name: param.opts for param in ROOT.params if param.rich_help_panel == GLOBAL_PANEL}
    own = {param.name: param.opts for param in LEAVES[words].params}
    options = {name for names in shared.values() for name in names} & {name for names in own.values() for name in names}
    assert not options | (own.keys() & shared.keys()), words


@each_of(
    ("line", "sent"),
    [
        ("clock --no-freeze", {"freeze": False}),
        ("clock --set 1800000000.25", {"set": 1_800_000_000.25}),
        ("clock --set 2027-01-15T09:00+01:00", {"set": START}),
        ("emit --direction Sell --timestamp 2027-01-15", {"direction": "SELL", "timestamp": START - 28_800}),
        ("payments set-balance 0x1 1.000001", {"balance": 1_000_001}),
        ("payments set-balance 0x1 0", {"balance": 0}),
        ("fault add latency seconds=0.5 --paid never", {"kind": "latency", "seconds": 0.5, "paid": "never"}),
        ('fault add body text={"a": content_type=7', {"kind": "body", "text": '{"a":', "content_type": 7}),
        ("gaps set heartbeat=1 write_status=200/200", {"heartbeat": "1", "write_status": "200/200"}),
    ],
)  # fmt: skip
def test_values(trade: Terminal, asked: Scripted, line: str, sent: dict[str, Any]) -> None:
    run = trade("mock", *line.split())
    assert (run.code, json.loads(asked.seen[-1][2])) == (0, sent), run.err


@each_of(
    "line",
    [
        "clock --set 2040-01-01T12:00",
        "clock --set 2040-13-01",
        "clock --set 90m",  # an age counts from this machine's clock
        "clock --advance nan",
        "clock --speed soon",
        "emit --confidence 90%",
        "emit --direction hold",
        "emit --chain 1",
        "emit --after x",
        "fault add",
        "fault add status status",
        "fault add status =3",
        "fault add status status=1 status=2",
        "fault add status route=/v1/trades",
        "fault add status kind=drop",
        "fault add latency --query chain=8453",
        "fault add latency -q chain",
        "fault add latency --query-param chain",
        "fault add latency --query-param a=1 --query-param a=2",
        "fault add latency --nth 1.5",
        "fault add latency --paid often",
        "fault add latency --since soon",
        "gaps set order",
        "key create --scope everything",
        "key create --plan golden",
        "key expire key_1 --at soon",
        "agent set-status agt_1 asleep",
        "tenant plan me golden",
        "reset",
        *(f"payments set-balance 0x1 {amount}" for amount in ("-1", "+1", "1e3", "NaN", "0.0000001", "1,5", ".5", "٣")),
        "snapshot .",
        "restore nothing --yes",
    ],
)  # fmt: skip
def test_what_is_a_mistake_is_not_sent(trade: Terminal, asked: Scripted, line: str) -> None:
    run = trade("mock", *line.split())
    assert (run.code, run.problem["code"], asked.seen) == (2, "usage", []), run.err


@each_of(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ('{"X-A":"b"}', {"X-A": "b"}),
        ("[1, 2]", [1, 2]),
        ('"503"', "503"),
        ("", ""),
        ("text/html", "text/html"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("007", "007"),
        ("True", "True"),
        ('{"a":', '{"a":'),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_what_a_value_stands_for(text: str, value: object) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


@pytest.mark.long
@given(texts())
def test_any_value_can_be_sent(text: str) -> None:
    json.dumps(value_of(text), allow_nan=False)


# The result: the same on a server and in the embedded world

OUTCOMES: list[tuple[str, int, Any]] = [
    ("status", 0, {"seed": 7, "faults": 0, "frozen": True}),
    ("clock --advance 60 --speed 60", 0, {"frozen": True, "speed": 60}),
    ("clock --advance 1.5m", 0, {"frozen": True}),
    ("clock", 0, {"frozen": True, "speed": 60}),
    ("clock --set 5", 8, "correct the value"),
    ("clock --allow-backwards", 8, "correct the value"),
    ("clock --speed 0", 8, "correct the value"),
    ("fault add status --route /v1/trades --count 2 status=404 code=gone", 0, {"count": 2, "seen": 0}),
    ("fault list", 0, [{"route": "/v1/trades", "count": 2}]),
    ("fault add nonsense", 8, "mock fault kinds"),
    ("fault add status nonsense=1", 8, "mock fault kinds"),
    ("fault add latency --probability 2", 8, "mock fault kinds"),
    ('fault add status headers={"X', 8, "mock fault kinds"),
    ("fault remove flt_nope", 6, "mock fault list"),
    ("fault remove a/b", 6, "mock fault list"),
    ("fault remove FAULT", 0, []),
    ("fault add drip", 0, {"kind": "drip"}),
    ("fault clear", 0, []),
    ("fault list", 0, []),
    ("emit --chain bnb --token NEW --direction sell", 0, {"token_symbol": "NEW", "direction": "SELL"}),
    ("emit --after 30", 0, {"chain_id": 8453}),
    ("emit --after 5 --at 2000000000", 8, "correct the value"),
    ("emit --price-usd 0", 8, "correct the value"),
    ("agent start IDLE", 0, {"status": "active"}),
    ("agent start IDLE", 7, "agents list"),
    ("agent set-status IDLE paused", 0, {"status": "paused"}),
    ("agent stop IDLE", 0, {"status": "idle"}),
    ("agent stop agt_nope", 6, "agents list"),
    ("agent start a/b", 6, "agents list"),
    ("key create --name eyes --scope read-only --tenant me", 0, {"name": "eyes", "scope": "read-only", "tenant": "me"}),
    ("key expire KEY --at 4000000000", 0, {"state": "valid"}),
    ("key expire KEY --at 4e12", 8, "correct the value"),
    ("key rotate KEY", 0, {"name": "eyes", "scope": "read-only", "tenant": "me"}),
    ("key rotate KEY", 8, "correct the value"),
    ("key list", 0, [{"state": "revoked", "name": "eyes"}, {"state": "valid", "name": "eyes"}]),
    ("key revoke key_nope", 6, "mock key list"),
    ("key rotate a/b", 6, "mock key list"),
    ("key expire %2F", 6, "mock key list"),
    ("key revoke mock_full_me", 6, "mock key list"),
    ("tenant populate you --trades 40", 0, {"agents": 6, "trades": 40, "positions": 8}),
    ("tenant populate you --trades 90", 0, {"trades": 40}),
    ("tenant populate you --trades 7", 8, "correct the value"),
    ("tenant populate !", 8, "correct the value"),
    ("tenant plan me enterprise", 0, {"plan": "enterprise", "next_plan": None}),
    ("tenant plan me free", 0, {"plan": "enterprise", "next_plan": "free"}),
    ("payments list", 0, []),
    ("payments submissions", 0, []),
    ("payments check", 0, []),
    ("payments balances", 0, []),
    (f"payments balance {PAYER.address}", 0, {"balance": 1_000_000_000}),
    (f"payments set-balance {PAYER.address.lower()} 0.05", 0, {"payer": PAYER.address, "balance": 50_000}),
    ("payments balances", 0, [{"payer": PAYER.address, "balance": 50_000}]),
    ("payments set-balance me 5", 8, "correct the value"),
    ("gaps set order=oldest heartbeat=1", 0, [{"name": "order", "value": "oldest"}, {"name": "heartbeat", "value": 1}]),
    ("gaps set resume=ids nonsense=1", 8, "mock gaps"),
    ("gaps set order=newest heartbeat=15", 0, []),
    ("reset --seed 9 --yes", 0, {"seed": 9, "keys": 0}),
]  # fmt: skip
"""The line, the exit code, and what the answer has; or else what the hint ends with, or says."""


@pytest.mark.long
def test_outcomes(trade: Terminal, served: MockServer) -> None:
    stocked_worlds(trade.home, "w")
    trade("--world", "w", "mock", "clock", "--freeze")
    ways = {("mock",): "trade ", ("--world", "w", "mock"): "trade --world w "}
    ids: dict[tuple[tuple[str, ...], str], str] = {
        (way, "IDLE"): trade(*way[:-1], "agents", "list", "--status", "idle").lines[0]["id"] for way in ways
    }
    for line, code, expected in OUTCOMES:
        said: list[Any] = []
        for way, program in ways.items():
            run = trade(*way, *(ids.get((way, word), word) for word in line.split()))
            assert run.code == code, (way, line, run.out, run.err)
            if code:
                problem = run.problem
                assert f"{program}{expected}" in problem["hint"] or expected in problem["hint"], (line, problem)
                assert "mock_full_me" not in run.out + run.err or "key revoke" not in line
                said.append((problem["code"], problem["status"]))
                continue
            answer: Any = run.json if isinstance(expected, dict) else run.lines
            if line == "key list":  # the newest; `trade` made one by its pattern
                answer = answer[-len(expected) :]
            for some, item in (
                [(expected, answer)] if isinstance(expected, dict) else zip(expected, answer, strict=True)
            ):
                assert some.items() <= item.items(), (way, line, item)
            for kind, words in (("FAULT", "fault add"), ("KEY", "key create")):
                if line.startswith(words):
                    ids[way, kind] = answer["id"]
            said.append(answer.keys() if isinstance(answer, dict) else len(answer))
        assert said[0] == said[1], (line, "an answer of the embedded world is that of a server")


def test_what_the_mock_has_by_default_is_said_as_it_is_typed(trade: Terminal) -> None:
    assert "[default: 600]" in trade("mock", "payments", "check", "--help").out
    assert "[default: bot]" in trade("mock", "key", "create", "--help").out
    required = [each for one in OPERATIONS.values() for each in one.parameters if each.required]
    assert required
    assert {each.default for each in required} == {None}


@pytest.mark.usefixtures("worlds")
def test_a_value_in_the_place_of_an_id_is_not_shown(trade: Terminal) -> None:
    for value in ("mocksk_0123456789abcdef", "sk_live_0123456789"):
        run = trade("--mock", "mock", "key", "revoke", value)
        assert (run.code, "begins with key_" in run.problem["message"]) == (6, True)
        assert run.problem["hint"] == "see what there is: trade --mock mock key list"
        assert value not in run.out + run.err


@pytest.mark.usefixtures("worlds")
def test_agents_have_names_here_too(trade: Terminal) -> None:
    assert trade("--mock", "mock", "agent", "start", "base-slow").json["status"] == "active"
    assert trade("--mock", "agents", "get", "base-slow").json["status"] == "active"
    assert trade("--mock", "mock", "agent", "stop", "base-sl").problem["hint"].startswith("did you mean base-slow or ")


def test_a_purchase_that_was_charged_twice(trade: Terminal, served: MockServer) -> None:
    def buy(*nonces: int) -> None:
        body = {"tokens": [{"identifier": "BRETT"}]}
        with httpx.Client(base_url=served.url, trust_env=False) as http:
            offer = offer_of(http.post("/v1/token-prices", json=body).headers)
            for nonce in nonces:
                http.post("/v1/token-prices", json=body, headers=pay(offer, START, nonce))

    buy(1, 1)
    assert [each["amount"] for each in trade("mock", "payments", "list").lines] == [30_000]
    verdicts = [each["verdict"] for each in trade("mock", "payments", "submissions").lines]
    assert verdicts == ["settled", "invalid_exact_evm_nonce_already_used"]
    assert trade("mock", "payments", "check").code == 0
    served.add_fault("overlook", charged=True, count=1)
    buy(2)
    served.clock.advance(10)
    buy(3)
    run = trade("mock", "payments", "check", "--within", "10")
    assert (run.code, [each["nonce"][-1] for each in run.lines]) == (1, ["2", "3"])
    assert "1 purchase was charged more than once" in run.err
    assert trade("mock", "payments", "check", "--within", "9").code == 0
    table = trade("mock", "payments", "list", "-o", "table").out.splitlines()
    assert table[0].split() == ["n", "time", "path", "amount", "payer", "delivered", "submitted"]
    assert table[1].split()[-4:-2] == ["$0.03", PAYER.address]
    assert "settled" in trade("mock", "payments", "submissions", "-o", "table").out
    shown = trade("mock", "payments", "balance", PAYER.address, "-o", "table").out
    assert shown.split() == ["payer", "balance", PAYER.address, "$999.91"]


# Reset


def test_a_reset_is_asked_about(trade: Terminal, served: MockServer) -> None:
    dry = trade("mock", "reset", "--seed", "9", "--populate", "you", "--dry-run")
    assert dry.json == {"method": "POST", "path": "/_mock/reset", "body": {"seed": 9, "populate": ["you"]}}
    declined = trade("mock", "reset", answers="n\n", tty=True, env=PLAIN)
    assert (declined.code, f"reset the mock at 127.0.0.1:{served.port}: delete agents" in declined.err) == (1, True)
    assert served.status()["trades"] == 8
    assert trade("mock", "reset", answers="y\n", tty=True, env=PLAIN).code == 0
    assert served.status()["trades"] == 0
    for url in ("http://u:hidden@127.0.0.1:1", "http://u:hidden@[x"):
        asked = trade("mock", "reset", answers="n\n", tty=True, env={**PLAIN, "TRADE_BASE_URL": url})
        assert "hidden" not in asked.err


@pytest.mark.long
def test_after_a_reset_the_embedded_world_is_a_new_one(trade: Terminal) -> None:
    """What was paid there is forgotten on both sides: another seed is paid at another address."""
    stocked_worlds(trade.home, "default")
    buy = ("--mock", "market", "prices", "ETH", "--max-price", "0.03")
    assert trade(*buy).code == 0
    idle = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    trade("--mock", "agents", "delete", idle, "--yes")
    done = trade("--mock", "mock", "reset", "--seed", "11", "--populate", "you", "--yes").json
    assert (done["seed"], done["tenants"], done["agents"]) == (11, ["me", "you"], 12)
    assert trade("--mock", "pay", "history").lines == []
    assert trade(*buy).code == 0
    trade("--mock", "mock", "reset", "--seed", "7", "--yes")
    assert trade("--mock", "agents", "get", idle).code == 0


# How it looks


@pytest.mark.long
@each_of("columns", [60, 80, 120])
def test_a_terminal_explains_all_of_it(trade: Terminal, columns: int) -> None:
    def words(*argv: str) -> str:
        run = trade("--mock", "mock", *argv, tty=True, columns=columns, env=PLAIN)
        assert run.code == 0, run.err
        return " ".join(run.out.split())

    shown = words("fault", "kinds")
    for kind in fault_kinds():
        assert f"name {kind.name} on {kind.on} text {' '.join(kind.text.split())}" in shown
        assert all(f" {each.name}" in shown and " ".join(each.text.split()) in shown for each in kind.parameters)
    shown = words("gaps", "list")
    for gap in GapOptions.describe():
        assert f"name {gap.name} value {gap.default} default {gap.default} " in shown
        assert " ".join(gap.text.split()) in shown


@each_of("columns", [60, 120])
def test_it_fits_a_terminal(trade: Terminal, served: MockServer, columns: int) -> None:
    served.clear_faults()
    served.add_fault("latency")
    long: dict[str, Any] = {"headers": {"X-A": "b"}, "message": "so long " * 200}
    served.add_fault("status", route="/v1/agents/{agent_id}", method="PATCH", tenant="me", every=2, count=9, **long)
    for line in ("status", "clock", "emit", "key list", "payments balances", "fault add drip"):
        run = trade("mock", *line.split(), tty=True, columns=columns, env=PLAIN)
        assert run.code == 0, run.err
        assert all(len(row) <= columns for row in run.out.splitlines()), line
    shown = " ".join(trade("mock", "fault", "list", "-o", "table").out.split())
    assert "route /v1/agents/{agent_id} method PATCH tenant me" in shown
    assert "every 2" in shown
    assert "count 9" in shown
    assert "parameters.headers.X-A b" in shown
    assert trade("mock", "fault", "list").lines[1]["parameters"]["message"] == long["message"]


@pytest.mark.long
def test_nothing_in_an_answer_moves_a_cursor(trade: Terminal, asked: Scripted) -> None:
    texts = dict.fromkeys(("id", "kind", "route", "name", "value", "default", "text", "on", "path", "payer"), HOSTILE)
    item: dict[str, Any] = {**texts, "query": {HOSTILE: HOSTILE}, "parameters": {HOSTILE: HOSTILE}, "others": [HOSTILE]}
    item |= dict.fromkeys(("amount", "seen", "fired", "balance", "n", "at", "status"), 1) | {"faults": [HOSTILE]}
    kind = item | {"parameters": [{"name": HOSTILE, "default": HOSTILE, "text": HOSTILE}]}
    for words, command in COMMANDS.items():
        operation = OPERATIONS[command.request]
        typed, _ = words_of(operation, everything=False)
        for answer in ({"data": [kind if words == "fault kinds" else item]}, item):
            asked.says(200, answer, **MOCK)
            for form in ("table", "json", "ndjson"):
                typed = ["agt_" + "0" * 24, *typed[1:]] if words.startswith("agent") else typed
                run = trade("mock", *words.split(), *typed, "-o", form, *(["--yes"] if command.loses else []))
                assert run.code == (1 if command.alarm and "data" in answer else 0), (words, run.err)
                assert all(line.isprintable() for line in (run.out + run.err).splitlines()), words


# Where it is asked


@each_of(
    "line", ["status", "reset --yes", "fault list", "fault add latency", "logs", "snapshot NEW", "restore FILE --yes"]
)
def test_who_is_no_mock_is_said_to_be_none(trade: Terminal, service: Scripted, line: str) -> None:
    file = trade.home / "state.db"
    file.write_bytes(b"x")
    argv = line.replace("FILE", str(file)).replace("NEW", str(trade.home / "new.db")).split()
    trade.env["TRADE_BASE_URL"] = service.url
    port = service.url.rpartition(":")[2]
    for status, answer, headers in (
        (200, {"data": []}, {}),
        (404, b"<html>", {}),
        (200, b"<html>", MOCK),
        (500, b"", MOCK),
    ):
        service.says(status, answer, **headers)
        run = trade("mock", *argv)
        assert (run.code, run.problem["code"]) == (1, "mock"), (status, run.out)
        assert run.problem["message"] == f"the server at 127.0.0.1:{port} is not a mock server"
    service.fails(403, "forbidden", "no\x1b", **MOCK)
    refused = trade("mock", *argv)
    assert (refused.code, refused.problem["message"]) == (5, "the mock refused: no\\x1b")
    trade.env["TRADE_BASE_URL"] = "http://127.0.0.1:1"
    nobody = trade("mock", *argv)
    assert (nobody.code, nobody.problem["message"]) == (1, "nothing listens at http://127.0.0.1:1")
    assert nobody.problem["hint"] == "start one: trade mock serve"


@each_of("url", ["https://api.example.com", "http://10.0.0.1:80", "http://user:secret@192.0.2.1", "http://u:secret@[x"])
def test_only_on_this_machine(trade: Terminal, url: str) -> None:
    run = trade("mock", "status", env={"TRADE_BASE_URL": url})
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert "secret" not in run.err


def test_a_mock_that_does_not_answer_in_time(trade: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        trade.env["TRADE_BASE_URL"] = f"http://{place}"
        for argv, more in ((("clock", "--advance", "5"), "; whether this was done is unknown"), (("status",), "")):
            run: Run = trade("mock", *argv, "--timeout", "0.05")
            said = f"the mock at {place} did not answer within 0.05 s; it may be catching up with its clock{more}"
            assert (run.code, run.problem["code"], run.problem["message"]) == (1, "mock", said)
