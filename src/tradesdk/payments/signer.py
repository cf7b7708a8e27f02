"""Who signs with a wallet's key, and how."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import NoReturn, Protocol, runtime_checkable

from ..errors import ConfigError, InvalidArgumentError

_HEX_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


@runtime_checkable
class Signer(Protocol):
    """Anything that signs for one address: a key in this process, a key service, a hardware wallet."""

    @property
    def address(self) -> str:
        """The address, checksummed (EIP-55)."""
        ...

    def sign_digest(self, digest: bytes, /) -> bytes:
        """Sign 32 bytes; the result is 65 bytes: r, s, and v as 27 or 28."""
        ...


class LocalSigner:
    """Signs with a private key held in this process. It never shows the key, and cannot be pickled."""

    __slots__ = ("__account", "address")

    def __init__(self, key: bytes) -> None:
        """Use `from_key`; `key` is 32 bytes."""
        limit = sys.getrecursionlimit()
        from eth_account import Account  # half a second to import, so only when somebody signs

        sys.setrecursionlimit(limit)  # the import raises it for everybody, to where the stack ends before it
        account = None
        with contextlib.suppress(Exception):  # the library's error may show the key, so it is not kept as the cause
            account = Account.from_key(key)
        if account is None:
            raise ConfigError("the private key is not a valid secp256k1 key")
        self.__account = account
        self.address: str = account.address

    @classmethod
    def from_key(cls, key: str | bytes) -> LocalSigner:
        """A signer from a private key: 32 bytes, or 64 hexadecimal digits with or without 0x.

        Raises:
            ConfigError: the key has another form; the error never shows it.
        """
        if isinstance(key, str):
            match = _HEX_KEY.fullmatch(key.strip())
            if match is None:
                raise ConfigError("the private key must be 64 hexadecimal digits, with or without 0x in front")
            key = bytes.fromhex(match[1])
        if not isinstance(key, bytes) or len(key) != 32:
            raise ConfigError("the private key must be 32 bytes")
        return cls(key)

    def sign_digest(self, digest: bytes, /) -> bytes:
        """Sign 32 bytes; the result is 65 bytes: r, s, and v as 27 or 28."""
        if len(digest) != 32:
            raise ValueError(f"a digest has 32 bytes, not {len(digest)}")
        return bytes(self.__account.unsafe_sign_hash(digest).signature)

    def __repr__(self) -> str:
        return f"LocalSigner({self.address})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer cannot be pickled: it holds a private key")


def wallet_message(address: str, chain_id: int) -> str:
    """The text that proves a wallet is yours, as the service is taken to expect it."""
    return f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"


def checked_signer(signer: Signer) -> Signer:
    """Refuse what is no signer. The error does not show it: it may be a private key."""
    if not isinstance(signer, Signer):
        raise InvalidArgumentError(
            f"the signer must have address and sign_digest, and a {type(signer).__name__} has not: "
            "for a private key use LocalSigner.from_key(…)"
        )
    return signer


def checksummed(address: str) -> str:
    """The address with the capitals of EIP-55, as services compare and print it."""
    from eth_utils.address import to_checksum_address

    try:
        return to_checksum_address(address)
    except (TypeError, ValueError):
        raise ConfigError("the signer has no usable address: 40 hexadecimal digits after 0x are needed") from None


def sign_message(signer: Signer, message: str) -> str:
    """Sign a text as wallets do (EIP-191, `personal_sign`): 65 bytes as hexadecimal digits after 0x."""
    from eth_utils.crypto import keccak

    text = message.encode()
    digest = keccak(b"\x19Ethereum Signed Message:\n%d" % len(text) + text)
    return "0x" + bytes(signer.sign_digest(digest)).hex()
