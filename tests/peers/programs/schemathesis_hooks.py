"""What schemathesis can't find out from a description: signatures, tokens that exist; and two checks of its own.

Only requests that shall succeed are changed here, and only where the description says in words what no schema can.
"""

# The packages live in an environment of their own, so nothing of theirs is known here.
# mypy: disable-error-code="import-not-found,misc"
# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
from collections import Counter
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import requests
import schemathesis
from eth_account import Account
from eth_account.messages import encode_defunct

sys.path.insert(0, str(Path(__file__).parents[2] / "mock"))
import _paying

# Names of tokens, and wallets of the tenant with their chains.
KNOWN = json.loads(os.environ["TRADE_KNOWN"])
PAID = "Market data"
_count = itertools.count(1)
_turns: Counter[str] = Counter()


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    number, label = next(_count), case.operation.label
    if isinstance(case.query, dict):
        # A cursor is good for the list that it came from and its filters.
        case.query.pop("cursor", None)
    if not isinstance(case.body, dict):
        return
    case.body = _written(case.body)
    if label == "POST /v1/wallets":
        case.body.update(_proof(number))
    elif label == "POST /v1/agents":
        case.body.update(KNOWN["wallets"][number % len(KNOWN["wallets"])])
    elif label == "PATCH /v1/agents/{agent_id}":
        # It would have to be one on the agent's chain.
        case.body.pop("wallet_id", None)
    if PAID in case.operation.definition.raw["tags"]:
        _turns[label] += 1
        _name_tokens(case.body.get("tokens"), number, any_name=_turns[label] % 8 == 0)
        if _turns[label] % 8 != 4:
            _pay(case, number)


def _written(value: Any) -> Any:
    """Whole numbers as integers: for a schema 5.0 is one, and the mock wants it written as 5."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {name: _written(each) for name, each in value.items()}
    return [_written(each) for each in value] if isinstance(value, list) else value


def _proof(number: int) -> dict[str, Any]:
    """What shows that a wallet is the caller's: one that wasn't connected before."""
    owner, chain = Account.from_key(f"0x{number:064x}"), (8453, 56)[number % 2]
    text = f"Trade wallet verification\nAddress: {owner.address}\nChain ID: {chain}"
    signature = bytes(owner.sign_message(encode_defunct(text=text)).signature)
    return {"address": owner.address, "chain_id": chain, "signature": "0x" + signature.hex()}


def _name_tokens(tokens: Any, number: int, *, any_name: bool) -> None:
    """Tokens that there are, none of them twice. One alone may have any name: 404 is an answer, too."""
    if isinstance(tokens, list) and (len(tokens) > 1 or not any_name):
        for place, token in enumerate(tokens):
            token["identifier"] = KNOWN["tokens"][(number + place) % len(KNOWN["tokens"])]


def _pay(case: Any, number: int) -> None:
    """Ask, and sign what is offered."""
    answer = requests.post(case.operation.base_url.rstrip("/") + case.operation.path, json=case.body, timeout=30)
    if answer.status_code != 402:
        return
    now = parsedate_to_datetime(answer.headers["date"]).timestamp()
    paid = _paying.pay(_paying.offer_of(answer.headers), now, number)
    case.headers = {name: value for name, value in (case.headers or {}).items() if name.upper() not in paid} | paid


def _check(case: Any, name: str, value: Any) -> None:
    """`value` is what the description says of the schema `name`."""
    components = case.operation.schema.raw_schema["components"]
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    for error in jsonschema_rs.validator_for(schema).iter_errors(value):
        raise AssertionError(f"{name}: {error}")


@schemathesis.check  # type: ignore[untyped-decorator]
def events_conform(ctx: Any, response: Any, case: Any) -> None:
    """The events of a stream, which schemathesis takes for text."""
    if response.headers.get("content-type") != ["text/event-stream"]:
        return
    lines = [line for line in response.text.split("\n") if line]
    assert lines, "no event came"
    for line in lines:
        name, _, value = line.partition(": ")
        assert name == "data", line
        _check(case, "StreamEvent", json.loads(value))


@schemathesis.check  # type: ignore[untyped-decorator]
def payment_headers_conform(ctx: Any, response: Any, case: Any) -> None:
    """What the headers of payments have inside."""
    for header, name in (
        ("payment-required", "PaymentRequired"),
        ("payment-response", "PaymentResponse"),
    ):
        for value in response.headers.get(header, ()):
            _check(case, name, json.loads(base64.b64decode(value, validate=True)))
