"""Payments as rows of the ledger, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..._values.payment import Payment, Receipt, SignedHeader
from ..budget import LIMITS, Budget
from .schema import COLUMNS, state_of, stored_state


def to_row(payment: Payment) -> list[object]:
    """The values of a payment in the order of `COLUMNS`."""
    values = {name: getattr(payment, name) for name in COLUMNS}
    values["state"] = stored_state(payment.state)
    values["receipt"] = receipt_text(payment.receipt)
    values["reason"] = plain(payment.reason)
    return list(values.values())


def to_payment(row: Sequence[Any]) -> Payment:
    """The payment of a row.

    Raises:
        ValueError: it is none that we could have written.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    if values["header"] is not None:
        values["header"] = SignedHeader(values["header"])
    values["state"] = state_of(values["state"])
    values["identified"] = bool(values["identified"])
    values["superseded"] = bool(values["superseded"])
    if values["receipt"] is not None:
        values["receipt"] = _receipt(values["receipt"])
    return Payment(**values)


def receipt_text(receipt: Receipt | None) -> str | None:
    """A receipt as JSON. What of `raw` cannot be written is left out: an odd receipt is no reason to lose the rest."""
    if receipt is None:
        return None
    values: dict[str, object] = {name: getattr(receipt, name) for name in Receipt.__dataclass_fields__}
    try:
        return json.dumps(values)
    except (ValueError, TypeError, RecursionError):
        return json.dumps({**values, "raw": {}})


def plain(text: str) -> str:
    """`text` as SQLite can keep it: halves of surrogate pairs, which a service may send, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_budget(row: Sequence[Any] | None) -> Budget:
    """The budget of a row; an empty one without a row."""
    if row is None:
        return Budget()
    budget = Budget.from_micro(dict(zip(LIMITS, row, strict=False)))
    return budget.strictest(Budget.unlimited()) if row[len(LIMITS)] else budget


def budget_row(budget: Budget) -> list[object]:
    """The values of a budget."""
    return [*(getattr(budget, name) for name in LIMITS), int(budget.is_unlimited)]


def _receipt(text: str) -> Receipt:
    values = json.loads(text)
    if not isinstance(values, dict) or values.keys() != Receipt.__dataclass_fields__.keys():
        raise ValueError("not a receipt")
    return Receipt(**values)
