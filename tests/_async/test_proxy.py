"""Proxies that the environment names."""

from __future__ import annotations

import json
import traceback

import pytest

from tradesdk import APIConnectionError, APIResponseError, ConfigError

from .._answers import ACCOUNT
from .._hostile import answer, hostile
from .._rows import each_of
from ._client import connected

GOOD = answer(json.dumps(ACCOUNT).encode())


async def test_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the whole request to a plain http service; what is too large is not read to its end there either."""
    huge = answer(b"x" * 6_000_000)
    sent = [GOOD, answer(json.dumps(ACCOUNT).encode(), set_cookie="a=1"), huge, GOOD]
    with hostile(lambda visit: None if visit.send(sent[visit.number]) else visit.close()) as proxy:
        name_proxy(monkeypatch, proxy.url, without="other.example")
        async with connected("http://service.example", allow_insecure=True) as client:
            await client.account.get()
            await client.account.get()
            with pytest.raises(APIResponseError, match="larger than 4 MiB"):
                await client.account.get()
            assert (await client.account.get()).id == "acc_1"
        for visit in proxy.visits:
            head = visit.head.lower()
            assert head.startswith(b"get http://service.example/v1/account http/1.1")
            assert b"authorization: bearer " in head
            assert b"cookie" not in head


async def test_a_host_that_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server:
        name_proxy(monkeypatch, "http://127.0.0.1:9", without="127.0.0.1")
        async with connected(server.url) as client:
            assert (await client.account.get()).id == "acc_1"
        assert server.visits[0].head.startswith(b"GET /v1/account ")


@each_of("address", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "foo://127.0.0.1:9"])
@each_of("host", ["127.0.0.1", "localhost"])
async def test_this_machine_needs_no_proxy(monkeypatch: pytest.MonkeyPatch, host: str, address: str) -> None:
    """Whatever the environment says: the key would be shown to another machine for nothing."""
    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server:
        name_proxy(monkeypatch, address, without="")
        async with connected(server.url.replace("127.0.0.1", host), max_retries=0) as client:
            assert (await client.account.get()).id == "acc_1"
        assert server.visits[0].head.startswith(b"GET /v1/account ")


@each_of("scheme", ["socks5", "foo"])
async def test_a_proxy_of_another_kind_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    name_proxy(monkeypatch, f"{scheme}://user:secret@elsewhere.example:9", without="")
    with pytest.raises(ConfigError, match="proxy") as caught:
        connected("https://service.example")
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret" not in shown
    assert "elsewhere" not in shown


async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key never leaves: the tunnel for https is refused before anything is sent."""
    with hostile(lambda visit: None if visit.send(answer(status="403 Forbidden")) else visit.close()) as proxy:
        name_proxy(monkeypatch, proxy.url, without="")
        async with connected("https://service.example") as client:
            with pytest.raises(APIConnectionError) as caught:
                await client.account.get()
            assert (caught.value.sent, caught.value.temporary) == (False, False)
        (visit,) = proxy.visits
        assert visit.head.startswith(b"CONNECT service.example:443 ")
        assert b"authorization: bearer" not in visit.head.lower()


def name_proxy(monkeypatch: pytest.MonkeyPatch, url: str, *, without: str) -> None:
    for name, value in (("http_proxy", url), ("https_proxy", url), ("no_proxy", without)):
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.upper(), value)
