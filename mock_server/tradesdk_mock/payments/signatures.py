"""Who signed 32 bytes. The libraries are imported with the first signature: they take a quarter of a second."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# Half the order of the curve secp256k1. Contracts reject signatures with a larger s (EIP-2).
HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def is_loaded() -> bool:
    return "eth_keys.datatypes" in sys.modules


def load() -> None:
    """Import the libraries. A server does so outside its event loop."""
    # They raise the recursion limit so far that deeply nested input would end the process.
    limit = sys.getrecursionlimit()
    for name in ("eth_keys.datatypes", "eth_utils.crypto"):
        import_module(name)
    sys.setrecursionlimit(limit)


def keccak(content: bytes) -> bytes:
    if not is_loaded():
        load()
    from eth_utils.crypto import keccak

    return bytes(keccak(content))


def signer(hashed: bytes, signature: bytes) -> str | None:
    """The address, in lower case, that signed these 32 bytes; None when a contract would reject the signature.

    It takes 65 bytes: r, s in the lower half of its range, and 27 or 28.
    """
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    if s > HALF_ORDER:
        return None
    if not is_loaded():
        load()
    from eth_keys.datatypes import Signature

    made: Any = Signature
    try:
        # eth_keys uses coincurve where it is installed: a hundred times faster.
        key = made(vrs=(signature[64] - 27, r, s)).recover_public_key_from_msg_hash(hashed)
    except Exception:
        # Points that don't exist raise many kinds of error; all mean the same.
        return None
    return f"0x{key.to_canonical_address().hex()}"
