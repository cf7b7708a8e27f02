"""A payment: its stage, the proof of its outcome, its terms, its receipt."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from .frames import Secret
from .money import show_usd, shown_usd, usd

Charged = bool | Literal["unknown"]
"""Whether money was taken. `"unknown"` is true in an `if`, which is the safe side."""

PAYMENT_HEADER = "PAYMENT-SIGNATURE"
"""The request header of a payment."""
GRACE = 30
"""Seconds after `valid_before` until an authorization counts as expired."""
NETWORK = "eip155:8453"
"""Base, as x402 names it: the only network."""
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
"""The contract of USDC on Base, the only asset. It has six decimals, so all amounts are in micro-dollars."""
LONGEST_VALIDITY = 3600
"""Seconds. No signature is valid for longer."""

_PART_SIZE = 20
# Skip an escape of JSON whole: a backslash without its letter would make the text invalid.
_PIECE = re.compile(rf"\\(?:u[0-9A-Fa-f]{{4}}|[\s\S])|[0-9A-Za-z+/=]{{{_PART_SIZE},}}")
_SIGNATURE = re.compile(r'"signature":\s*"(0x[0-9a-fA-F]+)"')


class SignedHeader(Secret):
    """The value of a payment's header. It can be cashed, so its `repr` hides it, and pickles have None in its place."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a pickle may be sent anywhere, and `resume` reads the header from the ledger

    def __deepcopy__(self, memo: object) -> SignedHeader:
        return self


class PaymentStage(StrEnum):
    """The stage of a payment."""

    SENT = "sent"
    """Signed and written down. Once it was sent (`submissions`), it may be taken."""
    ANSWERED = "answered"
    """The answer arrived."""
    TAKEN = "taken"
    """Its nonce is used, or its money was taken without a usable answer, as the service, the chain or you say."""


class PaymentProof(StrEnum):
    """What proves that a payment was taken or not. `Payment.paid` says which."""

    NONE = "none"
    RECEIPT = "receipt"
    """A receipt of the service for a successful settlement."""
    CHAIN = "chain"
    """The state of its nonce at a finalized block."""
    PERSON = "person"
    """A person's mark."""


class ReasonCode(StrEnum):
    """What the last response to a payment means, or its absence. It explains; it decides nothing about money."""

    NONE = ""
    """No response yet."""
    UNKNOWN = "unknown"
    """It may have been taken: no response, a server error, a redirect, 402 without a reason, a failed or pending
    settlement, or a refusal after a response like that.
    """
    REJECTED = "rejected"
    """Refused by verification, before anything was taken."""
    REFUSED = "refused"
    """Another error of the request: the service does not charge for such a response."""
    NOT_RECEIVED = "not_received"
    """The newest signature did not reach the service."""
    DELIVERED = "delivered"
    """A success."""
    UNDELIVERED = "undelivered"
    """Taken before, settled together with an error, or a success whose answer cannot be read."""
    SUSPECT = "suspect"
    """The service failed to settle two signatures of the same nonce: probably taken. A person has to check."""
    TAKEN_ELSEWHERE = "taken_elsewhere"
    """A named purchase whose nonce was used before this ledger sent it: another machine, or a lost ledger, paid."""


_REFUSALS = {ReasonCode.REJECTED, ReasonCode.REFUSED, ReasonCode.NOT_RECEIVED}
_TAKEN = {ReasonCode.SUSPECT: "probably paid", ReasonCode.TAKEN_ELSEWHERE: "paid elsewhere"}


@show_usd(amount="amount_usd")
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


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment in the ledger. Its `header` is secret, as it can be cashed.

    `repr` and pickles leave the header out; copies and `dataclasses.asdict` contain it.

    Attributes:
        id: `pay_` and 24 hexadecimal digits.
        stage: how far it has come.
        proof: what proves that it was taken or not.
        paid: what the proof says: True, False, or None without one.
        code: what the last answer means.
        reason: the same in words: the service's reason, or ours if it gave none.
        fingerprint: what it pays for: a hash of payer and, if it has one, the purchase's name; else of URL and body.
        url: the full URL, to which the request is a POST.
        body: the request's body.
        network: Base, as x402 names it. The same for all payments.
        asset: the contract of USDC. The same for all payments.
        payer: the paying address.
        pay_to: the recipient.
        amount: micro-dollars of the newest signature; with a receipt, the receipt's amount.
        nonce: 32 bytes as hexadecimal digits after 0x. It stays the same when the payment is signed again, and the
            chain takes a nonce only once.
        valid_before: when the newest signature expires, in Unix seconds by the service's clock.
        counts_until: when all its signatures have expired, in Unix seconds by the local clock. It counts in every hour
            and day that has begun before.
        counted: micro-dollars, the largest amount that was signed for this nonce. It counts in budgets until it is
            proven that it was not taken. A receipt of a smaller amount proves that one; the rest stays held.
        created: when it was first signed, in Unix seconds by the local clock. If the wallet was empty then, it is when
            the service first gave another response.
        updated: when it was last signed, got another stage, or was proven without an answer, in Unix seconds by the
            local clock.
        header: the signed payment as it is sent; None if it was not sent, and once its outcome is known.
        submissions: how many times it may have reached the service; the first time, perhaps only a node that asks a
            contract wallet about it. After a proof that it was unpaid and a new signature, it counts from there. At
            stage SENT, 0 means that it was not sent.
        signatures: how many times it was signed, each time with the same nonce.
        settle_failed: the number of the newest signature that the service failed to settle; 0: none.
        receipt: the receipt of the settlement, if there is one.
        identified: whether it has an identifier, by which the service can return the stored answer again.
        purchase: the name of the purchase; None for an unnamed one. In a batch job, the job's name and the request.
        reply: the body of the answer, while it is kept: until the caller has it; for 30 days with a name and after
            `resume`; longer if it is not usable.
        waits: whether its caller has not got the answer yet. Without a name, the next equal call within 60 s gets it.
        run: the id of the batch run that sent it last; None for a single call. It counts in every run that sent it.
    """

    network: ClassVar[str] = NETWORK
    asset: ClassVar[str] = USDC

    id: str
    fingerprint: str
    url: str
    body: bytes
    payer: str
    pay_to: str
    amount: int
    nonce: str
    valid_before: int
    counts_until: int
    created: float
    updated: float
    stage: PaymentStage = PaymentStage.SENT
    proof: PaymentProof = PaymentProof.NONE
    paid: bool | None = None
    code: ReasonCode = ReasonCode.NONE
    reason: str = ""
    counted: int = 0
    header: SignedHeader | None = None
    submissions: int = 0
    signatures: int = 0
    settle_failed: int = 0
    receipt: Receipt | None = None
    identified: bool = False
    purchase: str | None = None
    reply: bytes | None = None
    waits: bool = False
    run: str | None = None

    @property
    def most(self) -> int:
        """Micro-dollars that may have been taken: the largest amount that was signed."""
        return max(self.amount, self.counted)

    @property
    def amount_usd(self) -> Decimal:
        """The same in dollars."""
        return usd(self.most)

    @property
    def spent(self) -> int:
        """Micro-dollars that it counts in budgets and that are proven to be taken."""
        return self.counted - self.held if self.paid else 0

    @property
    def held(self) -> int:
        """Micro-dollars that it counts in budgets without proof. A receipt proves only its amount."""
        if self.paid and self.proof is PaymentProof.RECEIPT:
            return max(0, self.counted - self.amount)
        return self.counted if self.paid is None else 0

    @property
    def origin(self) -> str:
        """Scheme, host and port of the service."""
        return origin_of(self.url)

    @property
    def is_unsent(self) -> bool:
        """Whether it was written down, and certainly not sent."""
        return self.stage is PaymentStage.SENT and self.submissions == 0 and self.paid is None

    @property
    def is_open(self) -> bool:
        """Whether it was sent, and nothing proves whether it was taken."""
        return self.stage is PaymentStage.SENT and self.submissions > 0 and self.paid is None

    @property
    def is_refused(self) -> bool:
        """Whether the service says that it was not taken, and it was not sent since. Its amount still counts."""
        return self.code in _REFUSALS

    @property
    def in_doubt(self) -> bool:
        """Whether it was sent, and neither a proof nor the service says whether it was taken."""
        return self.is_open and not self.is_refused

    def is_expired(self, now: float) -> bool:
        """Whether none of its signatures can be taken any more, at a local time in Unix seconds."""
        return max(self.valid_before, self.counts_until) + GRACE <= now

    def is_live(self, now: float) -> bool:
        """Whether it was sent and may still be taken, at a local time in Unix seconds."""
        return self.is_open and not self.is_expired(now)

    @property
    def is_partly_held(self) -> bool:
        """Whether its receipt has less than the largest signed amount: the rest is held until a person marks it."""
        return self.proof is PaymentProof.RECEIPT and self.amount < self.counted

    @property
    def needs_proof(self) -> bool:
        """Whether only the chain or a person can decide its outcome. Not for one that can still be resent.

        That is an answered one without a receipt, or with a receipt of less than was signed; and a taken one, as only a
        person can say that it may be bought again.
        """
        if self.stage is PaymentStage.TAKEN:
            return self.proof is not PaymentProof.PERSON
        return self.stage is PaymentStage.ANSWERED and (self.paid is None or self.is_partly_held)

    def is_unresolved(self, now: float) -> bool:
        """Whether it needs proof at a local time in Unix seconds: by `needs_proof`, or it expired without proof."""
        return self.needs_proof or (self.is_open and self.is_expired(now))

    def status(self, now: float) -> str:
        """One or two words for people: its state at a local time in Unix seconds."""
        if self.is_unsent:
            return "not sent"
        if self.stage is PaymentStage.ANSWERED:
            return "answered"
        if self.paid is not None:
            return ("paid, no answer" if self.needs_proof else "paid") if self.paid else "not paid"
        if self.stage is PaymentStage.TAKEN:
            return _TAKEN.get(self.code, "paid, unproven")
        word = "rejected" if self.is_refused else "unknown"
        return word if self.is_live(now) else f"{word}, expired"

    @property
    def expires_at(self) -> datetime:
        """When it expires (aware, UTC)."""
        return datetime.fromtimestamp(self.valid_before, UTC)

    @property
    def created_at(self) -> datetime:
        """When it was first signed (aware, UTC)."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def updated_at(self) -> datetime:
        """`updated` (aware, UTC)."""
        return datetime.fromtimestamp(self.updated, UTC)

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown".

        True only by a proof; False only by a proof, or if it never reached the service.
        """
        if self.paid is not None:
            return self.paid
        return "unknown" if self.submissions else False

    def summary(self) -> str:
        """A one-line summary without secrets."""
        parts = [f"payment {self.id}", shown_usd(self.most), "not sent" if self.is_unsent else self.stage.value]
        if self.paid is not None:
            parts.append(f"{'paid' if self.paid else 'not paid'} ({self.proof.value})")
        elif self.is_open:
            parts.append(f"valid until {self.expires_at:%H:%M:%S} UTC")
        return ", ".join(parts)

    def sent(self) -> tuple[bytes, bytes]:
        """The request header with the payment. Created when it is sent, so that no frame of a traceback has it."""
        return PAYMENT_HEADER.encode("ascii"), (self.header or "").encode("ascii")

    def hidden_in(self, text: str) -> str:
        """`text` without the signed payment or parts of it, which a service may repeat."""
        if self.header is None:
            return text
        try:
            inside = binascii.a2b_base64(self.header).decode("utf-8", "replace")  # the signature is in it as digits
        except ValueError:
            inside = ""
        secrets = [self.header.lower(), *(found[1].lower() for found in _SIGNATURE.finditer(inside))]

        def hide(found: re.Match[str]) -> str:
            # Steps of that length find every longer part, wherever it was cut.
            piece = found[0].lower()
            if piece.startswith("\\"):
                return found[0]
            parts = (piece[at : at + _PART_SIZE] for at in range(0, len(piece) - _PART_SIZE + 1, _PART_SIZE))
            return "****" if any(part in secret for part in parts for secret in secrets) else found[0]

        return _PIECE.sub(hide, text)

    def __repr__(self) -> str:
        return (
            f"Payment(id={self.id!r}, stage={self.stage.value!r}, amount_usd={shown_usd(self.most)}, url={self.url!r}, "
            f"payer={self.payer!r}, nonce={self.nonce!r}, valid_before={self.valid_before})"
        )
