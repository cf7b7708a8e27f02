"""What is not written about payments: the default and every other value of the option."""

from __future__ import annotations

import pytest

from tradesdk_mock.payments import settlements

from ._paying import PAYER, STRANGER, decode
from ._shop import PRICE, Shop, reason
from ._support import START


@pytest.mark.parametrize("seconds", [60, 1, 15, 86_400])
def test_payment_window(seconds: int) -> None:
    shop = Shop(payment_window=seconds)
    for version in (2, 1):
        (way,) = shop.ask(version)["accepts"]
        assert way["maxTimeoutSeconds"] == seconds
    answer = shop.buy(1)
    if seconds == 1:
        assert reason(answer) == "invalid_exact_evm_payload_authorization_valid_before"
    else:
        assert answer.status == 200
    # It is advice: a payment that is valid for longer is taken.
    assert shop.buy(2, validBefore=str(START + 10**6)).status == 200


@pytest.mark.parametrize("value", ["none", "optional", "required"])
def test_payment_identifier(value: str) -> None:
    """More of it in test_payments_identifier."""
    shop = Shop(payment_identifier=value)
    assert ("extensions" in shop.ask()) is (value != "none")
    assert shop.buy(1).status == (400 if value == "required" else 200)
    if value != "none":
        content = shop.signed(2, identifier="x" * 16)
        assert [shop.present(content).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("value", ["one", "several"])
def test_offers(value: str) -> None:
    shop = Shop(offers=value)
    plain = ("exact", "eip155:8453", "30000")
    ways = [(way["scheme"], way["network"], way["amount"]) for way in shop.ask()["accepts"]]
    if value == "one":
        assert ways == [plain]
        return
    assert ways == [
        ("exact", "eip155:8453", "60000"),
        ("upto", "eip155:8453", "30000"),
        ("exact", "eip155:84532", "30000"),
        plain,
    ]
    old = [(way["scheme"], way["network"], way["maxAmountRequired"]) for way in shop.ask(1)["accepts"]]
    assert old == [(scheme, {"eip155:8453": "base"}.get(net, "base-sepolia"), amount) for scheme, net, amount in ways]
    for version in (2, 1):
        first = 10 * version
        assert shop.buy(first, version).status == 200
        assert shop.buy(first + 1, version, choice=0).status == 200
        assert reason(shop.buy(first + 2, version, choice=1)) == "unsupported_scheme"
        assert reason(shop.buy(first + 3, version, choice=2)) == "invalid_network"
    taken = [amount for (amount,) in shop.world.store.all("SELECT amount FROM settlements ORDER BY seq")]
    assert taken == [PRICE, 2 * PRICE] * 2


@pytest.mark.parametrize("dollars", [1_000, 0, 1])
def test_payer_balance(dollars: int) -> None:
    shop = Shop(payer_balance=dollars)
    answer = shop.buy(1)
    if not dollars:
        assert reason(answer) == "insufficient_funds"
        return
    assert decode(answer.headers["payment-response"])["success"] is True
    assert settlements.balance(shop.world, PAYER.address) == dollars * 1_000_000 - PRICE
    assert settlements.balance(shop.world, STRANGER.address) == dollars * 1_000_000
