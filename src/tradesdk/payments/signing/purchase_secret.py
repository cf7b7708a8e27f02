"""The secret that makes the nonces of named purchases."""

from __future__ import annotations

import hashlib
import hmac
import os
import re

from ..._system.interrupts import failures
from ..._values.payment import USDC
from ..._values.text import bare_key
from ...errors import PaymentRefusedError
from ..messages import signer_failed
from .signer import Asked, from_hex, not_async

SECRET_VARIABLE = "TRADE_PURCHASE_SECRET"  # noqa: S105 - its name
_CHAIN = 8453
_NAMED = b"\x01"
_SECRET = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


class PurchaseSecret:
    """The secret that makes the nonces of named purchases. Its `repr` hides it, in tracebacks too."""

    __slots__ = ("__value", "id")

    def __init__(self, value: bytes) -> None:
        self.__value = value
        self.id = hmac.digest(value, b"tradesdk purchase secret id", "sha256").hex()[:16]

    def nonce(self, name: str, *, payer: str) -> str:
        """The nonce of a name, as hexadecimal digits after 0x. The same on every machine with the same secret."""
        parts = (
            _CHAIN.to_bytes(32, "big")
            + from_hex(USDC, 20)
            + from_hex(payer, 20)
            + hashlib.sha256(name.encode()).digest()
        )
        return "0x" + hmac.digest(self.__value, _NAMED + parts, "sha256").hex()

    def __repr__(self) -> str:
        return f"PurchaseSecret({self.id})"


def purchase_secret(signer: object) -> Asked[PurchaseSecret]:
    """The secret in TRADE_PURCHASE_SECRET, or else the signer's."""
    given = bare_key(os.environ.get(SECRET_VARIABLE, ""))
    if given:
        digits = _SECRET.fullmatch(given)
        del given
        if digits is not None:
            return PurchaseSecret(bytes.fromhex(digits[1]))
        problem = f"{SECRET_VARIABLE} is not 64 hexadecimal digits"
    else:
        own = getattr(signer, "purchase_secret", None)
        if callable(own):
            what = "the signer's purchase secret"
            try:
                secret = yield own
                not_async(secret)
            except failures(Exception) as error:
                failed = signer_failed(error, what)
            else:
                if isinstance(secret, bytes) and len(secret) == 32:
                    return PurchaseSecret(secret)
                del secret
                failed = PaymentRefusedError(f"{what} is not 32 bytes", code="signer_failed")
            raise failed  # outside of the handler, or the signer's error would be its context
        problem = "a named purchase needs a purchase secret, and this signer has none"
    raise PaymentRefusedError(
        problem,
        code="no_purchase_secret",
        hint=f"set {SECRET_VARIABLE} to 64 random hexadecimal digits (openssl rand -hex 32), the same on every machine "
        "that pays with this wallet",
    )
