"""Signs what an offer asks for with eth_account. Nothing here is the mock's or the SDK's: both are checked against it.

It imports nothing of the project, so that programs in environments of their own can use it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from eth_account import Account

# Throw-away keys: whoever holds money never writes a key into a file.
PAYER = Account.from_key("0x" + "01" * 32)
STRANGER = Account.from_key("0x" + "02" * 32)
TYPES = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}

Json = dict[str, Any]


def encode(value: object) -> str:
    """JSON in base64, as every payment header has it."""
    return base64.b64encode(json.dumps(value).encode()).decode("ascii")


def decode(header: str) -> Json:
    found: Json = json.loads(base64.b64decode(header, validate=True))
    return found


def nonce_of(number: int) -> str:
    """A nonce that a test can name."""
    return f"0x{number:064x}"


def offer_of(headers: Mapping[str, str]) -> Json:
    """The offer in the header of a 402."""
    named = {name.lower(): value for name, value in headers.items()}
    return decode(named["payment-required"])


def authorization(requirement: Json, now: float, nonce: int | str, payer: Any = PAYER, **changes: str) -> Json:
    """What is signed: six strings. `changes` replaces some of them."""
    return {
        "from": payer.address,
        "to": requirement["payTo"],
        "value": requirement["amount"],
        "validAfter": "0",
        "validBefore": str(int(now) + int(requirement["maxTimeoutSeconds"])),
        "nonce": nonce_of(nonce) if isinstance(nonce, int) else nonce,
        **changes,
    }


def sign(requirement: Json, fields: Json, payer: Any = PAYER) -> str:
    """The signature over these fields in the domain that the requirement names."""
    chain = int(requirement["network"].partition(":")[2])
    names = {name: value for name, value in requirement["extra"].items() if name != "paymentFlow"}
    domain = {**names, "chainId": chain, "verifyingContract": requirement["asset"]}
    message = {
        **fields,
        **{name: int(fields[name]) for name in ("value", "validAfter", "validBefore")},
        "nonce": bytes.fromhex(fields["nonce"][2:]),
    }
    return "0x" + bytes(payer.sign_typed_data(domain, TYPES, message).signature).hex()


def payment(
    offer: Json,
    now: float,
    nonce: int | str,
    *,
    payer: Any = PAYER,
    choice: int = -1,
    identifier: str | None = None,
    **changes: str,
) -> Json:
    """The content of a payment header for an offer.

    Args:
        offer: as `offer_of` gives it.
        now: the service's time in Unix seconds.
        nonce: a number for it, or the nonce itself.
        payer: an account of eth_account.
        choice: which of the offered ways to pay; the last one is the plain one.
        identifier: for the extension payment-identifier.
        changes: fields of the authorization to replace before it is signed.
    """
    requirement = offer["accepts"][choice]
    fields = authorization(requirement, now, nonce, payer, **changes)
    inner = {"signature": sign(requirement, fields, payer), "authorization": fields}
    found: Json = {"x402Version": 2, "payload": inner, "accepted": requirement, "resource": offer["resource"]}
    extensions = json.loads(json.dumps(offer.get("extensions", {})))
    if identifier is not None:
        extensions["payment-identifier"]["info"]["id"] = identifier
    return found | {"extensions": extensions} if extensions else found


def pay(offer: Json, now: float, nonce: int | str, **options: Any) -> dict[str, str]:
    """The header that pays an offer, by its name. Arguments are those of `payment`."""
    return {"PAYMENT-SIGNATURE": encode(payment(offer, now, nonce, **options))}


# A mock behind its paywall

PER_TOKEN = ("token-signals", "token-prices", "signal-history", "token-win-rate", "token-avg-prices")
PAID = (*PER_TOKEN, "top-performers", "aggregate-metrics")
ALL = (*PAID, "supported-tokens")
JSON = (b"content-type", b"application/json")
Headers = Sequence[tuple[bytes, bytes]]
