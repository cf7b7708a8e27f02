"""Several machines in the terminal: one budget, one rate limit, one stream, on a real server."""

from __future__ import annotations

import getpass
import re
import time
from pathlib import Path

import pytest

from tradesdk import SystemClock, TradeClient, create_keystore
from tradesdk.fleet import RedisRateLimiter

from .._redis_server import RedisServer
from ._services import Scripted
from ._terminal import Terminal

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
    assert mended.code == 0
    assert fleet("pay", "budget").json["spent_total_usd"] == "0.03"
    assert fleet("market", "prices", "BRETT", "--max-price", "0.03").code == 0


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
    "nobody there": (["--fleet", "redis://127.0.0.1:1"], {}, 11, "server_unreachable", "trade doctor"),
    "no such database": ([], {"TRADE_FLEET": "{server}/99"}, 10, "server_failed", ""),
    "a password that it does not have": (
        [],
        {"TRADE_FLEET": "redis://bot:{PASSWORD}@127.0.0.1:{port}"},
        3,
        "server_refused",
        "",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_said(name: str, fleet: Terminal) -> None:
    words, env, code, kind, hint = BAD[name]
    url = fleet.env["TRADE_FLEET"]
    given = {
        variable: text.format(server=url, port=url.rpartition(":")[2], PASSWORD=PASSWORD)
        for variable, text in env.items()
    }
    ended = fleet("pay", "history", *words, env=given)
    problem = ended.problem
    assert (ended.code, problem["code"]) == (code, kind), problem
    assert hint in str(problem["hint"]), problem
    assert PASSWORD not in ended.err
