"""What an answer to a payment means, and what follows: resend the same bytes after a wait, or end. No I/O.

One call signs once. Neither a new 402 nor an error proves that a payment was not taken, so nothing here requests
another signature. What a `Report` does to the payment in the ledger is in `ledger.changes`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .._http.retry import Failure, FailureCause, RetryPolicy
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentStage, ReasonCode, Receipt
from .._values.text import printable
from .protocol import is_upfront, offer_error, read_receipt

MAX_RESENDS = 5
MAX_RESENDS_NO_REASON = 2
MARGIN = 6
"""Verifiers refuse an authorization that is valid for less than this many seconds."""


class Meaning(NamedTuple):
    """What an answer to a payment means, or its absence. This decides; the code only explains."""

    code: ReasonCode
    stage: PaymentStage = PaymentStage.SENT  # where it leaves what was handed over; SENT is TAKEN with a good receipt
    resends: int = 0  # how often one call may resend the same bytes after such answers
    refused: bool = False  # by the service's word it was not taken
    unsettled: bool = False  # the service could not settle this signature: maybe it did
    is_final: bool = False  # whichever signature it is about, and whoever reports it: the nonce is used


DELIVERED = Meaning(ReasonCode.DELIVERED, PaymentStage.ANSWERED, is_final=True)
OPEN = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS)
BARE = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS_NO_REASON)
UNSETTLED = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS, unsettled=True)
NOT_RECEIVED = Meaning(ReasonCode.NOT_RECEIVED, resends=MAX_RESENDS, refused=True)
REJECTED = Meaning(ReasonCode.REJECTED, refused=True)
REFUSED = Meaning(ReasonCode.REFUSED, refused=True)
UNDELIVERED = Meaning(ReasonCode.UNDELIVERED, PaymentStage.TAKEN, is_final=True)
SUSPECT = Meaning(ReasonCode.SUSPECT, PaymentStage.TAKEN, unsettled=True)
TAKEN_ELSEWHERE = Meaning(ReasonCode.TAKEN_ELSEWHERE, PaymentStage.TAKEN)


@dataclass(frozen=True, slots=True)
class Report:
    """What a call was told of its payment. It goes from the answer to the row in the ledger."""

    meaning: Meaning
    reason: str  # the service's, or ours if it gave none
    failure: Failure = Failure(FailureCause.LOST)  # noqa: RUF009 - it is frozen
    receipt: Receipt | None = None
    receipt_problem: str | None = None  # why the receipt cannot be read
    reply: bytes | None = None  # the body of the answer, if it is paid for
    sent: bool = True  # whether the payment may have reached the service this time
    unfunded: bool = False  # the service's verification says that the wallet has too little

    @property
    def is_settled(self) -> bool:
        """Whether a receipt says that the money was taken."""
        return self.receipt is not None and self.receipt.success

    @property
    def stage(self) -> PaymentStage:
        """Where it leaves a payment that was handed over."""
        is_taken = self.is_settled and self.meaning.stage is PaymentStage.SENT
        return PaymentStage.TAKEN if is_taken else self.meaning.stage

    def before_resending(self) -> Report:
        """What is written down before a wait, in which the answer may still come: a receipt would end it."""
        return replace(self, receipt=None)


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
        return Report(DELIVERED, "delivered", failure, receipt, problem, response.content)
    settled = receipt is not None and receipt.success
    reason, unfunded = (receipt.error_reason or "") if receipt is not None and not settled else "", False
    if status == 402:
        if receipt is None:
            reason = (offer_error(response) or "").strip()
            unfunded = reason.lower() == "insufficient_funds" or reason.lower().endswith("_insufficient_balance")
        meaning = OPEN if settled else _refusal(reason, of_settlement=receipt is not None)
        reason = reason or ("payment required" if receipt is None else "settlement failed")
    elif settled and status < 500:
        meaning = UNDELIVERED  # whatever the status is, it was settled
    elif 400 <= status < 500 and status not in _GATEWAY_STATUSES:
        meaning = REFUSED
    else:
        meaning = OPEN  # servers settle responses below 400
    reason = printable(reason or f"status {status}", 200)
    return Report(meaning, reason, failure, receipt, problem, unfunded=unfunded)


def _refusal(reason: str, *, of_settlement: bool) -> Meaning:
    """What a 402 with a payment means. A receipt comes from the settlement: the payment passed verification."""
    if reason == "settlement_pending":
        return OPEN
    if reason.lower().endswith(_USED_SUFFIXES):
        return UNDELIVERED
    if of_settlement:
        return UNSETTLED
    is_evm = reason.startswith(_EVM_PREFIX) and not reason.endswith(_EVM_SETTLE_SUFFIXES)
    if is_evm or reason.lower() in _VERIFY_REASONS:
        return REJECTED
    # An unknown reason may mean anything.
    return OPEN if re.fullmatch(r"[a-z0-9_]{3,100}", reason) else BARE


def classify_failure(failure: Failure, reason: str, *, sent: bool = False) -> Report:
    """What it means that there is no response. `sent`: it may have been sent, whatever the cause."""
    sent = sent or failure.cause is FailureCause.LOST
    return Report(OPEN if sent else NOT_RECEIVED, printable(reason, 200), failure, sent=sent)


class Tries(NamedTuple):
    """What one call knows of one signature that it hands over."""

    handed_over: bool = False  # some signature of the nonce was
    in_doubt: bool = False  # that may have been taken
    expired: bool = False  # it is sent only for an answer that the service may keep
    resends: int = 0
    bare: int = 0  # answers without a reason
    receipt: Receipt | None = None  # of success

    @classmethod
    def after(cls, before: Payment, *, expired: bool = False) -> Tries:
        """`before`: the payment before this call signed it, or wrote down that it resends it."""
        return cls(before.submissions > 0, before.in_doubt, expired)

    def unsent(self, reason: str) -> Report:
        """The report of a submission that did not reach the service. After a receipt of success it does not matter."""
        if self.receipt is not None:
            return Report(OPEN, reason, receipt=self.receipt)
        return Report(OPEN if self.in_doubt else NOT_RECEIVED, reason, sent=False)


class Judgment(NamedTuple):
    """What follows an answer. The report is what the call was told in the end, should it end now."""

    report: Report
    tries: Tries
    wait: float | None  # seconds until the same bytes are resent; None: the call ends, or signs
    signs: bool  # it has expired, and no answer is kept for it: its nonce may be signed again


def judge(
    report: Report,
    payment: Payment,
    tries: Tries,
    policy: RetryPolicy,
    *,
    at: float,
    now: float,
    time_left: float,
    random: Callable[[], float] = random.random,
) -> Judgment:
    """What to do after an answer: `at` the latest estimate of the service's time, and `now` by the local clock."""
    meaning, wait = report.meaning, None
    if meaning is REFUSED and is_upfront(payment):
        meaning = OPEN  # it may have been taken before the work
    says_no = meaning.refused or report.failure.status == 402
    handed_over, in_doubt, resends = tries.handed_over, tries.in_doubt, tries.resends
    bare = tries.bare + (meaning is BARE)
    if meaning.unsettled and tries.expired:
        meaning = OPEN  # of course
    if meaning is UNDELIVERED and not (handed_over or report.is_settled):
        # A random nonce cannot be used: the service contradicts itself.
        meaning = OPEN if payment.purchase is None else TAKEN_ELSEWHERE
    elif meaning.unsettled and payment.settle_failed not in (0, payment.signatures):
        meaning = SUSPECT
    elif meaning.resends:
        in_doubt |= report.sent
        if report.failure.cause is not FailureCause.HOPELESS and (
            resends < min(MAX_RESENDS, policy.max_retries) and bare <= MAX_RESENDS_NO_REASON
        ):
            named = policy.wait(resends + 1, report.failure, now=now, random=random)
            in_time = named.server <= policy.max_server_wait and named.seconds <= time_left
            if in_time and at + named.seconds + MARGIN < payment.valid_before:
                wait, resends = named.seconds, resends + 1
    if meaning.refused and in_doubt:
        meaning = OPEN  # it may be refused because it was taken
    receipt = report.receipt if report.is_settled else tries.receipt
    report = replace(report, meaning=meaning, receipt=receipt or report.receipt)
    signs = tries.expired and says_no and report.sent and report.stage is PaymentStage.SENT
    tries = Tries(handed_over or report.sent, in_doubt, tries.expired, resends, bare, receipt)
    return Judgment(report, tries, wait, signs)
