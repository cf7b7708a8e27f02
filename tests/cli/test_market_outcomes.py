"""When a purchase does not end well: exit codes 12, 13 and 14, what became of the money, and the command to go on."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, cast

import pytest

from tradesdk import Budget, Ledger, LedgerError, Payment, PaymentRefusedError, SystemClock
from tradesdk.payments import PriceDetails, RecipientDetails, TokenDetails
from tradesdk.payments.messages import already_known, blocking_error, not_expired, outcome_error
from tradesdk.payments.state_machine import OPEN, Report
from tradesdk_cli.explain import problem_of
from tradesdk_cli.pay.buy import _bought
from tradesdk_cli.wallet import Wallet
from tradesdk_mock import MockServer

from .._payments import MARKED_PAID, PLACES, REJECTED, UNSENT, payment
from .._rows import each_of
from ..unit._ledger import set_budget
from ._terminal import Run, Terminal

PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


def about_money(run: Run) -> tuple[int, str, Any, Any]:
    problem = run.problem
    return run.code, problem["code"], problem["charged"], problem["payment"] and problem["payment"]["stage"]


@pytest.mark.parametrize(
    ("fault", "told", "hint"),
    [
        ({"kind": "reset", "executed": True}, (14, "outcome_unknown", "unknown", "sent"), "trade pay resume pay_"),
        ({"kind": "status", "status": 503}, (14, "outcome_unknown", "unknown", "sent"), "trade pay resume pay_"),
        pytest.param(
            {"kind": "status", "status": 429},
            (14, "outcome_unknown", "unknown", "sent"),
            "trade pay resume pay_",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"kind": "settlement", "reason": "settlement_pending"},
            (14, "outcome_unknown", "unknown", "sent"),
            "trade pay resume pay_",
            marks=pytest.mark.long,
        ),
        ({"kind": "malformed_json"}, (14, "paid_undelivered", True, "taken"), "trade pay show pay_"),
        (
            {"kind": "verification", "reason": "insufficient_funds"},
            (13, "insufficient_funds", "unknown", "sent"),
            "on a mock, give it play money: trade mock payments set-balance 0x",
        ),
        (
            {"kind": "verification", "reason": "invalid_payload"},
            (13, "invalid_payload", "unknown", "sent"),
            "see it: trade pay show pay_",
        ),
    ],
)
def test_after_a_payment(
    buyer: Terminal, shop: MockServer, fault: dict[str, Any], told: tuple[int, str, Any, str], hint: str
) -> None:
    shop.add_fault(paid="only", count=1, **fault)
    run = buyer(*PRICES)
    assert about_money(run) == told
    problem = run.problem
    assert hint in problem["hint"]
    assert problem["payment"] == {
        "id": problem["payment"]["id"],
        "stage": told[3],
        "amount_usd": "0.06",
        "nonce": shop.payments.submissions()[0].nonce or problem["payment"]["nonce"],
        "valid_before": problem["payment"]["valid_before"],
    }
    assert re.fullmatch(r"pay_[0-9a-f]{24}", problem["payment"]["id"])
    assert shop.payments.signatures() <= 1


def test_the_same_command_again_hands_the_same_payment_over(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("status", status=500, paid="only", count=1)
    assert buyer(*PRICES).code == 14
    again = buyer(*PRICES)
    assert again.code == 0, again.err
    shop.payments.assert_charged(times=1)
    assert shop.payments.signatures() == 1
    new = buyer(*PRICES)
    assert new.code == 0, "that one ended, so this is another purchase"
    shop.payments.assert_charged(times=2)


def test_what_is_unresolved_is_not_paid_for_again_unless_ordered(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("malformed_json", paid="only", count=1)
    name = buyer(*PRICES).problem["payment"]["id"]
    again = buyer(*PRICES)
    assert about_money(again) == (12, "unresolved_payment", True, "taken")
    assert f"trade pay reconcile --mark paid {name}" in again.problem["hint"]
    assert buyer(*PRICES, "--purchase", "another").code == 0
    shop.payments.assert_charged(times=2)


@pytest.mark.parametrize(
    ("offer", "code", "hint"),
    [
        ({"amount": "90000"}, "over_price", "--max-price 0.09"),
        ({"network": "eip155:1"}, "unsupported_network", "only with USDC on Base"),
        pytest.param({"payTo": "nobody"}, "bad_recipient", "report it to the service", marks=pytest.mark.long),
        pytest.param({"maxTimeoutSeconds": 5}, "short_validity", "maxTimeoutSeconds", marks=pytest.mark.long),
    ],
)
def test_guards(buyer: Terminal, shop: MockServer, offer: dict[str, Any], code: str, hint: str) -> None:
    shop.add_fault("offer", fields=offer)
    run = buyer("market", "prices", "ETH", "BRETT", env={"TRADE_BUDGET_PER_DAY": "5"})
    assert about_money(run) == (12, code, False, None)
    assert hint in run.problem["hint"]
    assert shop.payments.submissions() == []


def test_a_budget_that_is_no_amount(buyer: Terminal, shop: MockServer) -> None:
    wrong = buyer("market", "prices", "ETH", env={"TRADE_BUDGET_PER_DAY": "1e3"})
    assert (wrong.code, wrong.problem["code"]) == (3, "configuration")
    assert "TRADE_BUDGET_PER_DAY" in wrong.problem["message"]
    assert "such as 0.50" in wrong.problem["hint"]
    assert shop.payments.submissions() == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PER_CALL", "per call"),
        pytest.param("PER_DAY", "per day", marks=pytest.mark.long),
        ("TOTAL", "in total"),
    ],
)
def test_a_budget_is_raised_where_it_was_set(buyer: Terminal, shop: MockServer, name: str, told: str) -> None:
    line = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")
    run = buyer(*line, env={f"TRADE_BUDGET_{name}": "0.05"})
    assert about_money(run) == (12, "over_budget", False, None)
    assert f"the budget of $0.05 {told}" in run.problem["message"]
    assert f"to raise it: TRADE_BUDGET_{name} in the environment" in run.problem["hint"]
    option = f"--{name.lower().replace('_', '-')}"
    assert buyer("pay", "budget", "set", option, "0.04").code == 0
    kept = buyer(*line, env={f"TRADE_BUDGET_{name}": "0.05"})
    assert f"trade pay budget set {option} USD" in kept.problem["hint"], "the stricter one is in the ledger"
    assert "max-price" not in run.err + kept.err
    assert shop.payments.submissions() == []


def test_another_recipient_is_refused_until_it_is_trusted(buyer: Terminal, shop: MockServer) -> None:
    assert buyer(*PRICES).code == 0
    other = "0x" + "ab" * 20
    shop.add_fault("offer", fields={"payTo": other})
    run = buyer(*PRICES)
    assert about_money(run) == (12, "recipient_changed", False, None)
    assert f"trade pay trust {other}" in run.problem["hint"]
    shop.payments.assert_charged(times=1)
    no = buyer("pay", "trust", other, answers="n\n")
    assert (no.code, buyer(*PRICES).code) == (1, 12)
    yes = buyer("pay", "trust", other, "--yes")
    assert yes.json["service"] == shop.url
    assert [one.lower() for one in yes.json["accepted"]] == [shop.payments.pay_to.lower(), other]
    assert buyer(*PRICES).code == 0
    assert shop.payments.settlements()[-1].pay_to.lower() == other


def test_no_wallet(buyer: Terminal, shop: MockServer) -> None:
    del buyer.env["TRADE_WALLET_KEY"]
    run = buyer(*PRICES)
    assert about_money(run) == (12, "no_signer", False, None)
    assert "trade pay key new" in run.problem["hint"]
    assert shop.payments.submissions() == []


def test_an_ordinary_error_after_paying_says_what_became_of_the_money(buyer: Terminal, shop: MockServer) -> None:
    run = buyer("market", "prices", "0x" + "ab" * 20, "--max-price", "0.10")
    assert about_money(run) == (6, "http_404", "unknown", "sent")
    assert "$0.03 was sent, and stays held, as nothing proves that it was not taken" in run.problem["hint"]
    assert "trade market tokens" in run.problem["hint"]
    shop.payments.assert_charged(times=0)


def test_the_service_may_want_the_api_key(buyer: Terminal, shop: MockServer) -> None:
    shop.set_gaps(b_bearer="required")
    run = buyer(*PRICES)
    assert (run.code, run.problem["status"]) == (4, 401)
    assert "--send-api-key" in run.problem["hint"]
    without = buyer(*PRICES, "--send-api-key")
    assert (without.code, without.problem["code"]) == (3, "configuration")
    assert buyer(*PRICES, "--send-api-key", env={"TRADE_API_KEY": "mock_full_me"}).code == 0


@each_of(
    ("env", "named"),
    [
        ({"TRADE_MARKET_BASE_URL": ""}, "TRADE_MARKET_BASE_URL or TRADE_BASE_URL"),
        ({"TRADE_MARKET_BASE_URL": "http://x.example"}, "not https: a payment would be sent to x.example unencrypted"),
        ({"TRADE_MARKET_BASE_URL": "ftp://x.example"}, "must look like https"),
        ({"TRADE_WALLET_KEY": "0x12"}, "TRADE_WALLET_KEY"),
    ],
)
def test_settings_that_cannot_be_used(buyer: Terminal, env: dict[str, str], named: str) -> None:
    run = buyer(*PRICES, env=env)
    assert (run.code, run.problem["code"]) == (3, "configuration")
    assert named in run.problem["message"]
    assert "allow_insecure" not in run.err
    assert "0x12" not in run.err


def test_a_ledger_that_cannot_be_used(buyer: Terminal, shop: MockServer) -> None:
    (buyer.home / "ledger.sqlite3").write_text("no ledger at all, but long enough to be looked at" * 100)
    for line in (PRICES, ("pay", "history"), ("pay", "budget"), ("pay", "quote", "prices", "ETH")):
        run = buyer(*line)
        assert about_money(run) == (3, "ledger_damaged", False, None)
        assert "ledger.sqlite3" in run.problem["message"]
    assert shop.payments.submissions() == []


@pytest.mark.usefixtures("worlds")
def test_when_its_time_is_up(trade: Terminal) -> None:
    """Resending it is no use any more: the same command signs its nonce again."""
    trade.env["TRADE_MOCK"] = "1"
    trade("mock", "fault", "add", "status", "status=500", "--paid", "only", "--count", "1")
    name = trade(*PRICES).problem["payment"]["id"]
    trade("mock", "clock", "--advance", "58")
    run = trade("pay", "resume", name)
    assert about_money(run) == (14, "time_is_up", "unknown", "sent")
    assert "has expired or is about to" in run.problem["message"]
    assert run.problem["hint"] == (
        "run the purchase again: it signs the same nonce again, which is taken only once; 10 minutes after its first "
        "signing it makes a new payment; "
        f"or look at the wallet, then trade pay reconcile --mark paid {name}, or --mark unpaid"
    )
    trade("mock", "clock", "--advance", "60")
    assert trade("pay", "reconcile", "--mark", "unpaid", name).json["status"] == "not paid"
    again = trade(*PRICES)
    assert (again.code, trade("pay", "show", name).json["stage"]) == (0, "answered")


def test_for_a_person(buyer: Terminal, shop: MockServer) -> None:
    shop.add_fault("reset", executed=True, paid="only", count=1)
    run = buyer(*PRICES, tty=True, columns=600, env={"NO_COLOR": "1"})
    assert run.code == 14
    error, hint = run.err.splitlines()[-2:]
    assert error.startswith("error: $0.06 may have been paid (the connection was lost")
    assert re.fullmatch(r".*; nonce 0x[0-9a-f]{64}", error)
    assert re.match(r"hint: run the command again, or until \d\d:\d\d:\d\d UTC trade pay resume pay_", hint)


# Hints speak of commands, in whatever the command was run on


def test_hints_name_commands_of_the_mock() -> None:
    lost = LedgerError("gone", code="ledger_failed", hint="look", payment=payment(**MARKED_PAID))
    told = problem_of(lost, "trade --mock")
    assert (told.exit_code, told.about["charged"]) == (14, True)
    assert told.hint is not None
    assert told.hint.endswith(
        "look at the wallet, then trade --mock pay reconcile --mark paid pay_000000000000000000000001, or --mark unpaid"
    )


EARLIER = payment(**REJECTED)
SHOW = f"trade --mock pay show {EARLIER.id}"
DEAR = PriceDetails(price=Decimal("0.09"), allowed=Decimal("0.06"))
ABSURD = PriceDetails(price=Decimal(10**30), allowed=Decimal("0.06"))
OTHER = RecipientDetails(address="0x" + "ab" * 20, trusted=("0x" + "cd" * 20,))
TYPED = TokenDetails(unknown=("BRET",), suggestions=("BRETT", "BERT"))


@each_of(
    ("code", "about", "hint"),
    [
        ("in_progress", EARLIER, f"wait for that call to end, then look again: {SHOW}"),
        ("in_progress", None, "wait for that call to end, then look again"),
        ("no_such_payment", None, "see what there is: trade --mock pay history"),
        ("not_unresolved", EARLIER, f"trade --mock pay resume {EARLIER.id}"),
        ("not_live", EARLIER, f"look at it: {SHOW}; the same data can be bought again"),
        ("already_delivered", EARLIER, f"look at it: {SHOW}; the same data can be bought again"),
        (
            "already_delivered",
            payment(purchase="monday"),
            f"look at it: {SHOW}; to buy it again, give it another --purchase name",
        ),
        ("over_price", DEAR, "to pay that anyway: --max-price 0.09"),
        ("over_price", ABSURD, "in the SDK's words"),
        (
            "recipient_changed",
            OTHER,
            f"ask the service whether that is right; if it is: trade --mock pay trust {OTHER.address}",
        ),
        (
            "unknown_token",
            TYPED,
            "did you mean BRETT or BERT? a token that is not listed is bought by its address; see",
        ),
        ("short_validity", None, "in the SDK's words"),
    ],
)
def test_hints_of_refusals(code: Any, about: Any, hint: str) -> None:
    """Where the SDK names a method, the terminal names a command. What it says of neither is shown as it is."""
    earlier, details = (about, None) if isinstance(about, Payment) else (None, about)
    refusal = PaymentRefusedError("no", code=code, hint="in the SDK's words", details=details, payment=earlier)
    told = problem_of(refusal, "trade --mock")
    assert told.hint is not None
    assert told.hint.startswith(hint)
    assert told.exit_code == (6 if code in ("no_such_payment", "unknown_token") else 12)


def test_another_price_or_recipient_than_an_earlier_payment_has() -> None:
    for code, details in (("over_price", DEAR), ("recipient_changed", OTHER)):
        refusal = PaymentRefusedError("no", code=cast(Any, code), details=details, payment=EARLIER)
        told = problem_of(refusal, "trade --mock")
        assert told.hint == f"trade --mock pay resume {EARLIER.id} resends it anyway; or wait until it has expired"
    own = payment(**UNSENT)
    told = problem_of(PaymentRefusedError("no", code="recipient_changed", details=OTHER, payment=own))
    assert told.hint is not None
    assert told.hint.endswith(f"trade pay trust {OTHER.address}"), "another call remembered another one meanwhile"


@each_of("place", PLACES)
def test_hints_name_no_method(place: dict[str, Any]) -> None:
    """Whatever became of an earlier payment: who typed a command has no client."""
    one = payment(**place)
    ended = outcome_error(one, Report(OPEN, "lost"))
    for error in filter(None, (blocking_error(one), not_expired(one), already_known(one), ended)):
        assert "client.payments" in error.hint or "call again" in error.hint or "purchase=" in error.hint
        told = problem_of(error)
        assert told.hint is not None
        assert not re.search(r"client\.|[a-z_]+=|call again", told.hint)


def test_a_password_that_takes_long_costs_another_try_only() -> None:
    opened: list[int] = []

    class Slow(Wallet):
        @property
        def opened(self) -> bool:
            return bool(opened)

    def buy() -> str:
        opened.append(1)
        if len(opened) == 1:
            raise PaymentRefusedError("signing took longer", code="signer_too_slow")
        return "bought"

    wallet = Slow("0x" + "11" * 20, lambda: pytest.fail("nothing is signed here"))
    assert cast(Any, _bought(wallet, cast(Any, buy))) == "bought"
    opened.clear()

    def never() -> str:
        opened.append(1)
        raise PaymentRefusedError("signing took longer", code="signer_too_slow")

    with pytest.raises(PaymentRefusedError):
        _bought(wallet, cast(Any, never))
    assert len(opened) == 2


@pytest.mark.usefixtures("patient")
def test_ctrl_c_says_what_was_under_way(buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def enough(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", enough)
    shop.add_fault("status", status=500, paid="never", count=1)
    before = buyer("market", "prices", "ETH", "--max-price", "0.03", "-o", "table")
    assert (before.code, before.err.splitlines()[-1]) == (130, "interrupted")
    assert "was being paid" not in before.err
    shop.add_fault("status", status=500, paid="only", count=1)
    run = buyer("market", "prices", "ETH", "--max-price", "0.03", "-o", "table")
    (payment,) = buyer("pay", "history").lines
    assert run.code == 130
    assert f"$0.03 was being paid: trade pay resume {payment['id']}, or the same command, continues it" in run.err
    assert buyer("pay", "resume", payment["id"]).code == 0
    shop.payments.assert_charged(times=1)


def test_ctrl_c_names_an_older_payment_that_is_signed_again(
    buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add_fault("status", status=500, paid="only", count=1)
    older = buyer("market", "prices", "ETH", "--max-price", "0.03").problem["payment"]["id"]
    assert buyer("market", "prices", "BRETT", "--max-price", "0.03").code == 0
    long_ago = "UPDATE payments SET valid_before = valid_before - 9000 WHERE id = ?"
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        ledger._engine.run(lambda db: db.write((long_ago, (older,))), write=True)

    def enough(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", enough)
    del buyer.env["TRADE_MAX_RETRIES"]
    shop.add_fault("status", status=500, paid="only", count=1)
    run = buyer("market", "prices", "ETH", "--max-price", "0.03")
    assert run.code == 130
    assert f"was being paid: trade pay resume {older}" in run.err


def test_a_budget_in_the_ledger_counts(buyer: Terminal, shop: MockServer) -> None:
    with Ledger(buyer.home / "ledger.sqlite3") as ledger:
        set_budget(ledger, Budget(per_day="0.07"))
    line = ("market", "prices", "ETH", "BRETT")
    assert buyer(*line).code == 0
    second = buyer(*line)
    assert second.code == 12
    assert "leaves $0.01" in second.problem["message"]
    assert "there is room from" in second.problem["hint"]
    shop.payments.assert_charged(times=1)


# After the money has gone


def test_a_query_that_does_not_fit_what_was_bought(buyer: Terminal, shop: MockServer) -> None:
    run = buyer(*PRICES, "-o", "json", "--query", "sum([].symbol)")
    assert about_money(run) == (1, "not_printed", True, "answered")
    assert run.problem["message"].startswith("--query: In function sum()")
    name = run.problem["payment"]["id"]
    assert run.problem["hint"] == f"your answer is kept: trade pay resume {name}"
    assert [one["symbol"] for one in buyer(*run.problem["hint"].partition(": trade ")[2].split()).lines] == [
        "ETH",
        "BRETT",
    ]
    shop.payments.assert_charged(times=1)
