"""Signed headers where others can read them: encrypted, with a key that every member of a fleet can derive."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from ..._values.payment import SignedHeader

if TYPE_CHECKING:
    from ..purchases import PurchaseSecret

_LABEL = b"ledger headers 1"
_NONCE = 12
_TAG = 16


class HeaderSeal:
    """Encrypts headers with AES-256-GCM. Its `repr` hides the key, in tracebacks too.

    Attributes:
        id: the id of the purchase secret that the key is derived from.
    """

    __slots__ = ("__key", "id")

    def __init__(self, secret: PurchaseSecret) -> None:
        self.__key = secret.key(_LABEL)
        self.id = secret.id

    def seal(self, header: SignedHeader, payment_id: str) -> str:
        """A header as text that only members can read, and only as that of this payment."""
        nonce = os.urandom(_NONCE)
        content, tag = self.__cipher(nonce, payment_id).encrypt_and_digest(header.encode())
        return b64encode(nonce + content + tag).decode("ascii")

    def open(self, sealed: str, payment_id: str) -> SignedHeader | None:
        """The header; None: it was changed, or sealed with another key or for another payment."""
        try:
            raw = b64decode(sealed, validate=True)
            cipher = self.__cipher(raw[:_NONCE], payment_id)
            return SignedHeader(cipher.decrypt_and_verify(raw[_NONCE:-_TAG], raw[-_TAG:]).decode())
        except ValueError:
            return None

    def __cipher(self, nonce: bytes, payment_id: str):  # type: ignore[no-untyped-def] # a class without a public name
        from Crypto.Cipher import AES

        return AES.new(self.__key, AES.MODE_GCM, nonce=nonce).update(payment_id.encode("utf-8", "backslashreplace"))

    def __repr__(self) -> str:
        return f"HeaderSeal({self.id})"
