"""The effects that a purchase yields to its driver, each with its result. `purchase` says when."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .._http.service_time import Moment
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import APIError, PaymentRefusedError
from .buyer import Terms
from .ledger.changes import LedgerChange, LedgerRow, Submit

T = TypeVar("T")


class Look(NamedTuple):
    """Read the ledger. The result: `Overview`. It blocks. `since`: the earliest creation time of an unnamed payment."""

    at: Moment
    since: float = math.inf


class Sync(NamedTuple):
    """Learn the service's time by a free request, if possible."""


class Balance(NamedTuple):
    """Ask a node for the wallet's USDC, if the client has one. The result: micro-dollars, or None."""


class Ask(NamedTuple):
    """Send the request without a payment, with retries. The result: `Answer`, with a success or a 402.

    After a 402, the symbols of the request are looked up in the service's list.
    """


class Verify(NamedTuple):
    """Ask a node whether the contract wallet accepts the signature. The result: `Verified`."""

    payment: Payment


class Prove(NamedTuple):
    """A budget or limit refuses. If payments hold the money, ask the witness. The result: whether anything changed."""

    terms: Terms
    refused: PaymentRefusedError


class Slot(NamedTuple):
    """Wait for a place in the rate limit, to resend a payment or to sign."""

    of: Payment | Terms


class Sign(NamedTuple):
    """Ask the signer. The result: `Submit`. It blocks, or is awaited."""

    terms: Terms
    owner: str


class Write(NamedTuple):
    """Change the ledger. The result: the new row; for a `Submit` None if another call was faster. It blocks."""

    row: LedgerRow | None
    change: LedgerChange | Submit


class Send(NamedTuple):
    """Send the request with a payment, once. The result: `Answer`, of any status."""

    payment: Payment


class Sleep(NamedTuple):
    """Wait."""

    seconds: float


class HandOver(NamedTuple):
    """Give the caller the answer, unless the call is canceled."""


class Ended(Exception):
    """Thrown in when the call is canceled, or interrupted by an exception that is not ours. It is raised again.

    `is_sent`: a payment was given to the transport, and no response came.
    """

    def __init__(self, *, is_sent: bool) -> None:
        super().__init__()
        self.is_sent = is_sent


class Verified(NamedTuple):
    """What a node says about a signature. `is_asked`: it may have received it; `problem`: why it is not valid."""

    is_asked: bool
    problem: str | None = None


class Answer(NamedTuple):
    """A response. `problem`: why it is not a success; `data`: the parsed data of an answer to `Ask`."""

    response: RawResponse
    problem: APIError | None = None
    data: Any = None


Effect: TypeAlias = Look | Sync | Balance | Ask | Prove | Slot | Sign | Write | Verify | Send | Sleep | HandOver
Steps: TypeAlias = Generator[Effect, Any, T]
