"""Signers, and what they sign: USDC transfers (EIP-3009, as EIP-712 typed data or its digest) and messages (EIP-191).

The signing domain of USDC never changes, so its hash is a constant and two hashes are left to compute: twenty times
faster than a general encoder of typed data. The tests compare both.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from ...errors import ConfigError, InvalidArgumentError
from .secp256k1 import ORDER, Opened, checksummed, keccak256, opened, recovered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol import Authorization
    from .keystore import Password

DOMAIN_SEPARATOR = bytes.fromhex("02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f")
"""The hash of `EIP712Domain`: name `USD Coin`, version `2`, chain 8453, the contract `guards.USDC`."""
TYPE_HASH = bytes.fromhex("7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267")
"""The hash of `TransferWithAuthorization` with its six fields."""
CANCEL_TYPE_HASH = bytes.fromhex("158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429")
"""The hash of `CancelAuthorization(address authorizer,bytes32 nonce)`."""

_PREFIX = b"\x19\x01" + DOMAIN_SEPARATOR
_ADDRESS_PAD = bytes(12)
_HEX_SIGNATURE = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")  # a key has 64 digits


class SignedMessage(Protocol):
    """A signature in an object, as the accounts of eth-account return it."""

    @property
    def signature(self) -> bytes | str:
        """65 bytes, or as many in hexadecimal digits after 0x."""
        ...


Signature: TypeAlias = bytes | bytearray | memoryview | str | SignedMessage
"""r, s and v: 65 bytes, or as many in hexadecimal digits after 0x, or an object with such a `signature`.

v may be 27, 28, 0 or 1, and s may be in the upper half.
"""


@runtime_checkable
class DigestSigner(Protocol):
    """Anything that signs 32 bytes for one address: a key in this process, a key service.

    For named purchases, a method `purchase_secret()` may return 32 secret bytes, always the same; else
    TRADE_PURCHASE_SECRET has them.
    """

    @property
    def address(self) -> str:
        """The address of the payer."""
        ...

    def sign_digest(self, digest: bytes, /) -> Signature:
        """Sign 32 bytes."""
        ...


@runtime_checkable
class TypedDataSigner(Protocol):
    """Anything that signs EIP-712 typed data for one address: a wallet service, a hardware wallet.

    It sees the amount and the recipient, so its own policy can limit them. An account of eth-account is one.
    """

    @property
    def address(self) -> str:
        """The address of the payer."""
        ...

    def sign_typed_data(
        self, domain: dict[str, Any], types: dict[str, list[dict[str, str]]], message: dict[str, Any], /
    ) -> Signature:
        """Sign typed data.

        Args:
            domain: that of USDC on Base: `name`, `version`, `chainId` (an int), `verifyingContract`.
            types: the fields of `TransferWithAuthorization`, in order; without `EIP712Domain`.
            message: `from` and `to` (checksummed), `value` (micro-dollars), `validAfter` and `validBefore` (Unix
                seconds) as ints, `nonce` as 64 hexadecimal digits after 0x.
        """
        ...


Signer: TypeAlias = DigestSigner | TypedDataSigner
"""Anything that signs payments for one address. If it has both methods, payments are signed as typed data."""


class LocalSigner:
    """Signs with a private key in this process. It never shows the key, and cannot be copied or pickled.

    With the extra `fast` (coincurve) a signature takes about 30 µs, otherwise about 2 ms. The bytes are the same.
    """

    __slots__ = ("__lock", "__opened", "__source")

    def __init__(self, key: bytes) -> None:
        """Use `from_key`; `key` is 32 bytes."""
        ready = opened(key)
        del key
        self.__source: Callable[[], str | bytes] | None = None
        self.__lock = threading.RLock()
        self.__opened: Opened | None = None
        if isinstance(ready, str):
            raise ConfigError(ready, code="invalid_private_key")
        self.__opened = ready

    @classmethod
    def from_key(cls, key: str | bytes) -> LocalSigner:
        """A signer from a private key: 32 bytes, or 64 hexadecimal digits with or without 0x.

        Raises:
            ConfigError: the key has another form; the error never shows it.
        """
        ready = opened(key)
        del key
        return cls.__of(ready)

    @classmethod
    def from_env(cls, name: str = "TRADE_WALLET_KEY") -> LocalSigner:
        """A signer from a private key in an environment variable, in the form that `from_key` takes.

        Raises:
            ConfigError: the variable is not set or is not a key; the error names it and never shows its value.
        """
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):  # it may be the key itself, so it is not shown
            raise ConfigError("name must be the name of an environment variable, such as TRADE_WALLET_KEY")
        if not os.environ.get(name, "").strip():
            raise ConfigError(
                f"{name} is not set: it must be a private key, 64 hexadecimal digits after 0x",
                code="invalid_private_key",
            )
        return cls.__of(opened(os.environ[name]), f"{name}: ")

    @classmethod
    def from_keystore(cls, path: str | os.PathLike[str], password: Password) -> LocalSigner:
        """A signer from an encrypted keystore file (version 3, as wallets and `trade pay key new` write it).

        Opening takes about a second, as the password is hashed many times.

        Args:
            path: the file; only its owner may have access to it.
            password: the password, or a function that returns it. It is called after the file is checked.

        Raises:
            ConfigError: the file is missing, unreadable, open to others, damaged or of another version, or the password
                is wrong. The error names the file and shows neither key nor password. Errors of the function are
                passed on.
        """
        from .keystore import unlock  # few programs use it

        return cls.__of(unlock(path, password))

    @classmethod
    def from_callable(cls, source: Callable[[], str | bytes]) -> LocalSigner:
        """A signer whose key a function returns, for example from a vault or the system's keyring.

        It is called once, at the first use of `address` or `sign_digest`, in the thread of that use. Its errors are
        passed on, and the next use calls it again.

        Raises:
            ConfigError: it returned no key; raised at the first use, without the key.
        """
        if not callable(source):  # it may be the key itself, so it is not shown
            raise ConfigError("source must be a function that returns the private key; for a key use from_key")
        signer = cls.__new__(cls)
        signer.__source = source
        signer.__lock = threading.RLock()
        signer.__opened = None
        return signer

    @classmethod
    def __of(cls, ready: Opened | str, where: str = "") -> LocalSigner:
        if isinstance(ready, str):
            raise ConfigError(where + ready, code="invalid_private_key")
        signer = cls.__new__(cls)
        signer.__source = None
        signer.__lock = threading.RLock()
        signer.__opened = ready
        return signer

    @property
    def address(self) -> str:
        """The address, checksummed (EIP-55)."""
        return (self.__opened or self.__load()).address

    def sign_digest(self, digest: bytes, /) -> bytes:
        """Sign 32 bytes; the result is 65 bytes: r, s, and v as 27 or 28.

        Deterministic (RFC 6979), and s is in the lower half, as contracts require.
        """
        if len(digest) != 32:
            raise ValueError(f"a digest must have 32 bytes, not {len(digest)}")
        return (self.__opened or self.__load()).sign(digest)

    def purchase_secret(self) -> bytes:
        """The secret for nonces of named purchases: 32 bytes, derived from the key (HKDF-SHA256), always the same."""
        return (self.__opened or self.__load()).purchase_secret

    def __load(self) -> Opened:
        with self.__lock:
            if self.__opened is None:
                assert self.__source is not None  # noqa: S101 - there is a key, or who gives it
                ready = opened(self.__source())
                if isinstance(ready, str):
                    raise ConfigError(
                        f"the function for the key returned something else: {ready}", code="invalid_private_key"
                    )
                self.__opened = ready
                self.__source = None  # it may hold secrets
            return self.__opened

    def __repr__(self) -> str:
        return f"LocalSigner({self.__opened.address if self.__opened else 'key not loaded yet'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer cannot be pickled: it holds a private key")


def wallet_message(address: str, chain_id: int) -> str:
    """The text to sign to prove that a wallet is yours. The service does not document it; this is our assumption."""
    return f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"


def checked_signer(signer: Signer) -> Signer:
    """Check that it is a signer. The error does not show it: it may be a private key."""
    # No check for a LocalSigner: reading `address` would load its key.
    if isinstance(signer, LocalSigner):
        return signer
    if isinstance(signer, type) or not isinstance(signer, DigestSigner | TypedDataSigner):
        given = "class" if isinstance(signer, type) else type(signer).__name__
        raise InvalidArgumentError(
            f"the signer must have address, and sign_typed_data or sign_digest; a {given} lacks them; "
            "for a private key use LocalSigner.from_key(…)"
        )
    return signer


def signed(signer: DigestSigner, digest: bytes) -> bytes:
    """Sign 32 bytes with any signer: 65 bytes, r, s, and v as 27 or 28, s in the lower half.

    Raises:
        ConfigError: it returned something else, or the signature of another key. Errors of the signer are passed on.
    """
    if type(signer) is LocalSigner:
        return signer.sign_digest(digest)
    return check_signature(signer.address, digest, signer.sign_digest(digest))


def signed_authorization(signer: Signer, authorization: Authorization) -> bytes:
    """Sign an authorization, as typed data if the signer can: 65 bytes, as `signed`.

    The digest is computed here and the signer recovered from it: it must be the payer.

    Raises:
        ConfigError: it returned something else, or signed other data or with another key. Errors of the signer are
            passed on.
    """
    digest = authorization_digest(authorization)
    if type(signer) is LocalSigner:
        return signer.sign_digest(digest)
    if isinstance(signer, TypedDataSigner):
        signature = signer.sign_typed_data(*typed_data(authorization))
    else:
        signature = signer.sign_digest(digest)
    return check_signature(authorization.payer, digest, signature)


def sign_cancellation(signer: Signer, payer: str, nonce: str) -> bytes:
    """Sign the cancellation of a nonce, in the same ways."""
    digest = cancellation_digest(payer, nonce)
    if isinstance(signer, TypedDataSigner):
        fields = [("authorizer", "address", checksummed(payer)), ("nonce", "bytes32", nonce)]
        signature = signer.sign_typed_data(*_typed("CancelAuthorization", fields))
    else:
        signature = signer.sign_digest(digest)
    return check_signature(payer, digest, signature)


def check_signature(address: str, digest: bytes, signature: Signature, *, recover: bool = True) -> bytes:
    """A signature as contracts require it: 65 bytes, r, s in the lower half, v as 27 or 28.

    Key services may return v as 0 or 1 and s in the upper half. Both are corrected.

    Args:
        address: the address that it must come from.
        digest: the 32 bytes that were signed.
        signature: the signer's result.
        recover: check that it comes from `address`. This takes about 80 µs with coincurve, and 5 ms without.

    Raises:
        ConfigError: it has another form, or comes from another address. The signature is not shown.
    """
    raw = _raw(signature)
    if len(raw) != 65:
        raise _bad_signature(f"returned a signature of {len(raw)} bytes; 65 are needed: r, s and v")
    r, s, v = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big"), raw[64]
    v += 27 if v < 2 else 0
    if v not in (27, 28):
        raise _bad_signature(f"returned a signature with v = {raw[64]}; it must be 27 or 28, or 0 or 1")
    if not (0 < r < ORDER and 0 < s < ORDER):
        raise _bad_signature("returned a signature that no key can have made")
    if s > ORDER // 2:
        s, v = ORDER - s, 55 - v  # the same signature with the mirrored point
    raw = raw[:32] + s.to_bytes(32, "big") + bytes([v])
    if recover:
        maker = recovered(digest, raw)
        if maker is None:
            raise _bad_signature("returned a signature that no key can have made")
        if maker != checksummed(address):
            raise _bad_signature(f"signed other data, or as {maker}, and its address is {checksummed(address)}")
    return raw


def _raw(given: object) -> bytes:
    """The bytes of a signature in any of its forms."""
    if hasattr(given, "__await__"):
        close = getattr(given, "close", None)
        if callable(close):
            close()  # a coroutine that is never awaited would warn
        raise _bad_signature("is async; its methods must return the signature itself (they run in a thread)")
    kind = type(given).__name__
    if not isinstance(given, bytes | bytearray | memoryview | str):
        given = getattr(given, "signature", None)
    if isinstance(given, str):
        digits = _HEX_SIGNATURE.fullmatch(given)
        if digits is None:
            raise _bad_signature("returned text that is not hexadecimal digits after 0x")
        return bytes.fromhex(digits[1])
    if not isinstance(given, bytes | bytearray | memoryview):
        raise _bad_signature(f"returned a {kind}; 65 bytes are needed: r, s and v")
    return bytes(given)


def _bad_signature(what: str) -> ConfigError:
    return ConfigError(f"the signer {what}", code="invalid_signer")


def authorization_digest(authorization: Authorization) -> bytes:
    """The 32 bytes to sign for an authorization (EIP-712).

    Raises:
        ValueError: an address is not 20 bytes, or the nonce not 32, as hexadecimal digits after 0x; or a number is not
            from 0 to 2^256 - 1.
    """
    try:
        numbers = (
            authorization.value.to_bytes(32, "big")
            + bytes(32)  # validAfter
            + authorization.valid_before.to_bytes(32, "big")
        )
    except OverflowError:
        raise ValueError("the numbers of an authorization must be from 0 to 2^256 - 1") from None
    fields = (
        TYPE_HASH
        + _ADDRESS_PAD
        + _from_hex(authorization.payer, 20)
        + _ADDRESS_PAD
        + _from_hex(authorization.to, 20)
        + numbers
        + _from_hex(authorization.nonce, 32)
    )
    return keccak256(_PREFIX + keccak256(fields))


def cancellation_digest(payer: str, nonce: str) -> bytes:
    """The 32 bytes to sign for the cancellation of a nonce (EIP-712).

    Raises:
        ValueError: the address is not 20 bytes, or the nonce not 32, as hexadecimal digits after 0x.
    """
    return keccak256(_PREFIX + keccak256(CANCEL_TYPE_HASH + _ADDRESS_PAD + _from_hex(payer, 20) + _from_hex(nonce, 32)))


def typed_data(
    authorization: Authorization,
) -> tuple[dict[str, Any], dict[str, list[dict[str, str]]], dict[str, Any]]:
    """The typed data whose digest is `authorization_digest`: domain, types and message, new for each signer."""
    fields = [
        ("from", "address", checksummed(authorization.payer)),
        ("to", "address", checksummed(authorization.to)),
        ("value", "uint256", authorization.value),
        ("validAfter", "uint256", 0),
        ("validBefore", "uint256", authorization.valid_before),
        ("nonce", "bytes32", authorization.nonce),
    ]
    return _typed("TransferWithAuthorization", fields)


def _typed(
    name: str, fields: Sequence[tuple[str, str, Any]]
) -> tuple[dict[str, Any], dict[str, list[dict[str, str]]], dict[str, Any]]:
    from ..guards import DOMAIN_NAME, DOMAIN_VERSION, USDC  # few programs use it

    domain = {"name": DOMAIN_NAME, "version": DOMAIN_VERSION, "chainId": 8453, "verifyingContract": USDC}
    types = {name: [{"name": field, "type": kind} for field, kind, _ in fields]}
    return domain, types, {field: value for field, _, value in fields}


def new_nonce() -> str:
    """32 random bytes as hexadecimal digits after 0x. A payer can use each nonce once."""
    return "0x" + secrets.token_hex(32)


def _from_hex(text: str, size: int) -> bytes:
    value = bytes.fromhex(text[2:]) if text.startswith("0x") else b""
    if len(value) != size or len(text) != 2 + 2 * size:  # fromhex ignores spaces
        raise ValueError(f"must be {size} bytes as hexadecimal digits after 0x")
    return value


def sign_message(signer: DigestSigner, message: str) -> str:
    """Sign a text as wallets do (EIP-191, `personal_sign`): 65 bytes as hexadecimal digits after 0x.

    Raises:
        InvalidArgumentError: the signer signs typed data only.
        ConfigError: the signer returned something else, or the signature of another key.
    """
    if not isinstance(signer, DigestSigner):
        raise InvalidArgumentError(
            "the signer signs typed data only, and a text needs sign_digest; "
            "sign the text with the wallet itself, then: wallets.connect(…, signature=…)"
        )
    text = message.encode()
    return "0x" + signed(signer, keccak256(b"\x19Ethereum Signed Message:\n%d" % len(text) + text)).hex()
