"""The address of a fleet's Redis or Valkey server, checked. Its password is never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from .._values.text import printable
from ..errors import ConfigError

VARIABLE = "TRADE_FLEET"
_DEFAULT_PORT = 6379
_LONGEST = 2000
_HINT = (
    "use redis://[user:password@]host[:port][/database], or rediss:// for TLS; special characters of a password are "
    "written as %XX, such as %2F for /"
)


class _Password:
    """A password that no `repr` shows."""

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def text(self) -> str:
        return self.__text

    def __repr__(self) -> str:
        return "'****'"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the server is, and how to log in. `str` and `repr` leave out user and password.

    Attributes:
        host: the host.
        port: the port.
        database: the number of the database.
        tls: whether the connection is encrypted.
    """

    host: str
    port: int
    database: int
    tls: bool
    _user: str | None
    _password: _Password | None

    @classmethod
    def of(cls, url: str | None) -> ServerAddress:
        """The address in a URL: `redis://[[user]:password@]host[:port][/database]`, or `rediss://` for TLS.

        Args:
            url: the URL; by default TRADE_FLEET.

        Raises:
            ConfigError: it is missing or cannot be used. The message never shows a password.
        """
        source = "the URL of the fleet's server"
        if url is None:
            url, source = os.environ.get(VARIABLE, ""), VARIABLE
        found: ServerAddress | str = "is missing"
        if not isinstance(url, str):
            found = "is not a string"
        elif url.strip():
            try:
                found = _read(url.strip())
            except ValueError:  # raised below, outside of this handler: its frames have the password
                found = "cannot be read"
        if isinstance(found, str):
            problem = f"{source} {found}"
            del url
            raise ConfigError(problem, hint=_HINT)
        return found

    def options(self) -> dict[str, Any]:
        """The arguments of a redis-py client for this address."""
        return {
            "host": self.host,
            "port": self.port,
            "db": self.database,
            "username": self._user,
            "password": None if self._password is None else self._password.text(),
            "ssl": self.tls,
        }

    def hidden_in(self, text: str) -> str:
        """`text` without the password, which a server may repeat."""
        password = None if self._password is None else self._password.text()
        return text.replace(password, "****") if password else text

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"

    def __repr__(self) -> str:
        return f"ServerAddress({str(self)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the address of a server cannot be pickled: it may have a password")


def _read(url: str) -> ServerAddress | str:
    if len(url) > _LONGEST or not url.isprintable():
        return f"has more than {_LONGEST} characters, or some that cannot be printed"
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss"):
        return f"has the scheme {printable(parts.scheme, 20) or 'none'}, which is not redis or rediss"
    if not parts.hostname:
        return "has no host"
    if parts.port == 0:
        return "has the port 0"
    if parts.query or parts.fragment:
        return "has a query or a fragment; neither has a meaning here"
    number = parts.path.strip("/") or "0"
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        return "names a database that is not a number"
    return ServerAddress(
        parts.hostname,
        parts.port or _DEFAULT_PORT,
        int(number),
        parts.scheme == "rediss",
        unquote(parts.username) if parts.username else None,
        _Password(unquote(parts.password)) if parts.password else None,
    )
