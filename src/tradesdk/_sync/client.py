# Generated from src/tradesdk/_async/client.py by scripts/unasync.py: change that file instead.
"""The client of the account API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._http.request import raw_request
from .._http.response import decode_raw
from .._http.retry import RetryPolicy
from .._http.settings import Timeout
from .._system.clock import Clock
from .._values.frames import hides_locals
from .._values.http import RawResponse
from .base_client import BaseClient, open_session
from .session import RateLimiter

if not TYPE_CHECKING:
    from .._http.parts import part
if TYPE_CHECKING:
    from functools import cached_property as part  # under this name, as documentation tools know only this one

    from .httpx_sender import HttpClient
    from .resources.account import AccountResource
    from .resources.agents import AgentsResource
    from .resources.positions import PositionsResource
    from .resources.signals import SignalsResource
    from .resources.trades import TradesResource
    from .resources.wallets import WalletsResource


class TradeClient(BaseClient):
    """The account API: agents, wallets, trades, positions, signals, account.

    Close it, or use it as a context manager. Threads may share it.

    Args:
        profile: the profile that `trade login --profile NAME` saved; else TRADE_PROFILE names it. It gives the key and
            the base URL, unless an argument or another variable does. Its key goes only to its own addresses.
        api_key: the key, or a function that returns it and is called before every attempt; else TRADE_API_KEY; else
            that of the profile.
        base_url: the service's URL, with or without `/v1`; else TRADE_BASE_URL; else that of the profile; else that of
            `http_client`. It must be https, or http to this machine.
        timeout: seconds for each part of one attempt, or a `Timeout` (default: connect 5, read 30, write 30, pool 10).
        max_retries: retries per call, 0 to 5 (default 5); short for `retry=RetryPolicy(max_retries=…)`.
        deadline: seconds that one call may take with all its retries (default 180).
        retry: when a failed request is sent again.
        throttle: wait for the reset when the rate limit is used up, instead of failing.
        rate_limiter: a rate limiter to share with others; by default this client and its copies have one of their own.
            It is never closed.
        allow_insecure: allow plain http to other machines.
        clock: Clock to use (tests pass their own).
        http_client: an httpx or httpx2 client to send with. Its headers, proxies and hooks apply; the SDK's
            authentication, timeouts and no-redirects rule win. It is never closed or changed.

    Raises:
        ConfigError: a setting is missing or unusable; the message names it.

    Example:
        ```python
        with TradeClient() as client:
            account = client.account.get()
        ```
    """

    @hides_locals
    def __init__(
        self,
        *,
        profile: str | None = None,
        api_key: str | Callable[[], str] | None = None,
        base_url: str | None = None,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float = 180.0,
        retry: RetryPolicy | None = None,
        throttle: bool = True,
        rate_limiter: RateLimiter | None = None,
        allow_insecure: bool = False,
        clock: Clock | None = None,
        http_client: HttpClient | None = None,
    ) -> None:
        self._session = open_session(
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
        )

    @part
    def account(self) -> AccountResource:
        """The key's account and its usage."""
        from .resources.account import AccountResource

        return AccountResource(self._session)

    @part
    def agents(self) -> AgentsResource:
        """Trading agents."""
        from .resources.agents import AgentsResource

        return AgentsResource(self._session)

    @part
    def wallets(self) -> WalletsResource:
        """Connected wallets and what they hold."""
        from .resources.wallets import WalletsResource

        return WalletsResource(self._session)

    @part
    def trades(self) -> TradesResource:
        """What agents bought and sold."""
        from .resources.trades import TradesResource

        return TradesResource(self._session)

    @part
    def positions(self) -> PositionsResource:
        """What agents hold now."""
        from .resources.positions import PositionsResource

        return PositionsResource(self._session)

    @part
    def signals(self) -> SignalsResource:
        """BUY and SELL signals."""
        from .resources.signals import SignalsResource

        return SignalsResource(self._session)

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, json: Any = None
    ) -> RawResponse:
        """Send any request, with the same authentication, retries and errors as all others.

        A POST whose response is lost is not sent again, because its effect is unknown.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: starts with `/v1`, percent-encoded where needed.
            query: parameters; their values are encoded, None is left out.
            json: the body.
        """
        return self._session.call(raw_request(method, path, decode_raw, query=query, body=json))
