"""Payments, quotes and results as tests make them up."""

from dataclasses import replace
from typing import Any, TypeVar

from tradesdk import Budget, MarketResult, Payment, PaymentStage, Quote
from tradesdk.payments import PaymentProof, ReasonCode
from tradesdk.payments.ledger.rules import Sums

T = TypeVar("T")


def payment(number: int = 1, amount: int = 30_000, **changes: Any) -> Payment:
    """A payment that was delivered, without a receipt."""
    made = Payment(
        id=f"pay_{number:024x}",
        fingerprint=f"{number:064x}",
        url="https://service.example/v1/token-prices",
        body=b"{}",
        payer="0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
        pay_to="0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
        amount=amount,
        counted=amount,
        nonce=f"0x{number:064x}",
        valid_before=1_800_000_120,
        counts_until=1_800_000_120,
        created=1_800_000_000.0,
        updated=1_800_000_001.0,
        submissions=1,
    )
    return replace(made, **{"stage": PaymentStage.ANSWERED, "code": ReasonCode.DELIVERED, **changes})


SENT: dict[str, Any] = {"stage": PaymentStage.SENT, "code": ReasonCode.NONE}
UNKNOWN: dict[str, Any] = {"stage": PaymentStage.SENT, "code": ReasonCode.UNKNOWN}
REJECTED: dict[str, Any] = {"stage": PaymentStage.SENT, "code": ReasonCode.REJECTED}
UNUSABLE: dict[str, Any] = {"stage": PaymentStage.TAKEN, "code": ReasonCode.UNDELIVERED}
UNSENT: dict[str, Any] = {
    "stage": PaymentStage.SENT,
    "code": ReasonCode.NOT_RECEIVED,
    "counted": 0,
    "submissions": 0,
    "signatures": 1,
}
MARKED_PAID: dict[str, Any] = {"stage": PaymentStage.TAKEN, "proof": PaymentProof.PERSON, "paid": True}
MARKED_UNPAID: dict[str, Any] = {**UNKNOWN, "proof": PaymentProof.PERSON, "paid": False}
PLACES: tuple[dict[str, Any], ...] = (SENT, UNKNOWN, REJECTED, UNUSABLE, UNSENT, MARKED_PAID, MARKED_UNPAID, {})


def how(one: Payment) -> str:
    """How far a payment has come, in words: its stage, what was told of it, and who says whether it was paid."""
    told = ["unsent" if one.is_unsent else one.stage.value]
    if one.stage is not PaymentStage.ANSWERED and one.code:
        told.append(one.code.value)
    if one.paid is not None and one.proof is not PaymentProof.RECEIPT:
        told.append(f"{'paid' if one.paid else 'unpaid'} by {one.proof.value}")
    return ", ".join(told)


def quote(path: str, amount: int, tokens: int | None = None) -> Quote:
    """A quote without any budget behind it."""
    return Quote(path=path, body=b"{}", tokens=tokens, amount=amount, spending=Sums(0.0).spending(Budget()))


def result(data: T, paid: Payment | None, path: str = "/v1/token-prices") -> MarketResult[T]:
    """A result that cost what its payment says."""
    return MarketResult(data=data, quote=quote(path, 0 if paid is None else paid.amount), payment=paid)
