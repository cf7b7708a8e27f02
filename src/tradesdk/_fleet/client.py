"""redis-py, loaded when it is first needed, and how it is set up."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import WeakSet

from ..errors import ConfigError
from .address import ServerAddress


def load_redis(module: str) -> Any:
    """Import redis-py.

    Raises:
        ConfigError: it is not installed (`missing_package`).
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
    raise ConfigError('redis is not installed: pip install "tradesdk[redis]"', code="missing_package")


def client_options(address: ServerAddress, timeout: float, retry: Callable[[Any, int], Any]) -> dict[str, Any]:
    """The arguments of a client. It never repeats a command: by default redis-py does, and then a script runs twice.

    `retry`: redis-py's class `Retry` of the flavor.
    """
    backoff = load_redis("redis.backoff")
    # Older releases of redis-py take a certificate for any host.
    checked: dict[str, Any] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True} if address.tls else {}
    return {
        **checked,
        **address.options(),
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry(backoff.NoBackoff(), 0),
        "retry_on_error": [],
        "client_name": "tradesdk",
        "protocol": 2,
    }


class OpenSockets:
    """The sockets of blocking connections: another thread can end what waits on them."""

    def __init__(self) -> None:
        self._connections: WeakSet[Any] = WeakSet()

    def add(self, connection: Any) -> None:
        """Take a connection of redis-py."""
        self._connections.add(connection)

    def close(self) -> None:
        """End all reads. Its own `disconnect` would close buffers that another thread reads from."""
        for connection in list(self._connections):
            sock = getattr(connection, "_sock", None)  # async ones have none: they are canceled
            if sock is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
