"""Settings of a ledger, text by name: its budget, the known recipients of an origin, the id of a purchase secret."""

from __future__ import annotations

import json
from collections.abc import Sequence

BUDGET = "budget"
"""`Budget.to_json`."""


def recipients_of(origin: str) -> str:
    """The name of the known recipients of an origin: `addresses`."""
    return f"recipients of {origin}"


def secret_of(payer: str) -> str:
    """The name of the id of the secret that the nonces of a payer's named purchases are made with."""
    return f"purchase secret of {payer.lower()}"


def addresses(text: str | None) -> list[str]:
    """The known recipients of an origin, oldest first."""
    return [] if text is None else list(map(str, json.loads(text)))


def addresses_text(known: Sequence[str]) -> str:
    """The same as text."""
    return json.dumps(list(known))


def with_address(text: str | None, address: str) -> str:
    """The same with one more. Addresses are compared without regard to case."""
    known = addresses(text)
    is_known = address.lower() in {one.lower() for one in known}
    return addresses_text(known if is_known else [*known, address])
