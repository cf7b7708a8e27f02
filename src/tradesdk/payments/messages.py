"""Errors for payments: what happened to the money, and what to do. No I/O."""

from __future__ import annotations

from datetime import UTC, datetime

from .._values.http import RawResponse
from .._values.money import shown_usd
from .._values.payment import GRACE, UNRESOLVED, WITHOUT_PROOF, Payment, PaymentState
from ..errors import (
    ErrorCode,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
)
from .state_machine import Classification, PaymentResponse

_REJECTIONS: dict[str, ErrorCode] = {
    "insufficient_funds": "insufficient_funds",
    "invalid_exact_evm_insufficient_balance": "insufficient_funds",
    "invalid_exact_evm_payload_signature": "signature_rejected",
    "invalid_exact_evm_payload_authorization_valid_before": "validity_rejected",
    "invalid_exact_evm_payload_authorization_valid_after": "validity_rejected",
}
"""Common reasons that services give; any other is `payment_rejected`."""
_REMEDIES: dict[ErrorCode, str] = {
    "insufficient_funds": "add USDC on Base to {payer}; no ETH is needed, as the service pays for gas",
    "signature_rejected": "the signer signs for another address than {payer}, or not according to EIP-712",
    "validity_rejected": "correct this machine's clock",
    "payment_rejected": "the same call resends the same payment while it is valid",
}


def rejected(payment: Payment, reason: str, response: RawResponse | None) -> PaymentError:
    """The service checked the payment and rejected it."""
    code = _REJECTIONS.get(reason, "payment_rejected")
    return PaymentRejectedError(
        f"the service rejected a payment of {shown_usd(payment.amount)}: {reason}",
        code=code,
        hint=_REMEDIES[code].format(payer=payment.payer),
        reason=reason,
        payment=payment,
        response=response,
    )


def in_doubt(payment: Payment, reason: str, response: RawResponse | None = None) -> PaymentError:
    """It was sent, and its outcome is unknown."""
    return PaymentOutcomeUnknownError(
        _maybe_paid(payment, reason),
        code="settlement_pending" if payment.state is PaymentState.PENDING else "outcome_unknown",
        hint="make the same call again: it resends the same payment, and after "
        f"{payment.expires_at:%H:%M:%S} UTC it signs the same nonce again, which is taken only once; or "
        f"client.payments.resume({payment.id!r})",
        reason=reason,
        payment=payment,
        response=response,
    )


def _maybe_paid(payment: Payment, reason: str) -> str:
    return f"{shown_usd(payment.amount)} may have been paid ({reason}); nonce {payment.nonce}"


def _how_to_mark(payment: Payment) -> str:
    return (
        f"check the wallet and mark the payment: client.payments.mark({payment.id!r}, paid=…) "
        f"(trade pay reconcile --mark paid|unpaid {payment.id})"
    )


def undelivered(payment: Payment, reason: str, response: RawResponse | None = None) -> PaymentError:
    """It was paid, and the answer is not usable."""
    paid = "was paid" if payment.proven_paid else "was paid, by what the service says"
    return PaymentUndeliveredError(
        f"{shown_usd(payment.amount)} {paid}, and no usable answer arrived: {reason}",
        code="paid_undelivered",
        hint="contact the service with the nonce and the transaction; the same call is not paid for again without "
        f"new_purchase=True, unless the payment is marked: client.payments.mark({payment.id!r}, paid=True) "
        f"(trade pay reconcile --mark paid {payment.id})",
        reason=reason,
        payment=payment,
        response=response,
    )


def suspect(payment: Payment, reason: str, response: RawResponse | None = None) -> PaymentError:
    """The service failed to settle two signatures of the same nonce."""
    return PaymentOutcomeUnknownError(
        f"{shown_usd(payment.amount)} was probably paid: the service failed to settle two signatures of the same nonce "
        f"({reason}); nonce {payment.nonce}",
        code="suspect_paid",
        hint=_how_to_mark(payment),
        reason=reason,
        payment=payment,
        response=response,
    )


def error_of(payment: Payment, answer: PaymentResponse, response: RawResponse | None) -> PaymentError | None:
    """The error that ends a call; None where the error of the response itself is the right one."""
    if payment.state is PaymentState.SUSPECT_PAID:
        return suspect(payment, answer.reason, response)
    if payment.state is PaymentState.PAID_UNDELIVERED:
        return undelivered(payment, answer.reason, response)
    if payment.state is not PaymentState.REJECTED_LIVE:
        return in_doubt(payment, answer.reason, response)
    return rejected(payment, answer.reason, response) if answer.verdict is Classification.REJECTED else None


def _expired_from(payment: Payment) -> str:
    """The time from which it has surely expired."""
    until = max(payment.valid_before, payment.counts_until) + GRACE
    return f"{datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC"


def still_live(payment: Payment) -> PaymentRefusedError:
    """It cannot be marked before it has expired."""
    return PaymentRefusedError(
        f"payment {payment.id} may still be taken until {payment.expires_at:%H:%M:%S} UTC, so it cannot be "
        f"marked before {_expired_from(payment)}",
        code="not_unresolved",
        hint=f"try client.payments.resume({payment.id!r}) (trade pay resume {payment.id})",
        payment=payment,
    )


def already_known(payment: Payment) -> PaymentRefusedError:
    """Its outcome is known, so it cannot be marked."""
    charged = "it may have been paid"
    if payment.charged != "unknown":
        charged = "it was paid" if payment.charged else "it was not paid"
    return PaymentRefusedError(
        f"the outcome of payment {payment.id} is known: {payment.state.value.replace('_', ' ')}, {charged}",
        code="not_unresolved",
        hint=f"see client.payments.get({payment.id!r}) (trade pay show {payment.id})",
        payment=payment,
    )


def blocking_error(payment: Payment) -> PaymentError:
    """Why a payment is not sent (again)."""
    if payment.state in UNRESOLVED:
        what = "was paid without a usable answer" if payment.proven_paid else "is probably paid, without an answer"
        return PaymentRefusedError(
            f"an earlier payment of {shown_usd(payment.amount)} for this call {what}, so it is not paid for again",
            code="unresolved_payment",
            hint=f"{_how_to_mark(payment)}; or buy again with new_purchase=True",
            reason=payment.reason,
            payment=payment,
        )
    if payment.state in WITHOUT_PROOF or (payment.live and payment.state is not PaymentState.RESERVED):
        return PaymentOutcomeUnknownError(
            f"payment {payment.id} has expired or is about to, so it cannot be resent; {shown_usd(payment.amount)} may "
            f"have been paid; nonce {payment.nonce}",
            code="time_is_up",
            hint="make the same call again: it signs the same nonce again, which is taken only once; or "
            + _how_to_mark(payment),
            reason=payment.reason,
            payment=payment,
        )
    if payment.state is PaymentState.DELIVERED:
        return PaymentRefusedError(
            f"payment {payment.id} was delivered, and its answer is not kept",
            code="already_delivered",
            hint="make the call again to buy it again; the ledger keeps the answers of jobs",
            payment=payment,
        )
    return PaymentRefusedError(
        f"payment {payment.id} is {payment.state.value.replace('_', ' ')}, so it cannot be sent",
        code="not_live",
        hint="make the call again",
        payment=payment,
    )
