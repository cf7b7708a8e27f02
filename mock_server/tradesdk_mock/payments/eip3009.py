"""EIP-3009: the EIP-712 digests of a transfer of USDC and of a cancellation, and the recovery of their signers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from .libraries import HALF_ORDER, TRANSFERS

_DOMAIN = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
_CANCEL = b"CancelAuthorization(address authorizer,bytes32 nonce)"
_TRANSFER = (
    b"TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,"
    b"bytes32 nonce)"
)


@dataclass(frozen=True, slots=True)
class Authorization:
    """A transfer authorization: who may take how much from whom, and when.

    Attributes:
        payer: `0x` and 40 hex digits, in lower case, as `to`.
        value: in units of the token, below 2**256, as are the times.
        valid_after: in Unix seconds; not valid at that very second.
        valid_before: in Unix seconds; not valid any more at that very second.
        nonce: `0x` and 64 hex digits, in lower case; of one payer it works once.
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


def digest(domain: Domain, transfer: Authorization) -> bytes:
    """The 32 bytes to sign."""
    return _keccak(
        b"\x19\x01"
        + _separator(domain)
        + _keccak(
            _hash(_TRANSFER)
            + _word(transfer.payer)
            + _word(transfer.to)
            + transfer.value.to_bytes(32, "big")
            + transfer.valid_after.to_bytes(32, "big")
            + transfer.valid_before.to_bytes(32, "big")
            + bytes.fromhex(transfer.nonce[2:])
        )
    )


def cancellation_digest(domain: Domain, payer: str, nonce: str) -> bytes:
    """The 32 bytes to sign for the cancellation of a nonce."""
    return _keccak(b"\x19\x01" + _separator(domain) + _keccak(_hash(_CANCEL) + _word(payer) + bytes.fromhex(nonce[2:])))


def signer(hashed: bytes, signature: bytes) -> str | None:
    """The address, in lower case, that signed these 32 bytes; None when the contract would reject the signature.

    It takes 65 bytes: r, s in the lower half of its range, and 27 or 28.
    """
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    if s > HALF_ORDER:
        return None
    signature_class = _signature_class()
    try:
        # eth_keys uses coincurve where it is installed: a hundred times faster.
        key = signature_class(vrs=(signature[64] - 27, r, s)).recover_public_key_from_msg_hash(hashed)
    except Exception:
        # Points that don't exist raise many kinds of error; all mean the same.
        return None
    return f"0x{key.to_canonical_address().hex()}"


@lru_cache(maxsize=64)
def _separator(domain: Domain) -> bytes:
    return _keccak(
        _hash(_DOMAIN)
        + _keccak(domain.name.encode())
        + _keccak(domain.version.encode())
        + domain.chain_id.to_bytes(32, "big")
        + _word(domain.contract)
    )


@lru_cache(maxsize=4)
def _hash(text: bytes) -> bytes:
    return _keccak(text)


def _word(address: str) -> bytes:
    return bytes(12) + bytes.fromhex(address[2:])


def _keccak(content: bytes) -> bytes:
    return bytes(_keccak_function()(content))


@cache
def _keccak_function() -> Callable[[bytes], bytes]:
    TRANSFERS.load()
    from eth_utils.crypto import keccak

    return keccak


@cache
def _signature_class() -> Any:
    TRANSFERS.load()
    from eth_keys.datatypes import Signature

    return Signature
