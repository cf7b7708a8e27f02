# Generated from src/tradesdk/_async/payment_history.py by scripts/unasync.py: change that file instead.
"""Payments in a market client's ledger: list, resume, reconcile and mark them."""

from __future__ import annotations

import builtins  # `list` is a method below
import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from .._http.arguments import flags, optional_identifier, required_text, whole
from .._market import ENDPOINTS
from .._values.payment import GRACE, Payment, PaymentStage, origin_of
from .._values.text import display, printable, without_keys
from ..errors import InvalidArgumentError, PaymentError, PaymentRefusedError, TradeError
from ..models.market import MarketModel
from ..payments.budget import Spending
from ..payments.ledger.changes import Mark, Record
from ..payments.ledger.rules import addresses, recipients_of, secret_of, with_address
from ..payments.messages import blocking_error, not_expired
from ..payments.results import MarketResult, Reconciliation
from ..payments.signing.purchase_secret import purchase_secret
from ..payments.signing.secp256k1 import checked_address
from ..payments.signing.signer import Asked
from .purchase_driver import PurchaseDriver
from .signing import ask_signer

D = TypeVar("D", bound=MarketModel)


class Payments:
    """`client.payments`: the payments in the ledger of a market client."""

    def __init__(self, driver: PurchaseDriver) -> None:
        self._driver = driver

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._driver.session.base_url}>"

    def get(self, payment_id: str) -> Payment:
        """One payment.

        Raises:
            PaymentRefusedError: `no_such_payment`.
        """
        if payment_id:
            required_text("payment_id", payment_id)
        found = self._driver.buyer.ledger.get(payment_id)
        if found is None:
            message = f"the ledger has no payment {printable(without_keys(payment_id), 60)}"
            raise PaymentRefusedError(message, code="no_such_payment")
        return found

    def list(
        self,
        *,
        stages: Sequence[PaymentStage] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> builtins.list[Payment]:
        """Payments, newest first.

        Args:
            stages: only payments at these stages; empty: all.
            unproven: only payments without a proof that they were paid or not, or with a receipt of less than was
                signed.
            limit: the most payments to return, 1 or more.
            before: the id of the last payment of the previous page.
        """
        limit = whole("limit", limit, 1)
        if not isinstance(stages, Collection) or not all(isinstance(stage, PaymentStage) for stage in stages):
            raise InvalidArgumentError("stages must be a list of PaymentStage", hint="write stages=[PaymentStage.SENT]")
        before = optional_identifier("before", before)
        history = partial(self._driver.buyer.ledger.history, unproven=unproven, limit=limit, before=before)
        return history(stages=tuple(stages))

    def spending(self) -> Spending:
        """What is spent and held, and what the budgets leave."""
        buyer = self._driver.buyer
        return buyer.ledger.spending(buyer.budget, now=buyer.clock.now())

    @overload
    def resume(self, payment_id: str) -> MarketResult[MarketModel]: ...

    @overload
    def resume(self, payment_id: str, data: type[D]) -> MarketResult[D]: ...

    def resume(self, payment_id: str, data: type[Any] = MarketModel) -> MarketResult[Any]:
        """Resend a payment with the same bytes, and return what it bought. It cannot be taken twice.

        This also works in another process, and needs no signer. The answer is kept in the ledger, and resuming again
        returns it again. That includes an answer that a canceled or killed call paid for and did not get, however old
        it is: see `answered_at` of the result. With a witness, a payment whose outcome stays unknown is settled by the
        chain's verdict, as in `reconcile`; the error then has its new state.

        Args:
            payment_id: the payment.
            data: the type of what it bought, which is then the type of the result's `data`: `TokenResults[TokenPrice]`
                for `token_prices`, `TopPerformers`, and so on.

        Raises:
            InvalidArgumentError: it bought something else than `data`. Nothing was sent.
            PaymentOutcomeUnknownError: the outcome is still unknown, or the payment has expired.
            PaymentUndeliveredError: it was taken before, and the answer is not sent again.
            PaymentRefusedError: there is nothing to resend; `code` says why.

        Example:
            ```python
            result = market.payments.resume(error.payment.id, TokenResults[TokenPrice])
            ```
        """
        payment = self.get(payment_id)
        endpoint = ENDPOINTS.get(payment.url.removeprefix(self._driver.session.base_url))
        # A payment of another service is refused by the driver.
        if endpoint and not (isinstance(data, type) and issubclass(endpoint.answer, data)):
            bought, named = endpoint.answer.__name__, getattr(data, "__name__", display(data))
            raise InvalidArgumentError(
                f"payment {payment.id} bought {bought}, not {named}", hint=f"pass {bought} as data=, or leave it out"
            )
        try:
            return self._driver.resume(payment)
        except PaymentError as error:
            payment = self.get(payment_id)
            if not payment.is_unresolved(self._now(payment)):
                raise
            try:
                found = self._driver.proofs.settle([payment])
            except TradeError:  # the witness is closed, for example
                raise error from None
            if not any(verdict.paid is not None for _, verdict in found):
                raise
        raise blocking_error(self.get(payment_id))

    def reconcile(self) -> Reconciliation:
        """Resend payments with an unknown outcome, and list those that a person must check.

        With a witness, the chain is asked about those first. One that was not taken, and can no longer be, is marked as
        unpaid. One that was taken moves to stage TAKEN, with the block as its reason: it stays `unresolved`, as its
        answer is missing, and only a person can say that it may be bought again. An answered one without a receipt
        stays answered: its money is spent, or no longer held.

        Answers are kept in the ledger as well: `resume` returns them again if this call is interrupted.
        """
        delivered, failed = builtins.list[MarketResult[MarketModel]](), builtins.list[tuple[Payment, TradeError]]()
        try:
            self._driver.sync_clock()
            for payment in self._all(PaymentStage.SENT):
                if payment.in_doubt and not payment.is_expired(self._now(payment)):
                    try:
                        delivered.append(self._driver.resume(payment))
                    except TradeError as error:
                        failed.append((self.get(payment.id), error))
            witnessed = self._driver.proofs.settle(self._unresolved())
            sent = self._all(PaymentStage.SENT)
            return Reconciliation(
                delivered=tuple(delivered),
                failed=tuple(failed),
                unresolved=tuple(self._unresolved()),
                live=tuple(one for one in sent if one.is_live(self._now(one))),
                witnessed=tuple(witnessed),
            )
        except BaseException:
            self._driver.reopen(delivered)
            raise

    def collect(self, payment_id: str) -> Payment:
        """Note that your program has stored the answer of a payment, with a client that has `collect=False`.

        The next equal call is then another purchase. The answer stays in the ledger, for `resume`.

        Raises:
            PaymentRefusedError: `no_such_payment`.
        """
        payment, update = self.get(payment_id), self._driver.buyer.ledger.update
        return (update(payment.id, Record(collected=True, keep=True))).payment

    def mark(self, payment_id: str, *, paid: bool) -> Payment:
        """Mark a payment without proof as paid or unpaid, after checking the wallet.

        The amount of an unpaid one is no longer held, and the same call signs its nonce again. A paid one is closed:
        the same call is another purchase, unless it has a name. An answered one without a receipt stays answered: the
        mark only says whether its amount is spent, or was not taken. One with a receipt of less than was signed can be
        marked as paid: the receipt is right, and the rest is no longer held.

        Raises:
            PaymentRefusedError: `no_such_payment`; `not_unresolved`: its outcome is known, or it may still be taken.
        """
        flags(paid=paid)
        buyer, payment = self._driver.buyer, self.get(payment_id)
        is_ours = payment.origin == origin_of(self._driver.session.base_url)  # the time of other services is not known
        if is_ours and payment.stage is PaymentStage.SENT:
            self._driver.sync_clock()
            earliest = buyer.time.earliest(buyer.clock.now(), buyer.clock.monotonic())
            if payment.valid_before + GRACE > earliest:
                raise not_expired(payment)  # by the local clock alone it may look expired
        mark = Mark(paid=paid, now=buyer.clock.now())
        return (buyer.ledger.update(payment_id, mark)).payment

    def purchase_secret_ids(self) -> tuple[str | None, str]:
        """The id of the purchase secret that the ledger has for this payer, or None, and the id of this client's.

        If they differ, named purchases are refused (`purchase_secret_changed`).

        Raises:
            PaymentRefusedError: `no_purchase_secret`; `no_signer`; `signer_failed`.
        """
        buyer = self._driver.buyer

        def ids() -> Asked[tuple[str | None, str]]:
            secret = yield from purchase_secret(buyer.signer)
            return buyer.ledger.setting(secret_of(buyer.payer)), secret.id

        return ask_signer(ids())

    def accept_purchase_secret(self) -> str:
        """Accept this client's purchase secret in place of the one of earlier named purchases of this payer.

        A new secret makes new nonces: names that only other ledgers have paid for can then be paid for again.

        Returns:
            The id of the new secret.

        Raises:
            PaymentRefusedError: `no_purchase_secret`; `no_signer`.
        """
        buyer = self._driver.buyer

        def accept() -> Asked[str]:
            secret = yield from purchase_secret(buyer.signer)
            buyer.ledger.set_setting(secret_of(buyer.payer), lambda known: secret.id)
            return secret.id

        return ask_signer(accept())

    def trust(self, address: str) -> None:
        """Trust a recipient of payments for this client's service, besides those known.

        Raises:
            InvalidArgumentError: it is not an address.
        """
        recipient = checked_address("a recipient", address, "pass the whole address, as error.details.address has it")
        name, change = recipients_of(origin_of(self._driver.session.base_url)), self._driver.buyer.ledger.set_setting
        change(name, lambda known: with_address(known, recipient))

    def trusted(self) -> builtins.list[str]:
        """The known recipients of payments for this client's service, oldest first."""
        ledger, name = self._driver.buyer.ledger, recipients_of(origin_of(self._driver.session.base_url))
        return addresses(ledger.setting(name))

    def _unresolved(self) -> builtins.list[Payment]:
        """Payments whose outcome only the chain or a person can decide."""
        taken = partial(self._driver.buyer.ledger.history, stages=(PaymentStage.TAKEN,), limit=sys.maxsize)
        found = [*self._all(PaymentStage.SENT, PaymentStage.ANSWERED), *taken()]
        return [one for one in found if one.is_unresolved(self._now(one))]

    def _now(self, payment: Payment) -> float:
        """The local time, or the service's if it is later and the payment is to this client's service."""
        buyer = self._driver.buyer
        if payment.origin != origin_of(self._driver.session.base_url):
            return buyer.clock.now()
        return buyer.time.moment(buyer.clock).latest

    def _all(self, *stages: PaymentStage) -> builtins.list[Payment]:
        """The payments at these stages without proof, or with a proof of only a part."""
        history = partial(self._driver.buyer.ledger.history, stages=stages, unproven=True, limit=sys.maxsize)
        return history()
