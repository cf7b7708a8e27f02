"""Purchases: what identifies one, and the nonce of a named one. A purchase is one paid answer that is wanted once."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass

from .._http.arguments import comparable, required_text
from .._values.payment import USDC, Payment
from .._values.text import bare_key, printable
from ..errors import InvalidArgumentError, PaymentRefusedError
from .budget import Spending
from .messages import asked
from .results import Quote

SECRET_VARIABLE = "TRADE_PURCHASE_SECRET"  # noqa: S105 - its name
_CHAIN = 8453
_LONGEST_NAME = 500
_NAMED = b"\x01"
_SECRET = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseIntent:
    """A call that may have to be paid for. Amounts are micro-dollars; `amount` is the published price.

    `resumed`: the payment that it resends or reads the answer of; then nothing is signed.
    """

    url: str
    body: bytes
    path: str
    tokens: int | None
    amount: int
    max_price: int | None = None
    name: str | None = None
    run: str | None = None
    max_total: int | None = None
    resumed: Payment | None = None

    @property
    def key(self) -> str:
        """The same for calls of one client of which one waits for the other."""
        same = f"{self.url} {self.body.decode('latin-1')}"
        return same if self.name is None else f"purchase {self.name}"

    def fingerprint(self, payer: str) -> str:
        if self.name is not None:
            return named_fingerprint(self.name, payer)
        return _hash(self.url.encode(), self.body, payer.lower().encode())

    def quote(self, spending: Spending) -> Quote:
        """The published price beside what is spent."""
        return Quote(path=self.path, tokens=self.tokens, amount=self.amount, spending=spending)

    def is_for(self, payment: Payment) -> bool:
        """Whether a payment asks the same service for the same data, in any order of the fields in the body."""
        is_same = payment.body == self.body or _canonical(payment.body) == _canonical(self.body)
        return payment.url == self.url and is_same


def purchase_name(name: str | None, argument: str = "purchase") -> str | None:
    """A name that a caller gave, so that the same text gives the same nonce on every machine."""
    if name is None:
        return None
    name = comparable(required_text(argument, name))
    if not name.isprintable() or not name:
        raise InvalidArgumentError(f"{argument} must not be blank or have control characters: {printable(name, 60)}")
    if len(name) > _LONGEST_NAME:
        raise InvalidArgumentError(f"{argument} is {len(name)} characters long; a name has at most {_LONGEST_NAME}")
    return name


def item_name(job: str, path: str, body: bytes) -> str:
    """The name of the purchase of one item of a batch job: the job's name and the request."""
    return f"{comparable(job)}: {path} {_canonical(body)}"


def named_fingerprint(name: str, payer: str) -> str:
    return _hash(b"purchase", name.encode(), payer.lower().encode())


class PurchaseSecret:
    """The secret that nonces of named purchases are made with. Its `repr` hides it, in tracebacks too."""

    __slots__ = ("__value", "id")

    def __init__(self, value: bytes) -> None:
        self.__value = value
        self.id = hmac.digest(value, b"tradesdk purchase secret id", "sha256").hex()[:16]

    def nonce(self, name: str, *, payer: str) -> str:
        """The nonce of a name, as hexadecimal digits after 0x. The same on every machine with the same secret."""
        parts = _CHAIN.to_bytes(32, "big") + _bytes(USDC) + _bytes(payer) + hashlib.sha256(name.encode()).digest()
        return "0x" + hmac.digest(self.__value, _NAMED + parts, "sha256").hex()

    def __repr__(self) -> str:
        return f"PurchaseSecret({self.id})"


def purchase_secret(signer: object) -> PurchaseSecret:
    """The secret of TRADE_PURCHASE_SECRET, else the signer's."""
    given = bare_key(os.environ.get(SECRET_VARIABLE, ""))
    if given:
        digits = _SECRET.fullmatch(given)
        del given
        if digits is not None:
            return PurchaseSecret(bytes.fromhex(digits[1]))
        problem = f"{SECRET_VARIABLE} is not 64 hexadecimal digits"
    else:
        own = getattr(signer, "purchase_secret", None)
        if callable(own):
            secret = asked(own, what := "the signer's purchase secret")
            if isinstance(secret, bytes) and len(secret) == 32:
                return PurchaseSecret(secret)
            del secret
            raise PaymentRefusedError(f"{what} is not 32 bytes", code="signer_failed")
        problem = "a named purchase needs a purchase secret, and this signer has none"
    raise PaymentRefusedError(
        problem,
        code="no_purchase_secret",
        hint=f"set {SECRET_VARIABLE} to 64 random hexadecimal digits (openssl rand -hex 32), the same on every machine "
        "that pays with this wallet",
    )


def _canonical(body: bytes) -> str:
    """A body as JSON with sorted keys."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode("latin-1")


def _hash(*parts: bytes) -> str:
    digests = b"\0".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits.removeprefix("0x"))
