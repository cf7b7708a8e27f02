"""Settings of a ledger, text by name: its budget, the known recipients of an origin, the id of a purchase secret."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..budget import Budget

BUDGET = "budget"
"""`Budget.to_json`."""
_RECIPIENTS = "recipients of "


def recipients_of(origin: str) -> str:
    """The name of the known recipients of an origin: `addresses`."""
    return f"{_RECIPIENTS}{origin}"


def secret_of(payer: str) -> str:
    """The name of the id of the secret that the nonces of a payer's named purchases are made with."""
    return f"purchase secret of {payer.lower()}"


def addresses(text: str | None) -> list[str]:
    """The known recipients of an origin, oldest first.

    Raises:
        ValueError: no release writes such a text.
    """
    known = [] if text is None else json.loads(text)
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise ValueError("not a list of recipients")
    return known


def by_name(rows: Sequence[Sequence[object]]) -> dict[str, str]:
    """Settings by name.

    Raises:
        ValueError: no release writes such a setting.
    """
    found: dict[str, str] = {}
    for name, text in rows:
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError("a setting is not text")
        if name == BUDGET:
            Budget.from_json(text)
        elif name.startswith(_RECIPIENTS):
            addresses(text)
        found[name] = text
    return found


def addresses_text(known: Sequence[str]) -> str:
    """The same as text."""
    return json.dumps(list(known))


def with_address(text: str | None, address: str) -> str:
    """The same with one more. Addresses are compared without regard to case."""
    known = addresses(text)
    is_known = address.lower() in {one.lower() for one in known}
    return addresses_text(known if is_known else [*known, address])
