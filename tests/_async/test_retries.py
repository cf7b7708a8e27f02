"""Which failures are sent again, how often, and after which waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIError,
    APIResponseError,
    APIStatusError,
    AsyncTradeClient,
    InternalServerError,
    NotFoundError,
)

from .._answers import ACCOUNT, Scripted, Service, bare, created, failed, forever, ok
from .._clock import VirtualClock
from .._rows import each_of
from ._client import client_of

pytestmark = pytest.mark.twin

Act = Callable[[AsyncTradeClient], Any]
READ: Act = lambda c: c.account.get()  # noqa: E731 - a table of calls reads best as lambdas
PATCH: Act = lambda c: c.agents.update("a1", name="n")  # noqa: E731
DELETE: Act = lambda c: c.agents.delete("a1")  # noqa: E731
CREATE: Act = lambda c: c.agents.create(name="mine", wallet_id="w1", chain_id=8453)  # noqa: E731
PLAIN_POST: Act = lambda c: c.request("POST", "/v1/later", json={})  # noqa: E731

NOT_SENT = [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), httpx.PoolTimeout("busy")]
LOST = [
    httpx.ReadTimeout("silent"),
    httpx.WriteTimeout("stuck"),
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    httpx.RemoteProtocolError("cut short"),
]


def backoff_only(waits: list[float]) -> None:
    """Never earlier than 2^k, at most a quarter more, 60 s at most."""
    for k, wait in enumerate(waits, 1):
        assert 2**k <= wait <= min(60.0, 2**k + max(0.25 * 2**k, 0.25))


async def persistent(act: Act, make: Callable[[], Scripted], **options: Any) -> tuple[int, APIError, VirtualClock]:
    """How often it is sent when it fails in the same way each time, and how it ends."""
    service, clock = Service(*(make() for _ in range(10))), VirtualClock()
    with pytest.raises(APIError) as caught:
        await act(client_of(service, clock, **options))
    assert caught.value.retries == len(clock.waits)
    assert len(service.requests) == len(clock.waits) + 1
    backoff_only(clock.waits)
    return len(service.requests), caught.value, clock


SIX_TIMES: list[tuple[str, list[Act], Callable[[], Scripted]]] = [
    *((f"{error!r}", [READ, PATCH, DELETE, CREATE, PLAIN_POST], lambda error=error: error) for error in NOT_SENT),
    *((f"{error!r}", [READ, PATCH, DELETE], lambda error=error: error) for error in LOST),
    ("429", [READ, PATCH, DELETE, CREATE, PLAIN_POST], lambda: failed(429)),
    ("429 of a proxy", [READ, PATCH, DELETE, CREATE, PLAIN_POST], lambda: bare(429)),
    ("503", [READ, PATCH, DELETE, CREATE, PLAIN_POST], lambda: failed(503)),
    ("503 of a proxy", [READ, PATCH, DELETE], lambda: bare(503)),
    ("502", [READ, PATCH, DELETE], lambda: bare(502)),
    ("504", [READ, PATCH, DELETE], lambda: bare(504)),
]


@pytest.mark.rule("retry.five")
@each_of(("act", "make"), [(act, make) for _, acts, make in SIX_TIMES for act in acts])
async def test_five_retries(act: Act, make: Callable[[], Scripted]) -> None:
    times, _, clock = await persistent(act, make)
    assert times == 6
    assert 62 <= sum(clock.waits) <= 62 * 1.25 + 1


@pytest.mark.rule("error.500", "retry.500")
@each_of("act", [READ, PATCH, DELETE])
async def test_500_is_sent_again_twice(act: Act) -> None:
    times, error, _ = await persistent(act, lambda: failed(500))
    assert times == 3
    assert isinstance(error, InternalServerError)
    assert error.outcome == ("none" if act is READ else "unknown")


@pytest.mark.rule("error.500")
@each_of("act", [CREATE, PLAIN_POST])
async def test_500_of_a_post_is_raised_with_its_outcome_unknown(act: Act) -> None:
    times, error, _ = await persistent(act, lambda: failed(500))
    assert times == 1
    assert isinstance(error, InternalServerError)
    assert error.outcome == "unknown"
    assert "check before sending it again" in str(error)


@each_of("failure", [*LOST, bare(502), bare(503), bare(504)])
async def test_post_without_a_way_to_look_is_not_sent_again(failure: Scripted) -> None:
    service = Service(failure)
    with pytest.raises(APIError) as caught:
        await PLAIN_POST(client_of(service))
    assert caught.value.outcome == "unknown"
    assert len(service.requests) == 1


async def test_one_counter_for_all_causes() -> None:
    answers: list[Scripted] = [httpx.ReadError("x"), failed(429), failed(503), failed(500), httpx.ConnectError("x")]
    service, clock = Service(*answers, failed(502), ok(ACCOUNT)), VirtualClock()
    with pytest.raises(APIStatusError) as caught:
        await READ(client_of(service, clock))
    assert (caught.value.status, caught.value.retries, service.left) == (502, 5, 1)
    backoff_only(clock.waits)


async def test_the_outcome_stays_unknown_after_a_later_failure_that_would_be_none() -> None:
    """The first attempt may have changed it, whatever is answered afterwards."""
    service = Service(httpx.ReadTimeout("silent"), failed(409))
    with pytest.raises(APIStatusError) as caught:
        await PATCH(client_of(service))
    assert (caught.value.status, caught.value.outcome) == (409, "unknown")


async def test_an_answer_that_makes_no_sense_is_not_asked_for_again() -> None:
    service = Service(ok([1]), ok([1]), ok([1]))
    client = client_of(service)
    with pytest.raises(APIResponseError) as read:
        await READ(client)
    with pytest.raises(APIResponseError) as patched:
        await PATCH(client)
    with pytest.raises(APIResponseError) as made:
        await CREATE(client)
    assert [caught.value.outcome for caught in (read, patched, made)] == ["none", "unknown", "unknown"]


@each_of("first", [httpx.ReadTimeout("silent"), httpx.RemoteProtocolError("cut"), failed(500), bare(502), bare(503)])
async def test_delete_repeated_after_an_unknown_outcome_finds_it_gone(first: Scripted) -> None:
    service = Service(first, failed(404))
    await DELETE(client_of(service))
    assert service.sent == ["DELETE /v1/agents/a1"] * 2


@each_of("first", [httpx.ConnectError("refused"), failed(429), failed(503)])
async def test_delete_repeated_after_it_was_certainly_not_done_does_not_take_404_for_success(first: Scripted) -> None:
    with pytest.raises(NotFoundError):
        await DELETE(client_of(Service(first, failed(404))))


async def test_delete_of_what_is_not_there() -> None:
    with pytest.raises(NotFoundError):
        await DELETE(client_of(Service(failed(404))))


async def test_patch_that_finds_it_gone_fails() -> None:
    with pytest.raises(NotFoundError):
        await PATCH(client_of(Service(httpx.ReadTimeout("silent"), failed(404))))


@each_of(
    ("status", "tries"),
    [(503, [6] * 7 + [1] * 3), (500, [3] * 17 + [2, 1, 1]), (429, [6] * 20 + [1] * 3)],  # 500 tokens: 14 or 5 a retry
)
async def test_the_retry_budget_ends_the_retries_of_an_outage(status: int, tries: list[int]) -> None:
    service = Service(*[forever(lambda: failed(status))] * sum(tries))
    client = client_of(service, throttle=False)
    found = []
    for _ in tries:
        before = len(service.requests)
        with pytest.raises(APIStatusError):
            await READ(client.with_options(deadline=1000))  # copies share the budget
        found.append(len(service.requests) - before)
    assert found == tries


async def test_success_gives_the_budget_back() -> None:
    answers: list[Scripted] = [failed(503), ok(created())] * 50
    service = Service(*answers)
    client = client_of(service)
    for _ in range(50):
        await CREATE(client)
    assert service.left == 0


async def test_the_budget_is_never_fuller_than_at_first_and_a_success_without_retries_gives_back_one_token() -> None:
    """While a call is retried, others succeed: what they give back and what it gives back are more than was taken."""
    requests = 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        if requests == 1 or outage:
            return failed(503)
        if requests == 2:
            for _ in range(13):  # each gives back 1, and this call 14 when it has its answer
                await READ(client)
        return ok(ACCOUNT)

    outage = False
    client = client_of(Service(), http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    await READ(client)
    assert requests == 15
    found = []
    for number in range(13):  # 35 retries leave 10 of 500 tokens, and the next one costs 14
        outage, before = True, requests
        with pytest.raises(APIStatusError):
            await READ(client.with_options(deadline=1000))
        found.append(requests - before)
        outage = False
        if number > 7:
            await READ(client)
    assert found == [6] * 7 + [1] * 5 + [2]
