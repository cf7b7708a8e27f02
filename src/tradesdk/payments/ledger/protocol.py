"""The interface of a ledger. Other engines can implement it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..._values.payment import Payment, PaymentState, Receipt, SignedHeader
from ..budget import Budget, Spending


@runtime_checkable
class LedgerStore(Protocol):
    """Payments and budgets, shared by threads and processes.

    Every method blocks, may be called from any thread, is atomic, and is durable (written and synced) when it returns.
    If that fails, it raises `LedgerError` and nothing has changed. `now` is the local clock in Unix seconds. `owner`
    names the caller that works on a payment. A claim is void when its owner is known to be dead, when it has expired,
    or when it ends much later than a claim may last: then the clock was set back.
    """

    def find(self, fingerprint: str, *, now: float, since: float = 0.0) -> Payment | None:
        """The newest payment for the same purchase that is not closed.

        With a name, only CANCELLED is closed. Without a name, what was `created` before `since` is too, unless it may
        still be taken; and MARKED_PAID, and DELIVERED, but for one whose `reply` was not collected and which was
        `updated` after `now - 60`. One `updated` more than 5 seconds after `now` is ignored: the clock was set back
        since.
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
        over: float,
        since: float = 0.0,
        max_total: int | None = None,
        now: float,
    ) -> tuple[Payment, bool]:
        """Reserve the amount of `payment` (state RESERVED), and claim it for `owner` until `until`.

        Returns the payment, and whether it is reserved for `owner`: else it is another one for the same purchase. In
        this order:

        1. Payments for `origin` that have expired at `expired` (the service's time in Unix seconds) are closed, as
           `expire` does. Replies that were collected are deleted after `rules.KEPT` seconds.
        2. If `find` finds another payment for the same fingerprint, that one is returned and nothing is reserved. But
           if `rules.is_renewable` (by `over`, a time of the service) and no other owner has claimed it, it is reserved
           again, as `rules.renewed` says: one nonce for one purchase.
        3. The recipient must be one of `pay_to`. If that is empty, it must be known for `origin`; if none is known, any
           recipient is accepted.
        4. `max_total` for all payments with its `run`, `budget` and the store's own budget must all leave room for its
           amount, in all windows. For one that is reserved again, `rules.spending_before` is what was spent before.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget`, `over_budget` or `over_total`.
        """
        ...

    def submit(
        self,
        payment: Payment,
        header: SignedHeader,
        *,
        pay_to: Sequence[str] = (),
        owner: str | None = None,
        secret_id: str | None = None,
        now: float,
    ) -> Payment:
        """Write down the signed payment and its terms: RESERVED becomes SUBMITTED, with one more submission and
        signature.

        In this order:

        1. It must be RESERVED, and no other owner than `owner` may have claimed it (None: any may).
        2. Without `pay_to` (the value given to `reserve`), the recipient must be known for the origin of its URL. If
           none is known, this one is remembered. Another call may have been faster.
        3. `secret_id` is stored for its payer, if there is none yet; it must not be another one than before.

        Raises:
            PaymentRefusedError: `reservation_lost`, `recipient_changed` or `purchase_secret_changed`. The payment must
                not be sent.
        """
        ...

    def resubmit(
        self,
        payment_id: str,
        *,
        signatures: int,
        owner: str | None = None,
        run: str | None = None,
        max_total: int | None = None,
        now: float,
    ) -> tuple[Payment, bool]:
        """Count one more submission before it is sent: REJECTED_LIVE becomes SUBMITTED again.

        Returns the payment, and whether it may be sent. It may not, and nothing is counted, if it is no longer live,
        has another number of signatures, or is not claimed by `owner` (None: any). From now on it belongs to the batch
        `run` that sends it (None: as before), whose `max_total` must leave room for it.

        Raises:
            PaymentRefusedError: `over_total`.
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
        settle_failed: int | None = None,
        signatures: int | None = None,
        owner: str | None = None,
        now: float,
    ) -> Payment:
        """Move a payment to `state`, as far as `rules.state_after` says. Fields that are None stay as they are.

        `signatures`: how many there were when it was sent, and `owner`: the call; see `rules.report_counts`.

        CANCELLED ends a reservation: see `rules.when_not_sent`. It changes nothing where `rules.may_be_unsent`
        says no, or another owner than `owner` (None: any) has claimed it.

        The `reply` of a payment that becomes DELIVERED is kept until `collect`.
        """
        ...

    def mark(
        self, payment_id: str, *, paid: bool, evidence: str = "", signatures: int | None = None, now: float
    ) -> Payment:
        """Mark a payment as paid or unpaid, on the word of a person or of the chain: `rules.may_be_marked`.

        Args:
            payment_id: the payment.
            paid: whether it was taken. A DELIVERED one stays that; an unpaid one no longer counts.
            evidence: what the chain says, if that is the reason. A paid one then becomes PAID_UNDELIVERED: its answer
                is still missing, and only a person can say that it may be bought again.
            signatures: how many there were when that was found out. With others since, nothing changes.
            now: the local clock in Unix seconds.

        Raises:
            PaymentRefusedError: `not_unresolved`: its outcome is known, or it is still live.
        """
        ...

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment; False while another owner has it. `until` is at most 300 seconds after `now`."""
        ...

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        """Note that the caller has the answer of a delivered payment: without a name, `find` no longer finds it.

        Releases the claim of `owner`. Without a name and without `keep`, the reply is deleted. If the payment is not
        delivered, or collected already, only the claim changes.
        """
        ...

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """Undo `collect`: the caller did not get the answer of a delivered payment.

        Stores `reply` again if it was deleted, and releases the claim of `owner`.
        """
        ...

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Release a claim."""
        ...

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close payments that have expired at `at` (the service's time): valid_before + GRACE <= at.

        `origin` is the service whose time it is (`https://host`, with a port if the URLs have one). Payments for other
        services stay as they are, as their clocks may differ. Without `origin`, payments for all services are closed.

        `rules.when_expired` says what becomes of each.
        """
        ...

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        ...

    def history(
        self,
        *,
        states: Sequence[PaymentState] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments, newest first; `before` is the id of the last payment of the previous page.

        `unproven`: only those that are not `proven_paid`.
        """
        ...

    def purchase_secret(self, payer: str) -> str | None:
        """The id of the secret that nonces of a payer's named purchases are made with, if there are any."""
        ...

    def set_purchase_secret(self, payer: str, secret_id: str) -> None:
        """Replace that id."""
        ...

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave."""
        ...

    def run_spending(self, run: str) -> Spending:
        """What the payments of a batch run count: `total` and `held`."""
        ...

    def budget(self) -> Budget:
        """The store's own budget."""
        ...

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget."""
        ...

    def trusted(self, origin: str) -> list[str]:
        """The known recipients of an origin: remembered from payments, or trusted."""
        ...

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Add a trusted recipient for an origin."""
        ...

    def close(self) -> None:
        """Close files and connections. The next use opens them again."""
        ...
