"""The proxy for a URL: which variable names it, and whether NO_PROXY excludes the host. The rules of curl and Go."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from ..errors import ConfigError
from .settings import Origin

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s\[\]:]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, and the variable that names it. The URL has no user or password."""

    name: str
    url: str
    auth: tuple[str, str] | None = field(repr=False)


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for requests to `origin`, which must be another machine."""
    host, scheme = origin.host.decode(), origin.scheme.decode()
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"):
        value = environ.get(name, "").strip()
        if not value or (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):  # a CGI request could set it
            continue
        return None if excluded(host, origin.port, no_proxy) else _parsed(name, value)
    return None


def excluded(host: str, port: int, no_proxy: str) -> bool:
    """Whether a word of NO_PROXY means this host. Invalid words are skipped, as in other programs."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for word in re.split(r"[\s,]+", no_proxy.lower()):
        if word == "*":
            return True
        with_port = re.fullmatch(r"(\[.*\]|[^\[:]*):([^:]*)", word)
        name, at = with_port.groups() if with_port else (word, "")
        if at and at != str(port):
            continue
        if address is not None:
            with contextlib.suppress(ValueError):
                if address in ipaddress.ip_network(name.replace("[", "").replace("]", ""), strict=False):
                    return True
        elif name.startswith("*."):
            if host.endswith(name[1:]):
                return True
        elif (name := name.strip(".")) and f".{host}".endswith(f".{name}"):
            return True
    return False


def _parsed(name: str, value: str) -> Proxy:
    """Parse a proxy URL. A password may contain `#`, `/` or `@`, at which other parsers end the host."""
    scheme, given, rest = value.partition("://")
    if not given:
        scheme, rest = "http", value.removeprefix("//")
    userinfo, has_user, authority = rest.rpartition("@")
    scheme, authority = scheme.lower(), re.split(r"[/?#]", authority, maxsplit=1)[0]
    if scheme not in ("http", "https", "socks5", "socks5h"):
        raise unusable(name, "only http, https and socks5 proxies work")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not 0 < int(found[2] or 1) < 65536:
        raise unusable(name, "it is not a URL such as http://proxy.example:3128")
    user, _, password = userinfo.partition(":")
    return Proxy(name, f"{scheme}://{authority}", (unquote(user), unquote(password)) if has_user else None)


def unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{name} cannot be used: {reason}",
        hint="correct it, unset it, or except the service's host with NO_PROXY",
    )
