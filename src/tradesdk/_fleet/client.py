"""redis-py, loaded when it is first needed, and how it is set up."""

from __future__ import annotations

from asyncio import get_running_loop
from importlib import import_module
from typing import Any

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


def require_asyncio() -> None:
    """Raise a ConfigError where another event loop runs, such as trio's: redis-py knows asyncio only."""
    try:
        get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "the async part of redis-py runs on asyncio only; under trio use the blocking class"
        ) from None


def client_options(address: ServerAddress, timeout: float) -> dict[str, Any]:
    """The arguments of a client. It never repeats a command: by default redis-py does, and then a script runs twice."""
    backoff, retry = load_redis("redis.backoff"), load_redis("redis.retry")
    return {
        **address.options(),
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry.Retry(backoff.NoBackoff(), 0),
        "retry_on_error": [],
        "client_name": "tradesdk",
        "protocol": 2,
    }
