"""What went wrong with a payment: what happened to the money, and the command that goes on. Loaded when it happens.

The SDK's hints speak of its methods; here they speak of commands and options. Where a hint names neither, it is shown.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tradesdk import BudgetDetails, PriceDetails, RecipientDetails, TokenDetails
from tradesdk_cli.errors import CONFIG, NOT_FOUND, OTHER, OUTCOME_UNKNOWN, REFUSED, REJECTED
from tradesdk_cli.explain import Problem
from tradesdk_cli.purchase.records import dollars, of_error, plain_dollars
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import APIError, Payment, PaymentError

_RETRYABLE = ("in_progress", "signer_too_slow", "reservation_lost")
_NOT_TYPEABLE = Decimal(10) ** 12
"""Dollars that no --max-price takes."""


def payment_problem(error: PaymentError, program: str) -> Problem:
    """What a payment's error means."""
    from tradesdk import (
        LedgerError,
        PaymentOutcomeUnknownError,
        PaymentRefusedError,
        PaymentRejectedError,
        PaymentUndeliveredError,
    )

    message = one_line(error.message)
    if isinstance(error, LedgerError):
        code = CONFIG if error.payment is None else OUTCOME_UNKNOWN
        hint = error.hint if error.payment is None else _unknown(error.payment, program)
        return _problem(error, code, message, hint, retryable=error.code == "ledger_locked")
    if isinstance(error, PaymentOutcomeUnknownError):
        over = error.code == "time_is_up"
        hint = error.hint if error.payment is None else _unknown(error.payment, program, over=over)
        return _problem(error, OUTCOME_UNKNOWN, message, hint)
    if isinstance(error, PaymentUndeliveredError):
        hint = error.hint
        if error.payment is not None:
            hint = f"see what came: {program} pay show {error.payment.id}; {_once_more(error.payment, program)}"
            if error.code == "taken_elsewhere":
                hint = f"its answer is where it was paid for; {_once_more(error.payment, program)}"
        return _problem(error, OUTCOME_UNKNOWN, message, hint)
    if isinstance(error, PaymentRejectedError):
        return _problem(error, REJECTED, message, _rejected(error, program))
    if isinstance(error, PaymentRefusedError):
        code = NOT_FOUND if error.code in ("no_such_payment", "unknown_token") else REFUSED
        message = _over_total(error.details) or message
        return _problem(error, code, message, _refused(error, program), retryable=error.code in _RETRYABLE)
    return _problem(error, OTHER, message, error.hint)


def _once_more(payment: Payment, program: str) -> str:
    """How to buy again what was paid for and did not arrive. A named purchase that is marked as paid stays closed."""
    if payment.purchase is not None:
        return f"the same command with --new-purchase {payment.id} buys it once more"
    return f"the same is not paid for again before {program} pay reconcile --mark paid {payment.id}"


def with_payment(problem: Problem, error: APIError, program: str) -> Problem:
    """The problem of an ordinary error that followed a payment."""
    payment = error.payment
    if payment is None:
        return problem
    amount = dollars(payment.amount_usd)
    if payment.charged is False:
        told = f"nothing was paid ({payment.id})"
    elif payment.charged is True:
        told = f"{amount} was paid: {program} pay show {payment.id}"
    else:
        doubt = f"{amount} was sent, and stays held, as nothing proves that it was not taken"
        told = f"{doubt}: {program} pay show {payment.id}"
    hint = f"{told}; {problem.hint}" if problem.hint else told
    return replace(problem, hint=hint, about={"charged": payment.charged, "payment": of_error(payment)})


def _problem(error: PaymentError, exit_code: int, message: str, hint: str, *, retryable: bool = False) -> Problem:
    payment = error.payment
    about: dict[str, Any] = {"charged": error.charged, "payment": None if payment is None else of_error(payment)}
    code = one_line(error.reason, 80) if exit_code == REJECTED and error.reason else error.code
    return Problem(exit_code, code, message, one_line(hint) or None, retryable=retryable, about=about)


def _unknown(payment: Payment, program: str, *, over: bool = False) -> str:
    """What to do about a payment of which nobody knows whether it was taken."""
    from tradesdk import PaymentState

    mark = f"look at the wallet, then {program} pay reconcile --mark paid|unpaid {payment.id}"
    if payment.state is PaymentState.SUSPECT_PAID:
        return mark
    if over or not payment.live:
        return f"run the command again: it signs the same nonce again, which is taken only once; or {mark}"
    return (
        f"run the command again, or until {payment.expires_at:%H:%M:%S} UTC {program} pay resume {payment.id}: both "
        "resend the same payment; after that the same command signs its nonce again, which is taken only once"
    )


def _rejected(error: PaymentError, program: str) -> str:
    payment = error.payment
    if payment is None or error.code != "payment_rejected":
        return error.hint
    return (
        f"see it: {program} pay show {payment.id}; until {payment.expires_at:%H:%M:%S} UTC the same command "
        "resends the same payment"
    )


def _refused(error: PaymentError, program: str) -> str:
    code, payment = error.code, error.payment
    if isinstance(error.details, BudgetDetails):
        return _budget(error.details, program)
    if isinstance(error.details, TokenDetails):
        near = error.details.suggestions
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        tokens = f"{program} market tokens --limit 500"
        return f"{meant}a token that is not listed is bought by its address; see the list: {tokens}"
    earlier = payment is not None and payment.state.value != "reserved"  # else it is this call's own, and never sent
    if isinstance(error.details, PriceDetails | RecipientDetails) and payment is not None and earlier:
        return f"{program} pay resume {payment.id} resends it anyway; or wait until it has expired"
    if isinstance(error.details, PriceDetails) and error.details.asked < _NOT_TYPEABLE:
        return f"to pay that anyway: --max-price {plain_dollars(error.details.asked)}"
    if isinstance(error.details, RecipientDetails):
        return f"ask the service whether that is right; if it is: {program} pay trust {error.details.address}"
    if code == "no_signer":
        return f"export TRADE_WALLET_KEY, or make a wallet: {program} pay key new"
    if code == "insecure_url":
        return "TRADE_MARKET_BASE_URL or --market-url must start with https://"
    if code == "no_such_payment":
        return f"see what there is: {program} pay history"
    if code == "reservation_lost":
        return "run the command again"
    if code == "in_progress":
        return "wait for that call to end, then look again" + (f": {program} pay show {payment.id}" if payment else "")
    if code == "purchase_secret_changed":
        return (
            "take the same wallet or TRADE_PURCHASE_SECRET as before; or go on with this one: "
            f"{program} pay key accept-secret; names that only another ledger has can then be paid for once more"
        )
    if payment is None:
        return error.hint
    if code == "not_unresolved":
        return f"{program} pay {'resume' if payment.live else 'show'} {payment.id}"
    if code == "unresolved_payment":
        show = f"look at it: {program} pay show {payment.id}"
        if payment.purchase is not None:
            return f"{show}; {_once_more(payment, program)}"
        mark = f"{program} pay reconcile --mark {'paid' if payment.charged is True else 'paid|unpaid'} {payment.id}"
        return f"{show}; say what it was: {mark}; after that it can be bought again"
    if code == "already_delivered" and payment.purchase is not None:
        return f"look at it: {program} pay show {payment.id}; {_once_more(payment, program)}"
    if code in ("already_delivered", "not_live", "not_submitted"):  # of trade pay resume
        return f"look at it: {program} pay show {payment.id}; what it was for can be bought again"
    return error.hint


def _over_total(details: object) -> str | None:
    """How much of --max-price is left for the next batch; None where that is not the matter."""
    if not isinstance(details, BudgetDetails) or details.limit != "max_total":
        return None
    limit, left = details.limit_amount or Decimal(), details.left or Decimal()
    return f"the next batch costs {dollars(details.cost)}, and of --max-price {dollars(limit)} {dollars(left)} is left"


def _budget(details: BudgetDetails, program: str) -> str:
    if details.limit is None:
        return (
            f"allow this one: --max-price {plain_dollars(details.cost)}; or set a budget: {program} pay budget set "
            "--per-day 5 (or TRADE_BUDGET_PER_DAY=5)"
        )
    if details.limit == "max_total":
        return "run the command again with a higher --max-price to go on; with --job nothing is paid for twice"
    room = ""
    if details.room_at is not None:
        room = f"there is room from {details.room_at:%Y-%m-%d %H:%M:%S} UTC on; "
    return f"{room}see what is left: {program} pay budget; {_raise_it(details.limit, details.limit_amount, program)}"


def _raise_it(name: str, amount: Decimal | None, program: str) -> str:
    """How to raise the budget that is in the way, where it was set. --max-price only ever makes one stricter."""
    from tradesdk import Budget, TradeError

    try:
        of_environment = Budget.from_environment().dollars()[name]
    except TradeError:
        of_environment = None
    if amount is not None and of_environment == amount:
        return f"to raise it: TRADE_BUDGET_{name.upper()} in the environment, which is {plain_dollars(amount)}"
    return f"to raise it, for it is kept in the ledger: {program} pay budget set --{name.replace('_', '-')} USD"
