"""The client itself: raw requests, settings, keys, copies, closing, logging."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIStatusError,
    AsyncTradeClient,
    AuthenticationError,
    ConfigError,
    InvalidArgumentError,
    RawResponse,
    RetryPolicy,
    Timeout,
    TradeError,
)

from .._answers import ACCOUNT, BASE, KEY, Service, failed, forever, ok, page
from .._clock import VirtualClock
from .._rows import each_of
from ._client import client_of


async def test_raw_request() -> None:
    service = Service(ok({"later": [1, None]}, 202, x_new="yes"))
    answer = await client_of(service).request(
        "post", "/v1/agents/a%2F1/start", query={"a": True, "b": None, "c": "ä &", "d": 1.5}, json={"x": None}
    )
    assert service.sent == ["POST /v1/agents/a%2F1/start?a=true&c=%C3%A4+%26&d=1.5"]
    (request,) = service.requests
    assert json.loads(request.content) == {"x": None}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert isinstance(answer, RawResponse)
    assert (answer.status, answer.headers["X-New"], answer.json()) == (202, "yes", {"later": [1, None]})


@each_of(
    "path",
    [
        "",
        "v1/account",
        "//elsewhere.example/v1/account",
        "https://elsewhere.example/v1/account",
        "/v1/agents/../account",
        "/v1/agents/.",
        "/v1/%2e%2e/admin",
        "/v1/%2E/admin",
        "/v1/account?x=1",
        "/v1/account#x",
        "/v1\\account",
        "/v1/a b",
        "/v1/ä",
        "/v1/a\r\nX-Evil: 1",
        *("@elsewhere.example/", ":80/", "/..", "/v1/..", "/v1/.%2e", "/v1/%2e%2e%2fadmin", "/v1/%2e%2fadmin"),
        *("/v1/x%2F..", "/v1/a\nb", "/v1/\x00", "/\\elsewhere.example", None, 5, b"/v1/account"),
    ],
)
async def test_raw_paths_that_are_refused(path: Any) -> None:
    service = Service()
    with pytest.raises(InvalidArgumentError, match="path must"):
        await client_of(service).request("GET", path)
    assert service.requests == []


@each_of(
    "method", ["", "TRACE", "CONNECT", "GET /v1/x HTTP/1.1\r\n", "GETT", "HEAD", "GET ", "\uff27ET", None, 5, b"GET"]
)
async def test_raw_methods_that_are_refused(method: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="method must be one of GET, PUT, PATCH, DELETE, POST"):
        await client_of(Service()).request(method, "/v1/account")


@pytest.mark.rule("auth.bearer")
async def test_key_from_a_function_is_read_for_every_attempt() -> None:
    """A bot changes its key without a restart, even in the middle of a call."""
    keys = iter(["key-1", "key-2", "key-3"])
    service = Service(failed(503), ok(ACCOUNT), ok(ACCOUNT))
    client = client_of(service, api_key=lambda: next(keys))
    await client.account.get()
    await client.with_options(max_retries=0).account.get()
    assert [request.headers["authorization"] for request in service.requests] == [
        "Bearer key-1",
        "Bearer key-2",
        "Bearer key-3",
    ]


def failing(kind: type[BaseException], said: str) -> Callable[[], str]:
    def source() -> str:
        raise kind(said)

    return source


@each_of("kind", [OSError, TimeoutError, ValueError, StopIteration, KeyError])
async def test_what_a_function_for_the_key_raises(kind: type[Exception]) -> None:
    """It is no lost connection, whatever it is: nothing was sent, and nothing is tried again."""
    service, clock = Service(), VirtualClock()
    with pytest.raises(ConfigError, match=f"api_key= raised {kind.__name__}; nothing was sent") as caught:
        await client_of(service, clock, api_key=failing(kind, f"cannot read {KEY}")).account.get()
    assert type(caught.value.__cause__) is kind
    assert KEY not in str(caught.value) + repr(caught.value)
    assert (service.requests, clock.waits) == ([], [])


@each_of("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_an_interrupt_of_that_function_passes_through(kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        await client_of(Service(), api_key=failing(kind, "")).account.get()


async def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRADE_API_KEY", raising=False)
    monkeypatch.delenv("TRADE_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="TRADE_API_KEY"):
        AsyncTradeClient(base_url=BASE)
    with pytest.raises(ConfigError, match="TRADE_BASE_URL"):
        AsyncTradeClient(api_key=KEY)
    monkeypatch.setenv("TRADE_API_KEY", "env-key")
    monkeypatch.setenv("TRADE_BASE_URL", "https://env.example/api/v1/")
    service = Service(ok(ACCOUNT))
    client = client_of(service, api_key=None, base_url=None)
    await client.account.get()
    assert client.base_url == "https://env.example/api"
    assert str(service.requests[0].url) == "https://env.example/api/v1/account"
    assert service.requests[0].headers["authorization"] == "Bearer env-key"


@each_of(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"max_retries": 6},
        {"max_retries": -1},
    ],
)
async def test_unusable_settings(options: Any) -> None:
    with pytest.raises(ConfigError):
        AsyncTradeClient(api_key=KEY, base_url=BASE, **options)
    with pytest.raises(ConfigError):
        client_of(Service()).with_options(**options)


@each_of(
    ("name", "value"),
    [("http_client", "http"), ("http_client", httpx.MockTransport(Service())), ("clock", 5), ("retry", 3)],
)
async def test_settings_of_the_wrong_type(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be an? "):
        AsyncTradeClient(api_key=KEY, base_url=BASE, **{name: value})


@each_of("name", ["throttle", "allow_insecure"])
async def test_a_switch_is_true_or_false(name: str) -> None:
    wrong: list[Any] = ["no", "", 0, 1, None, []]
    for value in wrong:
        with pytest.raises(ConfigError, match=f"^{name} must be True or False, not "):
            AsyncTradeClient(api_key=KEY, base_url=BASE, **{name: value})


async def test_timeouts() -> None:
    service = Service(*(ok(ACCOUNT) for _ in range(3)))
    client = client_of(service, timeout=7)
    await client.account.get()
    await client.with_options(timeout=Timeout(read=1, connect=None)).account.get()
    await client.with_options(deadline=3).account.get()
    assert [request.extensions["timeout"] for request in service.requests] == [
        {"connect": 7, "read": 7, "write": 7, "pool": 7},
        {"connect": 180.0, "read": 1, "write": 30.0, "pool": 10.0},
        {"connect": 3, "read": 3, "write": 3, "pool": 3},
    ]


async def test_copy_leaves_the_original_as_it_was() -> None:
    service, clock = Service(*(failed(503) for _ in range(7))), VirtualClock()
    client = client_of(service, clock, retry=RetryPolicy(base=0.0))
    copy = client.with_options(max_retries=0)
    with pytest.raises(APIStatusError):
        await copy.account.get()
    assert clock.waits == []
    with pytest.raises(APIStatusError):
        await client.account.get()
    assert len(clock.waits) == 5
    assert max(clock.waits) <= 0.25  # the copy and the original keep the policy's other settings


async def test_closing_a_copy_closes_nothing() -> None:
    async with AsyncTradeClient(api_key=KEY, base_url=BASE) as client:
        async with client.with_options(max_retries=0) as copy:
            pass
        await copy.aclose()
        assert not client._session.sender.is_closed
    assert client._session.sender.is_closed
    for closed in (client, copy):
        with pytest.raises(TradeError, match="closed"):
            await closed.account.get()
        with pytest.raises(TradeError, match="closed"):
            await closed.trades.list().first()
    await client.aclose()


async def test_a_pager_may_outlive_many_calls() -> None:
    service = Service(ok(page([], "c1")), ok(ACCOUNT), ok(page([])))
    client = client_of(service)
    async for _ in client.trades.list().pages():
        if len(service.requests) == 1:
            await client.account.get()
    assert len(service.requests) == 3


@pytest.mark.rule("auth.secret")
async def test_never_printed_nor_pickled() -> None:
    client = client_of(Service())
    assert repr(client).endswith(f"{BASE}>")
    assert KEY not in repr(client) + repr(vars(client)) + repr(client._session.key)
    with pytest.raises(TypeError):
        pickle.dumps(client)


@pytest.mark.rule("auth.secret")
async def test_log_has_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    secret = "marked-secret-key-5150"
    service = Service(failed(503), httpx.ReadTimeout("silent"), ok(ACCOUNT, x_echo=secret), failed(401), ok([1]))
    client = client_of(service, api_key=secret)
    with caplog.at_level(logging.DEBUG, logger="tradesdk"):
        await client.account.get()
        with pytest.raises(AuthenticationError):
            await client.wallets.connect(address="0x12", chain_id=56, label="l", signature="0xmarked-signature")
        with pytest.raises(TradeError):
            await client.account.get()
    ours = [record for record in caplog.records if record.name == "tradesdk"]
    lines = [record.getMessage() for record in ours]
    first, second = (line for line in lines if "trying again in" in line)
    assert first.startswith(f"503 service_unavailable: told why (GET {BASE}/v1/account); trying again in 2.")
    assert second.startswith(f"no answer in time (GET {BASE}/v1/account); trying again in ")
    assert any(line.startswith(f"GET {BASE}/v1/account: 200 in ") for line in lines)
    again = [vars(record) for record in ours if vars(record)["event"] == "retry"]
    assert [(fields["code"], fields["tries"]) for fields in again] == [("service_unavailable", 1), ("timeout", 2)]
    assert all(2 <= fields["wait"] < 6 and fields["url"] == f"{BASE}/v1/account" for fields in again)
    for record in ours:
        assert "marked" not in record.getMessage() + repr(vars(record))
        assert record.getMessage().isprintable()


async def test_log_is_silent_by_default(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(forever(lambda: ok(ACCOUNT)))
    with caplog.at_level(logging.WARNING, logger="tradesdk"):
        await client_of(service).account.get()
    assert [record for record in caplog.records if record.name == "tradesdk"] == []


BROKEN: list[Callable[[], str]] = [lambda: "", lambda: "a b"]


@each_of("source", BROKEN)
async def test_a_key_that_cannot_be_read_counts_nothing(source: Callable[[], str]) -> None:
    """The call can be made again as soon as there is a key."""
    keys: list[Callable[[], str]] = [source, lambda: KEY]
    service = Service(ok(ACCOUNT))
    client = client_of(service, api_key=lambda: keys.pop(0)())
    with pytest.raises(ConfigError):
        await client.account.get()
    assert (await client.account.get()).id == "acc_1"
