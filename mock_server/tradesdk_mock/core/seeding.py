"""Ids, random numbers and addresses that follow from the seed alone: the same seed gives the same world."""

from __future__ import annotations

import hashlib
import hmac
import re

EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


def digest(seed: int, *parts: object) -> bytes:
    """32 bytes for (seed, kind, tenant, ordinal …). Parts are length-prefixed: ("a", "bc") isn't ("ab", "c")."""
    message = b"".join(len(text).to_bytes(4, "big") + text for text in (str(part).encode() for part in parts))
    return hmac.digest(str(seed).encode(), message, "sha256")


def ident(prefix: str, seed: int, *parts: object) -> str:
    """An id such as `agt_5f0c…`: 24 hex digits after the prefix."""
    return f"{prefix}_{digest(seed, prefix, *parts).hex()[:24]}"


class SeededRandom:
    """Random numbers that follow from (seed, parts), at most `draws` of them."""

    def __init__(self, seed: int, *parts: object, draws: int = 16) -> None:
        self._bytes = hashlib.shake_128(digest(seed, *parts)).digest(draws * 6)
        self._at = 0

    def unit(self) -> float:
        start, self._at = self._at, self._at + 6
        if self._at > len(self._bytes):
            raise IndexError("more draws than `draws`")
        return int.from_bytes(self._bytes[start : self._at], "big") / (1 << 48)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def below(self, count: int) -> int:
        return int(self.unit() * count)


def address(seed: int, *parts: object) -> str:
    """A made-up EVM address with its checksum."""
    return checksum_address("0x" + digest(seed, "address", *parts)[:20].hex())


def tx_hash(seed: int, *parts: object) -> str:
    return "0x" + digest(seed, "tx", *parts).hex()


def checksum_address(text: str) -> str:
    """The EIP-55 spelling of `0x` and 40 hex digits."""
    digits = text[2:].lower()
    marks = keccak256(digits.encode("ascii")).hex()
    return "0x" + "".join(c.upper() if mark > "7" else c for c, mark in zip(digits, marks, strict=False))


def keccak256(data: bytes) -> bytes:
    """The hash of Ethereum (with the padding from before SHA-3 was standardized)."""
    from Crypto.Hash import keccak  # imported late: it takes 30 ms, and a server without trades does not need it

    return keccak.new(data=data, digest_bits=256).digest()
