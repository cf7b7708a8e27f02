"""Settings of a ledger, text by name: its budget, the known recipients of an origin, the id of a purchase secret, and
which wallets are empty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ..budget import Budget

BUDGET = "budget"
"""`Budget.to_json`."""
_RECIPIENTS = "recipients of "
_EMPTY = "empty wallet "
ASKED_FOR = 3600.0
"""Seconds for which only one purchase asks whether an empty wallet has been funded, from its last try."""


def recipients_of(origin: str) -> str:
    """The name of the known recipients of an origin: `addresses`."""
    return f"{_RECIPIENTS}{origin}"


def secret_of(payer: str) -> str:
    """The name of the id of the secret that the nonces of a payer's named purchases are made with."""
    return f"purchase secret of {payer.lower()}"


def empty_of(payer: str, origin: str) -> str:
    """The name of the `EmptyWallet` of a payer at a service."""
    return f"{_EMPTY}{payer.lower()} at {origin}"


@dataclass(frozen=True, slots=True)
class EmptyWallet:
    """The last word of a service about a wallet is that it has too little money. One purchase asks for all.

    Attributes:
        payment: the id of the payment of the purchase that asks.
        since: when the service said so first, in Unix seconds by the local clock.
        tried: when a purchase asked last, the same way.
    """

    payment: str
    since: float
    tried: float

    @classmethod
    def of(cls, settings: Mapping[str, str], payer: str, origin: str) -> EmptyWallet | None:
        text = settings.get(empty_of(payer, origin))
        return None if text is None else cls.read(text)

    @classmethod
    def read(cls, text: str) -> EmptyWallet:
        """Read the setting.

        Raises:
            ValueError: no release writes such a text.
        """
        payment, since, tried = text.split(" ")
        found = cls(payment, float(since), float(tried))
        try:
            for time in (found.since, found.tried):
                datetime.fromtimestamp(time + ASKED_FOR, UTC)
        except (OverflowError, OSError):
            raise ValueError("not a time") from None
        return found

    def __str__(self) -> str:
        return f"{self.payment} {self.since!r} {self.tried!r}"  # `schema.FIND` reads the id, too

    def blocks(self, payment_id: str | None, now: float) -> bool:
        """Whether another purchase asks. A try that is further in the future was noted by a clock that was ahead."""
        return self.payment != payment_id and abs(now - self.tried) < ASKED_FOR


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
        elif name.startswith(_EMPTY):
            EmptyWallet.read(text)
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
