# Generated from src/tradesdk/_async/fleet/connection.py by scripts/unasync.py: change that file instead.
"""The connection to a fleet's Redis or Valkey server: scripts and commands, each sent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._fleet.address import ServerAddress
from ..._fleet.client import client_options, load_redis
from ..._fleet.failures import failure_of
from ..._fleet.scripts import Script, script
from ...errors import FleetError
from ..concurrency import require_asyncio


class FleetConnection:
    """Sends commands to the server of a fleet. Nothing is repeated: a lost reply may belong to a command that ran.

    The ledger, the rate limiter and the streams make their own. Replies are bytes.

    Args:
        url: `redis://…` or `rediss://…`; by default TRADE_FLEET.
        timeout: seconds to connect, and to wait for a reply.
        on_connect: called with each new connection of redis-py, in the place of its own `on_connect`.

    Raises:
        ConfigError: the URL cannot be used, or redis-py is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 5.0,
        on_connect: Callable[[Any], Any] | None = None,
    ) -> None:
        self.address = ServerAddress.of(url)
        redis = load_redis("redis")
        retry = load_redis("redis.retry").Retry  # each flavor has its own
        options = client_options(self.address, timeout, retry)
        self._client: Any = redis.Redis(**options, redis_connect_func=on_connect)

    def run(self, name: str, keys: list[str], arguments: list[str | bytes | int | float]) -> Any:
        """Run the script `name` and return its reply.

        Raises:
            FleetError: it failed. `may_have_run` says whether its changes may have been made.
        """
        return self._evaluate(script(name), keys, arguments)

    def eval(self, text: str, keys: list[str], arguments: list[str | bytes | int | float]) -> Any:
        """Run a Lua script of your own and return its reply. It is one atomic step.

        Raises:
            FleetError: it failed. `may_have_run` says whether its changes may have been made.
        """
        return self._evaluate(Script.of(text), keys, arguments)

    def _evaluate(self, wanted: Script, keys: list[str], arguments: list[str | bytes | int | float]) -> Any:
        require_asyncio("a fleet")
        try:
            try:
                return self._client.evalsha(wanted.sha, len(keys), *keys, *arguments)
            except Exception as error:
                if not str(error).startswith("NOSCRIPT") and type(error).__name__ != "NoScriptError":
                    raise
            return self._client.eval(wanted.text, len(keys), *keys, *arguments)
        except Exception as error:
            raise self._error(error) from None

    def command(self, *parts: str | bytes | int | float) -> Any:
        """Send one command and return its reply.

        Raises:
            FleetError: it failed.
        """
        require_asyncio("a fleet")
        try:
            return self._client.execute_command(*parts)
        except Exception as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> Exception:
        failure = failure_of(error, self.address)
        return (
            error
            if failure is None
            else FleetError(failure.message, code=failure.code, hint=failure.hint, may_have_run=failure.may_have_run)
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> FleetConnection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"
