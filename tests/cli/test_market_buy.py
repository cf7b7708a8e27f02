"""`trade market`: what is bought, what it costs, what is said of it, and that it is paid for once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Ledger, LocalSigner
from tradesdk_mock import MockServer

from ._terminal import TRADE, Run, Terminal
from .conftest import BUYER_KEY

BUYER = LocalSigner.from_key(BUYER_KEY).address
PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


def bought(run: Run) -> list[dict[str, Any]]:
    """NDJSON of a purchase that went well."""
    assert run.code == 0, run.err
    return run.lines


@pytest.mark.parametrize(
    ("line", "amount", "fields"),
    [
        ("signals ETH BRETT:5", 100_000, ["tokenAddress", "tokenSymbol", "strategy", "signalCount", "signals"]),
        ("prices ETH BRETT", 60_000, ["tokenAddress", "symbol", "currentPriceEth", "currentPriceUsd"]),
        ("history BRETT --since 2h --signal BUY", 50_000, ["tokenAddress", "tokenSymbol", "strategy", "signalCount"]),
        ("win-rate ETH", 30_000, ["tokenAddress", "tokenSymbol", "winRate"]),
        ("avg-prices ETH", 20_000, ["tokenAddress", "tokenSymbol", "averageBuyPriceETH", "averageBuyPriceUSD"]),
        ("top --sort ROI --limit 3", 60_000, ["tokenAddress", "symbol", "name", "network", "winRate", "ROI"]),
        ("metrics", 60_000, ["totalAgents", "activeAgents", "totalTrades"]),
    ],
)
def test_each_is_paid_once_and_comes_as_the_service_sends_it(
    buyer: Terminal, shop: MockServer, line: str, amount: int, fields: list[str]
) -> None:
    run = buyer("market", *line.split(), "--max-price", "0.10", "-o", "json")
    assert run.code == 0, run.err
    first = run.json[0] if isinstance(run.json, list) else run.json
    assert list(first)[: len(fields)] == fields
    (taken,) = shop.payments.assert_charged(times=1, amount=amount, payer=BUYER)
    first_recipient, note = run.notes
    assert first_recipient["recipient"] == shop.payments.pay_to
    assert note["paid_usd"] == f"{amount / 1e6:.2f}"
    assert note["transactions"] == [taken.transaction]
    assert note["note"].startswith(f"paid ${note['paid_usd']} from {BUYER}, payment pay_")
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        assert [(one.id, one.amount, one.nonce) for one in ledger.history()] == [
            (note["payments"][0], amount, taken.nonce)
        ]


def test_the_first_recipient_is_told_once(buyer: Terminal, shop: MockServer) -> None:
    """To people and programs; with -v the log says it."""
    said = f"{shop.payments.pay_to} is remembered as the recipient of"
    line = ("market", "prices", "ETH", "--max-price", "0.03")
    runs = [buyer(*line, env={"TRADE_HOME": str(buyer.home / name)}, **more) for name, more in HOMES.items()]
    runs.append(buyer(*line, "-v", env={"TRADE_HOME": str(buyer.home / "loud")}))
    assert [" ".join(run.err.split()).count(said) for run in runs] == [1, 1, 1]
    assert "is remembered" not in buyer(*line, env={"TRADE_HOME": str(buyer.home / "person")}).err


HOMES: dict[str, dict[str, Any]] = {"person": {"tty": True}, "program": {}}


def test_what_is_free_needs_no_wallet_and_no_ledger(buyer: Terminal, shop: MockServer) -> None:
    del buyer.env["TRADE_WALLET_KEY"]
    run = buyer("market", "tokens", "--limit", "3", "-o", "json")
    assert [len(run.json), run.code] == [3, 0]
    assert run.notes[-1]["total"] > 600
    assert not (buyer.home / "ledger.sqlite3").exists()
    shop.payments.assert_charged(times=0)
    assert "the first 20 of" in buyer("market", "tokens").err


def test_a_table_has_a_row_for_each_signal(buyer: Terminal, shop: MockServer) -> None:
    for number in range(3):
        shop.emit_signal(token="BRETT", direction="BUY" if number else "SELL")
    shop.emit_signal(token="AERO", direction="SELL")
    line = ("market", "signals", "BRETT:2", "AERO", "--limit", "1", "--max-price", "0.10")
    rows = buyer(*line, "-o", "table").out.splitlines()
    assert rows[0].split()[:4] == ["token", "signal", "price", "time"]
    assert [row.split()[:2] for row in rows[1:]] == [["BRETT", "BUY"], ["BRETT", "BUY"], ["AERO", "SELL"]]
    nested = bought(buyer(*line))
    assert [len(token["signals"]) for token in nested] == [2, 1]


def test_with_a_budget_nobody_is_asked_and_what_is_left_is_said(buyer: Terminal) -> None:
    run = buyer("market", "prices", "ETH", "BRETT", "-o", "table", env={"TRADE_BUDGET_PER_DAY": "5"})
    assert run.code == 0
    assert run.err.rstrip().endswith("; $4.94 left today")
    again = buyer("market", "top", "--sort", "ROI", env={"TRADE_BUDGET_PER_HOUR": "0.15", "TRADE_BUDGET_PER_DAY": "5"})
    assert again.notes[-1]["note"].endswith("; $0.03 left this hour")
    total = buyer("market", "prices", "AERO", env={"TRADE_BUDGET_TOTAL": "1"})
    assert total.notes[-1]["note"].endswith("; $0.85 left in total")


def test_without_a_budget_a_person_is_asked(buyer: Terminal, shop: MockServer) -> None:
    no = buyer("market", "prices", "ETH", "BRETT", answers="n\n")
    assert (no.code, no.out) == (1, "")
    assert "token-prices for 2 tokens costs $0.06. Pay? [y/N]" in no.err
    said = [line.removeprefix("\x1b[2m").removesuffix("\x1b[0m") for line in no.err.splitlines()]
    assert said[0] == f"{shop.url.removeprefix('http://')} · this machine"
    assert said[1] == f"token-prices for 2 tokens, wallet {BUYER}"
    assert "nothing was paid" in no.err
    shop.payments.assert_charged(times=0)
    assert shop.payments.signatures() == 0
    yes = buyer("market", "prices", "ETH", "BRETT", answers="y\n")
    assert yes.code == 0
    shop.payments.assert_charged(times=1, amount=60_000)


def test_with_a_yes_to_a_price_the_service_cannot_ask_for_more(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("offer", fields={"amount": "60001"})
    run = buyer("market", "prices", "ETH", "BRETT", answers="y\n", env={"NO_COLOR": "1"})
    assert run.code == 12
    assert "hint: to pay that anyway: --max-price 0.060001" in run.err
    assert shop.payments.submissions() == []


def test_an_amount_that_is_none(buyer: Terminal, shop: MockServer) -> None:
    for amount in ("1e3", "-1", "NaN", "0.0000001", "", "$1", "1,5", "+1", "\uff11"):
        run = buyer("market", "prices", "ETH", f"--max-price={amount}")
        assert run.code == 2
        assert "is not an amount in dollars: write digits" in run.problem["message"]
    assert shop.journal() == []


MEANT = [
    ("prices A B C D E F", "6 tokens are more than the 5", "buy them 5 at a time"),
    ("prices ETH eth --max-price 1", "the same token twice", "nothing was sent"),
    ("signals ETH:x", "'ETH:x' is not a token", "BRETT:5"),
    ("signals ETH:0 --max-price 1", "must be a whole number from 1 to 100", "nothing was sent"),
    ("signals ETH --limit 101", "101 is not from 1 to 100", "--help"),
    (
        "history ETH --since 2026-02-01 --until 2026-01-01 --max-price 1",
        "--since is later than --until",
        "nothing was sent",
    ),
    ("history ETH --signal HOLD", "'HOLD' is not one of BUY, SELL, WAITING FOR SIGNAL, ALL", "--help"),
    ("top", "trade market top needs --sort", "trade market top --help"),
    ("top --sort best", "'best' is not one of winRate, ROI", "--help"),
    ("tokens --limit 501", "501 is not from 1 to 500", "--help"),
    ("prices", "trade market prices needs TOKEN", "see what there is: trade market tokens"),
]


def test_what_cannot_be_meant(buyer: Terminal, shop: MockServer) -> None:
    for line, message, hint in MEANT:
        run = buyer("market", *line.split())
        assert (run.code, run.problem["code"]) == (2, "usage"), line
        assert message in run.problem["message"]
        assert hint in run.problem["hint"]
    assert shop.journal() == []


# Dry runs


DRY = [
    "signals ETH BRETT:5 --limit 3",
    "signals ETH",
    "prices ETH BRETT",
    "history ETH --since 2026-01-01 --until 1767312000 --signal SELL",
    "history ETH --since 3h",
    "win-rate ETH",
    "avg-prices ETH",
    "top --sort winRate --limit 7",
    "top --sort ROI",
    "metrics",
]


def test_a_dry_run_shows_what_is_sent_and_pays_nothing(buyer: Terminal, shop: MockServer) -> None:
    for line in DRY:
        run = buyer("market", *line.split(), "--max-price", "0.10", "--dry-run", "-o", "json")
        assert run.code == 0, run.err
        shown = run.json
        asked = next(entry for entry in reversed(shop.journal()) if entry.path != "/v1/supported-tokens")
        assert (shown["method"], shown["path"], shown["body"]) == (asked.method, asked.path, asked.body)
        assert shown["refusal"] is None
        signed = shown["authorization"]
        assert (signed["from"], signed["to"]) == (BUYER, shop.payments.pay_to)
        assert int(signed["value"]) == round(float(shown["price_usd"]) * 1e6)
        assert (shown["amount_usd"], shown["next_call_usd"]) == (shown["price_usd"], "0.10")
        assert shown["left_usd"] is None, "no budget is set"
    assert sum(entry.path != "/v1/supported-tokens" for entry in shop.journal()) == len(DRY)
    assert shop.payments.submissions() == []
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        assert ledger.history() == []


def test_a_dry_run_for_people_leaves_out_what_is_not_there(buyer: Terminal) -> None:
    shown = buyer("market", "prices", "ETH", "--max-price", "0.10", "--dry-run", "-o", "table").out
    assert "price_usd" in shown
    assert "refusal" not in shown
    assert "left_usd" not in shown, "no budget is set"


def test_a_dry_run_says_why_it_would_be_refused(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("offer", fields={"payTo": "0x" + "aa" * 20, "amount": "90000"})
    run = buyer("market", "prices", "ETH", "BRETT", "--dry-run", "-o", "json")
    assert run.code == 0
    assert run.json["refusal"]["code"] == "over_price"
    assert run.json["authorization"] is None
    del buyer.env["TRADE_WALLET_KEY"]
    assert buyer("market", "prices", "ETH", "--dry-run").json["refusal"]["code"] == "no_signer"


def test_a_dry_run_says_that_a_kept_answer_costs_nothing(buyer: Terminal, shop: MockServer) -> None:
    line = ("market", "prices", "ETH", "--max-price", "0.10", "--purchase", "today")
    before = buyer(*line, "--dry-run", "-o", "json")
    assert (before.json["authorization"] is None, len(before.notes)) == (False, 1)
    assert buyer(*line).code == 0
    name = buyer("pay", "history").lines[0]["id"]
    shop.add_fault("offer", fields={"amount": "900000"})  # it does not matter what a new one would cost
    shown = buyer(*line, "--dry-run", "-o", "json")
    assert (shown.code, shown.json["authorization"], shown.json["refusal"]) == (0, None, None)
    told = shown.notes[0]
    assert told["payment"] == name
    assert told["note"].endswith("is kept: without --dry-run it is returned again, and costs nothing")
    assert "costs nothing" in buyer(*line, "--dry-run", "-o", "table").err
    assert buyer(*line).code == 0
    shop.payments.assert_charged(times=1)


# What a person sees


def test_verbose_says_where_and_into_which_ledger(buyer: Terminal, shop: MockServer) -> None:
    run = buyer(*PRICES, "-vv", "-o", "table")
    host = shop.url.removeprefix("http://")
    assert f"market data comes from {host} · this machine, payments are written to {buyer.home}" in run.err
    assert "POST" in run.err


def test_commas_stand_between_tokens(buyer: Terminal, shop: MockServer) -> None:
    for words in (("eth,brett",), ("ETH,", "BRETT"), (" eth , brett,",), ("eth", "brett")):
        assert [row["symbol"] for row in buyer("market", "prices", *words, "--max-price", "0.06").lines] == [
            "ETH",
            "BRETT",
        ]
    assert buyer("market", "prices", "ETH,AERO", "--dry-run").json["body"] == {
        "tokens": [{"identifier": "ETH"}, {"identifier": "AERO"}]
    }
    run = buyer("market", "signals", "BRETT:2,AERO", "--limit", "1", "--max-price", "0.10", "-o", "json")
    assert [(row["tokenSymbol"], len(row["signals"])) for row in run.json] == [("BRETT", 2), ("AERO", 1)]
    assert buyer("pay", "quote", "prices", "ETH,BRETT,AERO").json["price_usd"] == "0.09"
    assert (buyer("market", "prices", ",", "--dry-run").code, buyer("market", "prices", "", "--dry-run").code) == (2, 2)


def test_a_symbol_that_nobody_knows_signs_nothing(buyer: Terminal, shop: MockServer) -> None:
    run = buyer("market", "prices", "eth,brtt", "--max-price", "0.06")
    problem = run.problem
    assert (run.code, problem["code"], problem["charged"], problem["payment"]) == (6, "unknown_token", False, None)
    assert problem["hint"].startswith("did you mean BRETT or ")
    assert problem["hint"].endswith(
        "a token that is not listed is bought by its address; see the list: trade market tokens --limit 500"
    )
    assert buyer("pay", "history").lines == []
    asked = buyer("market", "prices", "eth,brtt", answers="y\n", env={"NO_COLOR": "1"})
    assert (asked.code, "Pay?" in asked.err, "nothing was paid\n" in asked.err) == (6, False, True)
    limited = buyer("market", "prices", "eth,brtt", "--max-price", "0.06", tty=True, env={"NO_COLOR": "1"})
    assert (limited.code, "nothing was paid\n" in limited.err) == (6, True)
    shop.payments.assert_charged(times=0)


# Answers that are kept


@pytest.mark.long
def test_answers_are_kept_and_the_same_command_buys_anew(buyer: Terminal, shop: MockServer) -> None:
    first, second = (buyer("market", "metrics", "--max-price", "0.06") for _ in range(2))
    shop.payments.assert_charged(times=2)
    kept = [buyer("pay", "resume", one["id"]) for one in buyer("pay", "history").lines]
    assert [one.json for one in reversed(kept)] == [first.json, second.json]
    shop.payments.assert_charged(times=2)


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(("line", "unbuffered"), [("prices ETH BRETT", ""), ("top --sort ROI", "1")])
def test_what_was_paid_for_is_kept_when_it_cannot_be_printed(
    buyer: Terminal, shop: MockServer, line: str, unbuffered: str
) -> None:
    """In a process of its own: Python flushes once more at the end, which must not change the exit code."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(  # the program under test
            [*TRADE, "market", *line.split(), "--max-price", "0.10"],
            env=buyer.environment() | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    problem = json.loads(done.stderr.splitlines()[-1])
    assert problem["code"] == "system"
    assert "No space left on device" in problem["message"]
    (name,) = [one["id"] for one in buyer("pay", "history").lines]
    assert problem["hint"] == f"your answer is kept: trade pay resume {name}"
    del buyer.env["TRADE_WALLET_KEY"]
    again = buyer("pay", "resume", name)
    assert again.code == 0, again.err
    assert len(again.out) > 100
    shop.payments.assert_charged(times=1)
