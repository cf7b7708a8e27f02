"""One blocking client shared by threads that are interrupted at the worst moments."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator

import pytest

from tradesdk import TradeClient
from tradesdk._http.settings import Origin
from tradesdk._sync.connection_pool import ConnectionPool, _is_readable

from .._answers import ACCOUNT, KEY
from .._clock import VirtualClock
from .._flavour_sync import at_once
from .._hostile import Visit, answer, hostile

GOOD = answer(json.dumps(ACCOUNT).encode())


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("expiry", [5.0, 0.0])
def test_connections_are_handed_over_safely(expiry: float) -> None:
    """Also when every kept connection has expired by the time it is wanted."""

    def answering(visit: Visit) -> None:
        visit.send(GOOD)

    with hostile(answering) as server:
        client = TradeClient(api_key=KEY, base_url=server.url, clock=VirtualClock())
        origin = Origin.of(client.base_url)
        client._session.sender = ConnectionPool(origin, max_connections=6, keepalive_expiry=expiry)

        def work() -> int:
            return sum(client.account.get().id == "acc_1" for _ in range(10))

        with client:
            assert at_once([work] * 12) == [10] * 12
        assert len(server.visits) == 120
        assert server.most_open <= 6 or expiry == 0  # the server sees the end of an expired one a little later


def test_a_connection_that_another_thread_has_just_closed_is_not_an_error() -> None:
    """Else the answer of this call would be lost while it looks at a kept connection of another one."""
    closed = socket.socket()
    closed.close()
    assert _is_readable(closed)
