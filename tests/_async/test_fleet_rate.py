"""One rate limit for many clients: what is sent stays within it, whoever dies, pauses or loses the server meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, ConfigError, FleetError, InvalidArgumentError, RateLimitError
from tradesdk.fleet import AsyncRedisRateLimiter
from tradesdk_mock import MockClock, MockService

from .._answers import ACCOUNT, BASE, KEY, Service, failed, limited, ok
from .._clock import START, SharedClock, VirtualClock, http_date
from .._flavour_async import at_once
from .._redis_server import RedisServer
from ._client import client_of

MEMBERS = 8


pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # redis-py knows no other # async only


@pytest.fixture(scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.long)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(request.param, tmp_path_factory.mktemp("server"), durable=False) as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    running.command("FLUSHALL")
    return running


class Window:
    """A service that allows `limit` requests a minute. Its minute begins with its first request, or moves on.

    Args:
        sliding: every answer names a later reset, as windows that slide do.
        skew: how far its clock is ahead.
    """

    def __init__(self, clock: VirtualClock, limit: int, *, sliding: bool = False, skew: int = 0) -> None:
        self._lock = threading.Lock()
        self._clock, self._limit, self._sliding, self._skew = clock, limit, sliding, skew
        self._ends, self._times = 0.0, [0.0] * 0
        self.windows: Counter[float] = Counter()
        self.refused = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            now = self._clock.now() + self._skew
            if self._sliding:
                self._times = [time for time in self._times if time > now - 60]
                used, ends = len(self._times), now + 60
            else:
                if now >= self._ends:
                    self._ends = int(now) + 60
                used, ends = self.windows[self._ends], self._ends
            if used >= self._limit:
                self.refused += 1
                return failed(429, date=http_date(now), retry_after="60", **limited(0, int(ends), self._limit))
            self._times.append(now)
            self.windows[ends if not self._sliding else 0.0] += 1
            return ok(ACCOUNT, date=http_date(now), **limited(self._limit - used - 1, int(ends), self._limit))


class Fleet:
    """Clients with limiters of their own on one server, in one virtual time."""

    def __init__(self, server: RedisServer, service: Any, clock: VirtualClock, **client: Any) -> None:
        self.server, self.service, self.clock, self.client = server, service, clock, client
        self.limiters: list[AsyncRedisRateLimiter] = []

    def member(self, **options: Any) -> AsyncTradeClient:
        settings: dict[str, Any] = {"api_key": self.client.get("api_key", KEY), "timeout": 5.0}
        limiter = AsyncRedisRateLimiter(self.server.url, **settings | options)
        limiter._time = self.clock.now
        self.limiters.append(limiter)
        return client_of(self.service, self.clock, rate_limiter=limiter, deadline=10**6, **self.client)

    async def __aenter__(self) -> Fleet:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for limiter in self.limiters:
            await limiter.aclose()


async def play(fleet: Fleet, members: int, calls: int) -> None:
    async def calling(client: AsyncTradeClient) -> None:
        try:
            for _ in range(calls):
                await client.account.get()
        finally:
            if isinstance(fleet.clock, SharedClock):
                fleet.clock.leave()

    for _ in range(members):
        if isinstance(fleet.clock, SharedClock):
            fleet.clock.join()
    clients = [fleet.member() for _ in range(members)]
    await at_once([lambda client=client: calling(client) for client in clients])  # type: ignore[misc] # a bound name


@pytest.mark.parametrize("skew", [0, 86_400, -86_400])
async def test_no_window_gets_more_than_the_limit_and_none_is_refused(server: RedisServer, skew: int) -> None:
    clock = SharedClock()
    service = Window(clock, 30, skew=skew)
    async with Fleet(server, service, clock) as fleet:
        await play(fleet, MEMBERS, 12)
        assert {limiter.members for limiter in fleet.limiters} >= {MEMBERS}
    assert sum(service.windows.values()) == MEMBERS * 12
    assert service.refused == 0
    first, *middle, _ = (count for _, count in sorted(service.windows.items()))
    assert [count >= 29 for count in (first, *middle)] == [True] * (len(middle) + 1), "nearly all of it is used"


@pytest.mark.long
async def test_sixteen_members_use_five_minutes_of_a_key_at_the_mock(server: RedisServer) -> None:
    mock = MockService(seed=7, clock=MockClock(START))
    clock = SharedClock(mock.clock.advance)
    async with (
        httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http,
        Fleet(server, None, clock, http_client=http, base_url=mock.url, api_key="mock_full_pro_fleet") as fleet,
    ):
        await play(fleet, 16, 100)
    answers = [(entry.at, entry.status) for entry in mock.journal()]
    refused = [at for at, status in answers if status != 200]
    used: list[int] = []
    ends = 0.0
    for at, _ in answers:
        if at >= ends:
            ends, used = at + 60, [*used, 0]
        used[-1] += 1
    print(f"requests in each window of 300: {used}; refused: {len(refused)}")
    assert (sum(used), refused, max(used)) == (1600, [], 300)
    assert min(used[:-1]) >= 0.95 * 300


async def test_a_window_that_slides(server: RedisServer) -> None:
    clock = SharedClock()
    service = Window(clock, 20, sliding=True)
    async with Fleet(server, service, clock) as fleet:
        await play(fleet, 4, 12)
    assert (service.windows[0.0], service.refused) == (48, 0)


async def test_a_service_without_limits_is_not_held_back(server: RedisServer) -> None:
    clock = VirtualClock()
    async with Fleet(server, Service(*(ok(ACCOUNT) for _ in range(40))), clock) as fleet:
        await fleet.member().account.get()
        clock.waits.clear()
        await play(fleet, 3, 13)
    assert sum(clock.waits) < 1, "none but the first waits for an answer"


async def test_a_429_closes_the_window_for_all(server: RedisServer) -> None:
    """Another program used the key up: the others hear of it from the first that is refused."""
    clock = VirtualClock()
    told: dict[str, Any] = {"date": http_date(START)}
    refused = failed(429, date=http_date(START), retry_after="40", **limited(0, START + 40))
    service = Service(ok(ACCOUNT, **told, **limited(9, START + 40)), refused, *(ok(ACCOUNT) for _ in range(3)))
    async with Fleet(server, service, clock) as fleet:
        one, other = fleet.member(), fleet.member()
        await one.account.get()
        with pytest.raises(RateLimitError):
            await one.with_options(max_retries=0).account.get()
        with pytest.raises(RateLimitError, match="not sent"):
            await other.with_options(deadline=10).account.get()
        await other.account.get()
        assert clock.now() >= START + 40


async def test_claims_of_a_killed_member_count_until_their_lease_is_over(server: RedisServer) -> None:
    clock = VirtualClock()
    service = Window(clock, 10)
    async with Fleet(server, service, clock) as fleet:
        living, dead = fleet.member(), fleet.limiters
        await living.account.get()
        fleet.member(lease=30)
        assert [(await dead[1].claim(clock)).wait for _ in range(9)] == [0.0] * 9  # claimed, and killed
        claim = await dead[0].claim(clock)
        assert 0 < claim.wait <= 1, "they may come back"
        clock.advance(31)
        assert (await dead[0].claim(clock)).wait > 25, "they may have arrived: the window is used up"
        clock.advance(40)
        for _ in range(5):
            await living.account.get()
    assert service.refused == 0


async def test_a_request_that_was_not_sent_is_given_back(server: RedisServer) -> None:
    clock = VirtualClock()
    service = Window(clock, 3)
    async with Fleet(server, service, clock) as fleet:
        client = fleet.member()
        await client.account.get()
        (limiter,) = fleet.limiters
        claims = [await limiter.claim(clock) for _ in range(2)]
        assert (await limiter.claim(clock)).wait
        for claim in claims:
            await limiter.not_sent(claim, clock)
        assert not (await limiter.claim(clock)).wait


async def test_one_asks_after_a_reset_and_the_others_follow(server: RedisServer) -> None:
    clock = VirtualClock()
    service = Window(clock, 10)
    async with Fleet(server, service, clock) as fleet:
        await fleet.member().account.get()
        clock.advance(62)
        asking, waiting = fleet.limiters[0], AsyncRedisRateLimiter(server.url, api_key=KEY)
        fleet.limiters.append(waiting)
        waiting._time = clock.now
        assert not (await asking.claim(clock)).wait
        assert 0 < (await waiting.claim(clock)).wait < 0.1
        clock.advance(6)
        assert not (await waiting.claim(clock)).wait, "the one that asked may be dead"


async def test_keys_and_names_have_windows_of_their_own(server: RedisServer) -> None:
    clock = VirtualClock()
    service = Window(clock, 100)
    async with Fleet(server, service, clock) as fleet:
        await fleet.member(api_key="key-of-another").account.get()
        await fleet.member(api_key=None, window="market").account.get()
        await fleet.member().account.get()
        assert [limiter.members for limiter in fleet.limiters] == [1, 1, 1]
    names = " ".join(sorted(server.command("KEYS", "*")))
    assert names.count(":window") == 3
    assert KEY not in names


async def test_without_the_server_each_goes_on_with_its_share(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    service = Window(clock, 40)
    with RedisServer("valkey", tmp_path, durable=False) as server:
        async with Fleet(server, service, clock) as fleet:
            clients = [fleet.member() for _ in range(4)]
            for client in [*clients, *clients]:
                await client.account.get()
            server.kill()
            clock.advance(61)
            used = sum(service.windows.values())
            for client in clients:
                for _ in range(10):
                    await client.account.get()
            assert sum(service.windows.values()) - used == 40
            assert clock.waits == [], "a share of ten each"
            with pytest.raises(RateLimitError, match="not sent"):
                await clients[0].with_options(deadline=5).account.get()
            server.start()
            clock.advance(62)
            await clients[0].account.get()
    assert service.refused == 0
    events = [event for record in caplog.records if (event := vars(record).get("event", "")).startswith("fleet")]
    assert events == ["fleet_away"] * 4 + ["fleet_back"]
    assert vars(next(record for record in caplog.records if "share" in record.message))["members"] == 4


async def test_a_server_that_was_never_there(tmp_path: Path) -> None:
    """A bot that starts while the server is down works, with the whole limit for itself."""
    clock = VirtualClock()
    async with Fleet(RedisServer("valkey", tmp_path), Window(clock, 5), clock) as fleet:
        client = fleet.member()
        for _ in range(6):
            await client.account.get()
        assert clock.now() >= START + 60


async def test_a_server_that_cannot_be_used_is_said_at_once(server: RedisServer, tmp_path: Path) -> None:
    clock = VirtualClock()
    with RedisServer("valkey", tmp_path, "--requirepass", "swordfish", durable=False) as closed:
        async with Fleet(closed, Window(clock, 5), clock) as fleet:
            with pytest.raises(FleetError) as caught:
                await fleet.member().account.get()
            assert caught.value.code == "server_refused"
    async with Fleet(server, Window(clock, 5), clock) as fleet:
        client = fleet.member(window="taken", api_key=None)
        server.command("SET", "tradesdk:{rate:taken}:claims", "1")
        with pytest.raises(FleetError) as caught:
            await client.account.get()
        assert caught.value.code == "server_failed"


async def test_arguments_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRADE_API_KEY", raising=False)
    url = "redis://127.0.0.1"
    with pytest.raises(ConfigError, match="TRADE_API_KEY"):
        AsyncRedisRateLimiter(url)
    wrong: list[dict[str, Any]] = [
        {"lease": 0},
        {"window": ""},
        {"prefix": "a\nb"},
        {"window": "w" * 101},
        {"window": "one", "api_key": KEY},
    ]
    for options in wrong:
        with pytest.raises(InvalidArgumentError):
            AsyncRedisRateLimiter(url, **{"api_key": None if "window" in options else KEY, **options})
    with pytest.raises(ConfigError, match="rate_limiter must be"):
        AsyncTradeClient(api_key=KEY, base_url=BASE, rate_limiter=object())  # type: ignore[arg-type]
