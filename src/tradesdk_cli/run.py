"""A run of a command: its settings, output, clients made on first use, and the embedded mock.

Help and completion import this module without a run, so it imports the rest on use.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from tradesdk_cli.errors import ConfigProblem, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import typer

    from tradesdk import AsyncTradeClient, Ledger, TradeClient
    from tradesdk.fleet import FleetRateLimiter
    from tradesdk_cli.cli.params import Instant
    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.wallet import Wallet
    from tradesdk_mock import MockService

T = TypeVar("T")

_TRY = "without an account, try the mock: trade --mock account show"


class Run:
    """One run of a command."""

    def __init__(self, settings: Settings, output: Output) -> None:
        self.settings = settings
        self.out = output
        output.now = self.now
        self.stack = ExitStack()
        """Closes everything at the end."""
        self._log_stack = self.stack.enter_context(ExitStack())

    @cached_property
    def http(self) -> Any:
        """The HTTP client of the embedded mock, which has no address; None for a service."""
        return self.stack.enter_context(self.mock.transport().http_client()) if self.settings.mock else None

    @cached_property
    def client(self) -> TradeClient:
        """The SDK's client for the service, or for the embedded mock."""
        return self.connect(*self._account(), self.http)

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
            base_url = self.mock.url
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
            from tradesdk_cli.config.credentials import without_password
            from tradesdk_cli.mockworld import world_file

            source = self.settings.sources["base_url"].removeprefix("flag ")
            service = f"{without_password(base_url)} ({source})"
            if self.settings.mock:
                service = f"a mock in this process ({world_file(self.settings)})"
            self.out.note(f"the service is {service}, the key is from {origin}")
        return base_url, key

    def connect(self, base_url: str, key: str, http: Any = None) -> TradeClient:
        """A client for this address with this key, whatever the settings are; closed at the end.

        `http` is its own client. Raises ConfigError or ConfigProblem if the address or the key cannot be used.
        """
        from tradesdk import TradeClient

        client = self._connected(TradeClient, base_url, key, http, self.rate_limiter)
        self.stack.callback(client.close)
        return client

    def _connected(self, kind: Callable[..., T], base_url: str, key: str, http: Any, limiter: Any) -> T:
        from tradesdk_cli.config.credentials import refuse_http

        if http is None:  # the client of the embedded mock sends nothing
            refuse_http(base_url, "TRADE_BASE_URL or --base-url", "the base URL", "the API key")
        return self.made(kind, api_key=key, base_url=base_url, http_client=http, rate_limiter=limiter)

    def made(self, kind: Callable[..., T], **options: Any) -> T:
        """A client of the SDK with the settings of this run. Its waits are printed, and with `-v` its log."""
        import logging

        from tradesdk_cli.retries import QUICK, OneMoreTry, log_handler, say

        usual = {"timeout": self.settings.timeout or QUICK, "max_retries": self.settings.retries}
        client: Any = kind(retry=OneMoreTry(reached=lambda: client.rate_limit is not None), **(usual | options))
        least = logging.DEBUG if self.settings.verbose else logging.INFO
        self._log_stack.close()  # a client made later knows the limit
        self._log_stack.enter_context(log_handler(partial(say, self.out, lambda: client.rate_limit), least))
        return client  # type: ignore[no-any-return]  # a `T`

    @cached_property
    def rate_limiter(self) -> FleetRateLimiter | None:
        """The fleet; None without one."""
        if self.settings.fleet is None:
            return None
        from tradesdk.fleet import FleetRateLimiter

        limiter = FleetRateLimiter(self.settings.fleet, alone=False)
        self.stack.callback(limiter.close)
        return limiter

    def api_key(self, address: str, *, market: bool = False) -> tuple[str, str] | None:
        """The API key for the service at `address`, and its source; None when there is none.

        `market`: the address is that of market data.
        """
        if self.settings.mock:
            from tradesdk_cli.mockworld import mock_key

            found = mock_key(self.settings)
            if self.settings.api_key not in (None, found[0]):
                self.out.note(f"TRADE_API_KEY is not a key of the mock: {found[0]} is used instead")
            return found
        from tradesdk_cli.config.credentials import service_key

        return service_key(self.settings, address, market=market)

    @cached_property
    def mock(self) -> MockService:
        """The service in this process, without listening on its addresses, with its saved state."""
        from tradesdk_cli.mockworld import open_world

        return self.stack.enter_context(open_world(self.settings))

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
        self.stack.callback(ledger.close)
        return ledger

    def wallet(self, named: Path | None = None) -> Wallet | None:
        """The wallet that pays: the user's own, or play money in a mock world. None when there is none.

        `named` is the value of --wallet.
        """
        from tradesdk_cli.wallet import own_wallet, play_money

        if not self.settings.mock:
            return own_wallet(self.settings, named)
        return play_money(self.mock.world.seed, self.out.note)

    def target(self, *, market: bool = False) -> Target:
        """The target of this command's requests; `market`: of its purchases."""
        return target_of(self.settings, market=market)

    def now(self) -> float:
        """Unix seconds, by the mock's clock if it is the service."""
        return self.mock.clock.now() if self.settings.mock else time.time()

    def period(
        self, since: Instant | None, until: Instant | None, *, whole_minutes: bool = False
    ) -> tuple[float | None, float | None]:
        """Both in Unix seconds. `whole_minutes`: ages count from the last whole minute."""
        now = self.now() // 60 * 60 if whole_minutes else self.now()
        start, end = (None if one is None else one.at(now) for one in (since, until))
        if start is not None and end is not None and start > end:
            raise UsageProblem("--since is later than --until", "nothing was sent; --help shows what is accepted")
        return start, end

    def show(self, model: Any) -> None:
        """Prints one model."""
        self.out.one(wire(model))


@contextmanager
def run_of(ctx: typer.Context, *, new_profile: bool = False) -> Iterator[Run]:
    """The run of the command in `ctx`; closed at the end.

    With `new_profile`, the named profile may not exist yet.
    """
    from tradesdk_cli.config.settings import settings_of

    settings = settings_of(ctx.obj, os.environ, new_profile=new_profile)
    with run_with(ctx, settings) as opened:
        for warning in settings.warnings:
            opened.out.note(f"warning: {warning}")
        yield opened


@contextmanager
def run_with(ctx: typer.Context, settings: Settings) -> Iterator[Run]:
    """The same with these settings."""
    from tradesdk_cli import idcache
    from tradesdk_cli.output.printer import Output

    ctx.obj["resolved"] = settings  # errors are printed in the format of the settings
    opened = Run(settings, Output(settings, os.environ))
    idcache.listen(opened.out.on_terminal)  # no completion for ids in the output of scripts
    with opened.stack:
        if idcache.wanted:
            opened.stack.callback(idcache.keep, settings)
        if settings.debug or settings.curl:
            from tradesdk_cli.diagnostics import watching

            opened.stack.enter_context(watching(opened.out))
        yield opened


def wire(model: Any) -> dict[str, Any]:
    """A model with the service's names and values, without fields that it did not send."""
    return wire_all([model])[0]


def wire_all(models: Iterable[Any]) -> list[dict[str, Any]]:
    """The same for a list of models of one class."""
    from tradesdk_cli import idcache

    models = list(models)
    dumped = [model.model_dump(mode="json", exclude_unset=True) for model in models]
    if idcache.wanted and models:
        idcache.note(type(models[0]).__name__.partition("[")[0], dumped)
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
    which = ("market_url" if market else "base_url", "api_key")
    if settings.profile and any(settings.sources.get(name, "").startswith("profile") for name in which):
        parts.insert(0, f"profile {settings.profile}")
        fields["profile"] = settings.profile
    return Target(" · ".join(parts), fields)
