"""An exception as message, hint and exit code. Loaded when something fails."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from tradesdk import BudgetDetails, PriceDetails, RecipientDetails, TokenDetails, WalletDetails
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.errors import (
    CONFIG,
    CONFLICT,
    FORBIDDEN,
    INVALID,
    LOGIN,
    NETWORK,
    NOT_FOUND,
    OTHER,
    OUTCOME_UNKNOWN,
    RATE_LIMITED,
    REFUSED,
    REJECTED,
    SERVER,
    TRADE,
    UNAUTHENTICATED,
    USAGE,
    CliError,
    Problem,
    RefusedByMock,
    placed,
)
from tradesdk_cli.text import dollars, one_line, plain_dollars, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tradesdk import APIError, InvalidSignatureError, Payment, PaymentError


_CHECK_KEY = f"check TRADE_API_KEY, or log in again ({LOGIN}): keys are made in the dashboard, Settings, API Keys"
_MOCK_KEYS = (
    "the mock takes keys like mock_full_NAME and mock_read_NAME, and those of its own making; "
    "unset TRADE_API_KEY to use its usual one"
)
_CHECK_URL = "does the base URL point at the service? (TRADE_BASE_URL or --base-url)"


_NOUNS = ("agents", "wallets", "trades", "positions")
"""Nouns of the API that have a list."""
_PATHS = "/v1/account, /v1/agents, /v1/wallets, /v1/trades, /v1/positions and /v1/signals"
_KEYSTORE = "--wallet FILE or TRADE_KEYSTORE says which keystore it is; {trade} pay key new makes one"
_CONFIG_HINTS = {
    "invalid_setting": "trade help settings",
    "invalid_base_url": "correct TRADE_BASE_URL or --base-url; it looks like https://api.example.com",
    "invalid_fleet_url": "correct TRADE_FLEET; it looks like postgresql://USER@HOST:5432/DATABASE",
    "invalid_api_key": "correct TRADE_API_KEY, or keep another key: {login}",
    "invalid_private_key": "it is 64 hexadecimal digits, with or without 0x in front; an address is not one",
    "invalid_keystore": _KEYSTORE,
    "keystore_exists": "choose another file: --wallet FILE",
    "keystore_without_address": _KEYSTORE,
    "wrong_password": "run it again with the password of that file; --wallet FILE or TRADE_KEYSTORE names another one",
}


def problem_of(error: BaseException, program: str = "trade") -> Problem:
    """What `error` means; hints begin with `program`, which is `trade --mock` for the embedded mock."""
    problem = _problem_of(error)
    hint = problem.hint
    if hint == _CHECK_KEY and (program.endswith(" --mock") or " --world " in program):
        hint = _MOCK_KEYS
    if _too_many_files(error):
        from tradesdk import TradeError

        hint = TradeError("", code="too_many_files").hint
    return replace(problem, hint=placed(hint, program))


def _problem_of(error: BaseException) -> Problem:
    if isinstance(error, RefusedByMock):
        code, message = one_line(error.code, 80), one_line(error.message)
        return Problem(_exit_code(error.answered), code, message, error.hint, error.answered)
    if isinstance(error, CliError):
        about = dict(error.about or {})
        return Problem(error.exit_code, error.code, one_line(error.message), error.hint, error.status, about=about)

    from tradesdk import (
        APIError,
        APIStatusError,
        ConfigError,
        FleetError,
        InvalidArgumentError,
        PaymentError,
        TradeError,
    )

    if isinstance(error, APIError):
        problem = (_status_problem if isinstance(error, APIStatusError) else _request_problem)(error)
        if error.payment is None:
            return problem

        return with_payment(problem, error)
    if isinstance(error, PaymentError):
        return payment_problem(error)
    if isinstance(error, ConfigError):
        message = one_line(str(error))
        hint = error.hint
        if hint == ConfigError("", code=error.code).hint:  # the usual one, in words of Python
            hint = _CONFIG_HINTS.get(error.code, hint)
        return Problem(CONFIG, "configuration", message, hint)
    if isinstance(error, InvalidArgumentError):
        return Problem(USAGE, "usage", one_line(str(error)), "nothing was sent; --help shows what is accepted")
    if isinstance(error, FleetError):
        away = error.code == "fleet_unreachable"
        hint = _of_fleet(error.code, error.hint)
        return Problem(NETWORK if away else CONFIG, error.code, one_line(error.message), hint, retryable=away)
    if isinstance(error, TradeError):
        return Problem(OTHER, "error", one_line(str(error)), error.hint)
    if isinstance(error, OSError) or _too_many_files(error):
        named = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Problem(OTHER, "system", one_line(f"{reason}: {named}" if named else reason))
    message = f"this is a bug in trade: {type(error).__name__}: {error}"
    return Problem(OTHER, "internal", one_line(message), "run it again with -v to see where")


def _too_many_files(error: BaseException | None) -> bool:
    """Whether the system opens no more files, which may have made anything fail: an import, for example."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or os.strerror(errno.EMFILE) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


_STATUS_EXIT = {401: UNAUTHENTICATED, 403: FORBIDDEN, 404: NOT_FOUND, 409: CONFLICT, 429: RATE_LIMITED}
_OPEN = "it may have been carried out; look before you send it again: {lister}"
_BY_STATUS = {
    401: _CHECK_KEY,
    402: f"the service wants to be paid for this, or another plan; see the plan: {TRADE} account show",
    403: f"use a key with the scope full-access, or another plan; see the plan: {TRADE} account show",
    404: "see what there is: {lister}",
    409: "look at its present state: {lister}",
    429: f"{{wait}} and run it again; see the limits: {TRADE} account usage",
}
_BY_CLASS = {
    3: f"redirects are not followed: {_CHECK_URL}",
    4: "nothing was changed; correct the value and run it again (--help shows what is accepted)",
    5: "the service has a problem; run it again in a while",
}


def _exit_code(status: int) -> int:
    return _STATUS_EXIT.get(status, INVALID if 400 <= status < 500 else SERVER)


def _status_problem(error: Any) -> Problem:
    status: int = error.status
    code = one_line(error.service_code, 80) if error.service_code else f"http_{status}"
    if error.response is None:  # held back here
        code = error.code
    message = one_line(error.message or f"the service answered {status}")
    return Problem(_exit_code(status), code, message, _status_hint(error), status, status in (429, 503))


def _status_hint(error: Any) -> str:
    status: int = error.status
    if error.code == "invalid_signature":
        return _signature_hint(error)
    form = _OPEN if error.outcome == "unknown" else _BY_STATUS.get(status) or _BY_CLASS[min(status // 100, 5)]
    if form == _CHECK_KEY and _market(error.url):
        return "the service wants the API key of the account as well: add --send-api-key"
    if status == 404 and error.service_code is None and not _market(error.url):
        return _CHECK_URL
    if status == 404 and not any(f"/v1/{noun}" in error.url for noun in _NOUNS) and not _market(error.url):
        return f"there are {_PATHS}; for examples: {TRADE} api --help"
    wait = f"wait {error.retry_after:.0f} s" if status == 429 and error.retry_after is not None else "wait a minute"
    return form.replace("{wait}", wait).replace("{lister}", _lister(error.url, error.method if status == 404 else ""))


def _signature_hint(error: InvalidSignatureError) -> str:
    """How to connect a wallet with another text than the one that was signed."""
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
    from tradesdk import AmbiguousOutcomeError, APIConnectionError, APIResponseError, APITimeoutError

    message = one_line(str(error))
    unknown = error.outcome == "unknown"
    address = "TRADE_MARKET_BASE_URL or TRADE_BASE_URL" if _market(error.url) else "TRADE_BASE_URL or --base-url"
    if unknown or isinstance(error, AmbiguousOutcomeError):
        hint = _OPEN.replace("{lister}", _lister(error.url))
    elif error.code in ("connection_refused", "unknown_host"):
        start = "start the service, or " if error.code == "connection_refused" else ""
        hint = f"{start}correct {address}; see where it is set: {TRADE} config list --sources"
    elif isinstance(error, APIConnectionError):
        hint = error.hint if error.code == "proxy_failed" else f"check the network and the base URL ({address})"
    else:
        hint = _CHECK_URL
    if isinstance(error, AmbiguousOutcomeError):
        return Problem(OTHER, "outcome_unknown", message, hint)
    if isinstance(error, APIConnectionError):
        late = isinstance(error, APITimeoutError)
        retryable = (late or error.temporary) and not unknown
        return Problem(NETWORK, "timeout" if late else "network", message, hint, retryable=retryable)
    if isinstance(error, APIResponseError):
        return Problem(SERVER, "bad_response", message, hint)
    return Problem(OTHER, "error", message, hint)


def _of_fleet(code: str, hint: str) -> str:
    """A hint about the server of a fleet in commands."""
    if code in ("ledger_unreachable", "fleet_unreachable"):
        return f"{hint}; see where its URL is set: {TRADE} config list --sources"
    return hint


def _lister(url: str, method: str = "") -> str:
    """The command that shows the things a URL is about; with a `method`, those that its body names as well."""
    if _market(url):
        return f"{TRADE} market tokens --limit 500"
    if method == "POST" and url.endswith("/v1/agents"):
        return f"{TRADE} wallets list"
    wallets = f"; {TRADE} wallets list" if method == "PATCH" else ""  # the agent, or the wallet that it would get
    noun = next((noun for noun in _NOUNS if f"/v1/{noun}" in url), None)
    return f"{TRADE} {noun} list{wallets}" if noun else f"{TRADE} account show"


def _market(url: str) -> bool:
    """Whether it is a URL of the paid market data."""
    return url.rpartition("/v1/")[2].startswith(
        ("token-", "signal-history", "top-performers", "aggregate-metrics", "supported-tokens")
    )


_RETRYABLE = ("in_progress", "signer_too_slow", "ledger_locked", "ledger_unreachable")
_NOT_TYPEABLE = Decimal(10) ** 12
"""Dollars that no --max-price takes."""
_PAYMENT_HINTS = {
    "no_signer": "export TRADE_WALLET_KEY, or make a wallet: {trade} pay key new",
    "no_such_payment": "see what there is: {trade} pay history",
    "upfront_flow": (
        "export TRADE_ALLOW_UPFRONT=1 (or {trade} config set allow_upfront true) to pay such a service; it may take "
        "the money and answer with an error, which then leaves the payment in doubt"
    ),
    "purchase_secret_changed": (
        "take the same wallet or TRADE_PURCHASE_SECRET as before; or continue with this one: "
        "{trade} pay key accept-secret; names that only another ledger has can then be paid for once more"
    ),
    "in_progress": "wait for that call to end, then look again",
}
"""By code, where the SDK's hint is in words of Python."""
_HINTS_OF_A_PAYMENT = {
    "in_progress": "wait for that call to end, then look again: {trade} pay show {payment}",
    "unresolved_payment": "look at it: {trade} pay show {payment}; {again}",
    "already_delivered": "look at it: {trade} pay show {payment}; {again}",
    "not_live": "look at it: {trade} pay show {payment}; what it was for can be bought again",
    "paid_undelivered": "see what came: {trade} pay show {payment}; {again}",
    "taken_elsewhere": "its answer is where it was paid for; {again}",
    "payment_rejected": (
        "see it: {trade} pay show {payment}; until {until} UTC the same command resends the same payment"
    ),
}
"""The same where there is one: `payment` is its id, `until` when it expires."""


def payment_problem(error: PaymentError) -> Problem:
    """What a payment's error means."""
    from tradesdk import (
        LedgerError,
        PaymentOutcomeUnknownError,
        PaymentRefusedError,
        PaymentRejectedError,
        PaymentUndeliveredError,
    )

    payment, code, hint = error.payment, OTHER, _payment_hint(error)
    if isinstance(error, (LedgerError, PaymentOutcomeUnknownError)):
        code = OUTCOME_UNKNOWN
        if isinstance(error, LedgerError) and payment is None:
            code = NETWORK if error.code == "ledger_unreachable" else CONFIG
        over = error.code == "time_is_up"
        hint = _of_fleet(error.code, error.hint) if payment is None else _unknown(payment, over=over)
    elif isinstance(error, PaymentUndeliveredError):
        code = OUTCOME_UNKNOWN
    elif isinstance(error, PaymentRejectedError):
        code = REJECTED
    elif isinstance(error, PaymentRefusedError):
        code = NOT_FOUND if error.code in ("no_such_payment", "unknown_token") else REFUSED
    about: dict[str, Any] = {"charged": error.charged, "payment": None if payment is None else of_error(payment)}
    said = one_line(error.reason, 80) if code == REJECTED and error.reason else error.code
    retryable = error.code in _RETRYABLE
    return Problem(code, said, one_line(error.message), one_line(hint) or None, retryable=retryable, about=about)


def _payment_hint(error: PaymentError) -> str:
    """What to do about it; what the details of the error know comes first."""
    code, payment, details = error.code, error.payment, error.details
    if isinstance(details, BudgetDetails):
        return _budget(details)
    if isinstance(details, TokenDetails):
        meant = f"did you mean {' or '.join(details.suggestions)}? " if details.suggestions else ""
        tokens = f"{TRADE} market tokens --limit 500"
        return f"{meant}a token that is not listed is bought by its address; see the list: {tokens}"
    earlier = payment is not None and not payment.is_unsent  # else it is this call's own
    if isinstance(details, PriceDetails | RecipientDetails) and payment is not None and earlier:
        return f"{TRADE} pay resume {payment.id} resends it anyway; or wait until it has expired"
    if isinstance(details, PriceDetails) and details.price < _NOT_TYPEABLE:
        return f"to pay that anyway: --max-price {plain_dollars(details.price)}"
    if isinstance(details, RecipientDetails):
        return f"ask the service whether that is right; if it is: {TRADE} pay trust {details.address}"
    if code == "insecure_url":
        return f"{error.hint}: TRADE_MARKET_BASE_URL"
    if isinstance(details, WalletDetails):
        again = "then run the same command again"
        if details.open_at is not None:
            shown = f"{TRADE} pay show {details.tried_by}"
            again = f"then run the command of that payment again ({shown}), or any after {details.open_at:%H:%M:%S} UTC"
        return f"{_fund(details.address, details.service)}; {again}"
    if payment is not None and code == "insufficient_funds":
        return f"{_fund(payment.payer, payment.url)}; then run the same command again"
    if payment is not None and code == "not_unresolved":
        return f"{TRADE} pay {'resume' if payment.stage.value == 'sent' else 'show'} {payment.id}"
    if code == "already_delivered" and payment is not None and payment.purchase is None:
        code = "not_live"
    if payment is None or code not in _HINTS_OF_A_PAYMENT:
        return _PAYMENT_HINTS.get(code, error.hint)
    again, until = _once_more(payment, code), f"{payment.expires_at:%H:%M:%S}"
    return _HINTS_OF_A_PAYMENT[code].format(trade=TRADE, payment=payment.id, until=until, again=again)


def _fund(wallet: str, service: str) -> str:
    add = f"add USDC on Base to {wallet}; no ETH is needed, as the service pays for gas"
    if not is_loopback(urlsplit(service).hostname or ""):
        return add
    # Nobody should send real money to a mock's payer.
    return f"on a mock, give it play money: {TRADE} mock payments set-balance {wallet} 10; elsewhere {add}"


def _once_more(payment: Payment, code: str) -> str:
    """How to buy again what was paid for and did not arrive: another purchase has another name."""
    if payment.purchase is not None:
        return "to buy it again, give it another --purchase name"
    mark = f"{TRADE} pay reconcile --mark paid {payment.id}"
    if code == "unresolved_payment":
        other = "" if payment.charged is True else ", or --mark unpaid"
        return f"say what it was: {mark}{other}; after that it can be bought again"
    return f"to buy it again: add --purchase NAME, or first {mark}; 10 minutes after the first try the command does"


def with_payment(problem: Problem, error: APIError) -> Problem:
    """The problem of an ordinary error that followed a payment."""
    payment = error.payment
    if payment is None:
        return problem
    amount = dollars(payment.amount_usd)
    if payment.charged is False:
        told = f"nothing was paid ({payment.id})"
    elif payment.charged is True:
        told = f"{amount} was paid: {TRADE} pay show {payment.id}"
    else:
        doubt = f"{amount} was sent, and stays held, as nothing proves that it was not taken"
        told = f"{doubt}: {TRADE} pay show {payment.id}"
    hint = f"{told}; {problem.hint}" if problem.hint else told
    return replace(problem, hint=hint, about={"charged": payment.charged, "payment": of_error(payment)})


def _unknown(payment: Payment, *, over: bool = False) -> str:
    """What to do about a payment of which nobody knows whether it was taken."""
    mark = f"look at the wallet, then {TRADE} pay reconcile --mark paid {payment.id}, or --mark unpaid"
    if payment.stage.value == "taken":
        return mark
    until = "" if payment.purchase is not None else "; 10 minutes after its first signing it pays anew"
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
    """How to raise the budget that is in the way, where it was set. --max-price only ever makes one stricter."""
    from tradesdk import Budget, TradeError

    try:
        of_environment = Budget.from_environment().dollars()[name]
    except TradeError:
        of_environment = None
    if amount is not None and of_environment == amount:
        return f"to raise it: TRADE_BUDGET_{name.upper()} in the environment, which is {plain_dollars(amount)}"
    return f"to raise it, for it is kept in the ledger: {TRADE} pay budget set --{name.replace('_', '-')} USD"


def of_error(payment: Payment) -> dict[str, Any]:
    """What an error says of its payment."""
    return {
        "id": payment.id,
        "stage": payment.stage.value,
        "amount_usd": plain_dollars(payment.amount_usd),
        "nonce": payment.nonce,
        "valid_before": payment.valid_before,
    }
