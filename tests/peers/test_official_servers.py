"""Our clients buy from servers that use the official middleware, whose facilitators really recover signatures."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tradesdk import (
    NotFoundError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
)

from .._payments import how
from ._buying import NODE, TWO, TWO_COST, Buyer, Flavour, buyer_of, known, paid
from .conftest import Payer, Sellers
from .programs.client_tradesdk import HurriedClock

pytestmark = pytest.mark.peers
EVERYTHING: tuple[tuple[str, tuple[Any, ...], dict[str, Any], int], ...] = (
    ("token_prices", TWO, {}, 60_000),
    ("token_signals", (["BRETT"],), {"limit": 2}, 50_000),
    ("signal_history", (["BRETT"],), {"signal_type": "BUY"}, 50_000),
    ("token_win_rate", (["ETH", "BRETT", "TOSHI"],), {}, 90_000),
    ("token_avg_prices", (["ETH"],), {}, 20_000),
    ("top_performers", (), {"sort_by": "ROI"}, 60_000),
    ("aggregate_metrics", (), {}, 60_000),
)


@pytest.fixture(params=["v2", NODE])
def buyer(request: pytest.FixtureRequest, flavour: Flavour, sellers: Sellers, payer: Payer) -> Buyer:
    """With $1 in the purse, and a seller of each kind."""
    return buyer_of(sellers(request.param), flavour, payer)


def test_everything_for_sale(buyer: Buyer) -> None:
    calls = buyer.seller.chain.calls()
    bought = [buyer.call(name, *args, **named) for name, args, named, _ in EVERYTHING]
    assert paid(buyer) == [cost for *_, cost in EVERYTHING]
    # One look and one settlement each: nothing was submitted twice.
    assert buyer.seller.chain.calls() == tuple(count + len(EVERYTHING) for count in calls)
    for result, made in zip(bought, buyer.seller.chain.transfers(buyer.payer.address), strict=True):
        assert result.data is not None
        assert result.warnings == ()
        assert result.charged is True
        assert how(result.payment) == "answered"
        assert result.payment.amount == made["value"] == result.quote.amount
        assert result.payment.nonce == made["nonce"]
        assert result.payment.pay_to == made["to"]
        assert result.receipt.success is True
        assert result.receipt.transaction == made["transaction"]
        assert result.receipt.payer == buyer.payer.address
    assert bought[0].data.results[0].symbol == "ETH"
    assert known(buyer) == [result.payment for result in bought]


def test_what_is_free_is_not_paid(buyer: Buyer) -> None:
    result = buyer.call("supported_tokens")
    assert result.data.tokens
    assert (result.payment, result.charged) == (None, False)
    assert paid(buyer) == []


def test_what_is_not_there_costs_nothing(buyer: Buyer) -> None:
    """A second try hands over the same cheque, not a new one."""
    nonces = set()
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            buyer.call("token_prices", ["NOPE"])
        payment = caught.value.payment
        assert payment is not None
        assert how(payment) == "sent, refused"
        nonces.add(payment.nonce)
    assert len(nonces) == 1
    assert paid(buyer) == []


def test_an_endpoint_that_is_broken(buyer: Buyer) -> None:
    """502 says nothing about the money: the same cheque again, a few times, then the truth: unknown."""
    looked, settled = buyer.seller.chain.calls()
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        buyer.call("token_prices", ["BROKEN"])
    payment = caught.value.payment
    assert payment is not None
    assert payment.charged == "unknown"
    assert how(payment) == "sent, unknown"
    after = buyer.seller.chain.calls()
    assert after == (looked + payment.submissions, settled)
    assert 2 <= payment.submissions <= 6
    assert [one.nonce for one in known(buyer)] == [payment.nonce]
    assert paid(buyer) == []


def test_a_settlement_that_fails_once(buyer: Buyer) -> None:
    buyer.seller.chain.refuse_next("out of gas")
    result = buyer.call("token_prices", *TWO)
    assert result.payment.submissions == 2
    assert paid(buyer) == [TWO_COST]
    (transfer,) = buyer.seller.chain.transfers(buyer.payer.address)
    assert [one.nonce for one in known(buyer)] == [transfer["nonce"]]


def test_a_settlement_that_nobody_hears_of(buyer: Buyer) -> None:
    """The money is taken, the answer says that it perhaps was not, and the same cheque again says that it was."""
    buyer.seller.chain.lose_receipts(2)  # the servers ask a second time by themselves
    with pytest.raises(PaymentUndeliveredError) as caught:
        buyer.call("token_prices", *TWO)
    payment = caught.value.payment
    assert payment is not None
    assert how(payment) == "taken, undelivered"
    assert payment.charged == "unknown"  # there is no receipt
    assert payment.submissions == 2
    assert "nonce_already_used" in payment.reason
    assert paid(buyer) == [TWO_COST]
    with pytest.raises(PaymentRefusedError):  # not paid for again before somebody says so
        buyer.call("token_prices", *TWO)
    assert how(buyer.call("token_prices", *TWO, purchase="another").payment) == "answered"
    assert paid(buyer) == [TWO_COST] * 2


def test_a_payer_without_money(buyer: Buyer) -> None:
    buyer.seller.chain.give(buyer.payer.address, TWO_COST - 1)
    with pytest.raises(PaymentRejectedError) as caught:
        buyer.call("token_prices", *TWO)
    assert caught.value.reason == "invalid_exact_evm_insufficient_balance"
    payment = caught.value.payment
    assert payment is not None
    assert how(payment) == "sent, rejected"
    assert payment.submissions == 1
    buyer.seller.chain.give(buyer.payer.address, 1_000_000)
    result = buyer.call("token_prices", *TWO)  # the same cheque, which is good now
    assert result.payment.nonce == payment.nonce
    assert paid(buyer) == [TWO_COST]


def test_what_was_delivered_is_not_handed_over_again(buyer: Buyer) -> None:
    result = buyer.call("token_prices", *TWO)
    looked, settled = buyer.seller.chain.calls()
    with pytest.raises(PaymentRefusedError):
        buyer.call("payments.resume", result.payment.id)
    assert buyer.seller.chain.calls() == (looked, settled)
    assert paid(buyer) == [TWO_COST]


def test_a_budget_stops_before_anything_is_signed(buyer: Buyer) -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        buyer.call("token_prices", *TWO, max_price="0.05")
    assert caught.value.payment is None
    assert not any(sent.endswith(" paid") for sent in buyer.requests)
    assert known(buyer) == []
    assert paid(buyer) == []


@pytest.mark.parametrize("offset", [-60, 600])
@pytest.mark.parametrize("name", ["v2", NODE])
def test_a_clock_that_is_a_minute_slow_or_ten_minutes_fast(
    name: str, offset: int, flavour: Flavour, sellers: Sellers, payer: Payer
) -> None:
    """A slower one is refused: the payment would be valid for more than two minutes by it."""
    buyer = buyer_of(sellers(name), flavour, payer, clock=HurriedClock(offset))
    assert how(buyer.call("token_prices", *TWO).payment) == "answered"
    assert paid(buyer) == [TWO_COST]


def test_a_server_that_wants_an_identifier(flavour: Flavour, sellers: Sellers, payer: Payer) -> None:
    """The extension is echoed with an id of ours, and the official server finds nothing changed."""
    buyer = buyer_of(sellers("v2 identified"), flavour, payer)
    result = buyer.call("token_prices", *TWO)
    assert result.payment.identified is True
    assert how(result.payment) == "answered"
    assert paid(buyer) == [TWO_COST]


@pytest.mark.parametrize("name", ["v2", NODE])
def test_the_counterpart_is_real(name: str, sellers: Sellers, payer: Payer) -> None:
    """It recovers signatures and looks at what was signed: a cheque with one other digit is worth nothing there."""
    seller = sellers(name)
    buyer = buyer_of(seller, "blocking", payer)
    with pytest.raises(NotFoundError):
        buyer.call("token_prices", ["NOPE"])
    (payment,) = known(buyer)
    url = f"{seller.url}/v1/token-prices"

    def submit(content: Any) -> httpx.Response:
        value = base64.b64encode(json.dumps(content).encode()).decode()
        body = {"tokens": [{"identifier": "BRETT"}]}
        return httpx.post(url, json=body, headers={"PAYMENT-SIGNATURE": value}, trust_env=False, timeout=30)

    cheque = json.loads(base64.b64decode(payment.header))
    forgeries = []
    for field, digit in (("signature", 10), ("nonce", 10), ("validBefore", -1), ("from", 10), ("to", 10)):
        forged = json.loads(json.dumps(cheque))
        place = forged["payload"] if field == "signature" else forged["payload"]["authorization"]
        digits = list(place[field])
        digits[digit] = "1" if digits[digit] != "1" else "2"
        place[field] = "".join(digits)
        forgeries.append(submit(forged).status_code)
    assert forgeries == [402] * 5
    assert paid(buyer) == []
    assert submit(cheque).status_code == 200
    assert paid(buyer) == [30_000]
