# Generated from src/tradesdk/_async/client.py by scripts/unasync.py: change that file instead.
"""The client of the account API."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from .._http import settings
from .._http.request import raw_request
from .._http.response import decode_raw
from .._http.retry import RetryPolicy
from .._http.settings import Timeout
from .._http.tls import check_tls_variables
from .._system.clock import Clock, SystemClock
from .._values.http import RateLimit, RawResponse
from .sending import Sender
from .session import RateLimiter, Session

if not TYPE_CHECKING:
    from .._values.parts import part
if TYPE_CHECKING:
    from functools import cached_property as part  # stands last: documentation tools know this one

    from .httpx_sender import HttpClient
    from .resources.account import AccountResource
    from .resources.agents import AgentsResource
    from .resources.positions import PositionsResource
    from .resources.signals import SignalsResource
    from .resources.trades import TradesResource
    from .resources.wallets import WalletsResource


class TradeClient:
    """The account API: agents, wallets, trades, positions, signals, account.

    Close it, or use it as a context manager. Threads may share it.

    Args:
        api_key: the key, or a function that returns it and is called before every attempt; else TRADE_API_KEY.
        base_url: the service's URL, with or without `/v1`; else TRADE_BASE_URL; else that of `http_client`. It must be
            https, or http to this machine.
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
        rate_limiter: RateLimiter | None = None,
        allow_insecure: bool = False,
        clock: Clock | None = None,
        http_client: HttpClient | None = None,
    ) -> None:
        key = settings.api_key(api_key)
        settings.http_client(http_client, "Client")
        of_client = "" if http_client is None else str(http_client.base_url)
        url = settings.base_url(base_url, allow_insecure=allow_insecure, of_client=of_client)
        settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
        settings.rate_limiter(rate_limiter, RateLimiter)
        settings.instance("retry", retry, RetryPolicy, "a RetryPolicy; for a number use max_retries=")
        self._owner = True
        self._session = Session(
            base_url=url,
            key=key,
            timeout=Timeout.of(timeout),
            policy=settings.policy(retry or RetryPolicy(), max_retries),
            deadline=settings.deadline(deadline),
            throttle=throttle,
            rate_limiter=rate_limiter,
            clock=clock or SystemClock(),
            sender=open_sender(url, http_client),
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

    @property
    def base_url(self) -> str:
        """The service's URL, without `/v1`."""
        return self._session.base_url

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer that had one; None before that."""
        return self._session.limiter.rate_limit

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, json: Any = None
    ) -> RawResponse:
        """Send any request, with the same authentication, retries and errors as all others.

        A POST whose answer is lost is not sent again, because its effect is unknown.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: starts with `/v1`, percent-encoded where needed.
            query: parameters; their values get encoded, None is left out.
            json: the body.
        """
        return self._session.call(raw_request(method, path, decode_raw, query=query, body=json))

    def with_options(
        self,
        *,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float | None = None,
    ) -> TradeClient:
        """A copy with other settings that shares the connections. Closing the copy closes nothing."""
        copy = object.__new__(type(self))
        copy._owner = False
        copy._session = self._session.copy_with(
            timeout=None if timeout is None else Timeout.of(timeout),
            policy=settings.policy(self._session.policy, max_retries),
            deadline=None if deadline is None else settings.deadline(deadline),
        )
        return copy

    def close(self) -> None:
        """Close the connections. A given `http_client` stays open."""
        if self._owner:
            self._session.close()

    def __enter__(self) -> TradeClient:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self._session.base_url if "_session" in vars(self) else "that could not be made"
        return f"<{type(self).__name__} {where}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled: it holds connections and a key; make one in every process")


def open_sender(
    base_url: str, http_client: HttpClient | None, *, secret_path: settings.SecretPath | None = None
) -> Sender:
    """The SDK's own connections, unless there is a client to use or the environment names a proxy.

    `secret_path` follows the base URL in every request, and is not shown.
    """
    origin = settings.Origin.of(base_url)
    if http_client is not None:
        from .httpx_sender import HttpxSender

        return HttpxSender(base_url, http_client, secret_path=secret_path)
    proxy = None
    if not settings.is_loopback(origin.host.decode()):
        from .._http.proxies import proxy_for

        proxy = proxy_for(origin, os.environ)
    if origin.scheme == b"https":
        check_tls_variables()
    if proxy is not None:
        from .httpx_sender import HttpxSender, proxied_client

        return HttpxSender(base_url, proxied_client(proxy), proxy=proxy.name, secret_path=secret_path)
    from .connection_pool import ConnectionPool

    return ConnectionPool(origin if secret_path is None else replace(origin, path=secret_path.encode()))
