"""From an offer to a signed payment in the ledger: guards, budget, signature, ledger, in this order.

Most functions block (they sync a file, or call a remote signer), so the async flavor calls them in a thread. Nothing
here sends anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from .._http.log_events import log_fields, logger
from .._http.service_time import REPORTED, ServiceClock
from .._system.clock import Clock
from .._values.money import shown_usd, usd
from .._values.payment import Payment, PaymentState, Receipt, SignedHeader, origin_of
from ..errors import (
    ErrorCode,
    LedgerError,
    PaymentError,
    PaymentRefusedError,
    PriceDetails,
    RecipientDetails,
    TradeError,
)
from .budget import Budget, Spending
from .guards import Guards, check_url, choose, validity
from .ledger.leases import LONGEST_CLAIM, ended
from .ledger.rules import (
    budget_refusal,
    is_renewable,
    kept_answer,
    renewed,
    spending_before,
    total_refusal,
    with_terms,
)
from .messages import blocking_error, purchase_changed, purchase_secret_changed
from .protocol import Authorization, Offer, Requirement, encode_payment
from .purchases import PurchaseIntent, PurchaseSecret, purchase_secret
from .results import DryRun, Quote
from .signing.secp256k1 import checksummed
from .signing.signer import LocalSigner, Signer, checked_signer, new_nonce, signed_authorization
from .state_machine import MARGIN

if TYPE_CHECKING:
    from .ledger.protocol import LedgerStore

_A_DAY = 86_400
NO_SPENDING = {"last_hour": 0, "today": 0, "total": 0, "held": 0, "held_last_hour": 0, "held_today": 0}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment in the ledger. A fresh one was signed just now, and this signature was never sent."""

    payment: Payment
    fresh: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a submission, to be written down. Fields that are None do not change."""

    state: PaymentState
    reason: str
    receipt: Receipt | None
    reply: bytes | None
    submissions: int
    settle_failed: int


class PaymentAuthorizer:
    """Authorizes payments: signer, budgets and guards of a client.

    Args:
        store: the ledger.
        signer: the signer, or a function that returns it when it is first needed; None: quotes only.
        budget: the limits of the client.
        guards: the guards.
        pay_to: the only recipients to pay; if empty, the one that was paid first.
        continue_for: seconds from its first signing in which an equal unnamed call continues a payment.
        clock: the clock.
    """

    def __init__(
        self,
        *,
        store: LedgerStore,
        signer: Signer | Callable[[], Signer] | None,
        budget: Budget,
        guards: Guards,
        pay_to: Collection[str],
        continue_for: float,
        clock: Clock,
    ) -> None:
        self.store = store
        self.budget = budget
        self.clock = clock
        self.time = ServiceClock()
        self._signer = signer
        self._guards = guards
        self._pay_to = tuple(pay_to)
        self._continue_for = continue_for
        self._payer: str | None = None

    @property
    def has_signer(self) -> bool:
        """Whether there is a signer."""
        return self._signer is not None

    @property
    def signer(self) -> Signer:
        """The signer.

        Raises:
            PaymentRefusedError: `no_signer`.
        """
        signer = self._signer
        if signer is None:
            raise PaymentRefusedError(
                "there is no wallet to pay with",
                code="no_signer",
                hint="pass signer=LocalSigner.from_keystore(…), or set TRADE_WALLET_KEY",
            )
        if not isinstance(signer, LocalSigner | Signer):
            signer = self._signer = checked_signer(signer())
        return signer

    @property
    def payer(self) -> str:
        """The paying address. The first use may take half a second, as it loads the signing library."""
        if self._payer is None:
            signer = self.signer
            self._payer = signer.address if type(signer) is LocalSigner else checksummed(signer.address)
        return self._payer

    def limits(self, purchase: PurchaseIntent) -> Budget:
        """The client's limits, and `max_price` of the call, which does not change what counts."""
        if purchase.max_price is None:
            return self.budget
        stored = Budget() if self.budget.is_set else self.store.budget()
        release = (stored if stored.is_set else self.budget).release
        return self.budget.strictest(Budget.from_micro({"per_call": purchase.max_price}, release))

    def quote(self, purchase: PurchaseIntent) -> Quote:
        """The published price, and what the budgets leave. A free call does not read the ledger."""
        if purchase.amount == 0:
            spending = Spending(**NO_SPENDING, budget=self.budget)
        else:
            spending = self.store.spending(self.limits(purchase), now=self.clock.now())
        return Quote(path=purchase.path, tokens=purchase.tokens, amount=purchase.amount, spending=spending)

    def existing(self, purchase: PurchaseIntent) -> Payment | None:
        """An earlier payment for the same purchase: it is not closed, or its answer can be returned.

        The states of expired payments are brought up to date first.

        Raises:
            PaymentRefusedError: `purchase_changed`: the name was used for other data.
        """
        found = self._find(purchase)
        if found is not None and found.live:
            self.expire(origin_of(purchase.url))
            found = self._find(purchase)
        if found is not None and not purchase.is_for(found):
            raise purchase_changed(found)
        return found

    def _find(self, purchase: PurchaseIntent) -> Payment | None:
        now = self.clock.now()
        found = self.store.find(purchase.fingerprint(self.payer), now=now, since=now - self._continue_for)
        return None if found is None else kept_answer(found, now)

    def check_total(self, purchase: PurchaseIntent) -> None:
        """Check the published price against what is left of a run's `max_total`, before anything is requested.

        Raises:
            PaymentRefusedError: `over_total`.
        """
        refusal = total_refusal(purchase.amount, purchase.max_total, self.store.run_spending(purchase.run or ""))
        if refusal is not None:
            raise refusal

    def expire(self, origin: str) -> list[Payment]:
        """Close the payments for a service that have surely expired by its clock."""
        now = self.clock.now()
        return self.store.expire(self.time.earliest(now, self.clock.monotonic()), now=now, origin=origin)

    def expire_elsewhere(self) -> list[Payment]:
        """Close the payments for any service that expired a day ago by the local clock: a service may be gone."""
        now = self.clock.now()
        return self.store.expire(now - _A_DAY, now=now)

    def delivered(self, purchase: PurchaseIntent) -> Payment | None:
        """The payment of a named purchase whose answer is in the ledger."""
        found = self._find(purchase)
        if found is None or found.state is not PaymentState.DELIVERED or found.reply is None:
            return None
        return found if purchase.is_for(found) else None

    def latest(self) -> float:
        """The latest estimate of the service's time, in Unix seconds."""
        return self.time.latest(self.clock.now(), self.clock.monotonic())

    def check_existing(self, payment: Payment, purchase: PurchaseIntent) -> None:
        """Check an earlier payment against the limits of this call before it is resent.

        Raises:
            PaymentRefusedError: `over_price` or `recipient_changed`.
        """
        most = purchase.amount if purchase.max_price is None else purchase.max_price
        code: ErrorCode
        details: PriceDetails | RecipientDetails
        if payment.amount > most:
            code, why = "over_price", f"costs {shown_usd(payment.amount)}, and this call may cost {shown_usd(most)}"
            details = PriceDetails(price=payment.amount_usd, allowed=usd(most))
        elif self._pay_to and payment.pay_to.lower() not in {address.lower() for address in self._pay_to}:
            code, why = "recipient_changed", f"goes to {payment.pay_to}, which pay_to= does not accept"
            details = RecipientDetails(address=payment.pay_to, trusted=self._pay_to)
        else:
            return
        raise PaymentRefusedError(
            f"an earlier payment for this call {why}",
            code=code,
            hint=f"client.payments.resume({payment.id!r}) resends it anyway; after {payment.expires_at:%H:%M:%S} UTC "
            "the same call signs it again, with these limits",
            details=details,
            payment=payment,
        )

    def is_over(self, payment: Payment) -> bool:
        """Whether a live payment can no longer be sent, by the latest estimate of the time."""
        return payment.live and self.latest() + MARGIN >= payment.valid_before

    def may_have_kept_answer(self, payment: Payment) -> bool:
        """Whether the service may have stored the answer of an expired payment by its identifier, for a day at most."""
        if payment.header is None or not payment.identified or payment.state is PaymentState.MARKED_UNPAID:
            return False
        return self.clock.now() < payment.counts_until + _A_DAY

    def is_renewable(self, payment: Payment) -> bool:
        """Whether the same call signs the nonce of an earlier payment again."""
        return is_renewable(payment, self.latest() + MARGIN)

    def observe(self, headers: Mapping[str, str]) -> None:
        """Note the service's time from a response."""
        self.time.observe(headers, now=self.clock.now(), monotonic=self.clock.monotonic())

    def claim(self, payment: Payment, owner: str) -> Payment | None:
        """Claim a payment, so that no other call resends it at the same time. Returns its current version, or None."""
        now = self.clock.now()
        try:
            if not self.store.claim(payment.id, owner=owner, until=now + LONGEST_CLAIM, now=now):
                return None
            return self.store.get(payment.id) or payment
        except BaseException:
            with suppress(LedgerError):
                self.give_back(payment.id, owner)
            raise

    def give_back(self, payment_id: str, owner: str) -> None:
        """Release a claim. If that cannot be written (a full disk), this process ignores the claim from now on.

        Raises:
            LedgerError: it could not be written. Other processes wait until the claim expires.
        """
        try:
            self.store.give_back(payment_id, owner=owner)
        except BaseException:
            ended(owner)
            raise

    def record(
        self, payment: Payment, outcome: Outcome, owner: str, *, now: float
    ) -> tuple[Payment, LedgerError | None]:
        """Write down the outcome of a payment that `owner` sent.

        Returns the payment, and the error if it could not be written. The caller must get the outcome
        even if the ledger fails, so that error is not raised.
        """
        problem: LedgerError | None = None
        try:
            payment = self.store.settle(
                payment.id,
                outcome.state,
                reason=outcome.reason,
                receipt=outcome.receipt,
                reply=outcome.reply,
                submissions=outcome.submissions,
                settle_failed=outcome.settle_failed,
                signatures=payment.signatures,
                owner=owner,
                now=now,
            )
        except LedgerError as error:
            problem = error
            state, extra = outcome.state, log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.error(
                "payment %s is %s, and the ledger cannot be written: %s", payment.id, state, problem, extra=extra
            )
            payment = payment.moved(outcome.state, outcome.reason, outcome.receipt, outcome.submissions, now)
        return payment, problem

    def close(self, payment: Payment, owner: str, *, keep: bool) -> None:
        """Note that the caller has the answer, and release the claim."""
        try:
            self.store.collect(payment.id, owner=owner, keep=keep)
        except LedgerError as problem:
            ended(owner)  # else its claim would delay the next equal call
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.warning(
                "payment %s: its answer could not be marked as collected: %s", payment.id, problem, extra=extra
            )

    def reopen(self, payment: Payment, owner: str) -> None:
        """Note that the caller did not get the answer, so that the next equal call does. Release the claim.

        Raises:
            LedgerError: it could not be written.
        """
        try:
            self.store.reopen(payment.id, owner=owner, reply=payment.reply or b"")
        except BaseException:
            ended(owner)
            raise

    def claim_answer(self, payment: Payment, owner: str) -> bool:
        """Claim an answer that was not collected; False if another call has it."""
        now = self.clock.now()
        if not self.store.claim(payment.id, owner=owner, until=now + LONGEST_CLAIM, now=now):
            return False
        try:
            found = self.store.find(payment.fingerprint, now=now, since=now - self._continue_for)
        except BaseException:
            with suppress(LedgerError):
                self.give_back(payment.id, owner)
            raise
        if found is not None and found.id == payment.id:
            return True
        self.give_back(payment.id, owner)
        return False

    def authorize(self, purchase: PurchaseIntent, offer: Offer, owner: str) -> Prepared:
        """Check, reserve, sign and write down a payment. If another call was faster, returns its payment.

        An earlier payment for the same purchase that can no longer be sent is signed again, with the same nonce.

        Raises:
            PaymentRefusedError: a guard, a budget or the signer refused.
            LedgerError: it could not be written.
        """
        secret: PurchaseSecret | None = None
        if purchase.name is not None:
            secret = purchase_secret(self.signer)  # before the validity begins: a person may type a password
            self._check_secret(secret)
        requirement, draft = self._draft(purchase, offer)
        if purchase.name is not None and secret is not None:
            draft = replace(draft, nonce=secret.nonce(purchase.name, payer=draft.payer, asset=draft.asset))
        if abs(difference := self.time.difference) > REPORTED:
            side = "ahead of" if difference > 0 else "behind"
            extra = log_fields("clock_difference", seconds=round(difference, 1))
            logger.warning("the service's clock is %.0f s %s this machine's", abs(difference), side, extra=extra)
        now = self.clock.now()
        payment: Payment | None = None
        try:
            payment, is_reserved = self.store.reserve(
                draft,
                self.limits(purchase),
                origin=origin_of(purchase.url),
                pay_to=self._pay_to,
                owner=owner,
                until=now + LONGEST_CLAIM,
                expired=self.time.earliest(now, self.clock.monotonic()),
                over=self.latest() + MARGIN,
                since=now - self._continue_for,
                max_total=purchase.max_total,
                now=now,
            )
            if not is_reserved:
                earlier, payment = payment, None
                if not purchase.is_for(earlier):  # another process was faster
                    raise purchase_changed(earlier)
                return Prepared(earlier, fresh=False)
            if not purchase.is_for(payment):
                raise purchase_changed(payment)
            to_sign = with_terms(payment, draft)
            header = self._signed(offer, requirement, to_sign)
            submitted = self.store.submit(
                to_sign,
                header,
                pay_to=self._pay_to,
                owner=owner,
                secret_id=None if secret is None else secret.id,
                now=self.clock.now(),
            )
            return Prepared(submitted, fresh=True)
        except BaseException as error:
            if payment is not None or not isinstance(error, PaymentRefusedError):  # else nothing was reserved
                if payment is None:
                    ended(owner)  # it may have reserved an earlier payment
                with suppress(LedgerError):  # the first error matters more, and a reservation expires by itself
                    self._cancel(payment or draft, owner, "not sent")
            raise

    def reclaim(self, payment: Payment, owner: str) -> bool:
        """Cancel a reservation whose owner ended before signing; False while its owner may be signing."""
        current = self.claim(payment, owner)
        if current is None:
            return False
        if current.state is PaymentState.RESERVED:
            self._cancel(current, owner, "abandoned")
        else:
            self.give_back(payment.id, owner)
        return True

    def _cancel(self, payment: Payment, owner: str, reason: str) -> None:
        try:
            self.store.settle(payment.id, PaymentState.CANCELLED, reason=reason, owner=owner, now=self.clock.now())
        finally:
            self.give_back(payment.id, owner)

    def dry_run(self, purchase: PurchaseIntent, offer: Offer | None, quote: Quote) -> DryRun:
        """What `authorize` would sign. Nothing is signed or reserved."""
        if offer is None:
            return DryRun(quote=quote)
        try:
            existing = self.existing(purchase)
            if existing is not None and existing.state is PaymentState.DELIVERED and existing.reply is not None:
                return DryRun(quote=quote, existing=existing)
            requirement, draft = self._draft(purchase, offer)
        except PaymentRefusedError as error:
            return DryRun(quote=quote, refusal=error.with_traceback(None))
        now, spending = self.clock.now(), quote.spending
        if existing is None or self.is_renewable(existing):
            if existing is not None:
                again = renewed(existing, draft)
                spending = spending_before(again, draft.amount, existing, spending, now)
                draft = with_terms(again, draft)
            # When the hour leaves room again is not known here: the last hour's payments are not read.
            refusal = budget_refusal(draft.amount, spending, now=now, counted=())
            authorization = _authorization(draft).wire()
            if purchase.name is not None and existing is None:
                del authorization["nonce"]  # it takes the key
            return DryRun(
                quote=quote,
                authorization=authorization,
                requirement=requirement.raw,
                existing=existing,
                refusal=refusal,
            )
        blocked: PaymentError | None = None
        try:
            if not existing.live:
                raise blocking_error(existing)
            self.check_existing(existing, purchase)
        except PaymentError as error:
            blocked = error.with_traceback(None)
        return DryRun(quote=quote, authorization=_authorization(existing).wire(), existing=existing, refusal=blocked)

    def _draft(self, purchase: PurchaseIntent, offer: Offer) -> tuple[Requirement, Payment]:
        check_url(purchase.url)
        payer = self.payer
        origin = origin_of(purchase.url)
        most = purchase.amount if purchase.max_price is None else purchase.max_price
        accepted = self._pay_to or tuple(self.store.trusted(origin))
        requirement = choose(offer, url=purchase.url, payer=payer, most=most, pay_to=accepted, guards=self._guards)
        now = self.clock.now()
        service = self.time.now(now)
        valid_before = validity(requirement, self._guards, local=now, service=service)
        payment = Payment(
            id=f"pay_{uuid4().hex[:24]}",
            state=PaymentState.RESERVED,
            fingerprint=purchase.fingerprint(payer),
            method=purchase.method,
            url=purchase.url,
            body=purchase.body,
            network=requirement.network,
            asset=requirement.asset,
            payer=payer,
            pay_to=requirement.pay_to,
            amount=int(requirement.amount),
            counted=int(requirement.amount),
            nonce=new_nonce(),
            valid_before=valid_before,
            # A clock that is ahead of the service's must not take it out of an hour or a day too early.
            counts_until=max(valid_before, math.ceil(now + valid_before - service)),
            created=now,
            updated=now,
            identified=offer.identifier_wanted,
            purchase=purchase.name,
            run=purchase.run,
        )
        return requirement, payment

    def _check_secret(self, secret: PurchaseSecret) -> None:
        """With another secret, names that only other ledgers have would be paid for again."""
        known = self.store.purchase_secret(self.payer)
        if known not in (None, secret.id):
            raise purchase_secret_changed(self.payer, known or "", secret.id)

    def secret_ids(self) -> tuple[str | None, str]:
        """The id of the purchase secret in the ledger, if there is one, and that of this client's."""
        secret = purchase_secret(self.signer)
        return self.store.purchase_secret(self.payer), secret.id

    def accept_secret(self) -> str:
        """Replace the id of the purchase secret in the ledger. Returns the new one."""
        secret = purchase_secret(self.signer)
        self.store.set_purchase_secret(self.payer, secret.id)
        return secret.id

    def _signed(self, offer: Offer, requirement: Requirement, payment: Payment) -> SignedHeader:
        signer = self.signer
        authorization = _authorization(payment)
        signature, failure = None, ""
        try:
            signature = signed_authorization(signer, authorization)
        except Exception as error:
            # Not the text of other errors: it may show the key.
            failure = (
                error.message if isinstance(error, TradeError) else f"the signer failed with {type(error).__name__}"
            )
        if signature is None:
            raise PaymentRefusedError(
                failure,
                code="signer_failed",
                hint="check the signer; nothing was sent, and the reservation was canceled",
            )
        if self.latest() + MARGIN >= payment.valid_before:
            raise PaymentRefusedError(
                "signing took longer than the payment is valid",
                code="signer_too_slow",
                hint="nothing was sent; the reservation was canceled",
            )
        # Services store answers by identifier: another signature is another one.
        number = payment.signatures + 1
        identifier = (payment.id if number == 1 else f"{payment.id}_{number}") if offer.identifier_wanted else None
        return SignedHeader(encode_payment(offer, requirement, authorization, signature, identifier=identifier))


def _authorization(payment: Payment) -> Authorization:
    return Authorization(
        payer=payment.payer,
        to=payment.pay_to,
        value=payment.amount,
        valid_before=payment.valid_before,
        nonce=payment.nonce,
    )
