"""The chain on which payments settle, as a node sees it: blocks, used nonces, logs. All follow from seed and clock."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import MockServerError
from ..core.seeding import digest, tx_hash
from . import eip3009, settlements, signatures
from .requirements import ASSET, ASSET_DOMAIN, NETWORK, PaymentFaults

if TYPE_CHECKING:
    from ..state.world import World

CHAIN_ID = int(NETWORK.partition(":")[2])
FINALITY = 1_200
"""Seconds until a block is finalized."""
_GENESIS = 1_686_789_347
_BLOCK_SECONDS = 2
# Topics of the token's events, and the selector of its function: Keccak-256 of their signatures.
USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
CANCELED = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
AUTHORIZATION_STATE = "0xe94a0102"
_CANCEL = re.compile(f"0xb7b728990{{24}}([0-9a-f]{{40}})([0-9a-f]{{64}}){96:064x}{65:064x}([0-9a-f]{{130}})0{{62}}")


@dataclass(frozen=True, slots=True)
class _Use:
    """A nonce that was used: by a transfer to `pay_to`, or without one by a cancellation."""

    index: int
    payer: str
    nonce: str
    amount: int
    pay_to: str | None
    block: int
    transaction: str


class ChainView:
    """What one node knows at one moment."""

    def __init__(self, world: World, now: float, faults: PaymentFaults) -> None:
        settlements.cash_held(world)
        self._world = world
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
        """A block's hash. It begins with the number, so that it can be found again."""
        return f"0x{number:016x}{digest(self._world.seed, 'block', number).hex()[:48]}"

    def number_of(self, block_hash: str) -> int | None:
        """The number of the block with this hash; None when this node has none."""
        number = int(block_hash[2:18], 16)
        return number if number <= self.head and self.hash_of(number) == block_hash.lower() else None

    def is_used(self, payer: str, nonce: str, block: int) -> bool:
        """The token's `authorizationState` at a block."""
        lie = self._faults.take("node_lie")
        if lie is not None:
            return bool(lie["used"])
        return any(use.block <= block for use in self._uses(payer, nonce))

    def logs(self, since: int, until: int, topics: Sequence[object]) -> list[dict[str, Any]]:
        """Logs of the token from one block to another, by topics as `eth_getLogs` has them."""
        lie = self._faults.take("node_lie")
        if lie is not None and not lie["used"]:
            return []
        found = [log for use in self._uses() if since <= use.block <= min(until, self.head) for log in self._of(use)]
        return [log for log in found if _has_topics(log["topics"], topics)]

    def receipt(self, transaction: str) -> dict[str, Any] | None:
        """The receipt of a transaction; None for an unknown one."""
        lie = self._faults.take("node_lie")
        if lie is not None and not lie["used"]:
            return None
        for use in self._uses():
            if use.transaction == transaction.lower() and use.block <= self.head:
                return {
                    "transactionHash": use.transaction,
                    "blockNumber": hex(use.block),
                    "blockHash": self.hash_of(use.block),
                    "status": "0x1",
                    "logs": self._of(use),
                }
        return None

    def _uses(self, payer: str | None = None, nonce: str | None = None) -> list[_Use]:
        where, args = ("", ()) if payer is None else (" WHERE payer = ? AND nonce = ?", (payer, nonce))
        store = self._world.store
        rows = [
            *store.all(f"SELECT seq, payer, nonce, amount, pay_to, at, tx FROM settlements{where}", args),  # noqa: S608
            *store.all(f"SELECT seq, payer, nonce, 0, NULL, at, tx FROM cancellations{where}", args),  # noqa: S608
        ]
        found = [
            _Use(2 * seq, payer, nonce, amount, pay_to, _number_at(at, math.ceil), tx)
            for seq, payer, nonce, amount, pay_to, at, tx in rows
        ]
        return sorted(found, key=lambda use: (use.block, use.index))

    def _of(self, use: _Use) -> list[dict[str, Any]]:
        """The logs of a use: of the nonce, and right after it of the transfer."""
        topics = [USED if use.pay_to else CANCELED, _word(use.payer), use.nonce]
        found = [self._log(use, 0, topics, "0x")]
        if use.pay_to:
            found.append(self._log(use, 1, [TRANSFER, _word(use.payer), _word(use.pay_to)], f"0x{use.amount:064x}"))
        return found

    def _log(self, use: _Use, place: int, topics: list[str], data: str) -> dict[str, Any]:
        return {
            "address": ASSET.lower(),
            "topics": topics,
            "data": data,
            "blockNumber": hex(use.block),
            "blockHash": self.hash_of(use.block),
            "transactionHash": use.transaction,
            "logIndex": hex(use.index + place),
            "removed": False,
        }


def cancel(world: World, calldata: str) -> str:
    """Cancel a nonce, as the token's `cancelAuthorization` does with this calldata; the hash of the transaction.

    Raises:
        MockServerError: it is not such calldata, its signature is not the payer's, or the nonce is used.
    """
    found = _CANCEL.fullmatch(calldata.lower())
    if found is None:
        raise MockServerError("calldata: must be that of cancelAuthorization(address,bytes32,bytes)")
    payer, nonce = f"0x{found[1]}", f"0x{found[2]}"
    domain = eip3009.Domain(ASSET_DOMAIN["name"], ASSET_DOMAIN["version"], CHAIN_ID, ASSET)
    if signatures.signer(eip3009.cancellation(domain, payer, nonce), bytes.fromhex(found[3])) != payer:
        raise MockServerError("calldata: its signature is not the payer's")
    if settlements.is_used(world, payer, nonce):
        raise MockServerError("calldata: the nonce is used or canceled already")
    transaction = tx_hash(world.seed, "cancellation", payer, nonce)
    world.store.add("cancellations", payer=payer, nonce=nonce, at=world.now(), tx=transaction)
    return transaction


def _number_at(now: float, rounded: Callable[[float], int] = math.floor) -> int:
    return int(rounded((now - _GENESIS) / _BLOCK_SECONDS))


def _word(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")


def _has_topics(topics: Sequence[str], wanted: Sequence[object]) -> bool:
    if len(wanted) > len(topics):
        return False
    return all(
        each is None or topic in ([each.lower()] if isinstance(each, str) else _lower(each))
        for topic, each in zip(topics, wanted, strict=False)
    )


def _lower(each: object) -> list[str]:
    return [str(one).lower() for one in each] if isinstance(each, list) else []
