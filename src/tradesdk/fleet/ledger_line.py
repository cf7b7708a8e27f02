"""The one connection of a shared ledger, and whether the server at its end may be trusted with money."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .._fleet.address import ServerAddress
from .._fleet.client import client_options, load_redis
from .._fleet.failures import Failure, failure_of
from .._fleet.scripts import OLDEST, script

Command = tuple[str | bytes | int | float, ...]
SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
"""Without these, a write that was answered may be lost, or removed later."""
ASK_SETTINGS: tuple[Command, ...] = (("CONFIG", "GET", "*append*"), ("CONFIG", "GET", "maxmemory-policy"))


class LineError(Exception):
    """The server or the connection failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class LedgerLine:
    """One connection. What WAIT counts is what was written on the same one, so there is no pool.

    Its end is noticed, as the server behind the next one may be another. One thread uses it at a time.
    """

    def __init__(self, address: ServerAddress, timeout: float) -> None:
        self.address = address
        redis = load_redis("redis")
        options = client_options(address, timeout, load_redis("redis.retry").Retry)
        tls = options.pop("ssl")
        self._make = (redis.SSLConnection if tls else redis.Connection, options)
        self._response_error: type[Exception] = redis.ResponseError
        self._connection: Any = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> dict[str, str]:
        """Connect, and return what the server says about itself.

        Raises:
            LineError: it failed.
        """
        self.close()
        make, options = self._make
        connection = make(**options)
        try:
            connection.connect()
        except Exception as error:
            self._drop(connection)
            raise self._error(error) from None
        self._connection = connection
        [told] = self.send([("INFO",)])
        if isinstance(told, Exception):
            raise self._error(told)
        lines = bytes(told).decode("utf-8", "replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, and return a reply for each: an exception where the server answered with an error.

        Raises:
            LineError: the connection failed; the commands may have run.
        """
        connection = self._connection
        replies: list[Any] = []
        try:
            connection.send_packed_command([b"".join(map(_packed, commands))], check_health=False)
            for _ in commands:
                try:
                    replies.append(connection.read_response())
                except self._response_error as error:
                    replies.append(error)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise self._error(error) from None
            raise
        return replies

    def run(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes], *more: Command) -> list[Any]:
        """Run a script, and send more commands. Replies as those of `send`, but the script's is never an error.

        Raises:
            LineError: the script or the connection failed.
        """
        wanted = script(name)
        command = (len(keys), *keys, *arguments)
        reply, *others = self.send([("EVALSHA", wanted.sha, *command), *more])
        if isinstance(reply, Exception) and str(reply).startswith(("NOSCRIPT", "No matching script")):
            reply, *others = self.send([("EVAL", wanted.text, *command), *more])
        if isinstance(reply, Exception):
            raise self._error(reply)
        return [reply, *others]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._drop(connection)

    def _drop(self, connection: Any) -> None:
        with suppress(Exception):
            connection.disconnect()

    def _error(self, error: Exception) -> Exception:
        failure = failure_of(error, self.address)
        return error if failure is None else LineError(failure)


def _packed(command: Command) -> bytes:
    """A command as it is sent. redis-py packs any type of argument, which takes longer than all the rest of a step."""
    parts = [one if isinstance(one, bytes) else str(one).encode() for one in command]
    return b"*%d\r\n%b" % (len(parts), b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]))


def is_too_old(told: dict[str, str]) -> bool:
    """Whether the server is older than what is tested."""
    numbers = told.get("redis_version", "").split(".")[:2]
    return not all(number.isdigit() for number in numbers) or tuple(map(int, numbers)) < OLDEST


def settings_of(replies: Sequence[Any]) -> dict[str, str] | None:
    """The settings in the replies to `ASK_SETTINGS`; None: the server does not tell them."""
    found: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, Exception) or not isinstance(reply, list):
            return None
        texts = [bytes(value).decode("utf-8", "replace") for value in reply]
        found |= zip(texts[::2], texts[1::2], strict=True)
    return found


def not_durable(settings: dict[str, str]) -> str:
    """Which settings can lose money, or an empty text."""
    wrong = [
        f"{name} is {settings.get(name, 'missing')}, not {value}"
        for name, value in SETTINGS.items()
        if settings.get(name) != value
    ]
    return "; ".join(wrong)
