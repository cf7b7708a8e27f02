"""Faults of the payment itself: their kinds, and those that one request is hit by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .faultchecks import Check, content, flag, header_value, shown, words

if TYPE_CHECKING:
    from .responses import Hit

MOST = 2**20
_LINE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?|", re.ASCII)


def _fields(value: object) -> object:
    if not isinstance(value, Mapping) or not value or len(value) > 50:
        raise ValueError("must be an object of 1 to 50 names and values")
    if not all(isinstance(name, str) for name in value):
        raise ValueError("must have text for names")
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must be JSON") from None
    if len(text) > MOST or "\\ud" in text.lower():
        raise ValueError("must be JSON of at most 1 MiB, in characters that UTF-8 has")
    return json.loads(text)


def _line(value: object) -> object:
    if not isinstance(value, str) or len(value) > MOST or not _LINE.fullmatch(value):
        raise ValueError(f"{shown(value)} is not printable ASCII of at most 1 MiB, as a header's value is")
    return value


_CHARGED = ("charged", False, "the money is taken all the same", flag)

KINDS: Sequence[tuple[str, str, Sequence[tuple[str, object, str, Check]]]] = (
    (
        "offer",
        "The offer of a 402 says something else, and the payment that it asks for is taken.",
        (
            ("fields", None, "of every way to pay, as version 2 names them; null takes one away", _fields),
            ("top", None, "of the offer itself, likewise", _fields),
            ("header", None, 'the header of version 2, raw; "" for none', _line),
            ("body", None, "the body of the 402, raw", content),
        ),
    ),
    (
        "overlook",
        "A payment is overlooked: 402 with a fresh offer, as if none had come.",
        (_CHARGED,),
    ),
    (
        "verification",
        "A payment is refused, whatever it says: 402 with a fresh offer and the reason.",
        (("reason", "unexpected_verify_error", "the reason", words),),
    ),
    (
        "settlement",
        "The settlement fails, and the data is withheld: 402 with a receipt that says so (version 1: the reason).",
        (
            (
                "reason",
                "transaction_failed",
                "the reason; with settlement_pending the same payment goes through when it comes again",
                words,
            ),
            _CHARGED,
        ),
    ),
    (
        "receipt",
        "The receipt of a payment that was taken says something else.",
        (
            ("fields", None, "of the receipt; null takes one away", _fields),
            ("raw", None, "the header's value", header_value),
            ("missing", False, "there is no receipt", flag),
        ),
    ),
)
NAMES = tuple(name for name, _, _ in KINDS)


class PaymentFaults:
    """The rules about payments that one request is hit by; each is played when it is taken."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self._hits = {hit.kind: hit for hit in hits}
        self.played: set[str] = set()

    def peek(self, kind: str) -> Mapping[str, Any] | None:
        """The parameters of a kind that is due, without playing it."""
        hit = self._hits.get(kind)
        return None if hit is None else hit.rule.parameters

    def take(self, kind: str) -> Mapping[str, Any] | None:
        """The parameters of a kind that is due and is played now; None when it isn't due."""
        found = self.peek(kind)
        if found is not None:
            self.played.add(kind)
        return found
