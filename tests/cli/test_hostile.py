"""Everything that a service says is a stranger's text: through every command and format nothing of it acts."""

import csv
import io
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from tradesdk_mock import MockServer

from .._rows import each_of
from .._texts import HOSTILE, WEAPONS
from ._hostile import Mirror, deep, harmless, mirror
from ._services import Scripted, agent
from ._terminal import Run, Terminal
from .conftest import BUYER_KEY
from .test_help import LEAVES

FORMATS = ("table", "json", "ndjson", "csv", "tsv")
QUICK = (
    "account usage",
    "agents list",
    "agents get AGENT",
    "wallets balance WALLET",
    "trades list",
    "positions list",
    "signals stream --chain base --since 6h --count 2 --duration 5s",
    "mock status",
    "mock key list",
)

# AGENT, IDLE, WALLET, TRADE and SIGNAL stand for what there is. Codes: how it may end, 0 where nothing is said.
CALLS: dict[str, tuple[int, ...]] = {
    "account show": (),
    "account usage": (),
    "agents list": (),
    "agents get AGENT": (),
    "agents update IDLE --name x --yes": (),
    "agents create --name n --wallet-id WALLET --chain base --yes": (),
    "wallets list": (),
    "wallets balance WALLET": (),
    "trades list": (),
    "trades get TRADE": (),
    "positions list": (),
    "signals latest --chain base": (),
    "signals history --chain base": (),
    "signals stream --chain base --since 6h --count 2 --duration 5s": (),
    "market prices ETH AERO": (),
    "market signals ETH": (),
    "market history AERO": (),
    "market win-rate ETH": (),
    "market avg-prices ETH": (),
    "market top --sort winRate": (),
    "market metrics": (),
    "market tokens --limit 20": (),
    "pay quote prices ETH": (),
    "pay history": (),
    "pay budget": (),
    "pay reconcile": (),
    "mock status": (),
    "mock clock": (),
    "mock fault add latency": (),
    "mock fault list": (),
    "mock fault kinds": (),
    "mock fault clear": (),  # else everything from here on takes the second that was added
    "mock emit --chain base": (),
    "mock key create --name x": (),
    "mock key list": (),
    "mock logs": (),
    "mock gaps": (),
    "mock payments list": (),
    "mock payments balances": (),
    "mock payments check": (1,),  # it says that something was charged twice
    "mock tenant populate other": (),
    "mock agent start IDLE": (7,),  # it runs already, from the second time on
    "wallets connect --label main --chain base --yes": (7,),  # it is connected already, from the second time on
    "agents delete IDLE --yes": (7,),  # it is active by now
    "api GET /v1/agents": (),
    "whoami": (),
    "top --once": (2,),  # a board has no other format
    "plot token SIGNAL --chain base": (6,),
    "plot agent AGENT": (),
}


class Spoiled(NamedTuple):
    """A mirror before a mock, and what there is behind it."""

    mirror: Mirror
    ids: dict[str, str]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Spoiled]:
    """A mock behind a mirror that spoils what it says."""
    with mirror() as spoiled, MockServer(signals="scripted") as server:
        spoiled.behind = server.url
        server.populate("shared")
        import httpx

        headers = {"Authorization": "Bearer mock_full_shared"}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as asking:

            def first(path: str, **query: str) -> Any:
                return asking.get(path, params=query).json()["data"][0]

            ids = {
                "AGENT": first("/v1/agents", status="active")["id"],
                "IDLE": first("/v1/agents", status="idle")["id"],
                "WALLET": first("/v1/wallets", chain_id="8453")["id"],
                "TRADE": first("/v1/trades")["id"],
                "SIGNAL": first("/v1/signals", chain="8453")["token_symbol"],
            }
        yield Spoiled(spoiled, ids)


@pytest.fixture
def victim(trade: Terminal, hostile: Spoiled) -> Terminal:
    """`trade` at the mirror, with money to spend."""
    hostile.mirror.weapon, hostile.mirror.statuses = HOSTILE, (200, 201)
    trade.env |= {
        "TRADE_BASE_URL": hostile.mirror.url,
        "TRADE_API_KEY": "mock_full_shared",
        "TRADE_WALLET_KEY": BUYER_KEY,
        "TRADE_BUDGET_PER_DAY": "100",
        "NO_COLOR": "1",
    }
    return trade


def words_of(line: str, ids: dict[str, str]) -> list[str]:
    return [ids.get(word, word) for word in line.split()]


def exists(line: str) -> bool:
    words = line.split()
    return any(tuple(words[:length]) in LEAVES for length in (1, 2, 3))


def check(run: Run, line: str, form: str, codes: tuple[int, ...]) -> None:
    harmless(run, form)
    if form == "json" and line.startswith("signals stream"):
        assert run.code == 2, "a stream is no array"
        return
    assert run.code in (0, *codes), (line, run.code, run.err)
    if run.code:
        return
    if form == "json" and run.out:
        json.loads(run.out)
    if form == "ndjson":
        assert all(isinstance(json.loads(found), (dict, list)) for found in run.out.splitlines())
    if form == "csv":
        for row in csv.reader(io.StringIO(run.out, newline="")):
            assert not any(cell.startswith(("=", "@", "\t", "\r")) for cell in row), row


def through(victim: Terminal, hostile: Spoiled, line: str, form: str) -> None:
    argv = words_of(line, hostile.ids)
    run = victim(*argv, tty=True, columns=100) if form == "terminal" else victim(*argv, "-o", form)
    check(run, line, form, CALLS[line])


@pytest.mark.long
@pytest.mark.parametrize("form", ["terminal", "json"])
def test_nothing_acts_through_any_command(victim: Terminal, hostile: Spoiled, form: str) -> None:
    for line in CALLS:
        if exists(line):
            through(victim, hostile, line, form)


@pytest.mark.long
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_nothing_acts_in_any_format(victim: Terminal, hostile: Spoiled, form: str) -> None:
    for line in QUICK:
        through(victim, hostile, line, form)


def test_every_command_that_talks_is_called_here() -> None:
    silent = {"demo", "doctor", "login", "logout", "help", "completion"}
    silent |= {"fleet"}  # of the service it has signals only, as signals stream
    silent |= {"mcp", "approve"}  # what agents and people see there: test_mcp_hostile.py
    called = {tuple(line.split()) for line in CALLS}
    kinds = {words[0] for words in LEAVES if words[0] not in silent} - {"config"}
    assert kinds <= {words[0] for words in called}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in WEAPONS if name != "lone"])
def test_each_weapon_alone(victim: Terminal, hostile: Spoiled, name: str) -> None:
    hostile.mirror.weapon = WEAPONS[name]
    for line in ("agents list", "agents get AGENT", "trades list", "mock key list"):
        through(victim, hostile, line, "terminal")


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
