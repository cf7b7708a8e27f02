"""The client of the account API."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import httpx

from .._http import settings
from .._http.request import raw_request
from .._http.response import decode_raw
from .._http.retry import RetryPolicy
from .._http.settings import Timeout
from .._httpx import NoCookies, parsed_url
from .._system.clock import Clock, SystemClock
from .._values.http import RateLimit, RawResponse
from .._values.text import printable
from ..errors import ConfigError
from .session import AsyncSession

if TYPE_CHECKING:
    from .resources.account import AsyncAccountResource
    from .resources.agents import AsyncAgentsResource
    from .resources.positions import AsyncPositionsResource
    from .resources.signals import AsyncSignalsResource
    from .resources.trades import AsyncTradesResource
    from .resources.wallets import AsyncWalletsResource


class AsyncTradeClient:
    """The account API: agents, wallets, trades, positions, signals, account.

    Close it, or use it as a context manager. It belongs to one event loop.

    Args:
        api_key: the key, or a function that gives it and is asked before every attempt; else TRADE_API_KEY.
        base_url: where the service is, with or without `/v1`; else TRADE_BASE_URL; else that of `http_client`. It is
            https, or http to this machine.
        timeout: seconds for each part of one attempt, or a `Timeout` (default: connect 5, read 30, write 30, pool 10).
        max_retries: retries per call, 0 to 5 (default 5); short for `retry=RetryPolicy(max_retries=…)`.
        deadline: seconds that one call may take with all its retries (default 180).
        retry: when a failed request is sent again.
        throttle: wait for the reset when the rate limit is used up, rather than collect an error.
        allow_insecure: allow plain http to other machines.
        clock: the time to live by; tests hand in another one.
        http_client: an httpx client to send with. Its headers, proxies and hooks apply; our authentication, timeouts
            and no-redirects rule win. It is never closed or changed.

    Raises:
        ConfigError: a setting is missing or unusable; it says which.

    Example:
        ```python
        async with AsyncTradeClient() as client:
            account = await client.account.get()
        ```
    """

    def __init__(
        self,
        *,
        api_key: str | Callable[[], str] | None = None,
        base_url: str | None = None,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float = 180.0,
        retry: RetryPolicy | None = None,
        throttle: bool = True,
        allow_insecure: bool = False,
        clock: Clock | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        key = settings.api_key(api_key)
        settings.instance("http_client", http_client, httpx.AsyncClient, "an httpx.AsyncClient")
        of_client = "" if http_client is None else str(http_client.base_url)
        url = settings.base_url(base_url, allow_insecure=allow_insecure, of_client=of_client)
        settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
        settings.instance("retry", retry, RetryPolicy, "a RetryPolicy; for a number there is max_retries")
        self._owner = True
        self._session = AsyncSession(
            base_url=url,
            key=key,
            timeout=Timeout.of(timeout),
            policy=settings.policy(retry or RetryPolicy(), max_retries),
            deadline=settings.deadline(deadline),
            hold_back=throttle,
            clock=clock or SystemClock(),
            injected=http_client is not None,
            http=http_client if http_client is not None else open_http_client(url),
        )

    @cached_property
    def account(self) -> AsyncAccountResource:
        """Who the key belongs to, and what is used up."""
        from .resources.account import AsyncAccountResource

        return AsyncAccountResource(self._session)

    @cached_property
    def agents(self) -> AsyncAgentsResource:
        """Trading agents."""
        from .resources.agents import AsyncAgentsResource

        return AsyncAgentsResource(self._session)

    @cached_property
    def wallets(self) -> AsyncWalletsResource:
        """Connected wallets and what they hold."""
        from .resources.wallets import AsyncWalletsResource

        return AsyncWalletsResource(self._session)

    @cached_property
    def trades(self) -> AsyncTradesResource:
        """What agents bought and sold."""
        from .resources.trades import AsyncTradesResource

        return AsyncTradesResource(self._session)

    @cached_property
    def positions(self) -> AsyncPositionsResource:
        """What agents hold now."""
        from .resources.positions import AsyncPositionsResource

        return AsyncPositionsResource(self._session)

    @cached_property
    def signals(self) -> AsyncSignalsResource:
        """BUY and SELL signals."""
        from .resources.signals import AsyncSignalsResource

        return AsyncSignalsResource(self._session)

    @property
    def base_url(self) -> str:
        """Where the service is, without `/v1`."""
        return self._session.base_url

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit as the last answer told it; None while none has."""
        return self._session.throttle.rate_limit

    async def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, json: Any = None
    ) -> RawResponse:
        """Send any request, with the same authentication, retries and errors as all others.

        A POST whose answer is lost is not sent again, because what it does is not known here.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: from `/v1` on, quoted where needed.
            query: its values are quoted here; None is left out.
            json: the body.
        """
        return await self._session.call(raw_request(method, path, decode_raw, query=query, body=json))

    def with_options(
        self,
        *,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float | None = None,
    ) -> AsyncTradeClient:
        """A copy with other settings that shares the connections. Closing the copy closes nothing."""
        copy = object.__new__(type(self))
        copy._owner = False
        copy._session = self._session.copy_with(
            timeout=None if timeout is None else Timeout.of(timeout),
            policy=settings.policy(self._session.policy, max_retries),
            deadline=None if deadline is None else settings.deadline(deadline),
        )
        return copy

    async def aclose(self) -> None:
        """Close the connections. An `http_client` that was handed in stays open."""
        if self._owner:
            await self._session.aclose()

    async def __aenter__(self) -> AsyncTradeClient:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        where = self._session.base_url if "_session" in vars(self) else "that could not be made"
        return f"<{type(self).__name__} {where}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled: it holds connections and a key; make one in every process")


def open_http_client(base_url: str) -> httpx.AsyncClient:
    """An HTTP client of our own: through the environment's proxy where it names one, else straight to the service."""
    cookies = NoCookies()
    try:
        url = parsed_url(base_url)
    except (httpx.InvalidURL, UnicodeError):
        raise ConfigError(f"the base URL cannot be read: {printable(base_url, 120)}", code="invalid_base_url") from None
    proxies = urllib.request.getproxies()
    if not settings.is_loopback(url.host) and (proxies.get(url.scheme) or proxies.get("all")):
        try:
            return httpx.AsyncClient(cookies=cookies)  # finds the proxies, and the hosts that need none, by itself
        except (httpx.InvalidURL, ImportError, ValueError):
            raise ConfigError("the proxy that the environment names cannot be used: http and https ones can") from None
    # Here, because whoever hands in a client has no use for what this loads.
    from .connection_pool import AsyncConnectionPool

    return httpx.AsyncClient(transport=AsyncConnectionPool(), trust_env=False, cookies=cookies)
