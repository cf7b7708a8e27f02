"""Which service a URL belongs to, and how it is shown."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from .._values.text import printable
from ..errors import ConfigError


def origin_of(address: str) -> tuple[str, int | None] | str:
    """Host and port in a normalized form; an invalid URL is returned unchanged."""
    from .._http.settings import check_base_url  # shell completion does not need it

    with suppress(ConfigError):  # an invalid URL is reported where it is used
        address = check_base_url(address.strip(), allow_insecure=True)
    try:
        parts = urlsplit(address.strip())
        return parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return address


def host_of(address: str) -> str:
    """The host with its port, to show to people: without a user or password in the URL."""
    try:
        parts = urlsplit(address.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    shown = f"[{host}]" if ":" in host else host
    return printable(f"{shown}:{port}" if port else shown, 120) or "an address that cannot be read"
