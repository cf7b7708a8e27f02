"""Ids, random numbers and addresses that follow from the seed alone: the same seed gives the same world."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import lru_cache

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


@lru_cache(maxsize=1024)  # a hash takes a millisecond, and the same wallets come again
def checksum_address(text: str) -> str:
    """The EIP-55 spelling of `0x` and 40 hex digits."""
    return checksum_addresses([text])[0]


def checksum_addresses(texts: Sequence[str]) -> list[str]:
    """The EIP-55 spellings of many addresses: a thousand take little longer than ten."""
    bare = [text[2:].lower() for text in texts]
    found = []
    for digits, hashed in zip(bare, _keccak_short([digits.encode("ascii") for digits in bare]), strict=True):
        nibbles = hashed.hex()
        found.append("0x" + "".join(c.upper() if n > "7" else c for c, n in zip(digits, nibbles, strict=False)))
    return found


# Keccak-256 in pure Python: a library would take a tenth of a second to import. A lane holds 64 bits of each message
# hashed at the same time, side by side in one integer of any width.

_MASK = (1 << 64) - 1
_RATE = 136


def _constants() -> tuple[list[int], list[tuple[int, int]]]:
    rounds, state = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            state = ((state << 1) ^ ((state >> 7) * 0x171)) & 0xFF
            if state & 2:
                constant ^= 1 << ((1 << power) - 1)
        rounds.append(constant)
    x, y, steps = 1, 0, []
    for step in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        steps.append((x + 5 * y, ((step + 1) * (step + 2) // 2) % 64))
    return rounds, steps


_ROUNDS, _STEPS = _constants()


def _permute(lanes: list[int], ones: int = 1) -> None:
    """One permutation. In `ones` the lowest bit of each message's 64 is set; by default for one message."""
    full = _MASK * ones
    kept = [((1 << turn) - 1) * ones for turn in range(64)]

    def rotated(lane: int, turn: int) -> int:
        return (lane & kept[64 - turn]) << turn | lane >> (64 - turn) & kept[turn] if turn else lane

    for constant in _ROUNDS:
        column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        for x in range(5):
            mix = column[x - 1] ^ rotated(column[(x + 1) % 5], 1)
            for y in range(0, 25, 5):
                lanes[x + y] ^= mix
        held = lanes[1]
        for place, turn in _STEPS:
            lanes[place], held = rotated(held, turn), lanes[place]
        for y in range(0, 25, 5):
            row = lanes[y : y + 5]
            for x in range(5):
                lanes[x + y] = row[x] ^ (~row[(x + 1) % 5] & full & row[(x + 2) % 5])
        lanes[0] ^= constant * ones


def _padded(data: bytes) -> bytearray:
    padded = bytearray(data + b"\x01" + b"\x00" * (-(len(data) + 1) % _RATE))
    padded[-1] |= 0x80
    return padded


def keccak256(data: bytes) -> bytes:
    """The hash for checksums of Ethereum addresses (with the padding from before SHA-3 was standardized)."""
    padded = _padded(data)
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            lanes[lane] ^= int.from_bytes(padded[start + lane * 8 : start + lane * 8 + 8], "little")
        _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def _keccak_short(messages: Sequence[bytes]) -> list[bytes]:
    """The hashes of messages shorter than 136 bytes, all in one permutation."""
    blocks = [_padded(message) for message in messages]
    width = 8 * len(blocks)
    lanes = [
        int.from_bytes(b"".join(block[at : at + 8] for block in blocks), "little") for at in range(0, _RATE, 8)
    ] + [0] * 8
    _permute(lanes, int.from_bytes((b"\x01" + bytes(7)) * len(blocks), "little"))
    parts = [lane.to_bytes(width, "little") for lane in lanes[:4]]
    return [b"".join(part[at : at + 8] for part in parts) for at in range(0, width, 8)]
