"""Turns an exception into message, hint and exit code. Imported on errors."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from tradesdk import (
    AmbiguousOutcomeError,
    APIConnectionError,
    APIError,
    APIResponseError,
    APIStatusError,
    APITimeoutError,
    Budget,
    CheckpointError,
    ConfigError,
    FleetError,
    InvalidArgumentError,
    InvalidSignatureError,
    LedgerError,
    Payment,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
    TradeError,
)
from tradesdk.payments import BudgetDetails, PriceDetails, RecipientDetails, TokenDetails, WalletDetails
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.errors import (
    CONFIG,
    LOGIN,
    NETWORK,
    NOT_FOUND,
    OTHER,
    OUTCOME_UNKNOWN,
    REFUSED,
    REJECTED,
    SERVER,
    TRADE,
    USAGE,
    CliError,
    Problem,
    exit_code_for,
    placed,
)
from tradesdk_cli.next_steps import BY_STATUS, CHECK_URL, IN_TRADE, MOCK_KEYS, UNKNOWN_OUTCOME
from tradesdk_cli.text import dollars, one_line, plain_dollars, visible

_CHECK_KEY = (IN_TRADE["unauthorized"] or "").replace("{login}", LOGIN)
_NOUNS = ("agents", "wallets", "trades", "positions")
"""Nouns of the API with a list."""
_PATHS = "/v1/account, /v1/agents, /v1/wallets, /v1/trades, /v1/positions and /v1/signals"


def problem_of(error: BaseException, program: str = "trade") -> Problem:
    """The problem of `error`; commands in hints begin with `program`, such as `trade --mock`."""
    problem = _problem_of(error)
    hint = problem.hint
    if hint == _CHECK_KEY and (program.endswith(" --mock") or " --world " in program):
        hint = MOCK_KEYS
    if _too_many_files(error):
        hint = _usual("too_many_files")
    return replace(problem, hint=placed(hint, program))


def _problem_of(error: BaseException) -> Problem:
    if isinstance(error, CliError):
        code, about = one_line(error.code, 80), dict(error.about or {})
        return Problem(error.exit_code, code, one_line(error.message), error.hint, error.status, about=about)

    if isinstance(error, APIError):
        if not isinstance(error, APIStatusError):
            return with_payment(_request_problem(error), error)
        status, code = error.status, one_line(error.service_code or f"http_{error.status}", 80)
        if error.response is None:  # held back here
            code = error.code
        message, hint = one_line(error.message or f"the service answered {status}"), _status_hint(error)
        return with_payment(Problem(exit_code_for(status), code, message, hint, status, status in (429, 503)), error)
    if isinstance(error, PaymentError):
        return payment_problem(error)
    if isinstance(error, TradeError):
        is_away = error.code == "fleet_unreachable"
        exit_code, code = OTHER, "error"
        if isinstance(error, ConfigError):
            exit_code, code = CONFIG, "configuration"
        elif isinstance(error, InvalidArgumentError):
            exit_code, code = USAGE, "usage"
        elif isinstance(error, FleetError):
            exit_code, code = NETWORK if is_away else CONFIG, error.code
        return Problem(exit_code, code, one_line(error.message), next_step(error), retryable=is_away)
    if isinstance(error, OSError) or _too_many_files(error):
        named = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Problem(OTHER, "system", one_line(f"{reason}: {named}" if named else reason))
    message = f"this is a bug in trade: {type(error).__name__}: {error}"
    return Problem(OTHER, "internal", one_line(message), "run it again with -v to see where")


def _usual(code: Any) -> str:
    """The SDK's hint for an error without details."""
    return TradeError("", code=code).hint


def next_step(error: TradeError, **known: str) -> str:
    """The hint for `trade`; `known` has the values of its names."""
    code, hint = error.code, error.hint
    if hint == _usual("fleet_lost"):  # a ledger in PostgreSQL
        code = "fleet_lost"
    # Their own hints do not speak of Python.
    is_own = isinstance(error, ConfigError | CheckpointError) and hint != _usual(code)
    step = IN_TRADE[code]
    if step is None or is_own or hint == _usual("too_many_files"):
        return hint
    usual = {
        "address": "TRADE_BASE_URL or --base-url",
        "lister": f"{TRADE} account show",
        "wait": "a minute",
        "chain": "base",
        "payment": "PAYMENT_ID",
        "look": f"{TRADE} pay history",
        "until": "it expires",
        "again": "to buy it again, give it another --purchase name",
        "fund": "add USDC on Base to the wallet",
    }
    return step.format(**usual | known, python=hint, trade=TRADE, login=LOGIN)


def _too_many_files(error: BaseException | None) -> bool:
    """Whether too many files are open, which can make anything fail, such as an import."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or os.strerror(errno.EMFILE) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _status_hint(error: Any) -> str:
    status: int = error.status
    if error.code == "invalid_signature":
        return _signature_hint(error)
    market, lister = _market(error.url), _lister(error.url, error.method if error.status == 404 else "")
    if error.outcome == "unknown":
        return UNKNOWN_OUTCOME.format(lister=lister)
    if status == 401 and market:
        return "the service wants the API key of the account as well: add --send-api-key"
    if status == 404 and error.service_code is None and not market:
        return CHECK_URL.format(address=_address(error.url))
    if status == 404 and not any(f"/v1/{noun}" in error.url for noun in _NOUNS) and not market:
        return f"there are {_PATHS}; for examples: {TRADE} api --help"
    if error.code == "unexpected_status":
        return (BY_STATUS.get(status) or BY_STATUS[min(status // 100, 5)]).format(
            trade=TRADE, address=_address(error.url)
        )
    known = {} if error.retry_after is None else {"wait": f"{error.retry_after:.0f} s"}
    return next_step(error, lister=lister, **known)


def _address(url: str) -> str:
    return "TRADE_MARKET_BASE_URL or TRADE_BASE_URL" if _market(url) else "TRADE_BASE_URL or --base-url"


def _signature_hint(error: InvalidSignatureError) -> str:
    if error.signed is None:
        return (
            "sign exactly the text that the dashboard shows (personal_sign), with the key of that address; "
            "--message-file FILE instead of --signature signs it here"
        )
    signed = f'the text that was signed is "{visible(error.signed, 400)}"'
    if error.is_default_text:
        return f"{signed}: the service documents none; save the one that the dashboard shows: --message-file FILE"
    return (
        f"{signed}: compare it with the dashboard's, line breaks too, and check that it is for this address and chain"
    )


def _request_problem(error: Any) -> Problem:
    message = one_line(str(error))
    unknown = error.outcome == "unknown"
    known = {"lister": _lister(error.url), "address": _address(error.url)}
    hint = UNKNOWN_OUTCOME.format(**known) if unknown else next_step(error, **known)
    if isinstance(error, AmbiguousOutcomeError):
        return Problem(OTHER, "outcome_unknown", message, hint)
    if isinstance(error, APIConnectionError):
        late = isinstance(error, APITimeoutError)
        retryable = (late or error.temporary) and not unknown
        return Problem(NETWORK, error.code, message, hint, retryable=retryable)
    if isinstance(error, APIResponseError):
        return Problem(SERVER, "bad_response", message, hint)
    return Problem(OTHER, "error", message, hint)


def _lister(url: str, method: str = "") -> str:
    """The command that lists the items of a URL; with a `method`, also those that the body names."""
    if _market(url):
        return f"{TRADE} market tokens --limit 500"
    if method == "POST" and url.endswith("/v1/agents"):
        return f"{TRADE} wallets list"
    wallets = f"; {TRADE} wallets list" if method == "PATCH" else ""  # the agent, or its new wallet
    noun = next((noun for noun in _NOUNS if f"/v1/{noun}" in url), None)
    return f"{TRADE} {noun} list{wallets}" if noun else f"{TRADE} account show"


def _market(url: str) -> bool:
    """Whether the URL is of paid market data."""
    return url.rpartition("/v1/")[2].startswith(
        ("token-", "signal-history", "top-performers", "aggregate-metrics", "supported-tokens")
    )


_RETRYABLE = ("in_progress", "signer_too_slow", "ledger_locked", "ledger_unreachable")
_NOT_TYPEABLE = Decimal(10) ** 12
"""Dollars above any --max-price."""


def payment_problem(error: PaymentError) -> Problem:
    """The problem of a payment's error."""
    code = OTHER
    if isinstance(error, LedgerError) and error.payment is None:
        code = NETWORK if error.code == "ledger_unreachable" else CONFIG
    elif isinstance(error, (LedgerError, PaymentOutcomeUnknownError, PaymentUndeliveredError)):
        code = OUTCOME_UNKNOWN
    elif isinstance(error, PaymentRejectedError):
        code = REJECTED
    elif isinstance(error, PaymentRefusedError):
        code = NOT_FOUND if error.code in ("no_such_payment", "unknown_token") else REFUSED
    label = one_line(error.reason, 80) if code == REJECTED and error.reason else error.code
    message = one_line(error.message) + ("; nothing was paid" if error.code == "unknown_token" else "")
    hint, about = one_line(_payment_hint(error)) or None, about_payment(error.payment)
    return Problem(code, label, message, hint, retryable=error.code in _RETRYABLE, about=about)


def _payment_hint(error: PaymentError) -> str:
    """Its hint, with the error's details first."""
    code, payment, details = error.code, error.payment, error.details
    if isinstance(error, (LedgerError, PaymentOutcomeUnknownError)) and payment is not None:
        return _unknown(payment, over=code == "time_is_up")
    if isinstance(details, BudgetDetails):
        return _budget(details)
    if isinstance(details, TokenDetails):
        meant = f"did you mean {' or '.join(details.suggestions)}? " if details.suggestions else ""
        return meant + next_step(error)
    earlier = payment is not None and not payment.is_unsent  # else it is this call's own
    if isinstance(details, PriceDetails | RecipientDetails) and payment is not None and earlier:
        return f"{TRADE} pay resume {payment.id} resends it anyway; or wait until it has expired"
    if isinstance(details, PriceDetails):
        is_typeable = details.price < _NOT_TYPEABLE
        return f"to pay that anyway: --max-price {plain_dollars(details.price)}" if is_typeable else error.hint
    if isinstance(details, RecipientDetails):
        return f"ask the service whether that is right; if it is: {TRADE} pay trust {details.address}"
    if isinstance(details, WalletDetails):
        again = "then run the same command again"
        if details.open_at is not None:
            shown = f"{TRADE} pay show {details.tried_by}"
            again = f"then run the command of that payment again ({shown}), or any after {details.open_at:%H:%M:%S} UTC"
        return f"{_fund(details.address, details.service)}; {again}"
    if payment is None:
        return next_step(error)
    if code == "not_unresolved" and payment.stage.value == "sent":
        return f"{TRADE} pay resume {payment.id}"
    return next_step(
        error,
        payment=payment.id,
        look=f"{TRADE} pay show {payment.id}",
        until=f"{payment.expires_at:%H:%M:%S} UTC",
        again=_once_more(payment, code),
        fund=_fund(payment.payer, payment.url),
    )


def _fund(wallet: str, service: str) -> str:
    add = f"add USDC on Base to {wallet}; no ETH is needed, as the service pays for gas"
    if not is_loopback(urlsplit(service).hostname or ""):
        return add
    # No hint may lead to sending real money to a mock's wallet.
    return f"on a mock, give it play money: {TRADE} mock payments set-balance {wallet} 10; elsewhere {add}"


def _once_more(payment: Payment, code: str) -> str:
    """How to buy again after a paid call without an answer."""
    if payment.purchase is not None:
        return "to buy it again, give it another --purchase name"
    if code == "already_delivered":
        return "the same data can be bought again"
    mark = f"{TRADE} pay reconcile --mark paid {payment.id}"
    if code == "unresolved_payment":
        other = "" if payment.charged is True else ", or --mark unpaid"
        return f"mark the payment: {mark}{other}; then it can be bought again"
    return f"to buy it again: add --purchase NAME, or first {mark}; 10 minutes after the first try the command does"


def with_payment(problem: Problem, error: APIError) -> Problem:
    """The problem of another error after a payment."""
    payment = error.payment
    if payment is None:
        return problem
    amount = dollars(payment.amount_usd)
    if payment.charged is False:
        note = f"nothing was paid ({payment.id})"
    elif payment.charged is True:
        note = f"{amount} was paid: {TRADE} pay show {payment.id}"
    else:
        doubt = f"{amount} was sent, and stays held, as nothing proves that it was not taken"
        note = f"{doubt}: {TRADE} pay show {payment.id}"
    hint = f"{note}; {problem.hint}" if problem.hint else note
    return replace(problem, hint=hint, about=about_payment(payment))


def _unknown(payment: Payment, *, over: bool) -> str:
    """The hint for a payment with unknown outcome."""
    mark = f"look at the wallet, then {TRADE} pay reconcile --mark paid {payment.id}, or --mark unpaid"
    if payment.stage.value == "taken":
        return mark
    until = "" if payment.purchase is not None else "; 10 minutes after its first signing it makes a new payment"
    if over or payment.stage.value != "sent":
        return f"run the purchase again: it signs the same nonce again, which is taken only once{until}; or {mark}"
    return (
        f"run the command again, or until {payment.expires_at:%H:%M:%S} UTC {TRADE} pay resume {payment.id}: both "
        f"resend the same payment; after that the same command signs its nonce again, which is taken only once{until}"
    )


def _budget(details: BudgetDetails) -> str:
    if details.limit is None:
        return (
            f"allow this one: --max-price {plain_dollars(details.cost)}; or set a budget: {TRADE} pay budget set "
            "--per-day 5 (or TRADE_BUDGET_PER_DAY=5)"
        )
    room = ""
    if details.room_at is not None:
        room = f"there is room from {details.room_at:%Y-%m-%d %H:%M:%S} UTC on; "
    look = (
        f"find out what of it was taken: {TRADE} pay reconcile"
        if details.held
        else f"see what is left: {TRADE} pay budget"
    )
    return f"{room}{look}; {_raise_it(details.limit, details.limit_amount)}"


def _raise_it(name: str, amount: Decimal | None) -> str:
    """How to raise the exceeded budget where it was set. --max-price can only lower a limit."""
    try:
        of_environment = Budget.from_environment().dollars()[name]
    except TradeError:
        of_environment = None
    if amount is not None and of_environment == amount:
        return f"to raise it: TRADE_BUDGET_{name.upper()} in the environment, which is {plain_dollars(amount)}"
    return f"to raise it (the ledger keeps it): {TRADE} pay budget set --{name.replace('_', '-')} USD"


def about_payment(payment: Payment | None) -> dict[str, Any]:
    """The payment of an error, for programs."""
    if payment is None:
        return {"charged": False, "payment": None}
    shown = {
        "id": payment.id,
        "stage": payment.stage.value,
        "amount_usd": plain_dollars(payment.amount_usd),
        "nonce": payment.nonce,
        "valid_before": payment.valid_before,
    }
    return {"charged": payment.charged, "payment": shown}
