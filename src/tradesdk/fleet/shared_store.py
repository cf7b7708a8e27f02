"""The store behind a shared ledger: the payments of one wallet on a server, read and written in steps.

A step reads all that it needs at one moment, decides here, and writes with one script: only if what it read is still
so, and only once, however often it is sent.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from .._fleet import ledger_records as records
from .._fleet import ledger_settings
from .._fleet.failures import Failure
from .._fleet.ledger_records import Record
from .._http.log_events import log_fields, logger
from .._http.settings import data_folder
from .._system.clock import Clock
from .._system.forks import bind
from .._values.payment import Payment
from .._values.text import printable
from ..errors import ErrorCode, InvalidArgumentError, LedgerError, PaymentError
from ..payments.ledger import rules
from ..payments.ledger.errors import NOTHING_CHANGED, NOTHING_SENT
from ..payments.messages import purchase_secret_changed
from ..payments.purchases import purchase_secret
from ..payments.signing.sealing import HeaderSeal
from ..payments.signing.secp256k1 import checksummed
from ..payments.signing.signer import LocalSigner, Signer, checked_signer
from .journal import Content, Entry, Journal, Position
from .ledger_line import ASK_SETTINGS, Command, LedgerLine, LineError, is_too_old, not_durable, settings_of

if TYPE_CHECKING:
    pass

T = TypeVar("T")
_NAMES = ("payments", "index", "sums", "slots", "meta", "trusted", "replies", "log")
_TYPES = ("hash", "zset", "hash", "zset", "hash", "hash", "hash", "hash")
PAYMENTS, INDEX, SUMS, SLOTS, META, TRUSTED, REPLIES, LOG = "12345678"
"""The keys, as the scripts number them."""
_LOGGED = 10_000
"""So many of the newest positions the server remembers; the script has the same number."""
PAGE = 200
_CLOCKS_AGREE = 5
_PAUSES = (0.002, 0.02)
_NOT_IN_JOURNAL = "the journal of the fleet's ledger cannot be written"


class AgainError(Exception):
    """What was read in two parts changed in between."""


@dataclass(frozen=True, slots=True)
class View:
    """What was read at one moment.

    Attributes:
        ahead: seconds by which the server's clock is ahead of this machine's; 0 when they agree.
        time: the server's, in microseconds.
        money: the counter that goes up whenever a budget may have less room.
        meta: about the store.
        parts: the parts that were asked for.
    """

    ahead: int
    time: int
    money: str
    meta: dict[str, bytes | None]
    parts: list[Any]


@dataclass(slots=True)
class Change:
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
    settings: dict[str, str | bytes | None] = field(default_factory=dict)

    def put(self, before: Record | None, after: Record) -> None:
        """Write a record in place of another one. The first is that of the step."""
        payment_id = after.payment.id
        self.before.setdefault(payment_id, before)
        self.after[payment_id] = after
        self.main = self.main or payment_id
        self.expect(PAYMENTS, payment_id, None if before is None else before.text)

    def get(self, payment_id: str) -> Record | None:
        """A record, as it will be after this step."""
        return self.after.get(payment_id) or self.load(payment_id)

    def expect(self, key: str, name: str, value: str | bytes | None) -> None:
        """The step must be decided again if this value has changed since."""
        self.expected.setdefault((key, name), records.digest(value))

    def write(self, command: str, key: str, *arguments: str | bytes) -> None:
        self.commands.append((command, key, arguments))

    def set(self, name: str, before: bytes | None, text: str) -> None:
        """Write a setting in place of another one."""
        key, at = _place(name)
        self.expect(key, at, before)
        self.write("HSET", key, at, text)
        self.settings[name] = text


Done = Callable[[Callable[[str], Payment]], T]
"""Makes the result of a step, from the payments as they were written."""


class SharedStore:
    """The payments of one wallet on a server: read and written in steps, each whole, once, durable, and checked.

    Args:
        line: the connection.
        signer: whose payments these are; None: those of `wallet`.
        wallet: the paying address, if there is no signer.
        prefix: what the server's keys begin with.
        journal: the file for what this machine wrote; None: one for prefix and wallet.
        checked: whether the server's settings are checked.
        replicas: the number of replicas that must have each write.
        timeout: seconds for each step.
        clock: the clock of this machine.
    """

    def __init__(
        self,
        line: LedgerLine,
        *,
        signer: Signer | Callable[[], Signer] | None,
        wallet: str | None,
        prefix: str,
        journal: str | None,
        checked: bool,
        replicas: int,
        timeout: float,
        clock: Clock,
    ) -> None:
        self._line = line
        self._signer = signer
        self._wallet = wallet
        self._prefix = prefix
        self._given_journal = journal
        self._checked = checked
        self._replicas = replicas
        self._timeout = timeout
        self._clock = clock
        self._wait = "WAITAOF"
        self._was_open = False
        self._run_id = ""
        self._ahead = 0
        self._went_back = False
        self._position: Position | None = None
        self._accepted: str | None = None
        self._kept: dict[str, str] = {}
        self._opened: tuple[HeaderSeal, Journal, list[str]] | None = None
        self._lock = threading.Lock()
        bind(self)

    @property
    def wallet(self) -> str:
        """The paying address. The first use may ask the signer."""
        if self._wallet is None:
            signer = self._get_signer()
            self._wallet = checksummed(signer.address)
        return self._wallet

    def restore(self) -> list[Payment]:
        """Put back what this machine's journal has and the server lost, and continue. Returns the payments of it.

        They may exceed a budget: both sides of a failover may have signed. What other machines wrote and the server
        lost comes back when they do the same.

        Raises:
            LedgerError: the server cannot be written, or the journal cannot be read.
        """
        consequence = "nothing was put back"
        with self.held(consequence) as deadline:
            self._talk(self._verify, deadline, consequence)
            if not self._went_back:
                return []
            content = self._content(consequence)
            lost = self._talk(lambda: self._missing(content), deadline, consequence)
        settings = {
            name: self.step(partial(self._put_back_setting, name, text), setting(name), consequence)
            for name, text in content.settings.items()
        }
        restored: list[Payment] = []
        for payment_id in lost:
            entry = content.entries[payment_id]
            restored.append(self.step(partial(self._put_back, entry), one_payment(payment_id), consequence))
        with self.held(consequence) as deadline:
            head = self._talk(lambda: self._head(None)[0], deadline, consequence)
            try:
                self._accepted = self.opened()[1].accept(head, settings)
            except OSError as error:
                raise self.failed(f"{_NOT_IN_JOURNAL}: {error.strerror}", consequence) from error
            self._position, self._went_back, self._kept = head, False, settings
        return restored

    def keep(self, settings: Mapping[str, str | bytes | None], consequence: str) -> None:
        """Write settings that the server has into the journal, unless it has them. None: there is no such setting.

        Raises:
            LedgerError: it cannot be written.
        """
        for name, value in settings.items():
            text = value.decode() if isinstance(value, bytes) else value
            if text is None or self._kept.get(name) == text:
                continue
            try:
                self.opened()[1].keep(name, text, None if self._went_back else self._position)
            except OSError as error:
                raise self.failed(f"{_NOT_IN_JOURNAL}: {error.strerror or error}", consequence) from error
            self._kept[name] = text

    def check_journal(self) -> None:
        """Raises if the server has lost what this machine wrote or saw."""
        with self.held(NOTHING_CHANGED) as deadline:
            self._talk(self._verify, deadline, NOTHING_CHANGED)
            if self._went_back:
                raise self._gone_back(NOTHING_CHANGED)

    def steady(self, read: Callable[[float], T]) -> T:
        """What `read` returns, when nothing was written meanwhile. It gets the moment by which it must end."""
        with self.held(NOTHING_CHANGED) as deadline:
            for _ in range(5):
                before = self._talk(lambda: self._head(None)[0], deadline, NOTHING_CHANGED)
                found = read(deadline)
                if before == self._talk(lambda: self._head(None)[0], deadline, NOTHING_CHANGED):
                    return found
        raise self._locked(NOTHING_CHANGED)

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        with self._lock:
            self._line.close()

    def forked(self) -> None:
        """This process was forked: it needs its own connection, and no thread of it holds the lock."""
        self._lock = threading.Lock()
        self._line.close()

    # One step

    def step(
        self,
        decide: Callable[[View, Change], Done[T]],
        parts: Callable[[int], list[Command]],
        consequence: str,
        *,
        signs: bool = False,
        lease: bool = False,
        any_secret: bool = False,
        tidy: Callable[[View, Change], bool] | None = None,
    ) -> T:
        """Read, decide and write, until what was read is still so when it is written."""
        with self.held(consequence) as deadline:
            pause = _PAUSES[0]
            step = secrets.token_hex(6)
            while True:
                view = self.look(parts, deadline, consequence, lease=lease, any_secret=any_secret, signs=signs)
                if tidy is not None:
                    tidying = self._change(secrets.token_hex(6), deadline, consequence)
                    if tidy(view, tidying):
                        self._commit(tidying, view, deadline, consequence, signs=signs)
                        continue
                change = self._change(step, deadline, consequence)
                try:
                    done = decide(view, change)
                except AgainError:
                    continue
                except PaymentError as error:
                    if error.payment is not None:
                        error.payment = by_local_clock(error.payment, view.ahead)
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

    def _change(self, step: str, deadline: float, consequence: str) -> Change:
        def load(payment_id: str) -> Record | None:
            return self.found(self.look(one_payment(payment_id), deadline, consequence).parts[0])

        return Change(step, load)

    def look(
        self,
        parts: Callable[[int], list[Command]],
        deadline: float,
        consequence: str,
        *,
        lease: bool = False,
        any_secret: bool = False,
        signs: bool = False,
    ) -> View:
        """Read parts of the store at one moment."""
        seal, _, keys = self.opened()
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
        meta: dict[str, bytes | None] = dict(zip(names, reply[1], strict=True))
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
        return View(self._ahead, int(reply[0][0]) * 1_000_000 + int(reply[0][1]), money, meta, reply[3:])

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
        self, change: Change, view: View, deadline: float, consequence: str, *, signs: bool
    ) -> dict[str, Record] | None:
        """Write a change. Returns the records as they are written; None: it must be decided again."""
        seal, journal, keys = self.opened()
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
        try:
            self.keep(change.settings, consequence if change.sync else "the server has the change")
        except LedgerError as problem:
            if change.sync:
                raise
            # The server has it, and each machine writes it down before it signs under it.
            logger.warning("%s", problem, extra=log_fields("ledger_failed", problem))
        if change.journal:
            self._write_journal(journal, written[change.main], change, consequence)
        return written

    def _commands(self, change: Change, written: dict[str, Record], view: View, seal: HeaderSeal) -> list[str | bytes]:
        """All that the script does, as its arguments."""
        if view.meta["version"] is None:
            for name, value in (("version", records.VERSION), ("wallet", self.wallet)):
                change.write("HSETNX", META, name, value)
        if view.meta["sealed_by"] is None:
            change.write("HSETNX", META, "sealed_by", seal.id)
        sums: dict[str, int] = {}
        for payment_id, record in written.items():
            before = change.before[payment_id]
            old, new = records.members(before), records.members(record)
            change.less_room |= records.needs_new_decision(old - new, new - old)
            for sign, one in ((-1, before), (1, record)):
                for name, micro in records.counts(one).items():
                    sums[name] = sums.get(name, 0) + sign * micro
            change.write("HSET", PAYMENTS, payment_id, record.text)
            if old - new:
                change.write("ZREM", INDEX, *sorted(old - new))
            if new - old:
                change.write("ZADD", INDEX, *(text for member in sorted(new - old) for text in ("0", member)))
            reply, reply_before = record.payment.reply, before and before.payment.reply
            if reply is not None and reply != reply_before:
                change.write("HSET", REPLIES, payment_id, reply)
            elif reply is None and reply_before is not None:
                change.write("HDEL", REPLIES, payment_id)
        for name, micro in sums.items():
            if micro:
                change.write("HINCRBY", SUMS, name, str(micro))
                change.less_room |= micro > 0 and not name.startswith("h:")
                if not name.startswith("h:") and name != records.ALL:
                    change.write("ZADD", SLOTS, "0", name)
        return [
            text for name, key, arguments in change.commands for text in (name, key, str(len(arguments)), *arguments)
        ]

    def _write_journal(self, journal: Journal, record: Record, change: Change, consequence: str) -> None:
        if record.payment.signatures == 0:
            return
        entry = Entry(change.step, record.text)
        try:
            journal.add(record.payment.id, entry, None if self._went_back else self._position, sync=change.sync)
        except OSError as error:
            problem = self.failed(f"{_NOT_IN_JOURNAL}: {error.strerror or error}", consequence)
            if change.sync:
                raise problem from error
            extra = log_fields("ledger_failed", problem, payment_id=record.payment.id)
            logger.warning("payment %s: %s", record.payment.id, problem, extra=extra)

    # The server

    def opened(self) -> tuple[HeaderSeal, Journal, list[str]]:
        """What depends on the wallet and its secret; the first use may ask the signer."""
        if self._opened is None:
            signer = None if self._signer is None else self._get_signer()
            seal, wallet = HeaderSeal(purchase_secret(signer)), self.wallet.lower()
            path = self._given_journal
            if path is None:
                folder = data_folder("the ledger's journal").absolute() / "fleet"
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
    def held(self, consequence: str) -> Iterator[float]:
        """One thread at a time. Gives the moment by which the method must end."""
        lock, deadline = self._lock, time.monotonic() + self._timeout
        self.opened()
        if not lock.acquire(timeout=self._timeout):
            raise self._locked(consequence)
        try:
            yield deadline
        except ValueError as error:
            if isinstance(error, InvalidArgumentError):
                raise
            problem = printable(str(error), 200)
            raise self.damaged(problem, consequence) from None
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
            asked: list[Command] = [("TYPE", key) for key in self.opened()[2]]
            types = self._line.send([*asked, *(ASK_SETTINGS if self._checked else ())])
            for key, expected, found in zip(self.opened()[2], _TYPES, types, strict=False):
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
        milliseconds = str(int(min(self._timeout, 5.0) * 600))  # less than the connection waits
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

    # Whether it went back

    def _verify(self) -> None:
        """Compare the store with what this machine knows: its last position, and its journal where that is too old."""
        content = self._content(NOTHING_SENT)
        known = self._position
        if content.accepted is not None and content.accepted != self._accepted:
            known = None  # another process of this machine has put back what was lost
        self._accepted, self._kept = content.accepted, content.settings
        both = [position for position in (known, content.position) if position is not None]
        known = max(both, default=None)
        head, found = self._head(known)
        if known is None or found == known.hash:
            is_whole = True
        elif head is not None and found is None and known.number <= head.number - _LOGGED:
            is_whole = not self._missing(content) and not self._lacks_settings(content)
        else:
            is_whole = False
        self._went_back = not is_whole
        if is_whole:
            self._position = head

    def _head(self, known: Position | None) -> tuple[Position | None, str | None]:
        """The newest position, and the hash at the one that is known."""
        number = str(known.number if known else 0)
        reply = self._line.run("ledger_read", self.opened()[2], [number])[0]
        return _position(reply[1]), None if reply[2] is None else reply[2].decode()

    def _missing(self, content: Content) -> list[str]:
        """The payments of the journal whose newest step the server does not have."""
        ids, lost = list(content.entries), []
        for start in range(0, len(ids), PAGE):
            some = ids[start : start + PAGE]
            [texts] = self._line.send([("HMGET", self.opened()[2][0], *some)])
            if isinstance(texts, Exception):
                raise LineError(Failure("server_failed", str(texts)))
            for payment_id, text in zip(some, texts, strict=True):
                if text is None or f'"{content.entries[payment_id].step}"'.encode() not in text:
                    lost.append(payment_id)
        return lost

    def _lacks_settings(self, content: Content) -> bool:
        """Whether the journal has newer settings than the server."""
        for name, own in content.settings.items():
            key, at = _place(name)
            [value] = self._line.send([("HGET", self.opened()[2][int(key) - 1], at)])
            if isinstance(value, Exception):
                raise LineError(Failure("server_failed", str(value)))
            found = None if value is None else value.decode()
            if ledger_settings.joined(name, own, found) != found:
                return True
        return False

    def _content(self, consequence: str) -> Content:
        try:
            return self.opened()[1].content()
        except OSError as error:
            what = f"the journal of the fleet's ledger cannot be read: {error.strerror or error}"
            raise self.failed(what, consequence) from error

    def _put_back(self, entry: Entry, view: View, change: Change) -> Done[Payment]:
        """Write a record of the journal into a store that lost it."""
        own = records.read(entry.text, None, self.opened()[0])
        found = self.found(view.parts[0])
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

    def _put_back_setting(self, name: str, own: str, view: View, change: Change) -> Done[str]:
        """Write a setting of the journal into a store that lost it. Returns what holds from now on."""
        value = view.meta["budget"] if name == ledger_settings.BUDGET else view.parts[0]
        found = None if value is None else value.decode()
        text = ledger_settings.joined(name, own, found)
        if text != found:
            change.set(name, value, text)
            change.less_room = True
        return lambda written: text

    # Records

    def _decoded(self, text: bytes, reply: bytes | None) -> Record:
        return records.read(text, reply, self.opened()[0])

    def found(self, part: list[Any]) -> Record | None:
        _, text, reply = part
        return None if text is None else self._decoded(text, reply)

    def every(self, part: list[list[Any]]) -> list[Record]:
        return [record for one in part if (record := self.found(one)) is not None]

    def scan(self, key: int, command: str, deadline: float) -> Iterator[Any]:
        """All of a key: for payments, records; else name and value."""
        cursor: bytes | str = "0"
        while True:
            asked: Command = (command, self.opened()[2][key], cursor, "COUNT", "1000")
            [reply] = self._talk(partial(self._line.send, [asked]), deadline, NOTHING_CHANGED)
            if isinstance(reply, Exception):
                raise self.failed(str(reply), NOTHING_CHANGED)
            cursor, flat = reply
            for name, value in zip(flat[::2], flat[1::2], strict=True):
                yield self._decoded(value, b"") if key == 0 else (name.decode("utf-8", "surrogateescape"), value)
            if cursor == b"0":
                return

    # Errors

    def _error(self, code: ErrorCode, what: str, consequence: str, hint: str) -> LedgerError:
        message = f"the fleet's ledger at {self._line.address} {what}; {consequence}"
        return LedgerError(self._line.address.hidden_in(message), code=code, hint=hint)

    def failed(self, what: str, consequence: str, hint: str = "") -> LedgerError:
        return self._error("ledger_failed", f"failed: {printable(what, 300)}", consequence, hint)

    def _locked(self, consequence: str) -> LedgerError:
        return self._error(
            "ledger_locked", "is busy: others were faster each time", consequence, "try again in a moment"
        )

    def damaged(self, what: str, consequence: str) -> LedgerError:
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


def _place(name: str) -> tuple[str, str]:
    """The key and the field of a setting."""
    origin = ledger_settings.origin_of(name)
    return (META, "budget") if origin is None else (TRUSTED, origin)


def _text(value: str | bytes | float) -> str | bytes:
    return value if isinstance(value, bytes) else str(value)


def _position(meta: list[bytes | None]) -> Position | None:
    number, digest = meta[1], meta[2]
    return None if number is None or digest is None else Position(int(number), digest.decode())


def by_server_clock(payment: Payment, ahead: int) -> Payment:
    """A payment with its times by the server's clock."""
    if not ahead:
        return payment
    return replace(
        payment,
        created=payment.created + ahead,
        updated=payment.updated + ahead,
        counts_until=payment.counts_until + ahead,
    )


def by_local_clock(payment: Payment, ahead: int) -> Payment:
    """A payment with its times by this machine's clock."""
    return by_server_clock(payment, -ahead)


def _written(found: dict[str, Record], ahead: int, payment_id: str) -> Payment:
    return by_local_clock(found[payment_id].payment, ahead)


def _unwritten(payment_id: str) -> NoReturn:
    raise AssertionError(payment_id)


def no_parts(ahead: int) -> list[Command]:
    return []


def setting(name: str) -> Callable[[int], list[Command]]:
    """What to read for a setting; the budget is in every view."""
    origin = ledger_settings.origin_of(name)
    return no_parts if origin is None else lambda ahead: [("trusted", "1", origin)]


def one_payment(payment_id: str) -> Callable[[int], list[Command]]:
    return lambda ahead: [("payment", "1", payment_id)]
