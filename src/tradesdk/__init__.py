"""Typed clients for a trading agent and market signal service, blocking and async.

Clients, with async twins AsyncTradeClient and AsyncMarketClient that have the same methods:

    TradeClient     agents, wallets, trades, positions, signals (key: TRADE_API_KEY)
    MarketClient    market data, paid per call in USDC (signer: TRADE_WALLET_KEY)

    from tradesdk import Budget, MarketClient, TradeClient

    with TradeClient() as trade:
        trade.account.get().plan
        trade.agents.create(name="one", wallet_id="wal_1", chain_id=8453, risk={"stop_loss_pct": 5})
        for closed in trade.trades.list(status="closed"): ...          # all pages; .page() is the first
        with trade.signals.stream(chain=8453) as signals: ...          # reconnects; no gaps, no duplicates

    with MarketClient(budget=Budget(per_day="5.00")) as market:
        market.quote.token_prices(["ETH"]).price                       # published price; sends nothing
        market.dry_run.token_prices(["ETH"]).authorization             # what would be signed; signs nothing
        market.token_prices(["ETH"], max_price="0.10").data            # paid

What they take and return:

    lists           Pager, Page, arrow_table
    account         Account, Usage, Agent, Risk, Wallet, Trade, Position, Signal, ...
    stream          SignalStream, StreamSignal, Gap, Heartbeat, StreamStats, ...
    market data     MarketResult, Quote, DryRun, BatchRun, TokenQuery, TokenPrice, TokenSignals, ...
    payments        LocalSigner, Budget, Spending, Ledger, Payment, Receipt, ChainWitness, ...
    settings        RetryPolicy, Timeout, Clock

All errors are TradeError:

    APIError                  the service refused the request or could not be reached
      APIStatusError            by status: AuthenticationError, NotFoundError, RateLimitError, ...
    PaymentError              PaymentRefusedError (nothing was signed), PaymentOutcomeUnknownError, ...
    StreamError, LedgerError, ConfigError, InvalidArgumentError (nothing was sent)

dir(tradesdk) lists all names, help(tradesdk.TradeClient) explains one. Names are imported at first use. Rarer ones are
in tradesdk.payments (what is signed, proven and refused) and tradesdk.types (for retries and limiters of your own).
"""

from ._exports import exports
from ._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # `as` makes the names public to type checkers
    from ._async.batches import AsyncBatchRun as AsyncBatchRun
    from ._async.chain_witness import AsyncChainWitness as AsyncChainWitness
    from ._async.client import AsyncTradeClient as AsyncTradeClient
    from ._async.market_client import AsyncMarketClient as AsyncMarketClient
    from ._async.pagination import AsyncPager as AsyncPager
    from ._async.session import AsyncRateLimiter as AsyncRateLimiter
    from ._async.signal_stream import AsyncSignalStream as AsyncSignalStream
    from ._frames import arrow_table as arrow_table
    from ._http.retry import RetryPolicy as RetryPolicy
    from ._http.settings import Timeout as Timeout
    from ._market import TokenQuery as TokenQuery
    from ._sync.batches import BatchRun as BatchRun
    from ._sync.chain_witness import ChainWitness as ChainWitness
    from ._sync.client import TradeClient as TradeClient
    from ._sync.market_client import MarketClient as MarketClient
    from ._sync.pagination import Pager as Pager
    from ._sync.session import RateLimiter as RateLimiter
    from ._sync.signal_stream import SignalStream as SignalStream
    from ._system.clock import Clock as Clock
    from ._system.clock import SystemClock as SystemClock
    from ._values.http import RateLimit as RateLimit
    from ._values.http import RawResponse as RawResponse
    from ._values.payment import Payment as Payment
    from ._values.payment import PaymentStage as PaymentStage
    from ._values.payment import Receipt as Receipt
    from .errors import AmbiguousOutcomeError as AmbiguousOutcomeError
    from .errors import APIConnectionError as APIConnectionError
    from .errors import APIError as APIError
    from .errors import APIResponseError as APIResponseError
    from .errors import APIStatusError as APIStatusError
    from .errors import APITimeoutError as APITimeoutError
    from .errors import AuthenticationError as AuthenticationError
    from .errors import BadGatewayError as BadGatewayError
    from .errors import CheckpointError as CheckpointError
    from .errors import ConfigError as ConfigError
    from .errors import ConflictError as ConflictError
    from .errors import ErrorCode as ErrorCode
    from .errors import FleetError as FleetError
    from .errors import InternalServerError as InternalServerError
    from .errors import InvalidArgumentError as InvalidArgumentError
    from .errors import InvalidRequestError as InvalidRequestError
    from .errors import InvalidSignatureError as InvalidSignatureError
    from .errors import LedgerError as LedgerError
    from .errors import NotFoundError as NotFoundError
    from .errors import PaymentError as PaymentError
    from .errors import PaymentOutcomeUnknownError as PaymentOutcomeUnknownError
    from .errors import PaymentRefusedError as PaymentRefusedError
    from .errors import PaymentRejectedError as PaymentRejectedError
    from .errors import PaymentUndeliveredError as PaymentUndeliveredError
    from .errors import PermissionDeniedError as PermissionDeniedError
    from .errors import RateLimitError as RateLimitError
    from .errors import ServiceUnavailableError as ServiceUnavailableError
    from .errors import StreamEndedError as StreamEndedError
    from .errors import StreamError as StreamError
    from .errors import TradeError as TradeError
    from .errors import UnprocessableEntityError as UnprocessableEntityError
    from .models._base import Page as Page
    from .models.account import Account as Account
    from .models.account import Quota as Quota
    from .models.account import Usage as Usage
    from .models.agents import Agent as Agent
    from .models.agents import AgentStats as AgentStats
    from .models.agents import AgentSummary as AgentSummary
    from .models.agents import Risk as Risk
    from .models.market import AggregateMetrics as AggregateMetrics
    from .models.market import SignalRecord as SignalRecord
    from .models.market import SupportedToken as SupportedToken
    from .models.market import SupportedTokens as SupportedTokens
    from .models.market import TokenAvgPrices as TokenAvgPrices
    from .models.market import TokenPrice as TokenPrice
    from .models.market import TokenResults as TokenResults
    from .models.market import TokenSignals as TokenSignals
    from .models.market import TokenWinRate as TokenWinRate
    from .models.market import TopPerformer as TopPerformer
    from .models.market import TopPerformers as TopPerformers
    from .models.positions import Position as Position
    from .models.signals import Signal as Signal
    from .models.stream import Connected as Connected
    from .models.stream import Disconnected as Disconnected
    from .models.stream import Gap as Gap
    from .models.stream import Heartbeat as Heartbeat
    from .models.stream import InvalidEvent as InvalidEvent
    from .models.stream import PositionReset as PositionReset
    from .models.stream import StreamSignal as StreamSignal
    from .models.stream import StreamStats as StreamStats
    from .models.stream import UnknownEvent as UnknownEvent
    from .models.trades import Trade as Trade
    from .models.trades import TradeDetail as TradeDetail
    from .models.wallets import TokenBalance as TokenBalance
    from .models.wallets import Wallet as Wallet
    from .models.wallets import WalletBalance as WalletBalance
    from .payments.batches import Batch as Batch
    from .payments.budget import Budget as Budget
    from .payments.budget import Spending as Spending
    from .payments.budget import WindowSpending as WindowSpending
    from .payments.ledger.store import Ledger as Ledger
    from .payments.results import DryRun as DryRun
    from .payments.results import MarketResult as MarketResult
    from .payments.results import Quote as Quote
    from .payments.results import Reconciliation as Reconciliation
    from .payments.signing.keystore import create_keystore as create_keystore
    from .payments.signing.keystore import keystore_address as keystore_address
    from .payments.signing.signer import LocalSigner as LocalSigner
    from .payments.signing.signer import Signer as Signer
    from .payments.signing.signer import wallet_message as wallet_message

if not TYPE_CHECKING:  # type checkers take the names above; with `__getattr__`, they would accept any misspelled one
    __all__, __getattr__, __dir__ = exports(
        __name__,
        {
            "_async.batches": "AsyncBatchRun",
            "_async.chain_witness": "AsyncChainWitness",
            "_async.client": "AsyncTradeClient",
            "_async.market_client": "AsyncMarketClient",
            "_async.pagination": "AsyncPager",
            "_async.session": "AsyncRateLimiter",
            "_async.signal_stream": "AsyncSignalStream",
            "_frames": "arrow_table",
            "_http.retry": "RetryPolicy",
            "_http.settings": "Timeout",
            "_market": "TokenQuery",
            "_sync.batches": "BatchRun",
            "_sync.chain_witness": "ChainWitness",
            "_sync.client": "TradeClient",
            "_sync.market_client": "MarketClient",
            "_sync.pagination": "Pager",
            "_sync.session": "RateLimiter",
            "_sync.signal_stream": "SignalStream",
            "_system.clock": "Clock SystemClock",
            "_values.http": "RateLimit RawResponse",
            "_values.payment": "Payment PaymentStage Receipt",
            "errors": """
                AmbiguousOutcomeError APIConnectionError APIError APIResponseError APIStatusError APITimeoutError
                AuthenticationError BadGatewayError CheckpointError ConfigError ConflictError ErrorCode FleetError
                InternalServerError InvalidArgumentError InvalidRequestError InvalidSignatureError LedgerError
                NotFoundError PaymentError PaymentOutcomeUnknownError PaymentRefusedError PaymentRejectedError
                PaymentUndeliveredError PermissionDeniedError RateLimitError ServiceUnavailableError StreamEndedError
                StreamError TradeError UnprocessableEntityError
            """,
            "models._base": "Page",
            "models.account": "Account Quota Usage",
            "models.agents": "Agent AgentStats AgentSummary Risk",
            "models.market": """
                AggregateMetrics SignalRecord SupportedToken SupportedTokens TokenAvgPrices TokenPrice TokenResults
                TokenSignals TokenWinRate TopPerformer TopPerformers
            """,
            "models.positions": "Position",
            "models.signals": "Signal",
            "models.stream": """
                Connected Disconnected Gap Heartbeat InvalidEvent PositionReset StreamSignal StreamStats UnknownEvent
            """,
            "models.trades": "Trade TradeDetail",
            "models.wallets": "TokenBalance Wallet WalletBalance",
            "payments.batches": "Batch",
            "payments.budget": "Budget Spending WindowSpending",
            "payments.ledger.store": "Ledger",
            "payments.results": "DryRun MarketResult Quote Reconciliation",
            "payments.signing.keystore": "create_keystore keystore_address",
            "payments.signing.signer": "LocalSigner Signer wallet_message",
        },
        "__version__",
    )
