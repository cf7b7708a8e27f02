"""Payments as records of a shared ledger: their text, what finds them, and what they count."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, fields, replace
from typing import Any

from .._values.payment import FREE, LIVE, RELEASED, RENEWABLE, UNRESOLVED, Earlier, Payment, PaymentState
from ..payments.ledger.rules import DAY
from ..payments.ledger.schema import receipt_of, receipt_text
from ..payments.signing.sealing import HeaderSeal

VERSION = "1"
END = ";"
"""Follows the colon that ends each part of a member: `part:` to `part;` are all members that begin with it."""
LOWEST, HIGHEST = 0, 10**15
_OPEN = LIVE | UNRESOLVED | RENEWABLE
_STEPS = 64
_APART = ("header", "reply")
_FIELDS = tuple(field.name for field in fields(Payment) if field.name not in _APART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A payment in the shared ledger.

    Attributes:
        payment: the payment.
        number: its place in the order of reservations.
        owner: who has claimed it.
        until: when that claim ends, by the server's clock.
        fence: how many claims there were.
        collected: whether its caller has the answer.
        steps: the ids of the steps that wrote it, newest last.
        text: how it is stored; empty while it is not.
        sealed: its header as it is stored.
    """

    payment: Payment
    number: int
    owner: str | None = None
    until: float = 0.0
    fence: int = 0
    collected: bool = True
    steps: tuple[str, ...] = ()
    text: str = ""
    sealed: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether it has an answer that was collected, or can be forever: it is deleted after a while."""
        payment = self.payment
        has_one = payment.reply is not None and payment.state is PaymentState.DELIVERED
        return has_one and (self.collected or payment.purchase is not None)

    @property
    def stands(self) -> bool:
        """Whether it may block another payment for the same purchase, or have its answer."""
        payment = self.payment
        if payment.superseded or payment.state is PaymentState.CANCELLED:
            return False
        return payment.state in _OPEN or payment.purchase is not None or not self.collected

    def blocks(self, after: float, until: float) -> bool:
        """Whether it does: an answer that is not collected only if it arrived between these moments."""
        payment = self.payment
        if payment.state in _OPEN or payment.purchase is not None:
            return True
        return payment.reply is not None and after < payment.updated <= until

    def written(self, step: str, seal: HeaderSeal) -> Record:
        """The record with its text, written by a step."""
        payment = self.payment
        values: dict[str, Any] = {name: getattr(payment, name) for name in _FIELDS}
        values["body"] = b64encode(payment.body).decode("ascii")
        values["receipt"] = receipt_text(payment.receipt)
        sealed = None
        if payment.header is not None:
            sealed = self.sealed or seal.seal(payment.header, payment.id)
        steps = (*self.steps, step)[-_STEPS:]
        stored = {
            **values,
            "number": self.number,
            "owner": self.owner,
            "until": self.until,
            "fence": self.fence,
            "collected": self.collected,
            "has_reply": payment.reply is not None,
            "sealed": sealed,
            "steps": steps,
        }
        text = json.dumps(stored, separators=(",", ":"))
        return replace(self, steps=steps, text=text, sealed=sealed)

    def with_payment(self, payment: Payment) -> Record:
        """The same with a changed payment. A new header is sealed anew."""
        sealed = self.sealed if payment.header == self.payment.header else None
        return replace(self, payment=payment, sealed=sealed)


def read(text: bytes | str, reply: bytes | None, seal: HeaderSeal) -> Record:
    """The record with this text.

    Raises:
        ValueError: no release writes such a text.
    """
    text = text.decode() if isinstance(text, bytes) else text
    try:
        stored = json.loads(text)
        values = {name: stored[name] for name in _FIELDS}
        values["body"] = b64decode(values["body"], validate=True)
        values["state"] = PaymentState(values["state"])
        if values["earlier"] is not None:
            state, *numbers = values["earlier"]
            values["earlier"] = Earlier(PaymentState(state), *numbers)
        values["receipt"] = values["receipt"] and receipt_of(values["receipt"])
        sealed = stored["sealed"]
        header = None if sealed is None else seal.open(sealed, values["id"])
        payment = Payment(**values, header=header, reply=reply if stored["has_reply"] else None)
        return Record(
            payment=payment,
            number=stored["number"],
            owner=stored["owner"],
            until=stored["until"],
            fence=stored["fence"],
            collected=stored["collected"],
            steps=tuple(stored["steps"]),
            text=text,
            sealed=sealed,
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def digest(value: str | bytes | None) -> str:
    """What the script compares a value by."""
    if value is None:
        return ""
    return hashlib.sha1(value.encode() if isinstance(value, str) else value, usedforsecurity=False).hexdigest()


# What finds payments: members of one sorted set, in the order of their texts.


def everything() -> str:
    """Of all payments, in their order."""
    return "a:"


def of_state(state: PaymentState, *, proven: bool) -> str:
    """Of the payments in a state, with or without proof, in their order."""
    return f"s:{state.value}:{'p' if proven else 'u'}:"


def blocking(fingerprint: str) -> str:
    """Of the payments that may block others for the same purchase, in their order."""
    return f"f:{_short(fingerprint)}:"


def live(origin: str | None) -> str:
    """Of the live payments for an origin, or for all, in the order of their expiry."""
    return "e:" if origin is None else f"l:{_short(origin)}:"


def kept() -> str:
    """Of the answers that are deleted after a while, in the order of their age."""
    return "k:"


def counting() -> str:
    """Of the payments that count, in the order of the time until which they may be taken."""
    return "c:"


def released() -> str:
    """Of those that release="service" leaves out, in the same order."""
    return "r:"


def place(number: float) -> str:
    """A number, in a text that has its place in the order."""
    return f"{min(max(number, LOWEST), HIGHEST):023.6f}"


def members(record: Record | None) -> frozenset[str]:
    """All members that find a record."""
    if record is None:
        return frozenset()
    payment, number = record.payment, place(record.number)
    found = [
        f"{everything()}{number}:{payment.id}",
        f"{of_state(payment.state, proven=payment.proven_paid)}{number}:{payment.id}",
    ]
    if record.stands:
        found.append(f"{blocking(payment.fingerprint)}{number}:{payment.id}")
    if payment.live:
        found += [f"{live(one)}{place(payment.valid_before)}:{payment.id}" for one in (None, payment.origin)]
    if record.is_kept:
        found.append(f"{kept()}{place(payment.updated)}:{payment.id}")
    if payment.state not in FREE:
        what = f"{place(payment.counts_until)}:{payment.counted}:{'p' if payment.proven_paid else 'u'}"
        found.append(f"{counting()}{what}:{'r' if payment.state in RELEASED else '-'}:{payment.id}")
        if payment.state in RELEASED:
            found.append(f"{released()}{what}:{payment.id}")
    return frozenset(found)


def needs_new_decision(gone: frozenset[str], come: frozenset[str]) -> bool:
    """Whether a reservation that was decided before these changes must be decided again."""
    return any(one.startswith(("f:", "r:")) for one in come) or any(one.startswith("r:") for one in gone)


# Sums, so that no window needs more than a few hundred slots: by second, minute and day.
_SPANS = (1, 60, DAY)
ALL = "all"


def slot(span: int, number: int) -> str:
    """The slot of a span: its sum of what counts. After "h:", of what is held."""
    return f"{span}:{place(number)}"


def counts(record: Record | None) -> dict[str, int]:
    """What a record adds to each sum, in micro-dollars."""
    if record is None or record.payment.state in FREE:
        return {}
    payment = record.payment
    slots = [ALL, *(slot(span, payment.counts_until // span) for span in _SPANS)]
    sums = dict.fromkeys(slots, payment.counted)
    if not payment.proven_paid:
        sums |= {f"h:{one}": payment.counted for one in slots}
    return sums


def window(now: float, hour: float) -> list[str]:
    """The ranges of slots, from and to, that `spent` needs."""
    second, minute, day, today = _moments(now, hour)
    return [
        *(slot(1, second + 1), slot(1, (minute + 1) * 60)),
        *(slot(60, minute + 1), slot(60, (day + 1) * 1440)),
        *(slot(DAY, min(day + 1, today)), f"{DAY}{END}"),
    ]


def spent(found: dict[str, tuple[int, int]], now: float, hour: float) -> tuple[int, int, int, int, int, int]:
    """What counts in the last hour, today and in all; and the part of each that is held.

    Args:
        found: the slots of `window`, and `ALL`.
        now: the time in Unix seconds.
        hour: the length of the hour in seconds.
    """
    _, _, day, today = _moments(now, hour)
    sums: list[int] = []
    for part in (0, 1):
        in_hour = in_day = 0
        for name, amounts in found.items():
            span, _, number = name.partition(":")
            if name == ALL:
                continue
            is_day = span == str(DAY)
            if not is_day or float(number) > day:
                in_hour += amounts[part]
            if is_day and float(number) >= today:
                in_day += amounts[part]
        sums += [in_hour, in_day, found[ALL][part]]
    return sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]


def _moments(now: float, hour: float) -> tuple[int, int, int, int]:
    second = int((now - hour) // 1)
    return second, second // 60, second // DAY, int(now // DAY)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
