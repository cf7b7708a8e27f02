"""Typed clients for a trading agent and market signal service, blocking and async.

```python
from tradesdk import TradeClient

with TradeClient() as client:  # TRADE_API_KEY and TRADE_BASE_URL
    print(client.account.get().plan)
```

Every name is loaded when it is first used, so that importing the package costs next to nothing.
"""

from ._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._async.batches import AsyncBatchRun
    from ._async.client import AsyncTradeClient
    from ._async.market_client import AsyncMarketClient
    from ._async.pagination import AsyncPager
    from ._async.signal_stream import AsyncSignalStream
    from ._http.retry import Failure, FailureCause, Operation, RetryAction, RetryPolicy, RetryWait
    from ._http.settings import Timeout
    from ._market import TokenQuery
    from ._sync.batches import BatchRun
    from ._sync.client import TradeClient
    from ._sync.market_client import MarketClient
    from ._sync.pagination import Pager
    from ._sync.signal_stream import SignalStream
    from ._system.clock import Clock, SystemClock
    from ._values.http import RateLimit, RawResponse
    from ._values.payment import Payment, PaymentState, Receipt, SignedHeader
    from .errors import (
        AmbiguousOutcomeError,
        APIConnectionError,
        APIError,
        APIResponseError,
        APIStatusError,
        APITimeoutError,
        AuthenticationError,
        BadGatewayError,
        BudgetDetails,
        CheckpointError,
        ConfigError,
        ConflictError,
        ErrorCode,
        InternalServerError,
        InvalidArgumentError,
        InvalidRequestError,
        InvalidSignatureError,
        LedgerError,
        NotFoundError,
        PaymentError,
        PaymentOutcomeUnknownError,
        PaymentRefusedError,
        PaymentRejectedError,
        PaymentUndeliveredError,
        PermissionDeniedError,
        PriceDetails,
        RateLimitError,
        RecipientDetails,
        ServiceUnavailableError,
        StreamEndedError,
        StreamError,
        TokenDetails,
        TradeError,
        UnprocessableEntityError,
    )
    from .models._base import Page
    from .models.account import Account, Quota, Usage
    from .models.agents import Agent, AgentStats, AgentSummary, Risk
    from .models.market import (
        AggregateMetrics,
        SignalRecord,
        SupportedToken,
        SupportedTokensData,
        TokenAvgPrices,
        TokenAvgPricesData,
        TokenPrice,
        TokenPricesData,
        TokenSignals,
        TokenSignalsData,
        TokenWinRate,
        TokenWinRatesData,
        TopPerformer,
        TopPerformersData,
    )
    from .models.positions import Position
    from .models.signals import Signal
    from .models.stream import (
        Connected,
        Disconnected,
        Gap,
        Heartbeat,
        InvalidEvent,
        PositionReset,
        StreamItem,
        StreamSignal,
        StreamStats,
        UnknownEvent,
    )
    from .models.trades import Trade, TradeDetail
    from .models.wallets import TokenBalance, Wallet, WalletBalance
    from .payments.batches import Batch
    from .payments.budget import Budget, Spending
    from .payments.ledger.protocol import LedgerStore
    from .payments.ledger.sqlite import Ledger
    from .payments.results import DryRun, MarketResult, Quote, Reconciliation
    from .payments.signing.keystore import address as keystore_address
    from .payments.signing.keystore import create as create_keystore
    from .payments.signing.signer import LocalSigner, Signer, wallet_message

_HOMES = {
    "_async.client": ("AsyncTradeClient",),
    "_async.pagination": ("AsyncPager",),
    "_async.signal_stream": ("AsyncSignalStream",),
    "_system.clock": ("Clock", "SystemClock"),
    "_http.settings": ("Timeout",),
    "_http.response": ("RateLimit", "RawResponse"),
    "_http.retry": ("Failure", "FailureCause", "Operation", "RetryAction", "RetryPolicy", "RetryWait"),
    "_sync.client": ("TradeClient",),
    "_sync.pagination": ("Pager",),
    "_sync.signal_stream": ("SignalStream",),
    "errors": (
        "AmbiguousOutcomeError",
        "APIConnectionError",
        "APIError",
        "APIResponseError",
        "APIStatusError",
        "APITimeoutError",
        "AuthenticationError",
        "BadGatewayError",
        "BudgetDetails",
        "CheckpointError",
        "ConfigError",
        "ConflictError",
        "ErrorCode",
        "InternalServerError",
        "InvalidArgumentError",
        "InvalidRequestError",
        "InvalidSignatureError",
        "LedgerError",
        "NotFoundError",
        "PaymentError",
        "PaymentOutcomeUnknownError",
        "PaymentRefusedError",
        "PaymentRejectedError",
        "PaymentUndeliveredError",
        "PermissionDeniedError",
        "PriceDetails",
        "RateLimitError",
        "RecipientDetails",
        "ServiceUnavailableError",
        "StreamEndedError",
        "StreamError",
        "TokenDetails",
        "TradeError",
        "UnprocessableEntityError",
    ),
    "models._base": ("Page",),
    "models.account": ("Account", "Quota", "Usage"),
    "models.agents": ("Agent", "AgentStats", "AgentSummary", "Risk"),
    "models.positions": ("Position",),
    "models.signals": ("Signal",),
    "models.stream": (
        "Connected",
        "Disconnected",
        "Gap",
        "Heartbeat",
        "InvalidEvent",
        "PositionReset",
        "StreamItem",
        "StreamSignal",
        "StreamStats",
        "UnknownEvent",
    ),
    "models.trades": ("Trade", "TradeDetail"),
    "models.wallets": ("TokenBalance", "Wallet", "WalletBalance"),
    "payments.signing.signer": ("LocalSigner", "Signer", "wallet_message"),
    "_async.batches": ("AsyncBatchRun",),
    "_async.market_client": ("AsyncMarketClient",),
    "_market": ("TokenQuery",),
    "_sync.batches": ("BatchRun",),
    "_sync.market_client": ("MarketClient",),
    "models.market": (
        "AggregateMetrics",
        "SignalRecord",
        "SupportedToken",
        "SupportedTokensData",
        "TokenAvgPrices",
        "TokenAvgPricesData",
        "TokenPrice",
        "TokenPricesData",
        "TokenSignals",
        "TokenSignalsData",
        "TokenWinRate",
        "TokenWinRatesData",
        "TopPerformer",
        "TopPerformersData",
    ),
    "payments.batches": ("Batch",),
    "payments.budget": (
        "Budget",
        "Spending",
    ),
    "payments.signing.keystore": ("create_keystore", "keystore_address"),
    "payments.ledger.sqlite": ("Ledger",),
    "_values.payment": ("Payment", "PaymentState", "Receipt", "SignedHeader"),
    "payments.results": (
        "DryRun",
        "MarketResult",
        "Quote",
        "Reconciliation",
    ),
    "payments.ledger.protocol": ("LedgerStore",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_NAMED_THERE = {"create_keystore": "create", "keystore_address": "address"}

__all__ = [
    # clients
    "AsyncBatchRun",
    "AsyncMarketClient",
    "AsyncPager",
    "AsyncTradeClient",
    "Batch",
    "BatchRun",
    "MarketClient",
    "Page",
    "Pager",
    "TradeClient",
    # settings and values
    "Clock",
    "Failure",
    "FailureCause",
    "LocalSigner",
    "Operation",
    "RateLimit",
    "RawResponse",
    "RetryAction",
    "RetryPolicy",
    "RetryWait",
    "Signer",
    "SystemClock",
    "Timeout",
    "wallet_message",
    # payments
    "Budget",
    "LedgerStore",
    "DryRun",
    "Ledger",
    "MarketResult",
    "Payment",
    "PaymentState",
    "Quote",
    "Receipt",
    "Reconciliation",
    "SignedHeader",
    "Spending",
    "TokenQuery",
    "create_keystore",
    "keystore_address",
    # models
    "Account",
    "Agent",
    "AgentStats",
    "AgentSummary",
    "AggregateMetrics",
    "Position",
    "Quota",
    "Risk",
    "Signal",
    "SignalRecord",
    "SupportedToken",
    "SupportedTokensData",
    "TokenAvgPrices",
    "TokenAvgPricesData",
    "TokenBalance",
    "TokenPrice",
    "TokenPricesData",
    "TokenSignals",
    "TokenSignalsData",
    "TokenWinRate",
    "TokenWinRatesData",
    "TopPerformer",
    "TopPerformersData",
    "Trade",
    "TradeDetail",
    "Usage",
    "Wallet",
    "WalletBalance",
    # errors
    "ErrorCode",
    "BudgetDetails",
    "PriceDetails",
    "RecipientDetails",
    "TokenDetails",
    "APIConnectionError",
    "APIError",
    "APIResponseError",
    "APIStatusError",
    "APITimeoutError",
    "AmbiguousOutcomeError",
    "AuthenticationError",
    "BadGatewayError",
    "ConfigError",
    "ConflictError",
    "InternalServerError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "InvalidSignatureError",
    "LedgerError",
    "NotFoundError",
    "PaymentError",
    "PaymentOutcomeUnknownError",
    "PaymentRefusedError",
    "PaymentRejectedError",
    "PaymentUndeliveredError",
    "PermissionDeniedError",
    "RateLimitError",
    "ServiceUnavailableError",
    "TradeError",
    "UnprocessableEntityError",
    "__version__",
    "SignalStream",
    "AsyncSignalStream",
    "CheckpointError",
    "StreamError",
    "StreamEndedError",
    "StreamSignal",
    "Heartbeat",
    "UnknownEvent",
    "InvalidEvent",
    "PositionReset",
    "Gap",
    "Connected",
    "Disconnected",
    "StreamStats",
    "StreamItem",
]


if not TYPE_CHECKING:  # a type checker would take any misspelt name for an object

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{home}"), _NAMED_THERE.get(name, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
