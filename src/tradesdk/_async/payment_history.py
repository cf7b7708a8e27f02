"""What a market client's ledger knows, and what can be done about payments that did not end well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .._values.payment import Payment, PaymentState, origin_of
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


class AsyncPayments:
    """The ledger of a market client."""

    def __init__(self, paying: AsyncPaymentFlow) -> None:
        self._paying = paying

    async def get(self, payment_id: str) -> Payment:
        """One payment.

        Raises:
            PaymentRefusedError: `no_such_payment`.
        """
        store = self._paying.authorizer.store
        found = await in_thread(lambda: store.get(payment_id))
        if found is None:
            raise PaymentRefusedError(
                f"the ledger has no payment {printable(without_keys(str(payment_id)), 60)}",
                code="no_such_payment",
                hint="client.payments.list(), or: trade pay history",
            )
        return found

    async def list(
        self, *, states: Sequence[PaymentState] = (), limit: int = 100, before: str | None = None
    ) -> _Payments:
        """Payments, newest first.

        Args:
            states: only those in one of these states; empty: all.
            limit: at most so many, 1 or more.
            before: the id of the last payment of the page before.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")
        store = self._paying.authorizer.store
        return await in_thread(lambda: store.history(states=tuple(states), limit=limit, before=before))

    async def spending(self) -> Spending:
        """What is spent and reserved, and what the budgets leave."""
        authorizer = self._paying.authorizer
        return await in_thread(lambda: authorizer.store.spending(authorizer.budget, now=authorizer.clock.now()))

    async def resume(self, payment_id: str) -> MarketResult[Any]:
        """Hand a payment over once more, the same bytes, and give what it bought. It cannot be taken twice.

        It works in another process than the one that made the payment, and needs no signer. What arrives is kept in the
        ledger, and asking for it once more gives it again. So does an answer that a cancelled or killed call was paid
        for and did not get, however old it is: `answered_at` of the result says when it came.

        Raises:
            PaymentOutcomeUnknownError: it is still not known, or its time is up.
            PaymentUndeliveredError: it was taken before, and the answer does not come again.
            PaymentRefusedError: there is nothing to hand over; `code` says why.
        """
        return await self._paying.resume(await self.get(payment_id), lambda result: result)

    async def reconcile(self) -> Reconciliation:
        """Hand over again what is in doubt, free what expired unpaid, and list what a person has to decide.

        What was bought anew with `new_purchase=True` in the meantime is not handed over, since it would be charged
        twice: it stays among the `live` ones until it has expired, and `resume` still hands it over. What arrives is
        kept in the ledger as well: `resume` gives it again, should this call not come to its end.
        """
        delivered: _Results = []
        try:
            return await self._reconcile(delivered)
        except BaseException:
            await self._paying.open_again(delivered)
            raise

    async def _reconcile(self, delivered: _Results) -> Reconciliation:
        authorizer = self._paying.authorizer
        store = authorizer.store
        failed: _Failures = []
        origin = origin_of(self._paying.session.base_url)
        if not authorizer.time.is_known:
            await self._paying.look_at_the_clock()
        released = [*await in_thread(partial(authorizer.expire, origin)), *await in_thread(authorizer.expire_elsewhere)]
        for payment in await self._all(_OPEN):
            if payment.superseded:  # its call was paid for anew: taken as well, it would be charged twice
                continue
            try:
                await self._paying.resume(payment, delivered.append)
            except TradeError as error:
                current = await in_thread(partial(store.get, payment.id))
                failed.append((payment if current is None else current, error))
        released += await in_thread(partial(authorizer.expire, origin))
        return Reconciliation(
            delivered=tuple(delivered),
            failed=tuple(failed),
            released=tuple(
                one for one in released if one.state in (PaymentState.EXPIRED_UNPAID, PaymentState.CANCELLED)
            ),
            unresolved=tuple(await self._all((PaymentState.PAID_UNDELIVERED, PaymentState.EXPIRED_UNKNOWN))),
            live=tuple(await self._all((*_OPEN, PaymentState.RESERVED, PaymentState.REJECTED_LIVE))),
        )

    async def mark(self, payment_id: str, *, paid: bool) -> Payment:
        """Say of a payment whose outcome is unknown what it was, after looking at the wallet.

        Marked as unpaid, its money is free again; in both cases the same call may be paid for again.

        Raises:
            PaymentRefusedError: `no_such_payment`; `not_unresolved`: its outcome is known, or it is still live.
        """
        authorizer = self._paying.authorizer
        origin = origin_of(self._paying.session.base_url)
        if not authorizer.time.is_known:
            await self._paying.look_at_the_clock()
        await in_thread(partial(authorizer.expire, origin))
        payment = await self.get(payment_id)
        if payment.live:  # whatever the local clock says
            raise still_live(payment)
        return await in_thread(lambda: authorizer.store.mark(payment_id, paid=paid, now=authorizer.clock.now()))

    async def trust(self, address: str) -> None:
        """Accept one more recipient of payments for this client's service.

        Raises:
            InvalidArgumentError: it is no address.
        """
        authorizer = self._paying.authorizer
        try:
            recipient = checksummed(address)
        except TradeError:
            raise InvalidArgumentError("a recipient must be an address: 0x and 40 hexadecimal digits") from None
        origin = origin_of(self._paying.session.base_url)
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
