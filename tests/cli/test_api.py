"""`trade api`: any request by hand, with the key and the retries of all others; nothing is paid."""

import json
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.commands.api import read_request
from tradesdk_cli.errors import UsageProblem
from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted
from ._terminal import Terminal

READ: list[tuple[list[str], list[str], str | None, tuple[str, str, dict[str, str], Any]]] = [
    (["/v1/account"], [], None, ("GET", "/v1/account", {}, None)),
    (["v1/agents?limit=2&status=idle"], [], None, ("GET", "/v1/agents", {"limit": "2", "status": "idle"}, None)),
    (["get", "/v1/agents?a=1"], ["b=a=b"], None, ("GET", "/v1/agents", {"a": "1", "b": "a=b"}, None)),
    (["/v1/x?a=1"], ["b=4"], None, ("POST", "/v1/x", {"a": "1"}, {"b": "4"})),
    (["/v1/x"], [], '{"a": [1]}', ("POST", "/v1/x", {}, {"a": [1]})),
    (["DELETE", "/v1/agents/ä b"], [], None, ("DELETE", "/v1/agents/%C3%A4%20b", {}, None)),
]

NOT_READ: list[tuple[list[str], list[str], str | None, str]] = [
    ([], [], None, "one method and one path"),
    (["GET", "/v1/a", "/v1/b"], [], None, "one method and one path"),
    (["HEAD", "/v1/a"], [], None, "is not a method"),
    (["agents"], [], None, "is not a path of the API"),
    (["/"], [], None, "is not a path of the API"),
    (["/v1/a#b"], [], None, "is not a path of the API"),
    (["/v1/../_mock/reset"], [], None, "no . or .."),
    (["/v1/%2e%2e/x"], [], None, "no . or .."),
    (["/v1/a\\b"], [], None, "no . or .. or backslash"),
    (["https://user:secret@h.example/v1/a"], [], None, "a URL is not a path of the API"),
    (["//h.example/v1/a"], [], None, "is not a path of the API"),
    (["/v1/a?x=1&x=2"], [], None, "x is given twice"),
    (["/v1/signals/stream?chain=8453"], [], None, "the stream never ends"),
    (["/v1/supported-tokens"], [], "{}", "is market data, which has its own commands"),
    (["GET", "/v1/a"], [], "{}", "a GET has no body"),
    (["/v1/a"], ["a=1"], "{}", "-d and -f exclude each other"),
    (["/v1/a"], ["a"], None, "is not of the form NAME=VALUE"),
    (["/v1/a"], ["=a"], None, "is not of the form NAME=VALUE"),
    (["/v1/a"], ["a=1", "a=2"], None, "is given twice"),
    (["/v1/a"], [], "{", "-d is not JSON: line 1, column 2"),
    (["/v1/a"], [], "NaN", "-d is not JSON"),
    (["/v1/a"], [], "@/nowhere/at/all", "cannot read /nowhere/at/all"),
]


@each_of(("words", "texts", "data", "wanted"), READ)
def test_what_a_line_means(
    words: list[str], texts: list[str], data: str | None, wanted: tuple[str, str, dict[str, str], Any]
) -> None:
    found = read_request(words, texts, data)
    assert (found.method, found.path, found.query, found.body) == wanted


@each_of(("words", "texts", "data", "told"), NOT_READ)
def test_what_cannot_be_meant(words: list[str], texts: list[str], data: str | None, told: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read_request(words, texts, data)
    assert told in caught.value.message
    assert "secret" not in caught.value.message
    assert caught.value.hint


def test_reading_needs_no_question(world: Terminal) -> None:
    run = world("api", "/v1/account")
    assert (run.code, run.err) == (0, "")
    assert run.json == world("account", "show").json
    found = world("api", "/v1/agents?limit=1").json["data"]
    assert [one["id"] for one in found] == [world("agents", "list").lines[0]["id"]]


def test_the_key_goes_where_the_settings_say(world: Terminal, service: Scripted) -> None:
    run = world("api", f"{service.url}/v1/account")
    assert (run.code, run.problem["code"], service.seen) == (2, "usage", [])


def test_a_write_is_shown_and_asked_about(own: Terminal, server: MockServer) -> None:
    tenant = own.env["TRADE_API_KEY"].removeprefix("mock_full_")
    idle = own("agents", "list", "--status", "idle").lines[0]["id"]
    line = ("api", "PATCH", f"/v1/agents/{idle}", "-d", '{"risk": {"stop_loss_pct": 6}, "name": "by hand"}')
    server.clear_journal()
    dry = own(*line, "--dry-run")
    body = {"risk": {"stop_loss_pct": 6}, "name": "by hand"}
    assert dry.json == {"method": "PATCH", "path": f"/v1/agents/{idle}", "body": body}
    assert own(*line).code == 2
    no = own(*line, answers="n\n")
    assert (no.code, f"PATCH /v1/agents/{idle}? [y/N]" in no.err) == (1, True)
    assert "  risk.stop_loss_pct  6.00%\n" in no.err
    assert "this machine" in no.err
    assert server.journal(tenant) == []
    done = own(*line, "--yes")
    assert (done.code, done.json["name"], done.json["risk"]["stop_loss_pct"]) == (0, "by hand", 6.0)
    assert done.notes[0]["target"]["mode"] == "local"
    assert [(entry.method, entry.body) for entry in server.journal(tenant)] == [("PATCH", body)]
    gone = own("api", "DELETE", f"/v1/agents/{idle}", "--yes")
    assert (gone.code, gone.out) == (0, "")
    assert "the answer has no body" in gone.err
    again = own("api", "DELETE", f"/v1/agents/{idle}", "--yes")
    assert (again.code, again.problem["code"]) == (6, "not_found")


def test_a_read_is_shown(own: Terminal, server: MockServer) -> None:
    server.clear_journal()
    run = own("api", "/v1/agents?limit=1", "--dry-run")
    assert (run.code, run.json) == (0, {"method": "GET", "path": "/v1/agents", "query": {"limit": "1"}})
    assert "nothing was sent (--dry-run)" in run.err
    assert server.journal(own.env["TRADE_API_KEY"].removeprefix("mock_full_")) == []


def test_a_body_from_a_file_and_from_a_pipe(own: Terminal, tmp_path: Path) -> None:
    body = {"name": "n", "size": 1.5}
    (tmp_path / "body.json").write_text(json.dumps(body))
    for data, typed in ((f"@{tmp_path / 'body.json'}", ""), ("-", json.dumps(body)), (json.dumps(body), "")):
        assert own("api", "/v1/agents", "-d", data, "--dry-run", stdin=typed).json["body"] == body
    listed = own("api", "/v1/agents?x=1", "-d", "[1, {}]", "--dry-run")
    assert listed.json == {"method": "POST", "path": "/v1/agents", "query": {"x": "1"}, "body": [1, {}]}
    assert "  body  [1,{}]\n" in own("api", "/v1/agents", "-d", "[1, {}]", answers="n\n").err


@each_of("body", [b"<h1>\x1b[2J hello</h1>\nsecond line", b'"a text"', b"[1, 2]", b"null"])
def test_whatever_comes_back(trade: Terminal, service: Scripted, body: bytes) -> None:
    service.answers = [(200, {"Content-Type": "text/html"}, body)]
    piped, seen = trade("api", "/v1/x"), trade("api", "/v1/x", tty=True, env={"NO_COLOR": "1"})
    assert (piped.code, seen.code) == (0, 0)
    assert "\x1b" not in seen.out
    if body.startswith(b"<"):
        assert piped.out.encode() == body
        assert "\\x1b[2J hello" in seen.out
        assert "the answer is not JSON (" in trade("api", "/v1/x", "-o", "json").problem["message"]
    elif body.startswith(b"["):
        assert piped.json == [{"value": 1}, {"value": 2}]
    else:
        assert piped.json == {"value": json.loads(body)}


def test_strangers_text_is_only_text(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [{HOSTILE: HOSTILE}]})
    for form in ("table", "json"):
        run = trade("api", "/v1/x", "-o", form)
        assert all(line.isprintable() for line in run.out.split("\n"))
    assert trade("api", "/v1/x").json == {"data": [{HOSTILE: HOSTILE}]}


# What is said of answers


def test_of_an_answer_that_is_text_nothing_is_repeated(trade: Terminal, service: Scripted) -> None:
    service.answers = [(200, {"Content-Type": "text/key-of-the-test"}, b"the key is key-of-the-test")]
    run = trade("api", "/v1/x", "-o", "json")
    assert (run.code, run.problem["message"]) == (10, "the answer is not JSON (26 bytes)")
    assert "key-of-the-test" not in run.err


def test_secrets_that_are_sent_are_not_repeated(trade: Terminal, service: Scripted) -> None:
    body = {"label": "l", "private_key": "MARKED", "in": [{"signature": "MARKED"}], "a": {"api-key": "MARKED"}}
    line = ("api", "POST", "/v1/wallets", "-d", json.dumps(body))
    for run in (trade(*line, "--yes"), trade(*line, answers="y\n"), trade(*line, "-o", "json", answers="y\n")):
        assert (run.code, run.err.count("(not shown)"), "MARKED" in run.err) == (0, 3, False)
    assert [json.loads(sent) for _, _, sent in service.seen] == [body] * 3
    assert trade(*line, "--dry-run").json["body"] == body, "that is what is asked for"
    public = {"token_address": "0x1", "key_name": "MARKED", "secretary": "MARKED"}
    assert trade("api", "POST", "/v1/x", "-d", json.dumps(public), "--yes").err.count("MARKED") == 2


# Market data


@each_of("more", [(), ("--yes",), ("--dry-run",)])
def test_nothing_is_paid(buyer: Terminal, shop: MockServer, more: tuple[str, ...]) -> None:
    run = buyer("api", "/v1/token-prices", "-f", "tokens=ETH", *more)
    assert (run.code, run.problem["hint"]) == (2, "trade market prices --help")
    assert shop.payments.submissions() == []
