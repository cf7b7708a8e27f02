"""What an answer to a payment means, and what follows: resend the same bytes after a wait, or end. No I/O.

One call signs once. Neither a new 402 nor an error proves that a payment was not taken, so nothing here requests
another signature. What a `Report` does to the payment in the ledger is in `ledger.changes`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from .._http.retry import Failure, FailureCause, RetryPolicy
from .._values.http import RawResponse
from .._values.payment import NOT_TAKEN, Payment, ReasonCode, Receipt
from .._values.text import printable
from .protocol import offer_error, read_receipt


@dataclass(frozen=True, slots=True)
class Report:
    """What a call was told of its payment. It goes from the answer to the row in the ledger.

    Attributes:
        code: what the answer means.
        reason: the service's reason, or ours if it gave none.
        failure: the failure as the retry policy needs it.
        receipt: the receipt of the settlement.
        receipt_problem: why the receipt cannot be read.
        reply: the body of the answer, if it is paid for.
        sent: whether the payment may have reached the service this time.
        settle_failed: the number of the newest signature that the service failed to settle; 0: none.
    """

    code: ReasonCode
    reason: str
    failure: Failure = Failure(FailureCause.LOST)  # noqa: RUF009 - it is frozen
    receipt: Receipt | None = None
    receipt_problem: str | None = None
    reply: bytes | None = None
    sent: bool = True
    settle_failed: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether a receipt says that the money was taken."""
        return self.receipt is not None and self.receipt.success

    def without(self, payment: Payment) -> Report:
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


def classify(response: RawResponse, failure: Failure) -> Report:
    """What a response to a request with a payment means."""
    status = response.status
    receipt, problem = read_receipt(response.headers)
    if 200 <= status < 300:
        return Report(ReasonCode.DELIVERED, "delivered", failure, receipt, problem, response.content)
    reason = (receipt.error_reason or "") if receipt is not None and not receipt.success else ""

    def result(code: ReasonCode, text: str = "") -> Report:
        return Report(code, printable(text or reason or f"status {status}", 200), failure, receipt, problem)

    settled = receipt is not None and receipt.success
    if settled and status != 402 and status < 500:
        return result(ReasonCode.ALREADY_USED, f"status {status}")  # whatever the status is, it was settled
    if status < 400:
        return result(ReasonCode.REDIRECTED)  # servers settle responses below 400
    refused_before = status in (501, 505) and not settled
    if status in _GATEWAY_STATUSES or (status >= 500 and not refused_before):
        return result(ReasonCode.UNKNOWN)
    if status != 402:
        return result(ReasonCode.REFUSED)
    if reason == "settlement_pending":
        return result(ReasonCode.PENDING)
    if receipt is not None:
        # A receipt comes from the settlement, so the payment passed verification.
        return result(
            ReasonCode.ALREADY_USED if _is_already_used(reason) else ReasonCode.SETTLE_FAILED,
            reason or "settlement failed",
        )
    code = (offer_error(response) or "").strip()
    if code == "settlement_pending":
        return result(ReasonCode.PENDING, code)
    if _is_already_used(code):
        return result(ReasonCode.ALREADY_USED, code)
    if _is_verify_reason(code):
        return result(ReasonCode.REJECTED, code)
    if re.fullmatch(r"[a-z0-9_]{3,100}", code):
        return result(ReasonCode.UNKNOWN, code)  # an unknown reason may mean anything
    return result(ReasonCode.NO_REASON, code or "payment required")


def _is_verify_reason(code: str) -> bool:
    if code.lower() in _VERIFY_REASONS:
        return True
    return code.startswith(_EVM_PREFIX) and not code.endswith(_EVM_SETTLE_SUFFIXES)


def classify_failure(failure: Failure, reason: str) -> Report:
    """What it means that there is no response."""
    sent = failure.cause is FailureCause.LOST
    code = ReasonCode.UNKNOWN if sent else ReasonCode.NOT_RECEIVED
    return Report(code, printable(reason, 200), failure, sent=sent)


def _is_already_used(reason: str) -> bool:
    return reason.lower().endswith(_USED_SUFFIXES)


MAX_RESENDS = 5
MAX_RESENDS_NO_REASON = 2
MARGIN = 6
"""Verifiers refuse an authorization that is valid for less than this many seconds."""

_DOUBTS = frozenset({ReasonCode.PENDING, ReasonCode.UNKNOWN, ReasonCode.SETTLE_FAILED, ReasonCode.NO_REASON})


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next.

    Attributes:
        report: what to write down.
        wait: seconds until the same bytes are resent; None: the call ends.
    """

    report: Report
    wait: float | None = None


class PaymentStateMachine:
    """The submissions of one payment in one call.

    Args:
        policy: how often and when something is resent.
        payment: the payment as it is signed.
        before: the same before this call signed it or wrote down that it resends it. What was handed over then may
            have been taken.
        random: for jitter.
    """

    def __init__(
        self, policy: RetryPolicy, payment: Payment, before: Payment, *, random: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._payment = payment
        self._random = random
        self._most = min(MAX_RESENDS, policy.max_retries)
        self._no_reason = 0
        self.resends = 0
        self.settle_failed = payment.settle_failed
        self._failed_before = payment.settle_failed not in (0, payment.signatures)
        self._receipt: Receipt | None = None
        self.handed_over = before.submissions > 0
        self.in_doubt = before.in_doubt

    def unsent(self, reason: str) -> Report:
        """The report of a submission that did not reach the service."""
        code = ReasonCode.UNKNOWN if self.in_doubt else ReasonCode.NOT_RECEIVED
        return Report(code, reason, sent=False, settle_failed=self.settle_failed)

    def can_submit(self, at: float) -> bool:
        """Whether a verifier would accept its validity at the service's time `at`."""
        return at + MARGIN < self._payment.valid_before

    def next(self, report: Report, *, at: float, now: float, time_left: float) -> Step:
        """What to do after an answer.

        Args:
            report: the answer, or its absence.
            at: the latest estimate of the service's time, in Unix seconds.
            now: the local time in Unix seconds.
            time_left: seconds until the call's deadline.
        """
        code, handed_over, wait = report.code, self.handed_over, None
        self.handed_over |= report.sent
        if code is ReasonCode.SETTLE_FAILED:
            self.settle_failed = self._payment.signatures
        if code is ReasonCode.ALREADY_USED and not (handed_over or report.is_settled):
            # A random nonce cannot be used: the service contradicts itself.
            code = ReasonCode.UNKNOWN if self._payment.purchase is None else ReasonCode.TAKEN_ELSEWHERE
        elif code in _DOUBTS or not report.sent:
            self.in_doubt |= report.sent
            wait = self._wait(report, at=at, now=now, time_left=time_left)
            failed = self._failed_before and self.settle_failed == self._payment.signatures
            if failed and wait is None and code is not ReasonCode.PENDING:
                code = ReasonCode.SUSPECT
        if code in NOT_TAKEN and self.in_doubt:
            code = ReasonCode.UNKNOWN  # it may be refused because it was taken
        if report.is_settled:
            self._receipt = report.receipt
        # While the answer may still come, a receipt of success is kept back: with it, nothing would be resent.
        receipt = (self._receipt or report.receipt) if wait is None else None
        return Step(replace(report, code=code, receipt=receipt, settle_failed=self.settle_failed), wait)

    def _wait(self, report: Report, *, at: float, now: float, time_left: float) -> float | None:
        if report.failure.cause is FailureCause.HOPELESS:
            return None
        self._no_reason += report.code is ReasonCode.NO_REASON
        if self.resends >= self._most or self._no_reason > MAX_RESENDS_NO_REASON:
            return None
        wait = self._policy.wait(self.resends + 1, report.failure, now=now, random=self._random)
        if wait.server > self._policy.max_server_wait or wait.seconds > time_left:
            return None
        if not self.can_submit(at + wait.seconds):
            return None
        self.resends += 1
        return wait.seconds
