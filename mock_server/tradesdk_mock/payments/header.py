"""The payment header: a signed transfer authorization, and the offered requirement it is for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_core import from_json

from ..core.messages import Request
from ..core.seeding import EVM_ADDRESS
from .eip3009 import Authorization

HEADER: Final = b"payment-signature"
LONGEST = 32 * 1024
_DIGITS = re.compile(r"[0-9]{1,78}", re.ASCII).fullmatch
_NONCE = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII).fullmatch
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
# The fields of an authorization, and whether a text has their form.
_FORMS: dict[str, Callable[[str], object]] = {
    "from": EVM_ADDRESS.fullmatch,
    "to": EVM_ADDRESS.fullmatch,
    "value": _DIGITS,
    "validAfter": _DIGITS,
    "validBefore": _DIGITS,
    "nonce": _NONCE,
}


@dataclass(slots=True)
class Payment:
    """One payment header and its outcome.

    Attributes:
        at: when it came, on the service's clock.
        header: the SHA-256 of the header's value, in hex: the same for the same bytes.
        content: the JSON in it; None when it can't be read.
        transfer: the authorization in it; None when it is missing or malformed.
        signature: its signature, of any length; empty when it isn't hex.
        verdict: `settled`, or the reason why it was refused or not charged.
        row: its number among the submissions.
        requirement: the offered requirement that it is for.
        taken: its money was taken, now or before.
    """

    at: float
    header: str
    content: dict[str, Any] | None = None
    transfer: Authorization | None = None
    signature: bytes = b""
    verdict: str = "unreadable"
    row: int | None = None
    requirement: dict[str, Any] = field(default_factory=dict)
    taken: bool = False

    @property
    def nonce(self) -> str | None:
        return self.transfer.nonce if self.transfer else None

    @property
    def payer(self) -> str | None:
        return self.transfer.payer if self.transfer else None

    def note(self) -> dict[str, object]:
        """Its entry in the request log."""
        return {"payer": self.payer, "nonce": self.nonce, "verdict": self.verdict}


def has_payment(request: Request) -> bool:
    """Whether there is a payment header, valid or not."""
    return any(name == HEADER for name, _ in request.headers)


def read(request: Request, now: float) -> Payment | None:
    """The payment of a request; None without one. `content` is None if it is unreadable."""
    values = [value for name, value in request.headers if name == HEADER]
    if not values:
        return None
    found = Payment(now, hashlib.sha256(b", ".join(values)).hexdigest())
    if len(values) > 1 or len(values[0]) > LONGEST:
        return found
    try:
        content = from_json(base64.b64decode(values[0], validate=True), allow_inf_nan=False)
    except (ValueError, binascii.Error):
        return found
    if isinstance(content, dict):
        found.content = content
        _fill(found, content.get("payload"))
    return found


def _fill(payment: Payment, payload: object) -> None:
    if not isinstance(payload, dict):
        return
    given, signature = payload.get("authorization"), payload.get("signature")
    if not isinstance(given, dict) or not isinstance(signature, str):
        return
    for name, has_form in _FORMS.items():
        value = given.get(name)
        if not isinstance(value, str) or not has_form(value):
            return
    value, after, before = (int(given[name]) for name in ("value", "validAfter", "validBefore"))
    if max(value, after, before) >= 1 << 256:
        return
    payment.signature = bytes.fromhex(signature[2:]) if _BYTES.fullmatch(signature) else b""
    payment.transfer = Authorization(
        given["from"].lower(), given["to"].lower(), value, after, before, given["nonce"].lower()
    )


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same, types included: 1 is neither 1.0 nor true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other
