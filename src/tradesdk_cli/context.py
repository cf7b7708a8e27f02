"""What a command works with: settings, output, a client that is made when it is needed, and the embedded mock."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tradesdk import SystemClock
from tradesdk_cli.config import Settings, is_loopback, resolve
from tradesdk_cli.errors import ConfigProblem, Declined, UsageProblem
from tradesdk_cli.output import Output
from tradesdk_cli.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import typer

    from tradesdk import Clock, Ledger, RateLimit, TradeClient
    from tradesdk_cli.embedded import EmbeddedMock
    from tradesdk_cli.logs import LastReason
    from tradesdk_cli.paging import AnyPager, Walk
    from tradesdk_cli.views import Column


class Session:
    """One command's run."""

    def __init__(self, settings: Settings, output: Output) -> None:
        self.settings = settings
        self.out = output
        self._stack = ExitStack()

    @cached_property
    def client(self) -> TradeClient:
        """The SDK's client for the service, or for the embedded mock."""
        from tradesdk import TradeClient

        base_url, key, origin = self.settings.base_url, self.settings.api_key, "TRADE_API_KEY"
        http = where = None
        if self.settings.mock:
            from tradesdk_cli.embedded import KEY

            base_url, http = self.mock.url, self.mock.http_client()
            self._stack.callback(http.close)
            where = f"a mock in this process ({self.mock.file})"
            # A key for the real service has no business here; one for a mock chooses scope, plan and tenant.
            if key is not None and not key.startswith(("mock_", "mocksk_")):
                if not self.settings.api_key_stdin:
                    self.out.note(f"TRADE_API_KEY is not a key of the mock: {KEY} is used instead")
                key = None
            if key is None:
                key, origin = KEY, "the mock"
        if self.settings.api_key_stdin:
            key, origin = _key_from_stdin(), "standard input"
        hint = "try it without an account or a network: trade --mock account show"
        if key is None:
            raise ConfigProblem("no API key: set TRADE_API_KEY, or use --api-key-stdin", hint)
        base_url = base_url or os.environ.get("TRADE_BASE_URL")
        if not base_url:
            raise ConfigProblem("no base URL: set TRADE_BASE_URL, or use --base-url", hint)
        _refuse_http(base_url)
        client = TradeClient(
            api_key=key,
            base_url=base_url,
            timeout=self.settings.timeout,
            max_retries=None if self.settings.retry else 0,
            clock=self.speaking_clock(lambda: client.rate_limit),
            http_client=http,
        )
        self._stack.callback(client.close)
        if self.settings.verbose > 1:
            self.out.note(f"the service is {where or client.base_url}, the key is from {origin}")
        return client

    @cached_property
    def mock(self) -> EmbeddedMock:
        """The embedded mock with the state that earlier commands left."""
        from tradesdk_cli.embedded import open_world

        return self._stack.enter_context(open_world(self.settings))

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of payments, or that of the mock world."""
        from tradesdk_cli.keeping import KeepingLedger

        if self.settings.mock:
            from tradesdk_cli.embedded import ledger_file

            path = ledger_file(self.settings)
        else:
            path = self.settings.data_folder() / "ledger.sqlite3"
        ledger = KeepingLedger(path)
        self._stack.callback(ledger.close)
        return ledger

    def now(self) -> float:
        """Unix seconds, by the mock's clock where it is the service."""
        return self.mock.now() if self.settings.mock else time.time()

    def speaking_clock(
        self, limit: Callable[[], RateLimit | None], now: Callable[[], float] | None = None
    ) -> SayingClock:
        """A clock for a client, whose log is listened to from now on.

        `limit` is what the client knows of its rate limit, `now` another wall clock than the system's.
        """
        from tradesdk_cli.logs import LastReason, listening

        reason = LastReason()
        self._stack.enter_context(listening(reason, self.out, self.settings.verbose, limit))
        return SayingClock(SystemClock(), self.out, None if self.settings.verbose else reason, now)

    def closing(self, close: Callable[[], object]) -> None:
        """Has `close` called at the end."""
        self._stack.callback(close)

    def close(self) -> None:
        """Closes what was opened and stops the mock."""
        self._stack.close()

    # What nearly every command does

    def show(self, model: Any) -> None:
        """Prints one model."""
        self.out.one(wire(model))

    def show_list(self, columns: Sequence[Column], walk: Walk, pager: AnyPager, *, empty: str) -> None:
        """Prints a list as far as it was asked for, and says on stderr where it goes on."""
        pages = ([wire(item) for item in page] for page in walk.pages(pager))
        count = self.out.many(columns, pages, empty=empty)
        if walk.next_cursor is not None:
            shown = f"the first {count}" if walk.cursor is None else f"{count} more"
            self.out.note(f"{shown}; there is more: --all, --limit N, or --cursor", next_cursor=walk.next_cursor)

    def approve(self, change: Change, *, yes: bool, dry_run: bool) -> bool:
        """True when `change` may be carried out; with `--dry-run` it is printed instead.

        Raises:
            UsageProblem: nobody can be asked and `--yes` is missing.
            Declined: the person said no.
        """
        if dry_run:
            self.out.one(change.as_dict())
            self.out.note("nothing was sent (--dry-run)")
            return False
        if yes:
            return True
        if not self.can_ask:
            raise UsageProblem(f"{change.what} needs --yes: there is no terminal to ask on", "add --yes, or --dry-run")
        for name, value in change.fields():
            print(f"  {name}: {visible(str(value))}", file=sys.stderr)
        if not self.ask(f"{change.what}?"):
            raise Declined("nothing was changed")
        return True

    @property
    def can_ask(self) -> bool:
        """True when somebody is there to answer."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def ask(self, question: str) -> bool:
        """Asks whoever sits there; True for a yes."""
        print(f"{one_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")


@dataclass(frozen=True)
class Change:
    """A request that changes something, before it is sent."""

    what: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """What `--dry-run` prints."""
        shown: dict[str, Any] = {"method": self.method, "path": self.path}
        return shown if self.body is None else {**shown, "body": dict(self.body)}

    def fields(self) -> Iterator[tuple[str, Any]]:
        """What is set, by dotted names, for whoever is asked."""
        for name, value in (self.body or {}).items():
            if isinstance(value, dict):
                yield from ((f"{name}.{inner}", part) for inner, part in value.items())
            else:
                yield name, value


@contextmanager
def open_session(ctx: typer.Context) -> Iterator[Session]:
    """The session of the command that runs in `ctx`; closed at the end."""
    settings = resolve(ctx.obj, os.environ)
    opened = Session(settings, Output(settings, os.environ))
    try:
        yield opened
    finally:
        opened.close()


def wire(model: Any) -> dict[str, Any]:
    """A model with the service's own names and values; fields that it did not send are absent."""
    dumped: dict[str, Any] = model.model_dump(mode="json", exclude_unset=True)
    return dumped


class SayingClock(SystemClock):  # so that a stream that is closed wakes up from it
    """A clock that says on stderr when it waits for more than a second, until when, and why, if `reason` is given."""

    def __init__(
        self, inner: Clock, output: Output, reason: LastReason | None, now: Callable[[], float] | None = None
    ) -> None:
        self._inner = inner
        self._now = now or inner.now
        self._output = output
        self._reason = reason

    def now(self) -> float:
        return self._now()

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 1:
            until = datetime.fromtimestamp(self.now() + seconds, UTC)
            why = "" if self._reason is None else f": {self._reason.text or 'the service asked for it'}"
            self._output.note(f"waiting {seconds:.0f} s, until {until:%H:%M:%S}Z{why} (Ctrl-C stops)")
        self._inner.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await self._inner.sleep_async(seconds)


def _refuse_http(base_url: str) -> None:
    """The client refuses it as well, but in the words of its own settings."""
    try:
        parts = urlsplit(base_url.strip())
        host = parts.hostname or ""
    except ValueError:
        return  # the client says what is wrong with it
    if parts.scheme == "http" and not is_loopback(host) and host:
        raise ConfigProblem(
            f"the base URL is not https: the API key would travel to {one_line(host, 120)} in the open",
            f"use https://{one_line(host, 120)} in TRADE_BASE_URL or --base-url; http is for this machine only",
        )


def _key_from_stdin() -> str:
    if sys.stdin.isatty():
        raise UsageProblem(
            "--api-key-stdin reads from a pipe, not from a terminal", "for example: pass show trade | trade …"
        )
    key = sys.stdin.readline().strip()
    if not key:
        raise ConfigProblem("standard input held no API key", "its first line is the key")
    return key
