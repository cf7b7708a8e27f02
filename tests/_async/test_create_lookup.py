"""A create whose answer was lost: the client looks whether it happened before it sends it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    Agent,
    AmbiguousOutcomeError,
    APIConnectionError,
    APIStatusError,
    AsyncTradeClient,
    RateLimitError,
    Wallet,
)

from .._answers import Scripted, Service, agent, bare, created, failed, ok, page, summary, wallet
from .._clock import START, VirtualClock, http_date
from .._rows import each_of
from ._client import client_of

pytestmark = pytest.mark.twin

ADDRESS = "0x" + "Ab" * 20
LISTED = "GET /v1/agents?limit=100"
POSTED = "POST /v1/agents"


async def create(client: AsyncTradeClient) -> Agent:
    return await client.agents.create(name="mine", wallet_id="w1", chain_id=8453)


async def connect(client: AsyncTradeClient) -> Wallet:
    return await client.wallets.connect(address=ADDRESS, chain_id=8453, label="l", signature="0x1")


def lost() -> Exception:
    return httpx.ReadTimeout("silent")


OPEN: list[Callable[[], Scripted]] = [
    lost,
    lambda: httpx.RemoteProtocolError("cut short"),
    lambda: bare(502),
    lambda: bare(503),
    lambda: bare(504),
]


@each_of("failure", OPEN)
async def test_found_agent_is_read_whole(failure: Callable[[], Scripted]) -> None:
    service = Service(failure(), ok(page([summary("a0", name="other"), summary("a9")])), ok(agent("a9")))
    found = await create(client_of(service))
    assert service.sent == [POSTED, LISTED, "GET /v1/agents/a9"]
    assert found.id == "a9"
    assert found.stats is not None


@each_of("failure", OPEN)
async def test_nothing_found_is_sent_again_with_the_same_bytes(failure: Callable[[], Scripted]) -> None:
    service = Service(failure(), ok(page([])), ok(created("a1"), 201))
    assert (await create(client_of(service))).id == "a1"
    assert service.sent == [POSTED, LISTED, POSTED]
    assert service.requests[0].content == service.requests[2].content


@each_of(
    "other",
    [
        summary("a9", name="Mine"),
        summary("a9", wallet_id="w2"),
        summary("a9", chain_id=56),
        summary("a9", created_at=START - 70),
        summary("a9", created_at=START - 86_400),
    ],
)
async def test_another_agent_is_not_taken_for_it(other: Any) -> None:
    """Another name, wallet or chain, or one that is older than the call."""
    service = Service(lost(), ok(page([other]), date=http_date(START + 2)), ok(created("a1"), 201))
    assert (await create(client_of(service))).id == "a1"


@each_of("skew", [3600, -3600])
async def test_age_is_told_by_the_clock_of_the_service(skew: int) -> None:
    date = http_date(START + skew + 2)  # two virtual seconds after the call began
    old, new = summary("a8", created_at=START + skew - 70), summary("a9", created_at=START + skew + 1)
    service = Service(lost(), ok(page([old, new]), date=date), ok(agent("a9")))
    assert (await create(client_of(service))).id == "a9"


async def test_what_another_call_of_this_client_made_is_not_taken() -> None:
    """Two of the same name made one after the other: the second is not mistaken for the first."""
    service = Service(
        ok(created("a1"), 201),
        lost(),
        ok(page([summary("a1")])),
        ok(created("a2"), 201),
    )
    client = client_of(service)
    assert [(await create(client)).id, (await create(client.with_options(max_retries=2))).id] == ["a1", "a2"]


async def test_what_was_found_once_is_not_found_again() -> None:
    service = Service(
        lost(),
        ok(page([summary("a1", created_at=START)]), date=http_date(START + 2)),
        ok(agent("a1")),
        lost(),
        ok(page([summary("a2", created_at=START + 4), summary("a1", created_at=START)]), date=http_date(START + 5)),
        ok(agent("a2")),
    )
    client = client_of(service)
    assert [(await create(client)).id, (await create(client)).id] == ["a1", "a2"]


@each_of(
    ("created_at", "date"),
    [(START - 3, START + 2), (START - 59, START + 2), (START - 3600, None), (START + 1, START + 32)],
)
async def test_what_may_be_older_or_newer_than_the_call_is_ambiguous(created_at: int, date: int | None) -> None:
    """The clock that stamps it and the one that writes Date may differ; without Date nothing can be told."""
    headers: dict[str, Any] = {} if date is None else {"date": http_date(date)}
    service = Service(lost(), ok(page([summary("a9", created_at=created_at)]), **headers))
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service))
    assert caught.value.candidates == ("a9",)


async def test_a_machine_that_slept_in_between_still_finds_it() -> None:
    """The monotonic clock may stand still while a machine sleeps; the wall's goes on."""

    class Suspended(VirtualClock):
        def now(self) -> float:
            return super().now() + (3600 if self.waits else 0)

    listed = ok(page([summary("a9", created_at=START)]), date=http_date(START + 3602))
    service = Service(lost(), listed, ok(agent("a9")))
    assert (await create(client_of(service, Suspended()))).id == "a9"


@each_of(("asked", "stored"), [("mine ", "mine"), ("cafe\u0301", "caf\u00e9")])
async def test_a_name_that_the_service_tidies_is_still_the_same(asked: str, stored: str) -> None:
    service = Service(lost(), ok(page([summary("a9", name=stored)])), ok(agent("a9", name=stored)))
    found = await client_of(service).agents.create(name=asked, wallet_id="w1", chain_id=8453)
    assert found.id == "a9"


async def test_nothing_is_sent_when_the_deadline_passed_while_looking() -> None:
    clock = VirtualClock()

    def slowly(request: httpx.Request) -> httpx.Response:
        clock.advance(20)
        return ok(page([]), date=http_date(START + 20))

    service = Service(lost(), slowly)
    with pytest.raises(APIConnectionError) as caught:
        await create(client_of(service, clock, deadline=10))
    assert (caught.value.outcome, service.sent) == ("unknown", [POSTED, LISTED])


@each_of("trouble", [RuntimeError("no key in the vault"), ""])
async def test_what_goes_wrong_later_does_not_hide_that_it_may_have_happened(trouble: Exception | str) -> None:
    keys: list[Exception | str] = ["key-one-of-two", trouble]

    def key() -> str:
        given = keys.pop(0) if keys else trouble
        if isinstance(given, Exception):
            raise given
        return given

    service = Service(lost())
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service, api_key=key))
    assert "vault" not in str(caught.value)
    assert caught.value.outcome == "unknown"


async def test_while_another_create_alike_is_under_way_what_is_found_may_be_the_others() -> None:
    service = Service(lost(), ok(page([summary("a9")])))
    client = client_of(service)
    client._session.creating.append(("mine", "w1", 8453))
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client)
    assert caught.value.candidates == ("a9",)
    assert client._session.creating == [("mine", "w1", 8453)]


async def test_several_are_ambiguous() -> None:
    service, clock = Service(lost(), ok(page([summary("a1"), summary("a2")]))), VirtualClock()
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service, clock))
    error = caught.value
    assert error.candidates == ("a1", "a2")
    assert (error.outcome, error.retries, len(clock.waits)) == ("unknown", 0, 1)
    assert (error.method, error.url.endswith("/v1/agents")) == ("POST", True)


@each_of("answer", [failed(403), failed(500), ok([1]), ok({"data": [{}]})])
async def test_look_that_fails_is_ambiguous(answer: httpx.Response) -> None:
    service = Service(lost(), *[lambda request: answer] * 3)
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service))
    assert caught.value.candidates == ()
    assert caught.value.__cause__ is not None
    assert service.sent.count(POSTED) == 1


async def test_found_but_not_readable_names_the_one_found() -> None:
    service = Service(lost(), ok(page([summary("a9")])), failed(403))
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service))
    assert caught.value.candidates == ("a9",)
    assert service.sent.count(POSTED) == 1


async def test_look_is_retried_like_any_read() -> None:
    service = Service(lost(), failed(503), httpx.ReadError("reset"), ok(page([summary("a9")])), ok(agent("a9")))
    assert (await create(client_of(service))).id == "a9"


async def test_look_goes_through_all_pages() -> None:
    """Also past one that is empty and has a cursor."""
    service = Service(
        lost(),
        ok(page([summary("a0", name="other")], "c1")),
        ok(page([], "c2")),
        ok(page([summary("a9")])),
        ok(agent("a9")),
    )
    assert (await create(client_of(service))).id == "a9"
    assert service.sent[1:4] == [LISTED, LISTED + "&cursor=c1", LISTED + "&cursor=c2"]


async def test_look_at_a_list_that_never_ends() -> None:
    """It cannot tell that it is not there, so nothing is sent again."""
    service = Service(lost(), ok(page([], "c1")), ok(page([], "c2")), ok(page([], "c1")))
    with pytest.raises(AmbiguousOutcomeError):
        await create(client_of(service))
    assert service.sent.count(POSTED) == 1


async def test_every_later_attempt_looks_first() -> None:
    """Once it may have happened, a 429 on the second attempt does not make a third one safe."""
    service = Service(
        lost(),
        ok(page([])),
        failed(429),
        ok(page([summary("a9")])),
        ok(agent("a9")),
    )
    assert (await create(client_of(service))).id == "a9"
    assert service.sent == [POSTED, LISTED, POSTED, LISTED, "GET /v1/agents/a9"]


@each_of("failure", [httpx.ConnectError("refused"), httpx.PoolTimeout("busy"), failed(429), failed(503)])
async def test_no_look_when_it_certainly_did_not_happen(failure: Scripted) -> None:
    service = Service(failure, ok(created("a1"), 201))
    assert (await create(client_of(service))).id == "a1"
    assert service.sent == [POSTED, POSTED]


async def test_retries_used_up_leave_the_outcome_unknown() -> None:
    answers = [answer for _ in range(5) for answer in (lost(), ok(page([])))]
    service, clock = Service(*answers, lost()), VirtualClock()
    with pytest.raises(APIConnectionError) as caught:
        await create(client_of(service, clock))
    assert (caught.value.outcome, caught.value.retries) == ("unknown", 5)
    assert service.sent.count(POSTED) == 6


async def test_refused_in_the_end_is_still_unknown() -> None:
    """The first attempt may have happened after the look."""
    service = Service(lost(), ok(page([])), failed(422))
    with pytest.raises(APIStatusError) as caught:
        await create(client_of(service))
    assert (caught.value.status, caught.value.outcome) == (422, "unknown")


async def test_look_keeps_to_the_deadline_of_the_call() -> None:
    service, clock = Service(lost(), failed(429, retry_after="100")), VirtualClock()
    with pytest.raises(AmbiguousOutcomeError) as caught:
        await create(client_of(service, clock, deadline=50))
    assert isinstance(caught.value.__cause__, RateLimitError)
    assert clock.monotonic() - 500 < 50


async def test_wallet_found_in_the_list_is_the_answer() -> None:
    """Addresses are compared without their capitals; the list shows a wallet whole."""
    other = [wallet("w7", chain_id=56), wallet("w8", address="0x" + "cd" * 20)]
    service = Service(lost(), ok(page([*other, wallet("w9", address=ADDRESS.lower())])))
    assert (await connect(client_of(service))).id == "w9"
    assert service.sent == ["POST /v1/wallets", "GET /v1/wallets?chain_id=8453&limit=100"]


async def test_wallet_not_found_is_sent_again() -> None:
    service = Service(lost(), ok(page([])), ok(wallet("w1"), 201))
    assert (await connect(client_of(service))).id == "w1"
    assert json.loads(service.requests[2].content)["signature"] == "0x1"


async def test_wallet_that_was_connected_before_is_reported_as_the_service_does() -> None:
    service = Service(lost(), ok(page([wallet("w1", created_at=START - 70)]), date=http_date(START + 2)), failed(409))
    with pytest.raises(APIStatusError) as caught:
        await connect(client_of(service))
    assert caught.value.status == 409
