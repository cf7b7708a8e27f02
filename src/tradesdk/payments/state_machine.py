"""What a response to a payment means, and what follows: resend the same bytes after a wait, or end. No I/O.

```
RESERVED → SUBMITTED → DELIVERED | PENDING | UNKNOWN | REJECTED_LIVE | PAID_UNDELIVERED | SUSPECT_PAID | TAKEN_ELSEWHERE
           PENDING, UNKNOWN → the same bytes are resent while they are valid
after expiry: REJECTED_LIVE → EXPIRED_UNPAID    PENDING, UNKNOWN → EXPIRED_UNKNOWN
the same call then: RESERVED again, and the same nonce is signed with a new validity
```

One call signs once. Neither a new 402 nor an error proves that a payment was not taken, so nothing here requests
another signature.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from .._http.retry import Failure, FailureCause, RetryPolicy
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentState, Receipt
from .._values.text import printable
from .protocol import offer_error, read_receipt


class Classification(StrEnum):
    """What a response to a payment means."""

    DELIVERED = "delivered"
    """A success."""
    PENDING = "pending"
    """The service is settling it."""
    UNKNOWN = "unknown"
    """Maybe taken: no response, or a server error."""
    SETTLE_FAILED = "settle_failed"
    """The service says that it could not settle it: maybe it did."""
    NO_REASON = "no_reason"
    """402 without a reason: maybe the service did not see the payment, maybe it took it before."""
    REJECTED = "rejected"
    """Refused by verification, before anything was taken."""
    REFUSED = "refused"
    """Another error of the request: such a response is not charged."""
    ALREADY_USED = "already_used"
    """Taken before, or taken for an answer that is not usable."""
    REDIRECTED = "redirected"
    """A redirect: it is not followed, and the payment may have been taken."""
    NOT_RECEIVED = "not_received"
    """The payment did not reach the service."""


@dataclass(frozen=True, slots=True)
class PaymentResponse:
    """A response to a payment, or its absence.

    Attributes:
        verdict: what it means.
        reason: the service's reason, or ours if it gave none.
        failure: the failure as the retry policy needs it.
        receipt: the receipt of the settlement.
        receipt_problem: why the receipt cannot be read.
    """

    verdict: Classification
    reason: str
    failure: Failure
    receipt: Receipt | None = None
    receipt_problem: str | None = None

    def without(self, payment: Payment) -> PaymentResponse:
        """The same without the signed payment, which a service may repeat."""
        receipt = None if self.receipt is None else self.receipt.without(payment)
        return replace(self, reason=payment.hidden_in(self.reason), receipt=receipt)


_VERIFY_REASONS = frozenset(
    {
        "unsupported_scheme",
        "invalid_scheme",
        "invalid_network",
        "invalid_payment",
        "invalid_payload",
        "invalid_payment_requirements",
        "invalid_x402_version",
        "insufficient_funds",
        "extension_echo_mismatch",
        "missing_eip712_domain",
        "no matching payment requirements",
    }
)
_EVM_PREFIX = "invalid_exact_evm_"
_EVM_SETTLE_SUFFIXES = ("transaction_failed", "transfer_event_mismatch")
"""Reasons of the settlement that begin like those of verification."""
_USED_SUFFIXES = ("nonce_already_used", "authorization_already_used", "authorization_used")
_GATEWAY_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Gateways send these too, maybe after the service took the payment."""


def classify(response: RawResponse, failure: Failure) -> PaymentResponse:
    """What a response to a request with a payment means."""
    status = response.status
    receipt, problem = read_receipt(response.headers)
    if 200 <= status < 300:
        return PaymentResponse(Classification.DELIVERED, "delivered", failure, receipt, problem)
    reason = (receipt.error_reason or "") if receipt is not None and not receipt.success else ""

    def result(verdict: Classification, text: str = "") -> PaymentResponse:
        shown = printable(text or reason or f"status {status}", 200)
        return PaymentResponse(verdict, shown, failure, receipt, problem)

    settled = receipt is not None and receipt.success
    if settled and status != 402 and status < 500:
        return result(Classification.ALREADY_USED, f"status {status}")  # whatever the status is, it was settled
    if status < 400:
        return result(Classification.REDIRECTED)  # servers settle responses below 400
    refused_before = status in (501, 505) and not settled
    if status in _GATEWAY_STATUSES or (status >= 500 and not refused_before):
        return result(Classification.UNKNOWN)
    if status != 402:
        return result(Classification.REFUSED)
    if reason == "settlement_pending":
        return result(Classification.PENDING)
    if receipt is not None:
        # A receipt comes from the settlement, so the payment passed verification.
        return result(
            Classification.ALREADY_USED if _is_already_used(reason) else Classification.SETTLE_FAILED,
            reason or "settlement failed",
        )
    code = (offer_error(response) or "").strip()
    if code == "settlement_pending":
        return result(Classification.PENDING, code)
    if _is_already_used(code):
        return result(Classification.ALREADY_USED, code)
    if _is_verify_reason(code):
        return result(Classification.REJECTED, code)
    if re.fullmatch(r"[a-z0-9_]{3,100}", code):
        return result(Classification.UNKNOWN, code)  # an unknown reason may mean anything
    return result(Classification.NO_REASON, code or "payment required")


def _is_verify_reason(code: str) -> bool:
    if code.lower() in _VERIFY_REASONS:
        return True
    return code.startswith(_EVM_PREFIX) and not code.endswith(_EVM_SETTLE_SUFFIXES)


def classify_failure(failure: Failure, reason: str) -> PaymentResponse:
    """What it means that there is no response."""
    verdict = Classification.UNKNOWN if failure.cause is FailureCause.LOST else Classification.NOT_RECEIVED
    return PaymentResponse(verdict, printable(reason, 200), failure)


def _is_already_used(reason: str) -> bool:
    return reason.lower().endswith(_USED_SUFFIXES)


MAX_RESENDS = 5
MAX_RESENDS_NO_REASON = 2
MARGIN = 6
"""Verifiers refuse an authorization that is valid for less than this many seconds."""

_IN_DOUBT = frozenset(
    {PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN, PaymentState.EXPIRED_UNKNOWN}
)
_OPEN = {
    Classification.PENDING: PaymentState.PENDING,
    Classification.UNKNOWN: PaymentState.UNKNOWN,
    Classification.SETTLE_FAILED: PaymentState.UNKNOWN,
    Classification.NO_REASON: PaymentState.UNKNOWN,
}
_ENDS = {Classification.DELIVERED: PaymentState.DELIVERED, Classification.ALREADY_USED: PaymentState.PAID_UNDELIVERED}


@dataclass(frozen=True, slots=True)
class Transition:
    """What to do next.

    Attributes:
        state: the new state of the payment.
        wait: seconds until the same bytes are resent; None: the call ends.
    """

    state: PaymentState
    wait: float | None = None


class PaymentStateMachine:
    """The submissions of one payment in one call.

    Args:
        policy: how often and when something is resent.
        payment: the payment as it is in the ledger before this call submits it.
        fresh: it was signed just now and never sent. What was signed with the same nonce before may have been taken.
        random: for jitter.
    """

    def __init__(
        self, policy: RetryPolicy, payment: Payment, *, fresh: bool, random: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._payment = payment
        self._random = random
        self._most = min(MAX_RESENDS, policy.max_retries)
        self._no_reason = 0
        self.resends = 0
        self.submissions = payment.submissions - fresh
        self.settle_failed = payment.settle_failed
        self._failed_before = payment.settle_failed not in (0, payment.signatures)
        before = payment.earlier and payment.earlier.state
        self.in_doubt = (before if fresh else payment.state) in _IN_DOUBT

    @property
    def state_if_not_sent(self) -> PaymentState:
        """Its state if it is not submitted (again) from now on."""
        return PaymentState.UNKNOWN if self.in_doubt else PaymentState.REJECTED_LIVE

    def can_submit(self, at: float) -> bool:
        """Whether a verifier would accept its validity at the service's time `at`."""
        return at + MARGIN < self._payment.valid_before

    def next(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> Transition:
        """What to do after a response.

        Args:
            answer: the response.
            at: the latest estimate of the service's time, in Unix seconds.
            now: the local time in Unix seconds.
            time_left: seconds until the call's deadline.
        """
        verdict, handed_over = answer.verdict, self.submissions > 0
        if verdict is not Classification.NOT_RECEIVED:
            self.submissions += 1
        if (
            verdict is Classification.ALREADY_USED
            and not handed_over
            and not (answer.receipt and answer.receipt.success)
        ):
            # A random nonce cannot be used: the service contradicts itself.
            named = self._payment.purchase is not None
            return Transition(PaymentState.TAKEN_ELSEWHERE if named else PaymentState.UNKNOWN)
        if verdict in _ENDS:
            return Transition(_ENDS[verdict])
        if verdict is Classification.REDIRECTED:
            return Transition(PaymentState.UNKNOWN)
        if verdict in (Classification.REJECTED, Classification.REFUSED):
            # After a submission with an unknown outcome, it may be refused because it was taken.
            return Transition(self.state_if_not_sent)
        if verdict is Classification.SETTLE_FAILED:
            self.settle_failed = self._payment.signatures
        if verdict in _OPEN:
            self.in_doubt = True
            state = _OPEN[verdict]
        else:
            state = self.state_if_not_sent
        wait = self._wait(answer, at=at, now=now, time_left=time_left)
        failed = self.settle_failed == self._payment.signatures
        if state is PaymentState.UNKNOWN and failed and self._failed_before and wait is None:
            state = PaymentState.SUSPECT_PAID
        return Transition(state, wait)

    def _wait(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> float | None:
        if answer.failure.cause is FailureCause.HOPELESS:
            return None
        self._no_reason += answer.verdict is Classification.NO_REASON
        if self.resends >= self._most or self._no_reason > MAX_RESENDS_NO_REASON:
            return None
        wait = self._policy.wait(self.resends + 1, answer.failure, now=now, random=self._random)
        if wait.server > self._policy.max_server_wait or wait.seconds > time_left:
            return None
        if not self.can_submit(at + wait.seconds):
            return None
        self.resends += 1
        return wait.seconds
