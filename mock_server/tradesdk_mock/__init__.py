"""A mock of the service for your own machine: with state, from a seed, on a clock that can be moved.

It plays the account API (account, agents, wallets, trades, positions, signals and their live stream) and the paid
market data, whose payments it verifies and settles with play money. Faults are injected on demand.

`MockServer` listens on a port; `MockService` is the same without one, for clients with its transport:

    with MockServer() as server:
        httpx.get(server.url + "/v1/account", headers={"Authorization": "Bearer mock_full_me"})

    with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"})
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .control.description import ControlOperation, ControlParameter, control_operations
    from .control.service import MockService
    from .core.clock import MockClock
    from .core.errors import MockServerError, StateFileError
    from .core.gap_options import GapInfo, GapOptions
    from .core.request_log import JournalEntry
    from .faults.catalog import FaultKind, fault_kinds
    from .faults.rules import FaultRule
    from .in_process.httpx_transport import MockTransport
    from .market.emitted_signals import MockSignal
    from .payments.report import MockPayments
    from .payments.settlements import Settlement, Submission
    from .payments.wallet_proof import wallet_message
    from .serving.uvicorn_server import MockServer
    from .state.tenants import MockKey
    from .trading.population import Populated

__all__ = [
    "MockServer",
    "MockService",
    "MockTransport",
    "MockServerError",
    "StateFileError",
    "MockClock",
    "MockKey",
    "Populated",
    "JournalEntry",
    "MockSignal",
    "MockPayments",
    "Settlement",
    "Submission",
    "FaultRule",
    "FaultKind",
    "fault_kinds",
    "GapOptions",
    "GapInfo",
    "wallet_message",
    "ControlOperation",
    "ControlParameter",
    "control_operations",
]

_HOMES = {
    "MockServer": "serving.uvicorn_server",
    "MockService": "control.service",
    "MockTransport": "in_process.httpx_transport",
    "MockServerError": "core.errors",
    "StateFileError": "core.errors",
    "MockClock": "core.clock",
    "MockKey": "state.tenants",
    "Populated": "trading.population",
    "JournalEntry": "core.request_log",
    "MockSignal": "market.emitted_signals",
    "MockPayments": "payments.report",
    "Settlement": "payments.settlements",
    "Submission": "payments.settlements",
    "FaultRule": "faults.rules",
    "FaultKind": "faults.catalog",
    "fault_kinds": "faults.catalog",
    "GapOptions": "core.gap_options",
    "GapInfo": "core.gap_options",
    "wallet_message": "payments.wallet_proof",
    "ControlOperation": "control.description",
    "ControlParameter": "control.description",
    "control_operations": "control.description",
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
