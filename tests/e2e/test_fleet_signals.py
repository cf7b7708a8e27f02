"""Signals of a fleet on a real server: nothing lost, nothing twice unmarked, whoever is killed, cut or left behind."""

from __future__ import annotations

import itertools
import logging
import signal as handlers
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest

from tradesdk import (
    APIConnectionError,
    AsyncTradeClient,
    ConfigError,
    FleetError,
    Gap,
    InvalidArgumentError,
    StreamSignal,
    TradeClient,
    TradeError,
)
from tradesdk._fleet.bodies import LeaseLostError, stored
from tradesdk._fleet.server import problem, server
from tradesdk._fleet.signals import Relay
from tradesdk.fleet import (
    AsyncFleetRelay,
    AsyncFleetSignals,
    FleetRelay,
    FleetSignal,
    FleetSignals,
    create_tables,
    status,
)
from tradesdk_mock import MockServer

from .._pages import ROOT, blocks
from .._postgres import Postgres, Proxy, new_schema
from ._streamhouse import QUICKLY, key_of, server_of

CHAIN = 8453
SERVICE = "https://api.example.com"
BEGAN = 1_760_000_000
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def signal(when: float = BEGAN + 100, **fields: object) -> StreamSignal:
    number = next(numbers)
    body = {
        "type": "signal",
        "id": f"sig_{number}",
        "token_address": "0x" + "22" * 20,
        "token_symbol": "BRETT",
        "chain_id": CHAIN,
        "direction": "BUY",
        "confidence": 0.5,
        "price_usd": 0.1,
        "timestamp": when,
        **fields,
    }
    return StreamSignal.model_validate(body)


class Fleet:
    """A schema of its own, with members and a relay that stores what a test says."""

    def __init__(self, postgres: Postgres) -> None:
        self.postgres, self.url, self.schema = postgres, postgres.url(), new_schema()
        create_tables(self.url, schema=self.schema)
        self._stack = ExitStack()
        self.relay = self.relayed()
        assert self.relay.take(BEGAN) == 0

    def relayed(self, service: str = SERVICE, lease: float = 600) -> Relay:
        relay = Relay(server(self.url, self.schema), CHAIN, service, lease=lease, keep=3600)
        self._stack.callback(relay.link.close)
        return relay

    def member(self, group: str | None = "bots", **options: object) -> FleetSignals:
        given = {"chain": CHAIN, "group": group, "base_url": SERVICE, "url": self.url, "schema": self.schema} | options
        member = FleetSignals(**given)  # type: ignore[arg-type]
        self._stack.callback(member.close)
        return member

    def publish(self, *signals: StreamSignal | Gap) -> list[str]:
        for each in signals:
            self.relay.add(stored(each))
        return [getattr(each, "id", "gap") for each in signals]

    def do(self, statement: str) -> None:
        self.postgres.do(f"SET search_path TO {self.schema}; {statement}")

    def time_passes(self) -> None:
        """All leases of signals are over."""
        self.do("UPDATE pending SET until = clock_timestamp() WHERE owner <> ''")

    def forgets(self) -> None:
        """All that is stored is old, and the service is far after it: it is deleted."""
        self.do("UPDATE relays SET position = position + 1000")
        self.grows_old()

    def grows_old(self) -> None:
        """All that is stored is old, and the relay deletes what it may."""
        self.do("UPDATE signals SET stored = stored - interval '2 hours'")
        self.relay.trim()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def fleet(postgres: Postgres) -> Iterator[Fleet]:
    made = Fleet(postgres)
    yield made
    made.close()


def joined(member: FleetSignals) -> FleetSignals:
    """A member that has a position, or a group that has one."""
    member._member.look()
    return member


def ids(member: FleetSignals, count: int) -> list[str]:
    return [item.id if isinstance(item, FleetSignal) else "gap" for item in itertools.islice(member, count)]


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


@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
def test_an_acknowledgement_is_true_also_when_its_answer_is_lost(fleet: Fleet, after: bool) -> None:
    joined(fleet.member())
    for at in range(2, 40):
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


@pytest.mark.parametrize("group", [None, "bots"])
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


def through(proxy: Proxy, fleet: Fleet) -> str:
    return fleet.url.replace(f":{fleet.postgres.port}/", f":{proxy.port}/")


# A server that is away


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
@pytest.mark.parametrize("group", [None, "bots"])
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
    said = psycopg.OperationalError("connection to server at ::1 failed: fe_sendauth: no password supplied")
    assert problem(said, server(fleet.url)).kind == "denied"


def test_tables_that_are_missing(postgres: Postgres) -> None:
    member = FleetSignals(chain=CHAIN, base_url=SERVICE, url=postgres.url(), schema="nowhere")
    with member, pytest.raises(FleetError) as caught:
        next(member)
    assert caught.value.code == "fleet_lost"


def test_the_rights_of_the_page_are_enough(fleet: Fleet) -> None:
    role = new_schema()
    fleet.postgres.do(f"CREATE ROLE {role} LOGIN")
    (rights,) = (block for block in blocks(ROOT / "docs" / "fleet.md") if block.language == "sql")
    fleet.postgres.do(*(line.replace("tradesdk", fleet.schema).replace("bots", role) for line in rights.lines))
    fleet.relay.release()
    relay = Relay(server(fleet.postgres.url(role), fleet.schema), CHAIN, SERVICE, lease=60, keep=3600)
    try:
        with fleet.member(url=fleet.postgres.url(role)) as member:
            joined(member)
            assert relay.take(BEGAN) == 0
            wanted = signal()
            relay.add(stored(wanted))
            relay.trim()
            assert ids(member, 1) == [wanted.id]
            assert member.once("a")
            found = status(fleet.postgres.url(role), schema=fleet.schema)
        assert found.unread == {}
        assert [(one.is_working, one.signals) for one in found.relays] == [(True, 1)]
        assert [(one.name, one.waiting, one.in_hand) for one in found.groups] == [("bots", 0, 1)]
        assert {one.uses for one in found.members} >= {f"signals/{CHAIN}/bots", f"relay/{CHAIN}"}
    finally:
        relay.link.close()
        fleet.postgres.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


# The lease


def test_one_relay_at_a_time(fleet: Fleet) -> None:
    other = fleet.relayed(lease=600)
    assert 0 < other.take(BEGAN) <= 200
    fleet.publish(signal(BEGAN + 5000))
    fleet.do("UPDATE relays SET until = clock_timestamp()")
    assert other.take(BEGAN + 9000) == 0
    assert other.since == BEGAN + 5000 - 600  # what the first one may have missed is read again
    member = joined(fleet.member(None))
    with pytest.raises(LeaseLostError):
        fleet.publish(signal())
    with pytest.raises(LeaseLostError):
        fleet.relay.renew()
    kept = signal()
    assert other.add(stored(kept))
    assert not other.add(stored(kept))
    assert ids(member, 1) == [kept.id]
    other.release()
    assert fleet.relay.take(BEGAN) == 0


def test_a_relay_goes_on_when_what_is_old_cannot_be_deleted(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.do("ALTER TABLE once RENAME TO other")
    fleet.relay.renew()
    assert [(record.event, record.code) for record in caplog.records] == [("fleet_untrimmed", "fleet_lost")]  # type: ignore[attr-defined]
    fleet.relay.renew()
    fleet.publish(signal())


def test_a_date_in_the_future_does_not_move_the_position(fleet: Fleet) -> None:
    fleet.publish(signal(100_000_000_000))
    fleet.relay.release()
    other = fleet.relayed()
    assert other.take(BEGAN) == 0
    assert other.since < datetime.now(UTC).timestamp()


@pytest.mark.parametrize("group", [None, "bots"])
def test_what_the_next_relay_reads_again_is_still_known(fleet: Fleet, group: str | None) -> None:
    member = joined(fleet.member(group))
    old, last, future = signal(BEGAN), signal(BEGAN + 1000), signal(100_000_000_000)
    published = fleet.publish(old, last)
    assert ids(member, 2) == published
    fleet.grows_old()
    fleet.relay.release()
    fleet.relay = fleet.relayed()
    assert fleet.relay.take(BEGAN) == 0
    assert fleet.relay.since == BEGAN + 400
    assert not fleet.relay.add(stored(last))
    more = fleet.publish(signal(), future)
    assert ids(member, 2) == more
    fleet.forgets()
    assert [one.signals for one in status(fleet.url, schema=fleet.schema).relays] == [0]


@pytest.mark.parametrize("group", [None, "bots"])
def test_each_gets_the_signals_of_its_own_service_and_chain(
    fleet: Fleet, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = fleet.relayed("https://other.example.com")
    bnb = Relay(server(fleet.url, fleet.schema), 56, SERVICE, lease=600, keep=3600)
    assert other.take(BEGAN) == bnb.take(BEGAN) == 0
    monkeypatch.setenv("TRADE_BASE_URL", "https://other.example.com/v1/")
    with TradeClient(api_key="mock_full_me", base_url=SERVICE) as trade:
        ours = joined(fleet.member(group, client=trade, base_url=None))
        theirs = joined(fleet.member(group, base_url=None))
        far = joined(fleet.member(group, chain=56))
        same = signal()
        for relay in (other, bnb):
            relay.add(stored(same))
            relay.link.close()
        published = fleet.publish(signal(), same)
        assert ids(theirs, 1) == ids(far, 1) == [same.id]
        assert ids(ours, 2) == published
        assert not theirs._member.items
    shown = status(fleet.url, schema=fleet.schema)
    assert {(one.chain, one.service, one.signals) for one in shown.relays} == {
        (CHAIN, SERVICE, 2),
        (CHAIN, "https://other.example.com", 1),
        (56, SERVICE, 1),
    }


# Behind


@pytest.mark.parametrize("group", [None, "bots"])
def test_what_is_deleted_is_a_gap(fleet: Fleet, group: str | None, caplog: pytest.LogCaptureFixture) -> None:
    member, quiet = joined(fleet.member(group, reports=True)), joined(fleet.member(group and "quiet"))
    for one in (member, quiet):
        one._member.look()
    taken = fleet.publish(signal(BEGAN + 50))
    assert ids(member, 1) == ids(quiet, 1) == taken
    fleet.publish(signal(BEGAN + 60), signal(BEGAN + 70))
    fleet.forgets()
    kept = fleet.publish(signal(BEGAN + 80))
    gap = next(member)
    assert isinstance(gap, Gap)
    assert (gap.start.timestamp(), gap.end.timestamp()) == (BEGAN, BEGAN + 70)
    assert ids(member, 1) == ids(quiet, 1) == kept
    assert (member.gaps, quiet.gaps) == (1, 1)
    assert [record.event for record in caplog.records] == ["stream_gap"] * 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", [None, "bots"])
def test_a_service_that_is_away_for_a_moment_makes_no_gap(
    fleet: Fleet, service: MockServer, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = BEGAN + 10_000 * next(numbers)
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + time).id for time in (50, 1000)]
    with trading(service) as trade:
        listed = {one.id: one.model_dump() for one in trade.signals.history(chain=CHAIN, start=began, end=began + 5000)}
        signals = [StreamSignal.model_validate({"type": "signal", **listed[one]}) for one in made]
        member = joined(fleet.member(group, client=trade, reports=True))
        fleet.publish(signals[0])
        assert ids(member, 1) == made[:1]
        fleet.publish(signals[1])
        fleet.forgets()

        def away(**_: object) -> None:
            raise APIConnectionError("no connection", method="GET", url=service.url, sent=False)

        with monkeypatch.context() as patch:
            patch.setattr(trade.signals, "history", away)
            with pytest.raises(APIConnectionError):
                next(member)
        got = ids(member, 2 if group else 1)
    assert (got[-1], member.gaps) == (made[1], 0)


@pytest.mark.parametrize("group", [None, "bots"])
@pytest.mark.parametrize("then", [[], [40], [2000]], ids=["nothing left", "a late one left", "a new one left"])
def test_all_that_is_deleted_is_missed_whatever_is_left(
    fleet: Fleet, service: MockServer, group: str | None, then: list[int]
) -> None:
    began = BEGAN + 10_000 * next(numbers)
    fleet.do(f"UPDATE relays SET since = {began}, position = {began}, trimmed_time = {began}")  # noqa: S608
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + time).id for time in (50, 45, 1000, 1010)]
    with trading(service) as trade:
        listed = {one.id: one.model_dump() for one in trade.signals.history(chain=CHAIN, start=began, end=began + 5000)}
        first, *missed = [StreamSignal.model_validate({"type": "signal", **listed[one]}) for one in made]
        reported = joined(fleet.member(group and "other", reports=True))
        member = joined(fleet.member(group, client=trade, reports=True))
        fleet.publish(first)
        assert ids(member, 1) == ids(reported, 1) == made[:1]
        fleet.publish(*missed)
        fleet.forgets()
        left = fleet.publish(*(signal(began + time) for time in then))
        got = list(itertools.islice(member, 3 + (group is not None) + len(left)))
    marked = {one.id: one.redelivered for one in got if isinstance(one, FleetSignal)}
    # Of the first ten minutes nobody knows any more what a group took.
    assert marked == {**dict.fromkeys(made[:2] if group else made[1:2], True), **dict.fromkeys(made[2:] + left, False)}
    gap = next(reported)
    assert isinstance(gap, Gap)
    assert (gap.start.timestamp(), gap.end.timestamp()) == (began, began + 1010)


@pytest.mark.parametrize("group", [None, "bots"])
@pytest.mark.parametrize(("since", "missed"), [(-100, True), (0, False), (5, False), (100, False)])
def test_only_what_was_before_the_first_relay_is_missed_since_a_moment(
    fleet: Fleet, group: str | None, since: int, missed: bool
) -> None:
    early = joined(fleet.member(group and "early", since=BEGAN + since, reports=True))
    published = fleet.publish(signal(BEGAN + 110), signal(BEGAN + 120))
    for member in (early, fleet.member(group, since=BEGAN + since, reports=True)):
        if missed:
            gap = next(member)
            assert isinstance(gap, Gap)
            assert (gap.start.timestamp(), gap.end.timestamp()) == (BEGAN + since, BEGAN)
        assert ids(member, 2) == published


@pytest.mark.parametrize("group", [None, "bots"])
def test_a_date_in_the_future_hides_nothing_that_is_missed(fleet: Fleet, group: str | None) -> None:
    member = joined(fleet.member(group, reports=True))
    now = datetime.now(UTC).timestamp()
    assert fleet.publish(signal(now), signal(100_000_000_000)) == ids(member, 2)
    joined(member)
    fleet.publish(signal(now + 2000))
    fleet.do("UPDATE relays SET position = position + 5000")
    fleet.grows_old()
    gap = next(member)
    assert isinstance(gap, Gap)
    assert gap.start.timestamp() < now - 500


def test_a_date_in_the_future_is_known_when_it_comes(fleet: Fleet) -> None:
    ahead = signal(BEGAN + 3000)
    fleet.publish(ahead)
    fleet.do(f"UPDATE relays SET position = {BEGAN + 100}")  # noqa: S608
    fleet.grows_old()
    fleet.relay.release()
    assert fleet.relay.take(BEGAN) == 0
    assert not fleet.relay.add(stored(ahead))


@pytest.mark.parametrize("many", [2_001, pytest.param(20_000, marks=pytest.mark.long)])
def test_very_many_of_the_history_are_written_in_time_and_once(fleet: Fleet, many: int) -> None:
    members = [joined(fleet.member()) for _ in range(2)]
    fleet.publish(signal())
    fleet.forgets()
    members[0]._member.look()
    behind = members[0]._member.behind
    assert behind is not None
    one = stored(signal())
    for member in members:
        member._member.recovered(behind, (one._replace(id=f"sig {number}") for number in range(many)))
        assert member._member.behind is None
    assert [each.waiting for each in status(fleet.url, schema=fleet.schema).groups] == [many]
    for member in members:
        member._member.look()
    assert [member._member.items[0].id for member in members] == ["sig 0", "sig 1"]


def test_a_gap_of_the_relay_reaches_the_members(fleet: Fleet) -> None:
    follower, member = (joined(fleet.member(group, reports=True)) for group in (None, "bots"))
    gap = Gap(datetime.fromtimestamp(BEGAN, UTC), datetime.fromtimestamp(BEGAN + 5, UTC), "the history ends")
    fleet.publish(gap, signal())
    assert next(follower) == next(member) == gap
    assert isinstance(next(member), FleetSignal)


def test_a_gap_is_done_when_the_next_is_asked_for_also_with_ack(fleet: Fleet) -> None:
    member = joined(fleet.member(manual_ack=True, reports=True))
    fleet.publish(Gap(datetime.fromtimestamp(BEGAN, UTC), datetime.fromtimestamp(BEGAN + 5, UTC), "the history ends"))
    wanted = fleet.publish(signal())
    assert ids(member, 2) == ["gap", *wanted]
    fleet.time_passes()
    assert ids(fleet.member(reports=True), 1) == wanted


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    with server_of(7) as made:
        yield made


@contextmanager
def trading(service: MockServer) -> Iterator[TradeClient]:
    with TradeClient(api_key=key_of(service), base_url=service.url, retry=QUICKLY) as trade:
        yield trade


@pytest.mark.parametrize("group", [None, "bots"])
@pytest.mark.parametrize("reaches", [True, False], ids=["whole", "in part"])
def test_what_is_deleted_comes_from_the_history(
    fleet: Fleet, service: MockServer, group: str | None, reaches: bool
) -> None:
    began = BEGAN + 10_000 * next(numbers)
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + 10 * number) for number in range(6)]
    with trading(service) as trade:
        listed = list(trade.signals.history(chain=CHAIN, start=began, end=began + 60))
        signals = {each.id: StreamSignal.model_validate({"type": "signal", **each.model_dump()}) for each in listed}
        member = joined(fleet.member(group, client=trade, reports=True))
        first = signals[made[0].id] if reaches else signal(began - 500)  # this one the history does not have
        fleet.publish(first)
        assert ids(member, 1) == [first.id]
        fleet.publish(*(signals[each.id] for each in made[1:4]))
        fleet.forgets()
        fleet.publish(signals[made[4].id])
        got = list(itertools.takewhile(lambda item: getattr(item, "id", "") != made[4].id, member))
    wanted = [each.id for each in made[1:4]]
    if not reaches:
        gap = got.pop(0)
        assert isinstance(gap, Gap)
        assert gap.start.timestamp() == began - 1100
        wanted.insert(0, made[0].id)
    kept = [each for each in got if isinstance(each, FleetSignal) and not each.redelivered]
    assert [each.id for each in kept] == wanted
    assert all(each.replayed for each in kept)


# A database that was set back


def restored(fleet: Fleet, *statements: str) -> None:
    """As by a backup, or by a standby that did not have everything: all connections have ended."""
    for statement in statements:
        fleet.do(statement)
    fleet.postgres.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tradesdk'")


@pytest.mark.parametrize("early", [True, False], ids=["before the relay reads again", "after that"])
def test_a_member_without_a_group_notices_a_restored_backup(fleet: Fleet, early: bool) -> None:
    member = joined(fleet.member(None))
    kept, lost, again = signal(BEGAN + 900), signal(BEGAN + 950), signal(BEGAN + 1000)
    assert fleet.publish(kept, lost, again) == ids(member, 3)
    back = "DELETE FROM signals WHERE seq > 1", "ALTER TABLE signals ALTER COLUMN seq RESTART WITH 2"
    restored(fleet, *back, f"UPDATE relays SET position = {BEGAN + 900}")  # noqa: S608
    with pytest.raises(LeaseLostError):
        fleet.publish(signal())
    assert fleet.relay.take(BEGAN) == 0
    assert fleet.relay.since == BEGAN + 300
    if early:
        joined(member)
    older, new = signal(BEGAN + 950), signal(BEGAN + 1100)  # the fleet did not have the older one
    fleet.publish(kept, older, again, lost, new)
    got = list(itertools.islice(member, 2))
    assert [(one.id, one.redelivered) for one in got if isinstance(one, FleetSignal)] == [
        (older.id, True),
        (new.id, False),
    ]


def test_a_member_that_has_taken_nothing_notices_a_restored_backup(fleet: Fleet) -> None:
    first, *_ = fleet.publish(*(signal(BEGAN + 700) for _ in range(5)))
    member = joined(fleet.member(None))
    restored(fleet, "DELETE FROM signals WHERE seq > 1", "ALTER TABLE signals ALTER COLUMN seq RESTART WITH 2")
    with pytest.raises(LeaseLostError):
        fleet.relay.renew()
    assert fleet.relay.take(BEGAN) == 0
    new = fleet.publish(signal(BEGAN + 800))
    joined(member)
    assert ids(member, 2) == [first, *new]  # of ten minutes it cannot know which it has had


@pytest.mark.parametrize("group", [None, "bots"])
def test_tables_that_are_empty_again_are_a_gap(fleet: Fleet, group: str | None) -> None:
    member = joined(fleet.member(group, reports=True))
    assert fleet.publish(signal(BEGAN + 900)) == ids(member, 1)
    joined(member)
    tables = "relays, signals, groups, pending"
    restored(fleet, f"TRUNCATE {tables} RESTART IDENTITY")
    fleet.relay = fleet.relayed()
    assert fleet.relay.take(BEGAN + 5000) == 0
    new = fleet.publish(signal(BEGAN + 5001))
    gap = next(member)
    assert isinstance(gap, Gap)
    assert (gap.start.timestamp(), gap.end.timestamp()) == (BEGAN + 300, BEGAN + 5000)
    assert ids(member, 1) == new


# Relays in whole


def emitted(service: MockServer, count: int) -> list[str]:
    return [service.emit_signal(chain_id=CHAIN).id for _ in range(count)]


@contextmanager
def running(relay: FleetRelay) -> Iterator[list[BaseException]]:
    ended: list[BaseException] = []

    def run() -> None:
        try:
            relay.run()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        relay.close()
        thread.join()


def heard(caplog: pytest.LogCaptureFixture, name: str, times: int = 1) -> Callable[[], bool]:
    return lambda: sum(getattr(record, "event", "") == name for record in caplog.records) >= times


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never happened")


@pytest.mark.long
def test_a_relay_takes_over_and_nothing_is_lost(
    fleet: Fleet, service: MockServer, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.do("DELETE FROM relays")
    caplog.set_level(logging.INFO, "tradesdk")
    options = {"chain": CHAIN, "url": fleet.url, "schema": fleet.schema, "lease": 0.6}
    with trading(service) as trade:
        first, second = FleetRelay(trade, **options), FleetRelay(trade, **options)  # type: ignore[arg-type]
        follower, member = (joined(fleet.member(group, base_url=service.url)) for group in (None, "bots"))
        with running(first) as ended:
            wait_for(heard(caplog, "stream_connected"))
            assert first.is_leading
            published = emitted(service, 5)
            with running(second):
                wait_for(heard(caplog, "fleet_relay_waits"))
                assert ids(follower, 5) == published
                # As if it were stopped for longer than its lease: another one has it, and it notices.
                fleet.do("UPDATE relays SET until = clock_timestamp() - interval '1 hour', fence = fence + 1")
                published += emitted(service, 5)
                wait_for(heard(caplog, "fleet_relay_lost"))
                published += emitted(service, 5)
                assert sorted(ids(follower, 10)) == sorted(published[5:])
                assert sorted(ids(member, 15)) == sorted(published)
        assert not ended


@pytest.mark.parametrize("wrong", [{"id": "a\0b"}, {"id": "x" * 1001}, {"id": "\ud800"}, {"token_symbol": "\ud800"}])
def test_a_signal_that_the_database_cannot_store_is_left_out(
    fleet: Fleet, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    member = joined(fleet.member())
    with TradeClient(api_key="mock_full_me", base_url="http://127.0.0.1:9") as trade:
        relay = FleetRelay(trade, chain=CHAIN, url=fleet.url, schema=fleet.schema)
        relay._relay = fleet.relay
        good = signal(token_symbol="a\0b", id="x" * 1000)
        for one in (signal(**wrong), good):
            relay._add(one)
        assert ids(member, 1) == [good.id]
    assert [record.event for record in caplog.records] == ["fleet_signal_unstorable"]  # type: ignore[attr-defined]


def test_a_second_run_does_not_end_the_first(
    fleet: Fleet, service: MockServer, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.do("DELETE FROM relays")
    caplog.set_level(logging.INFO, "tradesdk")
    with trading(service) as trade:
        relay = FleetRelay(trade, chain=CHAIN, url=fleet.url, schema=fleet.schema)
        with running(relay):
            wait_for(heard(caplog, "stream_connected"))
            with pytest.raises(TradeError, match="one consumer"):
                relay.run()
            assert relay.is_leading
            assert fleet.relayed(service.url).take(BEGAN) > 0
        assert fleet.relayed(service.url).take(BEGAN) == 0


def test_a_relay_under_trio_says_that_it_needs_asyncio(fleet: Fleet) -> None:
    async def run() -> None:
        async with (
            AsyncTradeClient(api_key="mock_full_me", base_url="http://127.0.0.1:9") as trade,
            AsyncFleetRelay(trade, chain=CHAIN, url=fleet.url, schema=fleet.schema) as relay,
        ):
            await relay.run()

    with pytest.raises(TradeError, match="a relay needs asyncio"):
        anyio.run(run, backend="trio")


def test_a_relay_whose_server_is_away_says_so(
    fleet: Fleet, service: MockServer, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.do("DELETE FROM relays")
    caplog.set_level(logging.INFO, "tradesdk")
    proxy = Proxy(fleet.postgres.port)
    with trading(service) as trade:
        relay = FleetRelay(trade, chain=CHAIN, url=through(proxy, fleet), schema=fleet.schema, lease=0.6)
        with running(relay) as ended:
            wait_for(heard(caplog, "stream_connected"))
            proxy.cut()
            wait_for(lambda: bool(ended))
    assert isinstance(ended[0], FleetError)
    assert ended[0].code == "fleet_unreachable"


def test_members_without_a_relay_say_so(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.do("UPDATE relays SET until = clock_timestamp() - interval '1 day'")
    member = fleet.member()
    thread = threading.Thread(target=lambda: list(member))
    thread.start()
    wait_for(heard(caplog, "fleet_unrelayed"))
    member.close()
    thread.join()
    with pytest.raises(StopIteration):
        next(member)


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


@pytest.mark.long
async def test_an_asynchronous_relay(fleet: Fleet, service: MockServer) -> None:
    fleet.do("DELETE FROM relays")
    options = {"chain": CHAIN, "url": fleet.url, "schema": fleet.schema}
    async with (
        AsyncTradeClient(api_key=key_of(service), base_url=service.url) as trade,
        AsyncFleetRelay(trade, **options, lease=0.6) as relay,  # type: ignore[arg-type]
        AsyncFleetSignals(**options, client=trade, group="bots") as member,  # type: ignore[arg-type]
        AsyncFleetSignals(**options, client=trade) as follower,  # type: ignore[arg-type]
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(relay.run)
        for one in (member, follower):
            await anyio.to_thread.run_sync(one._member.look)
        await anyio.to_thread.run_sync(wait_for, lambda: relay.is_leading)
        published = await anyio.to_thread.run_sync(emitted, service, 4)
        for one in (member, follower):
            assert sorted([(await anext(one)).id for _ in range(4)]) == sorted(published)  # type: ignore[union-attr]
        tasks.start_soon(follower.aclose)
        with pytest.raises(StopAsyncIteration):
            await anext(follower)
        await relay.aclose()


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
    for wrong in ({"chain": 1}, {"group": ""}, {"group": "x" * 101}, {"lease": 0}, {"manual_ack": True, "group": None}):
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
