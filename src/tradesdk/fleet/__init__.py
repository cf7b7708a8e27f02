"""Many machines with one API key, one wallet and one stream, on Redis 6.2 or newer, or Valkey. Extra: `redis`.

`client.signals.relay` and `client.signals.shared` make relays and shared streams.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # `as` makes the names public to type checkers
    from .._async.fleet.relay import AsyncSignalRelay as AsyncSignalRelay
    from .._async.fleet.shared_stream import AsyncSharedStream as AsyncSharedStream
    from .._sync.fleet.relay import SignalRelay as SignalRelay
    from .._sync.fleet.shared_stream import SharedStream as SharedStream
    from ..models.stream import RelayStats as RelayStats

# Modules are imported at first use.
_HOMES = {
    "_async.fleet.relay": ("AsyncSignalRelay",),
    "_async.fleet.shared_stream": ("AsyncSharedStream",),
    "_sync.fleet.relay": ("SignalRelay",),
    "_sync.fleet.shared_stream": ("SharedStream",),
    "models.stream": ("RelayStats",),
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
