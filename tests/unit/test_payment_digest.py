"""What is hashed before it is signed; tests/unit/test_signer_typed.py compares it with what a wallet signs."""

from dataclasses import replace
from typing import Any

import pytest
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from tradesdk._values.payment import USDC
from tradesdk.payments.buyer import new_nonce
from tradesdk.payments.guards import DOMAIN_NAME, DOMAIN_VERSION
from tradesdk.payments.signing.secp256k1 import keccak256
from tradesdk.payments.signing.signer import DOMAIN_SEPARATOR, TYPE_HASH, authorization_signable

from .._payments import payment
from .._rows import each_of

GOOD = payment()
DOMAIN = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
TYPE = (
    "TransferWithAuthorization(address from,address to,uint256 value,"
    "uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


def test_the_two_constants_are_what_they_say() -> None:
    assert keccak(text=TYPE) == TYPE_HASH
    domain = keccak(text=DOMAIN) + keccak(text=DOMAIN_NAME) + keccak(text=DOMAIN_VERSION)
    domain += (8453).to_bytes(32, "big") + bytes(12) + bytes.fromhex(USDC[2:])
    assert keccak(domain) == DOMAIN_SEPARATOR


BAD: dict[str, list[Any]] = {
    "payer": ["", GOOD.payer[2:], GOOD.payer[:-2], GOOD.payer + "00", "0x" + "0 " * 20, "0x" + "00 " * 20],
    "pay_to": ["0x" + "zz" * 20, "0X" + GOOD.pay_to[2:], "vitalik.eth", GOOD.nonce],
    "nonce": ["0x01", "0" * 66, GOOD.pay_to],
    "amount": [-1, 2**256],
    "valid_before": [-1, 2**256],
}


@each_of(("name", "bad"), [(name, bad) for name, values in BAD.items() for bad in values])
def test_what_cannot_be_signed(name: str, bad: Any) -> None:
    changed: dict[str, Any] = {name: bad}
    with pytest.raises(ValueError, match=r"must be \d+ bytes|from 0 to 2\^256|non-hexadecimal"):
        authorization_signable(replace(GOOD, **changed))


def test_nonces_are_32_random_bytes() -> None:
    nonces = [new_nonce() for _ in range(500)]
    assert len(set(nonces)) == 500
    for nonce in nonces:
        assert nonce.startswith("0x")
        assert len(bytes.fromhex(nonce[2:])) == 32
    positions = list(zip(*nonces, strict=True))[2:]
    assert min(len(set(digits)) for digits in positions) >= 8, "a digit that hardly ever changes"


@given(data=st.binary(max_size=300))
def test_the_hash(data: bytes) -> None:
    assert keccak256(data) == keccak(data)
