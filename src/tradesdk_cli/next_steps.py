"""The next step for each code of an SDK error: in `trade`, and for a model at the MCP server.

`error.hint` of the SDK has the one in Python. `{trade}` and `{login}` are beginnings of commands, other names in braces
are values of the error (`explain`).
"""

from __future__ import annotations

CHECK_URL = "does the base URL point at the service? ({address})"
MOCK_KEYS = (
    "the mock takes keys like mock_full_NAME and mock_read_NAME, and those of its own making; "
    "unset TRADE_API_KEY to use its usual one"
)
UNKNOWN_OUTCOME = "it may have been carried out; look before you send it again: {lister}"
_REACH = "check the network and the base URL ({address})"
_SOURCES = "see where it is set: {trade} config list --sources"
_CORRECT = "nothing was changed; correct the value and run it again (--help shows what is accepted)"
_LATER = "the service has a problem; run it again in a while"
_PLAN = "see the plan: {trade} account show"
_KEYSTORE = "--wallet FILE or TRADE_KEYSTORE says which keystore it is; to make one: {trade} pay key new"
_SERVER = "{python}; see where its URL is set: {trade} config list --sources"
_LOOK = "look at it: {look}"
_SAME_COMMAND = "run the same command again: it continues this payment, which is taken only once"

BY_STATUS = {
    3: f"redirects are not followed: {CHECK_URL}",
    4: _CORRECT,
    5: _LATER,
    402: f"the service wants to be paid for this, or another plan; {_PLAN}",
}
"""For a status without a code: by the status, or its first digit."""

IN_TRADE: dict[str, str | None] = {
    # as in Python
    **dict.fromkeys(
        (
            *("missing_package", "invalid_budget", "keystore_exposed", "keystore_damaged", "proxy_failed"),
            *("too_many_files", "unsupported_payment", "malformed_offer", "offer_too_large", "no_offer"),
            *("unsupported_scheme", "unsupported_network", "unsupported_asset", "unsupported_domain"),
            *("unsupported_method", "unsupported_flow", "foreign_resource", "bad_amount"),
            *("bad_recipient", "recipient_is_payer", "bad_validity", "short_validity", "clock_difference"),
            *("signer_failed", "no_purchase_secret", "validity_rejected", "fleet_denied", "fleet_unusable"),
            *("fleet_failed", "ledger_locked", "ledger_read_only", "ledger_damaged", "ledger_lost", "ledger_version"),
            *("ledger_exposed", "ledger_denied", "ledger_not_durable", "ledger_failed"),
        )
    ),
    # use and settings
    "invalid_state": "run it again, with -v if it fails again",
    "invalid_argument": "nothing was sent; --help shows what is accepted",
    "invalid_setting": "trade help settings",
    "invalid_base_url": "correct TRADE_BASE_URL or --base-url; it looks like https://api.example.com",
    "invalid_fleet_url": "correct TRADE_FLEET; it looks like postgresql://USER@HOST:5432/DATABASE",
    "invalid_api_key": "correct TRADE_API_KEY, or save another key: {login}",
    "invalid_profile": "see the profiles: {trade} config list",
    "invalid_private_key": "it is 64 hexadecimal digits, with or without 0x in front; an address is not one",
    "invalid_signer": _KEYSTORE,
    "invalid_keystore": _KEYSTORE,
    "keystore_exists": "choose another file: --wallet FILE",
    "keystore_without_address": _KEYSTORE,
    "wrong_password": (
        "run it again with the password of that file; --wallet FILE or TRADE_KEYSTORE names another one"
    ),
    # requests
    "connection_failed": _REACH,
    "connection_refused": f"start the service, or correct {{address}}; {_SOURCES}",
    "unknown_host": f"correct {{address}}; {_SOURCES}",
    "certificate_refused": _REACH,
    "timeout": _REACH,
    "invalid_request": _CORRECT,
    "invalid_signature": _CORRECT,
    "validation_error": _CORRECT,
    "unauthorized": (
        "check TRADE_API_KEY, or log in again ({login}): keys are made in the dashboard, Settings, API Keys"
    ),
    "forbidden": f"use a key with the scope full-access, or another plan; {_PLAN}",
    "not_found": "see what there is: {lister}",
    "conflict": "look at its present state: {lister}",
    "rate_limited": "wait {wait} and run it again; see the limits: {trade} account usage",
    "internal_error": _LATER,
    "bad_gateway": _LATER,
    "service_unavailable": _LATER,
    "unexpected_status": CHECK_URL,
    "invalid_response": CHECK_URL,
    "pagination_loop": CHECK_URL,
    "ambiguous_outcome": UNKNOWN_OUTCOME,
    # streams
    "not_a_stream": CHECK_URL,
    "stream_lost": "run it again later; --since last continues this run",
    "stream_ended": "its signals are in the history: {trade} signals history --chain {chain}",
    "checkpoint_in_use": "end the other run, or leave --since last out",
    "checkpoint_damaged": "remove the file, or leave --since last out",
    "checkpoint_mismatch": "leave --since last out: each service, key and chain has its own file",
    "checkpoint_failed": "check the file and its folder, or leave --since last out",
    # payments
    "no_budget": "set a budget: {trade} pay budget set --per-day 5; or --max-price for one command",
    "over_budget": "see what is left: {trade} pay budget",
    "over_total": "raise the limit of the run, or buy less in it",
    "over_price": "to pay more, give a higher --max-price",
    "recipient_changed": "ask the service whether that is right; if it is: {trade} pay trust ADDRESS",
    "upfront_flow": (
        "export TRADE_ALLOW_UPFRONT=1 to pay such a service; it may take the money and answer with an error, which "
        "then leaves the payment in doubt"
    ),
    "insecure_url": "{python}: TRADE_MARKET_BASE_URL",
    "unknown_token": (
        "a token that is not listed is bought by its address; see the list: {trade} market tokens --limit 500"
    ),
    "no_signer": "export TRADE_WALLET_KEY, or make a wallet: {trade} pay key new",
    "signer_too_slow": "run it again",
    "purchase_secret_changed": (
        "take the same wallet or TRADE_PURCHASE_SECRET as before; or continue with this one: "
        "{trade} pay key accept-secret; purchases that only another ledger has can then be paid for again"
    ),
    "in_progress": "wait for that call to end, then look again: {look}",
    "unresolved_payment": f"{_LOOK}; {{again}}",
    "purchase_changed": "ask for the same data as then, with the same wallet, or give another --purchase name",
    "already_delivered": f"{_LOOK}; {{again}}",
    "not_live": f"{_LOOK}; the same data can be bought again",
    "no_such_payment": "see what there is: {trade} pay history",
    "not_unresolved": "{look}",
    "insufficient_funds": "{fund}; then run the same command again",
    "signature_rejected": (
        "check that the wallet's key signs for its own address ({trade} pay key address) and that it has no code "
        "({trade} doctor, with TRADE_RPC_URL)"
    ),
    "payment_rejected": "see it: {look}; until {until} the same command resends the same payment",
    "outcome_unknown": _SAME_COMMAND,
    "suspect_paid": "look at the wallet, then {trade} pay reconcile --mark paid {payment}, or --mark unpaid",
    "time_is_up": _SAME_COMMAND,
    "paid_undelivered": "see what came: {look}; {again}",
    "taken_elsewhere": "its answer is in the ledger that paid for it; {again}",
    # servers
    "ledger_unreachable": _SERVER,
    "fleet_unreachable": _SERVER,
    "fleet_lost": "put a backup back; or, if there never were tables, make them: {trade} fleet init",
}
"""In `trade`, by `ErrorCode`; None: as in Python."""

PERSON = "tell the person what tell_the_person says"
_READ_FIRST = "wait a minute, then repeat a read; before a change, read first"
_WAIT = "wait a minute, then repeat the call"

FOR_A_MODEL: dict[str, str] = dict.fromkeys(IN_TRADE, PERSON) | {
    "ledger_locked": "wait a few seconds, then repeat the same call",
    "ledger_unreachable": _WAIT,
    "fleet_unreachable": _WAIT,
    "signer_too_slow": "repeat the same call",
    "signature_rejected": "tell the person; do not buy it under another name",
    "pagination_loop": "use the results so far, or repeat the call with other filters",
    "not_live": "repeat market_buy with the same arguments",
    "not_unresolved": "read it: payments with action=get and this id",
    "not_found": "list what there is, and use an id from the list",
    "conflict": "read it again, then decide",
    "rate_limited": "wait as long as retry_after_s says, then repeat the call",
    "validation_error": "correct the value",
    "invalid_request": "correct the arguments",
    "internal_error": _READ_FIRST,
    "bad_gateway": _READ_FIRST,
    "service_unavailable": _WAIT,
    "timeout": _READ_FIRST,
    "connection_failed": _READ_FIRST,
    "ambiguous_outcome": "list the agents before anything else",
    "invalid_argument": "correct the argument",
    "over_budget": "wait, or tell the person",
    "unknown_token": "find it with market_tokens",
    "in_progress": "wait a few seconds, then repeat the same call",
    "purchase_changed": "choose a new name for this purchase",
    "already_delivered": "choose a new name to buy it again",
    "no_such_payment": "list them: payments",
    "payment_rejected": "do not buy it under another name; tell the person",
    "outcome_unknown": "payments with action=resume and this id, or the same call again",
    "time_is_up": "repeat the same call: it cannot be charged twice",
    "suspect_paid": "tell the person: it must be checked before anything is bought again",
    "paid_undelivered": "tell the person",
    "taken_elsewhere": "choose a new name, or tell the person",
}
"""For a model at the MCP server, by `ErrorCode`."""
