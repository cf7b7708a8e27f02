"""The error for a payment that did not end well: what happened to the money, and what to do. No I/O."""

from __future__ import annotations

from datetime import timedelta

from .._values.http import RawResponse
from .._values.money import shown_usd
from .._values.payment import GRACE, UNRESOLVED, Payment, PaymentState
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
"""What services call the common rejections; any other is a `payment_rejected`."""
_REMEDIES: dict[ErrorCode, str] = {
    "insufficient_funds": "put USDC on Base into {payer}; no ETH is needed, the service pays for gas",
    "signature_rejected": "the signer signs for another address than {payer}, or not as EIP-712 asks",
    "validity_rejected": "set this machine's clock",
    "payment_rejected": "the same call resends the same payment while it is valid",
}


def rejected(payment: Payment, reason: str, response: RawResponse | None) -> PaymentError:
    """The service looked at it and said no."""
    code = _REJECTIONS.get(reason, "payment_rejected")
    return PaymentRejectedError(
        f"the service refused a payment of {shown_usd(payment.amount)}: {reason}",
        code=code,
        hint=_REMEDIES[code].format(payer=payment.payer),
        reason=reason,
        payment=payment,
        response=response,
    )


def in_doubt(payment: Payment, reason: str, response: RawResponse | None = None) -> PaymentError:
    """It was handed over, and nobody knows."""
    return PaymentOutcomeUnknownError(
        _perhaps(payment, reason),
        code="settlement_pending" if payment.state is PaymentState.PENDING else "outcome_unknown",
        hint=f"until {payment.expires_at:%H:%M:%S} UTC: client.payments.resume({payment.id!r}), or make the same call "
        f"again, which resends the same payment; after that {_decide(payment)}",
        reason=reason,
        payment=payment,
        response=response,
    )


def _perhaps(payment: Payment, reason: str) -> str:
    return f"{shown_usd(payment.amount)} may have been paid ({reason}); nonce {payment.nonce}; do not pay again blindly"


def _decide(payment: Payment) -> str:
    return (
        f"look at the wallet and say what it was: client.payments.mark({payment.id!r}, paid=…) "
        f"(trade pay reconcile --mark paid|unpaid {payment.id})"
    )


def undelivered(payment: Payment, reason: str, response: RawResponse | None = None) -> PaymentError:
    """It was taken, and what came is of no use."""
    return PaymentUndeliveredError(
        f"{shown_usd(payment.amount)} was paid, and no usable answer came: {reason}",
        code="paid_undelivered",
        hint="ask the service with the nonce and the transaction; the same call is not paid for again unless it says "
        f"new_purchase=True, or somebody says: client.payments.mark({payment.id!r}, paid=True) "
        f"(trade pay reconcile --mark paid {payment.id})",
        reason=reason,
        payment=payment,
        response=response,
    )


def error_of(payment: Payment, answer: PaymentResponse, response: RawResponse | None) -> PaymentError | None:
    """The error for how a call has ended; None where the ordinary error of the answer says it."""
    if payment.state is PaymentState.PAID_UNDELIVERED:
        return undelivered(payment, answer.reason, response)
    if payment.state is not PaymentState.REJECTED_LIVE:
        return in_doubt(payment, answer.reason, response)
    return rejected(payment, answer.reason, response) if answer.verdict is Classification.REJECTED else None


def _over(payment: Payment) -> str:
    """From when on it has surely expired."""
    return f"{payment.expires_at + timedelta(seconds=GRACE):%H:%M:%S} UTC"


def still_live(payment: Payment) -> PaymentRefusedError:
    """Nobody can say what became of it before it is over."""
    return PaymentRefusedError(
        f"payment {payment.id} could still be taken until {payment.expires_at:%H:%M:%S} UTC: its outcome cannot be "
        f"marked before {_over(payment)}",
        code="not_unresolved",
        hint=f"client.payments.resume({payment.id!r}) (trade pay resume {payment.id}) may find out",
        payment=payment,
    )


def already_known(payment: Payment) -> PaymentRefusedError:
    """Its outcome is known, so it can't be marked any more."""
    charged = "nobody said whether it was paid"
    if payment.charged != "unknown":
        charged = "it was paid" if payment.charged else "it was not paid"
    return PaymentRefusedError(
        f"the outcome of payment {payment.id} is known already: {payment.state.value.replace('_', ' ')}, {charged}",
        code="not_unresolved",
        hint=f"look at it: client.payments.get({payment.id!r}) (trade pay show {payment.id})",
        payment=payment,
    )


def blocking_error(payment: Payment) -> PaymentError:
    """Why a payment is not handed over (again)."""
    if payment.state in (PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN):
        return PaymentOutcomeUnknownError(
            _perhaps(payment, "its authorization has ended, or is about to, and its outcome is still open"),
            code="time_is_up",
            hint=f"from {_over(payment)} on {_decide(payment)}",
            reason=payment.reason,
            payment=payment,
        )
    if payment.state is PaymentState.REJECTED_LIVE:
        return PaymentRefusedError(
            f"an earlier payment of {shown_usd(payment.amount)} for this call is valid for a moment longer",
            code="not_yet_expired",
            hint=f"try again from {_over(payment)} on; new_purchase=True pays again at once",
            reason=payment.reason,
            payment=payment,
        )
    if payment.state in UNRESOLVED:
        what = "was paid and brought nothing" if payment.charged is True else "ended with its outcome unknown"
        return PaymentRefusedError(
            f"an earlier payment of {shown_usd(payment.amount)} for this call {what}, so it is not paid for again",
            code="unresolved_payment",
            hint=f"{_decide(payment)}; or order a new one: new_purchase=True",
            reason=payment.reason,
            payment=payment,
        )
    if payment.state is PaymentState.DELIVERED:
        return PaymentRefusedError(
            f"payment {payment.id} was delivered, and its answer is not kept",
            code="already_delivered",
            hint="make the call again to buy it again; with a job the ledger keeps answers",
            payment=payment,
        )
    return PaymentRefusedError(
        f"payment {payment.id} is {payment.state.value.replace('_', ' ')}, so it cannot be sent",
        code="not_live",
        hint="make the call again",
        payment=payment,
    )
