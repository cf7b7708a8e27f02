"""Proof that a wallet is the caller's: a signature over a message, checked by recovering its signer (EIP-191)."""

from __future__ import annotations

import re
import sys

from .errors import bad_signature
from .identity import checksum_address

_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)
_LIBRARY = "eth_account"


def wallet_message(address: str, chain_id: int, template: str = "default") -> str:
    """The text that the owner of `address` signs to connect it. A `template` may hold {address} and {chain_id}."""
    address = checksum_address(address)
    if template == "default":
        return f"Trade wallet verification\nAddress: {address}\nChain ID: {chain_id}"
    return template.replace("{address}", address).replace("{chain_id}", str(chain_id))


def ready() -> bool:
    """Whether the signature library is loaded already."""
    return _LIBRARY in sys.modules


def load() -> None:
    """Load the signature library: half a second of work that a server without wallets never pays."""
    import eth_account  # noqa: F401


def verify(address: str, message: str, signature: str) -> None:
    """400 invalid_signature unless `signature` is `address`'s over `message`."""
    if not _SIGNATURE.fullmatch(signature):
        raise bad_signature("signature: not 0x and 130 hex digits")
    from eth_account import Account
    from eth_account.messages import encode_defunct

    try:
        signer = str(Account.recover_message(encode_defunct(text=message), signature=signature))
    except Exception:
        # Many kinds of error come out of the curve arithmetic for points that don't exist: all mean the same.
        raise bad_signature("signature: not a signature") from None
    if signer.lower() != address.lower():
        raise bad_signature("signature: not made by this address over the verification message")
