"""Many machines with one API key, one wallet and one stream, on Redis 6.2 or newer, or Valkey. Extra: `redis`.

    RedisRateLimiter    one rate limit for all programs with the same API key (async: AsyncRedisRateLimiter)

Names are imported at first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # `as` makes the names public to type checkers
    from .._async.fleet.rate_limiter import AsyncRedisRateLimiter as AsyncRedisRateLimiter
    from .._fleet.rate_window import SharedWindow as SharedWindow
    from .._sync.fleet.rate_limiter import RedisRateLimiter as RedisRateLimiter

_HOMES = {
    "_async.fleet.rate_limiter": ("AsyncRedisRateLimiter",),
    "_fleet.rate_window": ("SharedWindow",),
    "_sync.fleet.rate_limiter": ("RedisRateLimiter",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

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
