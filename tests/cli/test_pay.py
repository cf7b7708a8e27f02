"""`trade pay`: prices, the ledger, budgets, and how to resolve unfinished payments."""

from __future__ import annotations

import csv
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tradesdk import Budget, Ledger, PaymentStage
from tradesdk_mock import MockServer

from ..unit._ledger import trusted
from ._terminal import Terminal
from .conftest import BUYER_KEY

PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


@pytest.mark.usefixtures("worlds")
def test_quotes_need_nothing(trade: Terminal) -> None:
    for line, price in (
        ("signals ETH:5 BRETT", "0.10"),
        ("prices ETH BRETT", "0.06"),
        ("history ETH", "0.05"),
        ("win-rate ETH", "0.03"),
        ("avg-prices ETH", "0.02"),
        ("top", "0.06"),
        ("metrics", "0.06"),
        ("tokens", "0.00"),
        ("token-prices ETH BRETT", "0.06"),
        ("Token_Signals ETH", "0.05"),
        ("supported-tokens", "0.00"),
    ):
        run = trade("pay", "quote", *line.split())
        assert run.code == 0, run.err
        assert run.json["price_usd"] == price
        assert run.json["affordable"] is (True if price == "0.00" else None), "without a budget, nobody can say"
    shown = trade("pay", "quote", "prices", "ETH", env={"TRADE_BUDGET_PER_DAY": "0.02"})
    assert (shown.json["left_usd"], shown.json["affordable"]) == ("0.02", False)
    assert trade("pay", "quote", "prices", "ETH", env={"TRADE_BUDGET_PER_DAY": "0.03"}).json["affordable"] is True
    said = trade("--mock", "pay", "quote", "prices", "ETH").err
    assert "--max-price, such as 0.03, or a budget: trade --mock pay budget set --per-day 5" in said
    for line in ("prices", "prices A B C D E F", "prices ETH eth", "top ETH", "gold", "signals ETH:x"):
        assert trade("pay", "quote", *line.split()).code == 2


def test_a_query_is_not_answered_from_the_newest_payments(buyer: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("metrics", "prices ETH"):
        assert buyer("market", *line.split(), "--max-price", "0.10").code == 0
    monkeypatch.setattr("tradesdk_cli.cli.params.FIRST", 1)
    run = buyer("pay", "history", "-q", "length(@)")
    assert (run.code, run.out, run.problem["hint"]) == (2, "", "--all, or --limit N")
    assert buyer("pay", "history", "-q", "length(@)", "--limit", "1").json == 1
    assert buyer("pay", "history", "-q", "length(@)", "--limit", "2").json == 2


def test_a_report_adds_up_to_the_ledger(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("status", status=500, paid="only", count=1)
    lines = ("prices ETH", "prices ETH", "metrics", "avg-prices ETH BRETT", "prices BRETT --purchase once")
    for line in lines:
        buyer("market", *line.split(), "--max-price", "0.10")
    lost = buyer("market", "prices", "DEGEN", "--max-price", "0.10")
    assert lost.code == 0
    shop.add_fault("reset", paid="only")
    assert buyer("market", "win-rate", "ETH", "--max-price", "0.10").code == 14
    shop.clear_faults()
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        spending = ledger.spending(Budget(), now=time.time())
        payments = ledger.history()
    assert min(spending.spent, spending.held) > 0
    for by in ("day", "month", "endpoint", "purchase"):
        rows = list(csv.DictReader(buyer("pay", "report", "--by", by, "-o", "csv").out.splitlines()))
        for part in ("spent", "held"):
            assert sum(Decimal(row[f"{part}_usd"]) for row in rows) == getattr(spending, f"{part}_usd")
        assert sum(int(row["count"]) for row in rows) == len(payments)
    of = {row["endpoint"]: row for row in buyer("pay", "report", "--by", "endpoint").lines}
    assert of["token-win-rate"] == {"endpoint": "token-win-rate", "spent_usd": "0.00", "held_usd": "0.03", "count": 1}
    assert {row["purchase"] for row in buyer("pay", "report", "--by", "purchase").lines} == {"once", None}
    assert "held" in buyer("pay", "report", tty=True, env={"NO_COLOR": "1"}).err


def test_a_period_of_the_history_and_of_a_report(buyer: Terminal) -> None:
    for line in ("metrics", "prices ETH", "prices BRETT"):
        assert buyer("market", *line.split(), "--max-price", "0.10").code == 0
    days = {"2026-01-31T23:59:59Z": 0, "2026-02-01T00:00:00Z": 1, "2026-02-02T12:00:00Z": 2}
    with closing(sqlite3.connect(buyer.home / "ledger.sqlite3")) as db:
        names = [name for (name,) in db.execute("SELECT id FROM payments ORDER BY seq")]
        for moment, at in days.items():
            db.execute(
                "UPDATE payments SET created = ? WHERE id = ?", (datetime.fromisoformat(moment).timestamp(), names[at])
            )
        db.commit()

    def found(*period: str) -> list[str]:
        return [one["id"] for one in buyer("pay", "history", *period).lines]

    assert found("--since", "2026-02-01") == [names[2], names[1]]
    assert found("--until", "2026-01-31T23:59:59Z") == [names[0]]
    assert found("--since", "2026-02-01", "--until", "2026-02-01T00:00:00Z") == [names[1]]
    assert found("--since", "2026-03-01") == []
    assert found("--all") == found("-n", "3") == [names[2], names[1], names[0]]
    assert buyer("pay", "history", "--since", "2026-02-02", "--until", "2026-02-01").code == 2
    months = buyer("pay", "report", "--by", "month").lines
    assert [(row["month"], row["spent_usd"], row["count"]) for row in months] == [
        ("2026-01", "0.06", 1),
        ("2026-02", "0.06", 2),
    ]
    assert [row["day"] for row in buyer("pay", "report", "--since", "2026-02-01").lines] == ["2026-02-01", "2026-02-02"]


def test_history_and_one_payment_without_what_could_be_cashed(buyer: Terminal, shop: MockServer) -> None:
    assert buyer("pay", "history").out == ""
    assert "nothing was bought yet" in buyer("pay", "history", "-o", "table").err
    assert "no payments like this" in buyer("pay", "history", "--stage", "sent", "-o", "table").err
    shop.add_fault("status", status=500, paid="only", count=1)
    for _ in range(3):  # one in doubt, then resolved, then another purchase
        buyer(*PRICES)
    newest, oldest = buyer("pay", "history").lines
    assert [newest["stage"], oldest["status"]] == ["answered", "answered"]
    assert [newest["submissions"], oldest["submissions"]] == [1, 2]
    assert [one["id"] for one in buyer("pay", "history", "--limit", "1").lines] == [newest["id"]]
    assert "there are more" in buyer("pay", "history", "--limit", "1").err
    assert buyer("pay", "history", "--stage", "sent").lines == []
    assert len(buyer("pay", "history", "--stage", "sent", "--stage", "answered").lines) == 2
    shown = buyer("pay", "show", newest["id"]).json
    assert shown["body"] == {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}
    assert shown["nonce"] == shop.payments.settlements()[-1].nonce
    assert shown["receipt"]["success"] is True
    assert "header" not in shown
    begun = buyer("pay", "show", newest["id"][:12])
    assert (begun.json, begun.notes[0]["id"]) == (shown, newest["id"])
    again = buyer("pay", "resume", newest["id"][:12])
    assert (again.code, [row["symbol"] for row in again.lines]) == (0, ["ETH", "BRETT"])
    marked = buyer("pay", "reconcile", "--mark", "paid", newest["id"][:12], "--dry-run")
    assert (marked.code, marked.json["path"]) == (0, f"payments/{newest['id']}")
    nobody = buyer("pay", "show", "pay_nobody")
    assert (nobody.code, nobody.problem["code"]) == (6, "no_such_payment")


def test_the_signed_payment_is_never_shown(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("status", status=500, paid="only", count=1)
    name = buyer(*PRICES).problem["payment"]["id"]
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        payment = ledger.get(name)
    assert payment is not None
    assert payment.header is not None
    for form in ("table", "json", "ndjson"):
        for line in (("show", name), ("history",)):
            run = buyer("pay", *line, "-vv", "-o", form)
            assert payment.header not in run.out + run.err


def test_budget(buyer: Terminal, shop: MockServer) -> None:
    bare = buyer("pay", "budget")
    assert bare.json == {
        "per_call_usd": None,
        "per_hour_usd": None,
        "per_day_usd": None,
        "per_month_usd": None,
        "total_usd": None,
        "spent_last_hour_usd": "0.00",
        "spent_today_usd": "0.00",
        "spent_this_month_usd": "0.00",
        "spent_total_usd": "0.00",
        "held_last_hour_usd": "0.00",
        "held_today_usd": "0.00",
        "held_this_month_usd": "0.00",
        "held_total_usd": "0.00",
        "left_last_hour_usd": None,
        "left_today_usd": None,
        "left_this_month_usd": None,
        "left_total_usd": None,
        "next_call_usd": None,
    }
    assert "trade pay budget set --per-day 5" in bare.err
    limits = {"per_call": "0.25", "per_hour": "1.00", "per_day": "5.00", "per_month": "50.00", "total": "0.50"}
    options = [text for name, amount in limits.items() for text in (f"--{name.replace('_', '-')}", amount)]
    made = buyer("pay", "budget", "set", *options)
    assert {name: made.json[f"{name}_usd"] for name in limits} == limits
    shop.add_fault("status", status=500, paid="only", count=1)
    assert buyer("market", "prices", "ETH").code == 14
    spent = buyer("pay", "budget").json
    names = ("last_hour", "today", "this_month", "total")
    windows = [(spent[f"spent_{name}_usd"], spent[f"held_{name}_usd"]) for name in names]
    assert (windows, spent["next_call_usd"]) == ([("0.00", "0.03")] * 4, "0.25"), "nothing is in two of them"
    assert [spent[f"left_{name}_usd"] for name in names] == ["0.97", "4.97", "49.97", "0.47"]
    quoted = buyer("pay", "quote", "prices", "ETH", "-o", "table")
    assert "$0.47 left in total" in quoted.err
    assert [line.split()[-1] for line in quoted.out.splitlines() if line.startswith(("left", "next"))] == [
        "$0.47",
        "$0.25",
    ]
    changed = buyer("pay", "budget", "set", "--total", "none", "--per-day", "4")
    assert (changed.json["total_usd"], changed.json["per_day_usd"], changed.json["per_hour_usd"]) == (
        None,
        "4.00",
        "1.00",
    )
    stricter = buyer("pay", "budget", env={"TRADE_BUDGET_PER_DAY": "2", "TRADE_BUDGET_PER_HOUR": "9"})
    assert stricter.json["per_day_usd"] == "2.00"
    held = "held was sent, and nothing proves whether it was taken: trade pay reconcile"
    assert [one["note"] for one in stricter.notes] == ["stricter than the ledger's own: TRADE_BUDGET_PER_DAY", held]


def test_budgets_that_are_none(buyer: Terminal) -> None:
    for line, named in (
        ("set", "no limit was given"),
        ("--per-day 5", "use budget set"),
        ("set --per-day 1e3", "--per-day: "),
        ("set --per-call -1", "--per-call: "),
        ("set --total NaN", "--total: "),
        ("set --per-hour 0.0000001", "--per-hour: "),
        ("raise", "'raise' is not one of show, set"),
    ):
        run = buyer("pay", "budget", *line.split())
        assert (run.code, run.problem["code"]) == (2, "usage"), line
        assert named in run.problem["message"]
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        assert ledger.setting("budget") is None


def test_resume_prints_what_was_bought(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("status", status=500, paid="only", count=1)
    name = buyer(*PRICES).problem["payment"]["id"]
    del buyer.env["TRADE_WALLET_KEY"], buyer.env["TRADE_MARKET_BASE_URL"]  # neither is needed
    buyer.env["TRADE_KEYSTORE"] = "/nowhere/keystore.json"  # nor opened
    run = buyer("pay", "resume", name)
    assert run.code == 0, run.err
    assert [one["symbol"] for one in run.lines] == ["ETH", "BRETT"]
    assert run.notes[-1]["payments"] == [name]
    shop.payments.assert_charged(times=1)
    assert shop.payments.signatures() == 1
    again = buyer("pay", "resume", name)
    assert (again.code, again.out) == (0, run.out), "the ledger keeps it"
    assert run.notes[-1]["paid_usd"] == "0.06"
    (note,) = again.notes
    told = f"nothing was paid now: $0.06 was paid before, payment {name}; answered "
    when = datetime.fromtimestamp(note["answered_at"], UTC)
    assert note["note"] == f"{told}{when:%Y-%m-%d %H:%M:%S} UTC"
    assert (note["paid_usd"], note["payments"]) == ("0.00", [])
    shown = buyer("pay", "resume", name, "-o", "table")
    assert shown.err == f"{note['note']}\n"
    assert buyer("pay", "resume", "pay_nobody").code == 6
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
def test_the_service_may_want_the_api_key_here_too(buyer: Terminal, shop: MockServer, verb: str) -> None:
    shop.set_gaps(b_bearer="required")
    rule = shop.add_fault("status", paid="only", status=500)
    key = {"TRADE_API_KEY": "mock_full_me"}
    bought = buyer("market", "metrics", "--max-price", "0.06", "--send-api-key", env=key)
    assert bought.code == 14
    shop.remove_fault(rule.id)
    which = [bought.problem["payment"]["id"]] if verb == "resume" else []
    assert buyer("pay", verb, *which).code == 14
    assert buyer("pay", verb, *which, "--send-api-key", env=key).code == 0
    shop.payments.assert_charged(times=1)


def test_resume_of_metrics_and_of_a_ranking(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("status", status=500, paid="only", count=2)
    names = [
        buyer("market", *line.split(), "--max-price", "0.06").problem["payment"]["id"]
        for line in ("metrics", "top --sort ROI --limit 2")
    ]
    assert "totalAgents" in buyer("pay", "resume", names[0]).json
    shown = buyer("pay", "resume", names[1])
    assert (len(shown.lines), shown.notes[-1]["payments"]) == (2, [names[1]])


def test_reconcile(buyer: Terminal, shop: MockServer) -> None:
    assert buyer("pay", "reconcile").notes == [{"note": "no open payments"}]
    shop.add_fault("status", status=500, route="/v1/token-prices", paid="only", count=1)
    shop.add_fault("verification", reason="invalid_payload", route="/v1/aggregate-metrics", paid="only")
    shop.add_fault("malformed_json", route="/v1/top-performers", paid="only")
    open_ = buyer(*PRICES).problem["payment"]["id"]
    refused = buyer("market", "metrics", "--max-price", "0.06").problem["payment"]["id"]
    spoiled = buyer("market", "top", "--sort", "ROI", "--max-price", "0.06").problem["payment"]["id"]
    run = buyer("pay", "reconcile")
    assert run.code == 14
    assert [note["note"] for note in run.notes] == [
        f"look at the wallet, then mark the payment: trade pay reconcile --mark paid {spoiled}, or --mark unpaid"
    ]
    found = {one["id"]: one for one in run.lines}
    assert {name: one["outcome"] for name, one in found.items()} == {
        open_: "delivered",
        refused: "live",
        spoiled: "unresolved",
    }
    assert [one["symbol"] for one in found[open_]["data"]] == ["ETH", "BRETT"]
    assert "not JSON" in found[spoiled]["message"]
    marked = buyer("pay", "reconcile", "--mark", "paid", spoiled)
    assert (marked.json["status"], marked.json["charged"]) == ("paid", True)
    again = buyer("pay", "reconcile", "--mark", "unpaid", spoiled)
    assert (again.code, again.problem["code"]) == (12, "not_unresolved")
    assert again.problem["message"].endswith("is known: it was paid")
    assert again.problem["hint"] == f"trade pay show {spoiled}"
    end = buyer("pay", "reconcile")
    assert (end.code, [one["id"] for one in end.lines]) == (0, [refused])
    early = buyer("pay", "reconcile", "--mark", "unpaid", refused)
    assert (early.code, early.problem["code"]) == (12, "not_unresolved")
    assert re.search(r"until \d\d:\d\d:\d\d UTC, .* before \d\d:\d\d:\d\d UTC", early.problem["message"])
    assert early.problem["hint"] == f"trade pay resume {refused}"
    shop.payments.assert_charged(times=2)


@pytest.mark.long
@pytest.mark.usefixtures("worlds")
def test_all_that_expired_may_be_marked_at_once(trade: Terminal) -> None:
    trade.env["TRADE_MOCK"] = "1"
    trade("mock", "clock", "--freeze")
    trade("mock", "fault", "add", "status", "status=404", "--paid", "only", "--count", "3")
    trade("mock", "fault", "add", "node_lag", "seconds=1000000")
    names = [trade("market", "prices", token, "--max-price", "1").problem["payment"]["id"] for token in ("ETH", "AERO")]
    trade("mock", "clock", "--advance", "7200")
    assert trade("pay", "reconcile").code == 14
    late = trade("market", "prices", "BRETT", "--max-price", "1").problem["payment"]["id"]
    trade("mock", "clock", "--advance", "2400")
    for wrong in (
        ["--older-than", "1h"],
        ["--mark", "unpaid", "--older-than", "1h", names[0]],
        ["--older-than", "soon"],
    ):
        assert trade("pay", "reconcile", *wrong).code == 2
    early = trade("pay", "reconcile", "--mark", "unpaid", "--older-than", "5h")
    assert (early.code, early.lines) == (0, [])
    rehearsed = trade("pay", "reconcile", "--mark", "unpaid", "--older-than", "1h", "--dry-run")
    assert (rehearsed.code, trade("pay", "budget").json["held_total_usd"]) == (0, "0.09")
    marked = trade("pay", "reconcile", "--mark", "unpaid", "--older-than", "1h", "--yes")
    assert [(one["id"], one["status"]) for one in marked.lines] == [(name, "not paid") for name in names[::-1]]
    assert trade("pay", "budget").json["held_total_usd"] == "0.03", "it was not among those that were named"
    left = trade("pay", "reconcile")
    assert (left.code, [one["id"] for one in left.lines]) == (14, [late])
    assert trade("pay", "reconcile", "--mark", "unpaid", late).code == 0
    assert trade("pay", "reconcile").code == 0


def test_a_limit_that_is_set_during_the_question_stays(buyer: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(question: str) -> bool:
        with Ledger(buyer.home / "ledger.sqlite3") as ledger:
            ledger.set_setting("budget", lambda before: Budget(per_call="1", per_day="0.5", total="2").to_json())
        return True

    buyer("pay", "budget", "set", "--per-day", "5", "--per-call", "1")
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        monkeypatch.setattr("tradesdk_cli.confirm.ask", meanwhile)
        assert buyer("pay", "budget", "set", "--per-call", "0.25", answers="y\n").code == 0
        kept = Budget.from_json(ledger.setting("budget"))
        assert kept == Budget(per_call="0.25", per_day="0.5", total="2")
        run = buyer("pay", "budget", "set", "--per-call", "0.75", "--total", "9", answers="y\n")
        assert (run.code, Budget.from_json(ledger.setting("budget")).per_call) == (3, Budget(per_call="1").per_call)
        assert "per_call_usd was 0.25, and is 1.00 now; nothing was set" in run.err.replace("\n", " ")
        ledger.set_setting("budget", lambda before: Budget.unlimited().to_json())
        assert buyer("pay", "budget", "set", "--per-day", "5").code == 0
        assert buyer("pay", "budget", "set", "--per-day", "none").code == 0
        assert Budget.from_json(ledger.setting("budget")) == Budget.unlimited()


@pytest.mark.long
def test_all_that_are_shown_are_marked(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("reset", paid="only")
    lost = buyer(*PRICES).problem["payment"]["id"]
    with closing(sqlite3.connect(buyer.home / "ledger.sqlite3")) as db:
        db.execute("UPDATE payments SET valid_before = valid_before - 7200, counts_until = counts_until - 7200")
        names = [row[1] for row in db.execute("PRAGMA table_info(payments)") if row[1] not in ("seq", "id")]
        columns = ", ".join(names)
        db.execute(
            "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < 1200) "  # noqa: S608
            f"INSERT INTO payments (id, {columns}) "
            f"SELECT printf('pay_%024x', n), {columns} FROM payments, more WHERE id = ?",
            (lost,),
        )
        db.commit()
    run = buyer("pay", "reconcile", "--mark", "unpaid", "--older-than", "1h", "--yes")
    assert (run.code, len(run.lines)) == (0, 1201)
    assert "mark 1201 payments" in run.err
    assert "1201 of 1201 payments were marked as unpaid" in run.err


@pytest.mark.parametrize("columns", [60, pytest.param(80, marks=pytest.mark.long)])
def test_reconcile_says_what_to_do_at_any_width(buyer: Terminal, shop: MockServer, columns: int) -> None:
    shop.add_fault("malformed_json", route="/v1/top-performers", paid="only")
    shop.add_fault("status", status=500, route="/v1/token-prices", paid="only")
    spoiled = buyer("market", "top", "--sort", "ROI", "--max-price", "0.06").problem["payment"]["id"]
    lost = buyer(*PRICES).problem["payment"]["id"]
    run = buyer("pay", "reconcile", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert run.code == 14
    assert f"trade pay reconcile --mark paid {spoiled}," in run.err
    assert f"trade pay resume {lost}, or" in run.err
    assert f"still in doubt: trade pay resume {lost}, or trade pay reconcile after " in " ".join(run.err.split())


def chained(buyer: Terminal, shop: MockServer, *, taken: bool) -> str:
    """A payment whose outcome only the chain knows: it has expired, and its last block is finalized."""
    buyer.env["TRADE_RPC_URL"] = shop.rpc_url
    shop.clock.freeze()
    shop.add_fault("status", status=503, paid="only", executed=taken)
    name = str(buyer(*PRICES).problem["payment"]["id"])
    shop.clear_faults()
    shop.clock.advance(3600)
    return name


def test_reconcile_shows_what_the_chain_says(buyer: Terminal, shop: MockServer) -> None:
    name = chained(buyer, shop, taken=True)
    run = buyer("pay", "reconcile")
    assert run.code == 14
    (row,) = run.lines
    reason = buyer("pay", "show", name).json["reason"]
    assert re.fullmatch(r"chain: used at block \d+", reason)
    assert (row["id"], row["outcome"], row["status"], row["charged"]) == (name, "unresolved", "paid, no answer", True)
    assert row["message"] == f"{reason}: $0.06 was taken, and no answer came"
    (note,) = (one["note"] for one in run.notes)
    assert note.endswith(f"allow to buy it again: trade pay reconcile --mark paid {name}")
    for columns in (60, 80, 200):
        drawn = buyer("pay", "reconcile", tty=True, columns=columns, env={"NO_COLOR": "1"})
        assert f"{name}: {reason}" in " ".join(drawn.err.split()), columns
    assert shop.rpc_url not in run.err + run.out


def test_reconcile_frees_what_the_chain_has_not_seen(buyer: Terminal, shop: MockServer) -> None:
    name = chained(buyer, shop, taken=False)
    shop.add_fault("chain_id", count=1)
    run = buyer("pay", "reconcile")
    (row,) = run.lines
    assert (run.code, row["outcome"]) == (14, "unresolved")
    assert row["message"].endswith("the chain does not decide: 127.0.0.1:" + row["message"].rpartition("127.0.0.1:")[2])
    assert "it is a node of chain 1, not of Base (8453)" in row["message"]
    assert f"--mark paid {name}, or --mark unpaid" in run.notes[0]["note"]
    run = buyer("pay", "reconcile")
    (row,) = run.lines
    assert (run.code, row["outcome"], row["status"]) == (0, "released", "not paid")
    assert re.fullmatch(r"chain: not used at block \d+: its money is no longer held", row["message"])
    assert buyer("pay", "budget").json["held_total_usd"] == "0.00"


@pytest.mark.parametrize("taken", [True, False])
def test_reconcile_lists_what_was_delivered_without_a_receipt(buyer: Terminal, shop: MockServer, taken: bool) -> None:
    shop.clock.freeze()
    shop.add_fault("receipt", missing=True, count=1)
    assert buyer(*PRICES).code == 0
    (shown,) = buyer("pay", "reconcile", "--dry-run").lines
    name = shown["id"]
    run = buyer("pay", "reconcile")
    (row,) = run.lines
    assert (run.code, row["id"], row["status"], row["charged"]) == (14, name, "answered", "unknown")
    assert (row["outcome"], row["message"]) == ("unresolved", "answered without a receipt")
    assert run.notes[0]["note"].endswith(f"trade pay reconcile --mark paid {name}, or --mark unpaid")
    buyer.env["TRADE_RPC_URL"] = shop.rpc_url
    (row,) = buyer("pay", "reconcile").lines
    assert row["outcome"] == "unresolved"
    assert row["message"].startswith("answered without a receipt; the chain does not decide: ")
    shop.clock.advance(3600)
    if not taken:
        shop.add_fault("node_lie")
    run = buyer("pay", "reconcile")
    (row,) = run.lines
    assert (run.code, row["status"], row["charged"]) == (0, "answered", taken)
    assert row["outcome"] == ("answered" if taken else "released")
    assert row["message"].endswith(": $0.06 was taken" if taken else ": its money is no longer held")
    assert (run.notes, buyer("pay", "reconcile", "--dry-run").lines) == ([], [])
    assert buyer("pay", "budget").json["held_total_usd"] == "0.00"


def test_history_of_a_stage(buyer: Terminal, shop: MockServer) -> None:
    assert buyer(*PRICES).code == 0
    for stage in PaymentStage:
        run = buyer("pay", "history", "--stage", stage.value)
        assert (run.code, len(run.lines)) == (0, stage is PaymentStage.ANSWERED)
    shop.add_fault("receipt", missing=True, count=1)
    assert buyer(*PRICES).code == 0
    assert [one["proof"] for one in buyer("pay", "history").lines] == ["none", "receipt"]
    assert [one["proof"] for one in buyer("pay", "history", "--unproven").lines] == ["none"]


def test_a_node_that_cannot_be_used(buyer: Terminal) -> None:
    run = buyer("pay", "reconcile", env={"TRADE_RPC_URL": "http://node.example/a-marked-key"})
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert run.problem["message"].startswith("TRADE_RPC_URL: the RPC URL http://node.example is not https")
    assert "a-marked-key" not in run.err


@pytest.mark.usefixtures("worlds")
def test_in_a_mock_world_its_own_node_is_asked(trade: Terminal) -> None:
    """Whatever the environment names: play money has no place on the chain."""
    trade.env["TRADE_RPC_URL"] = "https://node.invalid"
    assert trade("--mock", "mock", "fault", "add", "status", "--paid", "only", "status=503").code == 0
    name = trade("--mock", "market", "prices", "ETH", "--max-price", "1").problem["payment"]["id"]
    assert trade("--mock", "mock", "fault", "clear").code == 0
    assert trade("--mock", "mock", "clock", "--advance", "3600").code == 0
    run = trade("--mock", "pay", "reconcile")
    (row,) = run.lines
    assert (run.code, row["id"], row["status"]) == (0, name, "not paid")
    assert row["message"].startswith("chain: not used at block ")


def test_mark_and_id_belong_together(buyer: Terminal) -> None:
    assert buyer("pay", "reconcile", "--mark", "paid").code == 2
    assert buyer("pay", "reconcile", "pay_1").code == 2
    assert buyer("pay", "reconcile", "--mark", "paid", "pay_nobody").code == 6


def test_trust(buyer: Terminal, shop: MockServer) -> None:
    address = "0x" + "cd" * 20
    for line, code in (
        (f"{address}", 2),  # nobody to ask
        ("0x12 --yes", 2),
        ("0x12 --dry-run", 2),
        (f"{address} --dry-run", 0),
    ):
        assert buyer("pay", "trust", *line.split()).code == code
    wrong = buyer("pay", "trust", "0x12", answers="y\n")
    assert (wrong.code, "[y/N]" in wrong.err) == (2, False)
    assert "0x12 is not an address" in wrong.err
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        assert trusted(ledger, shop.url) == []
    asked = buyer("pay", "trust", address, answers="y\n")
    assert asked.code == 0
    assert f"  recipient        {address}\n" in asked.err
    assert "  accepted_so_far  any, at the first call\n" in asked.err
    assert f"pay {address} from now on? [y/N]" in asked.err
    assert [one.lower() for one in asked.json["accepted"]] == [address]
    del buyer.env["TRADE_MARKET_BASE_URL"]
    assert buyer("pay", "trust", address, "--yes").code == 3


def test_where_market_data_is_bought(buyer: Terminal, shop: MockServer) -> None:
    """The flag for the whole service counts more than the environment."""
    buyer.env |= {"TRADE_MARKET_BASE_URL": "https://elsewhere.invalid", "TRADE_WALLET_KEY": BUYER_KEY}
    assert buyer(*PRICES, "--base-url", shop.url).code == 0
    del buyer.env["TRADE_MARKET_BASE_URL"]
    assert buyer(*PRICES, env={"TRADE_BASE_URL": shop.url}).code == 0
    market = {"TRADE_BASE_URL": "https://elsewhere.invalid", "TRADE_MARKET_BASE_URL": shop.url}
    assert buyer(*PRICES, env=market).code == 0
    shop.payments.assert_charged(times=3)


def test_spent_held_and_left_make_up_the_budget_everywhere(buyer: Terminal, shop: MockServer) -> None:
    """Whatever became of a payment: each amount is in one of the three, in every place that shows them."""
    buyer("pay", "budget", "set", "--per-day", "0.50", "--total", "0.15")
    assert buyer("market", "prices", "ETH").code == 0
    shop.add_fault("status", status=500, paid="only", count=1)
    assert buyer("market", "prices", "ETH", "AERO").code == 14
    record = buyer("pay", "budget").json
    day = [record[f"{name}_usd"] for name in ("spent_today", "held_today", "left_today", "per_day")]
    assert day == ["0.03", "0.06", "0.41", "0.50"]
    assert [record[f"{name}_total_usd"] for name in ("spent", "held", "left")] == ["0.03", "0.06", "0.06"]
    table = buyer("pay", "budget", "-o", "table").out.splitlines()
    assert table[0].split() == ["budget", "limit", "spent", "held", "left"]
    assert table[3].split() == ["per", "day", "$0.50", "$0.03", "$0.06", "$0.41"]
    over = buyer("market", "prices", "ETH", "BRETT", "AERO").problem
    assert "$0.03 is spent and $0.06 is held" in over["message"]
    env = {"TRADE_BASE_URL": shop.url, "TRADE_API_KEY": "mock_full_me"}
    facts = next(one for one in buyer("doctor", "-o", "json", env=env).json if one["check"] == "ledger")["facts"]
    assert (facts["spent_today_usd"], facts["held_today_usd"]) == ("0.03", "0.06")
    assert (
        "market data today $0.03 spent, $0.06 held, $0.41 left"
        in buyer("top", "--once", columns=200, env=env, tty=True).out
    )
    rows = buyer("pay", "history", "-o", "json").json
    assert [(row["amount_usd"], row["charged"]) for row in rows] == [("0.06", "unknown"), ("0.03", True)]
