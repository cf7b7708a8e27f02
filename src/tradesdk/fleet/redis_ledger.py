"""A ledger on Redis or Valkey, for one wallet and any number of machines.

All decisions are made here, by the same rules as in the SQLite ledger. The server does one thing: a script that writes
what was decided, if what the decision rests on is still so.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from .._fleet import ledger_records as records
from .._fleet.address import ServerAddress
from .._fleet.failures import Failure
from .._fleet.ledger_records import Record
from .._http.log_events import log_fields, logger
from .._http.settings import data_folder
from .._system.clock import Clock, SystemClock
from .._system.forks import bind
from .._values.payment import GRACE, Payment, PaymentState, Receipt, SignedHeader
from .._values.text import printable, without_keys
from ..errors import ConfigError, ErrorCode, InvalidArgumentError, LedgerError, PaymentError
from ..payments.budget import Budget, Spending
from ..payments.ledger import rules
from ..payments.ledger.errors import NOTHING_CHANGED, NOTHING_SENT
from ..payments.ledger.leases import holds
from ..payments.ledger.schema import budget_row, plain, to_budget
from ..payments.messages import purchase_secret_changed
from ..payments.purchases import purchase_secret
from ..payments.signing.sealing import HeaderSeal
from ..payments.signing.secp256k1 import checksummed
from ..payments.signing.signer import LocalSigner, Signer, checked_signer
from .journal import Content, Entry, Journal, Position
from .ledger_line import ASK_SETTINGS, Command, LedgerLine, LineError, is_too_old, not_durable, settings_of

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
_NAMES = ("payments", "index", "sums", "slots", "meta", "trusted", "replies", "log")
_TYPES = ("hash", "zset", "hash", "zset", "hash", "hash", "hash", "hash")
_PAYMENTS, _INDEX, _SUMS, _SLOTS, _META, _TRUSTED, _REPLIES, _LOG = "12345678"
_LOGGED = 10_000
"""So many of the newest positions the server remembers; the script has the same number."""
_PAGE = 200
_CLOCKS_AGREE = 5
_LARGEST = 2**63
_PAUSES = (0.002, 0.02)
_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_NOT_IN_JOURNAL = "the journal of the fleet's ledger cannot be written"


class _AgainError(Exception):
    """What was read in two parts changed in between."""


@dataclass(frozen=True, slots=True)
class _View:
    """What was read at one moment.

    Attributes:
        ahead: seconds by which the server's clock is ahead of this machine's; 0 when they agree.
        money: the counter that goes up whenever a budget may have less room.
        meta: about the store.
        parts: the parts that were asked for.
    """

    ahead: int
    money: str
    meta: dict[str, bytes | None]
    parts: list[Any]


@dataclass(slots=True)
class _Change:
    """What a step writes, and what must still be so."""

    step: str
    load: Callable[[str], Record | None]
    main: str = ""
    money: str = ""
    journal: bool = False
    sync: bool = False
    less_room: bool = False
    expected: dict[tuple[str, str], str] = field(default_factory=dict)
    before: dict[str, Record | None] = field(default_factory=dict)
    after: dict[str, Record] = field(default_factory=dict)
    commands: list[tuple[str, str, tuple[str | bytes, ...]]] = field(default_factory=list)

    def put(self, before: Record | None, after: Record) -> None:
        """Write a record in place of another one. The first is that of the step."""
        payment_id = after.payment.id
        self.before.setdefault(payment_id, before)
        self.after[payment_id] = after
        self.main = self.main or payment_id
        self.expect(_PAYMENTS, payment_id, None if before is None else before.text)

    def get(self, payment_id: str) -> Record | None:
        """A record, as it will be after this step."""
        return self.after.get(payment_id) or self.load(payment_id)

    def expect(self, key: str, name: str, value: str | bytes | None) -> None:
        """The step must be decided again if this value has changed since."""
        self.expected.setdefault((key, name), records.digest(value))

    def write(self, command: str, key: str, *arguments: str | bytes) -> None:
        self.commands.append((command, key, arguments))


_Done = Callable[[Callable[[str], Payment]], T]
"""Makes the result of a step, from the payments as they were written."""


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
        journal: the file in which this machine writes down what it signed; by default one for prefix and wallet, in
            `TRADE_HOME` or the platform's folder for data. It must survive restarts. Processes share it.
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
        self._signer = LocalSigner.from_env if signer is None and wallet is None else signer
        self._wallet = None if wallet is None else checksummed(wallet)
        self._prefix = prefix
        self._given_journal = None if journal is None else os.path.abspath(os.fspath(journal))
        self._checked = durability == "checked"
        self._replicas = replicas
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._line = LedgerLine(ServerAddress.of(url), min(timeout, 5.0))
        self._wait = "WAITAOF"
        self._was_open = False
        self._run_id = ""
        self._ahead = 0
        self._went_back = False
        self._position: Position | None = None
        self._accepted: str | None = None
        self._opened: tuple[HeaderSeal, Journal, list[str]] | None = None
        self._lock = threading.Lock()
        if not self._checked:
            logger.warning(
                "the durability of the fleet's ledger at %s is not checked: its operator answers for it",
                self._line.address,
                extra=log_fields("durability_unchecked", reason=str(self._line.address)),
            )
        bind(self)

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
    def wallet(self) -> str:
        """The paying address. The first use may ask the signer."""
        if self._wallet is None:
            signer = self._get_signer()
            self._wallet = checksummed(signer.address)
        return self._wallet

    @property
    def durability(self) -> Literal["checked", "managed"]:
        """Whether the server's settings are checked."""
        return "checked" if self._checked else "managed"

    # LedgerStore

    def find(self, fingerprint: str, *, now: float) -> Payment | None:
        """The newest payment for the same purchase that is not closed or superseded."""
        with self._held(NOTHING_SENT) as deadline:
            view = self._look(lambda ahead: [_standing(fingerprint)], deadline, NOTHING_SENT)
            found = self._blocking(view, view.parts[0], now + view.ahead)
            return None if found is None else _told(found.payment, view.ahead)

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
        if payment.state is not PaymentState.RESERVED:
            raise InvalidArgumentError("payment must be in state RESERVED")
        if ":" in payment.id:
            raise InvalidArgumentError("the id of a payment must not have a colon")
        self._check_payer(payment.payer)
        payment = replace(payment, created=now, updated=now, reason=plain(payment.reason))

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

        def decide(view: _View, change: _Change) -> _Done[tuple[Payment, bool]]:
            same_id, standing, _, _, sums, trusted = view.parts
            at, draft = now + view.ahead, _by_server(payment, view.ahead)
            change.money = view.money
            blocking = self._blocking(view, standing, at)
            reserved, earlier, before = draft, None, None
            spending = self._spending(view, sums, budget, at, change)
            if blocking is not None and blocking.payment.id == replaces:
                reserved = replace(draft, replaces=replaces)
            elif blocking is not None:
                if not rules.is_renewable(blocking.payment, over) or _is_claimed(blocking, owner, at):
                    return _nothing((_told(blocking.payment, view.ahead), False))
                before, earlier = blocking, blocking.payment
                reserved = rules.renewed(earlier, draft)
                spending = rules.spending_before(reserved, draft.amount, earlier, spending, at)
            known = [] if pay_to else _addresses(trusted)
            refusal = rules.recipient_refusal(draft.pay_to, origin=origin, configured=pay_to, known=known)
            if refusal is None:
                last_hour = self._counted(at - rules.HOUR, spending.budget, earlier, change)
                refusal = rules.budget_refusal(draft.amount, spending, now=at, last_hour=last_hour)
            if refusal is not None:
                raise refusal
            if earlier is None and same_id[1] is not None:
                raise self._failed("there is a payment with its id already", NOTHING_SENT)
            if spending.total + reserved.counted >= _LARGEST:
                raise self._failed("the sum of all payments is too large", NOTHING_SENT)
            if not pay_to:
                change.expect(_TRUSTED, origin, trusted)
            new = Record(payment=reserved, number=int(view.money) + 1) if before is None else before
            change.put(before, _claimed(new.with_payment(reserved), owner, until + view.ahead))
            change.less_room = True
            return lambda written: (written(reserved.id), True)

        return self._step(decide, parts, NOTHING_SENT, signs=True, tidy=partial(self._close, now=now), lease=True)

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

        def decide(view: _View, change: _Change) -> _Done[Payment]:
            found, standing, trusted = view.parts
            record = self._need(found, payment.id, NOTHING_SENT)
            rules.check_submittable(record.payment, owner=owner, holder=record.owner)
            draft = rules.with_terms(record.payment, payment)
            if not pay_to:
                known = _addresses(trusted)
                refusal = rules.recipient_refusal(draft.pay_to, origin=draft.origin, configured=(), known=known)
                if refusal is not None:
                    refusal.payment = draft
                    raise refusal
                change.expect(_TRUSTED, draft.origin, trusted)
                if not known:
                    change.write("HSET", _TRUSTED, draft.origin, json.dumps([[draft.pay_to, now + view.ahead]]))
            change.journal = change.sync = True
            change.put(record, record.with_payment(rules.submitted(draft, header, now=now + view.ahead)))
            for other in self._all(standing):
                change.expect(_PAYMENTS, other.payment.id, other.text)
                is_reserved = other.payment.state is PaymentState.RESERVED
                if other.number < record.number and other.stands and not is_reserved:
                    change.put(other, other.with_payment(replace(other.payment, superseded=True)))
            if secret_id is not None:
                change.write("HSETNX", _META, "secret", secret_id)
            return lambda written: written(payment.id)

        parts: list[Command] = [
            ("payment", "1", payment.id),
            _standing(payment.fingerprint),
            ("trusted", "1", payment.origin),
        ]
        return self._step(decide, lambda ahead: parts, NOTHING_SENT, signs=True)

    def resubmit(
        self, payment_id: str, *, signatures: int, owner: str | None = None, now: float
    ) -> tuple[Payment, bool]:
        """Count one more submission before it is sent: REJECTED_LIVE becomes SUBMITTED again.

        Returns the payment, and whether it may be sent.

        Raises:
            PaymentRefusedError: `not_submitted`: it was never signed.
            LedgerError: the ledger cannot be written, or its header is encrypted with another secret.
        """
        consequence = "the payment was not resent"

        def decide(view: _View, change: _Change) -> _Done[tuple[Payment, bool]]:
            record = self._need(view.parts[0], payment_id, consequence)
            is_own = owner is None or record.owner == owner
            again = rules.resubmitted(record.payment, signatures=signatures, is_own=is_own, now=now + view.ahead)
            if again is None:
                return _nothing((_told(record.payment, view.ahead), False))
            if again.header is None:
                raise self._failed(
                    "the header of this payment cannot be decrypted", consequence, "it was made with another secret"
                )
            change.journal = True
            change.put(record, record.with_payment(again))
            return lambda written: (written(payment_id), True)

        return self._step(decide, _one(payment_id), consequence)

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
        consequence = "the outcome of the payment is not written down"
        report = rules.Report(
            state=state,
            reason=plain(reason),
            receipt=receipt,
            reply=reply,
            submissions=submissions,
            settle_failed=settle_failed,
            signatures=signatures,
        )

        def decide(view: _View, change: _Change) -> _Done[Payment]:
            record = self._need(view.parts[0], payment_id, consequence)
            if owner is not None and record.owner not in (None, owner):
                logger.warning(
                    "the claim on payment %s had expired, and another call has it since",
                    payment_id,
                    extra=log_fields("claim_overrun", payment_id=payment_id, tries=record.fence),
                )
            at = now + view.ahead
            after = rules.settled(record.payment, report, owner=owner, holder=record.owner, now=at)
            if after is None:
                return _nothing(_told(record.payment, view.ahead))
            waits = rules.keeps_answer(record.payment, after, reply)
            change.journal = True
            change.put(record, replace(record.with_payment(after), collected=record.collected and not waits))
            if after.state is PaymentState.CANCELLED is not record.payment.state:
                _restore(after, change)
            return lambda written: written(payment_id)

        return self._step(decide, _one(payment_id), consequence)

    def mark(
        self, payment_id: str, *, paid: bool, evidence: str = "", signatures: int | None = None, now: float
    ) -> Payment:
        """Mark a payment without proof as paid or unpaid, on the word of a person or of the chain.

        Raises:
            PaymentRefusedError: `not_unresolved`.
            InvalidArgumentError: there is no payment with that id.
        """

        def decide(view: _View, change: _Change) -> _Done[Payment]:
            record = self._known(view.parts[0], payment_id)
            at = now + view.ahead
            after = rules.marked(record.payment, paid=paid, evidence=plain(evidence), signatures=signatures, now=at)
            change.journal = True
            change.put(record, record.with_payment(after))
            return lambda written: written(payment_id)

        return self._step(decide, _one(payment_id), NOTHING_CHANGED)

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment for at most 300 seconds; False while the claim of another owner is in force.

        Raises:
            InvalidArgumentError: there is no payment with that id.
        """

        def decide(view: _View, change: _Change) -> _Done[bool]:
            record = self._known(view.parts[0], payment_id)
            if _is_claimed(record, owner, now + view.ahead):
                return _nothing(False)
            change.put(record, _claimed(record, owner, until + view.ahead))
            return _nothing(True)

        return self._step(decide, _one(payment_id), NOTHING_SENT, lease=True)

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        """Note that the caller has the answer of a delivered payment. Releases the claim."""

        def decide(view: _View, change: _Change) -> _Done[None]:
            record = self._found(view.parts[0])
            if record is not None:
                after, payment = _released(record, owner), record.payment
                if payment.state is PaymentState.DELIVERED and not record.collected:
                    reply = payment.reply if keep or payment.purchase is not None else None
                    after = replace(after, collected=True).with_payment(replace(payment, reply=reply))
                if after is not record:
                    change.put(record, after)
            return _nothing(None)

        consequence = "the answer is not marked as collected, and the claim stays until it expires"
        self._step(decide, _one(payment_id), consequence)

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """Undo `collect`: the next equal call gets the answer. Releases the claim."""

        def decide(view: _View, change: _Change) -> _Done[None]:
            record = self._found(view.parts[0])
            if record is not None:
                after, payment = _released(record, owner), record.payment
                if payment.state is PaymentState.DELIVERED:
                    kept = reply if payment.reply is None else payment.reply
                    after = replace(after, collected=False).with_payment(replace(payment, reply=kept))
                if after is not record:
                    change.put(record, after)
            return _nothing(None)

        self._step(decide, _one(payment_id), "the answer of the payment may be lost")

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Release the claim of `owner`. The claims of others stay."""

        def decide(view: _View, change: _Change) -> _Done[None]:
            record = self._found(view.parts[0])
            if record is not None and record.owner == owner:
                change.put(record, _released(record, owner))
            return _nothing(None)

        self._step(decide, _one(payment_id), "the claim stays until it expires")

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close payments that have expired at `at` (the service's time in Unix seconds). Returns them, oldest first."""
        closed: list[Payment] = []
        while True:
            found = self._step(
                lambda view, change: self._closing(view.parts[0], [], change, now + view.ahead),
                lambda ahead: [_expiring(origin, at)],
                NOTHING_CHANGED,
            )
            closed += found
            if len(found) < _PAGE:
                break
        numbers = {payment.id: place for place, payment in enumerate(closed)}
        return closed if len(closed) <= _PAGE else sorted(closed, key=lambda one: (one.created, numbers[one.id]))

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        with self._held(NOTHING_SENT) as deadline:
            view = self._look(_one(payment_id), deadline, NOTHING_SENT)
            found = self._found(view.parts[0])
            return None if found is None else _told(found.payment, view.ahead)

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
        with self._held(NOTHING_SENT) as deadline:
            ends = dict.fromkeys(lists, records.HIGHEST)
            if before is not None:
                view = self._look(_one(before), deadline, NOTHING_SENT)
                ends = dict.fromkeys(lists, self._known(view.parts[0], before).number)
            found: list[Payment] = []
            while ends and len(found) < limit:
                page = min(_PAGE, limit - len(found))
                view = self._look(partial(_pages, ends, page), deadline, NOTHING_SENT)
                pages = [self._all(part) for part in view.parts]
                # A list that is cut off may go on before the others end.
                floor = max((page_[-1].number for page_ in pages if len(page_) == page), default=-1)
                ready = [one for page_ in pages for one in page_ if one.number >= floor]
                found += [_told(one.payment, view.ahead) for one in sorted(ready, key=lambda one: -one.number)]
                ends = dict.fromkeys(ends, floor) if floor >= 0 else {}
            return found[:limit]

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave."""

        def decide(view: _View, change: _Change) -> _Done[Spending]:
            return _nothing(self._spending(view, view.parts[0], budget, now + view.ahead, change))

        return self._step(
            decide, lambda ahead: [("sums", "6", *records.window(now + ahead, rules.HOUR))], NOTHING_CHANGED
        )

    def budget(self) -> Budget:
        """The store's own budget."""
        with self._held(NOTHING_SENT) as deadline:
            return _own_budget(self._look(_no_parts, deadline, NOTHING_SENT))

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget; `Budget()` removes it."""

        def decide(view: _View, change: _Change) -> _Done[None]:
            change.write("HSET", _META, "budget", json.dumps(budget_row(budget)))
            change.less_room = True
            return _nothing(None)

        self._step(decide, _no_parts, NOTHING_CHANGED)

    def trusted(self, origin: str) -> list[str]:
        """The known recipients of an origin, remembered or trusted, oldest first."""
        with self._held(NOTHING_SENT) as deadline:
            return _addresses(self._look(_trusted_of(origin), deadline, NOTHING_SENT).parts[0])

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Add a trusted recipient for an origin. Addresses are compared without regard to case."""

        def decide(view: _View, change: _Change) -> _Done[None]:
            known = json.loads(view.parts[0] or "[]")
            if address.lower() not in {one.lower() for one, _ in known}:
                change.expect(_TRUSTED, origin, view.parts[0])
                known = sorted([*known, [address, now + view.ahead]], key=lambda one: float(one[1]))
                change.write("HSET", _TRUSTED, origin, json.dumps(known))
            return _nothing(None)

        self._step(decide, _trusted_of(origin), NOTHING_CHANGED)

    def purchase_secret(self, payer: str) -> str | None:
        """The id of the secret for a payer's named purchases, if there are any."""
        with self._held(NOTHING_SENT) as deadline:
            view = self._look(_no_parts, deadline, NOTHING_SENT, any_secret=True)
            found = view.meta["secret"] if payer.lower() == self.wallet.lower() else None
            return None if found is None else found.decode()

    def set_purchase_secret(self, payer: str, secret_id: str) -> None:
        """Replace that id. From then on, only members with that secret can use this ledger."""
        self._check_payer(payer)

        def decide(view: _View, change: _Change) -> _Done[None]:
            change.write("HSET", _META, "secret", secret_id, "sealed_by", secret_id)
            return _nothing(None)

        self._step(decide, _no_parts, NOTHING_CHANGED, any_secret=True)

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        with self._lock:
            self._line.close()

    # More than LedgerStore

    def restore(self) -> list[Payment]:
        """Put back what this machine's journal has and the server lost, and go on. Returns those payments.

        They may exceed a budget: both sides of a failover may have signed. What other machines wrote and the server
        lost comes back when they do the same.

        Raises:
            LedgerError: the server cannot be written, or the journal cannot be read.
        """
        consequence = "nothing was put back"
        with self._held(consequence) as deadline:
            self._talk(self._verify, deadline, consequence)
            if not self._went_back:
                return []
            content = self._content(consequence)
            lost = self._talk(lambda: self._missing(content), deadline, consequence)
        restored: list[Payment] = []
        for payment_id in lost:
            entry = content.entries[payment_id]
            restored.append(self._step(partial(self._put_back, entry), _one(payment_id), consequence))
        with self._held(consequence) as deadline:
            head = self._talk(lambda: self._head(None)[0], deadline, consequence)
            try:
                self._accepted = self._open()[1].accept(head)
            except OSError as error:
                raise self._failed(f"{_NOT_IN_JOURNAL}: {error.strerror}", consequence) from error
            self._position, self._went_back = head, False
        return restored

    def check(self) -> None:
        """Read the whole ledger, and compare sums and index with the records.

        Raises:
            LedgerError: they do not agree, or it cannot be read.
        """
        with self._held(NOTHING_CHANGED) as deadline:
            for _ in range(5):
                before = self._talk(lambda: self._head(None)[0], deadline, NOTHING_CHANGED)
                problem = self._difference(deadline)
                if before == self._talk(lambda: self._head(None)[0], deadline, NOTHING_CHANGED):
                    break
            else:
                raise self._locked(NOTHING_CHANGED)
        if problem:
            raise self._damaged(problem, NOTHING_CHANGED)

    def forked(self) -> None:
        """This process was forked: it needs its own connection, and no thread of it holds the lock."""
        self._lock = threading.Lock()
        self._line.close()

    # One step

    def _step(
        self,
        decide: Callable[[_View, _Change], _Done[T]],
        parts: Callable[[int], list[Command]],
        consequence: str,
        *,
        signs: bool = False,
        lease: bool = False,
        any_secret: bool = False,
        tidy: Callable[[_View, _Change], bool] | None = None,
    ) -> T:
        """Read, decide and write, until what was read is still so when it is written."""
        with self._held(consequence) as deadline:
            pause = _PAUSES[0]
            step = secrets.token_hex(6)
            while True:
                view = self._look(parts, deadline, consequence, lease=lease, any_secret=any_secret, signs=signs)
                if tidy is not None:
                    tidying = self._change(secrets.token_hex(6), deadline, consequence)
                    if tidy(view, tidying):
                        self._commit(tidying, view, deadline, consequence, signs=signs)
                        continue
                change = self._change(step, deadline, consequence)
                try:
                    done = decide(view, change)
                except _AgainError:
                    continue
                except PaymentError as error:
                    if error.payment is not None:
                        error.payment = _told(error.payment, view.ahead)
                    raise
                if not (change.after or change.commands):
                    return done(_unwritten)
                written = self._commit(change, view, deadline, consequence, signs=signs)
                if written is not None:
                    return done(partial(_written, written, view.ahead))
                if time.monotonic() >= deadline:
                    raise self._locked(consequence)
                time.sleep(pause * secrets.SystemRandom().random())
                pause = min(2 * pause, _PAUSES[1])

    def _change(self, step: str, deadline: float, consequence: str) -> _Change:
        def load(payment_id: str) -> Record | None:
            return self._found(self._look(_one(payment_id), deadline, consequence).parts[0])

        return _Change(step, load)

    def _look(
        self,
        parts: Callable[[int], list[Command]],
        deadline: float,
        consequence: str,
        *,
        lease: bool = False,
        any_secret: bool = False,
        signs: bool = False,
    ) -> _View:
        """Read parts of the store at one moment."""
        seal, _, keys = self._open()
        settings = ASK_SETTINGS if lease and self._checked else ()

        def read() -> tuple[list[Any], list[Any], bool]:
            known = None if self._went_back else self._position
            asked = [text for part in parts(self._ahead) for text in part]
            reply, *told = self._line.run(
                "ledger_read", keys, [str(known.number if known else 0), *map(_text, asked)], *settings
            )
            is_known = known is None or reply[2] == known.hash.encode()
            if not is_known:
                self._verify()
            elif not self._went_back:
                self._position = _position(reply[1]) or self._position
            return reply, told, self._measure(reply[0])

        while True:
            reply, told, is_same_time = self._talk(read, deadline, consequence)
            if is_same_time:
                break
        if settings:
            self._check_settings(told, consequence)
        names = ("version", "seq", "hash", "money", "budget", "sealed_by", "secret")
        meta = dict(zip(names, reply[1], strict=True))
        version = meta["version"]
        if version not in (None, records.VERSION.encode()):
            raise self._error(
                "ledger_version",
                f"has version {printable(version.decode('utf-8', 'replace'), 20)}, and this release reads version "
                f"{records.VERSION}",
                consequence,
                "use a newer release of tradesdk, or another prefix=",
            )
        if not any_secret and meta["sealed_by"] not in (None, seal.id.encode()):
            raise purchase_secret_changed(self.wallet, meta["sealed_by"].decode("utf-8", "replace"), seal.id)
        if signs and self._went_back:
            self._talk(self._verify, deadline, consequence)  # another process may have put it back
            if self._went_back:
                raise self._gone_back(consequence)
        money = "0" if meta["money"] is None else meta["money"].decode()
        return _View(self._ahead, money, meta, reply[3:])

    def _measure(self, told: list[bytes]) -> bool:
        """Compare the server's clock with that of this machine. False: the difference is a new one."""
        difference = int(told[0]) + int(told[1]) / 1e6 - self._clock.now()
        if abs(difference) <= _CLOCKS_AGREE:
            ahead = 0
        elif abs(difference - self._ahead) < _CLOCKS_AGREE:
            ahead = self._ahead
        else:
            ahead = round(difference)
        same, self._ahead = ahead == self._ahead, ahead
        return same

    def _commit(
        self, change: _Change, view: _View, deadline: float, consequence: str, *, signs: bool
    ) -> dict[str, Record] | None:
        """Write a change. Returns the records as they are written; None: it must be decided again."""
        seal, journal, keys = self._open()
        written = {name: record.written(change.step, seal) for name, record in change.after.items()}
        commands = self._commands(change, written, view, seal)
        expected = [text for (key, name), value in change.expected.items() for text in (key, name, value)]
        wait = self._replicas > 0

        def send() -> list[Any]:
            known = None if self._went_back else self._position
            arguments = [
                *(change.step, change.main),
                *((str(known.number), known.hash) if known else ("", "")),
                *(change.money, "1" if change.less_room else "0"),
                *(str(len(change.expected)), *expected),
                *commands,
            ]
            reply, *more = self._line.run("ledger_commit", keys, arguments, *([self._wait_command()] if wait else []))
            if reply[0] == b"back":
                self._verify()
            elif reply[0] in (b"ok", b"done") and not self._went_back:
                self._position = Position(int(reply[1]), reply[2].decode())
            return [reply, *more]

        while True:
            reply, *more = self._talk(send, deadline, consequence)
            if reply[0] != b"back":
                break
            if signs and self._went_back:
                raise self._gone_back(consequence)
        if reply[0] == b"conflict":
            return None
        if reply[0] == b"done" and reply[3] != written[change.main].text.encode():
            # Decided again while an earlier try was still under way: what that one wrote is what counts.
            main = change.after[change.main].payment
            written[change.main] = self._decoded(reply[3], main.reply)
        if wait:
            self._check_replicas(more[0], consequence)
        if change.journal:
            self._write_journal(journal, written[change.main], change, consequence)
        return written

    def _commands(
        self, change: _Change, written: dict[str, Record], view: _View, seal: HeaderSeal
    ) -> list[str | bytes]:
        """All that the script does, as its arguments."""
        if view.meta["version"] is None:
            for name, value in (("version", records.VERSION), ("wallet", self.wallet)):
                change.write("HSETNX", _META, name, value)
        if view.meta["sealed_by"] is None:
            change.write("HSETNX", _META, "sealed_by", seal.id)
        sums: dict[str, int] = {}
        for payment_id, record in written.items():
            before = change.before[payment_id]
            old, new = records.members(before), records.members(record)
            change.less_room |= records.needs_new_decision(old - new, new - old)
            for sign, one in ((-1, before), (1, record)):
                for name, micro in records.counts(one).items():
                    sums[name] = sums.get(name, 0) + sign * micro
            change.write("HSET", _PAYMENTS, payment_id, record.text)
            if old - new:
                change.write("ZREM", _INDEX, *sorted(old - new))
            if new - old:
                change.write("ZADD", _INDEX, *(text for member in sorted(new - old) for text in ("0", member)))
            reply, reply_before = record.payment.reply, before and before.payment.reply
            if reply is not None and reply != reply_before:
                change.write("HSET", _REPLIES, payment_id, reply)
            elif reply is None and reply_before is not None:
                change.write("HDEL", _REPLIES, payment_id)
        for name, micro in sums.items():
            if micro:
                change.write("HINCRBY", _SUMS, name, str(micro))
                change.less_room |= micro > 0 and not name.startswith("h:")
                if not name.startswith("h:") and name != records.ALL:
                    change.write("ZADD", _SLOTS, "0", name)
        return [
            text for name, key, arguments in change.commands for text in (name, key, str(len(arguments)), *arguments)
        ]

    def _write_journal(self, journal: Journal, record: Record, change: _Change, consequence: str) -> None:
        if record.payment.signatures == 0:
            return
        entry = Entry(change.step, record.text)
        try:
            journal.add(record.payment.id, entry, None if self._went_back else self._position, sync=change.sync)
        except OSError as error:
            problem = self._failed(f"{_NOT_IN_JOURNAL}: {error.strerror or error}", consequence)
            if change.sync:
                raise problem from error
            extra = log_fields("ledger_failed", problem, payment_id=record.payment.id)
            logger.warning("payment %s: %s", record.payment.id, problem, extra=extra)

    # The server

    def _open(self) -> tuple[HeaderSeal, Journal, list[str]]:
        """What depends on the wallet and its secret; the first use may ask the signer."""
        if self._opened is None:
            signer = None if self._signer is None else self._get_signer()
            seal, wallet = HeaderSeal(purchase_secret(signer)), self.wallet.lower()
            path = self._given_journal
            if path is None:
                folder = data_folder("the ledger's journal") / "fleet"
                path = str(folder / f"{re.sub('[^A-Za-z0-9._-]', '_', self._prefix)}-{wallet}.journal")
            keys = [f"{self._prefix}:{{{wallet}}}:{name}" for name in _NAMES]
            self._opened = seal, Journal(path), keys
        return self._opened

    def _get_signer(self) -> Signer:
        signer = self._signer
        if signer is not None and not isinstance(signer, LocalSigner | Signer):
            signer = self._signer = checked_signer(signer())
        assert signer is not None  # noqa: S101 - there is one, or a wallet
        return signer

    @contextmanager
    def _held(self, consequence: str) -> Iterator[float]:
        """One thread at a time. Gives the moment by which the method must end."""
        lock, deadline = self._lock, time.monotonic() + self._timeout
        self._open()
        if not lock.acquire(timeout=self._timeout):
            raise self._locked(consequence)
        try:
            yield deadline
        except ValueError as error:
            if isinstance(error, InvalidArgumentError):
                raise
            problem = printable(str(error), 200)
            raise self._damaged(problem, consequence) from None
        finally:
            lock.release()

    def _talk(self, send: Callable[[], T], deadline: float, consequence: str) -> T:
        """Send something that may be sent again, until it is answered."""
        while True:
            try:
                if not self._line.is_open:
                    self._connect(consequence)
                return send()
            except LineError as error:
                lost = error.failure.code == "server_unreachable"
                if not (lost and self._was_open) or time.monotonic() >= deadline:
                    raise self._from_failure(error.failure, consequence) from None
            time.sleep(_PAUSES[1])

    def _connect(self, consequence: str) -> None:
        told = self._line.open()
        try:
            if is_too_old(told):
                version = printable(told.get("redis_version", "unknown"), 20)
                raise self._error(
                    "server_unsupported", f"is on a server of version {version}", consequence, "use Redis 6.2 or newer"
                )
            asked: list[Command] = [("TYPE", key) for key in self._open()[2]]
            types = self._line.send([*asked, *(ASK_SETTINGS if self._checked else ())])
            for key, expected, found in zip(self._open()[2], _TYPES, types, strict=False):
                if not isinstance(found, Exception) and found not in (expected.encode(), b"none"):
                    raise self._error(
                        "server_failed",
                        f"cannot be used: the server's key {key} is of another program",
                        consequence,
                        "use another database or prefix",
                    )
            self._check_settings(types[len(asked) :], consequence)
            if told.get("run_id") != self._run_id or not self._was_open:
                self._verify()
        except BaseException:
            self._line.close()
            raise
        self._run_id, self._was_open = told.get("run_id", ""), True

    def _check_settings(self, replies: Sequence[Any], consequence: str) -> None:
        if not self._checked:
            return
        settings = settings_of(replies)
        if settings is None:
            what, hint = "the server does not tell its settings", 'durability="managed", if its operator answers for it'
        elif wrong := not_durable(settings):
            what, hint = f"the server could lose what was written: {printable(wrong, 300)}", "change these settings"
        else:
            return
        raise self._error("ledger_not_durable", f"cannot be used: {what}", consequence, hint)

    def _wait_command(self) -> Command:
        milliseconds = str(int(min(self._timeout, 5.0) * 900))
        if self._wait == "WAIT":
            return ("WAIT", str(self._replicas), milliseconds)
        return ("WAITAOF", "1" if self._checked else "0", str(self._replicas), milliseconds)

    def _check_replicas(self, reply: Any, consequence: str) -> None:
        if isinstance(reply, Exception) and self._wait == "WAITAOF":  # before Valkey or Redis 7.2
            self._wait = "WAIT"
            with self._unreachable(consequence):
                [reply] = self._line.send([self._wait_command()])
        have = reply[1] if isinstance(reply, list) else reply
        if not isinstance(have, int) or have < self._replicas:
            count = have if isinstance(have, int) else 0
            raise self._error(
                "ledger_not_durable",
                f"has this step, and {count} of {self._replicas} replicas have it in time",
                consequence,
                "check the replicas",
            )

    @contextmanager
    def _unreachable(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except LineError as error:
            raise self._from_failure(error.failure, consequence) from None

    # Whether the store went back

    def _verify(self) -> None:
        """Compare the store with what this machine knows: its last position, and its journal where that is too old."""
        content = self._content(NOTHING_SENT)
        known = self._position
        if content.accepted is not None and content.accepted != self._accepted:
            known = None  # another process of this machine has put back what was lost
        self._accepted = content.accepted
        both = [position for position in (known, content.position) if position is not None]
        known = max(both, default=None)
        head, found = self._head(known)
        if known is None or found == known.hash:
            is_whole = True
        elif head is not None and found is None and known.number <= head.number - _LOGGED:
            is_whole = not self._missing(content)
        else:
            is_whole = False
        self._went_back = not is_whole
        if is_whole:
            self._position = head

    def _head(self, known: Position | None) -> tuple[Position | None, str | None]:
        """The newest position, and the hash at the one that is known."""
        number = str(known.number if known else 0)
        reply = self._line.run("ledger_read", self._open()[2], [number])[0]
        return _position(reply[1]), None if reply[2] is None else reply[2].decode()

    def _missing(self, content: Content) -> list[str]:
        """The payments of the journal whose newest step the server does not have."""
        ids, lost = list(content.entries), []
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            [texts] = self._line.send([("HMGET", self._open()[2][0], *some)])
            if isinstance(texts, Exception):
                raise LineError(Failure("server_failed", str(texts)))
            for payment_id, text in zip(some, texts, strict=True):
                if text is None or f'"{content.entries[payment_id].step}"'.encode() not in text:
                    lost.append(payment_id)
        return lost

    def _content(self, consequence: str) -> Content:
        try:
            return self._open()[1].content()
        except OSError as error:
            what = f"the journal of the fleet's ledger cannot be read: {error.strerror or error}"
            raise self._failed(what, consequence) from error

    def _put_back(self, entry: Entry, view: _View, change: _Change) -> _Done[Payment]:
        """Write a record of the journal into a store that lost it."""
        own = records.read(entry.text, None, self._open()[0])
        found = self._found(view.parts[0])
        change.money = view.money
        if found is None:
            own = replace(own, text="", owner=None, until=0.0, collected=True, number=int(view.money) + 1)
            change.less_room = True
            change.put(None, own)
        else:
            steps = (*found.steps, *(step for step in own.steps if step not in found.steps))
            is_older = set(found.steps) <= set(own.steps)
            payment = own.payment if is_older else rules.joined(found.payment, own.payment)
            payment = replace(payment, reply=found.payment.reply, superseded=found.payment.superseded)
            change.put(found, replace(found.with_payment(payment), steps=steps))
        return lambda written: written(own.payment.id)

    # Records

    def _decoded(self, text: bytes, reply: bytes | None) -> Record:
        return records.read(text, reply, self._open()[0])

    def _found(self, part: list[Any]) -> Record | None:
        _, text, reply = part
        return None if text is None else self._decoded(text, reply)

    def _all(self, part: list[list[Any]]) -> list[Record]:
        return [record for one in part if (record := self._found(one)) is not None]

    def _need(self, part: list[Any], payment_id: str, consequence: str) -> Record:
        found = self._found(part)
        if found is None:
            shown = printable(without_keys(payment_id), 60)
            raise LedgerError(
                f"payment {shown} is no longer in the ledger; {consequence}",
                code="ledger_failed",
                hint="the server may have lost it: client.payments.reconcile() (trade pay reconcile)",
            )
        return found

    def _known(self, part: list[Any], payment_id: str) -> Record:
        found = self._found(part)
        if found is None:
            raise InvalidArgumentError(f"no payment {printable(without_keys(payment_id), 60)} is in this ledger")
        return found

    def _blocking(self, view: _View, part: list[list[Any]], at: float) -> Record | None:
        after, until = rules.reply_window(at)
        return next((one for one in self._all(part) if one.blocks(after, until)), None)

    def _close(self, view: _View, change: _Change, *, now: float) -> bool:
        """Before a reservation: close what has expired, and delete old answers. Whether there were any."""
        self._closing(view.parts[2], view.parts[3], change, now + view.ahead)
        return bool(change.after)

    def _closing(
        self, expiring: list[list[Any]], old: list[list[Any]], change: _Change, at: float
    ) -> _Done[list[Payment]]:
        found = sorted(self._all(expiring), key=lambda one: one.number)
        for record in found:
            payment = rules.expired(record.payment, now=at)
            change.put(record, record.with_payment(payment))
            if payment.state is PaymentState.CANCELLED is not record.payment.state:
                _restore(payment, change)
        for record in self._all(old):
            current = change.after.get(record.payment.id, record)
            change.put(record, current.with_payment(replace(current.payment, reply=None)))
        return lambda written: [written(record.payment.id) for record in found]

    # Budgets

    def _spending(self, view: _View, part: list[Any], budget: Budget, at: float, change: _Change) -> Spending:
        limits = budget.strictest(_own_budget(view))
        found = {
            bytes(part[number]).decode(): (int(part[number + 1] or 0), int(part[number + 2] or 0))
            for number in range(0, len(part), 3)
        }
        sums = records.spent(found, at, rules.HOUR)
        if limits.release == "service":
            less = self._released(at, view, change)
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

    def _released(self, at: float, view: _View, change: _Change) -> list[int]:
        """The part of each sum that release="service" leaves out."""
        sums = [0] * 6
        today = int(at // rules.DAY) * rules.DAY
        for _, until, counted, proof, *_ in self._members(records.released(), records.LOWEST, change, view):
            for place, counts in enumerate((float(until) > int((at - rules.HOUR) // 1), float(until) >= today, True)):
                sums[place] += int(counted) * counts
                sums[place + 3] += int(counted) * (counts and proof == "u")
        return sums

    def _counted(
        self, since: float, limits: Budget, without: Payment | None, change: _Change
    ) -> Iterator[tuple[float, int]]:
        """Until when the payments that count since `since` may be taken, and their amounts, in order, without one."""
        for _, until, counted, _, released, payment_id in self._members(
            records.counting(), int(since // 1) + 1, change
        ):
            if released == "r" and limits.release == "service":
                continue
            if without is None or payment_id != without.id:
                yield float(until), int(counted)

    def _members(self, first: str, start: float, change: _Change, view: _View | None = None) -> Iterator[list[str]]:
        """Members of the index, a page at a time. With a view, they must be of the same moment."""
        deadline, start_text = time.monotonic() + self._timeout, first + records.place(start)
        while True:
            part: Command = ("members", "4", start_text, _end(first), str(_PAGE), "0")
            page = self._look(lambda ahead, part=part: [part], deadline, NOTHING_SENT)  # type: ignore[misc]
            if view is not None and page.money != view.money:
                raise _AgainError
            texts = [bytes(member).decode("utf-8", "surrogateescape") for member in page.parts[0]]
            for text in texts:
                yield text.split(":")
            if len(texts) < _PAGE:
                return
            start_text = texts[-1] + "\x00"

    def _difference(self, deadline: float) -> str:
        """What is wrong with sums and index, or an empty text."""
        sums: dict[str, int] = {}
        members: set[str] = set()
        count = 0
        for record in self._scan(0, "HSCAN", deadline):
            count += 1
            members |= records.members(record)
            for name, micro in records.counts(record).items():
                sums[name] = sums.get(name, 0) + micro
        stored = {name: int(micro) for name, micro in self._scan(2, "HSCAN", deadline) if int(micro)}
        if stored != {name: micro for name, micro in sums.items() if micro}:
            wrong = {name for name, _ in stored.items() ^ sums.items()}
            return f"{len(wrong)} sums differ from {count} payments: {', '.join(sorted(wrong)[:3])}"
        indexed = {name for name, _ in self._scan(1, "ZSCAN", deadline)}
        if indexed != members:
            return (
                f"the index of {count} payments has {len(indexed - members)} too many, lacks {len(members - indexed)}"
            )
        slots = {name for name, _ in self._scan(3, "ZSCAN", deadline)}
        if missing := {name for name in sums if not name.startswith("h:") and name != records.ALL} - slots:
            return f"{len(missing)} sums cannot be found"
        return ""

    def _scan(self, key: int, command: str, deadline: float) -> Iterator[Any]:
        """All of a key: for payments, records; else name and value."""
        cursor: bytes | str = "0"
        while True:
            asked: Command = (command, self._open()[2][key], cursor, "COUNT", "1000")
            [reply] = self._talk(partial(self._line.send, [asked]), deadline, NOTHING_CHANGED)
            if isinstance(reply, Exception):
                raise self._failed(str(reply), NOTHING_CHANGED)
            cursor, flat = reply
            for name, value in zip(flat[::2], flat[1::2], strict=True):
                yield self._decoded(value, b"") if key == 0 else (name.decode("utf-8", "surrogateescape"), value)
            if cursor == b"0":
                return

    # Errors

    def _check_payer(self, payer: str) -> None:
        if payer.lower() != self.wallet.lower():
            raise ConfigError(
                f"this ledger is for the wallet {self.wallet}, not for {printable(payer, 60)}",
                hint="a client and its RedisLedger need the same signer",
            )

    def _error(self, code: ErrorCode, what: str, consequence: str, hint: str) -> LedgerError:
        message = f"the fleet's ledger at {self._line.address} {what}; {consequence}"
        return LedgerError(self._line.address.hidden_in(message), code=code, hint=hint)

    def _failed(self, what: str, consequence: str, hint: str = "") -> LedgerError:
        return self._error("ledger_failed", f"failed: {printable(what, 300)}", consequence, hint)

    def _locked(self, consequence: str) -> LedgerError:
        return self._error(
            "ledger_locked", "is busy: others were faster each time", consequence, "try again in a moment"
        )

    def _damaged(self, what: str, consequence: str) -> LedgerError:
        return self._error(
            "ledger_damaged", f"is damaged ({printable(what, 200)})", consequence, "restore a backup of the server"
        )

    def _gone_back(self, consequence: str) -> LedgerError:
        return self._error(
            "ledger_went_back",
            "went back: the server lost something that this machine wrote or saw",
            consequence,
            "client.payments.reconcile() (trade pay reconcile) puts back what this machine's journal has",
        )

    def _from_failure(self, failure: Failure, consequence: str) -> LedgerError:
        return LedgerError(f"{failure.message}; {consequence}", code=failure.code, hint=failure.hint)


def _text(value: str | bytes | float) -> str | bytes:
    return value if isinstance(value, bytes) else str(value)


def _position(meta: list[bytes | None]) -> Position | None:
    number, digest = meta[1], meta[2]
    return None if number is None or digest is None else Position(int(number), digest.decode())


def _no_parts(ahead: int) -> list[Command]:
    return []


def _one(payment_id: str) -> Callable[[int], list[Command]]:
    return lambda ahead: [("payment", "1", payment_id)]


def _trusted_of(origin: str) -> Callable[[int], list[Command]]:
    return lambda ahead: [("trusted", "1", origin)]


def _end(first: str) -> str:
    """The end of all members that begin with `first`."""
    return first[:-1] + records.END


def _standing(fingerprint: str) -> Command:
    first = records.standing(fingerprint)
    return ("payments", "4", first, _end(first), "1000", "1")


def _expiring(origin: str | None, at: float) -> Command:
    first = records.live(origin)
    last = int((at - GRACE) // 1) + 1
    return ("payments", "4", first, first + records.place(last), str(_PAGE), "0")


def _old_answers(at: float) -> Command:
    first = records.kept()
    return ("payments", "4", first, first + records.place(at - rules.KEPT), "20", "0")


def _pages(ends: dict[str, int], page: int, ahead: int) -> list[Command]:
    return [("payments", "4", first, first + records.place(end), str(page), "1") for first, end in ends.items()]


def _addresses(trusted: bytes | None) -> list[str]:
    return [address for address, _ in json.loads(trusted or "[]")]


def _own_budget(view: _View) -> Budget:
    stored = view.meta["budget"]
    return to_budget(None if stored is None else json.loads(stored))


def _is_claimed(record: Record, owner: str, at: float) -> bool:
    """Whether another owner has claimed it."""
    return record.owner is not None and record.owner != owner and holds(record.owner, record.until, now=at)


def _claimed(record: Record, owner: str, until: float) -> Record:
    return replace(record, owner=owner, until=until, fence=record.fence + (record.owner != owner))


def _released(record: Record, owner: str) -> Record:
    return replace(record, owner=None, until=0.0) if record.owner == owner else record


def _restore(canceled: Payment, change: _Change) -> None:
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


def _by_server(payment: Payment, ahead: int) -> Payment:
    """A payment with its times by the server's clock."""
    if not ahead:
        return payment
    return replace(
        payment,
        created=payment.created + ahead,
        updated=payment.updated + ahead,
        counts_until=payment.counts_until + ahead,
    )


def _told(payment: Payment, ahead: int) -> Payment:
    """A payment with its times by this machine's clock."""
    return _by_server(payment, -ahead)


def _written(found: dict[str, Record], ahead: int, payment_id: str) -> Payment:
    return _told(found[payment_id].payment, ahead)


def _nothing(result: T) -> _Done[T]:
    return lambda written: result


def _unwritten(payment_id: str) -> NoReturn:
    raise AssertionError(payment_id)
