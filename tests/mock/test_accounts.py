"""Accounts with code on the mock's chain: smart contract wallets, deployed or not, and delegated keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tradesdk_mock import MockServerError, MockWallet
from tradesdk_mock.payments.accounts import MAGIC

from .._rows import each_of
from ._buyer import Shop
from ._paying import PAYER, STRANGER
from .test_node import Node

MAGIC_YES = "0x1626ba7e" + "0" * 56
IS_VALID = keccak(text="isValidSignature(bytes32,bytes)")[:4]
CREATE = keccak(text="createAccount(address,uint256)")[:4]
DIGEST = b"\x07" * 32


@dataclass
class Signed:
    signature: bytes


@dataclass
class Payer:
    """Signs for the address of a wallet; `change` is what becomes of the owner's signature."""

    address: str
    owner: Any = PAYER
    change: Any = bytes

    def sign_typed_data(self, *data: Any) -> Signed:
        return Signed(self.change(bytes(self.owner.sign_typed_data(*data).signature)))


def wrapper(wallet: MockWallet, signature: bytes) -> bytes:
    call = bytes.fromhex(wallet.factory_call[2:])
    return encode(["address", "bytes", "bytes"], [wallet.factory, call, signature]) + MAGIC


def valid(shop: Shop, address: str, signature: bytes, digest: bytes = DIGEST) -> Any:
    call = IS_VALID + encode(["bytes32", "bytes"], [digest, signature])
    return Node(shop).ask("eth_call", {"to": address, "data": "0x" + call.hex()}, "latest")


def owner_signed(owner: Any = PAYER, digest: bytes = DIGEST) -> bytes:
    return bytes(owner.unsafe_sign_hash(digest).signature)


REFUSED = "invalid_exact_evm_payload_signature"


def test_a_deployed_wallet_pays_by_its_owners_signature() -> None:
    shop = Shop()
    wallet = shop.payments.wallet(PAYER.address)
    plain, wrapped = Payer(wallet.address), Payer(wallet.address, change=wallet.wrapped)
    assert shop.buy(1, payer=plain).reason == REFUSED, "it has no code, and nothing that would deploy it"
    deployed = shop.payments.deploy_wallet(PAYER.address)
    assert (deployed.address, wallet.deployed, deployed.deployed) == (wallet.address, False, True)
    assert shop.buy(2, payer=plain).receipt()["payer"] == wallet.address
    assert shop.buy(3, payer=wrapped).status == 200
    assert shop.buy(4, payer=Payer(wallet.address, STRANGER)).reason == REFUSED
    assert shop.buy(5, payer=Payer(wallet.address, change=lambda one: one + b"\0")).reason == REFUSED
    assert shop.payments.balance(wallet.address) == 1_000 * 1_000_000 - 60_000
    assert shop.payments.balance(PAYER.address) == 1_000 * 1_000_000


def test_one_that_is_not_deployed_is_by_its_payment() -> None:
    shop = Shop()
    wallet = shop.payments.wallet(PAYER.address, salt=3)
    assert Node(shop).ask("eth_getCode", wallet.address, "latest") == "0x"
    assert shop.buy(1, payer=Payer(wallet.address, change=wallet.wrapped)).status == 200
    assert shop.payments.wallet(PAYER.address, salt=3).deployed
    assert Node(shop).ask("eth_getCode", wallet.address, "latest") != "0x"
    assert shop.buy(2, payer=Payer(wallet.address)).status == 200


def test_only_a_factory_call_that_makes_that_address_counts() -> None:
    shop = Shop()
    wallet, other = shop.payments.wallet(PAYER.address), shop.payments.wallet(PAYER.address, salt=1)
    theirs = shop.payments.wallet(STRANGER.address)
    call = bytes.fromhex(wallet.factory_call[2:])
    assert call == CREATE + encode(["address", "uint256"], [PAYER.address, 0])
    changes: list[Any] = [
        other.wrapped,
        theirs.wrapped,
        lambda one: wallet.wrapped(one)[:-1],
        lambda one: wallet.wrapped(one[:-1]),
        lambda one: encode(["address", "bytes", "bytes"], [PAYER.address, call, one]) + MAGIC,
        lambda one: encode(["address", "bytes", "bytes"], [wallet.factory, call + b"\0", one]) + MAGIC,
        lambda one: b"\xff" * 96 + MAGIC,
        lambda one: MAGIC,
    ]
    for number, change in enumerate(changes, 1):
        assert shop.buy(number, payer=Payer(wallet.address, change=change)).reason == REFUSED, number
    assert shop.buy(50, payer=Payer(wallet.address, STRANGER, wallet.wrapped)).reason == REFUSED
    assert shop.buy(51, payer=Payer(PAYER.address, change=wallet.wrapped)).reason == REFUSED
    assert not shop.settled()
    assert shop.buy(52, payer=Payer(wallet.address, change=lambda one: wrapper(wallet, one))).status == 200


def test_the_wrapper_is_that_of_the_standard() -> None:
    wallet = Shop().payments.wallet(PAYER.address)
    for size in (0, 1, 32, 65, 96):
        assert wallet.wrapped(b"s" * size) == wrapper(wallet, b"s" * size)


@each_of("value", ["accepted", "refused"])
def test_delegated_payers(value: str) -> None:
    shop = Shop(delegated_payers=value)
    assert shop.payments.delegate(PAYER.address.lower()) == PAYER.address
    assert Node(shop).ask("eth_getCode", PAYER.address, "latest").startswith("0xef0100")
    answer = shop.buy(1)
    signature = owner_signed()
    if value == "accepted":
        assert answer.status == 200
        assert valid(shop, PAYER.address, signature) == MAGIC_YES
    else:
        assert answer.reason == REFUSED
        assert valid(shop, PAYER.address, signature).startswith("0xffffffff")
    assert shop.buy(2, payer=STRANGER).status == 200, "a key like any other"


def test_a_node_is_asked_whether_a_signature_is_valid() -> None:
    shop, good = Shop(), owner_signed()
    wallet = shop.payments.wallet(PAYER.address)
    assert valid(shop, wallet.address, good) == "0x", "there is no code"
    shop.payments.deploy_wallet(PAYER.address)
    assert valid(shop, wallet.address, good) == MAGIC_YES
    for wrong in (owner_signed(STRANGER), owner_signed(PAYER, b"\x08" * 32), b"", good + b"\0", wallet.wrapped(good)):
        assert valid(shop, wallet.address, wrong).startswith("0xffffffff")
    node = Node(shop)
    for data in ("0x", "0x12345678", "0x" + IS_VALID.hex(), "0x" + IS_VALID.hex() + "ff" * 96, "0x" + "zz" * 40):
        assert node.ask("eth_call", {"to": wallet.address, "data": data}, "latest")["code"] == 3
    for params in ([], ["0x12"], [PAYER.address, "newest"]):
        assert node.ask("eth_getCode", *params)["code"] == -32602
    assert node.ask("eth_getCode", PAYER.address) == "0x"


@each_of(("owner", "salt"), [("0x12", 0), (5, 0), (PAYER.address, -1), (PAYER.address, True), (PAYER.address, 2**63)])
def test_wallets_that_there_are_not(owner: Any, salt: Any) -> None:
    with pytest.raises(MockServerError):
        Shop().payments.wallet(owner, salt)


def test_they_are_kept_with_the_state(tmp_path: Any) -> None:
    file = tmp_path / "state.db"
    with Shop(db=file) as shop:
        wallet = shop.payments.deploy_wallet(PAYER.address)
        shop.payments.delegate(STRANGER.address)
    with Shop(db=file) as shop:
        assert shop.payments.wallet(PAYER.address) == wallet
        assert Node(shop).ask("eth_getCode", STRANGER.address, "latest") != "0x"
        shop.reset()
        assert not shop.payments.wallet(PAYER.address).deployed
