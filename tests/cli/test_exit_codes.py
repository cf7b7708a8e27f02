"""Every way to fail has its exit code; stdout stays empty; programs read one JSON object, people a line and a hint."""

import json
from typing import Any

import pytest

from tradesdk_cli.config.settings import Settings
from tradesdk_cli.errors import Declined
from tradesdk_cli.explain import problem_of
from tradesdk_cli.output.printer import Output

from .. import _answers
from .._rows import each_of
from ._services import Scripted, agent
from ._terminal import Stream, Terminal

GET = ("agents", "get", "agt_1")
WALLET = f"wal_{0:024x}"
CREATE = ("agents", "create", "--name", "n", "--wallet-id", WALLET, "--chain", "base", "--yes")


@each_of(
    ("status", "code", "exit_code", "retryable", "hint"),
    [
        (400, "invalid_request", 8, False, "--help"),
        (400, "invalid_signature", 8, False, "the text that the dashboard shows"),
        (401, "unauthorized", 4, False, "TRADE_API_KEY"),
        (402, "payment_required", 8, False, "another plan; see the plan: trade account show"),
        (403, "forbidden", 5, False, "full-access"),
        (404, "not_found", 6, False, "trade agents list"),
        (409, "conflict", 7, False, "trade agents list"),
        (422, "validation_error", 8, False, "--help"),
        (429, "rate_limited", 9, True, "wait 7 s"),
        (500, "internal_error", 10, False, "in a while"),
        (502, "bad_gateway", 10, False, "in a while"),
        (503, "service_unavailable", 10, True, "in a while"),
        (504, "gateway_timeout", 10, False, "in a while"),
        (302, "found", 10, False, "--base-url"),
    ],
)
def test_status(
    trade: Terminal, service: Scripted, status: int, code: str, exit_code: int, retryable: bool, hint: str
) -> None:
    service.fails(status, code, "what it says", **({"Retry_After": "7"} if status == 429 else {}))
    run = trade(*GET)
    assert run.code == exit_code
    assert run.problem | {"hint": ""} == {
        "code": code,
        "status": status,
        "message": "what it says",
        "hint": "",
        "retryable": retryable,
    }
    assert hint in run.problem["hint"]
    person = trade(*GET, tty=True, columns=200, env={"NO_COLOR": "1"})
    assert (person.code, person.out) == (exit_code, "")
    first, second = person.err.splitlines()
    assert first == f"error: what it says ({status} {code})"
    assert second.startswith("hint: ")
    assert hint in second


def test_the_page_of_a_portal_deletes_nothing(trade: Terminal, service: Scripted) -> None:
    service.says(200, _answers.agent("agt_1"))
    service.then(200, b"<html>hello</html>", Content_Type="text/html")
    run = trade("agents", "delete", "agt_1", "--yes", "-o", "json")
    assert (run.code, run.out, run.problem["code"]) == (10, "", "bad_response")
    assert "it may have been carried out; check before sending it again" in run.problem["message"]
    assert [method for method, _, _ in service.seen] == ["GET", "DELETE"]


@each_of(
    ("status", "body", "headers"),
    [
        (200, b"<html>hello</html>", {"Content_Type": "text/html"}),
        (200, b'{"id": "agt_1", "na', {}),
        (200, b"[]", {}),
        (200, b'{"id": NaN}', {}),
        (204, b"", {}),
        (200, b'{"id": 5}', {}),
    ],
)
def test_answers_that_are_none(
    trade: Terminal, service: Scripted, status: int, body: bytes, headers: dict[str, str]
) -> None:
    service.says(status, body, **headers)
    run = trade(*GET)
    assert (run.code, run.problem["code"]) == (10, "bad_response")
    assert "--base-url" in run.problem["hint"]


def test_an_error_without_the_services_body(trade: Terminal, service: Scripted) -> None:
    service.says(404, b"<html>", Content_Type="text/html")
    run = trade(*GET)
    assert (run.code, run.problem["code"], run.problem["status"]) == (6, "http_404", 404)
    assert "--base-url" in run.problem["hint"], "nothing of the service answers there"


def test_a_wallet_that_is_not_there(own: Terminal) -> None:
    line = f"--name n --wallet-id {WALLET} --chain base --yes"
    made = own("agents", "create", *line.split())
    assert (made.code, made.problem["hint"]) == (6, "see what there is: trade wallets list")
    known = own("agents", "list").lines[0]["id"]
    moved = own("agents", "update", known, "--wallet-id", WALLET, "--yes")
    assert (moved.code, moved.problem["hint"]) == (6, "see what there is: trade agents list; trade wallets list")


def test_a_cursor_that_repeats(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "same"})
    run = trade("agents", "list", "--all", "-o", "json")
    assert (run.code, [one["id"] for one in run.json]) == (10, ["agt_1"]), "what came before is kept"
    assert run.notes[-1]["code"] == "bad_response"
    assert "--base-url" in run.notes[-1]["hint"]


def test_a_create_with_an_open_outcome_says_so(trade: Terminal, service: Scripted) -> None:
    service.fails(500, "internal_error", "oops")
    run = trade(*CREATE)
    assert run.code == 10
    assert "may have been carried out" in run.problem["hint"]
    assert "trade agents list" in run.problem["hint"]
    assert [method for method, _, _ in service.seen].count("POST") == 1


@each_of(
    ("env", "named", "hint"),
    [
        ({"TRADE_API_KEY": "k"}, "set TRADE_BASE_URL, or use --base-url", "trade --mock"),
        ({"TRADE_BASE_URL": "https://x.example"}, "set TRADE_API_KEY", "trade --mock"),
        ({"TRADE_API_KEY": "", "TRADE_BASE_URL": "https://x.example"}, "set TRADE_API_KEY", "trade --mock"),
        (
            {"TRADE_API_KEY": "a key", "TRADE_BASE_URL": "https://x.example"},
            "API key contains",
            "correct TRADE_API_KEY",
        ),
        (
            {"TRADE_API_KEY": "k", "TRADE_BASE_URL": "http://u:hidden@x.example"},
            "is not https",
            "use https in TRADE_BASE_URL",
        ),
        ({"TRADE_API_KEY": "k", "TRADE_BASE_URL": "https://x.example/v2"}, "v1", "correct TRADE_BASE_URL"),
        ({"TRADE_API_KEY": "k", "TRADE_BASE_URL": "http://[x"}, "base URL", "correct TRADE_BASE_URL"),
        ({"TRADE_MOCK": "perhaps"}, "TRADE_MOCK", "TRADE_MOCK=1"),
    ],
)
def test_configuration(trade: Terminal, env: dict[str, str], named: str, hint: str) -> None:
    run = trade(*GET, env=env)
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert named in run.problem["message"]
    assert hint in run.problem["hint"]
    assert "a key" not in run.err
    assert "hidden" not in run.err
    assert "allow_insecure" not in run.err, "that is for Python"


def test_usage_has_the_format_that_was_asked_for(trade: Terminal) -> None:
    for line in ("agents list --bogus -o table", "-ojson agents list --bogus -otable", "agents --bogus --output=table"):
        assert trade(*line.split()).err.startswith("error: "), line
    for line in (
        "agents list --bogus -o json",
        "--output=ndjson agents --bogus",
        "-ojson --bogus -o nonsense",
        "-ojson -o",
    ):
        assert trade(*line.split(), tty=True).problem["code"] == "usage", line


def test_on_a_terminal_errors_are_for_people_also_when_stdout_is_a_pipe(trade: Terminal) -> None:
    assert trade(*GET, answers="").err.startswith("\x1b[31merror:")


@each_of(
    ("asked", "out_is_terminal", "err_is_terminal", "for_programs"),
    [
        ("auto", False, False, True),
        ("auto", True, False, False),
        ("auto", False, True, False),
        ("auto", True, True, False),
        ("json", True, True, True),
        ("ndjson", False, True, True),
        ("table", False, False, False),
    ],
)
def test_who_reads_stderr(
    monkeypatch: pytest.MonkeyPatch, asked: str, out_is_terminal: bool, err_is_terminal: bool, for_programs: bool
) -> None:
    monkeypatch.setattr("sys.stdout", Stream(tty=out_is_terminal))
    monkeypatch.setattr("sys.stderr", Stream(tty=err_is_terminal))
    assert Output(Settings(output=asked), {}).machine_notes is for_programs


def test_a_bug_is_no_traceback(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken\x1b")

    monkeypatch.setattr("tradesdk_cli.run.wire", broken)
    service.says(200, {"id": "a", "email": "e", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"})
    run = trade("account", "show")
    assert (run.code, run.problem["code"]) == (1, "internal")
    assert "RuntimeError: broken\\x1b" in run.problem["message"]
    loud = trade("account", "show", "-v")
    assert "Traceback" in loud.err
    assert all(line.isprintable() for line in loud.err.split("\n"))
    assert loud.code == 1
    service.fails(404, "not_found", "none")
    assert "Traceback" not in trade("account", "show", "-vv").err


def test_our_own_errors() -> None:
    assert problem_of(Declined("no")).exit_code == 1
    assert problem_of(OSError(28, "No space left on device", "file")).message == "No space left on device: file"


def test_a_world_that_is_no_world(trade: Terminal) -> None:
    file = trade.home / "mock" / "default.sqlite3"
    file.parent.mkdir()
    file.write_text("not a database, but long enough to look at " * 100)
    run = trade("--mock", "account", "show")
    assert run.code == 3
    assert str(file) in json.dumps(run.problem)
