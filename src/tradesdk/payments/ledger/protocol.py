"""What the flow needs of a store, so that another engine can take the ledger's place for a fleet of machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..._values.payment import Payment, PaymentState, Receipt, SignedHeader
from ..budget import Budget, Spending


@runtime_checkable
class LedgerStore(Protocol):
    """Payments and budgets, shared by threads and processes.

    Every method blocks, may be called from any thread, is one atomic step, and is durable (written and synced) when it
    returns. They raise `LedgerError` when they cannot do so, and then nothing has changed. `now` is the local clock in
    Unix seconds. `owner` names a caller that works on a payment; a claim of an owner that is known to be dead, or whose
    time has passed, does not count. Neither does one that ends much later than a claim may: the clock was put back.
    """

    def find(self, fingerprint: str, *, now: float) -> Payment | None:
        """The newest payment for a call that stands in the way of another: live or unresolved, and not superseded.

        Or a delivered one that nobody has collected, with its `reply`: without a job, not superseded, and `updated`
        after `now - 60`. One that is `updated` more than 5 seconds after `now` was written before the clock was put
        back, and does not count.
        """
        ...

    def reserve(
        self,
        payment: Payment,
        budget: Budget,
        *,
        origin: str,
        pay_to: Sequence[str],
        owner: str,
        until: float,
        expired: float,
        now: float,
        new_purchase: bool = False,
    ) -> Payment:
        """Set the money of `payment` (state RESERVED) aside, and claim it for `owner` until `until`. In this order:

        1. What has expired for `origin` at `expired` (its service's time in Unix seconds) is closed, as `expire` does.
        2. The job of `payment` has got the answer for the same fingerprint already: the delivered payment is returned,
           nothing is reserved. Not with `new_purchase`.
        3. `find` finds another payment for the same fingerprint: that one is returned, nothing is reserved. Not with
           `new_purchase`, and then both stand until `submit`.
        4. The recipient must be one of `pay_to`; when that is empty, one remembered for `origin` or trusted for it;
           when there is none, any is accepted.
        5. The strictest of `budget` and the store's own budget must leave room, in all windows.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget` or `over_budget`.
        """
        ...

    def submit(self, payment_id: str, header: SignedHeader, *, pay_to: Sequence[str] = (), now: float) -> Payment:
        """Write the signed payment down: RESERVED becomes SUBMITTED, with one submission. In this order:

        1. It must be RESERVED.
        2. Without `pay_to` (as `reserve` got it), the recipient must be one remembered for the origin of its URL or
           trusted for it; when there is none, this one is remembered. Another call may have been faster.
        3. Older payments for the same fingerprint that stand in the way are marked as superseded.

        Raises:
            PaymentRefusedError: `reservation_lost` or `recipient_changed`; it must not be sent then.
        """
        ...

    def resubmit(self, payment_id: str, *, now: float, job: str | None = None) -> Payment:
        """Count one more submission, before it happens: what was REJECTED_LIVE is SUBMITTED again.

        A payment that has no job becomes one of `job`. What is no longer live is returned as it is, and must not be
        sent.
        """
        ...

    def settle(
        self,
        payment_id: str,
        state: PaymentState,
        *,
        reason: str = "",
        receipt: Receipt | None = None,
        reply: bytes | None = None,
        submissions: int | None = None,
        now: float,
    ) -> Payment:
        """Move a payment on. A final state (not live) never changes by this; what is None stays as it was.

        What becomes DELIVERED with a `reply` waits for `collect` from then on.
        """
        ...

    def mark(self, payment_id: str, *, paid: bool, now: float) -> Payment:
        """What a person says of a payment that is unresolved (or live and expired).

        Raises:
            PaymentRefusedError: `not_unresolved`: its outcome is known, or it is still live.
        """
        ...

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment; False while another owner has it. `until` is 300 seconds from `now` at most."""
        ...

    def collect(self, payment_id: str, *, owner: str, keep: bool = False, job: str | None = None) -> None:
        """The caller has the answer of a delivered payment: `find` does not find it any more.

        The claim of `owner` is given back. A payment without a job becomes one of `job`. Without a job and without
        `keep`, the reply is forgotten. Nothing but the claim changes for what is not delivered, or collected already.
        """
        ...

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """The caller did not get the answer of a delivered payment after all: as it was before `collect`.

        `reply` is kept where it was forgotten, and the claim of `owner` is given back.
        """
        ...

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Give a claim back."""
        ...

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close what has expired at `at` (the service's time): valid_before + GRACE <= at.

        `origin` is the service whose time it is (`https://host`, with a port if the URLs have one): payments for other
        ones stay as they are, as their clocks may differ. Without it, all are closed.

        REJECTED_LIVE becomes EXPIRED_UNPAID, RESERVED becomes CANCELLED, the other live ones EXPIRED_UNKNOWN.
        """
        ...

    def get(self, payment_id: str) -> Payment | None:
        """One payment; None when there is none of that id."""
        ...

    def history(
        self, *, states: Sequence[PaymentState] = (), limit: int = 100, before: str | None = None
    ) -> list[Payment]:
        """Payments, newest first; `before` is the id of the last one of the page before."""
        ...

    def delivered(self, job: str, fingerprint: str) -> Payment | None:
        """The newest delivered payment of a job for a call whose `reply` was kept."""
        ...

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and reserved, and what `budget` and the store's own leave."""
        ...

    def budget(self) -> Budget:
        """The store's own budget."""
        ...

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget."""
        ...

    def trusted(self, origin: str) -> list[str]:
        """The recipients that are remembered or trusted for an origin."""
        ...

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Accept one more recipient for an origin."""
        ...

    def close(self) -> None:
        """Close what is open. It opens again when it is used again."""
        ...
