"""EIP-3009: a transfer of USDC as it is signed (EIP-712)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..core.seeding import keccak256
from .signatures import Signable

_DOMAIN = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
_TRANSFER = (
    b"TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,"
    b"bytes32 nonce)"
)


@dataclass(frozen=True, slots=True)
class Authorization:
    """A transfer authorization: who may take how much from whom, and when.

    Attributes:
        payer: `0x` and 40 hex digits, in lower case, as `to`.
        value: in micro-dollars, below 2**256, as are the times.
        valid_after: in Unix seconds; not yet valid in that second.
        valid_before: in Unix seconds; no longer valid in that second.
        nonce: `0x` and 64 hex digits, in lower case; each payer can use it once.
    """

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: str


@dataclass(frozen=True, slots=True)
class Domain:
    """The EIP-712 domain of the token."""

    name: str
    version: str
    chain_id: int
    contract: str


def signable(domain: Domain, transfer: Authorization) -> Signable:
    """The transfer in the form that is signed."""
    fields = (
        _hash(_TRANSFER)
        + _word(transfer.payer)
        + _word(transfer.to)
        + transfer.value.to_bytes(32, "big")
        + transfer.valid_after.to_bytes(32, "big")
        + transfer.valid_before.to_bytes(32, "big")
        + bytes.fromhex(transfer.nonce[2:])
    )
    return b"\x01", _separator(domain), keccak256(fields)


@lru_cache(maxsize=64)
def _separator(domain: Domain) -> bytes:
    return keccak256(
        _hash(_DOMAIN)
        + keccak256(domain.name.encode())
        + keccak256(domain.version.encode())
        + domain.chain_id.to_bytes(32, "big")
        + _word(domain.contract)
    )


@lru_cache(maxsize=4)
def _hash(text: bytes) -> bytes:
    return keccak256(text)


def _word(address: str) -> bytes:
    return bytes(12) + bytes.fromhex(address[2:])
