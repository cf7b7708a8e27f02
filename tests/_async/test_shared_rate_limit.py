"""Several clients, each with a rate limiter of its own, as on several machines; one key; a real server between them."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    AsyncTradeClient,
    ConfigError,
    FleetError,
    NotFoundError,
    RateClaim,
    RateLimit,
    RateLimitError,
    SystemClock,
)
from tradesdk.fleet import AsyncRedisRateLimiter

from .._answers import ACCOUNT, KEY, Service, failed, limited, ok
from .._clock import START, VirtualClock, http_date
from .._redis_server import RedisServer
from .._streamscript import StreamScript, fields, live
from ._client import client_of
from ._following import followed

prefixes = (f"test{number}" for number in count())


# redis-py knows asyncio only.  # async only
pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # async only


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer("valkey", tmp_path_factory.mktemp("valkey"), durable=False) as server:
        yield server


class Limited:
    """A service with a real window of a minute, which begins with its first request. Its `Date` is `date_off` wrong."""

    def __init__(self, clock: VirtualClock, limit: int = 20, skew: int = 0, date_off: int = 0) -> None:
        self._lock = threading.Lock()
        self._clock, self._limit, self._skew, self._date_off = clock, limit, skew, date_off
        self._ends, self._used = 0, 0
        self.windows: list[int] = []
        self.refused = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            now = self._clock.now() + self._skew
            if now >= self._ends:
                self._ends, self._used = int(now) + 60, 0
                self.windows.append(0)
            date = http_date(now + self._date_off)
            if self._used >= self._limit:
                self.refused += 1
                return failed(429, date=date, retry_after="60", **limited(0, self._ends, self._limit))
            self._used += 1
            self.windows[-1] += 1
            return ok(ACCOUNT, date=date, **limited(self._limit - self._used, self._ends, self._limit))


class Members:
    """Members with one clock, one server and one service."""

    def __init__(self, url: str) -> None:
        self.clock = VirtualClock()
        self._url, self._prefix = url, next(prefixes)
        self._limiters: list[AsyncRedisRateLimiter] = []

    async def __aenter__(self) -> Members:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for limiter in self._limiters:
            await limiter.aclose()

    def limiter(self, **options: Any) -> AsyncRedisRateLimiter:
        limiter = AsyncRedisRateLimiter(self._url, prefix=self._prefix, clock=self.clock, **options)
        self._limiters.append(limiter)
        return limiter

    def client(self, service: Any, **options: Any) -> AsyncTradeClient:
        return client_of(service, self.clock, rate_limiter=self.limiter(), **options)


@pytest.fixture
async def members(redis: RedisServer) -> AsyncIterator[Members]:
    async with Members(redis.url) as some:
        yield some


@pytest.mark.parametrize(("skew", "date_off"), [(0, 0), (86_400, 0), (-86_400, 0), (0, 600), (0, -600)])
async def test_together_they_use_the_whole_window_and_no_more(members: Members, skew: int, date_off: int) -> None:
    """Whatever the service's clock says, and though its Date is not the clock of its windows."""
    service = Limited(members.clock, skew=skew, date_off=date_off)
    clients = [members.client(service) for _ in range(4)]
    for number in range(90):
        await clients[number % 3 if number < 60 else 3].account.get()
    assert service.refused == 0
    assert service.windows == [20, 20, 20, 20, 10]


async def test_a_wait_says_how_many_share_the_window(members: Members, caplog: pytest.LogCaptureFixture) -> None:
    service = Limited(members.clock)
    clients = [members.client(service) for _ in range(3)]
    with caplog.at_level(logging.INFO, "tradesdk"):
        for number in range(21):
            await clients[number % 3].account.get()
    (record,) = caplog.records
    wait = vars(record)["wait"]
    assert vars(record) | {"event": "rate_limit_wait", "members": 3} == vars(record)
    assert 60 <= wait <= 63  # to the reset, a second, and another at random
    assert members.clock.waits == [wait]
    assert record.getMessage().startswith("the rate limit is used up by the 3 members that share it; waiting 6")


async def test_after_a_reset_one_asks_first(members: Members) -> None:
    service = Limited(members.clock, limit=3)
    one, other = members.limiter(), members.limiter()
    client = client_of(service, members.clock, rate_limiter=one)
    for _ in range(3):
        await client.account.get()
    members.clock.advance(70)
    claims = [await each.claim(WINDOW) for each in (one, other, one)]
    assert [bool(claim.wait) for claim in claims] == [False, True, True]
    assert all(0.05 <= claim.wait <= 0.3 for claim in claims[1:])
    await one.answered(claims[0], 200, told(2, 130))
    assert [(await other.claim(WINDOW)).wait for _ in range(2)] == [0, 0]
    assert (await one.claim(WINDOW)).wait > 0


WINDOW = "0123456789abcdef"


def told(left: int, reset: int, limit: int = 20, *, date: int | None = 70) -> dict[str, str]:
    headers = {"x-ratelimit-limit": str(limit), "x-ratelimit-remaining": str(left)}
    headers["x-ratelimit-reset"] = str(START + reset)
    return headers if date is None else headers | {"date": http_date(START + date)}


async def test_a_probe_that_got_no_answer_is_followed_by_another(members: Members) -> None:
    limiter = members.limiter()
    for sent in (True, False):
        probe = await limiter.claim(WINDOW)
        assert probe.id
        assert not (await limiter.claim(WINDOW)).id
        await limiter.failed(probe, sent=sent)
    assert (await limiter.claim(WINDOW)).id
    assert (await limiter.claim(WINDOW)).wait > 0
    members.clock.advance(5)  # the member that asked first was killed
    assert (await limiter.claim(WINDOW)).id


async def test_a_429_closes_the_window_for_all(members: Members) -> None:
    one, other = members.limiter(), members.limiter()
    await one.answered(await one.claim(WINDOW), 200, told(9, 60, date=0))
    claim = await one.claim(WINDOW)
    assert (await other.claim(WINDOW)).wait == 0
    await one.answered(claim, 429, {"retry-after": "100"})  # another program used the rest
    assert 60 < (await other.claim(WINDOW)).wait <= 62


async def test_a_request_that_was_not_sent_counts_for_nobody(members: Members) -> None:
    clock = members.clock
    service = Service(
        ok(ACCOUNT, date=http_date(START), **limited(1, START + 60)),
        *(httpx.ConnectError("refused") for _ in range(2)),
        ok(ACCOUNT),
    )
    clients = [members.client(service) for _ in range(2)]
    await clients[0].account.get()
    await clients[1].account.get()
    assert len(clock.waits) == 2  # the two backoffs, and no wait for the reset
    assert sum(clock.waits) < 10


async def test_each_key_has_a_window_of_its_own(members: Members) -> None:
    one = Limited(members.clock, limit=3)
    client = members.client(one, api_key="key-of-one")
    for _ in range(3):
        await client.account.get()
    other = Limited(members.clock, limit=3)
    keys = iter(["key-of-another"] * 3 + ["key-of-a-third"] * 3)
    current = next(keys)
    client = members.client(other, api_key=lambda: current)
    for _ in range(3):
        await client.account.get()
    assert members.clock.waits == []
    current = "key-of-a-third"
    limiter = members.limiter()
    looked = [await limiter.look(key) for key in ("key-of-one", "key-of-another", "key-of-a-third")]
    assert [window.remaining for window in looked] == [0, 0, None]


async def test_what_the_server_has_of_a_window(members: Members) -> None:
    limiter = members.limiter()
    nothing = await limiter.look(KEY)
    assert (nothing.members, nothing.remaining, nothing.limit, nothing.reset_in) == (0, None, None, None)
    client = members.client(Limited(members.clock))
    await client.account.get()
    window = await limiter.look(KEY)
    assert (window.members, window.in_flight, window.remaining, window.limit, window.reset_in) == (1, 0, 19, 20, 61)
    members.clock.advance(200)
    assert (await limiter.look(KEY)).members == 0


async def test_a_service_without_limits_holds_nothing_back(members: Members) -> None:
    service = Service(*(ok(ACCOUNT) for _ in range(30)))
    clients = [members.client(service) for _ in range(3)]
    for number in range(30):
        members.clock.advance(10)
        await clients[number % 3].account.get()
    assert members.clock.waits == []
    assert clients[0].rate_limit is None


async def test_answers_count_though_a_client_does_not_wait(members: Members) -> None:
    service = Limited(members.clock, limit=5)
    hasty = members.client(service, throttle=False)
    patient = members.client(service)
    for _ in range(5):
        await hasty.account.get()
    assert hasty.rate_limit == RateLimit(5, 0, datetime.fromtimestamp(START + 60, UTC))
    await patient.account.get()
    assert len(members.clock.waits) == 1
    assert service.refused == 0


async def test_past_the_deadline_it_is_raised_unsent(members: Members) -> None:
    client = members.client(Limited(members.clock, limit=1), deadline=10)
    await client.account.get()
    with pytest.raises(RateLimitError) as caught:
        await client.account.get()
    assert caught.value.response is None
    assert caught.value.retry_after is not None
    assert 60 <= caught.value.retry_after <= 63


async def test_a_clock_that_is_a_day_off_changes_nothing(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server's clock, as in earnest; a service without Date is read by it as well."""
    async with AsyncRedisRateLimiter(redis.url, prefix=next(prefixes)) as one:
        now = SystemClock().now()
        headers = told(0, int(now) - START + 30, date=None)
        await one.answered(await one.claim(WINDOW), 200, headers)
        monkeypatch.setattr(SystemClock, "now", lambda _: now + 86_400)
        async with AsyncRedisRateLimiter(redis.url, prefix=one._prefix) as other:
            for limiter in (one, other):
                assert 27 <= (await limiter.claim(WINDOW)).wait <= 33
            await other.answered(await other.claim("another"), 200, headers)
            assert 27 <= (await one.claim("another")).wait <= 33


# The server goes away


async def test_alone_it_goes_on_with_its_share_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer("valkey", tmp_path, durable=False) as server:
        async with Members(server.url) as members:
            service = Limited(members.clock)
            clients = [members.client(service) for _ in range(4)]
            for client in clients:
                await client.account.get()
            await clients[0].account.get()
            server.kill()
            with caplog.at_level(logging.INFO, "tradesdk"):
                while not members.clock.waits:
                    await clients[0].account.get()
                assert service.windows == [5 + 15 // 4, 1]
                for _ in range(3):
                    await clients[0].account.get()
                waits = len(members.clock.waits)
                assert waits == 1
                server.start()
                for _ in range(5):
                    members.clock.advance(5)
                    await clients[0].account.get()
            said = [vars(record) for record in caplog.records if vars(record)["event"] != "rate_limit_wait"]
            assert [(record["event"], record["members"]) for record in said] == [
                ("rate_limit_alone", 4),
                ("rate_limit_shared", 1),
            ]
            assert said[0]["code"] == "server_unreachable"
            await clients[1].account.get()  # it finds the server by itself, and what the other one has used
            assert service.windows == [8, 10]
            assert (await clients[1]._session.throttle.look(KEY)).remaining == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("trouble", ["nobody listens", "it hangs", "a wrong password", "a key of another type"])
async def test_what_the_server_lacks_holds_nobody_back(
    trouble: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    password = ("--requirepass", "swordfish") if trouble == "a wrong password" else ()
    with RedisServer("valkey", tmp_path, *password, durable=False) as server:
        async with Members(server.url) as members:
            limiter = members.limiter(timeout=0.2)
            client = client_of(service := Limited(members.clock), members.clock, rate_limiter=limiter)
            if trouble == "nobody listens":
                server.kill()
            elif trouble == "it hangs":
                server.pause()
            elif trouble == "a key of another type":
                window = client._session.window
                server.command("SET", f"{limiter._prefix}:{{{window}}}:rate", "1")
            for _ in range(50):
                await client.account.get()
            assert service.windows == [20, 20, 10]
            said = [vars(record) for record in caplog.records]
            assert [record["event"] for record in said].count("rate_limit_alone") == 1
            if trouble != "it hangs":  # then a look takes as long as the connection
                with pytest.raises(FleetError):
                    await limiter.look(KEY)


# Limiters of others


class Recorder:
    """A limiter that lets everything through but every third claim, and writes down what it is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    @property
    def rate_limit(self) -> RateLimit | None:
        return None

    async def claim(self, window: str, /) -> RateClaim:
        number = len([call for call in self.calls if call[0] == "claim"])
        self.calls.append(("claim", window))
        return RateClaim(wait=0.5) if number % 3 == 2 else RateClaim(id=f"claim {number}")

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        self.calls.append(("answered", claim.id, status, headers.get("x-answer")))

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        self.calls.append(("failed", claim.id, sent))


async def test_what_a_limiter_is_asked_and_told() -> None:
    service = Service(
        ok(ACCOUNT, x_answer="one"),
        httpx.ReadError("lost"),
        failed(404, x_answer="two"),
        httpx.ConnectError("refused"),
        ok(ACCOUNT, x_answer="three"),
    )
    recorder, clock = Recorder(), VirtualClock()
    client = client_of(service, clock, rate_limiter=recorder)
    await client.account.get()
    with pytest.raises(NotFoundError):
        await client.account.get()
    await client.with_options(max_retries=1).account.get()
    (window,) = {call[1] for call in recorder.calls if call[0] == "claim"}
    assert len(window) == 16
    assert KEY not in window
    claim = ("claim", window)
    assert recorder.calls == [
        *(claim, ("answered", "claim 0", 200, "one")),
        *(claim, ("failed", "claim 1", True)),
        *(claim, claim, ("answered", "claim 3", 404, "two")),
        *(claim, ("failed", "claim 4", False)),
        *(claim, claim, ("answered", "claim 6", 200, "three")),
    ]
    assert clock.waits.count(0.5) == 2
    hasty = client_of(Service(ok(ACCOUNT, x_answer="four")), clock, rate_limiter=recorder, throttle=False)
    await hasty.account.get()
    assert recorder.calls[-2][0] == "answered"
    assert recorder.calls[-1] == ("answered", "", 200, "four")


async def test_the_history_of_a_stream_asks_as_well_and_the_stream_does_not() -> None:
    recorder = Recorder()
    script = StreamScript([5.0, live("a", 5), 5.0], [1.0, live("end", 40)], listed=[fields("a", 5), fields("b", 7)])
    found = await followed(script, rate_limiter=recorder)
    assert found.ids == ["a", "b"]
    asked = [call for call in recorder.calls if call[0] == "claim"]
    told = [call for call in recorder.calls if call[0] == "answered"]
    assert len(asked) >= len(told) >= 1
    assert {call[1] for call in told} <= {f"claim {number}" for number in range(len(asked))}


# What is refused


async def test_a_limiter_of_the_other_flavor_is_refused(redis: RedisServer) -> None:
    class Other:
        rate_limit = None

        def claim(self, window: str) -> None: ...
        def answered(self, claim: object, status: int, headers: object) -> None: ...
        def failed(self, claim: object, *, sent: bool) -> None: ...

    for wrong in (object(), AsyncRedisRateLimiter):
        with pytest.raises(ConfigError, match="rate_limiter"):
            client_of(Service(), rate_limiter=wrong)
    with pytest.raises(ConfigError, match="other flavor"):  # async only
        client_of(Service(), rate_limiter=Other())  # async only


async def test_a_market_client_shares_the_limit_of_a_key_only(redis: RedisServer) -> None:
    with pytest.raises(ConfigError, match="send_api_key=True"):
        AsyncMarketClient(base_url="https://service.example", rate_limiter=AsyncRedisRateLimiter(redis.url))


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "a\n", "x" * 101, None])
async def test_a_prefix_that_is_refused(redis: RedisServer, prefix: Any) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        AsyncRedisRateLimiter(redis.url, prefix=prefix)
