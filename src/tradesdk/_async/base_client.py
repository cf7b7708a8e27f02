"""What the clients share: sessions from settings, copies, closing."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from .._http import settings
from .._http.arguments import flags, wrong_setting
from .._http.parts import loading
from .._http.retry import RetryPolicy
from .._http.settings import Timeout
from .._http.tls import check_tls_variables
from .._system.clock import Clock, SystemClock
from .._values.frames import hides_locals
from .._values.hints import no_attribute
from .._values.http import RateLimit, is_loopback
from .sending import AsyncSender
from .session import AsyncRateLimiter, AsyncSession

if TYPE_CHECKING:
    from .httpx_sender import AsyncHttpClient


class AsyncConnected(ABC):
    """An object with connections, which close with it."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be pickled: it holds connections and maybe a key; make one in every process")


class AsyncBaseClient(AsyncConnected):
    """A client of one session, or a copy of one."""

    _session: AsyncSession
    _owner = True

    @property
    def base_url(self) -> str:
        """The service's URL, without `/v1`."""
        return self._session.base_url

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last response that had one; None before that."""
        return self._session.limiter.rate_limit

    def with_options(
        self,
        *,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float | None = None,
    ) -> Self:
        """A copy with other settings that shares connections (ledger, budget). Closing the copy closes nothing."""
        copy = object.__new__(type(self))
        copy._owner = False
        copy._copy_from(
            self,
            lambda session: session.with_options(timeout=timeout, max_retries=max_retries, deadline=deadline),
        )
        return copy

    def _copy_from(self, other: Any, change: Callable[[AsyncSession], AsyncSession]) -> None:
        self._session = change(other._session)

    async def aclose(self) -> None:
        """Close the connections. A given `http_client` stays open."""
        if self._owner:
            await self._session.aclose()

    if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        where = self.base_url if "_session" in vars(self) else "that could not be made"
        return f"<{type(self).__name__} {where}>"


@hides_locals
def open_session(
    base_url: str | None,
    api_key: str | Callable[[], str] | None,
    profile: str | None,
    *,
    timeout: float | Timeout | None,
    max_retries: int | None,
    deadline: float,
    retry: RetryPolicy | None,
    throttle: bool,
    rate_limiter: AsyncRateLimiter | None,
    allow_insecure: bool,
    clock: Clock | None,
    http_client: AsyncHttpClient | None,
    api: str = "account",
    keyed: bool = True,
    why_https: str = settings.KEY_IN_THE_OPEN,
) -> AsyncSession:
    flags(wrong_setting, throttle=throttle, allow_insecure=allow_insecure)
    settings.http_client(http_client, "AsyncClient")
    market = api == "market"
    of_client = "" if http_client is None else str(http_client.base_url)
    if profile is not None or os.environ.get("TRADE_PROFILE", "").strip():
        from .._local.clients import with_profile  # few programs use it, and it reads files

        base_url, api_key = with_profile(profile, base_url, api_key, of_client=of_client, market=market, keyed=keyed)
    if market and base_url is None:
        base_url = os.environ.get("TRADE_MARKET_BASE_URL", "").strip() or None
    key = settings.api_key(api_key, _saved_profiles) if keyed else None
    url = settings.base_url(
        base_url, _saved_profiles, allow_insecure=allow_insecure, of_client=of_client, why_https=why_https
    )
    settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
    settings.rate_limiter(rate_limiter, AsyncRateLimiter)
    settings.instance("retry", retry, RetryPolicy, "a RetryPolicy (max_retries= takes a number)")
    return AsyncSession(
        base_url=url,
        key=key,
        timeout=Timeout.of(timeout),
        policy=settings.policy(retry or RetryPolicy(), max_retries),
        deadline=settings.deadline(deadline),
        throttle=throttle,
        rate_limiter=rate_limiter,
        api=api,
        clock=clock or SystemClock(),
        sender=open_sender(url, http_client),
    )


@loading()
def _saved_profiles() -> list[str]:
    from .._local.clients import saved_profiles  # only for an error

    return saved_profiles()


@loading()
def open_sender(
    base_url: str, http_client: AsyncHttpClient | None, *, secret_path: settings.SecretPath | None = None
) -> AsyncSender:
    """The SDK's own connections, unless an HTTP client is given or the environment names a proxy.

    `secret_path` follows the base URL in every request, and is not shown.
    """
    origin = settings.Origin.of(base_url)
    if http_client is not None:
        from .httpx_sender import AsyncHttpxSender

        return AsyncHttpxSender(base_url, http_client, secret_path=secret_path)
    proxy = None
    if not is_loopback(origin.host.decode()):
        from .._http.proxies import proxy_for

        proxy = proxy_for(origin, os.environ)
    if origin.scheme == b"https":
        check_tls_variables()
    if proxy is not None:
        from .httpx_sender import AsyncHttpxSender, proxied_client

        return AsyncHttpxSender(base_url, proxied_client(proxy), proxy=proxy.name, secret_path=secret_path)
    from .connection_pool import AsyncConnectionPool

    return AsyncConnectionPool(origin if secret_path is None else replace(origin, path=secret_path.encode()))
