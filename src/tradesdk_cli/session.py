"""The session of a command: settings, output, a client made on first use, and the embedded mock.

Help and completion import this module without opening a session, so it imports the rest on use.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from tradesdk_cli.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer

    from tradesdk import AsyncTradeClient, Ledger, RateLimit, TradeClient
    from tradesdk.fleet import FleetRateLimiter
    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.mockworld import EmbeddedMock
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.wallet import Wallet

T = TypeVar("T")

_TRY = "try it without an account or a network: trade --mock account show"


class Session:
    """One run of a command."""

    def __init__(self, settings: Settings, output: Output) -> None:
        self.settings = settings
        self.out = output
        output.now = self.now
        self._stack = ExitStack()
        self._log_stack = self._stack.enter_context(ExitStack())

    @cached_property
    def client(self) -> TradeClient:
        """The SDK's client for the service, or for the embedded mock."""
        http = self.mock.http_client() if self.settings.mock else None
        if http is not None:
            self._stack.callback(http.close)
        return self.connect(*self._account(), http)

    def async_client(self, http: Any) -> AsyncTradeClient:
        """The same for an event loop; `http` is the mock's client. The caller closes it."""
        from tradesdk import AsyncTradeClient

        limiter = None
        if self.settings.fleet is not None:
            from tradesdk.fleet import AsyncFleetRateLimiter

            limiter = AsyncFleetRateLimiter(self.settings.fleet, alone=False)
        return self._connected(AsyncTradeClient, *self._account(), http, limiter)

    def _account(self) -> tuple[str, str]:
        """The service's address and its key."""
        if self.settings.mock:
            base_url = self.mock.service.url
        else:
            base_url = self.settings.base_url or ""
            if not base_url:
                raise ConfigProblem("no base URL: log in with trade login, set TRADE_BASE_URL, or use --base-url", _TRY)
        found = self.api_key(base_url)
        if found is None:
            profile, program = self.settings.profile, self.settings.program
            lacks = "no API key" if profile is None else f"profile {profile} has no API key"
            raise ConfigProblem(f"{lacks}: save one with {program} login, or set TRADE_API_KEY", _TRY)
        key, origin = found
        if self.settings.verbose > 1:
            self.out.note(f"the service is {self._service}, the key is from {origin}")
        return base_url, key

    @property
    def _service(self) -> str:
        """The service, and the source of its address."""
        if self.settings.mock:
            return f"a mock in this process ({self.mock.file})"
        from tradesdk_cli.config.credentials import without_password

        source = self.settings.sources["base_url"].removeprefix("flag ")
        return f"{without_password(self.settings.base_url or '')} ({source})"

    def connect(self, base_url: str, key: str, http: Any = None) -> TradeClient:
        """A client for this address with this key, whatever the settings are; closed at the end.

        `http` is its own client.

        Raises:
            ConfigError, ConfigProblem: an address or a key that cannot be used.
        """
        from tradesdk import TradeClient

        client = self._connected(TradeClient, base_url, key, http, self.rate_limiter)
        self._stack.callback(client.close)
        return client

    def _connected(self, kind: Callable[..., T], base_url: str, key: str, http: Any, limiter: Any) -> T:
        from tradesdk_cli.config.credentials import refuse_http
        from tradesdk_cli.retries import QUICK, OneMoreTry

        if http is None:  # the client of the embedded mock sends nothing
            refuse_http(base_url, "TRADE_BASE_URL or --base-url", "the base URL", "the API key")
        client: Any = kind(
            api_key=key,
            base_url=base_url,
            timeout=self.settings.timeout or QUICK,
            max_retries=self.settings.retries,
            retry=OneMoreTry(reached=lambda: client.rate_limit is not None),
            http_client=http,
            rate_limiter=limiter,
        )
        self.listen(lambda: client.rate_limit)
        made: T = client
        return made

    @cached_property
    def rate_limiter(self) -> FleetRateLimiter | None:
        """The fleet; None without one."""
        if self.settings.fleet is None:
            return None
        from tradesdk.fleet import FleetRateLimiter

        limiter = FleetRateLimiter(self.settings.fleet, alone=False)
        self._stack.callback(limiter.close)
        return limiter

    def api_key(self, address: str, *, market: bool = False) -> tuple[str, str] | None:
        """The API key for the service at `address`, and its source; None when there is none.

        `market`: the address is that of market data.
        """
        if self.settings.mock:
            from tradesdk_cli.mockworld import mock_key

            of_mock = mock_key(self.settings)
            found: tuple[str, str] | None = of_mock
            if self.settings.api_key not in (None, of_mock[0]):
                self.out.note(f"TRADE_API_KEY is not a key of the mock: {of_mock[0]} is used instead")
        else:
            from tradesdk_cli.config.credentials import service_key

            found = service_key(self.settings, address, market=market)
        return found

    @cached_property
    def mock(self) -> EmbeddedMock:
        """The embedded mock with its saved state."""
        from tradesdk_cli.mockworld import open_world

        return self._stack.enter_context(open_world(self.settings))

    @property
    def ledger_file(self) -> Path:
        """The file of this machine's ledger, or of the mock world's. It may not exist."""
        if self.settings.mock:
            from tradesdk_cli.mockworld import ledger_file

            return ledger_file(self.settings)
        return self.settings.data_folder() / "ledger.sqlite3"

    @property
    def ledger_name(self) -> str:
        """The ledger's path or database, for people."""
        return str(self.ledger_file if self.settings.fleet is None else self.settings.fleet_url)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of payments: this machine's, the fleet's, or that of the mock world."""
        from tradesdk import Ledger

        fleet = self.settings.fleet
        ledger = Ledger(self.ledger_file) if fleet is None else Ledger.postgres(fleet)
        self._stack.callback(ledger.close)
        return ledger

    def wallet(self, named: Path | None = None) -> Wallet | None:
        """The wallet that pays: the user's own, or play money in a mock world. None when there is none.

        `named` is the value of --wallet.
        """
        from tradesdk_cli.wallet import own_wallet, play_money

        if not self.settings.mock:
            return own_wallet(self.settings, named)
        return play_money(self.mock.service.world.seed, self.out.note)

    def target(self, *, market: bool = False) -> Target:
        """The target of this command's requests; `market`: of its purchases."""
        return target_of(self.settings, market=market)

    def now(self) -> float:
        """Unix seconds, by the mock's clock if it is the service."""
        return self.mock.service.clock.now() if self.settings.mock else time.time()

    def listen(self, limit: Callable[[], RateLimit | None]) -> None:
        """Begins printing waits of the SDK, and with `-v` its log. `limit` returns a client's rate limit."""
        import logging

        from tradesdk_cli.retries import log_handler, say

        least = logging.DEBUG if self.settings.verbose else logging.INFO
        self._log_stack.close()  # a client made later knows the limit
        self._log_stack.enter_context(log_handler(partial(say, self.out, limit), least))

    def closing(self, close: Callable[[], object]) -> None:
        """Calls `close` at the end."""
        self._stack.callback(close)

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Enters `context`, until the end."""
        return self._stack.enter_context(context)

    def close(self) -> None:
        """Closes everything and stops the mock."""
        self._stack.close()

    # For nearly every command

    def show(self, model: Any) -> None:
        """Prints one model."""
        self.out.one(wire(model))


@contextmanager
def session(ctx: typer.Context, *, new_profile: bool = False) -> Iterator[Session]:
    """The session of the command in `ctx`; closed at the end.

    With `new_profile`, the named profile may not exist yet.
    """
    from tradesdk_cli import idcache
    from tradesdk_cli.config.settings import settings_of
    from tradesdk_cli.output.printer import Output

    settings = settings_of(ctx.obj, os.environ, new_profile=new_profile)
    ctx.obj["resolved"] = settings  # errors are printed in the format of the settings
    opened = Session(settings, Output(settings, os.environ))
    idcache.listen(opened.out.on_terminal)  # no completion for ids in the output of scripts
    try:
        for warning in settings.warnings:
            opened.out.note(f"warning: {warning}")
        if settings.debug or settings.curl:
            from tradesdk_cli.diagnostics import watching

            opened.enter(watching(opened.out))
        yield opened
    finally:
        idcache.keep(settings)
        opened.close()


def wire(model: Any) -> dict[str, Any]:
    """A model with the service's names and values, without fields that it did not send."""
    return wire_all([model])[0]


def wire_all(models: Iterable[Any]) -> list[dict[str, Any]]:
    """The same for a list of models of one class."""
    from tradesdk_cli import idcache

    name, dumped = "", []
    for model in models:
        name = type(model).__name__
        dumped.append(model.model_dump(mode="json", exclude_unset=True))
    idcache.note(name.partition("[")[0], dumped)
    return dumped


# The target of a write or a payment, shown before the confirmation


@dataclass(frozen=True)
class Target:
    """The target of requests.

    Attributes:
        text: for people: `mock world default`, `profile work · api.example.com · live`.
        fields: for programs: `mode` is `mock` (in this process), `local` (a server on this machine) or `live`; then
            `world` of a mock, otherwise `host` and, if there is one, `profile`.
    """

    text: str
    fields: dict[str, Any]


def target_of(settings: Settings, *, market: bool = False) -> Target:
    """The target of requests with these settings; `market`: of purchases of market data."""
    if settings.mock:
        return Target(f"mock world {settings.world}", {"mode": "mock", "world": settings.world})
    from tradesdk.local import host_of, origin_of
    from tradesdk_cli.config.settings import is_loopback

    url = settings.market_url if market else settings.base_url
    host, origin = (host_of(url), origin_of(url)) if url else (None, "")
    mode = "local" if isinstance(origin, tuple) and is_loopback(origin[0]) else "live"
    parts = [host or "no address", "this machine" if mode == "local" else "live"]
    fields: dict[str, Any] = {"mode": mode, "host": host}
    if settings.profile:
        parts.insert(0, f"profile {settings.profile}")
        fields["profile"] = settings.profile
    return Target(" · ".join(parts), fields)
