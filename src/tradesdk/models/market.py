"""Market data about tokens on Base. Names are Python's here and the service's on the wire: both can be handed in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, FailFast, Field, PlainSerializer, StrictBool, ValidationError, WrapValidator

from ._base import Model

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

    MarketSignal: TypeAlias = Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"] | str
else:  # as in `_types`: every string is allowed anyway
    MarketSignal = str

SignalType: TypeAlias = Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"]
"""What signals of the past are asked for; `ALL` is every kind."""
SortBy: TypeAlias = Literal["winRate", "ROI"]
"""What top performers are sorted by."""


def _in_utc(value: Any, read: ValidatorFunctionWrapHandler) -> datetime:
    try:
        moment: datetime = read(value)
    except ValidationError:
        if not isinstance(value, str):
            raise
        try:
            moment = datetime.fromisoformat(value)  # knows more of ISO 8601, such as the form without hyphens
        except ValueError:
            moment = read(value)  # whose message is the better one
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is a moment beyond the calendar") from None


def iso_moment(moment: datetime) -> str:
    """An aware datetime as ISO 8601 in UTC, to the microsecond: `2026-01-04T01:20:58Z`."""
    moment = moment.astimezone(UTC).replace(tzinfo=None)
    if moment.microsecond == 0:
        return moment.isoformat(timespec="seconds") + "Z"
    return moment.isoformat(timespec="microseconds" if moment.microsecond % 1000 else "milliseconds") + "Z"


IsoTimestamp: TypeAlias = Annotated[
    datetime, WrapValidator(_in_utc), PlainSerializer(iso_moment, return_type=str, when_used="json")
]
"""ISO 8601 on the wire, an aware datetime in UTC here. Without a zone it is taken as UTC."""


class MarketModel(Model):
    """A frozen value of the market-data service; `model_dump` gives the service's own names."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True, serialize_by_alias=True)


class SignalRecord(MarketModel):
    """One signal of a token (in `POST /v1/token-signals` and `POST /v1/signal-history`).

    Attributes:
        signal: `BUY`, `SELL` or `WAITING FOR SIGNAL`.
        reason: an explanation for people.
        signal_price_eth: the price at that time, ETH.
        signal_price_usd: the same, USD.
        signal_price_formatted: both of them for people.
        created_at: when it was made (aware, UTC).
        previous_short_sma: the short moving average before it; None when there was none.
        previous_long_sma: the long moving average before it; None when there was none.
        crossover_detected: whether the two averages crossed.
        consecutive_green_candles: how many candles in a row had risen.
    """

    signal: MarketSignal
    reason: str
    signal_price_eth: Annotated[float, Field(alias="signalPriceEth")]
    signal_price_usd: Annotated[float, Field(alias="signalPriceUsd")]
    signal_price_formatted: Annotated[str, Field(alias="signalPriceFormatted")]
    created_at: Annotated[IsoTimestamp, Field(alias="createdAt")]
    previous_short_sma: Annotated[float | None, Field(alias="previousShortSMA")]
    previous_long_sma: Annotated[float | None, Field(alias="previousLongSMA")]
    crossover_detected: Annotated[bool, Field(alias="crossoverDetected")]
    consecutive_green_candles: Annotated[int, Field(alias="consecutiveGreenCandles")]


class TokenSignals(MarketModel):
    """The signals of one token (in `POST /v1/token-signals` and `POST /v1/signal-history`).

    Attributes:
        token_address: the token's contract on Base.
        token_symbol: its symbol, as its makers chose it.
        strategy: what the signals are made by.
        signal_count: how many there are here.
        signals: newest first, at most 100.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    strategy: str
    signal_count: Annotated[int, Field(alias="signalCount")]
    signals: Annotated[list[SignalRecord], FailFast(), Field(max_length=100)]


class TokenPrice(MarketModel):
    """What one token costs now (in `POST /v1/token-prices`).

    Attributes:
        token_address: the token's contract on Base.
        symbol: its symbol, as its makers chose it.
        current_price_eth: in ETH.
        current_price_usd: in USD: the price in ETH times the rate of ETH.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    symbol: str
    current_price_eth: Annotated[float, Field(alias="currentPriceEth")]
    current_price_usd: Annotated[float, Field(alias="currentPriceUsd")]


class TokenWinRate(MarketModel):
    """How often agents won with one token (in `POST /v1/token-win-rate`).

    Attributes:
        token_address: the token's contract on Base.
        token_symbol: its symbol, as its makers chose it.
        win_rate: the average in per cent; None with too little to go by.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    win_rate: Annotated[float | None, Field(alias="winRate")]


class TokenAvgPrices(MarketModel):
    """What agents paid and got for one token on average (in `POST /v1/token-avg-prices`).

    Attributes:
        token_address: the token's contract on Base.
        token_symbol: its symbol, as its makers chose it.
        average_buy_price_eth: in ETH; None when nothing was bought.
        average_buy_price_usd: in USD; None when nothing was bought.
        average_sell_price_eth: in ETH; None when nothing was sold.
        average_sell_price_usd: in USD; None when nothing was sold.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    average_buy_price_eth: Annotated[float | None, Field(alias="averageBuyPriceETH")]
    average_buy_price_usd: Annotated[float | None, Field(alias="averageBuyPriceUSD")]
    average_sell_price_eth: Annotated[float | None, Field(alias="averageSellPriceETH")]
    average_sell_price_usd: Annotated[float | None, Field(alias="averageSellPriceUSD")]


class TopPerformer(MarketModel):
    """A token that agents do well with (in `POST /v1/top-performers`).

    Attributes:
        token_address: the token's contract.
        symbol: its symbol, as its makers chose it.
        name: its name, as its makers chose it.
        network: where it is.
        win_rate: in per cent.
        roi: the return, `ROI` on the wire.
        agent_count: how many agents trade it.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    symbol: str
    name: str
    network: str
    win_rate: Annotated[float, Field(alias="winRate")]
    roi: Annotated[float, Field(alias="ROI")]
    agent_count: Annotated[int, Field(alias="agentCount")]


class AggregateMetrics(MarketModel):
    """The whole platform in numbers (`POST /v1/aggregate-metrics`). Profits may be negative.

    Attributes:
        total_agents: all agents.
        active_agents: those that are active.
        total_trades: all trades.
        total_profitable_trades: those that won.
        total_buy_eth: bought, ETH.
        total_buy_usd: bought, USD.
        total_sell_eth: sold, ETH.
        total_sell_usd: sold, USD.
        realized_profit_eth: of closed trades, ETH.
        realized_profit_usd: of closed trades, USD.
        unrealized_profit_eth: of open ones, ETH.
        unrealized_profit_usd: of open ones, USD.
        win_rate: in per cent.
    """

    total_agents: Annotated[int, Field(alias="totalAgents")]
    active_agents: Annotated[int, Field(alias="activeAgents")]
    total_trades: Annotated[int, Field(alias="totalTrades")]
    total_profitable_trades: Annotated[int, Field(alias="totalProfitableTrades")]
    total_buy_eth: Annotated[float, Field(alias="totalBuyETH")]
    total_buy_usd: Annotated[float, Field(alias="totalBuyUSD")]
    total_sell_eth: Annotated[float, Field(alias="totalSellETH")]
    total_sell_usd: Annotated[float, Field(alias="totalSellUSD")]
    realized_profit_eth: Annotated[float, Field(alias="realizedProfitETH")]
    realized_profit_usd: Annotated[float, Field(alias="realizedProfitUSD")]
    unrealized_profit_eth: Annotated[float, Field(alias="unrealizedProfitETH")]
    unrealized_profit_usd: Annotated[float, Field(alias="unrealizedProfitUSD")]
    win_rate: Annotated[float, Field(alias="winRate")]


class SupportedToken(MarketModel):
    """A token that there is market data about (in `POST /v1/supported-tokens`).

    Attributes:
        token_address: the token's contract.
        symbol: its symbol, as its makers chose it.
        name: its name, as its makers chose it.
        network: where it is.
        logo: URL of a picture.
        market_cap: its market capitalisation.
        market_cap_rank: its place by that, 1 for the largest.
        pool_address: the contract of the pool it is traded in.
        agent_count: how many agents trade it.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    symbol: str
    name: str
    network: str
    logo: str
    market_cap: Annotated[float, Field(alias="marketCap")]
    market_cap_rank: Annotated[int, Field(alias="marketCapRank")]
    pool_address: Annotated[str, Field(alias="poolAddress")]
    agent_count: Annotated[int, Field(alias="agentCount")]


ResultT = TypeVar("ResultT", bound=MarketModel)


class TokenResults(MarketModel, Generic[ResultT]):
    """One result for each token of the request (in the answers to the five endpoints about given tokens).

    Attributes:
        results: at most 5.
    """

    results: Annotated[list[ResultT], FailFast(), Field(max_length=5)]


class TopPerformers(MarketModel):
    """The tokens that agents do best with (`POST /v1/top-performers`).

    Attributes:
        tokens: the best first, at most 300.
    """

    tokens: Annotated[list[TopPerformer], FailFast(), Field(max_length=300)]


class SupportedTokens(MarketModel):
    """The tokens with market data (`POST /v1/supported-tokens`).

    Attributes:
        total: the number of all of them.
        tokens: those in this answer, at most 500.
    """

    total: int
    tokens: Annotated[list[SupportedToken], FailFast(), Field(max_length=500)]


DataT = TypeVar("DataT", bound=MarketModel)


class MarketAnswer(MarketModel, Generic[DataT]):
    """What every answer about market data is wrapped in: either `data` or `error`, and the other one null.

    Attributes:
        success: whether there is `data`.
        data: what was asked for; None in a failure.
        error: what went wrong, for people; None in a success.
    """

    success: StrictBool
    data: DataT | None
    error: str | None
