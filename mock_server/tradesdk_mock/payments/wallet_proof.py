"""Proof that a wallet is the caller's: a signature over a message, checked by recovering its signer (EIP-191)."""

from __future__ import annotations

import re

from ..core.errors import bad_signature
from ..core.seeding import checksum_address
from .signatures import digest_of, signer_of, text

_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)


def wallet_message(address: str, chain_id: int, template: str = "default") -> str:
    """The text that the owner of `address` signs to connect it.

    Args:
        address: 0x and 40 hex digits, in any case; the text has it checksummed.
        chain_id: 8453 or 56.
        template: the gap option `wallet_message`: `default`, or a text with `{address}` and `{chain_id}` in it.
    """
    address = checksum_address(address)
    if template == "default":
        return f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"
    return template.replace("{address}", address).replace("{chain_id}", str(chain_id))


def verify(address: str, message: str, signature: str) -> None:
    """400 invalid_signature unless `signature` was made by `address` for `message`."""
    if not _SIGNATURE.fullmatch(signature):
        raise bad_signature("signature: not 0x and 130 hex digits")
    content = bytes.fromhex(signature[2:])
    # Some wallets end it with 0 or 1.
    last = content[64] + 27 if content[64] < 2 else content[64]
    found = signer_of(digest_of(text(message)), content[:64] + bytes([last]))
    if found is None:
        raise bad_signature("signature: not r, s in the lower half of its range, and 0, 1, 27 or 28")
    if found != address.lower():
        raise bad_signature("signature: not made by this address over the text of the gap option wallet_message")
