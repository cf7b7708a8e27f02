"""Whatever is wrong with a request, the answer is the service's error object, over a socket and without one.

What isn't even HTTP: test_raw_http. Bodies: tests/contract/test_service_transport.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServerError, MockService

from .._rows import each_of
from ._http import CARRIERS, add_agent, add_wallet, carried, client, error, ok

PATHS = {
    "/v1/account": "GET",
    "/v1/account/usage": "GET",
    "/v1/agents": "GET, POST",
    "/v1/agents/agt_1": "DELETE, GET, PATCH",
    "/v1/wallets": "GET, POST",
    "/v1/wallets/wal_1/balance": "GET",
    "/v1/trades": "GET",
    "/v1/trades/trd_1": "GET",
    "/v1/positions": "GET",
    "/v1/signals": "GET",
    "/v1/signals/history": "GET",
    "/v1/signals/stream": "GET",
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW")


@pytest.fixture(params=CARRIERS)
def server(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def api(server: MockService) -> Iterator[httpx.Client]:
    with client(server) as http:
        yield http


@each_of("path", PATHS)
def test_methods_that_a_path_lacks(api: httpx.Client, path: str) -> None:
    refused = [method for method in METHODS if method not in PATHS[path].split(", ")]
    for method in refused:
        answer = api.request(method, path)
        message = error(answer, 405, "invalid_request")
        assert message.startswith(method)
        assert answer.headers["allow"] == PATHS[path]


def test_head_is_refused_without_a_body(api: httpx.Client) -> None:
    answer = api.head("/v1/account")
    assert answer.status_code == 405
    assert answer.content == b""


ABSENT = (
    *("/", "/v1", "/v1/", "/v2/agents", "/v1/nothing", "/v1/agents/", "/v1/agents/a/b", "/v1/agents/a%2Fb"),
    *("/v1/Agents", "/v1/account%0A", "/v1//agents", "/v1/wallets/w", "/favicon.ico"),
)


@each_of("method", ["GET", "POST", "DELETE"])
def test_paths_that_do_not_exist(api: httpx.Client, method: str) -> None:
    for path in ABSENT:
        error(api.request(method, path), 404, "not_found")


def test_unknown_paths_below_v1_need_a_key_like_the_others(anyone: httpx.Client) -> None:
    error(anyone.get("/v1/nothing"), 401, "unauthorized")
    error(anyone.get("/nothing"), 404, "not_found")


@each_of("path", ["/v1/agents/{}", "/v1/trades/{}", "/v1/wallets/{}/balance"])
def test_ids_that_do_not_exist(rich: httpx.Client, path: str) -> None:
    for ident in ("nope", "%00", "%0A", "..", "%F0%9F", "é", "a" * 10_000, "' OR 1=1 --"):
        message = error(rich.get(path.format(ident)), 404, "not_found")
        assert len(message) < 200, ident


@each_of(
    ("query", "word"),
    [
        ("limit=1&limit=1", "limit: given twice"),
        ("limit=1&%6Cimit=2", "limit: given twice"),
        ("cursor=a&cursor=", "cursor: given twice"),
        ("cursor=%ff", "can't be read"),
        ("x=%ff", "can't be read"),
        ("%fe=1", "can't be read"),
        ("&".join(f"x{n}=1" for n in range(101)), "can't be read"),
        ("limit=", "limit: empty"),
        ("limit=%00", "limit: not an integer"),
        ("limit=1%0A", "limit: not an integer"),
        ("limit=%EF%BC%91", "limit: not an integer"),
        ("limit=1e1", "limit: not an integer"),
        ("limit=" + "9" * 10_000, "limit: not an integer"),
        ("cursor=%00", "cursor"),
    ],
)
@each_of("path", ["/v1/trades", "/v1/agents"])
def test_queries_that_can_not_be_read(api: httpx.Client, path: str, query: str, word: str) -> None:
    assert word in error(api.get(f"{path}?{query}"), 400, "invalid_request")


def test_names_in_a_query_that_mean_nothing_are_left_alone(api: httpx.Client) -> None:
    for query in ("", "&&&", "=", "%00=%00", "color=red", "LIMIT=0", "limit[]=0", "a;b"):
        ok(api.get(f"/v1/trades?{query}"))


def test_headers_over_64_kib(api: httpx.Client) -> None:
    long, many = {"X-Long": "a" * 65_500}, {f"X-{n}": "a" * 1_000 for n in range(66)}
    for path, headers in (
        *((path, long) for path in ("/v1/account", "/v1/supported-tokens", "/_mock/status")),
        *((path, many) for path in ("/v1/account", "/v1/signals/stream?chain=56")),
    ):
        assert "64 KiB" in error(api.get(path, headers=headers), 400, "invalid_request")
    ok(api.get("/v1/account", headers={f"X-{n}": "a" * 1_000 for n in range(60)}))


async def test_awaited_requests_are_refused_in_process_as_by_a_connection() -> None:
    server = MockService()
    async with httpx.AsyncClient(transport=server.transport(), base_url=server.url) as http:
        with pytest.raises(httpx.LocalProtocolError):
            await http.get("/v1/account", headers={"X-A": "a\nb"})
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get("ftp://localhost/x")
        server.close()
        with pytest.raises(MockServerError, match="the mock is closed"):
            await http.get("/v1/account")


@pytest.fixture
def writes(api: httpx.Client) -> list[tuple[str, str]]:
    agent = add_agent(api, add_wallet(api))["id"]
    return [("POST", "/v1/agents"), ("PATCH", f"/v1/agents/{agent}"), ("POST", "/v1/wallets")]


def test_compressed_bodies_are_refused(api: httpx.Client, writes: list[tuple[str, str]]) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for method, path in writes:
        error(api.request(method, path, content=b"{}", headers=headers), 400, "invalid_request")


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_over_a_mebibyte(api: httpx.Client, writes: list[tuple[str, str]], chunked: bool) -> None:
    def pieces() -> list[bytes]:
        return [b'{"name": "', *[b"a" * 65_536] * 40, b'"}']

    for method, path in writes:
        content = iter(pieces()) if chunked else b"".join(pieces())
        answer = api.request(method, path, content=content, headers={"Content-Type": "application/json"})
        assert "1 MiB" in error(answer, 400, "invalid_request")
    ok(api.get("/v1/account"))


def test_a_body_of_just_under_a_mebibyte_is_read(api: httpx.Client, writes: list[tuple[str, str]]) -> None:
    name = "n" * (1024 * 1024 - 100)
    assert ok(api.patch(writes[1][1], json={"name": name}))["name"] == name


def test_a_crash_is_an_internal_error_and_the_server_goes_on(
    server: MockService, api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    before = ok(api.get("/v1/account/usage"))["requests"]["used"]
    server.world.store.run("ALTER TABLE trades RENAME TO elsewhere")
    answer = api.get("/v1/trades")
    assert "trades" not in error(answer, 500, "internal_error")
    assert answer.headers["x-ratelimit-limit"] == "300"
    assert "GET '/v1/trades' crashed" in caplog.text
    raising = logging.Filter()
    raising.filter = lambda record: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    logging.getLogger("tradesdk_mock").addFilter(raising)
    try:
        error(api.get("/v1/trades"), 500, "internal_error")
    finally:
        logging.getLogger("tradesdk_mock").removeFilter(raising)
    assert ok(api.get("/v1/account/usage"))["requests"]["used"] == before + 1
    server.world.store.run("ALTER TABLE elsewhere RENAME TO trades")
    assert ok(api.get("/v1/trades")) == {"data": []}


def test_a_crash_undoes_what_its_request_had_written(
    server: MockService, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    real = server.world.store.run

    def failing(sql: str, args: tuple[object, ...] = ()) -> int:
        if sql.startswith("DELETE FROM agents"):
            real(sql, args)
            raise RuntimeError("the disk is gone")
        return real(sql, args)

    with monkeypatch.context() as patched:
        patched.setattr(server.world.store, "run", failing)
        error(api.delete(f"/v1/agents/{agent}"), 500, "internal_error")
    assert ok(api.get(f"/v1/agents/{agent}"))["id"] == agent


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        (sqlite3.SQLITE_FULL, "database or disk is full", "can't be used: database or disk is full$"),
        (sqlite3.SQLITE_BUSY, "database is locked", "is in use: The state is busy"),
    ],
    ids=["full", "busy"],
)
def test_a_file_that_is_busy_and_one_that_cannot_be_used_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, message: str
) -> None:
    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql.startswith("BEGIN"):
                error = sqlite3.OperationalError(text)
                error.sqlite_errorcode = code
                raise error
            return super().execute(sql, *args)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, factory=Failing, **options))
    with pytest.raises(MockServerError, match=f"^the state file .* {message}"):
        MockService(db=tmp_path / "state.sqlite3")
