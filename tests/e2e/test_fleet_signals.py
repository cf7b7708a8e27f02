"""Signals of a fleet on a real server: nothing lost, nothing twice unmarked, whoever is killed or cut."""

from __future__ import annotations

import itertools
import os
import resource
import signal as handlers
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest

from tradesdk import Budget, ConfigError, FleetError, Gap, InvalidArgumentError, Ledger, LedgerError, TradeError
from tradesdk._fleet.bodies import stored
from tradesdk._fleet.signals import Relay
from tradesdk._fleet.status import FleetStatus
from tradesdk._postgres.problems import problem
from tradesdk._postgres.server import server
from tradesdk.fleet import (
    AsyncFleetSignals,
    FleetRateLimiter,
    FleetRelay,
    FleetSignal,
    FleetSignals,
    create_tables,
    status,
)
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.rules import EmptyWallet

from .._pages import ROOT, blocks
from .._postgres import Postgres, Proxy, new_schema
from .._rows import each_of
from ..unit._ledger import draft, told, wanted
from ._fleetsignals import BEGAN, CHAIN, GROUPS, SERVICE, Fleet, ids, joined, numbers, signal, through


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


# Groups


def test_each_signal_goes_to_one_member_of_a_group(fleet: Fleet) -> None:
    one, other = joined(fleet.member()), fleet.member()
    first, *more = [signal(), signal(direction="SELL"), signal(), signal()]
    published = fleet.publish(first, *more)
    got = next(one)
    assert isinstance(got, FleetSignal)
    assert got == first or got.model_dump() == {**first.model_dump(), "redelivered": False}
    assert [got.id, *ids(other, 2), *ids(one, 1)] == published
    assert not any((got.redelivered, got.replayed, got.late))


def test_other_groups_get_it_as_well_and_begin_when_they_are_made(fleet: Fleet) -> None:
    joined(fleet.member())
    published = fleet.publish(signal(), signal())
    joined(fleet.member("later"))
    published += fleet.publish(signal())
    assert ids(fleet.member(), 3) == published
    assert ids(fleet.member("later"), 1) == published[2:]


def test_what_a_dead_member_had_comes_again(fleet: Fleet) -> None:
    dead, alive = joined(fleet.member()), fleet.member()
    first, second = fleet.publish(signal(), signal())
    assert ids(dead, 1) == [first]
    assert ids(alive, 1) == [second]  # the first has its lease
    fleet.time_passes()
    again = next(alive)  # which makes the second one done
    assert isinstance(again, FleetSignal)
    assert (again.id, again.redelivered) == (first, True)
    fleet.publish(signal())
    third = next(alive)
    assert isinstance(third, FleetSignal)
    assert not third.redelivered


def test_it_is_too_late_to_acknowledge_what_another_member_has_done(fleet: Fleet) -> None:
    dead, alive = joined(fleet.member(manual_ack=True, lease=0.1)), fleet.member(manual_ack=True)
    fleet.publish(signal())
    had, again = next(dead), next(alive)  # which waits for the lease
    assert isinstance(had, FleetSignal)
    assert isinstance(again, FleetSignal)
    assert (again.id, again.redelivered) == (had.id, True)
    assert not dead.ack(had)
    assert alive.ack(again)
    assert not dead.ack(had)


@pytest.fixture
def many_files() -> Iterator[None]:
    """More open files than `select.select` takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    with ExitStack() as files:
        for _ in range(1024):
            files.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("group", GROUPS)
def test_one_that_waits_is_told_of_a_signal(
    fleet: Fleet, group: str | None, monkeypatch: pytest.MonkeyPatch, many_files: None
) -> None:
    """It does not come to look by itself here."""
    monkeypatch.setattr("tradesdk._fleet.signals.POLL", 600.0)
    member = joined(fleet.member(group))
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.extend(ids(member, 1)))
    waiting.start()
    published = fleet.publish(signal())
    waiting.join(60)
    member.close()
    waiting.join()
    assert got == published


def test_one_that_is_left_well_is_done_and_others_go_back_at_once(fleet: Fleet) -> None:
    joined(fleet.member())
    first, second, third = fleet.publish(signal(), signal(), signal())
    with fleet.member() as good:
        assert ids(good, 1) == [first]
    bad = fleet.member()
    assert ids(bad, 1) == [second]
    bad.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    other = fleet.member()
    again = next(other)
    assert isinstance(again, FleetSignal)
    assert (again.id, again.redelivered) == (second, True)
    assert ids(other, 1) == [third]


def test_what_is_finished_is_done_also_when_it_was_closed_meanwhile(fleet: Fleet) -> None:
    member = joined(fleet.member())
    first, second, third = fleet.publish(signal(), signal(), signal())
    look = member._member.look

    def closed() -> None:
        look()
        if member._member.items[0].id == second:
            thread = threading.Thread(target=member.close)
            thread.start()
            thread.join()

    member._member.look = closed  # type: ignore[method-assign]
    assert [item.id for item in member if isinstance(item, FleetSignal)] == [first, second]
    assert ids(fleet.member(), 1) == [third]


@pytest.mark.long
def test_a_signal_handler_can_close_it_while_it_asks_the_server(fleet: Fleet) -> None:
    member = joined(fleet.member())
    first = fleet.publish(signal())
    assert ids(member, 1) == first
    with psycopg.connect(fleet.url) as db:

        def closes(*_: object) -> None:
            member.close()
            db.rollback()

        before = handlers.signal(handlers.SIGALRM, closes)
        try:
            statement = f"INSERT INTO {fleet.schema}.once VALUES ('a', '', now())"  # noqa: S608
            db.execute(statement.encode())  # not committed: who asks waits
            handlers.setitimer(handlers.ITIMER_REAL, 0.1)
            assert member.once("a")
        finally:
            handlers.signal(handlers.SIGALRM, before)
    assert member._member.link.db is None
    with pytest.raises(StopIteration):
        next(member)
    assert ids(fleet.member(), 1) == first


def test_acknowledged_in_any_order(fleet: Fleet) -> None:
    member = joined(fleet.member(manual_ack=True))
    fleet.publish(signal(), signal(), signal())
    one, two, three = itertools.islice(member, 3)
    assert isinstance(one, FleetSignal)
    assert isinstance(three, FleetSignal)
    assert member.ack(three)
    assert member.ack(one)
    assert not member.ack(one)
    fleet.time_passes()
    again = next(member)
    assert isinstance(again, FleetSignal)
    assert isinstance(two, FleetSignal)
    assert (again.id, again.redelivered) == (two.id, True)
    with pytest.raises(InvalidArgumentError, match="group"):
        fleet.member(None).ack(one)


# The first six replies are those to the connection, where being cut is the same as before any other request.
@pytest.mark.parametrize("first", [7, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
def test_an_acknowledgement_is_true_also_when_its_answer_is_lost(fleet: Fleet, after: bool, first: int) -> None:
    joined(fleet.member())
    for at in range(first, 40):
        proxy = Proxy(fleet.postgres.port, at, after=after)
        member = fleet.member(url=through(proxy, fleet), manual_ack=True)
        wanted, acknowledged = fleet.publish(signal()), None
        while acknowledged is None:
            with suppress(FleetError):
                item = next(member)
                while acknowledged is None:
                    assert isinstance(item, FleetSignal)
                    with suppress(FleetError):
                        acknowledged = member.ack(item)
        assert isinstance(item, FleetSignal)
        assert ([item.id], acknowledged) == (wanted, True)
        assert not member.ack(item)
        member.close()
        proxy.cut()
        if proxy.replies < at:
            return
    raise AssertionError("it was always cut")


# All signals


def test_without_a_group_everyone_gets_all(fleet: Fleet) -> None:
    fleet.publish(signal())
    several = [joined(fleet.member(None)) for _ in range(3)]
    published = fleet.publish(*(signal() for _ in range(120)))
    for member in several:
        assert ids(member, 120) == published


def test_a_member_without_a_group_leaves_nothing_behind(fleet: Fleet) -> None:
    """Its group ends when it leaves; or, if it was killed, when nothing was heard of it for an hour."""

    def groups() -> list[tuple[object, ...]]:
        with psycopg.connect(fleet.url) as db:
            cursor = db.execute(f"SELECT owner FROM {fleet.schema}.groups ORDER BY owner".encode())  # noqa: S608
            rows = cursor.fetchall()
            left = db.execute(f"SELECT count(*) FROM {fleet.schema}.pending".encode()).fetchone()  # noqa: S608
        return [*rows, left or ()]

    named, well, killed = (joined(fleet.member(group)) for group in ("bots", None, None))
    fleet.publish(signal(), signal())
    for one in (well, killed):
        next(one)
    well.close()
    assert groups() == [("",), (killed._member.link.member,), (2,)]
    fleet.relay.trim()
    assert len(groups()) == 3, "it may come back"
    fleet.do("UPDATE members SET seen = seen - interval '2 hours'")
    next(named)
    joined(fleet.member("others"))
    fleet.relay.trim()
    assert groups() == [("",), ("",), (2,)]


@pytest.mark.parametrize("group", GROUPS)
def test_since_a_moment(fleet: Fleet, group: str | None) -> None:
    fleet.publish(signal(BEGAN + 10))
    published = fleet.publish(signal(BEGAN + 20), signal(BEGAN + 30))
    assert ids(fleet.member(group, since=BEGAN + 20), 2) == published
    assert ids(fleet.member(group and "b", since=datetime.fromtimestamp(BEGAN + 30, UTC)), 1) == published[1:]


def test_once_is_true_for_one(fleet: Fleet) -> None:
    members = [fleet.member(None) for _ in range(4)]
    won: list[bool] = []
    threads = [threading.Thread(target=lambda one=one: won.append(one.once("order 7"))) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False, False, False, True]
    assert members[0].once("order 8")


@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
def test_once_is_true_for_one_whose_way_is_cut(fleet: Fleet, after: bool) -> None:
    for at in range(1, 40):
        proxy = Proxy(fleet.postgres.port, at, after=after)
        member = fleet.member(None, url=through(proxy, fleet))
        won = []
        for _ in range(2):
            try:
                won.append(member.once(f"{after} {at}"))
            except FleetError:
                won.append(False)
        member.close()
        proxy.cut()
        assert sum(won) <= 1
        if proxy.replies < at:
            assert won == [True, False]
            return
    raise AssertionError("it was always cut")


# A server that is away


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_way_that_is_cut_at_any_reply_loses_nothing(
    fleet: Fleet, group: str | None, after: bool, stride: int
) -> None:
    joined(fleet.member(group))
    for at in range(2, 60, stride):
        proxy = Proxy(fleet.postgres.port, at, after=after)
        member = fleet.member(group, url=through(proxy, fleet), since=BEGAN)
        wanted, got = fleet.publish(signal(), signal(), signal()), list[FleetSignal | Gap]()
        while len(got) < 3:
            with suppress(FleetError):
                got.append(next(member))
        if group is None:
            got = got[:3]
            fleet.do("TRUNCATE signals")
        assert [each.id for each in got if isinstance(each, FleetSignal)] == wanted
        with member:
            pass
        proxy.cut()
        fleet.time_passes()
        if proxy.replies < at:
            break
    assert at > 5


def test_no_server_is_an_error_and_then_it_continues(fleet: Fleet) -> None:
    proxy = Proxy(fleet.postgres.port)
    member = joined(fleet.member(url=through(proxy, fleet)))
    first = fleet.publish(signal())
    assert ids(member, 1) == first
    proxy.cut()
    second = fleet.publish(signal())
    with pytest.raises(FleetError) as caught:
        next(member)
    assert caught.value.code == "fleet_unreachable"
    proxy.join()
    assert ids(member, 1) == second
    member.close()
    proxy.cut()


def test_a_missing_password_and_refused_tls_are_no_server_that_is_away(fleet: Fleet) -> None:
    with pytest.raises(FleetError, match="SSL was required") as caught:
        status(f"{fleet.url}sslmode=require", schema=fleet.schema)
    assert caught.value.code == "fleet_denied"


@each_of(
    ("error", "kind"),
    [
        (psycopg.OperationalError("connection failed: fe_sendauth: no password supplied"), "denied"),
        (psycopg.OperationalError("connection failed: FATAL: the database system is starting up"), "unreachable"),
        (psycopg.OperationalError("the connection is lost"), "unreachable"),
        (psycopg.OperationalError('connection failed: FATAL: password authentication failed for user "me"'), "denied"),
        (psycopg.OperationalError('connection failed: FATAL: database "bots" does not exist'), "denied"),
        (psycopg.OperationalError('connection failed: root certificate file "/ca" does not exist'), "denied"),
        # In other languages a server that starts may say that it refuses, too.
        (psycopg.OperationalError("connection failed: FATAL: das Datenbanksystem startet"), "unreachable"),
        (psycopg.OperationalError("connection failed: ВАЖНО: система баз данных запускается"), "unreachable"),
        (psycopg.ProgrammingError("the cursor is closed"), "failed"),
        (psycopg.errors.OutOfMemory("out of memory"), "failed"),  # an OperationalError, too
        (psycopg.errors.DiskFull("no space left"), "failed"),
        (psycopg.errors.TooManyConnections("too many clients"), "unreachable"),
        (psycopg.errors.SerializationFailure("could not serialize access"), "locked"),
        (psycopg.errors.UndefinedTable("no such relation"), "lost"),
    ],
)
def test_what_an_error_of_the_server_means(error: psycopg.Error, kind: str) -> None:
    assert problem(error, server("postgresql://host/fleet")).kind == kind


def test_tables_that_are_missing(postgres: Postgres) -> None:
    member = FleetSignals(chain=CHAIN, base_url=SERVICE, url=postgres.url(), schema="nowhere")
    with member, pytest.raises(FleetError) as caught:
        next(member)
    assert caught.value.code == "fleet_lost"


@contextmanager
def granted(fleet: Fleet) -> Iterator[str]:
    """A user with the rights of the page, and no others."""
    role = new_schema()
    fleet.postgres.do(f"CREATE ROLE {role} LOGIN")
    (rights,) = (block for block in blocks(ROOT / "docs" / "fleet.md") if block.language == "sql")
    try:
        fleet.postgres.do(*(line.replace("tradesdk", fleet.schema).replace("bots", role) for line in rights.lines))
        yield role
    finally:
        fleet.postgres.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def use_all(fleet: Fleet, role: str, **options: str) -> FleetStatus:
    """Everything that a bot, a relay and a person do."""
    number = next(numbers)
    url = fleet.postgres.url(role, **options)
    place = {"url": url, "schema": fleet.schema}
    assert not create_tables(url, schema=fleet.schema)
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.postgres(url, schema=fleet.schema))
        ledger.set_setting("budget", lambda _: Budget(total="100").to_json())
        row = ledger.submit(wanted(draft(id=f"pay_{number}", fingerprint=f"{number}", run="a run"), owner="me"))
        assert row is not None
        empty = EmptyWallet(row.payment.id, 0.0, 0.0)  # its end deletes a setting
        told(ledger, row.payment, ReasonCode.DELIVERED, owner="me", empty=empty)
        ledger.check()
        limiter = stack.enter_context(FleetRateLimiter(**place, alone=False))  # type: ignore[arg-type]
        claim = limiter.claim(f"key {number}")
        reset = {"x-ratelimit-limit": "9", "x-ratelimit-remaining": "1", "x-ratelimit-reset": f"{time.time() + 30:.0f}"}
        limiter.answered(claim, 200, reset)
        assert [limiter.claim(f"key {number}").wait > 0 for _ in range(2)] == [False, True]
        fleet.do("UPDATE relays SET until = clock_timestamp()")
        relay = Relay(server(url, fleet.schema), CHAIN, SERVICE, lease=60, keep=3600)
        stack.callback(relay.link.close)
        assert relay.take(BEGAN) == 0
        members = [stack.enter_context(fleet.member(group, **place)) for group in (f"bots {number}", None)]
        for one in members:
            joined(one)
        fleet.do("UPDATE members SET seen = seen - interval '2 hours' WHERE key = 'left'")
        wanted_one = signal()
        relay.add(stored(wanted_one))
        relay.renew()
        assert [ids(one, 1) for one in members] == [[wanted_one.id]] * 2
        assert members[0].once(f"{number}")
        found = status(url, schema=fleet.schema)
        relay.trim()
        relay.release()
    return found


def test_the_rights_of_the_page_are_enough(fleet: Fleet) -> None:
    with granted(fleet) as role:
        found = use_all(fleet, role)
    assert found.unread == {}
    assert [(one.is_working, one.signals) for one in found.relays] == [(True, 1)]
    assert [(one.name[:4], one.waiting, one.in_hand) for one in found.groups] == [("bots", 0, 1)]
    assert {one.uses.rstrip("0123456789 ") for one in found.members} >= {f"signals/{CHAIN}/bots", "signals/", "relay/"}


def test_settings_of_the_server_change_nothing(fleet: Fleet) -> None:
    """Dates, intervals, bytes and numbers can be read only if they are not asked for as text."""
    odd = {
        "DateStyle": "German",
        "IntervalStyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "-15",
    }
    options = "%20".join(f"-c{name}%3D{value}" for name, value in odd.items())
    found = use_all(fleet, "postgres", options=options)
    newest = found.relays[0].newest
    assert newest is not None
    assert newest.timestamp() == pytest.approx(BEGAN + 100, abs=1e6)
    with Ledger.postgres(fleet.postgres.url(options=options), schema=fleet.schema) as ledger:
        odd_one = ledger.history()
    with Ledger.postgres(fleet.url, schema=fleet.schema) as ledger:
        assert ledger.history() == odd_one


@pytest.mark.long
def test_every_right_of_the_page_is_needed(fleet: Fleet) -> None:
    with granted(fleet) as role, psycopg.connect(fleet.url) as db:
        statement = "SELECT privilege_type, table_name FROM information_schema.role_table_grants WHERE grantee = %s"
        rights = db.execute(statement, (role,)).fetchall()
        assert len(rights) > 30
        assert use_all(fleet, role).unread == {}
        without = []
        for right, table in rights:
            fleet.postgres.do(f"REVOKE {right} ON {fleet.schema}.{table} FROM {role}")
            with suppress(FleetError, LedgerError):
                if not use_all(fleet, role).unread:
                    without.append((right, table))
            fleet.postgres.do(f"GRANT {right} ON {fleet.schema}.{table} TO {role}")
        assert without == []


async def test_asynchronous_members(fleet: Fleet) -> None:
    options = {"chain": CHAIN, "base_url": SERVICE, "url": fleet.url, "schema": fleet.schema}
    async with (
        AsyncFleetSignals(**options, group="bots") as member,  # type: ignore[arg-type]
        AsyncFleetSignals(**options) as follower,  # type: ignore[arg-type]
    ):
        for one in (member, follower):
            await anyio.to_thread.run_sync(one._member.look)
        with anyio.move_on_after(0.02):  # a wait that is canceled takes nothing away
            await anext(member)
        published = fleet.publish(*(signal() for _ in range(4)))
        for one in (member, follower):
            assert [(await anext(one)).id for _ in range(4)] == published  # type: ignore[union-attr]
        assert await member.once("a")
        assert not await follower.once("a")


async def test_a_signal_that_came_when_its_wait_was_canceled_is_yielded_next(fleet: Fleet) -> None:
    options = {"chain": CHAIN, "base_url": SERVICE, "url": fleet.url, "schema": fleet.schema}
    async with AsyncFleetSignals(**options, group="bots") as member:  # type: ignore[arg-type]
        await anyio.to_thread.run_sync(member._member.look)
        wanted = fleet.publish(*(signal() for _ in range(30)))
        got: list[str] = []
        while len(got) < 30:
            with anyio.move_on_after(0.001):
                item = await anext(member)
                assert isinstance(item, FleetSignal)
                got.append(item.id)
                assert not item.redelivered
        assert got == wanted


def test_arguments_and_forks(fleet: Fleet) -> None:
    values: tuple[dict[str, Any], ...] = (
        *({"chain": 1}, {"group": ""}, {"group": "x" * 101}, {"lease": 0}, {"manual_ack": True, "group": None}),
        *({"manual_ack": "no"}, {"reports": None}),
    )
    for wrong in values:
        with pytest.raises(InvalidArgumentError):
            fleet.member(**wrong)
    for text in ("a\0b", "\ud800", ""):
        with pytest.raises(InvalidArgumentError):
            fleet.member(text)
        with pytest.raises(InvalidArgumentError):
            fleet.member().once(text)
    assert fleet.member().once("é" * 500)
    with pytest.raises(InvalidArgumentError, match="key must be at most 1000 bytes in UTF-8, not 1002"):
        fleet.member().once("é" * 501)
    with pytest.raises(ConfigError, match="set TRADE_BASE_URL or pass base_url="):
        fleet.member(base_url=None)
    with pytest.raises(ConfigError, match="client must be"):
        FleetRelay("trade", chain=CHAIN)  # type: ignore[arg-type]
    member = fleet.member()
    member._interruptible.forked()
    with pytest.raises(TradeError, match="parent process"):
        next(member)
    assert "bots" in repr(member)
