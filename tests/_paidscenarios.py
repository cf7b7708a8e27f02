"""What can happen to a payment, as the mock plays it, and the result. `SCENARIOS` is the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tradesdk_mock import MockClock

USED = "invalid_exact_evm_nonce_already_used"
PRICE = 30_000
Fault = tuple[str, Mapping[str, Any]]


def fault(kind: str, /, **parameters: Any) -> Fault:
    """For `add_fault`; it is played on requests with a payment."""
    return kind, {"paid": "only", **parameters}


def taken(kind: str, /, **parameters: Any) -> Fault:
    """A fault after the money was taken."""
    return fault(kind, executed=True, **parameters)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of the table.

    Attributes:
        name: what happens.
        faults: for the mock.
        gaps: other than the mock's own.
        options: of the client.
        balance: of the payer in micro-dollars; None: plenty.
        jump: seconds by which the client's clock is put on (or back) while it waits for the first time.
        by_hand: how often the caller tries; the table shows the last of them.
        error: the class of the error; empty: there is a result.
        code: of that error; empty: any.
        charged: what the result or the error says.
        state: what the ledger says, in the words of `_payments.how`.
        settled: how often the mock took the money.
        again: what the same call does when nothing goes wrong any more: the code of its error, or "delivered", or
            "bought again", which signs and pays once more.
    """

    name: str
    faults: Sequence[Fault] = ()
    gaps: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    balance: int | None = None
    jump: float = 0.0
    by_hand: int = 1
    error: str = ""
    code: str = ""
    charged: bool | str = True
    state: str = "answered"
    settled: int = 1
    again: str = "bought again"

    def __str__(self) -> str:
        return self.name


ONCE = {"max_retries": 0}
KEPT = {"payment_identifier": "optional"}
LOST: dict[str, Any] = {
    "error": "PaymentUndeliveredError",
    "code": "paid_undelivered",
    "charged": "unknown",
    "state": "taken, undelivered",
    "again": "unresolved_payment",
}
OPEN: dict[str, Any] = {"error": "PaymentOutcomeUnknownError", "charged": "unknown", "state": "sent, unknown"}
SAFE: dict[str, Any] = {"state": "sent, rejected", "charged": "unknown", "settled": 0, "again": "delivered"}

SCENARIOS = (
    Scenario(name="clean"),
    Scenario(
        name="settled, then a timeout", faults=[fault("latency", seconds=60, count=1)], options={"timeout": 0.4}, **LOST
    ),
    Scenario(name="settled, then reset", faults=[taken("reset", count=1)], **LOST),
    Scenario(name="settled, then 500", faults=[taken("status", status=500, count=1)], **LOST),
    Scenario(name="settled, then 429", faults=[taken("status", status=429, count=1)], **LOST),
    Scenario(
        name="settled, then 429 forever", faults=[taken("status", status=429)], again="paid_undelivered",
        code="outcome_unknown", **OPEN,
    ),
    Scenario(
        name="settled, then 429; the service keeps answers", faults=[taken("status", status=429, count=1)], gaps=KEPT
    ),
    Scenario(name="settled, then a body cut short", faults=[fault("truncate", count=1)], **LOST),
    Scenario(name="reset before anything was taken", faults=[fault("reset", count=1)]),
    Scenario(name="500 before anything was taken", faults=[fault("status", status=500, count=1)]),
    Scenario(
        name="503 forever", faults=[fault("status", status=503)], code="outcome_unknown", settled=0,
        again="delivered", **OPEN,
    ),
    Scenario(name="402 again, twice", faults=[fault("overlook", count=2)]),
    Scenario(
        name="402 forever", faults=[fault("overlook")], code="outcome_unknown", settled=0, again="delivered", **OPEN
    ),
    Scenario(name="settled, then 402 again, once", faults=[fault("overlook", charged=True, count=1)], **LOST),
    Scenario(name="settled, then 402 forever", faults=[fault("overlook", charged=True)], **LOST),
    Scenario(
        name="settlement pending, three times", faults=[fault("settlement", reason="settlement_pending", count=3)]
    ),
    Scenario(
        name="settlement pending, and taken",
        faults=[fault("settlement", reason="settlement_pending", charged=True, count=1)],
    ),
    Scenario(
        name="settlement pending forever", faults=[fault("settlement", reason="settlement_pending")],
        code="outcome_unknown", settled=0, again="delivered", **OPEN,
    ),
    Scenario(name="settlement failed, once", faults=[fault("settlement", count=1)]),
    Scenario(name="settlement failed, and taken", faults=[fault("settlement", charged=True, count=1)], **LOST),
    Scenario(
        name="nonce used, which is a lie", faults=[fault("verification", reason=USED)], code="outcome_unknown",
        settled=0, again="delivered", **OPEN,
    ),
    Scenario(
        name="404 after paying", faults=[fault("status", status=404)], error="NotFoundError",
        **SAFE | {"state": "sent, refused"},
    ),
    Scenario(name="no money", balance=0, error="PaymentRejectedError", code="insufficient_funds", **SAFE),
    Scenario(name="unusable body", faults=[fault("malformed_json", count=1)], **LOST | {"charged": True}),
    Scenario(name="no receipt", faults=[fault("receipt", missing=True)], charged="unknown"),
    Scenario(name="clock 100 seconds slow", gaps={"clock_skew": 100}),
    Scenario(name="clock 10 minutes fast", gaps={"clock_skew": -600}),
    Scenario(name="clock put back a minute in the middle", faults=[fault("overlook", count=1)], jump=-60),
    Scenario(
        name="clock put back in the middle", faults=[fault("overlook", count=1)], jump=-600, again="clock_difference",
    ),
    Scenario(
        name="clock put forward in the middle", faults=[fault("overlook", count=1)], jump=500,
        code="outcome_unknown", settled=0, again="delivered", **OPEN,
    ),
    Scenario(name="429 twice, then success", faults=[fault("status", status=429, count=2)]),
    Scenario(name="the caller tries by hand", faults=[fault("reset", count=2)], options=ONCE, by_hand=3),
    Scenario(
        name="the caller tries by hand; settled, then reset", faults=[taken("reset")], options=ONCE, by_hand=2,
        **OPEN, code="outcome_unknown", again="paid_undelivered",
    ),
)  # fmt: skip


class JumpyClock:
    """The mock's clock, off by some seconds from the first wait on."""

    def __init__(self, clock: MockClock, jump: float) -> None:
        self._clock = clock
        self._jump = jump
        self._off = 0.0

    def now(self) -> float:
        return self._clock.now() + self._off

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)
        self._off = self._jump

    async def sleep_async(self, seconds: float) -> None:
        await self._clock.sleep_async(seconds)
        self._off = self._jump

    def right(self) -> None:
        """Set it right."""
        self._off = self._jump = 0.0
