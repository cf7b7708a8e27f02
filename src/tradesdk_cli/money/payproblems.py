"""What went wrong with a payment: what happened to the money, and the command that goes on. Loaded when it happens.

The SDK's hints speak to programmers; here they speak of commands and options.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import CONFIG, NOT_FOUND, OTHER, OUTCOME_UNKNOWN, REFUSED, REJECTED
from tradesdk_cli.money.payviews import dollars, of_error, surely_over
from tradesdk_cli.problems import Problem
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import APIError, Payment, PaymentError

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_COST = re.compile(r"costs \$([0-9.]+)")
_ALLOW = re.compile(r"max_price='([0-9.]+)'")
_LIMIT = re.compile(r"budget of \$([0-9.]+) (per call|per hour|per day|in total)")
# The SDK says what to call, and then the same as a command; who typed a command has no client.
_CALLS = re.compile(r"client\.payments\.\w+\([^()]*\)(?: \((trade pay [^()]*)\)|, or: (?=trade pay ))")
_CALL = re.compile(r"client\.payments\.(get|list|mark|resume|trust)\((?:'([^']*)')?[^()]*\)")
_VERBS = {"get": "show", "list": "history", "mark": "reconcile --mark paid|unpaid"}
_WORDS = (
    ("trade pay ", "{program} pay "),
    ("max_price=", "--max-price"),
    ("max_total=", "--max-price "),
    ("job=", "--job "),
    ("make the call again", "run the command again"),
    (", or pass it in pay_to=", ""),
    (", or pay_to=", ""),
    ("; with a job the ledger keeps answers", ""),
    ("; new_purchase=True pays anew at once", ""),  # not every command has that option
)


def payment_problem(error: PaymentError, program: str) -> Problem:
    """What a payment's error means."""
    from tradesdk import (
        LedgerError,
        PaymentOutcomeUnknownError,
        PaymentRefusedError,
        PaymentRejectedError,
        PaymentUndeliveredError,
    )

    message = one_line(error.message.replace("max_total=", "--max-price "))
    if isinstance(error, LedgerError):
        code = CONFIG if error.payment is None else OUTCOME_UNKNOWN
        hint = _plain(error.hint, program) if error.payment is None else _unknown(error.payment, program)
        return _problem(error, code, message, hint, retryable=error.code == "ledger_locked")
    if isinstance(error, PaymentOutcomeUnknownError):
        over = error.code == "time_is_up"
        hint = _plain(error.hint, program) if error.payment is None else _unknown(error.payment, program, over=over)
        return _problem(error, OUTCOME_UNKNOWN, message, hint)
    if isinstance(error, PaymentUndeliveredError):
        hint = _plain(error.hint, program)
        if error.payment is not None:
            hint = (
                f"see what came: {program} pay show {error.payment.id}; the same is not paid for again before "
                f"{program} pay reconcile --mark paid {error.payment.id}"
            )
        return _problem(error, OUTCOME_UNKNOWN, message, hint)
    if isinstance(error, PaymentRejectedError):
        hint = _rejected(error, program)
        return _problem(error, REJECTED, f"{message}: {one_line(error.code, 80)}", hint)
    if isinstance(error, PaymentRefusedError):
        if error.code == "over_budget":
            message = message.replace(" is reserved", " is held")
        code = NOT_FOUND if error.code in ("no_such_payment", "unknown_token") else REFUSED
        retryable = error.code in ("not_yet_expired", "in_progress", "signer_too_slow", "reservation_lost")
        return _problem(error, code, message, _refused(error, program), retryable=retryable)
    return _problem(error, OTHER, message, _plain(error.hint, program))


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
        told = (
            f"{amount} was handed over and, as far as is known, not taken; it could be until "
            f"{payment.expires_at:%H:%M:%S} UTC: {program} pay show {payment.id}"
        )
    hint = f"{told}; {problem.hint}" if problem.hint else told
    return replace(problem, hint=hint, about={"charged": payment.charged, "payment": of_error(payment)})


def _problem(error: PaymentError, exit_code: int, message: str, hint: str, *, retryable: bool = False) -> Problem:
    payment = error.payment
    about: dict[str, Any] = {"charged": error.charged, "payment": None if payment is None else of_error(payment)}
    return Problem(exit_code, one_line(error.code, 80), message, hint or None, retryable=retryable, about=about)


def _unknown(payment: Payment, program: str, *, over: bool = False) -> str:
    mark = f"look at the wallet, then {program} pay reconcile --mark paid|unpaid {payment.id}"
    if not payment.live:
        return mark
    if over:
        return f"from {surely_over(payment):%H:%M:%S} UTC on: {mark}"
    return (
        f"until {payment.expires_at:%H:%M:%S} UTC: {program} pay resume {payment.id} "
        f"(the same payment once more, which cannot be taken twice); after that {mark}"
    )


def _rejected(error: PaymentError, program: str) -> str:
    payment = error.payment
    if payment is None or "hands the same payment over" not in error.hint:
        return _plain(error.hint, program)
    return (
        f"see it: {program} pay show {payment.id}; until {payment.expires_at:%H:%M:%S} UTC the same command "
        "hands the same payment over again"
    )


def _refused(error: PaymentError, program: str) -> str:
    if error.code == "no_budget":
        cost = _COST.search(error.message)
        return (
            f"allow this one: --max-price {cost[1] if cost else '0.10'}; or set a budget: {program} pay budget set "
            "--per-day 5 (or TRADE_BUDGET_PER_DAY=5)"
        )
    if error.code == "over_budget":
        room = f"{error.hint}; " if error.hint.startswith("there is room") else ""
        return f"{room}see what is left: {program} pay budget; {_raise_it(error.message, program)}"
    if error.code == "unknown_token":
        return error.hint.replace(
            ", or with check_tokens=False", f"; see the list: {program} market tokens --limit 500"
        )
    if error.code == "over_price":
        allowed = _ALLOW.search(error.hint)
        return f"to pay that all the same: --max-price {allowed[1]}" if allowed else _plain(error.hint, program)
    if error.code == "recipient_changed":
        address = _ADDRESS.search(error.hint)
        if address:
            return f"ask the service whether that is right; if it is: {program} pay trust {address[0]}"
    if error.code == "no_signer":
        return f"export TRADE_WALLET_KEY, or make a wallet: {program} pay key new"
    if error.code == "insecure_url":
        return "TRADE_MARKET_BASE_URL or --market-url must start with https://"
    if error.code == "no_such_payment":
        return f"see what there is: {program} pay history"
    if error.code == "not_unresolved" and error.payment is not None:
        name = error.payment.id
        return f"{program} pay {'resume' if error.payment.live else 'show'} {name}"
    if error.code == "unresolved_payment" and error.payment is not None:
        name = error.payment.id
        return (
            f"look at it: {program} pay show {name}; say what it was: {program} pay reconcile --mark paid|unpaid "
            f"{name}; after that it can be bought anew"
        )
    if error.code in ("already_delivered", "not_live") and error.payment is not None:  # of trade pay resume
        return f"look at it: {program} pay show {error.payment.id}; what it was for can be bought anew"
    return _plain(error.hint, program)


def _raise_it(message: str, program: str) -> str:
    """How to raise the budget that was in the way, where it was set. --max-price only ever makes one stricter."""
    from tradesdk import Budget, TradeError

    found = _LIMIT.search(message)
    name = {"per call": "per_call", "per hour": "per_hour", "per day": "per_day"}.get(
        found[2] if found else "", "total"
    )
    try:
        of_environment = Budget.from_environment().dollars()[name]
    except TradeError:
        of_environment = None
    if found is not None and of_environment is not None and of_environment == Decimal(found[1]):
        return f"to raise it: TRADE_BUDGET_{name.upper()} in the environment, which is {found[1]}"
    return f"to raise it, for it is kept in the ledger: {program} pay budget set --{name.replace('_', '-')} USD"


def _plain(hint: str, program: str) -> str:
    hint = _CALLS.sub(lambda call: call[1] or "", hint)
    hint = _CALL.sub(lambda call: f"trade pay {_VERBS.get(call[1], call[1])} {call[2] or ''}".rstrip(), hint)
    for theirs, ours in _WORDS:
        hint = hint.replace(theirs, ours.format(program=program))
    return one_line(hint)
