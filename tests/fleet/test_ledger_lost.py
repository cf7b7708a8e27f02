"""A server that lost something: it is noticed, nothing more is signed, and the journals mend it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tradesdk import LedgerError, Payment, PaymentState, Receipt
from tradesdk.fleet import RedisLedger

from .._redis_server import RedisServer
from ..unit._ledger import HEADER, NOW, PLENTY, reserve, submitted
from ._cutting import CuttingProxy
from ._ledger import ledgers

QUICK_REPLICA = ("--repl-diskless-sync-delay", "0")
RECEIPT = Receipt(success=True, transaction="0x1", network="base", raw={})


def stopped(ledger: RedisLedger) -> None:
    """Nothing is signed, though all can be read."""
    before = ledger.history()
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            reserve(ledger)
        assert caught.value.code == "ledger_went_back"
        assert "nothing was sent" in caught.value.message
        assert "reconcile" in caught.value.hint
    assert ledger.history() == before


def whole(ledger: RedisLedger, payments: list[Payment]) -> None:
    """These are in it, their money counts, and it is used as before."""
    found = {one.id: one for one in ledger.history(limit=1000)}
    for payment in payments:
        assert found[payment.id] == payment
    counted = sum(one.counted for one in found.values() if one.state is not PaymentState.CANCELLED)
    assert ledger.spending(PLENTY, now=NOW).total == counted
    assert ledger.restore() == []
    submitted(ledger)
    ledger.check()


def aof(server: RedisServer) -> Path:
    """The file that is appended to."""
    found = sorted(one for one in server.folder.rglob("*") if ".aof" in one.name and "manifest" not in one.name)
    return max(found, key=lambda one: one.stat().st_size if "base" not in one.name else -1)


def cut_back(server: RedisServer) -> None:
    """The newest part of what was appended is gone: a disk that lied about syncing."""
    server.kill()
    file = aof(server)
    with file.open("r+b") as content:
        content.truncate(file.stat().st_size - 1500)
    server.start()


def emptied(server: RedisServer) -> None:
    server.command("FLUSHALL")


def begun_again(server: RedisServer) -> None:
    """Another server in its place, with an empty disk."""
    server.kill()
    shutil.rmtree(server.folder)
    server.folder.mkdir()
    server.start()


@pytest.mark.parametrize("engine", [pytest.param("redis", marks=pytest.mark.long), "valkey"])
@pytest.mark.parametrize("lose", [cut_back, emptied, begun_again], ids=lambda one: one.__name__)
def test_what_a_server_lost_is_noticed_and_put_back(
    engine: str, lose: Callable[[RedisServer], None], tmp_path: Path
) -> None:
    with RedisServer(engine, tmp_path / "server") as server:
        make = ledgers(server, tmp_path)
        with make("one") as ledger:
            first = submitted(ledger)
            first = ledger.settle(first.id, PaymentState.DELIVERED, receipt=RECEIPT, now=NOW)
            second = ledger.settle(submitted(ledger).id, PaymentState.UNKNOWN, now=NOW)
            third = submitted(ledger)
            lose(server)
            stopped(ledger)
        with make("one") as restarted:  # its journal remembers
            stopped(restarted)
            back = restarted.restore()
            assert third in back
            whole(restarted, [first, second, third])
            assert restarted.get(third.id) == third
            assert third.header == HEADER


def test_a_restart_that_lost_nothing_is_no_matter(tmp_path: Path) -> None:
    with RedisServer("valkey", tmp_path / "server") as server, ledgers(server, tmp_path)() as ledger:
        payments = [submitted(ledger)]
        for _ in range(2):
            server.kill()
            server.start()
            payments.append(submitted(ledger))
        whole(ledger, payments)


def test_a_restored_snapshot(tmp_path: Path) -> None:
    """Each member puts back what it wrote itself; a claim of the past does not matter."""
    with RedisServer("redis", tmp_path / "server") as server:
        make = ledgers(server, tmp_path)
        with make() as one, make() as two:
            old = reserve(one, owner="me", until=NOW + 60)
            server.stop()
            shutil.copytree(server.folder, tmp_path / "snapshot")
            server.start()
            signed = one.submit(old, HEADER, owner="me", now=NOW)
            other = submitted(two)
            server.stop()
            shutil.rmtree(server.folder)
            shutil.copytree(tmp_path / "snapshot", server.folder)
            server.start()
            assert [payment.id for payment in one.history()] == [old.id]
            stopped(one)
            stopped(two)
            assert one.restore() == [signed]
            stopped(two)  # what it wrote is still missing
            assert two.restore() == [other]
            whole(one, [signed, other])
            whole(two, [signed, other])


@pytest.mark.parametrize("caught_up", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_failover_to_a_replica_that_lacks_the_last_records(tmp_path: Path, caught_up: bool) -> None:
    """Also to one whose number of writes has passed the old one since, so that the number alone shows nothing."""
    with (
        RedisServer("valkey", tmp_path / "primary", *QUICK_REPLICA) as primary,
        RedisServer("valkey", tmp_path / "replica", "--replicaof", "127.0.0.1", str(primary.port)) as replica,
        CuttingProxy(primary.port) as proxy,
    ):
        make = ledgers(primary, tmp_path, url=proxy.url)
        with make(replicas=1, timeout=60) as one, make(replicas=1, timeout=1) as hasty, make() as other:
            kept = submitted(one)  # on both
            replica.command("REPLICAOF", "NO", "ONE")
            with pytest.raises(LedgerError) as caught:
                reserve(hasty)  # it says so, and is not on the replica
            assert caught.value.code == "ledger_not_durable"
            lost = submitted(other)
            proxy.port = replica.port
            proxy.cut()
            with make() as third:  # it never knew what was lost
                for _ in range(10 if caught_up else 0):
                    submitted(third)
            stopped(other)
            assert other.restore() == [lost]
            whole(other, [kept, lost])


def test_another_process_of_the_machine_goes_on_when_one_has_restored(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make("machine") as one, make("machine") as two, make("other machine") as other:
        payments = [submitted(one), submitted(two)]
        submitted(other)
        server.command("FLUSHALL")
        stopped(one)
        stopped(two)
        stopped(other)
        assert sorted(payment.id for payment in one.restore()) == sorted(payment.id for payment in payments)
        whole(two, payments)
        stopped(other)


def test_who_never_knew_notices_nothing(server: RedisServer, tmp_path: Path) -> None:
    """What is not promised: a fleet whose members all lost their journals."""
    make = ledgers(server, tmp_path)
    with make("one") as one:
        submitted(one)
    server.command("FLUSHALL")
    with make("two") as two:
        submitted(two)


def test_both_sides_went_on(server: RedisServer, tmp_path: Path) -> None:
    """The same payment was changed on both: it counts what either counted, and keeps the better proof."""
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        payment = submitted(one)
        record = server.command("HGETALL", keys(server, "payments"))
        paid = one.settle(payment.id, PaymentState.DELIVERED, receipt=RECEIPT, reply=b"x", now=NOW)
        # An older record in place of the newer one, as after a failover; and somebody continues that.
        server.command("HSET", keys(server, "payments"), *[text for pair in record.items() for text in pair])
        server.command("DEL", keys(server, "log"), keys(server, "index"), keys(server, "sums"), keys(server, "replies"))
        server.command("HINCRBY", keys(server, "meta"), "seq", "-1")
        rebuilt(server, two, payment)
        with make() as third:
            third.settle(payment.id, PaymentState.UNKNOWN, reason="elsewhere", now=NOW)
        stopped(one)
        [back] = one.restore()
        assert (back.state, back.receipt, back.counted) == (PaymentState.DELIVERED, RECEIPT, paid.counted)
        whole(one, [])


def keys(server: RedisServer, name: str) -> str:
    [found] = server.command("KEYS", f"*:{name}")
    return str(found)


def rebuilt(server: RedisServer, ledger: RedisLedger, payment: Payment) -> None:
    """Index and sums that fit the one record that is there."""
    from tradesdk._fleet import ledger_records as records

    text = server.command("HGET", keys(server, "payments"), payment.id)
    record = records.read(text, None, ledger._store.opened()[0])
    tag = keys(server, "payments").removesuffix("payments")
    for member in records.members(record):
        server.command("ZADD", f"{tag}index", "0", member)
    for name, micro in records.counts(record).items():
        server.command("HSET", f"{tag}sums", name, str(micro))


def test_a_journal_that_cannot_be_written_means_that_nothing_is_sent(server: RedisServer, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with ledgers(server, tmp_path)(journal=journal) as ledger:
        payment = reserve(ledger)
        journal.mkdir()
        with pytest.raises(LedgerError) as caught:
            ledger.submit(payment, HEADER, now=NOW)
        assert caught.value.code == "ledger_failed"
        assert "journal" in caught.value.message
        assert "nothing was sent" in caught.value.message
        journal.rmdir()
        # What was sent already is more important: its outcome is kept on the server.
        sent = submitted(ledger)
        journal.unlink()
        journal.mkdir()
        assert ledger.settle(sent.id, PaymentState.DELIVERED, now=NOW).state is PaymentState.DELIVERED


def test_a_journal_forgets_what_is_old_and_not_what_is_new(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tradesdk.fleet.journal._LARGEST", 10_000)
    with ledgers(server, tmp_path)("one") as ledger:
        payments = [submitted(ledger) for _ in range(20)]
        sizes = [one.stat().st_size for one in tmp_path.glob("*.journal*")]
        assert 1 <= len(sizes) <= 2
        assert max(sizes) < 15_000
        server.command("FLUSHALL")
        stopped(ledger)
        back = ledger.restore()
        assert 5 < len(back) < 20
        assert {one.id for one in back} == {one.id for one in payments[-len(back) :]}


def test_a_torn_line_costs_that_line_only(server: RedisServer, tmp_path: Path) -> None:
    with ledgers(server, tmp_path)("one") as ledger:
        first = submitted(ledger)
        [journal] = tmp_path.glob("*.journal")
        whole_file = journal.read_bytes()
        journal.write_bytes(whole_file + whole_file[:200])  # a power cut
        second = submitted(ledger)
        assert journal.stat().st_mode & 0o077 == 0
        assert HEADER.encode() not in journal.read_bytes()
        server.command("FLUSHALL")
        assert ledger.restore() == [first, second]


def test_a_member_that_slept_longer_than_the_server_remembers(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position that it knows is no longer kept: then its journal decides."""
    make = ledgers(server, tmp_path)
    with make("sleeper") as sleeper, make() as other:
        mine = submitted(sleeper)
        submitted(other)
        log, meta = keys(server, "log"), keys(server, "meta")
        server.command("HINCRBY", meta, "seq", "10000")
        number, digest = server.command("HMGET", meta, "seq", "hash")
        server.command("DEL", log)
        server.command("HSET", log, number, digest)
        submitted(sleeper)
        server.command("HINCRBY", meta, "seq", "10000")
        number, digest = server.command("HMGET", meta, "seq", "hash")
        server.command("DEL", log)
        server.command("HSET", log, number, digest)
        server.command("HDEL", keys(server, "payments"), mine.id)
        stopped(sleeper)


def test_a_loss_between_reading_and_writing(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script that writes looks once more: what was read may be of a server that is gone."""
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        payment = reserve(one)
        log, meta = keys(server, "log"), keys(server, "meta")
        number, digest = server.command("HMGET", meta, "seq", "hash")
        two.give_back(payment.id, owner="nobody")
        two.claim(reserve(two).id, owner="me", until=NOW + 1, now=NOW)
        commit = one._store._commit

        def late(*args: Any, **options: Any) -> Any:
            server.command("HSET", meta, "seq", number, "hash", digest)
            for later in server.command("HKEYS", log):
                if int(later) > int(number):
                    server.command("HDEL", log, later)
            return commit(*args, **options)

        current = one.get(payment.id)
        assert current is not None
        monkeypatch.setattr(one._store, "_commit", late)
        with pytest.raises(LedgerError, match="ledger_went_back"):
            one.submit(current, HEADER, now=NOW)
        assert one.get(payment.id) == current


def test_the_server_remembers_ten_thousand_positions(server: RedisServer, tmp_path: Path) -> None:
    with ledgers(server, tmp_path)() as ledger:
        for _ in range(3):
            submitted(ledger)
        log = keys(server, "log")
        assert sorted(map(int, server.command("HKEYS", log))) == [1, 2, 3, 4, 5, 6]
        server.command("HSET", keys(server, "meta"), "seq", "10001")
        server.command("HSET", log, "10001", server.command("HGET", log, "6"))
        reserve(ledger)
        assert sorted(map(int, server.command("HKEYS", log))) == [1, 3, 4, 5, 6, 10001, 10002]
