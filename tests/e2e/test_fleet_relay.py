"""The relay of a fleet on a real server: its lease, members that are left behind, databases that were set back."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tradesdk import APIError, AsyncTradeClient, FleetError, Gap, StreamSignal, TradeClient, TradeError
from tradesdk._fleet.bodies import LeaseLostError, storable, stored
from tradesdk._fleet.signals import Relay
from tradesdk._postgres.server import server
from tradesdk.fleet import AsyncFleetRelay, AsyncFleetSignals, FleetRelay, FleetSignal, FleetSignals, status
from tradesdk_mock import MockServer

from .._postgres import Proxy
from .._rows import each_of
from ._fleetsignals import (
    BEGAN,
    CHAIN,
    GROUPS,
    SERVICE,
    Fleet,
    emitted,
    heard,
    ids,
    joined,
    numbers,
    running,
    signal,
    through,
    trading,
    wait_for,
)
from ._streamhouse import HISTORY, key_of, server_of


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    with server_of(7) as made:
        yield made


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
    fleet.do("ALTER TABLE other RENAME TO once")


def test_a_date_in_the_future_does_not_move_the_position(fleet: Fleet) -> None:
    fleet.publish(signal(100_000_000_000))
    fleet.relay.release()
    other = fleet.relayed()
    assert other.take(BEGAN) == 0
    assert other.since < datetime.now(UTC).timestamp()


@pytest.mark.parametrize("group", GROUPS)
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


@pytest.mark.parametrize("group", GROUPS)
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


AWAY: tuple[dict[str, Any], ...] = (
    {"kind": "reset"},
    {"kind": "status", "status": 500},
    {"kind": "status", "status": 429, "headers": {"x-ratelimit-reset": ""}},
)


@pytest.mark.parametrize("group", [None, "bots"])
def test_a_service_that_is_away_for_a_moment_makes_no_gap(fleet: Fleet, service: MockServer, group: str | None) -> None:
    began = BEGAN + 10_000 * next(numbers)
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + time).id for time in (50, 1000)]
    with trading(service) as trade:
        listed = {
            one.id: one.model_dump() for one in trade.signals.history(chain=CHAIN, since=began, until=began + 5000)
        }
        signals = [StreamSignal.model_validate({"type": "signal", **listed[one]}) for one in made]
        member = joined(fleet.member(group, client=trade.with_options(max_retries=0), reports=True))
        fleet.publish(signals[0])
        assert ids(member, 1) == made[:1]
        fleet.publish(signals[1])
        fleet.forgets()
        for fault in AWAY:
            rule = service.add_fault(route=HISTORY, **fault)
            with pytest.raises(APIError):
                next(member)
            service.remove_fault(rule.id)
        got = ids(member, 2 if group else 1)
    assert (got[-1], member.gaps) == (made[1], 0)


def test_a_history_that_is_refused_is_a_gap(fleet: Fleet, service: MockServer) -> None:
    with trading(service) as trade:
        member = joined(fleet.member(client=trade, reports=True))
        fleet.publish(signal())
        fleet.forgets()
        rule = service.add_fault("status", route=HISTORY, status=403)
        gap = next(member)
        service.remove_fault(rule.id)
    assert isinstance(gap, Gap)
    assert gap.reason.startswith("the history cannot be read: 403")


def test_more_than_is_read_at_once_is_a_gap(fleet: Fleet, service: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("tradesdk._sync.fleet_signals", "tradesdk._fleet.bodies"):
        monkeypatch.setattr(f"{place}.MOST_MISSED", 2)
    began = BEGAN + 10_000 * next(numbers)
    fleet.do(f"UPDATE relays SET since = {began}, position = {began}, trimmed_time = {began}")  # noqa: S608
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + time).id for time in (10, 20, 30)]
    with trading(service) as trade:
        member = fleet.member(None, since=began - 1, client=trade, reports=True)
        fleet.publish(signal(began + 30))
        fleet.forgets()
        gap, *got = itertools.islice(member, 3)
    assert isinstance(gap, Gap)
    assert (gap.end.timestamp(), [one.id for one in got if isinstance(one, FleetSignal)]) == (began + 20, made[1:])


@pytest.mark.parametrize(
    ("group", "then"),
    [
        pytest.param(None, [], id="all-nothing left"),
        pytest.param(None, [40], id="all-a late one left", marks=pytest.mark.long),
        pytest.param(None, [2000], id="all-a new one left", marks=pytest.mark.long),
        pytest.param("bots", [], id="bots-nothing left", marks=pytest.mark.long),
        pytest.param("bots", [40], id="bots-a late one left"),
        pytest.param("bots", [2000], id="bots-a new one left"),
    ],
)
def test_all_that_is_deleted_is_missed_whatever_is_left(
    fleet: Fleet, service: MockServer, group: str | None, then: list[int]
) -> None:
    began = BEGAN + 10_000 * next(numbers)
    fleet.do(f"UPDATE relays SET since = {began}, position = {began}, trimmed_time = {began}")  # noqa: S608
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + time).id for time in (50, 45, 1000, 1010)]
    with trading(service) as trade:
        listed = {
            one.id: one.model_dump() for one in trade.signals.history(chain=CHAIN, since=began, until=began + 5000)
        }
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


@pytest.mark.parametrize("group", GROUPS)
def test_only_what_was_before_the_first_relay_is_missed_since_a_moment(fleet: Fleet, group: str | None) -> None:
    def members(name: str) -> list[tuple[int, FleetSignals]]:
        return [
            (since, fleet.member(group and f"{name} {since}", since=BEGAN + since, reports=True))
            for since in (-100, 0, 100)
        ]

    early = [(since, joined(member)) for since, member in members("early")]
    published = fleet.publish(signal(BEGAN + 110), signal(BEGAN + 120))
    for since, member in early + members("late"):
        if since < 0:
            gap = next(member)
            assert isinstance(gap, Gap)
            assert (gap.start.timestamp(), gap.end.timestamp()) == (BEGAN + since, BEGAN)
        assert ids(member, 2) == published


@pytest.mark.parametrize("group", GROUPS)
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


@pytest.mark.parametrize("many", [1_001, pytest.param(20_000, marks=pytest.mark.long)])
def test_very_many_of_the_history_are_written_in_time_and_once(fleet: Fleet, many: int) -> None:
    members = [joined(fleet.member()) for _ in range(2)]
    fleet.publish(signal())
    fleet.forgets()
    members[0]._member.look()
    behind = members[0]._member.behind
    assert behind is not None
    one = stored(signal())
    for member in members:
        limit = ("SELECT set_config('transaction_timeout', '400ms', false)", ())  # as if the server were slow
        link = member._member.link
        if link.db is not None and link.db.pgconn.server_version >= 170000:
            link.run(limit)
        member._member.recovered(behind, (one._replace(id=f"sig {number}") for number in range(many)))
        assert member._member.behind is None
        member._member.link.close()
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


@pytest.mark.parametrize("group", [None, "bots"])
@pytest.mark.parametrize("reaches", [True, False], ids=["whole", "in part"])
def test_what_is_deleted_comes_from_the_history(
    fleet: Fleet, service: MockServer, group: str | None, reaches: bool
) -> None:
    began = BEGAN + 10_000 * next(numbers)
    made = [service.emit_signal(chain_id=CHAIN, timestamp=began + 10 * number) for number in range(6)]
    with trading(service) as trade:
        listed = list(trade.signals.history(chain=CHAIN, since=began, until=began + 60))
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


RESTORED = {
    "with the member": (f"UPDATE groups SET position = 1, time = {BEGAN + 900}", "DELETE FROM pending"),  # noqa: S608
    "from before it came": ("DELETE FROM groups", "DELETE FROM pending"),
}


@pytest.mark.parametrize("early", [True, False], ids=["before the relay reads again", "after that"])
@pytest.mark.parametrize("backup", RESTORED)
def test_a_member_without_a_group_gets_nothing_twice_from_a_restored_backup(
    fleet: Fleet, early: bool, backup: str
) -> None:
    member = joined(fleet.member(None))
    kept, lost, again = signal(BEGAN + 900), signal(BEGAN + 950), signal(BEGAN + 1000)
    assert fleet.publish(kept, lost, again) == ids(member, 3)
    back = "DELETE FROM signals WHERE seq > 1", "ALTER TABLE signals ALTER COLUMN seq RESTART WITH 2"
    restored(fleet, *back, f"UPDATE relays SET position = {BEGAN + 900}", *RESTORED[backup])  # noqa: S608
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
        (older.id, backup == "from before it came"),  # then it cannot know whether it has had it
        (new.id, False),
    ]


def test_a_member_that_has_taken_nothing_notices_a_restored_backup(fleet: Fleet) -> None:
    first, *_ = fleet.publish(*(signal(BEGAN + 700) for _ in range(5)))
    member = joined(fleet.member(None))
    back = "DELETE FROM signals WHERE seq > 1", "ALTER TABLE signals ALTER COLUMN seq RESTART WITH 2"
    restored(fleet, *back, *RESTORED["from before it came"])
    with pytest.raises(LeaseLostError):
        fleet.relay.renew()
    assert fleet.relay.take(BEGAN) == 0
    new = fleet.publish(signal(BEGAN + 800))
    joined(member)
    assert ids(member, 2) == [first, *new]  # of ten minutes it cannot know which it has had


@pytest.mark.parametrize("group", GROUPS)
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
            assert first._relay.fence is not None
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


@each_of("wrong", [{"id": "a\0b"}, {"id": "x" * 1001}])
def test_a_signal_that_the_database_cannot_store_is_left_out(
    fleet: Fleet, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    member = joined(fleet.member())
    good = signal(token_symbol="a\0b", id=f"{next(numbers):01000}")
    for one in filter(None, map(storable, (signal(**wrong), good))):
        fleet.relay.add(one)
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
            assert relay._relay.fence is not None
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
        await anyio.to_thread.run_sync(wait_for, lambda: relay._relay.fence is not None)
        published = await anyio.to_thread.run_sync(emitted, service, 4)
        for one in (member, follower):
            assert sorted([(await anext(one)).id for _ in range(4)]) == sorted(published)  # type: ignore[union-attr]
        tasks.start_soon(follower.aclose)
        with pytest.raises(StopAsyncIteration):
            await anext(follower)
        await relay.aclose()
