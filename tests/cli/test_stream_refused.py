"""How `signals stream` fails: exit codes, what is said, and what is refused before anything is sent."""

from __future__ import annotations

import json

from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted
from ._streams import ROUTE, STREAM, ids, publishing, said
from ._terminal import Terminal


@each_of(
    ("status", "code", "exit_code"),
    [
        (401, "unauthorized", 4),
        (403, "forbidden", 5),
        (404, "not_found", 6),
        (301, "http_301", 10),
        (204, "stream_ended", 15),
    ],
)
def test_how_a_stream_is_refused(trade: Terminal, service: Scripted, status: int, code: str, exit_code: int) -> None:
    service.answers = [(200, {}, b'{"data":[]}')]
    service.then(status, b"" if status in (204, 301) else {"error": {"code": code, "message": "no"}})
    run = trade(*STREAM)
    assert (run.code, run.problem["code"], run.problem["status"]) == (exit_code, code, status)
    assert run.problem["hint"]
    assert said(run, "summary") == []


def test_a_page_is_no_stream(trade: Terminal, service: Scripted) -> None:
    service.says(200, b"<html>", Content_Type="text/html")
    run = trade(*STREAM, "--since", "1h")
    assert (run.code, run.problem["code"]) == (10, "bad_response")
    assert "text/html" in run.problem["message"]


def test_nobody_there(trade: Terminal) -> None:
    trade.env |= {"TRADE_BASE_URL": "http://127.0.0.1:9", "TRADE_API_KEY": "key-of-the-test"}
    run = trade(*STREAM)
    assert (run.code, run.problem["code"]) == (11, "connection_refused")


def test_a_key_that_is_not_taken_any_more(trade: Terminal, market: MockServer) -> None:
    market.add_fault("drop", route=ROUTE, after=1, count=1)
    with publishing(market, {}, first=lambda: market.add_fault("status", route=ROUTE, status=401)) as published:
        run = trade(*STREAM)
    assert (run.code, ids(run)) == (4, published)
    assert json.loads(run.err.splitlines()[-1])["code"] == "unauthorized"
    assert run.notes[-2]["type"] == "summary"


def test_what_it_waits_for_before_it_is_connected_is_said(trade: Terminal, market: MockServer) -> None:
    market.add_fault("status", route=ROUTE, status=503, count=2)
    with publishing(market, {}):
        run = trade(*STREAM, "--count", "1")
    assert run.code == 0
    assert len(said(run, "retry")) == 2
    assert "503" in said(run, "retry")[0]["note"]


@each_of(
    ("options", "says"),
    [
        (("-o", "json"), "-o json is one array"),
        (("--count", "0"), "0"),
        (("--duration", "soon"), "a duration is"),
        (("--duration", "0s"), "a duration is"),
        (("--until-idle", "-1s"), "a duration is"),
        (("--since", "yesterday"), "'yesterday' is not a time"),
        (("--direction", "HOLD"), "is not one of BUY, SELL"),
        (("--min-confidence", "2"), "2"),
        (("--exec", "echo {symbol}"), "{symbol} is not a placeholder"),
        (("--exec", "no-such-program-anywhere"), "there is no program"),
    ],
)
def test_what_is_refused_before_anything_is_sent(
    trade: Terminal, service: Scripted, options: tuple[str, ...], says: str
) -> None:
    run = trade(*STREAM, *options)
    assert run.code == 2
    assert says in run.problem["message"]
    assert service.seen == []


@each_of(
    ("header", "options", "says"),
    [
        ("what,else", (), "has other columns than this"),
        ("id,token_symbol", ("--fields", "id,price_usd"), "has no column price_usd"),
    ],
)
def test_a_file_of_other_columns_is_refused_before_anything_is_sent(
    trade: Terminal, service: Scripted, header: str, options: tuple[str, ...], says: str
) -> None:
    file = trade.home / "a.csv"
    file.write_text(header)
    run = trade(*STREAM, "--out", str(file), *options)
    assert (run.code, run.problem["message"]) == (2, f"--out: {file} {says}")
    assert (service.seen, file.read_text()) == ([], header)
