"""A server that lacks the last writes takes over, or answers too late: nothing is lost, doubles are marked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk import FleetError, TradeClient
from tradesdk_mock import MockServer

from .._redis_server import RedisServer
from ..e2e._streamhouse import QUICKLY, key_of, server_of, soon
from ._hand import KEYS, Hand, client, ids, made


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    with server_of(8, heartbeat=1) as running:
        yield running


class Reader(threading.Thread):
    """A member that takes what comes."""

    def __init__(self, trade: TradeClient, url: str, name: str) -> None:
        super().__init__(daemon=True)
        self.stream = trade.signals.shared(chain=8453, group="bots", redis=url, member=name, lease=4)
        self.got: list[Any] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self.stream as stream:
                for each in stream:
                    self.got.append(each)
        except Exception as error:
            self.error = error


@pytest.mark.parametrize(
    ("engine", "behind"),
    [
        ("valkey", 7),
        pytest.param("redis", 0, marks=pytest.mark.long),
        pytest.param("redis", 40, marks=pytest.mark.long),
    ],
)
def test_a_replica_that_lacks_the_last_writes_takes_over(
    service: MockServer, tmp_path: Path, engine: str, behind: int
) -> None:
    """`behind`: signals that were published, delivered and acknowledged, and of which the new server knows nothing."""
    published: list[str] = []

    def emit(count: int) -> None:
        published.extend(service.emit_signal(chain_id=8453).id for _ in range(count))

    primary = RedisServer(engine, tmp_path / "primary", "--repl-diskless-sync-delay", "0").start()
    with TradeClient(api_key=key_of(service), base_url=service.url, retry=QUICKLY) as trade:
        readers = [Reader(trade, primary.url, name) for name in ("one", "two")]
        try:
            with trade.signals.relay(chain=8453, redis=primary.url, lease=4, settle=0.1) as relay:
                for reader in readers:
                    reader.start()
                assert soon(lambda: relay.stats.relaying)
                emit(10)
                assert soon(lambda: sum(len(reader.got) for reader in readers) == 10)
                with RedisServer(
                    engine, tmp_path / "replica", "--replicaof", "127.0.0.1", str(primary.port)
                ) as replica:
                    assert soon(lambda: replica.client().info("replication")["master_link_status"] == "up")
                    emit(5)
                    assert soon(lambda: sum(len(reader.got) for reader in readers) == 15)
                    replica.command("REPLICAOF", "NO", "ONE")
                emit(behind)
                assert soon(lambda: sum(len(reader.got) for reader in readers) == 15 + behind)
                primary.kill()
                emit(5)
                with RedisServer(engine, tmp_path / "replica", port=primary.port):
                    emit(5)
                    assert soon(lambda: set(published) <= {each.id for reader in readers for each in reader.got}), [
                        reader.error for reader in readers
                    ]
                    emit(5)
                    assert soon(lambda: set(published) <= {each.id for reader in readers for each in reader.got}), [
                        reader.error for reader in readers
                    ]
                    for reader in readers:
                        reader.stream.close()
                        reader.join(60)
        finally:
            primary.stop()
    got = [each for reader in readers for each in reader.got]
    unmarked = ids(each for each in got if not each.redelivered)
    assert len(unmarked) == len(set(unmarked))
    for reader in readers:
        assert reader.error is None
        assert len(ids(reader.got)) == len(set(ids(reader.got)))  # its own doubles are dropped


def test_a_fresh_server_without_a_relay_that_remembers(tmp_path: Path) -> None:
    """Server and relay are both new: members name the time from which on they miss signals."""
    everything = [made(f"s{number}", number) for number in range(30)]
    with RedisServer("valkey", tmp_path) as server, client(everything) as trade:
        hand = Hand(server)
        with trade.signals.shared(chain=8453, group="bots", redis=server.url, lease=2) as stream:
            hand.publish(everything[:5], position=everything[4].timestamp.timestamp())
            assert ids(next(stream) for _ in range(5)) == ids(everything[:5])
            hand.close()
            server.command("FLUSHALL")
            fresh = Hand(server)  # begins where it is told nothing
            fresh.publish(everything[20:22], position=everything[20].timestamp.timestamp())
            server.command("HSET", KEYS.meta, "begin", everything[20].timestamp.timestamp())
            got = [next(stream) for _ in range(17)]
            assert sorted(ids(got)) == sorted(ids(everything[5:22]))
            assert all(each.redelivered and each.replayed for each in got if each.id not in ("s20", "s21"))
            fresh.close()


def test_a_relay_without_signals_notices_the_server(
    service: MockServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It renews its lease: so it says that the server is away, and has the lease again when that is back."""
    with (
        RedisServer("valkey", tmp_path) as server,
        TradeClient(api_key=key_of(service), base_url=service.url, retry=QUICKLY) as trade,
        trade.signals.relay(chain=8453, redis=server.url, lease=1, settle=0.1) as relay,
        Reader(trade, server.url, "one").stream as stream,
    ):
        assert soon(lambda: relay.stats.relaying)
        server.kill()
        assert soon(lambda: "cannot renew its lease" in caplog.text)
        server.start()
        assert soon(lambda: relay.stats.terms >= 2 and relay.stats.relaying)
        assert trade.signals.relay_status(chain=8453, redis=server.url).relayed_by == relay.member
        assert "restarted or replaced" in caplog.text
        time.sleep(1.2)  # signals of the second in which the server changed may be doubles
        sent = service.emit_signal(chain_id=8453)
        got = next(stream)
        assert (got.id, got.redelivered) == (sent.id, False)
    said = [record for record in caplog.records if "cannot renew its lease" in record.getMessage()]
    assert len(said) == 1, "once, not with each try"


def test_a_server_that_answers_after_the_deadline(tmp_path: Path) -> None:
    """The step that timed out was carried out all the same: its entry is not lost, and comes once."""
    with RedisServer("valkey", tmp_path) as server, client() as trade:
        hand = Hand(server)
        with trade.signals.shared(chain=8453, group="bots", redis=server.url, lease=60) as stream:
            stream._connection._client.connection_pool.connection_kwargs["socket_timeout"] = 0.3
            hand.publish(["a"])
            got = [next(stream)]
            hand.publish(["b", "c"])
            timer = threading.Timer(1.0, server.go_on)
            server.pause()
            timer.start()
            got += [next(stream), next(stream)]
            timer.join()
            assert ids(got) == ["a", "b", "c"]
            assert not any(each.redelivered for each in got)
        hand.close()


def test_the_fence_keeps_an_old_relay_from_writing(tmp_path: Path) -> None:
    with RedisServer("redis", tmp_path) as server:
        old, new = Hand(server, name="old"), Hand(server, name="new")
        assert old.publish(["a"])[0] == "ok"
        assert new.take()[0] == "other"
        old.lease = 0.2
        assert old.take()[0] == "held"
        time.sleep(0.3)
        assert old.take()[0] == "held"  # nobody took it meanwhile
        time.sleep(0.3)
        assert new.take()[0] == "held"
        assert new.fence > old.fence
        assert old.publish(["b"])[0] == "lost"
        assert old.take()[0] == "lost"
        assert new.publish(["a", "b"]) == ("ok", [1, [1, 2]])
        assert new.publish(["a", "b"]) == ("ok", [0, [1, 2]])  # the same step again
        assert server.command("XLEN", KEYS.stream) == 2
        old.close()
        new.close()


def test_a_full_server_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer("valkey", tmp_path) as server, client() as trade:
        server.command("CONFIG", "SET", "maxmemory", "1")

        def make_room() -> None:
            soon(lambda: "is full" in caplog.text)
            server.command("CONFIG", "SET", "maxmemory", "0")

        waiting = threading.Thread(target=make_room)
        waiting.start()
        with trade.signals.shared(chain=8453, group="bots", redis=server.url) as stream:
            hand = Hand(server)
            hand.publish(["a"])
            assert next(stream).id == "a"
            hand.close()
        waiting.join()
        assert "is full" in caplog.text


def test_a_server_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk._fleet.streams.OLDEST", (99, 0))
    with RedisServer("redis", tmp_path) as server, client() as trade:
        stream = trade.signals.shared(chain=8453, group="bots", redis=server.url)
        with pytest.raises(FleetError, match=r"has version 6\.2") as caught, stream:
            pass
        assert caught.value.code == "server_unsupported"
        with trade.signals.relay(chain=8453, redis=server.url) as relay, pytest.raises(FleetError, match="version 6"):
            relay.wait()


def test_a_login_that_is_refused_is_not_waited_for(tmp_path: Path) -> None:
    with RedisServer("valkey", tmp_path, "--requirepass", "swordfish") as server, client() as trade:
        stream = trade.signals.shared(chain=8453, group="bots", redis=server.url)
        with pytest.raises(FleetError) as caught, stream:
            pass
        assert caught.value.code == "server_refused"
