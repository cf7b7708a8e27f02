"""A payment: its state, its terms, its receipt."""

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
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from .money import show_usd, shown_usd, usd

Charged = bool | Literal["unknown"]
"""Whether money was taken. `"unknown"` is true in an `if`, which is the safe side."""

PAYMENT_HEADER = "PAYMENT-SIGNATURE"
"""The request header of a payment."""
GRACE = 30
"""Seconds after `valid_before` until an authorization counts as expired."""

_PART_SIZE = 20
_PIECE = re.compile(rf"[0-9A-Za-z+/=]{{{_PART_SIZE},}}")
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")


class SignedHeader(str):
    """The value of a payment's header. It can be cashed, so its `repr` hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"


class PaymentState(StrEnum):
    """The state of a payment. Live payments may still be taken."""

    RESERVED = "reserved"
    """Its amount is reserved; nothing was sent."""
    SUBMITTED = "submitted"
    """Signed, written down, and being sent."""
    PENDING = "pending"
    """The service is settling it."""
    UNKNOWN = "unknown"
    """Sent, and no response says whether it was taken."""
    REJECTED_LIVE = "rejected_live"
    """Rejected or never sent; still valid until it expires."""
    DELIVERED = "delivered"
    """Paid, and the answer arrived."""
    PAID_UNDELIVERED = "paid_undelivered"
    """Paid, without a usable answer: the nonce is used, or the answer cannot be read."""
    SUSPECT_PAID = "suspect_paid"
    """The service failed to settle two signatures of the same nonce: probably paid. A person has to check."""
    TAKEN_ELSEWHERE = "taken_elsewhere"
    """A named purchase whose nonce was used before this ledger sent it: another machine, or a lost ledger, paid."""
    EXPIRED_UNPAID = "expired_unpaid"
    """Rejected and expired. Only the service says that it was not taken, so its amount stays held."""
    EXPIRED_UNKNOWN = "expired_unknown"
    """Expired, and it is not known whether it was taken. Its amount stays held."""
    CANCELLED = "cancelled"
    """It never reached the service: its amount is no longer held."""
    MARKED_PAID = "marked_paid"
    """Marked as taken by a person."""
    MARKED_UNPAID = "marked_unpaid"
    """Marked as not taken, by a person or by what the chain says: its amount is no longer held."""


LIVE = frozenset(
    {
        PaymentState.RESERVED,
        PaymentState.SUBMITTED,
        PaymentState.PENDING,
        PaymentState.UNKNOWN,
        PaymentState.REJECTED_LIVE,
    }
)
"""States in which a payment may still be taken."""
UNRESOLVED = frozenset({PaymentState.PAID_UNDELIVERED, PaymentState.SUSPECT_PAID, PaymentState.TAKEN_ELSEWHERE})
"""States in which the same call is not signed again until a person decides."""
WITHOUT_PROOF = UNRESOLVED | {PaymentState.EXPIRED_UNKNOWN, PaymentState.EXPIRED_UNPAID}
"""States of payments that can no longer be sent, and of which only the chain or a person can say what they were."""
RENEWABLE = frozenset({PaymentState.EXPIRED_UNPAID, PaymentState.EXPIRED_UNKNOWN, PaymentState.MARKED_UNPAID})
"""States in which the same call signs the same nonce again."""
FREE = frozenset({PaymentState.CANCELLED, PaymentState.MARKED_UNPAID})
"""States that do not count in a budget."""
RELEASED = frozenset({PaymentState.EXPIRED_UNPAID})
"""States that do not count in a budget with `release="service"` either."""


@show_usd("amount")
@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The service's receipt of a settlement.

    Attributes:
        success: whether the money was taken.
        transaction: the transaction's hash; empty if it failed.
        network: the network, as the service names it.
        payer: the paying address, if given.
        error_reason: why it failed, if it did.
        amount: micro-dollars, if given.
        raw: all fields of the receipt.
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
        """The same without the signed payment, which a service may repeat."""
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
    """The valid one of two receipts for a payment: the newer one, but a success is never undone."""
    return before if now is None or (before is not None and before.success and not now.success) else now


class Earlier(NamedTuple):
    """What a payment was before it was reserved to be signed again.

    Attributes:
        state: its state.
        counted: micro-dollars that counted in budgets.
        valid_before: when its newest signature expires, by the service's clock.
        counts_until: the same by the local clock.
    """

    state: PaymentState
    counted: int
    valid_before: int
    counts_until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment in the ledger. Its `header` is secret, as it can be cashed.

    `repr` and pickles leave the header out; copies and `dataclasses.asdict` contain it.

    Attributes:
        id: `pay_` and 24 hexadecimal digits.
        state: its state.
        fingerprint: what it pays for: a hash of payer and, if it has one, the purchase's name; else of method, URL and
            body.
        method: the HTTP method.
        url: the full URL.
        body: the request's body.
        network: as in the offer.
        asset: the token's contract.
        payer: the paying address.
        pay_to: the recipient.
        amount: micro-dollars, of the newest signature.
        counted: micro-dollars that count in budgets: the largest amount that was signed for this nonce.
        nonce: 32 bytes as hexadecimal digits after 0x. It stays the same when the payment is signed again, and the
            chain takes a nonce only once.
        valid_before: Unix seconds, by the service's clock; then it expires.
        counts_until: when the newest signature expires, in Unix seconds by the local clock. It may be taken until then,
            so it counts in every hour and day up to there.
        created: when it was reserved: Unix seconds, by the local clock.
        updated: when its state last changed: Unix seconds, by the local clock.
        header: the signed payment as it is sent; None until it is signed.
        submissions: how many times it may have reached the service.
        signatures: how many times it was signed, each time with the same nonce.
        settle_failed: the number of the newest signature that the service failed to settle; 0: none.
        earlier: what it was before it was reserved to be signed again; None if it never was.
        witnessed: the chain says that it was taken, and `reason` has the transaction; or a person says so of a
            delivered one.
        reason: why it is in this state; the service's reason if it gave one.
        receipt: the receipt of the settlement, if there is one.
        identified: it has an identifier, so the service can return the stored answer again.
        purchase: the name of the purchase; None for an unnamed one. In a batch job, the job's name and the request.
        reply: the body of the answer, while it is kept: until the caller has it; for 30 days with a name and after
            `resume`; longer if it is not usable.
        run: the id of the batch run that signed it last; None for a single call.
    """

    id: str
    state: PaymentState
    fingerprint: str
    method: str
    url: str
    body: bytes
    network: str
    asset: str
    payer: str
    pay_to: str
    amount: int
    counted: int
    nonce: str
    valid_before: int
    counts_until: int
    created: float
    updated: float
    header: SignedHeader | None = None
    submissions: int = 0
    reason: str = ""
    receipt: Receipt | None = None
    identified: bool = False
    purchase: str | None = None
    reply: bytes | None = None
    signatures: int = 0
    settle_failed: int = 0
    earlier: Earlier | None = None
    witnessed: bool = False
    run: str | None = None

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
        """Whether it may still be taken."""
        return self.state in LIVE

    @property
    def expires_at(self) -> datetime:
        """When it expires (aware, UTC)."""
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
    def proven_paid(self) -> bool:
        """Whether a receipt, the chain or a person says that it was taken."""
        by_receipt = self.receipt is not None and self.receipt.success
        return by_receipt or self.witnessed or self.state is PaymentState.MARKED_PAID

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown".

        True only with a receipt, by the chain or a person's mark; False only if it never reached the service, by the
        chain or a person's mark.
        """
        if self.state in FREE:
            return False
        if self.proven_paid:
            return True
        if self.counted == 0 < self.amount:  # delivered, and a person or the chain says that it was not taken
            return False
        return "unknown" if self.submissions else False

    def moved(self, state: PaymentState, reason: str, receipt: Receipt | None, submissions: int, now: float) -> Payment:
        """The payment after a change that could not be written to the ledger."""
        receipt = newer_receipt(self.receipt, receipt)
        return replace(self, state=state, reason=reason, receipt=receipt, submissions=submissions, updated=now)

    def summary(self) -> str:
        """A one-line summary without secrets."""
        parts = [f"payment {self.id}", shown_usd(self.amount), self.state.value.replace("_", " ")]
        if self.live and self.header is not None:
            parts.append(f"valid until {self.expires_at:%H:%M:%S} UTC")
        return ", ".join(parts)

    def sent(self) -> tuple[bytes, bytes]:
        """The request header with the payment. Made when it is sent, so that no frame of a traceback has it."""
        return PAYMENT_HEADER.encode("ascii"), (self.header or "").encode("ascii")

    def hidden_in(self, text: str) -> str:
        """`text` without the signed payment or parts of it, which a service may repeat."""
        if self.header is None:
            return text
        try:
            inside = binascii.a2b_base64(self.header).decode("utf-8", "replace")  # the signature is in there as digits
        except ValueError:
            inside = ""
        secrets = [self.header.lower(), *(found[0].lower() for found in _SIGNATURE.finditer(inside))]

        def hide(found: re.Match[str]) -> str:
            # Steps of that length find every longer part, wherever it was cut.
            piece = found[0].lower()
            parts = (piece[at : at + _PART_SIZE] for at in range(0, len(piece) - _PART_SIZE + 1, _PART_SIZE))
            return "****" if any(part in secret for part in parts for secret in secrets) else found[0]

        return _PIECE.sub(hide, text)

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Payment], tuple[dict[str, Any]]]:
        # Without the header: a pickle may go anywhere, and the ledger has it for `resume`.
        return _payment, ({field.name: getattr(self, field.name) for field in fields(self) if field.name != "header"},)

    def __copy__(self) -> Payment:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Payment:
        return replace(self, receipt=deepcopy(self.receipt, memo))

    def __repr__(self) -> str:
        return (
            f"Payment(id={self.id!r}, state={self.state.value!r}, amount={shown_usd(self.amount)}, url={self.url!r}, "
            f"payer={self.payer!r}, nonce={self.nonce!r}, valid_before={self.valid_before})"
        )


def _payment(values: dict[str, Any]) -> Payment:
    return Payment(**values)
