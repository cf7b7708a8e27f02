"""A mock of the service's account API for your own machine: with state, from a seed, on a clock that can be moved.

It plays account, agents, wallets, trades, positions and signals over HTTP. The live signal stream and the paid market
data are not in it.

with MockServer() as server: ...
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clock import MockClock
    from .errors import MockServerError
    from .gaps import GapInfo, GapOptions
    from .journal import JournalEntry
    from .keys import MockKey
    from .seedworld import Seeded
    from .server import MockServer
    from .wallets import wallet_message

__all__ = [
    "MockServer",
    "MockServerError",
    "MockClock",
    "MockKey",
    "Seeded",
    "JournalEntry",
    "GapOptions",
    "GapInfo",
    "wallet_message",
]

_HOMES = {
    "MockServer": "server",
    "MockServerError": "errors",
    "MockClock": "clock",
    "MockKey": "keys",
    "Seeded": "seedworld",
    "JournalEntry": "journal",
    "GapOptions": "gaps",
    "GapInfo": "gaps",
    "wallet_message": "wallets",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
