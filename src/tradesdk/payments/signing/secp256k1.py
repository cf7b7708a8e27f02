"""Private keys and addresses. coincurve signs if it is installed, else eth-account; the bytes are the same.

eth-account takes half a second to import, so it is imported at first use. The signer of a signature is recovered with
eth-keys, which eth-account uses too; importing that alone takes a quarter of the time.

Errors of the libraries may show a key, so none leaves this module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from ..._http.parts import loading
from ..._system.interrupts import failures
from ..._values.text import bare_key, without_keys
from ...errors import ConfigError, InvalidArgumentError, TradeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eth_account import Account

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""The order of the curve: keys and both halves of a signature are below it."""

_V = (b"\x1b", b"\x1c")
_HEX_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_ADDRESS = re.compile(r"(?:0[xX])?([0-9a-fA-F]{40})")

Sign = Callable[[bytes], bytes]
"""Signs 32 bytes: r, s, and v as 27 or 28; deterministic (RFC 6979), s in the lower half."""


class Opened(NamedTuple):
    """A key that is ready to sign. Not a dataclass: that import takes a fifth of the time of a first signature."""

    address: str
    sign: Sign
    is_fast: bool
    purchase_secret: Callable[[], bytes]

    def __repr__(self) -> str:
        return f"Opened({self.address})"


@loading()
def eth_account() -> type[Account]:
    """Import eth-account, and restore the recursion limit: the limit that its import sets lets the stack overflow."""
    if "eth_account" in sys.modules:  # another thread may be importing it and will restore the limit
        from eth_account import Account

        return Account
    limit = sys.getrecursionlimit()
    try:
        from eth_account import Account
    finally:
        sys.setrecursionlimit(limit)
    return Account


def keccak256(data: bytes) -> bytes:
    """Ethereum's hash: Keccak-256, which is not SHA3-256."""
    # eth-account uses this library too. Importing only this part takes a fiftieth of the time.
    from Crypto.Hash import keccak

    return keccak.new(data=data, digest_bits=256).digest()


def recovered(digest: bytes, signature: bytes) -> str:
    """The address whose key made this signature (r, s, and v as 27 or 28). Any error means that there is none."""
    from eth_keys.datatypes import Signature

    raw = signature[:64] + bytes([signature[64] - 27])
    return Signature(raw).recover_public_key_from_msg_hash(digest).to_checksum_address()


def checksummed(address: str) -> str:
    """The address with the checksum of EIP-55 (capital letters)."""
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None:
        raise ConfigError("the address must be 40 hexadecimal digits after 0x", code="invalid_signer")
    return _with_checksum(match[1].lower())


def checked_address(what: str, address: str, hint: str) -> str:
    """An address from a caller, checksummed. Raises `InvalidArgumentError` if it is not one."""
    try:
        return checksummed(address)
    except ConfigError:
        raise InvalidArgumentError(f"{what} must be an address: 0x and 40 hexadecimal digits", hint=hint) from None


@lru_cache(maxsize=64)  # a purchase writes the same few addresses repeatedly
def _with_checksum(digits: str) -> str:
    return "0x" + "".join(
        digit.upper() if mark > "7" else digit
        for digit, mark in zip(digits, keccak256(digits.encode()).hex(), strict=False)
    )


def looks_like_a_key(text: object) -> bool:
    """Whether a text looks like a private key, even a mistyped one, rather than a path."""
    return isinstance(text, str) and without_keys(text).strip("\"' \n") == "****"


def key_bytes(key: object, where: str = "") -> bytes:
    """The 32 bytes of a key: 32 bytes, or 64 hexadecimal digits with or without 0x. Errors say `where` it comes from.

    Its callers hide the locals of frames (`hides_locals`), as the key is in them.
    """
    if isinstance(key, str):
        match = _HEX_KEY.fullmatch(bare_key(key))
        if match is None:
            raise _unusable(f"{where}the private key must be 64 hexadecimal digits, with or without 0x")
        key = bytes.fromhex(match[1])
    if not isinstance(key, bytes) or len(key) != 32:
        raise _unusable(f"{where}the private key must be 32 bytes")
    if not 0 < int.from_bytes(key, "big") < ORDER:
        raise _unusable(f"{where}the private key is not a valid secp256k1 key")
    return bytes(key)


def opened(key: object, where: str = "") -> Opened:
    """A key that is ready to sign. Takes and raises the same as `key_bytes`."""
    raw = key_bytes(key, where)
    try:
        return Opened(*(_by_coincurve(raw) or _by_eth_account(raw)), partial(_purchase_secret, raw))
    except failures(OSError, TradeError) as error:
        problem = f"the private key could not be loaded: {error}"
    except failures(Exception):
        problem = "the private key could not be loaded: neither coincurve nor eth-account works here"
    raise _unusable(where + problem)  # outside of the handler, or the library's error would be its context


def _unusable(problem: str) -> ConfigError:
    return ConfigError(problem, code="invalid_private_key")


def _by_coincurve(key: bytes) -> tuple[str, Sign, bool] | None:
    try:
        from coincurve import PrivateKey  # type: ignore[import-not-found,unused-ignore] # pyright: ignore
    except ImportError:
        return None
    private = PrivateKey(key)
    address = checksummed(keccak256(private.public_key.format(compressed=False)[1:])[-20:].hex())
    sign_recoverable = private.sign_recoverable

    def sign(digest: bytes) -> bytes:
        signature: bytes = sign_recoverable(digest, None)
        return signature[:64] + _V[signature[64]]

    return address, sign, True


def _by_eth_account(key: bytes) -> tuple[str, Sign, bool]:
    account = eth_account().from_key(key)  # its `repr` does not show the key

    def sign(digest: bytes) -> bytes:
        try:
            return bytes(account.unsafe_sign_hash(digest).signature)
        except failures(Exception):
            pass
        raise ConfigError("eth-account could not sign", code="invalid_signer")

    return account.address, sign, False


def _purchase_secret(key: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) of a key, for one block of 32 bytes."""
    import hmac  # few programs use it

    extracted = hmac.digest(b"tradesdk", key, "sha256")
    return hmac.digest(extracted, b"purchase secret 1" + b"\x01", "sha256")
