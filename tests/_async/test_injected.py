"""An httpx client of the user's own: what is taken from it, what is not, and that it is left alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk import (
    APIResponseError,
    APIStatusError,
    AsyncTradeClient,
    NotFoundError,
    TradeError,
    __version__,
)

from .._answers import ACCOUNT, BASE, KEY, Service, failed, ok
from .._clock import VirtualClock, named
from .._rows import each_of
from ._client import client_of


def with_http(service: Service, **settings: Any) -> tuple[AsyncTradeClient, httpx.AsyncClient]:
    http = httpx.AsyncClient(transport=httpx.MockTransport(service), **settings)
    client = AsyncTradeClient(api_key=KEY, base_url=BASE, http_client=http, clock=VirtualClock())
    return client, http


async def test_its_headers_are_sent_and_ours_win() -> None:
    service = Service(ok(ACCOUNT))
    client, http = with_http(
        service,
        headers={
            "X-Tenant": "blue",
            "Authorization": "Bearer theirs",
            "User-Agent": "theirs/1",
            "Accept-Encoding": "br",
            "Accept": "text/html",
        },
        base_url="https://elsewhere.example/base",
    )
    await client.account.get()
    (request,) = service.requests
    assert str(request.url) == f"{BASE}/v1/account"
    assert request.headers["x-tenant"] == "blue"
    assert request.headers.get_list("authorization") == [f"Bearer {KEY}"]
    assert request.headers["user-agent"].startswith(f"tradesdk/{__version__} ")
    assert request.headers.get_list("accept-encoding") == ["gzip"]
    assert request.headers.get_list("accept") == ["application/json"]
    assert http.headers["authorization"] == "Bearer theirs"


async def test_its_auth_is_not_used() -> None:
    service = Service(ok(ACCOUNT))
    client, http = with_http(service, auth=("user", "password"))
    await client.account.get()
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert http.auth is not None


@each_of("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    service = Service(httpx.Response(status, headers={"location": "https://elsewhere.example/"}))
    client, _ = with_http(service, follow_redirects=True)
    with pytest.raises(APIStatusError, match="never followed") as caught:
        await client.account.get()
    assert caught.value.status == status
    assert len(service.requests) == 1


async def test_our_timeouts_are_used() -> None:
    service = Service(ok(ACCOUNT))
    client, http = with_http(service, timeout=None)
    await client.account.get()
    assert service.requests[0].extensions["timeout"]["read"] == 30.0
    assert http.timeout == httpx.Timeout(None)


async def test_it_is_never_closed() -> None:
    service = Service(ok(ACCOUNT), ok(ACCOUNT))
    client, http = with_http(service)
    async with client:
        await client.account.get()
    await client.aclose()
    assert not http.is_closed
    await client.account.get()
    await http.aclose()
    with pytest.raises(TradeError, match="closed"):
        await client.account.get()


async def test_its_hooks_run_for_every_attempt() -> None:
    asked: list[str] = []
    answered: list[int] = []

    async def on_request(request: httpx.Request) -> None:
        request.headers["x-trace"] = str(len(asked))
        asked.append(request.url.path)

    async def on_response(response: httpx.Response) -> None:
        answered.append(response.status_code)

    service = Service(failed(503), ok(ACCOUNT))
    client, _ = with_http(service, event_hooks={"request": [on_request], "response": [on_response]})
    await client.account.get()
    assert asked == ["/v1/account"] * 2
    assert answered == [503, 200]
    assert [request.headers["x-trace"] for request in service.requests] == ["0", "1"]


async def test_a_hook_may_read_the_body() -> None:
    bodies = []

    async def on_response(response: httpx.Response) -> None:
        bodies.append(await response.aread())

    service = Service(ok(ACCOUNT), failed(404))
    client, _ = with_http(service, event_hooks={"response": [on_response]})
    assert (await client.account.get()).id == "acc_1"
    with pytest.raises(NotFoundError, match="told why"):
        await client.agents.get("a1")
    assert len(bodies) == 2


async def test_a_hook_that_raises_for_status_does_not_turn_it_into_a_lost_connection() -> None:
    """Many clients have such a hook; a 404 must not be asked for six times because of it."""

    async def on_response(response: httpx.Response) -> None:
        response.raise_for_status()

    service = Service(failed(404), failed(503, retry_after="7"), ok(ACCOUNT))
    clock = VirtualClock()
    http = httpx.AsyncClient(transport=httpx.MockTransport(service), event_hooks={"response": [on_response]})
    client = client_of(service, clock, http_client=http)
    with pytest.raises(NotFoundError):
        await client.agents.get("a1")
    assert clock.waits == []
    await client.account.get()
    assert clock.waits == [named(7)]


async def test_a_hook_that_fails_is_not_hidden() -> None:
    async def on_request(request: httpx.Request) -> None:
        raise KeyError("the hook's own mistake")

    client, _ = with_http(Service(), event_hooks={"request": [on_request]})
    with pytest.raises(KeyError):
        await client.account.get()


async def test_gzip_is_undone_once() -> None:
    import gzip
    import json

    packed = gzip.compress(json.dumps(ACCOUNT).encode())
    service = Service(
        httpx.Response(200, headers={"content-encoding": "gzip"}, content=packed),
        httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(packed)),
        httpx.Response(200, headers={"content-encoding": "br"}, stream=httpx.ByteStream(b"x")),
    )
    client, _ = with_http(service)
    assert (await client.account.get()).id == "acc_1"
    assert (await client.account.get()).id == "acc_1"
    with pytest.raises(APIResponseError):
        await client.account.get()


async def test_its_cookies_stay_its_own_business() -> None:
    service = Service(ok(ACCOUNT, set_cookie="session=1; Path=/"), ok(ACCOUNT))
    client, http = with_http(service, cookies={"theirs": "yes"})
    await client.account.get()
    await client.account.get()
    assert service.requests[0].headers["cookie"] == "theirs=yes"
    assert http.cookies["theirs"] == "yes"
