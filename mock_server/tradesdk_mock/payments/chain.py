"""The chain on which payments settle, as a node sees it: blocks and used nonces. All follow from seed and clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.seeding import digest
from . import settlements
from .requirements import NETWORK, PaymentFaults

if TYPE_CHECKING:
    from ..state.world import World

CHAIN_ID = int(NETWORK.partition(":")[2])
FINALITY = 1_200
"""Seconds until a block is finalized."""
_GENESIS = 1_686_789_347
_BLOCK_SECONDS = 2
# Selectors of the token's functions: Keccak-256 of their signatures.
AUTHORIZATION_STATE = "0xe94a0102"
BALANCE_OF = "0x70a08231"


class ChainView:
    """The state of the chain as one node knows it at one moment."""

    def __init__(self, world: World, now: float, faults: PaymentFaults) -> None:
        settlements.cash_held(world)
        self.world = world
        self._faults = faults
        lag = faults.take("node_lag")
        self.head = _number_at(now - (lag["seconds"] if lag else 0))
        self.finalized = max(-1, self.head - FINALITY // _BLOCK_SECONDS)

    @property
    def chain_id(self) -> int:
        wrong = self._faults.take("chain_id")
        return int(wrong["chain_id"]) if wrong else CHAIN_ID

    def block(self, number: int) -> dict[str, Any] | None:
        """A block, or None where there is none yet."""
        if not 0 <= number <= self.head:
            return None
        return {
            "number": hex(number),
            "hash": self.hash_of(number),
            "parentHash": self.hash_of(number - 1) if number else "0x" + "0" * 64,
            "timestamp": hex(_GENESIS + number * _BLOCK_SECONDS),
            "transactions": [],
        }

    def hash_of(self, number: int) -> str:
        """A block's hash. It begins with the number, from which the block can be found."""
        return f"0x{number:016x}{digest(self.world.seed, 'block', number).hex()[:48]}"

    def number_of(self, block_hash: str) -> int | None:
        """The number of the block with this hash; None when this node has none."""
        number = int(block_hash[2:18], 16)
        return number if number <= self.head and self.hash_of(number) == block_hash.lower() else None

    def is_used(self, payer: str, nonce: str, block: int) -> bool:
        """The result of the token's `authorizationState` at a block."""
        lie = self._faults.take("node_lie")
        if lie is not None:
            return bool(lie["used"])
        used = settlements.used_at(self.world, payer, nonce)
        return used is not None and _number_at(used, math.ceil) <= block


def _number_at(now: float, rounded: Callable[[float], int] = math.floor) -> int:
    return int(rounded((now - _GENESIS) / _BLOCK_SECONDS))
