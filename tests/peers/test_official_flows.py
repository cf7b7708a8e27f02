"""Offers in the body, payments settled before the work, and smart contract wallets, at the official servers.

What they can do, by the sources of x402 2.25.0 (Python) and @x402/core, evm and express 2.27.0:

- The offer is in the header, always. The body is the seller's own matter, who is not told the offer for it
  (`unpaid_response_body`): here an app around the official middleware moves the offer there. Servers that write it
  into the body only are of version 1, which we do not speak.
- `upfront` is a choice for `exact` on this network: nobody looks at the payment before it is settled, so each refusal
  is one of the settlement, with a receipt.
- Signatures of wallets with code are asked of the wallet; a wallet that is not deployed is deployed by settlement, if
  the facilitator names the contract that deploys it. By default it names none. Both go by the code at the address, and
  need no universal validator, so the node of the mock has all that they ask about wallets: `eth_getCode` and
  `isValidSignature`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from eth_account import Account

from tradesdk import (
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
)
from tradesdk_mock import MockServer, MockWallet

from .._payments import how
from ._buying import NODE, TWO, TWO_COST, Buyer, Flavour, buyer_of, known, paid
from .conftest import Payer, Seller, Sellers

pytestmark = pytest.mark.peers
ONE_COST = 30_000
UPFRONT = ["upfront", "body upfront"]


@pytest.fixture(params=["v2", NODE])
def package(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.mark.parametrize("words", ["body", *UPFRONT])
def test_a_purchase(words: str, package: str, flavour: Flavour, sellers: Sellers, payer: Payer) -> None:
    """One settlement each; before the work there is no other look at the payment."""
    buyer = buyer_of(sellers(f"{package} {words}"), flavour, payer)
    is_upfront = words in UPFRONT
    if is_upfront:
        with pytest.raises(PaymentRefusedError) as refused:
            buyer.call("token_prices", *TWO)
        assert (refused.value.code, refused.value.payment) == ("upfront_flow", None)
        assert "MarketClient(allow_upfront=True)" in refused.value.hint
        buyer.options["allow_upfront"] = True
    looked, settled = buyer.seller.chain.calls()
    result = buyer.call("token_prices", *TWO)
    assert (how(result.payment), result.charged, result.warnings) == ("answered", True, ())
    (made,) = buyer.seller.chain.transfers(payer.address)
    assert (result.receipt.transaction, result.payment.nonce) == (made["transaction"], made["nonce"])
    assert paid(buyer) == [TWO_COST]
    assert buyer.seller.chain.calls() == (looked + (not is_upfront), settled + 1)


def test_a_refusal_is_read_from_the_body(package: str, flavour: Flavour, sellers: Sellers, payer: Payer) -> None:
    buyer = buyer_of(sellers(f"{package} body"), flavour, payer)
    buyer.seller.chain.give(payer.address, TWO_COST - 1)
    with pytest.raises(PaymentRejectedError) as caught:
        buyer.call("token_prices", *TWO)
    assert caught.value.reason == "invalid_exact_evm_insufficient_balance"
    assert caught.value.code == "insufficient_funds"
    buyer.seller.chain.give(payer.address, 1_000_000)
    assert buyer.call("token_prices", *TWO).payment.nonce == caught.value.payment.nonce
    assert paid(buyer) == [TWO_COST]


@pytest.fixture(params=UPFRONT)
def upfront(request: pytest.FixtureRequest, package: str, flavour: Flavour, sellers: Sellers, payer: Payer) -> Buyer:
    return buyer_of(sellers(f"{package} {request.param}"), flavour, payer, allow_upfront=True)


@pytest.mark.parametrize("token", ["NOPE", "BROKEN"])
def test_an_error_costs_the_price(token: str, upfront: Buyer) -> None:
    """Answers of 404 and 502, with a receipt. The payment is not made again."""
    with pytest.raises(PaymentUndeliveredError) as caught:
        upfront.call("token_prices", [token])
    assert caught.value.charged is True
    with pytest.raises(PaymentRefusedError):
        upfront.call("token_prices", [token])
    assert paid(upfront) == [ONE_COST]


def test_a_settlement_that_fails_once(upfront: Buyer) -> None:
    upfront.seller.chain.refuse_next("out of gas")
    assert upfront.call("token_prices", *TWO).payment.submissions == 2
    assert paid(upfront) == [TWO_COST]


def test_a_payer_without_money(upfront: Buyer) -> None:
    """Only the settlement says so: in doubt, until the same payment is settled."""
    upfront.seller.chain.give(upfront.payer.address, TWO_COST - 1)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        upfront.call("token_prices", *TWO)
    assert caught.value.reason == "invalid_exact_evm_insufficient_balance"
    upfront.seller.chain.give(upfront.payer.address, 1_000_000)
    bought = upfront.call("token_prices", *TWO)
    assert [one.nonce for one in known(upfront)] == [bought.payment.nonce]
    assert paid(upfront) == [TWO_COST]


# Smart contract wallets


class Contract:
    """The signer of a wallet. `change` is what becomes of its owner's signature."""

    is_contract = True

    def __init__(self, wallet: MockWallet, key: str, change: Callable[[bytes], bytes] = bytes) -> None:
        self.address, self._owner, self._change = wallet.address, Account.from_key(key), change

    def sign_typed_data(self, *data: Any) -> bytes:
        return self._change(bytes(self._owner.sign_typed_data(*data).signature))


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with MockServer() as server:
        yield server


@contextmanager
def wallets(seller: Seller, mock: MockServer, *, deploys: bool = False) -> Iterator[None]:
    seller.chain.has_wallets_of(mock.url, deploys=deploys)
    try:
        yield
    finally:
        seller.chain.has_wallets_of(None)


@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("is_deployed", [False, True])
def test_a_wallet_pays(
    is_deployed: bool,
    is_wrapped: bool,
    package: str,
    flavour: Flavour,
    sellers: Sellers,
    payer: Payer,
    mock: MockServer,
) -> None:
    """By ERC-1271 if it is deployed, by ERC-6492 if it is not. A plain signature of one without code is of no use."""
    wallet = (mock.payments.deploy_wallet if is_deployed else mock.payments.wallet)(payer.address)
    signer = Contract(wallet, payer.key, wallet.wrapped if is_wrapped else bytes)
    buyer = buyer_of(sellers(package), flavour, Payer(payer.key, wallet.address), signer=signer)
    with wallets(buyer.seller, mock, deploys=True):
        if not is_deployed and not is_wrapped:
            with pytest.raises(PaymentRejectedError) as caught:
                buyer.call("token_prices", *TWO)
            assert caught.value.code == "signature_rejected"
            assert paid(buyer) == []
            return
        result = buyer.call("token_prices", *TWO)
    assert (how(result.payment), result.charged, result.receipt.payer) == ("answered", True, wallet.address)
    assert paid(buyer) == [TWO_COST]
    assert mock.payments.wallet(payer.address).deployed


def test_a_wallet_that_nobody_deploys(
    package: str, flavour: Flavour, sellers: Sellers, payer: Payer, mock: MockServer
) -> None:
    """As the official facilitators are by default. The hint is followed: once it is deployed, the same payment is."""
    wallet = mock.payments.wallet(payer.address)
    signer = Contract(wallet, payer.key, wallet.wrapped)
    buyer = buyer_of(sellers(package), flavour, Payer(payer.key, wallet.address), signer=signer)
    with wallets(buyer.seller, mock):
        with pytest.raises(PaymentRejectedError) as caught:
            buyer.call("token_prices", *TWO)
        assert (caught.value.code, caught.value.reason) == ("signature_rejected", "eip6492_factory_not_allowed")
        assert f"does not deploy {wallet.address}: deploy that wallet yourself" in caught.value.hint
        assert caught.value.payment is not None
        assert caught.value.payment.submissions == 1
        assert paid(buyer) == []
        mock.payments.deploy_wallet(payer.address)
        assert buyer.call("token_prices", *TWO).payment.nonce == caught.value.payment.nonce
    assert paid(buyer) == [TWO_COST]


def test_a_wallet_with_another_owner(
    package: str, flavour: Flavour, sellers: Sellers, payer: Payer, mock: MockServer
) -> None:
    wallet = mock.payments.deploy_wallet(payer.address)
    buyer = buyer_of(
        sellers(package), flavour, Payer(payer.key, wallet.address), signer=Contract(wallet, "0x" + "2c" * 32)
    )
    with wallets(buyer.seller, mock), pytest.raises(PaymentRejectedError) as caught:
        buyer.call("token_prices", *TWO)
    assert caught.value.code == "signature_rejected"
    assert paid(buyer) == []


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_delegated_key(
    is_accepted: bool, package: str, flavour: Flavour, sellers: Sellers, payer: Payer, mock: MockServer
) -> None:
    """The contract that a key is delegated to (EIP-7702) decides: what the key signed may be refused."""
    mock.set_gaps(delegated_payers="accepted" if is_accepted else "refused")
    mock.payments.delegate(payer.address)
    buyer = buyer_of(sellers(package), flavour, payer)
    with wallets(buyer.seller, mock):
        if is_accepted:
            assert how(buyer.call("token_prices", *TWO).payment) == "answered"
        else:
            with pytest.raises(PaymentRejectedError) as caught:
                buyer.call("token_prices", *TWO)
            assert caught.value.code == "signature_rejected"
            assert "pay with another wallet" in caught.value.hint
    assert paid(buyer) == [TWO_COST] * is_accepted
