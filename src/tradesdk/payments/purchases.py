"""Names of purchases, and the nonces of named ones."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re

from .._http.arguments import comparable, required_text
from .._system.interrupts import failures
from .._values.payment import USDC
from .._values.text import bare_key, printable
from ..errors import InvalidArgumentError, PaymentRefusedError
from .messages import signer_failed
from .signing.signer import Asked, not_async

SECRET_VARIABLE = "TRADE_PURCHASE_SECRET"  # noqa: S105 - its name
_CHAIN = 8453
_LONGEST_NAME = 500
_NAMED = b"\x01"
_SECRET = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


def purchase_name(name: str | None, argument: str = "purchase") -> str | None:
    """A name that a caller gave, so that the same text gives the same nonce on every machine."""
    if name is None:
        return None
    name = comparable(required_text(argument, name))
    if not name.isprintable() or not name:
        raise InvalidArgumentError(f"{argument} must not be blank or have control characters: {printable(name, 60)}")
    if len(name) > _LONGEST_NAME:
        raise InvalidArgumentError(f"{argument} is {len(name)} characters long; a name has at most {_LONGEST_NAME}")
    return name


def item_name(job: str, path: str, body: bytes) -> str:
    """The name of the purchase of one item of a batch job: the job's name and the request."""
    return f"{comparable(job)}: {path} {canonical(body)}"


class PurchaseSecret:
    """The secret that nonces of named purchases are made with. Its `repr` hides it, in tracebacks too."""

    __slots__ = ("__value", "id")

    def __init__(self, value: bytes) -> None:
        self.__value = value
        self.id = hmac.digest(value, b"tradesdk purchase secret id", "sha256").hex()[:16]

    def nonce(self, name: str, *, payer: str) -> str:
        """The nonce of a name, as hexadecimal digits after 0x. The same on every machine with the same secret."""
        parts = _CHAIN.to_bytes(32, "big") + _bytes(USDC) + _bytes(payer) + hashlib.sha256(name.encode()).digest()
        return "0x" + hmac.digest(self.__value, _NAMED + parts, "sha256").hex()

    def __repr__(self) -> str:
        return f"PurchaseSecret({self.id})"


def purchase_secret(signer: object) -> Asked[PurchaseSecret]:
    """The secret of TRADE_PURCHASE_SECRET, else the signer's."""
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
            raise failed  # not inside, where the signer's error would be its context
        problem = "a named purchase needs a purchase secret, and this signer has none"
    raise PaymentRefusedError(
        problem,
        code="no_purchase_secret",
        hint=f"set {SECRET_VARIABLE} to 64 random hexadecimal digits (openssl rand -hex 32), the same on every machine "
        "that pays with this wallet",
    )


def canonical(body: bytes) -> str:
    """A body as JSON with sorted keys."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode("latin-1")


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits.removeprefix("0x"))
