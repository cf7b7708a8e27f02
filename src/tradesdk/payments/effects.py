"""What a purchase yields to the driver that carries it out, and what it is sent. `purchase` says when."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from .._http.service_time import Moment
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import APIError, PaymentRefusedError
from .buyer import Terms
from .ledger.changes import LedgerChange, LedgerRow, Submit

if TYPE_CHECKING:
    from .ledger.store import Overview

T = TypeVar("T")


class Lock(NamedTuple):
    """Wait until no other call of this client makes the same purchase. The result: False at the deadline."""


class Look(NamedTuple):
    """Read the ledger: `Overview`. It blocks. `since`: when an unnamed payment must have been created, or earlier."""

    at: Moment
    since: float = math.inf


class Sync(NamedTuple):
    """Learn the service's time by a free request, if possible."""


class Balance(NamedTuple):
    """Ask a node for the wallet's USDC, if the client has one: micro-dollars, or None."""


class Ask(NamedTuple):
    """Send the request without a payment, and again where that is right: `Answer`, of a success or of a 402.

    After a 402, the symbols of the request are looked up in the service's list.
    """


class Refuse(NamedTuple):
    """The budgets leave no room. Nothing is done; the error is raised next."""

    earlier: Payment | None
    terms: Terms
    error: PaymentRefusedError


class Verify(NamedTuple):
    """Ask a node whether the contract wallet that pays accepts its signature: `Verified`."""

    payment: Payment


class Prove(NamedTuple):
    """Ask the witness about what holds the money that a call needs: whether that changed anything."""

    terms: Terms


class Slot(NamedTuple):
    """Wait for a place in the rate limit, for the earlier payment or for what is signed next."""

    earlier: Payment | None
    terms: Terms | None


class Sign(NamedTuple):
    """Ask the signer: `Submit`. It blocks, or is awaited."""

    terms: Terms
    seen: Overview
    owner: str


class Write(NamedTuple):
    """Change the ledger: the row then. It blocks. A `Submit` gives None if another call was faster."""

    row: LedgerRow | None
    change: LedgerChange | Submit


class Send(NamedTuple):
    """Send the request with a payment, once: `Answer`, of any status."""

    payment: Payment


class Sleep(NamedTuple):
    """Wait."""

    seconds: float


class HandOver(NamedTuple):
    """The caller gets the answer now, unless the call is canceled."""


class Ended(Exception):
    """Thrown in when the call is canceled, or interrupted by something that is no error of ours. It is raised again.

    `is_sent`: a payment had gone to the transport, and there is no answer.
    """

    def __init__(self, cause: BaseException, *, is_sent: bool) -> None:
        super().__init__()
        self.cause, self.is_sent = cause, is_sent


class Verified(NamedTuple):
    """What a node says about a signature. `is_asked`: it may have got it; `problem`: why it is of no use."""

    is_asked: bool
    problem: str | None = None


class Answer(NamedTuple):
    """A response. `problem`: why it is no success; `data`: of one that an offer was asked for with."""

    response: RawResponse
    problem: APIError | None = None
    data: Any = None


Effect: TypeAlias = (
    Lock | Look | Sync | Balance | Ask | Refuse | Prove | Slot | Sign | Write | Verify | Send | Sleep | HandOver
)
Steps: TypeAlias = Generator[Effect, Any, T]
