"""Decisions of the ledger, without a database: state transitions, recipients, budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from ..._values.money import shown_usd, usd
from ..._values.payment import (
    FREE,
    GRACE,
    LIVE,
    RELEASED,
    RENEWABLE,
    UNRESOLVED,
    WITHOUT_PROOF,
    Earlier,
    Payment,
    PaymentState,
    Receipt,
    SignedHeader,
    newer_receipt,
)
from ..._values.text import printable
from ...errors import BudgetDetails, InvalidArgumentError, PaymentRefusedError, RecipientDetails
from ..budget import Budget, Spending
from ..messages import already_known, not_expired

HOUR = 3600.0
DAY = 86400
REPLY_AGE = 60.0
"""Seconds for which the next equal unnamed call gets an answer that was not collected."""
KEPT = 30 * 86400.0
"""Seconds for which answers are kept that were collected."""
_SLACK = 5.0
"""Seconds by which the clock may have been set back since."""

_PROOF = frozenset({PaymentState.DELIVERED, PaymentState.PAID_UNDELIVERED})


_HOW_TO_PROVE = (
    "held money may have been taken: see client.payments.reconcile() (trade pay reconcile), check the wallet, and mark "
    "what was not taken (trade pay reconcile --mark unpaid --older-than 1h)"
)


def state_after(current: PaymentState, reported: PaymentState) -> PaymentState:
    """The state of a payment after a response reports `reported`.

    A final state stays, with two exceptions: proof of payment overrules "unpaid" and "unknown", and an answer that was
    missing may still arrive.
    """
    if current in LIVE:
        return reported
    if reported in _PROOF and current in RENEWABLE:
        return reported
    if reported is PaymentState.DELIVERED and current in UNRESOLVED:
        return reported
    return current


def draft(payment: Payment, *, now: float) -> Payment:
    """A reservation as a ledger writes it.

    Raises:
        InvalidArgumentError: the payment is not RESERVED.
    """
    if payment.state is not PaymentState.RESERVED:
        raise InvalidArgumentError("payment must be in state RESERVED")
    return replace(payment, created=now, updated=now, reason=_storable(payment.reason))


def _storable(text: str) -> str:
    """`text` as UTF-8 can store it: lone surrogates, which a service may send, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def reply_window(now: float) -> tuple[float, float]:
    """When an answer must have arrived to be used at `now`: after the first moment, and not after the second.

    One from further in the future was written before the clock was set back, so its age is unknown.
    """
    return now - REPLY_AGE, now + _SLACK


def when_expired(payment: Payment) -> Payment:
    """A live payment after it has expired."""
    if payment.state is PaymentState.RESERVED:
        return when_not_sent(payment)
    if payment.submissions == 0:
        state = PaymentState.CANCELLED
    elif payment.state is PaymentState.REJECTED_LIVE:
        state = PaymentState.EXPIRED_UNPAID
    else:
        state = PaymentState.EXPIRED_UNKNOWN
    return replace(payment, state=state)


def when_not_sent(payment: Payment) -> Payment:
    """A payment that ends before it was sent: as it was before, if it was signed before. A signature counts."""
    earlier = payment.earlier
    if earlier is None:
        return replace(payment, state=PaymentState.CANCELLED)
    if payment.state is PaymentState.RESERVED:
        return replace(payment, **earlier._asdict())
    return replace(payment, state=earlier.state)


def may_be_unsent(payment: Payment, *, is_own: bool) -> bool:
    """Whether its caller may say that it was not sent: it is reserved, or written down as signed and still its own."""
    return payment.state is PaymentState.RESERVED or (is_own and payment.state is PaymentState.SUBMITTED)


def kept_answer(payment: Payment, now: float) -> Payment:
    """A payment without the answer of a named purchase that is no longer kept."""
    is_over = payment.purchase is not None and payment.state is PaymentState.DELIVERED and payment.updated <= now - KEPT
    return replace(payment, reply=None) if is_over else payment


def is_renewable(payment: Payment, over: float) -> bool:
    """Whether the same call signs its nonce again.

    Args:
        payment: a payment for that call.
        over: the service's time in Unix seconds until which a signature is too old to be sent.
    """
    if payment.state in RENEWABLE:
        return True
    return payment.live and payment.state is not PaymentState.RESERVED and payment.valid_before <= over


def renewed(payment: Payment, draft: Payment) -> Payment:
    """The reservation to sign the nonce of `payment` again. Its terms and its header stay until it is signed."""
    expired = when_expired(payment).state if payment.live else payment.state
    return replace(
        payment,
        state=draft.state,
        counted=max(payment.counted, draft.amount),
        valid_before=draft.valid_before,
        # A service's date may have made the new validity end before the old one.
        counts_until=max(payment.counts_until, draft.counts_until),
        updated=draft.updated,
        run=draft.run or payment.run,
        earlier=Earlier(expired, payment.counted, payment.valid_before, payment.counts_until),
    )


def with_terms(reserved: Payment, draft: Payment) -> Payment:
    """A reservation with the terms of `draft`, which are to be signed."""
    return replace(
        reserved,
        network=draft.network,
        asset=draft.asset,
        pay_to=draft.pay_to,
        amount=draft.amount,
        identified=draft.identified,
    )


def spending_before(again: Payment, amount: int, earlier: Payment, spending: Spending, now: float) -> Spending:
    """The spending to which `amount` adds what the nonce of `again` counts now, instead of what `earlier` counts."""
    extra = again.counted - amount
    is_free = earlier.state in FREE or (earlier.state in RELEASED and spending.budget.release == "service")
    counted = 0 if is_free else earlier.counted
    unproven = 0 if earlier.proven_paid else counted
    in_hour, in_day = earlier.counts_until > now - HOUR, earlier.counts_until // DAY >= now // DAY
    return replace(
        spending,
        last_hour=spending.last_hour + extra - counted * in_hour,
        today=spending.today + extra - counted * in_day,
        total=spending.total + extra - counted,
        held=spending.held + extra - unproven,
        held_last_hour=spending.held_last_hour + extra - unproven * in_hour,
        held_today=spending.held_today + extra - unproven * in_day,
    )


def counts(payment: Payment | None) -> tuple[int, int]:
    """Micro-dollars that it counts in budgets, and the part of them that is held: without proof."""
    if payment is None or payment.state in FREE:
        return 0, 0
    return payment.counted, 0 if payment.proven_paid else payment.counted


def state_when_marked(payment: Payment, *, paid: bool, proven: bool) -> PaymentState:
    """The state of a marked payment. `proven`: by the chain, which does not say that it may be bought again."""
    if payment.state is PaymentState.DELIVERED:
        return payment.state
    if not paid:
        return PaymentState.MARKED_UNPAID
    # TAKEN_ELSEWHERE too, and it counts: the chain does not show whose signature of the nonce was used.
    return PaymentState.PAID_UNDELIVERED if proven else PaymentState.MARKED_PAID


def may_be_marked(payment: Payment, now: float, *, paid: bool, proven: bool) -> bool:
    """Whether it may be marked. As unpaid only when nothing that was signed for its nonce can be taken any more.

    `proven`: by the chain, whose own time says so.
    """
    if _may_be_taken(payment, now) and (payment.live or not (paid or proven)):
        return False
    return _is_open(payment)


def needs_proof(payment: Payment) -> bool:
    """Whether only the chain or a person can say what became of it: also a delivered one without a receipt."""
    unproven = payment.state is PaymentState.DELIVERED and payment.charged == "unknown"
    return unproven or payment.state in WITHOUT_PROOF


def _is_open(payment: Payment) -> bool:
    return payment.live or needs_proof(payment)


def report_counts(payment: Payment, reported: PaymentState, *, signatures: int | None, is_own: bool) -> bool:
    """Whether a reported state counts.

    Proof of payment does. The outcome of an older signature does not. That it was not taken says only the call that
    has claimed it: another one may have sent it since.
    """
    if reported in _PROOF:
        return True
    return signatures in (None, payment.signatures) and (is_own or reported is not PaymentState.REJECTED_LIVE)


def changed(payment: Payment, *, now: float, **changes: Any) -> Payment:
    """A payment with `changes`. Its header is deleted when nothing can be done with it any more."""
    state = changes.get("state", payment.state)
    if state is not payment.state:
        changes["updated"] = now
    # A service may keep the answer for the identifier in the header, also after it has expired.
    if state not in LIVE and not (payment.identified and state in RENEWABLE):
        changes["header"] = None
    return replace(payment, **changes)


def expired(payment: Payment, *, now: float) -> Payment:
    """A live payment that has expired. The others keep the reason that the service gave."""
    reason = payment.reason or ("expired before it was signed" if payment.state is PaymentState.RESERVED else "")
    after = when_expired(payment)
    return changed(
        payment,
        state=after.state,
        reason=reason,
        counted=after.counted,
        valid_before=after.valid_before,
        counts_until=after.counts_until,
        now=now,
    )


def submitted(payment: Payment, header: SignedHeader, *, now: float) -> Payment:
    """A reservation that was signed."""
    return changed(
        payment,
        state=PaymentState.SUBMITTED,
        header=header,
        submissions=payment.submissions + 1,
        signatures=payment.signatures + 1,
        reason="",
        now=now,
    )


def resubmitted(payment: Payment, *, signatures: int, is_own: bool, now: float) -> Payment | None:
    """A payment before it is sent again; None: it may not be.

    Raises:
        PaymentRefusedError: `not_submitted`: it was never signed.
    """
    if payment.state in (PaymentState.RESERVED, PaymentState.CANCELLED):
        raise PaymentRefusedError("it was never signed, so it cannot be sent", code="not_submitted", payment=payment)
    if not (is_own and payment.live and payment.signatures == signatures):
        return None
    # From now on it may be taken, whatever the service said before.
    state = PaymentState.SUBMITTED if payment.state is PaymentState.REJECTED_LIVE else payment.state
    return changed(payment, state=state, submissions=payment.submissions + 1, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `settle` is told. Fields that are None stay as they are."""

    state: PaymentState
    reason: str
    receipt: Receipt | None
    reply: bytes | None
    submissions: int | None
    settle_failed: int | None
    signatures: int | None


def settled(payment: Payment, report: Report, *, owner: str | None, holder: str | None, now: float) -> Payment | None:
    """A payment after a report by `owner`, while `holder` has claimed it; None: nothing changes."""
    state, is_own = report.state, owner is not None and holder == owner
    unsent = when_not_sent(payment)
    if state is PaymentState.CANCELLED:
        if not (may_be_unsent(payment, is_own=is_own) and is_free_for(owner, holder)):
            return None  # another caller has continued it
        state = unsent.state
    if state_after(payment.state, state) is not state:
        return None
    if not report_counts(payment, state, signatures=report.signatures, is_own=is_own or owner is None):
        return None
    counts = payment if state is PaymentState.RESERVED else unsent  # a report ends a reservation
    return changed(
        payment,
        state=state,
        reason=_storable(report.reason) if report.reason or state is not payment.state else payment.reason,
        receipt=newer_receipt(payment.receipt, report.receipt),
        reply=payment.reply if report.reply is None else report.reply,
        submissions=payment.submissions if report.submissions is None else report.submissions,
        settle_failed=payment.settle_failed if report.settle_failed is None else report.settle_failed,
        counted=counts.counted,
        valid_before=counts.valid_before,
        counts_until=_counts_until(counts, report, now),
        now=now,
    )


def _counts_until(payment: Payment, report: Report, now: float) -> int:
    """A receipt says when it was taken: it counts in the hour and the day of that moment only."""
    if payment.proven_paid or report.receipt is None or not report.receipt.success:
        return payment.counts_until
    return min(payment.counts_until, math.ceil(now))


def keeps_answer(before: Payment, after: Payment, reply: bytes | None) -> bool:
    """Whether a reported reply waits from now on until its caller collects it."""
    return reply is not None and after.state is PaymentState.DELIVERED is not before.state


def marked(payment: Payment, *, paid: bool, evidence: str, signatures: int | None, now: float) -> Payment:
    """A payment after a person's mark, or the chain's `evidence`.

    Raises:
        PaymentRefusedError: `not_unresolved`.
    """
    proven = bool(evidence)
    may_be = may_be_marked(payment, now, paid=paid, proven=proven)
    if not may_be or signatures not in (None, payment.signatures):
        raise not_unresolved(payment, now)
    delivered = payment.state is PaymentState.DELIVERED
    return changed(
        payment,
        state=state_when_marked(payment, paid=paid, proven=proven),
        reason=_storable(evidence) or payment.reason,
        counted=0 if delivered and not paid else payment.counted,
        witnessed=payment.witnessed or (paid and (proven or delivered)),
        now=now,
    )


def is_free_for(owner: str | None, holder: str | None) -> bool:
    """Whether nobody but `owner` has claimed it; None: anyone may have."""
    return owner is None or holder in (None, owner)


def check_submittable(stored: Payment, *, owner: str | None, holder: str | None) -> None:
    """Check that a reservation is still that of `owner`.

    Raises:
        PaymentRefusedError: `reservation_lost`.
    """
    if stored.state is not PaymentState.RESERVED or not is_free_for(owner, holder):
        raise PaymentRefusedError(
            "its reservation has expired or was canceled, so it was not sent",
            code="reservation_lost",
            hint="make the call again",
            payment=stored,
        )


def _may_be_taken(payment: Payment, now: float) -> bool:
    return max(payment.valid_before, payment.counts_until) + GRACE > now


def not_unresolved(payment: Payment, now: float) -> PaymentRefusedError:
    """The refusal to mark it."""
    return not_expired(payment) if _is_open(payment) and _may_be_taken(payment, now) else already_known(payment)


def recipient_refusal(
    pay_to: str, *, origin: str, configured: Sequence[str], known: Sequence[str]
) -> PaymentRefusedError | None:
    """The refusal of a recipient that is neither configured nor, if none is configured, known for `origin`."""
    accepted = configured or known
    if not accepted or pay_to.lower() in {address.lower() for address in accepted}:
        return None
    source = "pay_to= accepts" if configured else f"the known recipient of {printable(origin, 200)} is"
    shown = printable(pay_to, 60)
    remedy = (
        "add it to pay_to=" if configured else f"client.payments.trust({shown!r}) (trade pay trust {shown}), or pay_to="
    )
    return PaymentRefusedError(
        f"the offer is to pay {shown}, and {source} {printable(', '.join(accepted), 400)}",
        code="recipient_changed",
        hint=f"if the new address is correct: {remedy}",
        details=RecipientDetails(address=shown, trusted=tuple(accepted)),
    )


def check_recipient(payment: Payment, known: Sequence[str]) -> None:
    """Check a payment that is to be signed against the known recipients of its origin.

    Raises:
        PaymentRefusedError: `recipient_changed`.
    """
    refusal = recipient_refusal(payment.pay_to, origin=payment.origin, configured=(), known=known)
    if refusal is not None:
        refusal.payment = payment
        raise refusal


_Window = Literal["per_call", "per_hour", "per_day", "total"]


def total_refusal(amount: int, max_total: int | None, run: Spending) -> PaymentRefusedError | None:
    """The refusal of an amount for which `max_total` of a batch run leaves no room."""
    if max_total is None or run.total + amount <= max_total:
        return None
    left = max(0, max_total - run.total)
    return PaymentRefusedError(
        f"the next batch costs {shown_usd(amount)}, and max_total={shown_usd(max_total)} leaves {shown_usd(left)}",
        code="over_total",
        hint="to continue, call again with a higher max_total=; with job= nothing is paid for twice"
        + (f"; {_HOW_TO_PROVE}" if run.held else ""),
        details=BudgetDetails(
            cost=usd(amount),
            limit="max_total",
            limit_amount=usd(max_total),
            spent=usd(run.spent),
            held=usd(run.held),
            left=usd(left),
        ),
    )


def budget_refusal(
    amount: int, spending: Spending, *, now: float, counted: Iterable[tuple[float, int]], has_total: bool = False
) -> PaymentRefusedError | None:
    """The refusal of an amount for which the budgets leave no room.

    Args:
        amount: micro-dollars.
        spending: what is spent and held, and the limits.
        now: the local clock in Unix seconds.
        counted: until when they may be taken, and amounts, of the payments that count in the last hour or today.
        has_total: there is a `max_total`, which serves as the budget if there is no other.
    """
    budget = spending.budget
    if not (budget.is_set or has_total):
        return PaymentRefusedError(
            f"this call costs {shown_usd(amount)}, and no budget is set",
            code="no_budget",
            details=BudgetDetails(cost=usd(amount)),
            hint='set one: budget=Budget(per_day="5"), max_price= for one call, TRADE_BUDGET_PER_DAY=5 (or PER_CALL, '
            "PER_HOUR, TOTAL), or trade pay budget set --per-day 5",
        )
    # Limits that free up by themselves come last: if two limits refuse, report the one that stays.
    limits: tuple[tuple[_Window, int | None, int, int], ...] = (
        ("per_call", budget.per_call, 0, 0),
        ("total", budget.total, spending.total, spending.held),
        ("per_day", budget.per_day, spending.today, spending.held_today),
        ("per_hour", budget.per_hour, spending.last_hour, spending.held_last_hour),
    )
    for name, limit, spent, held in limits:
        if limit is not None and spent + amount > limit:
            frees_up = name in ("per_day", "per_hour") and amount <= limit
            room_at = _room_at(amount, budget, now, counted) if frees_up else None
            return _over(amount, name, limit, spent, held, room_at)
    return None


def _over(
    amount: int, name: _Window, limit: int, spent: int, held: int, room_at: datetime | None
) -> PaymentRefusedError:
    cost, left = f"this call costs {shown_usd(amount)}", max(0, limit - spent)
    of_budget = f"the budget of {shown_usd(limit)} {'in total' if name == 'total' else name.replace('_', ' ')}"
    details = BudgetDetails(
        cost=usd(amount),
        limit=name,
        limit_amount=usd(limit),
        spent=usd(spent - held),
        held=usd(held),
        left=usd(left),
        room_at=room_at,
    )
    if name == "per_call" or amount > limit:
        return PaymentRefusedError(
            f"{cost}, more than {of_budget}", code="over_budget", hint="raise that budget", details=details
        )
    if room_at is not None:
        hint = f"wait until {room_at:%Y-%m-%d %H:%M:%S} UTC, or raise that budget"
    elif name == "total":
        hint = "this budget does not reset: raise it to continue"
    else:
        hint = "raise that budget to continue"
    return PaymentRefusedError(
        f"{cost}, and {of_budget} leaves {shown_usd(left)}: {shown_usd(spent - held)} is spent and "
        f"{shown_usd(held)} is held",
        code="over_budget",
        hint=hint + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=details,
    )


def _room_at(amount: int, budget: Budget, now: float, counted: Iterable[tuple[float, int]]) -> datetime | None:
    """When the hour and the day both leave room for `amount`, if nothing else is paid; None: never, or unknown."""
    moments, payments = [now], list(counted)
    if budget.per_hour is not None:
        moments += _first(amount, budget.per_hour, payments, [now, *(until + HOUR for until, _ in payments)], HOUR)
    if budget.per_day is not None:
        today = now // DAY
        moments += _first(amount, budget.per_day, payments, [now, (today + 1) * DAY, (today + 2) * DAY], None)
    try:
        return datetime.fromtimestamp(math.ceil(max(moments)), UTC) if max(moments) > now else None
    except (OverflowError, ValueError, OSError):
        return None


def _first(
    amount: int, limit: int, payments: list[tuple[float, int]], moments: list[float], length: float | None
) -> list[float]:
    """The first of `moments` at which a window leaves room: of so many seconds before it, or the day that it is in."""
    for moment in sorted(moments):
        if length is None:
            spent = sum(micro for until, micro in payments if until >= moment // DAY * DAY)
        else:
            spent = sum(micro for until, micro in payments if until > moment - length)
        if spent + amount <= limit:
            return [moment]
    return []
