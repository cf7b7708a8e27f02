"""The client of the paid market-data API."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _market as market
from .._http import settings
from .._http.arguments import flags, wrong_setting
from .._http.retry import RetryPolicy
from .._http.service_time import ServiceClock
from .._http.settings import Timeout
from .._market import MarketRequest, TokenQuery
from .._system.clock import Clock
from .._values.frames import hides_locals
from .._values.http import RawResponse
from .._values.payment import origin_of
from ..errors import ConfigError, InvalidArgumentError
from ..models.market import (
    AggregateMetrics,
    SignalType,
    SortBy,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformers,
)
from ..payments.budget import Budget, Usd
from ..payments.buyer import Buyer
from ..payments.guards import checked_validity
from ..payments.ledger.store import Ledger
from ..payments.results import DryRun, MarketResult, Quote
from ..payments.signing.secp256k1 import checked_address
from ..payments.signing.signer import KEY_VARIABLE, KEYSTORE_VARIABLE, LocalSigner, Signer, checked_signer
from .base_client import AsyncBaseClient, open_session
from .chain_proofs import AsyncChainProofs
from .previews import AsyncPreviews
from .purchase_driver import AsyncPurchaseDriver
from .session import AsyncRateLimiter, AsyncSession

if not TYPE_CHECKING:
    from .._http.parts import part
if TYPE_CHECKING:
    from functools import cached_property as part  # under this name, as documentation tools know only this one

    from .batches import AsyncBatches
    from .chain_witness import AsyncChainWitness
    from .httpx_sender import AsyncHttpClient
    from .payment_history import AsyncPayments

T = TypeVar("T")

_PAID_READ = 90.0
"""Seconds to wait for a paid response: a settlement waits for a block."""
_PAY_TO = 'write pay_to=["0x…"], with the whole address'


class AsyncMarketClient(AsyncBaseClient):
    """Paid market data on Base tokens: signals, prices, win rates, average prices, top performers, metrics.

    Every paid call is guarded (price, recipient, token, network), budgeted, recorded before it is sent, signed once,
    and never paid twice. Close it, or use it as a context manager. It belongs to one event loop.

    All paid methods take `max_price`: the call may cost at most this much, in USD (default: the published price); and
    `purchase`: the name of this purchase. It is paid for once, on all machines with this wallet, and its answer is kept
    for 30 days. They raise `InvalidArgumentError` (an argument was refused, nothing was sent), `PaymentRefusedError` (a
    guard or a budget refused it, nothing was signed), `PaymentOutcomeUnknownError` (it may have been paid; see
    `error.payment` and `error.hint`), and other `PaymentError` and `APIError`, with `.payment` if one was sent.

    Args:
        profile: the profile that `trade login --profile NAME` saved; else TRADE_PROFILE names it. It gives the
            service's URL and, with `send_api_key`, the key, unless an argument or another variable does.
        signer: the payer: `LocalSigner`, or anything with `address`, and `sign_typed_data` (an account of eth-account,
            for example) or `sign_digest`; else that of `LocalSigner.from_env()`: TRADE_WALLET_KEY, or TRADE_KEYSTORE.
            Without one, quotes and free calls still work.
        budget: limits of spending. TRADE_BUDGET_PER_CALL, _PER_HOUR, _PER_DAY, _PER_MONTH, _TOTAL and the ledger's own
            budget also apply; the strictest limit wins. Without any, only calls with `max_price=` are paid.
        ledger: where payments are recorded; else a file in TRADE_HOME or in the user's data folder. The client closes
            it only if it opened it.
        pay_to: the only addresses to pay. By default the first address paid is remembered, and a change is refused.
        allow_upfront: also pay services that take the money before they do the work (`paymentFlow: upfront`), where
            they offer nothing else. They may take it and respond with an error: then the payment is in doubt.
        base_url: the service's URL; else TRADE_MARKET_BASE_URL, TRADE_BASE_URL, that of the profile, or that of
            `http_client`.
        send_api_key: also send the API key, which the service is not known to need.
        api_key: that key; else TRADE_API_KEY; else that of the profile.
        max_validity: at most this many seconds of validity for a signed payment (default 120, at least 10).
        witness: asks the chain about payments with an unknown outcome, when they are reconciled or resumed, and before
            a budget refuses a call for what they hold, and about the wallet's balance; else one for TRADE_RPC_URL (one
            URL, or several with spaces between them), if that is set. The client closes it only if it made it.
        check_tokens: check symbols against the service's free list before signing (fetched once an hour; addresses and
            ids with a hyphen pass). If the list cannot be read, the check is skipped.
        continue_for: seconds from its first signing in which an equal call without a name continues an unfinished
            payment; a later call is another purchase, and the earlier payment stays counted (default 600).
        collect: False: a paid answer stays in the ledger, for the next equal call as well, until
            `payments.collect` says that it is in safe hands.
        timeout: seconds for each part of one attempt, or a `Timeout` (default: connect 5, read 30, 90 for a paid
            answer, write 30, pool 10).
        max_retries: retries per call, 0 to 5 (default 5). A payment is resent only as the same bytes.
        deadline: seconds that one call may take with all its retries (default 180).
        retry: when a failed request is sent again.
        throttle: wait for the reset when the rate limit is used up.
        rate_limiter: a rate limiter to share with others, only with `send_api_key=True`, because they share the rate
            limit of a key. It is never closed.
        allow_insecure: allow plain http to other machines. Nothing is paid there.
        clock: Clock to use (tests pass their own).
        http_client: an httpx or httpx2 client to send with; it is never closed or changed. A payment whose connection
            failed counts as sent then, because its transport may have tried before.

    Raises:
        ConfigError: a setting is missing or unusable; the message names it.

    Example:
        ```python
        async with AsyncMarketClient(budget=Budget(per_day="5.00")) as market:
            prices = await market.token_prices(["ETH", "BRETT"])
        ```
    """

    @hides_locals
    def __init__(
        self,
        *,
        profile: str | None = None,
        signer: Signer | None = None,
        budget: Budget | None = None,
        ledger: Ledger | None = None,
        pay_to: Sequence[str] = (),
        allow_upfront: bool = False,
        base_url: str | None = None,
        send_api_key: bool = False,
        api_key: str | Callable[[], str] | None = None,
        max_validity: int = 120,
        check_tokens: bool = True,
        continue_for: float = 600.0,
        witness: AsyncChainWitness | None = None,
        collect: bool = True,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float = 180.0,
        retry: RetryPolicy | None = None,
        throttle: bool = True,
        rate_limiter: AsyncRateLimiter | None = None,
        allow_insecure: bool = False,
        clock: Clock | None = None,
        http_client: AsyncHttpClient | None = None,
    ) -> None:
        settings.instance("budget", budget, Budget, 'a Budget, such as Budget(per_day="5.00")')
        settings.instance("ledger", ledger, Ledger, "a Ledger")
        flags(
            wrong_setting,
            allow_upfront=allow_upfront,
            send_api_key=send_api_key,
            check_tokens=check_tokens,
            collect=collect,
        )
        for name, given, why in (
            ("api_key", api_key, "market data is paid for, without a key"),
            ("rate_limiter", rate_limiter, "it is for the rate limit of a key"),
        ):
            if given is not None and not send_api_key:
                hint = f"leave {name}= out, or pass send_api_key=True if the service wants the key as well"
                raise ConfigError(f"{name}= has no effect without send_api_key=True: {why}", hint=hint)
        if witness is not None:
            from .chain_witness import AsyncChainWitness

            settings.instance("witness", witness, AsyncChainWitness, AsyncChainWitness.__name__)
        if isinstance(pay_to, str) or not isinstance(pay_to, Sequence):
            raise InvalidArgumentError("pay_to must be a list of addresses", hint=_PAY_TO)
        recipients = tuple(checked_address("each of pay_to", address, _PAY_TO) for address in pay_to)
        if signer is not None:
            checked_signer(signer)
        self._session = session = open_session(
            base_url,
            api_key,
            profile,
            timeout=timeout,
            max_retries=max_retries,
            deadline=deadline,
            retry=retry,
            throttle=throttle,
            rate_limiter=rate_limiter,
            allow_insecure=allow_insecure,
            clock=clock,
            http_client=http_client,
            api="market",
            keyed=send_api_key,
            why_https=settings.NOT_PAID_THERE,
        )
        self._own_witness = None if witness is not None else _witness_of_environment(session.clock)
        self._ledger: Ledger | None = None
        if ledger is None:
            ledger = self._ledger = Ledger()
        has_key = any(os.environ.get(name) for name in (KEY_VARIABLE, KEYSTORE_VARIABLE))
        buyer = Buyer(
            ledger=ledger,
            origin=origin_of(session.base_url),
            wallet=LocalSigner.from_env if signer is None and has_key else signer,
            budget=(budget or Budget()).strictest(Budget.from_environment()),
            max_validity=checked_validity(max_validity),
            pay_to=recipients,
            allow_upfront=allow_upfront,
            continue_for=settings.continue_for(continue_for),
            collect=collect,
            clock=session.clock,
            time=ServiceClock(),
        )
        self._paying = AsyncPurchaseDriver(
            session,
            session.with_options(timeout=Timeout(read=_PAID_READ) if timeout is None else timeout),
            buyer,
            AsyncChainProofs(buyer, witness or self._own_witness),
            check_tokens=check_tokens,
        )

    @part
    def quote(self) -> AsyncPreviews[Quote]:
        """Quotes: published prices of calls, and what the budgets leave. No key, no request."""
        return AsyncPreviews(self._session.base_url, self._paying.quote)

    @part
    def dry_run(self) -> AsyncPreviews[DryRun]:
        """Dry runs: what calls would sign. Requests the offer; signs and pays nothing."""
        return AsyncPreviews(self._session.base_url, self._paying.dry_run)

    @part
    def batches(self) -> AsyncBatches:
        """Calls for more than five tokens, in batches that are paid one by one."""
        from .batches import AsyncBatches

        return AsyncBatches(self._paying)

    @part
    def payments(self) -> AsyncPayments:
        """Past payments: list, resume, reconcile."""
        from .payment_history import AsyncPayments

        return AsyncPayments(self._paying)

    async def token_signals(
        self,
        tokens: Sequence[str | TokenQuery],
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the newest signals of tokens, newest first (`POST /v1/token-signals`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case;
                `TokenQuery("BRETT", 50)` sets the limit of one token.
            limit: signals per token, 1 to 100 (the service's default is 10).
        """
        return await self._buy(market.token_signals(tokens, limit), max_price, purchase)

    async def signal_history(
        self,
        tokens: Sequence[str],
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        signal_type: SignalType | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenSignals]]:
        """Get the signals of tokens in a period, newest first (`POST /v1/signal-history`, $0.05 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
            since: not before this moment: an aware datetime, or Unix seconds (`startDate` on the wire).
            until: not after this moment, the same way (`endDate` on the wire).
            signal_type: only signals of this type; `ALL` for every type.
        """
        request = market.signal_history(tokens, since, until, signal_type)
        return await self._buy(request, max_price, purchase)

    async def token_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenPrice]]:
        """Get the current prices of tokens, in ETH and in USD (`POST /v1/token-prices`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_prices(tokens), max_price, purchase)

    async def token_win_rate(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenWinRate]]:
        """Get how often agents won with tokens, in percent (`POST /v1/token-win-rate`, $0.03 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_win_rate(tokens), max_price, purchase)

    async def token_avg_prices(
        self,
        tokens: Sequence[str],
        *,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TokenResults[TokenAvgPrices]]:
        """Get the average prices that agents paid and got for tokens (`POST /v1/token-avg-prices`, $0.02 a token).

        Args:
            tokens: 1 to 5 different tokens: address on Base, id in a coin registry, or symbol, in any case.
        """
        return await self._buy(market.token_avg_prices(tokens), max_price, purchase)

    async def top_performers(
        self,
        sort_by: SortBy,
        *,
        limit: int | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[TopPerformers]:
        """Get the tokens that agents do best with (`POST /v1/top-performers`, $0.06 for any limit).

        Args:
            sort_by: `winRate` or `ROI`.
            limit: tokens, 1 to 300 (the service's default is 300).
        """
        return await self._buy(market.top_performers(sort_by, limit), max_price, purchase)

    async def aggregate_metrics(
        self, *, max_price: Usd | None = None, purchase: str | None = None
    ) -> MarketResult[AggregateMetrics]:
        """Get the totals of the platform (`POST /v1/aggregate-metrics`, $0.06)."""
        return await self._buy(market.aggregate_metrics(), max_price, purchase)

    async def supported_tokens(self, *, limit: int | None = None) -> MarketResult[SupportedTokens]:
        """List the tokens with market data (`POST /v1/supported-tokens`, free).

        Args:
            limit: tokens, 1 to 500 (default 100).

        Raises:
            APIError: the service refused the call or could not be reached.
        """
        return await self._buy(market.supported_tokens(limit))

    async def request(
        self,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        max_price: Usd | None = None,
        purchase: str | None = None,
    ) -> MarketResult[RawResponse]:
        """POST any body to an endpoint with a published price; paid, guarded and budgeted like the other methods.

        Args:
            path: such as `/v1/token-prices`.
            json: the body. If the price is per token, its `tokens` are 1 to 5 objects with an `identifier`.

        Raises:
            InvalidArgumentError: no price is published for the path, or the tokens cannot be counted; nothing was sent.
            PaymentError, APIError: as for the other methods.
        """
        return await self._buy(market.raw(path, json), max_price, purchase)

    async def _buy(
        self, request: MarketRequest[T], max_price: Usd | None = None, purchase: str | None = None
    ) -> MarketResult[T]:
        return await self._paying.buy(self._paying.intent(request, max_price, purchase))

    def _copy_from(self, other: Any, change: Callable[[AsyncSession], AsyncSession]) -> None:
        super()._copy_from(other, change)
        self._ledger = self._own_witness = None
        self._paying = other._paying.copy_with(change)

    async def aclose(self) -> None:
        """Close the connections, and the ledger if the client opened it. A given ledger or client stays open.

        Payments that are being sent are waited for, and written down.
        """
        if self._owner:  # async only
            await self._paying.exchanges.over()  # async only
        await super().aclose()
        if self._own_witness is not None:
            await self._own_witness.aclose()
        if self._ledger is not None:
            self._ledger.close()


def _witness_of_environment(clock: Clock) -> AsyncChainWitness | None:
    if not os.environ.get("TRADE_RPC_URL", "").strip():
        return None
    from .chain_witness import AsyncChainWitness

    try:
        return AsyncChainWitness(*os.environ["TRADE_RPC_URL"].split(), clock=clock)
    except ConfigError as error:
        problem = f"TRADE_RPC_URL: {error.message}"
    raise ConfigError(problem, hint=settings.A_NODE)  # outside of the handler: frames of that error contain the URLs
