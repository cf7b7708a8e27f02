"""Errors for payments: what happened to the money, and what to do. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from .._values.details import BudgetDetails, PriceDetails, RecipientDetails, WalletDetails
from .._values.http import RawResponse
from .._values.money import shown_usd, usd
from .._values.payment import GRACE, Payment, PaymentProof, PaymentStage, ReasonCode
from .._values.text import printable
from ..errors import (
    ErrorCode,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
    TradeError,
)
from .budget import LimitName, WindowSpending
from .state_machine import REJECTED, Report

_REJECTIONS: dict[str, ErrorCode] = {
    "insufficient_funds": "insufficient_funds",
    "invalid_exact_evm_insufficient_balance": "insufficient_funds",
    "invalid_exact_evm_payload_signature": "signature_rejected",
    "invalid_exact_evm_signature": "signature_rejected",
    "invalid_exact_evm_payload_undeployed_smart_wallet": "signature_rejected",
    "eip6492_factory_not_allowed": "signature_rejected",
    "invalid_exact_evm_payload_authorization_valid_before": "validity_rejected",
    "invalid_exact_evm_payload_authorization_valid_after": "validity_rejected",
}
"""Error codes for common reasons of services; any other reason is `payment_rejected`."""
_REMEDIES: dict[ErrorCode, str] = {
    "insufficient_funds": "add USDC on Base to {payer}; no ETH is needed, as the service pays for gas",
    "signature_rejected": "the signer signs for another address than {payer}, or not according to EIP-712; or that "
    "address has code: the signer of a smart contract wallet needs "
    "is_contract = True, and for a key that is delegated by EIP-7702 pay with another wallet",
}
"""Hints that name the wallet; other codes have their usual hint."""
_NOT_DEPLOYED = ("invalid_exact_evm_payload_undeployed_smart_wallet", "eip6492_factory_not_allowed")
_DEPLOY = "the service does not deploy {payer}: deploy that wallet yourself, or pay with another wallet"
_HOW_TO_PROVE = (
    "held money may have been taken: see client.payments.reconcile(), check the wallet, and mark what was not taken: "
    "client.payments.mark(id, paid=False)"
)


def signer_failed(error: Exception, what: str = "the signer") -> PaymentRefusedError:
    """The signer failed. Its own error text is not shown: it may contain the key."""
    failure = error.message if isinstance(error, TradeError) else f"{what} failed with {type(error).__name__}"
    return PaymentRefusedError(failure, code="signer_failed")


def signature_refused(payment: Payment, problem: str) -> PaymentRefusedError:
    """The contract wallet that pays does not accept its signature. If a node may have got it, its money is held."""
    return PaymentRefusedError(
        problem,
        code="signer_failed",
        hint="check that the signer signs for this wallet" + (f"; {_HOW_TO_PROVE}" if payment.submissions else ""),
        payment=payment,
    )


def _until(payment: Payment) -> str:
    """When the same call would pay again; with a name it never does."""
    if payment.purchase is not None:
        return ""
    return "10 minutes after its first signing (continue_for=) it makes a new payment; "


def _how_to_mark(payment: Payment) -> str:
    if payment.paid:
        return f"client.payments.mark({payment.id!r}, paid=True)"
    return f"check the wallet and mark the payment: client.payments.mark({payment.id!r}, paid=…)"


def _how_to_buy_again(payment: Payment) -> str:
    """How to buy again: with another name, or, without a name, some minutes after the first signature."""
    if payment.purchase is not None:
        return "to buy it again, give the purchase another name: purchase="
    return (
        "to buy it again, give the purchase a name: purchase=; without one, the same call buys again 10 minutes after "
        "the first try"
    )


def taken_elsewhere(payment: Payment, response: RawResponse | None = None) -> PaymentError:
    """The nonce of a named purchase was used, but not by a payment of this ledger."""
    return PaymentUndeliveredError(
        f"purchase {shown_name(payment)} was paid for before, and not from this ledger: its nonce is used up",
        code="taken_elsewhere",
        hint="the answer is in the ledger that paid, if that still exists; " + _how_to_buy_again(payment),
        reason=payment.reason,
        payment=payment,
        response=response,
    )


def shown_name(payment: Payment) -> str:
    return repr(printable(payment.purchase or "", 80))


def purchase_changed(payment: Payment, *, payer: str | None = None) -> PaymentRefusedError:
    """The name belongs to another request, or to another wallet than `payer`."""
    if payer is not None:
        return PaymentRefusedError(
            f"purchase {shown_name(payment)} may have been paid for by wallet {payment.payer} (payment {payment.id}), "
            f"and this wallet is {payer}; nothing was paid now",
            code="purchase_changed",
            hint=f"pay with wallet {payment.payer}, which gets that answer, or give this purchase another name",
        )
    body = printable(payment.body.decode("utf-8", "replace"), 200)
    return PaymentRefusedError(
        f"purchase {shown_name(payment)} is for {printable(payment.url, 200)} {body} (payment "
        f"{payment.id}); nothing was paid now",
        code="purchase_changed",
    )


def purchase_secret_changed(payer: str, known: str, given: str) -> PaymentRefusedError:
    """Another secret makes other nonces, so names that were paid for could be paid for again."""
    return PaymentRefusedError(
        f"the purchase secret of {payer} has changed: its id is {given}, and the ledger has {known}",
        code="purchase_secret_changed",
        hint="use the same key or TRADE_PURCHASE_SECRET as before. Or client.payments.accept_purchase_secret(): "
        "names that only another ledger has can then be paid for again",
    )


def outcome_error(payment: Payment, report: Report, response: RawResponse | None = None) -> PaymentError | None:
    """The error that ends a call; None if the error of the response itself is raised."""
    kind: type[PaymentError] = PaymentOutcomeUnknownError
    code: ErrorCode
    reason, amount = report.reason, shown_usd(payment.most)
    if payment.stage is PaymentStage.TAKEN and payment.code is ReasonCode.TAKEN_ELSEWHERE:
        return taken_elsewhere(payment, response)
    if payment.stage is PaymentStage.TAKEN and payment.code is ReasonCode.SUSPECT:
        what = f"{amount} was probably paid: the service failed to settle two signatures of the same nonce"
        code, what, hint = "suspect_paid", f"{what} ({reason}); nonce {payment.nonce}", _how_to_mark(payment)
    elif payment.stage is PaymentStage.TAKEN:
        kind, code, paid = PaymentUndeliveredError, "paid_undelivered", "was paid"
        if not payment.paid:
            paid += ", by what the service says"
        what = f"{amount} {paid}, and no usable answer arrived: {reason}"
        hint = f"contact the service with its nonce and transaction: client.payments.get({payment.id!r}); "
        hint += _how_to_buy_again(payment)
    elif payment.in_doubt or payment.stage is PaymentStage.ANSWERED:
        code, what = "outcome_unknown", f"{amount} may have been paid ({reason}); nonce {payment.nonce}"
        hint = (
            f"make the same call again: it resends the same payment, and after {payment.expires_at:%H:%M:%S} UTC it "
            f"signs the same nonce again, which is taken only once; {_until(payment)}"
            f"or client.payments.resume({payment.id!r})"
        )
    elif report.meaning is REJECTED:
        kind, code = PaymentRejectedError, _REJECTIONS.get(reason, "payment_rejected")
        what = f"the service rejected a payment of {amount}: {reason}"
        hint = _DEPLOY if reason in _NOT_DEPLOYED else _REMEDIES.get(code, "")
        hint = hint.format(payer=payment.payer)
    else:
        return None
    return kind(what, code=code, hint=hint, reason=reason, payment=payment, response=response)


def not_expired(payment: Payment) -> PaymentRefusedError:
    until = datetime.fromtimestamp(max(payment.valid_before, payment.counts_until) + GRACE, UTC)
    return PaymentRefusedError(
        f"payment {payment.id} may still be taken until {payment.expires_at:%H:%M:%S} UTC, so it cannot be "
        f"marked before {until:%H:%M:%S} UTC",
        code="not_unresolved",
        hint=f"try client.payments.resume({payment.id!r})"
        if payment.stage is PaymentStage.SENT
        else f"wait until then; see client.payments.get({payment.id!r})",
        payment=payment,
    )


def already_known(payment: Payment) -> PaymentRefusedError:
    known = "it was paid" if payment.paid else "it was not paid"
    return PaymentRefusedError(
        f"the outcome of payment {payment.id} is known: {known}",
        code="not_unresolved",
        hint=f"see client.payments.get({payment.id!r})",
        payment=payment,
    )


def in_progress(payment: Payment | None, *, is_resumed: bool, where: str = "") -> PaymentRefusedError:
    """Another call works on the same purchase."""
    what = f"the same call is in progress{where} and did not end before the deadline"
    if is_resumed and payment is not None:
        what = f"another call is sending payment {payment.id}"
    look = "" if payment is None else f", then see client.payments.get({payment.id!r})"
    return PaymentRefusedError(
        what,
        code="in_progress",
        hint=f"wait for that call to end{look}",
        payment=payment,
    )


def over_limits(payment: Payment, most: int, pay_to: Collection[str]) -> PaymentRefusedError:
    """An earlier payment is over the limits of a call that would resend it: its price, or else its recipient."""
    code: ErrorCode = "recipient_changed"
    details: PriceDetails | RecipientDetails = RecipientDetails(address=payment.pay_to, trusted=tuple(pay_to))
    why = f"goes to {payment.pay_to}, which pay_to= does not accept"
    if payment.amount > most:
        code, why = "over_price", f"costs {shown_usd(payment.amount)}, and this call may cost {shown_usd(most)}"
        details = PriceDetails(price=payment.amount_usd, allowed=usd(most))
    return PaymentRefusedError(
        f"an earlier payment for this call {why}",
        code=code,
        hint=f"client.payments.resume({payment.id!r}) resends it anyway; after {payment.expires_at:%H:%M:%S} UTC "
        "the same call signs it again, with these limits",
        details=details,
        payment=payment,
    )


def blocking_error(payment: Payment) -> PaymentError:
    """Why a payment is not sent (again)."""
    kind: type[PaymentError] = PaymentRefusedError
    stage, is_closed = payment.stage, payment.proof is PaymentProof.PERSON and payment.paid
    is_answered, amount, reason, hint = stage is PaymentStage.ANSWERED, shown_usd(payment.most), "", ""
    code: ErrorCode = "already_delivered"
    if stage is PaymentStage.TAKEN and not is_closed:
        if payment.code is ReasonCode.TAKEN_ELSEWHERE:
            return taken_elsewhere(payment)
        what = "was paid without a usable answer" if payment.paid else "is probably paid, without an answer"
        what = f"an earlier payment of {amount} for this call {what}, so it is not paid for again"
        code, reason = "unresolved_payment", payment.reason
        hint = f"{_how_to_mark(payment)}; {_how_to_buy_again(payment)}"
    elif payment.is_open:
        kind, code, reason = PaymentOutcomeUnknownError, "time_is_up", payment.reason
        what = (
            f"payment {payment.id} has expired or is about to, so it cannot be resent; {amount} may have been paid; "
            f"nonce {payment.nonce}"
        )
        hint = (
            "make the same call again: it signs the same nonce again, which is taken only once; "
            f"{_until(payment)}or {_how_to_mark(payment)}"
        )
    elif payment.purchase is not None and (is_answered or is_closed):
        day = f"{payment.updated_at:%Y-%m-%d}"
        what = f"({day}), and its answer is not kept" if is_answered else f"without an answer, as was noted on {day}"
        what = f"purchase {shown_name(payment)} was paid for {what}"
        hint = ("answers are kept for 30 days; " if is_answered else "") + _how_to_buy_again(payment)
    elif is_answered:
        what = f"payment {payment.id} was delivered, and its answer is not kept"
        hint = "make the call again to buy it again; the ledger keeps the answers of named purchases for 30 days"
    else:
        what = "was not sent" if payment.is_unsent else "was paid" if payment.paid else "was not paid"
        code, what = "not_live", f"payment {payment.id} {what}, so it cannot be sent"
    return kind(what, code=code, hint=hint, reason=reason, payment=payment)


def recipient_changed(address: str, trusted: Collection[str]) -> PaymentRefusedError:
    address = printable(address, 60)
    return PaymentRefusedError(
        f"the recipient is {address}, and only {printable(', '.join([*trusted][:3]), 150)} is trusted",
        code="recipient_changed",
        hint=f"ask the service whether it is correct; then: client.payments.trust({address!r}), or add it to pay_to=",
        details=RecipientDetails(address=address, trusted=tuple(trusted)),
    )


def balance_too_small(payer: str, service: str, amount: int, balance: int) -> PaymentRefusedError:
    """The wallet does not have the amount, says a node."""
    return PaymentRefusedError(
        f"this call costs {shown_usd(amount)}, and the wallet {payer} has {shown_usd(balance)}",
        code="insufficient_funds",
        hint=f"add USDC on Base to {payer}, then make the call again",
        details=WalletDetails(address=payer, service=service, cost=usd(amount), balance=usd(balance)),
    )


def wallet_empty(
    payer: str, service: str, amount: int, *, asks: str, since: datetime, open_at: datetime
) -> PaymentRefusedError:
    """The wallet does not have the amount, says the service. `asks`: the payment that is tried."""
    return PaymentRefusedError(
        f"this call costs {shown_usd(amount)}, and the service says since {since:%Y-%m-%d %H:%M:%S} UTC that the "
        f"wallet {payer} has too little USDC; until it has enough, only the call of payment {asks} is tried",
        code="insufficient_funds",
        hint=f"add USDC on Base to {payer}, then make the call of client.payments.get({asks!r}) again, "
        f"or any call after {open_at:%H:%M:%S} UTC",
        details=WalletDetails(
            address=payer, service=service, cost=usd(amount), since=since, tried_by=asks, open_at=open_at
        ),
    )


def no_budget(amount: int) -> PaymentRefusedError:
    return PaymentRefusedError(
        f"this call costs {shown_usd(amount)}, and no budget is set",
        code="no_budget",
        details=BudgetDetails(cost=usd(amount)),
    )


def over_total(amount: int, max_total: int, counted: int, held: int) -> PaymentRefusedError:
    """`max_total` of a batch run leaves no room. `counted`: what the run counts; `held`: the held part of it."""
    left = max(0, max_total - counted)
    return PaymentRefusedError(
        f"the next batch costs {shown_usd(amount)}, and max_total={shown_usd(max_total)} leaves {shown_usd(left)}",
        code="over_total",
        hint="to continue, call again with a higher max_total=; with job= nothing is paid for twice"
        + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=BudgetDetails(
            cost=usd(amount),
            limit="max_total",
            limit_amount=usd(max_total),
            spent=usd(counted - held),
            held=usd(held),
            left=usd(left),
        ),
    )


def over_budget(
    amount: int, name: LimitName, spending: WindowSpending, room_at: datetime | None
) -> PaymentRefusedError:
    """A limit leaves no room. `room_at`: when it will."""
    limit, held, cost = spending.limit or 0, spending.held, f"this call costs {shown_usd(amount)}"
    of_budget = f"the budget of {shown_usd(limit)} {'in total' if name == 'total' else name.replace('_', ' ')}"
    details = BudgetDetails(
        cost=usd(amount),
        limit=name,
        limit_amount=usd(limit),
        spent=spending.spent_usd,
        held=spending.held_usd,
        left=spending.left_usd,
        room_at=room_at,
    )
    hint = f"raise that budget where it is set: Budget({name}=…), TRADE_BUDGET_{name.upper()}, or in the ledger"
    if name == "per_call" or amount > limit:
        return PaymentRefusedError(f"{cost}, more than {of_budget}", code="over_budget", hint=hint, details=details)
    if room_at is not None:
        hint = f"wait until {room_at:%Y-%m-%d %H:%M:%S} UTC, or {hint}"
    elif name == "total":
        hint = f"this budget does not reset: {hint}"
    return PaymentRefusedError(
        f"{cost}, and {of_budget} leaves {shown_usd(spending.left or 0)}: {shown_usd(spending.spent)} is spent and "
        f"{shown_usd(held)} is held",
        code="over_budget",
        hint=hint + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=details,
    )
