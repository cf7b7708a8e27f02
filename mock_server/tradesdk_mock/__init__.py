"""A mock of the service for your own machine: with state, from a seed, on a clock that can be moved.

It plays the account API (account, agents, wallets, trades, positions, signals and their live stream) and the paid
market data, whose payments it verifies and takes in play money. Faults can be played on demand.

`MockServer` listens on a port; `MockService` is the same without one, and clients reach it through its transport:

    with MockServer() as server:
        httpx.get(server.url + "/v1/account", headers={"Authorization": "Bearer mock_full_me"})

    with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"})
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .candles import Candle
    from .clock import MockClock
    from .emission import MockSignal
    from .errors import MockServerError
    from .faultkinds import FaultKind
    from .faultrules import FaultRule
    from .gaps import GapInfo, GapOptions
    from .journal import JournalEntry
    from .keys import MockKey
    from .paymentledger import Presentation, Settlement
    from .payments import MockPayments
    from .scenarios import SCENARIOS
    from .seedworld import Seeded
    from .server import MockServer
    from .service import MockService
    from .transport import MockTransport
    from .wallets import wallet_message

__all__ = [
    "MockServer",
    "MockService",
    "MockTransport",
    "MockServerError",
    "MockClock",
    "MockKey",
    "Seeded",
    "JournalEntry",
    "MockSignal",
    "Candle",
    "SCENARIOS",
    "MockPayments",
    "Settlement",
    "Presentation",
    "FaultRule",
    "FaultKind",
    "GapOptions",
    "GapInfo",
    "wallet_message",
]

_HOMES = {
    "MockServer": "server",
    "MockService": "service",
    "MockTransport": "transport",
    "MockServerError": "errors",
    "MockClock": "clock",
    "MockKey": "keys",
    "Seeded": "seedworld",
    "JournalEntry": "journal",
    "MockSignal": "emission",
    "Candle": "candles",
    "SCENARIOS": "scenarios",
    "MockPayments": "payments",
    "Settlement": "paymentledger",
    "Presentation": "paymentledger",
    "FaultRule": "faultrules",
    "FaultKind": "faultkinds",
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
