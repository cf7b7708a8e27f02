"""Recovers signers. eth-keys is imported with the first signature: that takes about 0.2 s."""

from __future__ import annotations

from ..core.seeding import keccak256

# Half the order of the curve secp256k1. Contracts reject signatures with a larger s (EIP-2).
HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0

Signable = tuple[bytes, bytes, bytes]
"""What EIP-191 signs: version, header, body."""


def text(message: str) -> Signable:
    """A text as wallets sign it."""
    content = message.encode()
    return b"E", b"thereum Signed Message:\n%d" % len(content), content


def digest_of(signed: Signable) -> bytes:
    """The 32 bytes that are signed."""
    return keccak256(b"\x19" + b"".join(signed))


def signer_of(digest: bytes, signature: bytes) -> str | None:
    """The address, in lower case, that signed these 32 bytes; None if a contract would reject the signature.

    The signature has 65 bytes: r, s in the lower half of its range, and 27 or 28.
    """
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64], "big") > HALF_ORDER:
        return None
    from eth_keys.datatypes import Signature

    try:
        # It uses coincurve where that is installed: a hundred times faster.
        made = Signature(signature[:64] + bytes([signature[64] - 27]))
        return made.recover_public_key_from_msg_hash(digest).to_address()
    except Exception:
        # Points that don't exist raise many kinds of errors; all mean the same.
        return None
