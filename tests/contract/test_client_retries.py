"""The specification's rules for sending a request again, kept by both clients, on a clock that never sleeps."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIStatusError,
    AsyncTradeClient,
    ConfigError,
    InternalServerError,
    RateLimitError,
    RetryPolicy,
    ServiceUnavailableError,
    TradeClient,
)

from .._clock import START, VirtualClock
from .._rows import each_of
from ._golden import errors, load

FLAVOURS = ["blocking", "async"]
METHODS: dict[str, Callable[[Any], Any]] = {
    "GET": lambda client: client.account.get(),
    "POST": lambda client: client.agents.create(name="a", wallet_id="w", chain_id=8453),
    "PATCH": lambda client: client.agents.update("a", name="b"),
    "DELETE": lambda client: client.agents.delete("a"),
}
GOOD = {
    "GET": httpx.Response(200, json=load("account.json")),
    "POST": httpx.Response(201, json=load("agent_created.json")),
    "PATCH": httpx.Response(200, json=load("agent_updated.json")),
    "DELETE": httpx.Response(204),
}


class Service:
    """Refuses so many times, then answers well."""

    def __init__(self, refusal: httpx.Response, times: int) -> None:
        self.refusal = refusal
        self.times = times
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.refusal if len(self.requests) <= self.times else GOOD[request.method]
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def call(flavour: str, method: str, service: Service, clock: VirtualClock) -> None:
    settings: dict[str, Any] = {"api_key": "k", "base_url": "https://service.example", "clock": clock, "deadline": 900}
    transport = httpx.MockTransport(service)
    if flavour == "blocking":
        with httpx.Client(transport=transport) as http:
            METHODS[method](TradeClient(http_client=http, **settings))
        return

    async def run() -> None:
        async with httpx.AsyncClient(transport=transport) as http:
            await METHODS[method](AsyncTradeClient(http_client=http, **settings))

    asyncio.run(run())


def refusal(status: int, **headers: str) -> httpx.Response:
    (name,) = (name for name in errors() if name.startswith(f"errors/{status}_") and "signature" not in name)
    return httpx.Response(
        status, json=load(name), headers={key.replace("_", "-"): value for key, value in headers.items()}
    )


@pytest.mark.rule("auth.bearer", "error.503", "retry.429", "retry.503")
@each_of("flavour", FLAVOURS)
@each_of("method", METHODS)
@each_of("status", [429, 503])
def test_429_and_503_are_sent_again(flavour: str, method: str, status: int) -> None:
    service, clock = Service(refusal(status), times=1), VirtualClock()
    call(flavour, method, service, clock)
    first, second = service.requests
    assert (first.method, first.url, first.content) == (second.method, second.url, second.content)
    assert second.headers["authorization"] == "Bearer k"
    assert len(clock.waits) == 1


@pytest.mark.rule("retry.other-4xx")
@each_of("flavour", FLAVOURS)
@each_of("method", METHODS)
@each_of("name", [name for name in errors() if name.startswith("errors/4") and "429" not in name])
def test_other_4xx_are_never_sent_again(flavour: str, method: str, name: str) -> None:
    service, clock = Service(httpx.Response(int(name[7:10]), json=load(name)), times=99), VirtualClock()
    with pytest.raises(APIStatusError) as caught:
        call(flavour, method, service, clock)
    assert caught.value.service_code == load(name)["error"]["code"]
    assert len(service.requests) == 1
    assert clock.waits == []


@pytest.mark.rule("retry.503", "retry.backoff", "retry.cap", "retry.five")
@each_of("flavour", FLAVOURS)
@each_of(("status", "error"), [(429, RateLimitError), (503, ServiceUnavailableError)])
def test_five_retries_that_wait_longer_each_time(flavour: str, status: int, error: type[APIStatusError]) -> None:
    service, clock = Service(refusal(status), times=99), VirtualClock()
    with pytest.raises(error) as caught:
        call(flavour, "GET", service, clock)
    assert len(service.requests) == 6
    assert caught.value.retries == 5
    for retry, wait in enumerate(clock.waits, start=1):
        assert 2**retry <= wait <= 60
    assert clock.waits == sorted(clock.waits)


@pytest.mark.rule("retry.jitter")
@each_of("flavour", FLAVOURS)
def test_waits_are_jittered(flavour: str) -> None:
    waits = set()
    for _ in range(12):
        service, clock = Service(refusal(503), times=1), VirtualClock()
        call(flavour, "GET", service, clock)
        waits.add(clock.waits[0])
    assert len(waits) > 6
    assert min(waits) >= 2


@pytest.mark.rule("retry.retry-after", "retry.reset")
@each_of("flavour", FLAVOURS)
@each_of("status", [429, 503])
@each_of(("after", "reset", "least"), [("38", None, 38), (None, 47, 47), ("10", 50, 50), ("50", 10, 50)])
def test_what_the_headers_say_is_waited_for(
    flavour: str, status: int, after: str | None, reset: int | None, least: int
) -> None:
    """The later of both."""
    headers = {"Retry_After": after, "X_RateLimit_Reset": None if reset is None else str(START + reset)}
    said = {name: value for name, value in headers.items() if value is not None}
    service, clock = Service(refusal(status, **said), times=1), VirtualClock()
    call(flavour, "GET", service, clock)
    assert clock.waits[0] >= least


@pytest.mark.rule("error.500", "retry.500")
@each_of("flavour", FLAVOURS)
@each_of("method", METHODS)
def test_a_persistent_500_is_given_up(flavour: str, method: str) -> None:
    service, clock = Service(refusal(500), times=99), VirtualClock()
    with pytest.raises(InternalServerError):
        call(flavour, method, service, clock)
    assert len(service.requests) <= 6


@pytest.mark.rule("retry.five")
def test_no_setting_allows_more_than_five_retries() -> None:
    assert RetryPolicy().max_retries == 5
    with pytest.raises(ConfigError, match="max_retries"):
        RetryPolicy(max_retries=6)


@pytest.mark.rule("retry.cap")
def test_our_own_wait_is_capped_at_a_minute() -> None:
    """Five retries stay below the cap; a policy with a larger base shows it."""
    service, clock = Service(refusal(503), times=99), VirtualClock()
    with httpx.Client(transport=httpx.MockTransport(service)) as http:
        client = TradeClient(
            api_key="k",
            base_url="https://service.example",
            clock=clock,
            deadline=900,
            retry=RetryPolicy(base=20),
            http_client=http,
        )
        with pytest.raises(ServiceUnavailableError):
            client.account.get()
    assert clock.waits[0] >= 40
    assert clock.waits[1:] == [60, 60, 60, 60]
