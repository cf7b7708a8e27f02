"""Settings of a client. Arguments win over environment variables, and those over defaults."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import SplitResult, quote, unquote, unquote_to_bytes, urlsplit

from .._system.interrupts import failures
from .._values.frames import hides_locals
from .._values.http import Headers, RawResponse
from .._values.text import bare_key, is_number, is_url, printable, real
from .._version import __version__
from ..errors import ConfigError
from .arguments import wrong_setting
from .parts import loading
from .retry import RetryPolicy

if TYPE_CHECKING:
    from pathlib import Path

USER_AGENT = f"tradesdk/{__version__} python/{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}".encode()

_PORTS = {"http": 80, "https": 443}
_A_DAY = 86400.0  # in place of "no limit": sockets take no timeout of more than 24 days
_LONGEST_KEY = 512
_WALLET_KEY = re.compile(r"0x[0-9a-fA-F]{64}")
_IN_PATH = "/%:@!$&'()*+,;=~"
_BRACKETS = re.compile(r"[^\[\]]*|\[[^\[\]]*\](:\d*)?")  # around a whole address, or none: urlsplit takes any
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_USER = re.compile(r"^((?:\w+:)?//)?.*@", re.DOTALL)
_QUERY = re.compile(r"([?#]).+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Seconds that each part of one attempt may take; None means no limit.

    Attributes:
        connect: to open the connection.
        read: to wait for the next piece of the answer.
        write: to send the next piece of the request.
        pool: to wait for a free connection.
    """

    connect: float | None = 5.0
    read: float | None = 30.0
    write: float | None = 30.0
    pool: float | None = 10.0

    def __post_init__(self) -> None:
        for name in ("connect", "read", "write", "pool"):
            value = getattr(self, name)
            if value is not None and not 0 < real(value) < math.inf:
                raise wrong_setting(f"timeout: {name}", "more than 0 seconds", value)
            object.__setattr__(self, name, None if value is None else real(value))

    @classmethod
    def of(cls, value: float | Timeout | None) -> Timeout:
        """A timeout from an argument: None for the defaults, seconds for every part, or a `Timeout`."""
        if value is None:
            return cls()
        if isinstance(value, Timeout):
            return value
        if not is_number(value):
            raise wrong_setting("timeout", "a number of seconds or a Timeout", value)
        return cls(connect=value, read=value, write=value, pool=value)

    def within(self, seconds: float) -> dict[str, float | None]:
        """The seconds of each part, at most `seconds`."""
        most = min(max(seconds, 0.001), _A_DAY)
        parts = {"connect": self.connect, "read": self.read, "write": self.write, "pool": self.pool}
        return {name: most if value is None or value > most else value for name, value in parts.items()}


class SecretPath(str):
    """Path and query of a node's URL. They may contain a key, so `repr` hides them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"

    @property
    def parts(self) -> tuple[str, ...]:
        """What may be a key, as it is sent and as it was before quoting: a node may repeat it."""
        parts = re.split(r"[/?&=]", self)
        return (*parts, *map(unquote, parts))


@dataclass(frozen=True, slots=True)
class Origin:
    """The parts of a base URL, as bytes for HTTP: IPv6 without brackets."""

    scheme: bytes
    host: bytes
    port: int
    path: bytes = field(repr=False)

    @classmethod
    def of(cls, base_url: str) -> Origin:
        """From a URL that `base_url()` has returned."""
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        return cls(parts.scheme.encode(), host.encode(), port, parts.path.encode())

    @property
    def authority(self) -> bytes:
        host = b"[%s]" % self.host if b":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme.decode()] else b"%s:%d" % (host, self.port)


class ApiKey:
    """An API key, or a function that returns it and is called before every attempt. Never printed or pickled."""

    __slots__ = ("__last", "__source")

    def __init__(self, source: str | Callable[[], str]) -> None:
        self.__source = source if callable(source) else check_api_key(source)
        self.__last = "" if callable(self.__source) else self.__source

    @property
    def fixed(self) -> bool:
        return not callable(self.__source)

    def header(self) -> bytes:
        if callable(self.__source):
            self.__last = check_api_key(_called(self.__source))
        return b"Bearer " + self.__last.encode("ascii")

    def rate_limit_name(self, api: str) -> str:
        """The name of the key's rate limit at an API. Nobody can tell the key from it."""
        return hashlib.sha256(f"{api} rate limit ".encode() + self.header()).hexdigest()[:16]

    def hidden_in(self, text: str) -> str:
        """`text` with the key replaced by `****`: a service may repeat it, as it is, in JSON or in a URL."""
        if len(self.__last) >= 8:  # shorter keys may be part of a word
            for form in {
                self.__last,
                json.dumps(self.__last)[1:-1],
                self.__last.replace("/", "\\/"),
                quote(self.__last, ""),
            }:
                text = text.replace(form, "****")
        return text

    def without(self, response: RawResponse) -> RawResponse:
        """The answer without the key."""
        headers = {name: self.hidden_in(value) for name, value in response.headers.items()}
        content = self.hidden_in(response.content.decode("latin-1")).encode("latin-1")
        return RawResponse(response.status, Headers(headers.items()).hidden(self.hidden_in), content)

    def __repr__(self) -> str:
        return "ApiKey('****')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled")


def _bad_key(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_api_key")


def _called(source: Callable[[], str]) -> str:
    try:
        return source()
    except ConfigError:
        raise
    except failures(Exception) as error:  # its text is not repeated: it may contain the key
        raise _bad_key(f"the function given as api_key= raised {type(error).__name__}; nothing was sent") from error


@hides_locals
def check_api_key(key: object) -> str:
    """The bare key, if a header can carry it; the error never shows it."""
    if not isinstance(key, str):
        raise _bad_key(f"the API key must be a string, not {type(key).__name__}")
    key = bare_key(key)
    if not key:
        raise _bad_key("the API key is empty: set TRADE_API_KEY or pass api_key=")
    if len(key) > _LONGEST_KEY:
        raise _bad_key(
            f"the API key has {len(key)} characters; at most {_LONGEST_KEY} are allowed. Copy the key only",
        )
    if _WALLET_KEY.fullmatch(key):
        raise _bad_key("the API key has the form of a wallet's private key (0x and 64 digits), which is never sent")
    if key[0] in "'\"" or key[-1] in "'\"":
        raise _bad_key("the API key begins or ends with a quote: copy the key only")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise _bad_key(
            "the API key contains a space, a line break or a character that is not ASCII: copy the key only",
        )
    return key


def api_key(given: str | Callable[[], str] | None) -> ApiKey:
    source = given if given is not None else os.environ.get("TRADE_API_KEY")
    if source is None:
        raise _bad_key("no API key: set TRADE_API_KEY or pass api_key=")
    return ApiKey(source)


def _bad_url(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_base_url")


KEY_IN_THE_OPEN = "the API key would be sent unencrypted. Use https, or allow_insecure=True to send it anyway"
NOT_PAID_THERE = "payments are never sent over plain http to another machine. Use https"


def base_url(
    given: str | None,
    *,
    allow_insecure: bool,
    of_client: str = "",
    why_https: str = KEY_IN_THE_OPEN,
) -> str:
    """The base URL from the argument, TRADE_BASE_URL or the HTTP client, as `check_base_url` returns it.

    The HTTP client's comes last: it may be the URL of another service, which must not get the key.
    """
    url = given
    if url is None:
        url = os.environ.get("TRADE_BASE_URL", "").strip() or of_client
    if not isinstance(url, str):
        raise _bad_url(f"the base URL must be a string, not {type(url).__name__}")
    if not url.strip():
        raise _bad_url("no base URL: set TRADE_BASE_URL or pass base_url=, for example https://api.example.com")
    return check_base_url(url.strip(), allow_insecure=allow_insecure, why_https=why_https)


def check_base_url(url: str, *, allow_insecure: bool, why_https: str = KEY_IN_THE_OPEN, name: str = "base URL") -> str:
    """The only spelling of a service's URL: without `/v1`, a slash at the end and a default port."""
    # A URL given by mistake may contain a password or a key, which errors must not show.
    display = printable(_QUERY.sub(r"\1…", _USER.sub(r"\1…@", url)), 120)
    if not url.isprintable() or " " in url or "\\" in url:
        raise _bad_url(f"the {name} contains a space, a backslash or a control character: {display}")
    try:
        parts = urlsplit(url)
        has_host, port = bool(parts.hostname), parts.port
        if not _BRACKETS.fullmatch(parts.netloc.rpartition("@")[2]):
            raise ValueError
    except ValueError:
        raise _bad_url(f"the {name} cannot be read: {display}") from None
    if parts.username is not None or parts.password is not None:
        raise _bad_url(f"the {name} must not contain a user name or password")
    if parts.scheme not in ("https", "http") or not has_host:
        raise _bad_url(f"the {name} must look like https://api.example.com, not {display}")
    if port == 0:
        raise _bad_url(f"the {name} has port 0: {display}")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise _bad_url(f"the {name} must not contain ? or #: {display}")
    try:
        host = canonical_host(parts)
    except ValueError:
        raise _bad_url(f"the {name} has an invalid host: {display}") from None
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        raise _bad_url(f"the {name} {display} is not https: {why_https}")
    if any(segment in (".", "..") for segment in unquote(parts.path).split("/")):
        raise _bad_url(f"the {name} must not contain . or .. as a segment: {display}")
    path = _ESCAPED.sub(lambda one: quote(unquote_to_bytes(one[0]), safe=""), parts.path).rstrip("/")
    last = path.rpartition("/")[2]
    if last == "v1":
        path = path[: -len("/v1")].rstrip("/")
    elif len(last) > 1 and last[0] == "v" and last[1:].isdigit():
        raise _bad_url(f"the {name} ends in /{last}, but this client supports /v1 only")
    host = f"[{host}]" if ":" in host else host
    at = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{at}{quote(path, safe=_IN_PATH)}"


@loading()
def canonical_host(parts: SplitResult) -> str:
    """The only spelling of a URL's host: lower case, ASCII (IDNA), no dot at the end, IPv6 in its short form.

    Raises:
        ValueError: it is none.
    """
    host = parts.hostname or ""
    if not host.isascii():
        import idna

        host = idna.encode(host).decode()
    host = host.rstrip(".")
    if "[" in parts.netloc or host.replace(".", "").isdigit():
        host = str(ipaddress.ip_address(host))
    if not host:
        raise ValueError
    return host


def rpc_url(given: object) -> tuple[str, SecretPath]:
    """Scheme and host of a node's URL, and its path with its query, which may contain a key."""
    if not isinstance(given, str) or not given.strip():
        raise ConfigError("an RPC URL must be the URL of a node, such as https://mainnet.base.org")
    url = given.strip()
    if not url.isprintable() or " " in url or "\\" in url or "#" in url:
        raise ConfigError("the RPC URL contains a space, a backslash, a # or a control character")
    try:
        parts = urlsplit(url)
        host = check_base_url(
            f"{parts.scheme}://{parts.netloc}",
            allow_insecure=False,
            why_https="keys and answers could be read and changed on the way",
            name="RPC URL",
        )
    except ValueError:
        raise ConfigError("the RPC URL cannot be read") from None
    except ConfigError as error:  # with another hint
        raise ConfigError(error.message) from None
    path = quote(parts.path or "/", safe=_IN_PATH)
    return host, SecretPath(f"{path}?{quote(parts.query, safe=_IN_PATH + '?')}" if parts.query else path)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def deadline(seconds: float) -> float:
    if not real(seconds) > 0:
        raise wrong_setting("deadline", "more than 0 seconds", seconds)
    return real(seconds)


def continue_for(seconds: float) -> float:
    if not 0 <= real(seconds) < math.inf:
        raise wrong_setting("continue_for", "0 or more seconds", seconds)
    return real(seconds)


def instance(name: str, value: object, kind: type, expected: str) -> None:
    """Refuse a setting of the wrong type at once, not when it is first used."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{name} must be {expected}, not {type(value).__name__}")


def http_client(given: object, kind: str) -> None:
    """Refuse anything but this kind of httpx or httpx2 client. Neither library is imported for the check."""
    bases = () if given is None else type(given).__mro__
    if bases and not any(
        base.__name__ == kind and base.__module__.partition(".")[0] in ("httpx", "httpx2") for base in bases
    ):
        raise ConfigError(f"http_client must be an httpx.{kind} or httpx2.{kind}, not {type(given).__name__}")


def rate_limiter(given: object, kind: type) -> None:
    """Refuse anything but a rate limiter of this flavor: `kind` is its protocol."""
    if given is None:
        return
    from inspect import iscoroutinefunction

    name = kind.__name__
    if isinstance(given, type) or not isinstance(given, kind):
        raise ConfigError(f"rate_limiter must be an object with the methods of {name}")
    if iscoroutinefunction(getattr(given, "claim", None)) != iscoroutinefunction(getattr(kind, "claim", None)):
        raise ConfigError(f"rate_limiter is of the other flavor: this client takes a {name}")


def policy(given: RetryPolicy, max_retries: int | None) -> RetryPolicy:
    return given if max_retries is None else replace(given, max_retries=max_retries)


@loading()
def data_folder(of: str) -> Path:
    """`TRADE_HOME`, else the platform's data folder for `trade`. It may not exist yet."""
    from pathlib import Path

    home = os.environ.get("TRADE_HOME")
    if home and is_url(home):
        raise ConfigError(
            "TRADE_HOME must be a folder, not a URL",
            hint="set it to a folder; TRADE_FLEET names a ledger in a database",
        )
    try:
        if home:
            return Path(home).expanduser()
        from platformdirs import user_data_path

        return user_data_path("trade", appauthor=False)
    except RuntimeError:
        raise ConfigError(f"no home folder found for {of}: set TRADE_HOME to a folder") from None
