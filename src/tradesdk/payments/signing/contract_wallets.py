"""Signatures of smart contract wallets: ERC-1271, and ERC-6492 for wallets that are not deployed yet. No I/O."""

from __future__ import annotations

LONGEST = 3 * 1024
"""The most bytes of a signature. Common servers refuse headers of more than 8 to 16 KiB."""
MAGIC = bytes.fromhex("6492" * 16)
"""The end of a signature that includes the call to deploy the wallet."""
IS_VALID = "0x1626ba7e"
"""The selector of `isValidSignature(bytes32,bytes)`; a valid result begins with it."""


def is_wrapped(signature: bytes) -> bool:
    """Whether it includes the call that deploys its wallet."""
    return signature.endswith(MAGIC)


def inner_signature(signature: bytes) -> bytes:
    """The wallet's own signature, without the call that deploys the wallet.

    Raises `ValueError` for one that ends as if it had such a call, and has another form.
    """
    if not is_wrapped(signature):
        return signature
    content = signature[: -len(MAGIC)]
    _part(content, _number(content, 32))  # skip the call
    inner = _part(content, _number(content, 64))
    if any(content[:12]) or not any(content[12:32]) or not inner:
        raise ValueError("no factory, or no signature")
    return inner


def call_data(digest: bytes, signature: bytes) -> str:
    """The data of the call that asks a wallet whether a signature is valid."""
    padded = signature + bytes(-len(signature) % 32)
    words = digest + (64).to_bytes(32, "big") + len(signature).to_bytes(32, "big")
    return IS_VALID + (words + padded).hex()


def _number(content: bytes, at: int) -> int:
    if len(content) < at + 32:
        raise ValueError("too short")
    return int.from_bytes(content[at : at + 32], "big")


def _part(content: bytes, at: int) -> bytes:
    """Bytes after their length, as the ABI encodes them."""
    length = _number(content, at)
    found = content[at + 32 : at + 32 + length]
    if len(found) != length:
        raise ValueError("too short")
    return found
