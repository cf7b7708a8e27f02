"""Payments in a market client's ledger: list, resume, reconcile and mark them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .._values.payment import RELEASED, UNRESOLVED, Payment, PaymentState, origin_of
from .._values.text import printable, without_keys
from ..errors import InvalidArgumentError, PaymentRefusedError, TradeError
from ..payments.budget import Spending
from ..payments.messages import still_live
from ..payments.results import MarketResult, Reconciliation
from ..payments.signing.secp256k1 import checksummed
from .concurrency import in_thread
from .payment_flow import AsyncPaymentFlow

# `list` is a method below.
_Payments = list[Payment]
_Results = list[MarketResult[Any]]
_Failures = list[tuple[Payment, TradeError]]
_OPEN = (PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN)
_UNRESOLVED = (*sorted(UNRESOLVED), PaymentState.EXPIRED_UNKNOWN, PaymentState.EXPIRED_UNPAID)


class AsyncPayments:
    """`client.payments`: the payments in the ledger of a market client."""

    def __init__(self, flow: AsyncPaymentFlow) -> None:
        self._flow = flow

    async def get(self, payment_id: str) -> Payment:
        """One payment.

        Raises:
            PaymentRefusedError: `no_such_payment`.
        """
        store = self._flow.authorizer.store
        found = await in_thread(lambda: store.get(payment_id))
        if found is None:
            raise PaymentRefusedError(
                f"the ledger has no payment {printable(without_keys(str(payment_id)), 60)}",
                code="no_such_payment",
                hint="list them: client.payments.list() (trade pay history)",
            )
        return found

    async def list(
        self, *, states: Sequence[PaymentState] = (), limit: int = 100, before: str | None = None
    ) -> _Payments:
        """Payments, newest first.

        Args:
            states: only payments in these states; empty: all.
            limit: the most payments to return, 1 or more.
            before: the id of the last payment of the previous page.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")
        store = self._flow.authorizer.store
        return await in_thread(lambda: store.history(states=tuple(states), limit=limit, before=before))

    async def spending(self) -> Spending:
        """What is spent and reserved, and what the budgets leave."""
        authorizer = self._flow.authorizer
        return await in_thread(lambda: authorizer.store.spending(authorizer.budget, now=authorizer.clock.now()))

    async def resume(self, payment_id: str) -> MarketResult[Any]:
        """Resend a payment with the same bytes, and return what it bought. It cannot be taken twice.

        This also works in another process, and needs no signer. The answer is kept in the ledger, and resuming again
        returns it again. An answer that a canceled or killed call paid for and did not get is returned too, however
        old it is: see `answered_at` of the result.

        Raises:
            PaymentOutcomeUnknownError: the outcome is still unknown, or the payment has expired.
            PaymentUndeliveredError: it was taken before, and the answer is not sent again.
            PaymentRefusedError: there is nothing to resend; `code` says why.
        """
        return await self._flow.resume(await self.get(payment_id), lambda result: result)

    async def reconcile(self) -> Reconciliation:
        """Resend payments with an unknown outcome, and list what a person must check.

        A payment whose call was bought again with `new_purchase=True` is not resent, as both would be charged. It stays
        in `live` until it expires, and `resume` still resends it. Answers are kept in the ledger as well: `resume`
        returns them again if this call is interrupted.
        """
        delivered: _Results = []
        try:
            return await self._reconcile(delivered)
        except BaseException:
            await self._flow.reopen(delivered)
            raise

    async def _reconcile(self, delivered: _Results) -> Reconciliation:
        authorizer = self._flow.authorizer
        store = authorizer.store
        failed: _Failures = []
        origin = origin_of(self._flow.session.base_url)
        if not authorizer.time.is_known:
            await self._flow.sync_clock()
        released = [*await in_thread(partial(authorizer.expire, origin)), *await in_thread(authorizer.expire_elsewhere)]
        for payment in await self._all(_OPEN):
            if payment.superseded:  # its call was bought again: both would be charged
                continue
            try:
                await self._flow.resume(payment, delivered.append)
            except TradeError as error:
                current = await in_thread(partial(store.get, payment.id))
                failed.append((payment if current is None else current, error))
        released += await in_thread(partial(authorizer.expire, origin))
        free = {PaymentState.CANCELLED}
        if (await self.spending()).budget.release == "service":
            free |= RELEASED
        return Reconciliation(
            delivered=tuple(delivered),
            failed=tuple(failed),
            released=tuple(one for one in released if one.state in free),
            unresolved=tuple(await self._all([state for state in _UNRESOLVED if state not in free])),
            live=tuple(await self._all((*_OPEN, PaymentState.RESERVED, PaymentState.REJECTED_LIVE))),
        )

    async def mark(self, payment_id: str, *, paid: bool) -> Payment:
        """Mark a payment with an unknown outcome as paid or unpaid, after checking the wallet.

        The amount of an unpaid one is released. In both cases the same call may be paid for again.

        Raises:
            PaymentRefusedError: `no_such_payment`; `not_unresolved`: its outcome is known, or it is still live.
        """
        authorizer = self._flow.authorizer
        origin = origin_of(self._flow.session.base_url)
        if not authorizer.time.is_known:
            await self._flow.sync_clock()
        await in_thread(partial(authorizer.expire, origin))
        payment = await self.get(payment_id)
        if payment.live:  # by the local clock it may look expired
            raise still_live(payment)
        return await in_thread(lambda: authorizer.store.mark(payment_id, paid=paid, now=authorizer.clock.now()))

    async def trust(self, address: str) -> None:
        """Trust a recipient of payments for this client's service, besides those known.

        Raises:
            InvalidArgumentError: it is not an address.
        """
        authorizer = self._flow.authorizer
        try:
            recipient = checksummed(address)
        except TradeError:
            raise InvalidArgumentError("a recipient must be an address: 0x and 40 hexadecimal digits") from None
        origin = origin_of(self._flow.session.base_url)
        await in_thread(lambda: authorizer.store.trust(origin, recipient, now=authorizer.clock.now()))

    async def _all(self, states: Sequence[PaymentState]) -> Sequence[Payment]:
        found: _Payments = []
        before: str | None = None
        while True:
            page = await self.list(states=states, limit=200, before=before)
            found += page
            if len(page) < 200:
                return found
            before = page[-1].id
