"""Codes that tell apart what a caller handles differently, and the typed details behind some of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tradesdk import (
    Budget,
    LocalSigner,
    MarketClient,
    RetryPolicy,
    Timeout,
    TradeClient,
    TradeError,
    create_keystore,
    keystore_address,
)
from tradesdk.payments.messages import rejected

from .._payments import payment

URL = "https://service.example"
KEY = "0x" + "01" * 32
EXACT = "invalid_exact_evm_payload"


def trade(**settings: Any) -> TradeClient:
    given: dict[str, Any] = {"api_key": "k", "base_url": URL, **settings}
    return TradeClient(**given)


def closed_client() -> None:
    client = trade()
    client.close()
    client.account.get()


class OddSigner:
    address = LocalSigner.from_key(KEY).address

    def sign_digest(self, digest: bytes) -> bytes:
        return b"too short"


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: trade(base_url="service.example"), "invalid_base_url"),
        (lambda: trade(base_url="http://service.example"), "invalid_base_url"),
        (lambda: MarketClient(base_url=f"{URL}/v2"), "invalid_base_url"),
        (lambda: trade(base_url="https://[::1]:x"), "invalid_base_url"),
        (lambda: trade(api_key=""), "invalid_api_key"),
        (lambda: trade(api_key="é"), "invalid_api_key"),
        (lambda: trade(api_key="k" * 513), "invalid_api_key"),
        (lambda: trade(deadline=0), "invalid_setting"),
        (lambda: Timeout(connect=0), "invalid_setting"),
        (lambda: RetryPolicy(max_retries=6), "invalid_setting"),
        (lambda: Budget.from_environment({"TRADE_BUDGET_TOTAL": "much"}), "invalid_budget"),
        (lambda: Budget(total="much"), "invalid_argument"),
        (lambda: trade().agents.get(".."), "invalid_argument"),
        (lambda: LocalSigner.from_key("0x12"), "invalid_private_key"),
        (lambda: LocalSigner.from_env("NO_SUCH_VARIABLE"), "invalid_private_key"),
        (lambda: LocalSigner.from_callable(lambda: "none").address, "invalid_private_key"),
        (lambda: trade().wallets.connect_with(OddSigner(), chain_id=8453, label="l"), "invalid_signer"),
        (closed_client, "invalid_state"),
    ],
)
def test_use_and_settings(use: Callable[[], object], code: str) -> None:
    with pytest.raises(TradeError) as caught:
        use()
    assert caught.value.code == code, caught.value


def test_keystores(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    create_keystore(path, "password", KEY, work=2)
    good = json.loads(path.read_text())

    def code(use: Callable[[], object]) -> str:
        with pytest.raises(TradeError) as caught:
            use()
        return caught.value.code

    def of(**changes: Any) -> str:
        path.write_text(json.dumps({name: value for name, value in (good | changes).items() if value is not None}))
        return code(lambda: keystore_address(path))

    assert code(lambda: create_keystore(path, "password", work=2)) == "keystore_exists"
    assert code(lambda: LocalSigner.from_keystore(path, "another")) == "wrong_password"
    assert code(lambda: keystore_address(tmp_path / "none.json")) == "invalid_keystore"
    assert code(lambda: keystore_address(tmp_path)) == "invalid_keystore"
    assert of(version=2) == "invalid_keystore"
    assert of(crypto={}) == "keystore_damaged"
    assert of(address="0x12") == "keystore_damaged"
    assert of(address=None) == "keystore_without_address"
    if os.name != "nt":
        path.chmod(0o644)
        assert of() == "keystore_exposed"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("insufficient_funds", "insufficient_funds"),
        ("invalid_exact_evm_insufficient_balance", "insufficient_funds"),
        (f"{EXACT}_signature", "signature_rejected"),
        (f"{EXACT}_authorization_valid_before", "validity_rejected"),
        (f"{EXACT}_authorization_valid_after", "validity_rejected"),
        (f"{EXACT}_recipient_mismatch", "payment_rejected"),
        ("No matching payment requirements", "payment_rejected"),
        ("a word of tomorrow", "payment_rejected"),
    ],
)
def test_what_a_service_calls_a_rejection_stays_beside_the_code(reason: str, code: str) -> None:
    one = payment()
    error = rejected(one, reason, None)
    assert (error.code, error.reason, error.payment) == (code, reason, one)
    assert str(error).startswith(f"{code}: the service rejected a payment of ${one.amount_usd.normalize():f}")
    assert error.message.endswith(f": {reason}")
    assert error.hint


def test_details_are_values() -> None:
    from tradesdk import BudgetDetails

    one = BudgetDetails(cost=Decimal("0.06"))
    assert one == BudgetDetails(cost=Decimal("0.060"))
    with pytest.raises(AttributeError):
        one.cost = Decimal(1)  # type: ignore[misc]
