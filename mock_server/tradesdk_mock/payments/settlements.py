"""Balances, settlements, and every payment header that has arrived."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..core.errors import MockServerError
from ..core.seeding import checksum_address, tx_hash
from ..state import tenants
from . import accounts

if TYPE_CHECKING:
    from ..core.messages import Request
    from ..state.world import World
    from .header import Payment

MICRO = 1_000_000
MOST = 10**15
_KEPT = 100_000
_TIDY = 1_000
_SETTLED = (
    "seq", "payer", "nonce", "amount", "pay_to", "method", "path", "fingerprint", "tenant", "at", "tx",
    "header", "pending", "delivered"
)  # fmt: skip
_HELD = _SETTLED[1:-2]
_SUBMITTED = ("seq", "at", "path", "fingerprint", "payer", "nonce", "header", "verdict", "status")


@dataclass(frozen=True, slots=True)
class Settlement:
    """One payment that was taken.

    Attributes:
        n: its number, from 1, in the order of the settlements.
        payer: who paid; an address with its checksum, as `pay_to`.
        nonce: of the authorization: `0x` and 64 hex digits.
        amount: in micro-dollars.
        pay_to: who was paid.
        method: of the request that was paid for.
        path: of that request.
        fingerprint: of that request: equal for the same method, path and body.
        tenant: the tenant of the API key that was sent with it, None without one.
        at: Unix seconds by the service's clock.
        transaction: the hash in the receipt.
        header: the SHA-256 of the payment header's value, in hex.
        pending: the payer got `settlement_pending` and no success yet.
        delivered: the status that was sent; 0 when the connection was reset instead.
        submitted: how often this authorization has arrived, including refusals.
    """

    n: int
    payer: str
    nonce: str
    amount: int
    pay_to: str
    method: str
    path: str
    fingerprint: str
    tenant: str | None
    at: float
    transaction: str
    header: str
    pending: bool
    delivered: int
    submitted: int


@dataclass(frozen=True, slots=True)
class Submission:
    """One payment header that arrived.

    Attributes:
        n: its number, from 1, in the order of arrival.
        at: Unix seconds by the service's clock.
        path: of the request.
        fingerprint: of the request, as in a settlement.
        payer: an address with its checksum; None when it can't be read.
        nonce: of its authorization; None when it can't be read.
        header: the SHA-256 of its value, in hex.
        verdict: `settled`; `replayed`: the stored response was sent again; `not charged`: the endpoint responded with
            an error; `overlooked`, `not carried out`: by a fault; `unreadable`; else the reason of the refusal.
        status: of the response that was sent; 0 when the connection was reset instead.
    """

    n: int
    at: float
    path: str
    fingerprint: str
    payer: str | None
    nonce: str | None
    header: str
    verdict: str
    status: int


def fingerprint(request: Request) -> str:
    """A hash of method, path and body, in hex."""
    head = f"{request.method} {request.path}\n".encode()
    return hashlib.sha256(head + (request.content or b"")).hexdigest()


def balance(world: World, payer: str) -> int:
    """A payer's balance, in micro-dollars."""
    kept = world.store.value("SELECT balance FROM payers WHERE address = ?", (accounts.normalized(payer),))
    return world.gaps.payer_balance * MICRO if kept is None else int(kept)


def set_balance(world: World, payer: str, amount: int) -> None:
    payer = accounts.normalized(payer)
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= MOST:
        raise MockServerError(f"a balance is 0 to {MOST:,} micro-dollars, not {amount!r}")
    world.store.run(
        "INSERT INTO payers VALUES (?, ?) ON CONFLICT DO UPDATE SET balance = excluded.balance",
        (payer, amount),
    )


def balances(world: World) -> dict[str, int]:
    """The balance of every payer that has paid or whose balance was set."""
    rows = world.store.all("SELECT address, balance FROM payers ORDER BY address")
    return {with_checksum(payer): held for payer, held in rows}


def submit(world: World, request: Request, payment: Payment, verdict: str, status: int) -> None:
    """Record a payment header that arrived, and its response."""
    payment.verdict = verdict
    found = world.store.value(
        "INSERT INTO submissions (at, path, fingerprint, payer, nonce, header, verdict, status)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
        (
            payment.at,
            request.path,
            fingerprint(request),
            payment.payer,
            payment.nonce,
            payment.header,
            verdict,
            status,
        ),
    )
    payment.row = int(found)
    if payment.row % _TIDY == 0:
        world.store.run("DELETE FROM submissions WHERE seq <= ?", (payment.row - _KEPT,))


def conclude(world: World, payment: Payment, verdict: str, status: int) -> None:
    """Record the outcome."""
    payment.verdict = verdict
    world.store.run("UPDATE submissions SET verdict = ?, status = ? WHERE seq = ?", (verdict, status, payment.row))


def delivered(world: World, payment: Payment, status: int) -> None:
    """Record the status that was sent, after faults have changed it."""
    world.store.run("UPDATE submissions SET status = ? WHERE seq = ?", (status, payment.row))
    if payment.taken:
        world.store.run(
            "UPDATE settlements SET delivered = ? WHERE payer = ? AND nonce = ?",
            (status, payment.payer, payment.nonce),
        )


def settle(world: World, request: Request, payment: Payment, *, status: int = 200, pending: bool = False) -> str:
    """Take the money, or finish a pending settlement. Returns the hash of the transaction. Called within a transaction.

    `status`: of the response.
    """
    payment.taken = True
    accounts.deploy_for(world, payment.payer or "", payment.signature)
    row = _row(world, request, payment, payment.at)
    finished = world.store.run(
        "UPDATE settlements SET pending = ?, delivered = ? WHERE payer = ? AND nonce = ?",
        (pending, status, row["payer"], row["nonce"]),
    )
    if not finished:
        set_balance(world, row["payer"], balance(world, row["payer"]) - row["amount"])
        world.store.add("settlements", **row, pending=pending, delivered=status)
    return transaction(world, payment)


def hold(world: World, request: Request, payment: Payment) -> None:
    """Keep a payment, to take the money in the last second of its validity."""
    transfer = payment.transfer
    assert transfer is not None  # noqa: S101 - verified before
    at = max(payment.at, float(min(transfer.valid_before, 1 << 53) - 1))
    if not transfer.valid_after < at < transfer.valid_before:
        return
    world.store.run(
        f"INSERT OR IGNORE INTO held ({', '.join(_HELD)}) VALUES ({', '.join('?' * len(_HELD))})",  # noqa: S608
        tuple(_row(world, request, payment, at).values()),
    )


def _row(world: World, request: Request, payment: Payment, at: float) -> dict[str, Any]:
    """The record of a payment whose money is taken `at` this time."""
    transfer = payment.transfer
    assert transfer is not None  # noqa: S101 - verified before
    tenant, _ = tenants.identify(world, request.headers)
    moved = (transfer.payer, transfer.nonce, transfer.value, transfer.to)
    bought = (request.method, request.path, fingerprint(request), tenant)
    return dict(zip(_HELD, (*moved, *bought, at, transaction(world, payment), payment.header), strict=True))


def cash_held(world: World) -> None:
    """Take the money of held payments that are due, if the chain would allow it. Called within a transaction."""
    due = world.store.rows(_HELD, "held WHERE at <= ? ORDER BY at, seq", (world.now(),))
    for each in due:
        payer, nonce = each["payer"], each["nonce"]
        world.store.run("DELETE FROM held WHERE payer = ? AND nonce = ?", (payer, nonce))
        left = balance(world, payer) - each["amount"]
        if used_at(world, payer, nonce) is None and left >= 0:
            set_balance(world, payer, left)
            status = world.store.value(
                "SELECT status FROM submissions WHERE payer = ? AND nonce = ? ORDER BY seq DESC", (payer, nonce)
            )
            world.store.add("settlements", **each, pending=False, delivered=status or 0)


def transaction(world: World, payment: Payment) -> str:
    """The transaction hash of an authorization, settled or not."""
    return tx_hash(world.seed, "payment", payment.payer, payment.nonce)


def used(world: World, payment: Payment) -> str | None:
    """`settled` or `pending` when the authorization was used, else None. A canceled one is `settled`."""
    row = world.store.one(
        "SELECT pending, header FROM settlements WHERE payer = ? AND nonce = ?", (payment.payer, payment.nonce)
    )
    if row is None:
        used = payment.payer and payment.nonce and used_at(world, payment.payer, payment.nonce) is not None
        return "settled" if used else None
    return "pending" if row[0] and row[1] == payment.header else "settled"


def used_at(world: World, payer: str, nonce: str) -> float | None:
    """When a nonce was used; None if it was not. Both in lower case."""
    row = world.store.one("SELECT at FROM settlements WHERE payer = ? AND nonce = ?", (payer, nonce))
    return None if row is None else float(row[0])


def settlements(world: World, payer: str | None = None) -> list[Settlement]:
    """Oldest first."""
    where, args = _of(payer)
    count = "(SELECT count(*) FROM submissions p WHERE p.payer = settlements.payer AND p.nonce = settlements.nonce)"
    rows = _rows(world, (*_SETTLED, count), f"settlements{where}", args)
    return [
        replace(
            found, payer=with_checksum(found.payer), pay_to=with_checksum(found.pay_to), pending=bool(found.pending)
        )
        for found in (Settlement(*row) for row in rows)
    ]


def submissions(world: World, payer: str | None = None) -> list[Submission]:
    """The latest 100,000, oldest first."""
    where, args = _of(payer)
    return [
        found if found.payer is None else replace(found, payer=with_checksum(found.payer))
        for found in (Submission(*row) for row in _rows(world, _SUBMITTED, f"submissions{where}", args))
    ]


with_checksum = lru_cache(maxsize=4_096)(checksum_address)
"""An address with its checksum."""


def _rows(world: World, columns: Sequence[str], source: str, args: tuple[object, ...]) -> list[tuple[Any, ...]]:
    sql = f"SELECT {', '.join(columns)} FROM {source} ORDER BY seq"  # noqa: S608 - names and clauses of our own
    return world.store.all(sql, args)


def _of(payer: str | None) -> tuple[str, tuple[object, ...]]:
    return ("", ()) if payer is None else (" WHERE payer = ?", (accounts.normalized(payer),))
