"""Many machines with one API key, one wallet and one stream, on Redis 6.2 or newer, or Valkey. Extra: `redis`.

RedisLedger         payments and budgets: MarketClient(ledger=RedisLedger(...))
RedisRateLimiter    the rate limit of a key: TradeClient(rate_limiter=RedisRateLimiter(...))
SignalRelay         made by client.signals.relay: one upstream stream for all
SharedStream        made by client.signals.shared: each signal to one member, or to all
FleetConnection     commands and scripts of your own on the fleet's server
inspect_server      what the server says about itself: version, clock, whether it can lose what was written
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # `as` makes the names public to type checkers
    from .._async.fleet.connection import AsyncFleetConnection as AsyncFleetConnection
    from .._async.fleet.rate_limiter import AsyncRedisRateLimiter as AsyncRedisRateLimiter
    from .._async.fleet.relay import AsyncSignalRelay as AsyncSignalRelay
    from .._async.fleet.shared_stream import AsyncSharedStream as AsyncSharedStream
    from .._fleet.rate_window import SharedWindow as SharedWindow
    from .._sync.fleet.connection import FleetConnection as FleetConnection
    from .._sync.fleet.rate_limiter import RedisRateLimiter as RedisRateLimiter
    from .._sync.fleet.relay import SignalRelay as SignalRelay
    from .._sync.fleet.shared_stream import SharedStream as SharedStream
    from ..models.stream import GroupMember as GroupMember
    from ..models.stream import GroupStatus as GroupStatus
    from ..models.stream import RelayStats as RelayStats
    from ..models.stream import RelayStatus as RelayStatus
    from .redis_ledger import RedisLedger as RedisLedger
    from .server_report import ServerReport as ServerReport
    from .server_report import inspect_server as inspect_server

# Modules are imported at first use.
_HOME = {
    "AsyncFleetConnection": "_async.fleet.connection",
    "AsyncRedisRateLimiter": "_async.fleet.rate_limiter",
    "AsyncSharedStream": "_async.fleet.shared_stream",
    "AsyncSignalRelay": "_async.fleet.relay",
    "FleetConnection": "_sync.fleet.connection",
    "GroupMember": "models.stream",
    "GroupStatus": "models.stream",
    "RedisLedger": "fleet.redis_ledger",
    "RedisRateLimiter": "_sync.fleet.rate_limiter",
    "RelayStats": "models.stream",
    "RelayStatus": "models.stream",
    "ServerReport": "fleet.server_report",
    "SharedWindow": "_fleet.rate_window",
    "SharedStream": "_sync.fleet.shared_stream",
    "SignalRelay": "_sync.fleet.relay",
    "inspect_server": "fleet.server_report",
}

if not TYPE_CHECKING:  # type checkers take the names above; with `__getattr__`, they would accept any misspelled one
    __all__ = sorted(_HOME)

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
