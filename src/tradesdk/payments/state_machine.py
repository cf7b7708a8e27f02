"""What a response to a payment means, and what to do next: resend the same bytes after a wait, or end. No I/O.

`classify` and `classify_failure` make a `Report` of one response or its absence. `Tries.judge` corrects its meaning by
what the call sent before, and says whether and when to resend. `purchase` asks, waits and sends; it writes the report
with `ledger.changes.Record`, which says what it does to the payment.

One call signs once. A new 402 or an error does not prove that a payment was not taken, so nothing here asks for
another signature; only for an expired one that the service keeps no answer for (`Tries.signs`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .._http.response import failure_of
from .._http.retry import Failure, FailureCause, RetryPolicy
from .._http.service_time import Moment
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentStage, ReasonCode, Receipt
from .._values.text import printable
from ..errors import APIConnectionError, APIError
from .protocol import is_upfront, offer_error, read_receipt

MAX_RESENDS = 5
MAX_RESENDS_NO_REASON = 2
MARGIN = 6
"""Verifiers refuse an authorization that is valid for less than this many seconds."""


class Meaning(NamedTuple):
    """What a response to a payment, or its absence, means. These fields decide; the code only explains."""

    code: ReasonCode
    stage: PaymentStage = PaymentStage.SENT  # of the payment after this
    resends: int = 0  # how often one call may resend the same bytes after such responses
    refused: bool = False  # the service says that it was not taken
    unsettled: bool = False  # the service could not settle this signature, but may have
    is_final: bool = False  # holds for any signature of the payment, from any call: the nonce is used


DELIVERED = Meaning(ReasonCode.DELIVERED, PaymentStage.ANSWERED, is_final=True)
OPEN = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS)
BARE = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS_NO_REASON)
UNSETTLED = Meaning(ReasonCode.UNKNOWN, resends=MAX_RESENDS, unsettled=True)
NOT_RECEIVED = Meaning(ReasonCode.NOT_RECEIVED, resends=MAX_RESENDS, refused=True)
REJECTED = Meaning(ReasonCode.REJECTED, refused=True)
REFUSED = Meaning(ReasonCode.REFUSED, refused=True)
UNDELIVERED = Meaning(ReasonCode.UNDELIVERED, PaymentStage.TAKEN, is_final=True)
UNUSABLE = Meaning(*UNDELIVERED)  # a success whose body cannot be read
SUSPECT = Meaning(ReasonCode.SUSPECT, PaymentStage.TAKEN, unsettled=True)
TAKEN_ELSEWHERE = Meaning(ReasonCode.TAKEN_ELSEWHERE, PaymentStage.TAKEN)


@dataclass(frozen=True, slots=True)
class Report:
    """What a call learned of its payment: from the response to the row in the ledger."""

    meaning: Meaning
    reason: str  # of the service, or ours if it gave none
    failure: Failure = Failure(FailureCause.LOST)  # noqa: RUF009 - it is frozen
    receipt: Receipt | None = None
    receipt_problem: str | None = None  # why the receipt is unreadable
    reply: bytes | None = None  # the body of a paid answer
    sent: bool = True  # whether the payment may have reached the service this time
    unfunded: bool = False  # the service says that the wallet has too little

    @property
    def is_settled(self) -> bool:
        """Whether a receipt says that the money was taken."""
        return self.receipt is not None and self.receipt.success

    @property
    def stage(self) -> PaymentStage:
        """The stage of the payment after this."""
        is_taken = self.is_settled and self.meaning.stage is PaymentStage.SENT
        return PaymentStage.TAKEN if is_taken else self.meaning.stage


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
        "eip6492_factory_not_allowed",
        "missing_eip712_domain",
        "no matching payment requirements",
    }
)
_EVM_PREFIX = "invalid_exact_evm_"
_EVM_SETTLE_SUFFIXES = ("transaction_failed", "transfer_event_mismatch")
"""Reasons of settlement that begin like reasons of verification."""
_USED_SUFFIXES = ("nonce_already_used", "authorization_already_used", "authorization_used")
_GATEWAY_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Gateways send these too, perhaps after the service took the payment."""


def classify(response: RawResponse, unusable: APIError | None = None) -> Report:
    """What a response to a payment means. `unusable`: of a success, why its body cannot be read."""
    status = response.status
    failure, (receipt, problem) = Failure(FailureCause.STATUS, status, response.headers), read_receipt(response.headers)
    if 200 <= status < 300:
        meaning, reason = (DELIVERED, "delivered") if unusable is None else (UNUSABLE, unusable.message)
        return Report(meaning, reason, failure, receipt, problem, response.content)
    settled = receipt is not None and receipt.success
    reason, unfunded = (receipt.error_reason or "") if receipt is not None and not settled else "", False
    if status == 402:
        if receipt is None:
            reason = (offer_error(response) or "").strip()
            unfunded = reason.lower() == "insufficient_funds" or reason.lower().endswith("_insufficient_balance")
        meaning = OPEN if settled else _refusal(reason, of_settlement=receipt is not None)
        reason = reason or ("payment required" if receipt is None else "settlement failed")
    elif settled and status < 500:
        meaning = UNDELIVERED  # it was settled, whatever the status
    elif 400 <= status < 500 and status not in _GATEWAY_STATUSES:
        meaning = REFUSED
    else:
        meaning = OPEN  # services settle only responses below 400
    reason = printable(reason or f"status {status}", 200)
    return Report(meaning, reason, failure, receipt, problem, unfunded=unfunded)


def _refusal(reason: str, *, of_settlement: bool) -> Meaning:
    """What a 402 to a payment means. A receipt comes from settlement, so the payment passed verification."""
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


def classify_failure(error: APIError) -> Report:
    """What a missing response means. It may have been sent, even if another attempt cannot help."""
    failure, sent = failure_of(error), isinstance(error, APIConnectionError) and error.sent
    return Report(OPEN if sent else NOT_RECEIVED, printable(error.message, 200), failure, sent=sent)


@dataclass(slots=True)
class Tries:
    """What one call knows of the signature that it sends."""

    before: Payment  # before the call signed it, or wrote down that it resends it
    expired: bool = False  # it has expired: it is sent only to get an answer that the service may keep
    shown: bool = False  # a node that is asked about a contract wallet may have it
    reports: list[Report] = field(default_factory=list)  # of this call's submissions, corrected by the earlier ones
    signs: bool = False  # it has expired and the service keeps no answer for it: its nonce may be signed again

    @property
    def in_doubt(self) -> bool:
        """Whether a signature of this nonce may have been taken."""
        return self.before.in_doubt or any(one.sent for one in self.reports)

    def end(self, reason: str = "interrupted") -> Report:
        """What is written if the call ends now: the last report, or that it was not sent, as far as this call knows."""
        if self.reports:
            return self.reports[-1]
        return Report(OPEN if self.in_doubt or self.shown else NOT_RECEIVED, reason, sent=self.shown)

    def judge(
        self,
        report: Report,
        payment: Payment,
        policy: RetryPolicy,
        at: Moment,
        time_left: float,
        random: Callable[[], float] = random.random,
    ) -> float | None:
        """Add a report, corrected by what the call sent before. The result: seconds until the same bytes are resent.

        None: they are not resent.
        """
        meaning, wait, resends = report.meaning, None, len(self.reports)
        if meaning is REFUSED and is_upfront(payment):
            meaning = OPEN  # the money may have been taken before the work
        says_no = meaning.refused or report.failure.status == 402
        sent = report.sent or self.shown
        handed_over = self.shown or self.before.submissions > 0 or any(one.sent for one in self.reports)
        if meaning.unsettled and self.expired:
            meaning = OPEN  # an expired signature cannot be settled
        if meaning is UNDELIVERED and not (handed_over or report.is_settled):
            # A random nonce cannot be used already: the service contradicts itself.
            meaning = OPEN if payment.purchase is None else TAKEN_ELSEWHERE
        elif meaning.unsettled and payment.settle_failed not in (0, payment.signatures):
            meaning = SUSPECT
        elif meaning.resends:
            bare = sum(one.meaning is BARE for one in (*self.reports, report))
            if report.failure.cause is not FailureCause.HOPELESS and (
                resends < min(MAX_RESENDS, policy.max_retries) and bare <= MAX_RESENDS_NO_REASON
            ):
                named = policy.wait(resends + 1, report.failure, now=at.local, random=random)
                in_time = named.server <= policy.max_server_wait and named.seconds <= time_left
                if in_time and at.latest + named.seconds + MARGIN < payment.valid_before:
                    wait = named.seconds
        if meaning.refused and (self.in_doubt or (sent and meaning.resends)):
            meaning = OPEN  # maybe refused because it was taken already
        if meaning in (OPEN, BARE) and any(one.meaning.unsettled for one in self.reports):
            meaning = UNSETTLED
        settled = next((one.receipt for one in (report, *self.reports[-1:]) if one.is_settled), report.receipt)
        report = replace(report, meaning=meaning, receipt=settled, sent=sent)
        self.signs = self.expired and says_no and sent and report.stage is PaymentStage.SENT
        self.reports.append(report)
        return wait
