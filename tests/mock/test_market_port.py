"""Market data on a port of its own: switched on and off while the server serves."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from ._buyer import good_body
from ._http import FULL, START, client, error, in_process, ok
from ._paying import ALL

pytestmark = pytest.mark.long

KEY = {"Authorization": f"Bearer {FULL}"}
FREE = "/v1/supported-tokens"
ACCOUNT_PATHS = ("/v1/account", "/v1/agents", "/v1/trades", "/v1/signals?chain=56", "/v1/signals/stream?chain=56")


def both(mock: MockService, http: httpx.Client) -> None:
    """Switch it on, look at both addresses, switch it off again."""
    http.headers.update(KEY)
    home = mock.url
    before = ok(http.post(f"{home}{FREE}", json={}))
    assert mock.market_url == home
    mock.set_gaps(b_port="another", paywall="open")
    shop = mock.market_url
    assert shop.rpartition(":")[0] in (home, home.rpartition(":")[0])
    assert shop != home
    assert ok(http.post(f"{shop}{FREE}", json={})) == before
    for name in ALL:
        assert http.post(f"{shop}/v1/{name}", json=good_body(name)).status_code == 200, name
        error(http.post(f"{home}/v1/{name}", json=good_body(name)), 404, "not_found")
        error(http.get(f"{home}/v1/{name}"), 404, "not_found")
        assert http.get(f"{shop}/v1/{name}").headers["allow"] == "POST"
    for there in ACCOUNT_PATHS:
        error(http.get(f"{shop}{there}"), 404, "not_found")
    for there in ACCOUNT_PATHS[:-1]:
        ok(http.get(f"{home}{there}"))
    error(http.get(f"{shop}/elsewhere"), 404, "not_found")
    for address in (home, shop):
        assert ok(http.get(f"{address}/_mock/status"))["gaps"] == {"b_port": "another", "paywall": "open"}
    asked = [(entry.path, entry.status) for entry in mock.journal() if entry.path == FREE]
    assert asked[:3] == [(FREE, 200), (FREE, 200), (FREE, 200)]
    assert (FREE, 404) in asked
    # The connections are open: what a port serves is looked at for every request. Its address stays the same.
    for _ in range(2):
        mock.set_gaps(b_port="same")
        assert mock.market_url == home
        assert ok(http.post(f"{home}{FREE}", json={})) == before
        ok(http.put(f"{home}/_mock/gaps", json={"b_port": "another"}))
        assert mock.market_url == shop
        assert ok(http.post(f"{shop}{FREE}", json={})) == before


def test_on_sockets() -> None:
    with MockServer(clock=MockClock(START)) as server, client(server, None) as http:
        both(server, http)


def test_in_process() -> None:
    with MockService(clock=MockClock(START)) as mock, in_process(mock, None) as http:
        both(mock, http)


@pytest.mark.parametrize("from_the_start", [True, False])
def test_it_is_closed_with_the_server(from_the_start: bool) -> None:
    options = GapOptions(b_port="another" if from_the_start else "same")
    with MockServer(gaps=options, clock=MockClock(START)) as server, client(server) as http:
        server.set_gaps(b_port="another")
        ports = [int(url.rpartition(":")[2]) for url in (server.url, server.market_url)]
        if from_the_start:
            ok(http.post(f"{server.market_url}{FREE}", json={}))
            error(http.post(FREE, json={}), 404, "not_found")
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_before_the_start_there_is_no_address() -> None:
    server = MockServer(gaps=GapOptions(b_port="another"))
    with pytest.raises(MockServerError, match="isn't started"):
        _ = server.market_url
    server.stop()


def test_switching_while_others_ask(server: MockService) -> None:
    server.set_gaps(b_port="another")
    shop = server.market_url
    statuses: list[int] = []

    def ask() -> None:
        with client(server) as http:
            statuses.extend(http.post(f"{shop}{FREE}", json={}).status_code for _ in range(40))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        server.set_gaps(b_port="same")
        server.set_gaps(b_port="another")
    for thread in threads:
        thread.join(120)
    assert statuses == [200] * 80


def test_what_another_process_switches_on_opens_a_port_here_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with MockServer(db=path) as server, MockService(db=path) as other, client(server) as http:
        other.set_gaps(b_port="another")
        ok(http.get("/v1/account"))  # with the first request it is noticed
        error(http.post(FREE, json={}), 404, "not_found")
        ok(http.post(f"{server.market_url}{FREE}", json={}))


def test_ipv6() -> None:
    try:
        server = MockServer(host="::1", gaps=GapOptions(b_port="another")).start()
    except MockServerError:
        pytest.skip("this machine has no IPv6 loopback")
    try:
        assert server.market_url.startswith("http://[::1]:")
        with client(server) as http:
            ok(http.post(f"{server.market_url}{FREE}", json={}))
    finally:
        server.stop()
