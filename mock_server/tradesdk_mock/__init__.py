"""A mock of the service for your own machine: stateful, seeded, on a clock that can be moved.

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
    from .control.http import ControlOperation as ControlOperation
    from .control.http import ControlParameter as ControlParameter
    from .control.http import control_operations as control_operations
    from .control.service import MockService as MockService
    from .core.clock import MockClock as MockClock
    from .core.errors import MockServerError as MockServerError
    from .core.errors import StateFileError as StateFileError
    from .core.gap_options import GapInfo as GapInfo
    from .core.gap_options import GapOptions as GapOptions
    from .core.request_log import JournalEntry as JournalEntry
    from .faults.catalog import FaultKind as FaultKind
    from .faults.catalog import FaultRule as FaultRule
    from .faults.catalog import fault_kinds as fault_kinds
    from .in_process.httpx_transport import MockTransport as MockTransport
    from .market.emitted_signals import MockSignal as MockSignal
    from .payments.accounts import MockWallet as MockWallet
    from .payments.report import MockPayments as MockPayments
    from .payments.settlements import Settlement as Settlement
    from .payments.settlements import Submission as Submission
    from .payments.wallet_proof import wallet_message as wallet_message
    from .serving.uvicorn_server import MockServer as MockServer
    from .state.tenants import MockKey as MockKey
    from .trading.population import Populated as Populated

# The same names by module, which is imported at first use.
_HOMES = {
    "control.http": "ControlOperation ControlParameter control_operations",
    "control.service": "MockService",
    "core.clock": "MockClock",
    "core.errors": "MockServerError StateFileError",
    "core.gap_options": "GapInfo GapOptions",
    "core.request_log": "JournalEntry",
    "faults.catalog": "FaultKind FaultRule fault_kinds",
    "in_process.httpx_transport": "MockTransport",
    "market.emitted_signals": "MockSignal",
    "payments.accounts": "MockWallet",
    "payments.report": "MockPayments",
    "payments.settlements": "Settlement Submission",
    "payments.wallet_proof": "wallet_message",
    "serving.uvicorn_server": "MockServer",
    "state.tenants": "MockKey",
    "trading.population": "Populated",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __all__ = sorted(_HOME)

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_HOME)
