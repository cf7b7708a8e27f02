"""The server of a ledger: refused when it could lose money, named when it fails, never told what can be cashed."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tradesdk import (
    Budget,
    ConfigError,
    InvalidArgumentError,
    LedgerError,
    LocalSigner,
    PaymentRefusedError,
    PaymentState,
)
from tradesdk.fleet import RedisLedger
from tradesdk.fleet.ledger_line import is_too_old

from .._redis_server import RedisServer
from .._rows import each_of
from ..unit._ledger import HEADER, NOW, OTHER, PLENTY, draft, reserve, submitted
from ._ledger import KEY, ledgers

SECRET = "12" * 32
COMMANDS = (
    *("+evalsha", "+eval", "+info", "+type", "+hmget", "+hscan", "+zscan", "+client|setname", "+client|setinfo"),
    # within the scripts
    *("+time", "+hget", "+hset", "+hsetnx", "+hdel", "+hincrby", "+zadd", "+zrem", "+zrangebylex", "+zrevrangebylex"),
)


def refused(ledger: RedisLedger, code: str) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        reserve(ledger)
    assert caught.value.code == code
    assert "nothing was sent" in caught.value.message
    return caught.value


@pytest.fixture
def own(tmp_path: Path) -> Any:
    with RedisServer("redis", tmp_path / "own") as server:
        yield server


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appendonly", "no"),
        ("appendfsync", "everysec"),
        ("appendfsync", "no"),
        ("no-appendfsync-on-rewrite", "yes"),
        ("maxmemory-policy", "allkeys-lru"),
        ("maxmemory-policy", "volatile-ttl"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_settings_that_can_lose_money(own: RedisServer, tmp_path: Path, name: str, value: str, later: bool) -> None:
    """Also those that are changed later: they are read again with every claim."""
    with ledgers(own, tmp_path)() as ledger:
        payment = reserve(ledger) if later else None
        own.command("CONFIG", "SET", name, value)
        error = refused(ledger, "ledger_not_durable")
        assert f"{name} is {value}" in error.message
        if payment is not None:
            with pytest.raises(LedgerError, match="ledger_not_durable"):
                ledger.claim(payment.id, owner="me", until=NOW + 1, now=NOW)


def test_a_server_that_does_not_tell_its_settings(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the few commands that a ledger's user needs."""
    server.command("ACL", "SETUSER", "bot", "on", f">{SECRET}", "resetchannels", "~test*", "-@all", *COMMANDS)
    try:
        make = ledgers(server, tmp_path, url=f"redis://bot:{SECRET}@127.0.0.1:{server.port}")
        with make() as ledger:
            assert ledger.durability == "checked"
            error = refused(ledger, "ledger_not_durable")
            assert 'durability="managed"' in error.hint
            assert SECRET not in str(error)
        with caplog.at_level(logging.WARNING, "tradesdk"), make(durability="managed") as ledger:
            assert ledger.durability == "managed"
            assert [vars(record)["event"] for record in caplog.records] == ["durability_unchecked"]
            submitted(ledger)
            ledger.check()
        server.command("ACL", "SETUSER", "bot", "+config|get")
        with make() as ledger:
            submitted(ledger)
        wrong = f"redis://bot:{SECRET}x@127.0.0.1:{server.port}"
        with make(url=wrong) as ledger:
            assert SECRET not in str(refused(ledger, "server_refused"))
    finally:
        server.command("ACL", "DELUSER", "bot")


@pytest.mark.parametrize("engine", ["redis", pytest.param("valkey", marks=pytest.mark.long)])
def test_replicas_that_must_have_it(engine: str, tmp_path: Path) -> None:
    """By WAIT on Redis 6.2, by WAITAOF on Valkey; always on the connection that wrote."""
    with (
        RedisServer(engine, tmp_path / "primary", "--repl-diskless-sync-delay", "0") as primary,
        RedisServer(engine, tmp_path / "replica", "--replicaof", "127.0.0.1", str(primary.port)) as replica,
    ):
        deadline = time.monotonic() + 120
        while replica.command("INFO", "replication")["master_link_status"] != "up":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        make = ledgers(primary, tmp_path, timeout=60)  # Valkey may take a second to say what its replica has synced
        with make(replicas=1) as ledger, make(url=replica.url) as reader, make(replicas=2, timeout=1) as more:
            payment = submitted(ledger)
            assert reader.history() == [payment]
            assert refused(reader, "server_read_only").code == "server_read_only"
            assert "of 2 replicas" in refused(more, "ledger_not_durable").message
            replica.pause()
            waiting = reserve(make())  # without replicas it need not wait
            with make(replicas=1, timeout=1) as quick, pytest.raises(LedgerError, match="0 of 1 replicas") as caught:
                quick.submit(waiting, HEADER, now=NOW)
            assert "nothing was sent" in caught.value.message
            replica.go_on()
            ledger.check()


def test_a_full_server(own: RedisServer, tmp_path: Path) -> None:
    """Nothing is half done, and it goes on when there is room."""
    with ledgers(own, tmp_path)() as ledger:
        payment = reserve(ledger)
        own.command("CONFIG", "SET", "maxmemory", "1")
        refused(ledger, "server_full")
        with pytest.raises(LedgerError, match="server_full"):
            ledger.submit(payment, HEADER, now=NOW)
        ledger.check()
        assert ledger.history() == [payment]
        own.command("CONFIG", "SET", "maxmemory", "0")
        ledger.submit(payment, HEADER, now=NOW)
        ledger.check()


@pytest.mark.parametrize("name", ["payments", "index", "sums", "slots", "meta", "trusted", "replies", "log"])
def test_a_key_of_another_program(server: RedisServer, tmp_path: Path, name: str) -> None:
    make = ledgers(server, tmp_path)
    ledger = make()
    key = f"{ledger._prefix}:{{{ledger.wallet.lower()}}}:{name}"
    server.command("SET", key, "theirs")
    with ledger:
        error = refused(ledger, "server_failed")
        assert key in error.message
        assert "prefix" in error.hint
    assert server.command("KEYS", f"{ledger._prefix}:*") == [key]


def test_two_wallets_under_one_prefix(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    other = LocalSigner(b"\x02" * 32)
    with make() as one, make(signer=lambda: other) as two:
        first = reserve(one)
        assert two.history() == []
        second = reserve(two, draft(payer=other.address))
        assert (one.history(), two.history()) == ([first], [second])
        with pytest.raises(ConfigError) as caught:
            reserve(two, draft())
        assert OTHER in str(caught.value)
        assert other.address in str(caught.value)
        with pytest.raises(ConfigError):
            two.set_purchase_secret(OTHER, "id")
        assert two.purchase_secret(OTHER) is None
    slots = {key.partition("{")[2].partition("}")[0] for key in server.command("KEYS", "*")}
    assert slots == {OTHER.lower(), other.address.lower()}  # one slot of a cluster for each


def test_another_purchase_secret(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not read the headers of the others, nor they its own."""
    make = ledgers(server, tmp_path)
    with make() as one:
        payment = submitted(one)
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", SECRET)
    with make(signer=None, wallet=OTHER.lower()) as foreign:
        with pytest.raises(PaymentRefusedError, match="purchase_secret_changed"):
            reserve(foreign)
        with pytest.raises(PaymentRefusedError, match="purchase_secret_changed"):
            foreign.get(payment.id)
        assert foreign.purchase_secret(OTHER) is None
        foreign.set_purchase_secret(OTHER, foreign._store.opened()[0].id)
        found = foreign.get(payment.id)
        assert found is not None
        assert (found.state, found.header) == (payment.state, None)
        with pytest.raises(LedgerError, match="cannot be decrypted"):
            foreign.resubmit(payment.id, signatures=1, now=NOW)
        submitted(foreign)
    monkeypatch.delenv("TRADE_PURCHASE_SECRET")
    with make() as one, pytest.raises(PaymentRefusedError, match="purchase_secret_changed"):
        reserve(one)
    with make(signer=None, wallet=OTHER) as none, pytest.raises(PaymentRefusedError, match="no_purchase_secret"):
        reserve(none)


def test_no_header_lies_on_the_server(own: RedisServer, tmp_path: Path) -> None:
    """Nor in its files, nor under another payment; a changed one is no header."""
    with ledgers(own, tmp_path)() as ledger:
        one, two = submitted(ledger), submitted(ledger)
        [key] = own.command("KEYS", "*:payments")
        texts = own.command("HGETALL", key)
        for file in (own.folder / "appendonly.aof", *tmp_path.glob("*.journal")):
            assert HEADER.encode() not in file.read_bytes()
            assert one.id.encode() in file.read_bytes()
        assert HEADER not in str(texts)
        mine, other = json.loads(texts[one.id]), json.loads(texts[two.id])
        own.command("HSET", key, two.id, json.dumps({**other, "sealed": mine["sealed"]}))
        found = ledger.get(two.id)
        assert found is not None
        assert found.header is None
        assert ledger.get(one.id) == one


def test_one_that_is_damaged(own: RedisServer, tmp_path: Path) -> None:
    make = ledgers(own, tmp_path)
    with make() as ledger:
        payment = submitted(ledger)
        [tag] = [key.removesuffix("payments") for key in own.command("KEYS", "*:payments")]
        for command, undo, problem in (
            (("HINCRBY", f"{tag}sums", "all", "1"), ("HINCRBY", f"{tag}sums", "all", "-1"), "sums differ"),
            (("ZADD", f"{tag}index", "0", "a:1:odd"), ("ZREM", f"{tag}index", "a:1:odd"), "1 too many"),
            (("RENAME", f"{tag}slots", "away"), ("RENAME", "away", f"{tag}slots"), "cannot be found"),
        ):
            own.command(*command)
            with pytest.raises(LedgerError, match=problem) as caught:
                ledger.check()
            assert caught.value.code == "ledger_damaged"
            own.command(*undo)
            ledger.check()
        own.command("HSET", f"{tag}payments", payment.id, "[]")
        with pytest.raises(LedgerError, match="ledger_damaged"):
            ledger.get(payment.id)
        own.command("HSET", f"{tag}meta", "version", "2")
        assert "version 2" in refused(ledger, "ledger_version").message


@each_of(
    ("version", "old"),
    [
        ("5.0.14", True),
        ("6.0.20", True),
        ("6.2.0", False),
        ("7.2.4", False),
        ("10.0.1", False),
        ("", True),
        ("x", True),
    ],
)
def test_versions(version: str, old: bool) -> None:
    assert is_too_old({"redis_version": version}) is old


def test_a_server_that_is_too_old(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk.fleet.ledger_line.OLDEST", (99, 0))
    with ledgers(server, tmp_path)() as ledger:
        assert "6.2" in refused(ledger, "server_unsupported").hint


def test_where_nothing_listens(tmp_path: Path) -> None:
    began = time.monotonic()
    with ledgers(RedisServer("valkey", tmp_path / "none"), tmp_path)() as ledger:
        refused(ledger, "server_unreachable")
    assert time.monotonic() - began < 20


class OffClock:
    """The clock of a machine that is off by so many seconds."""

    def __init__(self, off: float) -> None:
        self.off = off

    def now(self) -> float:
        return time.time() + self.off

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        raise AssertionError

    async def sleep_async(self, seconds: float) -> None:
        raise AssertionError


@pytest.mark.parametrize("off", [-86_400.0, 86_400.0, 3_000.0, -20.0])
def test_clocks_that_differ(server: RedisServer, tmp_path: Path, off: float) -> None:
    """Hours, days and claims go by the server's clock. Each member sees times by its own."""
    make = ledgers(server, tmp_path)
    right, wrong = OffClock(0), OffClock(off)
    hour = Budget(per_hour="0.05", per_day="100")
    with make(clock=right) as one, make(clock=wrong) as two:
        until, now = int(right.now()) + 60, right.now()
        first = reserve(one, draft(valid_before=until), hour, owner="me", until=now + 120, now=now)
        assert first.counts_until == until
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            reserve(two, draft(), hour, now=wrong.now())
        assert two.spending(hour, now=wrong.now()).last_hour == first.amount
        assert not two.claim(first.id, owner="you", until=wrong.now() + 60, now=wrong.now())
        seen = two.get(first.id)
        assert seen is not None
        assert seen.created == pytest.approx(first.created + off, abs=10)
        assert seen.counts_until == pytest.approx(until + off, abs=10)
        signed = two.submit(seen, HEADER, now=wrong.now())
        assert signed.updated == pytest.approx(wrong.now(), abs=10)
        assert one.spending(hour, now=right.now()).last_hour == first.amount
        one.check()


def test_a_claim_that_was_overrun_is_noticed(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And harmless: both resent the same bytes."""
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        payment = reserve(one, owner="host:1:slow", until=NOW + 60)
        payment = one.submit(payment, HEADER, owner="host:1:slow", now=NOW)
        assert not two.claim(payment.id, owner="you", until=NOW + 120, now=NOW + 59)
        assert two.claim(payment.id, owner="you", until=NOW + 120, now=NOW + 61)
        with caplog.at_level(logging.WARNING, "tradesdk"):
            told = one.settle(payment.id, PaymentState.REJECTED_LIVE, owner="host:1:slow", now=NOW + 62)
        assert told.state is payment.state  # the word of a call that lost its claim does not count
        [record] = caplog.records
        assert (vars(record)["event"], vars(record)["payment_id"], vars(record)["tries"]) == (
            "claim_overrun",
            payment.id,
            2,
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefix": ""},
        {"prefix": "a{b}"},
        {"durability": "sometimes"},
        {"replicas": -1},
        {"timeout": 0},
        {"wallet": OTHER},
        {"signer": None, "wallet": "0x12"},
        {"signer": "0x" + "01" * 32},
    ],
    ids=str,
)
def test_arguments(server: RedisServer, tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgumentError, ConfigError)) as caught:
        ledgers(server, tmp_path)(**wrong)
    assert "0101" not in str(caught.value)


def test_it_shows_no_secret_and_cannot_be_copied(server: RedisServer, tmp_path: Path) -> None:
    with ledgers(server, tmp_path)(url=f"redis://me:{SECRET}@127.0.0.1:{server.port}") as ledger:
        assert SECRET not in repr(ledger)
        assert str(server.port) in repr(ledger)
        for use in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError):
                use(ledger)
    assert repr(RedisLedger.__new__(RedisLedger)) == "<RedisLedger, not initialized>"


@pytest.mark.parametrize("home", ["home", "relative/home"])
def test_the_signer_and_the_journal_of_the_environment(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRADE_WALLET_KEY", KEY.hex())
    monkeypatch.setenv("TRADE_FLEET", server.url)
    monkeypatch.setenv("TRADE_HOME", str(tmp_path / home) if home == "home" else home)
    with RedisLedger() as ledger:
        assert ledger.wallet == OTHER
        submitted(ledger)
    [journal] = tmp_path.rglob("*.journal")
    assert journal.name == f"tradesdk-{OTHER.lower()}.journal"
    assert journal.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_has_its_own_connection(server: RedisServer, tmp_path: Path) -> None:
    with ledgers(server, tmp_path)() as ledger:
        first = reserve(ledger)
        ledger._store._lock.acquire()  # by another thread, as far as the child can know
        pid = os.fork()
        if not pid:
            code = 1
            try:
                submitted(ledger, draft(id="pay_child", fingerprint="child"))
                code = 0
            finally:
                os._exit(code)
        ledger._store._lock.release()
        assert os.waitpid(pid, 0)[1] == 0
        assert {one.id for one in ledger.history()} == {first.id, "pay_child"}
        submitted(ledger)
        ledger.check()


def test_threads_share_one_budget(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path, timeout=30)
    budget, counts, lock = Budget(total="0.60"), {"reserved": 0, "over_budget": 0}, threading.Lock()
    drafts = [draft() for _ in range(40)]

    def spend(ledger: RedisLedger) -> None:
        while True:
            with lock:
                if not drafts:
                    return
                asked = drafts.pop()
            try:
                reserve(ledger, asked, budget)
                result = "reserved"
            except PaymentRefusedError as refusal:
                result = refusal.code
            with lock:
                counts[result] += 1

    members = [make() for _ in range(3)]
    threads = [threading.Thread(target=spend, args=(members[number % 3],)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"reserved": 20, "over_budget": 20}
    members[0].check()
    assert members[0].spending(PLENTY, now=NOW).total == 600_000
    for member in members:
        member.close()
