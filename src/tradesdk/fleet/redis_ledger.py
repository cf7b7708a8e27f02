"""A ledger on Redis or Valkey, for one wallet and any number of machines.

All decisions are made here, by the same rules as in the SQLite ledger. The server does one thing: a script that writes
what was decided, if what the decision rests on is still so.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .._fleet import ledger_records as records
from .._fleet import ledger_settings as settings
from .._fleet.address import ServerAddress
from .._fleet.ledger_records import Record
from .._http.log_events import log_fields, logger
from .._system.clock import Clock, SystemClock
from .._values.payment import GRACE, Payment, PaymentState, Receipt, SignedHeader
from .._values.text import printable
from ..errors import ConfigError, InvalidArgumentError
from ..payments.budget import Budget, Spending
from ..payments.ledger import errors, rules
from ..payments.ledger.leases import holds
from ..payments.signing.secp256k1 import checksummed
from ..payments.signing.signer import LocalSigner, Signer, checked_signer
from .ledger_line import Command, LedgerLine
from .shared_store import (
    META,
    PAGE,
    PAYMENTS,
    TRUSTED,
    AgainError,
    Change,
    Done,
    SharedStore,
    View,
    by_local_clock,
    by_server_clock,
    no_parts,
    one_payment,
    setting,
)

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
_LARGEST = 2**63
_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class RedisLedger:
    """A `LedgerStore` on a Redis (6.2 or newer) or Valkey server, for one wallet. Members of a fleet share it.

    A step is done by one script, whole or not at all, and only once, however often it is sent. It is durable when the
    method returns: the server must sync every write (`appendonly yes`, `appendfsync always`,
    `no-appendfsync-on-rewrite no`) and never evict keys (`maxmemory-policy noeviction`), which is checked again with
    every claim. Signed headers are stored encrypted. Times are those of the server, so members' clocks may differ.

    If the server has lost something that this machine wrote or saw (after a failover, or a restored snapshot), nothing
    more is signed: `LedgerError` with the code `ledger_went_back`. `client.payments.reconcile()` puts back what the
    journal of this machine has.

    Threads may share it. Each process needs its own; one that was forked opens its own connection.

    Args:
        url: `redis://[[user]:password@]host[:port][/database]`, or `rediss://` for TLS; by default TRADE_FLEET.
        signer: whose payments these are; by default that of TRADE_WALLET_KEY. The key that encrypts headers is derived
            from its purchase secret, or from TRADE_PURCHASE_SECRET.
        wallet: instead of a signer, the paying address. It needs TRADE_PURCHASE_SECRET.
        prefix: what the server's keys begin with: letters, digits and `._:-`.
        journal: the file in which this machine writes down what it signed, and under which settings; by default one for
            prefix and wallet, in `TRADE_HOME` or the platform's folder for data. It must survive restarts. Processes
            share it.
        durability: `"managed"` for services that do not tell their settings: then nothing checks them.
        replicas: the number of replicas that must have each write before the method returns: all that may be promoted.
        timeout: seconds that a method may take, with reconnecting and deciding again.
        clock: the clock of this machine (tests pass their own).

    Raises:
        ConfigError: the URL or another argument cannot be used, or redis-py is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        signer: Signer | Callable[[], Signer] | None = None,
        wallet: str | None = None,
        prefix: str = "tradesdk",
        journal: str | os.PathLike[str] | None = None,
        durability: Literal["checked", "managed"] = "checked",
        replicas: int = 0,
        timeout: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise InvalidArgumentError("prefix must be 1 to 64 letters, digits, or ._:-")
        if durability not in ("checked", "managed"):
            raise InvalidArgumentError('durability must be "checked" or "managed"')
        if not 0 <= replicas <= 100:
            raise InvalidArgumentError("replicas must be a number from 0 to 100")
        if not 0 < timeout <= 3600:
            raise InvalidArgumentError("timeout must be seconds, more than 0 and at most 3600")
        if wallet is not None and signer is not None:
            raise InvalidArgumentError("give either signer= or wallet=")
        if signer is not None and not callable(signer):
            checked_signer(signer)
        self._line = LedgerLine(ServerAddress.of(url), min(timeout, 5.0))
        self._prefix = prefix
        self._durability: Literal["checked", "managed"] = durability
        self._timeout = timeout
        self._store = SharedStore(
            self._line,
            signer=LocalSigner.from_env if signer is None and wallet is None else signer,
            wallet=None if wallet is None else checksummed(wallet),
            prefix=prefix,
            journal=None if journal is None else os.path.abspath(os.fspath(journal)),
            checked=durability == "checked",
            replicas=replicas,
            timeout=timeout,
            clock=clock or SystemClock(),
        )
        if durability == "managed":
            logger.warning(
                "the durability of the fleet's ledger at %s is not checked: its operator answers for it",
                self._line.address,
                extra=log_fields("durability_unchecked", reason=str(self._line.address)),
            )

    def __repr__(self) -> str:
        if "_line" not in vars(self):
            return "<RedisLedger, not initialized>"
        return f"<RedisLedger {self._line.address}, prefix {self._prefix!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a ledger cannot be copied or pickled: open its URL again")

    @property
    def durability(self) -> Literal["checked", "managed"]:
        """Whether the server's settings are checked."""
        return self._durability

    def find(self, fingerprint: str, *, now: float) -> Payment | None:
        """The newest payment for the same purchase that is not closed or superseded."""
        with self._store.held(errors.NOTHING_SENT) as deadline:
            view = self._store.look(lambda ahead: [_standing(fingerprint)], deadline, errors.NOTHING_SENT)
            found = self._blocking(view.parts[0], now + view.ahead)
            return None if found is None else by_local_clock(found.payment, view.ahead)

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
        now: float,
        replaces: str | None = None,
    ) -> tuple[Payment, bool]:
        """Reserve the amount of `payment` and claim it, unless another payment blocks the same purchase.

        `LedgerStore.reserve` has the order of the steps.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget` or `over_budget`.
            LedgerError: the ledger cannot be written, or went back.
            InvalidArgumentError: the payment is not RESERVED.
            ConfigError: it is of another wallet.
        """
        payment = rules.draft(payment, now=now)
        if ":" in payment.id:
            raise InvalidArgumentError("the id of a payment must not have a colon")
        self._check_payer(payment.payer)

        def parts(ahead: int) -> list[Command]:
            at = now + ahead
            return [
                ("payment", "1", payment.id),
                _standing(payment.fingerprint),
                _expiring(origin, expired),
                _old_answers(at),
                ("sums", "6", *records.window(at, rules.HOUR)),
                ("trusted", "1", origin),
            ]

        def decide(view: View, change: Change) -> Done[tuple[Payment, bool]]:
            same_id, standing, _, _, sums, trusted = view.parts
            at, draft = now + view.ahead, by_server_clock(payment, view.ahead)
            change.money = view.money
            blocking = self._blocking(standing, at)
            reserved, earlier, before = draft, None, None
            spending = self._spending(view, sums, budget, at)
            if blocking is not None and blocking.payment.id == replaces:
                reserved = replace(draft, replaces=replaces)
            elif blocking is not None:
                if not rules.is_renewable(blocking.payment, over) or _is_claimed(blocking, owner, at):
                    return _nothing((by_local_clock(blocking.payment, view.ahead), False))
                before, earlier = blocking, blocking.payment
                reserved = rules.renewed(earlier, draft)
                spending = rules.spending_before(reserved, draft.amount, earlier, spending, at)
            known = [] if pay_to else _addresses(trusted)
            seen = {settings.BUDGET: view.meta["budget"]}
            self._store.keep(seen if pay_to else {**seen, settings.trusted_for(origin): trusted}, errors.NOTHING_SENT)
            refusal = rules.recipient_refusal(draft.pay_to, origin=origin, configured=pay_to, known=known)
            if refusal is None:
                last_hour = self._counted(at - rules.HOUR, spending.budget, earlier)
                refusal = rules.budget_refusal(draft.amount, spending, now=at, last_hour=last_hour)
            if refusal is not None:
                raise refusal
            if earlier is None and same_id[1] is not None:
                raise self._store.failed("there is a payment with its id already", errors.NOTHING_SENT)
            if spending.total + reserved.counted >= _LARGEST:
                raise self._store.failed("the sum of all payments is too large", errors.NOTHING_SENT)
            if not pay_to:
                change.expect(TRUSTED, origin, trusted)
            new = Record(payment=reserved, number=int(view.money) + 1) if before is None else before
            change.put(before, _claimed(new.with_payment(reserved), owner, until + view.ahead))
            change.less_room = True
            return lambda written: (written(reserved.id), True)

        return self._store.step(
            decide, parts, errors.NOTHING_SENT, signs=True, tidy=partial(self._close, now=now), lease=True
        )

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
        """Write down the signed payment with its terms: RESERVED becomes SUBMITTED, with one more submission.

        After an error it must not be sent.

        Raises:
            PaymentRefusedError: `reservation_lost` or `recipient_changed`.
            LedgerError: the ledger or this machine's journal cannot be written, or the ledger went back.
        """

        def decide(view: View, change: Change) -> Done[Payment]:
            found, standing, trusted = view.parts
            record = self._need(found, payment.id, errors.NOTHING_SENT)
            rules.check_submittable(record.payment, owner=owner, holder=record.owner)
            draft = rules.with_terms(record.payment, payment)
            if not pay_to:
                known = _addresses(trusted)
                rules.check_recipient(draft, known)
                change.expect(TRUSTED, draft.origin, trusted)
                if not known:
                    first = settings.recipients_text([(draft.pay_to, now + view.ahead)])
                    change.set(settings.trusted_for(draft.origin), trusted, first)
            change.journal = change.sync = True
            change.put(record, record.with_payment(rules.submitted(draft, header, now=now + view.ahead)))
            for other in self._store.every(standing):
                change.expect(PAYMENTS, other.payment.id, other.text)
                is_reserved = other.payment.state is PaymentState.RESERVED
                if other.number < record.number and other.stands and not is_reserved:
                    change.put(other, other.with_payment(replace(other.payment, superseded=True)))
            if secret_id is not None:
                change.write("HSETNX", META, "secret", secret_id)
            return lambda written: written(payment.id)

        parts: list[Command] = [
            ("payment", "1", payment.id),
            _standing(payment.fingerprint),
            ("trusted", "1", payment.origin),
        ]
        return self._store.step(decide, lambda ahead: parts, errors.NOTHING_SENT, signs=True)

    def resubmit(
        self, payment_id: str, *, signatures: int, owner: str | None = None, now: float
    ) -> tuple[Payment, bool]:
        """Count one more submission before it is sent: REJECTED_LIVE becomes SUBMITTED again.

        Returns the payment, and whether it may be sent.

        Raises:
            PaymentRefusedError: `not_submitted`: it was never signed.
            LedgerError: the ledger cannot be written, or its header is encrypted with another secret.
        """

        def decide(view: View, change: Change) -> Done[tuple[Payment, bool]]:
            record = self._need(view.parts[0], payment_id, errors.NOT_RESENT)
            is_own = owner is None or record.owner == owner
            again = rules.resubmitted(record.payment, signatures=signatures, is_own=is_own, now=now + view.ahead)
            if again is None:
                return _nothing((by_local_clock(record.payment, view.ahead), False))
            if again.header is None:
                raise self._store.failed(
                    "the header of this payment cannot be decrypted",
                    errors.NOT_RESENT,
                    "it was made with another secret",
                )
            change.journal = True
            change.put(record, record.with_payment(again))
            return lambda written: (written(payment_id), True)

        return self._store.step(decide, one_payment(payment_id), errors.NOT_RESENT)

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
        """Move a payment to `state` and return it, as far as `rules.state_after` says.

        Raises:
            LedgerError: the ledger cannot be written. Submissions stay as they are.
        """
        report = rules.Report(
            state=state,
            reason=reason,
            receipt=receipt,
            reply=reply,
            submissions=submissions,
            settle_failed=settle_failed,
            signatures=signatures,
        )

        def decide(view: View, change: Change) -> Done[Payment]:
            record = self._need(view.parts[0], payment_id, errors.NOT_WRITTEN_DOWN)
            if owner is not None and record.owner not in (None, owner):
                logger.warning(
                    "the claim on payment %s had expired, and another call has it since",
                    payment_id,
                    extra=log_fields("claim_overrun", payment_id=payment_id, tries=record.fence),
                )
            at = now + view.ahead
            after = rules.settled(record.payment, report, owner=owner, holder=record.owner, now=at)
            if after is None:
                return _nothing(by_local_clock(record.payment, view.ahead))
            waits = rules.keeps_answer(record.payment, after, reply)
            change.journal = True
            change.put(record, replace(record.with_payment(after), collected=record.collected and not waits))
            if after.state is PaymentState.CANCELLED is not record.payment.state:
                _restore(after, change)
            return lambda written: written(payment_id)

        return self._store.step(decide, one_payment(payment_id), errors.NOT_WRITTEN_DOWN)

    def mark(
        self, payment_id: str, *, paid: bool, evidence: str = "", signatures: int | None = None, now: float
    ) -> Payment:
        """Mark a payment without proof as paid or unpaid, on the word of a person or of the chain.

        Raises:
            PaymentRefusedError: `not_unresolved`.
            InvalidArgumentError: there is no payment with that id.
        """

        def decide(view: View, change: Change) -> Done[Payment]:
            record = self._known(view.parts[0], payment_id)
            at = now + view.ahead
            after = rules.marked(record.payment, paid=paid, evidence=evidence, signatures=signatures, now=at)
            change.journal = True
            change.put(record, record.with_payment(after))
            return lambda written: written(payment_id)

        return self._store.step(decide, one_payment(payment_id), errors.NOTHING_CHANGED)

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment for at most 300 seconds; False while the claim of another owner is in force.

        Raises:
            InvalidArgumentError: there is no payment with that id.
        """

        def decide(view: View, change: Change) -> Done[bool]:
            record = self._known(view.parts[0], payment_id)
            if _is_claimed(record, owner, now + view.ahead):
                return _nothing(False)
            change.put(record, _claimed(record, owner, until + view.ahead))
            return _nothing(True)

        return self._store.step(decide, one_payment(payment_id), errors.NOTHING_SENT, lease=True)

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        """Note that the caller has the answer of a delivered payment. Releases the claim."""

        def decide(view: View, change: Change) -> Done[None]:
            record = self._store.found(view.parts[0])
            if record is not None:
                after, payment = _released(record, owner), record.payment
                if payment.state is PaymentState.DELIVERED and not record.collected:
                    reply = payment.reply if keep or payment.purchase is not None else None
                    after = replace(after, collected=True).with_payment(replace(payment, reply=reply))
                if after is not record:
                    change.put(record, after)
            return _nothing(None)

        self._store.step(decide, one_payment(payment_id), errors.NOT_COLLECTED)

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """Undo `collect`: the next equal call gets the answer. Releases the claim."""

        def decide(view: View, change: Change) -> Done[None]:
            record = self._store.found(view.parts[0])
            if record is not None:
                after, payment = _released(record, owner), record.payment
                if payment.state is PaymentState.DELIVERED:
                    kept = reply if payment.reply is None else payment.reply
                    after = replace(after, collected=False).with_payment(replace(payment, reply=kept))
                if after is not record:
                    change.put(record, after)
            return _nothing(None)

        self._store.step(decide, one_payment(payment_id), errors.ANSWER_MAY_BE_LOST)

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Release the claim of `owner`. The claims of others stay."""

        def decide(view: View, change: Change) -> Done[None]:
            record = self._store.found(view.parts[0])
            if record is not None and record.owner == owner:
                change.put(record, _released(record, owner))
            return _nothing(None)

        self._store.step(decide, one_payment(payment_id), errors.CLAIM_STAYS)

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close payments that have expired at `at` (the service's time in Unix seconds). Returns them, oldest first."""
        closed: list[Payment] = []
        while True:
            found = self._store.step(
                lambda view, change: self._closing(view.parts[0], [], change, now + view.ahead),
                lambda ahead: [_expiring(origin, at)],
                errors.NOTHING_CHANGED,
            )
            closed += found
            if len(found) < PAGE:
                break
        numbers = {payment.id: place for place, payment in enumerate(closed)}
        return closed if len(closed) <= PAGE else sorted(closed, key=lambda one: (one.created, numbers[one.id]))

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        with self._store.held(errors.NOTHING_SENT) as deadline:
            view = self._store.look(one_payment(payment_id), deadline, errors.NOTHING_SENT)
            found = self._store.found(view.parts[0])
            return None if found is None else by_local_clock(found.payment, view.ahead)

    def history(
        self,
        *,
        states: Sequence[PaymentState] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments in some states or all, newest first; `before` is the id of the last payment of the previous page.

        Raises:
            InvalidArgumentError: the limit is below 1, or there is no payment with the id `before`.
        """
        if limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")
        if states or unproven:
            wanted = sorted(set(states or PaymentState))
            proofs = (False,) if unproven else (False, True)
            lists = [records.of_state(state, proven=proven) for state in wanted for proven in proofs]
        else:
            lists = [records.everything()]
        with self._store.held(errors.NOTHING_SENT) as deadline:
            ends = dict.fromkeys(lists, records.HIGHEST)
            if before is not None:
                view = self._store.look(one_payment(before), deadline, errors.NOTHING_SENT)
                ends = dict.fromkeys(lists, self._known(view.parts[0], before).number)
            found: list[Payment] = []
            while ends and len(found) < limit:
                page = min(PAGE, limit - len(found))
                view = self._store.look(partial(_pages, ends, page), deadline, errors.NOTHING_SENT)
                pages = [self._store.every(part) for part in view.parts]
                # A list that is cut off may continue before the others end.
                floor = max((page_[-1].number for page_ in pages if len(page_) == page), default=-1)
                ready = [one for page_ in pages for one in page_ if one.number >= floor]
                found += [by_local_clock(one.payment, view.ahead) for one in sorted(ready, key=lambda one: -one.number)]
                ends = dict.fromkeys(ends, floor) if floor >= 0 else {}
            return found[:limit]

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave."""

        def decide(view: View, change: Change) -> Done[Spending]:
            return _nothing(self._spending(view, view.parts[0], budget, now + view.ahead))

        return self._store.step(
            decide, lambda ahead: [("sums", "6", *records.window(now + ahead, rules.HOUR))], errors.NOTHING_CHANGED
        )

    def budget(self) -> Budget:
        """The store's own budget."""
        with self._store.held(errors.NOTHING_SENT) as deadline:
            return _own_budget(self._store.look(no_parts, deadline, errors.NOTHING_SENT))

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget; `Budget()` removes it."""

        def decide(view: View, change: Change) -> Done[None]:
            before = view.meta["budget"]
            change.set(settings.BUDGET, before, settings.budget_text(budget, before, view.time))
            change.less_room = True
            return _nothing(None)

        self._store.step(decide, no_parts, errors.NOTHING_CHANGED)

    def trusted(self, origin: str) -> list[str]:
        """The known recipients of an origin, remembered or trusted, oldest first."""
        with self._store.held(errors.NOTHING_SENT) as deadline:
            part = setting(settings.trusted_for(origin))
            return _addresses(self._store.look(part, deadline, errors.NOTHING_SENT).parts[0])

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Add a trusted recipient for an origin. Addresses are compared without regard to case."""

        def decide(view: View, change: Change) -> Done[None]:
            known = settings.recipients(view.parts[0])
            if address.lower() not in {one.lower() for one, _ in known}:
                more = settings.recipients_text([*known, (address, now + view.ahead)])
                change.set(settings.trusted_for(origin), view.parts[0], more)
            return _nothing(None)

        self._store.step(decide, setting(settings.trusted_for(origin)), errors.NOTHING_CHANGED)

    def purchase_secret(self, payer: str) -> str | None:
        """The id of the secret for a payer's named purchases, if there are any."""
        with self._store.held(errors.NOTHING_SENT) as deadline:
            view = self._store.look(no_parts, deadline, errors.NOTHING_SENT, any_secret=True)
            found = view.meta["secret"] if payer.lower() == self.wallet.lower() else None
            return None if found is None else found.decode()

    def set_purchase_secret(self, payer: str, secret_id: str) -> None:
        """Replace that id. From then on, only members with that secret can use this ledger."""
        self._check_payer(payer)

        def decide(view: View, change: Change) -> Done[None]:
            change.write("HSET", META, "secret", secret_id, "sealed_by", secret_id)
            return _nothing(None)

        self._store.step(decide, no_parts, errors.NOTHING_CHANGED, any_secret=True)

    def _need(self, part: list[Any], payment_id: str, consequence: str) -> Record:
        found = self._store.found(part)
        if found is None:
            hint = "the server may have lost it: client.payments.reconcile() (trade pay reconcile)"
            raise errors.gone(payment_id, consequence, hint)
        return found

    def _known(self, part: list[Any], payment_id: str) -> Record:
        found = self._store.found(part)
        if found is None:
            raise errors.no_payment(payment_id)
        return found

    def _blocking(self, part: list[list[Any]], at: float) -> Record | None:
        after, until = rules.reply_window(at)
        return next((one for one in self._store.every(part) if one.blocks(after, until)), None)

    def _close(self, view: View, change: Change, *, now: float) -> bool:
        """Before a reservation: close what has expired, and delete old answers. Whether there were any."""
        self._closing(view.parts[2], view.parts[3], change, now + view.ahead)
        return bool(change.after)

    def _closing(
        self, expiring: list[list[Any]], old: list[list[Any]], change: Change, at: float
    ) -> Done[list[Payment]]:
        found = sorted(self._store.every(expiring), key=lambda one: one.number)
        for record in found:
            payment = rules.expired(record.payment, now=at)
            change.put(record, record.with_payment(payment))
            if payment.state is PaymentState.CANCELLED is not record.payment.state:
                _restore(payment, change)
        for record in self._store.every(old):
            current = change.after.get(record.payment.id, record)
            change.put(record, current.with_payment(replace(current.payment, reply=None)))
        return lambda written: [written(record.payment.id) for record in found]

    def _spending(self, view: View, part: list[Any], budget: Budget, at: float) -> Spending:
        limits = budget.strictest(_own_budget(view))
        found = {
            bytes(part[number]).decode(): (int(part[number + 1] or 0), int(part[number + 2] or 0))
            for number in range(0, len(part), 3)
        }
        sums = records.spent(found, at, rules.HOUR)
        if limits.release == "service":
            less = self._released(at, view)
            sums = tuple(one - other for one, other in zip(sums, less, strict=True))  # type: ignore[assignment]
        last_hour, today, total, held_last_hour, held_today, held = sums
        return Spending(
            last_hour=last_hour,
            today=today,
            total=total,
            held=held,
            held_last_hour=held_last_hour,
            held_today=held_today,
            budget=limits,
        )

    def _released(self, at: float, view: View) -> list[int]:
        """The part of each sum that release="service" leaves out."""
        sums = [0] * 6
        today = int(at // rules.DAY) * rules.DAY
        for _, until, counted, proof, *_ in self._members(records.released(), records.LOWEST, view):
            for place, counts in enumerate((float(until) > int((at - rules.HOUR) // 1), float(until) >= today, True)):
                sums[place] += int(counted) * counts
                sums[place + 3] += int(counted) * (counts and proof == "u")
        return sums

    def _counted(self, since: float, limits: Budget, without: Payment | None) -> Iterator[tuple[float, int]]:
        """Until when the payments that count since `since` may be taken, and their amounts, in order, without one."""
        for _, until, counted, _, released, payment_id in self._members(records.counting(), int(since // 1) + 1):
            if released == "r" and limits.release == "service":
                continue
            if without is None or payment_id != without.id:
                yield float(until), int(counted)

    def _members(self, first: str, start: float, view: View | None = None) -> Iterator[list[str]]:
        """Members of the index, a page at a time. With a view, they must be of the same moment."""
        deadline, start_text = time.monotonic() + self._timeout, first + records.place(start)
        while True:
            part: Command = ("members", "4", start_text, _end(first), str(PAGE), "0")
            page = self._store.look(lambda ahead, part=part: [part], deadline, errors.NOTHING_SENT)  # type: ignore[misc]
            if view is not None and page.money != view.money:
                raise AgainError
            texts = [bytes(member).decode("utf-8", "surrogateescape") for member in page.parts[0]]
            for text in texts:
                yield text.split(":")
            if len(texts) < PAGE:
                return
            start_text = texts[-1] + "\x00"

    def _difference(self, deadline: float) -> str:
        """What is wrong with sums and index, or an empty text."""
        sums: dict[str, int] = {}
        members: set[str] = set()
        count = 0
        for record in self._store.scan(0, "HSCAN", deadline):
            count += 1
            members |= records.members(record)
            for name, micro in records.counts(record).items():
                sums[name] = sums.get(name, 0) + micro
        stored = {name: int(micro) for name, micro in self._store.scan(2, "HSCAN", deadline) if int(micro)}
        if stored != {name: micro for name, micro in sums.items() if micro}:
            wrong = {name for name, _ in stored.items() ^ sums.items()}
            return f"{len(wrong)} sums differ from {count} payments: {', '.join(sorted(wrong)[:3])}"
        indexed = {name for name, _ in self._store.scan(1, "ZSCAN", deadline)}
        if indexed != members:
            return (
                f"the index of {count} payments has {len(indexed - members)} too many, lacks {len(members - indexed)}"
            )
        slots = {name for name, _ in self._store.scan(3, "ZSCAN", deadline)}
        if missing := {name for name in sums if not name.startswith("h:") and name != records.ALL} - slots:
            return f"{len(missing)} sums cannot be found"
        return ""

    def _check_payer(self, payer: str) -> None:
        if payer.lower() != self.wallet.lower():
            raise ConfigError(
                f"this ledger is for the wallet {self.wallet}, not for {printable(payer, 60)}",
                hint="a client and its RedisLedger need the same signer",
            )

    @property
    def wallet(self) -> str:
        """The paying address. The first use may ask the signer."""
        return self._store.wallet

    @property
    def journal(self) -> str:
        """The file of this machine's journal. The first use may ask the signer."""
        return self._store.opened()[1].path

    def restore(self) -> list[Payment]:
        """Put back what this machine's journal has and the server lost, and continue. Returns the payments of it.

        The budget and the trusted recipients come back as this machine knew them, unless the server has newer ones;
        where that cannot be told, the stricter ones hold.

        They may exceed a budget: both sides of a failover may have signed. What other machines wrote and the server
        lost comes back when they do the same.

        Raises:
            LedgerError: the server cannot be written, or the journal cannot be read.
        """
        return self._store.restore()

    def check_journal(self) -> None:
        """Compare what this machine wrote and saw with what the server has. Changes nothing.

        Raises:
            LedgerError: the server has lost some of it (`ledger_went_back`), or it cannot be read.
        """
        self._store.check_journal()

    def check(self) -> None:
        """Read the whole ledger, and compare sums and index with the records.

        Raises:
            LedgerError: they do not agree, or it cannot be read.
        """
        if problem := self._store.steady(self._difference):
            raise self._store.damaged(problem, errors.NOTHING_CHANGED)

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        self._store.close()


def _end(first: str) -> str:
    """The end of all members that begin with `first`."""
    return first[:-1] + records.END


def _standing(fingerprint: str) -> Command:
    first = records.blocking(fingerprint)
    return ("payments", "4", first, _end(first), "1000", "1")


def _expiring(origin: str | None, at: float) -> Command:
    first = records.live(origin)
    last = int((at - GRACE) // 1) + 1
    return ("payments", "4", first, first + records.place(last), str(PAGE), "0")


def _old_answers(at: float) -> Command:
    first = records.kept()
    return ("payments", "4", first, first + records.place(at - rules.KEPT), "20", "0")


def _pages(ends: dict[str, int], page: int, ahead: int) -> list[Command]:
    return [("payments", "4", first, first + records.place(end), str(page), "1") for first, end in ends.items()]


def _addresses(trusted: bytes | None) -> list[str]:
    return [address for address, _ in settings.recipients(trusted)]


def _own_budget(view: View) -> Budget:
    return settings.budget_of(view.meta["budget"])


def _is_claimed(record: Record, owner: str, at: float) -> bool:
    """Whether another owner has claimed it."""
    return record.owner is not None and record.owner != owner and holds(record.owner, record.until, now=at)


def _claimed(record: Record, owner: str, until: float) -> Record:
    return replace(record, owner=owner, until=until, fence=record.fence + (record.owner != owner))


def _released(record: Record, owner: str) -> Record:
    return replace(record, owner=None, until=0.0) if record.owner == owner else record


def _restore(canceled: Payment, change: Change) -> None:
    """What was never sent replaces nothing: the payment before it stands again."""
    while canceled.replaces is not None and not canceled.superseded:
        before = change.get(canceled.replaces)
        if before is None:
            return
        stored = change.before.get(canceled.replaces, before)
        after = before.with_payment(replace(before.payment, superseded=False))
        change.put(stored, after)
        if before.payment.state is not PaymentState.CANCELLED:
            return
        canceled = after.payment


def _nothing(result: T) -> Done[T]:
    return lambda written: result
