"""Several machines in the terminal: one budget, one rate limit, one stream, on a real server."""

from __future__ import annotations

import getpass
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tradesdk_cli.stream.watchdog as watchdog
from tradesdk import LocalSigner, SystemClock, TradeClient, create_keystore
from tradesdk.fleet import RedisRateLimiter, SignalRelay
from tradesdk_cli.choices import Format
from tradesdk_mock import MockServer

from .._redis_server import RedisServer
from .._rows import each_of
from ._hostile import harmless
from ._services import HOSTILE, Scripted
from ._streams import ctrl_c_when_said, over_when_said
from ._terminal import Run, Terminal
from .conftest import BUYER_KEY

PASSWORD = "marked-and-never-shown"


def second(trade: Terminal, monkeypatch: pytest.MonkeyPatch, folder: Path, **env: str) -> Terminal:
    """Another machine: the same environment, with files of its own."""
    other = Terminal(monkeypatch, folder)
    other.env = trade.env | {"TRADE_HOME": str(folder)} | env
    return other


# Money


def test_machines_share_budget_and_payments(fleet: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = second(fleet, monkeypatch, tmp_path / "other")
    asked = fleet("pay", "budget", "set", "--per-day", "0.05")
    assert asked.json["left_today_usd"] == "0.05"
    assert asked.notes[0]["target"] == {"mode": "ledger", "ledger": fleet.env["TRADE_FLEET"]}
    assert fleet("market", "prices", "ETH").code == 0
    refused = other("market", "prices", "BRETT")
    assert (refused.code, refused.problem["code"]) == (12, "over_budget")
    [paid] = other("pay", "history").lines
    assert other("pay", "show", paid["id"]).json["state"] == "delivered"
    assert other("pay", "budget").json["spent_today_usd"] == "0.03"
    assert other("pay", "resume", paid["id"]).lines[0]["symbol"] == "ETH", "each answer is kept, for all"
    assert [file.name for file in tmp_path.rglob("ledger.sqlite3")] == [], (
        "nothing is written beside the fleet's ledger"
    )


def test_what_the_server_lost_is_put_back(fleet: Terminal, fleet_server: RedisServer) -> None:
    assert fleet("market", "prices", "ETH", "--max-price", "0.03").code == 0
    fleet_server.command("FLUSHALL")
    refused = fleet("market", "prices", "BRETT", "--max-price", "0.03")
    assert (refused.code, refused.problem["code"]) == (3, "ledger_went_back")
    assert refused.problem["hint"].startswith("trade pay reconcile ")
    mended = fleet("pay", "reconcile")
    assert [row["outcome"] for row in mended.lines] == ["restored"]
    assert "newer budget" in mended.notes[-1]["note"], "this machine cannot know what others saw"
    assert mended.code == 0
    assert fleet("pay", "budget").json["spent_total_usd"] == "0.03"
    assert fleet("market", "prices", "BRETT", "--max-price", "0.03").code == 0


def test_a_budget_that_is_used_up_stays_so_when_the_server_lost_everything(
    fleet: Terminal, fleet_server: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = second(fleet, monkeypatch, tmp_path / "other")
    assert fleet("pay", "budget", "set", "--total", "0.09").code == 0
    for machine, token in ((fleet, "ETH"), (other, "BRETT"), (fleet, "TOSHI")):
        assert machine("market", "prices", token, "--max-price", "0.03").code == 0
    recipients = fleet("pay", "trust", "0x" + "1" * 40, "--yes").json["accepted"]
    assert len(recipients) == 2
    fleet_server.command("FLUSHALL")
    assert [machine("pay", "reconcile").code for machine in (other, fleet)] == [0, 0]
    for machine in (fleet, other):
        refused = machine("market", "prices", "AERO", "--max-price", "0.03")
        assert (refused.code, refused.problem["code"], refused.problem["charged"]) == (12, "over_budget", False)
    found = other("pay", "budget").json
    assert (found["spent_total_usd"], found["left_total_usd"]) == ("0.09", "0.00")
    assert other("pay", "trust", recipients[1], "--yes").json["accepted"] == recipients


def test_the_purchase_secret_has_to_be_known(fleet: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fleet("market", "prices", "ETH", "--max-price", "0.03").code == 0
    known = fleet.env.pop("TRADE_WALLET_KEY")
    none = fleet("pay", "history")
    assert (none.code, none.problem["code"]) == (3, "configuration")
    assert "TRADE_WALLET_KEY" in none.problem["hint"]
    password = tmp_path / "password"
    password.write_text("pw\n")
    password.chmod(0o600)
    env = {"TRADE_KEYSTORE_PASSWORD_FILE": str(password)}
    create_keystore(fleet.home / "keystore.json", "pw", known, work=2)
    typed = ["pw"]
    monkeypatch.setattr(getpass, "getpass", lambda prompt="", stream=None: typed.pop())
    locked = fleet("pay", "history")
    assert (locked.code, locked.problem["code"]) == (3, "configuration")
    assert "purchase secret" in locked.problem["message"]
    assert "TRADE_PURCHASE_SECRET" in locked.problem["hint"]
    assert "TRADE_KEYSTORE_PASSWORD_FILE" in locked.problem["hint"]
    assert len(fleet("pay", "history", env=env).lines) == 1
    assert len(fleet("pay", "history", answers="").lines) == 1
    assert typed == [], "asked for at a terminal"
    another = fleet("pay", "history", env={"TRADE_PURCHASE_SECRET": "ab" * 32})
    assert (another.code, another.problem["code"]) == (12, "purchase_secret_changed")


@pytest.mark.long
def test_two_processes_use_a_budget_up_exactly(
    fleet: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fleet("pay", "budget", "set", "--per-day", "0.17").code == 0
    ends: list[Run] = []

    def buy(machine: Terminal) -> None:
        while True:
            ends.append(machine.process("market", "prices", "ETH"))
            if ends[-1].code != 0:
                return

    machines = (fleet, second(fleet, monkeypatch, tmp_path / "other"))
    threads = [threading.Thread(target=buy, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run.code for run in ends) == [0] * 5 + [12] * 2, ends
    assert len(shop.payments.settlements()) == 5
    left = fleet("pay", "budget").json
    assert (left["spent_today_usd"], left["held_today_usd"], left["left_today_usd"]) == ("0.15", "0.00", "0.02")
    assert len(fleet("pay", "history").lines) == 5


# One rate limit


def test_a_wait_says_how_many_share_the_window(
    trade: Terminal, fleet_server: RedisServer, service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet_server.command("FLUSHALL")
    trade.env["TRADE_FLEET"] = fleet_server.url
    slept: list[float] = []

    def sleep(clock: SystemClock, seconds: float) -> None:
        slept.append(seconds)
        if seconds > 1:
            fleet_server.command("DEL", *fleet_server.command("KEYS", "*:rate"))  # a new window

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    reset = str(int(time.time()) + 30)
    service.says(200, {"data": []}, X_RateLimit_Limit="60", X_RateLimit_Remaining="0", X_RateLimit_Reset=reset)
    with (
        RedisRateLimiter(fleet_server.url) as limiter,
        TradeClient(api_key=trade.env["TRADE_API_KEY"], base_url=service.url, rate_limiter=limiter) as other,
    ):
        other.agents.list().first()
        assert trade("wallets", "list").code == 0
        person = trade("agents", "list", tty=True, columns=200, env={"NO_COLOR": "1"})
        assert person.code == 0
        told = r"waiting \d+ s, until \d\d:\d\d:\d\dZ: the rate limit is used up by the 2 members that share it"
        assert re.search(told, person.err), "commands that have ended are no members any more"
        assert len([wait for wait in slept if wait > 1]) == 2


def test_without_the_server_the_rate_limit_is_not_shared_and_that_is_said(fleet: Terminal) -> None:
    ended = fleet("account", "show", "--fleet", "redis://127.0.0.1:1")
    assert ended.code == 0, "a rate is no money"
    [told] = ended.notes
    assert told["type"] == "rate_limit_alone"
    assert "nothing listens at redis://127.0.0.1:1" in told["note"]


# One stream


@pytest.fixture
def client(fleet: Terminal) -> Iterator[TradeClient]:
    """The SDK's client at the same service."""
    with TradeClient(api_key=fleet.env["TRADE_API_KEY"], base_url=fleet.env["TRADE_BASE_URL"]) as made:
        yield made


@pytest.fixture
def relayed(fleet: Terminal, client: TradeClient, shop: MockServer) -> Iterator[SignalRelay]:
    """A relay elsewhere in the fleet, and a group that has begun."""
    with client.signals.relay(chain=8453, redis=fleet.env["TRADE_FLEET"], settle=0.2) as relay:
        until(lambda: relay.stats.relaying)
        client.signals.shared(chain=8453, group="bots", redis=fleet.env["TRADE_FLEET"]).__enter__().__exit__(*NO_ERROR)
        yield relay


NO_ERROR = (None, None, None)
STREAM = ("signals", "stream", "--chain", "base", "--group", "bots")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def emit(shop: MockServer, relay: SignalRelay, *symbols: str) -> None:
    """Signals for these tokens, one after the other, as far as the relay."""
    for symbol in symbols:
        before = relay.stats.published
        shop.emit_signal(chain_id=8453, token=symbol)
        until(lambda before=before: relay.stats.published > before)  # type: ignore[misc]


def test_each_signal_goes_to_one_member_and_no_place_is_kept_here(
    fleet: Terminal, shop: MockServer, relayed: SignalRelay, tmp_path: Path
) -> None:
    emit(shop, relayed, "ETH", "BRETT", "TOSHI")
    first = fleet(*STREAM, "--count", "2")
    assert [(line["token_symbol"], line["redelivered"]) for line in first.lines] == [("ETH", False), ("BRETT", False)]
    file = tmp_path / "signals.ndjson"
    second = fleet(*STREAM, "--count", "1", "--out", str(file))
    assert second.code == 0
    emit(shop, relayed, "ETH")
    assert fleet(*STREAM, "--count", "1", "--out", str(file)).code == 0
    kept = [json.loads(line)["token_symbol"] for line in file.read_text().splitlines()]
    assert kept == ["TOSHI", "ETH"], "the file continues with the group"
    assert not (fleet.home / "checkpoints").exists()


def test_what_a_dead_member_had_is_marked(
    fleet: Terminal, shop: MockServer, client: TradeClient, relayed: SignalRelay
) -> None:
    emit(shop, relayed, "ETH")
    with client.signals.shared(chain=8453, group="bots", redis=fleet.env["TRADE_FLEET"], manual_ack=True) as dead:
        had = next(dead)
    ended = fleet(*STREAM, "--count", "1")
    [again] = ended.lines
    assert (again["id"], again["redelivered"]) == (had.id, True)
    summary = ended.notes[-1]
    assert (summary["type"], summary["redelivered"]) == ("summary", 1)
    assert "1 redelivered" in summary["note"]
    emit(shop, relayed, "ETH")
    with client.signals.shared(chain=8453, group="bots", redis=fleet.env["TRADE_FLEET"], manual_ack=True) as dead:
        next(dead)
    assert "redelivered" in fleet(*STREAM, "--count", "1", tty=True, columns=200).out, "in the column source"


def test_a_duration_is_over_although_the_server_is_away(fleet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    over_when_said(monkeypatch, "waiting")
    ended = fleet(*STREAM, "--duration", "0.1s", "--fleet", "redis://127.0.0.1:1")
    assert (ended.code, ended.out) == (0, "")
    assert [note["type"] for note in ended.notes] == ["waiting", "summary"]


def test_without_a_relay_that_is_said(fleet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    over_when_said(monkeypatch, "connected")
    ended = fleet(*STREAM, "--duration", "0.1s")
    assert (ended.code, ended.out) == (0, "")
    assert [note["type"] for note in ended.notes] == ["no_relay", "connected", "summary"]
    assert re.fullmatch(r"connected as \S+:\d+:[0-9a-f]{8}", ended.notes[1]["note"]), "the name that fleet status has"
    assert "trade fleet relay --chain base" in ended.notes[0]["note"]


@each_of("more", [("--since", "1h"), ("--since", "last"), ("--checkpoint", "c"), ("--heartbeats",)])
def test_what_the_fleet_keeps_is_not_kept_here_as_well(fleet: Terminal, more: tuple[str, ...]) -> None:
    ended = fleet(*STREAM, *more)
    assert (ended.code, ended.problem["code"]) == (2, "usage")
    assert ended.problem["message"].startswith(f"{more[0]} does not go with --group")


def test_a_relay_says_what_it_does(fleet: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    relays: list[SignalRelay] = []
    really = SignalRelay.__enter__

    def entered(relay: SignalRelay) -> SignalRelay:
        relays.append(relay)
        return really(relay)

    def now() -> float:
        return math.inf if relays[0].stats.published else 0.0

    monkeypatch.setattr(SignalRelay, "__enter__", entered)
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=now))  # over when the signal was relayed

    def publish() -> None:
        until(lambda: shop.status()["streams"] == 1)
        shop.emit_signal(chain_id=8453, token="ETH")

    until(lambda: shop.status()["streams"] == 0)  # those of other tests are forgotten
    publishing = threading.Thread(target=publish)
    publishing.start()
    ended = fleet("fleet", "relay", "--chain", "base", "--duration", "2s")
    publishing.join()
    assert (ended.code, ended.out) == (0, "")
    assert [note["type"] for note in ended.notes] == ["relay_started", "summary"], (
        "what broke off at the end is no news"
    )
    assert {name: ended.notes[-1][name] for name in ("signals", "duplicates", "terms")} == {
        "signals": 1,
        "duplicates": 0,
        "terms": 1,
    }


def test_a_relay_that_waits_says_who_relays(
    fleet: Terminal, relayed: SignalRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_when_said(monkeypatch, "relay_waits")
    ended = fleet("fleet", "relay", "--chain", "base", "--duration", "1s")
    assert [note["type"] for note in ended.notes] == ["relay_waits", "summary"]
    assert ended.notes[0]["relayed_by"] == relayed.member
    assert "never had the lease" in ended.notes[-1]["note"]
    person = fleet("fleet", "relay", "--chain", "base", "--duration", "1s", tty=True, columns=200)
    assert "waiting to relay base, 0 signals so far" in person.err


def test_a_relay_waits_for_its_server_and_says_so_once(fleet: Terminal) -> None:
    ended = fleet("fleet", "relay", "--chain", "base", "--duration", "2s", "--fleet", "redis://127.0.0.1:1")
    assert [note["type"] for note in ended.notes] == ["waiting", "summary"]
    assert "nothing listens at redis://127.0.0.1:1" in ended.notes[0]["note"]


def test_ctrl_c_ends_relay_and_member(fleet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, told in ((("fleet", "relay", "--chain", "base"), "relay_started"), (STREAM, "connected")):
        with ctrl_c_when_said(monkeypatch, told):
            ended = fleet(*words)
        assert (ended.code, ended.out) == (130, "")
        assert ended.notes[-1]["type"] == "summary", ended.err
    assert fleet("fleet", "status").json["relays"][0]["relayed_by"] is None, "the lease was given back"


# What is shared


def test_status_shows_all_of_it(fleet: Terminal, shop: MockServer, client: TradeClient, relayed: SignalRelay) -> None:
    assert fleet("market", "prices", "ETH", "--max-price", "0.03").code == 0
    assert fleet("pay", "budget", "set", "--per-day", "1").code == 0
    emit(shop, relayed, "ETH", "BRETT")
    sent = len(shop.journal())
    with client.signals.shared(
        chain=8453, group="bots", redis=fleet.env["TRADE_FLEET"], member="one", manual_ack=True
    ) as member:
        next(member)
        ended = fleet("fleet", "status")
        person = fleet("fleet", "status", tty=True, columns=120, env={"NO_COLOR": "1"})
    assert len(shop.journal()) == sent, "nothing was sent to the service"
    found = ended.json
    assert (found["server"]["engine"], found["server"]["durable"]) == ("valkey", True)
    assert abs(found["server"]["clock_difference_seconds"]) < 20
    assert (found["money"]["spent_total_usd"], found["money"]["left_today_usd"]) == ("0.03", "0.97")
    assert found["money"]["wallet"] == LocalSigner.from_key(BUYER_KEY).address
    base, bnb = found["relays"]
    assert (base["chain"], base["relayed_by"], base["published"]) == (8453, relayed.member, 2)
    assert 0 < base["lease_left_seconds"] <= 10
    [group] = base["groups"]
    assert (group["group"], group["lag"], group["pending"]) == ("bots", 1, 1)
    assert [(one["member"], one["pending"]) for one in group["members"]] == [("one", 1)]
    assert (bnb["chain"], bnb["relayed_by"], bnb["groups"]) == (56, None, [])
    lines = person.out.splitlines()
    assert lines[0].startswith(f"server      {fleet.env['TRADE_FLEET']}/0, valkey 9.")
    assert lines[0].endswith(", durable")
    assert f"relay base  by {relayed.member}, 2 signals, the last at " in person.out
    assert lines[-1].split()[:5] == ["base", "bots", "1", "one", "1"]


def test_status_in_every_format(fleet: Terminal, relayed: SignalRelay) -> None:
    for form in Format:
        ended = fleet("fleet", "status", "-o", form)
        assert (ended.code, ended.err) == (0, ""), form
        assert relayed.member in ended.out, form
    assert fleet("fleet", "status", "--query", "relays[0].relayed_by").json == relayed.member
    assert fleet("fleet", "status", "--fields", "server.engine", "--chain", "bnb").json == {
        "server": {"engine": "valkey"}
    }


@pytest.mark.parametrize("form", ["terminal", "json", "csv"])
def test_what_others_wrote_on_the_server_is_text(
    fleet: Terminal, fleet_server: RedisServer, relayed: SignalRelay, form: str
) -> None:
    with fleet_server.client() as redis:
        [base] = [key.removesuffix(":relay") for key in redis.keys("*:relay")]
        far = int(time.time() * 1000) + 60_000
        redis.hset(f"{base}:relay", mapping={"owner": HOSTILE.replace(" ", ""), "until": far})
        redis.hset(f"{base}:groups", HOSTILE, HOSTILE)
        redis.hset(f"{base}:members", f"{HOSTILE}/{HOSTILE}", f"{HOSTILE} {far}")
        redis.hset(f"{base}:members", f"bots/{HOSTILE}", HOSTILE)
    for words in (("fleet", "status"), ("fleet", "relay", "--chain", "base", "--duration", "0.7s")):
        if form == "terminal":
            ended = fleet(*words, tty=True, columns=100, env={"NO_COLOR": "1"})
        else:
            ended = fleet(*words, "-o", form)
        assert ended.code == 0, ended.err
        harmless(ended, form)
        assert "evil" in ended.out + ended.err


def test_status_says_what_it_cannot_know(fleet: Terminal) -> None:
    for name in ("TRADE_API_KEY", "TRADE_WALLET_KEY"):
        del fleet.env[name]
    ended = fleet("fleet", "status")
    assert ended.code == 0
    assert (ended.json["window"], ended.json["money"], ended.json["relays"]) == (None, None, None)
    assert [note["note"].split(":")[0] for note in ended.notes] == [
        "money is not shown",
        "rate limit and relays belong to an account",
    ]


def test_doctor_looks_at_the_fleet(fleet: Terminal, fleet_server: RedisServer) -> None:
    assert fleet("market", "prices", "ETH", "--max-price", "0.03").code == 0

    def found() -> dict[str, Any]:
        return {one["check"]: one for one in fleet("doctor").lines}

    well = found()
    assert [well[name]["status"] for name in ("fleet", "fleet durability", "fleet journal", "ledger")] == ["ok"] * 4
    assert well["fleet"]["facts"]["engine"] == "valkey"
    assert well["fleet durability"]["facts"]["settings"]["appendfsync"] == "always"
    assert Path(well["fleet journal"]["facts"]["file"]).is_file()
    fleet_server.command("CONFIG", "SET", "appendfsync", "everysec")
    try:
        lossy = found()
        assert lossy["fleet durability"]["status"] == "problem"
        assert "appendfsync is everysec, not always" in lossy["fleet durability"]["said"]
        assert "appendfsync always" in lossy["fleet durability"]["next"]
        refused = fleet("pay", "history")
        assert (refused.code, refused.problem["code"]) == (3, "ledger_not_durable")
        assert len(fleet("pay", "history", env={"TRADE_FLEET_DURABILITY": "managed"}).lines) == 1
    finally:
        fleet_server.command("CONFIG", "SET", "appendfsync", "always")
    fleet_server.command("FLUSHALL")
    lost = found()["fleet journal"]
    assert (lost["status"], lost["next"].startswith("trade pay reconcile ")) == ("problem", True)
    away = {one["check"]: one for one in fleet("doctor", "--fleet", "redis://127.0.0.1:1").lines}
    assert (away["fleet"]["status"], away["ledger"]["status"]) == ("problem", "problem")


# What does not fit

BAD: dict[str, tuple[list[str], dict[str, str], int, str, str]] = {
    "http": (["--fleet", "http://10.0.0.5"], {}, 2, "usage", "redis://"),
    "no host": (["--fleet", "redis://"], {}, 2, "usage", "redis://"),
    "no scheme": (["--fleet", "10.0.0.5:6379"], {}, 2, "usage", "redis://"),
    "a password in an option": (["--fleet", f"redis://bot:{PASSWORD}@10.0.0.5"], {}, 2, "usage", "TRADE_FLEET"),
    "an odd password in an option": (["--fleet", f"redis://:a/{PASSWORD}#@10.0.0.5"], {}, 2, "usage", "TRADE_FLEET"),
    "http in the environment": ([], {"TRADE_FLEET": f"http://u:{PASSWORD}@10.0.0.5"}, 3, "configuration", "redis://"),
    "no host in the environment": ([], {"TRADE_FLEET": f"redis://u:{PASSWORD}@"}, 3, "configuration", "redis://"),
    "the embedded mock": (["--fleet", "redis://127.0.0.1:1", "--mock"], {}, 2, "usage", "trade mock serve"),
    "a group without a fleet": (["@stream"], {"TRADE_FLEET": ""}, 2, "usage", "export TRADE_FLEET=redis://HOST"),
    "a group in the embedded mock": (["@stream", "--mock"], {}, 2, "usage", "trade mock serve"),
    "a relay without a fleet": (["fleet", "relay", "--chain", "base"], {"TRADE_FLEET": ""}, 2, "usage", "TRADE_FLEET"),
    "a status without a fleet": (["fleet", "status"], {"TRADE_FLEET": ""}, 2, "usage", "TRADE_FLEET"),
    "a status of nobody": (["fleet", "status"], {"TRADE_FLEET": "redis://127.0.0.1:1"}, 11, "server_unreachable", ""),
    "a URL as a verb": (["fleet", f"redis://bot:{PASSWORD}@10.0.0.5"], {}, 2, "usage", ""),
    "a password for a profile": (
        ["config", "set", "fleet", f"redis://bot:{PASSWORD}@10.0.0.5"],
        {},
        2,
        "usage",
        "TRADE_FLEET",
    ),
    "nobody there": (["--fleet", "redis://127.0.0.1:1"], {}, 11, "server_unreachable", "TRADE_FLEET"),
    "no such database": ([], {"TRADE_FLEET": "{server}/99"}, 10, "server_failed", ""),
    "a password that it does not have": (
        [],
        {"TRADE_FLEET": "redis://bot:{PASSWORD}@127.0.0.1:{port}"},
        3,
        "server_refused",
        "",
    ),
}


@each_of("name", BAD)
def test_what_does_not_fit_is_said(name: str, fleet: Terminal) -> None:
    words, env, code, kind, hint = BAD[name]
    url = fleet.env["TRADE_FLEET"]
    given = {
        variable: text.format(server=url, port=url.rpartition(":")[2], PASSWORD=PASSWORD)
        for variable, text in env.items()
    }
    words = [*STREAM, *words[1:]] if words[:1] == ["@stream"] else words
    ended = fleet(*(words if words and not words[0].startswith("--") else ["pay", "history", *words]), env=given)
    problem = ended.problem
    assert (ended.code, problem["code"]) == (code, kind), problem
    assert hint in str(problem["hint"]), problem
    assert PASSWORD not in ended.err


def test_a_server_that_cannot_be_trusted_with_money(fleet: Terminal, fleet_server: RedisServer, tmp_path: Path) -> None:
    payments = f"tradesdk:{{{LocalSigner.from_key(BUYER_KEY).address.lower()}}}:payments"
    fleet_server.command("SET", payments, "of another program")
    foreign = fleet("market", "prices", "ETH", "--max-price", "0.03").problem
    assert (foreign["code"], foreign["charged"]) == ("server_failed", False)
    assert "of another program" in foreign["message"]
    assert "use another database" in foreign["hint"]
    with RedisServer("valkey", tmp_path / "lossy", durable=False) as lossy:
        ended = fleet("market", "prices", "ETH", "--max-price", "0.03", "--fleet", lossy.url)
        assert (ended.code, ended.problem["code"], ended.problem["charged"]) == (3, "ledger_not_durable", False)
        assert "appendonly is no, not yes" in ended.problem["message"]
        assert fleet("agents", "list", "--fleet", lossy.url).code == 0, "a rate limit may be lost"
        assert fleet("fleet", "status", "--fleet", lossy.url).json["server"]["durable"] is False
