"""What each error code means, and what to do next in Python. An error that knows more has its own hint."""

from __future__ import annotations

import errno
import os
import re

_FOREIGN_OFFER = "this client pays only with USDC on Base; check whether the service has changed how it is paid"
_BROKEN_OFFER = "the service's offer is not valid; report it to the service"
_ANOTHER_NAME = "to buy it again, give the purchase another name with purchase="
_SAME_CALL = "make the same call again: it continues this payment, which is taken only once"
_TRY_LATER = "the service has a problem; try again in a while"
_SIGNER = "check the signer; nothing was sent"

UNKNOWN_OUTCOME = "it may have been carried out; list or get it before you make the call again"
"""The hint for a request that may have been carried out, instead of its code's."""

HINTS: dict[str, str] = {
    # how the SDK is used
    "invalid_state": "make a new client or stream, and use it in one process, event loop and task",
    "invalid_argument": "correct the argument that the message names; nothing was sent",
    # settings
    "invalid_setting": "correct the setting that the message names; nothing was sent",
    "missing_package": "install the package that the message names, with the same pip as tradesdk",
    "invalid_base_url": "set TRADE_BASE_URL or pass base_url=; it looks like https://api.example.com",
    "invalid_api_key": "set TRADE_API_KEY or pass api_key=; keys are made in the dashboard, Settings, API Keys",
    "invalid_profile": "pass the name of a saved profile as profile=, or set TRADE_PROFILE to it",
    "invalid_fleet_url": "pass postgresql://USER@HOST:5432/DATABASE",
    "invalid_budget": "write dollars, such as 0.50, or unset the variable",
    "invalid_private_key": "pass 64 hexadecimal digits, with or without 0x in front; an address is not a private key",
    "invalid_signer": "correct the signer: it needs an address, and a signature of 65 bytes; LocalSigner is one",
    "invalid_keystore": "check the keystore's path, or make one: create_keystore(path, password)",
    "keystore_exists": "choose another file: a keystore is never overwritten",
    "keystore_exposed": "run chmod 600 on the file; if others may have read it, move the money to a new wallet",
    "keystore_damaged": "put your copy of the file back",
    "keystore_without_address": "open it with its password: LocalSigner.from_keystore(path, password).address",
    "wrong_password": "call again with the password of that file",
    # requests
    "connection_failed": "check the network and the base URL (TRADE_BASE_URL or base_url=), and make the call again",
    "connection_refused": "start the service there, or correct the base URL (TRADE_BASE_URL or base_url=)",
    "unknown_host": "correct the host in the base URL (TRADE_BASE_URL or base_url=)",
    "certificate_refused": "check the base URL, this machine's certificates (SSL_CERT_FILE) and its clock",
    "proxy_failed": "correct or unset the variable of the proxy, or list the service's host in NO_PROXY",
    "too_many_files": "close clients and files that are not used any more, or raise the limit: ulimit -n 4096",
    "timeout": "make the call again, with a longer timeout= or deadline= if the service is slow",
    "invalid_request": "correct the value that the message names, and try again; nothing was changed",
    "invalid_signature": "sign exactly the text that the dashboard shows (personal_sign), with the key of that address",
    "unauthorized": "check TRADE_API_KEY or api_key=; keys are made in the dashboard, Settings, API Keys",
    "forbidden": "use a key with the scope full-access, or another plan",
    "not_found": "check the id; list() of the same resource shows what there is",
    "conflict": "get it again and look at its status; an active agent is stopped in the dashboard, then deleted",
    "validation_error": "correct the value that the message names, and try again; nothing was changed",
    "rate_limited": "wait until error.retry_at, and make the call again; client.account.usage() shows the limits",
    "internal_error": _TRY_LATER,
    "bad_gateway": _TRY_LATER,
    "service_unavailable": _TRY_LATER,
    "unexpected_status": "if error.status is 500 or more, try again later; else check the base URL, and see error.body",
    "invalid_response": "check the base URL (TRADE_BASE_URL or base_url=); the response is error.response",
    "pagination_loop": "report it to the service; to stop earlier, pass max_items=",
    "ambiguous_outcome": "look at the ids in error.candidates, or list, before you make the call again",
    # streams
    "not_a_stream": "check the base URL (TRADE_BASE_URL or base_url=); the response is error.response",
    "stream_lost": "open the stream again later, or with a higher max_reconnects=; a checkpoint= continues it",
    "stream_ended": "do not open it again: the service has ended it; client.signals.history() has what it sent",
    "checkpoint_in_use": "end the other stream, or pass another file as checkpoint=",
    "checkpoint_damaged": "remove the file, or pass another one as checkpoint=",
    "checkpoint_mismatch": "pass another file as checkpoint=: each service, key and chain needs its own",
    "checkpoint_failed": "check the file and its folder, or pass another file as checkpoint=",
    # payments refused by budgets
    "no_budget": 'set a budget: budget=Budget(per_day="5"), TRADE_BUDGET_PER_DAY=5, or max_price= for one call',
    "over_budget": "wait until error.details.room_at, or raise that budget",
    "over_total": "raise max_total= or that budget to continue",
    # payments refused because of the offer
    "unsupported_payment": "check the base URL; if it is correct, this service is not paid by x402 version 2",
    "malformed_offer": "check the base URL; if it is correct, this service cannot be paid",
    "offer_too_large": "check the base URL; if it is correct, this service cannot be paid",
    "no_offer": _BROKEN_OFFER,
    "unsupported_scheme": _FOREIGN_OFFER,
    "unsupported_network": _FOREIGN_OFFER,
    "unsupported_asset": _FOREIGN_OFFER,
    "unsupported_domain": _FOREIGN_OFFER,
    "unsupported_method": _FOREIGN_OFFER,
    "unsupported_flow": _FOREIGN_OFFER,
    "upfront_flow": "set MarketClient(allow_upfront=True) to pay such a service; it may take the money and answer with "
    "an error, which then leaves the payment in doubt",
    "foreign_resource": "check the base URL; if it is correct, report the offer to the service",
    "bad_amount": _BROKEN_OFFER,
    "over_price": "to pay that anyway, pass error.details.price as max_price=",
    "bad_recipient": _BROKEN_OFFER,
    "recipient_is_payer": _BROKEN_OFFER,
    "recipient_changed": "ask the service whether error.details.address is correct; then pass it to payments.trust()",
    "bad_validity": _BROKEN_OFFER,
    "short_validity": "ask the service for a longer maxTimeoutSeconds",
    "insecure_url": "set the base URL of the market data to one that starts with https://",
    "clock_difference": "correct this machine's clock",
    "unknown_token": "pass a listed symbol (client.supported_tokens()), or the token's address",
    # payments refused because of the signer
    "no_signer": "pass signer=LocalSigner.from_keystore(…), or set TRADE_WALLET_KEY",
    "signer_failed": _SIGNER,
    "signer_too_slow": f"{_SIGNER}; then make the call again",
    "no_purchase_secret": "set TRADE_PURCHASE_SECRET to 64 random hexadecimal digits, the same on every machine",
    "purchase_secret_changed": "use the same key or TRADE_PURCHASE_SECRET as before",
    # payments refused because of this or an earlier payment
    "in_progress": "wait for the other call to end, then make this one again",
    "unresolved_payment": f"check the wallet and say what it was: client.payments.mark(id, paid=…); {_ANOTHER_NAME}",
    "purchase_changed": "ask for the same data as then, or give this purchase another name with purchase=",
    "already_delivered": f"look at it: client.payments.get(error.payment.id); {_ANOTHER_NAME}",
    "not_live": "make the call again",
    "no_such_payment": "list them: client.payments.list()",
    "not_unresolved": "look at it: client.payments.get(error.payment.id)",
    # payments refused by the service
    "insufficient_funds": "add USDC on Base to the wallet; then make this call or that of error.details.tried_by again",
    "signature_rejected": "check that the signer signs for error.payment.payer, and according to EIP-712",
    "validity_rejected": "correct this machine's clock",
    "payment_rejected": "see error.reason; the same call resends the same payment while it is valid",
    # payments that were sent
    "outcome_unknown": _SAME_CALL,
    "suspect_paid": "check the wallet and mark the payment: client.payments.mark(error.payment.id, paid=…)",
    "time_is_up": _SAME_CALL,
    "paid_undelivered": f"contact the service with error.payment.nonce; {_ANOTHER_NAME}",
    "taken_elsewhere": f"look in the ledger that paid for it; {_ANOTHER_NAME}",
    # the ledger
    "ledger_locked": "end the program that holds the ledger, and make the call again",
    "ledger_read_only": "make the ledger and its folder writable for you",
    "ledger_damaged": "put your copy of the ledger back",
    "ledger_lost": "put the ledger back, and open it again",
    "ledger_version": "another release wrote the ledger: use that release, or set TRADE_HOME to another folder",
    "ledger_exposed": "run chmod 600 on the ledger: it holds signed payments",
    "ledger_unreachable": "check that the PostgreSQL server runs and can be reached, and make the call again",
    "ledger_denied": "check user, password and database of the PostgreSQL server, and the rights in docs/fleet.md",
    "ledger_not_durable": "set fsync and synchronous_commit of the PostgreSQL server to on",
    "ledger_failed": "check the ledger's disk and its free space, and make the call again",
    # a fleet
    "fleet_unreachable": "check that the PostgreSQL server runs and can be reached",
    "fleet_denied": "check user, password and database of the PostgreSQL server, and the rights in docs/fleet.md",
    "fleet_lost": "put a backup back; or, if there never were tables, make them: tradesdk.fleet.create_tables()",
    "fleet_unusable": "use a server that is PostgreSQL 14 or newer, writable, in UTF8, and syncs what it commits",
    "fleet_failed": "see the log of the PostgreSQL server",
}
"""One for each `ErrorCode`."""

_OF_REQUESTS = (
    (404, "GET", "/v1/(?!account|agents|positions|signals|trades|wallets)[^/]*", "check the path"),
    (409, "POST", "/v1/wallets$", "it is connected already; client.wallets.list() shows it"),
    (404, "POST", "/v1/agents$", "check wallet_id; client.wallets.list() shows what there is"),
    (
        404,
        "PATCH",
        "/v1/agents/[^/]+$",
        "check the id of the agent, and wallet_id; client.agents.list() and client.wallets.list() show what there is",
    ),
)
"""Where the code's hint would be of another case."""


def of_request(status: int, method: str, url: str) -> str:
    """The hint for a status of a request; empty if it is its code's."""
    return next((one[3] for one in _OF_REQUESTS if one[:2] == (status, method) and re.search(one[2], url)), "")


MEANINGS: dict[str, str] = {
    "invalid_state": "a client or stream is closed, or belongs to another task, event loop or process",
    "invalid_argument": "an argument is wrong; nothing was sent",
    "invalid_setting": "a setting is missing or unusable",
    "missing_package": "an optional package is not installed",
    "invalid_base_url": "the base URL is missing or unusable",
    "invalid_api_key": "the API key is missing or unusable",
    "invalid_profile": "the profile is not saved, or cannot be read",
    "invalid_fleet_url": "the URL of the fleet is not a PostgreSQL URL",
    "invalid_budget": "a budget in the environment is not an amount",
    "invalid_private_key": "the private key is missing or unusable",
    "invalid_signer": "the signer gave no usable address or signature",
    "invalid_keystore": "the keystore is missing, or cannot be read, written or opened",
    "keystore_exists": "the file exists, and is never overwritten",
    "keystore_exposed": "other users may read the keystore",
    "keystore_damaged": "the file is damaged, or not a keystore",
    "keystore_without_address": "the keystore does not name its address",
    "wrong_password": "the password is wrong, or the keystore is damaged",
    "connection_failed": "no complete answer came",
    "connection_refused": "nothing listens at the base URL",
    "unknown_host": "the host of the base URL does not exist",
    "certificate_refused": "the service's certificate was refused",
    "proxy_failed": "the proxy cannot be reached, or refused",
    "too_many_files": "too many files are open",
    "timeout": "the service did not answer in time",
    "invalid_request": "the service cannot read the request",
    "invalid_signature": "the signature was not made by the wallet's address",
    "unauthorized": "the API key is missing, wrong, expired or revoked",
    "forbidden": "the key's scope or the plan does not allow it",
    "not_found": "it does not exist, or is not yours",
    "conflict": "its current state does not allow it",
    "validation_error": "the service refused a value",
    "rate_limited": "too many requests, and the wait is too long",
    "internal_error": "the service has a problem",
    "bad_gateway": "something behind the service failed",
    "service_unavailable": "the service is not available",
    "unexpected_status": "the service answered with a status that is not documented",
    "invalid_response": "the response cannot be read",
    "pagination_loop": "the service repeats a page",
    "ambiguous_outcome": "it may have been created",
    "not_a_stream": "the response is not a stream of events",
    "stream_lost": "the stream was not resumed in time",
    "stream_ended": "the service ended the stream for good",
    "checkpoint_in_use": "another stream uses the checkpoint",
    "checkpoint_damaged": "the file is damaged, or not a checkpoint",
    "checkpoint_mismatch": "the checkpoint is of another service, key or chain",
    "checkpoint_failed": "the checkpoint cannot be read or written",
    "no_budget": "no budget is set; nothing was signed",
    "over_budget": "the budgets do not leave enough; nothing was signed",
    "over_total": "the run's limit does not leave enough; nothing was signed",
    "unsupported_payment": "the service does not ask for a payment by x402 version 2; nothing was signed",
    "malformed_offer": "the service's offer cannot be read; nothing was signed",
    "offer_too_large": "the service's offer is too large; nothing was signed",
    "no_offer": "the offer has no way to pay; nothing was signed",
    "unsupported_scheme": "the offer's scheme is not supported; nothing was signed",
    "unsupported_network": "the offer is for another network; nothing was signed",
    "unsupported_asset": "the offer is for another currency; nothing was signed",
    "unsupported_domain": "the offer names another token contract; nothing was signed",
    "unsupported_method": "the offer's transfer method is not supported; nothing was signed",
    "unsupported_flow": "the offer's way to settle is not supported; nothing was signed",
    "upfront_flow": "the service would take the money before it answers; nothing was signed",
    "foreign_resource": "the offer is for another resource; nothing was signed",
    "bad_amount": "the price is not a valid amount; nothing was signed",
    "over_price": "it costs more than is allowed; nothing was signed",
    "bad_recipient": "the recipient cannot be paid; nothing was signed",
    "recipient_is_payer": "the recipient is the paying wallet; nothing was signed",
    "recipient_changed": "the recipient has changed; nothing was signed",
    "bad_validity": "the offer's validity is not valid; nothing was signed",
    "short_validity": "the offer's validity is too short; nothing was signed",
    "insecure_url": "the URL is not https; nothing was signed",
    "clock_difference": "this machine's clock is wrong; nothing was signed",
    "unknown_token": "there is no market data for a token; nothing was signed",
    "no_signer": "there is no wallet to pay with; nothing was signed",
    "signer_failed": "the signer failed; nothing was sent",
    "signer_too_slow": "the wallet signed too late; nothing was sent",
    "no_purchase_secret": "the purchase secret is missing; nothing was signed",
    "purchase_secret_changed": "the purchase secret has changed; nothing was signed",
    "in_progress": "the same purchase is in progress; nothing was signed",
    "unresolved_payment": "an earlier payment was probably taken, without an answer; nothing was signed",
    "purchase_changed": "that purchase name was used for something else; nothing was signed",
    "already_delivered": "it was paid and delivered before, and the answer is no longer kept",
    "not_live": "that payment can no longer be taken",
    "no_such_payment": "there is no such payment",
    "not_unresolved": "there is nothing to resend or to mark",
    "insufficient_funds": "the wallet has too little USDC",
    "signature_rejected": "the service rejected the signature",
    "validity_rejected": "the service rejected the validity: too early or too late",
    "payment_rejected": "the service rejected the payment; its amount stays held until it is proven free",
    "outcome_unknown": "it may have been paid",
    "suspect_paid": "it was probably paid",
    "time_is_up": "it may have been paid, and it is too late to resend it",
    "paid_undelivered": "it was paid, and no usable answer came",
    "taken_elsewhere": "that name was paid for on another machine",
    "ledger_locked": "another program has locked the ledger; nothing was sent",
    "ledger_read_only": "the ledger cannot be written; nothing was sent",
    "ledger_damaged": "the ledger is damaged, or not a ledger; nothing was sent",
    "ledger_lost": "the ledger is missing or empty, and was not before; nothing was sent",
    "ledger_version": "another release wrote the ledger; nothing was sent",
    "ledger_exposed": "other users may read the ledger; nothing was sent",
    "ledger_unreachable": "the ledger cannot be reached; nothing was sent",
    "ledger_denied": "the ledger's server refuses; nothing was sent",
    "ledger_not_durable": "the ledger's server may lose acknowledged writes; nothing was sent",
    "ledger_failed": "the ledger cannot be read or written; nothing was sent",
    "fleet_unreachable": "the fleet's server cannot be reached",
    "fleet_denied": "the fleet's server refuses",
    "fleet_lost": "the fleet's server has no tables of tradesdk",
    "fleet_unusable": "the fleet's server cannot be used",
    "fleet_failed": "the fleet's server failed",
}
"""What each `ErrorCode` means in general; never text from a service."""


def no_attribute(owner: object, name: str) -> AttributeError:
    """The error for a name that an object does not have. It lists names that resemble it."""
    error = AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    known = [one for one in dir(owner) if not one.startswith("_")]
    alike = [one for one in known if len(name) > 2 and not name.startswith("_") and (name in one or one in name)]
    if alike:
        error.add_note(f"hint: it has {', '.join(alike)}")
    return error


def too_many_files(error: BaseException) -> bool:
    """Whether this process or the whole system has too many open files."""
    return getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or (
        isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error)  # a library written in C
    )


def of_file(error: OSError, usual: str = "") -> str:
    """The hint for a file that the system can't open or write: `usual`, unless the cause is not the file."""
    return HINTS["too_many_files"] if too_many_files(error) else usual
