"""What is to be bought, and what tells it from other purchases. No I/O."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from .._values.payment import Payment


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseIntent:
    """What is to be bought.

    Attributes:
        method: the HTTP method.
        url: the full URL.
        body: the request's body.
        path: the endpoint, which the price depends on.
        tokens: how many tokens are asked for.
        max_price: micro-dollars that the caller allows, above the published price or below it.
        new_purchase: sign even though an earlier payment for the same call could still be taken.
        job: the batch job that it belongs to.
    """

    method: str
    url: str
    body: bytes
    path: str
    tokens: int | None
    max_price: int | None = None
    new_purchase: bool = False
    job: str | None = None

    @property
    def amount(self) -> int:
        """The published price in micro-dollars."""
        from .._market import price  # brings the models, which a ledger does without

        return price(self.path, self.tokens or 0)

    def fingerprint(self, payer: str) -> str:
        """What tells this purchase from others: the same bytes to the same place, paid by the same address."""
        parts = (self.method.encode(), self.url.encode(), self.body, payer.lower().encode())
        return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that is written down. It is fresh when it was made just now, and so never handed over before."""

    payment: Payment
    fresh: bool


def origin_of(url: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
