"""The proxy for a URL: which variable names it, and whether NO_PROXY excludes the host. As curl and Go decide it."""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from ..errors import ConfigError
from .settings import Origin, is_loopback

_PLACE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s\[\]:]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy to use.

    Attributes:
        name: the variable that names it.
        url: without user and password.
        auth: user and password, if there are any.
    """

    name: str
    url: str
    auth: tuple[str, str] | None = field(repr=False)


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for requests to `origin`. This machine needs none."""
    host, scheme = origin.host.decode(), origin.scheme.decode()
    if is_loopback(host):
        return None
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"):
        value = environ.get(name, "").strip()
        if not value or (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):  # a header of a CGI request may set it
            continue
        return None if excluded(host, origin.port, no_proxy) else _parsed(name, value)
    if sys.platform in ("win32", "darwin") and not no_proxy:
        from urllib.request import getproxies, proxy_bypass  # they keep proxies in the system's settings, too

        if (value := getproxies().get(scheme)) and not proxy_bypass(host):
            return _parsed("the system's proxy setting", value)
    return None


def excluded(host: str, port: int, no_proxy: str) -> bool:
    """Whether a word of NO_PROXY means this host. Words that mean nothing are passed over, as everywhere."""
    host = host.lower().rstrip(".")
    address = _address(host)
    for word in re.split(r"[\s,]+", no_proxy.lower()):
        if word == "*":
            return True
        if "/" in word:
            if address is not None and _in_network(address, word):
                return True
            continue
        name, at = _split_port(word)
        if at and at != str(port):
            continue
        if address is not None:
            if _address(name) == address:
                return True
        elif name.startswith("*."):
            if host.endswith(_ascii(name[1:])):
                return True
        elif (name := _ascii(name.strip("."))) and (host == name or host.endswith(f".{name}")):
            return True
    return False


def _split_port(word: str) -> tuple[str, str]:
    bracket = re.fullmatch(r"\[(.*)\](?::(.*))?", word)
    if bracket is not None:
        return bracket[1], bracket[2] or ""
    if word.count(":") > 1:  # an IPv6 address
        return word, ""
    name, _, port = word.partition(":")
    return name, port


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, word: str) -> bool:
    try:
        return address in ipaddress.ip_network(word.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return False


def _ascii(name: str) -> str:
    if name.isascii():
        return name
    import idna

    dot = name[: len(name) - len(name.lstrip("."))]
    try:
        return dot + idna.encode(name.lstrip("."), uts46=True).decode()
    except ValueError:
        return name


def _parsed(name: str, value: str) -> Proxy:
    """By hand: a password may contain `#`, `/` or `@`, which ends the host for other parsers of URLs."""
    scheme, given, rest = value.partition("://")
    if not given:
        scheme, rest = "http", value.removeprefix("//")
    userinfo, has_user, place = rest.rpartition("@")
    scheme, place = scheme.lower(), re.split(r"[/?#]", place, maxsplit=1)[0]
    if scheme not in ("http", "https", "socks5", "socks5h"):
        raise unusable(name, "only http, https and socks5 proxies work")
    found = _PLACE.fullmatch(place)
    if found is None or not 0 < int(found[2] or 1) < 65536:
        raise unusable(name, "it is not a URL such as http://proxy.example:3128")
    user, _, password = userinfo.partition(":")
    return Proxy(name, f"{scheme}://{place}", (unquote(user), unquote(password)) if has_user else None)


def unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{name} cannot be used: {reason}",
        hint="correct it, unset it, or except the service's host with NO_PROXY",
    )
