"""Market data about tokens on Base. Fields have Python names; models also accept the names on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, FailFast, Field, PlainSerializer, StrictBool, ValidationError, WrapValidator

from ._base import Model

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

    MarketSignal: TypeAlias = Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"] | str
else:  # see `_types`
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
    """One signal of a token (in `POST /v1/token-signals` and `POST /v1/signal-history`)."""

    signal: MarketSignal
    """`BUY`, `SELL` or `WAITING FOR SIGNAL`."""

    reason: str
    """An explanation for people."""

    signal_price_eth: Annotated[float, Field(alias="signalPriceEth")]
    """The price at that time, in ETH."""

    signal_price_usd: Annotated[float, Field(alias="signalPriceUsd")]
    """The price at that time, in USD."""

    signal_price_formatted: Annotated[str, Field(alias="signalPriceFormatted")]
    """Both prices as text for people."""

    created_at: Annotated[IsoTimestamp, Field(alias="createdAt")]
    """When it was generated (aware, UTC)."""

    previous_short_sma: Annotated[float | None, Field(alias="previousShortSMA")]
    """The short moving average before it; None when there was none."""

    previous_long_sma: Annotated[float | None, Field(alias="previousLongSMA")]
    """The long moving average before it; None when there was none."""

    crossover_detected: Annotated[bool, Field(alias="crossoverDetected")]
    """Whether the two averages crossed."""

    consecutive_green_candles: Annotated[int, Field(alias="consecutiveGreenCandles")]
    """Number of rising candles in a row."""


class TokenSignals(MarketModel):
    """The signals of one token (in `POST /v1/token-signals` and `POST /v1/signal-history`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract on Base."""

    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    """Its symbol, chosen by the token's creators."""

    strategy: str
    """The strategy behind the signals."""

    signal_count: Annotated[int, Field(alias="signalCount")]
    """Number of signals in this response."""

    signals: Annotated[list[SignalRecord], FailFast(), Field(max_length=100)]
    """Newest first, at most 100."""


class TokenPrice(MarketModel):
    """The current price of one token (in `POST /v1/token-prices`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract on Base."""

    symbol: str
    """Its symbol, chosen by the token's creators."""

    current_price_eth: Annotated[float, Field(alias="currentPriceEth")]
    """The price in ETH."""

    current_price_usd: Annotated[float, Field(alias="currentPriceUsd")]
    """The price in USD, from the price in ETH and the rate of ETH."""


class TokenWinRate(MarketModel):
    """The win rate of agents with one token (in `POST /v1/token-win-rate`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract on Base."""

    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    """Its symbol, chosen by the token's creators."""

    win_rate: Annotated[float | None, Field(alias="winRate")]
    """The average win rate in percent; None when there is too little data."""


class TokenAvgPrices(MarketModel):
    """Average prices at which agents bought and sold one token (in `POST /v1/token-avg-prices`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract on Base."""

    token_symbol: Annotated[str, Field(alias="tokenSymbol")]
    """Its symbol, chosen by the token's creators."""

    average_buy_price_eth: Annotated[float | None, Field(alias="averageBuyPriceETH")]
    """Average price of buys in ETH; None when nothing was bought."""

    average_buy_price_usd: Annotated[float | None, Field(alias="averageBuyPriceUSD")]
    """Average price of buys in USD; None when nothing was bought."""

    average_sell_price_eth: Annotated[float | None, Field(alias="averageSellPriceETH")]
    """Average price of sells in ETH; None when nothing was sold."""

    average_sell_price_usd: Annotated[float | None, Field(alias="averageSellPriceUSD")]
    """Average price of sells in USD; None when nothing was sold."""


class TopPerformer(MarketModel):
    """A token with good results (in `POST /v1/top-performers`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract."""

    symbol: str
    """Its symbol, chosen by the token's creators."""

    name: str
    """Its name, chosen by the token's creators."""

    network: str
    """Its network."""

    win_rate: Annotated[float, Field(alias="winRate")]
    """The win rate, in percent."""

    roi: Annotated[float, Field(alias="ROI")]
    """The return, `ROI` on the wire; the service does not say in which unit."""

    agent_count: Annotated[int, Field(alias="agentCount")]
    """Number of agents that trade it."""


class AggregateMetrics(MarketModel):
    """Totals of the whole platform (`POST /v1/aggregate-metrics`). Profits may be negative."""

    total_agents: Annotated[int, Field(alias="totalAgents")]
    """Number of agents."""

    active_agents: Annotated[int, Field(alias="activeAgents")]
    """Number of active agents."""

    total_trades: Annotated[int, Field(alias="totalTrades")]
    """Number of trades."""

    total_profitable_trades: Annotated[int, Field(alias="totalProfitableTrades")]
    """Number of trades that won."""

    total_buy_eth: Annotated[float, Field(alias="totalBuyETH")]
    """Bought, in ETH."""

    total_buy_usd: Annotated[float, Field(alias="totalBuyUSD")]
    """Bought, in USD."""

    total_sell_eth: Annotated[float, Field(alias="totalSellETH")]
    """Sold, in ETH."""

    total_sell_usd: Annotated[float, Field(alias="totalSellUSD")]
    """Sold, in USD."""

    realized_profit_eth: Annotated[float, Field(alias="realizedProfitETH")]
    """Profit of closed trades, in ETH."""

    realized_profit_usd: Annotated[float, Field(alias="realizedProfitUSD")]
    """Profit of closed trades, in USD."""

    unrealized_profit_eth: Annotated[float, Field(alias="unrealizedProfitETH")]
    """Profit of open trades, in ETH."""

    unrealized_profit_usd: Annotated[float, Field(alias="unrealizedProfitUSD")]
    """Profit of open trades, in USD."""

    win_rate: Annotated[float, Field(alias="winRate")]
    """The win rate, in percent."""


class SupportedToken(MarketModel):
    """A token with market data (in `POST /v1/supported-tokens`)."""

    token_address: Annotated[str, Field(alias="tokenAddress")]
    """The token's contract."""

    symbol: str
    """Its symbol, chosen by the token's creators."""

    name: str
    """Its name, chosen by the token's creators."""

    network: str
    """Its network."""

    logo: str
    """URL of its logo."""

    market_cap: Annotated[float, Field(alias="marketCap")]
    """Its market capitalization; the service does not name the currency."""

    market_cap_rank: Annotated[int, Field(alias="marketCapRank")]
    """Its rank by market capitalization, 1 for the largest."""

    pool_address: Annotated[str, Field(alias="poolAddress")]
    """The contract of its trading pool."""

    agent_count: Annotated[int, Field(alias="agentCount")]
    """Number of agents that trade it."""


ResultT = TypeVar("ResultT", bound=MarketModel)


class TokenResults(MarketModel, Generic[ResultT]):
    """One result for each token of the request (in the responses of the five endpoints that take tokens)."""

    results: Annotated[list[ResultT], FailFast(), Field(max_length=5)]
    """One result for each token, at most 5."""


class TopPerformers(MarketModel):
    """The tokens with the best results (`POST /v1/top-performers`)."""

    tokens: Annotated[list[TopPerformer], FailFast(), Field(max_length=300)]
    """The best first, at most 300."""


class SupportedTokens(MarketModel):
    """The tokens with market data (`POST /v1/supported-tokens`)."""

    total: int
    """Number of all tokens with market data."""

    tokens: Annotated[list[SupportedToken], FailFast(), Field(max_length=500)]
    """The tokens in this response, at most 500."""


DataT = TypeVar("DataT", bound=MarketModel)


class MarketAnswer(MarketModel, Generic[DataT]):
    """The wrapper of every market-data response: either `data` or `error` is set."""

    success: StrictBool
    """Whether there is `data`."""

    data: DataT | None
    """The result; None in a failure."""

    error: str | None
    """What went wrong, for people; None in a success."""
