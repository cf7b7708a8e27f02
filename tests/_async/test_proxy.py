"""Proxies that the environment names."""

from __future__ import annotations

import json
import traceback
from base64 import b64encode

import pytest

from tradesdk import APIConnectionError, APIResponseError, AsyncChainWitness, AsyncMarketClient, ConfigError

from .._answers import ACCOUNT
from .._clock import VirtualClock
from .._hostile import answer, hostile
from .._ports import free_port
from .._requirements import install
from .._rows import each_of
from ._client import connected

pytestmark = pytest.mark.twin

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


@each_of("place", ["socks5://user:hunter2@elsewhere.example:9", "foo://user:hunter2@elsewhere.example:9",
                   "http://user:hunter2@\u2019.elsewhere.example:9"])  # fmt: skip
@each_of("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
async def test_an_unusable_proxy_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    name_proxy(monkeypatch, "", without="")
    monkeypatch.setenv(name, place)
    for client in (
        lambda: connected("https://service.example"),
        lambda: AsyncMarketClient(base_url="https://service.example"),
        lambda: AsyncChainWitness("https://service.example/key"),
    ):
        with pytest.raises(ConfigError, match=rf"^{name} cannot be used: ") as caught:
            client()
        shown = "".join(traceback.format_exception(caught.value)) + caught.value.hint
        assert "hunter2" not in shown
        assert "elsewhere" not in shown
        if place.startswith("socks5"):
            assert install("httpx").replace("httpx", "httpx[socks]") in shown


ODD = {
    "an IPv6 network": {"NO_PROXY": "localhost,fd07::/64"},
    "an IPv6 address": {"NO_PROXY": "[::1],[::1]:8080,::1"},
    "a name with umlauts": {"NO_PROXY": "bücher.example"},
    "SOCKS for what has no proxy of its own": {"ALL_PROXY": "socks5h://127.0.0.1:9"},
    "SOCKS for http": {"HTTP_PROXY": "socks5://127.0.0.1:9"},
    "a carriage return": {"HTTPS_PROXY": "{}\r", "NO_PROXY": "other.example\r"},
    "a password with a number sign": {"HTTPS_PROXY": "http://user:pa#ss@{place}"},
    "junk for http": {"HTTP_PROXY": "://", "http_proxy": "[", "NO_PROXY": "[,],/,\udc80"},
}


@each_of("variables", ODD.values(), ids=ODD)
async def test_only_what_applies_to_the_url_counts(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """One odd word beside it makes no client unusable."""
    with hostile(lambda visit: None if visit.send(answer(status="403 Forbidden")) else visit.close()) as proxy:
        name_proxy(monkeypatch, "", without="")
        for name, value in ({"HTTPS_PROXY": "{}"} | variables).items():
            monkeypatch.setenv(name, value.replace("{place}", proxy.url[7:]).replace("{}", proxy.url))
        async with connected("https://service.example") as client:
            with pytest.raises(APIConnectionError, match="the proxy of HTTPS_PROXY refused: 403"):
                await client.account.get()
        (visit,) = proxy.visits
        assert visit.head.startswith(b"CONNECT service.example:443 ")
        given = b"\r\nproxy-authorization: basic " + b64encode(b"user:pa#ss").lower()
        assert (given in visit.head.lower()) == ("@" in variables.get("HTTPS_PROXY", ""))


@each_of(
    ("name", "service", "place"),
    [
        ("HTTPS_PROXY", "https://service.example", "http://user:hunter2@127.0.0.1:{}"),
        ("all_proxy", "http://service.example", "https://user:hunter2@127.0.0.1:{}"),
        ("all_proxy", "http://service.example", "http://user:hunter2@nowhere.invalid:{}"),
    ],
)
async def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch, name: str, service: str, place: str) -> None:
    """The service may be well: the error names the proxy's variable, and not its value."""
    name_proxy(monkeypatch, "", without="")
    monkeypatch.setenv(name, place.format(free_port()))
    async with connected(service, clock=VirtualClock(), allow_insecure=True) as client:
        with pytest.raises(APIConnectionError, match=f"^could not connect to the proxy of {name}: ") as called:
            await client.account.get()
        with pytest.raises(APIConnectionError, match=f"^could not connect to the proxy of {name}: ") as opened:
            async with client.signals.stream(chain=8453, max_reconnects=1) as stream:
                await anext(stream)
    for error in (called.value, opened.value):
        assert (error.code, error.sent) == ("proxy_failed", False)
        assert "NO_PROXY" in error.hint
        assert "hunter2" not in "".join(traceback.format_exception(error))


async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key never leaves: the tunnel for https is refused before anything is sent."""
    with hostile(lambda visit: None if visit.send(answer(status="403 Forbidden")) else visit.close()) as proxy:
        name_proxy(monkeypatch, proxy.url, without="")
        async with connected("https://service.example") as client:
            with pytest.raises(APIConnectionError) as caught:
                await client.account.get()
            assert (caught.value.sent, caught.value.temporary) == (False, False)
            assert caught.value.code == "proxy_failed"
        (visit,) = proxy.visits
        assert visit.head.startswith(b"CONNECT service.example:443 ")
        assert b"authorization: bearer" not in visit.head.lower()


def name_proxy(monkeypatch: pytest.MonkeyPatch, url: str, *, without: str) -> None:
    for name, value in (("http_proxy", url), ("https_proxy", url), ("all_proxy", ""), ("no_proxy", without)):
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.upper(), value)
