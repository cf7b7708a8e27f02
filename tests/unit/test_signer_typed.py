"""Payments signed as typed data: the same bytes as from the digest, checked by another implementation."""

from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import ConfigError, InvalidArgumentError, LocalSigner, Signer
from tradesdk._sync.signing import ask_signer
from tradesdk.payments import DigestSigner, TypedDataSigner
from tradesdk.payments.signing.signer import (
    authorization_signable,
    checked_signer,
    sign_message,
    signed_authorization,
    typed_data,
)

from .._payments import payment
from .._rows import each_of

KEY = b"\x01" * 32
MINE = LocalSigner.from_key(KEY)
OTHER = LocalSigner.from_key(b"\x02" * 32)
PAYMENT = payment(valid_before=1_795_176_348)  # of the known vector, with its signature
SIGNATURE = bytes.fromhex(
    "df041869fe73b44afa112ae557934674384f222789251693565b0565b35f4bc4"
    "12ad04a75cc27a00a41598f7574bd8e1481d6031a5ac18064dd68b5c54052a701b"
)


class Wallet:
    """A wallet that signs typed data; `change` is what becomes of the data, `gives` of the signature."""

    def __init__(
        self,
        change: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object] = lambda *_: None,
        gives: Callable[[Any], Any] = lambda signed: signed,
    ) -> None:
        self.address = MINE.address
        self._change, self._gives = change, gives

    def sign_typed_data(self, domain: dict[str, Any], types: dict[str, Any], message: dict[str, Any], /) -> Any:
        self._change(domain, types, message)
        return self._gives(Account.from_key(KEY).sign_typed_data(domain, types, message))


class Both(Wallet):
    """It signs digests as well, but wrongly."""

    def sign_digest(self, digest: bytes, /) -> bytes:
        raise AssertionError("typed data is preferred")


def test_the_known_vector_in_every_way() -> None:
    ways: list[Signer] = [MINE, Account.from_key(KEY), Wallet(), Both()]
    assert [ask_signer(signed_authorization(one, PAYMENT)) for one in ways] == [SIGNATURE] * 4


def test_both_protocols_are_signers() -> None:
    account = Account.from_key(KEY)
    assert checked_signer(account) is account
    assert (isinstance(account, TypedDataSigner), isinstance(account, DigestSigner)) == (True, False)
    assert (isinstance(MINE, TypedDataSigner), isinstance(MINE, DigestSigner)) == (False, True)
    assert isinstance(account, Signer)
    assert not isinstance("0x" + KEY.hex(), Signer)


@settings(max_examples=40)
@given(
    to=st.binary(min_size=20, max_size=20),
    capitals=st.sampled_from([str.lower, str.upper]),
    numbers=st.lists(st.integers(0, 2**256 - 1), min_size=2, max_size=2),
    nonce=st.binary(min_size=32, max_size=32),
)
def test_what_is_signed_as_typed_data_is_what_we_sign(
    to: bytes, capitals: Callable[[str], str], numbers: list[int], nonce: bytes
) -> None:
    """Hashed by eth-account. An address from an offer may have any capitals; wallets refuse wrong ones."""
    value, before = numbers
    paid = payment(
        payer=MINE.address.lower(),
        pay_to="0x" + capitals(to.hex()),
        amount=value,
        valid_before=before,
        nonce="0x" + nonce.hex(),
    )
    domain, types, message = typed_data(paid)
    assert encode_typed_data(domain, types, message) == authorization_signable(paid)


def test_a_signer_that_changes_what_it_gets_changes_only_that() -> None:
    domain, types, message = before = typed_data(PAYMENT)
    assert typed_data(PAYMENT) == before
    for one in (types["TransferWithAuthorization"], domain, types, message):
        one.clear()
    assert ask_signer(signed_authorization(Wallet(), PAYMENT)) == SIGNATURE


CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]] = {
    "another amount": lambda domain, types, message: message.update(value=30_001),
    "another recipient": lambda domain, types, message: message.update(to=OTHER.address),
    "a longer validity": lambda domain, types, message: message.update(validBefore=2**40),
    "another nonce": lambda domain, types, message: message.update(nonce="0x" + "22" * 32),
    "another chain": lambda domain, types, message: domain.update(chainId=1),
    "another token": lambda domain, types, message: domain.update(verifyingContract=OTHER.address),
}


@each_of("change", CHANGES.values(), ids=CHANGES)
def test_a_wallet_that_signs_something_else(change: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"^the signer signed other data, or as 0x\w{40}, and its address is"):
        ask_signer(signed_authorization(Wallet(change), PAYMENT))


def test_a_wallet_with_another_key_or_another_address() -> None:
    other = Account.from_key(b"\x02" * 32)
    with pytest.raises(ConfigError, match=f"or as {OTHER.address}, and its address is {MINE.address}"):
        ask_signer(signed_authorization(other, PAYMENT))  # the payer counts, not what the signer calls its address now
    with pytest.raises(ConfigError, match=f"or as {OTHER.address}"):
        ask_signer(signed_authorization(Wallet(gives=lambda _: other.sign_typed_data(*typed_data(PAYMENT))), PAYMENT))


def test_a_text_needs_a_digest_or_an_account() -> None:
    """By its digest: hosted accounts have been seen to send the text in another encoding."""

    class Hosted(Wallet):
        def unsafe_sign_hash(self, digest: bytes) -> Any:
            return Account.from_key(KEY).unsafe_sign_hash(digest)

        def sign_message(self, message: Any) -> Any:
            raise AssertionError("its digest is signed")

    for account in (Account.from_key(KEY), Hosted()):
        assert ask_signer(sign_message(account, "I♥SF")) == ask_signer(sign_message(MINE, "I♥SF"))
    with pytest.raises(InvalidArgumentError, match=r"^the signer signs typed data only(?s:.*)wallets\.connect"):
        ask_signer(sign_message(Wallet(), "hello"))
