"""Everything that a service says is a stranger's text: through every command and format nothing of it acts."""

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from rich.cells import cell_len

from tradesdk import TradeClient
from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE, WEAPONS
from ._hostile import Mirror, deep, harmless, mirror
from ._matrix import CALLS, Things, settle_in, shop
from ._services import Scripted, agent
from ._terminal import Terminal
from .conftest import BUYER_KEY
from .test_help import keystores_cost_nothing

FORMATS = ("table", "ndjson", "csv", "tsv")
IN_ALL_FORMATS = [
    *("account usage", "agents list", "agents get", "wallets balance", "trades list", "positions list"),
    *("signals stream", "mock status", "mock key list"),
]
CODES = {"plot token": 6, "mock payments check": 1, "pay reconcile": 14}
"""How a command ends when what it reads is spoiled, or was made elsewhere."""


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[Mirror, MockServer]]:
    """A mirror that spoils what a mock says, and that mock."""
    with mirror() as spoiling, shop() as server:
        spoiling.behind = server.url
        yield spoiling, server


@dataclass
class Victim:
    things: Things
    mirror: Mirror

    def __call__(self, words: str, form: str) -> None:
        argv, typed = self.things.argv(words) if words in CALLS else (words.split(), "")
        argv += [] if form == "terminal" else ["-o", form]
        there = {"TRADE_BASE_URL": self.mirror.url, "TRADE_MARKET_BASE_URL": self.mirror.url, "NO_COLOR": "1"}
        run = self.things.trade(*argv, stdin=typed, tty=form == "terminal", columns=100, env=there)
        harmless(run, form)
        if form == "json" and words == "signals stream":
            assert run.code == 2, "a stream is no array"
            return
        assert run.code in (0, CODES.get(words)), (words, run.code, run.err)
        if run.code:
            return
        if form == "json" and run.out:
            json.loads(run.out)
        if form == "ndjson":
            assert all(isinstance(json.loads(found), (dict, list)) for found in run.out.splitlines())
        if form == "csv":
            for row in csv.reader(io.StringIO(run.out, newline="")):
                assert not any(cell.startswith(("=", "@", "\t", "\r")) for cell in row), row


@pytest.fixture
def victim(trade: Terminal, behind: tuple[Mirror, MockServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    """`trade` with money to spend; what commands are about is made without the mirror."""
    spoiling, server = behind
    spoiling.weapon = HOSTILE
    settle_in(trade, server)
    keystores_cost_nothing(trade, monkeypatch)
    with TradeClient(api_key=trade.env["TRADE_API_KEY"], base_url=server.url) as client:
        yield Victim(Things(trade, client), spoiling)


@pytest.mark.long
@pytest.mark.parametrize(("words", "form"), [*product(CALLS, ("terminal", "json")), ("top --once", "terminal")])
def test_nothing_acts_through_any_command(victim: Victim, words: str, form: str) -> None:
    victim(words, form)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMATS)
@each_of("words", IN_ALL_FORMATS)
def test_nothing_acts_in_any_format(victim: Victim, words: str, form: str) -> None:
    victim(words, form)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in WEAPONS if name != "lone"])
@each_of("words", ["agents list", "agents get", "trades list", "mock key list"])
def test_each_weapon_alone(victim: Victim, name: str, words: str) -> None:
    victim.mirror.weapon = WEAPONS[name]
    victim(words, "terminal")


# How much


def test_a_name_of_100_kb_is_cut_on_a_terminal_and_whole_in_a_pipe(trade: Terminal, service: Scripted) -> None:
    name, token = "n" * 100_000, "i" * 100_000
    service.says(200, {"data": [agent(name, wallet_id=token), agent("calm")]})
    person = trade("agents", "list", tty=True, columns=140, env={"NO_COLOR": "1"})
    assert "n…  " in person.out or "n…\n" in person.out
    assert all(cell_len(line) <= 220 for line in person.out.splitlines())
    piped = trade("agents", "list", "-o", "table").out
    assert name in piped
    assert token in piped
    service.says(200, agent(name, risk={}, min_confidence=0.5, max_positions=1))
    person = trade("agents", "get", "agt_1", tty=True, columns=100, env={"NO_COLOR": "1"})
    assert "n… (100,000 characters; -o json has them all)" in person.out
    assert len(person.out) < 5000
    assert name in trade("agents", "get", "agt_1", "-o", "table").out


def test_a_long_id_is_whole_or_shortened_on_a_terminal(trade: Terminal, service: Scripted) -> None:
    long = "agt_" + "0123456789abcdef" * 8
    service.says(200, {"data": [agent("漢字" * 40, id=long, status="a status that nobody knows " * 4)]})
    for columns in (20, 60, 140, 250):
        run = trade("agents", "list", tty=True, columns=columns, env={"NO_COLOR": "1"})
        assert {long, "agt_01234567…"} & set(run.out.split()), "a beginning is taken as it is"


def test_numbers_without_end(trade: Terminal, service: Scripted) -> None:
    text = json.dumps(agent(risk={}, min_confidence=0.5, max_positions=1, total_pnl_usd=1e308, x=-0.0, deep=deep("d")))
    for digits in ("1" + "0" * 400, "1" + "0" * 4200, "1" + "0" * 6000, "0." + "1" * 5000, "1e400", "-1e-400"):
        service.says(200, text.replace("-0.0", digits).encode())
        for form in ("table", "json", "ndjson"):
            run = trade("agents", "get", "agt_1", "-o", form)
            harmless(run, form)
            assert run.code in (0, 10), run.err


@pytest.mark.parametrize("depth", [100, 100_000, *(pytest.param(n, marks=pytest.mark.long) for n in (190, 300, 3000))])
def test_depths_without_end(trade: Terminal, service: Scripted, depth: int) -> None:
    content = json.dumps(agent(risk={}, min_confidence=0.5, max_positions=1, x="DEEP"))
    for left, right in (("[", "]"), ('{"a":', "}")):
        service.says(200, content.replace('"DEEP"', left * depth + "1" + right * depth).encode())
        for form in ("table", "json", "ndjson"):
            run = trade("agents", "get", "agt_1", "-o", form)
            harmless(run, form)
            assert run.code in (0, 10), run.err


@each_of(
    "fields",
    [
        {"status": "hibernating", "chain_id": 99},
        {"created_at": 10**17},
        {"created_at": -(10**17)},
        {"updated_at": "soon", "stats": {"total_pnl_usd": 1e308, "win_rate_pct": -1e308, "x": [{"a": 1}, {}]}},
        {"risk": {"used": "1", "limit": True}, "x": {"used": 1, "limit": 0}, "y": [[], {}, None]},
        {"x": [{"used": 1, "limit": 2}, {"token_symbol": {"deep": [1]}}], "token_balances": [{"balance": "x"}, {}]},
    ],
)
def test_odd_values_in_any_field(trade: Terminal, service: Scripted, fields: dict[str, Any]) -> None:
    service.says(200, agent(risk={}, min_confidence=0.5, max_positions=1) | fields)
    for columns in (20, 100):
        run = trade("agents", "get", "agt_1", tty=True, columns=columns)
        assert "bug in trade" not in run.err, run.err
        assert run.code in (0, 10), run.err
    service.says(200, {"data": [agent(**fields)]})
    run = trade("agents", "list", tty=True, columns=100)
    assert run.code in (0, 10), run.err


# What is no result


@pytest.mark.parametrize(
    "status",
    [302, 402, 404, *(pytest.param(n, marks=pytest.mark.long) for n in (301, 400, 401, 403, 409, 418, 422, 429, 500))],
)
def test_errors_are_text_too(trade: Terminal, service: Scripted, status: int) -> None:
    trade.env |= {"TRADE_WALLET_KEY": BUYER_KEY, "TRADE_BUDGET_PER_DAY": "100", "NO_COLOR": "1"}
    for code, message in ((HOSTILE, HOSTILE), (WEAPONS["long"], WEAPONS["long"]), ("", HOSTILE)):
        service.fails(status, code, message, Location="https://evil.test/%1b%5b2J", Retry_After="0")
        for argv in (("agents", "list"), ("market", "metrics")):
            for tty in (True, False):
                run = trade(*argv, tty=tty)
                harmless(run, "terminal")
                assert run.code not in (0, 1)
                assert len(run.err) < 3000


# Words in headers, variables, arguments and names of files


@each_of("value", ["", "NaN", "-1", "1e309", "9" * 400, "soon", "0x10", "1;2", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_junk_in_headers_is_no_crash(trade: Terminal, service: Scripted, value: str) -> None:
    limits = {"X-RateLimit-Limit": value, "X-RateLimit-Remaining": value, "X-RateLimit-Reset": value}
    service.says(200, {"data": [agent()]}, **limits)
    run = trade("agents", "list", "-vv", "-o", "table")
    assert run.code == 0, run.err
    harmless(run, "table")
    service.fails(429, "rate_limited", "slow down", Retry_After=value, **limits)
    run = trade("agents", "list", "-o", "table")
    assert run.code == 9, run.err
    harmless(run, "table")


def test_what_stands_in_the_environment_is_text_too(trade: Terminal, service: Scripted) -> None:
    weapon = HOSTILE.replace("\0", "")
    for name in ("TRADE_BASE_URL", "TRADE_API_KEY", "TRADE_MOCK", "TRADE_MARKET_BASE_URL", "TRADE_BUDGET_PER_DAY"):
        for tty in (True, False):
            for argv in (("agents", "list"), ("market", "metrics")):
                run = trade(*argv, tty=tty, env={name: weapon, "NO_COLOR": "1"})
                harmless(run, "terminal")
                assert run.code != 1, run.err
    for name in ("TERM", "LANG", "TRADE_PROFILE", "TRADE_KEYSTORE"):
        run = trade("agents", "list", env={name: weapon, "NO_COLOR": "1"})
        harmless(run, "terminal")


def test_words_that_are_not_utf8(trade: Terminal, service: Scripted) -> None:
    odd = os.fsdecode(b"a\xff\xfe\x1b[2J")
    service.says(200, {"data": [agent()]})
    for line in (
        "agents get ODD",
        "agents list --cursor ODD",
        "agents list --profile ODD",
        "agents list --world ODD",
        "agents update agt_1 --name ODD --yes",
        "agents create --name ODD --wallet-id ODD --chain base --yes",
        "signals stream --chain base --duration 1s --token ODD",
        "market prices ODD",
        "market tokens --world x --network ODD",
        "pay show ODD",
        "mock fault add ODD",
        "--base-url http://127.0.0.1:1/ODD agents list",
        "ODD",
        "--ODD",
    ):
        argv = [word.replace("ODD", odd) for word in line.split()]
        for tty in (True, False):
            run = trade(*argv, tty=tty, env={"NO_COLOR": "1"})
            harmless(run, "terminal")
            assert run.code != 130


def test_names_of_files_are_text_too(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()]})
    odd = "a\n\x1b[2J\u202e漢.json"
    run = trade("agents", "list", "--out", str(trade.home / odd), tty=True, env={"NO_COLOR": "1"})
    harmless(run, "terminal")
    assert run.code == 0, run.err
    assert (trade.home / odd).exists()
    missing = trade("agents", "list", "--out", str(trade.home / odd / "x"), tty=True, env={"NO_COLOR": "1"})
    harmless(missing, "terminal")
    assert missing.code != 0
