"""Who may use the control API: programs on this machine, and no web page in a browser on it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer, MockService
from tradesdk_mock.api.pipeline import Pipeline
from tradesdk_mock.control.http import ControlApi
from tradesdk_mock.core.messages import Request

from ._support import FULL, START, client, error, ok

LOCAL = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
FOREIGN = ["10.0.0.9", "192.168.0.1", "::ffff:10.0.0.5", "2001:db8::1", "", "somewhere.example", None]
EVIL_HOSTS = [
    *("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5"),
    *("[::1", "127.0.0.1@evil.example", "localhost:80@evil.example", "evil.example#127.0.0.1", "", "\xe9"),
]
GOOD_HOSTS = ["localhost", "LOCALHOST:8787", "127.0.0.2:80", "[::1]:80", "trade.localhost"]
EVIL_ORIGINS = ["https://evil.example", "null", "file://", "http://localhost.evil.example", "http://[::1", "evil"]
GOOD_ORIGINS = ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START)) as service:
        yield service


def ask(
    mock: MockService,
    path: str = "/_mock/status",
    *,
    method: str = "GET",
    sender: str | None = "127.0.0.1",
    remote: bool = False,
    **headers: str,
) -> httpx.Response:
    given = {"host": "localhost:8787", **headers}
    request = Request(method, path, client=sender)
    request.headers = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    reply = Pipeline(mock.world, control=ControlApi(mock, allow_remote=remote)).answer(request)
    assert isinstance(reply.body, bytes)
    return httpx.Response(reply.status, headers=reply.headers, content=reply.body)


@pytest.mark.parametrize("sender", FOREIGN)
def test_other_machines_are_kept_out(mock: MockService, sender: str | None) -> None:
    message = error(ask(mock, sender=sender), 403, "forbidden")
    assert "this machine only" in message
    for method, path in (("POST", "/_mock/reset"), ("POST", "/_mock/nothing"), ("PATCH", "/_mock/gaps")):
        error(ask(mock, path, method=method, sender=sender), 403, "forbidden")
    # What is served is for everybody.
    ok(ask(mock, "/v1/account", sender=sender, authorization=f"Bearer {FULL}"))
    assert ask(mock, "/v1/supported-tokens", sender=sender).status_code == 405


@pytest.mark.parametrize("sender", LOCAL)
def test_this_machine_is_let_in(mock: MockService, sender: str) -> None:
    ok(ask(mock, sender=sender))


@pytest.mark.parametrize("sender", [*LOCAL, *FOREIGN])
def test_any_machine_is_let_in_where_that_was_asked_for(mock: MockService, sender: str | None) -> None:
    ok(ask(mock, sender=sender, remote=True))
    ok(ask(mock, sender=sender, remote=True, host="mock.build.example:8787"))
    mock.create_key(tenant="gone")
    assert ok(ask(mock, "/_mock/reset", method="POST", sender=sender, remote=True))["tenants"] == []


@pytest.mark.parametrize("host", EVIL_HOSTS)
def test_names_that_were_pointed_at_this_machine_are_kept_out(mock: MockService, host: str) -> None:
    mock.create_key(tenant="kept")
    for method, path in (("GET", "/_mock/status"), ("POST", "/_mock/reset")):
        error(ask(mock, path, method=method, host=host), 403, "forbidden")
    assert mock.status()["tenants"] == ["kept"]
    # The service itself answers under any name.
    ok(ask(mock, "/v1/account", host=host, authorization=f"Bearer {FULL}"))


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_names_of_this_machine_are_let_in(mock: MockService, host: str) -> None:
    ok(ask(mock, host=host))


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("origin", EVIL_ORIGINS)
def test_web_pages_are_kept_out_even_where_other_machines_are_not(mock: MockService, origin: str, remote: bool) -> None:
    for method, path in (("GET", "/_mock/status"), ("POST", "/_mock/reset")):
        message = error(ask(mock, path, method=method, remote=remote, origin=origin), 403, "forbidden")
        assert "Origin" in message
    ok(ask(mock, "/v1/account", origin=origin, authorization=f"Bearer {FULL}"))


@pytest.mark.parametrize("origin", GOOD_ORIGINS)
def test_pages_of_this_machine_are_let_in(mock: MockService, origin: str) -> None:
    ok(ask(mock, origin=origin))


def test_every_one_of_several_hosts_and_origins_counts(mock: MockService) -> None:
    for name, good, evil in (
        ("host", "localhost", "evil.example"),
        ("origin", "http://localhost", "http://evil.example"),
    ):
        for values in ((good, evil), (evil, good)):
            request = Request("GET", "/_mock/status", client="127.0.0.1")
            request.headers = [(name.encode(), value.encode()) for value in values]
            assert mock.pipeline.answer(request).status == 403, values


@pytest.mark.parametrize("allowed", [False, True], ids=["local", "remote"])
def test_the_server_hands_on_what_it_was_told(allowed: bool) -> None:
    with MockServer(clock=MockClock(START), allow_remote_control=allowed) as server, client(server) as http:
        answer = http.get("/_mock/status", headers={"Host": "mock.build.example"})
        if allowed:
            ok(answer)
        else:
            error(answer, 403, "forbidden")
        error(http.get("/_mock/status", headers={"Origin": "https://evil.example"}), 403, "forbidden")
        ok(http.get("/_mock/status", headers={"Origin": server.url}))


def test_what_is_refused_is_shown_shortened_and_on_one_line(mock: MockService) -> None:
    message = error(ask(mock, host="evil.example" + "x" * 5_000), 403, "forbidden")
    assert len(message) < 200
    assert json.dumps(message).isascii()
