"""What the ledger knows of a payment: its state, its terms, what came back."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from urllib.parse import urlsplit

from .money import shown_usd, usd

Charged = bool | Literal["unknown"]
"""Whether money was taken. `"unknown"` is true in an `if`, as it should be."""

PAYMENT_HEADER = {2: "PAYMENT-SIGNATURE", 1: "X-PAYMENT"}
"""The request header of a payment, by version."""
GRACE = 30
"""Seconds after `valid_before` from which on an authorization is taken as dead."""


_LEAST = 20
_PIECE = re.compile(rf"[0-9A-Za-z+/=]{{{_LEAST},}}")
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")


class SignedHeader(str):
    """The value of a payment's header. Whoever has it can be paid: its `repr`, which ends up in logs, hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"


class PaymentState(StrEnum):
    """Where a payment is. Live ones could still be taken; their amount stays reserved."""

    RESERVED = "reserved"
    """Its money is set aside; nothing has been signed, or at least nothing has left."""
    SUBMITTED = "submitted"
    """Signed, written down, and on its way."""
    PENDING = "pending"
    """The service has it and is settling."""
    UNKNOWN = "unknown"
    """Handed over, and no answer says what became of it."""
    REJECTED_LIVE = "rejected_live"
    """Refused, or never sent; still valid until it expires."""
    DELIVERED = "delivered"
    """Paid, and the answer is here."""
    PAID_UNDELIVERED = "paid_undelivered"
    """Paid, without a usable answer."""
    EXPIRED_UNPAID = "expired_unpaid"
    """Refused and expired: its money is free again."""
    EXPIRED_UNKNOWN = "expired_unknown"
    """Expired, and nobody knows whether it was taken: a person has to say."""
    CANCELLED = "cancelled"
    """Given up before anything was signed: its money is free again."""
    MARKED_PAID = "marked_paid"
    """A person said that it was taken."""
    MARKED_UNPAID = "marked_unpaid"
    """A person said that it was not taken: its money is free again."""


LIVE = frozenset(
    {
        PaymentState.RESERVED,
        PaymentState.SUBMITTED,
        PaymentState.PENDING,
        PaymentState.UNKNOWN,
        PaymentState.REJECTED_LIVE,
    }
)
"""Could still be taken."""
UNRESOLVED = frozenset({PaymentState.PAID_UNDELIVERED, PaymentState.EXPIRED_UNKNOWN})
"""Ended badly: the same call is not paid for again before somebody says so."""
FREE = frozenset({PaymentState.EXPIRED_UNPAID, PaymentState.CANCELLED, PaymentState.MARKED_UNPAID})
"""Count for no budget."""

_CHARGED: dict[PaymentState, Charged] = {
    PaymentState.RESERVED: False,
    PaymentState.CANCELLED: False,
    PaymentState.EXPIRED_UNPAID: False,
    PaymentState.MARKED_UNPAID: False,
    PaymentState.PAID_UNDELIVERED: True,
    PaymentState.MARKED_PAID: True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the service said of a settlement.

    Attributes:
        success: whether the money was taken.
        transaction: the transaction's hash; empty when it failed.
        network: where, as the service names it.
        payer: who paid, if it says so.
        error_reason: why it failed, if it did.
        amount: micro-dollars, if it says so.
        raw: everything that the receipt said.
    """

    success: bool
    transaction: str
    network: str
    payer: str | None = None
    error_reason: str | None = None
    amount: int | None = None
    raw: dict[str, Any]

    @property
    def amount_usd(self) -> Decimal | None:
        """The amount in dollars."""
        return None if self.amount is None else usd(self.amount)

    def without(self, payment: Payment) -> Receipt:
        """The same; where the service repeats the signed payment, that is left out."""
        hide = payment.hidden_in
        return replace(
            self,
            transaction=hide(self.transaction),
            network=hide(self.network),
            payer=self.payer and hide(self.payer),
            error_reason=self.error_reason and hide(self.error_reason),
            raw=json.loads(hide(json.dumps(self.raw))),
        )


def origin_of(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def newer_receipt(before: Receipt | None, now: Receipt | None) -> Receipt | None:
    """What counts of two receipts for one payment: once it says that the money was taken, it was."""
    return before if now is None or (before is not None and before.success and not now.success) else now


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One payment as the ledger knows it. One field is a secret, `header`: whoever has it can be paid.

    Neither its `repr` nor a pickle has it; a copy does, and `dataclasses.asdict` too.

    Attributes:
        id: `pay_` and 24 hexadecimal digits.
        state: where it is.
        fingerprint: what it pays for: a hash of method, URL, body and payer.
        method: the HTTP method.
        url: the full URL.
        body: the request's body.
        version: of the protocol, 1 or 2.
        network: as the offer named it.
        asset: the token's contract.
        payer: the address that pays.
        pay_to: the address that is paid.
        amount: micro-dollars.
        nonce: 32 bytes as hexadecimal digits after 0x.
        valid_after: Unix seconds, by the service's clock.
        valid_before: Unix seconds, by the service's clock; from then on it cannot be taken.
        created: when it was reserved: Unix seconds, by the local clock.
        updated: when its state last changed: Unix seconds, by the local clock.
        header: the signed payment as it is sent; None until it is signed.
        submissions: how often it may have reached the service.
        reason: why it is where it is, in the service's word if it gave one.
        receipt: what the service said of the settlement, if it did.
        identified: it carries an identifier, so that the service can give the stored answer again.
        job: the batch job that it belongs to.
        reply: the body of the answer, where it is kept: until its caller has it, for jobs, after `resume`, and of
            answers that were of no use.
        superseded: a later payment for the same call was ordered in spite of this one, and signed.
    """

    id: str
    state: PaymentState
    fingerprint: str
    method: str
    url: str
    body: bytes
    version: int
    network: str
    asset: str
    payer: str
    pay_to: str
    amount: int
    nonce: str
    valid_after: int
    valid_before: int
    created: float
    updated: float
    header: SignedHeader | None = None
    submissions: int = 0
    reason: str = ""
    receipt: Receipt | None = None
    identified: bool = False
    job: str | None = None
    reply: bytes | None = None
    superseded: bool = False

    @property
    def amount_usd(self) -> Decimal:
        """The amount in dollars."""
        return usd(self.amount)

    @property
    def origin(self) -> str:
        """Scheme, host and port of the service."""
        return origin_of(self.url)

    @property
    def live(self) -> bool:
        """Whether it could still be taken."""
        return self.state in LIVE

    @property
    def expires_at(self) -> datetime:
        """`valid_before` as a moment (aware, UTC)."""
        return datetime.fromtimestamp(self.valid_before, UTC)

    @property
    def created_at(self) -> datetime:
        """When it was reserved (aware, UTC)."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def updated_at(self) -> datetime:
        """When its state last changed (aware, UTC)."""
        return datetime.fromtimestamp(self.updated, UTC)

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown"."""
        if self.state in FREE:
            return False
        if self.receipt is not None and self.receipt.success:
            return True
        if self.submissions == 0 and self.state is PaymentState.REJECTED_LIVE:
            return False
        return _CHARGED.get(self.state, "unknown")

    def moved(self, state: PaymentState, reason: str, receipt: Receipt | None, submissions: int, now: float) -> Payment:
        """The same payment as it is now, when the ledger could not be told."""
        receipt = newer_receipt(self.receipt, receipt)
        return replace(self, state=state, reason=reason, receipt=receipt, submissions=submissions, updated=now)

    def told(self) -> str:
        """One line about it, without secrets."""
        parts = [f"payment {self.id}", shown_usd(self.amount), self.state.value.replace("_", " ")]
        if self.live and self.header is not None:
            parts.append(f"valid until {self.expires_at:%H:%M:%S} UTC")
        return ", ".join(parts)

    def sent(self) -> tuple[bytes, bytes]:
        """The header that hands it over. It is made when it is sent, so that no frame of a traceback holds it."""
        return PAYMENT_HEADER[self.version].encode("ascii"), (self.header or "").encode("ascii")

    def hidden_in(self, text: str) -> str:
        """`text` without the signed payment or a part of it, for services that repeat it in what they say."""
        if self.header is None:
            return text
        try:
            inside = binascii.a2b_base64(self.header).decode("utf-8", "replace")  # the signature stands there in digits
        except ValueError:
            inside = ""
        secrets = [self.header.lower(), *(found[0].lower() for found in _SIGNATURE.finditer(inside))]

        def hide(found: re.Match[str]) -> str:
            # Steps of that length meet every longer part, whatever stands around it: `payment=` or where it was cut.
            piece = found[0].lower()
            parts = (piece[at : at + _LEAST] for at in range(0, len(piece) - _LEAST + 1, _LEAST))
            return "****" if any(part in secret for part in parts for secret in secrets) else found[0]

        return _PIECE.sub(hide, text)

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Payment], tuple[dict[str, Any]]]:
        # Without the header: pickles end up anywhere, and the ledger keeps it for `resume`.
        return _payment, ({field.name: getattr(self, field.name) for field in fields(self) if field.name != "header"},)

    def __copy__(self) -> Payment:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Payment:
        return replace(self, receipt=deepcopy(self.receipt, memo))

    def __repr__(self) -> str:
        return (
            f"Payment(id={self.id!r}, state={self.state.value!r}, amount_usd={self.amount_usd}, url={self.url!r}, "
            f"payer={self.payer!r}, nonce={self.nonce!r}, valid_before={self.valid_before})"
        )


def _payment(values: dict[str, Any]) -> Payment:
    return Payment(**values)
