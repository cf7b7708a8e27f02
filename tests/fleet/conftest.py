"""A real server for the tests of fleets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .._redis_server import RedisServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One durable Valkey server for a test process. Tests that break a server start one of their own."""
    with RedisServer("valkey", tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """The same, emptied."""
    shared_server.command("FLUSHALL")
    return shared_server
