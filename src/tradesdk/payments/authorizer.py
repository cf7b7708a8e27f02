"""From an offer to a signed payment that is written down: guards, budget, signature, ledger, in this order.

Everything here blocks (a file is synced, a signer may be a machine elsewhere), so that the async flavour calls it from
a thread. Nothing here sends anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from .._http.log_events import log_fields, logger
from .._http.settings import is_loopback
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
from .guards import Guards, check_url, choose, window
from .ledger.leases import LONGEST_CLAIM, ended
from .messages import blocking_error
from .protocol import Authorization, Offer, Requirement, encode_payment
from .results import DryRun, Quote
from .service_clock import MAX_DIFFERENCE, ServiceClock
from .signing.secp256k1 import checksummed
from .signing.signer import LocalSigner, Signer, authorization_digest, checked_signer, new_nonce, signed
from .state_machine import MARGIN

if TYPE_CHECKING:
    from .ledger.protocol import LedgerStore

V1_LEEWAY = 600
_A_DAY = 86_400
NO_SPENDING = {"last_hour": 0, "today": 0, "total": 0, "reserved": 0}


@dataclass(frozen=True, kw_only=True)
class PurchaseIntent:
    """What is to be bought.

    Attributes:
        method: the HTTP method.
        url: the full URL.
        body: the request's body.
        path: the endpoint, which the price depends on.
        tokens: how many tokens are asked for.
        amount: the published price in micro-dollars.
        max_price: micro-dollars that the caller allows, above the published price or below it.
        new_purchase: sign even though an earlier payment for the same call could still be taken.
        job: the batch job that it belongs to.
    """

    method: str
    url: str
    body: bytes
    path: str
    tokens: int | None
    amount: int
    max_price: int | None = None
    new_purchase: bool = False
    job: str | None = None

    @property
    def key(self) -> str:
        """What tells this call from others of the same client."""
        return call_key(self.method, self.url, self.body)

    def fingerprint(self, payer: str) -> str:
        """What tells this purchase from others: the same bytes to the same place, paid by the same address."""
        found = self._fingerprints.get(payer)
        if found is None:
            parts = (self.method.encode(), self.url.encode(), self.body, payer.lower().encode())
            digests = b"\0".join(hashlib.sha256(part).digest() for part in parts)
            found = self._fingerprints[payer] = hashlib.sha256(digests).hexdigest()
        return found

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that is written down. It is fresh when it was made just now, and so never handed over before."""

    payment: Payment
    fresh: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a payment that was submitted, as the ledger is to know it. None: as it was."""

    state: PaymentState
    reason: str
    receipt: Receipt | None
    reply: bytes | None
    submissions: int


def call_key(method: str, url: str, body: bytes) -> str:
    """What tells a call from others of the same client."""
    return f"{method} {url} {body.decode('latin-1')}"


class PaymentAuthorizer:
    """Who pays, out of which budgets, under which guards.

    Args:
        store: where payments and budgets are kept.
        signer: who signs, or what gives them when it is first needed; None: quotes only.
        budget: the limits given to the client.
        pay_to: the only recipients to be paid; empty: the one that was paid first.
    """

    def __init__(
        self,
        *,
        store: LedgerStore,
        signer: Signer | Callable[[], Signer] | None,
        budget: Budget,
        guards: Guards,
        pay_to: Collection[str],
        clock: Clock,
    ) -> None:
        self.store = store
        self.budget = budget
        self.clock = clock
        self.time = ServiceClock()
        self._signer = signer
        self._guards = guards
        self._pay_to = tuple(pay_to)
        self._payer: str | None = None

    @property
    def can_pay(self) -> bool:
        """Whether there is a signer."""
        return self._signer is not None

    @property
    def signer(self) -> Signer:
        """Who signs.

        Raises:
            PaymentRefusedError: `no_signer`.
        """
        signer = self._signer
        if signer is None:
            raise PaymentRefusedError(
                "there is no signer, so nothing can be paid",
                code="no_signer",
                hint="pass signer=LocalSigner.from_keystore(…), or set TRADE_WALLET_KEY",
            )
        if not isinstance(signer, LocalSigner | Signer):
            signer = self._signer = checked_signer(signer())
        return signer

    @property
    def payer(self) -> str:
        """The address that pays. The first question may take half a second: it loads what signs."""
        if self._payer is None:
            signer = self.signer
            self._payer = signer.address if type(signer) is LocalSigner else checksummed(signer.address)
        return self._payer

    def limits(self, purchase: PurchaseIntent) -> Budget:
        """The client's limits, with what the caller allows for this one."""
        if purchase.max_price is None:
            return self.budget
        return self.budget.strictest(Budget.from_micro({"per_call": purchase.max_price}))

    def quote(self, purchase: PurchaseIntent) -> Quote:
        """The published price and what the budgets leave. What is free is quoted without the ledger."""
        limits = self.limits(purchase)
        if purchase.amount == 0:
            spending = Spending(**NO_SPENDING, budget=limits)
        else:
            spending = self.store.spending(limits, now=self.clock.now())
        return Quote(path=purchase.path, tokens=purchase.tokens, amount=purchase.amount, spending=spending)

    def existing(self, purchase: PurchaseIntent) -> Payment | None:
        """An earlier payment for the same call that stands in the way of another, or an answer that nobody got.

        What has expired is closed first.
        """
        if purchase.new_purchase:
            return None
        fingerprint = purchase.fingerprint(self.payer)
        found = self.store.find(fingerprint, now=self.clock.now())
        if found is None or not found.live:
            return found
        self.expire(origin_of(purchase.url))
        return self.store.find(fingerprint, now=self.clock.now())

    def expire(self, origin: str) -> list[Payment]:
        """Close what has surely expired of one service: another one's clock says nothing about it."""
        now = self.clock.now()
        return self.store.expire(self.time.earliest(now, self.clock.monotonic()), now=now, origin=origin)

    def expire_elsewhere(self) -> list[Payment]:
        """Close what expired a day ago at any service, by the local clock: one that is gone tells no time."""
        now = self.clock.now()
        return self.store.expire(now - _A_DAY, now=now)

    def delivered(self, purchase: PurchaseIntent) -> Payment | None:
        """What the job of a purchase has got already for the same call."""
        fingerprint = purchase.fingerprint(self.payer)
        return None if purchase.job is None else self.store.delivered(purchase.job, fingerprint)

    def latest(self) -> float:
        """The latest that the service's time may be, in Unix seconds."""
        return self.time.latest(self.clock.now(), self.clock.monotonic())

    def check_existing(self, payment: Payment, purchase: PurchaseIntent) -> None:
        """What this call does not allow is not handed over for it either.

        Raises:
            PaymentRefusedError: `over_price` or `recipient_changed`.
        """
        most = purchase.amount if purchase.max_price is None else purchase.max_price
        code: ErrorCode
        details: PriceDetails | RecipientDetails
        if payment.amount > most:
            code, why = "over_price", f"is of {shown_usd(payment.amount)}, and {shown_usd(most)} is what this may cost"
            details = PriceDetails(asked=payment.amount_usd, allowed=usd(most))
        elif self._pay_to and payment.pay_to.lower() not in {address.lower() for address in self._pay_to}:
            code, why = "recipient_changed", f"is to {payment.pay_to}, which pay_to= does not accept"
            details = RecipientDetails(address=payment.pay_to, trusted=self._pay_to)
        else:
            return
        raise PaymentRefusedError(
            f"an earlier payment for this call {why}",
            code=code,
            hint=f"client.payments.resume({payment.id!r}) resends it anyway; or wait until it has expired",
            details=details,
            payment=payment,
        )

    def is_over(self, payment: Payment) -> bool:
        """Whether a live payment can no longer be handed over, so far as the clocks tell."""
        return payment.live and self.latest() + MARGIN >= payment.valid_before

    def observe(self, headers: Mapping[str, str]) -> None:
        """Take the service's time from an answer."""
        self.time.observe(headers, now=self.clock.now(), monotonic=self.clock.monotonic())

    def claim(self, payment: Payment, owner: str) -> Payment | None:
        """Claim a payment, so that nobody else hands it over at the same time: as it is now; None: somebody has it."""
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
        """Give a claim back. Where that cannot be written (a full disk), it still counts no more in this process.

        Raises:
            LedgerError: it could not be written: other processes wait until the time of the claim has passed.
        """
        try:
            self.store.give_back(payment_id, owner=owner)
        except BaseException:
            ended(owner)
            raise

    def record(self, payment: Payment, outcome: Outcome, *, now: float) -> tuple[Payment, LedgerError | None]:
        """Write down what became of a payment; what it is then, and why that could not be written.

        An outcome is worth more than its note, so a ledger that fails is no error here.
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

    def close(self, payment: Payment, owner: str, *, keep: bool, job: str | None) -> None:
        """The caller has the answer from here on. The claim is given back as `give_back` does."""
        try:
            self.store.collect(payment.id, owner=owner, keep=keep, job=job)
        except LedgerError as problem:
            ended(owner)  # its claim would hold up the next equal call
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.warning("payment %s: its answer could not be closed: %s", payment.id, problem, extra=extra)

    def reopen(self, payment: Payment, owner: str) -> None:
        """The caller does not get this answer: the next equal call may. The claim is given back as `give_back` does.

        Raises:
            LedgerError: it could not be written.
        """
        try:
            self.store.reopen(payment.id, owner=owner, reply=payment.reply or b"")
        except BaseException:
            ended(owner)
            raise

    def claim_answer(self, payment: Payment, owner: str) -> bool:
        """Claim an answer that nobody got; False when somebody else gets it."""
        now = self.clock.now()
        if not self.store.claim(payment.id, owner=owner, until=now + LONGEST_CLAIM, now=now):
            return False
        try:
            found = self.store.find(payment.fingerprint, now=now)
        except BaseException:
            with suppress(LedgerError):
                self.give_back(payment.id, owner)
            raise
        if found is not None and found.id == payment.id:
            return True
        self.give_back(payment.id, owner)
        return False

    def authorize(self, purchase: PurchaseIntent, offer: Offer, owner: str) -> Prepared:
        """Guard, reserve, sign and write down. Another payment for the same call may have been faster: then that one.

        Raises:
            PaymentRefusedError: a guard, a budget or the signer said no.
            LedgerError: it could not be written down.
        """
        requirement, draft = self._draft(purchase, offer)
        now = self.clock.now()
        payment: Payment | None = None
        try:
            payment = self.store.reserve(
                draft,
                self.limits(purchase),
                origin=origin_of(purchase.url),
                pay_to=self._pay_to,
                owner=owner,
                until=now + LONGEST_CLAIM,
                expired=self.time.earliest(now, self.clock.monotonic()),
                now=now,
                new_purchase=purchase.new_purchase,
            )
            if payment.id != draft.id:
                return Prepared(payment, fresh=False)
            header = self._signed(offer, requirement, payment)
            submitted = self.store.submit(payment.id, header, pay_to=self._pay_to, now=self.clock.now())
            return Prepared(submitted, fresh=True)
        except BaseException as error:
            if payment is not None or not isinstance(error, PaymentRefusedError):  # else nothing was reserved
                with suppress(LedgerError):  # the first error says what happened, and a reservation ends by itself
                    self._cancel(draft, owner, "not sent")
            raise

    def reclaim(self, payment: Payment, owner: str) -> bool:
        """Free the money of a payment whose maker has gone before signing it; False while its maker may be at it."""
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
            self.store.settle(payment.id, PaymentState.CANCELLED, reason=reason, now=self.clock.now())
        finally:
            self.give_back(payment.id, owner)

    def dry_run(self, purchase: PurchaseIntent, offer: Offer | None, quote: Quote) -> DryRun:
        """What `authorize` would sign, without a signature and without a reservation."""
        if offer is None:
            return DryRun(quote=quote)
        try:
            requirement, draft = self._draft(purchase, offer)
        except PaymentRefusedError as refusal:
            return DryRun(quote=quote, refusal=str(refusal))
        standing = self.existing(purchase)
        if standing is not None and standing.state is PaymentState.DELIVERED:
            return DryRun(quote=quote, standing=standing)
        if standing is not None:  # then nothing would be signed: that one is in the way, or would be handed over again
            told = _authorization(standing).wire()
            try:
                if not standing.live or self.is_over(standing):
                    raise blocking_error(standing)
                self.check_existing(standing, purchase)
            except PaymentError as refusal:
                return DryRun(quote=quote, authorization=told, standing=standing, refusal=str(refusal))
            return DryRun(quote=quote, authorization=told, standing=standing)
        left = quote.spending.left
        refused = None
        if not quote.spending.budget.is_set:
            refused = f"no_budget: it costs {shown_usd(draft.amount)}, and no budget is set"
        elif left is not None and draft.amount > left:
            refused = f"over_budget: {shown_usd(draft.amount)} is more than the {shown_usd(left)} that is left"
        return DryRun(
            quote=quote,
            authorization=_authorization(draft).wire(),
            requirement=requirement.raw,
            refusal=refused,
        )

    def _draft(self, purchase: PurchaseIntent, offer: Offer) -> tuple[Requirement, Payment]:
        check_url(purchase.url)
        payer = self.payer
        origin = origin_of(purchase.url)
        if abs(self.time.difference) > MAX_DIFFERENCE and not is_loopback(urlsplit(purchase.url).hostname or ""):
            raise PaymentRefusedError(
                f"the service's clock and this machine's differ by {abs(self.time.difference):.0f} s, and a payment is "
                "valid for a minute or two only",
                code="clock_difference",
                hint="set this machine's clock; if it is right, the service's date is not to be trusted",
            )
        most = purchase.amount if purchase.max_price is None else purchase.max_price
        accepted = self._pay_to or tuple(self.store.trusted(origin))
        requirement = choose(offer, url=purchase.url, payer=payer, most=most, pay_to=accepted, guards=self._guards)
        now = self.clock.now()
        service = int(self.time.now(now))
        nonce = new_nonce()
        payment = Payment(
            id=f"pay_{uuid4().hex[:24]}",
            state=PaymentState.RESERVED,
            fingerprint=purchase.fingerprint(payer),
            method=purchase.method,
            url=purchase.url,
            body=purchase.body,
            version=offer.version,
            network=requirement.network,
            asset=requirement.asset,
            payer=payer,
            pay_to=requirement.pay_to,
            amount=int(requirement.amount),
            nonce=nonce,
            valid_after=0 if offer.version == 2 else service - V1_LEEWAY,
            valid_before=service + window(requirement, self._guards),
            created=now,
            updated=now,
            identified=offer.identifier_wanted,
            job=purchase.job,
        )
        return requirement, payment

    def _signed(self, offer: Offer, requirement: Requirement, payment: Payment) -> SignedHeader:
        signer = self.signer
        authorization = _authorization(payment)
        digest = authorization_digest(authorization)
        signature, failure = None, ""
        try:
            signature = signed(signer, digest)
        except Exception as error:
            # Only in words of ours: what a key's library says may show the key.
            failure = f"{type(error).__name__}: {error}" if isinstance(error, TradeError) else type(error).__name__
        if signature is None:
            raise PaymentRefusedError(
                f"the signer failed with {failure}",
                code="signer_failed",
                hint="nothing was signed or sent; the reserved money is free again",
            )
        if self.latest() + MARGIN >= payment.valid_before:
            raise PaymentRefusedError(
                "signing took longer than the payment would have been valid",
                code="signer_too_slow",
                hint="nothing was sent; the reserved money is free again",
            )
        identifier = payment.id if offer.identifier_wanted else None
        return SignedHeader(encode_payment(offer, requirement, authorization, signature, identifier=identifier))


def _authorization(payment: Payment) -> Authorization:
    return Authorization(
        payer=payment.payer,
        to=payment.pay_to,
        value=payment.amount,
        valid_after=payment.valid_after,
        valid_before=payment.valid_before,
        nonce=payment.nonce,
    )
