"""Signing: known vectors, checked by another implementation, and a key that never shows."""

import copy
import pickle
import traceback
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import ConfigError, InvalidArgumentError, LocalSigner, Signer, wallet_message
from tradesdk._sync.signing import ask_signer
from tradesdk.payments.signing.signer import checked_signer, sign_message

from .._rows import each_of

# Published test keys: the first accounts of the mnemonic "test test … junk", and the example of eth-account's manual.
KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
MANUAL_KEY = "0xb25c7db31feed9122727bf0939dc769a96564b2de4c4726d035b36ecf1e5b364"
MANUAL_ADDRESS = "0x5ce9454909639D2D17A3F753ce7d93fa0b9aB12E"
MANUAL_SIGNATURE = (
    "0xe6ca9bba58c88611fad66a6ce8f996908195593807c4b38bd528d2cff09d4eb3"
    "3e5bfbbf4d3e39b1a2fd816a7680c19ebebaf3a141b239934ad43cb33fcec8ce1c"
)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def recovered(message: str, signature: str) -> str:
    return str(Account.recover_message(encode_defunct(text=message), signature=signature))


def test_the_known_vector() -> None:
    """EIP-191 over the text I♥SF, as the manual of eth-account prints it."""
    signer = LocalSigner.from_key(MANUAL_KEY)
    assert signer.address == MANUAL_ADDRESS
    assert ask_signer(sign_message(signer, "I♥SF")) == MANUAL_SIGNATURE


@each_of("chain_id", [8453, 56])
def test_the_wallet_message_is_signed_by_its_address(chain_id: int) -> None:
    signer = LocalSigner.from_key(KEY)
    message = wallet_message(signer.address, chain_id)
    assert message == f"Trade wallet verification\nAddress: {ADDRESS}\nChain ID: {chain_id}"
    assert recovered(message, ask_signer(sign_message(signer, message))) == ADDRESS


@settings(max_examples=15)
@given(st.integers(1, ORDER - 1), st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_every_signature_recovers_to_its_address(number: int, message: str) -> None:
    signer = LocalSigner.from_key(number.to_bytes(32, "big"))
    signature = ask_signer(sign_message(signer, message))
    assert recovered(message, signature) == signer.address
    raw = bytes.fromhex(signature.removeprefix("0x"))
    assert len(raw) == 65
    assert raw[64] in (27, 28)
    assert int.from_bytes(raw[32:64], "big") <= ORDER // 2  # the other half is refused on the chain


@each_of(
    "key",
    [KEY, "0x" + KEY, "0X" + KEY, KEY.upper(), f"  0x{KEY}\n", bytes.fromhex(KEY)],
    ids=lambda key: type(key).__name__,
)
def test_the_forms_of_a_key(key: str | bytes) -> None:
    assert LocalSigner.from_key(key).address == ADDRESS


SECRET = KEY[:60]
BAD_KEYS: list[Any] = [
    *("", " ", "0x", SECRET, KEY + "00", "0x0x" + KEY, KEY[:-1] + "g", KEY[:32] + " " + KEY[32:], "-" + KEY[1:]),
    *("0" * 64, f"{ORDER:064x}", f"{ORDER + 1:064x}", "f" * 64, "٣" * 64, "test test test test test junk"),
    *(b"", bytes(32), bytes.fromhex(KEY)[:-1], bytes.fromhex(KEY) + b"\0", KEY.encode()),
    *(int(KEY, 16), None, bytearray(bytes.fromhex(KEY)), [KEY]),
]


@each_of("bad", BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_what_is_no_key_is_refused_without_being_shown(bad: Any) -> None:
    with pytest.raises(ConfigError, match="private key") as caught:
        LocalSigner.from_key(bad)
    for shown in (str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value))):
        assert_hidden(shown)
        assert not str(bad).strip() or len(str(bad)) < 10 or str(bad) not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def assert_hidden(shown: str | bytes) -> None:
    """No part of the key, in no form."""
    raw = bytes.fromhex(KEY)
    if isinstance(shown, bytes):
        assert raw not in shown
        assert raw[::-1] not in shown
        shown = shown.decode("latin-1")
    for form in (KEY[:20], KEY[-20:], str(int(KEY, 16)), repr(raw)[2:-1]):
        assert form.lower() not in shown.lower()


def test_the_key_never_shows() -> None:
    signer = LocalSigner.from_key(KEY)
    assert repr(signer) == str(signer) == f"LocalSigner({ADDRESS})"
    assert_hidden(f"{signer!r} {signer} {dir(signer)}")
    assert not hasattr(signer, "__dict__")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            leak(signer)
        assert_hidden(str(caught.value))
    with pytest.raises(ValueError, match="32 bytes, not 3") as wrong:
        signer.sign_digest(b"abc")
    assert_hidden("".join(traceback.format_exception(wrong.value)))


class Foreign:
    """A signer as somebody else writes it."""

    def __init__(self, address: Any) -> None:
        self.address = address

    def sign_digest(self, digest: bytes, /) -> bytes:
        return LocalSigner.from_key(KEY).sign_digest(digest)


def test_anything_that_signs_is_a_signer() -> None:
    signer = Foreign(ADDRESS)
    assert isinstance(signer, Signer)
    assert isinstance(LocalSigner.from_key(KEY), Signer)
    assert not isinstance(object(), Signer)
    assert recovered("hello", ask_signer(sign_message(signer, "hello"))) == ADDRESS


@each_of("bad", [KEY, "0x" + KEY, bytes.fromhex(KEY), int(KEY, 16), None])
def test_a_key_is_no_signer_and_is_not_shown(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"for a private key: LocalSigner\.from_key") as caught:
        checked_signer(bad)
    assert_hidden(f"{caught.value} {caught.value!r}")
