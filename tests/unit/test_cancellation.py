"""The data that cancels a nonce, as the contract of USDC reads it."""

import pytest
from eth_abi.abi import decode
from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_utils.crypto import keccak

from tradesdk import LocalSigner
from tradesdk.payments.guards import DOMAIN_NAME, DOMAIN_VERSION, USDC
from tradesdk.payments.signing.cancellation import TYPE_HASH, calldata, signable
from tradesdk.payments.signing.signer import digest_of

PAYER = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
NONCE = "0x" + "0" * 62 + "a1"


def test_what_is_signed_and_its_calldata() -> None:
    assert keccak(text="CancelAuthorization(address authorizer,bytes32 nonce)") == TYPE_HASH
    types = {"CancelAuthorization": [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]}
    domain = {"name": DOMAIN_NAME, "version": DOMAIN_VERSION, "chainId": 8453, "verifyingContract": USDC}
    typed = encode_typed_data(domain, types, {"authorizer": PAYER, "nonce": bytes.fromhex(NONCE[2:])})
    assert typed == SignableMessage(*signable(PAYER, NONCE))
    signature = LocalSigner.from_key(b"\x01" * 32).sign_digest(digest_of(typed))
    assert Account.recover_message(typed, signature=signature) == PAYER
    data = bytes.fromhex(calldata(PAYER, NONCE, signature)[2:])
    assert data[:4] == keccak(text="cancelAuthorization(address,bytes32,bytes)")[:4]
    assert decode(["address", "bytes32", "bytes"], data[4:]) == (PAYER.lower(), bytes.fromhex(NONCE[2:]), signature)
    with pytest.raises(ValueError, match="32 bytes"):
        signable(PAYER, "0x12")
