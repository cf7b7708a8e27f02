"""One rate limit for a fleet: the rules of `RateWindow` on a row that members share; and members without a server."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import format_datetime
from unittest.mock import patch

import httpx
import pytest

from tradesdk import AsyncTradeClient, SystemClock, TradeClient
from tradesdk._fleet.rate import AWAY, SharedWindow
from tradesdk._http.rate_limit import RateWindow
from tradesdk._postgres.server import server
from tradesdk.fleet import AsyncFleetRateLimiter, FleetRateLimiter, create_tables
from tradesdk.types import RateClaim
from tradesdk_mock import MockClock, MockService

from .._clock import VirtualClock
from .._ports import free_port
from .._postgres import Postgres, Proxy, new_schema
from .._rows import each_of


@pytest.fixture(scope="module")
def schema(postgres: Postgres) -> str:
    name = new_schema()
    create_tables(postgres.url(), schema=name)
    return name


@pytest.fixture
def key() -> str:
    return new_schema()


def headers(clock: VirtualClock, left: int, limit: object, ends: float) -> dict[str, str]:
    """Of an answer that the service writes now."""
    date = format_datetime(datetime.fromtimestamp(int(clock.now()), UTC), usegmt=True)
    named = {"x-ratelimit-limit": str(limit), "x-ratelimit-remaining": str(left), "x-ratelimit-reset": str(int(ends))}
    return {**named, "date": date}


def headers_of(left: int, limit: object) -> Callable[[VirtualClock], dict[str, str]]:
    return lambda clock: headers(clock, left, limit, clock.now() + 60)


@pytest.fixture
def members(postgres: Postgres, schema: str) -> Iterator[Callable[[VirtualClock], SharedWindow]]:
    made = []

    def member(clock: VirtualClock) -> SharedWindow:
        made.append(SharedWindow(server(postgres.url(), schema), clock))
        return made[-1]

    yield member
    for one in made:
        one.close()


def test_a_clock_that_is_set_begins_no_new_window(postgres: Postgres, schema: str, key: str) -> None:
    """Of a member that is connected: the server's time goes on by the monotonic clock."""
    members = [SharedWindow(server(postgres.url(), schema), SystemClock()) for _ in range(2)]
    real = SystemClock().now
    reset = str(int(real()) + 50)
    named = {"x-ratelimit-limit": "3", "x-ratelimit-remaining": "2", "x-ratelimit-reset": reset}
    members[0].answered(members[0].claim(key), named)
    assert [members[number].claim(key).wait for number in (0, 1)] == [0, 0]
    for seconds in (120, -120):
        with patch.object(SystemClock, "now", lambda clock, ahead=seconds: real() + ahead):
            assert [40 < member.claim(key).wait <= 50 for member in members] == [True, True]
    for member in members:
        member.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_members_together_follow_the_rules_of_one_window(
    members: Callable[[VirtualClock], SharedWindow], key: str, seed: int
) -> None:
    chance, clock, window = random.Random(seed), VirtualClock(), RateWindow()
    several = [members(clock) for _ in range(3)]
    ends, limit, left = clock.now() + 40, 9, 9
    for step in range(300):
        clock.advance(chance.choice([0.0, 0.5, 4.0, 9.0]) if step % 40 else chance.choice([70.0, 200.0]))
        if clock.now() >= ends:
            limit = chance.choice([9, 9, 4, 20])
            ends, left = clock.now() + chance.randint(20, 60), limit
        member = chance.choice(several)
        claim, wait = member.claim(key), window.claim(clock.now())
        assert claim.wait == pytest.approx(wait, abs=0.01), step
        assert bool(claim.id) == (wait == 0)
        if not wait:
            left = max(0, left - chance.choice([1, 1, 1, 2]))  # others use the key, too
            if chance.random() < 0.8:
                given = headers(clock, left, limit, ends)
                member.answered(claim, given)
                window.observe(given, now=lambda: clock.now(), monotonic=clock.now())


def test_a_request_that_was_not_sent_is_given_back(members: Callable[[VirtualClock], SharedWindow], key: str) -> None:
    clock = VirtualClock()
    one, other = members(clock), members(clock)
    one.answered(one.claim(key), headers(clock, 2, 60, clock.now() + 60))
    claims = [one.claim(key), other.claim(key)]
    assert [claim.wait for claim in claims] == [0, 0]
    refused = one.claim(key)
    assert refused.wait > 59
    one.failed(refused, sent=False)
    one.failed(claims[0], sent=True)  # the service may have counted it
    assert other.claim(key).wait > 59
    one.failed(claims[1], sent=False)
    assert other.claim(key).wait == 0
    assert one.claim(key).wait > 59


def test_what_is_given_back_is_gone_when_others_have_used_it(
    members: Callable[[VirtualClock], SharedWindow], key: str
) -> None:
    clock = VirtualClock()
    member = members(clock)
    ends = clock.now() + 60
    member.answered(member.claim(key), headers(clock, 2, 60, ends))
    unsent, sent = member.claim(key), member.claim(key)
    member.failed(unsent, sent=False)
    member.answered(sent, headers(clock, 0, 60, ends))
    assert member.claim(key).wait > 59


@pytest.mark.parametrize(("plan", "minutes"), [("free", 2), pytest.param("pro", 5, marks=pytest.mark.long)])
def test_many_clients_use_all_of_one_limit_and_no_more(
    postgres: Postgres, schema: str, plan: str, minutes: int
) -> None:
    chance = random.Random(5)
    with MockService(seed=7, clock=MockClock(1_760_000_000), signals="scripted") as mock, ExitStack() as stack:
        tenant = new_schema().replace("_", "")
        clients = []
        for _ in range(6):
            limiter = stack.enter_context(FleetRateLimiter(postgres.url(), schema=schema, clock=mock.clock))
            http = stack.enter_context(httpx.Client(transport=mock.transport(), base_url=mock.url))
            key = f"mock_full_{plan}_{tenant}"
            clients.append(
                TradeClient(api_key=key, http_client=http, clock=mock.clock, rate_limiter=limiter, deadline=9e5)
            )
        began = mock.clock.now()
        while mock.clock.now() < began + 60 * minutes:
            chance.choice(clients).account.get()
        statuses = [entry.status for entry in mock.journal(tenant)]
    print(f"{len(statuses)} requests in {minutes} minutes, {statuses.count(429)} refused")
    assert set(statuses) == {200}
    assert 0.95 <= len(statuses) / (minutes * {"free": 60, "pro": 300}[plan]) <= 1.01


async def test_asynchronous_clients_share_it(postgres: Postgres, schema: str) -> None:
    with MockService(seed=7, clock=MockClock(1_760_000_000), signals="scripted") as mock:
        tenant = new_schema().replace("_", "")
        for turn in range(3):
            async with (
                AsyncFleetRateLimiter(postgres.url(), schema=schema, clock=mock.clock) as limiter,
                httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http,
            ):
                key = f"mock_full_free_{tenant}"  # 60 a minute
                client = AsyncTradeClient(
                    api_key=key, http_client=http, clock=mock.clock, rate_limiter=limiter, deadline=9e5
                )
                for _ in range(25):
                    await client.account.get()
                assert limiter.rate_limit is not None
                assert (mock.clock.now() > 1_760_000_059) == (turn >= 2)
        assert {entry.status for entry in mock.journal(tenant)} == {200}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a scope of anyio cancels the caller, which then has the claim
async def test_a_claim_of_a_call_that_is_canceled_is_returned(
    postgres: Postgres, schema: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    claim = SharedWindow.claim

    def slowly(window: SharedWindow, name: str) -> RateClaim:
        begun.set()
        assert go_on.wait(60)
        return claim(window, name)

    clock = VirtualClock()
    async with AsyncFleetRateLimiter(postgres.url(), schema=schema, clock=clock) as limiter:
        await limiter.answered(await limiter.claim(key), 200, headers(clock, 1, 60, clock.now() + 60))
        with monkeypatch.context() as patched:
            patched.setattr(SharedWindow, "claim", slowly)
            task = asyncio.create_task(limiter.claim(key))
            await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert [bool((await limiter.claim(key)).wait) for _ in range(2)] == [False, True]


# Without a server


def test_a_member_continues_alone_with_its_share(
    postgres: Postgres, schema: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock, proxy = VirtualClock(), Proxy(postgres.port)
    place = server(postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/"), schema)
    member, others = SharedWindow(place, clock), []
    for _ in range(3):
        others.append(SharedWindow(server(postgres.url(), schema), clock))
    left = SharedWindow(server(postgres.url(), schema), clock)
    for one in (*others, left):
        one.claim(key)
    left.close()  # is no member any more; the one after it is one again
    others[0].close()
    others[0].claim(key)
    member.answered(member.claim(key), headers(clock, 50, 60, clock.now() + 60))
    assert member.claim(key).wait == 0
    caplog.set_level(logging.INFO, "tradesdk")
    proxy.cut()
    assert [bool(member.claim(key).wait) for _ in range(14)] == [False] * 12 + [True] * 2  # 49 are left for 4 members
    (warning,) = caplog.records
    assert (warning.event, warning.levelname) == ("fleet_alone", "WARNING")  # type: ignore[attr-defined]
    assert "15 requests a minute" in warning.getMessage()
    member.failed(RateClaim(id="granted", name=key), sent=False)
    assert [bool(member.claim(key).wait) for _ in range(2)] == [False, True], "one was returned"
    clock.advance(61)
    assert [bool(member.claim(key).wait) for _ in range(16)] == [False] * 15 + [True]
    proxy.join()
    member.answered(RateClaim(name=key), headers(clock, 9, 60, clock.now() + 50))  # says nothing while it is away
    clock.advance(AWAY)
    assert member.claim(key).wait == 0
    others[0].close()
    clock.advance(15)
    assert member.claim(key).wait == 0
    proxy.cut()
    assert member.claim(key).wait == 0
    events = [record.event for record in caplog.records]  # type: ignore[attr-defined]
    assert events == ["fleet_alone", "fleet_again", "fleet_alone"]
    assert "20 requests a minute" in caplog.records[-1].getMessage(), "the service's limit, by the members of now"
    for one in (member, *others):
        one.close()


@pytest.mark.parametrize(("limit", "sent"), [(2, 1), (None, 20)])
def test_a_share_is_one_request_at_least_and_without_a_limit_there_is_none(
    postgres: Postgres, schema: str, key: str, limit: int | None, sent: int
) -> None:
    clock, proxy = VirtualClock(), Proxy(postgres.port)
    place = server(postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/"), schema)
    members = [SharedWindow(place, clock) for _ in range(3)]
    for one in members:
        claim = one.claim(key)
        if limit is not None:
            one.answered(claim, headers(clock, limit, limit, clock.now() + 60))
    clock.advance(61)
    assert members[-1].claim(key).wait == 0
    proxy.cut()
    if limit is not None:
        assert members[-1].claim(key).wait, "the one that is left is not for three"
    clock.advance(60)
    assert [members[-1].claim(key).wait for _ in range(20)].count(0) == sent
    for one in members:
        one.close()


RIGHTS = {
    "none": "REVOKE ALL ON SCHEMA {schema} FROM {role}",
    "of the schema only": "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "to read": "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "to claim": "GRANT UPDATE, SELECT ON {schema}.windows TO {role}; GRANT ALL ON {schema}.members TO {role}",
}


@pytest.mark.parametrize(
    "rights",
    ["none", "to claim", *(pytest.param(one, marks=pytest.mark.long) for one in ("of the schema only", "to read"))],
)
def test_a_member_without_rights_continues_alone_too(
    postgres: Postgres, schema: str, key: str, rights: str, caplog: pytest.LogCaptureFixture
) -> None:
    role, clock = new_schema(), VirtualClock()
    postgres.do(f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    postgres.do(RIGHTS[rights].format(schema=schema, role=role))
    caplog.set_level(logging.INFO, "tradesdk")
    try:
        member = SharedWindow(server(postgres.url(role), schema), clock)
        for _ in range(30):
            claim = member.claim(key)
            assert claim.wait == 0
            member.answered(claim, headers(clock, 50, 60, clock.now() + 60))
            clock.advance(4)
        assert [(record.event, record.code) for record in caplog.records] == [("fleet_alone", "fleet_denied")]  # type: ignore[attr-defined]
        caplog.clear()
        postgres.do(
            f"GRANT USAGE ON SCHEMA {schema} TO {role}", f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
        )
        clock.advance(AWAY)
        assert member.claim(key).wait == 0
        assert [record.event for record in caplog.records] == ["fleet_again"]  # type: ignore[attr-defined]
        member.close()
    finally:
        postgres.do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@each_of("answered", [headers_of(5, 60), headers_of(5, None), headers_of(0, 60), headers_of(70, 60)])
def test_a_member_whose_server_was_never_there_is_a_client_without_a_fleet(
    key: str, answered: Callable[[VirtualClock], dict[str, str]]
) -> None:
    """It learns from each answer what that client learns, from the first one on."""
    clock, window = VirtualClock(), RateWindow()
    limiter = FleetRateLimiter(f"postgresql://me@127.0.0.1:{free_port()}/bots", clock=clock)
    waits = []
    for number in range(30):
        claim = limiter.claim(key)
        waits.append((claim.wait > 0, window.claim(clock.monotonic()) > 0))
        if number == 1:
            found = answered(clock)
            limiter.answered(claim, 200, found)
            window.observe(found, now=clock.now, monotonic=clock.monotonic())
            assert limiter.rate_limit == window.rate_limit
        if number == 9 and not claim.wait:
            limiter.failed(claim, sent=False)
            window.release()
        clock.advance(5)
    assert {ours == others for ours, others in waits} == {True}
    limiter.close()


def test_members_that_are_alone_share_what_their_answers_leave(postgres: Postgres, schema: str, key: str) -> None:
    """Each gets its part of what the service says is left for all."""
    clock, proxy = VirtualClock(), Proxy(postgres.port)
    place = server(postgres.url().replace(f":{postgres.port}/", f":{proxy.port}/"), schema)
    members, left = [SharedWindow(place, clock) for _ in range(3)], 60
    for one in (*members, *members):
        claim = one.claim(key)
        left -= 1
        one.answered(claim, headers(clock, left, 60, clock.now() + 60))
        clock.advance(15)  # so that each counts the others
    ends = clock.now() + 60
    left = 60
    proxy.cut()
    busy = [members[0], *members]  # one works twice as much
    while any(results := [one.claim(key).wait == 0 for one in busy]):
        for one, may_send in zip(busy, results, strict=True):
            if may_send:
                left -= 1
                assert left >= 0, "that is a 429"
                one.answered(RateClaim(name=key, id="granted"), headers(clock, left, 60, ends))
    assert left <= 60 // 10, "nearly all are used"
    for one in members:
        one.close()
