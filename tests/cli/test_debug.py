"""`--debug` shows what is sent, `--curl` what to paste; neither shows a secret nor lets a stranger's text through."""

import json
import shlex
from pathlib import Path

import pytest

from tradesdk_cli.diagnostics import curl_line, cut, lines
from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE, LONE
from ._services import Scripted
from ._terminal import Terminal
from .test_secrets import API_KEY, WALLET_KEY, clean, keystore

ACCOUNT = {"id": "a", "email": "e@x.test", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"}
BOTH = ("--debug", "--curl")

__all__ = ["keystore"]  # a fixture


def sent(method: str = "GET", body: str | None = None, **headers: str) -> dict[str, object]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = "https://api.test/v1/x?a=b"
    return {"event": "request", "method": method, "url": url, "headers": named, "body": body, "bytes": 0}


def test_a_request_and_its_answer_for_people(trade: Terminal, service: Scripted) -> None:
    service.says(200, ACCOUNT)
    run = trade("account", "show", "--debug", tty=True, env={"NO_COLOR": "1"})
    assert run.code == 0
    said = run.err.splitlines()
    assert said[0] == f"> GET {service.url}/v1/account"
    assert "> authorization: ****" in said
    answered = next(line for line in said if line.startswith("< 200 in "))
    assert answered.endswith(" ms: GET /v1/account")
    assert f"< {json.dumps(ACCOUNT)}" in said


def test_for_programs(trade: Terminal, service: Scripted) -> None:
    service.says(200, ACCOUNT)
    run = trade("account", "show", *BOTH)
    assert run.json == ACCOUNT
    curl, request, answer = run.notes
    assert shlex.split(curl["command"])[:2] == ["curl", f"{service.url}/v1/account"]
    assert (request["type"], request["method"], request["body"]) == ("request", "GET", None)
    assert (answer["type"], answer["status"], json.loads(answer["body"])) == ("answer", 200, ACCOUNT)
    assert answer["seconds"] > 0


def test_nothing_without_them(trade: Terminal, service: Scripted) -> None:
    service.says(200, ACCOUNT)
    assert trade("account", "show").err == ""
    assert trade("account", "show", "--debug").err
    assert trade("account", "show").err == "", "it is off again"


def test_a_request_that_fails(trade: Terminal) -> None:
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:9", "TRADE_API_KEY": API_KEY}
    run = trade("account", "show", "--debug", tty=True, env={"NO_COLOR": "1"})
    assert run.code == 11
    assert "* GET http://127.0.0.1:9/v1/account: " in run.err
    assert clean(run)


def test_curl_can_be_pasted(trade: Terminal, service: Scripted) -> None:
    service.fails(422, "invalid", "no such wallet")
    label = 'it\'s $HOME `x` "q" \u202e\U000e0041'
    line = ("wallets", "connect", "--label", label, "--chain", "base", "--yes", "--curl")
    run = trade(*line, tty=True, env={"NO_COLOR": "1", "TRADE_WALLET_KEY": WALLET_KEY})
    (curl,) = [line for line in run.err.splitlines() if line.startswith("curl ") and "--data-raw" in line]
    assert '"Authorization: Bearer $TRADE_API_KEY"' in curl
    assert curl.isprintable()
    words = shlex.split(curl)
    assert words[1] == f"{service.url}/v1/wallets"
    (body,) = [json.loads(body) for method, _, body in service.seen if method == "POST"]
    assert json.loads(words[words.index("--data-raw") + 1]) == body | {"signature": "****"}


@each_of(
    ("request_", "has", "left_out"),
    [
        (sent(), "curl 'https://api.test/v1/x?a=b'", 0),
        (sent("DELETE"), "curl -X DELETE 'https://api.test/v1/x?a=b'", 0),
        (sent("POST", "{}"), "curl 'https://api.test/v1/x?a=b' --data-raw '{}'", 0),
        (sent("PATCH", "@f"), "curl -X PATCH 'https://api.test/v1/x?a=b' --data-raw @f", 0),
        (sent(accept="text/event-stream"), "curl -N 'https://api.test/v1/x?a=b' -H 'accept: text/event-stream'", 0),
        (sent(payment_signature="****"), "curl 'https://api.test/v1/x?a=b'", 1),
        (sent(cookie="****"), "curl 'https://api.test/v1/x?a=b'", 1),
        (sent("POST", '{"signature":"****"}'), '--data-raw \'{"signature":"****"}\'', 1),
        (sent() | {"url": "https://api.test/?a[]=b"}, "curl -g 'https://api.test/?a[]=b'", 0),
    ],
)
def test_curl_lines(request_: dict[str, object], has: str, left_out: int) -> None:
    line, left = curl_line(request_)
    assert line.endswith(has) or line == has
    assert len(left) == left_out


def test_what_strangers_say_is_shown_as_text(trade: Terminal, service: Scripted) -> None:
    body = ("<h1>" + HOSTILE + "</h1>\n\x1b]52;c;x\x07").encode()
    service.says(500, body, Content_Type="text/html", X_Evil="\x1b[2J" + "é" * 3)
    for form in ((), ("-o", "json")):
        run = trade("account", "show", *BOTH, *form, tty=True, env={"NO_COLOR": "1"})
        assert run.code == 10
        assert all(line.isprintable() for line in run.err.splitlines())
        assert "x-evil" in run.err
    hostile = sent("POST", f'{{"a":"{HOSTILE}{LONE}"}}')
    assert curl_line(hostile)[0].isprintable()


def test_long_bodies_are_cut(trade: Terminal, service: Scripted) -> None:
    service.says(200, {**ACCOUNT, "more": "x" * 50_000})
    for form, tty in (("table", True), ("json", False)):
        run = trade("account", "show", "--debug", "-o", form, tty=tty, env={"NO_COLOR": "1"})
        assert "more bytes)" in run.err
        assert len(run.err) < 12_000
    assert cut("é" * 4_000).endswith("… (3,904 more bytes)")
    assert all(len(text) < 500 for _, text in lines(sent(x_long="y" * 90_000)))


@pytest.mark.long
def test_a_stream(own: Terminal) -> None:
    own("--mock", "mock", "status")
    run = own("--mock", "signals", "stream", "--chain", "base", "--count", "1", *BOTH, "-o", "ndjson")
    assert run.code == 0
    assert len(run.lines) == 1, "signals go to stdout, all the rest to stderr"
    kinds = [note for note in run.notes if "/stream" in str(note.get("url", note.get("command")))]
    assert [note["type"] for note in kinds] == ["curl", "request", "answer"]
    assert "the embedded mock has no address" in run.err


def test_the_control_of_a_mock(trade: Terminal, server: MockServer) -> None:
    for place in (("--mock",), ("--base-url", server.url)):
        run = trade(*place, "mock", "key", "create", "--name", "debugged", "--debug")
        assert [note["type"] for note in run.notes] == ["request", "answer"]
        assert run.notes[0]["url"].endswith("/_mock/keys")
        assert run.json["value"] not in run.err


def test_a_state_is_logged_but_not_shown(trade: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite3"
    with MockServer() as server:
        trade.env |= {"TRADE_BASE_URL": server.url, "NO_COLOR": "1"}
        wrote = trade("mock", "snapshot", str(file), "--debug", tty=True)
        size = f"* {file.stat().st_size:,} bytes, not shown here"
        assert (wrote.code, f"> GET {server.url}/_mock/snapshot" in wrote.err, size in wrote.err) == (0, True, True)
        read = trade("mock", "restore", str(file), "--yes", *BOTH, tty=True)
        assert (read.code, f"> POST {server.url}/_mock/restore" in read.err, size in read.err) == (0, True, True)
        curl = f"curl -X POST {server.url}/_mock/restore -H 'content-type: application/vnd.sqlite3' --data-binary @FILE"
        assert curl in read.err
