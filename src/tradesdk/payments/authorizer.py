"""From an offer to a signed payment in the ledger: guards, budget, signature, ledger, in this order.

Most functions block (they sync a file, or call a remote signer), so the async flavor calls them in a thread. Nothing
here sends anything.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from .._http.log_events import event
from .._http.service_time import MAX_DIFFERENCE, REPORTED, ServiceClock
from .._system.clock import Clock
from .._values.details import PriceDetails, RecipientDetails
from .._values.money import shown_usd, usd
from .._values.payment import GRACE, Payment, SignedHeader, origin_of
from ..errors import (
    ErrorCode,
    LedgerError,
    PaymentError,
    PaymentRefusedError,
)
from .budget import Budget
from .guards import check_url, choose, validity
from .ledger.changes import UNWRITTEN, Collect, LedgerRow, Record, ReleaseClaim, Reopen, Submit, with_terms
from .ledger.claims import LONGEST_CLAIM, ended
from .ledger.rules import NextStep, Sums, budget_refusal, next_step, to_count, total_refusal
from .ledger.settings import addresses, recipients_of, secret_of, with_address
from .messages import asked, blocking_error, purchase_changed, purchase_secret_changed
from .protocol import Offer, Requirement, authorization, encode_payment
from .purchases import PurchaseIntent, purchase_secret
from .results import DryRun, Quote
from .signing.secp256k1 import checksummed
from .signing.signer import LocalSigner, Signer, checked_signer, new_nonce, signed_authorization
from .state_machine import MARGIN, Report

if TYPE_CHECKING:
    from .ledger.store import Ledger, Overview


class PaymentAuthorizer:
    """Authorizes payments: signer, budgets and guards of a client. A `signer` may be a function that returns it."""

    def __init__(
        self,
        *,
        store: Ledger,
        signer: Signer | Callable[[], Signer] | None,
        budget: Budget,
        max_validity: int,
        pay_to: Collection[str],
        continue_for: float,
        clock: Clock,
    ) -> None:
        self.store = store
        self.budget = budget
        self.clock = clock
        self.time = ServiceClock()
        self._signer = signer
        self._max_validity = max_validity
        self._pay_to = tuple(pay_to)
        self._continue_for = continue_for
        self._payer: str | None = None

    @property
    def has_signer(self) -> bool:
        return self._signer is not None

    @property
    def signer(self) -> Signer:
        signer = self._signer
        if signer is None:
            raise PaymentRefusedError("there is no wallet to pay with", code="no_signer")
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

    def quote(self, purchase: PurchaseIntent) -> Quote:
        """The published price, and what the budgets leave. A free call does not read the ledger."""
        if purchase.amount == 0:
            return purchase.quote(Sums(self.clock.now(), {}, {}, {}).spending(self.budget))
        now, max_price = self.clock.now(), purchase.max_price
        return purchase.quote(self.store.spending(self.budget, now=now, max_price=max_price))

    def overview(self, purchase: PurchaseIntent) -> Overview:
        """What the ledger knows: an earlier payment that is not closed, or whose answer can be returned; sums."""
        now = self.clock.now()
        seen = self.store.overview(
            purchase.fingerprint(self.payer),
            self.budget,
            now=now,
            since=self._since(now),
            max_price=purchase.max_price,
            run=purchase.run,
        )
        if seen.payment is not None and not purchase.is_for(seen.payment):
            raise purchase_changed(seen.payment)
        return seen

    def _since(self, now: float) -> float:
        """When an unnamed payment must have been created to be continued. The clock may have been put forward since."""
        return now - self._continue_for - min(max(0.0, -self.time.difference), MAX_DIFFERENCE)

    def next_step(self, payment: Payment | None) -> NextStep:
        """What a call does about an earlier payment, by the latest estimate of the service's time."""
        return next_step(payment, self.latest() + MARGIN)

    def latest(self) -> float:
        return self.time.latest(self.clock.now(), self.clock.monotonic())

    def is_right(self) -> bool:
        """Whether the service's time is known, and the local clock agrees with it."""
        time, now = self.time, self.clock.now()
        return time.is_known and not time.difference and not time.has_parted(now, self.clock.monotonic())

    def check_existing(self, payment: Payment, purchase: PurchaseIntent, quote: Quote) -> None:
        """Check an earlier payment that may still be taken against the limits of this call before it is resent."""
        if payment.is_expired(self.clock.now()):
            return
        limit = quote.spending.budget.per_call  # `max_price` is in it
        most = (
            purchase.amount
            if limit is None
            else limit
            if purchase.max_price is not None
            else min(limit, purchase.amount)
        )
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

    def is_surely_expired(self, payment: Payment) -> bool:
        """Whether it has expired by the earliest estimate of its service's time."""
        now = self.clock.now()
        return payment.valid_before + GRACE <= self.time.earliest(now, self.clock.monotonic())

    def observe(self, headers: Mapping[str, str]) -> None:
        self.time.observe(headers, now=self.clock.now(), monotonic=self.clock.monotonic())

    def end(self, row: LedgerRow, change: Collect | ReleaseClaim | Reopen) -> None:
        """Make a change that ends a call. The caller must get the outcome even if the ledger fails: it is logged."""
        payment_id = row.payment.id
        try:
            self.store.update(payment_id, change, row)
        except BaseException as problem:
            ended(change.owner or "")  # else its claim would delay the next equal call
            if not isinstance(problem, LedgerError):
                raise
            text = f"payment %(payment_id)s: {change.consequence}: %(reason)s"
            event("ledger_failed", text, problem, payment_id=payment_id)

    def record(
        self,
        row: LedgerRow,
        report: Report,
        owner: str,
        before: Payment | None,
        ends: Collect | ReleaseClaim | None = None,
    ) -> tuple[LedgerRow, LedgerError | None]:
        """Write down what `owner` was told of a payment; `before`: as it was before its signature was written down.

        `ends`: the end of the call, unless it is canceled meanwhile.

        Returns the row, and the error if it could not be written. The caller must get the outcome
        even if the ledger fails, so that error is not raised.
        """
        payment, now = row.payment, self.clock.now()
        change = Record(report=report, signatures=payment.signatures, before=before, ends=ends, owner=owner, now=now)
        try:
            return self.store.update(payment.id, change, row), None
        except LedgerError as problem:
            text = f"payment %(payment_id)s: {change.consequence}: %(reason)s"
            event("ledger_failed", text, problem, level=logging.ERROR, payment_id=payment.id)
            if ends is not None:
                ended(owner)  # else its claim would delay the next equal call
            return replace(change(row), revision=UNWRITTEN), problem

    def signed(self, purchase: PurchaseIntent, offer: Offer, seen: Overview, owner: str) -> Submit:
        """Check an offer and the budgets, and sign: what has to be written down before it is sent."""
        earlier, secret, nonce = seen.payment, None, new_nonce()
        requirement = self._requirement(purchase, offer, seen.settings)
        self._check_budget(purchase, int(requirement.amount), seen)
        if purchase.name is not None:
            secret = purchase_secret(self.signer)  # before the validity begins: a person may type a password
            known = seen.settings.get(secret_of(self.payer))
            if known not in (None, secret.id):  # names that only other ledgers have would be paid for again
                raise purchase_secret_changed(self.payer, known or "", secret.id)
            nonce = secret.nonce(purchase.name, payer=self.payer, asset=requirement.asset)
        draft = self._draft(purchase, offer, requirement, nonce)
        if abs(difference := self.time.difference) > REPORTED:
            side = "ahead of" if difference > 0 else "behind"
            text = f"the service's clock is {abs(difference):.0f} s {side} this machine's"
            event("clock_difference", text, seconds=round(difference, 1))
        payment = draft if earlier is None else with_terms(earlier, draft)
        payment = replace(payment, header=self._signed(offer, requirement, payment))
        now = self.clock.now()
        return Submit(
            payment=payment,
            earlier=earlier,
            budget=self.budget,
            pay_to=self._pay_to,
            secret_id=None if secret is None else secret.id,
            owner=owner,
            until=now + LONGEST_CLAIM,
            over=self.latest() + MARGIN,
            since=self._since(now),
            max_price=purchase.max_price,
            max_total=purchase.max_total,
            now=now,
        )

    def _check_budget(self, purchase: PurchaseIntent, amount: int, seen: Overview) -> None:
        """Refuse what the budgets plainly refuse. What else is spent meanwhile, `Submit` decides."""
        earlier, most = seen.payment, purchase.max_total
        refusal = total_refusal(amount, most, seen.run) if earlier is None else None
        counts, sums = to_count(earlier, amount), seen.sums.without(earlier)
        refusal = refusal or budget_refusal(amount, counts, sums, seen.limits, has_total=most is not None)
        if refusal is not None:
            raise refusal

    def dry_run(self, purchase: PurchaseIntent, offer: Offer | None, quote: Quote) -> DryRun:
        """What `signed` would sign. Nothing is."""
        if offer is None:
            return DryRun(quote=quote)
        try:
            seen = self.overview(purchase)
            existing = seen.payment
            step = self.next_step(existing)
            if step is NextStep.COLLECT:
                return DryRun(quote=quote, existing=existing)
            requirement = self._requirement(purchase, offer, seen.settings)
            draft = self._draft(purchase, offer, requirement, new_nonce())
        except PaymentRefusedError as error:
            return DryRun(quote=quote, refusal=error.with_traceback(None))
        if existing is not None and step in (NextStep.RESEND, NextStep.REFUSE):
            blocked: PaymentError | None = None
            try:
                if step is NextStep.REFUSE:
                    raise blocking_error(existing)
                self.check_existing(existing, purchase, quote)
            except PaymentError as error:
                blocked = error.with_traceback(None)
            return DryRun(quote=quote, authorization=authorization(existing), existing=existing, refusal=blocked)
        refusal = None
        try:
            self._check_budget(purchase, draft.amount, seen)
        except PaymentRefusedError as error:
            refusal = error.with_traceback(None)
        fields = authorization(draft if existing is None else with_terms(existing, draft))
        if purchase.name is not None and existing is None:
            del fields["nonce"]  # it takes the key
        return DryRun(
            quote=quote, authorization=fields, requirement=requirement.raw, existing=existing, refusal=refusal
        )

    def _requirement(self, purchase: PurchaseIntent, offer: Offer, settings: Mapping[str, str]) -> Requirement:
        """The requirement of an offer that is paid: the cheapest that the guards accept."""
        check_url(purchase.url)
        most = purchase.amount if purchase.max_price is None else purchase.max_price
        accepted = self._pay_to or tuple(addresses(settings.get(recipients_of(origin_of(purchase.url)))))
        return choose(
            offer, url=purchase.url, payer=self.payer, most=most, pay_to=accepted, max_validity=self._max_validity
        )

    def _draft(self, purchase: PurchaseIntent, offer: Offer, requirement: Requirement, nonce: str) -> Payment:
        now = self.clock.now()
        service = self.time.now(now)
        valid_before = validity(requirement, self._max_validity, local=now, service=service, latest=self.latest())
        return Payment(
            id=f"pay_{uuid4().hex[:24]}",
            fingerprint=purchase.fingerprint(self.payer),
            method=purchase.method,
            url=purchase.url,
            body=purchase.body,
            network=requirement.network,
            asset=requirement.asset,
            payer=self.payer,
            pay_to=requirement.pay_to,
            amount=int(requirement.amount),
            nonce=nonce,
            valid_before=valid_before,
            # A clock that is ahead of the service's must not take it out of an hour or a day too early.
            counts_until=max(valid_before, math.ceil(now + valid_before - service)),
            created=now,
            updated=now,
            identified=offer.identifier_wanted,
            purchase=purchase.name,
            run=purchase.run,
        )

    def secret_ids(self) -> tuple[str | None, str]:
        """The id of the purchase secret in the ledger, if there is one, and that of this client's."""
        secret = purchase_secret(self.signer)
        return self.store.setting(secret_of(self.payer)), secret.id

    def accept_secret(self) -> str:
        """Replace the id of the purchase secret in the ledger. Returns the new one."""
        secret = purchase_secret(self.signer)
        self.store.set_setting(secret_of(self.payer), lambda known: secret.id)
        return secret.id

    def trusted(self, origin: str) -> list[str]:
        """The known recipients of an origin: remembered from payments, or trusted."""
        return addresses(self.store.setting(recipients_of(origin)))

    def trust(self, origin: str, address: str) -> None:
        self.store.set_setting(recipients_of(origin), lambda known: with_address(known, address))

    def _signed(self, offer: Offer, requirement: Requirement, payment: Payment) -> SignedHeader:
        signer = self.signer
        signature = asked(lambda: signed_authorization(signer, payment))
        if self.latest() + MARGIN >= payment.valid_before:
            raise PaymentRefusedError("signing took longer than the payment is valid", code="signer_too_slow")
        # Services store answers by identifier: another signature is another one.
        number = payment.signatures + 1
        identifier = (payment.id if number == 1 else f"{payment.id}_{number}") if offer.identifier_wanted else None
        return SignedHeader(encode_payment(offer, requirement, payment, signature, identifier=identifier))
