"""Settings of a client. Arguments override environment variables, which override defaults."""

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
from typing import NoReturn
from urllib.parse import SplitResult, quote, unquote, unquote_to_bytes, urlsplit

from .._system.interrupts import failures
from .._values.frames import Secret, hides_locals
from .._values.http import Headers, RawResponse, is_loopback
from .._values.text import bare_key, is_number, printable, real
from .._version import __version__
from ..errors import ConfigError, ErrorCode
from .arguments import wrong_setting
from .parts import loading
from .retry import RetryPolicy

USER_AGENT = f"tradesdk/{__version__} python/{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}".encode()

_PORTS = {"http": 80, "https": 443}
_A_DAY = 86400.0  # for "no limit": sockets refuse timeouts of more than 24 days
_LONGEST_KEY = 512
_WALLET_KEY = re.compile(r"0x[0-9a-fA-F]{64}")
_IN_PATH = "/%:@!$&'()*+,;=~"
_BRACKETS = re.compile(r"[^\[\]]*|\[[^\[\]]*\](:\d*)?")  # around the whole host or not at all: urlsplit accepts any
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_USER = re.compile(r"^((?:\w+:)?//)?.*@", re.DOTALL)
_QUERY = re.compile(r"([?#]).+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Seconds that each part of one attempt may take; None means no limit.

    Attributes:
        connect: to open the connection.
        read: to wait for the next piece of the response.
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
        if not (is_number(value) and 0 < real(value) < math.inf):
            raise wrong_setting("timeout", "more than 0 seconds, or a Timeout", value)
        return cls(connect=value, read=value, write=value, pool=value)

    def parts(self) -> dict[str, float]:
        """The seconds of each part, at most a day."""
        parts = {"connect": self.connect, "read": self.read, "write": self.write, "pool": self.pool}
        return {name: _A_DAY if value is None else min(value, _A_DAY) for name, value in parts.items()}


class SecretPath(Secret):
    """Path and query of a node's URL. They may contain a key."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that may be a key, as sent and before quoting: a node may repeat them."""
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
        """The name of the key's rate limit at an API. The key cannot be derived from it."""
        return hashlib.sha256(f"{api} rate limit ".encode() + self.header()).hexdigest()[:16]

    def hidden_in(self, text: str) -> str:
        """`text` with the key replaced by `****`."""
        for form in spellings(self.__last):
            text = text.replace(form, "****")
        return text

    def without(self, response: RawResponse) -> RawResponse:
        """The response without the key."""
        headers = {name: self.hidden_in(value) for name, value in response.headers.items()}
        content = self.hidden_in(response.content.decode("latin-1")).encode("latin-1")
        return RawResponse(response.status, Headers(headers.items()).hidden(self.hidden_in), content)

    def __repr__(self) -> str:
        return "ApiKey('****')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled")


def spellings(secret: str) -> set[str]:
    """A secret as a service may repeat it: as it is, in JSON, in a URL. None of a short one: a word may hold it."""
    if len(secret) < 8:
        return set()
    return {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/"), quote(secret, safe="")}


def _bad_key(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_api_key")


def _called(source: Callable[[], str]) -> str:
    try:
        return source()
    except ConfigError:
        raise
    except failures(Exception) as error:  # its text is not shown: it may contain the key
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


def api_key(given: str | Callable[[], str] | None, saved: Callable[[], list[str]]) -> ApiKey:
    """The key from the argument or TRADE_API_KEY; else an error that names the saved profiles."""
    source = given if given is not None else os.environ.get("TRADE_API_KEY")
    if source is None:
        raise _missing("no API key: set TRADE_API_KEY or pass api_key=", "invalid_api_key", saved())
    return ApiKey(source)


def _missing(message: str, code: ErrorCode, profiles: list[str]) -> ConfigError:
    if not profiles:
        return ConfigError(message, code=code)
    hint = f'pass profile="{profiles[0]}", or set TRADE_PROFILE to it'
    return ConfigError(f"{message}; saved profiles: {', '.join(profiles)}", code=code, hint=hint)


def _bad_url(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_base_url")


KEY_IN_THE_OPEN = "the API key would be sent unencrypted. Use https, or allow_insecure=True to send it anyway"
NOT_PAID_THERE = "payments are never sent over plain http to another machine. Use https"


def base_url(
    given: str | None,
    saved: Callable[[], list[str]] = list,
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
        message = "no base URL: set TRADE_BASE_URL or pass base_url=, for example https://api.example.com"
        raise _missing(message, "invalid_base_url", saved())
    return check_base_url(url.strip(), allow_insecure=allow_insecure, why_https=why_https)


def check_base_url(url: str, *, allow_insecure: bool, why_https: str = KEY_IN_THE_OPEN, name: str = "base URL") -> str:
    """The normalized URL of a service: without `/v1`, a slash at the end and a default port."""
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
    """The normalized host of a URL: lower case, ASCII (IDNA), no dot at the end, IPv6 in its short form.

    Raises:
        ValueError: it is not a host.
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


A_NODE = "set it to the URL of a node, such as https://mainnet.base.org"


def rpc_url(given: object) -> tuple[str, SecretPath]:
    """Scheme and host of a node's URL, and its path with its query, which may contain a key."""
    if not isinstance(given, str) or not given.strip():
        raise ConfigError("an RPC URL must be a text", hint=A_NODE)
    url = given.strip()
    if not url.isprintable() or " " in url or "\\" in url or "#" in url:
        raise ConfigError("the RPC URL contains a space, a backslash, a # or a control character", hint=A_NODE)
    try:
        parts = urlsplit(url)
        host = check_base_url(
            f"{parts.scheme}://{parts.netloc}",
            allow_insecure=False,
            why_https="keys and answers could be read and changed on the way",
            name="RPC URL",
        )
    except ValueError:
        raise ConfigError("the RPC URL cannot be read", hint=A_NODE) from None
    except ConfigError as error:  # raised again with another hint
        raise ConfigError(error.message, hint=A_NODE) from None
    path = quote(parts.path or "/", safe=_IN_PATH)
    return host, SecretPath(f"{path}?{quote(parts.query, safe=_IN_PATH + '?')}" if parts.query else path)


def deadline(seconds: float) -> float:
    if not real(seconds) > 0:
        raise wrong_setting("deadline", "more than 0 seconds", seconds)
    return real(seconds)


def continue_for(seconds: float) -> float:
    if not 0 <= real(seconds) < math.inf:
        raise wrong_setting("continue_for", "0 or more seconds", seconds)
    return real(seconds)


def instance(name: str, value: object, kind: type, expected: str) -> None:
    """Refuse a setting of the wrong type now, not at its first use."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{name} must be {expected}, not {type(value).__name__}", hint=f"pass {expected} as {name}")


def http_client(given: object, kind: str) -> None:
    """Refuse anything but this kind of httpx or httpx2 client. Neither library is imported for the check."""
    bases = () if given is None else type(given).__mro__
    if bases and not any(
        base.__name__ == kind and base.__module__.partition(".")[0] in ("httpx", "httpx2") for base in bases
    ):
        message = f"http_client must be an httpx.{kind} or httpx2.{kind}, not {type(given).__name__}"
        raise ConfigError(message, hint=f"write http_client=httpx.{kind}(), or leave it out")


def rate_limiter(given: object, kind: type) -> None:
    """Refuse anything but a rate limiter for this kind of client: `kind` is its protocol."""
    if given is None:
        return
    from inspect import iscoroutinefunction

    name = kind.__name__
    if isinstance(given, type) or not isinstance(given, kind):
        message = f"rate_limiter must be an object with the methods of {name}"
        raise ConfigError(message, hint="pass a FleetRateLimiter, or an object of your own with these methods")
    if iscoroutinefunction(getattr(given, "claim", None)) != iscoroutinefunction(getattr(kind, "claim", None)):
        raise ConfigError(f"rate_limiter is of the other flavor: this client takes a {name}", hint=f"pass a {name}")


def policy(given: RetryPolicy, max_retries: int | None) -> RetryPolicy:
    return given if max_retries is None else replace(given, max_retries=max_retries)
