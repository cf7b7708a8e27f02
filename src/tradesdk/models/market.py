"""Market data about tokens on Base. Fields have Python names; models also accept the names on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, FailFast, Field, PlainSerializer, StrictBool, ValidationError, WrapValidator

from ._base import Model

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

    MarketSignal: TypeAlias = Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"] | str
else:  # as in `_types`
    MarketSignal = str

SignalType: TypeAlias = Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"]
"""Type of past signals to return; `ALL` for every type."""
SortBy: TypeAlias = Literal["winRate", "ROI"]
"""Sort key of top performers."""


def _in_utc(value: Any, read: ValidatorFunctionWrapHandler) -> datetime:
    try:
        moment: datetime = read(value)
    except ValidationError:
        if not isinstance(value, str):
            raise
        try:
            moment = datetime.fromisoformat(value)  # reads more of ISO 8601, such as the form without hyphens
        except ValueError:
            moment = read(value)  # raises the better message
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999") from None


def iso_moment(moment: datetime) -> str:
    """An aware datetime as ISO 8601 in UTC, to the microsecond: `2026-01-04T01:20:58Z`."""
    moment = moment.astimezone(UTC).replace(tzinfo=None)
    if moment.microsecond == 0:
        return moment.isoformat(timespec="seconds") + "Z"
    return moment.isoformat(timespec="microseconds" if moment.microsecond % 1000 else "milliseconds") + "Z"


IsoTimestamp: TypeAlias = Annotated[
    datetime, WrapValidator(_in_utc), PlainSerializer(iso_moment, return_type=str, when_used="json")
]
"""ISO 8601 on the wire, an aware datetime in UTC here. Without a time zone it is read as UTC."""


class MarketModel(Model):
    """A frozen value from the market-data service; `model_dump` gives the names on the wire."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True, serialize_by_alias=True)


class SignalRecord(MarketModel):
    """One signal of a token (in `POST /v1/token-signals` and `POST /v1/signal-history`).

    Attributes:
        signal: `BUY`, `SELL` or `WAITING FOR SIGNAL`.
        reason: an explanation for people.
        signal_price_eth: the price at that time, in ETH.
        signal_price_usd: the price at that time, in USD.
        signal_price_formatted: both prices as text for people.
        created_at: when it was generated (aware, UTC).
        previous_short_sma: the short moving average before it; None when there was none.
        previous_long_sma: the long moving average before it; None when there was none.
        crossover_detected: whether the two averages crossed.
        consecutive_green_candles: number of rising candles in a row.
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
        token_symbol: its symbol, chosen by the token's creators.
        strategy: the strategy behind the signals.
        signal_count: number of signals in this answer.
        signals: newest first, at most 100.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    strategy: str
    signal_count: Annotated[int, Field(alias="signalCount")]
    signals: Annotated[list[SignalRecord], FailFast(), Field(max_length=100)]


class TokenPrice(MarketModel):
    """The current price of one token (in `POST /v1/token-prices`).

    Attributes:
        token_address: the token's contract on Base.
        symbol: its symbol, chosen by the token's creators.
        current_price_eth: in ETH.
        current_price_usd: in USD, from the price in ETH and the rate of ETH.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    symbol: str
    current_price_eth: Annotated[float, Field(alias="currentPriceEth")]
    current_price_usd: Annotated[float, Field(alias="currentPriceUsd")]


class TokenWinRate(MarketModel):
    """The win rate of agents with one token (in `POST /v1/token-win-rate`).

    Attributes:
        token_address: the token's contract on Base.
        token_symbol: its symbol, chosen by the token's creators.
        win_rate: the average in percent; None when there is too little data.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    win_rate: Annotated[float | None, Field(alias="winRate")]


class TokenAvgPrices(MarketModel):
    """Average prices at which agents bought and sold one token (in `POST /v1/token-avg-prices`).

    Attributes:
        token_address: the token's contract on Base.
        token_symbol: its symbol, chosen by the token's creators.
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
    """A token with good results (in `POST /v1/top-performers`).

    Attributes:
        token_address: the token's contract.
        symbol: its symbol, chosen by the token's creators.
        name: its name, chosen by the token's creators.
        network: its network.
        win_rate: in percent.
        roi: the return, `ROI` on the wire.
        agent_count: number of agents that trade it.
    """

    token_address: Annotated[str, Field(alias="tokenAddress")]
    symbol: str
    name: str
    network: str
    win_rate: Annotated[float, Field(alias="winRate")]
    roi: Annotated[float, Field(alias="ROI")]
    agent_count: Annotated[int, Field(alias="agentCount")]


class AggregateMetrics(MarketModel):
    """Totals of the whole platform (`POST /v1/aggregate-metrics`). Profits may be negative.

    Attributes:
        total_agents: number of agents.
        active_agents: number of active agents.
        total_trades: number of trades.
        total_profitable_trades: number of trades that won.
        total_buy_eth: bought, in ETH.
        total_buy_usd: bought, in USD.
        total_sell_eth: sold, in ETH.
        total_sell_usd: sold, in USD.
        realized_profit_eth: of closed trades, in ETH.
        realized_profit_usd: of closed trades, in USD.
        unrealized_profit_eth: of open trades, in ETH.
        unrealized_profit_usd: of open trades, in USD.
        win_rate: in percent.
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
    """A token with market data (in `POST /v1/supported-tokens`).

    Attributes:
        token_address: the token's contract.
        symbol: its symbol, chosen by the token's creators.
        name: its name, chosen by the token's creators.
        network: its network.
        logo: URL of its logo.
        market_cap: its market capitalization.
        market_cap_rank: its rank by market capitalization, 1 for the largest.
        pool_address: the contract of its trading pool.
        agent_count: number of agents that trade it.
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
    """One result for each token of the request (in the answers of the five endpoints that take tokens).

    Attributes:
        results: at most 5.
    """

    results: Annotated[list[ResultT], FailFast(), Field(max_length=5)]


class TopPerformers(MarketModel):
    """The tokens with the best results (`POST /v1/top-performers`).

    Attributes:
        tokens: the best first, at most 300.
    """

    tokens: Annotated[list[TopPerformer], FailFast(), Field(max_length=300)]


class SupportedTokens(MarketModel):
    """The tokens with market data (`POST /v1/supported-tokens`).

    Attributes:
        total: number of all tokens with market data.
        tokens: the tokens in this answer, at most 500.
    """

    total: int
    tokens: Annotated[list[SupportedToken], FailFast(), Field(max_length=500)]


DataT = TypeVar("DataT", bound=MarketModel)


class MarketAnswer(MarketModel, Generic[DataT]):
    """The wrapper of every market-data answer: either `data` or `error` is set.

    Attributes:
        success: whether there is `data`.
        data: the result; None in a failure.
        error: what went wrong, for people; None in a success.
    """

    success: StrictBool
    data: DataT | None
    error: str | None
