"""Offers, payments and receipts of x402 version 2 in wire format. No I/O; `guards` judges an offer."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._values.http import RawResponse, parse_json, parse_strictly
from .._values.money import shown_usd
from .._values.payment import Payment, Receipt
from .._values.text import printable
from ..errors import ErrorCode, PaymentRefusedError

VERSION = 2
"""Of the protocol."""
OFFER_HEADER = "payment-required"
"""The response header of an offer."""
RECEIPT_HEADER = "payment-response"
"""The response header of a receipt."""
MAX_OFFER = 64 * 1024
"""The most bytes of an offer or receipt. Honest ones are much smaller."""

_TOO_LARGE = f"larger than {MAX_OFFER // 1024} KiB"
_ONLY = f"and only version {VERSION} is supported"

IDENTIFIER = "payment-identifier"
UPFRONT = "upfront"
"""The `paymentFlow` of a service that takes the money before it does the work."""
_RECEIPT_AMOUNT = re.compile(r"[0-9]{1,78}", re.ASCII)


class Requirement(NamedTuple):
    """One way to pay that a service offers, not checked yet. A missing text is empty, a missing time is None."""

    raw: dict[str, Any]
    scheme: str
    network: str
    asset: str
    pay_to: str
    amount: str
    max_timeout: int | float | None
    extra: Mapping[str, Any]


class Offer(NamedTuple):
    """The offer of a 402: the ways to pay in the service's order, what is bought, and extensions, as received."""

    accepts: tuple[Requirement, ...]
    resource: Any | None
    extensions: dict[str, Any] | None

    @property
    def identifier_wanted(self) -> bool:
        """Whether a payment may have an identifier under which the service keeps its answer."""
        declared = (self.extensions or {}).get(IDENTIFIER)
        return isinstance(declared, dict) and isinstance(declared.get("info"), dict)


def authorization(payment: Payment) -> dict[str, str]:
    """The transfer that the payer signs: its six fields. It is valid at once: `validAfter` is 0."""
    return {
        "from": payment.payer,
        "to": payment.pay_to,
        "value": str(payment.amount),
        "validAfter": "0",
        "validBefore": str(payment.valid_before),
        "nonce": payment.nonce,
    }


def parse_offer(response: RawResponse) -> Offer:
    """The offer of a 402: that of its header or, without one, of its body."""
    header = response.headers.get(OFFER_HEADER)
    where = "its body" if header is None else "its PAYMENT-REQUIRED header"

    def refused(code: ErrorCode, why: str) -> PaymentRefusedError:
        message = f"the {response.status} response requires payment, but {why}"
        return PaymentRefusedError(message, code=code, response=response)

    body = _in_body(response.content) if header is None else {}
    # only so much of a body is read, so it may be cut off
    if len(header or "") > MAX_OFFER or (header is None and not body and len(response.content) >= MAX_OFFER):
        raise refused("offer_too_large", f"{where} is {_TOO_LARGE}")
    if header is None and not (body.get("x402Version") == VERSION and "accepts" in body):
        of_1 = f": its body is an offer of x402 version 1, {_ONLY}" if body.get("x402Version") == 1 else ""
        raise refused("unsupported_payment", f"it has no offer in a PAYMENT-REQUIRED header or in its body{of_1}")
    try:  # it is returned to the service unchanged
        offer = _object(response.content, parse_strictly) if header is None else read_header(header, parse_strictly)
        parse_strictly(_to_json(offer))  # 1e999 is read as infinity, which JSON cannot represent
    except ValueError as error:
        raise refused("malformed_offer", f"{where} is not an offer: {printable(str(error), 120)}") from None
    version = offer.get("x402Version")
    if type(version) is not int:
        raise refused("malformed_offer", f"{where} is not an offer: x402Version is missing")
    if version != VERSION:
        raise refused("unsupported_payment", f"{where} has x402 version {printable(str(version), 20)}, {_ONLY}")
    accepts, extensions = offer.get("accepts"), offer.get("extensions")
    if not isinstance(accepts, list) or not all(isinstance(raw, dict) for raw in accepts):
        raise refused("malformed_offer", f"`accepts` in {where} is not a list of objects")
    if extensions is not None and not isinstance(extensions, dict):
        raise refused("malformed_offer", f"`extensions` in {where} is not an object")
    return Offer(tuple(map(_requirement, accepts)), offer.get("resource"), extensions)


def offer_error(response: RawResponse) -> str | None:
    """The `error` of a 402: why payment is required or was refused. None if it is missing or cannot be read.

    That of the offer in the header or, without one, of the JSON in the body.
    """
    header = response.headers.get(OFFER_HEADER, "")
    for found in (_or_empty(read_header, header), _in_body(response.content)):
        error = found.get("error")
        if isinstance(error, str) and error.strip():
            return error
    return None


def signature_of(payment: Payment) -> bytes:
    """The signature in the header of a payment."""
    return bytes.fromhex(read_header(payment.header or "")["payload"]["signature"][2:])


def is_upfront(payment: Payment) -> bool:
    """Whether the header of a payment is for a service that takes the money before it does the work."""
    accepted = _or_empty(read_header, payment.header or "").get("accepted")
    extra = accepted.get("extra") if isinstance(accepted, dict) else None
    return isinstance(extra, dict) and extra.get("paymentFlow") == UPFRONT


def encode_payment(
    offer: Offer,
    requirement: Requirement,
    payment: Payment,
    signature: bytes,
    *,
    identifier: str | None = None,
) -> str:
    """The value of the payment's header.

    The requirement, the resource and the extensions are returned to the service unchanged. `identifier` is added to
    the extension that the offer has for it: 16 to 128 letters, digits, _ or -.
    """
    payload = {"signature": "0x" + signature.hex(), "authorization": authorization(payment)}
    extensions = offer.extensions
    if identifier is not None and extensions is not None:
        declared = extensions[IDENTIFIER]
        extensions = {**extensions, IDENTIFIER: {**declared, "info": {**declared["info"], "id": identifier}}}
    header: dict[str, Any] = {"x402Version": VERSION, "payload": payload, "accepted": requirement.raw}
    if offer.resource is not None:
        header["resource"] = offer.resource
    if extensions is not None:
        header["extensions"] = extensions
    return binascii.b2a_base64(_to_json(header), newline=False).decode("ascii")


def _to_json(value: Any) -> bytes:
    from pydantic_core import to_json  # four times as fast as the standard library's; most programs never pay

    return to_json(value)


def read_receipt(headers: Mapping[str, str]) -> tuple[Receipt | None, str | None]:
    """The receipt of a response, or why it cannot be read; two Nones if there is none. Never raises."""
    text = headers.get(RECEIPT_HEADER)
    if text is None:
        return None, None
    try:
        raw = read_header(text)
    except ValueError as error:
        return None, f"the receipt cannot be read: {printable(str(error), 120)}"
    success = raw.get("success")
    if not isinstance(success, bool):
        return None, "the receipt does not say whether the payment succeeded"
    receipt = Receipt(
        success=success,
        transaction=_text(raw, "transaction") or "",
        network=_text(raw, "network") or "",
        payer=_text(raw, "payer"),
        error_reason=_text(raw, "errorReason"),
        amount=_amount(raw.get("amount")),
        raw=raw,
    )
    return receipt, None


def receipt_warnings(receipt: Receipt | None, payment: Payment, problem: str | None = None) -> tuple[str, ...]:
    """The differences between the receipt of an answer and what was signed, one line each; or why it is unreadable.

    A missing field is not a difference, except the transaction.
    """
    if receipt is None:
        return () if problem is None else (problem,)
    warnings = []
    if not receipt.success:
        reason = f" ({printable(receipt.error_reason, 120)})" if receipt.error_reason else ""
        warnings.append(f"the receipt says that the payment failed{reason}, but the answer arrived")
    elif not receipt.transaction:
        warnings.append("the receipt has no transaction")
    if receipt.payer and receipt.payer.lower() != payment.payer.lower():
        warnings.append(f"the receipt has the payer {printable(receipt.payer, 80)}, and {payment.payer} signed")
    if receipt.network and receipt.network != payment.network:
        warnings.append(f"the receipt has the network {printable(receipt.network, 80)}, not {payment.network}")
    if receipt.amount is not None and receipt.amount != payment.amount:
        amount = shown_usd(receipt.amount) if receipt.amount < 10**18 else "an absurd amount"
        warnings.append(f"the receipt has the amount {amount}, and {shown_usd(payment.amount)} was signed")
    for name, read in (("payer", receipt.payer), ("network", receipt.network), ("amount", receipt.amount)):
        if receipt.raw.get(name) not in (None, "") and read in (None, ""):
            warnings.append(f"the receipt's {name} cannot be read")
    return tuple(warnings)


def read_header(text: str, parse: Callable[[bytes], Any] = parse_json) -> dict[str, Any]:
    """The JSON object in a header: base64 of the standard alphabet, with padding, at most `MAX_OFFER` long."""
    if len(text) > MAX_OFFER:
        raise ValueError(f"it is {_TOO_LARGE}")
    try:
        content = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise ValueError("it is not base64") from None
    return _object(content, parse)


def _object(content: bytes, parse: Callable[[bytes], Any] = parse_json) -> dict[str, Any]:
    try:
        value = parse(content)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _in_body(body: bytes) -> dict[str, Any]:
    return _or_empty(_object, body) if len(body) <= MAX_OFFER else {}


def _or_empty(read: Callable[[Any], dict[str, Any]], given: str | bytes) -> dict[str, Any]:
    """The JSON object that is read; empty if it is not one."""
    try:
        return read(given)
    except ValueError:
        return {}


def _requirement(raw: dict[str, Any]) -> Requirement:
    names = "scheme", "network", "asset", "payTo", "amount"
    scheme, network, asset, pay_to, amount = [_text(raw, name) or "" for name in names]
    timeout, extra = raw.get("maxTimeoutSeconds"), raw.get("extra")
    return Requirement(
        raw,
        scheme,
        network,
        asset,
        pay_to,
        amount,
        timeout if type(timeout) in (int, float) else None,
        extra if isinstance(extra, dict) else {},
    )


def _text(raw: dict[str, Any], name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _amount(value: Any) -> int | None:
    if isinstance(value, str) and _RECEIPT_AMOUNT.fullmatch(value):
        return int(value)
    return value if type(value) is int and 0 <= value < 2**256 else None
