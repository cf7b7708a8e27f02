"""`trade` in a fleet: tables, relay, status, groups, a shared ledger and rate limit; and a server that is away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from tradesdk import StreamSignal, SystemClock
from tradesdk._fleet.bodies import stored
from tradesdk._fleet.signals import Relay
from tradesdk._postgres.server import server
from tradesdk.fleet import FleetSignals, create_tables
from tradesdk_mock import MockServer

from .._ports import free_port
from .._postgres import Postgres
from .._rows import each_of
from .._stock import stocked
from ._streams import emit, ids, said
from ._terminal import Terminal

AWAY = ["fleet status", "fleet init", "fleet relay --chain base", "signals stream --chain base --group bots"]
AWAY += ["pay history", "pay budget", "market prices ETH --max-price 1", "agents list"]


@pytest.fixture
def member(trade: Terminal, market: MockServer, database: str) -> Terminal:
    """A shell on a machine of a fleet that has tables."""
    create_tables(database)
    trade.env |= {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": market.url, "TRADE_WALLET_KEY": "0x" + "6b" * 32}
    trade.env["TRADE_FLEET"] = database.replace("postgres@", "postgres:swordfish@")
    return trade


@contextmanager
def relayed(market: MockServer, database: str, *made: str) -> Iterator[None]:
    """Stores these signals of the mock, as a relay does."""
    relay = Relay(server(database), 8453, market.url, lease=60, keep=3600)
    relay.take(market.clock.now())
    for group in ("bots", "buyers"):
        with FleetSignals(chain=8453, group=group, base_url=market.url, url=database) as first:
            first._member.look()
    headers = {"Authorization": "Bearer mock_full_me"}
    page = httpx.get(f"{market.url}/v1/signals/history?chain=8453", headers=headers, trust_env=False)
    for one in reversed(page.json()["data"]):
        if one["id"] in made:
            relay.add(stored(StreamSignal.model_validate({"type": "signal", **one})))
    try:
        yield
    finally:
        relay.link.close()


def test_init_creates_the_tables_once(trade: Terminal, database: str) -> None:
    trade.env["TRADE_FLEET"] = database
    missing = trade("fleet", "status", "-o", "json")
    assert (missing.code, missing.problem["code"]) == (3, "fleet_lost")
    assert missing.problem["hint"].endswith("trade fleet init")
    for command in ("pay", "budget"), ("pay", "history"):
        lost = trade(*command, "-o", "json").problem
        assert (lost["code"], lost["hint"].rpartition(": ")[2]) == ("ledger_lost", "trade fleet init")
    assert [trade("fleet", "init", "-o", "json").json["created"] for _ in range(2)] == [True, False]
    assert trade("pay", "budget").code == 0


@each_of("command", AWAY)
def test_a_server_that_is_away_is_said_by_every_command(trade: Terminal, server: MockServer, command: str) -> None:
    trade.env |= {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url, "TRADE_WALLET_KEY": "0x" + "6b" * 32}
    trade.env["TRADE_FLEET"] = f"postgresql://me:swordfish@127.0.0.1:{free_port()}/bots?password=swordfish"
    run = trade(*command.split())
    assert run.code == 11
    assert "swordfish" not in run.out + run.err
    problem = json.loads(run.err.splitlines()[-1])
    assert problem["code"] in ("fleet_unreachable", "ledger_unreachable")
    assert problem["retryable"]
    assert "trade config list --sources" in problem["hint"]


def test_no_fleet_says_how_to_have_one(trade: Terminal, database: str) -> None:
    run = trade("fleet", "status", "-o", "json")
    assert (run.code, "TRADE_FLEET" in run.problem["message"]) == (3, True)
    trade.env["TRADE_FLEET"] = database
    mock = trade("--mock", "fleet", "status", "-o", "json")
    assert (mock.code, mock.problem["message"]) == (3, "a mock world belongs to no fleet")
    trade.env["TRADE_FLEET"] = "redis://db.example"
    wrong = trade("fleet", "status", "-o", "json").problem
    assert wrong["hint"] == "correct TRADE_FLEET; it looks like postgresql://USER@HOST:5432/DATABASE"


def test_a_profile_names_the_fleet_without_a_password(trade: Terminal, database: str) -> None:
    trade("login", "--mock", "--profile", "work")
    refused = trade("config", "set", "fleet_url", "postgresql://me:swordfish@db/bots", "--profile", "work")
    assert (refused.code, "swordfish" in refused.err, "~/.pgpass" in refused.err) == (2, False, True)
    assert trade("config", "set", "fleet_url", database, "--profile", "work").code == 0
    found = trade("config", "get", "fleet_url", "--profile", "work", "-o", "json")
    assert database.partition("@")[2].rstrip("?") in found.out


@each_of("password", ["sword/fish", "sword@fish", "12/fish", "sword?fish", "sword#fish"])
def test_a_password_with_any_character_is_not_shown(trade: Terminal, password: str) -> None:
    url = f"postgresql://me:{password}@127.0.0.1:{free_port()}/bots"
    trade("login", "--mock", "--profile", "work")
    refused = trade("config", "set", "fleet_url", url, "--profile", "work")
    trade.env["TRADE_FLEET"] = url
    used = trade("fleet", "status", "-o", "json")
    assert refused.code == 2
    assert used.code in (3, 11)
    assert "fish" not in refused.out + refused.err + used.out + used.err


def test_groups_share_signals(member: Terminal, market: MockServer, database: str) -> None:
    stream = ("signals", "stream", "--chain", "base", "--group", "bots", "--count", "2")
    made = emit(market, 5)
    with relayed(market, database, *made):
        one, other = member(*stream), member(*stream)
        assert ids(one) + ids(other) == made[:4]
        assert [line["redelivered"] for line in one.lines + other.lines] == [False] * 4
        assert "swordfish" not in one.err
        with FleetSignals(chain=8453, group="bots", base_url=market.url, url=database) as dead:
            assert next(dead).id == made[4]  # type: ignore[union-attr]
            dead._taken = None  # it ends without having finished it
        last = member(*stream[:-1], "1", "--exec", "echo {id}", "-o", "csv")
        assert last.code == 0
        assert f"{made[4]}" in last.out
        assert last.out.splitlines()[0].endswith("replayed,late,redelivered")
        assert last.out.splitlines()[-1].endswith("true")
    assert member(*stream, "--since", "last").code == 2


def test_what_a_filter_leaves_out_is_done(member: Terminal, market: MockServer, database: str) -> None:
    made = [market.emit_signal(direction=way, confidence=0.9).id for way in ("SELL", "BUY", "SELL", "BUY")]
    with relayed(market, database, *made):
        stream = ("signals", "stream", "--chain", "base", "--group", "buyers", "--direction", "buy")
        run = member(*stream, "--min-confidence", "0.5", "--count", "2")
        assert ids(run) == [made[1], made[3]]
        assert said(run, "summary")[0]["filtered"] == 2
        group = member("fleet", "status", "-o", "json").json["groups"][1]
        assert group["name"] == "buyers"
        assert (group["waiting"], group["in_hand"], group["late"]) == (0, 0, 0)


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_group_that_nobody_relays_for_says_so(member: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk._sync.concurrency.Interruptible.readable", stopped)  # where it waits for signals
    run = member("signals", "stream", "--chain", "base", "--group", "bots")
    assert run.code == 130
    assert said(run, "unrelayed")


@pytest.mark.long
def test_a_group_ends_after_a_time(member: Terminal) -> None:
    run = member("signals", "stream", "--chain", "base", "--group", "bots", "--duration", "0.3s")
    assert (run.code, run.out) == (0, "")


def test_a_relay_says_what_it_does(member: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relay, "renew", lambda relay: None)
    monkeypatch.setattr("tradesdk._sync.signal_stream.SignalStream.__next__", stopped)
    run = member("fleet", "relay", "--chain", "base", "--lease", "10m")
    assert run.code == 130
    assert '"type":"relay_leads"' in run.err
    (relay,) = member("fleet", "status", "-o", "json").json["relays"]
    assert not relay["is_working"], "it has given its lease back"


@pytest.fixture
def seller() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as running:
        stocked(running)
        yield running


def test_one_ledger_and_one_limit_for_two_machines(member: Terminal, seller: MockServer) -> None:
    member.env["TRADE_BASE_URL"] = seller.url
    assert member("pay", "budget", "set", "--total", "0.05", "--yes").code == 0
    bought = member("market", "prices", "ETH", "--purchase", "a", "-o", "json")
    assert bought.code == 0, bought.err
    elsewhere = member.home.parent / "elsewhere"
    there = {"TRADE_HOME": str(elsewhere)}
    again = member("market", "prices", "ETH", "--purchase", "b", "-o", "json", env=there)
    assert (again.code, again.problem["code"]) == (12, "over_budget")
    (payment,) = member("pay", "history", "-o", "json", env=there).json
    assert payment["purchase"] == "a"
    assert not [*elsewhere.glob("ledger*")]
    assert member("agents", "list", env=there).code == 0
    status = member("fleet", "status", "-o", "json").json
    assert status["money"]["spent_total_usd"] == "0.03"
    assert status["windows"][0]["limit"] == 300
    assert "swordfish" not in json.dumps(status)


def test_status_for_people(member: Terminal, market: MockServer, database: str) -> None:
    """Relays, groups and members first; times from now, and money as `pay budget` shows it."""
    empty = member("fleet", "status", tty=True).out
    for said_so in ("no relay stores signals: trade fleet relay", "no group reads signals", "no rate limit is known"):
        assert said_so in empty
    with relayed(market, database, *emit(market, 1)):
        with psycopg.connect(database, autocommit=True) as db:
            db.execute("UPDATE tradesdk.signals SET time = extract(epoch FROM clock_timestamp()) - 28")
        for width in ("100", "60"):
            screen = member("fleet", "status", tty=True, env={"COLUMNS": width, "TERM": "dumb"}).out
            heads = [line for line in screen.splitlines() if line in ("relays", "groups", "members", "rate limits")]
            assert heads == ["relays", "groups", "members", "rate limits"]
            assert max(map(len, screen.splitlines()[:-1])) <= int(width)  # the last has the URL, whole
            for part in ("base   working", " s ago", "bots", "buyers", "relay/8453"):
                assert part in screen
            assert member("pay", "budget", tty=True, env={"COLUMNS": width, "TERM": "dumb"}).out.strip() in screen
            assert f"postgresql://127.0.0.1:{database.rpartition(':')[2].split('/')[0]}" in screen.splitlines()[-1]


def test_status_shows_what_it_may_read(member: Terminal, postgres: Postgres, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS looker")
        db.execute("CREATE ROLE looker LOGIN")
        db.execute("GRANT USAGE ON SCHEMA tradesdk TO looker")
        db.execute("GRANT SELECT ON tradesdk.relays, tradesdk.signals TO looker")
    member.env["TRADE_FLEET"] = database.replace("postgres@", "looker@")
    del member.env["TRADE_BASE_URL"]  # the doctor would look at all that the service has
    run = member("fleet", "status", "-o", "json")
    assert run.code == 0
    assert set(run.json["unread"]) == {"groups", "members", "windows", "money"}
    assert (run.json["relays"], run.json["money"], "groups" in run.json) == ([], None, False)
    assert "this user may not read: groups" in member("fleet", "status", tty=True).err
    doctor = member("doctor", "-o", "json")
    (fleet,) = (one for one in doctor.json if one["check"] == "fleet")
    assert (fleet["status"], fleet["next"]) == ("problem", "grant the rights of docs/fleet.md to this user")
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("DROP OWNED BY looker")
        db.execute("DROP ROLE looker")


def test_doctor_checks_the_server(member: Terminal, monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    def fleet() -> dict[str, object]:
        (found,) = (one for one in member("doctor", "-o", "json").json if one["check"] == "fleet")
        return dict(found)

    del member.env["TRADE_BASE_URL"]  # it would look at all that the service has
    good = fleet()
    assert (good["status"], "synced" in str(good["message"])) == ("ok", True)
    assert "swordfish" not in str(good)
    member.env["TRADE_FLEET"] = database + "options=-csynchronous_commit%3Doff"
    assert "synchronous_commit = off" in str(fleet()["message"])
    member.env["TRADE_FLEET"] = database
    monkeypatch.setattr(SystemClock, "now", lambda _: time.time() - 100)
    assert "100 s ahead of" in str(fleet()["message"])
