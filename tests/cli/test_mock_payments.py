"""`trade mock payments`, against a mock that was paid."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from .._rows import each_of
from ..mock._paying import PAYER, STRANGER, offer_of, pay
from ._terminal import Terminal

START = 1_800_000_000
URL = "/v1/token-prices"
BODY = {"tokens": [{"identifier": "BRETT"}]}


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(clock=MockClock(START)) as running:
        yield running


@pytest.fixture
def own(trade: Terminal, server: MockServer) -> Terminal:
    trade.env["TRADE_BASE_URL"] = server.url
    return trade


def buy(server: MockServer, *nonces: int) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        offer = offer_of(http.post(URL, json=BODY).headers)
        for nonce in nonces:
            http.post(URL, json=BODY, headers=pay(offer, START, nonce))


def test_list(own: Terminal, server: MockServer) -> None:
    empty = own("mock", "payments", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "no payment was taken" in empty.err
    buy(server, 1, 1, 2)
    lines = own("mock", "payments", "list").lines
    assert [(each["amount"], each["submitted"], each["payer"]) for each in lines] == [
        (30_000, 2, PAYER.address),
        (30_000, 1, PAYER.address),
    ]
    assert own("mock", "payments", "list", "--payer", STRANGER.address).out == ""
    assert len(own("mock", "payments", "list", "--path", "/v1/token-*").lines) == 2
    table = own("mock", "payments", "list", "-o", "table", columns=140).out
    assert table.splitlines()[0].split() == ["n", "time", "path", "amount", "payer", "delivered", "submitted"]
    assert PAYER.address in table
    assert table.splitlines()[1].split()[-4] == "$0.03"


def test_what_arrived(own: Terminal, server: MockServer) -> None:
    assert "no payment has arrived" in own("mock", "payments", "list", "--submitted").err
    buy(server, 1, 1)
    verdicts = [each["verdict"] for each in own("mock", "payments", "list", "--submitted").lines]
    assert verdicts == ["settled", "invalid_exact_evm_nonce_already_used"]
    assert "settled" in own("mock", "payments", "list", "--submitted", "-o", "table", columns=140).out
    run = own("mock", "payments", "list", "--submitted", "--path", URL)
    assert (run.code, run.problem["code"]) == (2, "usage")


def test_balance(own: Terminal, server: MockServer) -> None:
    run = own("mock", "payments", "balance")
    assert (run.code, run.out) == (0, "")
    assert "every other payer has 1,000.00 USD" in run.err
    assert own("mock", "payments", "balance", PAYER.address).json["balance"] == 1_000_000_000
    for amount, micro in (("0", 0), ("12", 12_000_000), ("0.05", 50_000), ("1.000001", 1_000_001)):
        done = own("mock", "payments", "balance", PAYER.address.lower(), "--set", amount).json
        assert done == {"payer": PAYER.address, "balance": micro}
        assert server.payments.balance(PAYER.address) == micro
    assert own("mock", "payments", "balance").lines == [{"payer": PAYER.address, "balance": 1_000_001}]


@each_of("amount", ["", "-1", "+1", "1e3", "NaN", "0.0000001", "1,5", ".5", "1.", "1_0", "1" * 10, "٣"])
def test_what_is_no_amount(own: Terminal, server: MockServer, amount: str) -> None:
    run = own("mock", "payments", "balance", PAYER.address, "--set", amount)
    assert (run.code, run.problem["code"]) == (2, "usage")
    assert server.payments.balances() == {}


def test_an_amount_needs_a_payer(own: Terminal) -> None:
    assert own("mock", "payments", "balance", "--set", "5").code == 2
    run = own("mock", "payments", "balance", "me", "--set", "5")
    assert (run.code, run.problem["code"]) == (8, "invalid_request")
    assert "is not an address" in run.problem["message"]


def test_check(own: Terminal, server: MockServer) -> None:
    buy(server, 1, 1)
    fine = own("mock", "payments", "check")
    assert (fine.code, fine.out) == (0, "")
    assert "nothing was charged twice" in fine.err
    buy(server, 2)  # an equal call, on purpose
    assert own("mock", "payments", "check").code == 0
    server.add_fault("overlook", charged=True, count=1)
    buy(server, 3)
    server.clock.advance(10)
    buy(server, 4)
    run = own("mock", "payments", "check")
    assert run.code == 1
    assert [each["nonce"][-1] for each in run.lines] == ["3", "4"]
    assert "1 purchase was charged more than once" in run.err
    assert own("mock", "payments", "check", "--within", "9").code == 0
    assert own("mock", "payments", "check", "--within", "10").code == 1
    assert own("mock", "payments", "check", "--payer", STRANGER.address).code == 0
    assert own("mock", "payments", "check", "--within", "-1").code == 2


def test_a_fault_for_requests_that_pay(trade: Terminal) -> None:
    rule = trade(
        "--mock",
        "mock",
        "fault",
        "add",
        "offer",
        "--paid",
        "never",
        'fields={"amount": "9"}',
        'body={"a": 1}',
        "header=7",
    ).json
    assert (rule["paid"], rule["parameters"]) == (
        "never",
        {"fields": {"amount": "9"}, "body": '{"a": 1}', "header": "7"},
    )
    assert "without a payment" in trade("--mock", "mock", "fault", "list", "-o", "table").out
    run = trade("--mock", "mock", "fault", "add", "settlement", "paid=only")
    assert (run.code, run.problem["message"]) == (2, "paid is an option: --paid")
    assert trade("--mock", "mock", "fault", "add", "settlement", "--paid", "often").code == 2
