"""Signatures of signers that are not ours: put right where that can be done, refused where it can't, never shown."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import SignableMessage
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk import ConfigError, InvalidArgumentError, LocalSigner, wallet_message
from tradesdk._sync.signing import ask_signer
from tradesdk.payments.signing.secp256k1 import ORDER
from tradesdk.payments.signing.signer import (
    authorization_signable,
    check_signature,
    checked_signer,
    digest_of,
    sign_message,
    signed_authorization,
)

from .._rows import each_of
from ._ledger import draft

KEY = b"\x01" * 32
MINE = LocalSigner.from_key(KEY)
OTHER = LocalSigner.from_key(b"\x02" * 32)
PAYMENT = draft(payer=MINE.address)
SIGNABLE = authorization_signable(PAYMENT)
SIGNATURE = MINE.sign_digest(digest_of(SIGNABLE))


def signed(signer: Any) -> bytes:
    return ask_signer(signed_authorization(signer, replace(PAYMENT, payer=signer.address)))


class Service:
    """A key service whose answers are changed on their way."""

    def __init__(self, change: Any = lambda signature: signature, address: str = MINE.address) -> None:
        self.address = address
        self.change = change

    def sign_digest(self, digest: bytes, /) -> Any:
        return self.change(MINE.sign_digest(digest))


def mirrored(signature: bytes) -> bytes:
    """The same signature with s in the other half, as half of those of a key service are."""
    s = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([55 - signature[64]])


def plain(signature: bytes) -> bytes:
    """With v as 0 or 1."""
    return signature[:64] + bytes([signature[64] - 27])


def short(signature: bytes) -> bytes:
    """Without v."""
    return signature[:64]


class Message:
    """What accounts of eth-account return."""

    def __init__(self, signature: Any) -> None:
        self.signature = signature


def hexed(signature: bytes) -> str:
    return "0x" + signature.hex()


FORMS = [
    bytes,
    bytearray,
    memoryview,
    hexed,
    bytes.hex,
    Message,
    lambda raw: Message(hexed(raw)),
    plain,
    mirrored,
    lambda signature: plain(mirrored(signature)),
    short,
    lambda signature: Message(hexed(short(mirrored(signature)))),
]


@each_of("change", FORMS, ids=range(len(FORMS)))
def test_what_can_be_put_right_is(change: Any) -> None:
    assert signed(Service(change)) == SIGNATURE
    assert type(signed(Service(change))) is bytes


@settings(max_examples=25)
@given(st.integers(1, ORDER - 1), st.binary(min_size=32, max_size=32), st.booleans(), st.booleans(), st.booleans())
def test_every_form_becomes_the_same(number: int, body: bytes, mirror: bool, low_v: bool, no_v: bool) -> None:
    signer = LocalSigner.from_key(number.to_bytes(32, "big"))
    signable = (b"\x01", bytes(32), body)
    given = right = signer.sign_digest(digest_of(signable))
    given = mirrored(given) if mirror else given
    given = plain(given) if low_v else given
    given = short(given) if no_v else given
    for address in (signer.address, signer.address.lower()):
        assert check_signature(address, signable, given) == right
    assert Account.recover_message(SignableMessage(*signable), signature=right) == signer.address


WRONG: list[tuple[Any, str]] = [
    (SIGNATURE[:63], "63 bytes; 65 are needed"),
    (SIGNATURE + b"\0", "66 bytes; 65 are needed"),
    (b"", "0 bytes; 65 are needed"),
    (b"\x30" * 71, "71 bytes; 65 are needed"),
    ("0x" + SIGNATURE.hex()[1:], "text that is not hexadecimal digits after 0x"),
    ("0x" + SIGNATURE.hex() + "00", "66 bytes; 65 are needed"),
    ("", "0 bytes; 65 are needed"),
    ("0x0x" + SIGNATURE.hex(), "text that is not hexadecimal digits"),
    (f" {SIGNATURE.hex()}", "text that is not hexadecimal digits"),
    (Message(None), "returned a Message; 65 bytes are needed"),
    (Message(Message(SIGNATURE)), "returned a Message; 65 bytes are needed"),
    (Message(SIGNATURE[:63]), "63 bytes; 65 are needed"),
    (None, "returned a NoneType"),
    (65, "returned a int"),
    (list(SIGNATURE), "returned a list"),
    *((SIGNATURE[:64] + bytes([v]), f"v = {v};") for v in (2, 26, 29, 37, 38, 255)),
    (bytes(32) + SIGNATURE[32:], "no key can have made"),
    (SIGNATURE[:32] + bytes(32) + SIGNATURE[64:], "no key can have made"),
    (ORDER.to_bytes(32, "big") + SIGNATURE[32:], "no key can have made"),
    (SIGNATURE[:32] + ORDER.to_bytes(32, "big") + SIGNATURE[64:], "no key can have made"),
    ((5).to_bytes(32, "big") + SIGNATURE[32:], "no key can have made"),  # no point of the curve has x = 5
    ((5).to_bytes(32, "big") + SIGNATURE[32:64], "no key can have made"),
]


@each_of(("given", "why"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_signature_is_refused_without_being_shown(given: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        signed(Service(lambda _: given))
    for part in (SIGNATURE[:32], SIGNATURE[32:64]):
        assert part.hex() not in str(caught.value)
        assert repr(part)[2:-1] not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_signature_of_another_key_is_refused() -> None:
    for wrong in (OTHER.sign_digest(digest_of(SIGNABLE)), MINE.sign_digest(bytes(32))):
        with pytest.raises(
            ConfigError, match=rf"^the signer signed other data, or as 0x\w{{40}}, and its address is {MINE.address};"
        ):
            check_signature(MINE.address, SIGNABLE, wrong)
    with pytest.raises(
        ConfigError, match=r"^the signer signed other data, or as 0x\w{40} or 0x\w{40}, and its address is 0x"
    ):
        check_signature(MINE.address, SIGNABLE, short(OTHER.sign_digest(digest_of(SIGNABLE))))
    flipped = SIGNATURE[:64] + bytes([55 - SIGNATURE[64]])
    with pytest.raises(ConfigError, match="the signer signed other data, or as"):
        signed(Service(lambda _: flipped))


@given(
    st.binary(max_size=70)
    | st.binary(min_size=64, max_size=64).flatmap(lambda raw: st.sampled_from([raw, raw + b"\x1b"]))
)
@example(b"\xff" * 65)
def test_any_bytes_are_refused_and_by_one_error(given: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^the signer "):
        check_signature(MINE.address, SIGNABLE, given)


def test_ours_is_not_checked_and_a_relative_of_ours_is() -> None:
    class Relative(LocalSigner):
        def sign_digest(self, digest: bytes, /) -> bytes:
            return OTHER.sign_digest(digest)

    assert signed(MINE) == SIGNATURE
    with pytest.raises(ConfigError, match=f"or as {OTHER.address}"):
        signed(Relative.from_key(KEY))


def test_messages_are_checked_too() -> None:
    message = wallet_message(MINE.address, 8453)
    changed = Service(lambda signature: plain(mirrored(signature)))
    assert ask_signer(sign_message(changed, message)) == ask_signer(sign_message(MINE, message))
    with pytest.raises(ConfigError, match=f"and its address is {OTHER.address}"):
        ask_signer(sign_message(Service(address=OTHER.address), message))


@each_of("address", ["", "vitalik.eth", "0x12", None])
def test_a_signer_without_a_usable_address(address: Any) -> None:
    with pytest.raises(ConfigError, match="the address must be"):
        check_signature(address, SIGNABLE, SIGNATURE)


def test_what_a_signer_raises_goes_through() -> None:
    def down(_: bytes) -> bytes:
        raise TimeoutError("the key service does not answer")

    with pytest.raises(TimeoutError, match="the key service does not answer"):
        signed(Service(down))


@each_of("bad", [LocalSigner, Service, Account, "signer", 5, Message(KEY)])
def test_what_is_no_signer(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must have address, and sign_typed_data or sign_digest") as caught:
        checked_signer(bad)
    assert KEY.hex() not in str(caught.value)
