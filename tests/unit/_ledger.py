"""Payments for the tests of the ledger."""

from ..ledger_contract.ledger_payments import (
    ADDRESS,
    HEADER,
    MIDNIGHT,
    NOW,
    ORIGIN,
    OTHER,
    PLENTY,
    draft,
    in_state,
    reserve,
    submitted,
)

__all__ = [
    "ADDRESS",
    "HEADER",
    "MIDNIGHT",
    "NOW",
    "ORIGIN",
    "OTHER",
    "PLENTY",
    "draft",
    "in_state",
    "reserve",
    "submitted",
]
