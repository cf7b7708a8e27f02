"""The interface of a ledger. Other engines can implement it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..._values.payment import Payment, PaymentStage
from ..budget import Budget, Spending
from .changes import LedgerChange, LedgerRow
from .rules import Reservation


@runtime_checkable
class LedgerStore(Protocol):
    """Payments and settings, shared by threads and processes.

    Every method blocks, may be called from any thread, is atomic, and is durable (written and synced) when it returns.
    If that fails, it raises `LedgerError` and nothing has changed. `now` is the local clock in Unix seconds. What is
    decided is in `rules` and `changes`, which are pure; a store finds rows, locks them, and writes them.
    """

    def find(self, fingerprint: str, *, now: float, since: float = 0.0) -> Payment | None:
        """The newest payment for the same purchase that a call continues, or whose answer it gets.

        None that was never signed, unless a call may be about to. With a name any other, forever. Without a name:

        - any that has no answer, unless a person says that it was paid, and `created` at `since` or later, or live, but
          for one that ends later than any can, as a clock was ahead;
        - answered, while its answer `waits`, and if it was `updated` after `now - 60`. One `updated` more than 5
          seconds after `now` is ignored: the clock was set back since.
        """
        ...

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        ...

    def history(
        self,
        *,
        stages: Sequence[PaymentStage] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments, newest first; `before` is the id of the last payment of the previous page.

        `unproven`: only those without a proof: `paid` is None.
        """
        ...

    def spending(self, budget: Budget, *, now: float, run: str | None = None) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave.

        With `run`, by all payments that ever belonged to that batch run, also those that another run has signed since.
        """
        ...

    def reserve(self, wanted: Reservation) -> tuple[Payment, bool]:
        """Reserve an amount, and claim its payment.

        Returns the payment, and whether it is reserved for the owner: else it is another one for the same purchase. In
        this order:

        1. Replies that were collected are deleted after `rules.KEPT` seconds. Reservations that do not hold at `now`
           are deleted: should the clock be set back, they would hold again, and their room may be given away.
        2. If `find` finds an earlier payment, that one is returned, unless `rules.is_signable` and no other call has
           claimed it: then it is reserved (again), one nonce for one purchase.
        3. The recipient must be one of `pay_to`. If that is empty, it must be known for the origin; if none is known,
           any recipient is accepted.
        4. `max_total` for all payments that ever had its `run`, the budget and the store's own budget must all leave
           room for its amount, in all windows. For an earlier payment, `rules.spending_before` is what was spent
           before.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget`, `over_budget` or `over_total`. Nothing is reserved.
        """
        ...

    def update(self, payment_id: str, change: LedgerChange) -> LedgerRow:
        """Make a change in one transaction that reads the row and what the change compares, and return the row then.

        Raises:
            PaymentError: the change is refused.
        """
        ...

    def setting(self, name: str) -> str | None:
        """A setting: see `settings`."""
        ...

    def set_setting(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Set a setting to what a pure function makes of it; None removes it."""
        ...

    def close(self) -> None:
        """Close files and connections. The next use opens them again."""
        ...
