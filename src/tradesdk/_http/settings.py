"""Settings of a client: an argument counts more than the environment, and that more than the default."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from .._values.text import printable
from .._version import __version__
from ..errors import ConfigError
from .retry import RetryPolicy

if TYPE_CHECKING:
    from pathlib import Path

USER_AGENT = f"tradesdk/{__version__} python/{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}".encode()

_A_DAY = 86400.0  # as long as for ever; sockets take no timeout of more than 24 days
_LONGEST_KEY = 512
_USER = re.compile(r"^((?:\w+:)?//)?.*@", re.DOTALL)
_QUERY = re.compile(r"([?#]).+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Seconds that each part of one attempt may take; None waits for ever.

    Attributes:
        connect: until the connection stands.
        read: between two pieces of the answer.
        write: between two pieces of the request.
        pool: until a connection is free.
    """

    connect: float | None = 5.0
    read: float | None = 30.0
    write: float | None = 30.0
    pool: float | None = 10.0

    def __post_init__(self) -> None:
        for name in ("connect", "read", "write", "pool"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value < math.inf):
                raise ConfigError(f"timeout: {name} must be more than 0 seconds")

    @classmethod
    def of(cls, value: float | Timeout | None) -> Timeout:
        """A timeout from what callers hand over: nothing, seconds for every part, or the thing itself."""
        if value is None:
            return cls()
        return value if isinstance(value, Timeout) else cls(connect=value, read=value, write=value, pool=value)

    def within(self, seconds: float) -> dict[str, float | None]:
        """As httpx takes it, no part longer than `seconds`."""
        seconds = min(max(seconds, 0.001), _A_DAY)
        return {
            part: seconds if value is None else min(value, seconds)
            for part, value in (
                ("connect", self.connect),
                ("read", self.read),
                ("write", self.write),
                ("pool", self.pool),
            )
        }


class ApiKey:
    """An API key, or a function that gives it, asked anew for every attempt. It is never printed nor pickled."""

    __slots__ = ("__last", "__source")

    def __init__(self, source: str | Callable[[], str]) -> None:
        self.__source = source
        self.__last = "" if callable(source) else source
        if not callable(source):
            check_api_key(source)

    @property
    def fixed(self) -> bool:
        """Whether the key never changes."""
        return not callable(self.__source)

    def header(self) -> bytes:
        """The value of the Authorization header."""
        self.__last = check_api_key(_asked(self.__source) if callable(self.__source) else self.__source)
        return b"Bearer " + self.__last.encode("ascii")

    def hidden_in(self, text: str) -> str:
        """`text` without the key, for services that repeat it in what they say."""
        return text if len(self.__last) < 8 else text.replace(self.__last, "****")  # shorter: part of any word

    def __repr__(self) -> str:
        return "ApiKey('****')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled")


def _bad_key(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_api_key")


def _asked(source: Callable[[], str]) -> str:
    try:
        return source()
    except ConfigError:
        raise
    except Exception as error:  # its text stays with it: it may show the key
        raise _bad_key(f"the function given as api_key= raised {type(error).__name__}; nothing was sent") from error


def check_api_key(key: object) -> str:
    """The key if it can be a header; the error never shows it."""
    if not isinstance(key, str):
        raise _bad_key(f"the API key must be a string, not {type(key).__name__}")
    if not key:
        raise _bad_key("the API key is empty: set TRADE_API_KEY or pass api_key=")
    if len(key) > _LONGEST_KEY:
        raise _bad_key(
            f"the API key has {len(key)} characters; at most {_LONGEST_KEY} are allowed. Copy only the key",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise _bad_key(
            "the API key contains a space, a line break or a character that is not ASCII: "
            "copy it again, without anything around it",
        )
    return key


def api_key(given: str | Callable[[], str] | None, environ: Mapping[str, str] | None = None) -> ApiKey:
    """The key from the argument or TRADE_API_KEY."""
    source = given if given is not None else (os.environ if environ is None else environ).get("TRADE_API_KEY")
    if source is None:
        raise _bad_key("no API key: set TRADE_API_KEY or pass api_key=")
    return ApiKey(source)


def _bad_url(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_base_url")


KEY_IN_THE_OPEN = "the API key would travel in the open. Use https, or allow_insecure=True if that is what you want"
NOT_PAID_THERE = "nothing is paid over plain http. Use https; http is for this machine"


def base_url(
    given: str | None,
    *,
    allow_insecure: bool,
    environ: Mapping[str, str] | None = None,
    of_client: str = "",
    why_https: str = KEY_IN_THE_OPEN,
) -> str:
    """The base URL from the argument, TRADE_BASE_URL or the HTTP client, without `/v1` and without a slash at the end.

    That of the HTTP client comes last: it may be shared with another service, and that one mustn't get the key.
    """
    url = given
    if url is None:
        url = (os.environ if environ is None else environ).get("TRADE_BASE_URL", "").strip() or of_client
    if not isinstance(url, str):
        raise _bad_url(f"the base URL must be a string, not {type(url).__name__}")
    if not url.strip():
        raise _bad_url("no base URL: set TRADE_BASE_URL or pass base_url=, for example https://api.example.com")
    return check_base_url(url.strip(), allow_insecure=allow_insecure, why_https=why_https)


def check_base_url(url: str, *, allow_insecure: bool, why_https: str = KEY_IN_THE_OPEN) -> str:
    # A password or a key may stand in a URL that was given by mistake; errors must not show it.
    shown = printable(_QUERY.sub(r"\1…", _USER.sub(r"\1…@", url)), 120)
    if not url.isprintable() or " " in url or "\\" in url:
        raise _bad_url(f"the base URL contains a space, a backslash or a control character: {shown}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _bad_url(f"the base URL cannot be read: {shown}") from None
    if parts.username is not None or parts.password is not None:
        raise _bad_url("the base URL must not contain a user name or password")
    if parts.scheme not in ("https", "http") or not host:
        raise _bad_url(f"the base URL must look like https://api.example.com, not {shown}")
    if port == 0:
        raise _bad_url(f"the base URL has port 0: {shown}")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise _bad_url(f"the base URL must not contain ? or #: {shown}")
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        raise _bad_url(f"the base URL {shown} is not https: {why_https}")
    if any(segment in (".", "..") for segment in unquote(parts.path).split("/")):
        raise _bad_url(f"the base URL must not contain . or .. as a segment: {shown}")
    path = parts.path.rstrip("/")
    last = path.rpartition("/")[2]
    if last == "v1":
        path = path[: -len("/v1")].rstrip("/")
    elif len(last) > 1 and last[0] == "v" and last[1:].isdigit():
        raise _bad_url(f"the base URL ends in /{last}, but this version speaks v1 only")
    return f"{parts.scheme}://{parts.netloc}{path}"


def market_base_url(given: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The base URL for market data from the argument or TRADE_MARKET_BASE_URL; None: that of the account API."""
    if given is not None:
        return given
    return (os.environ if environ is None else environ).get("TRADE_MARKET_BASE_URL", "").strip() or None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def deadline(seconds: float) -> float:
    """The total time of one call with its retries, checked."""
    if not _is_number(seconds) or not seconds > 0:
        raise ConfigError("deadline must be more than 0 seconds")
    return float(seconds) if seconds <= sys.float_info.max else math.inf


def instance(name: str, value: object, kind: type, said: str) -> None:
    """Refuse a setting of the wrong type when it is given, not when it is first used."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{name} must be {said}, not {type(value).__name__}")


def policy(given: RetryPolicy, max_retries: int | None) -> RetryPolicy:
    """The policy with another number of retries, if one is given."""
    if max_retries is None:
        return given
    return replace(given, max_retries=max_retries)


def data_folder(of: str) -> Path:
    """`TRADE_HOME`, or else the platform's folder for data of `trade`. It need not be there.

    Raises:
        ConfigError: there is no home folder for `of`.
    """
    from pathlib import Path

    home = os.environ.get("TRADE_HOME")
    try:
        if home:
            return Path(home).expanduser()
        from platformdirs import user_data_path

        return user_data_path("trade", appauthor=False)
    except RuntimeError:
        raise ConfigError(f"there is no home folder for {of}: set TRADE_HOME to a folder") from None
