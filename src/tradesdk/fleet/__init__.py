"""Many machines with one API key, one wallet and one stream, on Redis 6.2 or newer, or Valkey. Extra: `redis`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._async.fleet.rate_limiter import AsyncRedisRateLimiter as AsyncRedisRateLimiter
    from .._sync.fleet.rate_limiter import RedisRateLimiter as RedisRateLimiter
    from .redis_ledger import RedisLedger as RedisLedger

_HOME = {
    "AsyncRedisRateLimiter": "_async.fleet.rate_limiter",
    "RedisRateLimiter": "_sync.fleet.rate_limiter",
    "RedisLedger": "fleet.redis_ledger",
}

if not TYPE_CHECKING:  # with it, type checkers would accept any misspelled name

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"tradesdk.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_HOME)
