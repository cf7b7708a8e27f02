"""`trade --mock market`: play money, a ledger of the world's own, and never the user's key."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tradesdk import Ledger, LocalSigner

from ._terminal import Terminal
from .conftest import BUYER_KEY

BUY = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


pytestmark = pytest.mark.usefixtures("worlds")


def test_play_money_is_paid_and_written_down_beside_the_world(trade: Terminal) -> None:
    run = trade("--mock", *BUY)
    assert run.code == 0, run.err
    told = trade("--mock", "pay", "key", "address")
    payer = told.json["address"]
    assert "never send real money" in told.err
    assert run.notes[-1]["note"].startswith(f"paid $0.06 from {payer}, payment pay_")
    assert not (trade.home / "ledger.sqlite3").exists()
    with Ledger(trade.home / "mock" / "default.ledger.sqlite3") as ledger:
        assert [one.amount for one in ledger.history()] == [60_000]
    if os.name == "posix":
        assert stat.S_IMODE((trade.home / "mock" / "default.ledger.sqlite3").stat().st_mode) == 0o600
    assert trade("--mock", *BUY).notes[-1]["note"].split()[3] == payer + ",", "and again"
    books = trade("--mock", "mock", "payments", "list").lines
    assert [(one["payer"], one["amount"]) for one in books] == [(payer, 60_000)] * 2


def test_a_real_key_is_left_alone(trade: Terminal, tmp_path: Path) -> None:
    real = LocalSigner.from_key(BUYER_KEY).address
    run = trade("--mock", *BUY, env={"TRADE_WALLET_KEY": BUYER_KEY, "TRADE_KEYSTORE": str(tmp_path / "none.json")})
    assert run.code == 0, run.err
    assert "TRADE_WALLET_KEY and TRADE_KEYSTORE ignored: with --mock, play money pays" in run.err
    assert real not in run.out + run.err
    other = trade("--mock", *BUY, "--wallet", str(tmp_path / "none.json"))
    assert other.code == 0, "a real keystore is not even looked at"
    for line in (("tokens",), ("top", "--sort", "ROI", "--dry-run")):
        assert real not in trade("--mock", "market", *line, env={"TRADE_WALLET_KEY": BUYER_KEY}).out


def test_the_wallet_follows_from_the_seed(trade: Terminal) -> None:
    def payer() -> str:
        return str(trade("--world", "one", "pay", "key", "address").json["address"])

    first = payer()
    assert payer() == first
    trade("--world", "one", "mock", "reset", "--seed", "11", "--yes")
    assert payer() != first


def test_hints_go_on_in_the_same_world(trade: Terminal) -> None:
    trade("--world", "w", "mock", "fault", "add", "status", "--paid", "only", "--count", "1")
    run = trade("--world", "w", *BUY)
    assert run.code == 14
    name = run.problem["payment"]["id"]
    assert f"trade --world w pay resume {name}" in run.problem["hint"]


def test_time_is_that_of_the_mock(trade: Terminal) -> None:
    """A payment whose outcome is open is resolved by moving the mock's clock, not by waiting."""
    trade("--mock", "mock", "clock", "--freeze")
    trade("--mock", "mock", "fault", "add", "status", "--paid", "only", "--count", "1")
    name = trade("--mock", *BUY).problem["payment"]["id"]
    early = trade("--mock", "pay", "reconcile", "--mark", "unpaid", name)
    assert (early.code, early.problem["code"]) == (12, "not_unresolved")
    trade("--mock", "mock", "clock", "--advance", "1100")  # the chain says nothing yet
    late = trade("--mock", "pay", "resume", name)
    assert (late.code, late.problem["code"]) == (14, "time_is_up")
    counted = trade("--mock", "pay", "budget").json
    assert (counted["spent_total_usd"], counted["held_total_usd"]) == ("0.00", "0.06")
    marked = trade("--mock", "pay", "reconcile", "--mark", "unpaid", name)
    assert (marked.code, marked.json["status"], marked.json["charged"]) == (0, "not paid", False)
    assert trade("--mock", "pay", "budget").json["held_total_usd"] == "0.00"
    trade("--mock", "mock", "clock", "--advance", "90000")
    assert trade("--mock", *BUY).code == 0
    assert trade("--mock", "pay", "budget").json["spent_today_usd"] == "0.06"


def test_it_can_want_the_api_key(trade: Terminal) -> None:
    trade("--mock", "mock", "gaps", "set", "b_bearer=required")
    assert trade("--mock", *BUY).code == 4
    assert trade("--mock", *BUY, "--send-api-key").code == 0
    assert trade("--mock", *BUY, "--send-api-key", env={"TRADE_API_KEY": "a-real-key-0123456789"}).code == 0


def test_another_port_of_the_market(trade: Terminal) -> None:
    trade("--mock", "mock", "gaps", "set", "b_port=another")
    assert trade("--mock", *BUY).code == 0


def test_a_service_that_is_paid_upfront(trade: Terminal) -> None:
    """The hint names the setting, and the same command pays with it."""
    trade("--mock", "mock", "gaps", "set", "flow=upfront")
    run = trade("--mock", *BUY)
    assert (run.code, run.problem["code"], run.problem["charged"]) == (12, "upfront_flow", False)
    assert "export TRADE_ALLOW_UPFRONT=1" in run.problem["hint"]
    assert "may take the money and answer with an error" in run.problem["hint"]
    assert trade("--mock", *BUY, env={"TRADE_ALLOW_UPFRONT": "0"}).code == 12
    assert trade("--mock", *BUY, env={"TRADE_ALLOW_UPFRONT": "perhaps"}).code == 3
    paid = trade("--mock", *BUY, env={"TRADE_ALLOW_UPFRONT": "1"})
    assert paid.code == 0, paid.err
    assert paid.notes[-1]["note"].startswith("paid $0.06")
    trade("login", "--profile", "paper", "--world", "default")
    assert trade("config", "set", "allow_upfront", "true").code == 0
    assert trade("--profile", "paper", *BUY).code == 0
