"""The fleet's server: its URL, and what fails between us and it, in our words and without its password."""

from __future__ import annotations

import asyncio
import pickle
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.retry import Retry

from tradesdk import ConfigError, FleetError
from tradesdk._fleet.address import ServerAddress
from tradesdk._fleet.client import client_options
from tradesdk.fleet import AsyncFleetConnection, FleetConnection, inspect_server

from .._clock import VirtualClock
from .._redis_server import RedisServer
from .._rows import each_of
from ..e2e._streamrelay import relay, tls_contexts

SECRET = "swordfish-and-more"


@each_of(
    ("url", "problem"),
    [
        ("", "is missing"),
        ("http://127.0.0.1:6379", "has the scheme http"),
        ("127.0.0.1:6379", "has the scheme"),
        (f"redis://:{SECRET}@", "has no host"),
        (f"redis://:{SECRET}@host:port", "cannot be read"),
        (f"redis://:{SECRET}@host:0", "has the port 0"),
        (f"redis://:{SECRET}/more@host", "has no host"),
        (f"redis://:{SECRET}@host/zero", "a database that is not a number"),
        (f"redis://:{SECRET}@host/0?db=1", "has a query"),
        (f"redis://:{SECRET}\n@host", "cannot be printed"),
        (f"redis://:{SECRET}@[::1", "cannot be read"),
        ("redis://" + "h" * 3000, "more than 2000"),
    ],
)
def test_urls_that_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        ServerAddress.of(url)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert SECRET not in shown.replace(repr(url), "")
    assert "redis://" in caught.value.hint
    assert "written as %XX" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host", "redis://host:6379/0"),
        ("rediss://host:7000/3", "rediss://host:7000/3"),
        (f"redis://me:{SECRET}@[::1]/1", "redis://[::1]:6379/1"),
    ],
)
def test_an_address_is_shown_without_its_login(url: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_FLEET", url)
    for address in (ServerAddress.of(url), ServerAddress.of(None)):
        assert str(address) == shown
        assert SECRET not in repr(address)
        with pytest.raises(TypeError):
            pickle.dumps(address)


def failure(connection: FleetConnection, *command: str) -> FleetError:
    with connection, pytest.raises(FleetError) as caught:
        connection.command(*command)
    assert SECRET not in str(caught.value)
    return caught.value


def test_nothing_listens(tmp_path: Path) -> None:
    server = RedisServer("valkey", tmp_path)
    error = failure(FleetConnection(server.url), "PING")
    assert error.code == "server_unreachable"
    assert f"nothing listens at {server.url}/0" in str(error)
    assert not error.may_have_run


def test_what_a_server_refuses(tmp_path: Path) -> None:
    with RedisServer("redis", tmp_path, "--requirepass", SECRET) as server:
        assert failure(FleetConnection(server.url), "PING").code == "server_refused"
        wrong = f"redis://:{SECRET}x@127.0.0.1:{server.port}"
        assert failure(FleetConnection(wrong), "PING").code == "server_refused"
        right = f"redis://:{SECRET}@127.0.0.1:{server.port}"
        with FleetConnection(right) as connection:
            assert connection.command("PING") in (b"PONG", True)
        failed = failure(FleetConnection(right), "EVAL", f"return redis.error_reply('no {SECRET}')", "0")
        assert failed.code == "server_failed"
        assert "no ****" in str(failed)


def test_a_node_of_a_cluster_that_is_down(server: RedisServer) -> None:
    """It may come up again, so streams wait for it."""
    down = "return redis.error_reply('CLUSTERDOWN Hash slot not served')"
    error = failure(FleetConnection(server.url), "EVAL", down, "0")
    assert error.code == "server_unreachable"
    assert "is in a cluster that is down" in str(error)


@pytest.mark.parametrize("engine", ["redis", "valkey"])
def test_the_place_in_a_script_is_not_told(engine: str, tmp_path: Path) -> None:
    with RedisServer(engine, tmp_path) as server:
        server.command("SET", "one", "1")
        error = failure(FleetConnection(server.url), "EVAL", "return redis.call('HGET', KEYS[1], 'a')", "1", "one")
        assert error.code == "server_failed"
        assert error.message.endswith("(WRONGTYPE Operation against a key holding the wrong kind of value)")


def test_a_server_that_hangs(tmp_path: Path) -> None:
    with RedisServer("valkey", tmp_path) as server:
        server.pause()
        error = failure(FleetConnection(server.url, timeout=0.2), "PING")
        assert (error.code, error.may_have_run) == ("server_unreachable", True)


def test_a_full_server(tmp_path: Path) -> None:
    with RedisServer("redis", tmp_path, "--maxmemory", "1") as server:
        assert failure(FleetConnection(server.url), "SET", "one", "1").code == "server_full"


def test_a_replica(server: RedisServer, tmp_path: Path) -> None:
    with RedisServer("valkey", tmp_path, "--replicaof", f"127.0.0.1 {server.port}") as replica:
        assert failure(FleetConnection(replica.url), "SET", "one", "1").code in (
            "server_read_only",
            "server_unreachable",
        )


@pytest.mark.parametrize("engine", ["redis", "valkey"])
def test_what_a_server_says_about_itself(engine: str, tmp_path: Path) -> None:
    with RedisServer(engine, tmp_path) as server:
        clock = VirtualClock()
        clock.sleep(100)
        report = inspect_server(server.url, clock=clock)
        assert (report.address, report.engine, report.supported) == (f"{server.url}/0", engine, True)
        assert report.version.startswith({"redis": "6.2.", "valkey": "9."}[engine])
        assert report.settings == {
            "appendonly": "yes",
            "appendfsync": "always",
            "no-appendfsync-on-rewrite": "no",
            "maxmemory-policy": "noeviction",
        }
        assert (report.not_durable, report.read_only) == ("", False)
        assert report.clock_ahead == pytest.approx(time.time() - clock.now(), abs=60)
        server.command("CONFIG", "SET", "appendfsync", "everysec")
        server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        lossy = inspect_server(server.url).not_durable
        assert lossy == "appendfsync is everysec, not always; maxmemory-policy is allkeys-lru, not noeviction"
        server.command("ACL", "SETUSER", "bot", "on", f">{SECRET}", "~*", "+@all", "-config")
        silent = inspect_server(f"redis://bot:{SECRET}@127.0.0.1:{server.port}")
        assert (silent.settings, silent.not_durable) == (None, "")
        assert SECRET not in repr(silent)
        with RedisServer("valkey", tmp_path / "replica") as replica:
            replica.command("REPLICAOF", "127.0.0.1", server.port)
            assert inspect_server(replica.url).read_only
    with pytest.raises(FleetError) as caught:
        inspect_server(server.url)
    assert caught.value.code == "server_unreachable"


def test_tls_takes_no_certificate_of_another_host(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, older releases of redis-py do: it is asked for here."""
    serving, _ = tls_contexts(tmp_path)  # for 127.0.0.1
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))

    async def asked(url: str) -> object:
        async with AsyncFleetConnection(url) as connection:
            return await connection.command("PING")

    def ping(url: str) -> object:
        with FleetConnection(url) as connection:
            return connection.command("PING")

    ways: list[Callable[[str], object]] = [ping, lambda url: asyncio.run(asked(url)), inspect_server]
    with relay(server.port, tls=serving) as between:
        for ask in ways:
            assert ask(f"rediss://127.0.0.1:{between.port}")
            with pytest.raises(FleetError, match="certificate verify failed"):
                ask(f"rediss://localhost:{between.port}")
        address = ServerAddress.of(f"rediss://localhost:{between.port}")
        options = client_options(address, 1.0, Retry)
        assert (options["ssl_cert_reqs"], options["ssl_check_hostname"]) == ("required", True)


def test_keys_of_another_type(server: RedisServer) -> None:
    server.command("SET", "one", "1")
    assert failure(FleetConnection(server.url), "HGETALL", "one").code == "server_failed"


def test_scripts_of_your_own(server: RedisServer) -> None:
    script = "return {KEYS[1], ARGV[1] + ARGV[2]}"

    async def asked() -> object:
        async with AsyncFleetConnection(server.url) as connection:
            return await connection.eval(script, ["key"], [1, 2.0])

    with FleetConnection(server.url) as connection:
        blocking = [connection.eval(script, ["key"], [1, 2.0]) for _ in range(2)]
    assert blocking == 2 * [asyncio.run(asked())] == 2 * [[b"key", 3]]
