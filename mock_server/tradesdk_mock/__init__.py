"""A mock of the whole service for your own machine: stateful, seeded, with every written rule enforced.

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
