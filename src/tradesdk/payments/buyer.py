"""What a call wants, what a client pays with, and the way from an offer to a signed payment. Nothing is sent.

`look` and `sign` block: they read the ledger, or open a wallet. All other functions are pure.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from .._http.log_events import event
from .._http.service_time import REPORTED, Moment, ServiceClock
from .._system.clock import Clock
from .._system.interrupts import failures
from .._values.payment import Payment, SignedHeader
from ..errors import PaymentRefusedError
from .budget import Budget
from .guards import Limits, choose, validity
from .ledger.changes import Lookup, Overview, Submit, with_terms
from .ledger.claims import LONGEST_CLAIM, process_name
from .ledger.rules import Sums, addresses, empty_of, recipients_of, secret_of
from .messages import balance_too_small, over_limits, purchase_secret_changed, signer_failed
from .protocol import Offer, Requirement, encode_payment
from .purchases import canonical
from .results import Quote
from .signing.purchase_secret import purchase_secret
from .signing.secp256k1 import checksummed
from .signing.signer import Asked, LocalSigner, Signer, checked_signer, is_contract, signed_authorization
from .state_machine import MARGIN

if TYPE_CHECKING:
    from .._market import MarketRequest
    from .ledger.store import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseIntent:
    """A call that may have to be paid for. Amounts are micro-dollars.

    `resumed`: the payment to resend, or to read the answer of; then nothing is signed.
    """

    base_url: str
    call: MarketRequest[Any]
    max_price: int | None = None
    name: str | None = None
    run: str | None = None
    max_total: int | None = None
    resumed: Payment | None = None

    @property
    def url(self) -> str:
        return self.base_url + self.call.request.target

    @property
    def body(self) -> bytes:
        return self.call.request.body or b""

    @property
    def is_free(self) -> bool:
        """Whether nothing may be paid, so that neither wallet nor ledger is needed."""
        return self.resumed is None and not (self.call.price or self.max_price)

    def fingerprint(self, payer: str) -> str:
        if self.name is not None:
            return named_fingerprint(self.name, payer)
        return _hash(self.url.encode(), self.body, payer.lower().encode())

    def quote(self, seen: Overview) -> Quote:
        """The published price, with what is spent."""
        path, tokens, spending = self.call.request.target, self.call.tokens, seen.sums.spending(seen.limits)
        return Quote(path=path, body=self.body, tokens=tokens, amount=self.call.price, spending=spending)

    def is_for(self, payment: Payment) -> bool:
        """Whether a payment asks the same service for the same data, in any order of the fields in the body."""
        is_same = payment.body == self.body or canonical(payment.body) == canonical(self.body)
        return payment.url == self.url and is_same


def named_fingerprint(name: str, payer: str) -> str:
    return _hash(b"purchase", name.encode(), payer.lower().encode())


def _hash(*parts: bytes) -> str:
    digests = b"\0".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()


@dataclass(kw_only=True, eq=False)
class Buyer:
    """Wallet, limits and ledger of a client, and the service's time."""

    ledger: Ledger
    origin: str  # of the service
    wallet: Signer | Callable[[], Signer] | None  # or what returns it at the first use; None: nothing can be paid
    budget: Budget  # the client's limits, besides the ledger's
    max_validity: int  # seconds that a signature is valid, at most
    pay_to: Collection[str]  # the only recipients; empty: those known for the service
    continue_for: float  # seconds in which an equal call continues an unnamed payment
    collect: bool  # whether an answer counts as collected when its caller gets it
    clock: Clock
    time: ServiceClock
    allow_upfront: bool = False  # whether a service is paid that takes the money before the work
    has_node: bool = False
    asks_balance: bool = False  # whether the node is asked for the wallet's balance before the next signature
    _payer: str | None = None

    @property
    def signer(self) -> Signer:
        signer = self.wallet
        if signer is None:
            raise PaymentRefusedError("there is no wallet to pay with", code="no_signer")
        if not isinstance(signer, LocalSigner | Signer):
            signer = self.wallet = checked_signer(signer())
        return signer

    @property
    def payer(self) -> str:
        """The paying address. The first use may take half a second, as it loads the signing library."""
        if self._payer is None:
            signer = self.signer
            self._payer = signer.address if type(signer) is LocalSigner else checksummed(signer.address)
        return self._payer

    @property
    def look_blocks(self) -> bool:
        """Whether `look` may block: it reads a file or asks a server, or loads the wallet."""
        return self.ledger._blocks or (self.wallet is not None and self._payer is None)

    @property
    def signer_blocks(self) -> bool:
        """Whether `sign` may block: it asks a person or a server, or takes long."""
        signer = self.wallet
        if not isinstance(signer, LocalSigner) or type(signer) is not LocalSigner:  # a subclass may do anything
            return True
        return not signer._is_fast

    @property
    def is_contract(self) -> bool:
        """Whether the wallet is a smart contract."""
        return is_contract(self.signer)

    def since(self, now: float) -> float:
        """The earliest creation time of an unnamed payment to continue. The clock may have been set forward since."""
        return now - self.continue_for - max(0.0, -self.time.difference)

    def signature(self, payment: Payment) -> Asked[bytes]:
        signer = self.signer
        try:
            return (yield from signed_authorization(signer, payment))
        except failures(Exception) as error:
            problem = signer_failed(error)
        raise problem  # outside of the handler, or the signer's error would be its context


class Terms(NamedTuple):
    """What is to be signed: the offer, and `requirement`, the way to pay that was chosen.

    `seen`: what the ledger knows; the nonce of its payment is signed again, if there is one. `funded`: a node says that
    the wallet has enough.
    """

    seen: Overview
    offer: Offer
    requirement: Requirement
    funded: bool


def owner_name() -> str:
    """A new name for a call, to claim payments with."""
    return f"{process_name(os.getpid())}:{secrets.token_hex(6)}"


def quote(buyer: Buyer, intent: PurchaseIntent) -> Quote:
    """The published price, and what the budgets leave. A free call does not read the ledger."""
    lookup = Lookup(now=buyer.clock.now(), budget=buyer.budget, max_price=intent.max_price)
    return intent.quote(_nothing_seen(lookup) if intent.is_free else buyer.ledger.overview(lookup))


def _nothing_seen(lookup: Lookup) -> Overview:
    return Overview(lookup, None, Sums(lookup.now), lookup.budget)


def look(buyer: Buyer, intent: PurchaseIntent, at: Moment, since: float) -> Overview:
    """What the ledger knows: the earlier payment that a call continues or whose answer it gets, sums, settings.

    `since`: the result of the first look; an unnamed payment must have been created at that time or later.
    """
    resumed, payer = intent.resumed, ""
    if resumed is not None:
        payer = resumed.payer  # it needs no wallet
    elif not intent.is_free and buyer.wallet is not None:
        payer = buyer.payer
    lookup = Lookup(
        now=at.local,
        budget=buyer.budget,
        fingerprint=intent.fingerprint(payer),
        since=min(since, buyer.since(at.local)),
        over=at.latest + MARGIN,
        max_price=intent.max_price,
        payment_id=None if resumed is None else resumed.id,
        name=intent.name,
        payer=payer,
        wallet=empty_of(payer, buyer.origin),
        run=intent.run,
    )
    if intent.is_free:
        return _nothing_seen(lookup)
    return buyer.ledger.overview(lookup)


def check_wallet(buyer: Buyer, intent: PurchaseIntent, seen: Overview, balance: int | None) -> bool:
    """Check that the wallet has enough. `balance`: by a node, in micro-dollars; None: none was asked, or none answered.

    Returns whether a node says that it has enough. Raises `PaymentRefusedError` if it has too little, or if another
    purchase is already asking the service.
    """
    most = intent.call.price if intent.max_price is None else min(intent.call.price, intent.max_price)
    buyer.asks_balance = balance is not None and balance < most  # a node that failed is not asked at each call
    if balance is not None and balance < most:
        raise balance_too_small(buyer.payer, buyer.origin, most, balance)
    if balance is None and seen.empty is not None:
        payment_id, now = None if seen.payment is None else seen.payment.id, buyer.clock.now()
        refused = seen.empty.refusal(payment_id, now, payer=buyer.payer, service=buyer.origin, amount=most)
        if refused is not None:
            raise refused
    return balance is not None


def guarded(buyer: Buyer, intent: PurchaseIntent, seen: Overview, offer: Offer, *, funded: bool) -> Terms:
    """The cheapest acceptable requirement of an offer."""
    most = intent.call.price if intent.max_price is None else intent.max_price
    accepted = buyer.pay_to or tuple(addresses(seen.settings.get(recipients_of(buyer.origin))))
    payer = "" if intent.is_free else buyer.payer  # no offer is free, and opening the wallet may block
    limits = Limits(intent.url, payer, most, buyer.max_validity, accepted, buyer.allow_upfront)
    return Terms(seen, offer, choose(offer, limits), funded)


def check_earlier(buyer: Buyer, intent: PurchaseIntent, payment: Payment, limits: Budget, at: Moment) -> None:
    """Check an earlier payment, which may still be taken, against the limits of this call before it is resent."""
    if payment.is_expired(at.local):
        return
    limit, most = limits.per_call, intent.call.price  # `max_price` is in `limits`
    if limit is not None:
        most = limit if intent.max_price is not None else min(limit, intent.call.price)
    is_payable = not buyer.pay_to or payment.pay_to.lower() in {address.lower() for address in buyer.pay_to}
    if payment.amount > most or not is_payable:
        raise over_limits(payment, most, buyer.pay_to)


def new_nonce() -> str:
    """32 random bytes as hexadecimal digits after 0x. A payer can use each nonce once."""
    return "0x" + os.urandom(32).hex()


def drafted(buyer: Buyer, intent: PurchaseIntent, terms: Terms, nonce: str | None = None) -> Payment:
    """The payment that is to be signed, valid from now on; by default with a random nonce."""
    requirement, payer, at = terms.requirement, buyer.payer, buyer.time.moment(buyer.clock)
    valid_before = validity(requirement, buyer.max_validity, local=at.local, service=at.service, latest=at.latest)
    draft = Payment(
        id=f"pay_{uuid4().hex[:24]}",
        fingerprint=intent.fingerprint(payer),
        url=intent.url,
        body=intent.body,
        payer=payer,
        pay_to=requirement.pay_to,
        amount=int(requirement.amount),
        nonce=nonce or new_nonce(),
        valid_before=valid_before,
        # A clock that is ahead of the service's must not take it out of an hour or a day too early.
        counts_until=max(valid_before, math.ceil(at.local + valid_before - at.service)),
        created=at.local,
        updated=at.local,
        identified=terms.offer.identifier_wanted,
        purchase=intent.name,
        run=intent.run,
    )
    return draft if terms.seen.row is None else with_terms(terms.seen.row.payment, draft)


def sign(buyer: Buyer, intent: PurchaseIntent, terms: Terms, owner: str) -> Asked[Submit]:
    """Sign a payment. The result must be written down before it is sent."""
    seen, offer, requirement, funded = terms
    secret = nonce = None
    if intent.name is not None:
        secret = yield from purchase_secret(buyer.signer)  # before the validity begins: a person may type a password
        known = seen.settings.get(secret_of(buyer.payer))
        if known not in (None, secret.id):  # names that are only in other ledgers would be paid for again
            raise purchase_secret_changed(buyer.payer, known or "", secret.id)
        nonce = secret.nonce(intent.name, payer=buyer.payer)
    payment = drafted(buyer, intent, terms, nonce)
    if abs(difference := buyer.time.difference) > REPORTED:
        side = "ahead of" if difference > 0 else "behind"
        text = f"the service's clock is {abs(difference):.0f} s {side} this machine's"
        event("clock_difference", text, seconds=round(difference, 1))
    signature = yield from buyer.signature(payment)
    at = buyer.time.moment(buyer.clock)
    if at.latest + MARGIN >= payment.valid_before:
        raise PaymentRefusedError("signing took longer than the payment is valid", code="signer_too_slow")
    # services store answers by identifier, so each signature gets its own
    number = payment.signatures + 1
    identifier = (payment.id if number == 1 else f"{payment.id}_{number}") if payment.identified else None
    header = SignedHeader(encode_payment(offer, requirement, payment, signature, identifier=identifier))
    return Submit(
        payment=payment,
        header=header,
        earlier=None if seen.row is None else seen.row.payment,
        lookup=replace(
            seen.lookup,
            now=at.local,
            since=min(seen.lookup.since, buyer.since(at.local)),
            over=at.latest + MARGIN,
            signs=payment.id,
        ),
        pay_to=tuple(buyer.pay_to),
        secret_id=None if secret is None else secret.id,
        owner=owner,
        until=at.local + LONGEST_CLAIM,
        max_total=intent.max_total,
        funded=funded,
    )
