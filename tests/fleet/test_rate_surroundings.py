"""The shared rate limiter in surroundings of its own: trio, forked processes, a script that the server forgot."""

from __future__ import annotations

import os

import anyio
import pytest

from tradesdk import ConfigError
from tradesdk.fleet import AsyncRedisRateLimiter, RedisRateLimiter

from .._redis_server import RedisServer

KEY = "key-0123456789"


def window_of(api_key: str) -> str:
    from tradesdk._http.settings import ApiKey

    return ApiKey(api_key).fingerprint("account")


def test_under_trio_it_says_what_it_needs(server: RedisServer) -> None:
    async def claim() -> None:
        await AsyncRedisRateLimiter(server.url).claim("window")

    with pytest.raises(ConfigError, match="needs asyncio"):
        anyio.run(claim, backend="trio")


def test_a_forked_process_is_a_member_of_its_own(server: RedisServer) -> None:
    with RedisRateLimiter(server.url) as limiter:
        for _ in range(3):
            limiter.answered(limiter.claim(window_of(KEY)), 404, {})
        # The service tells no limit, so claims are free.
        assert limiter.claim(window_of(KEY)).id
        child = os.fork()
        if child == 0:
            os._exit(0 if limiter.claim(window_of(KEY)).id else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert limiter.claim(window_of(KEY)).id
        window = limiter.look(KEY)
    assert (window.members, window.in_flight) == (2, 3)


def test_a_script_that_the_server_forgot_is_sent_again(server: RedisServer) -> None:
    with RedisRateLimiter(server.url) as limiter:
        for _ in range(2):
            server.command("SCRIPT", "FLUSH")
            claim = limiter.claim("window")
            assert claim.id
            limiter.failed(claim, sent=False)


def test_two_prefixes_and_two_keys_have_nothing_in_common(server: RedisServer) -> None:
    with RedisRateLimiter(server.url) as one, RedisRateLimiter(server.url, prefix="other") as other:
        for limiter, key in ((one, KEY), (one, "another-key"), (other, KEY)):
            assert limiter.look(key).members == 0
            assert limiter.claim(window_of(key)).id
        keys = sorted(server.command("KEYS", "*"))
        assert len(keys) == 9
        assert {key.partition(":")[0] for key in keys} == {"tradesdk", "other"}
        assert not any(secret in key for key in keys for secret in (KEY, "another-key"))
        assert all(server.command("PTTL", key) > 0 for key in keys)  # nothing stays behind
    assert not [key for key in server.command("KEYS", "*") if key.endswith(":members")]  # both have left
