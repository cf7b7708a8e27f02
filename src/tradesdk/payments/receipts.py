"""What the service says of a settlement, and whether that agrees with what was signed. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._values.money import shown_usd
from .._values.payment import Payment, Receipt
from .._values.text import printable
from .protocol import MAX_OFFER, RECEIPT_HEADER, read_base64

_AMOUNT = re.compile(r"[0-9]{1,78}", re.ASCII)
_SAME_CHAIN = frozenset({"base", "eip155:8453"})


def read_receipt(headers: Mapping[str, str]) -> tuple[Receipt | None, str | None]:
    """The receipt of an answer, or why it cannot be read; neither when there is none. Never raises.

    Args:
        headers: the answer's headers, found in any case.
    """
    text = next((text for name in RECEIPT_HEADER.values() if (text := headers.get(name)) is not None), None)
    if text is None:
        return None, None
    if len(text) > MAX_OFFER:
        return None, f"the receipt is larger than {MAX_OFFER // 1024} KiB"
    try:
        raw = read_base64(text)
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


def receipt_warnings(receipt: Receipt | None, payment: Payment) -> tuple[str, ...]:
    """Where the receipt of a delivered answer disagrees with what was signed, each as one line.

    What a receipt leaves out is no disagreement, except the transaction.
    """
    if receipt is None:
        return ()
    warnings = []
    if not receipt.success:
        reason = f" ({printable(receipt.error_reason, 120)})" if receipt.error_reason else ""
        warnings.append(f"the receipt says that the payment failed{reason}, and yet the answer came")
    elif not receipt.transaction:
        warnings.append("the receipt names no transaction")
    if receipt.payer and receipt.payer.lower() != payment.payer.lower():
        warnings.append(f"the receipt names {printable(receipt.payer, 80)} as payer, and {payment.payer} signed")
    if receipt.network and receipt.network != payment.network and not {receipt.network, payment.network} <= _SAME_CHAIN:
        warnings.append(f"the receipt names the network {printable(receipt.network, 80)}, not {payment.network}")
    if receipt.amount is not None and receipt.amount != payment.amount:
        said = shown_usd(receipt.amount) if receipt.amount < 10**18 else "an absurd amount"
        warnings.append(f"the receipt says {said}, and {shown_usd(payment.amount)} was signed")
    for name, read in (("payer", receipt.payer), ("network", receipt.network), ("amount", receipt.amount)):
        if receipt.raw.get(name) not in (None, "") and read in (None, ""):
            warnings.append(f"the receipt's {name} cannot be read")
    return tuple(warnings)


def _text(raw: dict[str, Any], name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) else None


def _amount(value: Any) -> int | None:
    if isinstance(value, str) and _AMOUNT.fullmatch(value):
        return int(value)
    return value if type(value) is int and 0 <= value < 2**256 else None
