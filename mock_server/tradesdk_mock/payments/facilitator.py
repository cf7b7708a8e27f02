"""The x402 facilitator: verifies payments and settles them with play money. Scheme `exact`, version 2.

Nonces, balances and settlements are in the world's state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from ..core.errors import Header
from ..core.messages import Response, market_response
from ..core.seeding import EVM_ADDRESS
from . import accounts, eip3009, settlements
from .header import Payment, same
from .requirements import (
    ASSET,
    ASSET_DOMAIN,
    IDENTIFIER,
    NETWORK,
    NO_MATCH,
    SCHEME,
    UPFRONT,
    VERSION,
    Offer,
    PaidRequest,
    encoded,
    merged,
    payment_required,
)

if TYPE_CHECKING:
    from ..state.world import World

# Seconds that an authorization must still be valid: settlement on the chain takes a moment.
_MARGIN = 6
_IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]{16,128}", re.ASCII)
_CODE = "invalid_exact_evm_payload_"
PENDING = "settlement_pending"
NONCE_USED = "invalid_exact_evm_nonce_already_used"


def verify(world: World, paid: PaidRequest) -> Response | None:
    """None for a valid payment; else 402 with a new offer and the reason, or the response stored for its identifier.

    An unreadable header is treated as a missing one.
    """
    payment, offer = paid.payment, paid.offer
    settlements.cash_held(world)
    if paid.faults.take("hold") is not None and _signed_for_usdc(world, payment):
        settlements.hold(world, paid.request, payment)
    if paid.faults.take("overlook", charged=False) is not None:
        return _refused(world, paid, payment_required(world, offer), "overlooked")
    injected = paid.faults.take("verification")
    if injected is not None:
        return _denied(world, paid, **injected)
    if payment.content is None:
        return _refused(world, paid, payment_required(world, offer), "unreadable")
    invalid = _match(payment, offer)
    if invalid is None:
        stored = _stored_response(world, paid)
        if stored is not None:
            return stored
        invalid = _why_invalid(world, payment)
    if invalid is not None:
        return _refused(world, paid, payment_required(world, offer, invalid), invalid)
    settlements.submit(world, paid.request, payment, "valid", 200)
    return None


def settle_upfront(world: World, paid: PaidRequest) -> Response | None:
    """Take the money before the work, if that was offered and paid; 402 if that fails."""
    if not UPFRONT.items() <= paid.payment.requirement["extra"].items():
        return None
    failing = paid.faults.take("settlement")
    if failing is not None:
        return _unsettled(world, paid, **failing)
    settlements.settle(world, paid.request, paid.payment)
    return None


def settle(world: World, paid: PaidRequest, response: Response) -> Response:
    """Take the money: nonce, balance and settlement change together, with the request's transaction.

    If it was taken before the work, an error has a receipt too.
    """
    payment = paid.payment
    failing = paid.faults.take("settlement")
    if failing is not None:
        return _unsettled(world, paid, **failing)
    overlooked = paid.faults.take("overlook", charged=True) is not None
    status = 402 if overlooked else response.status
    transaction = settlements.settle(world, paid.request, payment, status=status)
    receipt = _receipt(payment, {"success": True, "transaction": transaction})
    if status < 400:
        _store_response(world, paid, encoded(receipt), response)
    settlements.conclude(world, payment, "settled", status)
    if overlooked:
        return payment_required(world, paid.offer)
    response.headers += _receipt_header(receipt, paid.faults.take("receipt"))
    return response


def _denied(world: World, paid: PaidRequest, reason: str, status: int, charged: bool) -> Response:
    """The fault `verification`: refused; if `charged`, the money is taken if the chain would allow it."""
    payment = paid.payment
    if charged and _cashable(world, payment):
        settlements.settle(world, paid.request, payment, status=status)
    response = payment_required(world, paid.offer, reason) if status == 402 else market_response(status, error=reason)
    return _refused(world, paid, response, reason)


def _unsettled(world: World, paid: PaidRequest, reason: str, charged: bool) -> Response:
    """The fault `settlement`: it fails, and the data is withheld."""
    payment, pending = paid.payment, reason == PENDING
    if charged:
        settlements.settle(world, paid.request, payment, status=402, pending=pending)
    settlements.conclude(world, payment, reason, 402)
    sent = settlements.transaction(world, payment) if pending else ""
    receipt = _receipt(payment, {"success": False, "errorReason": reason, "transaction": sent})
    return Response(402, {}, [(b"payment-response", encoded(receipt))])


def _refused(world: World, paid: PaidRequest, response: Response, verdict: str) -> Response:
    settlements.submit(world, paid.request, paid.payment, verdict, response.status)
    return response


# The extension payment-identifier.


def _stored_response(world: World, paid: PaidRequest) -> Response | None:
    """The stored response for the payment's identifier, a refusal, or None."""
    payment = paid.payment
    if IDENTIFIER not in paid.offer.extensions:
        return None
    ident = _identifier(payment)
    if ident is None:
        if world.gaps.payment_identifier != "required":
            return None
        response = market_response(400, error="A payment needs an identifier: payment-identifier with info.id.")
        return _refused(world, paid, response, "identifier missing")
    if not isinstance(ident, str) or not _IDENTIFIER.fullmatch(ident):
        response = market_response(400, error="info.id of payment-identifier: 16 to 128 letters, digits, _ and -.")
        return _refused(world, paid, response, "identifier invalid")
    row = world.store.one("SELECT payment, fingerprint, receipt, body FROM responses WHERE id = ?", (ident,))
    if row is None:
        return None
    if row[1] != settlements.fingerprint(paid.request) or not same(from_json(row[0]), payment.content):
        response = market_response(409, error="This payment identifier was used for another payment.")
        return _refused(world, paid, response, "identifier used")
    response = Response(200, headers=[(b"payment-response", row[2])]).with_body(row[3])
    return _refused(world, paid, response, "replayed")


def _store_response(world: World, paid: PaidRequest, receipt: bytes, response: Response) -> None:
    """Store the response to a payment with an identifier."""
    ident = _identifier(paid.payment) if world.gaps.payment_identifier != "none" else None
    if isinstance(ident, str):
        world.store.add(
            "responses",
            id=ident,
            payment=to_json(paid.payment.content).decode(),
            fingerprint=settlements.fingerprint(paid.request),
            receipt=receipt,
            body=to_json(response.data, inf_nan_mode="null"),
        )


def _identifier(payment: Payment) -> Any:
    """`info.id` of the extension; None without one."""
    found: Any = payment.content
    for name in ("extensions", IDENTIFIER, "info", "id"):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _match(payment: Payment, offer: Offer) -> str | None:
    """Find the offered requirement that this payment is for; the reason when there is none or it is malformed.

    The payment must repeat a requirement and the extensions as offered. As with the official servers,
    `accepted.extra` may have more keys than the offer's.
    """
    content = payment.content
    assert content is not None  # noqa: S101 - read before
    if not same(content.get("x402Version"), VERSION):
        return "invalid_x402_version"
    chosen = content.get("accepted")
    found = next((each for each in offer.accepts if same(each, _without_more(chosen, each))), None)
    if found is None:
        return NO_MATCH
    echoed = content.get("extensions") or {}
    for name, offered in offer.extensions.items():
        sent = echoed.get(name) if isinstance(echoed, dict) else None
        if name == IDENTIFIER and isinstance(sent, dict) and isinstance(sent.get("info"), dict):
            sent = sent | {"info": {key: value for key, value in sent["info"].items() if key != "id"}}
        if not same(offered, sent):
            return "extension_echo_mismatch"
    payment.requirement = found
    return "invalid_payload" if payment.transfer is None else None


def _without_more(chosen: Any, offered: dict[str, Any]) -> Any:
    extra, known = (each.get("extra") if isinstance(each, dict) else None for each in (chosen, offered))
    if not isinstance(extra, dict) or not isinstance(known, dict):
        return chosen
    return chosen | {"extra": {name: value for name, value in extra.items() if name in known}}


def _why_invalid(world: World, payment: Payment) -> str | None:
    """Why the payment is invalid; None when it is valid. Checks run in the order of the official verifiers."""
    wanted, transfer = payment.requirement, payment.transfer
    assert transfer is not None  # noqa: S101 - matched before
    if wanted.get("scheme") != SCHEME:
        return "unsupported_scheme"
    if wanted.get("network") != NETWORK:
        return "invalid_network"
    extra = wanted.get("extra")
    if not isinstance(extra, dict) or not all(isinstance(extra.get(name), str) for name in ("name", "version")):
        return "missing_eip712_domain"
    if transfer.to != str(wanted.get("payTo")).lower():
        return _CODE + "recipient_mismatch"
    if str(transfer.value) != wanted.get("amount"):
        return _CODE + "authorization_value_mismatch"
    now = int(payment.at)
    if transfer.valid_before < now + _MARGIN:
        return _CODE + "authorization_valid_before"
    if transfer.valid_after > now:
        return _CODE + "authorization_valid_after"
    if not _signed(world, payment, extra["name"], extra["version"], str(wanted.get("asset"))):
        return _CODE + "signature"
    taken = settlements.used(world, payment)
    if taken == "settled":
        return NONCE_USED
    if taken is None and settlements.balance(world, transfer.payer) < transfer.value:
        return "insufficient_funds"
    return None


def _signed(world: World, payment: Payment, name: str, version: str, asset: str) -> bool:
    transfer = payment.transfer
    assert transfer is not None  # noqa: S101 - matched before
    if not EVM_ADDRESS.fullmatch(asset):
        return False
    domain = eip3009.Domain(name, version, int(NETWORK.partition(":")[2]), asset)
    return accounts.has_signed(world, transfer.payer, eip3009.signable(domain, transfer), payment.signature)


def _signed_for_usdc(world: World, payment: Payment) -> bool:
    """Whether the contract would accept the signature, whatever was offered."""
    name, version = ASSET_DOMAIN["name"], ASSET_DOMAIN["version"]
    return payment.transfer is not None and _signed(world, payment, name, version, ASSET)


def _cashable(world: World, payment: Payment) -> bool:
    """Whether the contract would carry out the transfer now, whatever was offered."""
    transfer = payment.transfer
    return (
        transfer is not None
        and transfer.valid_after < payment.at < transfer.valid_before
        and _signed_for_usdc(world, payment)
        and settlements.used(world, payment) is None
        and settlements.balance(world, transfer.payer) >= transfer.value
    )


def _receipt(payment: Payment, result: dict[str, Any]) -> dict[str, Any]:
    """The content of a receipt."""
    wanted, transfer = payment.requirement, payment.transfer
    assert transfer is not None  # noqa: S101 - verified before
    found = result | {"network": wanted["network"], "payer": settlements.with_checksum(transfer.payer)}
    if result["success"]:
        found["amount"] = str(transfer.value)
    return found


def _receipt_header(receipt: dict[str, Any], fault: Mapping[str, Any] | None) -> list[Header]:
    """The receipt header, changed by the fault `receipt` if there is one."""
    if fault is None:
        return [(b"payment-response", encoded(receipt))]
    if fault["missing"]:
        return []
    if "raw" in fault:
        return [(b"payment-response", str(fault["raw"]).encode("ascii"))]
    return [(b"payment-response", encoded(merged(receipt, fault.get("fields"))))]
