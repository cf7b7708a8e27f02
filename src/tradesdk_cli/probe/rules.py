"""Rules of the specification, and which of them a service's answers break."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from tradesdk import Account, Agent, AgentSummary, InvalidEvent, Position, Signal, SupportedToken, Trade, Usage, Wallet
from tradesdk_cli.probe.answers import Answer, Answers, Unseen

RULES = {
    "statuses": "only the documented statuses",
    "json": "answers are JSON objects of type application/json",
    "errors": "an error is {error: {code, message}} with the code of its status",
    "wrapper": "market data: exactly success, data and error; one of data and error is null",
    "rate_limit": "X-RateLimit-Limit, -Remaining and -Reset with every answer; Retry-After with 429",
    "fields": "fields and their types",
    "page_size": "at most limit items in a page, 20 by default",
    "open_trades": "what an open trade does not have yet is null",
    "order": "the history of signals is newest first",
    "filters": "signals match the requested chain, confidence and times",
    "not_found": "404 for what does not exist",
    "created": "a new agent is idle, with min_confidence 0.75 and max_positions 5",
    "patched": "a PATCH changes what it names, and only that",
    "deleted": "DELETE of an idle agent: 204 without a body",
    "stream": "the stream is text/event-stream, each event a JSON object with a known type's fields",
    "free": "the list of tokens is free",
    "price": "402 without a payment; scheme exact on eip155:8453 at the published price",
    "paid": "a valid payment buys the answer",
}
RECORDS: dict[str, tuple[Any, int]] = {
    "account": (Account, 0),
    "usage": (Usage, 0),
    "agents": (AgentSummary, 100),
    "wallets": (Wallet, 100),
    "trades": (Trade, 20),
    "positions": (Position, 100),
    "latest": (Signal, 100),
    "history": (Signal, 20),
    "range": (Signal, 100),
    "create": (Agent, 0),
    "patch": (Agent, 0),
    "tokens": (SupportedToken, 2),
}
"""The models of answers, and the maximum of items in a page; 0: not a list."""
LISTS = {"tokens": ("data", "tokens")}
"""Paths of lists that are not at `data`."""
MARKET = ("tokens_keyless", "tokens", "market_field", "bad_sort", "offer", "pay")
CONFIDENCE = 0.7
CHANGE: dict[str, Any] = {"max_positions": 4, "risk": {"stop_loss_pct": 5}}
"""The changes of the question `patch`."""
_PRICE = "60000"  # of aggregate-metrics, in micro-dollars
_CODES = {
    400: ("invalid_request", "invalid_signature"),
    401: ("unauthorized",),
    403: ("forbidden",),
    404: ("not_found",),
    409: ("conflict",),
    422: ("validation_error",),
    429: ("rate_limited",),
    500: ("internal_error",),
    503: ("service_unavailable",),
}
_LATER = ("exit_price_usd", "pnl_usd", "roi_pct", "closed_at")
_RATES = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")

Found = Iterator[tuple[str, str]]


def broken(a: Answers) -> dict[str, list[str]]:
    """The broken rules, each with the evidence."""
    found: dict[str, list[str]] = {}
    for name, answer in a.items():
        if answer.status:
            for check in (_form, _account_api, _records, _meaning):
                for rule, seen in check(a, name, answer):
                    found.setdefault(rule, []).append(f"{answer.request}: {seen}")
    for event in a.events:
        if isinstance(event, InvalidEvent):
            found.setdefault("stream", []).append(event.reason)
    return {rule: found[rule] for rule in RULES if rule in found}


def _form(_: Answers, name: str, it: Answer) -> Found:
    kind = it.headers.get("content-type", "").partition(";")[0].strip().lower() or "no type"
    if name == "stream" and it.ok:
        if kind != "text/event-stream":
            yield "stream", kind
    elif it.status not in (204, 402):  # the body of a 402 is not specified
        if kind != "application/json":
            yield "json", kind
        elif not isinstance(it.body, dict):
            yield "json", "the body is not a JSON object"
    if name in MARKET and it.status in (200, 400, 404, 502):
        body = it.body if isinstance(it.body, dict) else {}
        is_whole = body.keys() >= {"success", "data", "error"} and body["success"] is it.ok
        if not is_whole or (body["error"] is None) is not it.ok or (body["data"] is None) is it.ok:
            yield "wrapper", f"{it.status} with {', '.join(map(str, body)) or 'something else'}"


def _account_api(_: Answers, name: str, it: Answer) -> Found:
    if name in (*MARKET, "market_here", "stream", "stream_filter"):
        return
    if not it.ok and it.status not in (*_CODES, 405):  # 405: the path is not documented
        yield "statuses", str(it.status)
    elif it.status in _CODES and it.at("error", "code") not in _CODES[it.status]:
        yield "errors", f"{it.status} with the code {it.at('error', 'code')}"
    if it.status not in (401, 404) and not all(it.headers.get(rate, "").isdecimal() for rate in _RATES):
        yield "rate_limit", f"{it.status} without them"
    if it.status == 429 and not it.headers.get("retry-after", "").isdecimal():
        yield "rate_limit", "429 without Retry-After"


def _records(a: Answers, name: str, it: Answer) -> Found:
    if name not in RECORDS or not isinstance(it.body, dict) or not it.ok:
        return
    model, most = RECORDS[name]
    items = it.at(*LISTS.get(name, ("data",))) if most else [it.body]
    if not isinstance(items, list):
        if items is not None or name not in LISTS:
            yield "fields", f"{'.'.join(LISTS.get(name, ('data',)))} is not a list"
        return
    for item in items:
        try:
            model.model_validate_json(json.dumps(item))
        except ValueError as error:
            problem = cast("Any", error).errors(include_url=False, include_input=False)[0]  # of pydantic
            yield "fields", f"{'.'.join(map(str, problem['loc'])) or 'an item'}: {problem['msg']}"
            return
        if item.get("status") == "open" and any(item.get(later) is not None for later in _LATER):
            yield "open_trades", ", ".join(later for later in _LATER if item.get(later) is not None)
        if model is Signal and item["chain_id"] != 8453:
            yield "filters", f"a signal of chain {item['chain_id']}"
        if name == "latest" and item["confidence"] < CONFIDENCE:
            yield "filters", f"a confidence of {item['confidence']}"
        if name == "range" and not a.window[0] <= item["timestamp"] <= a.window[1]:
            yield "filters", "a signal from before or after"
    if most and len(items) > most:
        yield "page_size", f"{len(items)} of {most}"
    if name in ("history", "range") and any(one["timestamp"] < two["timestamp"] for one, two in pairwise(items)):
        yield "order", "an older signal comes first"


def _meaning(a: Answers, name: str, it: Answer) -> Found:
    match name:
        case "no_agent" if it.ok or it.status in (400, 409, 422):
            yield "not_found", str(it.status)
        case "create" if it.ok:
            new = [it.at(field) for field in ("status", "min_confidence", "max_positions")]
            if new[1:] != [0.75, 5] or new[0] in ("active", "paused", "error"):  # new states are allowed
                yield "created", ", ".join(map(str, new))
        case "patch" if it.ok and isinstance(before := a["create"].body, dict) and a["create"].ok:
            risk = before.get("risk")
            expected = {**before, **CHANGE, "risk": {**(risk if isinstance(risk, dict) else {}), **CHANGE["risk"]}}
            for field in ("name", "wallet_id", "chain_id", "risk", "min_confidence", "max_positions"):
                if it.at(field) != expected.get(field):
                    yield "patched", field
        case "delete" if it.status < 500 and (it.status != 204 or it.text):
            yield "deleted", f"{it.status}{' with a body' if it.text else ''}"
        case "tokens_keyless" | "tokens" if it.status == 402:
            yield "free", "402"
        case "offer" if it.ok:
            yield "price", f"{it.status} without a payment"
        case "offer" if it.status == 402:
            try:
                amount = a.ways()[0].get("amount")
            except Unseen as why:
                yield "price", str(why)
            else:
                if amount != _PRICE:
                    yield "price", f"{amount} micro-dollars, not {_PRICE}"
        case "pay" if it.status == 402 and "insufficient" not in a.reasons.get("pay", ""):
            yield "paid", "402 after paying"
