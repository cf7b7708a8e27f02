"""Every command in every format: wire names and values for programs, tables for people."""

import csv
import io
import json
from functools import cache
from itertools import product
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE, LONE
from ._hostile import spoil
from ._services import Scripted, agent
from ._terminal import Terminal

LISTS = {
    "/v1/agents": ("agents", "list"),
    "/v1/wallets": ("wallets", "list"),
    "/v1/trades": ("trades", "list"),
    "/v1/positions": ("positions", "list"),
    "/v1/signals": ("signals", "latest", "--chain", "base"),
    "/v1/signals/history": ("signals", "history", "--chain", "8453"),
}
SINGLE = {
    "/v1/account": ("account", "show"),
    "/v1/account/usage": ("account", "usage"),
    "/v1/agents/agt_1": ("agents", "get", "agt_1"),
    "/v1/wallets/wal_1/balance": ("wallets", "balance", "wal_1"),
    "/v1/trades/trd_1": ("trades", "get", "trd_1"),
}


def ask(server: MockServer, path: str) -> Any:
    """What the service itself says, read without the SDK."""
    headers = {"Authorization": "Bearer mock_full_shared"}
    with httpx.Client(transport=server.transport(), base_url=server.url, headers=headers) as http:
        answer = http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@cache
def spoiled(server: MockServer, path: str) -> Any:
    """What it says, with `HOSTILE` wherever text may stand."""
    parts = path.split("/")
    if path in SINGLE and parts[2] != "account":
        parts[3] = ask(server, f"/v1/{parts[2]}")["data"][0]["id"]
    return spoil(ask(server, "/".join(parts) + "?limit=1&chain=8453"), HOSTILE)


def settled(value: Any) -> Any:
    """Without the number of requests, which each one changes."""
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if k != "used"}
    return [settled(item) for item in value] if isinstance(value, list) else value


@each_of("path", LISTS)
def test_a_list_for_programs_is_what_the_service_sends(world: Terminal, server: MockServer, path: str) -> None:
    query = "?limit=20&chain=8453" if "signals" in path else "?limit=20"
    sent = settled(ask(server, path + query)["data"])
    assert sent
    piped, array, lines = (world(*LISTS[path], *form) for form in ((), ("-o", "json"), ("-o", "ndjson")))
    assert (piped.code, array.code, lines.code) == (0, 0, 0)
    assert settled(piped.lines) == settled(lines.lines) == settled(array.json) == sent
    assert [list(item) for item in array.json] == [list(item) for item in sent], "same fields, same order"


@each_of("noun", ["account show", "account usage", "agents get", "wallets balance", "trades get"])
def test_one_thing_for_programs_is_what_the_service_sends(world: Terminal, server: MockServer, noun: str) -> None:
    words = noun.split()
    path = {"account show": "/v1/account", "account usage": "/v1/account/usage"}.get(noun, "")
    if not path:
        found = ask(server, f"/v1/{words[0]}")["data"][0]["id"]
        words.append(found)
        path = f"/v1/{words[0]}/{found}" + ("/balance" if words[1] == "balance" else "")
    sent = settled(ask(server, path))
    for form in ((), ("-o", "json"), ("-o", "ndjson")):
        run = world(*words, *form)
        assert (run.code, run.err) == (0, "")
        assert settled(run.json) == sent
        assert len(run.out.splitlines()) == 1 or form != ("-o", "ndjson")


DATA = ("json", "ndjson", "csv", "tsv")
"""Formats that know nothing of what they print: a list and one thing are enough for the quick run."""
ONE_OF_EACH = ("/v1/agents", "/v1/agents/agt_1")


@pytest.mark.long
@each_of("path", [path for path in (*LISTS, *SINGLE) if path not in ONE_OF_EACH])
@each_of("form", DATA)
def test_strangers_text_is_only_text_in_all_data(
    trade: Terminal, server: MockServer, service: Scripted, path: str, form: str
) -> None:
    is_only_text(trade, server, service, path, form)


@each_of(
    ("path", "form"),
    [*product((*LISTS, *SINGLE), ("terminal", "table")), *product(ONE_OF_EACH, DATA)],
)
def test_strangers_text_is_only_text(
    trade: Terminal, server: MockServer, service: Scripted, path: str, form: str
) -> None:
    is_only_text(trade, server, service, path, form)


def is_only_text(trade: Terminal, server: MockServer, service: Scripted, path: str, form: str) -> None:
    sent = spoiled(server, path)
    service.says(200, sent)
    argv = (*(LISTS | SINGLE)[path], *(("--limit", "1") if path in LISTS else ()))
    run = trade(*argv, *(() if form == "terminal" else ("-o", form)), tty=form == "terminal", env={"NO_COLOR": "1"})
    assert run.code == 0, run.err
    for text in (run.out.replace("\t", "") if form == "tsv" else run.out, run.err):
        assert all(line.isprintable() for line in text.split("\n")), "nothing that acts on a terminal"
    if form in ("csv", "tsv"):
        lines = list(csv.reader(io.StringIO(run.out, newline=""))) if form == "csv" else run.out.splitlines()
        assert len(lines) == 2, "a row each, whatever is in it"
    elif form in ("json", "ndjson"):
        wanted = sent["data"] if path in LISTS else sent
        assert (run.lines if path in LISTS and form == "ndjson" else run.json) == wanted, "and yet unchanged"
    elif path not in ("/v1/account/usage",):
        # On a terminal a name may be cut, but what is left of it is text.
        assert ("\\x1b[2J\\x" if form == "terminal" else "\\x1b[2J\\x1b[31mred") in run.out
        assert form != "table" or "[bold]b[/bold][link=http://x]l[/link]:smile:" in run.out


NOTES = ["two\nlines", "\n", 'a "quoted", b\n\nc;d\n', "plain"]
ACTIVE = ["a\n=1+1", "x\n -1-1", "=1\n@2", "\x1b[31mred\x1b[0m\nrest", "a\r\nb", "a\tb\x07\n\x9b31m", "\u202e\nb"]


@each_of("tty", [False, True])
def test_csv_keeps_line_breaks_and_nothing_else_that_acts(trade: Terminal, service: Scripted, tty: bool) -> None:
    service.says(200, {"data": [agent(text, **{"odd\nname": 1}) for text in (*NOTES, *ACTIVE)]})
    run = trade("agents", "list", "-o", "csv", tty=tty)
    rows = list(csv.DictReader(io.StringIO(run.out, newline="")))
    assert [row["name"] for row in rows][: len(NOTES)] == NOTES
    assert [row["name"] for row in rows][len(NOTES) :] == [
        *("a\n'=1+1", "x\n '-1-1", "'=1\n'@2", "\\x1b[31mred\\x1b[0m\nrest"),
        *("a\\r\nb", "a\\tb\\x07\n\\x9b31m", "\\u202e\nb"),
    ]
    assert all(line.isprintable() for line in run.out.split("\n"))
    assert "odd\\nname" in run.out.split("\n")[0], "the header is one line"
    file = trade.home / "agents.csv"
    assert trade("agents", "list", "--out", str(file)).code == 0
    assert file.read_bytes() == run.out.encode()


def test_what_was_typed_comes_back_as_text_only(trade: Terminal, service: Scripted) -> None:
    for argv in (("agents", HOSTILE), (HOSTILE,), ("agents", "list", f"--{HOSTILE}"), ("agents", "get", HOSTILE)):
        for tty in (True, False):
            run = trade(*argv, tty=tty, env={"NO_COLOR": "1"})
            assert (run.code, run.out) == (2, "")
            assert all(line.isprintable() for line in run.err.split("\n"))
    assert service.seen == []


def test_half_a_character_is_replaced(trade: Terminal, service: Scripted) -> None:
    service.says(200, json.dumps({"data": [agent()]}).replace("calm", "a\\ud83d\\ude00b").encode())
    assert trade("agents", "list", "-o", "json").json[0]["name"] == "a😀b"
    service.says(200, json.dumps({"data": [agent(LONE)]}).encode())
    for form in ("json", "ndjson", "csv", "tsv", "table"):
        run = trade("agents", "list", "-o", form)
        assert (run.code, run.err, run.out.count("\ufffd")) == (0, "", 1)
    assert trade("api", "GET", "/v1/agents").json["data"][0]["name"] == "\ufffd"


def test_fields_that_we_do_not_know_are_kept(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent(status="hibernating", new_field={"deep": [1, None]})]})
    assert trade("agents", "list").lines[0]["new_field"] == {"deep": [1, None]}
    assert "hibernating" in trade("agents", "list", "-o", "table").out
