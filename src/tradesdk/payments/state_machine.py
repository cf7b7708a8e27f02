"""What follows an answer to a payment: hand the same bytes over again, and when, or end. No I/O.

```
NEW → QUOTED → RESERVED → SUBMITTED → DELIVERED | PENDING | UNKNOWN | REJECTED_LIVE | PAID_UNDELIVERED
                                      PENDING, UNKNOWN → the same bytes again, while they are valid
after the authorization's end:        REJECTED_LIVE → EXPIRED_UNPAID      PENDING, UNKNOWN → EXPIRED_UNKNOWN
```

One call signs once. Neither a fresh 402 nor an error proves that a payment was not taken, so nothing in here ever asks
for another signature.
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
    """What became of a payment that was handed over."""

    DELIVERED = "delivered"
    """A success."""
    PENDING = "pending"
    """The service is settling it."""
    UNKNOWN = "unknown"
    """Perhaps taken: no answer, an error of the service, a settlement that failed."""
    NO_REASON = "no_reason"
    """402 without a reason: perhaps the service did not even see the payment, perhaps it took it before."""
    REJECTED = "rejected"
    """Refused at a look, before anything was taken."""
    REFUSED = "refused"
    """Another error of the request itself: an answer of that kind is not charged."""
    ALREADY_USED = "already_used"
    """It was taken before, or for an answer that is of no use."""
    REDIRECTED = "redirected"
    """A redirect: it is not followed, and the money may be gone all the same."""
    NOT_RECEIVED = "not_received"
    """Never arrived."""


@dataclass(frozen=True, slots=True)
class PaymentResponse:
    """One answer to a payment, or its absence.

    Attributes:
        verdict: what it means.
        reason: in the service's word, if it gave one.
        failure: what the retry policy needs to know of it.
        receipt: what the service said of the settlement.
        receipt_problem: why a receipt could not be read.
    """

    verdict: Classification
    reason: str
    failure: Failure
    receipt: Receipt | None = None
    receipt_problem: str | None = None

    def without(self, payment: Payment) -> PaymentResponse:
        """The same; where the service repeats the signed payment, that is left out."""
        receipt = None if self.receipt is None else self.receipt.without(payment)
        return replace(self, reason=payment.hidden_in(self.reason), receipt=receipt)


_AT_A_LOOK = frozenset(
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
        "no matching payment requirements found",
    }
)
_EVM = "invalid_exact_evm_"
_AFTER_A_LOOK = ("transaction_failed", "transfer_event_mismatch")
"""Codes of a settlement although they begin like those of a look."""
_ALREADY_USED = ("nonce_already_used", "authorization_already_used", "authorization_used")
_LOOKED = "invalid payment:"
_SETTLED = "settle failed"
_OF_GATEWAYS = frozenset({408, 409, 425, 429, 499})
"""Said by whatever stands in front of a service as well, perhaps after the service took the money."""


def classify(response: RawResponse, failure: Failure) -> PaymentResponse:
    """What an answer to a request with a payment means."""
    receipt, problem = read_receipt(response.headers)
    reason = (receipt.error_reason or "") if receipt is not None and not receipt.success else ""

    def answer(verdict: Classification, said: str = "") -> PaymentResponse:
        return PaymentResponse(
            verdict, printable(said or reason or f"status {response.status}", 200), failure, receipt, problem
        )

    status = response.status
    if 200 <= status < 300:
        return answer(Classification.DELIVERED, "delivered")
    settled = receipt is not None and receipt.success
    if settled and status != 402 and status < 500:
        return answer(Classification.ALREADY_USED, f"status {status}")  # whatever the status says, it was settled
    if status < 400:
        return answer(Classification.REDIRECTED)  # servers settle what is below 400
    refused_before = status in (501, 505) and not settled
    if status in _OF_GATEWAYS or (status >= 500 and not refused_before):
        return answer(Classification.UNKNOWN)
    if status != 402:
        return answer(Classification.REFUSED)
    if reason == "settlement_pending":
        return answer(Classification.PENDING)
    if receipt is not None:
        # A receipt comes from the settlement, so whatever it says, the payment had been found good before.
        return answer(
            Classification.ALREADY_USED if _is_already_used(reason) else Classification.UNKNOWN,
            reason or "settlement failed",
        )
    told = (offer_error(response) or "").strip()
    # Servers of version 1 say in words at which stage it failed, before the code.
    at_settlement = told.lower().startswith(_SETTLED)
    code = told.partition(":")[2].strip() if at_settlement or told.lower().startswith(_LOOKED) else told
    if code == "settlement_pending":
        return answer(Classification.PENDING, code)
    if _is_already_used(code):
        return answer(Classification.ALREADY_USED, code)
    if at_settlement:
        return answer(Classification.UNKNOWN, told)
    if _is_of_a_look(code):
        return answer(Classification.REJECTED, code)
    if re.fullmatch(r"[a-z0-9_]{3,100}", code):
        return answer(Classification.UNKNOWN, code)  # a code that is not known here may mean anything
    return answer(Classification.NO_REASON, told or "payment required")


def _is_of_a_look(code: str) -> bool:
    if code.lower() in _AT_A_LOOK:
        return True
    return code.startswith(_EVM) and not code.endswith(_AFTER_A_LOOK)


def classify_failure(failure: Failure, what: str) -> PaymentResponse:
    """What it means that there is no answer; `what` says why."""
    seen = failure.cause is FailureCause.LOST
    return PaymentResponse(
        Classification.UNKNOWN if seen else Classification.NOT_RECEIVED, printable(what, 200), failure
    )


def _is_already_used(reason: str) -> bool:
    return reason.lower().endswith(_ALREADY_USED)


MAX_REPEATS = 5
MAX_AFTER_BARE = 2
MARGIN = 6
"""Seconds before an authorization's end from which on verifiers refuse it."""

_IN_DOUBT = frozenset({PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN})
_OPEN = {
    Classification.PENDING: PaymentState.PENDING,
    Classification.UNKNOWN: PaymentState.UNKNOWN,
    Classification.NO_REASON: PaymentState.UNKNOWN,
}
_ENDS = {Classification.DELIVERED: PaymentState.DELIVERED, Classification.ALREADY_USED: PaymentState.PAID_UNDELIVERED}


@dataclass(frozen=True, slots=True)
class Transition:
    """What to do next.

    Attributes:
        state: what the ledger is to say of the payment.
        wait: seconds until the same bytes are handed over again; None: the call ends.
    """

    state: PaymentState
    wait: float | None = None


class PaymentStateMachine:
    """The submissions of one payment in one call.

    `state` is what the ledger says of it at the start: one that is in doubt may have been taken already.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        valid_before: int,
        state: PaymentState = PaymentState.RESERVED,
        submissions: int = 0,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._valid_before = valid_before
        self._random = random
        self._most = min(MAX_REPEATS, policy.max_retries)
        self._no_reason = 0
        self.repeats = 0
        self.submissions = submissions
        self.in_doubt = state in _IN_DOUBT

    def can_submit(self, at: float) -> bool:
        """Whether a verifier would still look at it, at the service's time `at`."""
        return at + MARGIN < self._valid_before

    def next(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> Transition:
        """The step after `answer`.

        Args:
            answer: what came.
            at: the service's time in Unix seconds, the latest that it may be.
            now: the local time in Unix seconds.
            time_left: seconds until the call's deadline.
        """
        verdict = answer.verdict
        if verdict is not Classification.NOT_RECEIVED:
            self.submissions += 1
        if (
            verdict is Classification.ALREADY_USED
            and not self.in_doubt
            and not (answer.receipt and answer.receipt.success)
        ):
            return Transition(
                PaymentState.UNKNOWN
            )  # a nonce that nobody can have used before: who is wrong is not clear
        if verdict in _ENDS:
            return Transition(_ENDS[verdict])
        if verdict is Classification.REDIRECTED:
            return Transition(PaymentState.UNKNOWN)
        if verdict in (Classification.REJECTED, Classification.REFUSED):
            # After a submission in doubt this proves nothing: it may be refused because it was taken.
            return Transition(PaymentState.UNKNOWN if self.in_doubt else PaymentState.REJECTED_LIVE)
        if verdict in _OPEN:
            self.in_doubt = True
            state = _OPEN[verdict]
        else:
            state = PaymentState.UNKNOWN if self.in_doubt else PaymentState.REJECTED_LIVE
        return Transition(state, self._wait(answer, at=at, now=now, time_left=time_left))

    def _wait(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> float | None:
        if answer.failure.cause is FailureCause.HOPELESS:
            return None
        self._no_reason += answer.verdict is Classification.NO_REASON
        if self.repeats >= self._most or self._no_reason > MAX_AFTER_BARE:
            return None
        wait = self._policy.wait(self.repeats + 1, answer.failure, now=now, random=self._random)
        if wait.server > self._policy.max_server_wait or wait.seconds > time_left:
            return None
        if not self.can_submit(at + wait.seconds):
            return None
        self.repeats += 1
        return wait.seconds
