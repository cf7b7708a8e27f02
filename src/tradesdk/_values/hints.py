"""What to do next, by an error's code, in words of a Python user. An error that knows more has a hint of its own."""

from __future__ import annotations

import errno
import os

_FOREIGN_OFFER = "this client pays only with USDC on Base; check whether the service has changed how it is paid"
_BROKEN_OFFER = "the service's offer is not valid; report it to the service"
_ANOTHER_NAME = "to buy it again, give the purchase another name with purchase="
_SAME_CALL = "make the same call again: it continues this payment, which is taken only once"
_TRY_LATER = "the service has a problem; try again in a while"
_SIGNER = "check the signer; nothing was sent"

UNKNOWN_OUTCOME = "it may have been carried out; list or get it before you make the call again"
"""In place of a code's hint, for a request that may have been carried out."""

HINTS: dict[str, str] = {
    # how the SDK is used
    "invalid_state": "make a new client or stream where you use it: in this process, event loop or task",
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
    "conflict": "get it again and look at its status; for example, stop an agent before you delete it",
    "validation_error": "correct the value that the message names, and try again; nothing was changed",
    "rate_limited": "wait until error.retry_at, and make the call again; client.account.usage() shows the limits",
    "internal_error": _TRY_LATER,
    "bad_gateway": _TRY_LATER,
    "service_unavailable": _TRY_LATER,
    "unexpected_status": "if error.status is 500 or more, try again later; else check the base URL, and see error.body",
    "invalid_response": "check the base URL (TRADE_BASE_URL or base_url=); the answer is error.response",
    "pagination_loop": "report it to the service; to stop earlier, pass max_items=",
    "ambiguous_outcome": "look at the ids in error.candidates, or list, before you make the call again",
    # streams
    "not_a_stream": "check the base URL (TRADE_BASE_URL or base_url=); the answer is error.response",
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
    "fleet_lost": "put a backup back, or make the tables: tradesdk.fleet.create_tables()",
    "fleet_unusable": "use a server that is PostgreSQL 14 or newer, writable, in UTF8, and syncs what it commits",
    "fleet_failed": "see the log of the PostgreSQL server",
}
"""One for each `ErrorCode`."""


def too_many_files(error: BaseException) -> bool:
    """Whether the system opens no more files for this process or at all."""
    return getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or (
        isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error)  # a library written in C
    )


def of_file(error: OSError, usual: str = "") -> str:
    """The hint for a file that the system does not open or write: `usual`, unless the file is not the problem."""
    return HINTS["too_many_files"] if too_many_files(error) else usual
